"""What a replay server does wrong when it is told to, for the tests of everything that talks to a daemon."""

from __future__ import annotations

import dataclasses
import os
import random
import re
import signal
import time
from typing import TYPE_CHECKING, Any

from envs.errors import UserError, nearest

if TYPE_CHECKING:
    from envs.forge.replay import Server

LONG_LINE = 10 << 20  # bytes
KINDS = {
    "die": "the whole server is killed, as by kill -9",
    "vanish": "the daemon is gone: its connections are closed and its port refuses, for `seconds` (0: for ever)",
    "close": "the connection is closed instead of the decision",
    "half": "half of the decision's line, then the connection is closed",
    "stall": "half of the decision's line, then nothing",
    "silent": "nothing more comes on this connection",
    "hang": "the daemon answers nobody any more, but its connections stay open",
    "slow": "the decision comes `seconds` late",
    "long": "a line of 10 MB instead of the decision",
    "utf8": "the decision with a byte that is not UTF-8",
    "garbage": "a DECISION that is no JSON",
    "unknown": "the decision has a type that nobody has heard of",
    "other": "from this decision on the game is another one",
    "chatter": "lines of unknown kinds before the decision",
    "refuse": "NEWGAME is answered with an ERROR",
    "timeout": "the game ends in GAME_TIMEOUT",
    "error": "the game ends in GAME_ERROR",
}


@dataclasses.dataclass
class ReplayFault:
    """One thing that goes wrong.

    Attributes:
      kind: one of KINDS.
      game: the number of the game, from 1 in the order in which the server begins them; 0: any.
      decision: which of its decisions is hit, from 1; a shorter game is left alone. An observed game is hit as a whole.
      times: how often it happens in all; 0: every time.
      rate: if not 0, `game` and `decision` do not count: each decision is hit with this probability.
      seconds: see KINDS.
    """

    kind: str
    game: int = 0
    decision: int = 1
    times: int = 1
    rate: float = 0.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"a replay server has no fault {self.kind!r}: {nearest(self.kind, KINDS)}.")

    def fields(self) -> dict[str, Any]:
        """As JSON."""
        return dataclasses.asdict(self)


class Mischief:
    """The faults of a server, and what was done of them."""

    def __init__(self, server: Server, faults: list[ReplayFault], seed: int = 0):
        self.server, self.faults = server, faults
        self.left = [each.times or -1 for each in faults]
        self.draw = random.Random(seed)
        self.armed: dict[int, int] = {}  # by connection: the fault that waits in its game

    def order(self, connection: int, tape: int) -> int | None:
        """The slice of a game that is just begun at which something goes wrong, -1: none; None: it is refused."""
        self.armed.pop(connection, None)
        first, chosen = -1, -1
        for number, fault in enumerate(self.faults):
            place = self._place(number, fault, max(1, self.server.tapes[tape].slices.count - 1))
            if place >= 0 and (first < 0 or place < first):
                first, chosen = place, number
        if chosen < 0:
            return -1
        if self.faults[chosen].kind == "refuse":
            self.left[chosen] -= 1
            self.server.core.say(connection, b"ERROR: no deck of that name\n")
            return None
        self.armed[connection] = chosen
        return first

    def _place(self, number: int, fault: ReplayFault, decisions: int) -> int:
        if not self.left[number]:
            return -1
        if fault.rate:
            place = next((i for i in range(decisions) if self.draw.random() < fault.rate), -1)
            return place
        if fault.game not in (0, self.server.games):
            return -1
        return fault.decision - 1 if fault.decision <= decisions or fault.kind == "refuse" else -1

    def strike(self, connection: int, place: int) -> None:
        """The slice `place` of a connection's game is about to be sent: does what was ordered instead."""
        number = self.armed.pop(connection)
        fault = self.faults[number]
        game, _ = self.server.core.playing(connection)
        if not self.left[number]:  # another game had it meanwhile
            self.server.core.resume(connection, game)
            return
        self.left[number] -= 1
        getattr(self, f"_{fault.kind}")(connection, game, self.server.tapes[game].slices.slice(place), fault)

    # ---- one method for each kind -----------------------------------------------------------------------------------

    def _die(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _vanish(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        core, daemon = self.server.core, self.server.core.daemon_of(connection)
        core.refuse(daemon)
        self.server.waiting[daemon].clear()
        core.drop_all(daemon)
        if fault.seconds:
            back = lambda: core.reopen(daemon, self.server.ports[daemon])  # noqa: E731
            self.server.later.append((time.monotonic() + fault.seconds, back))

    def _close(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self.server.core.drop(connection)

    def _half(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self.server.core.say(connection, text[: len(text) // 2])
        self.server.core.drop(connection)

    def _stall(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self.server.core.say(connection, text[: len(text) // 2])
        self.server.core.silence(connection)

    def _silent(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self.server.core.silence(connection)

    def _hang(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        daemon = self.server.core.daemon_of(connection)
        self.server.deaf.add(daemon)
        self.server.core.silence_all(daemon)

    def _slow(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        serial = self.server.core.serial(connection)

        def go_on() -> None:
            if self.server.core.serial(connection) == serial:
                self.server.core.resume(connection, game)

        self.server.later.append((time.monotonic() + fault.seconds, go_on))

    def _long(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self._instead(connection, b'DECISION:{"decision_type":"' + b"x" * LONG_LINE + b'"}\n')

    def _utf8(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self._instead(connection, text.replace(b'"player":"', b'"player":"\xc3\x28\xff', 1))

    def _garbage(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self._instead(connection, b'DECISION:{"decision_type":"choose_action","actions":[}\n')

    def _unknown(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self._instead(connection, re.sub(rb'"decision_type":"\w+"', b'"decision_type":"choose_wisely"', text))

    def _other(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self.server.core.resume(connection, (game + 1) % len(self.server.tapes))

    def _chatter(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self.server.core.say(connection, b'INFO:{"info_type":"weather","sun":true}\nINFO:{"info_type":"reveal"}\n')
        self.server.core.resume(connection, game)

    def _refuse(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        raise AssertionError("refused games are not begun")

    def _timeout(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self._end(connection, b"GAME_TIMEOUT: the limit of 120 s is over\n")

    def _error(self, connection: int, game: int, text: bytes, fault: ReplayFault) -> None:
        self._end(connection, b"GAME_ERROR: NullPointerException\n")

    def _instead(self, connection: int, text: bytes) -> None:
        """Says something else; the client's answer to it counts as that to the decision."""
        self.server.core.skip(connection)
        self.server.core.say(connection, text)

    def _end(self, connection: int, text: bytes) -> None:
        self.server.core.abort(connection)
        self.server.core.say(connection, text + b"GAME_RESULT: Draw in 120000ms\n")
        self.server.finished(connection)
