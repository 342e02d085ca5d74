"""Random games over many decks on a real engine: `python -m tests.support.forge.soak --home <folder of Forge>
--games 300`.

Every game is played twice, in two launches of the engine, and compared line by line. The decks of
`tests/support/forge/decks` have what is rare: modes, X, split second, copies, morphs, delve, convoke, costs that
sacrifice, votes, players who control each other.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from jaxrl_envs.forge.fleet.find import DECKS
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.recordings import record_ai
from jaxrl_envs.forge.recordings.recording import Conversation
from jaxrl_envs.forge.settings import Deployment
from tests.support.forge.fixtures import SECONDS, RandomPlayer
from tests.support.forge.hidden import leaks

OWN = Path(__file__).parent / "decks"
HELP = ("Exile with delve", "Tap for convoke", "Tap for improvise")  # questions in the midst of a payment
PAYMENT = "payment"  # with which sources of mana is left to the engine, and not counted


@dataclasses.dataclass
class Found:
    """What came of some games.

    Attributes:
      left: choices left to the engine's AI, by kind; `asked`: all others.
      problems: errors, leaks and differences, in words.
      kinds: questions by type, and how many were for a controlled player or for what helps to pay.
      seconds: of CPU, of the JVMs.
    """

    games: int = 0
    asked: int = 0
    seconds: float = 0.0
    left: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    kinds: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def share(self) -> float:
        """Of all choices, those left to the engine's AI, payments aside."""
        return sum(self.left[kind] for kind in self.left if kind != PAYMENT) / max(1, self.asked)

    def add(self, game: Conversation) -> None:
        """One more game."""
        self.games += 1
        name = game.lines[0].decode()
        self.problems += [f"{name}: {each}" for each in leaks(game)]
        for line in game.lines:
            if line.startswith((b"< ERROR", b"< GAME_ERROR", b"< GAME_TIMEOUT")):
                self.problems.append(f"{name}: {line.decode()}")
            elif line.startswith((b"< DECISION:", b"< INFO:")):
                fields = json.loads(line.partition(b":")[2])
                self.kinds[fields.get("decision_type", fields.get("info_type"))] += 1
                self.kinds["for another player"] += "for" in fields
                self.kinds["help to pay"] += fields.get("message") in HELP
                if fields.get("info_type") == "left":
                    self.left.update(fields["choices"])
                    self.asked += fields["asked"]

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.left.most_common())
        cost = f"{1000 * self.seconds / max(1, self.games):.0f} ms of CPU a game"
        left = f"left to Forge's AI: {kinds or 'nothing'} ({100 * self.share:.2f} % without payments)"
        said = f"{self.games} games, {self.asked} choices, {cost}; {left}; {len(self.problems)} problems"
        return f"{said}\n{dict(self.kinds)}"


def pairings(names: Sequence[str], games: int) -> list[tuple[str, str]]:
    """`count` pairs of decks: each against itself first, then against the next one, and so on."""
    count = len(names)
    return [(names[i % count], names[(i + i // count) % count]) for i in range(games)]


def soak(home: str, games: int, seed: int = 0, launches: int = 2, names: Sequence[str] = ()) -> Found:
    """Plays the games once in every launch."""
    with tempfile.TemporaryDirectory() as folder:
        for path in [*OWN.glob("*.dck"), *DECKS.glob("*.dck")]:
            shutil.copy(path, folder)
        names = names or [path.stem for path in sorted(OWN.glob("*.dck"))] + [
            path.stem for path in sorted(DECKS.glob("*.dck"))
        ]
        found = Found()
        before: list[int] = []
        for launch in range(launches):
            with Fleet(Deployment(home=home, daemons=1, decks=folder, heap_mb=600, start_timeout=600.0)) as fleet:
                for number, (a, b) in enumerate(pairings(names, games)):
                    command = f"NEWGAME {a} {b} -i -a -q -s {seed + number}"
                    game = record_ai.play(fleet, command, SECONDS, RandomPlayer(seed + number))
                    if launch == 0:
                        found.add(game)
                        before.append(hash(tuple(game.lines[:-1])))  # the last one has the time
                    elif hash(tuple(game.lines[:-1])) != before[number]:
                        found.problems.append(f"{command}: other lines in another launch")
                if launch == 0:
                    found.seconds = sum(each.get("cpu_seconds", 0.0) for each in fleet.counters()["daemons"])
        return found


def main() -> None:
    """Prints what came of the games."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", required=True, help="folder of a Forge release")
    parser.add_argument("--games", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--launches", type=int, default=2)
    args = parser.parse_args()
    began = time.monotonic()
    found = soak(args.home, args.games, args.seed, args.launches)
    print(found, *found.problems, f"{time.monotonic() - began:.0f} s", sep="\n")


if __name__ == "__main__":
    main()
