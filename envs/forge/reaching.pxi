# Part of engine.pyx: how a game gets to where its state says it is, whatever happens to daemons.


cdef int reach(ForgeEngine self, Py_ssize_t game) noexcept nogil:
    """Takes the live of a game to the position of its state. 0 or an error code, which stays until `load`."""
    cdef Game* g = &self.games[game]
    cdef char why[WORDS]
    cdef int fault, attempts = 0
    why[0] = 0
    while g.error == OK:
        fault = forward(g.live, &self.settings, &g.b, g.actions, why)
        if fault == NOTHING:
            if g.live.over and g.live.lease != NULL:
                with gil:
                    finish(self, g.live)
            leave(g.live)
            break
        with gil:
            g.error = recover(self, game, fault, &attempts, why)
    return g.error


cdef int advance(ForgeEngine self, Py_ssize_t game) noexcept nogil:
    """After an action or a start: plays on to the next question, and counts what that brought."""
    cdef Game* g = &self.games[game]
    cdef int code = reach(self, game)
    if code == OK:
        absorb(self, g)
        if g.b.how != STILL_RUNNING:
            with gil:
                count(self, g)
    return code


cdef void absorb(ForgeEngine self, Game* g) noexcept nogil:
    """The position of the live becomes that of the state, and what it pays."""
    cdef State* b = &g.b
    cdef Live* l = g.live
    cdef double before = b.tally.potential, result = 0
    b.tally = l.tally
    if l.over:
        b.how, b.winner = l.how, l.winner
        result = 0 if l.how != WON else 1 if l.winner == 0 else -1
        if l.how == WON or l.how == DRAWN:  # a potential is 0 at the end, else it would change who plays best
            b.tally.potential = 0
        else:
            b.tally.potential = before
    elif b.count >= self.max_decisions:
        b.how = TOO_LONG
    b.reward = <float>(result + b.tally.potential - before)


cdef void count(ForgeEngine self, Game* g) noexcept:
    """Tells the fleet that a game is over."""
    if g.b.how == TOO_LONG:
        drop(self, &g.live.lease)
    try:
        self.fleet.game_finished((now_ns() - g.live.began) * 1e-9, ENDS[g.b.how])
    except Exception as error:  # figures are not worth a game
        LOG.warning("a finished game was not counted: %s", error)


# ---- faults ----------------------------------------------------------------------------------------------------------

cdef int fail(ForgeEngine self, Py_ssize_t game, message, cause=None) noexcept:
    self._errors[game], self._causes[game] = message, cause
    return FAILED


cdef int recover(ForgeEngine self, Py_ssize_t game, int fault, int* attempts, const char* why) noexcept:
    """Another daemon for a game, which begins anew there. An error code if that does not help."""
    cdef Game* g = &self.games[game]
    cdef Live* l = g.live
    try:
        lease = take_lease(self, &l.lease)
        l.entered = False
        if fault != NO_LEASE:
            attempts[0] += 1
            reason = NO_START if fault == NO_LINE and not l.heard else REASONS.get(fault, "")
            self.replays[reason or "refused"] += 1
            if lease is not None and fault == REFUSED:
                self.fleet.release(lease, finished=False)
            elif lease is not None:
                self.fleet.failed(lease, reason)
        elif lease is not None:
            self.replays["evicted"] += 1
        if fault == REFUSED or attempts[0] >= ATTEMPTS:
            text = (<bytes>why).decode(errors="replace")
            patience = self.settings.ai_patience if l.tally.held else self.settings.patience
            return fail(self, game, sentence(fault, g.b.key, l.tally.turn, patience, text))
        lease = self.fleet.lease(replay=g.b.tally.seen > 0 or lease is not None)  # each game is counted once
        self._leases[id(lease)] = lease
        l.lease, l.entered, l.began = <void*>lease, True, now_ns()
        reset_live(l, g.b.key)
        l.checking = g.b.tally.seen > 0
        ask_game(self, lease, g, 2 * self.game_limit + 60 if l.checking else self.game_limit)
    except Exception as error:
        return fail(self, game, str(error), error)
    return OK


cdef void ask_game(ForgeEngine self, lease, Game* g, double limit):
    """Sends NEWGAME."""
    decks = self.pairs[(g.b.slot + g.b.episode) % len(self.pairs)]
    words = " ".join(quoted(deck) for deck in decks)
    line = f"NEWGAME {words} {self.options} -c {math.ceil(limit)} -s {seed_of(g.b.key)}"
    if self._recorder is not None:
        writer = self._recorder.next(self._writers.pop() if self._writers else None)
        version = getattr(lease.daemon, "version", "")
        names = [deck_name(deck) for deck in decks]
        writer.begin(forge=version, decks=names, seed=seed_of(g.b.key), options=self.options)
        writer.sent(line.encode())
        _WRITERS[id(lease)] = writer
    try:
        lease.link.send_line(line)
    except LinkError:
        pass  # whoever listens finds out


# ---- leases ----------------------------------------------------------------------------------------------------------

cdef object take_lease(ForgeEngine self, void** place):
    """The lease at a place, which is empty then; None if it was."""
    if place[0] == NULL:
        return None
    lease = self._leases.pop(<size_t>place[0], None)
    place[0] = NULL
    writer = _WRITERS.pop(id(lease), None)
    if writer is not None:
        writer.end()
        self._writers.append(writer)
    return lease


cdef void drop(ForgeEngine self, void** place) noexcept:
    """Gives a daemon back in the middle of a game."""
    try:
        lease = take_lease(self, place)
        if lease is not None:
            self.fleet.release(lease, finished=False)
    except Exception as error:
        LOG.warning("a Forge daemon was not given back: %s", error)


cdef void finish(ForgeEngine self, Live* l) noexcept:
    """The conversation of a live has come to its end: its daemon is free."""
    l.entered = False
    try:
        lease = take_lease(self, &l.lease)
        if lease is not None:
            self.fleet.release(lease, finished=bool(l.told))
    except Exception as error:
        LOG.warning("a Forge daemon was not given back: %s", error)


# ---- lives of states that are not being played at the moment ---------------------------------------------------------

cdef void adopt(ForgeEngine self, Game* g) noexcept:
    """The live that is nearest to a loaded state; an unfinished one is parked for the state that it belongs to."""
    cdef Live* old = g.live
    cdef Live* l
    cdef Live* best = NULL
    for address in self._parked:
        l = <Live*><size_t>address
        if leads_to(l, &g.b, g.actions) and (best == NULL or l.count > best.count):
            best = l
    if best != NULL:
        self._parked.remove(<size_t>best)
    if old.lease != NULL and not old.over:
        best = best if best != NULL else new_live(self.max_decisions)
        if best != NULL:
            self._parked.append(<size_t>old)
            g.live = best
        while len(self._parked) > min(MOST_PARKED, self.fleet.capacity - 1):  # one is needed for the loaded state
            l = <Live*><size_t>self._parked.pop(0)
            drop(self, &l.lease)
            free_live(l)
    elif best != NULL:
        free_live(old)
        g.live = best
    if not leads_to(g.live, &g.b, g.actions):
        drop(self, &g.live.lease)
        reset_live(g.live, g.b.key)


# ---- for people ------------------------------------------------------------------------------------------------------

cdef void remember(ForgeEngine self, Game* g) noexcept:
    """Keeps what both seats see, for `look`."""
    cdef View* v
    key, lines = (g.b.key, g.b.count), []
    for seat in range(2):
        v = g.live.view[seat]
        lines.append(None if v.seat == NOBODY else v.text[: v.size])
    self._remembered[key] = tuple(lines)
    self._remembered.move_to_end(key)
    while len(self._remembered) > REMEMBERED:
        self._remembered.popitem(last=False)
