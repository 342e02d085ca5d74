"""Checks of what people see: renderings, click areas, action names and events, which must not reveal secrets.

The same conventions as in `rules_checks`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.conformance.probe import NotApplicable, Probe, batch_size, require, take
from jaxrl_envs.contract.env import Env, PyTree, State


def rendering(probe: Probe) -> str:
    """Checks that text and SVG renderings, where the game has them, work in the first, a middle and the last state."""
    states = [take(probe.first, 0), take(probe.running(1), 0), take(probe.ended(), 0)]
    has = []
    for name, method in (("text", probe.env.render), ("SVG", probe.env.render_svg)):
        try:
            pages = [method(state) for state in states]
        except NotImplementedError:
            continue
        require(all(isinstance(page, str) and page for page in pages), f"the {name} rendering is not a non-empty str")
        has.append(name)
        if name == "SVG":
            roots = [ElementTree.fromstring(page).tag for page in pages]
            require(all(tag.endswith("svg") for tag in roots), "render_svg does not return an SVG document")
    if not has:
        raise NotApplicable("the game has none")
    return " and ".join(has)


def rendering_keeps_secrets(probe: Probe) -> str:
    """Checks that exchanging what a seat cannot see leaves text, drawings and notes of actions for it unchanged."""
    env, states = probe.env, probe.running(12)
    count = batch_size(states)
    if probe.permute is None:
        raise NotApplicable("the game does not implement permute_hidden, so hidden information is not tested")
    seats = np.arange(count, dtype=np.int32) % env.num_players  # one seat a state: renderings are slow Python
    permuted = probe.permute(states, jnp.asarray(seats), probe.keys(18, count))
    has: list[str] = []
    shown: list[tuple[str, Callable[[State, int], Any]]] = [("text", env.render), ("drawing", env.render_svg)]
    if env.upright is not env:
        shown.append(("upright drawing", env.upright.render_svg))
    if type(env).action_note is not Env.action_note:
        shown.append(("notes of actions", lambda state, seat: _notes(env, state, seat)))
    for name, method in shown:
        try:
            method(take(states, 0), 0)
        except NotImplementedError:
            continue
        has.append(name)
        for i, seat in enumerate(map(int, seats)):
            same = method(take(states, i), seat) == method(take(permuted, i), seat)
            require(same, f"{name} for seat {seat}: something is shown that it must not see")
    if not has:
        raise NotApplicable("the game has no rendering for a seat")
    return f"{' and '.join(has)}, {count} states"


def _notes(env: Env, state: State, seat: int) -> list[str]:
    """Returns the notes of the legal actions of a seat, if it is asked."""
    asked = not env.simultaneous and seat == _actor(state)
    return [env.action_note(state, int(n)) for n in np.flatnonzero(state.legal_action_mask)] if asked else []


def clickable(probe: Probe) -> str:
    """Checks that click areas lie in the drawing, name legal actions of the seat asked, and tell it nothing hidden."""
    if probe.env.upright is not probe.env:
        _clickable(probe, probe.env.upright)
    return _clickable(probe, probe.env)


def _clickable(probe: Probe, env: Env) -> str:
    states = probe.running(12)
    count = batch_size(states)
    if env.simultaneous or not any(env.click_areas(take(states, i), _actor(take(states, i))) for i in range(count)):
        raise NotApplicable("the game offers no click areas")
    actors, permuted = np.asarray(states.current_player), None
    if probe.permute is not None:
        permuted = probe.permute(states, jnp.asarray(actors), probe.keys(50, count))
    for i in range(count):
        state, seat = take(states, i), int(actors[i])
        areas = list(env.click_areas(state, seat))
        mask = np.asarray(state.legal_action_mask)
        box = ElementTree.fromstring(env.render_svg(state, seat)).get("viewBox", "").split()
        width, height = float(box[2]), float(box[3])
        for area in areas:
            inside = 0 <= area.x <= width - area.width and 0 <= area.y <= height - area.height
            require(inside, f"a click area of {env.action_name(area.actions[0])!r} lies outside of the drawing")
            require(all(mask[action] for action in area.actions), "a click area stands for an action that is not legal")
        same = permuted is None or areas == list(env.click_areas(take(permuted, i), seat))
        require(same, f"the click areas for seat {seat} show something that it must not see")
    return f"{count} states"


def _actor(state: State) -> int:
    return int(np.asarray(state.current_player))


def action_names(probe: Probe) -> None:
    """Checks that every action has a name, so that people can play; equivalent actions may share one."""
    names = [probe.env.action_name(action) for action in range(probe.env.num_actions)]
    require(all(isinstance(name, str) and name for name in names), "action_name must give a non-empty str")


def event_keeps_secrets(probe: Probe) -> str:
    """Checks that two actions of another seat that leave a seat's view the same are told to it in the same words."""
    env = probe.env
    if env.simultaneous or env.num_players == 1:
        raise NotApplicable("only for games in which seats take turns")
    if env.public_actions:
        raise NotApplicable("all actions are public")
    states = probe.running(32)
    actors, keys = np.asarray(states.current_player), probe.keys(40, batch_size(states))
    mask = np.asarray(states.legal_action_mask)
    actions = [mask.argmax(axis=1), mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)]  # the lowest and the highest
    after = [probe.step(states, jnp.asarray(action, jnp.int32), keys) for action in actions]
    seen = [_seen(probe, state) for state in after]
    alike = 0
    for i, actor in enumerate(actors):
        for seat in range(env.num_players):
            if seat == actor or seen[0][i][seat] != seen[1][i][seat]:
                continue
            before = take(states, i)
            told = [env.event(before, int(actions[k][i]), take(after[k], i), seat) for k in (0, 1)]
            require(all(isinstance(text, str) and text for text in told), "event must give a non-empty str")
            names = [env.action_name(int(actions[k][i])) for k in (0, 1)]
            sentence = f"event tells seat {seat} whether seat {actor} chose {names[0]!r} or {names[1]!r}"
            require(told[0] == told[1], f"{sentence}, which it cannot see")
            alike += int(actions[0][i]) != int(actions[1][i])
    return f"{alike} pairs of secret actions" if alike else "no action of another seat is secret"


def _seen(probe: Probe, states: State) -> list[list[bytes]]:
    """[B][P]: what each seat sees of each state, its observation and what is public."""
    views: PyTree = jax.tree.map(np.asarray, probe.views(states))
    public = [np.asarray(leaf) for leaf in (states.current_player, states.rewards, states.terminated, states.truncated)]
    return [
        [
            b"".join(leaf[i, seat].tobytes() for leaf in jax.tree.leaves(views))
            + b"".join(leaf[i].tobytes() for leaf in public)
            for seat in range(probe.env.num_players)
        ]
        for i in range(batch_size(states))
    ]


CHECKS = (
    rendering,
    rendering_keeps_secrets,
    clickable,
    action_names,
    event_keeps_secrets,
)
