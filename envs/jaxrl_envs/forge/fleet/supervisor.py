"""Supervisor of daemons: starts them, checks their health, restarts those that died or hang, stops them.

Threads: one for each daemon, which sleeps until it ends, and one for health checks, periodic and after failures.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from jaxrl_envs.forge.fleet.daemon import DOWN, FREE, GONE, SUSPECT, Daemon, Ended, FleetError
from jaxrl_envs.forge.fleet.jvm import LocalDaemon
from jaxrl_envs.shared.resources import cores

LOG = logging.getLogger("jaxrl.forge")


class Patience(NamedTuple):
    """Time limits of a fleet in seconds, and numbers of attempts."""

    health: float = 10.0  # between questions to every daemon
    answer: float = 10.0  # to them; a JVM that collects garbage on a busy machine may need one
    abort: float = 5.0  # for a daemon to give up the game of a connection that was dropped
    stop: float = 3.0  # for a JVM to end after SIGTERM, and again for its thread to reap it
    idle: float = 0.2  # a game waits for a free daemon before another, idle game has to give way
    look: float = 0.05  # between looks for an idle game, after that wait
    restart: float = 0.5  # after the first failure, doubled with each in a row
    longest: float = 30.0  # at most
    deaths: int = 5  # of a JVM in a row, without a finished game in between: then it is given up

    def backoff(self, failures: int) -> float:
        """Seconds before the next attempt."""
        return min(self.longest, self.restart * 2.0 ** (min(failures, 10) - 1))


class Supervisor:
    """Supervises the daemons of one fleet, in its own threads.

    Attributes:
      changed: its lock guards `state` and `lease` of the daemons, and all counts; it is notified of every change.
      closing: set when all are being stopped.
      hung: daemons that lived and did not do what they were told.
    """

    def __init__(self, daemons: Sequence[Daemon], patience: Patience):
        """Starts nothing yet."""
        self.daemons, self.patience = list(daemons), patience
        self.closing, self.changed, self.hung = threading.Event(), threading.Condition(), 0
        # No more JVMs start at a time than there are cores.
        self._starts = threading.BoundedSemaphore(cores() if any(each.local for each in daemons) else len(daemons))
        self._wake = threading.Event()
        self._threads: list[threading.Thread] = []
        self._began, self._process = 0.0, os.getpid()
        self._told: set[str] = set()  # remarks of daemons

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
                self._threads.append(threading.Thread(target=self._keep, args=(daemon,), name=name, daemon=True))
            for thread in self._threads:
                thread.start()

    def check_open(self) -> None:
        """Raises FleetError if the daemons are stopped."""
        if self.closing.is_set():
            raise FleetError("the Forge daemons of this process are stopped.")

    # ---- the life of a daemon ---------------------------------------------------------------------------------------

    def _keep(self, daemon: Daemon) -> None:
        """Runs a daemon in its thread; what goes wrong in it is the end of that daemon only."""
        try:
            pause: float | None = 0.0
            while pause is not None and not self.closing.wait(pause):
                with self._starts:
                    if self.closing.is_set():
                        return
                    ended = daemon.come_up()
                if ended is None:
                    self._ready(daemon)
                    ended = daemon.run()
                pause = self._ended(daemon, ended)
        except Exception as error:
            LOG.exception("Forge daemon %s is given up", daemon.name)
            with self.changed:
                daemon.state, daemon.problem = GONE, str(error).rstrip(".")
                self.changed.notify_all()
            daemon.give_up()

    def _ready(self, daemon: Daemon) -> None:
        """Lets a daemon be leased."""
        with self.changed:
            daemon.state, daemon.problem = FREE, ""
            self.changed.notify_all()
            news = [each for each in daemon.remarks if each not in self._told]
            self._told |= set(news)
        LOG.info("Forge daemon %s is ready (Forge %s)", daemon.name, daemon.version)
        for sentence in news:
            LOG.warning("%s", sentence)

    def _ended(self, daemon: Daemon, how: Ended) -> float | None:
        """Returns the seconds until a lost daemon is tried again; None: it is given up, or all are being stopped."""
        if self.closing.is_set():
            return None
        with self.changed:
            before = daemon.state
            daemon.take_back()
            daemon.failures += 1
            final = daemon.local and (how.final or daemon.failures >= self.patience.deaths)
            daemon.problem = daemon.why(how.problem) if how.problem else daemon.problem
            daemon.state = GONE if final else DOWN
            daemon.restarts += daemon.local and not final
            self.changed.notify_all()
        if daemon.local:
            LOG.warning("%s: it is %s", daemon.problem, "given up" if final else "started again")
        elif before != DOWN:
            LOG.warning("Forge daemon %s", daemon.problem)
        return None if final else self.patience.backoff(daemon.failures)

    # ---- health -----------------------------------------------------------------------------------------------------

    def suspect(self, daemon: Daemon, reason: str) -> None:
        """Takes a daemon out of use, and its lease back, until it has shown that it is well."""
        with self.changed:
            daemon.claimed = False
            daemon.take_back()
            if daemon.state == FREE:
                daemon.state, daemon.problem = SUSPECT, f"{daemon.name}: {reason}"
        self._wake.set()

    def _watch(self) -> None:
        """Examines daemons in the supervisor's own thread."""
        health = time.monotonic() + self.patience.health
        while not self.closing.is_set():
            self._wake.wait(max(0.0, health - time.monotonic()))
            self._wake.clear()
            states = [SUSPECT]
            if time.monotonic() >= health:
                health, states = time.monotonic() + self.patience.health, [SUSPECT, FREE]
            asked = [daemon for daemon in self.daemons if daemon.state in states]
            threads = [threading.Thread(target=self._examine, args=(daemon,), daemon=True) for daemon in asked]
            for thread in threads:  # all at once: one that hangs does not delay the others
                thread.start()
            for thread in threads:
                thread.join()

    def _examine(self, daemon: Daemon) -> None:
        """Asks a daemon how it is, and deals with it if it does not answer or does not let go of a game."""
        try:
            daemon.status(self.patience.answer)
            end = time.monotonic() + self.patience.abort
            # Of a dropped connection: on a local JVM only our own games are played.
            while daemon.local and daemon.state == SUSPECT and daemon.active and not self.closing.wait(0.05):
                if time.monotonic() > end:
                    return self._lost(daemon, "it does not stop a game that was given up", True)
                daemon.status(self.patience.answer)
        except TimeoutError:
            return self._lost(daemon, "it does not answer", True)
        except OSError:
            return self._lost(daemon, "it is not there any more", False)
        with self.changed:
            if daemon.state == SUSPECT:
                daemon.state, daemon.problem = FREE, ""
                self.changed.notify_all()

    def _lost(self, daemon: Daemon, problem: str, hung: bool) -> None:
        """Gives up a daemon that is no use any more: a JVM of ours is killed, and its thread does the rest."""
        with self.changed:
            if self.closing.is_set() or daemon.state not in (FREE, SUSPECT):
                return
            daemon.state, daemon.problem = DOWN, f"{daemon.name}: {problem}"
            daemon.take_back()  # at once: a lost game must not be entered
            self.hung += hung
        LOG.warning("Forge daemon %s", daemon.problem)
        daemon.give_up()

    # ---- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stops all daemons of ours: SIGTERM, then SIGKILL. May be called again."""
        if not self.mine or self.closing.is_set():
            return
        with self.changed:
            self.closing.set()
            for daemon in self.daemons:
                daemon.take_back()  # a game that waits for an answer finds the connection closed
            self.changed.notify_all()
        self._wake.set()
        local = [daemon for daemon in self.daemons if isinstance(daemon, LocalDaemon)]
        for each in local:
            each.stop()
        deadline = time.monotonic() + self.patience.stop
        for each in local:
            each.wait(deadline - time.monotonic())
        for daemon in self.daemons:
            daemon.give_up()
        deadline = time.monotonic() + self.patience.stop
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
