"""A daemon as the fleet sees it: address, state, and lease. `jvm` has the daemons that the fleet starts itself."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, NamedTuple

from jaxrl_envs.forge.wire.lease import Lease
from jaxrl_envs.forge.wire.link import Link, LinkError
from jaxrl_envs.shared.errors import UserError

PROTOCOL = 1
CONNECT_SECONDS, HELLO_SECONDS = 5.0, 10.0
TOKEN = "FORGE_DAEMON_TOKEN"  # the environment variable with what a daemon wants to hear first
MOST_WORDS = 100  # lines of a status
FEW = 4  # attempts after which a remote daemon that never answered is no hope

STARTING, FREE, SUSPECT, DOWN, GONE = "starting", "ready", "suspect", "down", "given up"


class FleetError(UserError):
    """No daemon can go on: one sentence that says why and what to do."""


class Ended(NamedTuple):
    """Reason why a daemon is not there, or not any more."""

    problem: str
    final: bool = False  # the next attempt would end in the same way


class Daemon:
    """A daemon: an address, a state, one lease at most, and figures.

    Its supervisor calls `come_up` and `run` in a thread of its own, and guards `state`, `lease` and what comes with
    them by a lock. A daemon knows nothing of its supervisor: it reports by what these two return.
    """

    local = False

    def __init__(self, number: int, host: str, port: int):
        self.number, self.host, self.port = number, host, port
        self.token = os.environ.get(TOKEN, "")
        self.state, self.version, self.problem = STARTING, "", ""
        self.remarks: tuple[str, ...] = ()  # sentences for the user who starts a run
        self.lease: Lease | None = None
        self.claimed = False  # a game is connecting to it, to lease it
        self.games = self.leases = self.restarts = 0
        self.failures = 0  # in a row: deaths without a finished game in between, or attempts to connect
        self.active = self.waiting = 0  # games there, ours and others', as it last said
        self.held, self.busy, self._since = 0.0, 0.0, 0.0  # seconds that it was leased, and that it was played on

    @property
    def name(self) -> str:
        """The daemon's name in sentences."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def free(self) -> bool:
        """Whether it can be leased now."""
        return self.state == FREE and self.lease is None and not self.claimed

    @property
    def hopeless(self) -> bool:
        """Whether it is not worth waiting for: it is given up, or was never there."""
        return self.state == GONE or (not self.local and not self.version and self.failures >= FEW)

    def why(self, problem: str) -> str:
        """Returns a problem as a sentence that names the daemon."""
        return f"{self.name}: {problem}"

    # ---- for its supervisor -----------------------------------------------------------------------------------------

    def come_up(self) -> Ended | None:
        """Makes it ready for leases, however long that takes; None once it is."""
        raise NotImplementedError

    def run(self) -> Ended:
        """Waits until it is not there any more."""
        raise NotImplementedError

    def give_up(self) -> None:
        """Marks the daemon as dead; `run` returns. Thread-safe."""

    # ---- leases -----------------------------------------------------------------------------------------------------

    def lend(self, lease: Lease) -> None:
        """Notes a lease; the caller holds the lock."""
        self.lease, self.claimed, self._since = lease, False, time.monotonic()
        self.leases += 1

    def take_back(self) -> None:
        """Ends the lease, if there is one, and its connection. The caller holds the lock."""
        lease, self.lease = self.lease, None
        if lease is not None:
            lease.evict()  # a game that is using it finds the connection closed
            lease.link.close()
            self.held += time.monotonic() - self._since
            self.busy += lease.busy_seconds

    # ---- words ------------------------------------------------------------------------------------------------------

    def hello(self, seconds: float = HELLO_SECONDS) -> Link:
        """Returns a new connection.

        Raises:
          OSError: no server listens there, or not a daemon of our protocol.
        """
        link = Link.to(self.host, self.port, CONNECT_SECONDS)
        try:
            link.send_line(f"HELLO {PROTOCOL} {self.token}".rstrip())
            answer = link.receive_line(seconds).decode()
        except LinkError as error:
            link.close()
            kind = TimeoutError if error.kind == "timeout" else OSError
            raise kind(f"what listens there does not answer HELLO ({error})") from error
        words = answer.split(maxsplit=2)
        if words[:2] != ["HELLO", str(PROTOCOL)]:
            link.close()
            if answer.startswith("ERROR: "):
                raise OSError(f"it says: {answer[7:200]}")
            raise OSError(f"what listens there is no Forge daemon of protocol {PROTOCOL} (it says {answer[:60]!r})")
        self.version = words[2].removeprefix("forge=") if len(words) > 2 else "unknown"
        return link

    def status(self, seconds: float) -> dict[str, str]:
        """Its status report, over a connection of its own; from any thread.

        Raises:
          TimeoutError: it does not answer within `seconds`.
          OSError: it is not there.
        """
        link, found = self.hello(seconds), {}
        try:
            link.send_line("STATUS\nPING")  # PONG marks the end of the status
            while (line := link.receive_line(seconds).decode()) != "PONG":
                name, _, value = line.strip().partition(": ")
                found[name] = value
                if len(found) > MOST_WORDS:
                    raise OSError("its status has no end")
        except LinkError as error:
            raise (TimeoutError if error.kind == "timeout" else OSError)(str(error)) from error
        finally:
            link.close()
        self.active, self.waiting = number_of(found, "Active games"), number_of(found, "Waiting")
        return found

    # ---- for metrics ------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """Its counters so far."""
        lease = self.lease
        held = 0.0 if lease is None else time.monotonic() - self._since
        return {
            "name": self.name,
            "state": "playing" if lease is not None and self.state == FREE else self.state,
            "version": self.version,
            "games": self.games,
            "leases": self.leases,
            "restarts": self.restarts,
            "held_seconds": self.held + held,
            "busy_seconds": self.busy + (0.0 if lease is None else lease.busy_seconds),
        }


class RemoteDaemon(Daemon):
    """A daemon that was started elsewhere: reconnected to after it was lost, never restarted."""

    def __init__(self, number: int, host: str, port: int):
        super().__init__(number, host, port)
        self._lost = threading.Event()

    def come_up(self) -> Ended | None:
        try:
            self.hello().close()
        except OSError as error:
            return Ended(str(error))
        self.failures = 0
        return None

    def run(self) -> Ended:
        self._lost.wait()
        self._lost.clear()
        return Ended("")

    def give_up(self) -> None:
        self._lost.set()


def number_of(status: dict[str, str], name: str) -> int:
    """Returns a number in a status; 0 if it does not tell."""
    text = status.get(name, "").split(" ")[0]
    return int(text) if text.isdigit() else 0
