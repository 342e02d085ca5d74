"""The daemons of this process, lent to games.

    fleet = Fleet.shared(deployment)
    lease = fleet.lease()                 # a connection to a daemon that is free, already entered
    ...                                   # NEWGAME, decisions, answers, GAME_RESULT on lease.link
    fleet.release(lease)                  # or fleet.failed(lease, "closed")

A daemon plays one game at a time, so that it has one lease at most. A lease that nobody uses at the moment (left, not
released) keeps its game, and is taken away from it if somebody else has waited for a daemon: its owner finds out when
he enters it again, and plays the game once more from its seed and answers on another daemon. Nothing is lost by that,
nor by the death of a JVM.
"""

from __future__ import annotations

import bisect
import collections
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

from envs.forge.daemon import FREE, GONE, Daemon, FleetError, number_of
from envs.forge.find import find_forge, find_java
from envs.forge.jvm import LocalDaemon
from envs.forge.settings import Deployment
from envs.forge.supervisor import ANSWER_SECONDS, Supervisor
from envs.forge.wire import Lease

LOG = logging.getLogger("jaxrl.forge")
PATIENCE = 0.2  # seconds that a game waits for a free daemon before somebody else's idle game has to give way
LOOK = 0.05  # seconds between looks for an idle game, by one who has waited that long
MANY = 100  # evictions after which it is said that there are too many games
NO_START = "no start"  # the reason of a failure: NEWGAME was not answered in time
BOUNDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)  # seconds, classes of the games' durations


class Fleet(Supervisor):
    """The daemons of one deployment; `shared` gives every game of the process the same one."""

    _shared: ClassVar[dict[Any, Fleet]] = {}
    _sharing: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def shared(cls, deployment: Deployment) -> Fleet:
        """The fleet of a deployment, made at the first call; its daemons start with the first lease.

        Raises:
          UserError: there is no Forge, or no Java for it.
        """
        key: Any = (deployment,)
        if not deployment.remote:
            key += (find_forge(deployment.home), find_java(deployment.java))
        with cls._sharing:
            found = cls._shared.get(key)
            if found is None or found.closing.is_set() or not found.mine:
                found = cls._shared[key] = cls(deployment)
            return found

    def __init__(self, deployment: Deployment):
        super().__init__(deployment)
        self.on_game: list[Callable[[float, str], Any]] = []  # called with seconds and how, for every finished game
        self._faults: collections.Counter[str] = collections.Counter()
        self._results: collections.Counter[str] = collections.Counter()
        self._started = self._evictions = self._queue = 0
        self._durations, self._seconds_played = [0] * (len(BOUNDS) + 1), 0.0

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- for games --------------------------------------------------------------------------------------------------

    def lease(self, timeout: float | None = None, *, replay: bool = False) -> Lease:
        """An entered lease of the free daemon that has the least to do.

        Args:
          timeout: seconds to wait for one; None: as long as a start and a decision may take.
          replay: a game is played again up to where it was, and not counted as a new one.

        Raises:
          FleetError: there was none for so long, or all daemons are given up.
        """
        self.start()
        if timeout is None:
            timeout = self.deployment.start_timeout + self.deployment.decision_timeout
        deadline = time.monotonic() + timeout
        while True:
            daemon = self._claim(deadline, timeout)
            try:
                link = daemon.connect()
            except OSError as error:
                self.suspect(daemon, str(error))
                continue
            except BaseException:  # Ctrl-C
                self.suspect(daemon, "its caller was interrupted")
                raise
            lease = Lease(link, daemon)
            with self.changed:
                daemon.lend(lease)
                self._started += not replay
            return lease

    def release(self, lease: Lease, *, finished: bool = True) -> None:
        """Ends a lease after the result of its game has been read; `finished=False`: the game is dropped."""
        daemon = lease.daemon
        lease.enter()  # if it was left
        lease.finish()  # whoever still has it cannot use it any more
        with self.changed:
            if daemon.lease is not lease:  # evicted, or its daemon died
                lease.link.close()
                return
            if finished:
                daemon.games, daemon.deaths = daemon.games + 1, 0
            daemon.take_back(keep=finished)
            self.changed.notify_all()

    def failed(self, lease: Lease, reason: str) -> None:
        """Ends a lease on which something went wrong; the daemon is examined, and restarted if it hangs.

        Args:
          lease: its connection is closed.
          reason: in a word or two, for the counts; `NO_START` if NEWGAME was not answered in time.

        Raises:
          FleetError: the daemon is well, but plays somebody else's games all the time.
        """
        daemon = lease.daemon
        status = daemon.status(ANSWER_SECONDS) if reason == NO_START else None
        with self.changed:
            self._faults[reason] += 1
            held = daemon.lease is lease
        if held:
            self.suspect(daemon, reason)
        lease.link.close()
        if status is not None and number_of(status, "Waiting"):  # our own game at least
            raise FleetError(
                f"Forge daemon {daemon.name} has begun no game for {self.deployment.decision_timeout:g} s: it plays "
                f"for somebody else (active games: {status.get('Active games', '?')}, waiting: {status['Waiting']}); "
                "give every learner daemons of its own (forge.daemons, forge.port)."
            )

    def game_finished(self, seconds: float, how: str) -> None:
        """Counts a game.

        Args:
          seconds: that it took.
          how: it ended, in a word: won, draw, cut, timeout, error.
        """
        with self.changed:
            self._results[how] += 1
            self._durations[bisect.bisect_left(BOUNDS, seconds)] += 1
            self._seconds_played += seconds
        for callback in self.on_game:
            callback(seconds, how)

    def counters(self) -> dict[str, Any]:
        """All figures; whatever counts, counts from the beginning."""
        with self.changed:
            durations = {"bounds": list(BOUNDS), "counts": list(self._durations), "sum": self._seconds_played}
            return {
                "seconds": self.seconds,
                "games_started": self._started,
                "games_finished": sum(self._results.values()),
                "games_by_result": dict(self._results),
                "faults_by_reason": dict(self._faults) | ({"hung daemon": self.hung} if self.hung else {}),
                "restarts": sum(daemon.restarts for daemon in self.daemons),
                "evictions": self._evictions,
                "queue": self._queue,
                "capacity": self.capacity,
                "game_seconds": durations,
                "daemons": [daemon.figures() for daemon in self.daemons],
            }

    # ---- whose turn it is -------------------------------------------------------------------------------------------

    def _claim(self, deadline: float, timeout: float) -> Daemon:
        """A free daemon, claimed for the caller; after a while one that an idle game has to give up."""
        patience = time.monotonic() + PATIENCE
        with self.changed:
            self._queue += 1
            try:
                while True:
                    self.check_open()
                    now = time.monotonic()
                    daemon = self._least_loaded() or (self._taken_away() if now >= patience else None)
                    if daemon is not None:
                        daemon.claimed = True
                        return daemon
                    if now >= deadline or self._hopeless():
                        raise FleetError(self._why_none(timeout))
                    self.changed.wait(min(max(LOOK, patience - now), deadline - now))
            finally:
                self._queue -= 1

    def _least_loaded(self) -> Daemon | None:
        """Of the free ones: with the fewest games of others, then the one that has been held the shortest."""
        free = [daemon for daemon in self.daemons if daemon.free]
        return min(free, key=lambda d: (d.active + d.waiting, d.held, d.number), default=None)

    def _taken_away(self) -> Daemon | None:
        """The daemon of the game that nobody has touched for the longest time."""
        held = [(d.lease.last_used, d.number, d) for d in self.daemons if d.lease is not None and d.state == FREE]
        for _, _, daemon in sorted(held):
            if daemon.lease is not None and daemon.lease.evict():
                daemon.take_back(keep=False)
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

    def _hopeless(self) -> bool:
        """Whether nobody needs to wait any longer."""
        return all(daemon.hopeless for daemon in self.daemons)

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
