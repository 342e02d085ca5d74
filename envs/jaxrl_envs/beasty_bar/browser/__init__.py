"""The page of Beasty Bar that needs no server (`jaxrl serve --site`): rules, features and table in plain JavaScript."""

from __future__ import annotations

from jaxrl_envs.beasty_bar.display.drawing import card_sprites
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.display.page import read

TITLE = "Beasty Bar"


def files(env: Env) -> dict[str, bytes]:
    """Returns the files of the page by name (see `jaxrl_envs.shared.display.page`)."""
    del env  # there is one table
    return read(__file__) | {"cards.svg": card_sprites().encode()}
