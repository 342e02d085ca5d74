"""Faults of a live game: their kinds, and the sentences that explain them to a user."""

from __future__ import annotations

from jaxrl_envs.forge.wire.lease import NO_START
from jaxrl_envs.shared.errors import UserError

ATTEMPTS = 3  # to get past the same position
EVICTED, REFUSED, DIFFERENT = "evicted", "refused", "different game"
GARBAGE, SLOW = "garbage", "out of time"
WHY = {
    GARBAGE: "it sent a line that is no message of its protocol",
    SLOW: "the game takes more than twice the CPU time of game_limit when it is played again",
}


class GameFault(Exception):
    """A live game does not get on; `kind` is EVICTED (its daemon was taken away) or another word above, or a link's."""

    def __init__(self, kind: str, why: str = ""):
        super().__init__(why or WHY.get(kind, kind))
        self.kind = kind

    def reason(self, heard: bool) -> str:
        """For counts; `heard`: the daemon had said something in this game."""
        return NO_START if self.kind == "timeout" and not heard else self.kind


class LostGame(UserError):
    """A game that cannot be played on."""


def lost(fault: GameFault, seed: int, turn: int) -> LostGame:
    """Returns the error that says in a sentence why a game cannot be played on."""
    if fault.kind == REFUSED:
        return LostGame(f"Forge's daemon does not begin the game ({str(fault).removeprefix('ERROR:').strip()})")
    if fault.kind == DIFFERENT:
        return LostGame(
            f"the engine plays seed {seed} differently than before, so that the game cannot be continued: was "
            "Forge, Java or a deck changed since it began?"
        )
    where = f"the same place of the game with seed {seed} (turn {turn})"
    return LostGame(f"Forge failed {ATTEMPTS} times at {where}: {fault}")
