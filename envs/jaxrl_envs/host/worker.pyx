"""What the engine threads run, all of it without the GIL and without allocating."""

from libc.math cimport isfinite
from libc.string cimport memcpy, memset

from jaxrl_envs.host.engine cimport Engine, agrees, all_finite, mask_asked, observe_asked, offers
from jaxrl_envs.host.shared cimport (
    BEGIN, CONTRADICTION, IDLE, NEVER_ASKED, NOT_FINITE, NO_LEGAL_ACTION, NO_SUCH_SEAT, RESTART, SHOW, START, STEP,
    UNASKED_LIMIT, Core, Out, Worker, now_ns, pthread_cond_broadcast, pthread_cond_wait, pthread_mutex_lock,
    pthread_mutex_unlock,
)

cdef enum:
    CHUNK = 64  # most games that a thread takes at a time


def run(Core core, Py_ssize_t number):
    """The body of engine thread `number`; returns after `Core.shut`."""
    cdef Engine engine = core.engine
    with nogil:
        work(core, engine, &core.workers[number])


cdef inline int move(
    Core core, Engine engine, Py_ssize_t game, const int* action, Worker* worker, float* earned
) noexcept nogil:
    """One decision, of all seats in a simultaneous game; what it pays is added to `earned`, f32[P]."""
    cdef Py_ssize_t seat
    cdef int code = engine.step_all(game, action) if engine.simultaneous else engine.step(game, action[0])
    if code != 0:
        return code
    core.length[game] += 1
    engine.rewards(game, worker.scratch)
    for seat in range(engine.num_players):
        earned[seat] += worker.scratch[seat]
    return 0


cdef int choose(Core core, Engine engine, Py_ssize_t game, const int* given, int* chosen) noexcept nogil:
    """Actions of all seats of a simultaneous game, i32[P]: bots answer for theirs, `given` says the others'. 0 or an
    error code."""
    cdef signed char* held = core.controllers + game * engine.num_players
    cdef int seat, number
    for seat in range(<int>engine.num_players):
        number = held[seat]
        if number < 0 and given[seat] >= 0:
            chosen[seat] = given[seat]
            continue
        chosen[seat] = engine.seat_bot(game, seat, number if number >= 0 else bot_of(given[seat]))
        if chosen[seat] < 0:
            return -1 - chosen[seat]
    return 0


cdef inline bint outside_asked(Core core, Engine engine, Py_ssize_t game, int seat) noexcept nogil:
    """Whether the seat asked, or in a simultaneous game any seat, is held from outside of the engine."""
    cdef signed char* held = core.controllers + game * engine.num_players
    if not engine.simultaneous:
        return held[seat] < 0
    for seat in range(<int>engine.num_players):
        if held[seat] < 0:
            return True
    return False


cdef int move_bots(Core core, Engine engine, Py_ssize_t game, int seat, Worker* worker, float* earned) noexcept nogil:
    """One decision of the bot that holds `seat`, or of the bots that hold all seats of a simultaneous game."""
    cdef int code
    if engine.simultaneous:
        code = choose(core, engine, game, NULL, worker.chosen)
    else:
        worker.chosen[0] = engine.bot(game, core.controllers[game * engine.num_players + seat])
        code = -1 - worker.chosen[0] if worker.chosen[0] < 0 else 0
    return code if code != 0 else move(core, engine, game, worker.chosen, worker, earned)


cdef int begin(Core core, Engine engine, Py_ssize_t game, float* opening, bint renew) noexcept nogil:
    """The next episode of a game; `renew`: with the controllers that wait for it."""
    cdef Py_ssize_t seats = engine.num_players
    cdef int code = engine.start(game)
    if code != 0:
        return code
    core.length[game] = 0
    if renew:
        memcpy(core.controllers + game * seats, core.next_controllers + game * seats, seats)
    engine.rewards(game, opening)
    return 0


cdef void finish(
    Core core, Engine engine, Py_ssize_t game, Py_ssize_t row, Out* out, int how, int last
) noexcept nogil:
    """Writes what an ended game leaves behind."""
    cdef int seat = -1 if engine.simultaneous else engine.player(game)
    cdef Py_ssize_t asked = core.asked, features = core.features
    if seat < 0:
        seat = last if last >= 0 else 0
    out.terminated[row] = how == 1
    out.truncated[row] = how == 2
    observe_asked(engine, game, seat, out.final_player + row * asked, out.final_observation + row * features)
    if engine.num_stats:
        engine.stats(game, out.stats + row * engine.num_players * engine.num_stats)
    if engine.num_info:
        engine.info(game, out.info + row * engine.num_info)
    out.length[row] = core.length[game]


cdef void show_end(Core core, Engine engine, Py_ssize_t game, Py_ssize_t row, Out* out) noexcept nogil:
    """Where no game follows, the row of an ended one shows it as its last seat (or every seat) sees it."""
    cdef Py_ssize_t asked = core.asked, features = core.features
    memcpy(out.current_player + row * asked, out.final_player + row * asked, asked * sizeof(int))
    memcpy(out.observation + row * features, out.final_observation + row * features, features * sizeof(float))
    mask_asked(engine, game, out.legal_action_mask + row * asked * engine.num_actions)


cdef int settle(
    Core core, Engine engine, Py_ssize_t game, Py_ssize_t row, Out* out, Worker* worker, bint asked, int last
) noexcept nogil:
    """Plays bots' moves and ended games on until an outside seat is asked.

    `asked`: the row's action was taken in the present game, by seat `last`; else the game is new to its row.
    Returns 0 or an error code; then rows of the buffers are undefined.
    """
    cdef Py_ssize_t seats = engine.num_players
    cdef float* opening = out.opening + row * seats
    cdef int code, how, seat, unasked = 0
    cdef bint over = False  # the row tells of an ended game
    cdef long long since = 0
    while True:
        how = engine.ended(game)
        if how != 0:
            if core.timed:
                since = now_ns()
            if not core.follow:
                finish(core, engine, game, row, out, how, last)
                show_end(core, engine, game, row, out)
                return 0
            if asked:
                finish(core, engine, game, row, out, how, last)
                asked, over = False, True
            else:
                unasked += 1
                worker.unasked += 1
                if unasked >= UNASKED_LIMIT:
                    return NEVER_ASKED
            code = begin(core, engine, game, opening, True)
            if core.timed:
                worker.step_ns += now_ns() - since
            if code != 0:
                return code
            continue
        seat = 0 if engine.simultaneous else engine.player(game)
        if not 0 <= seat < seats:
            return NO_SUCH_SEAT
        if outside_asked(core, engine, game, seat):
            break
        if core.timed:
            since = now_ns()
        code = move_bots(core, engine, game, seat, worker, out.rewards + row * seats if asked else opening)
        last = seat
        if core.timed:
            worker.bots_ns += now_ns() - since
            worker.bots += 1
        if code != 0:
            return code
    if core.timed:
        since = now_ns()
    observe_asked(engine, game, seat, out.current_player + row * core.asked, out.observation + row * core.features)
    mask_asked(engine, game, out.legal_action_mask + row * core.asked * engine.num_actions)
    if not over:
        out.length[row] = core.length[game]
        if engine.num_info:
            engine.info(game, out.info + row * engine.num_info)
    if core.timed:
        worker.observe_ns += now_ns() - since
        worker.observed += 1
    return 0


cdef int check_mask(Core core, Engine engine, Py_ssize_t game, Py_ssize_t row, Out* out) noexcept nogil:
    """0, or what is wrong with the masks of a row that asks. Every action is compared with `legal` where games begin for
    the caller (it takes A calls); later only what is answered, in `send`."""
    cdef Py_ssize_t place, size = core.asked * engine.num_actions
    cdef unsigned char* mask = out.legal_action_mask + row * size
    if not offers(engine, mask):
        return NO_LEGAL_ACTION
    if core.command[game] != START and core.command[game] != SHOW:
        return 0
    for place in range(size):
        if not agrees(engine, game, mask, place):
            return CONTRADICTION
    return 0


cdef bint is_finite(Core core, Engine engine, Py_ssize_t row, Out* out) noexcept nogil:
    """Whether a row can be learnt from."""
    cdef Py_ssize_t seats = engine.num_players, features = core.features, seat
    cdef float earned = 0.0
    for seat in range(row * seats, (row + 1) * seats):
        earned += out.rewards[seat] + out.opening[seat]
    return (
        isfinite(earned)
        and all_finite(out.observation + row * features, features)
        and (out.final_player[row * core.asked] < 0 or all_finite(out.final_observation + row * features, features))
    )


cdef int play(Core core, Engine engine, Py_ssize_t game, Worker* worker) noexcept nogil:
    """What a queued game waits for, up to its next question to an outside seat. 0 or an error code."""
    cdef Py_ssize_t group = game // core.group_size
    cdef Py_ssize_t row = game - core.base[group]
    cdef Py_ssize_t seats = engine.num_players
    cdef Out* out = &core.outs[group]
    cdef int* action = out.action + row * core.asked
    cdef int code = 0, fault, seat = -1
    cdef bint asked = core.command[game] == STEP
    cdef long long since = 0
    memset(out.rewards + row * seats, 0, seats * sizeof(float))
    memset(out.opening + row * seats, 0, seats * sizeof(float))
    out.terminated[row] = 0
    out.truncated[row] = 0
    memset(out.final_player + row * core.asked, 0xFF, core.asked * sizeof(int))  # -1 each
    memset(action, 0xFF, core.asked * sizeof(int))
    if core.timed:
        since = now_ns()
    if core.command[game] == START or core.command[game] == RESTART or core.command[game] == BEGIN:
        code = begin(core, engine, game, out.opening + row * seats, core.command[game] != START)
    memcpy(out.controllers + row * seats, core.controllers + game * seats, seats)
    if asked and engine.simultaneous:
        code = choose(core, engine, game, core.actions + game * core.asked, action)
    elif asked:
        seat = engine.player(game)
        action[0] = core.actions[game]
        if action[0] < 0:
            action[0] = engine.bot(game, bot_of(action[0]))
            code = -1 - action[0] if action[0] < 0 else 0
    if asked and code == 0:
        code = move(core, engine, game, action, worker, out.rewards + row * seats)
    if core.timed:
        worker.step_ns += now_ns() - since
        worker.steps += 1
    if code == 0:
        code = settle(core, engine, game, row, out, worker, asked, seat)
    if code == 0 and not is_finite(core, engine, row, out):
        code = NOT_FINITE
    if code == 0 and (core.follow or engine.ended(game) == 0):
        code = check_mask(core, engine, game, row, out)
    if code > 0:
        return code
    fault = engine.fault(game)  # it says why the bridge found something wrong
    return fault if fault != 0 else code


cdef void work(Core core, Engine engine, Worker* worker) noexcept nogil:
    """The life of an engine thread. The mutex is held for book-keeping only, never while a game is played."""
    cdef int taken[CHUNK]
    cdef Py_ssize_t count, i
    cdef int code
    cdef long long since
    pthread_mutex_lock(&core.mutex)
    while True:
        while (core.queued == 0 or core.failed) and not core.stop:
            pthread_cond_wait(&core.work_cond, &core.mutex)
        if core.stop:
            break
        # Large portions first, single games in the end: threads finish together although games are uneven.
        count = core.queued // (2 * core.threads)
        count = 1 if count < 1 else CHUNK if count > CHUNK else count
        for i in range(count):
            taken[i] = core.queue[core.head]
            core.head = core.head + 1 if core.head + 1 < core.num_games else 0
        core.queued -= count
        pthread_mutex_unlock(&core.mutex)

        since = now_ns()
        code = 0
        for i in range(count):
            worker.game = taken[i]
            code = play(core, engine, taken[i], worker)
            worker.turns += 1
            if code != 0:
                break
        worker.busy_ns += now_ns() - since

        pthread_mutex_lock(&core.mutex)
        if code != 0:
            if not core.failed:
                core.failed, core.failed_game, core.failed_code = True, worker.game, code
            pthread_cond_broadcast(&core.done_cond)
        else:
            hand_over(core, taken, count)
        worker.game = -1
    pthread_mutex_unlock(&core.mutex)


cdef void hand_over(Core core, int* games, Py_ssize_t count) noexcept nogil:
    """Games that were played on go back to the caller; called with the mutex."""
    cdef Py_ssize_t i, group
    cdef int game
    cdef bint signal = False
    for i in range(count):
        game = games[i]
        group = game // core.group_size
        if core.command[game] != STEP and core.command[game] != BEGIN:
            core.status[game] = IDLE
            core.unsettled -= 1
            signal |= core.unsettled == 0
        elif core.asynchronous:
            core.ready[(core.ready_head + core.num_ready) % core.num_games] = game
            core.num_ready += 1
        else:
            core.status[game] = IDLE
            core.left[group] -= 1
            signal |= core.left[group] == 0
    if signal or (core.wanted > 0 and core.num_ready >= core.wanted):
        pthread_cond_broadcast(&core.done_cond)
