"""The zoo: trained policies that come with jaxrl, `zoo:NAME` wherever a policy file is named on the command line.

NAME.jaxrl   the policy file, its weights in half precision
NAME.md      its card: above, between two lines of dashes, the figures as YAML; below, the tables

One that is called as a game is who `jaxrl play GAME` plays against. `python -m scripts.zoo NAME` makes an entry.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError, nearest

PREFIX = "zoo:"  # "zoo:NAME" is a policy of the zoo
FOLDER = Path(__file__).resolve().parent
DASHES = "---\n"  # above and below the figures of a card


def names() -> list[str]:
    """Returns the names of all policies."""
    return sorted(path.stem for path in FOLDER.glob("*.jaxrl"))


def policy_file(name: str) -> Path:
    """Returns the policy file called `name`. Raises UserError if no policy has this name; the message suggests the
    nearest one."""
    if name not in names():
        raise UserError(f"there is no policy {name!r} in the zoo: {nearest(name, names())}")
    return FOLDER / f"{name}.jaxrl"


def card_file(name: str) -> Path:
    """Returns the card of the policy called `name`. Errors as of `policy_file`."""
    return policy_file(name).with_suffix(".md")


def figures(name: str) -> dict[str, Any]:
    """Returns the figures in the head of a card, see `scripts.zoo`. Errors as of `policy_file`."""
    return split_card(card_file(name).read_text(encoding="utf-8"), f"the card of {PREFIX}{name}")[0]


def split_card(card: str, label: str) -> tuple[dict[str, Any], str]:
    """Returns the figures in the head of a card, and the text below it; no figures where there is no such head. Raises
    UserError: the head is no YAML. `label`: the card's name in messages."""
    before, *rest = card.split(DASHES, 2)
    head = files.parse(rest[0], label) if len(rest) == 2 and not before else None
    return (head, rest[1]) if isinstance(head, dict) else ({}, card)
