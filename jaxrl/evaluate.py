"""Measuring a policy against bots and other runs: `jaxrl evaluate`.

The candidate sits once in every seat of every deal, against equal opponents; intervals are over deals (see
`jaxrl.match`). Results are never the maximum over checkpoints: a checkpoint chosen by evaluations during training is
measured again here, on other deals.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from envs.core import Env, PyTree
from envs.errors import UserError, nearest
from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.match import FINAL_DEALS, LANES, Estimate, Matchup, MemoryFns, Player, Samples, bot_player
from jaxrl.runs import (
    TrainedRun,
    append_json,
    enable_compilation_cache,
    find_run,
    load_run,
    make_act,
    make_evaluation_env,
)

BOT_PREFIX = "bot:"


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a table: a candidate at a table of equal opponents."""

    candidate: str
    opponent: str
    samples: Samples

    @property
    def deals(self) -> int:
        """Independent samples."""
        return len(next(iter(self.samples.candidate.values())))

    def figures(self) -> dict[str, Estimate]:
        """Means with intervals: the candidate's by figure, the opponents' as ``"opp. <figure>"``."""
        own = {name: Estimate.of(x) for name, x in self.samples.candidate.items()}
        return own | {f"opp. {name}": Estimate.of(x) for name, x in self.samples.opponents.items()}

    def record(self) -> dict[str, Any]:
        """For JSON."""
        figures = {name: {"mean": e.mean, "half_width_95": e.half} for name, e in self.figures().items()}
        return {
            "candidate": self.candidate,
            "opponent": self.opponent,
            "deals": self.deals,
            "games": self.samples.games,
            "figures": figures,
        }


class Evaluator:
    """One kind of candidate against each of several opponents on fixed deals; compiled at the first call."""

    def __init__(
        self,
        env: Env,
        act: Any,
        opponents: Sequence[Player],
        *,
        deals: int,
        seed: int,
        stream: int = FINAL_DEALS,
        lanes: int = LANES,
        memory: MemoryFns | None = None,
    ):
        """An evaluator.

        Args:
          env: the game.
          act: the candidate, (params, state, key) -> action.
          opponents: each is one table, the others' seats filled with copies of it; ignored in a one-seat game.
          deals, seed, stream, lanes, memory: see `Matchup`.

        Raises:
          UserError: an opponent has a memory: only the candidate may.
        """
        alone = env.num_players == 1
        self._opponents = [Player("-", act)] if alone else list(opponents)
        for player in opponents:
            if player.memory is not None and not alone:
                raise UserError(f"{player.name!r} searches with a memory: only the candidate can, not an opponent.")
        acts = [] if alone else [player.act for player in opponents]
        self._matchup = Matchup(env, act, acts, deals=deals, seed=seed, stream=stream, lanes=lanes, memory=memory)

    def __call__(self, params: PyTree, name: str = "candidate") -> list[Row]:
        """Plays every table with these parameters of the candidate."""
        others = [player.params for player in self._opponents]
        return [
            Row(name, player.name, self._matchup(params, others, index)) for index, player in enumerate(self._opponents)
        ]


def opponent_names(config: Config, env: Env) -> list[str]:
    """The bots to play against: those configured, else all of the game."""
    return list(config.evaluate.opponents) or list(env.bots)


def bot_players(env: Env, names: Sequence[str]) -> list[Player]:
    """Scripted players by name. Raises UserError for an unknown name."""
    for name in names:
        if name not in env.bots:
            raise UserError(f"there is no bot {name!r} in this game: {nearest(name, env.bots)}")
    return [bot_player(env, name) for name in names]


def difference(first: Row, second: Row) -> dict[str, Estimate]:
    """Paired differences, first minus second, of two candidates on the same deals against the same opponents."""
    return {
        name: Estimate.of(np.asarray(x) - second.samples.candidate[name]) for name, x in first.samples.candidate.items()
    }


def scalars(rows: Sequence[Row]) -> dict[str, float]:
    """Metrics for the logs: ``eval/<opponent>/<figure>``."""
    return {
        f"eval/{row.opponent}/{name}": float(np.mean(x)) for row in rows for name, x in row.samples.candidate.items()
    }


# ---- tables -------------------------------------------------------------------------------------------------------


def format_estimate(estimate: Estimate) -> str:
    """A mean and half width such as 0.629 (0.024), with fewer decimals for larger figures."""
    size = abs(estimate.mean)
    decimals = 3 if size < 2 else 2 if size < 10 else 1
    return "-" if math.isnan(size) else f"{estimate.mean:.{decimals}f} ({estimate.half:.{decimals}f})"


def format_table(rows: Sequence[Row], seats: int) -> str:
    """The rows as a Markdown table; 95 % half widths in brackets."""
    names = list(rows[0].figures()) if rows else []
    head = ["candidate", f"{seats - 1} opponents", "deals", *(name.replace("_", " ") for name in names)]
    body = []
    for row in rows:
        figures = row.figures()
        body.append([row.candidate, row.opponent, str(row.deals), *(format_estimate(figures[name]) for name in names)])
    return align([head, *body])


def format_differences(pairs: Sequence[tuple[Row, Row]]) -> str:
    """Paired differences as a Markdown table."""
    names = list(pairs[0][0].samples.candidate)
    head = ["difference", "opponents", "deals", *(name.replace("_", " ") for name in names)]
    body = []
    for first, second in pairs:
        change = difference(first, second)
        label = f"{first.candidate} - {second.candidate}"
        body.append([label, first.opponent, str(first.deals), *(format_estimate(change[name]) for name in names)])
    return align([head, *body])


def align(cells: list[list[str]]) -> str:
    """A Markdown table, head first, with columns padded for the terminal."""
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


# ---- jaxrl evaluate -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Who is measured: a trained run (one player per seed) or a bot."""

    players: list[Player]
    config: Config
    env: Env
    run: TrainedRun | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `jaxrl evaluate`."""
    parser.add_argument("candidate", metavar="RUN", help="a run, or a bot as bot:NAME")
    parser.add_argument("--against", metavar="RUN2", help="another run (or bot:NAME): paired on the same deals")
    parser.add_argument("--opponents", metavar="A,B", help="bots at the other seats (default: evaluate.opponents)")
    parser.add_argument("--deals", type=int, help="deals per opponent (default: evaluate.deals)")
    parser.add_argument("--seed", type=int, help="seed of the deals (default: evaluate.seed)")
    parser.add_argument("--sampled", action="store_true", help="sample from the policy even if evaluate.greedy is true")
    parser.add_argument("--checkpoint", default="newest", help="newest, best, or a number of updates")
    parser.add_argument("--config", help="for bots: the configuration that names the game (default: its defaults)")
    parser.add_argument("overrides", nargs="*", metavar="a.b=v", help="for bots: the game, e.g. env.options.x=v")


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl evaluate` and prints the tables."""
    candidate = find_candidate(args.candidate, args)
    config, env = candidate.config, candidate.env
    enable_compilation_cache(config.run.cache_dir)
    deals = args.deals if args.deals is not None else config.evaluate.deals
    if deals < 2:
        raise UserError(f"--deals must be at least 2, got {deals}.")
    seed = args.seed if args.seed is not None else config.evaluate.seed
    names = args.opponents.split(",") if args.opponents else opponent_names(config, env)
    bots = bot_players(env, names)
    rivals = find_candidate(args.against, args, like=candidate).players if args.against else []
    settings = {"deals": deals, "seed": seed}

    rows = evaluate_players(env, candidate.players, bots, **settings)
    paired = evaluate_players(env, rivals[:1], bots, **settings) if rivals else []
    direct = evaluate_players(env, candidate.players, rivals[:1], **settings) if rivals and env.num_players > 1 else []
    policy = "greedy" if config.evaluate.greedy and not args.sampled else "sampled"
    print(f"{args.candidate}: {policy} policy, {deals} deals x {env.num_players} seats, evaluation seed {seed}")
    if candidate.run is not None:
        print(f"checkpoint after {candidate.run.update} updates, parameters {candidate.run.params_hash}")
    print(format_table(rows + paired + direct, env.num_players))
    if paired:
        pairs = [(row, other) for row in rows for other in paired if row.opponent == other.opponent]
        print(format_differences(pairs))
    if candidate.run is not None:
        record = evaluation_record(candidate.run, rows + paired + direct, policy=policy, seed=seed)
        count = append_json(find_run(args.candidate).evaluation_file, record)
        print(f"evaluation number {count} of this run; all of them are in evaluation.json")
    return 0


def evaluate_players(env: Env, players: Sequence[Player], opponents: Sequence[Player], **settings: Any) -> list[Row]:
    """Rows for players that share one `act` (the seeds of a run), against each opponent."""
    if not players:
        return []
    evaluator = Evaluator(env, players[0].act, opponents, memory=players[0].memory, **settings)
    return [row for player in players for row in evaluator(player.params, player.name)]


def evaluation_record(run: TrainedRun, rows: Sequence[Row], *, policy: str, seed: int) -> dict[str, Any]:
    """What is kept in evaluation.json about one evaluation."""
    return {
        "update": run.update,
        "params_hash": run.params_hash,
        "policy": policy,
        "seed": seed,
        "rows": [row.record() for row in rows],
    }


def find_candidate(name: str, args: argparse.Namespace, like: Candidate | None = None) -> Candidate:
    """The candidate called `name`: a bot or a run, of the same game as `like` if that is given.

    Raises:
      UserError: there is none, or it plays another game.
    """
    if name.startswith(BOT_PREFIX):
        config = like.config if like else configs.load(args.config, args.overrides)
        env = like.env if like else make_evaluation_env(config)
        return Candidate(bot_players(env, [name.removeprefix(BOT_PREFIX)]), config, env, None)
    if args.overrides:
        raise UserError(f"a run is evaluated with the game it was trained on: {args.overrides[0]!r} cannot be changed.")
    run = load_run(name, args.checkpoint)
    if like and _game(like) != _game(run):
        raise UserError(f"run {name!r} plays another game than {args.candidate!r}: they cannot be compared.")
    act = make_act(run.config, run.env, greedy=run.config.evaluate.greedy and not args.sampled)
    labels = [run.name] if len(run.params) == 1 else [f"{run.name}/seed_{i}" for i in range(len(run.params))]
    players = [Player(label, act, params) for label, params in zip(labels, run.params, strict=True)]
    return Candidate(players, run.config, run.env, run)


def _game(side: Candidate | TrainedRun) -> tuple[str, str, dict[str, Any]]:
    """What two candidates must have in common to be compared."""
    return side.config.env.id, side.env.version, side.config.evaluation_options
