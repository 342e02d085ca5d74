"""Beasty Bar in plain Python: setup, turns, legal ids, end, score and what a seat sees (sections 1 to 10 of the rules).

Species are their strengths 1..12, sets are Python sets, cards are objects with an identity: nothing is packed.
"""

from __future__ import annotations

from dataclasses import dataclass

SKUNK, PARROT, KANGAROO, MONKEY, CHAMELEON, SEAL = 1, 2, 3, 4, 5, 6
ZEBRA, GIRAFFE, SNAKE, CROCODILE, HIPPO, LION = 7, 8, 9, 10, 11, 12
POINTS = {LION: 2, HIPPO: 2, CROCODILE: 3, SNAKE: 2, GIRAFFE: 3, ZEBRA: 4}
POINTS |= {SEAL: 2, CHAMELEON: 3, MONKEY: 3, KANGAROO: 4, PARROT: 4, SKUNK: 4}
PLAIN = [SKUNK, MONKEY, SEAL, ZEBRA, GIRAFFE, SNAKE, CROCODILE, HIPPO, LION]  # the species of ids 0..8


@dataclass(eq=False)
class Card:
    """One card of the game; two cards are never equal, a card is only itself."""

    seat: int
    strength: int
    shown: int = 0  # the species that it counts as: only a chameleon during its own action differs

    def __post_init__(self) -> None:
        self.shown = self.shown or self.strength

    @property
    def code(self) -> int:
        """0..23."""
        return 12 * self.seat + self.strength - 1


def card_of(code: int) -> Card:
    """The card of a code."""
    return Card(code // 12, code % 12 + 1)


@dataclass(frozen=True)
class Action:
    """What an action id says; positions are those of the queue before the card is placed."""

    species: int
    hop: int = 0  # of a kangaroo, or of a chameleon that copies one
    target: int | None = None  # the position that a parrot throws out or a chameleon copies
    victim: int = 0  # the position that a copied parrot throws out


def decode(number: int, queue: list[Card]) -> Action:
    """The meaning of action id 0..30 with this queue (section 8)."""
    n = len(queue)
    if number < 9:
        return Action(PLAIN[number])
    if number < 11:
        return Action(KANGAROO, hop=number - 8 if n else 0)
    if number < 15:
        return Action(PARROT, target=number - 11 if n else None)
    x, y = divmod(number - 15, 4)
    if all(card.strength == CHAMELEON for card in queue):
        return Action(CHAMELEON)
    return Action(CHAMELEON, hop=y + 1, target=x, victim=y)


def legal_ids(hand: set[int], queue: list[Card]) -> list[int]:
    """Every legal id, ascending."""
    n, found = len(queue), []
    for number in range(9):
        if PLAIN[number] in hand:
            found.append(number)
    if KANGAROO in hand:
        found += [number for number in (9, 10) if number - 8 <= n or (number == 9 and n == 0)]
    if PARROT in hand:
        found += [11 + x for x in range(4) if x < n or (x == 0 and n == 0)]
    if CHAMELEON in hand:
        copies = []
        for x, card in enumerate(queue):
            if card.strength == PARROT:
                copies += [15 + 4 * x + y for y in range(n)]
            elif card.strength == KANGAROO:
                copies += [15 + 4 * x + y for y in (0, 1) if y + 1 <= n]
            elif card.strength != CHAMELEON:
                copies.append(15 + 4 * x)
        found += copies or [15]
    return found


# ---- actions of the animals -----------------------------------------------------------------------------------------


def run_forward(queue: list[Card], hippo: Card) -> None:
    """The hippo passes everything up to the first zebra, hippo or lion."""
    while (i := queue.index(hippo)) > 0 and queue[i - 1].shown != ZEBRA and queue[i - 1].shown < HIPPO:
        queue[i - 1], queue[i] = queue[i], queue[i - 1]


def eat(queue: list[Card], crocodile: Card) -> list[Card]:
    """The crocodile throws out what is directly ahead, until a zebra or an animal at least as strong; its meal."""
    meal = []
    while (i := queue.index(crocodile)) > 0 and queue[i - 1].shown != ZEBRA and queue[i - 1].shown < CROCODILE:
        meal.append(queue.pop(i - 1))
    return meal


def hop(queue: list[Card], giraffe: Card) -> None:
    """The giraffe hops over one weaker animal."""
    i = queue.index(giraffe)
    if i > 0 and queue[i - 1].shown < GIRAFFE:
        queue[i - 1], queue[i] = queue[i], queue[i - 1]


def remove(queue: list[Card], gone: list[Card]) -> list[Card]:
    """Takes cards out of the queue and returns them."""
    for card in gone:
        queue.remove(card)
    return gone


def own_action(queue: list[Card], me: Card, action: Action, found: list[Card]) -> list[Card]:
    """The action of the card at the back of the queue (section 4); returns what is thrown out.

    Args:
      queue: changed in place, `me` is at its back.
      me: the played card; `me.shown` says whose action it carries out.
      action: its choices.
      found: the queue before the card was placed.
    """
    kind = me.shown
    if kind == LION:
        if sum(card.shown == LION for card in queue) >= 2:
            return remove(queue, [me])
        thrown = remove(queue, [card for card in queue if card.shown == MONKEY])
        queue.remove(me)
        queue.insert(0, me)
        return thrown
    if kind == HIPPO:
        run_forward(queue, me)
    elif kind == CROCODILE:
        return eat(queue, me)
    elif kind == SNAKE:
        queue.sort(key=lambda card: -card.shown)  # stable
    elif kind == GIRAFFE:
        hop(queue, me)
    elif kind == SEAL:
        queue.reverse()
    elif kind == MONKEY:
        monkeys = [card for card in queue if card.shown == MONKEY]
        if len(monkeys) >= 2:
            thrown = remove(queue, [card for card in queue if card.shown in (HIPPO, CROCODILE)])
            rest = [card for card in queue if card.shown != MONKEY]
            others = [card for card in monkeys if card is not me]
            queue[:] = [me, *reversed(others), *rest]
            return thrown
    elif kind == KANGAROO:
        queue.remove(me)
        queue.insert(len(queue) - action.hop, me)
    elif kind == PARROT:
        position = action.victim if action.species == CHAMELEON else action.target
        if position is not None:
            return remove(queue, [found[position]])
    elif kind == SKUNK:
        strongest = sorted({card.shown for card in queue} - {SKUNK}, reverse=True)[:2]
        return remove(queue, [card for card in queue if card.shown in strongest])
    return []


def take_turn(queue: list[Card], me: Card, action: Action) -> tuple[list[Card], list[Card], list[Card]]:
    """Steps 1 to 4 of a turn: (queue after it, cards that entered the bar, cards thrown out)."""
    found = list(queue)
    queue = [*queue, me]
    if me.strength != CHAMELEON:
        thrown = own_action(queue, me, action, found)
    elif action.target is None:
        thrown = []
    else:
        me.shown = found[action.target].strength
        thrown = own_action(queue, me, action, found)
        me.shown = CHAMELEON

    acting = [card for card in queue if card is not me and card.strength in (HIPPO, CROCODILE, GIRAFFE)]
    for card in acting:
        if card.strength == HIPPO:
            run_forward(queue, card)
        elif card.strength == CROCODILE:
            thrown = thrown + eat(queue, card)
        else:
            hop(queue, card)

    entered: list[Card] = []
    if len(queue) == 5:
        entered = queue[:2]
        thrown = [*thrown, queue[4]]
        queue = queue[2:4]
    return queue, entered, thrown


# ---- games ----------------------------------------------------------------------------------------------------------


def mask(species: set[int]) -> int:
    """A set of species as 12 bits."""
    return sum(1 << strength - 1 for strength in species)


def unmask(bits: int) -> set[int]:
    """The species of a 12-bit mask."""
    return {strength for strength in range(1, 13) if bits >> strength - 1 & 1}


@dataclass
class Game:
    """One game; every list of two is indexed by seat."""

    start: int
    ply: int
    queue: list[Card]
    bar: list[set[int]]
    out: list[set[int]]
    hands: list[set[int]]
    decks: list[list[int]]  # next card first

    @property
    def actor(self) -> int:
        """The seat to move."""
        return (self.start + self.ply) % 2

    @property
    def over(self) -> bool:
        """At least twenty cards lie in bar and THAT'S IT."""
        return sum(len(zone) for zone in [*self.bar, *self.out]) >= 20

    @property
    def points(self) -> list[int]:
        """The points of both seats' cards in the bar."""
        return [worth(zone) for zone in self.bar]

    def legal(self) -> list[int]:
        """The legal ids of the seat to move, none once the game is over."""
        return [] if self.over else legal_ids(self.hands[self.actor], self.queue)

    def after(self, number: int) -> Game:
        """The game after one complete turn."""
        seat, action = self.actor, decode(number, self.queue)
        queue, entered, thrown = take_turn(self.queue, Card(seat, action.species), action)
        game = Game(
            self.start,
            self.ply + 1,
            queue,
            [set(zone) for zone in self.bar],
            [set(zone) for zone in self.out],
            [set(hand) for hand in self.hands],
            [list(deck) for deck in self.decks],
        )
        for card in entered:
            game.bar[card.seat].add(card.strength)
        for card in thrown:
            game.out[card.seat].add(card.strength)
        game.hands[seat].remove(action.species)
        if game.decks[seat]:
            game.hands[seat].add(game.decks[seat].pop(0))
        return game

    @property
    def table(self) -> list:
        """[queue, bar, out] as the golden files write them: codes, and one mask for each seat."""
        return [[card.code for card in self.queue], list(map(mask, self.bar)), list(map(mask, self.out))]


def worth(species: set[int]) -> int:
    """The points of a set of species."""
    return sum(POINTS[strength] for strength in species)


def new_game(decks: list[list[int]], start: int) -> Game:
    """The game of two twelve-card orders and a starting seat."""
    hands, rest = [set(deck[:4]) for deck in decks], [list(deck[4:]) for deck in decks]
    return Game(start, 0, [], [set(), set()], [set(), set()], hands, rest)


def position(record: dict) -> Game:
    """The game of a record with start, ply, queue, bar, out, hand and deck (the golden bot choices)."""
    zones = {name: [unmask(bits) for bits in record[name]] for name in ("bar", "out")}
    hands = [set(hand) for hand in record["hand"]]
    decks = [list(deck) for deck in record["deck"]]
    queue = [card_of(code) for code in record["queue"]]
    return Game(record["start"], record["ply"], queue, zones["bar"], zones["out"], hands, decks)


def play_turn(
    queue: list[int], bar: list[int], out: list[int], hand: int, deck: list[int], action: int, seat: int
) -> tuple[list[int], list[int], list[int], int, list[int]]:
    """One complete turn of `seat` on codes and masks: (queue, bar, out, its hand, its deck) after the turn.

    Args:
      queue: card codes, front first.
      bar, out: one mask for each seat.
      hand: the mask of the seat to move.
      deck: its strengths, next card first.
      action: a legal id.
      seat: 0 or 1.
    """
    hands, decks = [set(), set()], [[], []]
    hands[seat], decks[seat] = unmask(hand), list(deck)
    table = [card_of(code) for code in queue], list(map(unmask, bar)), list(map(unmask, out))
    game = Game(seat, 0, *table, hands, decks).after(action)
    return *game.table, mask(game.hands[seat]), game.decks[seat]


def rewards(kind: str, points: list[int]) -> list[float]:
    """The rewards at the end of a game (section 10): win, margin or shaped."""
    margins = [points[0] - points[1], points[1] - points[0]]
    signs = [(margin > 0) - (margin < 0) for margin in margins]
    if kind == "margin":
        return [margin / 36 for margin in margins]
    if kind == "shaped":
        return [sign * min(1 + 0.1 * abs(margin), 2) for sign, margin in zip(signs, margins, strict=True)]
    return [float(sign) for sign in signs]


def observation(game: Game, own: int) -> list[float]:
    """The 150 numbers that a seat sees (section 9)."""
    other = 1 - own

    def flags(species: set[int]) -> list[float]:
        return [float(strength in species) for strength in range(1, 13)]

    seen: list[float] = []
    seen += flags(game.hands[own]) + flags(set(game.decks[own])) + flags(game.hands[other] | set(game.decks[other]))
    seen += flags(game.bar[own]) + flags(game.bar[other]) + flags(game.out[own]) + flags(game.out[other])
    for place in range(4):
        card = game.queue[place] if place < len(game.queue) else None
        seen += flags({card.strength} if card else set())
        seen += [float(card is not None and card.seat == own), float(card is not None and card.seat == other)]
    seen += [len(game.hands[own]) / 4, len(game.hands[other]) / 4, len(game.decks[own]) / 8, len(game.decks[other]) / 8]
    seen += [len(game.queue) / 4, game.ply / 24]
    seen += [game.points[own] / 36, game.points[other] / 36]
    seen += [float(game.actor == own), float(game.start == own)]
    return seen
