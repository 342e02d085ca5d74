"""The opponent pool: opponents are drawn per game inside the compiled loop, weighted by results.

The members of this league have roles: the *main* agent is the policy that learns, *past* ones are frozen snapshots of
it, *exploiters* are best responses to it (`jaxrl.training.exploit.league`), *bots* are scripted.

Against the current policy itself ("self") every seat is the learner's. Against any other entry of the pool the learner
holds all seats of `league.learners` sides (`Env.sides`: by default every seat is one) drawn at random, and copies of
that one opponent hold the rest until the game is over.

Arrays over opponents are indexed by controller: 0 the policy itself, 1 .. M the scripted bots in the order of the
configuration, M + 1 .. M + K the snapshot slots. E = M + K.

**Cost.** Bots act through `Env.bot_switch`. Lane l can only meet the snapshot in slot l mod K, so that all snapshots
together cost every lane one more pass through a network, whatever K is: parameters [K, ...] are vmapped over lanes
[B / K, K]. The price is a limit: slot g meets at most one lane in K, so its share is at most 1 / K, also while the
other slots are still empty; what it cannot take goes to the others.

**Members.** A new member takes an empty slot, or replaces the oldest. The slot that is overwritten next is not drawn
any more from the moment the one before it was written, so games against it end in time. Games that last longer than
that are dealt again (`league/redealt` counts them). A pool of one slot has no such rest: all its games are dealt again.
With `league.margin` a snapshot is *promoted* into the pool only when the learner has gained that many rating points
since the last one, and an exploiter only when it is rated that many above the learner; a member that falls three times
as many below the learner is *pruned*: it is not drawn any more, and its slot is empty.

**Weights.** Self has its own share; the others divide the rest by `league.weighting`: three rules read the learner's
win rates (the prioritised ones after AlphaStar, Vinyals et al. 2019, https://doi.org/10.1038/s41586-019-1724-z), one
reads ratings. Without any opponent to draw, all games are against itself.

**Elo.** After every update ratings move by `elo_update`, K = 8 points per game and at most C = 100 points per
update. The first bot stays at 1000, and without bots the others stay where they are: a snapshot begins with the
learner's rating, an exploiter as far above it as its games have shown. Above two sides a "game" is the learner's best
side against the best of the opponent's (`sides.ahead`), of which equals win as many as they hold sides; a side earns
the mean of its seats. Win rates, by which opponents are drawn, are of `Env.outcome` of the learner's best side.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl.config import Config
from jaxrl.league.config import SELF, SNAPSHOTS, LeagueConfig, league_bots
from jaxrl.league.elo import elo_update, points
from jaxrl.league.seats import LEARNER, Seats, make_mixed_seats, random_ranks
from jaxrl.runs import metrics
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env, Key, select
from jaxrl_envs.contract.sides import ahead, of_sides
from jaxrl_envs.shared import kernels

PRIOR_GAMES = 4.0  # imagined games at 1/2 beside the counted ones: the first results do not decide alone
FIRST_RATING, GAIN_PER_GAME, LARGEST_GAIN = 1000.0, 8.0, 100.0
MARGINS_BELOW = 3.0  # from how many times `league.margin` below the learner a member is pruned
PAST, EXPLOITER = 0, 1  # roles of the member in a slot
NEAR = 200.0  # rating points over which the weight of an opponent falls to 1 / e, with weighting elo


class Results(NamedTuple):
    """Finished games by controller, f32[1 + E]; sums over lanes, steps and updates."""

    games: jax.Array
    score: jax.Array  # wins of the learner + half of the draws, by `Env.outcome`
    points: jax.Array  # games in which the learner's best side was ahead of the opponent's + half of the equal ones
    redealt: jax.Array  # f32[], unfinished games that were dealt again because their opponent was overwritten


@struct.dataclass
class PoolState:
    """The part of the training state that belongs to the pool. Leading axes: K slots, 1 + E controllers."""

    snapshots: Any  # parameters [K, ...]
    role: jax.Array  # i8[K], `PAST` or `EXPLOITER`
    born: jax.Array  # i32[K], update at which the member in the slot was taken, -1 = empty
    order: jax.Array  # i32[K], in which they came, -1 = empty
    mark: jax.Array  # f32[], rating of the learner when the last snapshot was taken, -inf before the first
    stale: jax.Array  # bool[1 + E], games against these are dealt again at the next update
    games: jax.Array  # f32[1 + E], with older ones counting less
    score: jax.Array  # f32[1 + E], of those
    elo: jax.Array  # f32[1 + E]


# ---- the pool as a value ------------------------------------------------------------------------------------------


def win_rates(pool: PoolState) -> jax.Array:
    """Returns f32[1 + E]: the learner's running win rates, draws counting half; 1/2 without results."""
    return (pool.score + 0.5 * PRIOR_GAMES) / (pool.games + PRIOR_GAMES)


def next_slot(pool: PoolState) -> jax.Array:
    """Returns i32[], where the next member goes: an empty slot, or that of the oldest."""
    return jnp.argmin(pool.order)


@jax.jit
def add_snapshot(
    pool: PoolState, params: Any, born: jax.Array | int, role: jax.Array | int = PAST, lead: jax.Array | float = 0.0
) -> PoolState:
    """Puts parameters into the next slot; the member that was there leaves the pool. With several seeds vmap it.

    Args:
      pool: pool with K >= 1 slots.
      params: parameters of a network like the learner's.
      born: i32[], the update after which they were taken.
      role: i8[], `PAST` or `EXPLOITER`.
      lead: f32[], rating points that it begins with above the learner.
    """
    slots, entries = pool.born.shape[0], pool.games.shape[0]
    here = jnp.arange(slots) == next_slot(pool)
    entry = jnp.arange(entries) == entries - slots + next_slot(pool)

    # Selects, not scatters: XLA aborts while it compiles these for several seeds with `Env.multi_output_fusion`.
    def put(every: jax.Array, leaf: jax.Array) -> jax.Array:
        return jnp.where(here.reshape(slots, *[1] * leaf.ndim), leaf, every)

    return pool.replace(
        snapshots=jax.tree.map(put, pool.snapshots, params),
        role=jnp.where(here, jnp.asarray(role, jnp.int8), pool.role),
        born=jnp.where(here, jnp.asarray(born, jnp.int32), pool.born),
        order=jnp.where(here, jnp.max(pool.order) + 1, pool.order),
        mark=jnp.where(role == PAST, pool.elo[LEARNER], pool.mark),
        stale=pool.stale | entry,
        games=jnp.where(entry, 0.0, pool.games),
        score=jnp.where(entry, 0.0, pool.score),
        elo=jnp.where(entry, pool.elo[LEARNER] + lead, pool.elo),
    )


def redeal_all(pool: PoolState) -> PoolState:
    """Marks every game in progress to be replaced by a new one at the next update, e.g. after the pool was filled."""
    return pool.replace(stale=jnp.ones_like(pool.stale))


class OpponentStats(NamedTuple):
    """Opponent statistics that the rules read, f32[E] each."""

    relative: jax.Array  # weights from the configuration
    rate: jax.Array  # win rates of the learner, 0 to 1
    lead: jax.Array  # rating points above the learner


def weights(league: LeagueConfig, them: OpponentStats) -> jax.Array:
    """Returns relative weights of the opponents, f32[E]; at least `league.floor`, unless the rule is "fixed"."""
    chex.assert_equal_shape(them)
    if league.weighting == "fixed":
        return them.relative
    weight = {
        "adaptive": 1.0 - them.rate,
        "pfsp_hard": jnp.square(1.0 - them.rate),
        "pfsp_even": them.rate * (1.0 - them.rate),
        "elo": jnp.exp(-jnp.abs(them.lead) / NEAR),
    }[league.weighting]
    return jnp.maximum(weight, league.floor)


# ---- the pool at work ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class League(Seats):
    """A configured pool. M = len(bots), K = slots."""

    config: Config  # the whole configuration; its section `league` is read
    outcome: Callable[[jax.Array], jax.Array]  # `Env.outcome`
    slots: int
    relative: np.ndarray  # f32[E], weights of the entries with `league.weighting: fixed`

    @property
    def varied(self) -> bool:
        """Whether there are opponents other than the learner itself."""
        return bool(self.bots) or self.slots > 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of controllers 0 .. E: self, the bots, snapshot_0 .. snapshot_{K-1}."""
        return (SELF, *self.bots, *(f"snapshot_{slot}" for slot in range(self.slots)))

    def init(self, params: Any) -> PoolState:
        """Returns the pool before the first update, without snapshots; `params` are a network's."""
        entries = len(self.names)
        return PoolState(
            snapshots=jax.tree.map(lambda leaf: jnp.zeros((self.slots, *leaf.shape), leaf.dtype), params),
            role=jnp.zeros(self.slots, jnp.int8),
            born=jnp.full(self.slots, -1, jnp.int32),
            order=jnp.full(self.slots, -1, jnp.int32),
            mark=jnp.float32(-jnp.inf),
            stale=jnp.zeros(entries, bool),
            games=jnp.zeros(entries, jnp.float32),
            score=jnp.zeros(entries, jnp.float32),
            elo=jnp.full(entries, FIRST_RATING, jnp.float32),
        )

    # ---- drawing opponents ----

    def present(self, pool: PoolState) -> jax.Array:
        """Returns bool[1 + E]: whether an entry exists: the learner, bots, and the members in slots."""
        return jnp.concatenate([jnp.ones(1 + len(self.bots), bool), pool.born >= 0])

    def drawable(self, pool: PoolState) -> jax.Array:
        """bool[E]: whether an opponent can be drawn: bots, and snapshots that are not about to be overwritten."""
        there = self.present(pool)[1:]
        if self.slots < 2:
            return there
        return there & (jnp.arange(there.shape[0]) != len(self.bots) + next_slot(pool))

    def wanted_shares(self, pool: PoolState) -> jax.Array:
        """Returns shares of the games by the weights, f32[1 + E]; they sum to 1."""
        league = self.config.league
        them = OpponentStats(
            relative=jnp.asarray(self.relative), rate=win_rates(pool)[1:], lead=pool.elo[1:] - pool.elo[LEARNER]
        )
        weight = jnp.where(self.drawable(pool), weights(league, them), 0.0)
        total = jnp.sum(weight)
        self_play = league.self_play if SELF in league.opponents else 0.0
        own = jnp.where(total > 0.0, jnp.float32(self_play), 1.0)
        return jnp.concatenate([own[None], (1.0 - own) * weight / jnp.where(total > 0.0, total, 1.0)])

    def lane_shares(self, pool: PoolState) -> jax.Array:
        """Returns shares by lane, f32[max(K, 1), 1 + E]: lane l draws from row l mod K. The mean of the rows equals
        `wanted_shares` as long as no slot should have more than one game in K."""
        share = self.wanted_shares(pool)
        if not self.slots:
            return share[None]
        first = 1 + len(self.bots)
        others, wanted = share[:first], share[first:]
        snapshot = jnp.minimum(self.slots * wanted, 1.0)[:, None]  # f32[K, 1]
        empty = jnp.sum(others) <= 0.0
        others = jnp.where(empty, (jnp.arange(first) == LEARNER).astype(jnp.float32), others)
        rest = (1.0 - snapshot) * others / jnp.sum(others)
        return jnp.concatenate([rest, snapshot * jnp.eye(self.slots)], axis=1)

    def shares(self, pool: PoolState) -> jax.Array:
        """Returns shares of the games for which each opponent is drawn, f32[1 + E]."""
        return jnp.mean(self.lane_shares(pool), axis=0)

    def odds(self, pool: PoolState, lane_ids: jax.Array) -> jax.Array:
        """Returns cumulative shares of each lane, f32[B, 1 + E], from its global number, u32[B]."""
        chex.assert_rank(lane_ids, 1)
        rows = jnp.cumsum(self.lane_shares(pool), axis=1)
        return rows[(lane_ids % rows.shape[0]).astype(jnp.int32)]

    def deal(self, key: Key, odds: jax.Array) -> jax.Array:
        """Returns the controllers of one new game, i8[P], from cumulative shares f32[1 + E]."""
        uniform = jax.random.uniform(key, (1 + self.num_sides,))
        entry = kernels.total(odds <= uniform[0] * odds[-1]).astype(jnp.int8)  # never one whose share is 0
        learner = random_ranks(uniform[1:]) < self.config.league.learners
        return self.seated(jnp.where(learner, jnp.int8(LEARNER), entry))

    # ---- results ----

    def no_results(self) -> Results:
        nothing = jnp.zeros(len(self.names), jnp.float32)
        return Results(games=nothing, score=nothing, points=nothing, redealt=jnp.float32(0.0))

    def results(self, controllers: jax.Array, returns: jax.Array, over: jax.Array) -> Results:
        """Returns the result of one lane's game, from the learner's point of view. `controllers`: i8[P]; `returns`:
        f32[P], of the whole game; `over`: bool[], whether it has ended."""
        chex.assert_equal_shape((controllers, returns))
        own = self.holders(controllers) == LEARNER
        returns = of_sides(returns, self.sides)
        outcome = self.outcome(returns)
        best, others = (kernels.most(jnp.where(held, outcome, -1)) for held in (own, ~own))
        returned, theirs = (kernels.most(jnp.where(held, returns, -jnp.inf)) for held in (own, ~own))
        won = jnp.where(best > others, 1, best)  # also where only the learner's own sides share the first place
        games = (over & (np.arange(len(self.names)) == kernels.most(controllers))).astype(jnp.float32)

        def counted(result: jax.Array) -> jax.Array:
            return games * jnp.where(kernels.most(~own), 0.5 * (1.0 + result.astype(jnp.float32)), 0.5)

        points = counted(ahead(best, others, returned, theirs))
        return Results(games=games, score=counted(won), points=points, redealt=jnp.float32(0.0))

    def learn(self, pool: PoolState, results: Results) -> PoolState:
        """The pool after the games of one update (sums over all devices), in which stale games were dealt again."""
        kept = jnp.exp2(-results.games / self.config.league.half_life)
        return self.pruned(
            pool.replace(
                games=pool.games * kept + results.games,
                score=pool.score * kept + results.score,
                elo=self.rate(pool.elo, results),
                stale=jnp.zeros_like(pool.stale),
            )
        )

    @property
    def handicap(self) -> float:
        """Rating points by which equals that hold the other sides together are ahead of the learner's."""
        return -points(self.config.league.learners / self.num_sides)

    def rate(self, elo: jax.Array, results: Results) -> jax.Array:
        """Returns ratings f32[1 + E] after the games of one update, see `jaxrl.league.elo.elo_update`."""
        together = elo[1:] + self.handicap
        own, others = elo_update(
            elo[LEARNER], together, results.games[1:], results.points[1:], k=GAIN_PER_GAME, largest=LARGEST_GAIN
        )
        moving = jnp.arange(others.shape[0]) > 0 if self.bots else jnp.zeros(others.shape[0], bool)
        return jnp.concatenate([own[None], jnp.where(moving, others - self.handicap, elo[1:])])

    def pruned(self, pool: PoolState) -> PoolState:
        """Returns the pool without members far weaker than the learner, if `league.margin` is set."""
        margin = self.config.league.margin
        if not margin or not self.slots:
            return pool
        weak = pool.elo[-self.slots :] < pool.elo[LEARNER] - MARGINS_BELOW * margin
        return pool.replace(born=jnp.where(weak, -1, pool.born), order=jnp.where(weak, -1, pool.order))

    def due(self, pool: PoolState, number: jax.Array | int) -> jax.Array | bool:
        league = self.config.league
        if not self.slots or not league.snapshot_every:
            return False
        gained = pool.elo[LEARNER] - pool.mark >= league.margin if league.margin else True
        return (number % league.snapshot_every == 0) & gained

    def renew(self, pool: PoolState, params: Any, number: jax.Array) -> PoolState:
        if not self.slots or not self.config.league.snapshot_every:
            return pool
        due = self.due(pool, number)
        if kernels.on_gpu():  # a branch waits for the host
            return select(jnp.asarray(due), add_snapshot(pool, params, number), pool)
        return jax.lax.cond(due, add_snapshot, lambda pool, *_: pool, pool, params, number)

    def metrics(self, pool: PoolState, results: Results) -> Metrics:
        """Returns metrics by opponent; the win rate of one that is absent or was never met is NaN."""
        share, rate, there = self.shares(pool), win_rates(pool), self.present(pool)
        found = {"league/redealt": metrics.total(results.redealt), "league/elo/self": metrics.last(pool.elo[LEARNER])}
        for number, name in enumerate(self.names):
            found[f"league/share/{name}"] = metrics.last(share[number])
            found[f"league/games/{name}"] = metrics.total(results.games[number])
            if number != LEARNER:
                known = there[number] & (pool.games[number] > 0.0)
                found[f"league/win_rate/{name}"] = metrics.last(jnp.where(known, rate[number], jnp.nan))
                found[f"league/elo/{name}"] = metrics.last(jnp.where(there[number], pool.elo[number], jnp.nan))
        return found


def make_seats(config: Config, env: Env) -> Seats:
    """Returns the seats of a training: a pool if `league.opponents` is set, else the mixes of `seats`."""
    return make_league(config, env) if config.league.opponents else make_mixed_seats(config.seats, env)


def make_league(config: Config, env: Env) -> League:
    """Returns the pool of a configuration with `league.opponents`, which was compared with `env` (`check_game`)."""
    league = config.league
    bots = league_bots(league, env)
    weights = [league.weights.get(name, 1.0) for name in bots]
    weights += [league.weights.get(SNAPSHOTS, 1.0)] * league.snapshots
    return League(
        sides=env.sides,
        bots=bots,
        switch=env.bot_switch(bots) if bots else None,
        config=config,
        outcome=env.outcome,
        slots=league.snapshots,
        relative=np.array(weights, np.float32),
    )
