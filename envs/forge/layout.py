"""What stands where in an observation of Magic: plain numbers, for Python, for jax, and for the tests of the engine.

    observation f32[FEATURES] = globals f32[GLOBALS], entities f32[ENTITIES, ENTITY], options f32[OPTIONS, OPTION]

Everything is seen from one seat ("me"; the other is "them") and scaled to about -1 .. 1; quotients are cut at -LIMIT
and LIMIT. The first `CARD` columns of an entity and of an option describe a card in the same way. setup.py writes
these numbers, and the places of what the lists name, into `layout.pxd` for the compiled parts: build those anew after a
change.
"""

from __future__ import annotations

NUM_ACTIONS = 96
VOCABULARY = 4096  # ids of names: 1 .. VOCABULARY - 1, 0 = nothing (`jaxrl.envs.forge.vocabulary`)
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

# ---- a card: the first columns of entities and of options -----------------------------------------------------------

FIRST_CARD_TYPE = 0
MANA_VALUE = 8  # / 8
FIRST_COLOR = 9  # of a land: what its basic land types give
POWER, TOUGHNESS, DAMAGE, LOYALTY = 14, 15, 16, 17  # / 8; toughness is what is left of it
PLUS, COUNTERS = 18, 19  # / 4: +1/+1 less -1/-1 counters; counters of other kinds, but for loyalty
TAPPED, SICK, TOKEN, MINE, OWN = 20, 21, 22, 23, 24  # mine: I control it; own: I own it
ATTACKING, BLOCKING, BLOCKED = 25, 26, 27  # blocked: by so many, / 2
ATTACHMENTS, ATTACHED = 28, 29  # / 2; attached to something
FIRST_KEYWORD = 30
OTHER_KEYWORDS = 45  # / 4
CARD = 46

# ---- entities: cards and spells that I see --------------------------------------------------------------------------

PRESENT = CARD
FIRST_ZONE = 47
SUBJECT = 53  # the question is about it
OFFERED = 54  # a legal action is about it
PICKED = 55  # what I have chosen in this question so far: 1, or its blockers / 2
FACE_DOWN = 56
AIMS_AT_ME, AIMS_AT_THEM = 57, 58  # targets or is attached to me or mine, or attacks me or mine; / 2
ENTITY_ID = 59  # of its name
ENTITY = 60

SUBJECT_ROW = 0  # again the source of the question, or the attacker or blocker in question; without a card its text
HAND_ROW, HAND_ROWS = 1, 12  # mine
MY_BATTLEFIELD_ROW, THEIR_BATTLEFIELD_ROW, BATTLEFIELD_ROWS = 13, 37, 24  # lands stand last
STACK_ROW, STACK_ROWS = 61, 6  # the top first
MY_GRAVEYARD_ROW, THEIR_GRAVEYARD_ROW, GRAVEYARD_ROWS = 67, 75, 8  # the newest first
ENTITIES = 83

# ---- options: row a is action a -------------------------------------------------------------------------------------

VALID = CARD  # the row describes an action of this question, legal now or not
STOP = 47  # pass, none, no, enough
PLAYS_LAND, CASTS_SPELL, USES_ABILITY = 48, 49, 50
IS_CARD, IS_PLAYER, IS_SPELL, IS_TEXT, IS_NUMBER, IS_COLOR, IS_YES = 51, 52, 53, 54, 55, 56, 57
ME, THEM = 58, 59  # the player, or who controls the spell
COST = 60  # mana value of what it costs, / 8
NUMBER = 61  # / 10
TAKEN = 62  # chosen so many times in this question, or its blockers; / 2
FIRST_OPTION_ZONE = 63
OPTION_ENTITY = 69  # 1 + the row of the entity that it is about, 0: of none
OPTION_ID = 70  # of its card's name, of its text
OPTION = 71
OPTIONS = NUM_ACTIONS

# ---- globals --------------------------------------------------------------------------------------------------------

TURN, MY_TURN, MY_PRIORITY = 0, 1, 2  # turn / 20
FIRST_PHASE = 3
ASKED = 16  # I am asked now; without a question all that follows up to FIRST_PLAYER is 0, and so are the options
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
FREE_COLORS = 8  # untapped lands by the colours of their basic types, / 4
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
OPTIONS_AT = GLOBALS + ENTITIES * ENTITY
FEATURES = OPTIONS_AT + OPTIONS * OPTION
