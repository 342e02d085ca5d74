"""Whole states in, whole states out: an engine as a function without a memory, for batches of any size.

Every function plays all B states of a batch one after the other in game 0 of an engine, without the GIL.
Shape letters as in `envs.host.core`; B states, S bytes of one.
"""

from libc.string cimport memcpy, memset

from envs.host.engine cimport Engine, u64

from envs.host.core import EngineError

cdef struct Rows:  # the first row of every output of a new state
    unsigned char* blob
    int* current_player
    float* observation
    unsigned char* legal_action_mask
    float* rewards
    unsigned char* terminated
    unsigned char* truncated
    float* stats
    int* info


cdef enum:
    ENDLESS = -1  # an error code of this module; those of engines are positive
    SKIPPED_LIMIT = 1000  # so many games in a row that end before anybody is asked are an error


cdef void* at(array):
    return <void*><size_t>array.__array_interface__["data"][0]


cdef Rows rows_of(outputs):
    cdef Rows rows
    blob, player, observation, mask, rewards, terminated, truncated, stats, info = outputs
    rows.blob, rows.current_player = <unsigned char*>at(blob), <int*>at(player)
    rows.observation, rows.legal_action_mask = <float*>at(observation), <unsigned char*>at(mask)
    rows.rewards, rows.terminated = <float*>at(rewards), <unsigned char*>at(terminated)
    rows.truncated, rows.stats, rows.info = <unsigned char*>at(truncated), <float*>at(stats), <int*>at(info)
    return rows


cdef inline u64 seed_of(const unsigned int* seeds, Py_ssize_t i) noexcept nogil:
    return (<u64>seeds[2 * i] << 32) | seeds[2 * i + 1]


cdef int write(Engine engine, Py_ssize_t game, Rows* out, Py_ssize_t i, int last) noexcept nogil:
    """Row i from a game; `last`: the seat that acted last, for an end after which nobody is asked."""
    cdef Py_ssize_t seats = engine.num_players, stats = engine.num_players * engine.num_stats
    cdef int how = engine.ended(game), seat = engine.player(game)
    seat = last if seat < 0 else seat
    out.current_player[i] = seat
    out.terminated[i] = how == 1
    out.truncated[i] = how == 2
    engine.observe(game, seat, out.observation + i * engine.num_features)
    engine.mask(game, out.legal_action_mask + i * engine.num_actions)
    engine.rewards(game, out.rewards + i * seats)
    if engine.num_stats and how:
        engine.stats(game, out.stats + i * stats)
    elif engine.num_stats:
        memset(out.stats + i * stats, 0, stats * sizeof(float))
    if engine.num_info:
        engine.info(game, out.info + i * engine.num_info)
    engine.save(game, out.blob + i * engine.state_bytes)
    return engine.fault(game)


cdef void skip(Engine engine, const unsigned char* blob, Rows* out, Py_ssize_t i) noexcept nogil:
    """Row i of a state that nothing is done with: the same state, and zeros for what its caller keeps."""
    cdef Py_ssize_t seats = engine.num_players
    memcpy(out.blob + i * engine.state_bytes, blob, engine.state_bytes)
    out.current_player[i] = 0
    out.terminated[i] = 0
    out.truncated[i] = 0
    memset(out.observation + i * engine.num_features, 0, engine.num_features * sizeof(float))
    memset(out.legal_action_mask + i * engine.num_actions, 1, engine.num_actions)
    memset(out.rewards + i * seats, 0, seats * sizeof(float))
    memset(out.stats + i * seats * engine.num_stats, 0, seats * engine.num_stats * sizeof(float))
    memset(out.info + i * engine.num_info, 0, engine.num_info * sizeof(int))


cdef int deal(Engine engine, Py_ssize_t game, Rows* out, Py_ssize_t i) noexcept nogil:
    """The next episode of a game that has been reseeded; games without any question are passed over."""
    cdef int code, tried
    for tried in range(SKIPPED_LIMIT):
        code = engine.start(game)
        if code != 0:
            return code
        if engine.ended(game) == 0:
            return write(engine, game, out, i, 0)
    return ENDLESS


cdef fail(Engine engine, Py_ssize_t game, int code, Py_ssize_t state):
    if code == ENDLESS:
        raise EngineError(state, f"{SKIPPED_LIMIT} games in a row ended before anybody was asked")
    raise EngineError(state, engine.error(game, code)) from engine.cause(game)


def init_states(Engine engine, seeds, blank, outputs):
    """New games.

    Args:
      engine: with one game for each variety of the set-up; a seed decides which of them deals.
      seeds: u32[B, 2].
      blank: u8[V, S], every game of the engine as it was made.
      outputs: of each state; see `Rows`.
    """
    cdef Rows out = rows_of(outputs)
    cdef const unsigned int* seed = <const unsigned int*>at(seeds)
    cdef const unsigned char* fresh = <const unsigned char*>at(blank)
    cdef Py_ssize_t i, game, count = seeds.shape[0]
    cdef int code = 0
    with nogil:
        for i in range(count):
            game = <Py_ssize_t>(seed[2 * i + 1] % <unsigned int>engine.num_games)
            code = engine.load(game, fresh + game * engine.state_bytes)
            if code == 0:
                engine.reseed(game, seed_of(seed, i))
                code = deal(engine, game, &out, i)
            if code != 0:
                break
    if code != 0:
        fail(engine, game, code, i)


def reset_states(Engine engine, blobs, over, seeds, outputs):
    """The next episodes of finished games; other states stay as they are (their outputs mean nothing).

    Args:
      engine: plays in its game 0.
      blobs: u8[B, S].
      over: bool[B].
      seeds: u32[B, 2].
      outputs: of each state; see `Rows`.
    """
    cdef Rows out = rows_of(outputs)
    cdef const unsigned char* blob = <const unsigned char*>at(blobs)
    cdef const unsigned char* finished = <const unsigned char*>at(over)
    cdef const unsigned int* seed = <const unsigned int*>at(seeds)
    cdef Py_ssize_t i, count = seeds.shape[0]
    cdef int code = 0
    with nogil:
        for i in range(count):
            if not finished[i]:
                skip(engine, blob + i * engine.state_bytes, &out, i)
                continue
            code = engine.load(0, blob + i * engine.state_bytes)
            if code == 0:
                engine.reseed(0, seed_of(seed, i))
                code = deal(engine, 0, &out, i)
            if code != 0:
                break
    if code != 0:
        fail(engine, 0, code, i)


def step_states(Engine engine, blobs, actions, seeds, outputs):
    """One decision in every state; where it is illegal or the game is over, the outputs mean nothing.

    Args:
      engine: plays in its game 0.
      blobs: u8[B, S].
      actions: i32[B].
      seeds: u32[B, 2], all the randomness of the step.
      outputs: of each state; see `Rows`.
    """
    cdef Rows out = rows_of(outputs)
    cdef const unsigned char* blob = <const unsigned char*>at(blobs)
    cdef const int* action = <const int*>at(actions)
    cdef const unsigned int* seed = <const unsigned int*>at(seeds)
    cdef Py_ssize_t i, count = actions.shape[0]
    cdef int code = 0, seat
    with nogil:
        for i in range(count):
            code = engine.load(0, blob + i * engine.state_bytes)
            if code != 0:
                break
            if engine.ended(0) != 0 or not engine.legal(0, action[i]):
                skip(engine, blob + i * engine.state_bytes, &out, i)
                code = engine.fault(0)
            else:
                seat = engine.player(0)
                engine.reseed(0, seed_of(seed, i))
                code = engine.step(0, action[i])
                if code == 0:
                    code = write(engine, 0, &out, i, seat)
            if code != 0:
                break
    if code != 0:
        fail(engine, 0, code, i)


def observe_states(Engine engine, blobs, seats, output):
    """f32[B, F]: what seats (i32[B]) may see of states (u8[B, S])."""
    cdef const unsigned char* blob = <const unsigned char*>at(blobs)
    cdef const int* seat = <const int*>at(seats)
    cdef float* out = <float*>at(output)
    cdef Py_ssize_t i, count = seats.shape[0]
    cdef int code = 0
    with nogil:
        for i in range(count):
            code = engine.load(0, blob + i * engine.state_bytes)
            if code == 0:
                engine.observe(0, seat[i], out + i * engine.num_features)
                code = engine.fault(0)
            if code != 0:
                break
    if code != 0:
        fail(engine, 0, code, i)


def ask_bots(Engine engine, blobs, numbers, seeds, output):
    """i32[B]: what scripted players (i32[B]) choose in states (u8[B, S]), 0 in a finished game."""
    cdef const unsigned char* blob = <const unsigned char*>at(blobs)
    cdef const int* number = <const int*>at(numbers)
    cdef const unsigned int* seed = <const unsigned int*>at(seeds)
    cdef int* out = <int*>at(output)
    cdef Py_ssize_t i, count = numbers.shape[0]
    cdef int code = 0
    with nogil:
        for i in range(count):
            code = engine.load(0, blob + i * engine.state_bytes)
            if code == 0 and engine.ended(0) == 0:
                engine.reseed(0, seed_of(seed, i))
                out[i] = engine.bot(0, number[i])
                code = engine.fault(0) if out[i] >= 0 else -1 - out[i]
            elif code == 0:
                out[i] = 0
            if code != 0:
                break
    if code != 0:
        fail(engine, 0, code, i)


def blank_states(Engine engine, output):
    """u8[V, S]: the games of an engine as they are."""
    cdef unsigned char* out = <unsigned char*>at(output)
    cdef Py_ssize_t game
    for game in range(engine.num_games):
        with nogil:
            engine.save(game, out + game * engine.state_bytes)
        if engine.fault(game) != 0:
            fail(engine, game, engine.fault(game), game)
