"""Playing games on the host for DQN: one call of the device for each block of games and step."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from envs import prng
from envs.host.bridge import HostPool
from envs.host.core import RANDOM
from jaxrl.training import rollout
from jaxrl.training.rollout import Actor
from jaxrl.training.sebulba.counters import Timers
from jaxrl.training.sebulba.policy import deal_key, deal_seats
from jaxrl.training.sebulba.state import HostLanes
from jaxrl.training.sebulba.storage import Storage


class Acting(NamedTuple):
    """What a rollout is played with."""

    params: Any
    play_key: jax.Array  # typed, of this rollout
    deal_key: jax.Array  # typed, of the whole training
    epsilon: float  # share of random actions
    odds: Any  # [B, ...], of `Seats.odds`, by global lane; None without a pool


class HostPolicy:
    """The compiled functions."""

    def __init__(self, actor: Actor):
        """Compiles at the first calls. `actor` holds the network and the seats; its game is not played."""
        self.actor = actor
        self.varied = actor.seats.varied
        self.actions = jax.jit(self._actions)
        """(params, key, step u32[], lane_ids u32[B], epsilon, observation f32[B, F], mask bool[B, A]) -> i32[B]"""
        self.deal = jax.jit(functools.partial(deal_seats, actor.seats))
        """(key, lane_ids u32[B], episode u32[B], odds) -> i8[B, P], who holds the seats of the game of that number"""

    def _actions(self, params, key, step, lane_ids, epsilon, observation, mask) -> jax.Array:
        keys = rollout.lane_keys(key, step, lane_ids)
        if self.actor.network.noisy:
            evaluate = jax.vmap(self.actor.network.evaluate, in_axes=(None, 0, 0, 0))
            values, _ = evaluate(params, observation, mask, jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys))
        else:
            values, _ = jax.vmap(self.actor.network.evaluate, in_axes=(None, 0, 0))(params, observation, mask)
        # The engine draws random actions itself, from the game's own stream.
        explores = jax.vmap(jax.random.uniform)(keys) < epsilon
        return jnp.where(explores, RANDOM, jnp.argmax(values, axis=-1)).astype(jnp.int32)


def training_keys(key: jax.Array, update: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Of a round: for playing, for learning, and the one for seats, which is the same in all of them."""
    play_key, learn_key = jax.random.split(prng.from_key(jax.random.fold_in(key, update)))
    return play_key, learn_key, deal_key(key)


class HostPlayer:
    """Lanes ``number * share .. (number + 1) * share - 1``, played in blocks: while the engine steps one block, the
    device answers for the next."""

    def __init__(self, number: int, pool: HostPool, policy: HostPolicy, numbers: np.ndarray, timers: Timers):
        """Nothing is played yet.

        Args:
          number: of the player, from 0.
          pool: its games, with one group for each block.
          policy: the compiled functions.
          numbers: i8[1 + M], what the engine calls each controller.
          timers: counters of the run.
        """
        self.pool, self._policy, self._numbers, self._timers = pool, policy, numbers, timers
        share, groups = pool.controllers.shape[0], pool.groups
        size = share // groups
        self._lanes = slice(number * share, (number + 1) * share)
        self._blocks = list(range(number * groups, (number + 1) * groups))
        self._local = [slice(g * size, (g + 1) * size) for g in range(groups)]
        self._ids = np.arange(self._lanes.start, self._lanes.stop, dtype=np.uint32)
        self._controllers = np.zeros((share, pool.controllers.shape[1]), np.int8)
        self._following = self._controllers.copy()
        self._episode = np.zeros(share, np.uint32)

    # ---- the games ----------------------------------------------------------------------------------------------

    def start(self, storage: Storage, acting: Acting) -> None:
        """Deals the first games; the first questions stand in row 0 of `storage`."""
        self._controllers[:] = self._dealt(acting, slice(None), 0)
        self.pool.controllers[:] = self._numbers[self._controllers]
        self.pool.next_controllers[:] = self.pool.controllers  # for a game that ends before anybody is asked
        self.pool.start(self._whole(storage))
        self.save(storage)

    def load(self, lanes: HostLanes, storage: Storage) -> None:
        """Takes over games as they were saved; their questions stand in row 0 of `storage`."""
        self._controllers[:] = lanes.controllers[self._lanes]
        self._episode[:] = lanes.episode[self._lanes]
        held = self._numbers[self._controllers]
        self.pool.load(lanes.blobs[self._lanes], held, self._whole(storage), lanes.length[self._lanes])

    def save(self, storage: Storage) -> None:
        """Writes the games as they stand into `storage.after`."""
        after = storage.after
        self.pool.save(after.blobs[self._lanes])
        after.controllers[self._lanes] = self._controllers
        after.episode[self._lanes] = self._episode
        after.length[self._lanes] = self.pool.length

    def _whole(self, storage: Storage) -> Any:
        return storage.whole[self._lanes.start // len(self._ids)]

    # ---- a rollout ----------------------------------------------------------------------------------------------

    def play(self, storage: Storage, last: Storage | None, acting: Acting) -> None:
        """Fills this player's lanes of a rollout.

        Args:
          storage: row 0 holds the questions already if `last` is None.
          last: the rollout before.
          acting: what is played with.
        """
        if last is not None:
            storage.copy_questions(last, self._blocks)
        if self._policy.varied:
            self._following[:] = self._dealt(acting, slice(None), 1)
            self.pool.next_controllers[:] = self._numbers[self._following]
        groups = range(len(self._local))
        for t in range(storage.steps):
            for group in groups:
                if t:
                    self._receive(storage, acting, t, group)
                self._answer(storage, acting, t, group)
        for group in groups:
            self._receive(storage, acting, storage.steps, group)
        self.save(storage)

    def _answer(self, storage: Storage, acting: Acting, t: int, group: int) -> None:
        """Chooses for a block; the engine steps it into the next row."""
        local, block = self._local[group], self._blocks[group]
        row = storage.rows[t][block]
        if acting.epsilon >= 1.0:
            action = np.full(len(row.current_player), RANDOM, np.int32)
        else:
            with self._timers.action:
                chosen = self._policy.actions(
                    acting.params,
                    acting.play_key,
                    np.uint32(t),
                    self._ids[local],
                    np.float32(acting.epsilon),
                    row.observation,
                    row.legal_action_mask,
                )
                action = np.asarray(chosen)
        self.pool.send(action, storage.rows[t + 1][block], group)

    def _receive(self, storage: Storage, acting: Acting, t: int, group: int) -> None:
        """Waits for the rows of step `t`; where a game is over the next one has begun, with the controllers that
        waited for it."""
        self.pool.recv(group)
        if not self._policy.varied:
            return
        local, row = self._local[group], storage.rows[t][self._blocks[group]]
        over = row.terminated | row.truncated
        if over.any():
            np.copyto(self._controllers[local], self._following[local], where=over[:, None])
            self._episode[local] += over
            self._following[local] = self._dealt(acting, local, 1)
            self.pool.next_controllers[local] = self._numbers[self._following[local]]

    def _dealt(self, acting: Acting, lanes: slice, later: int) -> np.ndarray:
        """i8[B, P]: who holds the seats of the running games, or of those `later`."""
        if not self._policy.varied:
            return self._controllers[lanes]
        odds = jax.tree.map(lambda leaf: leaf[self._lanes][lanes], acting.odds)
        episode = self._episode[lanes] + np.uint32(later)
        return np.asarray(self._policy.deal(acting.deal_key, self._ids[lanes], episode, odds))
