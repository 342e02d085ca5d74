"""Recording what clients and daemons say to each other: a relay that stands between them and writes it down.

    with Recorder("runs/my_run/forge") as recorder:
        port = recorder.relay("127.0.0.1", 17171)      # clients connect to this port instead

What arrives is passed on at once and unchanged, whatever it is. A game is written when it is over, or its connection.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from envs.forge import recording
from envs.forge.recording import Conversation, Folder

CHUNK = 1 << 16
STOP_SECONDS = 5.0


class Transcript:
    """One connection's lines, cut into games."""

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        self.lines: list[bytes] = []
        self.forge = ""
        self.rest = {recording.CLIENT: b"", recording.DAEMON: b""}

    def heard(self, mark: bytes, data: bytes) -> None:
        """Bytes of one side."""
        *lines, self.rest[mark] = (self.rest[mark] + data).split(b"\n")
        for line in lines:
            self._line(mark, line.rstrip(b"\r"))

    def _line(self, mark: bytes, line: bytes) -> None:
        if mark == recording.CLIENT:
            if line.startswith(b"NEWGAME"):
                self.end()
                self.lines = [mark + line]
            elif self.lines and not line[:1].isupper():  # other commands belong to no game
                self.lines.append(mark + line)
        elif line.startswith(b"HELLO "):
            self.forge = line.partition(b"forge=")[2].decode(errors="replace")
        elif self.lines and line.startswith((b"GAME_", b"SEED:", b"DECISION:", b"INFO:", b"ERROR:")):
            self.lines.append(mark + line)
            if line.startswith(b"GAME_RESULT:"):
                self.end()

    def end(self) -> None:
        """The game is over, or will never be."""
        lines, self.lines = self.lines, []
        if len(lines) > 1:
            self.recorder.write(Conversation(meta_of(lines, self.forge), lines, True))


def meta_of(lines: list[bytes], forge: str = "") -> dict[str, Any]:
    """What is known about a game from its own lines."""
    asked = recording.parse_newgame(lines[0][2:].decode(errors="replace"))
    seeds = [line for line in lines[:4] if line.startswith(b"< SEED:")]
    return {
        "forge": forge,
        "decks": [recording.deck_name(deck) for deck in asked.decks],
        "seed": int(seeds[0].split(b":")[1]) if seeds else asked.seed,
        "options": asked.options,
    }


class Recorder:
    """Relays between clients and daemons, and the folder that their games are written to."""

    def __init__(self, folder: str | Path):
        """Opens the folder; raises UserError if that cannot be."""
        self.folder = Folder(folder)
        self.games = 0
        self._writer: recording.Writer | None = None
        self._lock = threading.Lock()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="forge recorder", daemon=True)
        self._thread.start()

    def relay(self, host: str, port: int) -> int:
        """A port of this machine that leads to a daemon."""

        async def serve() -> int:
            server = await asyncio.start_server(lambda *client: self._relay(host, port, *client), "127.0.0.1", 0)
            self._servers.append(server)
            return int(server.sockets[0].getsockname()[1])

        return asyncio.run_coroutine_threadsafe(serve(), self._loop).result(STOP_SECONDS)

    def write(self, conversation: Conversation) -> None:
        """Writes a game."""
        with self._lock:
            self._writer = self.folder.next(self._writer)
            self._writer.copy(conversation)
            self.games += 1

    def close(self) -> None:
        """Ends the relays, with what runs through them, and the file."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._end_all(), self._loop).result(STOP_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_SECONDS)
            self._loop.close()
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def _end_all(self) -> None:
        for server in self._servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _relay(self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, to its end."""
        transcript = Transcript(self)
        streams = [writer]
        try:
            daemon_reader, daemon_writer = await asyncio.open_connection(host, port)
            streams.append(daemon_writer)
            both = [
                asyncio.ensure_future(pass_on(reader, daemon_writer, transcript, recording.CLIENT)),
                asyncio.ensure_future(pass_on(daemon_reader, writer, transcript, recording.DAEMON)),
            ]
            _, pending = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in pending:
                task.cancel()
        except (OSError, asyncio.CancelledError):
            pass  # the daemon is gone, or the recorder is: the client's connection is closed, which tells it so
        finally:
            transcript.end()
            for stream in streams:
                stream.close()


async def pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, transcript: Transcript, mark: bytes
) -> None:
    """Everything from one side to the other, until one of them ends."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            transcript.heard(mark, data)
            await writer.drain()
    except OSError:
        pass
