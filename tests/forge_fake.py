"""A Forge that is none: a release folder, a `java` and a daemon in Python, which can misbehave on request.

    home = fake_home(folder)                       # a folder with a jar and res/
    java = fake_java(folder, {"1": {"die": 2}})    # a program that takes the place of `java`

The daemon speaks HELLO, PING, STATUS, SHUTDOWN and NEWGAME, one game at a time; a game asks `DECISIONS` times for a
number and then has a result. What is wrong with it is told by the folder's `faults.json`: by the number of the start,
from 1 on ("*": every other), a mapping with the keys below. What it compiled is told by the file `compiles`. A file
`cannot_compile` holds what its compiler says instead, and with nothing in it the compiler is killed once.

    ready: seconds until it is ready, -1: never          say: a line to print first
    fail: "FORGE DAEMON FAILED" for this reason          exit: with this code, before it is ready
    die: decisions after which it kills itself           deaf: nothing is answered from so many decisions on
    stuck: a game goes on after its client has left      stubborn: SHUTDOWN, SIGTERM and the end of input do nothing
    protocol: the number that it says hello with         work: {flag of Java: numbers to add up for a game}
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import signal
import socket
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Any

DECISIONS = 5
VERSION = "1.6.99-FAKE"
ROOT = Path(__file__).resolve().parent.parent


def fake_home(folder: Path) -> Path:
    """A folder that looks like a release."""
    home = folder / "forge"
    for part in ("cardsfolder", "editions"):
        (home / "res" / part).mkdir(parents=True)
    (home / f"forge-gui-desktop-{VERSION}-jar-with-dependencies.jar").write_bytes(b"no jar")
    return home


def fake_java(
    folder: Path,
    faults: dict[str, Any] | None = None,
    *,
    version: str = "17.0.9",
    modules: tuple[str, ...] = ("java.base", "jdk.compiler"),
) -> Path:
    """A program that answers as a `java` does, and is a daemon where a `java` would be one."""
    (folder / "faults.json").write_text(json.dumps(faults or {}))
    (folder / "starts").write_text("0")
    java = folder / "java"
    lines = "\n".join(f"{name}@{version}" for name in modules)
    java.write_text(
        "#!/bin/sh\n"
        f"""[ "$1" = -version ] && {{ echo 'openjdk version "{version}" 2023-10-17' >&2; exit 0; }}\n"""
        f"""[ "$1" = --list-modules ] && {{ echo '{lines}'; exit 0; }}\n"""
        f"""exec '{sys.executable}' '{Path(__file__).resolve()}' '{folder}' "$@"\n"""
    )
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


def decision(number: int) -> dict[str, Any]:
    """Which number, from 0 to 9? The seats are asked in turn."""
    seat = number % 2
    who = {"decision_id": number + 1, "player": f"Agent({seat + 1})-a", "seat": seat, "turn": number, "phase": "MAIN1"}
    state = {"turn": number, "phase": "MAIN1", "active": seat, "priority": seat, "you": seat, "players": []}
    return {"decision_type": "announce_value", **who, "name": "X", "min": 0, "max": 9, "game_state": state}


class FakeDaemon:
    """One daemon; it may also run in a thread of the tests."""

    def __init__(self, port: int = 0, faults: dict[str, Any] | None = None):
        self.faults = faults or {}
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.table = threading.Lock()  # one game at a time
        self.counts = threading.Lock()
        self.active = self.waiting = self.played = self.decisions = 0
        self.clients: list[socket.socket] = []

    def serve(self) -> None:
        """Accepts until the listener is closed."""
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.clients.append(client)
            threading.Thread(target=self.talk, args=(client,), daemon=True).start()

    def in_thread(self) -> FakeDaemon:
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def close(self) -> None:
        for each in (self.listener, *self.clients):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # or its thread would keep it open
            each.close()

    @property
    def deaf(self) -> bool:
        return self.decisions >= self.faults.get("deaf", 1 << 30)

    def talk(self, client: socket.socket) -> None:
        """One connection: commands here, games in a thread of their own."""
        answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()

        def say(line: str) -> None:
            if not self.deaf:
                client.sendall(line.encode() + b"\n")

        try:
            for line in client.makefile(encoding="utf-8"):
                words = line.split() or [""]
                if words[0] == "HELLO":
                    say(f"HELLO {self.faults.get('protocol', 1)} forge={VERSION}")
                elif words[0] == "PING":
                    say("PONG")
                elif words[0] == "STATUS":
                    say(f"FORGE DAEMON STATUS\n  Active games: {self.active}\n  Total games played: {self.played}")
                    say(f"  Memory: 1MB / 2MB\n  Max concurrent: 1\n  Waiting: {self.waiting}")
                elif words[0] == "SHUTDOWN" and not self.faults.get("stubborn"):
                    os._exit(0)
                elif words[0] == "NEWGAME":
                    threading.Thread(target=self.play, args=(words, say, answers), daemon=True).start()
                else:
                    answers.put(words[0])
        except (OSError, UnicodeError):
            pass
        answers.put(None)

    def play(self, words: list[str], say: Any, answers: Any) -> None:
        """A game: `DECISIONS` numbers are asked for."""
        with self.counts:
            self.waiting += 1
        with self.table:
            with self.counts:
                self.waiting, self.active = self.waiting - 1, 1
            try:
                if "-q" not in words:
                    say(f"GAME_START: {words[1]} vs {words[2]}\nSEED: 1")
                for number in range(DECISIONS if "-i" in words else 0):
                    say("DECISION:" + json.dumps(decision(number), separators=(",", ":")))
                    if answers.get() is None:
                        time.sleep(3600 if self.faults.get("stuck") else 0)
                        return
                    self.decisions += 1
                    if self.decisions == self.faults.get("die"):
                        os.kill(os.getpid(), signal.SIGKILL)
                for flag, work in self.faults.get("work", {}).items():
                    sum(range(work if any(flag in each for each in sys.argv) else 0))
                say(f"GAME_RESULT: {'Agent' if '-i' in words else 'Ai'}(1)-a won in 5ms")
                self.played += 1
            except OSError:
                pass
            finally:
                self.active = 0


def main(folder: Path, arguments: list[str]) -> None:
    """What `java` does."""
    if "-d" in arguments:  # the compiler
        if (refused := folder / "cannot_compile").exists():
            if said := refused.read_text():
                sys.exit(said)
            refused.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        Path(arguments[arguments.index("-d") + 1]).mkdir()
        with (folder / "compiles").open("a") as file:
            file.write(" ".join(Path(each).name for each in arguments if each.endswith(".java")) + "\n")
        return
    with (folder / "starts").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two may start at the same time
        starts = int(file.read()) + 1
        file.seek(0)
        file.write(str(starts))
    everything = json.loads((folder / "faults.json").read_text())
    faults = everything.get(str(starts), everything.get("*", {}))
    port = int(arguments[arguments.index("--port") + 1])
    if faults.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "say" in faults:
        print(faults["say"], flush=True)
    if "exit" in faults:
        sys.exit(faults["exit"])
    if "fail" in faults:
        print(f"FORGE DAEMON FAILED: {faults['fail']}", flush=True)
        sys.exit(2)
    time.sleep(faults.get("ready", 0) if faults.get("ready", 0) >= 0 else 3600)
    try:
        daemon = FakeDaemon(port, faults)
    except OSError:
        print(f"FORGE DAEMON FAILED: cannot listen on 127.0.0.1:{port}: Address already in use", flush=True)
        sys.exit(2)
    print(f"FORGE DAEMON READY port={daemon.port} forge={VERSION}", flush=True)
    daemon.in_thread()
    while "--watch-stdin" in arguments and os.read(0, 1):
        pass
    if faults.get("stubborn"):
        time.sleep(3600)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
