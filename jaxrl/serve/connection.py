"""A browser's websocket: reading is rate-limited, and sending never blocks the table or other browsers.

Only the newest view is kept for a slow reader, which misses the views in between.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

RATE, BURST = 20.0, 60.0  # messages a second that are read, and at once
SLOW = 10.0  # seconds that one message may take to be sent
NOTES = 20  # that wait at most
PATIENCE = 5.0  # seconds for the first message


class Connection:
    """A websocket with an outbox.

    Attributes:
      seat: the person's seat; None for a spectator.
      told: number of lines of the story that were sent, see `compose`.
      board, scores: the drawing and the scores that were sent last.
    """

    def __init__(
        self,
        socket: WebSocket,
        compose: Callable[[Connection], dict[str, Any] | bytes | None],
        rate: float = RATE,
    ):
        """`compose` makes the newest view for a connection when it is about to be sent; `rate` of messages is read."""
        self._socket, self._compose = socket, compose
        self._notes: collections.deque[dict[str, Any]] = collections.deque(maxlen=NOTES)
        self._news = asyncio.Event()
        self._rate, self._tokens, self._checked = rate, BURST, time.monotonic()
        self.seat: int | None = None
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

    async def send(self) -> None:
        """Sends queued messages and views until the socket is closed or read too slowly."""
        while True:
            await self._news.wait()
            self._news.clear()
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


async def serve_connection(
    socket: WebSocket,
    connection: Connection,
    greet: Callable[[Connection, dict[str, Any]], None],
    answer: Callable[[Connection, dict[str, Any]], Any],
    leave: Callable[[Connection], None],
) -> None:
    """Serves a browser's websocket until either end closes it.

    Args:
      socket: accepted here.
      connection: the socket's connection.
      greet: called with the first message, which identifies the browser; raises ValueError with a sentence.
      answer: (connection, message), a coroutine function for all others.
      leave: called at the end if `greet` has accepted.
    """
    await socket.accept()
    try:
        first = await asyncio.wait_for(connection.read(), PATIENCE)
        if first is None:
            raise ValueError("the first message must be a JSON object")
        greet(connection, first)
    except (TimeoutError, WebSocketDisconnect):
        return await connection.close(1008, "say hello first")
    except ValueError as error:
        return await connection.close(1008, str(error))
    sending = asyncio.create_task(connection.send())
    reading = asyncio.create_task(_read(connection, answer))
    try:
        await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, reading):
            task.cancel()
        await asyncio.gather(sending, reading, return_exceptions=True)
        leave(connection)
        await connection.close(1001, "")


async def _read(connection: Connection, answer: Callable[[Connection, dict[str, Any]], Any]) -> None:
    while True:
        message = await connection.read()
        if message is None:
            connection.note(kind="error", text="a message must be a JSON object.")
        else:
            await answer(connection, message)
