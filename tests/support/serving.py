"""A server of `jaxrl serve` in a thread, and people at its tables."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from jaxrl.serve.app import make_server
from jaxrl.serve.server import Server, ServerSettings

GAMES = (
    "tests.support.games:HighCard",
    "tests.support.kuhn:Kuhn",
    "tests.support.games:TicTacToe",
    "tests.support.games:RockPaperScissors",
)
HIGH_CARD, KUHN, TIC_TAC_TOE, SIMULTANEOUS = GAMES


class Client:
    """Requests of a browser to one server."""

    def __init__(self, port: int):
        self.port, self.host, self.patience = port, f"127.0.0.1:{port}", 60.0  # seconds for an answer

    def request(self, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        """Sends a request (POST if it has a body), with a page's headers by default; returns status and body."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = ({"Origin": f"http://{self.host}"} if body is not None else {}) | headers
        asked = urllib.request.Request(f"http://{self.host}{path}", data, {k: v for k, v in sent.items() if v})
        try:
            with urllib.request.urlopen(asked, timeout=self.patience) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def post(self, path: str, body: Any) -> Any:
        status, text = self.request(path, body)
        assert status == 200, text
        return json.loads(text)

    def open_table(self, game: str, *seats: str, **more: Any) -> dict[str, Any]:
        return self.post("/api/tables", {"game": game, "seats": list(seats), "pace": 0, **more})

    def socket(self, id: str, **more: Any) -> Any:
        more.setdefault("origin", f"http://{self.host}")
        return connect(f"ws://{self.host}/api/tables/{id}/socket", max_size=None, open_timeout=30, **more)

    @contextlib.contextmanager
    def sit(self, id: str, key: str = "", **hello: Any) -> Iterator[Person]:
        with self.socket(id) as socket:
            socket.send(json.dumps({"key": key, **hello}))
            yield Person(socket)


class Person:
    """A person at a table, with all messages that the server has sent."""

    def __init__(self, socket: Any):
        self.socket, self.messages = socket, []

    def send(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def until(self, wanted: Callable[[dict[str, Any]], bool], seconds: float = 90.0) -> dict[str, Any]:
        """Waits for the first message that satisfies the condition; earlier ones are kept."""
        end = time.monotonic() + seconds
        while True:
            text = self.socket.recv(timeout=max(0.1, end - time.monotonic()))
            self.messages.append(json.loads(text))
            if wanted(self.messages[-1]):
                return self.messages[-1]

    def turn(self, seconds: float = 90.0) -> dict[str, Any]:
        """Waits for the view in which this person must act, or the last one."""
        return self.until(lambda m: m["kind"] == "view" and (bool(m.get("legal")) or m.get("over", False)), seconds)

    def play(self, view: dict[str, Any], choice: int = 0) -> None:
        self.send(do="play", action=view["legal"][choice][0], at=view["time"])

    def play_on(self, view: dict[str, Any] | None = None) -> dict[str, Any]:
        """Plays the first legal action in every turn until the game is over, and returns the last view."""
        view = view or self.turn()
        while not view["over"]:
            self.play(view)
            view = self.until(
                lambda m, at=view["time"]: (
                    m["kind"] == "view" and m.get("time", 0) > at and (bool(m["legal"]) or m["over"])
                )
            )
        return view


@contextlib.contextmanager
def serving(folder: Path, port: int = 0, **settings: Any) -> Iterator[Client]:
    """A server that keeps its tables in `folder`."""
    settings.setdefault("games", GAMES)
    server = Server(ServerSettings(folder=folder, runs=folder / "runs", **settings))
    running = make_server(server)
    with socket.create_server(("127.0.0.1", port)) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield Client(listening.getsockname()[1])
        finally:
            running.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


@contextlib.contextmanager
def serve_process(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`jaxrl serve` with its runs and tables in `folder`, in a process of its own, and the address that it prints."""
    command = [sys.executable, "-m", "jaxrl", "serve", "--port", "0", "--runs", str(folder), *options]
    # A process whose files may not grow would leave truncated bytecode for everybody else (cpython issue 126606).
    env = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONDONTWRITEBYTECODE": "1"}
    with (
        open(folder / "server.log", "a") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=env) as process,
    ):
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said.startswith("open http://"), f"{said}\n{(folder / 'server.log').read_text()}"
            yield process, said.split()[1]
        finally:
            process.kill()
