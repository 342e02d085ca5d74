"""Conversations with Forge's daemon as files: what was sent in both directions, line by line.

    # jaxrl forge conversation 1 {"forge":"1.6.53","protocol":1,"decks":["aggro","control"],"seed":7,"options":"-i -a"}
    > NEWGAME aggro control -i -a -s 7
    < GAME_START: aggro vs control
    < SEED: 7
    < DECISION:{...}
    > 0
    ...
    < GAME_RESULT: Agent(1)-aggro won in 812ms

`> ` marks a line of the client, `< ` one of the daemon. A file (gzip, `.forge.gz`, or xz, `.forge.xz`, which is much
smaller and slower to write) holds any number of games. Commands that belong to no game (PING and the like) are left
out. A file whose writer was killed is read up to the last game that is there; what was written of the next one is
given back as incomplete.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import logging
import lzma
import os
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from jaxrl_envs.forge.settings import made
from jaxrl_envs.forge.wire import link
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

LOG = logging.getLogger("jaxrl.forge")
VERSION = 1
HEADER = f"# jaxrl forge conversation {VERSION} "
SUFFIXES = (".forge.gz", ".forge.xz")
CLIENT, DAEMON = b"> ", b"< "
BLOCK = 1 << 20  # bytes that are read at a time
FLUSH = 64  # lines after which what was written can be read
LINE, GAME = 1 << 24, 1 << 28  # bytes that are read of one at most; real ones have 15 kB and 2 MB
SMALL, RATIO = 1 << 26, 400  # bytes that a file may unpack to, and how often its size beyond; real ones: 180 times
LIMIT_MB = 64.0  # of a file in a folder of recordings, before compression


class Conversation(NamedTuple):
    """One game."""

    meta: dict[str, Any]  # forge, protocol, decks, seed, options, and whatever else its writer knew
    lines: list[bytes]  # each with its mark in front, without the line's end
    complete: bool  # it ends with a result

    @property
    def result(self) -> str:
        """The text of its last GAME_RESULT line, or ""."""
        last = self.lines[-1] if self.lines else b""
        return last[len(b"< GAME_RESULT: ") :].decode(errors="replace") if last.startswith(b"< GAME_RESULT: ") else ""

    def decisions(self, told: Callable[[bytes], None] | None = None) -> Iterator[tuple[bytes, str | None]]:
        """Yields every decision, asked or observed, as its JSON, and what was chosen; None: refused or unsayable.

        Args:
          told: hears every other INFO line, "INFO:" before it, before the decision that follows it.

        Raises:
          UserError: an observed one is damaged.
        """
        for line, answer, reply in itertools.zip_longest(self.lines, self.lines[1:], self.lines[2:], fillvalue=b""):
            if line.startswith(b"< DECISION:"):
                taken = answer.startswith(CLIENT) and not reply.startswith(b"< ERROR")
                yield line[len(b"< DECISION:") :], answer[2:].decode(errors="replace") if taken else None
            elif line.startswith(b"< INFO:") and b'"info_type":"observed"' in line[:64]:
                yield line[len(b"< INFO:") :], parsed(line[len(b"< INFO:") :]).get("choice")
            elif line.startswith(b"< INFO:") and told is not None:
                told(line[len(DAEMON) :])


def parsed(text: bytes) -> dict[str, Any]:
    """Returns the JSON object of a recorded line.

    Raises:
      UserError: it is not a JSON object.
    """
    try:
        return link.parsed(text)
    except ValueError:
        begin = text[:60].decode(errors="replace")
        why = "record the game again, or leave the file out."
        raise UserError(f"a recorded decision is damaged ({begin!r}): {why}") from None


# ---- NEWGAME --------------------------------------------------------------------------------------------------------


def words(line: str) -> list[str]:
    r"""Returns the words of a command: separated by blanks, "quoted" if they have some, with \" and \\ inside."""
    pieces = re.findall(r'(?:"(?:[^"\\]|\\.)*"?|[^" ])+', line)
    return [re.sub(r'\\(.)|"', r"\1", piece) if '"' in piece else piece for piece in pieces]


def quoted(word: str) -> str:
    """Returns a word as it is written in a command."""
    if word and not re.search(r'[\s"\\]', word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def deck_name(deck: str) -> str:
    """Returns a deck's name as the daemon says it: the file's, without folder and `.dck`."""
    return re.split(r"[/\\]", deck)[-1].removesuffix(".dck")


def meta_of(lines: list[bytes], forge: str = "") -> dict[str, Any]:
    """Returns the metadata of a game from its lines, which begin with NEWGAME."""
    found = words(lines[0][len(CLIENT) :].decode(errors="replace"))[1:]
    decks = list(itertools.takewhile(lambda word: not re.fullmatch(r"-[a-zA-Z]", word), found))
    options = found[len(decks) :]
    seeds = [line.split(b":")[1] for line in lines[:4] if line.startswith(b"< SEED:")]
    if "-s" in options:
        at = options.index("-s")
        seeds += [options[at + 1].encode()]
        del options[at : at + 2]
    return {
        "forge": forge,
        "decks": [deck_name(deck) for deck in decks],
        "seed": int(seeds[0]) if seeds else None,
        "options": " ".join(map(quoted, options)),
    }


# ---- writing --------------------------------------------------------------------------------------------------------


class Writer:
    """Writes conversations into one file, game after game; a crash loses the last lines of an unfinished game at most.

    Use `begin`, then `sent` and `received` for every line, then `end`.
    """

    def __init__(self, path: str | Path, xz: bool | None = None):
        """Opens a new file; an old one of that name is replaced. `xz`: not as its name says."""
        self.path = Path(path)
        self.written = 0  # bytes before compression
        self._xz = self.path.name.endswith(".xz") if xz is None else xz
        self._lines = 0  # since the last flush
        self._pack: Any = None
        try:
            self._file = open(self.path, "wb")
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}; choose another place.") from None

    def begin(self, **meta: Any) -> None:
        """Begins the next game, with what is known about it."""
        head = {"forge": meta.pop("forge", ""), "protocol": meta.pop("protocol", 1), **meta}
        self._write((HEADER + json.dumps(head, separators=(",", ":"))).encode())

    def sent(self, line: bytes) -> None:
        """Writes a line of the client, without its end."""
        self._write(CLIENT + line)

    def received(self, line: bytes) -> None:
        """Writes a line of the daemon, without its end."""
        self._write(DAEMON + line)

    def end(self) -> None:
        """Ends the game: what was written of it is in the file from now on."""
        self._flush(last=self._xz)  # xz cannot be flushed: every game is packed for itself

    def copy(self, conversation: Conversation) -> None:
        """Writes a whole conversation."""
        self.begin(**conversation.meta)
        for line in conversation.lines:
            self._write(line)
        self.end()

    def close(self) -> None:
        """Ends the file."""
        if not self._file.closed:
            self._flush(last=True)
            self._file.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        if self._pack is None:  # gzip without time and name: the same games give the same file
            self._pack = lzma.LZMACompressor(preset=4) if self._xz else zlib.compressobj(6, zlib.DEFLATED, 31)
        self._file.write(self._pack.compress(line + b"\n"))
        self.written += len(line) + 1
        self._lines += 1
        if self._lines >= FLUSH and not self._xz:
            self._flush()

    def _flush(self, last: bool = False) -> None:
        self._lines = 0
        if self._pack is not None:
            self._file.write(self._pack.flush() if last else self._pack.flush(zlib.Z_SYNC_FLUSH))
            self._pack = None if last else self._pack
        self._file.flush()


class Folder:
    """A folder that files of conversations are written to; when one is full, the next is begun."""

    def __init__(self, path: str | Path, limit_mb: float = LIMIT_MB):
        self.path, self.limit = made(path, "recordings"), limit_mb * 1e6
        self._numbers = itertools.count(1)
        self._prefix = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"

    def writer(self) -> Writer:
        """Returns a new file."""
        while True:
            path = self.path / f"{self._prefix}-{next(self._numbers):04d}{SUFFIXES[0]}"
            with contextlib.suppress(FileExistsError):  # of another thread's that began in the same second
                path.touch(exist_ok=False)
                return Writer(path)

    def next(self, writer: Writer | None) -> Writer:
        """Returns the writer for the next game: the same one, or that of a new file if the old one is full."""
        if writer is not None and writer.written < self.limit:
            return writer
        if writer is not None:
            writer.close()
        return self.writer()


# ---- reading --------------------------------------------------------------------------------------------------------


def find(paths: Iterable[str | Path]) -> list[Path]:
    """Returns the recordings that files and folders (with the folders inside) name, sorted within each folder.

    Raises:
      UserError: a path does not exist, or a folder has no recordings.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(each for suffix in SUFFIXES for each in path.rglob(f"*{suffix}"))
            if not inside:
                raise UserError(f"{path} has no recordings: record some with `jaxrl forge record --out {path}`.")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise UserError(f"there is no recording {path}: give a {SUFFIXES[0]} file or a folder with some.")
    return found


def read(path: str | Path) -> Iterator[Conversation]:
    """Yields the conversations of a file, one by one; that of a game that was not played to its end is incomplete.

    Raises:
      UserError: the file cannot be read, is damaged or is no recording; not before the damage is reached, so games that
        were given back before may be altered too.
    """
    meta: dict[str, Any] | None = None
    lines: list[bytes] = []
    size = 0
    for number, line in enumerate(_lines(Path(path)), 1):
        if line.startswith(b"#"):
            if meta is not None:
                yield _conversation(meta, lines)
            meta, lines, size = _meta(path, number, line), [], 0
        elif meta is None or line[:2] not in (CLIENT, DAEMON):
            raise UserError(f"{path}, line {number}: not a conversation with Forge's daemon.")
        else:
            lines.append(line)
            size += len(line) + 40  # as Python holds it
            if size > GAME:
                raise UserError(f"{path}, line {number}: a game has more than {GAME >> 20} MB.")
    if meta is not None:
        yield _conversation(meta, lines)


def _conversation(meta: dict[str, Any], lines: list[bytes]) -> Conversation:
    return Conversation(meta, lines, bool(lines) and lines[-1].startswith(b"< GAME_RESULT:"))


def _meta(path: str | Path, number: int, line: bytes) -> dict[str, Any]:
    text = line.decode(errors="replace")
    if not text.startswith(HEADER):
        what = "was written by another version" if text.startswith(HEADER.rsplit(" ", 2)[0]) else "is no recording"
        raise UserError(f"{path}, line {number}: {what} (expected {HEADER!r}).")
    try:
        meta = json.loads(text[len(HEADER) :])
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}, line {number}: {error}.") from None
    if not isinstance(meta, dict):
        raise UserError(f"{path}, line {number}: what is known about the game must be a JSON object.")
    return meta


def _lines(path: Path) -> Iterator[bytes]:
    """Yields the whole lines of a file as far as it goes. Raises UserError: it is damaged."""
    try:
        with files.opened(path) as raw:
            rest = b""
            for block in _unpacked(raw, path):
                *whole, rest = (rest + block).split(b"\n")
                yield from whole
                if len(rest) > LINE:
                    raise UserError(f"cannot read {path}: a line has more than {LINE >> 20} MB.")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from None


def _unpacked(raw: IO[bytes], path: Path) -> Iterator[bytes]:
    """Decompresses a file in blocks, up to the place where it breaks off.

    Raises:
      UserError: it is damaged: a checksum may speak of any block before.
    """
    begin, size = raw.read(6), 0
    raw.seek(0)
    if len(begin) < 6:
        return
    with lzma.open(raw) if begin == b"\xfd7zXZ\x00" else gzip.open(raw) as file:
        while True:
            try:
                block = file.read1(BLOCK)
            except EOFError:
                LOG.warning("%s breaks off: no checksum covers its last games.", path)
                return
            except (zlib.error, lzma.LZMAError, gzip.BadGzipFile, MemoryError) as error:  # xz: a vast dictionary
                what = f"is damaged within its first {size + BLOCK:,} bytes" if size else "is neither gzip nor xz"
                raise UserError(f"cannot read {path}: it {what} ({error}).") from None
            if not block:
                return
            size += len(block)
            if size > SMALL + RATIO * raw.tell():
                raise UserError(f"cannot read {path}: it unpacks to over {RATIO} times its size, no recording does.")
            yield block
