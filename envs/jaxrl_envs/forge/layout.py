"""Layout of an observation of Magic: plain numbers, for Python, for jax, and for the tests of the engine.

    observation f32[FEATURES] = globals f32[GLOBALS], entities f32[ENTITIES, ENTITY], options f32[OPTIONS, OPTION],
                                kinds f32[KINDS, KIND], parts f32[PARTS, PART]

Everything is seen from one seat ("me"; the other is "them"). Quantities are scaled to about -1 .. 1 and cut at -LIMIT
and LIMIT; a column named after a list holds 1 + the place in it or 0 for none, one named BITS a sum of 2 ** place, and
one that names a row of a table 1 + its number or 0 (`jaxrl_envs.forge.observe` expands them late, as replays are
large). Every card name and text in view has one row of kinds, and what a name's card can do is told part by part.
setup.py writes these numbers, and the places of what the lists name, into `layout.pxd` for the compiled parts: build
them again after a change.
"""

from __future__ import annotations

NUM_ACTIONS = 64
VOCABULARY = 4096  # ids of names: 1 .. VOCABULARY - 1, 0 = nothing (`jaxrl_envs.forge.encoding.vocabulary`)
LIMIT = 4.0

TYPES = (  # of decisions, in the order of their columns
    *("choose_action", "choose_targets", "choose_mode", "declare_attackers", "declare_blockers", "choose_ability"),
    *("choose_cards", "choose_entity", "confirm_action", "play_trigger", "announce_value", "choose_color", "order"),
    *("scry", "mulligan"),
)
PHASES = (
    *("UNTAP", "UPKEEP", "DRAW", "MAIN1", "COMBAT_BEGIN", "COMBAT_DECLARE_ATTACKERS", "COMBAT_DECLARE_BLOCKERS"),
    *("COMBAT_FIRST_STRIKE_DAMAGE", "COMBAT_DAMAGE", "COMBAT_END", "MAIN2", "END_OF_TURN", "CLEANUP"),
)
COLORS = ("white", "blue", "black", "red", "green")
CARD_TYPES = ("creature", "land", "artifact", "enchantment", "instant", "sorcery", "planeswalker", "legendary")
KEYWORDS = (
    *("flying", "first strike", "double strike", "deathtouch", "lifelink", "trample", "vigilance", "haste", "reach"),
    *("defender", "menace", "hexproof", "indestructible", "flash", "unblockable"),
)
ZONES = ("hand", "battlefield", "stack", "graveyard", "exile", "library")  # library: any other zone too

# ---- entities: cards and spells that I see, equal ones in one row ----------------------------------------------------

ENTITY_KIND = 0  # row of kinds: its name, the question's text
ENTITY_PART = 1  # row of parts: the ability on the stack that it is
FIRST_PARTNER, PARTNERS = 2, 4  # rows of entities: what it is attached to, what it blocks, what it aims at (two)
ATTACHED_TO, BLOCKS, AIM = 2, 3, 4
ZONE, FROM = 6, 7  # of ZONES; from: where a spell was cast from
CARD_TYPE_BITS, COLOR_BITS, KEYWORD_BITS = 8, 9, 10  # colors of a land: what it can make
FIRST_PLAIN = 11  # from here on everything is a quantity or a flag
COUNT = 11  # such cards / 4
MANA_VALUE, POWER, TOUGHNESS, DAMAGE, LOYALTY = 12, 13, 14, 15, 16  # / 8; toughness is what is left of it
PLUS, COUNTERS, OTHER_KEYWORDS = 17, 18, 19  # / 4: +1/+1 less -1/-1 counters; counters of other kinds, but for loyalty
ATTACHMENTS, BLOCKED = 20, 21  # / 2
AIMS_AT_ME, AIMS_AT_THEM = 22, 23  # targets or is attached to me or mine, or attacks me or mine; / 2
PICKED = 24  # what I have chosen in this question so far, or its blockers; / 2
POSITION = 25  # known in a library: 1 / (1 + from the top), -1 / from the bottom, 0: somewhere
PRESENT = 26
TAPPED, SICK, TOKEN, MINE, OWN = 27, 28, 29, 30, 31  # mine: I control it; own: I own it
ATTACKING, BLOCKING, ATTACHED, FACE_DOWN = 32, 33, 34, 35
SUBJECT = 36  # the question is about it
OFFERED = 37  # a legal action is about it
KNOWN = 38  # hidden, but I have been shown it
CASTABLE, CASTABLE_NEXT = 39, 40  # of my hand: my free mana sources are enough; all of them with one more land are
ABILITY, TRIGGER = 41, 42  # on the stack: no spell
ENTITY = 43

SUBJECT_ROW = 0  # again the source of the question, or the attacker or blocker in question; without a card its text
ENTITIES = 64  # stack, hand, battlefield (lands last), what is offered or known elsewhere, graveyards, exile
STACK_ROWS = 8
GRAVEYARD_ROWS = 10  # of the newest of each before exile, the others after it

# ---- options: row a is action a, equal ones are one -----------------------------------------------------------------

SORTS = (
    *("stop", "land", "cast", "ability", "card", "player", "spell", "text", "number", "color", "yes"),  # stop: pass, no
)
OPTION_KIND = 0  # row of kinds: its card's name, its text
OPTION_PART = 1  # row of parts: what it would use
OPTION_ENTITY = 2  # row of the entity that it is about
SORT = 3  # of SORTS; 0: the question has no such action, legal or not
OPTION_COLOR = 4  # of COLORS
FIRST_OPTION_PLAIN = 5
OPTION_COUNT = 5  # equal options / 4
COST = 6  # mana value of what it costs, / 8
NUMBER = 7  # / 10
TAKEN = 8  # number of times chosen in this question, or of its blockers; / 2
ME, THEM = 9, 10  # the player, or the controller of the card or spell
OPTION = 11
OPTIONS = NUM_ACTIONS

# ---- kinds: the names and texts in view -----------------------------------------------------------------------------

POOL = "WUBRGC"
KIND_ID = 0  # of its name or text
PRODUCED_BITS = 1  # of POOL: mana that its abilities make
FIRST_KIND_PLAIN = 2
FIRST_PIP = 2  # of COLORS: symbols of its cost, / 2
TOLD, IS_TEXT = 7, 8  # told: its parts are known
KIND = 9
KINDS = 48

# ---- parts: abilities, each followed by its sub-abilities -----------------------------------------------------------

PART_SORTS = ("spell", "activated", "trigger", "static", "replacement")
APIS = {  # what an effect does, by Forge's name of it; anything else is the last
    "mana": "Mana ManaReflected ReplaceMana",
    "damage": "DealDamage DamageAll EachDamage DamageResolve ReplaceDamage ReplaceSplitDamage",
    "fight": "Fight",
    "destroy": "Destroy DestroyAll",
    "sacrifice": "Sacrifice SacrificeAll",
    "zone": "ChangeZone ChangeZoneAll ChangeZoneResolve ExchangeZone",
    "draw": "Draw Learn Connive",
    "discard": "Discard",
    "mill": "Mill",
    "dig": "Dig DigUntil DigMultiple TwoPiles MultiplePiles Explore",
    "scry": "Scry Surveil RearrangeTopOfLibrary LookAt",
    "reveal": "Reveal RevealHand PeekAndReveal",
    "gain": "GainLife",
    "lose": "LoseLife Poison",
    "life": "SetLife ExchangeLife ExchangeLifeVariant BidLife",
    "counter": "Counter ControlSpell ChangeTargets",
    "put": "PutCounter PutCounterAll Proliferate MultiplyCounter MoveCounter AddOrRemoveCounter ReplaceCounter Bond",
    "remove": "RemoveCounter RemoveCounterAll",
    "pump": "Pump",
    "pump_all": "PumpAll",
    "protect": "Protection ProtectionAll Regenerate RegenerateAll Regeneration PreventDamage PreventDamageAll Fog",
    "animate": "Animate AnimateAll Debuff ExchangePower ChangeText",
    "token": "Token Amass Investigate ReplaceToken MakeCard Manifest",
    "copy": "CopyPermanent CopySpellAbility Clone",
    "control": "GainControl GainControlVariant ExchangeControl ExchangeControlVariant GainOwnership ControlPlayer",
    "tap": "Tap TapAll",
    "untap": "Untap UntapAll TapOrUntap TapOrUntapAll",
    "attach": "Attach Unattach UnattachAll",
    "combat": "MustBlock Goad RemoveFromCombat BecomesBlocked Block ChangeCombatants DeclareCombatants SwitchBlock",
    "choose": "Charm GenericChoice ChooseCard ChooseColor ChooseNumber ChoosePlayer ChooseType NameCard Vote",
    "turn": "AddTurn AddPhase SkipTurn SkipPhase EndTurn EndCombatPhase ReverseTurnOrder",
    "play": "Play PlayLandVariant",
    "effect": "Effect DelayedTrigger ImmediateTrigger",
    "flow": "Branch Repeat RepeatEach StoreSVar Cleanup FlipACoin RollDice Clash UpdateRemember",
    "shuffle": "Shuffle ReorderZone",
    "win": "WinsGame LosesGame GameDrawn",
    "state": "SetState Phases Meld Mutate ClassLevelUp Venture BecomeMonarch TakeInitiative Ascend DayTime",
    "permanent": "PermanentCreature PermanentNoncreature",
    "none": "",
    "other": "",
}
MODES = {  # when a trigger or replacement acts, what a static ability does; Cant... and Must... by their first letters
    "zone": "ChangesZone ChangesZoneAll Moved Exiled",
    "attack": "Attacks AttackersDeclared AttackersDeclaredOneTarget AttackerUnblocked AttackerUnblockedOnce Exerted",
    "block": "Blocks BlockersDeclared AttackerBlocked AttackerBlockedOnce AttackerBlockedByCreature DeclareBlocker",
    "phase": "Phase TurnBegin BeginPhase BeginTurn",
    "cast": "SpellCast SpellAbilityCast SpellCastOrCopy SpellCopy AbilityCast CopySpell Countered Counter",
    "damage": "DamageDone DamageDoneOnce DamageDoneOnceByController DamageDealtOnce DamageAll DealtDamage ExcessDamage",
    "draw": "Drawn Draw DrawCards",
    "discard": "Discarded DiscardedAll Discard Cycled",
    "destroy": "Destroyed Destroy Sacrificed Devoured Exploited",
    "life": "LifeGained LifeLost GainLife LifeReduced PayLife",
    "counters": "CounterAdded CounterAddedOnce CounterAddedAll CounterPlayerAddedAll CounterRemoved AddCounter",
    "tap": "Taps Untaps TapsForMana ManaAdded Tap Untap ProduceMana",
    "target": "BecomesTarget BecomesTargetOnce",
    "create": "TokenCreated CreateToken",
    "land": "LandPlayed",
    "turn_up": "TurnFaceUp Transformed Transform Unattach Attached ChangesController",
    "always": "Always Immediate",
    "continuous": "Continuous",
    "cant": "",
    "must": "",
    "cost": "ReduceCost RaiseCost SetCost OptionalCost OptionalAttackCost AlternativeCost",
    "none": "",
    "other": "",
}
TARGETS = (
    *("creature", "player", "planeswalker", "artifact", "enchantment", "land", "permanent", "spell", "card", "any"),
)
PART_FLAGS = (  # costs, and what else is yes or no
    *("after", "tap", "sacrifice", "discard", "exile", "remove_counters", "yours", "opponents"),
    *("amount_varies", "size_varies", "other_keywords"),  # yours, opponents: whom it concerns
)
PART_KIND = 0  # row of kinds
PART_OF = 1  # row of parts: itself, or the one that it follows
PART_SORT, API, MODE = 2, 3, 4  # of PART_SORTS, APIS, MODES
ORIGIN, DESTINATION = 5, 6  # of ZONES
TARGET_BITS, GRANTED_BITS, PART_FLAG_BITS = 7, 8, 9  # of TARGETS, KEYWORDS, PART_FLAGS
FIRST_PART_PLAIN = 10
AMOUNT, PART_POWER, PART_TOUGHNESS, PART_MANA, PART_LIFE = 10, 11, 12, 13, 14  # / 4; mana, life: of an activation
MOST_TARGETS = 15  # / 2
PART = 16
PARTS = 80

# ---- globals --------------------------------------------------------------------------------------------------------

TURN, MY_TURN, MY_PRIORITY = 0, 1, 2  # turn / 20
FIRST_PHASE = 3
# 1: I am asked now, 2: and decide for the other player, whom I control; without a question all that follows up to
# FIRST_PLAYER is 0, and so are the options.
ASKED = 16
FIRST_TYPE = 17
CHOSEN, LEAST, MOST = 32, 33, 34  # cards, targets, modes: picked so far, to be picked at least, at most; / 8
CHOICES = 35  # legal actions / 16
CAN_STOP = 36  # action 0 means to stop and is legal
PROGRESS = 37  # attackers and blockers: the share that was asked before
TO_GRAVEYARD = 38  # surveil
MULLIGANS = 39  # / 4
FIRST_PLAYER = 40  # PLAYER columns for me, then for them
(LIFE, POISON, HAND, LIBRARY, GRAVEYARD, EXILE) = range(6)  # / 20, 10, 7, 60, 20, 20
LANDS, FREE_LANDS = 6, 7  # / 8; free: untapped
FREE_COLORS = 8  # untapped lands by the colours that they make, / 4
CREATURES, FREE_CREATURES = 13, 14  # / 8
TOTAL_POWER, FREE_POWER, TOTAL_TOUGHNESS, FLYING_POWER = 15, 16, 17, 18  # / 16
PLANESWALKERS, OTHERS = 19, 20  # / 2, / 4: permanents that are neither lands nor creatures nor planeswalkers
LANDS_PLAYED, ENERGY = 21, 22  # / 2, / 8
MANA = 23  # W U B R G C in the pool, / 4
PLAYER = 29
STACK_SIZE, TOP_IS_MINE, TOP_IS_THEIRS = 98, 99, 100  # / 4
ATTACKERS, ATTACK_POWER, FREE_ATTACK_POWER, I_ATTACK = 101, 102, 103, 104  # / 8, / 16, / 16 (of those not blocked)
GLOBALS = 105

ENTITIES_AT = GLOBALS
OPTIONS_AT = ENTITIES_AT + ENTITIES * ENTITY
KINDS_AT = OPTIONS_AT + OPTIONS * OPTION
PARTS_AT = KINDS_AT + KINDS * KIND
FEATURES = PARTS_AT + PARTS * PART
