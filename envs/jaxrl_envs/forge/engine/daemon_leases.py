"""Leases of a fleet's daemons for the games of one engine, and live games that are parked meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from jaxrl_envs.forge.engine.faults import ATTEMPTS, EVICTED, REFUSED, GameFault, lost
from jaxrl_envs.forge.engine.live_game import LiveGame, Terms
from jaxrl_envs.forge.engine.state import ENDS, TOO_LONG, GameState
from jaxrl_envs.forge.recordings.recording import deck_name, quoted

MOST_PARKED = 32
Seated = Callable[[int], Sequence[str]]


class DaemonLeases:
    """Leases daemons for the games of one engine, and returns them.

    Attributes:
      fleet: object with lease, release, failed, game_finished and capacity, see `jaxrl_envs.forge.fleet`.
      replays: {reason: how often games had to be played again}
      seated: names the players in the seats of a game that begins, by its number in the engine; () if unknown.
    """

    def __init__(self, fleet: Any, terms: Terms, recorder: Any):
        self.fleet, self.terms = fleet, terms
        self.replays: dict[str, int] = {}
        self.seated: Seated = lambda number: ()
        self._recorder = recorder
        self._writers: list[Any] = []  # of recordings that no conversation is written into at the moment
        self._talking: set[LiveGame] = set()  # games that have a daemon
        self._parked: list[LiveGame] = []  # games set aside while other states are played, the oldest first

    # ---- daemons ----------------------------------------------------------------------------------------------------

    def renew(
        self, live: LiveGame, state: GameState, fault: GameFault, attempts: int, players: Sequence[str] = ()
    ) -> None:
        """Restarts a game on another daemon; `players` hold its seats, if that is known.

        Raises:
          UserError: another daemon would not help, or no daemon is available.
        """
        lease, reason = self._take(live), fault.reason(live.heard)
        if lease is not None or fault.kind != EVICTED:
            self.replays[reason] = self.replays.get(reason, 0) + 1
        if lease is not None and fault.kind == REFUSED:
            self.fleet.release(lease, finished=False)
        elif lease is not None and fault.kind != EVICTED:
            self.fleet.failed(lease, reason)
        if fault.kind == REFUSED or attempts >= ATTEMPTS:
            raise lost(fault, seed_of(state.key), live.progress.turn)
        again = state.progress.seen > 0
        lease = self.fleet.lease(replay=again or lease is not None)  # each game is counted once
        live.reset(state.key)
        live.checking = again
        self._talking.add(live)
        limit = 2 * self.terms.game_limit + 60 if again else self.terms.game_limit
        self._begin(live, lease, state, limit, players)

    def _begin(self, live: LiveGame, lease: Any, state: GameState, limit: float, players: Sequence[str]) -> None:
        """Sends NEWGAME."""
        decks = self.terms.pairs[(state.slot + state.episode) % len(self.terms.pairs)]
        seed, options = seed_of(state.key), self.terms.options
        if self._recorder is not None:
            live.writer = self._recorder.next(self._writers.pop() if self._writers else None)
            version, names = getattr(lease.daemon, "version", ""), [deck_name(deck) for deck in decks]
            known = {"players": list(players)} if players else {}
            live.writer.begin(forge=version, decks=names, seed=seed, options=options, **known)
        words = " ".join(quoted(deck) for deck in decks)
        live.begin(lease, f"NEWGAME {words} {options} -c {math.ceil(limit)} -s {seed}")

    def _take(self, live: LiveGame) -> Any:
        """Takes the lease away from a game and returns it; None if the game had no lease."""
        lease, live.lease = live.lease, None
        writer, live.writer = live.writer, None
        self._talking.discard(live)
        if writer is not None:
            writer.end()
            self._writers.append(writer)
        return lease

    def give_back(self, live: LiveGame) -> None:
        """Gives back a game's lease, at the game's end or in the middle."""
        lease = self._take(live)
        if lease is not None:
            self.fleet.release(lease, finished=live.told)

    def count(self, live: LiveGame, state: GameState) -> None:
        """Tells the fleet that a game is over."""
        if state.how == TOO_LONG:
            self.give_back(live)
        self.fleet.game_finished(time.monotonic() - live.began, ENDS[state.how])

    def close(self) -> None:
        """Gives all daemons back and closes recordings; games that are played on ask for others."""
        for live in list(self._talking):
            self.give_back(live)
        while self._writers:
            self._writers.pop().close()

    # ---- games of other states --------------------------------------------------------------------------------------

    def adopt(self, old: LiveGame, state: GameState) -> LiveGame:
        """Returns the live game nearest to a loaded state; an unfinished one is parked for its own state."""
        near = [live for live in self._parked if live.leads_to(state)]
        live = max(near, key=lambda each: len(each.done), default=None)
        if live is not None:
            self._parked.remove(live)
        if old.lease is not None and not old.over:
            self._parked.append(old)
            while len(self._parked) > min(MOST_PARKED, self.fleet.capacity - 1):  # one is needed for the loaded state
                self.give_back(self._parked.pop(0))
            live = live or LiveGame(self.terms)
        live = live or old
        if not live.leads_to(state):
            self.give_back(live)
            live.reset(state.key)
        return live


def seed_of(key: int) -> int:
    """Returns the daemon's seed for a game's key, 63 bits."""
    return max(1, key >> 1)
