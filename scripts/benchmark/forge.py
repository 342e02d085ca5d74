"""`python -m scripts.benchmark.forge`: CPU time of games of Magic, of the JVM and of this process.

    python -m scripts.benchmark.forge --machine 16:0.80     # and games an hour of a machine with its price
    python -m scripts.benchmark.forge --profiles            # with every set of JVM flags
    python -m scripts.benchmark.forge --short-cuts          # with and without the daemon's short cuts, by deck

Both seats choose at random, through engine and pool as in a training, or both are Forge's AI, of which no decision
reaches us. CPU counts, not the clock: a JVM's is read from /proc before and after a block of games. What is compared
takes turns, each on a JVM of its own that has warmed up, and medians over rounds are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import re
import sys
import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.config import command_line
from jaxrl.diagnose import hardware
from jaxrl.games import deployment
from jaxrl.text_tables import machine, table
from jaxrl_envs.forge.fleet.profiles import PROFILES
from jaxrl_envs.forge.game import ForgeGame
from jaxrl_envs.forge.recordings import record_ai, recording
from jaxrl_envs.forge.settings import Deployment
from jaxrl_envs.host.bridge import HostPool
from jaxrl_envs.host.game import RANDOM, make_buffers
from jaxrl_envs.shared.errors import UserError

DECKS = ("aggro", "counterspells", "xcosts", "walkers")
GAME_SECONDS = 900.0  # for one game, on a busy machine
KINDS = {"random": "random play", "ai": "Forge's AI"}
WANTED = 1e7  # games that a machine is asked for


class Block(NamedTuple):
    """Some games, and what they cost."""

    decisions: int  # that our side was asked
    jvm: float  # seconds of CPU
    own: float  # seconds of CPU, of this process
    durations: tuple[float, ...]  # seconds of the clock, of each game


class Bench:
    """The JVM of one deployment with a game that is played on it; a context manager.

    Args:
      place: where Forge runs.
      decks: each is played against itself, in turn.
    """

    def __init__(self, place: Deployment, decks: Sequence[str]):
        self.game = ForgeGame(decks=tuple(decks), pairings="mirror")
        self.game.deploy(dataclasses.replace(place, daemons=1, record=""))
        self.fleet, self._seed = self.game.fleet(), 0

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exception: object) -> None:
        self.fleet.close()

    def play(self, kind: str, games: int) -> Block:
        """Plays games of one of `KINDS`."""
        self.fleet.release(self.fleet.lease(), finished=False)  # a start is not a part of it
        jvm, own = self._jvm_seconds(), time.process_time()
        decisions, durations = self._of_ai(games) if kind == "ai" else self._random(games)
        return Block(decisions, self._jvm_seconds() - jvm, time.process_time() - own, tuple(durations))

    def _jvm_seconds(self) -> float:
        return sum(each["cpu_seconds"] for each in self.fleet.counters()["daemons"])

    def _of_ai(self, games: int) -> tuple[int, list[float]]:
        pairs, durations = self.game._located()[0], []
        for number in range(games):
            one, other = map(recording.quoted, pairs[number % len(pairs)])
            self._seed, began = self._seed + 1, time.perf_counter()
            record_ai.play(self.fleet, f"NEWGAME {one} {other} -q -s {self._seed}", GAME_SECONDS)
            durations.append(time.perf_counter() - began)
        return 0, durations

    def _random(self, games: int) -> tuple[int, list[float]]:
        self._seed += 1
        buffers, decisions, durations = make_buffers(self.game, 1), 0, []
        slots, choice = np.zeros(1, np.int32), np.full(1, RANDOM, np.int32)
        engine = self.game.engine(1, self._seed)
        with HostPool(engine, threads=1, mode="async", timeout=GAME_SECONDS, follow=False) as pool:
            for _ in range(games):  # each begins when the one before it is over: no half of another is in the figures
                began = time.perf_counter()
                pool.begin(slots, buffers)
                pool.recv(count=1)
                while not (buffers.terminated[0] or buffers.truncated[0]):
                    pool.send(choice, games=slots)
                    pool.recv(count=1)
                    decisions += 1
                durations.append(time.perf_counter() - began)
        return decisions, durations


Blocks = dict[tuple[str, str], list[Block]]  # by what is compared and one of KINDS


def measure(benches: Mapping[str, Bench], kinds: Sequence[str], warm_up: int, rounds: int, games: int) -> Blocks:
    """Plays blocks of games on all benches in turn, after a warm-up of each."""
    found: Blocks = {key: [] for key in itertools.product(benches, kinds)}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}" if number else "warming up", file=sys.stderr, flush=True)
        for name, kind in found:
            block = benches[name].play(kind, games if number else warm_up)
            found[name, kind] += [block] if number else []
    return found


def per_cpu_second(blocks: Sequence[Block]) -> float:
    """Returns games per CPU second; what client and encoder take of this process is in it."""
    return sum(len(each.durations) for each in blocks) / sum(each.jvm + each.own for each in blocks)


def rates(blocks: Blocks) -> str:
    """Returns the table of games: CPU in ms a game, and by the clock half of the games and 95 % of them."""
    rows = []
    for (name, kind), of in blocks.items():
        jvm = [1e3 * each.jvm / len(each.durations) for each in of]
        own = median(1e3 * each.own / len(each.durations) for each in of)
        half, most = np.quantile([seconds for each in of for seconds in each.durations], [0.5, 0.95])
        cpu = [f"{value:.0f}" for value in (median(jvm), min(jvm), max(jvm))]
        rows.append(
            [f"{name}{KINDS[kind]}", *cpu, f"{own:.1f}", f"{per_cpu_second(of):.3f}", f"{half:.2f}", f"{most:.2f}"]
        )
    header = ["both seats", "JVM ms a game", "least", "most", "ours ms", "games per CPU s", "p50 s", "p95 s"]
    return table(header, rows)


def machines(blocks: Blocks, wanted: Sequence[tuple[int, float]]) -> str:
    """Returns the table of machines: games per CPU second here, times cores."""
    rows = []
    for (cores, price), ((_, kind), of) in itertools.product(wanted, blocks.items()):
        rate = cores * per_cpu_second(of)
        hours = WANTED / rate / 3600
        figures = (f"{rate:.2f}", f"{3600 * rate:,.0f}", f"{hours / 24:,.1f}", f"{price:.2f}", f"{hours * price:,.2f}")
        rows.append([f"{cores} cores, {KINDS[kind]}", *figures])
    return table(["", "games/s", "games/hour", "days for 10 million", "price an hour", "price of these"], rows)


def machine_of(text: str) -> tuple[int, float]:
    """Returns cores and price per hour of "16:0.80". Raises UserError if it is of another form."""
    match = re.fullmatch(r"([1-9]\d{0,5}):(\d{1,6}(?:\.\d+)?)", text)
    if match is None:
        raise UserError(f"--machine {text!r}: write cores and a price per hour, e.g. 16:0.80.")
    return int(match[1]), float(match[2])


def benches_of(args: argparse.Namespace, place: Deployment, decks: Sequence[str]) -> dict[str, Bench]:
    """Returns the deployments to compare, by their words in the table."""
    if args.profiles:
        return {f"{name}: ": Bench(dataclasses.replace(place, profile=name), decks) for name in PROFILES}
    if args.short_cuts:
        words = {False: "", True: " without short cuts"}
        each = itertools.product(decks, words.items())
        return {
            f"{deck}{word}: ": Bench(dataclasses.replace(place, stock=stock), [deck]) for deck, (stock, word) in each
        }
    return {"": Bench(place, decks)}


def check_same_games(blocks: Blocks) -> None:
    """Raises RuntimeError if random play without short cuts had other decisions than with them."""
    by_deck = [[each.decisions for each in of] for (_, kind), of in blocks.items() if kind == "random"]
    if by_deck[::2] != by_deck[1::2]:
        raise RuntimeError(f"with short cuts other games were played: {by_deck}")


def arguments() -> argparse.ArgumentParser:
    """Returns the parser of the program's options."""
    parser = cli.Parser(prog="python -m scripts.benchmark.forge", description=__doc__.partition("\n")[0])
    command_line.config(parser, "where Forge is (default: FORGE_HOME), and decks", metavar="FILE")
    command_line.overrides(parser)
    command_line.allow(parser)
    parser.add_argument(
        "--machine", action="append", default=[], type=machine_of, metavar="CORES:PRICE", help="to rent"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--profiles", action="store_true", help="compare the sets of JVM flags, by random play")
    which.add_argument("--short-cuts", action="store_true", help="compare the same games without the short cuts")
    parser.add_argument("--quick", action="store_true", help="few games: a first impression")
    return parser


def run(args: argparse.Namespace) -> int:
    """Measures and prints."""
    config = configs.load(args.config, ["env.id=forge", *args.overrides], args.allow)
    place, decks = Deployment(**deployment(config)), config.env.options.get("decks", DECKS)
    if place.remote:
        raise UserError("the CPU of daemons elsewhere cannot be seen from here: set forge.daemons to auto.")
    warm_up, rounds, games = (4, 2, 4) if args.quick else (24, 5, 12)
    print(machine(hardware.describe()), flush=True)
    with contextlib.ExitStack() as stack:
        benches = {name: stack.enter_context(bench) for name, bench in benches_of(args, place, decks).items()}
        blocks = measure(benches, ["random"] if args.profiles else list(KINDS), warm_up, rounds, games)
        memory = {each["rss_mib"] for bench in benches.values() for each in bench.fleet.counters()["daemons"]}
    print(rates(blocks))
    print(f"decks {', '.join(decks)}; resident {min(memory):.0f} to {max(memory):.0f} MiB a JVM")
    if args.short_cuts:
        check_same_games(blocks)
    if args.machine:
        print(machines(blocks, args.machine))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    return cli.guarded(lambda: run(arguments().parse_intermixed_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
