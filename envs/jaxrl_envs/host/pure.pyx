"""Whole states in, whole states out: an engine as a function without a memory, for batches of any size.

Every function plays all B states of a batch one after the other in one game of an engine, without the GIL.
Shape letters as in `jaxrl_envs.host.game`; B states, S bytes of one.
"""

from libc.string cimport memcpy, memset

from jaxrl_envs.host.engine cimport Engine, all_finite, mask_asked, num_asked, observe_asked, offers, u64

import numpy as np

from jaxrl_envs.host.game import NO_ANSWER, EngineError

cdef struct Rows:  # the first row of every output of a new state; shapes are those of `Buffers`
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
    NOT_FINITE = -2
    NO_LEGAL_ACTION = -3
    NO_SUCH_SEAT = -4
    SKIPPED_LIMIT = 1000  # games in a row that end before a seat is asked that count as an error


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
    """Row i from a game; `last`: the seat that acted last, for an end after which no seat is asked."""
    cdef int code
    cdef Py_ssize_t seats = engine.num_players, stats = engine.num_players * engine.num_stats
    cdef Py_ssize_t asked = num_asked(engine), features = asked * engine.num_features
    cdef int how = engine.ended(game), seat = -1 if engine.simultaneous else engine.player(game)
    seat = last if seat < 0 else seat
    out.terminated[i] = how == 1
    out.truncated[i] = how == 2
    observe_asked(engine, game, seat, out.current_player + i * asked, out.observation + i * features)
    mask_asked(engine, game, out.legal_action_mask + i * asked * engine.num_actions)
    engine.rewards(game, out.rewards + i * seats)
    if engine.num_stats and how:
        engine.stats(game, out.stats + i * stats)
    elif engine.num_stats:
        memset(out.stats + i * stats, 0, stats * sizeof(float))
    if engine.num_info:
        engine.info(game, out.info + i * engine.num_info)
    engine.save(game, out.blob + i * engine.state_bytes)
    code = engine.fault(game)
    if code == 0 and not (
        all_finite(out.observation + i * features, features) and all_finite(out.rewards + i * seats, seats)
    ):
        code = NOT_FINITE
    if code == 0 and how == 0 and not offers(engine, out.legal_action_mask + i * asked * engine.num_actions):
        code = NO_LEGAL_ACTION
    return code


cdef void skip(Engine engine, const unsigned char* blob, Rows* out, Py_ssize_t i) noexcept nogil:
    """Row i of a state that nothing is done with: the same state, and zeros for what its caller keeps."""
    cdef Py_ssize_t seats = engine.num_players, asked = num_asked(engine)
    cdef int seat
    memcpy(out.blob + i * engine.state_bytes, blob, engine.state_bytes)
    for seat in range(<int>asked):
        out.current_player[i * asked + seat] = seat
    out.terminated[i] = 0
    out.truncated[i] = 0
    memset(out.observation + i * asked * engine.num_features, 0, asked * engine.num_features * sizeof(float))
    memset(out.legal_action_mask + i * asked * engine.num_actions, 1, asked * engine.num_actions)
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
    if code == NOT_FINITE:
        raise EngineError(state, "an observation or a reward is not finite: an engine must give finite numbers")
    if code == NO_LEGAL_ACTION:
        raise EngineError(state, NO_ANSWER)
    if code == NO_SUCH_SEAT:
        raise EngineError(state, f"asks seat {engine.player(game)}, which does not exist")
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


cdef bint legal(Engine engine, const int* action) noexcept nogil:
    """Whether game 0 may go on with this action, i32[P] of a simultaneous game."""
    cdef int seat
    if not engine.simultaneous:
        return engine.legal(0, action[0])
    for seat in range(<int>engine.num_players):
        if not engine.seat_legal(0, seat, action[seat]):
            return False
    return True


cdef int step(Engine engine, const int* action, u64 seed, Rows* out, Py_ssize_t i) noexcept nogil:
    """Game 0 goes on; row i says how. 0 or an error code."""
    cdef int code, seat = 0 if engine.simultaneous else engine.player(0)
    engine.reseed(0, seed)
    code = engine.step_all(0, action) if engine.simultaneous else engine.step(0, action[0])
    return write(engine, 0, out, i, seat) if code == 0 else code


def step_states(Engine engine, blobs, actions, seeds, outputs):
    """One step in every state; where an action is illegal or the game is over, the outputs mean nothing.

    Args:
      engine: plays in its game 0.
      blobs: u8[B, S].
      actions: i32[B], or i32[B, P] of a simultaneous game.
      seeds: u32[B, 2], all the randomness of the step.
      outputs: of each state; see `Rows`.
    """
    cdef Rows out = rows_of(outputs)
    cdef const unsigned char* blob = <const unsigned char*>at(blobs)
    cdef const int* action = <const int*>at(actions)
    cdef const unsigned int* seed = <const unsigned int*>at(seeds)
    cdef Py_ssize_t i, count = actions.shape[0], asked = num_asked(engine)
    cdef int code = 0
    with nogil:
        for i in range(count):
            code = engine.load(0, blob + i * engine.state_bytes)
            if code != 0:
                break
            if engine.ended(0) != 0 or not legal(engine, action + i * asked):
                skip(engine, blob + i * engine.state_bytes, &out, i)
                code = engine.fault(0)
            else:
                code = step(engine, action + i * asked, seed_of(seed, i), &out, i)
            if code != 0:
                break
    if code != 0:
        fail(engine, 0, code, i)


cdef int go_on(
    Engine engine, Py_ssize_t game, int action, const int* bots, int turns, int most, float* paid, float* returns
) noexcept nogil:
    """An action of the seat asked, after which bots (i32[P]) play on until it has moved `turns` more times and is asked
    again, or for `most` steps. What every seat earns goes into `returns`, f32[P]. 0 or an error code."""
    cdef int code, number, asked = engine.player(game), seat = asked
    cdef Py_ssize_t each
    for number in range(most):
        if number > 0:
            if engine.ended(game) != 0:
                return 0
            asked = engine.player(game)
            if not 0 <= asked < engine.num_players:
                return NO_SUCH_SEAT
            if asked == seat and turns == 0:
                return 0
            turns -= asked == seat
            action = engine.bot(game, bots[asked])
            if action < 0:
                return -1 - action
        code = engine.step(game, action)
        if code != 0:
            return code
        engine.rewards(game, paid)
        for each in range(engine.num_players):
            returns[each] += paid[each]
    return 0


def play_on_states(
    Engine engine, Py_ssize_t game, Py_ssize_t first, Py_ssize_t last, blobs, actions, bots, seats, turns, seeds,
    outputs, returned, most
):
    """Scripted players play states `first` .. `last` - 1 on; see `jaxrl_envs.host.env.HostEnv.play_on`.

    Args:
      engine, game: the game of a turn-based engine to play in; threads need one each.
      blobs: u8[B, S].
      actions: i32[B], the first ones; where one is illegal, or another seat is asked, the outputs mean nothing.
      bots: i32[B, P], who holds the seats afterwards.
      seats: i32[B], who must be asked.
      turns: i32[B], how many more times that seat moves before it is left to be asked; negative: to the end.
      seeds: u32[B, 2], all the randomness.
      outputs: of each state; see `Rows`.
      returned: f32[B, P], what every seat earns.
      most: steps at which a game is left as it is.
    """
    cdef Rows out = rows_of(outputs)
    cdef const unsigned char* blob = <const unsigned char*>at(blobs)
    cdef const int* action = <const int*>at(actions)
    cdef const int* held = <const int*>at(bots)
    cdef const int* seat = <const int*>at(seats)
    cdef const int* left = <const int*>at(turns)
    cdef const unsigned int* seed = <const unsigned int*>at(seeds)
    cdef float* returns = <float*>at(returned)
    paid = np.empty(engine.num_players, np.float32)
    cdef float* scratch = <float*>at(paid)
    cdef Py_ssize_t i, seats_of = engine.num_players
    cdef int code = 0, limit = most
    with nogil:
        for i in range(first, last):
            memset(returns + i * seats_of, 0, seats_of * sizeof(float))
            code = engine.load(game, blob + i * engine.state_bytes)
            if code != 0:
                break
            if engine.ended(game) != 0 or engine.player(game) != seat[i] or not engine.legal(game, action[i]):
                skip(engine, blob + i * engine.state_bytes, &out, i)
                code = engine.fault(game)
            else:
                engine.reseed(game, seed_of(seed, i))
                code = go_on(engine, game, action[i], held + i * seats_of, left[i], limit, scratch, returns + i * seats_of)
                code = write(engine, game, &out, i, seat[i]) if code == 0 else code
                if code == 0 and not all_finite(returns + i * seats_of, seats_of):
                    code = NOT_FINITE
            if code != 0:
                break
    if code != 0:
        fail(engine, game, code, i)


def permute_states(Engine engine, blobs, seats, seeds, output):
    """u8[B, S]: states (u8[B, S]) with what seats (i32[B]) cannot see redrawn from u32[B, 2]."""
    cdef const unsigned char* blob = <const unsigned char*>at(blobs)
    cdef const int* seat = <const int*>at(seats)
    cdef const unsigned int* seed = <const unsigned int*>at(seeds)
    cdef unsigned char* out = <unsigned char*>at(output)
    cdef Py_ssize_t i, count = seats.shape[0]
    cdef int code = 0
    with nogil:
        for i in range(count):
            code = engine.load(0, blob + i * engine.state_bytes)
            if code == 0:
                engine.permute(0, seat[i], seed_of(seed, i))
                engine.save(0, out + i * engine.state_bytes)
                code = engine.fault(0)
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


cdef int ask(Engine engine, const int* number, int* out) noexcept nogil:
    """What scripted players choose in game 0, for the seat asked or for all seats. 0 or an error code."""
    cdef int seat
    for seat in range(<int>num_asked(engine)):
        out[seat] = engine.seat_bot(0, seat, number[seat]) if engine.simultaneous else engine.bot(0, number[0])
        if out[seat] < 0:
            return -1 - out[seat]
    return engine.fault(0)


def ask_bots(Engine engine, blobs, numbers, seeds, output):
    """i32[B]: what scripted players (i32[B]) choose in states (u8[B, S]), 0 in a finished game; all i32[B, P] if the
    game is simultaneous."""
    cdef const unsigned char* blob = <const unsigned char*>at(blobs)
    cdef const int* number = <const int*>at(numbers)
    cdef const unsigned int* seed = <const unsigned int*>at(seeds)
    cdef int* out = <int*>at(output)
    cdef Py_ssize_t i, count = numbers.shape[0], asked = num_asked(engine)
    cdef int code = 0
    with nogil:
        for i in range(count):
            code = engine.load(0, blob + i * engine.state_bytes)
            if code == 0 and engine.ended(0) == 0:
                engine.reseed(0, seed_of(seed, i))
                code = ask(engine, number + i * asked, out + i * asked)
            elif code == 0:
                memset(out + i * asked, 0, asked * sizeof(int))
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
