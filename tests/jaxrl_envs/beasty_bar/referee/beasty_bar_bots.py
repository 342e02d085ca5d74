"""The ten scripted Beasty Bar opponents in plain Python: every function follows one table of section 11."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.jaxrl_envs.beasty_bar.referee.beasty_bar import (
    CHAMELEON,
    CROCODILE,
    GIRAFFE,
    HIPPO,
    KANGAROO,
    LION,
    MONKEY,
    PARROT,
    POINTS,
    SEAL,
    SKUNK,
    SNAKE,
    ZEBRA,
    Action,
    Card,
    Game,
    decode,
    worth,
)

THREATS = {GIRAFFE, ZEBRA, CROCODILE, HIPPO, LION}
RECURRING = {GIRAFFE, CROCODILE, HIPPO}
NOISE = 0.15
MATERIAL = {  # w_bar, w_front, k
    "heuristic": (2.0, 1.1, 1),
    "aggressive": (3.0, 1.1, 1),
    "defensive": (1.0, 1.1, 1),
    "queue": (2.0, 2.0, 1),
    "skunk": (2.0, 1.1, 2),
    "noisy": (2.0, 1.1, 1),
    "online": (2.0, 1.1, 1),
}
WEIGHTS = {  # w1 .. w12
    "outcome": (3.0, -2.0, -2.5, 2.0, 1.5, 2.0, 1.5, 0.4, 0.5, 15, 0.5, 0.3),
    "distilled": (4.2, -2.5, -3.5, 2.8, 1.8, 2.5, 2.2, 0.6, 0.7, 18, 0.6, 0.4),
}


class Turn:
    """One legal id tried out: B, the game before, and A, after the turn."""

    def __init__(self, game: Game, number: int) -> None:
        self.b, self.a = game, game.after(number)
        self.me, self.opp = game.actor, 1 - game.actor
        self.action: Action = decode(number, game.queue)
        self.played = self.action.species
        self.target: Card | None = None if self.action.target is None else game.queue[self.action.target]
        self.my_lost, self.opp_lost = (worth(self.a.out[who]) - worth(self.b.out[who]) for who in (self.me, self.opp))
        self.my_gain, self.opp_gain = (worth(self.a.bar[who]) - worth(self.b.bar[who]) for who in (self.me, self.opp))

    @property
    def place(self) -> int | None:
        """The queue position of the played card after the turn."""
        for i, card in enumerate(self.a.queue):
            if (card.seat, card.strength) == (self.me, self.played):
                return i
        return None


def material(turn: Turn, w_bar: float, w_front: float, k: int) -> float:
    """Section 11.1."""
    a, me, opp = turn.a, turn.me, turn.opp

    def value(strength: int) -> int:
        return POINTS[strength] * (k if strength == SKUNK else 1)

    def total(species: set[int]) -> int:
        return sum(value(strength) for strength in species)

    score = w_bar * (total(a.bar[me]) - total(a.bar[opp]))
    length = len(a.queue)
    for i, card in enumerate(a.queue):
        front = 1 - i / length
        sign = 1 if card.seat == me else -1
        score += sign * (w_front * front + 0.3 * (1 - front)) * value(card.strength)
    score += -0.5 * total(a.out[me]) + 0.5 * total(a.out[opp])
    return score + 0.1 * total(turn.b.hands[me] - {turn.played})


def bonus(turn: Turn) -> float:
    """Section 11.2."""
    played, place = turn.played, turn.place
    if played == SKUNK:
        if turn.opp_lost >= 5:
            return 3.0
        if turn.opp_lost >= 3:
            return 1.5
        return -2.0 if turn.opp_lost == 0 and turn.my_lost > 0 else 0.0
    if played == PARROT and turn.target:
        return (0.5 if turn.target.seat == turn.opp else -0.5) * POINTS[turn.target.strength]
    if played == KANGAROO:
        return 1.0 if place in (0, 1) else 0.0
    if played == MONKEY:
        return 2.5 if turn.opp_lost >= 4 else 0.0
    if played == CHAMELEON and turn.target:
        return 0.1 * turn.target.strength
    if played == SEAL:
        return 1.5 if turn.my_gain > turn.opp_gain else -1.0 if turn.opp_gain > turn.my_gain else 0.0
    if played == ZEBRA:
        feared = any(card.seat == turn.opp and card.strength in (HIPPO, CROCODILE) for card in turn.a.queue)
        return 1.5 if feared else -0.5
    if played == GIRAFFE:
        return {0: 1.5, 1: 0.5}.get(-1 if place is None else place, 0.0)
    if played == SNAKE:
        mine_before = sum(card.seat == turn.me for card in turn.b.queue)
        mine_after = sum(card.seat == turn.me for card in turn.a.queue)
        if mine_after <= mine_before:
            return 0.0
        return sum(0.5 * POINTS[card.strength] for card in turn.a.queue[:2] if card.seat == turn.me)
    if played == CROCODILE:
        return 0.3 * turn.opp_lost
    return 2.0 if played == LION and place == 0 else 0.0


def online_bonus(turn: Turn) -> float:
    """Section 11.3."""
    b, queue = turn.b, turn.b.queue

    def seen(strength: int) -> bool:
        in_queue = any((card.seat, card.strength) == (turn.opp, strength) for card in queue)
        return strength in b.bar[turn.opp] or strength in b.out[turn.opp] or in_queue

    if turn.played == CROCODILE:
        if any(card.strength == CHAMELEON for card in queue):
            return 5.0
        return 0.0 if seen(CHAMELEON) else -1.0
    if turn.played == SKUNK:
        species = sorted({card.strength for card in queue} - {SKUNK}, reverse=True)
        if len(species) < 2:
            return -1.5
        net = 0
        for card in queue:
            if card.strength in species[:2]:
                net += POINTS[card.strength] * (1 if card.seat == turn.opp else -1)
        return 4.0 if net >= 4 else 2.0 if net >= 2 else -3.0 if net <= -2 else 0.0
    if turn.played == LION:
        if any((card.seat, card.strength) == (turn.opp, LION) for card in queue):
            return -5.0
        return 3.0 if seen(LION) else -2.0
    if turn.played == PARROT and turn.target and turn.action.target is not None:
        points = POINTS[turn.target.strength]
        if turn.target.seat == turn.opp:
            return 0.3 * points + 2 * (1 - turn.action.target / len(queue))
        return -0.5 * points
    return 0.0


def outcome(turn: Turn, weights: tuple[float, ...]) -> float:
    """Section 11.4."""
    w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12 = weights
    a, b, me, opp, played = turn.a, turn.b, turn.me, turn.opp, turn.played

    def quality(queue: list[Card]) -> float:
        weight = [0.53, 0.37, 0.25, 0.27]
        return sum(weight[i] * POINTS[card.strength] * (1 if card.seat == me else -0.6) for i, card in enumerate(queue))

    def count(queue: list[Card], species: set[int]) -> int:
        return sum(card.seat == opp and card.strength in species for card in queue)

    score = w1 * turn.my_gain + w2 * turn.opp_gain + w3 * turn.my_lost + w4 * turn.opp_lost
    score += w5 * (quality(a.queue) - quality(b.queue))
    score += w6 * any(card.seat == me for card in a.queue[:2])
    score += w7 * max(0, count(b.queue, THREATS) - count(a.queue, THREATS))
    if played == PARROT and turn.target and turn.action.target is not None:
        strength = turn.target.strength
        if turn.target.seat == opp:
            score += w8 * POINTS[strength] + 1.5 * (strength in THREATS) + 1.0 * (strength in RECURRING)
            score += 0.5 * (1 - turn.action.target / len(b.queue))
        else:
            score -= 0.8 * POINTS[strength]
    if played == SKUNK:
        score += w9 * (turn.opp_lost - turn.my_lost)
    if played == MONKEY:
        score += w10 * (count(b.queue, {HIPPO, CROCODILE}) > count(a.queue, {HIPPO, CROCODILE}))
        score += 0.8 * w10 * (count(b.queue, {MONKEY}) > 0)
    if b.ply <= 3 and played in RECURRING:
        score += w11
    if b.ply >= 8 and played in (PARROT, SKUNK, CROCODILE):
        score += w12
    return score


def scores(bot: str, game: Game) -> list[float]:
    """The score of every legal id, in their order; of `noisy` without its noise, of `random` all zero."""
    turns = [Turn(game, number) for number in game.legal()]
    if bot == "random":
        return [0.0] * len(turns)
    if bot in WEIGHTS:
        return [outcome(turn, WEIGHTS[bot]) for turn in turns]
    extra: Callable[[Turn], float] = online_bonus if bot == "online" else bonus
    return [material(turn, *MATERIAL[bot]) + extra(turn) for turn in turns]


def best(bot: str, game: Game) -> list[int]:
    """The ids from which the opponent draws uniformly."""
    found = scores(bot, game)
    return [number for number, score in zip(game.legal(), found, strict=True) if score >= max(found) - 1e-6]


def choose(bot: str, game: Game, rng: random.Random) -> int:
    """One move."""
    if bot == "noisy":
        found = [score + rng.gauss(0, NOISE) for score in scores(bot, game)]
        return game.legal()[found.index(max(found))]
    return rng.choice(best(bot, game))


BOTS = ("random", "heuristic", "aggressive", "defensive", "queue", "skunk", "noisy", "online", "outcome", "distilled")
