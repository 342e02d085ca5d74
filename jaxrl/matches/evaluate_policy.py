"""`jaxrl evaluate`: a run, a policy file or a bot against bots and another one, on fixed deals."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.matches.evaluate import evaluate_players, evaluation_record, in_simulator, opponent_names
from jaxrl.matches.evaluate_search import Searcher, beliefs_of, evaluate_search, make_searcher, warn_of_scale
from jaxrl.matches.tables import Row, format_differences, format_side_by_side, format_table
from jaxrl.players.player import Player
from jaxrl.players.spec import parse, run_of
from jaxrl.policies.find import FoundPlayers, Lookup, find_opponents, find_player
from jaxrl.runs.directory import append_json, enable_compilation_cache, find_run
from jaxrl.runs.logs.console import waiting
from jaxrl.search.settings import SearchRequest
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError

SIMULATED = 256  # games side by side, on all devices, in another simulator, which may keep an arena for each


def evaluate(
    name: str,
    lookup: Lookup,
    *,
    opponents: Sequence[str] | None = None,
    against: str | None = None,
    deals: int | None = None,
    seed: int = EVALUATION_SEED,
    simulator: str = "",
    search: SearchRequest | None = None,
) -> None:
    """Evaluates a player, prints the tables and, if it is a run, keeps them in its evaluation.json.

    Args:
      name, lookup: the player, see `find_player`.
      opponents, against: names of opponents, by default those of the configuration; and of a rival on the same deals.
      deals, seed: deals per opponent and their seed, by default those of the configuration.
      simulator: another program that plays the same deals too.
      search: search by which the player looks ahead.

    Raises:
      UserError: a player is unknown, or cannot be evaluated so.
    """
    candidate = _found(name, lookup)
    config, env = candidate.config, candidate.env
    enable_compilation_cache(config.run.cache_dir)
    if (deals := config.evaluate.deals if deals is None else deals) < 2:
        raise UserError(f"--deals must be at least 2, got {deals}.")
    names = list(opponents or opponent_names(config, env))
    others = find_opponents(names, lookup, candidate)
    rivals = find_player(against, lookup, like=candidate).players if against else []
    settings = {"deals": deals, "seed": seed}
    if search is not None and candidate.run is not None:
        warn_of_scale(config, search.settings)
    simulated = in_simulator(env, simulator) if simulator else None
    games = f"{deals} deals x {env.num_sides} {env.side_name}s"
    with waiting(f"compiling, then playing {games} against {', '.join(names)} ..."):
        rows, searcher = evaluate_candidate(candidate, others, search, settings)
        paired = evaluate_players(env, rivals[:1], others, **settings) if rivals else []
        direct = evaluate_candidate(candidate, rivals[:1], search, settings)[0] if rivals and env.num_sides > 1 else []
    there: list[Row] = []
    if simulated is not None:
        lanes = max(1, SIMULATED // len(jax.local_devices()))
        with waiting(f"the same in {simulator} ..."):
            for each in (others, rivals[:1]) if direct else (others,):
                there += evaluate_players(simulated, candidate.players, each, lanes=lanes, **settings)
    policy = "search" if searcher else "greedy" if config.evaluate.greedy and not lookup.sampled else "sampled"
    print(f"{name}: {searcher or f'{policy} policy'}, {games}, evaluation seed {seed}")
    if candidate.run is not None:
        stage = f", in stage {candidate.run.stage!r}" if candidate.run.stage else ""
        print(f"checkpoint after {candidate.run.update} updates{stage}, parameters {candidate.run.params_hash}")
    print(_tables(env, rows, paired, direct, there, simulator))
    if candidate.elsewhere:
        print(f"with {config.evaluation_options}, on which the policy was not measured before: not kept")
    elif candidate.run is not None:
        record = evaluation_record(candidate.run, rows + paired, direct, policy=policy, seed=seed)
        record |= {"search": searcher.record()} if searcher else {}
        record |= {"simulators": {simulator: [row.record() for row in there]}} if there else {}
        count = append_json(find_run(run_of(parse(name))[0]).evaluation_file, record)
        print(f"evaluation number {count} of this run; all of them are in evaluation.json")


def _found(name: str, lookup: Lookup) -> FoundPlayers:
    """Returns the candidate; a terminal shows meanwhile what takes time."""
    with waiting(f"reading {name}, whose game is compiled first ...", again=True):
        return find_player(name, lookup)


def _tables(env: Env, rows: list[Row], paired: list[Row], direct: list[Row], there: list[Row], simulator: str) -> str:
    """Returns the tables of a candidate.

    Args:
      env: the game.
      rows: the candidate's results.
      paired: its rival's results on the same deals.
      direct: results of the two against each other.
      there: `rows` and `direct` as played by another simulator; empty without one.
      simulator: its name.
    """
    found = [format_table(rows + paired, env), *([format_table(direct, env)] if direct else [])]
    pairs = [(row, other) for row in rows for other in paired if row.opponent == other.opponent]
    found += [format_differences(pairs)] if paired else []
    both = zip(rows + direct if there else [], there, strict=True)
    return "\n\n".join([*found, *(format_side_by_side(row, other, ("jaxrl", simulator)) for row, other in both)])


def evaluate_candidate(
    candidate: FoundPlayers, opponents: Sequence[Player], search: SearchRequest | None, settings: dict[str, int]
) -> tuple[list[Row], Searcher | None]:
    """Rows of a candidate against each opponent, and the search that it was evaluated with."""
    if search is None:
        return evaluate_players(candidate.env, candidate.players, opponents, **settings), None
    if not (candidate.trained or candidate.players[0].bot):
        raise UserError(f"{candidate.name} looks ahead by itself: leave --search out.")
    bot = candidate.players[0].bot or None
    searcher = make_searcher(candidate.env, candidate.config, opponents, search, bot)
    beliefs = beliefs_of(candidate.run, searcher.search.settings)
    return evaluate_search(candidate.env, searcher, candidate.players, opponents, beliefs, **settings), searcher
