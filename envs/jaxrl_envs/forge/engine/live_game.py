"""A game in progress on a daemon: one conversation, from NEWGAME to the result.

A live game is always at some position: actions have been taken, and either a decision is open or a line is awaited.
"""

from __future__ import annotations

import contextlib
import re
import time
import zlib
from typing import Any, NamedTuple

from jaxrl_envs.forge.encoding.facts import Facts
from jaxrl_envs.forge.engine.decision import ForgeDecision
from jaxrl_envs.forge.engine.faults import DIFFERENT, EVICTED, GARBAGE, REFUSED, SLOW, GameFault
from jaxrl_envs.forge.engine.state import (
    BROKEN,
    DRAWN,
    LARGEST,
    MISSING,
    OUT_OF_TIME,
    RUNNING,
    TOO_LONG,
    WON,
    GameProgress,
    GameState,
)
from jaxrl_envs.forge.layout import NUM_ACTIONS
from jaxrl_envs.forge.wire.lease import Lease
from jaxrl_envs.forge.wire.link import LinkError

CLIPPED = 255  # characters of an error that are kept
_WINNER = re.compile(rb"(?:Agent|Ai)\(([12])\)")
_HARMLESS = (b"GAME_START:", b"SEED:")


class Terms(NamedTuple):
    """The terms that all games of an engine share.

    Attributes:
      pairs: the decks of both seats of every kind of game, as the daemons know them.
      options: options of NEWGAME.
      mark: mark of everything that decides a game; saved games of another mark are refused.
      profiles: profiles of Forge's AI for bots 1, 2, ...
      game_limit: CPU seconds that a daemon may spend on a game.
      max_decisions: number of actions after which a game is truncated.
      decision_timeout: seconds that a daemon may take for a decision.
      shaping: weights of life, board and cards in the potential.
    """

    pairs: tuple[tuple[str, str], ...] = (("aggro", "aggro"),)
    options: str = "-i -q -a"
    mark: int = 0
    profiles: tuple[str, ...] = ("",)
    game_limit: float = 120.0
    max_decisions: int = 2000
    decision_timeout: float = 120.0
    shaping: tuple[float, ...] = (0.0, 0.0, 0.0)

    def patience(self, held: int) -> float:
        """Seconds for a line; Forge's AI may play on alone where it holds a seat."""
        return self.decision_timeout + (2 * self.game_limit if held else 0.0)


class LiveGame:
    """A game as it is being played: a cache, which can be made again from a GameState at any time.

    Attributes:
      lease: lease of its daemon, None: there is no conversation.
      done: the actions taken so far.
      progress: progress that followed from them.
      decision: the one that is open, None: it was answered to the daemon, and a line is awaited.
      shown: the last decision of each seat.
      facts: facts told of its cards.
      over: whether nothing more is to come; `told`: whether the daemon has sent the result.
      heard: anything since NEWGAME.
      checking: whether it is played again, and not known yet to be the same game.
    """

    def __init__(self, terms: Terms):
        self.terms = terms
        self.lease: Lease | None = None
        self.writer: Any = None  # of a recording
        self.began = 0.0
        self.reset(0)

    def reset(self, key: int) -> None:
        """Goes to the beginning of a game; the lease stays."""
        self.key = key
        self.done: list[int] = []
        self.progress = GameProgress()
        self.decision: ForgeDecision | None = None
        self.shown: list[ForgeDecision | None] = [None, None]
        self.facts = Facts()
        self.over = self.told = self.heard = self.checking = self._refused = False
        self.how, self.winner, self._last_id = RUNNING, MISSING, MISSING

    def leads_to(self, goal: GameState) -> bool:
        """Returns whether it is at the position of a state or before it."""
        count = len(self.done)
        if self.key != goal.key or count > len(goal.actions) or (self.over and count < len(goal.actions)):
            return False
        if count == len(goal.actions) and (self.decision or self.over) and not self.progress.same_lines(goal.progress):
            return False
        return self.done == goal.actions[:count]

    def stands_at(self, goal: GameState) -> bool:
        """Returns whether the game stands at the position `goal`."""
        there = self.over or (self.decision is not None and not self.decision.answered)
        return there and not self.checking and len(self.done) == len(goal.actions)

    # ---- getting on -------------------------------------------------------------------------------------------------

    def begin(self, lease: Lease, command: str) -> None:
        """Asks a daemon for the game."""
        self.lease, self.began = lease, time.monotonic()
        with contextlib.suppress(GameFault):  # the next read reports it
            self._say(command)

    def forward(self, goal: GameState) -> None:
        """Goes to the position of a state, by answering what it has answered.

        Raises:
          GameFault: it does not get there.
        """
        while not self.over:
            decision = self.decision
            if decision is not None and not decision.answered:
                if len(self.done) == len(goal.actions):
                    break
                self._act(decision, goal.actions[len(self.done)])
            elif decision is not None and self._stands_still(goal):
                self.over, self.how, self.winner = True, goal.how, goal.winner
            elif not self._enter():
                raise GameFault(EVICTED)
            elif decision is not None:
                self._answer(decision)
            else:
                self._listen()
                self._check(goal)
        if len(self.done) != len(goal.actions) or self.checking:
            raise GameFault(DIFFERENT)

    def _enter(self) -> bool:
        """Returns whether the daemon is ours to talk to: its lease was not left, or was not taken since."""
        return self.lease is not None and (self.lease.status == "running" or self.lease.enter())

    def leave(self) -> None:
        """Lets the fleet take the daemon away from now on."""
        if self.lease is not None:
            self.lease.leave()

    def _stands_still(self, goal: GameState) -> bool:
        """Returns whether a state that is over has been reached: what ended it is not asked for again."""
        over = goal.how not in (RUNNING, TOO_LONG)
        return over and len(self.done) == len(goal.actions) and self.progress.seen == goal.progress.seen

    def _act(self, decision: ForgeDecision, action: int) -> None:
        """Takes an action of a state's history."""
        if not (decision.allows(action) or NUM_ACTIONS <= action < NUM_ACTIONS + len(self.terms.profiles)):
            raise GameFault(DIFFERENT)
        self.done.append(action)
        self.progress.partial += 1
        self.progress.decisions[decision.seat] += 1
        if action >= NUM_ACTIONS:
            self.progress.held |= 1 << decision.seat
            decision.leave_to_ai()
        else:
            decision.step(action)

    def _answer(self, decision: ForgeDecision) -> None:
        last = self.done[-1] if self.progress.partial else 0
        handed_over = f"ai! {self.terms.profiles[last - NUM_ACTIONS]}".strip() if last >= NUM_ACTIONS else ""
        self.decision = None
        self._say(handed_over or decision.answer)

    def _say(self, line: str) -> None:
        assert self.lease is not None
        if self.writer is not None:
            self.writer.sent(line.encode())
        try:
            self.lease.link.send_line(line)
        except LinkError as error:
            raise GameFault(error.kind, str(error)) from error

    def _check(self, goal: GameState) -> None:
        """Raises GameFault if a game that is played again runs out of time or differs from the first one."""
        if self.over and self.how == OUT_OF_TIME and len(self.done) < len(goal.actions):
            raise GameFault(SLOW)
        if self.decision and self.checking and self.progress.seen == goal.progress.seen:
            self.checking = False
            if not self.progress.same_lines(goal.progress):
                raise GameFault(DIFFERENT)

    # ---- listening --------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Waits for a decision or the result."""
        assert self.lease is not None
        patience = self.terms.patience(self.progress.held)
        deadline = time.monotonic() + patience
        while self.decision is None and not self.over:
            try:
                line = self.lease.link.receive_line(deadline - time.monotonic())
            except LinkError as error:
                why = f"it did not answer for {patience:g} s" if error.kind == "timeout" else str(error)
                raise GameFault(error.kind, why) from error
            if time.monotonic() > deadline:  # it talks, and comes to no end
                raise GameFault("timeout", f"it asked nothing for {patience:g} s")
            if self.writer is not None:
                self.writer.received(line)
            self.heard = True
            self.hear(line)

    def hear(self, line: bytes) -> None:
        """Takes a line of the daemon; `decision` or `over` then tells whether it is what was awaited.

        Raises:
          GameFault: the game is refused, or the line is no message.
        """
        if line.startswith(b"DECISION:"):
            self._hear_decision(line)
        elif line.startswith(b"GAME_RESULT: "):
            self._hear_result(line.removeprefix(b"GAME_RESULT: "))
        elif line.startswith(b"ERROR") and self.progress.seen == 0:
            raise GameFault(REFUSED, " ".join(line.decode(errors="replace")[:CLIPPED].split()))
        elif line.startswith(b"ERROR"):
            self.progress.refused += 1
            self._refused = True
        elif line.startswith(b"GAME_TIMEOUT"):
            self.how = OUT_OF_TIME
        elif line.startswith(b"GAME_ERROR"):
            self.how = BROKEN
        elif line.startswith(b"INFO:"):
            self.facts.hear(line)
        elif not line.startswith(_HARMLESS):
            raise GameFault(GARBAGE)

    def _hear_decision(self, line: bytes) -> None:
        try:
            decision = ForgeDecision(line, self.facts)
        except ValueError as error:
            raise GameFault(GARBAGE) from error
        if self._refused and decision.id == self._last_id:  # asked again: our answer was no good
            decision.leave_to_ai()
        self._refused, self._last_id = False, decision.id
        self.decision = self.shown[decision.seat] = decision
        progress, view = self.progress, decision.view
        progress.digest = zlib.crc32(line, progress.digest)
        progress.seen += 1
        progress.partial, progress.asked, progress.type = 0, decision.seat, decision.number
        progress.turn = progress.turn if view.turn is None else view.turn
        progress.life = [old if new is None else new for old, new in zip(progress.life, view.life, strict=True)]
        progress.options_cut = min(progress.options_cut + decision.cut, LARGEST)
        progress.cards_cut = max(progress.cards_cut, view.unseen)
        progress.unknown_types += not decision.type
        if any(self.terms.shaping):
            weighted = zip(self.terms.shaping, view.lead(), strict=True)
            progress.potential = sum(weight * lead for weight, lead in weighted)

    def _hear_result(self, text: bytes) -> None:
        """`Agent(1)-deck won in 5ms` or `Draw in 5ms`."""
        self.over, self.told, self.decision = True, True, None
        self.progress.asked, self.progress.type = MISSING, MISSING
        winner = _WINNER.match(text)
        if self.how != RUNNING:  # out of time, or broken
            return
        if text.startswith(b"Draw in "):
            self.how = DRAWN
        elif winner is not None:
            self.how, self.winner = WON, int(winner[1]) - 1
        else:
            raise GameFault(GARBAGE)
