"""A decision as a sequence of small questions with one legal action each. Slow reference: tests/jaxrl_envs/forge/referee/forge.py.

Action 0 is to pass or to stop (numbers, colors, yes and no begin at 0), action 1 + i is option i. Options that cannot be
told apart, such as four Mountains, are one option; where several are picked, it can be picked as often.
"""

from libc.string cimport memset

from jaxrl_envs.forge cimport layout as at
from jaxrl_envs.forge.encoding.values cimport LARGEST, MISSING, get, items, text, whole
from jaxrl_envs.forge.encoding.view cimport Card

import numpy as np

MERGED = ("Library", "Hand")  # zones in which all cards of one name are equal


cdef object look(DecisionView view, option, bint action):
    """(its card, what else tells an option from others), None: it is like no other one."""
    cdef int id
    cdef Card card
    number = get(option, "id")
    if not action and get(option, "kind") != "card":
        return None
    id = whole(get(option, "card_id") if action or number is None else number, MISSING)
    card = view.find(id)
    zone = text(get(option, "zone"))
    if card is None or not card.row:
        return (id, (text(get(option, "name")), zone)) if zone in MERGED and not action else None
    if not action:
        return id, (card.row, zone, whole(get(option, "controller"), MISSING), text(get(option, "name")))
    return id, (
        *(card.row, get(option, "kind") if type(get(option, "kind")) is str else "", get(option, "is_land") is True),
        *(text(get(option, "card")), text(get(option, "mana_cost")), text(get(option, "description"))),
        whole(get(option, "part"), MISSING),
    )


cdef tuple merged(DecisionView view, list options, bint action):
    """(of equal options the first, for each its daemon's number and theirs): one card is never equal to itself."""
    cdef list kept = [], numbers = []
    cdef dict places = {}, times = {}
    for place, option in enumerate(options):
        found = look(view, option, action)
        if found is not None:
            id, key = found
            times[found] = times.get(found, 0) + 1
            found = key, times[found] if id >= 0 else 1
            if found in places:
                numbers[places[found]].append(index_of(option, place))
                continue
            places[found] = len(kept)
        kept.append(option)
        numbers.append([index_of(option, place)])
    return kept, numbers


cdef inline int index_of(option, int place):
    """The daemon's number of an option."""
    return whole(get(option, "index"), place)


cdef bint may_pick(Question q, int option) except -1:
    """Picks come in ascending order, and enough options must be left for those that are still to come."""
    cdef int done = len(q.picks), last = q.picks[done - 1] if done else -1, used
    if done >= q.most or option < last:
        return False
    if q.repeat:
        return True
    used = q.picks.count(option)
    return used < q.copies(option) and <int>q.left[option] - used - 1 >= q.least - done - 1


cdef bint has_room(Question q, int place) except -1:
    """Whether an attacker may have one more blocker."""
    cdef int most = whole(get(q.attackers[place], "max_blockers"), 0)
    return most <= 0 or q.assigned[place] < most


cdef class Question:
    """The questions of one decision.

    Args:
      view: the decision, as its seat sees it.

    Raises:
      ValueError: something is missing that it needs.
    """

    def __init__(self, DecisionView view not None):
        self.view, self.number = view, view.number
        self.options, self.attackers, self.blockers, self.indices, self.assigned = [], [], [], [], []
        self.targets, self.picks, self.numbers, self.left = [], [], [], []
        if self.number < 0:
            self.ask_ai = True
        elif self.number == at.TYPE_DECLARE_ATTACKERS:
            self._read_attackers()
        elif self.number == at.TYPE_DECLARE_BLOCKERS:
            self._read_blockers()
        elif self.number == at.TYPE_ANNOUNCE_VALUE:
            self._read_numbers()
        elif not self.is_yes_no():
            self._read_options()
        self.answered = self.ask_ai
        self._settle()

    cdef bint is_yes_no(self):
        return self.number in (at.TYPE_CONFIRM_ACTION, at.TYPE_PLAY_TRIGGER, at.TYPE_MULLIGAN)

    cdef bint is_set(self):
        return self.number in (at.TYPE_CHOOSE_TARGETS, at.TYPE_CHOOSE_MODE, at.TYPE_CHOOSE_CARDS, at.TYPE_SCRY)

    cdef bint is_list(self):
        return self.number in (at.TYPE_CHOOSE_ABILITY, at.TYPE_CHOOSE_ENTITY)

    cdef bint has_stop(self):
        """Whether action 0 says no."""
        return self.number not in (at.TYPE_ANNOUNCE_VALUE, at.TYPE_CHOOSE_COLOR)

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _required(self, str key):
        found = get(self.view.decision, key)
        if type(found) is not list:
            raise ValueError("this line is no decision")
        return found

    def _cut(self, list what, int most):
        """The options there is room for; counts the rest."""
        self.cut += max(0, len(what) - most)
        return what[:most]

    def _read_options(self):
        decision = self.view.decision
        options = self._required("actions" if self.number == at.TYPE_CHOOSE_ACTION else "options")
        self.repeat, self.optional = get(decision, "repeat") is True, get(decision, "optional") is True
        if self.number == at.TYPE_SCRY:
            self.least, self.most = 0, len(options)
        elif self.is_set():
            self.least, self.most = whole(get(decision, "min"), 0), whole(get(decision, "max"), len(options))
        elif self.number == at.TYPE_ORDER:
            self.least = self.most = len(options)
        else:
            self.least = self.most = 1
        kept, numbers = merged(self.view, options, self.number == at.TYPE_CHOOSE_ACTION)
        self.options, self.numbers = self._cut(kept, MOST_OPTIONS), numbers[:MOST_OPTIONS]
        self.left = [0]
        for same in reversed(self.numbers):
            self.left.insert(0, self.left[0] + len(same))
        self._bound_picks()

    def _bound_picks(self):
        """No more picks than options, and Forge's AI where ours would not be enough."""
        cdef int count = self.left[0]
        if not self.repeat:
            if self.cut and (self.number == at.TYPE_ORDER or (self.is_set() and self.least > count)):
                self.ask_ai = True
            self.most = min(self.most, count)
            self.least = min(self.least, self.most)
        self.most = min(self.most, PICKS)
        if (self.is_list() or self.number == at.TYPE_CHOOSE_COLOR) and count == 0 and not self.optional:
            self.ask_ai = True

    def _read_numbers(self):
        cdef long long span
        self.first = whole(get(self.view.decision, "min"), 0)
        span = <long long>whole(get(self.view.decision, "max"), self.first) - self.first + 1
        self.span = <int>max(1, min(span, LARGEST))
        self.cut = max(0, self.span - at.NUM_ACTIONS)

    def _read_attackers(self):
        self.attackers = self._cut(self._required("attackers"), PICKS)
        self.indices = [index_of(attacker, place) for place, attacker in enumerate(self.attackers)]
        self.assigned = [0] * len(self.attackers)
        if self.number == at.TYPE_DECLARE_ATTACKERS:
            for attacker in self.attackers:
                self._cut(items(get(attacker, "defenders")), MOST_OPTIONS)

    def _read_blockers(self):
        self.blockers = self._cut(self._required("blockers"), PICKS)
        self._read_attackers()
        for blocker in self.blockers:
            self._cut(self._blockable(blocker), MOST_OPTIONS)

    def _blockable(self, blocker):
        """The places of the attackers that a blocker may block."""
        numbers = [whole(number, MISSING) for number in items(get(blocker, "can_block"))]
        return [self.indices.index(number) for number in numbers if number in self.indices]

    cdef list defenders(self):
        return items(get(self.attackers[len(self.picks)], "defenders"))[:MOST_OPTIONS]

    # ---- legal actions ----------------------------------------------------------------------------------------------

    def _allow(self, int first, int count):
        memset(self.allowed + first, 1, max(0, count))

    def _list_combat(self):
        """The legal actions of an attacker or blocker."""
        cdef bint must = False
        cdef int i
        if self.number == at.TYPE_DECLARE_ATTACKERS:
            asked = self.attackers[len(self.picks)]
            self._allow(1, len(self.defenders()))
        else:
            asked = self.blockers[len(self.picks)]
            self.targets = self._blockable(asked)[:MOST_OPTIONS]
            for i, place in enumerate(self.targets):
                self.allowed[1 + i] = has_room(self, place)
        for i in range(1, at.NUM_ACTIONS):
            must |= self.allowed[i]
        self.allowed[0] = not (must and get(asked, "must") is True)

    def _list_legal(self):
        """Fills `allowed` and `num_legal`."""
        cdef int i, count = len(self.options)
        memset(self.allowed, 0, at.NUM_ACTIONS)
        if self.is_yes_no():
            self._allow(0, 2)
        elif self.number == at.TYPE_ANNOUNCE_VALUE:
            self._allow(0, min(self.span, at.NUM_ACTIONS))
        elif self.number == at.TYPE_CHOOSE_COLOR:
            self._allow(0, count)
        elif self.number in (at.TYPE_DECLARE_ATTACKERS, at.TYPE_DECLARE_BLOCKERS):
            self._list_combat()
        elif self.is_set():
            self.allowed[0] = <int>len(self.picks) >= self.least
            for i in range(count):
                self.allowed[1 + i] = may_pick(self, i)
        else:
            self.allowed[0] = self.number == at.TYPE_CHOOSE_ACTION or (
                self.number == at.TYPE_CHOOSE_ENTITY and self.optional
            )
            self._allow(1, count)
            if self.number == at.TYPE_ORDER:
                for i in self.picks:
                    self.allowed[1 + i] = <int>self.picks.count(i) < self.copies(i)
        self.num_legal = 0
        for i in range(at.NUM_ACTIONS):
            self.num_legal += self.allowed[i]

    def allows(self, int action):
        """Whether any number is a legal action now."""
        return not self.answered and 0 <= action < at.NUM_ACTIONS and self.allowed[action] != 0

    @property
    def legal(self):
        """The legal actions, ascending; none once it is answered."""
        cdef int action
        return [action for action in range(at.NUM_ACTIONS) if self.allowed[action]] if not self.answered else []

    def mask(self):
        """bool[A], the legal actions."""
        if self.answered:
            return np.zeros(at.NUM_ACTIONS, np.bool_)
        return np.frombuffer((<const char*>self.allowed)[: at.NUM_ACTIONS], np.bool_)

    # ---- answering --------------------------------------------------------------------------------------------------

    def step(self, int action):
        """Takes a legal action, and all that follow without a choice."""
        if not self.allows(action):
            raise ValueError(f"action {action} is not legal here: {self.legal}")
        self._take(action)
        self._settle()

    def _take(self, int action):
        """A legal action, and nothing that follows from it."""
        if self.number == at.TYPE_DECLARE_ATTACKERS:
            self.picks.append(action)
        elif self.number == at.TYPE_DECLARE_BLOCKERS:
            self.picks.append(self.targets[action - 1] if action else MISSING)
            if action:
                self.assigned[self.targets[action - 1]] += 1
        elif (self.is_set() or self.number == at.TYPE_ORDER) and action:
            self.picks.append(action - 1)
        else:
            self.choice, self.answered = action, True

    def _complete(self):
        """Whether all has been asked that this type asks."""
        if self.number == at.TYPE_DECLARE_ATTACKERS:
            return len(self.picks) == len(self.attackers)
        if self.number == at.TYPE_DECLARE_BLOCKERS:
            return len(self.picks) == len(self.blockers)
        return (self.is_set() or self.number == at.TYPE_ORDER) and <int>len(self.picks) >= self.most

    def _settle(self):
        """Takes actions as long as there is no choice; then `allowed` is what is asked, or the decision is answered."""
        while not self.answered:
            if self._complete():
                self.answered = True
                return
            self._list_legal()
            if self.num_legal == 0:  # a question that cannot be answered
                self.answered = self.ask_ai = True
            if self.num_legal != 1:
                return
            self._take(self.legal[0])

    def leave_to_ai(self):
        """Forge's AI is to answer."""
        self.answered = self.ask_ai = True

    @property
    def answer(self):
        """The line to send, None as long as there is something to choose."""
        if not self.answered:
            return None
        if self.ask_ai:
            return "ai"
        if self.is_yes_no():
            return "ny"[self.choice]
        if self.number == at.TYPE_ANNOUNCE_VALUE:
            return str(<long long>self.first + self.choice)
        if self.number in (at.TYPE_DECLARE_ATTACKERS, at.TYPE_DECLARE_BLOCKERS):
            return ",".join(f"{one}:{other}" for one, other in self._pairs())
        if self.number == at.TYPE_CHOOSE_COLOR:
            return str(self.index(self.choice))
        if self.number == at.TYPE_CHOOSE_ACTION or self.is_list():
            return str(self.index(self.choice - 1) if self.choice else -1)
        return ",".join(str(self.index(pick, self._before(place))) for place, pick in enumerate(self.picks))

    cdef int copies(self, int option):
        return len(self.numbers[option])

    def _before(self, int place):
        """Number of earlier picks of an option; always 0 of what may be repeated."""
        return 0 if self.repeat else self.picks[:place].count(self.picks[place])

    def index(self, int option, int equal=0):
        """The daemon's number of an offered option, or of an equal one."""
        return self.numbers[option][equal]

    def pairing(self):
        """The daemon's numbers of the attacker or blocker in question, and of its options (by action 1 + i)."""
        cdef int place = len(self.picks)
        if self.number == at.TYPE_DECLARE_BLOCKERS:
            return index_of(self.blockers[place], place), [self.indices[target] for target in self.targets]
        return self.indices[place], [index_of(defender, i) for i, defender in enumerate(self.defenders())]

    def _pairs(self):
        """The pairs of attackers and targets, or of blockers and attackers: too few blockers stay at home."""
        found = []
        for place, pick in enumerate(self.picks):
            if self.number == at.TYPE_DECLARE_ATTACKERS and pick > 0:
                defender = items(get(self.attackers[place], "defenders"))[pick - 1]
                found.append((self.indices[place], index_of(defender, pick - 1)))
            elif self.number == at.TYPE_DECLARE_BLOCKERS and pick >= 0:
                if self.assigned[pick] >= whole(get(self.attackers[pick], "min_blockers"), 0):
                    found.append((index_of(self.blockers[place], place), self.indices[pick]))
        return found
