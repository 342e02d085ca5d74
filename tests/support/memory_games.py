"""Recall, a game of pure memory, compiled and on the host: each seat sees a cue once and is asked for it later.

Two seats decide in turn. In its first decision a seat sees its own cue, one of four; after 1, 8 and 40 more decisions
of its own (as far as the game goes) it is asked for it, and earns a point for the right answer. Nothing else is ever
seen. Without memory a seat is right in a quarter of the questions, whatever it does; with one, always.
"""

from __future__ import annotations

import struct as binary

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.contract.env import Env, Key, State, public_fields
from jaxrl_envs.host.engine import PythonEngine
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.host.python_game import PythonGame, python_engine

CUES = 4
SEATS = 2


@struct.dataclass
class RecallState(State):
    cues: jax.Array  # i32[P]
    number: jax.Array  # i32[], decisions so far, of both seats
    right: jax.Array  # f32[P, Q], by question


class Recall(Env):
    """See the module; `delays` are the numbers of own decisions between the cue and the questions."""

    id, version = "recall", "1"

    def __init__(self, *, delays: tuple[int, ...] = (1, 8, 40), limit: int = 0):
        """A game with these rules.

        Args:
          delays: rising.
          limit: number of decisions of both seats after which it is cut off; 0: never.
        """
        self.num_players, self.num_actions = SEATS, CUES
        self.delays, self.limit, self.may_truncate = tuple(delays), limit, bool(limit)

    def _init(self, key: Key) -> RecallState:
        fields = public_fields(num_players=SEATS, num_actions=CUES)
        cues = jax.random.randint(key, (SEATS,), 0, CUES)
        return RecallState(
            observation=None, cues=cues, number=jnp.int32(0), right=jnp.zeros((SEATS, len(self.delays))), **fields
        )

    def _step(self, state: RecallState, action: jax.Array, key: Key) -> RecallState:
        seat, number = state.current_player, state.number + 1
        asked = jnp.array(self.delays) == state.number // SEATS
        right = asked & (action == state.cues[seat])
        mine = jnp.arange(SEATS) == seat
        over = number == SEATS * (self.delays[-1] + 1)
        return state.replace(
            current_player=1 - seat,
            number=number,
            right=state.right + (mine[:, None] & right).astype(jnp.float32),
            rewards=jnp.where(mine, jnp.any(right), False).astype(jnp.float32),
            terminated=over,
            truncated=~over & (number == self.limit) if self.limit else state.truncated,
        )

    def observe(self, state: RecallState, seat: jax.Array) -> jax.Array:
        """Returns f32[C + 1]: the cue if it is shown now, whether it is asked for."""
        # How many decisions the seat has made: the seat to move is asked, the other one has moved or will.
        own = (state.number + 1 - seat) // SEATS
        cue = (jnp.arange(CUES) == state.cues[seat]) & (own == 0)
        asked = jnp.any(jnp.array(self.delays) == own)
        return jnp.concatenate([cue, asked[None]]).astype(jnp.float32)

    def episode_stats(self, state: RecallState) -> dict[str, jax.Array]:
        return {f"right_{delay}": state.right[:, i] for i, delay in enumerate(self.delays)}


LAYOUT = "<hbb6bQIiI"


class RecallOnHost(PythonGame):
    """One game of the same rules."""

    def __init__(self, seed: int, slot: int, delays: tuple[int, ...]):
        super().__init__(seed, slot)
        self.delays, self.cues, self.number = delays, [0, 0], 0
        self.right = [[0] * len(delays) for _ in range(SEATS)]
        self.paid = [0.0, 0.0]

    def start(self) -> None:
        super().start()
        self.cues, self.number = [self.draw(CUES) for _ in range(SEATS)], 0
        self.right, self.paid = [[0] * len(self.delays) for _ in range(SEATS)], [0.0, 0.0]

    def step(self, action: int) -> None:
        seat, own = self.number % SEATS, self.number // SEATS
        self.paid = [0.0, 0.0]
        if own in self.delays and action == self.cues[seat]:
            self.right[seat][self.delays.index(own)], self.paid[seat] = 1, 1.0
        self.number += 1

    def player(self) -> int:
        return -1 if self.ended() else self.number % SEATS

    def legal(self, action: int) -> bool:
        return True

    def ended(self) -> int:
        return int(self.number == SEATS * (self.delays[-1] + 1))

    def rewards(self) -> list[float]:
        return self.paid

    def observe(self, seat: int) -> np.ndarray:
        own = (self.number + 1 - seat) // SEATS
        cue = [float(own == 0 and self.cues[seat] == i) for i in range(CUES)]
        return np.array([*cue, float(own in self.delays)], np.float32)

    def mask(self) -> list[bool]:
        return [True] * CUES

    def stats(self) -> list[list[float]]:
        return [[float(each) for each in row] for row in self.right]

    def save(self) -> bytes:
        right = [*self.right[0], *self.right[1]]
        return binary.pack(
            LAYOUT, self.number, *self.cues, *(right + [0] * 6)[:6], self.seed, self.slot, self.episode, self.drawn
        )

    def load(self, data: bytes) -> None:
        self.number, *rest, self.seed, self.slot, self.episode, self.drawn = binary.unpack(LAYOUT, data)
        self.cues, right, count = rest[:2], rest[2:], len(self.delays)
        self.right, self.paid = [right[:count], right[count : 2 * count]], [0.0, 0.0]


class RecallGame(HostGame):
    """The same as a host game."""

    id, version = "host_recall", "1"
    num_players, num_actions, num_features, state_bytes = SEATS, CUES, CUES + 1, binary.calcsize(LAYOUT)

    def __init__(self, delays: tuple[int, ...]):
        self.delays = tuple(delays)
        self.stat_names = tuple(f"right_{delay}" for delay in self.delays)

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        return python_engine(self, [RecallOnHost(seed, first_slot + game, self.delays) for game in range(num_games)])

    def render(self, state: np.ndarray, seat: int | None = None) -> str:
        return "recall"


class HostRecall(HostEnv):
    """The same as an `Env`."""

    id, version = RecallGame.id, RecallGame.version

    def __init__(self, *, delays: tuple[int, ...] = (1, 8, 40)):
        """A game with these rules; `delays` as for `Recall`."""
        super().__init__(RecallGame(delays))
