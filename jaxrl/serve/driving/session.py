"""A match with a human driver: a thread that keeps real time, and the websocket of the browser that steers.

The thread never waits for a reader: it publishes its newest frame, and a slow reader misses the frames in between.
Where the machine cannot keep up the match runs slower; it never hurries to catch up.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from jaxrl.matches.interactive import InteractiveGame
from jaxrl.players.player import Player
from jaxrl.runs.logs.run_log import LOG
from jaxrl.serve.connection import Connection
from jaxrl.serve.player_catalog import GameContext
from jaxrl_envs.shared.display.driving import Driven

ENDING = 2.0  # seconds that the end of a thread is waited for: a compilation cannot be broken off
LEFT = 8.0  # seconds without a driver after which a match ends
IDLE = 600.0  # the same with a silent driver
QUIET = 2.0  # seconds without a word from the browser after which it stands still
KICKOFF = 3.0  # seconds before play begins
REPLAY = 3.0  # seconds more after a goal, in which the page shows it again
TOLD = 0.25  # seconds between two headlines
IDLING = 0.03  # seconds between two looks at whether play goes on
LATE = 0.1  # seconds that the thread may be late before it gives up being punctual
BEHIND = 1.0  # seconds of frames that may be under way to a browser
TAKEN, GONE = 4409, 4410  # codes of closed sockets: another driver took over; the match is over


def compile_ahead(context: GameContext, driven: Driven, players: Sequence[Player | None]) -> None:
    """Compiles what a match of these players calls, by its first frame; most of the time is the frame's."""
    game, key = InteractiveGame(context.env, players, context.programs), jax.random.key(0)
    state = game.deal(key)
    controls = np.zeros((len(players), len(driven.handles.axes) + len(driven.handles.buttons)), np.float32)
    with ThreadPoolExecutor() as others:
        frame = others.submit(context.programs(driven.frame), state, controls)
        game.state = context.programs(driven.asked)(state)
        driven.controls(game.answer(key))
        frame.result()


class DrivingSession:
    """A match with a human driver. Everything but `run` is called in the server's event loop.

    Attributes:
      id: a secret by which the browser finds it.
      names: names of the seats.
    """

    def __init__(
        self,
        context: GameContext,
        driven: Driven,
        players: Sequence[Player | None],
        names: Sequence[str],
    ):
        """Starts its thread.

        Args:
          context, driven: the game, and how it is driven.
          players, names: players and names by seat; None is the person.
        """
        self.id, self.names, self.seat = secrets.token_urlsafe(12), list(names), list(players).index(None)
        self._programs, self._driven = context.programs, driven
        self._game = InteractiveGame(context.env, players, context.programs)
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._began = self._heard = time.monotonic()
        self._sent, self._seen = 0, 0
        self._paused, self._again, self._ended = False, False, threading.Event()
        self._wanted = np.zeros(len(driven.handles.axes) + len(driven.handles.buttons), np.float32)
        self._controls = np.zeros((len(players), len(self._wanted)), np.float32)
        self._serial, self._frame = 0, b""
        self._status: dict[str, Any] = {"text": "", "ready": False, "over": False, "paused": False}
        self._thread = threading.Thread(target=self.run, name=f"drive-{self.id[:4]}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Stops the thread and waits for it for a while; called in a thread."""
        self._ended.set()
        self._thread.join(ENDING)

    # ---- the browser ------------------------------------------------------------------------------------------------

    def greet(self, connection: Connection, hello: dict[str, Any]) -> None:
        """Makes the newest connection the driver. Raises ValueError: the match is over."""
        if self._ended.is_set():
            raise ValueError("this match has ended")
        self._part(TAKEN, "another driver has taken over")
        self._connection, self._heard = connection, time.monotonic()
        self._sent = self._seen = max(0, self._serial - 1)  # to this one only the newest frame is to be sent
        self._wanted = np.zeros_like(self._wanted)
        told = {"names": self.names, "seat": self.seat, "rate": self._driven.rate}
        told |= {"countdown": KICKOFF, "replay": REPLAY}
        told["watched"] = [] if self._status["ready"] else self._driven.watched()
        told["waited"] = time.monotonic() - self._began  # seconds, of which the page counts on while it compiles
        connection.note(kind="head", space=self._driven.scene(), **told, **self._driven.handles._asdict())
        connection.note(kind="status", **self._status)

    def leave(self, connection: Connection) -> None:
        """Pauses the match until a driver connects; it ends if none does."""
        if connection is self._connection:
            self._connection, self._heard = None, time.monotonic()

    def _part(self, code: int, reason: str) -> None:
        """Disconnects the browser that drives, if any, with a sentence to show."""
        if self._connection is not None:
            closing = self._loop.create_task(self._connection.close(code, reason))
            self._closing.add(closing)  # the loop alone would not keep it
            closing.add_done_callback(self._closing.discard)

    async def answer(self, connection: Connection, message: dict[str, Any]) -> None:
        """Handles {"controls": [C numbers], "seen": number of the newest frame}, {"pause": bool} or {"again": true}."""
        if connection is not self._connection:
            return  # another driver has taken over
        match message:
            case {"controls": list(wanted), "seen": int(seen)} if len(message) == 2 and self._fit(wanted, seen):
                self._wanted, self._seen = np.array(wanted, np.float32), max(self._seen, seen)
            case {"pause": bool(paused)} if len(message) == 1:
                self._paused = paused
                self._tell(paused=paused)
            case {"again": True} if len(message) == 1:
                self._again, self._paused = True, False
                self._tell(paused=False)
            case _:
                return connection.note(kind="error", text="this message does not steer")
        self._heard = time.monotonic()

    def _fit(self, wanted: list[Any], seen: int) -> bool:
        axes = len(self._driven.handles.axes)
        numbers = all(type(each) in (int, float) and abs(each) <= 1 for each in wanted)
        right = len(wanted) == len(self._wanted) and numbers and all(each in (0, 1) for each in wanted[axes:])
        return right and type(seen) is int and 0 <= seen <= self._serial

    def compose(self, connection: Connection) -> bytes | None:
        """Returns the newest frame, f32: its number and the row of `Driven.frame`; None if it was sent already."""
        behind = self._sent - self._seen > BEHIND * self._driven.rate
        if connection is not self._connection or self._sent == self._serial or behind:
            return None
        self._sent = self._serial
        return self._frame

    def _tell(self, **news: Any) -> None:
        """Queues what the page shows beside the frames, if it has changed."""
        before, self._status = self._status, self._status | news
        if self._status != before and self._connection is not None:
            self._connection.note(kind="status", **self._status)

    def _publish(self, frame: bytes) -> None:
        self._serial, self._frame = self._serial + 1, np.float32(self._serial + 1).tobytes() + frame
        if self._connection is not None:
            self._connection.refresh()

    # ---- the thread -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Plays match after match until it is told to end or the driver stays away."""
        words = "the match has ended: the driver was gone for too long"
        try:
            while not self._ended.is_set() and not self._deserted:
                self._again = False
                self._play()
        except Exception:  # of the game or of a player: the browser is told, the server goes on
            LOG.exception("a match with a human driver")
            words = "this match has broken down: the server's log says why"
        self._ended.set()  # from here on no driver is accepted
        self._call(self._part, GONE, words)

    def _call(self, function: Any, *args: Any, **news: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: function(*args, **news))

    @property
    def _deserted(self) -> bool:
        return time.monotonic() - self._heard > (LEFT if self._connection is None else IDLE)

    def _play(self) -> None:
        key, rate = jax.random.key(secrets.randbits(32)), self._driven.rate
        state = self._game.deal(key)
        self._controls[:] = 0
        self._decide(state, key)
        state, row = self._step(state)  # all is compiled before the clock starts
        self._heard = due = time.monotonic()  # compilation does not count as silence
        frames, first, begun = 1, 0, -1.0
        while not (self._ended.is_set() or self._again or self._deserted):
            now = time.monotonic()
            if row[1] != begun:
                goal, begun = bool(begun >= 0), row[1]
                first = frames * goal  # of the newest kickoff: agents decide in it
                due = now + KICKOFF + REPLAY * goal
                text = self._driven.headline(state)
                self._call(self._publish, row.tobytes())
                self._call(self._tell, text=text, ready=True, over=False, kickoff=now, goal=goal)
            if row[2] or self._paused or now - self._heard > QUIET:
                due = max(due, now)
                self._ended.wait(IDLING)
            elif now < due:
                self._ended.wait(min(due - now, IDLING))
            else:
                due = (due if now - due < LATE else now) + 1 / rate
                if (frames - first) % self._driven.every == 0:
                    self._decide(state, jax.random.fold_in(key, frames))
                state, row = self._step(state)
                frames += 1
                self._call(self._publish, row.tobytes())
                if row[2] or frames % round(TOLD * rate) == 0:
                    self._call(self._tell, text=self._driven.headline(state), over=bool(row[2]))

    def _decide(self, state: Any, key: Any) -> None:
        """Sets the agents' controls until their next decision."""
        self._game.state = self._programs(self._driven.asked)(state)
        self._controls[:] = self._driven.controls(self._game.answer(key))

    def _step(self, state: Any) -> tuple[Any, np.ndarray]:
        self._controls[self.seat] = self._wanted
        state, row = self._programs(self._driven.frame)(state, self._controls.copy())
        return state, np.asarray(row)
