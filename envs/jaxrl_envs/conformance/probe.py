"""The material of the checks: a game's compiled functions, recorded random games, and exact comparison."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.contract.env import Env, PyTree, State
from jaxrl_envs.contract.wrappers import AutoReset, Final
from jaxrl_envs.shared import prng

RECORDED_STEPS = 1000  # of one trace; longer games are played on but not stored
STEPS_BEYOND_THE_END = 2
ENOUGH_RESETS = 64

BatchedBot = Callable[[State, jax.Array], jax.Array]


class Broken(Exception):
    """A promise of the contract is not kept; the message says which and where."""


class NotApplicable(Exception):
    """The check does not apply to this game; the message says why."""


def require(condition: object, sentence: str) -> None:
    """Raises `Broken` with `sentence` unless `condition` holds."""
    if not condition:
        raise Broken(sentence)


class Trace(NamedTuple):
    """Recorded games, from their first state to two steps beyond the end of the longest. T steps, G games."""

    states: State  # NumPy leaves [T + 1, G, ...]
    actions: np.ndarray  # i32[T, G] or i32[T, G, P], chosen in states[t]
    over: np.ndarray  # bool[T + 1, G]
    legal: np.ndarray  # bool[T, G], the action was legal by the mask
    steps: int  # played in all; more than T if the record was cut


class Probe:
    """One game under test.

    Batches are driven from the host, step by step: slower than a scan, but each function of the game is compiled once
    for all checks, and compiling is where the time goes.
    """

    def __init__(self, env: Env, *, games: int, seed: int, max_steps: int):
        self.env, self.games, self.seed, self.max_steps = env, games, seed, max_steps
        self.rng = np.random.default_rng(seed)

    # ---- compiled functions, [B] games at once, any B ---------------------------------------------------------------

    @cached_property
    def init(self) -> Callable[[jax.Array], State]:
        """Keys [B] -> first states."""
        return self.compiled(self.env.init)

    @cached_property
    def step(self) -> Callable[[State, jax.Array, jax.Array], State]:
        """states, actions, keys [B] -> next states."""
        return self.compiled(self.env.step)

    @cached_property
    def step_and_reset(self) -> Callable[[State, jax.Array, jax.Array], tuple[State, Final]]:
        """states, actions, keys [B] -> next states with auto-reset, and the results of the steps."""
        return self.compiled(AutoReset(self.env).step)

    @cached_property
    def random_action(self) -> BatchedBot:
        """states, keys [B] -> legal actions."""
        return self.compiled(self.env.random_action)

    @cached_property
    def bots(self) -> dict[str, BatchedBot]:
        """The game's bots by name: states, keys [B] -> actions."""
        return {name: self.compiled(bot) for name, bot in self.env.bots.items()}

    @cached_property
    def permute(self) -> Callable[[State, jax.Array, jax.Array], State] | None:
        """states, seats, keys [B] -> states with what the seats cannot see exchanged. None: the game does not say."""
        one, seat, key = take(self.first, 0), jnp.int32(0), jax.random.key(0)
        stated = jax.eval_shape(self.env.permute_hidden, one, seat, key) is not None
        return self.compiled(self.env.permute_hidden) if stated else None

    @cached_property
    def views(self) -> Callable[[State], PyTree]:
        """States [B] -> the observations of all seats [B, P, ...]."""
        seats = jnp.arange(self.env.num_players, dtype=jnp.int32)
        return self.compiled(lambda state: jax.vmap(self.env.observe, in_axes=(None, 0))(state, seats))

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` for a batch of any size, compiled once: in chunks of G games, the last one filled up."""
        chunk = jax.jit(jax.vmap(lambda *arguments: function(*arguments)))  # a new lambda is always traced again

        def batched(*arguments: PyTree) -> PyTree:
            count = batch_size(arguments)
            if count == self.games:
                return chunk(*arguments)
            parts = []
            for start in range(0, count, self.games):
                index = np.arange(start, start + self.games) % count
                parts.append(chunk(*take(arguments, index)))
            return concatenated(parts, count)

        return batched

    def keys(self, stream: int, count: int) -> jax.Array:
        """`count` keys of the kind that rollouts use; other streams are independent."""
        return self._split(np.uint32(stream), count)

    @cached_property
    def _split(self) -> Callable[[np.uint32, int], jax.Array]:
        def split(stream: jax.Array, count: int) -> jax.Array:
            return jax.random.split(jax.random.fold_in(prng.fast_key(self.seed), stream), count)

        return jax.jit(split, static_argnums=1)

    # ---- random games -----------------------------------------------------------------------------------------------

    @cached_property
    def first(self) -> State:
        """The first states of all recorded games."""
        return self.init(self.keys(0, self.games))

    @cached_property
    def trace(self) -> Trace:
        """Games of uniformly random legal actions."""
        return self.play(self.random_action)

    def play(self, choose: BatchedBot) -> Trace:
        """Games in which `choose` acts for every seat."""
        state = self.first
        states, actions, legal = [to_numpy(state)], [], []
        steps, beyond = 0, 0
        while steps < self.max_steps and beyond < STEPS_BEYOND_THE_END:
            beyond += bool(is_over(state).all())
            action = choose(state, self.keys(2 * steps + 1, self.games))
            if steps < RECORDED_STEPS:
                actions.append(np.asarray(action))
                legal.append(mask_value(np.asarray(state.legal_action_mask), actions[-1], self.env.delegated))
            state = self.step(state, action, self.keys(2 * steps + 2, self.games))
            if steps < RECORDED_STEPS:
                states.append(to_numpy(state))
            steps += 1
        if beyond == 0 and len(states) <= steps:  # keep the unfinished end in view
            states[-1] = to_numpy(state)
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
        return Trace(stacked, np.stack(actions), is_over(stacked), np.stack(legal), steps)

    @cached_property
    def reset_games(self) -> State:
        """First states [N] that auto-reset put in the place of finished games, over several games per lane."""
        state, found, ended = self.first, [], 0
        steps = min(3 * self.trace.steps + 8, self.max_steps)
        for t in range(steps):
            action = self.random_action(state, self.keys(2 * t + 20, self.games))
            state, final = self.step_and_reset(state, action, self.keys(2 * t + 21, self.games))
            over = np.asarray(final.over)
            if over.any():
                ended += int(over.sum())
                found.append(take(state, over))
            if ended >= ENOUGH_RESETS:
                break
        require(ended > 0, f"no game ended within {steps} steps of {self.games} auto-reset lanes")
        return concatenated(found, ended)

    def running(self, count: int) -> State:
        """`count` states (fewer if there are fewer) of running games, from all over the random games."""
        return self._pick(~self.trace.over, count)

    def ended(self) -> State:
        """Returns the states in which the random games ended, [<= G]."""
        over = self.trace.over
        first = over & (np.cumsum(over, axis=0) == 1)
        if not first.any():
            raise NotApplicable("no random game ended")
        return self._pick(first, self.games)

    def _pick(self, where: np.ndarray, count: int) -> State:
        index = np.argwhere(where)
        index = index[np.sort(self.rng.permutation(len(index))[:count])]
        return self.recorded((index[:, 0], index[:, 1]))

    def recorded(self, at: tuple[np.ndarray, ...]) -> State:
        """States [N] of the random games, by their steps i32[N] and games i32[N]."""
        return from_numpy(jax.tree.map(lambda leaf: leaf[at], self.trace.states), self.first)


# ---- arrays ---------------------------------------------------------------------------------------------------------


def is_over(state: State) -> np.ndarray:
    """bool[...], terminated or truncated."""
    return np.asarray(state.terminated) | np.asarray(state.truncated)


def batch_size(tree: PyTree) -> int:
    """Returns B of a batch."""
    return jax.tree.leaves(tree)[0].shape[0]


def take(tree: PyTree, index: Any) -> PyTree:
    """Elements of a batch: i32[N] or bool[B], one of them i32[], or a pair of i32[N] for the first two axes.

    By NumPy, as all that rearranges batches here: a jax program would be compiled for each game and each size.
    """
    return from_numpy(jax.tree.map(lambda leaf: leaf[index], to_numpy(tree)), tree)


def concatenated(trees: list[PyTree], count: int) -> PyTree:
    """Returns the first `count` elements of several batches."""
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *map(to_numpy, trees))
    return from_numpy(joined, trees[0])


def mask_value(mask: np.ndarray, action: np.ndarray, delegated: int = 0) -> np.ndarray:
    """bool[B]: the action of every game (of all its seats, if simultaneous) is set in the mask, or is delegated."""
    inside = (action >= 0) & (action < mask.shape[-1])
    value = np.take_along_axis(mask, np.where(inside, action, 0)[..., None], axis=-1)[..., 0] & inside
    value |= (action >= mask.shape[-1]) & (action < mask.shape[-1] + delegated)
    return value if value.ndim == 1 else value.all(axis=tuple(range(1, value.ndim)))


def to_numpy(tree: PyTree) -> PyTree:
    """Returns a tree of NumPy arrays; typed PRNG keys become their data."""
    return jax.tree.map(lambda leaf: np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf), tree)


def from_numpy(tree: PyTree, like: PyTree) -> PyTree:
    """Inverts `to_numpy`; `like` is any tree of the same structure with the original dtypes."""

    def restore(leaf: np.ndarray, model: jax.Array) -> jax.Array:
        if is_key(model):
            return jax.random.wrap_key_data(jnp.asarray(leaf), impl=jax.random.key_impl(model))
        return jax.device_put(leaf)

    return jax.tree.map(restore, tree, like)


def is_key(leaf: Any) -> bool:
    """Returns whether an array holds typed PRNG keys."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def difference(a: PyTree, b: PyTree, tolerance: float = 0.0) -> str | None:
    """Returns the name of the first leaf in which two trees differ, None if they are equal.

    Floats may differ by `tolerance`, relative and absolute; everything else is compared bit for bit.
    """
    a, b = to_numpy(a), to_numpy(b)
    if not same_structure(a, b):
        return "the tree structure"
    pairs = zip(jax.tree_util.tree_leaves_with_path(a), jax.tree.leaves(b), strict=True)
    for (path, left), right in pairs:
        if left.shape != right.shape or left.dtype != right.dtype:
            return jax.tree_util.keystr(path) + " (shape or dtype)"
        if np.issubdtype(left.dtype, np.floating):
            same = np.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            same = np.array_equal(left, right)
        if not same:
            return jax.tree_util.keystr(path)
    return None


def require_same(a: PyTree, b: PyTree, sentence: str, tolerance: float = 0.0) -> None:
    """Raises `Broken` with `sentence`, in which {} is the first leaf that differs, unless two trees are equal."""
    changed = difference(a, b, tolerance)
    require(changed is None, sentence.replace("{}", changed or "").removesuffix(": "))


def same_structure(a: PyTree, b: PyTree) -> bool:
    """Returns whether two trees have the same structure, ignoring their leaves."""
    left, right = jax.tree.structure(a), jax.tree.structure(b)
    return bool(left == right)  # type: ignore[operator]


def distinct(tree: PyTree) -> int:
    """Returns the number of distinct items in a batch."""
    leaves = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(to_numpy(tree))]
    return len({b"".join(leaf[i].tobytes() for leaf in leaves) for i in range(leaves[0].shape[0])})
