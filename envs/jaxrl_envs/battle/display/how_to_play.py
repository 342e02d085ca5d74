"""The rules of the tabletop battle on one page, for people who command a side."""

COLOURS = {"[●❶-❽]": "blue", "[○①-⑧]": "red", "░": "yellow", "[▒█]": "bright_black"}

TEXT = """
Two sides of squads fight over a grid for a number of rounds. In a round each side has one half-turn with five phases,
in which it is asked squad by squad. Points (VP) win: for the objectives that one controls with more models' weight
than the enemy, scored in one's own command phase from the second round on (mission hold; the very last half-turn
scores at its end), or for squads destroyed (annihilation). A side without models has lost at once.

Command. Both sides gain a command point (CP). Squads below half their strength roll two dice against their
leadership; one that fails is shocked until the next command phase: it controls nothing, and no CP helps it.

Movement. A squad stays, moves half or its full distance in one of eight directions, or advances: a die further, but
then it neither charges nor, without assault weapons, shoots. A squad that touches an enemy can only stay or fall
back, and then neither shoots nor charges.

Shooting. At one enemy squad that is in range, in sight and touches no squad. A die for each attack must hit (the
weapon's skill), another must wound (strength against toughness: 4 if they are equal), and the target saves against
it. Cover makes a save easier.

Charge. Two dice must reach an enemy within twelve. Fight. Squads that charged strike first, then both sides take
turns.

Command points buy, mostly in the other side's half-turn: a second roll, fire at once at a squad that moves or charges
(only sixes hit), a counter-charge, smoke or cover against shots, or steady nerves.

On the board a number stands for the first model of a squad, a disc for each other; ░ is an objective, ▒ a barricade
(cover), █ a wall (blocks sight and movement). Forward is towards the enemy's edge. Beside the board > marks the
squad that is asked, ! the enemy that it is about.
"""
