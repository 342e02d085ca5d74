"""The card scripts of a Forge release, read as data: which cards there are, what they cost and roughly do.

A release keeps them as files (`res/cardsfolder/l/lightning_bolt.txt`) or all in one `res/cardsfolder/cardsfolder.zip`.
A file tells a card in lines `Key:value`; the faces of cards with several are divided by a line ALTERNATE.
"""

from __future__ import annotations

import bisect
import functools
import re
import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path

_NAME = re.compile(r"^Name:(.*?)\s*$", re.MULTILINE)
_OUTSIDE = ("upcoming", "rebalanced")  # folders of cards that are in no printed edition
_PRINTED = ("Core", "Expansion", "Starter", "Draft", "Reprint", "Commander", "Duel_Deck", "Multiplayer")


class Scripts:
    """The scripts of the cards in a folder `res`.

    Attributes:
      files: letters and digits of each file's name, and its place; sorted.
    """

    def __init__(self, res: Path):
        """Lists them; none is read yet."""
        folder = res / "cardsfolder"
        archives = sorted(folder.glob("*.zip"))
        self._archive = zipfile.ZipFile(archives[0]) if archives else None
        names = self._archive.namelist() if self._archive else map(str, folder.rglob("*.txt"))
        self.files = sorted((_plain(Path(name).stem), name) for name in names if name.endswith(".txt"))
        self._res = res

    def __len__(self) -> int:
        return len(self.files)

    def text(self, name: str) -> str:
        """Returns a script, by its place in `files`."""
        data = self._archive.read(name) if self._archive else Path(name).read_bytes()
        return data.decode(errors="replace").replace("\r", "")

    def knows(self, name: str) -> bool:
        """Returns whether a card, or a face of one, has that name; upper and lower case and accents do not count."""
        key, wanted = _plain(name), _folded(name)
        for number in range(bisect.bisect_left(self.files, (key, "")), len(self.files)):
            stem, place = self.files[number]
            if not stem.startswith(key):
                break
            if wanted in _names(self.text(place)):  # files of two faces bear both names
                return True
        return wanted in self.names

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """All names of cards and of faces, folded: every file is read."""
        return frozenset(name for _, place in self.files for name in _names(self.text(place)))

    def all(self) -> Iterator[str]:
        """Yields the scripts of all cards that have been in print, in a fixed order."""
        for _, place in self.files:
            if not any(part in _OUTSIDE for part in Path(place).parts):
                yield self.text(place)

    @functools.cached_property
    def legal(self) -> frozenset[str]:
        """Names of all cards in a printed edition that Legacy does not ban."""
        found: set[str] = set()
        for path in sorted((self._res / "editions").glob("*.txt")):
            text = path.read_text(encoding="utf-8", errors="replace")
            kind = re.search(r"^Type=(\w+)", text, re.MULTILINE)
            cards = re.search(r"^\[cards\]\n((?:(?!\[).*\n?)*)", text, re.MULTILINE)
            if kind and cards and kind[1] in _PRINTED:
                found |= {m[1] for m in re.finditer(r"^(?:\S+ )?[CURMLSB] (.+?)(?: @.*)?$", cards[1], re.MULTILINE)}
        formats = [path for path in (self._res / "formats").rglob("Legacy.txt") if path.parent.name == "Sanctioned"]
        for path in formats:
            banned = re.search(r"^Banned:(.*)$", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
            found -= {name.strip() for name in banned[1].split(";")} if banned else set()
        return frozenset(found)


@functools.lru_cache(maxsize=2)
def scripts_of(res: Path) -> Scripts:
    """Returns the scripts of a release, listed once."""
    return Scripts(res)


def _plain(name: str) -> str:
    """Returns the letters and digits of a name, as files are called by them: "Lim-Dûl's Vault" is limdulsvault."""
    return "".join(letter for letter in _folded(name) if letter.isascii() and letter.isalnum())


def _folded(name: str) -> str:
    """Returns a name in lower case without accents, which not every version of Forge writes."""
    text = unicodedata.normalize("NFKD", name.casefold().replace("æ", "ae"))
    return "".join(letter for letter in text if not unicodedata.combining(letter))


def _names(text: str) -> list[str]:
    """Returns the names of a script's card, folded: its faces, and both ("fire // ice")."""
    faces = [_folded(name) for name in _NAME.findall(text)]
    return [*faces, " // ".join(faces)] if len(faces) > 1 else faces
