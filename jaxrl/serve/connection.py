"""A browser's websocket: reading is rate-limited, and sending never blocks the table or other browsers.

Only the newest view is kept for a slow reader, which misses the views in between.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import time
from typing import Any, Protocol, cast

from starlette.websockets import WebSocket, WebSocketDisconnect

RATE, BURST = 20.0, 60.0  # messages a second that are read, and at once
SLOW = 10.0  # seconds that one message may take to be sent
NOTES = 20  # that wait at most
PATIENCE = 5.0  # seconds for the first message


class Host(Protocol):
    """A table or a match that browsers are connected to."""

    def greet(self, connection: Connection, hello: dict[str, Any]) -> None:
        """Admits a browser by its first message. Raises ValueError: a sentence for a browser that is not admitted."""

    async def answer(self, connection: Connection, message: dict[str, Any]) -> None:
        """Handles any other message."""

    def compose(self, connection: Connection) -> dict[str, Any] | bytes | None:
        """Returns the newest view for a browser when it is about to be sent, or None if there is nothing to send."""

    def leave(self, connection: Connection) -> None:
        """Forgets a browser that was admitted."""


class Connection:
    """A websocket with an outbox.

    Attributes:
      seat: the person's seat; None for a spectator.
      upright: whether its screen is taller than wide.
      told: number of lines of the story that were sent, see `LiveTable.compose`.
      board, scores: the drawing and the scores that were sent last.
    """

    def __init__(self, socket: WebSocket, host: Host, rate: float = RATE):
        """`rate` is the number of messages a second that are read."""
        self._socket, self._compose = socket, host.compose
        self._notes: collections.deque[dict[str, Any]] = collections.deque(maxlen=NOTES)
        self._news = asyncio.Event()
        self._rate, self._tokens, self._checked = rate, BURST, time.monotonic()
        self.seat: int | None = None
        self.upright = False
        self.told = 0
        self.board: str | None = None
        self.scores: list[dict[str, Any]] | None = None

    def refresh(self) -> None:
        """Marks the view as changed, so that it is sent."""
        self._news.set()

    def note(self, **message: Any) -> None:
        """Queues a message for this browser alone."""
        self._notes.append(message)
        self._news.set()

    async def news(self) -> None:
        """Waits until there is something to send."""
        await self._news.wait()
        self._news.clear()

    async def send(self) -> None:
        """Sends queued messages and views until the socket is closed or read too slowly."""
        while True:
            await self.news()
            while self._notes:
                await self._out(self._notes.popleft())
            view = self._compose(self)
            if view is not None:
                await self._out(view)

    async def _out(self, message: dict[str, Any] | bytes) -> None:
        if isinstance(message, bytes):
            sending = self._socket.send_bytes(message)
        else:
            sending = self._socket.send_text(json.dumps(message, separators=(",", ":")))
        await asyncio.wait_for(sending, SLOW)

    async def read(self) -> dict[str, Any] | None:
        """Returns the next message, a JSON object, or None if it is not one. Raises WebSocketDisconnect: the socket is
        closed."""
        now = time.monotonic()
        self._tokens = min(BURST, self._tokens + self._rate * (now - self._checked))
        self._checked = now
        if self._tokens < 1.0:
            await asyncio.sleep((1.0 - self._tokens) / self._rate)  # slows down this sender only
        self._tokens -= 1.0
        message = await self._socket.receive()
        if message["type"] != "websocket.receive":
            raise WebSocketDisconnect
        try:
            found = json.loads(message.get("text") or message.get("bytes") or b"")
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None

    async def close(self, code: int, reason: str) -> None:
        """Closes the socket with a code and a reason."""
        with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError, OSError):
            await asyncio.wait_for(self._socket.close(code, reason), SLOW)


class Visit(Connection):
    """A plain request in place of a websocket: it is answered by one view, and what was sent before is not known."""

    def __init__(self, host: Host):
        super().__init__(cast(WebSocket, None), host)

    async def close(self, code: int, reason: str) -> None:
        """Does nothing: the server answers the request or cancels it."""


async def serve_connection(socket: WebSocket, host: Host | None, absent: str, rate: float = RATE) -> None:
    """Serves a browser's websocket until either end closes it; it is closed at once with `absent` without a host."""
    await socket.accept()
    if host is None:
        return await socket.close(4404, absent)
    connection = Connection(socket, host, rate)
    try:
        first = await asyncio.wait_for(connection.read(), PATIENCE)
        if first is None:
            raise ValueError("the first message must be a JSON object")
        host.greet(connection, first)
    except (TimeoutError, WebSocketDisconnect):
        return await connection.close(1008, "say hello first")
    except ValueError as error:
        return await connection.close(1008, str(error))
    sending = asyncio.create_task(connection.send())
    reading = asyncio.create_task(_read(connection, host))
    try:
        await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, reading):
            task.cancel()
        await asyncio.gather(sending, reading, return_exceptions=True)
        host.leave(connection)
        await connection.close(1001, "")


async def _read(connection: Connection, host: Host) -> None:
    while True:
        message = await connection.read()
        if message is None:
            connection.note(kind="error", text="a message must be a JSON object.")
        else:
            await host.answer(connection, message)
