"""Annotates a recorded game with a policy's view of every decision: value, probabilities, own choice.

All decisions are asked in one call of one program, padded so that games of nearly any length share it; games of more
than `MOST` decisions take several.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import xla
from jaxrl.matches.interactive import telling
from jaxrl.players.player import Act, Odds, Player, Value, no_memory
from jaxrl.serve.replays.state_store import StateStore
from jaxrl_envs.contract.env import Env, PyTree, State
from jaxrl_envs.shared.errors import UserError

LEAST, MOST = 64, 1024  # decisions of a call
SIGNS, STRONG = 8, 0.2  # most decisions marked; least gap in probability to the best action
OTHERWISE = "this recording was made with options with which a game looks otherwise: no policy here can judge it."


class Annotation(NamedTuple):
    """A policy's view of one decision of a recorded game.

    Attributes:
      at: the first frame that shows it.
      seat: seat that acted.
      name: name of the action that was taken.
      odds: the probability that the policy gives it; actions of one name do the same and count together.
      best, chance: the action that it gives the greatest, and that probability.
      value: return that it expects for the seat from the position before it.
    """

    at: int
    seat: int
    name: str
    odds: float
    best: str
    chance: float
    value: float


def by_name(env: Env, legal: np.ndarray, odds: np.ndarray) -> np.ndarray:
    """Adds up probabilities of legal actions that share a name, and do the same, at the first of them.

    Args:
      env: the game, which names its actions.
      legal, odds: mask and probabilities of the actions, bool[A] and f32[A].

    Returns:
      f32[A]: of actions that share a name the first one has the probability of all.
    """
    shares = np.zeros_like(odds)
    first: dict[str, int] = {}
    for action in np.flatnonzero(legal):
        shares[first.setdefault(env.action_name(int(action)), int(action))] += odds[action]
    return shares


def annotate(env: Env, player: Player, positions: StateStore) -> list[Annotation]:
    """Annotates every decision with a player's judgement, in order of time; of all seats in a simultaneous game.

    Args:
      env: the game.
      player: the policy that annotates.
      positions: positions of a recorded game.

    Raises:
      UserError: it tells none, or the recording does not fit the game.
    """
    odds, values = _asked(env, player, positions)
    seats, actions = positions.seats.ravel(), positions.actions.ravel()
    legal = positions.legal.reshape(len(seats), -1)
    each = len(seats) // len(positions.seats)  # decisions at a time
    found = []
    for number, (seat, action) in enumerate(zip(seats.tolist(), actions.tolist(), strict=True)):
        shares = by_name(env, legal[number], odds[number])
        name, best = env.action_name(action), int(np.argmax(np.where(legal[number], shares, -1.0)))
        taken = next((int(a) for a in np.flatnonzero(legal[number]) if env.action_name(int(a)) == name), action)
        chosen = (name, round(float(shares[taken]), 4), env.action_name(best), round(float(shares[best]), 4))
        found.append(Annotation(number // each + 1, seat, *chosen, round(float(values[number]), 4)))
    return found


def curve(found: list[Annotation], seats: int) -> list[list[float | None]]:
    """Returns the values of the seats over the frames, [T + 1][P]: a seat keeps its value of when it was last asked,
    before that its first one; None for a seat that is never asked."""
    now: list[float | None] = [None] * seats
    for judgement in reversed(found):
        now[judgement.seat] = judgement.value
    rows = [now]
    for judgement in found:
        if judgement.at > len(rows):
            rows.append(list(rows[-1]))
        rows[-1] = [judgement.value if seat == judgement.seat else value for seat, value in enumerate(rows[-1])]
    return [*rows, rows[-1]]


def doubted(found: list[Annotation]) -> list[int]:
    """Indices of the decisions that the policy disagrees with most, in order of time."""
    gaps = np.array([judgement.chance - judgement.odds for judgement in found])
    order = np.argsort(-gaps, kind="stable")[:SIGNS]
    return sorted(int(number) for number in order if gaps[number] >= STRONG)


# ---- asking ---------------------------------------------------------------------------------------------------------


def _asked(env: Env, player: Player, positions: StateStore) -> tuple[np.ndarray, np.ndarray]:
    """Returns probabilities f32[D, A] and values f32[D] of the D decisions, T or in a simultaneous game T * P."""
    if player.odds is None or player.value is None:
        raise UserError(f"{player.name} tells neither probabilities nor values.")
    state = _state(env, positions)
    run = _program(player.act, player.odds, player.value, player.init is not no_memory, env.simultaneous)
    key = jax.random.key(0)
    first = jax.tree.map(lambda leaf: leaf[0], state)
    memory = jax.vmap(lambda seat: player.init(player.params, first, seat, key))(jnp.arange(env.num_players))
    count, parts = len(positions.seats), []
    for begin in range(0, count, MOST):
        rows = min(MOST, count - begin)
        size = max(LEAST, 1 << (rows - 1).bit_length())
        index = np.minimum(np.arange(begin, begin + size), count - 1)
        block = jax.tree.map(lambda leaf, index=index: leaf[index], state)
        memory, *said = run(player.params, memory, block, np.arange(size) < rows)
        parts.append([np.asarray(each)[:rows] for each in said])
    odds, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    if not (np.isfinite(odds).all() and np.isfinite(values).all()):
        raise UserError(f"{player.name} says what is no number: its training has diverged.")
    return odds.reshape(values.size, -1), values.ravel()


def _state(env: Env, positions: StateStore) -> State:
    """Returns the public leaves of the states, with a leading axis [T]. Raises UserError: they do not fit the game."""
    spec, tree = jax.tree.flatten(env.observation_spec)
    seats = positions.seats.shape
    forms = [(leaf.shape, leaf.dtype) for leaf in positions.leaves]
    wanted = [((*seats, *leaf.shape), leaf.dtype) for leaf in spec]
    known = (len(positions.seats), env.num_players) if env.simultaneous else (len(positions.seats),)
    inside = np.all((positions.seats >= 0) & (positions.seats < env.num_players))
    told = (positions.legal.shape, positions.actions.shape)
    if forms != wanted or seats != known or not inside or told != ((*seats, env.num_actions), seats):
        raise UserError(OTHERWISE)
    over: Any = np.zeros(len(positions.seats), bool)
    public: dict[str, Any] = {
        "current_player": positions.seats,
        "observation": jax.tree.unflatten(tree, positions.leaves),
        "legal_action_mask": positions.legal,
        "rewards": np.zeros((len(over), env.num_players), np.float32),
    }
    return State(**public, **dict.fromkeys(("terminated", "truncated", "illegal_action"), over))


@functools.lru_cache(maxsize=16)
def _program(act: Act, odds: Odds, value: Value, remembers: bool, simultaneous: bool) -> Any:
    """Makes (params, memory [P, ...], states [N, ...], real bool[N]) -> memory, odds [N, ...], values [N, ...]."""

    def run(params: PyTree, memory: PyTree, states: State, real: jax.Array) -> tuple[PyTree, jax.Array, jax.Array]:
        def remember(memory: PyTree, now: tuple[State, jax.Array]) -> tuple[PyTree, PyTree]:
            """Carries each seat's memory over its own decisions."""
            state, counts = now
            seat = slice(None) if simultaneous else state.current_player
            mine = jax.tree.map(lambda leaf: leaf[seat], memory)
            _, after = act(params, mine, state, jax.random.key(0))
            kept = jax.tree.map(lambda new, old: jnp.where(counts, new, old), after, mine)
            return jax.tree.map(lambda leaf, new: leaf.at[seat].set(new), memory, kept), mine

        remembered: PyTree = ()
        if remembers:
            memory, remembered = jax.lax.scan(remember, memory, (states, real))
        return memory, *jax.vmap(telling(odds, value), in_axes=(None, 0, 0))(params, remembered, states)

    return jax.jit(run, compiler_options=xla.plain_options())
