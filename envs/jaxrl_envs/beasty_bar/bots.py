"""The ten opponents (specification section 11) as one function with ten rows of weights.

Every score is a linear function of features of the complete turn that an action makes, so a bot is a row of weights
and a mixture of bots costs what one bot costs. All legal actions of a state, at most 15, are simulated in one batch of
`SLOTS`; 16 numbers fill vector registers evenly.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxrl_envs.beasty_bar import cards as c
from jaxrl_envs.beasty_bar import rules
from jaxrl_envs.beasty_bar.cards import PLACES, field, of_seat, species_points, strength_of, token_points
from jaxrl_envs.beasty_bar.rules import Play, Zones
from jaxrl_envs.contract.env import Bot, Key, State
from jaxrl_envs.shared.cards import nth_set_bit, scale

SLOTS = 16
TIE = 1e-4
NOISE = 0.15  # standard deviation of `noisy`
NAMES = (
    "random", "heuristic", "aggressive", "defensive", "queue", "skunk", "noisy", "online", "outcome", "distilled",
)  # fmt: skip
_THREATS = sum(1 << s for s in (c.GIRAFFE, c.ZEBRA, c.CROCODILE, c.HIPPO, c.LION))  # bit = strength
_EATERS = (c.HIPPO, c.CROCODILE)


@struct.dataclass
class Features:
    """Features of the scores, f32[] each; "me" is the seat to move. Names follow the specification."""

    bar: jax.Array  # points in the bar, mine less the other's
    front: jax.Array  # sum of f_i * points over the queue, mine less the other's
    rest: jax.Array  # 0.3 (1 - f_i) points over the queue, half of `out`, a tenth of the hand
    skunk_bar: jax.Array  # the skunks' share of the three
    skunk_front: jax.Array
    skunk_rest: jax.Array
    bonus: jax.Array  # 11.2
    online: jax.Array  # 11.3
    my_gain: jax.Array  # 11.4 from here on
    opp_gain: jax.Array
    my_lost: jax.Array
    opp_lost: jax.Array
    queue: jax.Array  # Q(A) - Q(B)
    ahead: jax.Array  # one of my cards at place 0 or 1 of A
    threats: jax.Array  # max(0, T(B) - T(A))
    parrot_points: jax.Array  # of the other's card that a parrot throws out
    parrot: jax.Array  # what else a parrot's target is worth
    skunk: jax.Array  # played skunk: opp_lost - my_lost
    monkey: jax.Array
    early: jax.Array
    late: jax.Array


_FAMILY = {  # name: (w_bar, w_front, k of the skunk), 11.1
    "heuristic": (2.0, 1.1, 1.0),
    "aggressive": (3.0, 1.1, 1.0),
    "defensive": (1.0, 1.1, 1.0),
    "queue": (2.0, 2.0, 1.0),
    "skunk": (2.0, 1.1, 2.0),
    "noisy": (2.0, 1.1, 1.0),
    "online": (2.0, 1.1, 1.0),
}
_LEARNT = {  # w1 .. w12 of 11.4
    "outcome": (3.0, -2.0, -2.5, 2.0, 1.5, 2.0, 1.5, 0.4, 0.5, 15.0, 0.5, 0.3),
    "distilled": (4.2, -2.5, -3.5, 2.8, 1.8, 2.5, 2.2, 0.6, 0.7, 18.0, 0.6, 0.4),
}


def weights_of(name: str) -> np.ndarray:
    """f32[F]: the weights of a bot, one for each of `Features`."""
    weights = dict.fromkeys(Features.__dataclass_fields__, 0.0)
    if name in _FAMILY:
        bar, front, skunk = _FAMILY[name]
        weights |= {"bar": bar, "front": front, "rest": 1.0}
        weights |= {"skunk_bar": (skunk - 1) * bar, "skunk_front": (skunk - 1) * front, "skunk_rest": skunk - 1}
        weights["online" if name == "online" else "bonus"] = 1.0
    elif name in _LEARNT:
        w = _LEARNT[name]
        keys = ("my_gain", "opp_gain", "my_lost", "opp_lost", "queue", "ahead", "threats", "parrot_points")
        weights |= dict(zip(keys, w, strict=False))
        weights |= {"parrot": 1.0, "skunk": w[8], "monkey": w[9], "early": w[10], "late": w[11]}
    return np.array(list(weights.values()), np.float32)


# ---- choosing -------------------------------------------------------------------------------------------------------


def make_bots() -> Mapping[str, Bot]:
    """Returns the ten opponents by name."""

    def single(name: str) -> Bot:
        switch = make_switch([name])
        return lambda state, key: switch(state, jnp.int32(0), key)

    return {name: single(name) for name in NAMES}


def make_switch(names: Sequence[str]) -> Callable[[State, jax.Array, Key], jax.Array]:
    """Returns a player that plays as ``names[index]``, at the cost of one: (state, index i32[], key) -> i32[]."""
    if set(names) <= {"random"}:
        return lambda state, index, key: _pick(state.legal, key)
    table = np.stack([weights_of(name) for name in names])
    noisy = np.array([name == "noisy" for name in names])

    def choose(state: State, index: jax.Array, key: Key) -> jax.Array:
        pick_key, noise_key = jax.random.split(key)
        row = _row(table, index)
        actions = legal_slots(state.legal)
        score = scores(state, actions, row)
        if noisy.any():
            real = jnp.arange(SLOTS) < lax.population_count(state.legal).astype(jnp.int32)
            # A repetition of the first action must not give that action a second draw.
            noise = jnp.where(real, NOISE * jax.random.normal(noise_key, (SLOTS,)), -jnp.inf)
            score += jnp.where(jnp.any((index == np.arange(len(names))) & noisy), noise, 0.0)
        return _pick(best_word(actions, score, state.legal), pick_key)

    return choose


def make_odds(names: Sequence[str]) -> Callable[[State, jax.Array], jax.Array]:
    """(state, action i32[]) -> f32[N]: the exact probability that each of N bots chooses it; that of `noisy`, a product
    of normal distribution functions averaged over its own noise, by Gauss-Hermite quadrature."""
    table = np.stack([weights_of(name) for name in names])
    noise, weight = np.polynomial.hermite_e.hermegauss(16)

    def odds(state: State, action: jax.Array) -> jax.Array:
        actions = legal_slots(state.legal)
        real = jnp.arange(SLOTS) < lax.population_count(state.legal).astype(jnp.int32)
        score = jax.vmap(scores, in_axes=(None, None, 0))(state, actions, jnp.asarray(table))
        chosen = real & (actions == action)
        best = real & (score >= jnp.max(score, axis=1, keepdims=True) - TIE)
        result = jnp.sum(best & chosen, axis=1) / jnp.sum(best, axis=1)
        for i in (i for i, name in enumerate(names) if name == "noisy"):
            ahead = (jnp.sum(jnp.where(chosen, score[i], 0.0)) - score[i]) / NOISE
            below = jnp.where(real & ~chosen, jax.scipy.stats.norm.cdf(noise[:, None] + ahead), 1.0)
            likely = jnp.sum(weight / weight.sum() * jnp.prod(below, axis=1))
            result = result.at[i].set(jnp.where(jnp.any(chosen), likely, 0.0))
        return result

    return odds


def scores(state: State, actions: jax.Array, weights: jax.Array) -> jax.Array:
    """f32[SLOTS]: the scores of actions (i32[SLOTS]) for the seat to move, with one bot's weights f32[F]."""
    game = state.game
    before, hand = mine_first(game.table, game.seat), of_seat(game.hands, game.seat)
    features = jax.vmap(turn_features, in_axes=(None, None, None, 0))(before, hand, game.ply, actions)
    total = jnp.zeros(actions.shape, jnp.float32)
    for i, feature in enumerate(vars(features).values()):
        total += weights[i] * feature
    return total


def legal_slots(legal: jax.Array) -> jax.Array:
    """i32[SLOTS]: the legal actions in ascending order; the slots that are left over repeat the first one."""
    count = lax.population_count(legal).astype(jnp.int32)
    slot = jnp.arange(SLOTS)
    return jax.vmap(lambda k: nth_set_bit([legal], k))(jnp.where(slot < count, slot, 0))


def best_word(actions: jax.Array, score: jax.Array, legal: jax.Array) -> jax.Array:
    """u32[]: the actions whose score is within `TIE` of the best, bit = action."""
    best = score >= jnp.max(score) - TIE
    bits = jnp.where(best, jnp.uint32(1) << actions.astype(jnp.uint32), 0)
    word = lax.reduce(bits, jnp.uint32(0), lax.bitwise_or, (0,))
    return jnp.where(word == 0, legal, word)  # never empty, not even for a diverged number


def _pick(word: jax.Array, key: Key) -> jax.Array:
    """Returns a uniformly random set bit, i32[]."""
    count = lax.population_count(word).astype(jnp.int32)
    return nth_set_bit([word], scale(jax.random.bits(key), count))


def _row(table: np.ndarray, index: jax.Array) -> jax.Array:
    """f32[F]: a row of a small table without a gather."""
    row = jnp.asarray(table[0])
    for i in range(1, len(table)):
        row = jnp.where(index == i, jnp.asarray(table[i]), row)
    return row


# ---- features of a turn ---------------------------------------------------------------------------------------------


@functools.partial(jax.jit, inline=True)  # traced once for the bots and for all networks
def turn_features(before: Zones, hand: jax.Array, ply: jax.Array, action: jax.Array) -> Features:
    """Carries out one complete turn (without the draw) and measures it.

    Args:
      before: the table with the seats exchanged so that the seat to move is 0 (`mine_first`).
      hand: u32[], its species.
      ply: i32[].
      action: i32[], legal.
    """
    play = rules.decode(before.queue, action)
    after = rules.play_turn(before, jnp.int32(0), play)
    hand = hand & ~(jnp.uint32(1) << (play.strength - 1).astype(jnp.uint32))
    target = jnp.where(play.strength == c.PARROT, field(before.queue, play.victim), 0)
    n = c.length(before.queue)
    change = _Change(before, after)
    plain = _material(after, hand, skunks_only=False)
    skunks = _material(after, hand, skunks_only=True)
    is_skunk, is_monkey = play.strength == c.SKUNK, play.strength == c.MONKEY
    recurring = (play.strength >= c.GIRAFFE) & (play.strength <= c.HIPPO) & (play.strength != c.SNAKE)
    late = (play.strength == c.PARROT) | is_skunk | (play.strength == c.CROCODILE)
    eaters_gone = _opp_eaters(before.queue) > _opp_eaters(after.queue)
    opp_monkey = _has(before.queue, c.MONKEY + c.SPECIES)
    opp_target = target > c.SPECIES
    threat = ((jnp.uint32(_THREATS) >> strength_of(target).astype(jnp.uint32)) & 1) != 0
    reach = 1.0 - _ratio(play.victim, n)
    worth = 1.5 * threat + 1.0 * (threat & (strength_of(target) != c.ZEBRA) & (strength_of(target) != c.LION))
    values = (
        *plain,
        *skunks,
        _bonus(play, before, after, change, target),
        _online(play, before, target, n),
        change.my_gain,
        change.opp_gain,
        change.my_lost,
        change.opp_lost,
        _positions(after.queue) - _positions(before.queue),
        _is_mine(field(after.queue, 0)) | _is_mine(field(after.queue, 1)),
        jnp.maximum(_threats(before.queue) - _threats(after.queue), 0),
        jnp.where(opp_target, token_points(target), 0),
        jnp.where(opp_target, worth + 0.5 * reach, -0.8 * token_points(target)),
        jnp.where(is_skunk, change.opp_lost - change.my_lost, 0),
        jnp.where(is_monkey, 1.0 * eaters_gone + 0.8 * opp_monkey, 0.0),
        recurring & (ply <= 3),
        late & (ply >= 8),
    )
    return Features(*(jnp.asarray(value).astype(jnp.float32) for value in values))


class _Change:
    """Points that moved in the turn, i32[] each."""

    def __init__(self, before: Zones, after: Zones):
        mine, other = jnp.int32(0), jnp.int32(1)
        gained, lost = after.bar & ~before.bar, after.out & ~before.out
        self.my_gain, self.opp_gain = species_points(of_seat(gained, mine)), species_points(of_seat(gained, other))
        self.my_lost, self.opp_lost = species_points(of_seat(lost, mine)), species_points(of_seat(lost, other))


def mine_first(table: Zones, me: jax.Array) -> Zones:
    """Returns the table with the seats exchanged if `me` is seat 1, so that I am always seat 0."""

    def swap(cards: jax.Array) -> jax.Array:
        turned = (cards >> c.SPECIES) | (cards & jnp.uint32(c.ALL_SPECIES)) << c.SPECIES
        return jnp.where(me == 0, cards, turned)

    queue = jnp.where(me == 0, table.queue, c.swap_owners(table.queue))
    return Zones(queue=queue, bar=swap(table.bar), out=swap(table.out))


def _material(table: Zones, hand: jax.Array, *, skunks_only: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Section 11.1 in three parts (bar, front, the rest), of all cards or of the skunks alone."""
    only = jnp.uint32(1 if skunks_only else c.ALL_SPECIES)
    mine, other = jnp.int32(0), jnp.int32(1)

    def points(cards: jax.Array, seat: jax.Array) -> jax.Array:
        return species_points(of_seat(cards, seat) & only)

    bar = points(table.bar, mine) - points(table.bar, other)
    out = points(table.out, other) - points(table.out, mine)
    n = c.length(table.queue)
    front, back = jnp.float32(0.0), jnp.float32(0.0)
    for place in range(PLACES - 1):
        token = field(table.queue, place)
        worth = _signed_points(token)
        if skunks_only:
            worth = jnp.where(strength_of(token) == c.SKUNK, worth, 0)
        behind = _ratio(jnp.int32(place), n)
        front += (1.0 - behind) * worth
        back += behind * worth
    rest = 0.3 * back + 0.5 * out + 0.1 * species_points(hand & only)
    return bar, front, rest


def _bonus(play: Play, before: Zones, after: Zones, change: _Change, target: jax.Array) -> jax.Array:
    """Section 11.2."""
    mine = [_offset(after.queue, s) for s in (c.KANGAROO, c.GIRAFFE, c.LION)]
    kangaroo, giraffe, lion = mine
    opp_lost, my_lost = change.opp_lost, change.my_lost
    skunk = jnp.where(opp_lost >= 5, 3.0, jnp.where(opp_lost >= 3, 1.5, 0.0))
    skunk = jnp.where((opp_lost == 0) & (my_lost > 0), -2.0, skunk)
    copied = strength_of(field(before.queue, play.copied))
    seal = jnp.where(change.my_gain > change.opp_gain, 1.5, jnp.where(change.opp_gain > change.my_gain, -1.0, 0.0))
    more = _number_of_mine(after.queue) > _number_of_mine(before.queue)
    first = (field(after.queue, place) for place in (0, 1))
    leading = 0.5 * sum(jnp.where(_is_mine(token), token_points(token), 0) for token in first)
    by_species = {
        c.SKUNK: skunk,
        c.PARROT: jnp.where(target > c.SPECIES, 0.5, -0.5) * token_points(target),
        c.KANGAROO: jnp.where(kangaroo <= 1, 1.0, 0.0),
        c.MONKEY: jnp.where(opp_lost >= 4, 2.5, 0.0),
        c.CHAMELEON: 0.1 * copied,
        c.SEAL: seal,
        c.ZEBRA: jnp.where(_opp_eaters(after.queue) > 0, 1.5, -0.5),
        c.GIRAFFE: jnp.where(giraffe == 0, 1.5, jnp.where(giraffe == 1, 0.5, 0.0)),
        c.SNAKE: jnp.where(more, leading, 0.0),
        c.CROCODILE: 0.3 * opp_lost,
        c.LION: jnp.where(lion == 0, 2.0, 0.0),
    }
    total = jnp.float32(0.0)
    for species, bonus in by_species.items():
        total = jnp.where(play.strength == species, bonus, total)
    return total


def _online(play: Play, before: Zones, target: jax.Array, n: jax.Array) -> jax.Array:
    """Section 11.3; looks at the table before the turn only."""
    seen = of_seat(before.bar | before.out | c.cards_in(before.queue, PLACES - 1), jnp.int32(1))

    def saw(species: int) -> jax.Array:
        return ((seen >> (species - 1)) & 1) != 0

    chameleon = _has(before.queue, c.CHAMELEON) | _has(before.queue, c.CHAMELEON + c.SPECIES)
    crocodile = jnp.where(chameleon, 5.0, jnp.where(saw(c.CHAMELEON), 0.0, -1.0))
    strengths = [strength_of(field(before.queue, place)) for place in range(PLACES - 1)]
    top = rules.largest(strengths, jnp.int32(c.LION + 1))
    second = rules.largest(strengths, top)
    net = jnp.int32(0)
    for place, strength in enumerate(strengths):
        hit = (strength >= second) & (strength > c.SKUNK)
        net -= jnp.where(hit, _signed_points(field(before.queue, place)), 0)
    skunk = jnp.where(net >= 4, 4.0, jnp.where(net >= 2, 2.0, jnp.where(net <= -2, -3.0, 0.0)))
    skunk = jnp.where(second == 0, -1.5, skunk)
    lion = jnp.where(_has(before.queue, c.LION + c.SPECIES), -5.0, jnp.where(saw(c.LION), 3.0, -2.0))
    points = token_points(target)
    theirs = 0.3 * points + 2.0 * (1.0 - _ratio(play.victim, n))
    parrot = jnp.where(target == 0, 0.0, jnp.where(target > c.SPECIES, theirs, -0.5 * points))
    total = jnp.where(play.strength == c.CROCODILE, crocodile, 0.0)
    total = jnp.where(play.strength == c.SKUNK, skunk, total)
    total = jnp.where(play.strength == c.LION, lion, total)
    return jnp.where(play.strength == c.PARROT, parrot, total)


# ---- small measurements; my tokens are 1..12 ------------------------------------------------------------------------


def _is_mine(token: jax.Array) -> jax.Array:
    return (token != 0) & (token <= c.SPECIES)


def _signed_points(token: jax.Array) -> jax.Array:
    return jnp.where(token > c.SPECIES, -1, 1) * token_points(token)


def _ratio(place: jax.Array, n: jax.Array) -> jax.Array:
    """place / n for n <= 5 without a division; 0 for an empty queue."""
    inverse = jnp.where(n == 1, 1.0, jnp.where(n == 2, 0.5, jnp.where(n == 3, 1 / 3, jnp.where(n == 4, 0.25, 0.2))))
    return jnp.where(n == 0, 0.0, place * inverse)


def _positions(queue: jax.Array) -> jax.Array:
    """Q of section 11.4."""
    total = jnp.float32(0.0)
    for place, worth in enumerate((0.53, 0.37, 0.25, 0.27)):
        token = field(queue, place)
        total += worth * jnp.where(token > c.SPECIES, -0.6, 1.0) * token_points(token)
    return total


def _has(queue: jax.Array, token: int) -> jax.Array:
    """bool[]: whether a card is in the queue."""
    return rules.any_of(field(queue, place) == token for place in range(PLACES - 1))


def _offset(queue: jax.Array, token: int) -> jax.Array:
    """i32[]: the place of a card, PLACES if it is not there."""
    place = jnp.int32(PLACES)
    for i in range(PLACES - 1):
        place = jnp.where(field(queue, i) == token, i, place)
    return place


def _threats(queue: jax.Array) -> jax.Array:
    """T of section 11.4."""
    cards = of_seat(c.cards_in(queue, PLACES - 1), jnp.int32(1)) << 1  # bit = strength
    return lax.population_count(cards & jnp.uint32(_THREATS)).astype(jnp.int32)


def _opp_eaters(queue: jax.Array) -> jax.Array:
    """H of section 11.4: the other's hippos and crocodiles in the queue."""
    return sum(_has(queue, s + c.SPECIES).astype(jnp.int32) for s in _EATERS)  # type: ignore[return-value]


def _number_of_mine(queue: jax.Array) -> jax.Array:
    return lax.population_count(of_seat(c.cards_in(queue, PLACES - 1), jnp.int32(0))).astype(jnp.int32)
