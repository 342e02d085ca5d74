# Part of engine.pyx: one decision or one saved game to look at.

def look(ForgeEngine engine not None, const unsigned char[::1] data not None):
    """A saved game as plain Python, played again by `engine` (in its game 0) if it is not remembered.

    Returns:
      {"how", "winner", "asked", "seed", "episode", "turn", "actions": all of them, "partial": how many of them belong
      to the open question, "lines": for each seat the JSON of its last decision in bytes, or None}
    """
    cdef State b
    cdef Game* g = &engine.games[0]
    cdef int code
    if data.shape[0] != engine.state_bytes:
        raise ValueError(f"a saved game has {engine.state_bytes} bytes, not {data.shape[0]}")
    memcpy(&b, &data[0], sizeof(State))
    actions = np.frombuffer(bytes(data[sizeof(State):]), np.int16)[: b.count].tolist()
    key = (b.key, b.count)
    if b.episode >= 0 and key not in engine._remembered:
        with nogil:
            code = engine.load(0, &data[0])
            code = reach(engine, 0) if code == OK else code
        if code != OK:
            raise EngineError(0, engine.error(0, code)) from engine.cause(0)
        remember(engine, g)
    return {
        "how": ENDS[b.how],
        "winner": b.winner if b.winner >= 0 else None,
        "asked": b.tally.asked,
        "seed": seed_of(b.key),
        "episode": b.episode,
        "turn": b.tally.turn,
        "actions": actions,
        "partial": b.tally.partial,
        "lines": engine._remembered.get(key, (None, None)),
    }


cdef class Decision:
    """One DECISION line without a daemon: its small questions one after the other, and in the end the answer.

    Args:
      line: JSON in UTF-8, with or without "DECISION:" before it; also of an INFO line that reports a decision.

    Raises:
      ValueError: it is no decision.
    """

    cdef View* view
    cdef Question question
    cdef list _wanted  # actions or places that lead to an observed choice, see `aim`
    cdef dict _paired

    def __cinit__(self, line):
        cdef bytes text = line.encode() if isinstance(line, str) else bytes(line)
        self.view = <View*>calloc(1, sizeof(View))
        if self.view == NULL:
            raise MemoryError
        for word in (b"DECISION:", b"INFO:"):
            text = text.removeprefix(word)
        if not keep_text(self.view, text, len(text)):
            raise MemoryError
        if not read_view(self.view) or not read_question(&self.question, self.view):
            raise ValueError("this line is no decision")

    def __dealloc__(self):
        free_view(self.view)

    @property
    def seat(self):
        return self.view.seat

    @property
    def type(self):
        """The name of its type, "" of one that we do not know."""
        return layout.TYPES[self.view.type] if self.view.type >= 0 else ""

    @property
    def open(self):
        """Whether there is something to choose."""
        return not self.question.answered

    @property
    def cut(self):
        """Options that are not offered."""
        return self.question.cut

    @property
    def unseen(self):
        """Cards that have no row in the observation."""
        return self.view.unseen

    @property
    def picks(self):
        """What was chosen so far: options; of attackers 0 or 1 + defender; of blockers -1 or the attacker."""
        return [self.question.pick[i] for i in range(self.question.count)]

    @property
    def offered(self):
        """Which of the options of the line are offered, by their place in it; option i is action 1 + i (colors: i)."""
        cdef const Tape* tape = &self.view.tape
        cdef uint32_t array = find(tape, 0, b"actions" if self.question.type == CHOOSE_ACTION else b"options")
        cdef uint32_t item = array + 1
        places = {}
        while array and item != tape.tokens[array].next:
            places[item] = len(places)
            item = tape.tokens[item].next
        return [places[self.question.option[i]] for i in range(self.question.num_options)]

    @property
    def targets(self):
        """The attackers that the blocker in question may block; attacker i of them is action 1 + i."""
        return [self.question.target[i] for i in range(self.question.num_targets)]

    @property
    def legal(self):
        """The legal actions, ascending."""
        return [a for a in range(AT_NUM_ACTIONS) if self.question.legal[a]] if self.open else []

    @property
    def answer(self):
        """The line to send, None as long as there is something to choose."""
        cdef char text[ANSWER]
        if self.open:
            return None
        return text[: compose(&self.question, &self.view.tape, text)].decode()

    def mask(self):
        """bool[A]."""
        out = np.zeros(AT_NUM_ACTIONS, np.bool_)
        out[self.legal] = True
        return out

    def observe(self):
        """f32[F], of the seat that is asked."""
        cdef float[::1] out = np.empty(AT_FEATURES, np.float32)
        encode(self.view, &self.question, &out[0])
        return np.asarray(out)

    def overview(self):
        """f32[F] without the question: what the seat sees while another one is asked."""
        cdef float[::1] out = np.empty(AT_FEATURES, np.float32)
        encode(self.view, NULL, &out[0])
        return np.asarray(out)

    def step(self, int action):
        """Takes a legal action, and all that follow without a choice."""
        if not 0 <= action < AT_NUM_ACTIONS or not self.open or not self.question.legal[action]:
            raise ValueError(f"action {action} is not legal here: {self.legal}")
        take(&self.question, action)
        settle(&self.question, &self.view.tape)

    # ---- towards a choice that somebody else made --------------------------------------------------------------------

    def aim(self, choice):
        """Whether `choice`, an answer line or None, can be reached; `wanted` then leads to it."""
        self._wanted, self._paired = None, None
        try:
            self._aim(choice)
        except (TypeError, ValueError):  # "ai", None, or an option that is not offered
            return False
        return True

    def _aim(self, str choice):
        cdef Question* q = &self.question
        if q.type == NO_TYPE or q.ask_ai:
            raise ValueError
        numbers = [text.split(":") for text in choice.split(",")] if choice else []
        if is_yes_no(q.type):
            self._wanted = ["ny".index(choice)]
        elif q.type == ANNOUNCE_VALUE:
            self._wanted = [int(choice) - q.first]
        elif q.type == DECLARE_ATTACKERS or q.type == DECLARE_BLOCKERS:
            self._paired = {int(pair[0]): int(pair[1]) if len(pair) > 1 else 0 for pair in numbers}
            if len(self._paired) != len(numbers):
                raise ValueError
        elif q.type == CHOOSE_COLOR:
            self._wanted = [self._place(int(choice))]
        elif q.type == CHOOSE_ACTION or is_list(q.type):
            self._wanted = [1 + self._place(int(choice)) if int(choice) >= 0 else 0]
        else:
            places = [self._place(int(number[0])) for number in numbers]
            self._wanted = [1 + place for place in (places if q.type == ORDER else sorted(places))] + [0]

    def _place(self, number):
        """Where the option stands that the daemon calls so."""
        cdef int32_t i
        for i in range(self.question.num_options):
            if index_of(&self.view.tape, self.question.option[i], i) == number:
                return i
        raise ValueError(number)

    def wanted(self):
        """The next action towards the choice, -1: it cannot be said in legal actions."""
        cdef Question* q = &self.question
        cdef int action
        if self._paired is not None:
            action = self._wanted_in_combat()
        else:
            action = self._wanted[q.count if is_set(q.type) or q.type == ORDER else 0]
        return action if 0 <= action < AT_NUM_ACTIONS and q.legal[action] else -1

    def _wanted_in_combat(self):
        cdef Question* q = &self.question
        cdef const Tape* tape = &self.view.tape
        cdef uint32_t item
        cdef int32_t i
        if q.type == DECLARE_BLOCKERS:
            attacker = self._paired.get(index_of(tape, q.blocker[q.count], q.count), NOBODY)
            places = [i for i in range(q.num_targets) if q.attacker_index[q.target[i]] == attacker]
            return (1 + places[0] if places else -1) if attacker >= 0 else 0
        defender = self._paired.get(q.attacker_index[q.count], NOBODY)
        if defender < 0:
            return 0
        item = find(tape, q.attacker[q.count], b"defenders") + 1
        for i in range(defenders_of(q, tape)):
            if index_of(tape, item, i) == defender:
                return 1 + i
            item = tape.tokens[item].next
        return -1


cdef int64_t cpu_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


def measure(lines, int repeats=1):
    """CPU seconds for all lines so often: copied and parsed; and with questions, masks and observations."""
    cdef list texts = [bytes(line) for line in lines]
    cdef View* v = <View*>calloc(1, sizeof(View))
    cdef Question q
    cdef float[::1] out = np.empty(AT_FEATURES, np.float32)
    cdef unsigned char mask[AT_NUM_ACTIONS]
    cdef bytes text
    cdef const char* start
    cdef size_t size
    cdef int64_t since, parsed = 0, encoded = 0
    cdef int k
    for text in texts:
        start, size = text, len(text)
        with nogil:
            for k in range(repeats):
                since = cpu_ns()
                keep_text(v, start, size)
                parse(v.text, v.size, &v.tape)
                parsed += cpu_ns() - since
                since = cpu_ns()
                keep_text(v, start, size)
                if read_view(v) and read_question(&q, v):
                    encode(v, &q, &out[0])
                    memcpy(mask, q.legal, AT_NUM_ACTIONS)
                encoded += cpu_ns() - since
    free_view(v)
    return parsed * 1e-9, encoded * 1e-9
