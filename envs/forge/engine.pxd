"""The data of games of Magic as C structs.

A game is a function of its seed and of the actions so far, so that is what is saved: a `State`. A `Live` is what it
costs time to get: the conversation with a daemon, the question that is open there, and what both seats saw last. It is
a cache: whenever it is lost, it is made again from the state.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from envs.forge.wire cimport Tape
from envs.host.engine cimport Engine, u64

include "layout.pxi"

cdef enum:
    MOST_CARDS = 640  # of one line; what comes after them is not seen
    MOST_ITEMS = 64  # of the stack
    MOST_OPTIONS = 95  # action 0 is not one of them
    PICKS = 128  # of one question; also attackers and blockers
    ANSWER = 4096  # bytes of an answer
    PROFILES = 16  # of Forge's AI
    PROFILE_BYTES = 64
    TEXT = 2048  # bytes of a text that count
    NUM_PHASES = 13

cdef enum:  # types of decisions, in the order of layout.TYPES
    CHOOSE_ACTION = 0
    CHOOSE_TARGETS = 1
    CHOOSE_MODE = 2
    DECLARE_ATTACKERS = 3
    DECLARE_BLOCKERS = 4
    CHOOSE_ABILITY = 5
    CHOOSE_CARDS = 6
    CHOOSE_ENTITY = 7
    CONFIRM_ACTION = 8
    PLAY_TRIGGER = 9
    ANNOUNCE_VALUE = 10
    CHOOSE_COLOR = 11
    ORDER = 12
    SCRY = 13
    MULLIGAN = 14
    NUM_TYPES = 15
    NO_TYPE = -1

cdef enum:  # bits of Card.types, in the order of layout.CARD_TYPES
    CREATURE = 1
    LAND = 2
    PLANESWALKER = 64

cdef enum:  # zones, in the order of layout.ZONES
    IN_HAND = 0
    ON_BATTLEFIELD = 1
    ON_STACK = 2
    IN_GRAVEYARD = 3
    IN_EXILE = 4
    IN_LIBRARY = 5

cdef enum:  # how a game ended
    STILL_RUNNING = 0
    WON = 1
    DRAWN = 2
    OUT_OF_TIME = 3  # the daemon's limit for a game
    BROKEN = 4  # Forge raised an exception
    TOO_LONG = 5  # max_decisions

cdef enum:  # error codes of the engine
    OK = 0
    FAILED = 1  # the sentence is kept for the game
    BAD_STATE = 2
    NO_SUCH_BOT = 3
    NO_MEMORY = 4


cdef struct Card:
    int32_t id
    int32_t name  # its number in the vocabulary
    uint32_t types  # bits
    uint32_t colors
    uint32_t keywords
    int32_t other_keywords
    int32_t mana_value
    int32_t power
    int32_t toughness
    int32_t damage
    int32_t loyalty
    int32_t attachments
    int32_t attached_to
    int32_t owner
    int32_t controller
    int32_t aims[2]  # things of each seat that it targets, is attached to or attacks
    int32_t blocked
    int64_t plus
    int64_t counters
    int16_t zone
    int16_t row  # of the entities, 0: none
    uint8_t tapped
    uint8_t sick
    uint8_t token
    uint8_t face_down
    uint8_t attacking
    uint8_t blocking


cdef struct View:  # what a seat was shown with its last decision
    char* text  # the line behind "DECISION:"
    size_t size
    size_t room
    Tape tape
    int32_t seat  # who sees it, -1: nothing was shown yet
    int32_t type  # of its decision, NO_TYPE: unknown
    uint32_t state  # tokens
    uint32_t player[2]
    uint32_t stack
    uint32_t combat
    int32_t num_cards
    int32_t num_items
    int32_t unseen  # cards without a row
    uint32_t item[MOST_ITEMS]
    int32_t rows[AT_ENTITIES]  # the card of a row, -1: none
    Card cards[MOST_CARDS]


cdef struct Question:  # the micro-questions of one decision
    int32_t type
    int32_t seat
    uint8_t answered
    uint8_t ask_ai  # the answer is "ai"
    uint8_t repeat
    uint8_t optional
    int32_t num_options
    uint32_t option[MOST_OPTIONS]  # tokens of what is offered
    int32_t least
    int32_t most
    int32_t first  # the smallest number
    int32_t span  # how many numbers
    int32_t num_attackers
    int32_t num_blockers
    uint32_t attacker[PICKS]  # tokens
    uint32_t blocker[PICKS]
    int32_t attacker_index[PICKS]  # what the daemon calls them
    int32_t room[PICKS]  # blockers at most, 0: any number
    int32_t assigned[PICKS]  # blockers so far
    int32_t num_targets  # of the attacker or blocker that is asked
    int32_t target[MOST_OPTIONS]  # attackers that the blocker in question may block
    int32_t count  # picks so far
    int32_t pick[PICKS]  # options; attackers: 0 or 1 + defender; blockers: -1 or the attacker
    int32_t yes  # yes-or-no questions: the action
    int32_t cut  # options that are not offered
    int32_t num_legal
    uint8_t legal[AT_NUM_ACTIONS]


cdef struct Tally:  # what follows from a game's key and its actions
    u64 hash  # of all DECISION lines
    double potential  # of seat 0
    int32_t seen  # DECISION lines
    int32_t partial  # actions that the open question has taken
    int32_t asked  # the seat, -1: nobody
    int32_t type
    int32_t turn
    int32_t life[2]
    int32_t decisions[2]
    int32_t options_cut
    int32_t cards_cut  # most cards without a row at any time
    int32_t unknown_types
    int32_t refused  # answers that the daemon did not take
    int32_t held  # bit by seat: Forge's AI holds it to the end


cdef struct State:  # is saved, and the actions behind it
    u64 magic
    u64 mark  # of the options
    u64 seed
    u64 slot
    u64 key  # of the game
    u64 stream  # of the random player
    int64_t episode  # -1: none was started
    Tally tally
    int32_t count  # actions
    int32_t drawn
    int32_t how
    int32_t winner
    float reward  # of seat 0, by the last step
    int32_t reserved


cdef struct Settings:
    double patience  # seconds for a line
    double ai_patience  # and while Forge's AI holds a seat
    double shaping[3]  # life, board, cards
    uint8_t recording
    int32_t num_pairs
    int32_t num_profiles
    char profile[PROFILES][PROFILE_BYTES]  # "ai! Reckless\n"
    int32_t profile_size[PROFILES]


cdef struct Live:
    void* lease  # borrowed, the engine's table keeps it; NULL: there is no conversation
    u64 key
    int32_t count  # actions taken so far
    int16_t* done  # those actions
    Tally tally
    uint8_t entered  # the lease is ours to use; else it may have been taken away
    uint8_t open  # `question` is the position; else a line is awaited
    uint8_t over  # there is nothing more to come
    uint8_t told  # the daemon has sent the result
    uint8_t heard  # anything since NEWGAME
    uint8_t checking  # played again: is it the same game?
    uint8_t refused  # the last answer was not taken
    int32_t how
    int32_t winner
    int32_t last_id  # decision_id
    int64_t began  # ns
    Question question
    View* view[2]  # what each seat saw last
    View* spare


cdef struct Game:
    State b
    int16_t* actions
    Live* live
    int error


cdef class ForgeEngine(Engine):
    cdef Game* games
    cdef list _parked  # addresses of lives that other states took the place of, the oldest first
    cdef readonly Py_ssize_t max_decisions
    cdef u64 mark
    cdef Settings settings
    cdef readonly object fleet
    cdef readonly tuple pairs
    cdef readonly object replays  # {reason: how often games had to be played again}
    cdef readonly str options
    cdef readonly double game_limit
    cdef dict _leases  # address: Lease, all that games hold
    cdef list _writers  # of recordings that no conversation is written into at the moment
    cdef list _errors, _causes  # of each game
    cdef object _finalizer, _remembered, _recorder
    cdef object __weakref__
