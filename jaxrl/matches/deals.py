"""Duplicate deals: every deal is played once with the candidate on each side, and equal opponents on the others.

The candidate holds all seats of its side (`Env.sides`, by default one seat each), so the luck of the deal cancels out:
the mean over the sides of one deal is one sample, and intervals are over deals.

Shape letters: D deals, P seats, n sides (and rotations of the candidate through them), N = D * n games side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxrl import xla
from jaxrl.matches.match import GameKeys, Games, SeatedPlayer, figure_names, play_match
from jaxrl.matches.outcomes import Outcomes, outcomes_of
from jaxrl.players.player import MAX_STEPS, endless
from jaxrl.runs import distributed
from jaxrl_envs.contract.env import Env, Key, PyTree
from jaxrl_envs.contract.sides import of_sides
from jaxrl_envs.host.callbacks import callback_failure
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError

FINAL_DEALS, TRAINING_DEALS, EXPLOIT_DEALS = 0, 1, 2
"""Streams of deals under one evaluation seed: results are never measured on the deals that chose a checkpoint."""

LANES = 2048  # games side by side on one device, which bounds the device memory
CANDIDATE, OTHER = 0, 1  # the holders of seats
STARTER = "starter"  # a figure of `Env.episode_stats`: 1 for the seat that started


def seats_held(env: Env) -> tuple[int, int]:
    """Returns the most seats that the candidate and the others hold in a game: `SeatedPlayer.slots`."""
    sizes = [env.sides.count(side) for side in range(env.num_sides)]
    return max(sizes), max(1, env.num_players - min(sizes))


class DuplicateDeals:
    """Plays D deals, each once in every rotation of the sides.

    Deals are spread over the devices of all processes of a training; each device plays its games to the end.
    """

    def __init__(
        self,
        env: Env,
        seated: Callable[[PyTree], Sequence[SeatedPlayer]],
        *,
        deals: int,
        lanes: int = LANES,
        max_steps: int = MAX_STEPS,
        plain: bool = False,
        surprise: bool = False,
        devices: Sequence[jax.Device] = (),
    ):
        """Compiles at the first call.

        Args:
          seated: the arguments of a call -> the players, for the holders `CANDIDATE` and `OTHER`.
          plain: whether to compile with `xla.plain_options`, see `Player`.

        Attributes:
          compiled: (arguments, deal numbers u32[D'], base) -> Games with leading axes [D', rotation], on the devices.
          portion: D', the deals of one call.
        """
        self._env, self._deals, self._seated, self._max_steps = env, deals, seated, max_steps
        self._surprise = surprise
        self._names = figure_names(env)
        devices = devices or distributed.devices(max(1, deals) if distributed.count() == 1 else None)
        self._mesh = Mesh(np.array(devices), ("env",))
        most = max(1, lanes // env.num_sides) * len(devices)
        portions = -(-deals // most)
        self.portion = -(-deals // (portions * len(devices))) * len(devices)
        self.compiled = jax.jit(self._sharded(), compiler_options=xla.plain_options() if plain else None)

    def placed(self, tree: PyTree) -> PyTree:
        """Returns a copy on every device: parameters may come from a training on fewer (or more) devices."""
        return distributed.place(tree, NamedSharding(self._mesh, PartitionSpec()))

    def __call__(self, arguments: PyTree, base: Key) -> Games:
        """Returns the games with leading axes [D, rotation], on the host. Raises UserError: a player chose an illegal
        action, a game did not end, or the engine of a game on the host failed. `arguments`: arguments for `seated`, the
        same on every device; `base`: key[], from which all deals are made."""
        (arguments, base), parts = self.placed((arguments, base)), []
        for first in range(0, self._deals, self.portion):
            deals = np.arange(first, first + self.portion, dtype=np.uint32)
            found, wrong = None, None
            try:
                found = jax.block_until_ready(self.compiled(arguments, deals, base))
            except jax.errors.JaxRuntimeError as error:
                wrong = callback_failure(error, self._env.id) or error
                wrong.__cause__ = error if wrong is not error else None
            distributed.raise_together(wrong)  # before all wait for each other's games
            parts.append(distributed.fetch(found))
        games: Games = jax.tree.map(lambda *xs: np.concatenate(xs)[: self._deals], *parts)
        if not games.over.all():
            raise endless(self._env.id, int(games.length.max()), int((~games.over).sum()))
        if games.illegal.any():
            raise UserError(
                f"{int(games.illegal.sum())} games ended by an illegal action: a player breaks the rules, or the game "
                f"has offered it no legal one; run `jaxrl check` on {self._env.id}, which tries its bots and masks."
            )
        return games._replace(figures={name: games.figures[name] for name in self._names})

    def _sharded(self) -> Callable[..., Games]:
        spec = PartitionSpec("env")
        return jax.shard_map(
            self._play,
            mesh=self._mesh,
            in_specs=(PartitionSpec(), spec, PartitionSpec()),
            out_specs=spec,
            check_vma=False,
        )

    def _play(self, arguments: PyTree, deals: jax.Array, base: Key) -> Games:
        """Plays the deals u32[D] on one device: Games with leading axes [D, rotation]."""
        sides = self._env.num_sides
        number, rotation = jnp.repeat(deals, sides), jnp.tile(jnp.arange(sides), deals.shape[0])  # [N]
        keys, holders = deal_schedule(self._env, base, number, rotation)
        seated = self._seated(arguments)
        games = play_match(self._env, seated, holders, keys, self._max_steps, surprise=self._surprise)
        return jax.tree.map(lambda x: x.reshape(-1, sides, *x.shape[1:]), games)


def deal_schedule(env: Env, base: Key, number: jax.Array, rotation: jax.Array) -> tuple[GameKeys, jax.Array]:
    """Returns the deal schedule of N games: their keys, and the holders of their seats, i32[N, P]. `base`: key[], from
    which all deals are made; `number`: u32[N], of the deals; `rotation`: i32[N], the candidate's side."""
    chex.assert_rank((number, rotation), 1)
    deal = jax.vmap(lambda d: jax.random.split(jax.random.fold_in(base, d), 3))(number)  # key[N, 3]
    keys = GameKeys(
        deal=jax.vmap(prng.from_key)(deal[:, 0]),
        step=jax.vmap(prng.from_key)(deal[:, 1]),
        seat=jax.vmap(lambda k, r: prng.from_key(jax.random.fold_in(k, r)))(deal[:, 2], rotation),
    )
    return keys, jnp.where(np.array(env.sides) == rotation[:, None], CANDIDATE, OTHER)


class EachGame(NamedTuple):
    """The single games of D deals and n rotations, [D, n]."""

    returned: np.ndarray  # f32, of the candidate's side
    surprise: np.ndarray | None  # f32, of the candidate, see `jaxrl.matches.match`; None if it was not measured
    length: np.ndarray  # i32, steps


class Samples(NamedTuple):
    """One sample per deal: means over the n games in which the candidate was every side once."""

    candidate: dict[str, np.ndarray]  # f64[D] by figure
    opponents: dict[str, np.ndarray]  # f64[D] by figure, mean over the other sides; empty in a game of one side
    games: int
    outcomes: Outcomes | None  # every single game, won, drawn or lost; None in a game of one side
    each: EachGame


def samples_of(games: Games, env: Env) -> Samples:
    """Makes one sample per deal, and the outcome of each game, of games with leading axes [D, rotation]."""
    deals, sides = games.length.shape
    figures = {name: of_sides(values, env.sides) for name, values in games.figures.items()}
    own = np.eye(sides, dtype=bool)  # the candidate is side r in rotation r
    shown = [name for name in figures if name != STARTER]  # its mean says nothing
    return Samples(
        candidate={n: figures[n][:, own].astype(np.float64).mean(axis=1) for n in shown},
        opponents={n: figures[n][:, ~own].astype(np.float64).mean(axis=1) for n in shown if sides > 1},
        games=deals * sides,
        outcomes=outcomes_of(figures, games.length, env),
        each=EachGame(figures["return"][:, own], games.surprise, games.length),
    )
