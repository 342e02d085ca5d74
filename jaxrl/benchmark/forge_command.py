"""`jaxrl benchmark forge`: what games of a host engine in other processes cost, and which JVM profile is the cheapest.

The measuring is done by the module `measure` beside the game (`envs/forge/measure.py`); here are the parts, the tables
and the line in the user's configuration.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from envs import files
from envs.errors import UserError
from jaxrl import config as configs
from jaxrl.benchmark import hardware
from jaxrl.benchmark.table import count, machine, table
from jaxrl.config import Config
from jaxrl.runs.games import deployment

PARTS = ("games", "parsing", "decisions", "short_cuts", "sweep")
ASKED = ("short_cuts", "sweep")  # parts that are measured only if they are named
SECTION = "forge"  # of a configuration, whose keys the sweep decides
SAME = 0.02  # two medians that differ by less are taken for equal: then the smaller heap is the better one


class Effort(NamedTuple):
    """How much to play."""

    warm_up: int  # games of each kind before anything counts
    rounds: int
    games: int  # of each kind in a round
    seconds: float  # for what is not counted in games


QUICK, FULL = Effort(4, 2, 4, 1.0), Effort(24, 5, 12, 5.0)


def main(args: argparse.Namespace, name: str, overrides: list[str]) -> int:
    """Measures, prints each part as soon as it is known, writes the JSON.

    Args:
      args: of `jaxrl benchmark`.
      name: the game.
      overrides: of the configuration.

    Raises:
      UserError: a part that there is not, or nothing to measure a part with that was asked for.
    """
    from envs import registry

    measure: Any = registry.game_module(name, "measure")
    config = configs.load(args.config, [f"env.id={name}", *overrides])
    if unknown := [part for part in args.only or [] if part not in PARTS]:
        raise UserError(f"--only {unknown[0]}: {name} has the parts {', '.join(PARTS)}.")
    parts = args.only or (["sweep"] if args.sweep else [part for part in PARTS if part not in ASKED])
    report: dict[str, Any] = {"hardware": hardware.describe(), "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    report |= {"config": configs.to_dict(config)[SECTION], "parts": {}}
    print(machine(report["hardware"]))
    effort = QUICK if args.quick else FULL
    for part in parts:
        print(f"\n== {TITLES[part]}")
        try:
            report["parts"][part], text = RUN[part](measure, config, name, effort, args)
        except UserError as error:
            if args.only or args.sweep:
                raise
            report["parts"][part], text = {"skipped": str(error)}, f"left out: {error}"
        print(text)
    if args.json:
        Path(args.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def _decks(measure: Any, config: Config, name: str) -> tuple[str, ...]:
    """Those of the configuration, if it is one of this game; else different ones."""
    return tuple(config.env.options.get("decks", measure.DECKS)) if config.env.id == name else measure.DECKS


# ---- parts --------------------------------------------------------------------------------------------------------

Found = tuple[Any, str]


def _games(measure: Any, config: Config, name: str, effort: Effort, args: argparse.Namespace) -> Found:
    """Random play of both seats beside the engine's own AI, on one JVM."""
    options = deployment(config)
    if measure.Deployment(**options).remote:
        raise UserError("the CPU of daemons elsewhere cannot be seen from here: set forge.daemons to auto.")
    decks, rounds = _decks(measure, config, name), []
    with measure.Bench(measure.Deployment(**options | {"daemons": 1}), decks) as bench:
        steps = {"warm_up": effort.warm_up, "rounds": effort.rounds, "games": effort.games}
        for number, each in enumerate(measure.compared(bench, **steps)):
            rounds.append(each)
            print(f"round {number + 1} of {effort.rounds}: AI {each[0].ms_per_game:.0f} ms a game, ", end="")
            print(f"random play {each[1].ms_per_game:.0f} ms", flush=True)
        facts = measure.summary(rounds) | {"decks": list(decks), "rss_mib": bench.memory_mib()}
    rows = [
        [
            "the engine's AI in both seats",
            f"{facts['ai_ms_per_game']:.0f}",
            "",
            f"{facts['ai_games_per_cpu_second']:.3f}",
        ],
        [
            "random play in both seats",
            f"{facts['random_ms_per_game']:.0f}",
            f"{facts['own_ms_per_game']:.1f}",
            f"{facts['random_games_per_cpu_second']:.3f}",
        ],
    ]
    head = ["CPU", "JVM ms a game", "ours ms a game", "games per CPU s"]
    return facts, "\n".join(
        [
            table(head, rows),
            f"random play against the AI, by games per CPU second: {facts['ratio']:.2f}",
            f"CPU outside of the JVM: {100 * facts['outside_the_jvm']:.2f} %; "
            f"{facts['decisions_per_game']:.0f} decisions a game; {facts['rss_mib']:.0f} MiB resident; "
            f"profile {options['profile']}, {options['heap_mb']} MiB; decks {', '.join(decks)}",
        ]
    )


def _parsing(measure: Any, config: Config, name: str, effort: Effort, args: argparse.Namespace) -> Found:
    """What the parser does with recorded lines."""
    facts = measure.parsing(measure.recordings(args.recordings or []), effort.seconds)
    text = f"{facts['mb_per_second']:.0f} MB/s on one core: {facts['lines']} lines of {facts['mean_bytes']:.0f} bytes"
    ratio = facts["mb_per_second"] / facts["python_mb_per_second"]
    return facts, f"{text}; {ratio:.1f} times as fast as Python's json"


def _decisions(measure: Any, config: Config, name: str, effort: Effort, args: argparse.Namespace) -> Found:
    """From socket to socket with replayed games."""
    paths = measure.recordings(args.recordings or [])
    found = [measure.decisions(paths, effort.seconds, daemons) for daemons in (1, 4, 16)]
    rows = [
        [
            str(each["daemons"]),
            count(each["decisions_per_second"]),
            f"{each['mb_per_second']:.0f}",
            f"{each['own_us']:.0f}",
            f"{each['server_us']:.0f}",
        ]
        for each in found
    ]
    return found, table(["replayed daemons", "decisions/s", "MB/s", "CPU us of ours", "CPU us of the server"], rows)


def _short_cuts(measure: Any, config: Config, name: str, effort: Effort, args: argparse.Namespace) -> Found:
    """What the daemon's short cuts save."""
    steps = {"warm_up": effort.warm_up, "rounds": effort.rounds, "games": effort.games}
    say = functools.partial(print, flush=True)
    found = measure.short_cuts(
        measure.Deployment(**deployment(config)), _decks(measure, config, name), **steps, say=say
    )
    keys = ("random", "random_stock", "ai", "ai_stock")
    rows = [[each["deck"], *(f"{each[key]:.0f}" for key in keys)] for each in found]
    head = ["ms a game, CPU of the JVM", "random play", "without short cuts", "the engine's AI", "without short cuts"]
    return found, table(head, rows)


def _sweep(measure: Any, config: Config, name: str, effort: Effort, args: argparse.Namespace) -> Found:
    """Every profile and heap in turn; the best one goes into the configuration."""
    options = deployment(config) | {"daemons": 1}
    steps = {"warm_up": effort.warm_up, "rounds": effort.rounds, "games": effort.games}
    say = functools.partial(print, flush=True)
    found = measure.sweep(measure.Deployment(**options), _decks(measure, config, name), **steps, say=say)
    keys = ("ms_per_game", "lowest", "highest", "rss_mib")
    rows = [[f"{each['profile']}, {each['heap_mb']} MiB", *(f"{each[key]:.0f}" for key in keys)] for each in found]
    text = table(["random play, CPU of the JVM", "ms a game", "lowest", "highest", "resident MiB"], rows)
    best = best_of(found)
    return {"found": found, "best": best}, f"{text}\n{keep(args.config, best)}"


def best_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The keys to set: of the cheapest, or of one with a smaller heap that is as good."""
    least = min(each["ms_per_game"] for each in found)
    as_good = [each for each in found if each["ms_per_game"] <= (1.0 + SAME) * least]
    best = min(as_good, key=lambda each: (each["heap_mb"], each["ms_per_game"]))
    return {"profile": best["profile"], "heap_mb": best["heap_mb"]}


TITLES = {
    "games": "games: both seats random, and the engine's own AI",
    "parsing": "parsing recorded lines",
    "decisions": "decisions end to end, with a server that replays games",
    "short_cuts": "the daemon's short cuts, and the same games without them",
    "sweep": "profiles of the JVM",
}
RUN: dict[str, Callable[..., Found]] = {
    "games": _games,
    "parsing": _parsing,
    "decisions": _decisions,
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
