"""One daemon as the fleet sees it: where it listens, how it is, and who plays on it. `jvm` has those that we start."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from envs.errors import UserError
from envs.forge.settings import LOCAL_HOST
from envs.forge.wire import Lease, Link, LinkError

if TYPE_CHECKING:
    from envs.forge.supervisor import Supervisor

PROTOCOL = 1
CONNECT_SECONDS, HELLO_SECONDS = 5.0, 10.0
FEW = 4  # attempts after which a remote daemon that never answered is no hope

STARTING, FREE, SUSPECT, DOWN, GONE = "starting", "ready", "suspect", "down", "given up"


class FleetError(UserError):
    """No daemon can go on: one sentence that says why and what to do."""


class Daemon:
    """What all daemons have: an address, a state, one lease at most, and figures.

    The supervisor's lock guards `state`, `lease` and what comes with them.
    """

    local = False

    def __init__(self, number: int, host: str, port: int):
        self.number, self.host, self.port = number, host, port
        self.state, self.version, self.problem = STARTING, "", ""
        self.lease: Lease | None = None
        self.claimed = False  # somebody connects to it, to lease it
        self.games = self.leases = self.deaths = self.restarts = 0
        self.silent = False  # it was asked and said nothing; else, if there is no answer, it is not there
        self.active = self.waiting = 0  # games there, ours and others', as it last said
        self.held, self.busy, self._since = 0.0, 0.0, 0.0  # seconds that it was leased, and that it was played on
        self._idle: Link | None = None  # the connection that is kept for the next lease
        self._control: Link | None = None  # the supervisor's

    @property
    def name(self) -> str:
        """For sentences."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def free(self) -> bool:
        """Whether it can be leased now."""
        return self.state == FREE and self.lease is None and not self.claimed

    @property
    def hopeless(self) -> bool:
        """Whether it is not worth waiting for."""
        return self.state == GONE

    # ---- leases -----------------------------------------------------------------------------------------------------

    def connect(self) -> Link:
        """The connection that was kept, or a new one that has said hello.

        Raises:
          OSError: nobody is there, or not a daemon of our kind.
        """
        link, self._idle = self._idle, None
        return link if link is not None and not link.closed else self.hello()

    def lend(self, lease: Lease) -> None:
        """Notes a lease; the caller holds the lock."""
        self.lease, self.claimed, self._since = lease, False, time.monotonic()
        self.leases += 1

    def take_back(self, keep: bool) -> None:
        """Ends the lease, if there is one; its connection is kept or closed. The caller holds the lock."""
        lease, self.lease = self.lease, None
        if lease is None:
            return
        self.held += time.monotonic() - self._since
        self.busy += lease.busy_seconds
        if keep and not lease.link.closed and self._idle is None:
            self._idle = lease.link
        else:
            lease.link.close()

    def disconnect(self) -> None:
        """Closes the connections that are ours."""
        links, self._idle, self._control = (self._idle, self._control), None, None
        for link in links:
            if link is not None:
                link.close()

    def live(self, supervisor: Supervisor) -> None:
        """The body of its thread, to the end of the supervisor or its own."""
        raise NotImplementedError

    def give_up(self) -> None:
        """It is no use any more; its thread does the rest."""

    # ---- words ------------------------------------------------------------------------------------------------------

    def hello(self, seconds: float = HELLO_SECONDS) -> Link:
        """A new connection.

        Raises:
          OSError: nobody is there, or not a daemon of our kind.
        """
        link = Link(self.host, self.port, connect_timeout=CONNECT_SECONDS)
        try:
            link.send_line(f"HELLO {PROTOCOL}")
            answer = link.receive_line(seconds).decode()
        except LinkError as error:
            link.close()
            kind = TimeoutError if error.kind == "timeout" else OSError
            raise kind(f"what listens there does not answer HELLO ({error})") from error
        words = answer.split(maxsplit=2)
        if words[:2] != ["HELLO", str(PROTOCOL)]:
            link.close()
            raise OSError(f"what listens there is no Forge daemon of protocol {PROTOCOL} (it says {answer[:60]!r})")
        self.version = words[2].removeprefix("forge=") if len(words) > 2 else "unknown"
        return link

    def ask(self) -> bool:
        """Sends the question that `answer` waits for; both are for the supervisor's thread."""
        self.silent = False
        try:
            if self._control is None or self._control.closed:
                self._control = self.hello()
            self._control.send_line("STATUS\nPING")  # PONG marks the end of the status
        except (OSError, LinkError) as error:
            self.silent = isinstance(error, TimeoutError)
            return False
        return True

    def answer(self, deadline: float) -> dict[str, str] | None:
        """The status, or None if it does not come in time; the connection is closed then."""
        link = self._control
        if link is None:
            return None
        found: dict[str, str] = {}
        try:
            while (line := link.receive_line(max(0.0, deadline - time.monotonic())).decode()) != "PONG":
                name, _, value = line.strip().partition(": ")
                found[name] = value
        except LinkError as error:
            self.silent = error.kind == "timeout"
            link.close()
            self._control = None
            return None
        self.active, self.waiting = number_of(found, "Active games"), number_of(found, "Waiting")
        return found

    def status(self, seconds: float) -> dict[str, str] | None:
        """Its status over a connection made for it; for any thread."""
        other = Daemon(self.number, self.host, self.port)
        try:
            return other.answer(time.monotonic() + seconds) if other.ask() else None
        finally:
            other.disconnect()

    # ---- for metrics ------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """What it has done so far."""
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
    """A daemon that somebody else started: connected to, and again after it was lost, never restarted."""

    def __init__(self, number: int, host: str, port: int):
        super().__init__(number, host, port)
        self._lost = threading.Event()
        self._attempts = 0  # in a row that failed

    @property
    def hopeless(self) -> bool:
        return not self.version and self._attempts >= FEW

    def live(self, supervisor: Supervisor) -> None:
        """The body of its thread."""
        while not supervisor.closing.is_set():
            try:
                self._control = self.hello()
            except OSError as error:
                self._attempts += 1
                supervisor.unreachable(self, str(error))
            else:
                self._attempts = 0
                self._lost.clear()
                supervisor.became_ready(self)
                self._lost.wait()
            supervisor.closing.wait(backoff(max(1, self._attempts)))

    def give_up(self) -> None:
        self.disconnect()
        self._lost.set()


def number_of(status: dict[str, str], name: str) -> int:
    """A number in a status; 0 if it does not tell."""
    text = status.get(name, "").split(" ")[0]
    return int(text) if text.isdigit() else 0


def backoff(failures: int) -> float:
    """Seconds before the next attempt: half a second, doubled each time, half a minute at most."""
    return min(30.0, 0.5 * 2.0 ** (min(failures, 10) - 1))


def who_listens(port: int) -> str | None:
    """Who listens at a port of this machine, in words; None if nobody does."""
    stranger = Daemon(0, LOCAL_HOST, port)
    try:
        Link(LOCAL_HOST, port, connect_timeout=1.0).close()
    except OSError:
        return None
    try:
        stranger.hello(seconds=1.0).close()
    except OSError:
        return "another program, or a daemon that is starting"
    return f"another Forge daemon (Forge {stranger.version})"
