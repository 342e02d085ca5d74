"""The parts of a benchmark of Forge: what games cost whose engine is a JVM, and which JVM profile is the cheapest.

The measuring is done in `scripts.benchmark.daemons`; here are the parts, the tables and the line in the user's
configuration.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl.config import Config
from jaxrl.games import deployment
from jaxrl.text_tables import table
from jaxrl_envs.forge.settings import Deployment
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from scripts.benchmark import daemons
from scripts.benchmark.report import Found, Part, wanted

PARTS = ("games", "short_cuts", "sweep")
ASKED = ("short_cuts", "sweep")  # parts that are measured only if they are named
SECTION = "forge"  # of a configuration, whose keys the sweep decides
SIZES = (2, 16, 64)  # cores of machines, if none is named
SAME = 0.02  # two medians that differ by less are taken for equal: then the smaller heap is the better one


class ForgeEffort(NamedTuple):
    """How much to play."""

    warm_up: int  # games of each kind before anything counts
    rounds: int
    games: int  # of each kind in a round


class ForgeTask(NamedTuple):
    """What a part works with."""

    effort: ForgeEffort
    deployment: Deployment
    decks: tuple[str, ...]
    config: str | None  # the user's file
    say: Callable[[str], Any]  # told how far it is
    machines: tuple[daemons.Machine, ...] = ()


QUICK, FULL = ForgeEffort(4, 2, 4), ForgeEffort(24, 5, 12)


def plan(config: Config, args: argparse.Namespace, say: Callable[[str], Any]) -> list[Part]:
    """What is measured.

    Args:
      config: where Forge is found; its decks, if it is one of this game.
      args: of the command line.
      say: told how far it is.

    Raises:
      UserError: a part that there is not.
    """
    decks = tuple(config.env.options.get("decks", daemons.DECKS)) if config.env.id == "forge" else daemons.DECKS
    effort, place = QUICK if args.quick else FULL, Deployment(**deployment(config))
    machines = tuple(machine_of(text) for text in args.machine or ())
    task = ForgeTask(effort, place, decks, args.config, say, machines)
    only = args.only or (["sweep"] if args.sweep else None)
    return [
        Part(TITLES[part], part, functools.partial(RUN[part], task)) for part in wanted("forge has", PARTS, only, ASKED)
    ]


# ---- parts --------------------------------------------------------------------------------------------------------


def _games(task: ForgeTask) -> Found:
    """Random play of both seats beside the engine's own AI, on one JVM."""
    if task.deployment.remote:
        raise UserError("the CPU of daemons elsewhere cannot be seen from here: set forge.daemons to auto.")
    rounds = []
    with daemons.Bench(dataclasses.replace(task.deployment, daemons=1), task.decks) as bench:
        for number, each in enumerate(daemons.compared(bench, **task.effort._asdict())):
            rounds.append(each)
            ai, ours = (side.ms_per_game for side in each)
            task.say(f"round {number + 1} of {task.effort.rounds}: AI {ai:.0f} ms a game, random play {ours:.0f} ms")
        facts = daemons.summary(rounds) | {"decks": list(task.decks), "rss_mib": bench.memory_mib()}
        for kind, play in (("ai", bench.against_itself), ("random", bench.random_play)):  # not while CPU is measured
            with daemons.Watch(bench) as watch:
                block = play(task.effort.games)
            facts[f"{kind}_shares"] = daemons.shares(block, watch.statuses)
    rows = [
        [
            "the engine's AI in both seats",
            f"{facts['ai_ms_per_game']:.0f}",
            "",
            f"{facts['ai_games_per_cpu_second']:.3f}",
            *(f"{seconds:.2f}" for seconds in facts["ai_seconds"]),
        ],
        [
            "random play in both seats",
            f"{facts['random_ms_per_game']:.0f}",
            f"{facts['own_ms_per_game']:.1f}",
            f"{facts['random_games_per_cpu_second']:.3f}",
            *(f"{seconds:.2f}" for seconds in facts["random_seconds"]),
        ],
    ]
    head = ["CPU", "JVM ms a game", "ours ms a game", "games per CPU s", "p50 s", "p95 s"]
    return facts, "\n".join(
        [
            table(head, rows),
            f"random play against the AI, by games per CPU second: {facts['ratio']:.2f}",
            f"CPU outside of the JVM: {100 * facts['outside_the_jvm']:.2f} %; "
            f"{facts['decisions_per_game']:.0f} decisions a game; {facts['rss_mib']:.0f} MiB resident; "
            f"profile {task.deployment.profile}, {task.deployment.heap_mb} MiB; decks {', '.join(task.decks)}",
            *_shares(facts),
            "",
            _machines(facts, task.machines),
        ]
    )


def _shares(facts: dict[str, Any]) -> list[str]:
    """The table of what the time of a game is spent on, if the daemon tells."""
    both = facts["ai_shares"], facts["random_shares"]
    if not all(both):
        return []
    names = daemons.DOINGS | {
        "own": "- of which this process computes",
        "network": "- of which network and scheduler",
        "gc": "garbage collection, in all of these",
    }
    rows = [[words, *(f"{100 * each[key]:.1f} %" for each in both)] for key, words in names.items()]
    return ["", table(["time of a game on one JVM", "the engine's AI", "random play"], rows)]


def _machines(facts: dict[str, Any], machines: Sequence[daemons.Machine]) -> str:
    """The table of machine sizes: games per CPU second here, times cores."""
    rows = []
    for machine in machines or [daemons.Machine(count) for count in SIZES]:
        for kind in ("random", "ai"):
            found = daemons.on_machine(machine, facts[f"{kind}_games_per_cpu_second"])
            price = ["" if found[key] is None else f"{found[key]:,.2f}" for key in ("price", "total")]
            rate = f"{found['per_second']:.2f}", f"{found['per_hour']:,.0f}", f"{found['days']:,.1f}"
            rows.append(
                [f"{machine.cores} cores, {'random play' if kind == 'random' else 'AI'}", price[0], *rate, price[1]]
            )
    head = ["measured here x cores", "price an hour", "games/s", "games/hour", "days for 10 million", "price of these"]
    return table(head, rows)


def machine_of(text: str) -> daemons.Machine:
    """The machine that "16" or "16:0.80" describes: cores, and a price per hour.

    Raises:
      UserError: it is of another form.
    """
    match = re.fullmatch(r"([1-9]\d{0,5})(?::(\d{1,6}(?:\.\d+)?))?", text)
    if match is None:
        raise UserError(f"--machine {text!r}: write cores and a price per hour, e.g. 16:0.80, or cores alone.")
    return daemons.Machine(int(match[1]), None if match[2] is None else float(match[2]))


def _short_cuts(task: ForgeTask) -> Found:
    """What the daemon's short cuts save."""
    found = daemons.short_cuts(task.deployment, task.decks, **task.effort._asdict(), say=task.say)
    keys = ("random", "random_stock", "ai", "ai_stock")
    rows = [[each["deck"], *(f"{each[key]:.0f}" for key in keys)] for each in found]
    head = ["ms a game, CPU of the JVM", "random play", "without short cuts", "the engine's AI", "without short cuts"]
    return found, table(head, rows)


def _sweep(task: ForgeTask) -> Found:
    """Every profile and heap in turn; the best one goes into the configuration."""
    found = daemons.sweep(task.deployment, task.decks, **task.effort._asdict(), say=task.say)
    keys = ("ms_per_game", "lowest", "highest", "rss_mib")
    rows = [[f"{each['profile']}, {each['heap_mb']} MiB", *(f"{each[key]:.0f}" for key in keys)] for each in found]
    text = table(["random play, CPU of the JVM", "ms a game", "lowest", "highest", "resident MiB"], rows)
    best = best_of(found)
    return {"found": found, "best": best}, f"{text}\n{keep(task.config, best)}"


def best_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The keys to set: of the cheapest, or of one with a smaller heap that is as good."""
    least = min(each["ms_per_game"] for each in found)
    as_good = [each for each in found if each["ms_per_game"] <= (1.0 + SAME) * least]
    best = min(as_good, key=lambda each: (each["heap_mb"], each["ms_per_game"]))
    return {"profile": best["profile"], "heap_mb": best["heap_mb"]}


TITLES = {
    "games": "games: both seats random, and the engine's own AI; what they cost, on which machine",
    "short_cuts": "the daemon's short cuts, and the same games without them",
    "sweep": "profiles of the JVM",
}
RUN: dict[str, Callable[[ForgeTask], Found]] = {
    "games": _games,
    "short_cuts": _short_cuts,
    "sweep": _sweep,
}


# ---- the configuration --------------------------------------------------------------------------------------------


def keep(path: str | None, values: dict[str, Any]) -> str:
    """Writes the values into a configuration file of the user; says what was done, or is left to do."""
    lines = "\n".join([f"{SECTION}:", *(f"  {key}: {value}" for key, value in values.items())])
    if path is None or not os.path.isfile(Path(path).expanduser()):  # none, or the name of one that came along
        return f"the best for this machine; put it into your configuration:\n\n{lines}\n"
    file = Path(path).expanduser()
    text = edited(file.read_text(encoding="utf-8"), SECTION, values)
    if text is None:
        return f"the best for this machine; {path} cannot be edited line by line, so put it in yourself:\n\n{lines}\n"
    part = file.with_name(file.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, file)
    return f"written into {path}: " + ", ".join(f"{SECTION}.{key} = {value}" for key, value in values.items())


def edited(text: str, section: str, values: dict[str, Any]) -> str | None:
    """A YAML text with some keys of a section set, everything else and all comments as they were.

    None: it is written in a way that is not to be edited line by line.
    """
    before = files.parse(text, "the configuration") or {}
    lines = text.split("\n")
    [start] = [i for i, line in enumerate(lines) if re.match(rf"{section}\s*:", line)] or [len(lines)]
    if start == len(lines):
        while lines and not lines[-1].strip():
            lines.pop()
        start = len(lines)
        lines += [f"{section}:", ""]
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][0] in " #"):
        end += 1
    for key, value in values.items():
        place = next((i for i in range(start + 1, end) if re.match(rf"\s+{key}\s*:", lines[i])), None)
        if place is None:
            indents = [
                len(line) - len(line.lstrip()) for line in lines[start + 1 : end] if line.strip(" ")[:1] not in "#"
            ]
            lines.insert(start + 1, f"{' ' * (indents[0] if indents else 2)}{key}: {value}")
            end += 1
        else:
            lines[place] = re.sub(r"(:[ \t]*)([^#]*?)([ \t]*(#.*)?)$", rf"\g<1>{value}\g<3>", lines[place], count=1)
    after = "\n".join(lines)
    wanted = before | {section: {**(before.get(section) or {}), **values}}
    try:
        return after if files.parse(after, "the configuration") == wanted else None
    except UserError:
        return None
