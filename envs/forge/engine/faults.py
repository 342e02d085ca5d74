"""What keeps a game from getting on, in words."""

from __future__ import annotations

from jaxrl.envs.errors import UserError
from jaxrl.envs.forge.wire.lease import NO_START

ATTEMPTS = 3  # to get past the same position
EVICTED, REFUSED, DIFFERENT = "evicted", "refused", "different game"
GARBAGE, SLOW = "garbage", "slow"
FAULTS = {  # of a daemon or its line: the reason for the counts of the fleet, and what happened
    "timeout": ("timeout", "it did not answer for {patience:g} s"),
    "closed": ("closed", "it closed the connection"),
    "too long": ("too long a line", "it sent a line of more than four million bytes"),
    "bad utf-8": ("not UTF-8", "it sent a line that is not UTF-8"),
    GARBAGE: (GARBAGE, "it sent a line that is no message of its protocol"),
    SLOW: ("out of time", "the game takes more than twice the CPU time of game_limit when it is played again"),
    DIFFERENT: (DIFFERENT, ""),
}


class GameFault(Exception):
    """A live game does not get on; `kind` is EVICTED (its daemon was taken away), REFUSED, or a key of FAULTS."""

    def __init__(self, kind: str, why: str = ""):
        super().__init__(why or kind)
        self.kind, self.why = kind, why

    def reason(self, heard: bool) -> str:
        """For counts; `heard`: the daemon had said something in this game."""
        if self.kind == "timeout" and not heard:
            return NO_START
        return FAULTS[self.kind][0] if self.kind in FAULTS else self.kind


class LostGame(UserError):
    """A game that cannot be played on."""


def lost(fault: GameFault, seed: int, turn: int, patience: float) -> LostGame:
    """Why a game cannot be played on, in a sentence."""
    if fault.kind == REFUSED:
        return LostGame(f"Forge's daemon does not begin the game ({fault.why.removeprefix('ERROR:').strip()})")
    if fault.kind == DIFFERENT:
        return LostGame(
            f"the engine plays seed {seed} differently than before, so that the game cannot be continued: was "
            "Forge, Java or a deck changed since it began?"
        )
    what = FAULTS[fault.kind][1].format(patience=patience)
    return LostGame(
        f"Forge failed {ATTEMPTS} times at the same place of the game with seed {seed} (turn {turn}): {what}"
    )
