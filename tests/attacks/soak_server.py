"""A soak of the server: people, spectators and noise for as long as is wanted; memory, threads, descriptors stay flat.

python -m tests.attacks.soak_server --minutes 60 --out soak.txt
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import socket
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from websockets.exceptions import WebSocketException

from tests.attacks.test_server import client_of
from tests.support.serving import Client, serve_process

GAMES = ("skull_king", "beasty_bar")
GROWTH, PARTS = 1.05, 6  # of memory between the second part and the last; parts of the time
WARM = 1  # parts in which tables and caches fill up
BUSY = 600.0  # seconds in which a busy machine compiles


def sample(pid: int) -> tuple[float, int, int]:
    """MB of memory, threads and descriptors of a process."""
    words = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(words["VmRSS"].split()[0]) / 1024, int(words["Threads"]), len(os.listdir(f"/proc/{pid}/fd"))


def play(client: Client, random_: random.Random, games: list[str]) -> int:
    """One person against agents, with hints and moves taken back, and a spectator who comes and goes."""
    table = client.post("/api/tables", {"game": random_.choice(games), "pace": 0})
    with client.sit(table["id"], next(filter(None, table["keys"])), name="Anna") as anna:
        view = anna.turn(BUSY)
        while not view["over"]:
            if random_.random() < 0.2:
                anna.send(do="hint", by=random_.choice(["policy", "policy", "policy", "search"]))
                anna.until(lambda m: m["kind"] == "hint", BUSY)
            if random_.random() < 0.05:
                with client.sit(table["id"]) as watcher:
                    watcher.until(lambda m: m["kind"] == "view")
                anna.send(do="undo")
                back = anna.until(lambda m, at=view["time"]: m["kind"] == "error" or m.get("time", at) < at)
                view = back if back["kind"] == "view" else view
            anna.play(view, random_.randrange(len(view["legal"])))
            view = anna.until(lambda m, at=view["time"]: m["kind"] == "view" and m.get("time", 0) > at)
            view = view if view["legal"] or view["over"] else anna.turn()
    client.request(f"/api/tables/{table['id']}/keep", {})
    return len(anna.messages)


def watch(client: Client, random_: random.Random, games: list[str]) -> int:
    """A spectator of a deal that agents play twice."""
    game, heard = random_.choice(games), 0
    context = client.post("/api/players", {"game": game})
    table = client.open_table(game, *[context["players"][0][0]] * context["seats"], beside=True)
    for id in (table["id"], table["beside"]):
        with client.sit(id) as watcher:
            watcher.until(lambda m: m.get("over", False), BUSY)
            heard += len(watcher.messages)
    return heard


def pester(client: Client, random_: random.Random, games: list[str]) -> int:
    """Pages, halves of requests, sockets without a hello, streams that are left, an upload of noise."""
    for path in ("/", "/api/tables", "/api/games", "/runs/list", "/replays/list", "/static/space.js", "/runs/of/x"):
        client.request(path)
    with socket.create_connection(("127.0.0.1", client.port)) as half:
        half.sendall(
            random_.choice([b"GET / HT", b"", b"\xff\xfe\r\n\r\n", b"GET /runs/events HTTP/1.1\r\nHost: x\r\n\r\n"])
        )
    with socket.create_connection(("127.0.0.1", client.port)) as stream:
        stream.sendall(f"GET /runs/events HTTP/1.1\r\nHost: {client.host}\r\n\r\n".encode())
        stream.recv(100)
    with client.socket("nothing"):
        pass
    client.request("/replays/bring?name=a.replay", random_.randbytes(10_000))
    return 11


def main(argv: list[str] | None = None) -> int:
    """Runs the soak, prints its figures, and returns 1 if something grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between two games of a thread")
    parser.add_argument("--game", action="append", default=[], help=f"to play (default: {', '.join(GAMES)})")
    parser.add_argument("--out", default=os.devnull, help="file for a line a minute")
    args = parser.parse_args(argv)
    begun, games = time.monotonic(), args.game or list(GAMES)
    end, counts, wrong = begun + 60 * args.minutes, collections.Counter(), []

    def work(act, address: str, seed: int) -> None:
        random_, client = random.Random(seed), client_of(address)
        client.patience = BUSY
        while time.monotonic() < end and len(wrong) < 20:
            try:
                counts["messages"] += act(client, random_, games)
                counts[act.__name__] += 1
            except (OSError, AssertionError, WebSocketException, json.JSONDecodeError) as error:
                wrong.append(f"{act.__name__}: {error!r}"[:300])
                print(wrong[-1], flush=True)
            time.sleep(args.pause)

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        options = [word for game in games for word in ("--game", game)] + ["--allow", "tests"]
        process, address = stack.enter_context(serve_process(Path(folder), *options))
        out = stack.enter_context(open(args.out, "a", buffering=1))
        acts = (play, play, watch, pester)
        threads = [threading.Thread(target=work, args=(each, address, i)) for i, each in enumerate(acts)]
        for thread in threads:
            thread.start()
        print("minute,   MB, threads, descriptors, messages, games played and watched, pestered, wrong", file=out)
        samples = []
        while any(thread.is_alive() for thread in threads):
            time.sleep(min(60.0, max(0.5, 60 * args.minutes / 60)))
            samples.append(sample(process.pid))
            told = [counts[each] for each in ("messages", "play", "watch", "pester")]
            minute = (time.monotonic() - begun) / 60
            print("{:6.1f} {:7.1f} {:4d} {:4d}".format(minute, *samples[-1]), *told, len(wrong), sep="\t", file=out)
        log = (Path(folder) / "server.log").read_text()
        print(log[-3000:])
    parts = [samples[len(samples) * i // PARTS : len(samples) * (i + 1) // PARTS] for i in range(PARTS)]
    rows = [[statistics.median(column) for column in zip(*part, strict=True)] for part in parts]
    for number, (memory, count, files) in enumerate(rows, start=1):
        print(f"part {number} of {PARTS}: {memory:7.1f} MB, {count:3.0f} threads, {files:3.0f} descriptors")
    print(f"{args.minutes:g} minutes, {dict(counts)}, {len(wrong)} wrong, {log.count('Traceback')} tracebacks")
    first, last = rows[WARM], rows[-1]
    flat = last[0] <= GROWTH * first[0] and last[1] <= first[1] + 2 and last[2] <= first[2] + 5
    print("flat" if flat else "NOT FLAT")
    return 0 if flat and not wrong and "Traceback" not in log else 1


if __name__ == "__main__":
    sys.exit(main())
