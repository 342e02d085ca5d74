"""`jaxrl evaluate`: a run, a policy file or a bot against bots and another one, on fixed deals."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import jax

from jaxrl import config as configs
from jaxrl import zoo
from jaxrl.league.config import BOTS
from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.matches.evaluate import evaluate_players, evaluation_record, in_simulator, opponent_names
from jaxrl.matches.evaluate_search import Searcher, beliefs_of, evaluate_search, make_searcher, warn_of_scale
from jaxrl.matches.tables import Row, by_candidate, format_differences, format_side_by_side, format_table, overall
from jaxrl.players.player import Player, bot_player
from jaxrl.players.spec import SEARCHER, parse, run_of
from jaxrl.policies.find import FoundPlayers, Lookup, find_opponents, find_player
from jaxrl.runs.directory import append_json, enable_compilation_cache, find_run
from jaxrl.runs.logs.console import waiting
from jaxrl.search.searchers import scripted_player
from jaxrl.search.settings import SearchRequest
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError

SIMULATED = 256  # games side by side, on all devices, in another simulator, which may keep an arena for each


def evaluate(
    name: str,
    lookup: Lookup,
    *,
    opponents: Sequence[str] | None = None,
    panel: bool = False,
    against: str | None = None,
    deals: int | None = None,
    seed: int = EVALUATION_SEED,
    simulator: str = "",
    search: SearchRequest | None = None,
) -> None:
    """Evaluates a player, prints the tables and, if it is a run, keeps them in its evaluation.json. Raises UserError: a
    player is unknown, or cannot be evaluated so.

    Args:
      opponents, against: names of opponents, by default those of the configuration; and of a rival on the same deals.
      panel: whether the opponents are those of `find_panel`.
      deals, seed: deals per opponent and their seed, by default those of the configuration.
      simulator: another program that plays the same deals too.
      search: search by which the player looks ahead.
    """
    candidate = _found(name, lookup)
    config, env = candidate.config, candidate.env
    enable_compilation_cache(config.run.cache_dir)
    if (deals := config.evaluate.deals if deals is None else deals) < 2:
        raise UserError(f"--deals must be at least 2, got {deals}.")
    names = opponents or opponent_names(config, env)
    others = find_panel(candidate, lookup) if panel else find_opponents(names, lookup, candidate)
    rivals = find_player(against, lookup, like=candidate).players if against else []
    settings = {"deals": deals, "seed": seed}
    if search is not None and candidate.run is not None and not env.simultaneous:
        warn_of_scale(config, search.settings)
    simulated = in_simulator(env, simulator) if simulator else None
    games = f"{deals} deals x {env.num_sides} {env.side_name}s"
    with waiting(f"compiling, then playing {games} against {', '.join(each.name for each in others)} ..."):
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
    note = _about_strangers(met_in_training(candidate, others), rows) if panel else ""
    print(_tables(env, rows, paired, direct, there, simulator) + note)
    if candidate.elsewhere:
        print(f"with {config.evaluation_options}, on which the policy was not measured before: not kept")
    elif candidate.run is not None:
        record = evaluation_record(candidate.run, rows + paired, direct, policy=policy, seed=seed)
        record |= {"search": searcher.record()} if searcher else {}
        record |= {"simulators": {simulator: [row.record() for row in there]}} if there else {}
        count = append_json(find_run(run_of(parse(name))[0]).evaluation_file, record)
        print(f"evaluation number {count} of this run; all of them are in evaluation.json")


def find_panel(candidate: FoundPlayers, lookup: Lookup) -> list[Player]:
    """Returns the players that every policy of a game is measured against: its bots without the random one, a searcher
    with 200 worlds where the game can be searched, and the policies of the zoo that play the same game."""
    env = candidate.env
    found = [bot_player(env, name) for name in env.bots if name != "random"]
    with contextlib.suppress(UserError):  # it cannot be searched
        found.append(scripted_player(env, f"{SEARCHER}200"))
    for name in (f"{zoo.PREFIX}{each}" for each in zoo.names() if zoo.figures(each)["game"] == env.id):
        with contextlib.suppress(UserError):  # its options of the game are others
            found += find_player(name, lookup, candidate).players if name != candidate.name else []
    if not found:
        raise UserError(f"{env.id} has random play alone, which is no panel: name --opponents.")
    return found


def _about_strangers(met: Sequence[str], rows: Sequence[Row]) -> str:
    """Returns lines that name the opponents met in training, and summarise each candidate's wins against the others."""
    text = f"\nmet in training: {', '.join(met) or 'none of them'}"
    for who, own in by_candidate(rows).items() if met else ():
        if rest := overall([row for row in own if row.opponent not in met]):
            least = f"the least {rest.minimum_win:.1%} against {rest.minimum.opponent}"
            text += f"\n{who} against strangers: median {rest.median_win:.1%}, {least}"
    return text


def met_in_training(candidate: FoundPlayers, others: Sequence[Player]) -> list[str]:
    """Returns the names of the bots among some players that a trained candidate has played against."""
    stages = configs.stages(candidate.config) if candidate.trained else ()
    met = {name for stage in stages for mix in stage.config.seats for name in mix.bots}
    met |= {name for stage in stages for name in stage.config.league.opponents}
    return [each.name for each in others if each.bot and (each.name in met or BOTS in met)]


def _found(name: str, lookup: Lookup) -> FoundPlayers:
    """Returns the candidate; a terminal shows meanwhile what takes time."""
    with waiting(f"reading {name}, whose game is compiled first ...", again=True):
        return find_player(name, lookup)


def _tables(env: Env, rows: list[Row], paired: list[Row], direct: list[Row], there: list[Row], simulator: str) -> str:
    """Returns the tables of a candidate. `paired`: its rival's results on the same deals. `direct`: results of the two
    against each other. `there`: `rows` and `direct` as played by another simulator; empty without one."""
    found = [format_table(rows + paired, env), *([format_table(direct, env)] if direct else [])]
    pairs = [(row, other) for row in rows for other in paired if row.opponent == other.opponent]
    found += [format_differences(pairs)] if paired else []
    both = zip(rows + direct if there else [], there, strict=True)
    return "\n\n".join([*found, *(format_side_by_side(row, other, ("jaxrl", simulator)) for row, other in both)])


def evaluate_candidate(
    candidate: FoundPlayers, opponents: Sequence[Player], search: SearchRequest | None, settings: dict[str, int]
) -> tuple[list[Row], Searcher | None]:
    """Returns rows of a candidate against each opponent, and the search that it was evaluated with."""
    if search is None:
        return evaluate_players(candidate.env, candidate.players, opponents, **settings), None
    if not (candidate.trained or candidate.players[0].bot):
        raise UserError(f"{candidate.name} looks ahead by itself: leave --search out.")
    bot = candidate.players[0].bot or None
    searcher = make_searcher(candidate.env, candidate.config, opponents, search, bot)
    beliefs = beliefs_of(candidate.run, searcher.search.settings)
    return evaluate_search(candidate.env, searcher, candidate.players, opponents, beliefs, **settings), searcher
