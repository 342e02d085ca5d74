"""The protocol between an algorithm and the two loops, and what passes between them.

A loop plays games with `Algorithm.act`, puts what happened into a `Rollout` and hands that to `Algorithm.learn`. It
knows no algorithm; an algorithm knows nothing of loops, threads or devices, but that its `learn` runs inside a mesh
whose axis `AXIS` spreads the lanes: what is summed over decisions is summed over it too (`across_devices`).

Shape letters: T steps, B lanes (of one device inside the mesh), P seats, S decisions per step (1 in a turn-based game,
P in a simultaneous one), A actions, W mask words, C chunks of `Algorithm.sequence` steps.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxrl.algorithms.schedule import Hyper
from jaxrl.config import Config
from jaxrl.networks.base import Memory, Network
from jaxrl.players.player import Player, network_player
from jaxrl.runs.metrics import Metrics
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import options
from jaxrl_envs.shared.errors import UserError

AXIS = "env"
Array = Any  # of jax, or of NumPy while a rollout is on the host


class Asked(NamedTuple):
    """What a seat is asked; with leading axes for several."""

    observation: Any  # packed
    mask: Array  # bool[A]
    seat: Array  # i32[]


class Decision(NamedTuple):
    """What it answers."""

    action: Array  # i32[]
    log_prob: Array  # f32[], of the distribution that the action was drawn from; 0 if the algorithm reads none
    value: Array  # f32[], likewise
    memory: Memory  # of the seat, from now on


class Transition(NamedTuple):
    """One step of one lane; a rollout adds the leading axes [T, B]."""

    observation: Any  # [S, ...], packed, of the seats asked
    mask: Array  # u32[S, W]; bool[S, A] while the rollout is still on the host
    action: Array  # i32[S]
    log_prob: Array  # f32[S]
    value: Array  # f32[S]
    seat: Array  # i32[S]
    weight: Array  # f32[S], 1 = the learner's decision, 0 = an opponent's
    rewards: Array  # f32[P], up to the lane's next question
    terminated: Array  # bool[]
    truncated: Array  # bool[]
    final_observation: Any  # [S, ...], of the state that the step led to, if that was the last; None: never truncated
    final_seat: Array  # i32[S], asked in it
    final_weight: Array  # f32[S], 1 = the learner is asked in it
    privileged: Any = None  # [S, ...], what the seats asked cannot see, with `Algorithm.privileged`
    final_privileged: Any = None  # [S, ...], of the final observation; None: never truncated
    came_true: Any = None  # a `CameTrue` [P] of the goals that the step settled, with `Algorithm.hindsight`

    @property
    def over(self) -> jax.Array:
        """bool[]: the step ended the game."""
        return self.terminated | self.truncated


class Rollout(NamedTuple):
    """What was played."""

    steps: Transition  # [T, B, ...]
    memory: Memory  # [C, B, P, ...], of the seats at the beginning of every chunk
    last: Asked  # [B, S, ...], asked after the last step
    last_memory: Memory  # [B, P, ...], then
    policy: Any  # that played, see `Algorithm.policy`
    last_privileged: Any = None  # [B, S, ...], beside `last`, with `Algorithm.privileged`


AVERAGE = "average"  # among `Learner.copies`: of the parameters over time
ANCHOR = "anchor"  # and those that the run began with


@struct.dataclass
class Learner:
    """What learns. An algorithm adds leaves of its own; loops read these and carry the rest."""

    params: Any  # of the network: all that a player needs
    hyper: Any  # traced hyper-parameters; a resumed run takes them from its configuration
    copies: dict[str, Any] = struct.field(default_factory=dict, kw_only=True)
    """Other parameters of the same network, by what they are. They begin as `params`; `AVERAGE`, if it is kept, is
    what evaluations, matches and exports play with."""

    def on_device(self) -> Any:
        """The learner without what lives on the host, such as a replay buffer there."""
        return self

    def begin_with(self, params: Any) -> Any:
        """The learner as it begins with these parameters."""
        return self.replace(params=params, copies=dict.fromkeys(self.copies, params))

    def played(self, *, average: bool) -> Any:
        """The parameters that matches are played with: the average if it is wanted and kept, else those that learn."""
        return self.copies.get(AVERAGE, self.params) if average else self.params


@struct.dataclass
class Policy:
    """What acting reads of a learner; an algorithm may add leaves."""

    params: Any


class HostLearning(abc.ABC):
    """`Algorithm.learn` for rollouts that stay on the host, with a part of the learner that lives there too."""

    @abc.abstractmethod
    def load(self, learner: Any, key: jax.Array) -> None:
        """Takes over the host's part of a learner, an empty one if it has none; `key` is the training's, typed."""

    @abc.abstractmethod
    def learn(self, learner: Any, rollout: Rollout, key: jax.Array, number: jax.Array) -> tuple[Any, Metrics]:
        """As `Algorithm.learn`, of `Learner.on_device`; the rollout's arrays are NumPy's and valid during the call."""

    @abc.abstractmethod
    def save(self, learner: Any) -> Any:
        """The learner with the host's part as it is now, as checkpoints hold it; before `load` with its shapes."""


class Algorithm(abc.ABC):
    """One way to learn, for one configuration and one game.

    Attributes:
      network: what decides.
      sequence: steps of a chunk: rollouts keep the memory of all seats at the beginning of each.
      discount: of the network's values, for each decision of a seat.
      networks: how many make up `network`; what trains others than by an algorithm knows one.
      by_value: the network's "logits" are the values of actions: a player takes the best and never draws.
      headline: what the progress line shows of the metrics, label -> tag.
      privileged: rollouts of a compiled game also hold what the seats asked cannot see (`Env.privileged`).
      believe: (what a checkpoint holds of the belief, observation) -> f32[N, H], the odds of who holds what
        (`jaxrl_envs.shared.card_beliefs`), if it learns that; else None.
      hindsight: rollouts of a compiled game also hold the goals that came true (`Env.came_true`).
      grows_with: configuration keys that its learner's memory is proportional to.
      many_devices: whether `learn` may run on more than one.
      forwards: forward passes of the network for each backward pass, for the counters of `sebulba.profile`.
    """

    networks: ClassVar[int] = 1
    by_value: ClassVar[bool] = False
    many_devices: ClassVar[bool] = True
    headline: ClassVar[Mapping[str, str]] = {}
    grows_with: ClassVar[tuple[str, ...]] = ()
    network: Network
    discount: float = 1.0
    sequence: int = 1
    privileged: bool = False
    believe: Callable[[Any, Any], jax.Array] | None = None
    hindsight: bool = False
    forwards: int = 1

    def __init__(self, config: Config, env: Env):
        """Compiles nothing. Subclasses make the network.

        Raises:
          UserError: something in the configuration does not fit the algorithm or the game.
        """
        self.config, self.env = config, env

    def own_section(self, default: Any) -> Any:
        """The settings of an algorithm that is not one of ours: a dataclass like `default` from the configuration's
        section `algorithm`.

        Raises:
          UserError: a key that it has not, or a value that does not fit.
        """
        return options.build(default, self.config.algorithm, options.Place(path="algorithm"))

    # ---- what an algorithm supplies -----------------------------------------------------------------------------

    @abc.abstractmethod
    def init(self, key: jax.Array) -> Any:
        """A `Learner` before the first update, from a typed key; pure."""

    @abc.abstractmethod
    def hyper(self) -> Any:
        """The traced hyper-parameters of the configuration, as `init` puts them into the learner."""

    def progress(self, learner: Any, number: jax.Array) -> jax.Array:
        """f32[], how far the training is: 0 at its first update, 1 at its last; pure. Always 1 for an algorithm whose
        hyper-parameters are no `Hyper`, which alone knows."""
        return learner.hyper.progress(number) if isinstance(learner.hyper, Hyper) else jnp.float32(1.0)

    def policy(self, learner: Any, number: jax.Array) -> Any:
        """What rollout `number` (i32[]) is played with, a `Policy`; pure."""
        del number
        return Policy(params=learner.params)

    @abc.abstractmethod
    def act(self, policy: Any, asked: Asked, memory: Memory, key: jax.Array) -> Decision:
        """The answer of one seat; pure, vmap it. A frozen opponent acts by it too, with other `params`.

        Args:
          policy: from `policy`.
          asked: one question.
          memory: of the seat.
          key: typed, of this decision.
        """

    @abc.abstractmethod
    def learn(self, learner: Any, rollout: Rollout, key: jax.Array, number: jax.Array) -> tuple[Any, Metrics]:
        """One update; pure, inside the mesh.

        Args:
          learner: replicated over the devices.
          rollout: this device's share of the lanes.
          key: a fast key (`jaxrl_envs.shared.prng`) of this update, the same on all devices.
          number: i32[], of this update.

        Returns:
          The learner afterwards and the metrics, both equal on all devices.
        """

    # ---- what comes of it ---------------------------------------------------------------------------------------

    def player(self, name: str, params: Any, *, greedy: bool) -> Player:
        """What it trains, in matches.

        Args:
          name, params: see `Player`.
          greedy: the best action instead of a sampled one; where there are only values it always is.
        """
        player = network_player(self.network, self.env, name, params, greedy=greedy or self.by_value)
        odds = None if self.by_value else player.odds  # values are no probabilities
        return dataclasses.replace(player, odds=odds, discount=self.discount)

    # ---- what it may refine -------------------------------------------------------------------------------------

    def host_learning(self, timers: Any) -> HostLearning | None:
        """How it learns from games on the host, where `learn` in one compiled program is not the way.

        Args:
          timers: counters of the run (`jaxrl.training.timers.Timers`).
        """
        del timers
        return None

    def saved(self, learner: Any) -> Any:
        """The part of a learner that checkpoints hold; pure, also of shapes."""
        return learner

    def restored(self, learner: Any) -> Any:
        """A learner to train on with, from what `saved` has left of it."""
        return learner

    def carried(self, learner: Any, new: Any) -> Any:
        """What a stage of a curriculum begins with: the learner of the stage before; `new` is what `init` gives in this
        one, where all games are new. Pure, also of shapes."""
        del new
        return learner

    def best_response(self, config: Config) -> Config:
        """The configuration with which `jaxrl exploit` trains against a frozen policy of `config`.

        Raises:
          UserError: the algorithm cannot.
        """
        raise UserError(f"best responses cannot be trained with train.algorithm {config.train.algorithm}.")


def across_devices(tree: Any) -> Any:
    """The sum of `tree` over the devices; inside the mesh."""
    return jax.lax.psum(tree, AXIS)


def with_normaliser(network: Network, params: Any, steps: Transition, total: Callable[[Any], Any]) -> Any:
    """The parameters after their normaliser, if they have one, has seen the learner's decisions of a rollout.

    Args:
      network, params: that have learnt from it.
      steps: [T, B, ...].
      total: sums over all devices: `across_devices`, or the identity outside of the mesh.
    """
    if network.normaliser is None:
        return params
    return network.normaliser(params, steps.observation, steps.weight, total)


def local_numbers(count: int) -> jax.Array:
    """Global numbers u32[count / devices] of this device's share of `count` things; inside the mesh."""
    share = count // jax.lax.axis_size(AXIS)
    return (jax.lax.axis_index(AXIS) * share + jnp.arange(share)).astype(jnp.uint32)


def memory_of(memory: Memory, seat: jax.Array) -> Memory:
    """The memories [S, ...] of the seats asked (i32[S]), from those of all seats [P, ...]."""
    return jax.tree.map(lambda leaf: leaf[seat], memory)


def remember(memory: Memory, seat: jax.Array, new: Memory, over: jax.Array | None = None) -> Memory:
    """The memories [P, ...] of a lane after its seats asked (i32[S]) have new ones [S, ...]; all of them are cleared
    where the game is over (bool[])."""

    def put(leaf: jax.Array, fresh: jax.Array) -> jax.Array:
        here = seat[:, None] == jnp.arange(leaf.shape[0])  # bool[S, P]
        spread = here.reshape(*here.shape, *[1] * (leaf.ndim - 1))
        leaf = jnp.where(jnp.any(spread, axis=0), jnp.sum(jnp.where(spread, fresh[:, None], 0), axis=0), leaf)
        return leaf if over is None else jnp.where(over, 0, leaf)

    return jax.tree.map(lambda leaf, fresh: put(leaf, fresh).astype(leaf.dtype), memory, new)


def cleared(memory: Memory, over: jax.Array) -> Memory:
    """The memories with those of lanes [B, ...] cleared where a game begins (bool[B])."""
    return jax.tree.map(lambda leaf: jnp.where(over.reshape(-1, *[1] * (leaf.ndim - 1)), 0, leaf), memory)
