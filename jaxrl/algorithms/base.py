"""The protocol between an algorithm and the two loops, and the data structures that they exchange.

A loop plays games with `Algorithm.act`, collects the transitions in a `Rollout` and passes it to `Algorithm.learn`. The
loop is independent of the algorithm, and the algorithm of loops, threads and devices, except that `learn` runs inside a
mesh whose axis `AXIS` shards the lanes: sums over decisions must also be summed over this axis (`across_devices`).

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
import numpy as np
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
Array = Any  # jax.Array, or np.ndarray while a rollout is on the host


class Asked(NamedTuple):
    """The question to a seat: observation and legal actions. Leading axes batch several."""

    observation: Any  # packed
    mask: Array  # bool[A]
    seat: Array  # i32[]


class Decision(NamedTuple):
    """A seat's answer to an `Asked`."""

    action: Array  # i32[]
    log_prob: Array  # f32[], under the distribution the action was drawn from; 0 if the algorithm does not use it
    value: Array  # f32[]; 0 if the algorithm does not use it
    memory: Memory  # the seat's new recurrent state


class Transition(NamedTuple):
    """One step of one lane; rollouts add the leading axes [T, B]."""

    observation: Any  # [S, ...], packed, of the acting seats
    mask: Array  # u32[S, W]; bool[S, A] while the rollout is still on the host
    action: Array  # i32[S]
    log_prob: Array  # f32[S]
    value: Array  # f32[S]
    seat: Array  # i32[S]
    weight: Array  # f32[S], 1 = the learner's decision, 0 = an opponent's
    rewards: Array  # f32[P], earned until the lane's next decision
    terminated: Array  # bool[]
    truncated: Array  # bool[]
    final_observation: Any  # [S, ...], of the state in which the game ended; None if games are never truncated
    final_seat: Array  # i32[S], the seats of the final observation
    final_weight: Array  # f32[S], 1 = the learner holds that seat
    privileged: Any = None  # [S, ...], what is hidden from the acting seats, with `Algorithm.privileged`
    final_privileged: Any = None  # [S, ...], at the final observation; None if games are never truncated
    came_true: Any = None  # a `CameTrue` [P] of the goals settled by the step, with `Algorithm.hindsight`

    @property
    def over(self) -> jax.Array:
        """bool[]: whether the step ended the game."""
        return self.terminated | self.truncated


class Rollout(NamedTuple):
    """T steps of B lanes, and where they were cut."""

    steps: Transition  # [T, B, ...]
    memory: Memory  # [C, B, P, ...], recurrent states at the start of every chunk
    last: Asked  # [B, S, ...], the questions after the last step
    last_memory: Memory  # [B, P, ...], recurrent states after the last step
    policy: Any  # the behaviour policy, see `Algorithm.policy`
    last_privileged: Any = None  # [B, S, ...], belongs to `last`, with `Algorithm.privileged`


AVERAGE = "average"  # in `Learner.target_params`: the moving average of the parameters
ANCHOR = "anchor"  # and the initial parameters of the run


@struct.dataclass
class Learner:
    """The learner state. Algorithms add leaves of their own, which the loops carry along unread."""

    params: Any  # of the network: all that a player needs
    hyper: Any  # traced hyper-parameters; a resumed run takes them from its configuration
    target_params: dict[str, Any] = struct.field(default_factory=dict, kw_only=True)
    """Further parameters of the same network, by name, initially equal to `params`; `AVERAGE`, if kept, is used in
    evaluations, matches and exports."""

    def on_device(self) -> Any:
        """Returns the learner without the parts that live on the host, such as a replay buffer."""
        return self

    def begin_with(self, params: Any) -> Any:
        """Returns the learner started from these parameters: all target parameters are equal to them."""
        return self.replace(params=params, target_params=dict.fromkeys(self.target_params, params))

    def played(self, *, average: bool) -> Any:
        """The parameters to play matches with: the average if `average` and if it is kept, else the current ones."""
        return self.target_params.get(AVERAGE, self.params) if average else self.params


@struct.dataclass
class Policy:
    """The part of a learner that acting reads; algorithms may add leaves."""

    params: Any


class HostLearning(abc.ABC):
    """`Algorithm.learn` for algorithms that keep the rollouts and a part of the learner on the host."""

    @abc.abstractmethod
    def load(self, learner: Any, key: jax.Array) -> None:
        """Loads the host part of a learner (an empty one if absent); `key` is the training's typed key."""

    @abc.abstractmethod
    def learn(self, learner: Any, rollout: Rollout, key: jax.Array, number: jax.Array) -> tuple[Any, Metrics]:
        """Like `Algorithm.learn` of `Learner.on_device`; the rollout's NumPy arrays are valid during the call only."""

    @abc.abstractmethod
    def save(self, learner: Any) -> Any:
        """Returns the learner with the current host part, as checkpoints hold it; before `load` with its shapes."""


class Algorithm(abc.ABC):
    """A learning algorithm for one configuration and one game.

    Attributes:
      network: the policy and value network, or Q network.
      sequence: steps of a chunk; rollouts hold the recurrent states of all seats at the start of each chunk.
      discount: discount of the network's values, per own decision of a seat.
      networks: number of networks that make up `network`; supervised training works with one only.
      by_value: the network's "logits" are action values, so players act greedily and never sample.
      headline: metrics shown in the progress line, label -> tag.
      privileged: whether rollouts of a compiled game also hold what is hidden from the acting seats (`Env.privileged`).
      believe: (belief as stored in a checkpoint, observation) -> f32[N, H], the odds of who holds what
        (`jaxrl_envs.shared.card_beliefs`); None if no belief is learnt.
      hindsight: whether rollouts of a compiled game also hold the goals that came true (`Env.came_true`).
      grows_with: configuration keys that the learner's memory consumption is proportional to.
      many_devices: whether `learn` may run on several devices.
      forwards: forward passes per backward pass, for the counters of `sebulba.profile`.
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
        """Compiles nothing; subclasses create the network.

        Raises:
          UserError: something in the configuration does not fit the algorithm or the game.
        """
        self.config, self.env = config, env

    def own_section(self, default: Any) -> Any:
        """Returns the settings of a user's own algorithm: a dataclass like `default`, read from the section `algorithm`
        of the configuration.

        Raises:
          UserError: an unknown key, or a value of the wrong type or range.
        """
        return options.build(default, self.config.algorithm, options.Place(path="algorithm"))

    # ---- required -----------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def init(self, key: jax.Array) -> Any:
        """Returns the `Learner` before the first update, from a typed key; pure."""

    @abc.abstractmethod
    def hyper(self) -> Any:
        """Returns the traced hyper-parameters of the configuration, as `init` stores them in the learner."""

    def progress(self, learner: Any, number: jax.Array) -> jax.Array:
        """Returns f32[], training progress: 0 at the first update, 1 at the last; pure. Always 1 for algorithms whose
        hyper-parameters are not a `Hyper`."""
        return learner.hyper.progress(number) if isinstance(learner.hyper, Hyper) else jnp.float32(1.0)

    def policy(self, learner: Any, number: jax.Array) -> Any:
        """Returns the behaviour policy (`Policy`) for rollout `number` (i32[]); pure."""
        del number
        return Policy(params=learner.params)

    @abc.abstractmethod
    def act(self, policy: Any, asked: Asked, memory: Memory, key: jax.Array) -> Decision:
        """Chooses an action for one seat; pure, to be vmapped. Frozen opponents use it too, with their own `params`.

        Args:
          policy: result of `policy`.
          asked: one question, without leading axes.
          memory: recurrent state of the seat.
          key: typed key of this decision.
        """

    @abc.abstractmethod
    def learn(self, learner: Any, rollout: Rollout, key: jax.Array, number: jax.Array) -> tuple[Any, Metrics]:
        """Performs one update; pure, runs inside the mesh.

        Args:
          learner: replicated over the devices.
          rollout: this device's shard of the lanes.
          key: a fast key (`jaxrl_envs.shared.prng`) of this update, equal on all devices.
          number: i32[], number of this update.

        Returns:
          The new learner and the metrics, both equal on all devices.
        """

    # ---- the trained player -------------------------------------------------------------------------------------

    def player(self, name: str, params: Any, *, greedy: bool) -> Player:
        """Returns the trained policy as a player in matches.

        Args:
          name, params: attributes as of `Player`.
          greedy: take the best action instead of sampling; always so with `by_value`.
        """
        player = network_player(self.network, self.env, name, params, greedy=greedy or self.by_value)
        odds = None if self.by_value else player.odds  # values are no probabilities
        return dataclasses.replace(player, odds=odds, discount=self.discount)

    # ---- optional -----------------------------------------------------------------------------------------------

    def host_learning(self, timers: Any) -> HostLearning | None:
        """Returns the algorithm's way of learning from host games, or None to run `learn` as one compiled program.

        Args:
          timers: counters of the run (`jaxrl.training.timers.Timers`).
        """
        del timers
        return None

    def carried(self, learner: Any, new: Any) -> Any:
        """Returns the learner at the start of a curriculum stage: by default that of the previous stage. `new` is a
        fresh learner of this stage, in which all games start over. Pure, also accepts shapes."""
        del new
        return learner

    def best_response(self, config: Config) -> Config:
        """Returns the configuration for training a best response to a frozen policy of `config` (`jaxrl exploit`).

        Raises:
          UserError: the algorithm does not support it.
        """
        raise UserError(f"best responses cannot be trained with train.algorithm {config.train.algorithm}.")


def across_devices(tree: Any) -> Any:
    """Returns the sum of `tree` over the devices; inside the mesh."""
    return jax.lax.psum(tree, AXIS)


def with_normaliser(network: Network, params: Any, steps: Transition, total: Callable[[Any], Any]) -> Any:
    """Updates the normaliser statistics in `params`, if the network has any, with the learner's decisions.

    Args:
      network, params: network and parameters after learning from the rollout.
      steps: [T, B, ...], of the rollout.
      total: sums over all devices: `across_devices`, or the identity outside the mesh.
    """
    if network.normaliser is None:
        return params
    return network.normaliser(params, steps.observation, steps.weight, total)


def local_numbers(count: int) -> jax.Array:
    """Returns global numbers u32[count / devices] of this device's share of `count` things; inside the mesh."""
    share = count // jax.lax.axis_size(AXIS)
    return (jax.lax.axis_index(AXIS) * share + jnp.arange(share)).astype(jnp.uint32)


def memory_of(memory: Memory, seat: jax.Array) -> Memory:
    """Returns recurrent states [S, ...] of the acting seats (i32[S]), from those of all seats [P, ...]."""
    return jax.tree.map(lambda leaf: leaf[seat], memory)


def remember(memory: Memory, seat: jax.Array, new: Memory, over: jax.Array | None = None) -> Memory:
    """Writes the new recurrent states [S, ...] of the acting seats (i32[S]) into those of a lane [P, ...]; clears them
    all where the game is over (bool[])."""

    def put(leaf: jax.Array, fresh: jax.Array) -> jax.Array:
        here = seat[:, None] == np.arange(leaf.shape[0])  # bool[S, P]
        spread = here.reshape(*here.shape, *[1] * (leaf.ndim - 1))
        leaf = jnp.where(jnp.any(spread, axis=0), jnp.sum(jnp.where(spread, fresh[:, None], 0), axis=0), leaf)
        return leaf if over is None else jnp.where(over, 0, leaf)

    return jax.tree.map(lambda leaf, fresh: put(leaf, fresh).astype(leaf.dtype), memory, new)


def cleared(memory: Memory, over: jax.Array) -> Memory:
    """Returns recurrent states [B, ...], cleared in the lanes where a game begins (bool[B])."""
    return jax.tree.map(lambda leaf: jnp.where(over.reshape(-1, *[1] * (leaf.ndim - 1)), 0, leaf), memory)
