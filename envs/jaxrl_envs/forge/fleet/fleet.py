"""The fleet: the daemons of this process, leased to games.

    fleet = Fleet.shared(deployment)
    lease = fleet.lease()                 # a connection to a daemon that is free, already entered
    ...                                   # NEWGAME, decisions, answers, GAME_RESULT on lease.link
    fleet.release(lease)                  # or fleet.failed(lease, "closed")

A daemon plays one game at a time, so that it has one lease at most. A lease that is idle (left, not released) keeps its
game, and is evicted if another game has waited for a daemon: its owner finds out when it enters the lease again, and
replays the game from its seed and answers on another daemon. Nothing is lost by that, nor by the death of a JVM.
"""

from __future__ import annotations

import atexit
import bisect
import collections
import contextlib
import logging
import threading
import time
from typing import Any, ClassVar

from jaxrl_envs.forge.fleet.daemon import FREE, GONE, Daemon, FleetError, RemoteDaemon, number_of
from jaxrl_envs.forge.fleet.find import find_decks, find_forge, find_java
from jaxrl_envs.forge.fleet.jvm import Launch, LocalDaemon
from jaxrl_envs.forge.fleet.scratch import Scratch
from jaxrl_envs.forge.fleet.supervisor import Patience, Supervisor
from jaxrl_envs.forge.settings import OVERHEAD_MB, Deployment, available_mb, made
from jaxrl_envs.forge.wire.lease import NO_START, Lease

LOG = logging.getLogger("jaxrl.forge")
MANY = 100  # evictions after which it is said that there are too many games
BOUNDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)  # seconds, classes of the games' durations


class Fleet:
    """The daemons of one deployment; `shared` gives every game of the process the same one."""

    _shared: ClassVar[dict[Any, Fleet]] = {}
    _sharing: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def shared(cls, deployment: Deployment) -> Fleet:
        """Returns the fleet of a deployment, made at the first call; its daemons start with the first lease.

        Raises:
          UserError: there is no Forge, or no Java for it.
        """
        key: Any = (deployment,)
        if not deployment.remote:
            key += (find_forge(deployment.home), find_java(deployment.java))
        with cls._sharing:
            found = cls._shared.get(key)
            if found is None or found.supervisor.closing.is_set() or not found.supervisor.mine:
                found = cls._shared[key] = cls(deployment)
            return found

    def __init__(self, deployment: Deployment, patience: Patience = Patience()):  # noqa: B008, immutable
        """Finds Forge and Java; starts nothing yet.

        Raises:
          UserError: there is no Forge, or no Java for it.
        """
        self.deployment, self.patience = deployment, patience
        self._scratch: Scratch | None = None
        remote = [RemoteDaemon(i, *address) for i, address in enumerate(deployment.addresses)]
        self.daemons = remote if deployment.remote else self._local()
        self.supervisor = Supervisor(self.daemons, patience)
        self._changed = self.supervisor.changed
        self._faults: collections.Counter[str] = collections.Counter()
        self._results: collections.Counter[str] = collections.Counter()
        self._started = self._evictions = self._queue = 0
        self._durations, self._seconds_played = [0] * (len(BOUNDS) + 1), 0.0
        atexit.register(self.close)  # a process that is killed does not come here: its JVMs see the end of their input

    def _local(self) -> list[Daemon]:
        deployment = self.deployment
        forge, java = find_forge(deployment.home), find_java(deployment.java)
        count, memory = deployment.local_count(), available_mb()
        wanted = count * (deployment.heap_mb + OVERHEAD_MB)
        if memory is not None and wanted > memory:
            LOG.warning("%d Forge daemons may take %d MiB of memory, and %d are free", count, wanted, memory)
        decks = find_decks(deployment.decks)
        logs = made(deployment.log_dir, "forge.log_dir") if deployment.log_dir else None
        self._scratch = Scratch()
        private = self._scratch.path
        if deployment.record_jfr:
            made(deployment.record_jfr, "forge.record_jfr")
        launch = Launch(java, forge, deployment, decks, private)
        return [LocalDaemon(i, launch, logs or private, deployment.start_timeout) for i in range(count)]

    @property
    def capacity(self) -> int:
        """Games that can be played at the same time: daemons that are not given up."""
        return self.supervisor.capacity

    def start(self) -> None:
        """Starts the daemons, unless they are; does not wait for them."""
        self.supervisor.start()

    def close(self) -> None:
        """Stops the daemons that are ours; those of the process that this one was forked from are left alone."""
        self.supervisor.close()
        if self._scratch is not None and self.supervisor.mine:
            self._scratch.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- for games --------------------------------------------------------------------------------------------------

    def lease(self, timeout: float | None = None, *, replay: bool = False) -> Lease:
        """Returns an entered lease of the free daemon that has the least to do.

        Args:
          timeout: seconds to wait for one; None: as long as a start and a decision may take.
          replay: a game is played again up to where it was, and not counted as a new one.

        Raises:
          FleetError: no daemon was free for that long, or all daemons are given up.
        """
        self.start()
        if timeout is None:
            timeout = self.deployment.start_timeout + self.deployment.decision_timeout
        deadline = time.monotonic() + timeout
        while True:
            daemon = self._claim(deadline, timeout)
            try:
                link = daemon.hello()
            except OSError as error:
                self.supervisor.suspect(daemon, str(error))
                continue
            except BaseException:  # Ctrl-C
                self.supervisor.suspect(daemon, "its caller was interrupted")
                raise
            lease = Lease(link, daemon)
            with self._changed:
                daemon.lend(lease)
                self._started += not replay
            return lease

    def release(self, lease: Lease, *, finished: bool = True) -> None:
        """Ends a lease after the result of its game has been read; `finished=False`: the game is dropped."""
        daemon = lease.daemon
        lease.enter()  # if it was left
        lease.finish()  # its owner cannot use it any more
        with self._changed:
            if daemon.lease is lease:  # else it was evicted, or its daemon died
                if finished:
                    daemon.games, daemon.failures = daemon.games + 1, 0
                daemon.take_back()
                self._changed.notify_all()
        lease.link.close()

    def failed(self, lease: Lease, reason: str) -> None:
        """Ends a lease on which something went wrong; the daemon is examined, and restarted if it hangs.

        Args:
          lease: its connection is closed.
          reason: a word or two for the counts; `NO_START` if NEWGAME was not answered in time.

        Raises:
          FleetError: the daemon is healthy, but plays other clients' games all the time.
        """
        daemon = lease.daemon
        status: dict[str, str] = {}
        if reason == NO_START:
            with contextlib.suppress(OSError):
                status = daemon.status(self.patience.answer)
        with self._changed:
            self._faults[reason] += 1
            held = daemon.lease is lease
        if held:
            self.supervisor.suspect(daemon, reason)
        lease.link.close()
        if number_of(status, "Waiting"):  # our own game at least
            raise FleetError(
                f"Forge daemon {daemon.name} has begun no game for {self.deployment.decision_timeout:g} s: it plays "
                f"for another client (active games: {status.get('Active games', '?')}, waiting: {status['Waiting']}); "
                "give every learner daemons of its own (forge.daemons)."
            )

    def game_finished(self, seconds: float, how: str) -> None:
        """Counts a game.

        Args:
          seconds: duration.
          how: ending, in a word: won, draw, cut, timeout, error.
        """
        with self._changed:
            self._results[how] += 1
            self._durations[bisect.bisect_left(BOUNDS, seconds)] += 1
            self._seconds_played += seconds

    def counters(self) -> dict[str, Any]:
        """Returns all figures; whatever counts, counts from the beginning."""
        with self._changed:
            durations = {"bounds": list(BOUNDS), "counts": list(self._durations), "sum": self._seconds_played}
            return {
                "seconds": self.supervisor.seconds,
                "games_started": self._started,
                "games_finished": sum(self._results.values()),
                "games_by_result": dict(self._results),
                "faults_by_reason": dict(self._faults)
                | ({"hung daemon": self.supervisor.hung} if self.supervisor.hung else {}),
                "restarts": sum(daemon.restarts for daemon in self.daemons),
                "evictions": self._evictions,
                "queue": self._queue,
                "capacity": self.capacity,
                "game_seconds": durations,
                "daemons": [daemon.figures() for daemon in self.daemons],
            }

    # ---- whose turn it is -------------------------------------------------------------------------------------------

    def _claim(self, deadline: float, timeout: float) -> Daemon:
        """Returns a free daemon, claimed for the caller; after a while one that an idle game has to give up."""
        patient = time.monotonic() + self.patience.idle
        with self._changed:
            self._queue += 1
            try:
                while True:
                    self.supervisor.check_open()
                    now = time.monotonic()
                    daemon = self._least_loaded() or (self._taken_away() if now >= patient else None)
                    if daemon is not None:
                        daemon.claimed = True
                        return daemon
                    if now >= deadline or all(each.hopeless for each in self.daemons):
                        raise FleetError(self._why_none(timeout))
                    self._changed.wait(min(max(self.patience.look, patient - now), deadline - now))
            finally:
                self._queue -= 1

    def _least_loaded(self) -> Daemon | None:
        """Returns the free daemon with the fewest games of others, then the one that was held the shortest."""
        free = [daemon for daemon in self.daemons if daemon.free]
        return min(free, key=lambda d: (d.active + d.waiting, d.held, d.number), default=None)

    def _taken_away(self) -> Daemon | None:
        """Returns the daemon of the game that has been idle for the longest time, taken away from it."""
        held = [(d.lease.last_used, d.number, d) for d in self.daemons if d.lease is not None and d.state == FREE]
        for _, _, daemon in sorted(held):
            if daemon.lease is not None and daemon.lease.evict():
                daemon.take_back()
                self._evictions += 1
                if self._evictions == MANY:
                    LOG.warning(
                        "%d games had to give way to others and be played again: there are more games side by side "
                        "than Forge daemons (%d); play no more than that at a time",
                        MANY,
                        self.capacity,
                    )
                return daemon
        return None

    def _why_none(self, timeout: float) -> str:
        problems = "; ".join(dict.fromkeys(daemon.problem for daemon in self.daemons if daemon.problem))
        if self.deployment.remote:
            why = problems or f"all are busy for {timeout:g} s"
            return f"no Forge daemon can be used ({why}): start them, or set forge.daemons to auto."
        if all(daemon.state == GONE for daemon in self.daemons):
            return f"{problems}."
        states = ", ".join(f"{daemon.name} is {daemon.state}" for daemon in self.daemons)
        logs = {daemon.log.parent for daemon in self.daemons if isinstance(daemon, LocalDaemon)}
        why = f"; {problems}" if problems else f"; see the logs in {', '.join(map(str, logs))}"
        return f"no Forge daemon was free for {timeout:g} s: {states}{why}."
