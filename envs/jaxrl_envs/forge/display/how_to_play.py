"""The rules of Magic on one page, for people who play against an agent."""

TEXT = """
Two players with a deck and 20 life each. A player loses at no life, and when drawing from an empty deck. Forge knows
the rules of every card and plays what is not asked here: it pays costs, orders damage, and so on.

A turn: untap what is yours, draw a card, play a land if you like, cast spells for the mana of your lands, attack,
cast more. Creatures that attack tap; a creature that came this turn cannot attack. The defender chooses which of his
untapped creatures block; creatures that meet deal damage to each other, an unblocked one deals it to the
player.

You are asked whenever you could act: the options of each question are listed above their numbers. 0 passes: the
topmost spell resolves once both players pass, and with nothing to resolve the game goes on to the next step.
"""
