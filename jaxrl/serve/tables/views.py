"""Views of a position for a seat: the only place from which a position reaches a browser.

Everything comes from what the game says for that seat (`render_svg(state, seat)`, `event(…, seat)`, its own legal
actions); with `seat` None everything is shown, which is for games without people and for those that are over.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.contract.env import Env, State, is_over


def position(env: Env, state: State, seat: int | None) -> dict[str, Any]:
    """Returns the position as `seat` may see it: drawing or text, legal actions and where to click.

    Args:
      env: the game.
      state: one of its states.
      seat: the observer; None sees everything.
    """
    over = bool(is_over(state))
    asked = [] if over else [int(each) for each in np.atleast_1d(np.asarray(state.current_player))]
    shown: dict[str, Any] = {"asked": asked, "over": over, "legal": [], "click_areas": [], "board": "", "text": ""}
    try:
        shown["board"] = env.render_svg(state, seat)
    except NotImplementedError:
        shown["text"] = _text(env, state, seat)
    if seat in asked and not env.simultaneous:
        legal = np.flatnonzero(np.asarray(state.legal_action_mask))
        shown["legal"] = [[int(action), env.action_name(int(action))] for action in legal]
        shown["click_areas"] = [list(area) for area in env.click_areas(state, seat)]
    if over:
        shown["figures"] = {name: np.asarray(each).tolist() for name, each in env.episode_stats(state).items()}
    return shown


def _text(env: Env, state: State, seat: int | None) -> str:
    try:
        return env.render(state, seat)
    except NotImplementedError:
        if seat is None:
            return ""
        return str(jax.tree.map(np.asarray, env.observe(state, jnp.int32(seat))))
