"""`jaxrl evaluate`: a run, a policy file or a bot against bots and another one, on fixed deals."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import jax

from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.matches.evaluate import evaluate_players, evaluation_record, in_simulator, opponent_names
from jaxrl.matches.search_options import (
    Searcher,
    beliefs_of,
    evaluate_search,
    make_searcher,
    model_of,
    refuse_without_search,
    rollouts_of,
    settings_of,
    warn_of_scale,
)
from jaxrl.matches.tables import Row, format_differences, format_side_by_side, format_table
from jaxrl.players.find import FoundPlayers, find_opponents, find_player, run_of
from jaxrl.players.player import Player
from jaxrl.players.spec import parse
from jaxrl.runs.directory import append_json, enable_compilation_cache, find_run
from jaxrl.runs.logs.console import waiting
from jaxrl_envs.shared.errors import UserError

SIMULATED = 256  # games side by side, on all devices, in another simulator, which may keep an arena for each


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl evaluate` and prints the tables."""
    refuse_without_search(args)
    if args.search is not None and args.sampled:
        raise UserError("--sampled is of a policy that does not search: leave it or --search out.")
    if args.search is not None and args.simulator:
        raise UserError("--simulator is of a policy that does not search: leave it or --search out.")
    candidate = find_player(args.candidate, args)
    config, env = candidate.config, candidate.env
    enable_compilation_cache(config.run.cache_dir)
    deals = args.deals if args.deals is not None else config.evaluate.deals
    if deals < 2:
        raise UserError(f"--deals must be at least 2, got {deals}.")
    seed = args.seed if args.seed is not None else EVALUATION_SEED
    names = args.opponents.split(",") if args.opponents else opponent_names(config, env)
    others = find_opponents(names, args, candidate)
    rivals = find_player(args.against, args, like=candidate).players if args.against else []
    settings = {"deals": deals, "seed": seed}
    if args.search is not None and candidate.run is not None:
        warn_of_scale(config, settings_of(args))

    simulated = in_simulator(env, args.simulator) if args.simulator else None
    with waiting(f"playing {deals} deals x {env.num_sides} {env.side_name}s against {', '.join(names)} ..."):
        rows, searcher = evaluate_candidate(candidate, others, args, settings)
        paired = evaluate_players(env, rivals[:1], others, **settings) if rivals else []
        direct = evaluate_candidate(candidate, rivals[:1], args, settings)[0] if rivals and env.num_sides > 1 else []
    there: list[Row] = []
    if simulated is not None:
        lanes = max(1, SIMULATED // len(jax.local_devices()))
        with waiting(f"the same in {args.simulator} ..."):
            for opponents in (others, rivals[:1]) if direct else (others,):
                there += evaluate_players(simulated, candidate.players, opponents, lanes=lanes, **settings)
    policy = "search" if searcher else "greedy" if config.evaluate.greedy and not args.sampled else "sampled"
    player = str(searcher) if searcher else f"{policy} policy"
    print(f"{args.candidate}: {player}, {deals} deals x {env.num_sides} {env.side_name}s, evaluation seed {seed}")
    if candidate.run is not None:
        stage = f", in stage {candidate.run.stage!r}" if candidate.run.stage else ""
        print(f"checkpoint after {candidate.run.update} updates{stage}, parameters {candidate.run.params_hash}")
    print(format_table(rows + paired, env.num_sides))
    if direct:
        print(f"\n{format_table(direct, env.num_sides)}")
    if paired:
        pairs = [(row, other) for row in rows for other in paired if row.opponent == other.opponent]
        print(f"\n{format_differences(pairs)}")
    for row, other in zip(rows + direct if there else [], there, strict=True):
        print(f"\n{format_side_by_side(row, other, ('jaxrl', args.simulator))}")
    if candidate.elsewhere:
        print(f"with {config.evaluation_options}, on which the policy was not measured before: not kept")
    elif candidate.run is not None:
        record = evaluation_record(candidate.run, rows + paired, direct, policy=policy, seed=seed)
        record |= {"search": searcher.record()} if searcher else {}
        record |= {"simulators": {args.simulator: [row.record() for row in there]}} if there else {}
        count = append_json(find_run(run_of(parse(args.candidate))[0]).evaluation_file, record)
        print(f"evaluation number {count} of this run; all of them are in evaluation.json")
    return 0


def evaluate_candidate(
    candidate: FoundPlayers, opponents: Sequence[Player], args: argparse.Namespace, settings: dict[str, int]
) -> tuple[list[Row], Searcher | None]:
    """Rows of a candidate against each opponent, with the search that the options ask for, and that search."""
    if args.search is None:
        return evaluate_players(candidate.env, candidate.players, opponents, **settings), None
    if not (candidate.trained or candidate.players[0].bot):
        raise UserError(f"{candidate.name} looks ahead by itself: leave --search out.")
    bot = candidate.players[0].bot or None
    who = model_of(args), bot, rollouts_of(args)
    searcher = make_searcher(candidate.env, candidate.config, opponents, settings_of(args), *who)
    beliefs = beliefs_of(candidate.run, searcher.search.settings)
    return evaluate_search(candidate.env, searcher, candidate.players, opponents, beliefs, **settings), searcher
