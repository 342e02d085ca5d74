"""Skull King in plain Python: no arrays, no cleverness, written from the rules alone.

Every quantity is an ordinary attribute (lists, sets, ints) and every decision, trick and round is kept, so that a
disagreement with the compiled engine can be read off. Cards, actions and phases use the numbers of the specification.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.jaxrl_envs.skull_king.referee.skull_king_tricks import (
    CARD_BENDT,
    CARD_HARRY,
    CARD_JADE,
    CARD_ROATAN,
    CARD_ROSIE,
    TIGRESS,
    Play,
    alliances,
    captured,
    competition_rank,
    legal_cards,
    next_leader,
    suit_to_follow,
    winning_play,
)

BID, PLAY, ROSIE, BENDT, ROATAN, HARRY, END = range(7)
NUM_ROUNDS = 10
TIGRESS_AS_PIRATE = 85


def play_of(seat: int, action: int) -> Play:
    """The play that an action 11..85 of PLAY stands for."""
    return Play(seat, TIGRESS, True) if action == TIGRESS_AS_PIRATE else Play(seat, action - 11)


@dataclass
class Game:
    """One game from ten given decks; `legal()` and `step(action)` until `phase == END`.

    Attributes that need a word: `round` counts 1..10; `tricks`, `decisions` hold the present round in the recorded
    format; `rounds` holds the finished rounds in the recorded format; `history` is (seat, phase, legal, action) of
    the whole game; `stock` is in order, top first; `jade_view[seat]` is a set or None; `shown_void[seat]` a set of
    suits; `harry_owner` is the seat that will change its bid at the end of the round, or None.
    """

    n: int
    expansion: bool
    abilities: bool
    decks: list[list[int]]
    first: int
    phase: int = BID
    actor: int = 0
    round: int = 0
    totals: list[int] = field(default_factory=list)
    rounds: list[dict] = field(default_factory=list)
    history: list[tuple[int, int, list[int], int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Deals round 1."""
        self.totals = [0] * self.n
        self._deal()

    # ---- what is going on ---------------------------------------------------------------------------------------

    @property
    def tricks_left(self) -> int:
        """Tricks not finished, the current one included."""
        return self.h - len(self.tricks)

    @property
    def rank(self) -> list[int]:
        """Competition rank by total points."""
        return competition_rank(self.totals)

    def legal(self) -> list[int]:
        """The sorted legal actions of the actor; empty at the end."""
        if self.phase == BID:
            return list(range(self.h + 1))
        if self.phase == PLAY:
            actions = [card + 11 for card in legal_cards(self.hands[self.actor], self.table)]
            return sorted([*actions, TIGRESS_AS_PIRATE] if TIGRESS + 11 in actions else actions)
        if self.phase == ROSIE:
            return list(range(86, 86 + self.n))
        if self.phase == BENDT:
            return sorted(card + 11 for card in self.hands[self.actor])
        if self.phase == ROATAN:
            return [94, 95, 96]
        if self.phase == HARRY:
            return [98 + change for change in (-1, 0, 1) if 0 <= self.bids[self.actor] + change <= self.h]
        return []

    def step(self, action: int) -> None:
        """Plays a legal action for the actor."""
        legal = self.legal()
        if action not in legal:
            raise ValueError(f"action {action} of seat {self.actor} in phase {self.phase} is not among {legal}")
        self.history.append((self.actor, self.phase, legal, action))
        self.decisions.append([self.actor, self.phase, legal, action])
        resolve = (self._bid, self._play, self._rosie, self._bendt, self._roatan, self._harry)[self.phase]
        resolve(action)

    # ---- the phases ---------------------------------------------------------------------------------------------

    def _deal(self) -> None:
        n, self.round = self.n, self.round + 1
        self.h = min(self.round, 8 if n == 8 else 10)
        self.starter = (self.first + self.round - 1) % n
        deck = self.decks[self.round - 1]
        self.hands = [list(deck[seat * self.h : (seat + 1) * self.h]) for seat in range(n)]
        self.stock = list(deck[n * self.h :])
        self.bids: list[int | None] = [None] * n
        self.won, self.bonus, self.bets = [0] * n, [0] * n, [0] * n
        self.allies: list[tuple[int, int]] = []
        self.harry_owner: int | None = None
        self.harry: list[int] = []
        self.table: list[Play] = []
        self.played: list[Play] = []
        self.tricks: list[dict] = []
        self.decisions: list[list] = []
        self.jade_view: list[set[int] | None] = [None] * n
        self.bendt_drawn: list[list[int]] = [[] for _ in range(n)]
        self.bendt_discarded: list[list[int]] = [[] for _ in range(n)]
        self.discards_left = 0
        self.shown_void: list[set[int]] = [set() for _ in range(n)]
        self.phase, self.actor = BID, self.starter

    def _bid(self, action: int) -> None:
        self.bids[self.actor] = action
        self.actor = (self.actor + 1) % self.n
        if None not in self.bids:
            self.phase, self.actor = PLAY, self.starter

    def _play(self, action: int) -> None:
        play, suit = play_of(self.actor, action), suit_to_follow(self.table)
        if suit is not None and play.suit is not None and play.suit != suit:
            self.shown_void[self.actor].add(suit)
        self.hands[self.actor].remove(play.card)
        self.table.append(play)
        self.played.append(play)
        self.actor = (self.actor + 1) % self.n
        if len(self.table) == self.n:
            self._finish_trick()

    def _finish_trick(self) -> None:
        table, winner = self.table, winning_play(self.table)
        self.table = []
        self.actor = next_leader(table)
        if winner is not None:
            self.won[winner.seat] += 1
            self.bonus[winner.seat] += captured(table)
        self.allies += alliances(table)
        last = len(self.tricks) == self.h - 1
        self.tricks.append(
            {
                "lead": table[0].seat,
                "plays": [[play.seat, play.card, int(play.as_pirate)] for play in table],
                "win": -1 if winner is None else winner.seat,
                "next": -1 if last else self.actor,
                "bonus": captured(table),
                "ally": [list(pair) for pair in alliances(table)],
            }
        )
        if self.abilities and winner is not None and winner.card == CARD_HARRY:
            self.harry_owner = winner.seat
        if not last and self.abilities and winner is not None:
            self._start_ability(winner.card)
        elif last and self.harry_owner is not None:
            self.phase, self.actor = HARRY, self.harry_owner
        elif last:
            self._end_round()

    def _start_ability(self, card: int) -> None:
        """The abilities that work at once; the actor is the winner of the trick."""
        if card == CARD_ROSIE:
            self.phase = ROSIE
        elif card == CARD_ROATAN:
            self.phase = ROATAN
        elif card == CARD_JADE:
            self.jade_view[self.actor] = set(self.stock)
        elif card == CARD_BENDT and self.stock:
            drawn, self.stock = self.stock[:2], self.stock[2:]
            self.hands[self.actor] += drawn
            self.bendt_drawn[self.actor] += drawn
            self.shown_void[self.actor] = set()
            self.discards_left = len(drawn)
            self.phase = BENDT

    def _rosie(self, action: int) -> None:
        self.actor = (self.actor + action - 86) % self.n
        self.tricks[-1]["next"] = self.actor
        self.phase = PLAY

    def _bendt(self, action: int) -> None:
        self.hands[self.actor].remove(action - 11)
        self.bendt_discarded[self.actor].append(action - 11)
        self.discards_left -= 1
        if self.discards_left == 0:
            self.phase = PLAY

    def _roatan(self, action: int) -> None:
        self.bets[self.actor] = 10 * (action - 94)
        self.phase = PLAY

    def _harry(self, action: int) -> None:
        self.harry = [self.actor, action - 98]
        self._end_round()

    def _end_round(self) -> None:
        effective = list(self.bids)
        if self.harry:
            effective[self.harry[0]] += self.harry[1]
        exact = [won == bid for won, bid in zip(self.won, effective, strict=True)]
        scores = []
        for seat in range(self.n):
            bid, won = effective[seat], self.won[seat]
            if exact[seat]:
                score = 10 * self.h if bid == 0 else 20 * bid + self.bonus[seat]
            else:
                score = -10 * self.h if bid == 0 else -10 * abs(won - bid)
            score += self.bets[seat] if exact[seat] else -self.bets[seat]
            score += 20 * sum(seat in pair and exact[pair[0]] and exact[pair[1]] for pair in self.allies)
            scores.append(score)
        self.totals = [total + score for total, score in zip(self.totals, scores, strict=True)]
        self.rounds.append(
            {
                "r": self.round,
                "h": self.h,
                "starter": self.starter,
                "bids": list(self.bids),
                "harry": self.harry,
                "eff": effective,
                "won": self.won,
                "bonus": self.bonus,
                "bet": self.bets,
                "ally": [list(pair) for pair in self.allies],
                "exact": [int(flag) for flag in exact],
                "scores": scores,
                "total": list(self.totals),
                "tricks": self.tricks,
                "dec": self.decisions,
            }
        )
        if self.round == NUM_ROUNDS:
            self.phase, self.actor = END, -1
        else:
            self._deal()

    # ---- who may see what (section 11) --------------------------------------------------------------------------

    def public(self) -> dict:
        """Everything that every seat may see."""
        bidding = self.phase == BID
        return {
            "configuration": (self.n, self.expansion, self.abilities),
            "round": (self.round, self.h, self.starter, self.phase, self.actor),
            "played": list(self.played),
            "table": list(self.table),
            "tricks": self.tricks,
            "won": list(self.won),
            "bonus": list(self.bonus),
            "allies": list(self.allies),
            "bets": list(self.bets),
            "harry_owner": self.harry_owner,
            "bendt_drawn": [len(cards) for cards in self.bendt_drawn],
            "hand_sizes": [len(hand) for hand in self.hands],
            "shown_void": self.shown_void,
            "stock_size": len(self.stock),
            "totals": list(self.totals),
            "bids": None if bidding else list(self.bids),
            "bids_made": [bid is not None for bid in self.bids],
        }

    def view(self, seat: int) -> dict:
        """Everything that `seat` may see: the public part and its own secrets."""
        return {
            **self.public(),
            "hand": sorted(self.hands[seat]),
            "own_bid": self.bids[seat],
            "own_drawn": list(self.bendt_drawn[seat]),
            "own_discarded": list(self.bendt_discarded[seat]),
            "own_jade_view": self.jade_view[seat],
        }

    def unseen(self, seat: int) -> set[int]:
        """The cards that `seat` cannot place: the deck without its hand, cards played, Jade view and own discards."""
        known = {*self.hands[seat], *(play.card for play in self.played), *(self.jade_view[seat] or ())}
        return set(range(74 if self.expansion else 70)) - known - set(self.bendt_discarded[seat])


def replay(record: dict) -> Game:
    """The game of a record (`n`, `expansion`, `abilities`, `first`, `decks`), before its first decision."""
    return Game(record["n"], bool(record["expansion"]), bool(record["abilities"]), record["decks"], record["first"])
