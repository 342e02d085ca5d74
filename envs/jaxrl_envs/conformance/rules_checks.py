"""The promises of the contract about a game's form, its play and its purity, one function each.

A check returns a sentence worth knowing (or None), raises `Broken` with the promise that is not kept, or
`NotApplicable`. Later checks assume what earlier ones test.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.conformance.probe import (
    NotApplicable,
    Probe,
    batch_size,
    is_key,
    require,
    require_same,
    same_structure,
    take,
)
from jaxrl_envs.contract.env import Env, State
from jaxrl_envs.shared import user_code

FLOAT_TOLERANCE = 1e-5  # compiled and uncompiled floats may be rounded differently


# ---- form -----------------------------------------------------------------------------------------------------------


def attributes(probe: Probe) -> str:
    """Checks that the game says what it is."""
    env = probe.env
    require(isinstance(env, Env), f"{type(env).__name__} is not a subclass of jaxrl_envs.contract.env.Env")
    for name in ("id", "version"):
        value = getattr(env, name, None)
        require(isinstance(value, str) and value, f"env.{name} must be a non-empty string, not {value!r}")
    for name in ("num_players", "num_actions"):
        value = getattr(env, name, None)
        require(isinstance(value, int) and value >= 1, f"env.{name} must be an int of at least 1, not {value!r}")
    for name in ("simultaneous", "may_truncate", "public_actions", "perfect_information", "multi_output_fusion"):
        value = getattr(env, name)
        require(isinstance(value, bool), f"env.{name} must be a bool, not {value!r}")
    _require_sides(env)
    kind = "simultaneous" if env.simultaneous else "turn-based"
    teams = f" on {env.num_sides} sides" if env.num_sides < env.num_players else ""
    return f"{kind}, {env.num_players} seats{teams}, {env.num_actions} actions, {env.num_features} features"


def _require_sides(env: Env) -> None:
    """Checks that every seat has a side, and that sides are numbered from 0 without a gap."""
    sides = env.sides
    integers = isinstance(sides, tuple) and all(isinstance(side, int) for side in sides)
    require(integers, f"env.sides must be a tuple of ints, not {sides!r}")
    require(len(sides) == env.num_players, f"env.sides has {len(sides)} entries for {env.num_players} seats")
    complete = sorted(set(sides)) == list(range(len(set(sides))))
    require(complete, f"env.sides is {sides}: sides are numbered 0, 1, ... and have at least one seat each")
    alone = len(set(sides)) < len(sides) or sides == tuple(range(len(sides)))
    require(alone, f"env.sides is {sides}: where every seat is a side of its own, seat i is side i")


def shapes_and_dtypes(probe: Probe) -> str:
    """Checks that public fields have the contract's shapes and dtypes, and a step changes none of them (for scan)."""
    env, seats = probe.env, probe.env.num_players
    lead = (seats,) if env.simultaneous else ()
    key = jax.eval_shape(lambda: jax.random.key(0))
    _require_state(env, "_init", jax.eval_shape(env._init, key))
    state = jax.eval_shape(env.init, key)
    expected = {
        "current_player": (lead, "int32"),
        "legal_action_mask": ((*lead, env.num_actions), "bool"),
        "rewards": ((seats,), "float32"),
        "terminated": ((), "bool"),
        "truncated": ((), "bool"),
        "illegal_action": ((), "bool"),
    }
    for name, (shape, dtype) in expected.items():
        leaf = getattr(state, name)
        found = f"{leaf.dtype}{list(leaf.shape)}"
        require((leaf.shape, str(leaf.dtype)) == (shape, dtype), f"{name} is {found}, not {dtype}{list(shape)}")
    action = jax.ShapeDtypeStruct(lead, jnp.int32)
    reset = jax.eval_shape(env.reset, state, key)
    for name, after in (("step", _stepped(env, state, action, key)), ("reset", reset)):
        changed = _form_difference(state, after)
        require(changed is None, f"{name} changes the shape or dtype of {changed}")
    leaves = jax.tree.leaves(state)
    size = sum(int(np.prod(leaf.shape)) * (8 if is_key(leaf) else leaf.dtype.itemsize) for leaf in leaves)
    return f"a state has {len(leaves)} leaves, {size:,} bytes"


def _require_state(env: Env, name: str, made: object) -> None:
    where = user_code.place_of(getattr(type(env), name))
    require(isinstance(made, State), f"{where}: {name} gives {type(made).__name__} in the place of a State")


def _stepped(env: Env, state: State, action: jax.ShapeDtypeStruct, key: jax.ShapeDtypeStruct) -> State:
    """Shapes and dtypes of the next state; errors of the base class are reported as errors of the game's `_step`."""
    made = jax.eval_shape(env._step, state, action, key)
    _require_state(env, "_step", made)
    try:
        return jax.eval_shape(env.step, state, action, key)
    except (TypeError, ValueError):
        changed = _form_difference(state.replace(observation=None), made.replace(observation=None))
        where = user_code.place_of(type(env)._step)
        require(changed is None, f"{where}: _step changes the shape or dtype of {changed}")
        raise


def _form_difference(before: State, after: State) -> str | None:
    if not same_structure(before, after):
        return "the tree structure"
    pairs = zip(jax.tree_util.tree_leaves_with_path(before), jax.tree.leaves(after), strict=True)
    for (path, left), right in pairs:
        if left.shape != right.shape or left.dtype != right.dtype:
            return f"{jax.tree_util.keystr(path)}: {left.dtype}{left.shape} -> {right.dtype}{right.shape}"
    return None


# ---- play -----------------------------------------------------------------------------------------------------------


def random_play_terminates(probe: Probe) -> str:
    """Checks that every game of random legal actions ends."""
    trace = probe.trace
    unfinished = int((~trace.over[-1]).sum())
    require(unfinished == 0, f"{unfinished} of {probe.games} random games still ran after {trace.steps} steps")
    lengths = (~trace.over).sum(axis=0)
    return f"{lengths.min()} to {lengths.max()} steps, mean {lengths.mean():.1f}"


def seat_to_move(probe: Probe) -> None:
    """Checks that `current_player` is a seat; in a simultaneous game all of them, in order."""
    player, seats = probe.trace.states.current_player, probe.env.num_players
    if probe.env.simultaneous:
        require((player == np.arange(seats)).all(), "current_player of a simultaneous game must always be arange(P)")
    else:
        require(((player >= 0) & (player < seats)).all(), f"current_player leaves 0 .. {seats - 1}")


def legal_action_exists(probe: Probe) -> str:
    """Checks that a running game offers every asked seat a legal action, and never calls choosing it illegal."""
    trace = probe.trace
    mask = trace.states.legal_action_mask
    none = ~mask.any(axis=-1)
    none = none if none.ndim == 2 else none.any(axis=-1)
    count = int((none & ~trace.over).sum())
    require(count == 0, f"{count} running states have an empty legal_action_mask")
    require(trace.legal.all(), "random_action chose an action that the mask forbids")
    require(not trace.states.illegal_action.any(), "a legal action was punished as illegal")
    return f"{mask[~trace.over].sum(axis=-1).mean():.1f} legal actions on average"


def is_legal_agrees_with_mask(probe: Probe) -> None:
    """Checks that `is_legal` gives what the mask gives, for every action."""
    env, states = probe.env, probe.running(32)
    actions = jnp.arange(env.num_actions, dtype=jnp.int32)
    if env.simultaneous:
        actions = jnp.tile(actions[:, None], (1, env.num_players))
    every = probe.compiled(lambda state: jax.vmap(env.is_legal, in_axes=(None, 0))(state, actions))(states)
    every = every.transpose(0, 2, 1) if env.simultaneous else every  # bool[B, (P,) A]
    wrong = np.argwhere(np.asarray(every != states.legal_action_mask))
    first = wrong[0][-1] if len(wrong) else None
    require(first is None, f"is_legal and legal_action_mask disagree, first on action {first}")


def illegal_action_loses(probe: Probe) -> str:
    """Checks that an illegal action ends the game and is counted; the offender loses, the others share what it lost.

    Tried with actions that the mask forbids and with numbers that are no actions.
    """
    env, states = probe.env, probe.running(64)
    mask = np.asarray(states.legal_action_mask)
    masks = mask if env.simultaneous else mask[:, None]  # bool[B, askers, A]
    askers, rows = masks.shape[1], np.arange(len(masks))
    for number in (-1, env.num_actions + env.delegated, 2**30):
        action, seats = masks.argmax(axis=-1), rows % askers
        action[rows, seats] = number
        _require_lost(probe, states, action, seats, number)
    games, seats = np.nonzero(~masks.all(axis=-1))
    games, first = np.unique(games, return_index=True)
    if len(games) == 0:
        return f"tried numbers that are no actions in {len(rows)} states; every action was always legal"
    action, seats = masks[games].argmax(axis=-1), seats[first]
    illegal = (~masks[games, seats]).argmax(axis=-1)
    action[np.arange(len(games)), seats] = illegal
    chosen = take(states, games)
    _require_lost(probe, chosen, action, seats, illegal[0])
    return f"tried in {len(games)} states, and numbers that are no actions in {len(rows)}"


def _require_lost(probe: Probe, states: State, action: np.ndarray, seats: np.ndarray, number: int) -> None:
    """Plays i32[N, askers] actions, of which that of the asker `seats` (i32[N]) is illegal."""
    env, name = probe.env, f"illegal action {number}"
    offender = seats if env.simultaneous else np.asarray(states.current_player)
    actions = jnp.asarray(action if env.simultaneous else action[:, 0], jnp.int32)
    after = probe.step(states, actions, probe.keys(1, len(seats)))
    require(np.asarray(after.terminated).all(), f"{name} does not end the game")
    require(np.asarray(after.illegal_action).all(), f"{name} does not set illegal_action, so it is never counted")
    is_offender = np.arange(env.num_players) == offender[:, None]
    penalty = env.illegal_action_penalty
    expected = np.where(is_offender, -penalty, penalty / max(env.num_players - 1, 1))
    right = np.allclose(np.asarray(after.rewards), expected, atol=1e-6)
    require(right, f"rewards after {name} are {np.asarray(after.rewards)[0]}, not {expected[0]}")
    told = ("legal_action_mask", "rewards", "terminated", "illegal_action", "observation")
    before = {each: getattr(states, each) for each in told}
    require_same(after.replace(**before), states, f"{name} was executed: {{}} changed")


def mask_all_true_at_end(probe: Probe) -> None:
    """Checks that the mask of a finished game is all True, so that no masked softmax divides zero by zero."""
    mask = np.asarray(probe.ended().legal_action_mask)
    require(mask.all(), f"the mask of a finished game has {int((~mask).sum(axis=-1).max())} False entries")


def absorbing_end(probe: Probe) -> None:
    """Checks that a finished game stays as it is, for any action."""
    ended = probe.ended()
    count = batch_size(ended)
    lead = (probe.env.num_players,) if probe.env.simultaneous else ()
    for stream in range(3):
        action = jnp.asarray(probe.rng.integers(0, probe.env.num_actions, (count, *lead)), jnp.int32)
        after = probe.step(ended, action, probe.keys(stream, count))
        require_same(after.replace(rewards=ended.rewards), ended, "a step after the end changes {}")


def rewards(probe: Probe) -> str:
    """Checks that rewards are finite, zero in the first state, and zero after the end."""
    trace = probe.trace
    reward = trace.states.rewards
    require(np.isfinite(reward).all(), "a reward is not finite")
    require((reward[0] == 0).all(), "the first state already has a reward")
    after = trace.over[:-1]  # the step was taken from a finished state
    require((reward[1:][after] == 0).all(), "a step after the end pays a reward")
    total = reward.sum(axis=0)  # f32[G, P]
    error = total.std(axis=0) / np.sqrt(max(probe.games - 1, 1))
    means = ", ".join(f"{mean:.2f} ± {2 * each:.2f}" for mean, each in zip(total.mean(axis=0), error, strict=True))
    return f"mean return of {probe.games} random games by seat, ± two standard errors: {means}"


def truncation(probe: Probe) -> str:
    """Checks that a cut-off game is declared by `may_truncate`, and is not also terminated."""
    states = probe.trace.states
    count = int(states.truncated[-1].sum())
    require(count == 0 or probe.env.may_truncate, "a game was truncated although env.may_truncate is False")
    require(not (states.truncated & states.terminated).any(), "a game is both truncated and terminated")
    return f"{count} of {probe.games} random games were cut off" if probe.env.may_truncate else "never"


def episode_stats(probe: Probe) -> str:
    """Checks that figures of finished games are finite f32[P]."""
    stats = probe.compiled(probe.env.episode_stats)(probe.ended())
    for name, value in stats.items():
        found = f"{value.dtype}{list(value.shape[1:])}"
        form = value.dtype == jnp.float32 and value.shape[1:] == (probe.env.num_players,)
        require(form, f"episode_stats[{name!r}] is {found}, not float32[{probe.env.num_players}]")
        require(np.isfinite(np.asarray(value)).all(), f"episode_stats[{name!r}] is not finite")
    if not stats:
        raise NotApplicable("the game has none")
    return ", ".join(f"{name} {float(value.mean()):.2f}" for name, value in sorted(stats.items()))


# ---- purity ---------------------------------------------------------------------------------------------------------


def deterministic_by_key(probe: Probe) -> None:
    """Checks that the same key gives the same game, also in a freshly traced program."""
    env, states = probe.env, probe.running(16)
    keys = probe.keys(3, batch_size(states))
    action = probe.random_action(states, keys)
    step, init = probe.compiled(env.step), probe.compiled(env.init)
    require_same(step(states, action, keys), probe.step(states, action, keys), "step gives another {} for the same key")
    require_same(init(keys), probe.init(keys), "init gives another {} for the same key")


def jit_equals_no_jit(probe: Probe) -> None:
    """Checks that a compiled step and an uncompiled one agree (floats up to rounding)."""
    _require_alike(probe, 1, 4, probe.env.step, "the compiled and the uncompiled step")


def vmap_equals_loop(probe: Probe) -> None:
    """Checks that a batch of games gives what the games give one by one: no lane depends on another."""
    _require_alike(probe, 16, 5, jax.jit(probe.env.step), "a batch and a single game")


def _require_alike(probe: Probe, count: int, stream: int, step: Callable[..., State], what: str) -> None:
    """Checks that `step` gives for each of `count` states what the compiled step of a batch gives."""
    states = probe.running(count)
    keys = probe.keys(stream, batch_size(states))
    actions = probe.random_action(states, keys)
    batched = probe.step(states, actions, keys)
    for i in range(batch_size(states)):
        one = step(take(states, i), actions[i], keys[i])
        require_same(take(batched, i), one, f"{{}} differs between {what}", FLOAT_TOLERANCE)


CHECKS = (
    attributes,
    shapes_and_dtypes,
    random_play_terminates,
    seat_to_move,
    legal_action_exists,
    is_legal_agrees_with_mask,
    illegal_action_loses,
    mask_all_true_at_end,
    absorbing_end,
    rewards,
    truncation,
    episode_stats,
    deterministic_by_key,
    jit_equals_no_jit,
    vmap_equals_loop,
)
