"""A soak of the server: tables, crowds and noise for as long as is wanted; memory, threads and descriptors stay flat.

python -m tests.attacks.soak_server --minutes 180
"""

from __future__ import annotations

import argparse
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
from tests.support.serving import HIGH_CARD, KUHN, Client, serve_process

GROWTH, PARTS = 1.05, 8  # of memory between the second part and the last; parts of the time
WARM = 2  # parts in which tables and caches fill up


def sample(pid: int) -> tuple[float, int, int]:
    """MB of memory, threads and descriptors of a process."""
    words = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(words["VmRSS"].split()[0]) / 1024, int(words["Threads"]), len(os.listdir(f"/proc/{pid}/fd"))


def play(client: Client, random_: random.Random) -> None:
    """One person against agents, with hints and moves taken back, and a spectator who comes and goes."""
    table = client.open_table(HIGH_CARD, "person", "bot:lowest", "bot:random")
    with client.sit(table["id"], table["keys"][0], name="Anna") as anna:
        view = anna.turn()
        while not view["over"]:
            if random_.random() < 0.5:
                anna.send(do="hint", by=random_.choice(["policy", "search"]))
                anna.until(lambda m: m["kind"] == "hint")
            with client.sit(table["id"]) as watcher:
                watcher.until(lambda m: m["kind"] == "view")
            anna.play(view, random_.randrange(len(view["legal"])))
            view = anna.until(lambda m, at=view["time"]: m["kind"] == "view" and m.get("time", 0) > at)
            view = view if view["legal"] or view["over"] else anna.turn()
    client.request(f"/api/tables/{table['id']}/keep", {})


def watch(client: Client, random_: random.Random) -> None:
    table = client.open_table(KUHN, "bot:random", "bot:random", beside=True)
    for id in (table["id"], table["beside"]):
        with client.sit(id) as watcher:
            watcher.until(lambda m: m.get("over", False))


def pester(client: Client, random_: random.Random) -> None:
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


def main(argv: list[str] | None = None) -> int:
    """Runs the soak, prints its figures, and returns 1 if something grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=180.0)
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between two games of a thread")
    args = parser.parse_args(argv)
    end = time.monotonic() + 60 * args.minutes
    counts, wrong = {each.__name__: 0 for each in (play, watch, pester)}, []

    def work(act, address: str, seed: int) -> None:
        random_, client = random.Random(seed), client_of(address)
        while time.monotonic() < end and len(wrong) < 20:
            try:
                act(client, random_)
                counts[act.__name__] += 1
            except (OSError, AssertionError, WebSocketException, json.JSONDecodeError) as error:
                wrong.append(f"{act.__name__}: {error!r}"[:300])
            time.sleep(args.pause)

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        games = ["--game", HIGH_CARD, "--game", KUHN, "--allow", "tests", "--tables", "20"]
        process, address = stack.enter_context(serve_process(Path(folder), *games))
        threads = [
            threading.Thread(target=work, args=(each, address, i)) for i, each in enumerate((play, watch, pester))
        ]
        for thread in threads:
            thread.start()
        samples = []
        while any(thread.is_alive() for thread in threads):
            time.sleep(min(5.0, max(0.5, 60 * args.minutes / 100)))
            samples.append(sample(process.pid))
        log = (Path(folder) / "server.log").read_text()
    parts = [samples[len(samples) * i // PARTS : len(samples) * (i + 1) // PARTS] for i in range(PARTS)]
    rows = [[statistics.median(column) for column in zip(*part, strict=True)] for part in parts]
    for number, (memory, count, files) in enumerate(rows, start=1):
        print(f"part {number} of {PARTS}: {memory:7.1f} MB, {count:3.0f} threads, {files:3.0f} descriptors")
    print(
        f"{args.minutes:g} minutes, {counts}, {len(wrong)} wrong, {log.count('Traceback')} tracebacks", *wrong, sep="\n"
    )
    first, last = rows[WARM], rows[-1]
    flat = last[0] <= GROWTH * first[0] and last[1] <= first[1] + 2 and last[2] <= first[2] + 5
    print("flat" if flat else "NOT FLAT")
    return 0 if flat and not wrong and "Traceback" not in log else 1


if __name__ == "__main__":
    sys.exit(main())
