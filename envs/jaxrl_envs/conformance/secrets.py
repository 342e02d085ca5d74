"""Checks of hidden information: neither observations nor beliefs may depend on what a seat cannot see.

The same conventions as in `rules_checks`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.conformance.probe import (
    NotApplicable,
    Probe,
    batch_size,
    difference,
    from_numpy,
    is_key,
    require,
    require_same,
    take,
    to_numpy,
)
from jaxrl_envs.contract.env import PyTree, State
from jaxrl_envs.shared.card_beliefs import draw, uniform

EXCHANGES = 6  # elements of each leaf that are exchanged in every state
OPEN = "if nothing is hidden, set perfect_information = True instead"
PUBLIC = {field.name for field in dataclasses.fields(State)}


def hidden_information(probe: Probe) -> str:
    """Checks that exchanging what a seat cannot see leaves its observation and its own legal actions unchanged."""
    env, states = probe.env, probe.running(64)
    count = batch_size(states)
    if env.perfect_information:
        return _nothing_hidden(probe)
    if probe.permute is None:
        raise NotApplicable(f"no permute_hidden: no leak was looked for; {OPEN}")

    @probe.compiled
    def views(state: State, permuted: State, seat: jax.Array) -> tuple[Any, Any, jax.Array]:
        asked = state.current_player == seat
        differs = jnp.any(state.legal_action_mask != permuted.legal_action_mask, axis=-1) & asked
        return env.observe(state, seat), env.observe(permuted, seat), jnp.any(differs)

    exchanged = 0
    for seat in range(env.num_players):
        seats = jnp.full(count, seat, jnp.int32)
        worlds = [probe.permute(states, seats, probe.keys(14 + stream, count)) for stream in range(4)]
        for permuted in worlds:
            before, after, differs = views(states, permuted, seats)
            exchanged += difference(states, permuted) is not None
            require_same(before, after, f"the observation of seat {seat} shows something that it must not see: {{}}")
            require(not differs.any(), f"permute_hidden changes the legal actions of seat {seat}, whose turn it is")
        again = probe.permute(worlds[1], seats, probe.keys(14, count))
        one, other = (world.replace(observation=None) for world in (worlds[0], again))
        require_same(one, other, f"what permute_hidden draws depends on what seat {seat} cannot see: {{}}")
    require(exchanged, f"permute_hidden redraws nothing: deal again what a seat does not see; {OPEN}")
    return f"{count} states, every seat"


def _nothing_hidden(probe: Probe) -> str:
    """Returns the note for a game that declares `perfect_information`."""
    if probe.env.host:
        return "nothing, as the game says"  # a saved state is opaque, and must not be tampered with
    unseen = ", ".join(_require_open(probe))
    return f"nothing is hidden, provided that {unseen} follows from what is seen" if unseen else "nothing is hidden"


def privileged_view(probe: Probe) -> str:
    """Checks that `privileged` is finite f32[G] for every seat once expanded, and shows something hidden from it."""
    env, states = probe.env, probe.running(64)
    count, one = batch_size(states), take(states, 0)
    if env.privileged(one, jnp.int32(0)) is None:
        raise NotApplicable("no privileged: no critic can be trained that sees what is hidden")

    @probe.compiled
    def expand(state: State) -> jax.Array:
        return jax.vmap(lambda seat: env.privileged_features(env.privileged(state, seat)))(jnp.arange(env.num_players))

    for group in (states, probe.ended()):
        found = expand(group)
        formed = found.dtype == jnp.float32 and found.ndim == 3
        require(formed, f"it is {found.dtype}{list(found.shape[2:])}, not f32[G]")
        require(np.isfinite(np.asarray(found)).all(), "a feature of it is not finite")
    if probe.permute is not None:
        exchanged = probe.permute(states, jnp.zeros(count, jnp.int32), probe.keys(28, count))
        changed = difference(expand(states)[:, 0], expand(exchanged)[:, 0])
        require(changed is not None, "exchanging what seat 0 cannot see changes nothing of it")
    return f"{found.shape[2]} features"


def beliefs(probe: Probe) -> str:
    """Checks that `reconcile` gives the seat's view back, reads nothing hidden of the real state, takes all worlds."""
    env, states = probe.env, probe.running(64)
    key, count = jax.random.key(0), batch_size(states)
    one = take(states, 0)
    world = env.permute_hidden(one, jnp.int32(0), key)
    if world is None or env.reconcile(world, one, jnp.int32(0), key) is None:
        raise NotApplicable("the game does not implement reconcile, so a search keeps no belief")

    @probe.compiled
    def carry_over(state: State, seat: jax.Array, key: jax.Array) -> tuple[Any, ...]:
        keys = jax.random.split(key, 3)
        particle, other = env.permute_hidden(state, seat, keys[0]), env.permute_hidden(state, seat, keys[1])
        assert particle is not None and other is not None  # asked above
        result, again = env.reconcile(particle, state, seat, keys[2]), env.reconcile(particle, other, seat, keys[2])
        assert result is not None and again is not None
        plain = [x[0].replace(observation=None) for x in (result, again)]
        return env.observe(state, seat), env.observe(result[0], seat), result[1], *plain

    for seat in range(env.num_players):
        seats = jnp.full(count, seat, jnp.int32)
        before, after, possible, first, second = carry_over(states, seats, probe.keys(18 + seat, count))
        require_same(before, after, f"reconcile changes what seat {seat} sees: {{}}")
        require(np.asarray(possible).all(), f"reconcile rejects a world that permute_hidden gave seat {seat}")
        require_same(first, second, f"reconcile reads what seat {seat} cannot see of the real state: {{}}")
    return f"{count} states, every seat"


def card_beliefs(probe: Probe) -> str:
    """Checks that every hidden card is where `card_beliefs` allows it, that the room adds up, and that worlds with
    drawn holders look the same to the seat, have them, and tell nothing else of what it cannot see."""
    env, states = probe.env, probe.running(64)
    count, one = batch_size(states), take(states, 0)
    if env.card_beliefs(env.observe(one, jnp.int32(0))) is None or env.privileged(one, jnp.int32(0)) is None:
        raise NotApplicable("no card_beliefs: no belief can be learnt of who holds what")

    @probe.compiled
    def compare(state: State, seat: jax.Array, key: jax.Array) -> tuple[Any, ...]:
        view = env.observe(state, seat)
        known, real = env.card_beliefs(view), env.holders(view, env.privileged(state, seat))
        assert known is not None  # asked above
        keys = jax.random.split(key, 3)
        drawn = draw(uniform(known), known, keys[0])
        world = env.world_with(state, seat, drawn, keys[1])
        again = env.observe(world, seat)
        other = env.permute_hidden(state, seat, keys[2])
        twin = world if other is None else env.world_with(other, seat, drawn, keys[1])
        plain = [each.replace(observation=None) for each in (world, twin)]
        return known, real, drawn, view, again, env.holders(again, env.privileged(world, seat)), *plain

    for seat in range(env.num_players):
        seats, keys = jnp.full(count, seat), probe.keys(29 + seat, count)
        known, *each, before, after, found, world, twin = compare(states, seats, keys)
        hidden, room = np.asarray(known.possible).any(axis=2), np.asarray(known.room)
        complete = (room >= 0).all() and (room.sum(axis=1) == hidden.sum(axis=1)).all()
        require(complete, "the room is not that of all hidden")
        for holders, whose in zip(map(np.asarray, each), ("where things are", "what is drawn"), strict=True):
            here = holders[..., None] == np.arange(room.shape[1])
            fits = (holders >= 0) == hidden
            possible = fits & ~(here & ~np.asarray(known.possible)).any(axis=2)
            require(possible.all(), f"{whose} is not thought possible")
            require((here.sum(axis=1) == room).all(), f"{whose} does not fill the room")
        require_same(before, after, f"world_with changes what seat {seat} sees: {{}}")
        require((np.asarray(found) == np.asarray(each[1])).all(), "world_with puts things elsewhere than asked")
        require_same(world, twin, f"what world_with draws depends on what seat {seat} cannot see: {{}}")
    return f"{known.possible.shape[1]} things, {room.shape[1]} holders"


# ---- whether anything is hidden --------------------------------------------------------------------------------------


def _require_open(probe: Probe) -> list[str]:
    """Returns private leaves with changes that the seat to move does not see, perhaps as they follow from others.

    Raises:
      Broken: another seat sees it: that is hidden information.
    """
    states, rng = probe.running(32), np.random.default_rng(probe.seed)
    plain, before, unseen = to_numpy(states), to_numpy(probe.views(states)), []
    for index, (path, leaf) in enumerate(jax.tree_util.tree_leaves_with_path(states)):
        name = jax.tree_util.keystr(path)
        if getattr(path[0], "name", "") in PUBLIC or is_key(leaf):
            continue
        for _ in range(EXCHANGES):
            other, changed = _exchanged(plain, index, rng)
            seen = _differs(before, to_numpy(probe.views(from_numpy(other, states))))
            mover = seen.all(axis=1) if probe.env.simultaneous else seen[np.arange(len(seen)), plain.current_player]
            told = seen.any(axis=1) & ~mover
            require(not told.any(), f"one seat sees something of {name} that is hidden from the seat to move")
            if (changed & ~mover).any() and name not in unseen:
                unseen.append(name)
    return unseen


def _exchanged(states: PyTree, index: int, rng: np.random.Generator) -> tuple[PyTree, np.ndarray]:
    """States [B], each with one element of leaf `index` as the next state has it, and bool[B]: whether it differs."""
    leaves, form = jax.tree.flatten(states)
    flat = leaves[index].reshape(len(leaves[index]), -1)
    rows, place = np.arange(len(flat)), rng.integers(flat.shape[1], size=len(flat))
    fresh = flat.copy()
    fresh[rows, place] = np.roll(flat, -1, axis=0)[rows, place]
    leaves[index] = fresh.reshape(leaves[index].shape)
    return jax.tree.unflatten(form, leaves), fresh[rows, place] != flat[rows, place]


def _differs(before: PyTree, after: PyTree) -> np.ndarray:
    """bool[B, P]: the observations in which something differs."""
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    differ = [(a != b).reshape(*a.shape[:2], -1).any(axis=2) for a, b in pairs]
    return np.any(differ, axis=0)
