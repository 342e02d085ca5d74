"""The holders of seats, drawn when a game starts and fixed until it ends.

Every lane carries the *controllers* of its game (`Lanes.controllers`, i8[P]), so an opponent never changes in the
middle of a game (PufferLib 620). Controller 0 is the learner, 1 .. M are scripted bots; `jaxrl.league.pool` adds frozen
snapshots of the learner behind them. Here are the bots, and the fixed mixes of the configuration key `seats`.

Holders are drawn for *sides* (`Env.sides`): one controller holds all seats of a side, because they win together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.league.config import SELF, SeatMix
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env, Key, State
from jaxrl_envs.shared import kernels

LEARNER = 0
Switch = Callable[[State, jax.Array, Key], jax.Array]


@dataclasses.dataclass(frozen=True)
class Seats:
    """Base of every way to fill the seats; it holds the scripted bots."""

    sides: tuple[int, ...]  # sides of the P seats, see `Env.sides`
    bots: tuple[str, ...]  # controller i is bot ``bots[i - 1]``
    switch: Switch | None  # `Env.bot_switch` of them, None without bots

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all controllers, in the order of their numbers."""
        return (SELF, *self.bots)

    @property
    def num_sides(self) -> int:
        """The number of sides, n."""
        return max(self.sides) + 1

    def seated(self, holders: jax.Array) -> jax.Array:
        """Returns the controllers of the seats, [P], from those of the sides, [n]."""
        return holders if self.num_sides == len(self.sides) else holders[np.array(self.sides)]

    def holders(self, controllers: jax.Array) -> jax.Array:
        """The controllers of the sides, [n], from those of the seats, [P]: all seats of a side have the same."""
        first = [self.sides.index(side) for side in range(self.num_sides)]
        return controllers if self.num_sides == len(self.sides) else controllers[np.array(first)]

    @property
    def varied(self) -> bool:
        """Whether seats can be held by others than the learner; if not, drawing holders costs nothing."""
        raise NotImplementedError

    def deal(self, key: Key, odds: Any) -> jax.Array:
        """Returns the controllers of one new game, i8[P]; `odds` are one lane's."""
        raise NotImplementedError

    # ---- for pools alone: without one, state and results are None ----

    def init(self, params: Any) -> Any:
        """Returns the pool before the first update; None without a pool."""
        del params
        return None

    def odds(self, pool: Any, lane_ids: jax.Array) -> Any:
        """Returns what `deal` needs of the pool, with leading axis B; `lane_ids` are global lane numbers, u32[B]."""
        del pool, lane_ids
        return None

    def no_results(self) -> Any:
        """Returns the results of no games."""
        return None

    def results(self, controllers: jax.Array, returns: jax.Array, over: jax.Array) -> Any:
        """Returns the result of one lane's game: controllers i8[P], returns f32[P], bool[] whether it has ended."""
        del controllers, returns, over
        return None

    def learn(self, pool: Any, results: Any) -> Any:
        """Returns the pool after the games of one update."""
        del results
        return pool

    def due(self, pool: Any, number: jax.Array | int) -> jax.Array | bool:
        """Returns whether `renew` would take a snapshot."""
        del pool, number
        return False

    def renew(self, pool: Any, params: Any, number: jax.Array) -> Any:
        """Returns the pool after update `number` - 1 has made new parameters."""
        del params, number
        return pool

    def metrics(self, pool: Any, results: Any) -> Metrics:
        """Returns metrics of the opponents, by TensorBoard names."""
        del pool, results
        return {}

    def override(self, state: State, controller: jax.Array, action: jax.Array, key: Key) -> jax.Array:
        """Replaces the network's action where a bot holds the seat. `controller`: i8[S], of the seats asked now;
        `action`: i32[S], the network's; `key`: the bots' randomness. Returns i32[S]."""
        if self.switch is None:
            return action
        index = jnp.clip(controller.astype(jnp.int32) - 1, 0, len(self.bots) - 1)
        choice = self.switch(state, index if state.current_player.ndim else index[0], key)
        held = (controller != LEARNER) & (controller <= len(self.bots))
        return jnp.where(held, jnp.reshape(choice, action.shape).astype(jnp.int32), action)


@dataclasses.dataclass(frozen=True)
class MixedSeats(Seats):
    """The configured `seats` as arrays; M mixes, N = the most bots in one of them."""

    cumulative: np.ndarray  # f32[M], cumulative probabilities of the mixes
    learners: np.ndarray  # i32[M], sides of the learner
    choices: np.ndarray  # i8[M, N], controllers of the other sides
    num_choices: np.ndarray  # i32[M]

    @property
    def varied(self) -> bool:
        return bool(self.bots)

    def deal(self, key: Key, odds: Any) -> jax.Array:
        del odds
        sides = self.num_sides
        if not self.varied:
            return jnp.zeros(len(self.sides), jnp.int8)
        uniform = jax.random.uniform(key, (1 + 2 * sides,))
        mix = sum(((uniform[0] >= bound).astype(jnp.int32) for bound in self.cumulative[:-1]), jnp.int32(0))
        rank = random_ranks(uniform[1 : 1 + sides])
        count = jnp.asarray(self.num_choices)[mix]
        choice = jnp.minimum((uniform[1 + sides :] * count).astype(jnp.int32), count - 1)
        bot = jnp.asarray(self.choices)[mix][jnp.maximum(choice, 0)]
        return self.seated(jnp.where(rank < jnp.asarray(self.learners)[mix], jnp.int8(LEARNER), bot))


def random_ranks(uniform: jax.Array) -> jax.Array:
    """Returns a random permutation of 0 .. n - 1, i32[n], from uniform numbers f32[n], without a sort."""
    chex.assert_rank(uniform, 1)
    before = np.tri(uniform.shape[0], k=-1, dtype=bool)  # of equal numbers the first one comes first
    own, other = uniform[:, None], uniform[None, :]
    return kernels.total((other < own) | ((other == own) & before))


def make_mixed_seats(mixes: Sequence[SeatMix], env: Env) -> MixedSeats:
    """Returns the configured mixes `seats` for `env`; both were checked against each other before
    (`jaxrl.config.check_game`)."""
    sides = env.num_sides
    names: list[str] = []
    learners, choices = [], []
    for mix in mixes:
        count = sides if mix.learners == "all" else int(mix.learners)
        used = tuple(mix.bots) if count < sides else ()
        names += [name for name in dict.fromkeys(used) if name not in names]
        learners.append(count)
        choices.append([names.index(name) + 1 for name in used])
    width = max(1, *(len(row) for row in choices)) if choices else 1
    weights = np.array([mix.weight for mix in mixes], np.float64)
    return MixedSeats(
        sides=env.sides,
        bots=tuple(names),
        switch=env.bot_switch(names) if names else None,
        cumulative=np.cumsum(weights / weights.sum()).astype(np.float32),
        learners=np.array(learners, np.int32),
        choices=np.array([row + [0] * (width - len(row)) for row in choices], np.int8),
        num_choices=np.array([len(row) for row in choices], np.int32),
    )
