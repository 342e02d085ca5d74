"""Deck files (`.dck`), and whether a Forge can play them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from jaxrl_envs.forge.deckbuilding.scripts import Scripts, scripts_of
from jaxrl_envs.forge.fleet.find import DECKS, find_forge
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError, nearest

SUFFIX = ".dck"
LIMIT = 1 << 20  # bytes of a file
_LINE = re.compile(r"(?:(\d{1,3})[xX]?\s+)?([^|;]+?)\s*\+?\s*(?:[|;].*)?")


class Deck(NamedTuple):
    """A deck list.

    Attributes:
      path: path of its file.
      cards: number of each name in the main deck.
      commanders: names in its section Commander.
    """

    path: Path
    cards: dict[str, int]
    commanders: tuple[str, ...]


def read_deck(path: Path) -> Deck:
    """Returns a deck of a file.

    Raises:
      UserError: it cannot be read.
    """
    try:
        text = files.contents(path, LIMIT).decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise UserError(f"the deck {path} cannot be read: {error.strerror or error}.") from None
    section, cards, commanders = "", dict[str, int](), list[str]()
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip().lower()
        elif line and not line.startswith("#") and (found := _LINE.fullmatch(line)):
            if section == "main":
                cards[found[2]] = cards.get(found[2], 0) + int(found[1] or 1)
            elif section == "commander":
                commanders.append(found[2])
    return Deck(path, cards, tuple(commanders))


def expanded(decks: Iterable[str]) -> tuple[str, ...]:
    """Decks by name, with those that a pattern of paths means in its place, in order; one that means none stays, for
    configurations that are read before there are decks, and `find_deck` refuses it.

    Raises:
      UserError: a path is of no file.
    """
    found: list[str] = []
    for deck in decks:
        path = Path(deck).expanduser()
        if "*" in deck:
            found += sorted(map(str, path.parent.glob(path.name))) or [deck]
        elif "/" in deck and not any(each.is_file() for each in (path, Path(f"{path}{SUFFIX}"))):
            raise UserError(f"forge: there is no deck {deck}: give the path of a {SUFFIX} file.")
        else:
            found.append(deck)
    return tuple(found)


def find_deck(name: str, folder: Path | None) -> Path:
    """Returns the file of a deck: a path, a name in the user's folder, or a shipped one.

    Raises:
      UserError: no deck has that name.
    """
    file = name if name.endswith(SUFFIX) else name + SUFFIX
    places = [Path(each).expanduser() for each in (name, file)] if "/" in name or name.endswith(SUFFIX) else []
    places += ([folder / file] if folder is not None else []) + [DECKS / file]
    for place in places:
        if place.is_file():
            return place.absolute()
    if "*" in name:
        make = f"`jaxrl forge decks --random 20 --out {Path(name).parent}` makes some"
        raise UserError(f"forge: there is no deck {name}: {make}.")
    known = {path.stem for where in (DECKS, folder) if where is not None for path in where.glob(f"*{SUFFIX}")}
    raise UserError(f"forge: there is no deck {name!r}; {nearest(name, known)}")


def cards_of(home: str) -> tuple[Scripts | None, str]:
    """Returns the card scripts of a Forge and its version; None and "" where none is found or it has none."""
    with contextlib.suppress(UserError):
        forge = find_forge(home)
        scripts = scripts_of(forge.res)
        return (scripts if len(scripts) else None), forge.version
    return None, ""


def unknown_cards(deck: Deck, scripts: Scripts) -> list[str]:
    """Returns the names in a deck that no script has."""
    return [name for name in deck.cards if not scripts.knows(name)]


def check_decks(paths: Iterable[Path], scripts: Scripts | None, version: str = "") -> None:
    """Rejects decks that cannot be played, with all that is wrong with them in one sentence.

    Args:
      paths: paths of the decks.
      scripts: cards that the Forge knows, None: that is not known here.
      version: Forge's version.

    Raises:
      UserError: a deck is empty, is a Commander deck, or has cards that are not known.
    """
    problems = []
    for deck in map(read_deck, paths):
        if deck.commanders:
            problems.append(
                f"{deck.path} is a Commander deck ({', '.join(deck.commanders)}), and only two-player games of "
                "constructed decks are played: move the commander into [Main] and leave the section out"
            )
        elif not deck.cards:
            problems.append(f"{deck.path} has no cards in a section [Main]")
        elif scripts and (strange := unknown_cards(deck, scripts)):
            problems.append(f"{deck.path} has cards that Forge {version} does not know: {', '.join(strange)}")
    if problems:
        raise UserError(f"forge: {'; '.join(problems)}.")
