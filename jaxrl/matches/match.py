"""Whole matches on fixed deals, inside one compiled program.

A *player* is a function of (its parameters, state, key) -> legal action: a trained network or a scripted bot. Every
deal is played once with the candidate on each side (`Env.sides`, by default one seat each), which it holds with all its
seats, and equal opponents on the others (duplicate deals), so luck of the deal falls on all alike; the mean over the
sides of one deal is one sample, and intervals are over deals.

Shape letters: D deals, P seats, n sides (and rotations of the candidate through them), N = D * n games side by side.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from envs import prng
from envs.core import Env, Key, PyTree, State, is_over, select
from envs.errors import UserError
from jaxrl import xla
from jaxrl.matches.outcomes import Outcomes, of_sides, outcomes_of

Act = Callable[..., jax.Array]
"""(params, state, key) -> i32[], a legal action for the seat asked (i32[P] in a simultaneous game); a player with a
memory takes it as the fourth argument."""

FINAL_DEALS, TRAINING_DEALS, EXPLOIT_DEALS = 0, 1, 2
"""Streams of deals under one evaluation seed: results are never measured on the deals that chose a checkpoint."""

MAX_STEPS = 20_000  # a game longer than this does not end
LANES = 2048  # games side by side on one device, which bounds the memory
BOT_PREFIX = "bot:"  # "bot:NAME" on the command line is a scripted player
STARTER = "starter"  # a figure of `Env.episode_stats`: 1 for the seat that started
_OF_THE_MEMORY = 0xFFFFFFFF  # folded into the key of a step for the memory: no player has this number
_BEFORE_THE_GAME = 0xFFFFFFFF  # the time folded into the key of a memory's beginning: no step has it


class MemoryFns(NamedTuple):
    """How a player keeps a memory over one game, e.g. what it believes about hidden cards. Pure functions.

    The memory is any pytree of arrays whose structure, shapes and dtypes never change. A player must put into it only
    what its seat may know: the functions see whole states, as a bot does.
    """

    init: Callable[[PyTree, State, jax.Array, Key], PyTree]
    """(params, state, seat, key) -> the memory of the player in `seat` (i32[]) before the first action."""

    update: Callable[[PyTree, PyTree, State, jax.Array, State, jax.Array, Key], PyTree]
    """(params, memory, before, action, after, seat, key) -> the memory after a step of a running game, by any seat."""


@dataclasses.dataclass(frozen=True)
class Player:
    """Somebody at the table.

    Attributes:
      name: for tables.
      act: how it chooses.
      params: its parameters, None for a bot.
      memory: how it remembers, None for a player that looks only at the present state. `act` then takes the memory as
        its fourth argument.
      bot: its name in `Env.bots`, empty for others.
    """

    name: str
    act: Act
    params: PyTree = None
    memory: MemoryFns | None = None
    bot: str = ""


def bot_player(env: Env, name: str) -> Player:
    """The scripted player `name` of a game."""
    bot = env.bots[name]
    return Player(name, lambda params, state, key: bot(state, key), bot=name)


class Games(NamedTuple):
    """Finished games. N games, P seats."""

    figures: dict[str, Any]  # f32[N, P]: "return" (undiscounted) and every figure of env.episode_stats
    length: Any  # i32[N], steps
    over: Any  # bool[N], False = not ended within MAX_STEPS
    illegal: Any  # bool[N], ended by an illegal action


class _Carry(NamedTuple):
    state: State
    returns: jax.Array  # f32[N, P]
    length: jax.Array  # i32[N]
    time: jax.Array  # i32[]
    memory: PyTree  # leading axis N; None without one


class GameKeys(NamedTuple):
    """The randomness of N games."""

    deal: Key  # key[N], the deals
    step: Key  # key[N], chance during the game, where the deal does not fix it
    seat: Key  # key[N], the players' own randomness


Choose = Callable[[State, jax.Array, Key, PyTree], jax.Array]
"""(state, holders i32[P], key, player 0's memory) -> the action of the seat asked, by whoever holds it."""


def play_match(
    env: Env,
    acts: Sequence[Act],
    params: Sequence[PyTree],
    holders: jax.Array,
    keys: GameKeys,
    max_steps: int = MAX_STEPS,
    memory: MemoryFns | None = None,
) -> Games:
    """Plays N games to the end, side by side.

    Args:
      env: the game.
      acts, params: the players; all of them are asked in every step, the seat's holder is heard.
      holders: i32[N, P], which player holds which seat.
      keys: key[N] each.
      max_steps: where to give up on a game without an end.
      memory: of player 0, who then holds exactly one seat of every game; nothing is paid without one.
    """

    def choose(state: State, holder: jax.Array, key: Key, remembered: PyTree) -> jax.Array:
        extra = [(remembered,) if memory and i == 0 else () for i in range(len(acts))]
        chosen = [act(params[i], state, jax.random.fold_in(key, i), *extra[i]) for i, act in enumerate(acts)]
        asked = holder[state.current_player]  # i32[], or i32[P] in a simultaneous game
        return functools.reduce(lambda rest, i: jnp.where(asked == i, chosen[i], rest), range(1, len(acts)), chosen[0])

    return play_games(env, choose, holders, keys, max_steps, memory, params[0])


def play_games(
    env: Env,
    choose: Choose,
    holders: jax.Array,
    keys: GameKeys,
    max_steps: int = MAX_STEPS,
    memory: MemoryFns | None = None,
    params: PyTree = None,
) -> Games:
    """`play_match` with any way to choose the actions; `memory` as there, with the `params` of player 0."""
    seats = jnp.argmax(holders == 0, axis=1).astype(jnp.int32)  # i32[N], player 0's

    def step(
        state: State, remembered: PyTree, holder: jax.Array, seat: jax.Array, keys: GameKeys, time: jax.Array
    ) -> tuple[State, PyTree]:
        step_key, seat_key = jax.random.fold_in(keys.step, time), jax.random.fold_in(keys.seat, time)
        action = choose(state, holder, seat_key, remembered)
        after = env.step(state, action, step_key)
        if memory is None:
            return after, None
        key = jax.random.fold_in(seat_key, _OF_THE_MEMORY)
        updated = memory.update(params, remembered, state, action, after, seat, key)
        return after, select(is_over(state), remembered, updated)

    def running(carry: _Carry) -> jax.Array:
        return jnp.any(~is_over(carry.state)) & (carry.time < max_steps)

    def body(carry: _Carry) -> _Carry:
        state, remembered = jax.vmap(step, in_axes=(0, 0, 0, 0, 0, None))(
            carry.state, carry.memory, holders, seats, keys, carry.time
        )
        return _Carry(
            state=state,
            returns=carry.returns + state.rewards,
            length=carry.length + ~is_over(carry.state),
            time=carry.time + 1,
            memory=remembered,
        )

    def remember(state: State, seat: jax.Array, key: Key) -> PyTree:
        return memory.init(params, state, seat, jax.random.fold_in(key, _BEFORE_THE_GAME)) if memory else None

    state = jax.vmap(env.init_deal)(keys.deal)
    start = _Carry(
        state=state,
        returns=jnp.zeros_like(state.rewards),
        length=jnp.zeros_like(state.terminated, jnp.int32),
        time=jnp.int32(0),
        memory=jax.vmap(remember)(state, seats, keys.seat),
    )
    end = jax.lax.while_loop(running, body, start)
    stats = jax.vmap(env.episode_stats)(end.state)
    return Games(
        figures={**stats, "return": end.returns},
        length=end.length,
        over=is_over(end.state),
        illegal=end.state.illegal_action,
    )


def figure_names(env: Env) -> list[str]:
    """The names of `Games.figures` in the game's own order, which compiled programs do not keep."""
    names: list[str] = []
    key = jax.eval_shape(lambda: jax.random.key(0))
    jax.eval_shape(lambda key: names.extend(env.episode_stats(env.init(key))), key)
    return [*names, "return"]


# ---- duplicate deals ----------------------------------------------------------------------------------------------


class Samples(NamedTuple):
    """One sample per deal: means over the n games in which the candidate was every side once."""

    candidate: dict[str, np.ndarray]  # f64[D] by figure
    opponents: dict[str, np.ndarray]  # f64[D] by figure, mean over the other sides; empty in a game of one side
    games: int
    outcomes: Outcomes | None  # every single game, won, drawn or lost; None in a game of one side


class Estimate(NamedTuple):
    """A mean over deals with the half width of its 95 % interval (normal approximation)."""

    mean: float
    half: float

    @classmethod
    def of(cls, samples: np.ndarray) -> Estimate:
        """From f64[D] independent samples; the half width is 0 for fewer than two."""
        samples = np.asarray(samples, np.float64)
        if samples.size == 0:
            return cls(math.nan, math.nan)
        spread = samples.std(ddof=1) / math.sqrt(samples.size) if samples.size > 1 else 0.0
        return cls(float(samples.mean()), float(1.96 * spread))


class DuplicateDeals:
    """Plays D deals, each once in every rotation of the sides, with a given way to play N games.

    Deals are spread over the local devices, each of which runs its games to the end by itself.
    """

    def __init__(
        self,
        env: Env,
        play: Callable[[PyTree, jax.Array, GameKeys], Games],
        *,
        deals: int,
        lanes: int = LANES,
        compiler_options: dict[str, str] | None = None,
    ):
        """Compiles at the first call.

        Args:
          env: the game.
          play: (arguments, rotation i32[N], keys) -> the finished games; the rotation is the candidate's side.
          deals: D.
          lanes: games side by side on one device.
          compiler_options: of `jax.jit`.
        """
        self._env, self._deals, self._games = env, deals, play
        devices = jax.local_devices()[: max(1, min(len(jax.local_devices()), deals))]
        self.mesh = Mesh(np.array(devices), ("env",))
        most = max(1, lanes // env.num_sides) * len(devices)
        portions = -(-deals // most)
        self._portion = -(-deals // (portions * len(devices))) * len(devices)
        self._program = jax.jit(self._sharded(), compiler_options=compiler_options)

    def __call__(self, arguments: PyTree, base: Key) -> Games:
        """The games with leading axes [D, rotation], on the host.

        Args:
          arguments: for `play`, the same on every device.
          base: key[], from which all deals are made.

        Raises:
          UserError: a player chose an illegal action, or a game did not end.
        """
        parts = []
        for first in range(0, self._deals, self._portion):
            deals = np.arange(first, first + self._portion, dtype=np.uint32)
            parts.append(jax.device_get(self._program(arguments, deals, base)))
        games = jax.tree.map(lambda *xs: np.concatenate(xs)[: self._deals], *parts)
        if not games.over.all():
            steps = int(games.length.max())
            raise UserError(
                f"{int((~games.over).sum())} games did not end within {steps} steps: a game of {self._env.id} must "
                "terminate or be truncated whoever plays."
            )
        if games.illegal.any():
            raise UserError(
                f"{int(games.illegal.sum())} games ended by an illegal action: a player breaks the rules; "
                f"run `jaxrl check` on {self._env.id}, which tries all its bots."
            )
        return games

    def _sharded(self) -> Callable[..., Games]:
        spec = PartitionSpec("env")
        return jax.shard_map(
            self._play,
            mesh=self.mesh,
            in_specs=(PartitionSpec(), spec, PartitionSpec()),
            out_specs=spec,
            check_vma=False,
        )

    def _play(self, arguments: PyTree, deals: jax.Array, base: Key) -> Games:
        """Arguments, deal numbers u32[D], a key -> Games with leading axes [D, rotation]."""
        sides = self._env.num_sides
        number, rotation = jnp.repeat(deals, sides), jnp.tile(jnp.arange(sides), deals.shape[0])  # [N]
        deal = jax.vmap(lambda d: jax.random.split(jax.random.fold_in(base, d), 3))(number)  # key[N, 3]
        keys = GameKeys(
            deal=jax.vmap(prng.from_key)(deal[:, 0]),
            step=jax.vmap(prng.from_key)(deal[:, 1]),
            seat=jax.vmap(lambda k, r: prng.from_key(jax.random.fold_in(k, r)))(deal[:, 2], rotation),
        )
        games = self._games(arguments, rotation, keys)
        return jax.tree.map(lambda x: x.reshape(-1, sides, *x.shape[1:]), games)


class Matchup:
    """Candidate against equal opponents on fixed deals.

    One program for all opponents, because it takes longer to compile than to run: which opponent is at the table is an
    argument, like the parameters.
    """

    def __init__(
        self,
        env: Env,
        candidate: Act,
        opponents: Sequence[Act],
        *,
        deals: int,
        seed: int,
        stream: int = FINAL_DEALS,
        lanes: int = LANES,
        max_steps: int = MAX_STEPS,
        memory: MemoryFns | None = None,
    ):
        """A matchup.

        Args:
          env: the game.
          candidate: the player in question.
          opponents: players of whom one fills all other seats; empty in a game of one side.
          deals: D, each played n times.
          seed: the evaluation seed.
          stream: which deals under that seed: `FINAL_DEALS`, `TRAINING_DEALS` or `EXPLOIT_DEALS`.
          lanes: games side by side on one device.
          max_steps: where to give up on a game without an end.
          memory: the candidate's, if it has one.
        """
        self._env, self._acts = env, [candidate, *opponents]
        self._base = jax.random.fold_in(jax.random.key(seed), stream)
        self._names, self._max_steps, self._memory = figure_names(env), max_steps, memory
        # A player with a memory searches: a program that XLA cannot always compile with every optimisation.
        options = xla.plain_options() if memory else None
        self._games = DuplicateDeals(env, self._play, deals=deals, lanes=lanes, compiler_options=options)

    def __call__(self, candidate: PyTree, opponents: Sequence[PyTree] = (), opponent: int = 0) -> Samples:
        """Plays all deals.

        Args:
          candidate: its parameters; None for a bot.
          opponents: parameters of all opponents; those left out are None.
          opponent: which of them is at the table.

        Raises:
          UserError: a player chose an illegal action, or a game did not end.
        """
        params = [candidate, *opponents, *[None] * (len(self._acts) - 1 - len(opponents))]
        # A copy on every device: parameters may come from a training on fewer (or more) devices.
        params = jax.device_put(params, jax.sharding.NamedSharding(self._games.mesh, PartitionSpec()))
        games = self._games((params, np.int32(opponent)), self._base)
        figures = {name: np.asarray(games.figures[name]) for name in self._names}
        return samples_of(figures, np.asarray(games.length), self._env)

    def _play(self, arguments: tuple[Any, jax.Array], rotation: jax.Array, keys: GameKeys) -> Games:
        params, opponent = arguments
        holders = jnp.where(np.array(self._env.sides) == rotation[:, None], 0, 1 + opponent)
        return play_match(self._env, self._acts, params, holders, keys, self._max_steps, self._memory)


def samples_of(figures: dict[str, np.ndarray], length: np.ndarray, env: Env) -> Samples:
    """Figures f32[D, rotation, seat] and lengths i32[D, rotation] -> one sample per deal, and each game's outcome."""
    deals, sides = length.shape
    figures = {name: of_sides(values, env.sides) for name, values in figures.items()}
    own = np.eye(sides, dtype=bool)  # the candidate is side r in rotation r
    shown = [name for name in figures if name != STARTER]  # its mean says nothing
    return Samples(
        candidate={n: figures[n][:, own].astype(np.float64).mean(axis=1) for n in shown},
        opponents={n: figures[n][:, ~own].astype(np.float64).mean(axis=1) for n in shown if sides > 1},
        games=deals * sides,
        outcomes=outcomes_of(figures, length, env.side_name),
    )
