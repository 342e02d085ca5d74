"""Keeps the daemons of a deployment running: starts them, asks how they are, restarts what died or hangs, stops them.

Threads: one for each daemon, which sleeps in `read` (`envs.forge.jvm`), and the supervisor's, which wakes for what has
failed and else every ten seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from envs.errors import UserError
from envs.forge.daemon import DOWN, FREE, GONE, SUSPECT, Daemon, FleetError, RemoteDaemon, backoff, who_listens
from envs.forge.find import find_decks, find_forge, find_java
from envs.forge.jvm import Launch, LocalDaemon
from envs.forge.scratch import Scratch
from envs.forge.settings import OVERHEAD_MB, Deployment, available_mb, cores

LOG = logging.getLogger("jaxrl.forge")
HEALTH_SECONDS = 10.0  # between questions to every daemon
ANSWER_SECONDS = 10.0  # for the answer; a JVM that collects garbage on a busy machine may need one
ABORT_SECONDS = 5.0  # for a daemon to give up the game of a connection that was dropped
MOST_DEATHS = 5  # in a row, without a finished game in between
STOP_SECONDS = 3.0  # for a JVM to end by itself, and again after SIGTERM
HIGHEST_PORT = 65535


class Supervisor:
    """The daemons of one deployment and the threads that look after them."""

    def __init__(self, deployment: Deployment):
        """Finds Forge and Java; starts nothing yet.

        Raises:
          UserError: there is no Forge, or no Java for it.
        """
        self.deployment = deployment
        self.closing = threading.Event()
        self.starts = threading.BoundedSemaphore(cores())  # JVMs that start at the same time
        self.changed = threading.Condition()  # its lock guards `state` and `lease` of the daemons, and all counts
        self.hung = 0  # daemons that lived and did not do what they were told
        self._taken: set[int] = set()  # ports that belong to others
        self._wake = threading.Event()
        self._threads: list[threading.Thread] = []
        self._began, self._process = 0.0, os.getpid()
        self._scratch: Scratch | None = None
        self.daemons: list[Daemon] = self._remote() if deployment.remote else self._local()
        _OPEN.append(self)

    def _remote(self) -> list[Daemon]:
        return [RemoteDaemon(i, host, port) for i, (host, port) in enumerate(self.deployment.addresses)]

    def _local(self) -> list[Daemon]:
        deployment = self.deployment
        forge, java = find_forge(deployment.home), find_java(deployment.java)
        count, memory = deployment.local_count(), available_mb()
        wanted = count * (deployment.heap_mb + OVERHEAD_MB)
        if memory is not None and wanted > memory:
            LOG.warning("%d Forge daemons may take %d MiB of memory, and %d are free", count, wanted, memory)
        decks, logs = find_decks(deployment.decks), _log_folder(deployment.log_dir)
        self._scratch = Scratch()
        private = self._scratch.path
        launch = Launch(java, forge, deployment.profile, deployment.heap_mb, decks, deployment.stock, private)
        return [LocalDaemon(i, launch, logs or private, deployment.start_timeout) for i in range(count)]

    @property
    def capacity(self) -> int:
        """Games that can be played at the same time: daemons that are not given up."""
        return sum(daemon.state != GONE for daemon in self.daemons)

    @property
    def mine(self) -> bool:
        """Whether this process made it, and not the one that this one was forked from."""
        return os.getpid() == self._process

    @property
    def seconds(self) -> float:
        """Since the daemons were started."""
        return time.monotonic() - self._began if self._began else 0.0

    def start(self) -> None:
        """Starts the daemons, unless they are; does not wait for them."""
        with self.changed:
            self.check_open()
            if self._threads:
                return
            self._began = time.monotonic()
            self._threads = [threading.Thread(target=self._watch, name="forge-supervisor", daemon=True)]
            for daemon in self.daemons:
                name = f"forge-daemon-{daemon.number}"
                self._threads.append(threading.Thread(target=self._live, args=(daemon,), name=name, daemon=True))
            for thread in self._threads:
                thread.start()

    def _live(self, daemon: Daemon) -> None:
        """The body of a daemon's thread; what goes wrong in it is the end of that daemon only."""
        try:
            daemon.live(self)
        except Exception as error:
            LOG.exception("Forge daemon %s is given up", daemon.name)
            with self.changed:
                daemon.state, daemon.problem = GONE, str(error).rstrip(".")
                self.changed.notify_all()
            daemon.give_up()

    def check_open(self) -> None:
        """Raises FleetError if the daemons are stopped."""
        if self.closing.is_set():
            raise FleetError("the Forge daemons of this process are stopped.")

    # ---- what the daemons' threads report ---------------------------------------------------------------------------

    def claim_port(self, daemon: LocalDaemon) -> int:
        """The port for a JVM that starts: the one it had, else the next that nobody listens at.

        Raises:
          FleetError: there is none.
        """
        first, behind = self.deployment.port, self.deployment.port + len(self.daemons)
        for port in (daemon.port or first + daemon.number, *range(behind, HIGHEST_PORT + 1), *range(1024, first)):
            if port > HIGHEST_PORT or port in self._taken:
                continue
            if (who := who_listens(port)) is not None:
                LOG.warning("port %d is taken by %s; a Forge daemon of ours takes another", port, who)
                self._taken.add(port)
                continue
            with self.changed:
                if port not in {other.port for other in self.daemons if other is not daemon}:
                    daemon.port = port
                    return port
        raise FleetError("there is no free port for a Forge daemon: set forge.port to another.")

    def became_ready(self, daemon: Daemon) -> None:
        """A daemon can be leased."""
        with self.changed:
            daemon.state, daemon.problem = FREE, ""
            self.changed.notify_all()
        LOG.info("Forge daemon %s is ready (Forge %s)", daemon.name, daemon.version)

    def unreachable(self, daemon: Daemon, problem: str) -> None:
        """A remote daemon could not be connected to."""
        with self.changed:
            news = daemon.state != DOWN
            daemon.state, daemon.problem = DOWN, f"{daemon.name}: {problem}"
            self.changed.notify_all()
        if news:
            LOG.warning("Forge daemon %s", daemon.problem)

    def died(self, daemon: LocalDaemon, problem: str, final: bool) -> float | None:
        """A JVM ended. Seconds until it is started again, or None: it is given up, or all are being stopped.

        Args:
          daemon: whose it was.
          problem: why, in words.
          final: another start would end in the same way.
        """
        if self.closing.is_set():
            return None
        with self.changed:
            if daemon.lease is not None:
                daemon.lease.evict()  # if somebody is using it, he finds the connection closed
            daemon.take_back(keep=False)
            daemon.deaths += 1
            final = final or daemon.deaths >= MOST_DEATHS
            times = "" if daemon.deaths == 1 else f" {daemon.deaths} times in a row without a finished game"
            daemon.problem = f"Forge daemon {daemon.name} ended{times} ({problem}), see {daemon.log}"
            daemon.state = GONE if final else DOWN
            daemon.restarts += not final
            self.changed.notify_all()
        LOG.warning("%s: it is %s", daemon.problem, "given up" if final else "started again")
        return None if final else backoff(daemon.deaths)

    def port_was_taken(self, daemon: LocalDaemon) -> None:
        """Somebody was faster than a JVM of ours."""
        LOG.warning("port %d was taken while a Forge daemon of ours was starting: it takes another", daemon.port)
        with self.changed:
            self._taken.add(daemon.port)
            daemon.port = 0

    # ---- health -----------------------------------------------------------------------------------------------------

    def suspect(self, daemon: Daemon, reason: str) -> None:
        """Takes a daemon out of use, and its lease back, until it has shown that it is well."""
        with self.changed:
            daemon.claimed = False
            daemon.take_back(keep=False)
            if daemon.state == FREE:
                daemon.state, daemon.problem = SUSPECT, f"{daemon.name}: {reason}"
        self._wake.set()

    def _watch(self) -> None:
        """The body of the supervisor's thread."""
        health = time.monotonic() + HEALTH_SECONDS
        while not self.closing.is_set():
            self._wake.wait(max(0.0, health - time.monotonic()))
            self._wake.clear()
            states = [SUSPECT]
            if time.monotonic() >= health:
                health, states = time.monotonic() + HEALTH_SECONDS, [SUSPECT, FREE]
            self._examine([daemon for daemon in self.daemons if daemon.state in states])

    def _examine(self, daemons: Iterable[Daemon]) -> None:
        """Asks daemons how they are, all at once, and deals with those that do not answer or do not let go."""
        asked = [(daemon, daemon.ask()) for daemon in daemons]
        deadline = time.monotonic() + ANSWER_SECONDS
        keeping: list[Daemon] = []
        for daemon, heard in asked:
            status = daemon.answer(deadline) if heard else None
            if status is None:
                self._lost(daemon, "it does not answer" if daemon.silent else "it is not there any more", daemon.silent)
            elif daemon.local and daemon.state == SUSPECT and daemon.active:
                keeping.append(daemon)  # the game of the connection that was dropped
            else:
                self._well(daemon)
        for daemon in keeping:
            if self._lets_go(daemon):
                self._well(daemon)
            else:
                self._lost(daemon, "it does not stop a game that was given up", True)

    def _lets_go(self, daemon: Daemon) -> bool:
        """Whether a daemon ends the game that it plays for nobody."""
        end = time.monotonic() + ABORT_SECONDS
        while daemon.active and time.monotonic() < end and not self.closing.wait(0.1):
            if not daemon.ask() or daemon.answer(end) is None:
                return False
        return not daemon.active

    def _well(self, daemon: Daemon) -> None:
        with self.changed:
            if daemon.state == SUSPECT:
                daemon.state, daemon.problem = FREE, ""
                self.changed.notify_all()

    def _lost(self, daemon: Daemon, problem: str, hung: bool) -> None:
        """A daemon that is no use any more: a JVM of ours is killed, and its thread starts another."""
        with self.changed:
            if self.closing.is_set() or daemon.state not in (FREE, SUSPECT):
                return
            daemon.state, daemon.problem = DOWN, f"{daemon.name}: {problem}"
            self.hung += hung
            if not daemon.local:  # of a JVM of ours `died` takes it back
                if daemon.lease is not None:
                    daemon.lease.evict()
                daemon.take_back(keep=False)
        LOG.warning("Forge daemon %s", daemon.problem)
        daemon.give_up()

    # ---- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stops all daemons of ours: asks them, then SIGTERM, then SIGKILL. May be called again."""
        if not self.mine or self.closing.is_set():
            return
        with self.changed:
            self.closing.set()
            self.changed.notify_all()
        self._wake.set()
        local = [daemon for daemon in self.daemons if isinstance(daemon, LocalDaemon)]
        for each in local:
            each.ask_to_stop()
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + STOP_SECONDS
            for each in local:
                if not each.wait(deadline - time.monotonic()):
                    each.signal(number)
        for daemon in self.daemons:
            daemon.disconnect()
            daemon.give_up()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(STOP_SECONDS)
        if self._scratch is not None:
            self._scratch.close()
        with contextlib.suppress(ValueError):
            _OPEN.remove(self)


def _log_folder(log_dir: str) -> Path | None:
    """The folder for logs, made if need be; None: a temporary one.

    Raises:
      UserError: it cannot be made.
    """
    if not log_dir:
        return None
    folder = Path(log_dir).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"forge.log_dir is {log_dir!r}, which cannot be made ({error.strerror}): choose another."
        ) from error
    return folder


_OPEN: list[Supervisor] = []


def close_all() -> None:
    """Stops the daemons of this process."""
    for supervisor in list(_OPEN):
        supervisor.close()


atexit.register(close_all)  # a process that is killed does not come here: its JVMs see the end of their input
if hasattr(os, "register_at_fork"):  # a child has none of the threads, and the daemons are its parent's
    os.register_at_fork(after_in_child=_OPEN.clear)
