"""Measuring a policy against bots and other runs: `jaxrl evaluate`.

The candidate holds every side of every deal once, against equal opponents. Intervals of means are over deals (see
`match`), those of win rates are Wilson's, which take all games as independent (see `outcomes`). Results are
never the maximum over checkpoints: a checkpoint chosen by evaluations during training is measured again here, on other
deals.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from envs.core import Env, PyTree
from envs.errors import UserError, nearest
from jaxrl import config as configs
from jaxrl.commands.search import (
    Searcher,
    add_search_arguments,
    evaluate_search,
    make_searcher,
    model_of,
    refuse_without_search,
    settings_of,
    warn_of_scale,
)
from jaxrl.config import Config
from jaxrl.matches.host_match import is_remote, make_matchup
from jaxrl.matches.match import BOT_PREFIX, FINAL_DEALS, LANES, MemoryFns, Player, bot_player
from jaxrl.matches.tables import Row, by_candidate, format_differences, format_table, overall, scalars
from jaxrl.runs.directory import (
    TrainedRun,
    append_json,
    enable_compilation_cache,
    find_run,
    load_run,
    make_act,
    make_evaluation_env,
    seed_names,
)

__all__ = ["Evaluator", "Row", "evaluate_players", "evaluation_record", "find_candidate", "format_table", "scalars"]


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
        bot: str = "",
    ):
        """An evaluator.

        Args:
          env: the game.
          act: the candidate, (params, state, key) -> action.
          opponents: each is one table, the others' seats filled with copies of it; ignored in a game of one side.
          deals, seed, stream, lanes, memory: see `Matchup`.
          bot: the candidate's name in `Env.bots` if it is a scripted player.

        Raises:
          UserError: an opponent has a memory: only the candidate may.
        """
        alone = env.num_sides == 1
        self._opponents = [Player("-", act)] if alone else list(opponents)
        for player in opponents:
            if player.memory is not None and not alone:
                raise UserError(f"{player.name!r} searches with a memory: only the candidate can, not an opponent.")
        table = [] if alone else list(opponents)
        others = [player.params for player in self._opponents]
        self._tables: list[tuple[list[PyTree], int]] = [(others, index) for index in range(len(others))]
        if table and all(player.bot for player in table) and not is_remote(env):
            switch = env.bot_switch([player.bot for player in table])  # any of them: the game may share their work
            table = [Player("bots", lambda index, state, key: switch(state, index, key))]
            self._tables = [([np.int32(index)], 0) for index in range(len(others))]
        candidate = Player("candidate", act, memory=memory, bot=bot)
        self._matchup = make_matchup(env, candidate, table, deals=deals, seed=seed, stream=stream, lanes=lanes)

    def __call__(self, params: PyTree, name: str = "candidate") -> list[Row]:
        """Plays every table with these parameters of the candidate."""
        return [
            Row(name, player.name, self._matchup(params, others, index))
            for player, (others, index) in zip(self._opponents, self._tables, strict=True)
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
    add_search_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl evaluate` and prints the tables."""
    refuse_without_search(args)
    if args.search is not None and args.sampled:
        raise UserError("--sampled is of a policy that does not search: leave it or --search out.")
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
    if args.search is not None and candidate.run is not None:
        warn_of_scale(config, settings_of(args))

    rows, searcher = evaluate_candidate(candidate, bots, args, settings)
    paired = evaluate_players(env, rivals[:1], bots, **settings) if rivals else []
    direct = evaluate_candidate(candidate, rivals[:1], args, settings)[0] if rivals and env.num_sides > 1 else []
    policy = "search" if searcher else "greedy" if config.evaluate.greedy and not args.sampled else "sampled"
    player = str(searcher) if searcher else f"{policy} policy"
    print(f"{args.candidate}: {player}, {deals} deals x {env.num_sides} {env.side_name}s, evaluation seed {seed}")
    if candidate.run is not None:
        print(f"checkpoint after {candidate.run.update} updates, parameters {candidate.run.params_hash}")
    print(format_table(rows + paired, env.num_sides))
    if direct:
        print(f"\n{format_table(direct, env.num_sides)}")
    if paired:
        pairs = [(row, other) for row in rows for other in paired if row.opponent == other.opponent]
        print(f"\n{format_differences(pairs)}")
    if candidate.run is not None:
        record = evaluation_record(candidate.run, rows + paired, direct, policy=policy, seed=seed)
        record |= {"search": searcher.record()} if searcher else {}
        count = append_json(find_run(args.candidate).evaluation_file, record)
        print(f"evaluation number {count} of this run; all of them are in evaluation.json")
    return 0


def evaluate_candidate(
    candidate: Candidate, opponents: Sequence[Player], args: argparse.Namespace, settings: dict[str, int]
) -> tuple[list[Row], Searcher | None]:
    """Rows of a candidate against each opponent, with the search that the options ask for, and that search."""
    if args.search is None:
        return evaluate_players(candidate.env, candidate.players, opponents, **settings), None
    bot = None if candidate.run else candidate.players[0].name
    searcher = make_searcher(candidate.env, candidate.config, opponents, settings_of(args), model_of(args), bot)
    return evaluate_search(candidate.env, searcher, candidate.players, opponents, **settings), searcher


def evaluate_players(env: Env, players: Sequence[Player], opponents: Sequence[Player], **settings: Any) -> list[Row]:
    """Rows for players that share one `act` (the seeds of a run), against each opponent."""
    if not players:
        return []
    first = players[0]
    evaluator = Evaluator(env, first.act, opponents, memory=first.memory, bot=first.bot, **settings)
    return [row for player in players for row in evaluator(player.params, player.name)]


def evaluation_record(
    run: TrainedRun, rows: Sequence[Row], direct: Sequence[Row] = (), *, policy: str, seed: int
) -> dict[str, Any]:
    """What is kept in evaluation.json about one evaluation.

    Args:
      run: the checkpoint measured.
      rows: against the configured opponents, over which means and minima are taken.
      direct: against another candidate.
      policy: greedy, sampled or search.
      seed: of the deals.
    """
    totals = {name: overall(group) for name, group in by_candidate(rows).items()}
    return {
        "update": run.update,
        "params_hash": run.params_hash,
        "policy": policy,
        "seed": seed,
        "rows": [row.record() for row in (*rows, *direct)],
        "overall": {name: total.record() for name, total in totals.items() if total is not None},
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
    if like and game_of(like) != game_of(run):
        raise UserError(f"run {name!r} plays another game than {args.candidate!r}: they cannot be compared.")
    act = make_act(run.config, run.env, greedy=run.config.evaluate.greedy and not args.sampled)
    names = seed_names(run.name, len(run.params))
    players = [Player(name, act, params) for name, params in zip(names, run.params, strict=True)]
    return Candidate(players, run.config, run.env, run)


def game_of(side: Candidate | TrainedRun) -> tuple[str, str, dict[str, Any]]:
    """What two candidates must have in common to be compared."""
    return side.config.env.id, side.env.version, side.config.evaluation_options
