"""The page of Skull King that needs no server (`jaxrl serve --site`): rules, features and table in plain JavaScript."""

from __future__ import annotations

from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.display.page import read
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.skull_king.display.drawing import card_sprites
from jaxrl_envs.skull_king.env import SkullKing

TITLE = "Skull King"


def files(env: Env) -> dict[str, bytes]:
    """Returns the files of the page by name (see `jaxrl_envs.shared.display.page`).

    Raises:
      UserError: a table with a history, of which the page does not compute the features.
    """
    assert isinstance(env, SkullKing)
    if env.setup.history:
        raise UserError("the page of skull_king shows tables without env.history: name a policy trained without it.")
    return read(__file__) | {"cards.svg": card_sprites().encode()}
