"""Waiting times at `jaxrl serve`: pages, moves, searches, and 50 tables at once; or, with --drive, driving.

    python -m scripts.benchmark.serve [--game beasty_bar] [--opponent zoo:beasty_bar] [--tables 50] [--sessions 20]
    python -m scripts.benchmark.serve --drive bot:rule_policy

A server is started on this machine, with a folder of its own. Times are those of a client on it, in milliseconds:
median, 95th percentile and the most. A move's time is from sending it to the view after the agent's answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

MOVES = 60
SECONDS = 20.0  # of the crowd of tables
PAGES = ("/", "/table/x", "/static/table.js", "/static/style.css", "/api/tables")


class Visitor:
    """A client of the server."""

    def __init__(self, port: int):
        """Connects to nothing yet."""
        self._port, self._host = port, f"127.0.0.1:{port}"

    async def request(self, path: str, body: Any = None) -> Any:
        """Returns the answer of the server."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: {self._host}\r\nConnection: close\r\n"
        head += f"Origin: http://{self._host}\r\nContent-Length: {len(text)}\r\n\r\n"
        writer.write(head.encode() + text)
        answer = await reader.read()
        writer.close()
        status, _, rest = answer.partition(b"\r\n\r\n")
        if b" 200 " not in status.partition(b"\r\n")[0]:
            raise SystemExit(f"{path}: {answer[:500]!r}")
        return json.loads(rest) if path.startswith("/api") else rest

    def socket(self, path: str) -> Any:
        """Opens a socket of the server."""
        return connect(f"ws://{self._host}{path}", origin=Origin(f"http://{self._host}"), max_size=None)

    def table(self, id: str) -> Any:
        """Opens the socket of a table."""
        return self.socket(f"/api/tables/{id}/socket")

    async def opened(self, game: str, seats: Sequence[str], pace: float) -> dict[str, Any]:
        """Opens a new table."""
        found: dict[str, Any] = await self.request("/api/tables", {"game": game, "seats": list(seats), "pace": pace})
        return found


async def view_of(socket: ClientConnection, after: int) -> dict[str, Any]:
    """Awaits the first view later than a time in which the person is asked, or the last one."""
    while True:
        message: dict[str, Any] = json.loads(await socket.recv())
        if message["kind"] == "view" and (message.get("legal") or message.get("over")):
            if message.get("time", -1) > after:
                return message


async def moves(visitor: Visitor, game: str, seats: Sequence[str], count: int) -> list[float]:
    """Measures milliseconds between a move and the next turn, and the delay of every decision in between."""
    found: list[float] = []
    while len(found) < count:
        table = await visitor.opened(game, seats, 0.0)
        async with visitor.table(table["id"]) as socket:
            await socket.send(json.dumps({"key": table["keys"][0]}))
            view = await view_of(socket, -1)
            while not view["over"] and len(found) < count:
                began, at = time.perf_counter(), view["time"]
                await socket.send(json.dumps({"do": "play", "action": view["legal"][0][0], "at": at}))
                view = await view_of(socket, at)
                found.append(1e3 * (time.perf_counter() - began) / max(1, view["time"] - at - 1))
    return found


async def pages(visitor: Visitor, sessions: int) -> list[float]:
    """Measures milliseconds of pages with some sessions, each of which asks again half a second after an answer."""
    found: list[float] = []

    async def session(number: int) -> None:
        await asyncio.sleep(number / sessions)
        for path in PAGES * 2:
            began = time.perf_counter()
            await visitor.request(path)
            found.append(1e3 * (time.perf_counter() - began))
            await asyncio.sleep(0.5)

    await asyncio.gather(*(session(number) for number in range(sessions)))
    return found


async def crowd(
    visitor: Visitor, game: str, seats: Sequence[str], tables: int
) -> tuple[float, list[float], list[float]]:
    """Measures decisions a second of watched tables with one a second each, and moves and pages meanwhile."""
    decided, end = 0, 0.0

    async def watch() -> None:
        nonlocal decided
        while time.perf_counter() < end:
            table = await visitor.opened(game, seats, 1.0)
            async with visitor.table(table["id"]) as socket:
                await socket.send("{}")
                last = 0
                while time.perf_counter() < end:
                    message = json.loads(await socket.recv())
                    decided, last = decided + message.get("time", last) - last, message.get("time", last)
                    if message.get("over"):
                        break

    end = time.perf_counter() + SECONDS
    watchers = [asyncio.create_task(watch()) for _ in range(tables)]
    await asyncio.sleep(SECONDS / 4)
    mine = await moves(visitor, game, ["person", *seats[1:]], 20)
    seen = await pages(visitor, 20)
    await asyncio.sleep(max(0.0, end - time.perf_counter()))
    spent = SECONDS + time.perf_counter() - end
    for task in watchers:
        task.cancel()
    await asyncio.gather(*watchers, return_exceptions=True)
    return decided / spent, mine, seen


async def searches(visitor: Visitor, game: str, others: Sequence[str]) -> list[float]:
    """Measures how long searches of one second take, as the server says."""
    table = await visitor.opened(game, ["search:1", *others], 0.0)
    found: list[float] = []
    async with visitor.table(table["id"]) as socket:
        await socket.send("{}")
        while len(found) < 8:
            message = json.loads(await socket.recv())
            note = message.get("decision", {}).get("note", "")
            if note:
                found.append(1e3 * float(note.split(" in ")[1].removesuffix(" s")))
            if message.get("over"):
                break
    return found


async def drive(visitor: Visitor, process: int, match: str, seats: int, bot: str) -> None:
    """Prints how long a match takes to begin, and how fast it runs with a driver at full throttle."""
    began, seen = time.perf_counter(), 0
    asked = {"game": "car_soccer", "match": match, "seats": ["person", *[bot] * (seats - 1)]}
    async with visitor.socket(f"/api/drive/{(await visitor.request('/api/drive', asked))['id']}") as socket:
        await socket.send("{}")

        async def steer() -> None:
            while True:
                await socket.send(json.dumps({"controls": [1, 0.2, 0, 0, 0, 0, 0, 0], "seen": seen}))
                await asyncio.sleep(1 / 60)

        async def frame() -> tuple[int, float]:
            while isinstance(message := await socket.recv(), str):
                pass
            row = np.frombuffer(message, np.float32)
            return int(row[0]), float(row[1])

        seen, _ = await frame()
        print(f"{match}: the first frame after {time.perf_counter() - began:.2f} s")
        steering = asyncio.create_task(steer())
        played = 0.0
        while played < 1.0:  # seconds of the clock: it stands still before a kickoff
            seen, played = await frame()
        first, took, spent, last = seen, 0.0, cpu_seconds(process), time.perf_counter()
        while took < SECONDS:
            seen, _ = await frame()
            last, gap = time.perf_counter(), time.perf_counter() - last
            took += gap if gap < 1.0 else 0.0  # before a kickoff nothing moves
        count, spent = seen - first, cpu_seconds(process) - spent
        print(f"{match}: {count / took:.1f} frames a second, {1e3 * spent / count:.1f} ms of CPU time each", flush=True)
        steering.cancel()


async def drives(args: argparse.Namespace, port: int, process: int) -> None:
    """Measures both kinds of matches, and one that is compiled already."""
    for match, seats in (("1 against 1", 2), ("1 against 1", 2), ("2 against 2", 4)):
        await drive(Visitor(port), process, match, seats, args.drive)


def line(what: str, times: Sequence[float]) -> str:
    """Returns a row of figures."""
    values = np.array(times)
    return f"{what:44} {np.median(values):8.1f} {np.quantile(values, 0.95):8.1f} {values.max():8.1f}   {len(values):5}"


def cpu_seconds(process: int) -> float:
    """Returns the CPU time of a process so far: what its work costs wherever the cores are busy with other things."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(args: argparse.Namespace, port: int, process: int) -> None:
    """Prints all figures."""
    visitor = Visitor(port)
    seats = [args.opponent] * args.seats
    await moves(visitor, args.game, ["person", *seats[1:]], 5)  # compiles
    print(f"{'milliseconds':44} {'median':>8} {'95 %':>8} {'most':>8}   {'of':>5}")
    before = cpu_seconds(process)
    alone = await moves(visitor, args.game, ["person", *seats[1:]], MOVES)
    spent = cpu_seconds(process) - before
    print(line(f"a decision of {args.opponent}, with its view", alone))
    print(f"CPU time of the server for a move, the answer and both views: {1e3 * spent / MOVES:.1f} ms")
    before = cpu_seconds(process)
    seen = await pages(visitor, args.sessions)
    print(line(f"pages, {args.sessions} sessions", seen))
    print(f"CPU time of the server for a page: {1e3 * (cpu_seconds(process) - before) / len(seen):.1f} ms", flush=True)
    print(line("a search of one second", await searches(visitor, args.game, seats[1:])))
    rate, mine, seen = await crowd(visitor, args.game, seats, args.tables)
    print(line(f"a decision beside {args.tables} other tables", mine))
    print(line(f"pages beside {args.tables} tables, 20 sessions", seen))
    print(f"decisions a second of {args.tables} tables, one a second wanted: {rate:.1f}")


def main() -> None:
    """Starts a server and measures it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="beasty_bar")
    parser.add_argument("--opponent", default="zoo:beasty_bar")
    parser.add_argument("--seats", type=int, default=2)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--drive", metavar="BOT", help="measure driving against it instead")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "jaxrl", "serve", "--port", "0", "--folder", folder, "--tables", "1000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline().rstrip().rstrip("/").rpartition(":")[2])
            try:
                asyncio.run((drives if args.drive else measure)(args, port, server.pid))
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
