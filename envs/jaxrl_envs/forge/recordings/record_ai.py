"""Records games of Forge's AI against itself, with its decisions, for imitation.

    jaxrl forge record --games 500 --decks aggro,counterspells --out recorded

Every game is a file of its own in the folder; games that are there already are not played again, so that an
interrupted recording is continued by the same command.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_envs.forge.deckbuilding.deck import cards_of, check_decks, expanded, find_deck
from jaxrl_envs.forge.fleet.find import DECKS, find_decks
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.forge.recordings.recording import Conversation, Writer, meta_of, quoted
from jaxrl_envs.forge.settings import add_settings, deployment_of, made
from jaxrl_envs.forge.wire.link import LinkError
from jaxrl_envs.shared.errors import UserError

ATTEMPTS = 3  # at a game whose daemon goes wrong
REPORT_SECONDS = 30.0
LIMIT_SECONDS = 30  # of computing, for a game: most take 1 to 5, but two large boards can take minutes
MOST_LINES = 100_000  # of a game


class Job(NamedTuple):
    """One game to record."""

    decks: tuple[str, str]
    profiles: tuple[str, str]  # of Forge's AI, "" for its default
    seed: int

    @property
    def file(self) -> str:
        """The name of its recording."""
        names = [
            recording.deck_name(deck) + (f"({profile})" if profile else "")
            for deck, profile in zip(self.decks, self.profiles, strict=True)
        ]
        return f"{self.seed:06d} {' vs '.join(names)}{recording.SUFFIXES[1]}".replace(" ", "_")


class RecordingProgress:
    """Progress of a recording job: games, decisions and bytes so far."""

    def __init__(self, games: int):
        self.games = games
        self.kept = self.done = self.decisions = self.packed = 0
        self.began = time.monotonic()

    def add(self, conversation: Conversation, packed: int) -> None:
        """Counts a game of `packed` bytes."""
        self.done += 1
        self.decisions += sum(line.startswith(b'< INFO:{"info_type":"observed"') for line in conversation.lines)
        self.packed += packed

    def __str__(self) -> str:
        text = f"{self.kept + self.done} of {self.games} games"
        if self.kept:
            text += f" ({self.kept} were there)"
        if self.done:
            text += (
                f", {self.done / (time.monotonic() - self.began):.2f} a second, "
                f"{self.decisions / self.done:.0f} decisions a game, "
                f"{self.packed / self.done / 1000:.1f} kB a game"
            )
        return text


def jobs(decks: Sequence[str], profiles: Sequence[str], games: int, seed: int = 0) -> list[Job]:
    """Returns the games to watch: every ordered pair of different decks in turn (one deck: itself), and of profiles.

    Every deck has begun once before one does so again: of many decks, a few games have seen all.

    Args:
      decks: names or paths.
      profiles: profiles of Forge's AI; "" is its default.
      games: number of games.
      seed: seed of the first game; the next ones have the numbers after it.
    """
    pairs = [(a, decks[(i + gap) % len(decks)]) for gap in range(1, len(decks)) for i, a in enumerate(decks)]
    pairs = pairs or [(decks[0], decks[0])]
    held = list(itertools.product(profiles or [""], repeat=2))
    both = itertools.cycle([(pair, who) for who in held for pair in pairs])
    return [Job((a, b), (p, q), seed + i) for i, ((a, b), (p, q)) in zip(range(games), both, strict=False)]


def newgame(job: Job, passes: bool = False, limit: float = LIMIT_SECONDS) -> str:
    """Returns the command that starts a game.

    Args:
      job: its decks, profiles and seed.
      passes: whether decisions in which passing is the only choice are asked, too.
      limit: seconds of computing after which it is cut off.
    """
    parts = ["NEWGAME", *(quoted(deck_argument(deck)) for deck in job.decks), "-o", *([] if passes else ["-a"])]
    if any(job.profiles):
        parts += ["-A", quoted(",".join(profile or "Default" for profile in job.profiles))]
    return " ".join([*parts, "-c", f"{limit:g}", "-s", str(job.seed)])


def deck_argument(deck: str) -> str:
    """Returns a deck as the daemon finds it: a file here by its whole path, else the name in its own folder."""
    for path in (Path(deck).expanduser(), Path(f"{deck}.dck").expanduser(), DECKS / f"{deck}.dck"):
        if path.is_file():
            return str(path.absolute())
    return deck


def play(
    fleet: Fleet, command: str, seconds: float, answer: Callable[[dict[str, Any]], str] | None = None
) -> Conversation:
    """Plays a game.

    Args:
      fleet: lends a daemon.
      command: begins the game.
      seconds: longest wait for a line.
      answer: function that answers a decision; None: no decision is asked for.

    Raises:
      UserError: the daemon refuses it, or it went wrong several times.
    """
    problem: Exception | None = None
    for attempt in range(ATTEMPTS):
        lease = fleet.lease(replay=attempt > 0)
        began, lines = time.monotonic(), [recording.CLIENT + command.encode()]
        try:
            lease.link.send_line(command)
            while not lines[-1].startswith(b"< GAME_RESULT:"):
                if len(lines) > MOST_LINES:
                    raise LinkError("endless", lease.link.peer)
                line = lease.link.receive_line(seconds)
                if len(lines) == 1 and line.startswith(b"ERROR:"):
                    fleet.release(lease, finished=False)
                    raise UserError(f"Forge refuses a game: {line.decode()[7:]}")
                lines.append(recording.DAEMON + line)
                if answer is not None and line.startswith(b"DECISION:"):
                    lines.append(recording.CLIENT + answer(recording.parsed(line[len(b"DECISION:") :])).encode())
                    lease.link.send_line(lines[-1][2:])
        except LinkError as error:
            problem = error
            fleet.failed(lease, str(error.kind))
            continue
        fleet.release(lease)
        fleet.game_finished(time.monotonic() - began, "draw" if b" Draw in " in lines[-1] else "won")
        return Conversation(meta_of(lines, lease.daemon.version), lines, True)
    raise UserError(f"a game failed {ATTEMPTS} times ({problem}): {command}")


def save(path: Path, conversation: Conversation) -> int:
    """Writes a game in one go, so that a file that is there is a whole one; returns its size."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with Writer(part, xz=True) as writer:
        writer.copy(conversation)
    os.replace(part, path)
    return path.stat().st_size


def record(
    fleet: Fleet, wanted: Sequence[Job], folder: Path, passes: bool = False, limit: float = LIMIT_SECONDS
) -> Iterator[RecordingProgress]:
    """Plays and writes all missing games; yields the progress from time to time and at the end.

    `passes` and `limit` are those of `newgame`.

    Raises:
      UserError: a game is refused, or daemons go wrong for good.
    """
    folder = made(folder, "recordings")
    left = [job for job in wanted if not (folder / job.file).exists()]
    progress = RecordingProgress(len(wanted))
    progress.kept = len(wanted) - len(left)

    def work(job: Job) -> tuple[Conversation, int]:
        found = play(fleet, newgame(job, passes, limit), fleet.deployment.decision_timeout)
        return found, save(folder / job.file, found)

    pool = ThreadPoolExecutor(max(1, fleet.capacity), "forge watcher")
    try:
        running = {pool.submit(work, job) for job in left}
        reported = time.monotonic()
        while running:
            done, running = wait(running, REPORT_SECONDS, FIRST_COMPLETED)
            for each in done:
                progress.add(*each.result())
            if time.monotonic() - reported > REPORT_SECONDS:
                reported = time.monotonic()
                yield progress
        yield progress
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


# ---- jaxrl forge record ---------------------------------------------------------------------------------------------


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `jaxrl forge record`."""
    parser.add_argument("--games", type=int, default=100, help="how many, with those that are there (default: 100)")
    parser.add_argument("--decks", default="aggro,counterspells", metavar="A,B", help="decks, by name or path")
    parser.add_argument("--profile", default="", metavar="P,Q", help="profiles of Forge's AI (default: its default)")
    parser.add_argument("--seed", type=int, default=0, help="of the first game (default: 0)")
    parser.add_argument("--out", default="recorded", metavar="DIR", help="where to write (default: recorded)")
    parser.add_argument("--passes", action="store_true", help="also decisions in which passing is the only choice")
    parser.add_argument(
        "--limit",
        type=float,
        default=LIMIT_SECONDS,
        metavar="S",
        help=f"seconds of computing after which a game is cut off (default: {LIMIT_SECONDS})",
    )
    add_settings(parser)


def main(args: argparse.Namespace) -> int:
    """Records games."""
    decks = [deck for deck in args.decks.split(",") if deck]
    if args.games < 1 or not decks:
        raise UserError("record needs at least one game and one deck: --games 100 --decks aggro,counterspells.")
    if not 0.001 <= args.limit <= 1e9:
        raise UserError(f"--limit is in seconds of computing, at least 0.001; not {args.limit:g}.")
    folder = Path(args.out).expanduser()
    deployment = deployment_of(args.settings)
    if not deployment.remote:
        files = [find_deck(deck, find_decks(deployment.decks)) for deck in expanded(decks)]
        check_decks(files, *cards_of(deployment.home))
        decks = [str(file) for file in files]
    wanted = jobs(decks, args.profile.split(",") if args.profile else [], args.games, args.seed)
    with Fleet(deployment) as fleet:
        for progress in record(fleet, wanted, folder, args.passes, args.limit):
            print(f"{folder}: {progress}", flush=True)
    return 0
