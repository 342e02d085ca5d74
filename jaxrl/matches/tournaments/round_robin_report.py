"""`jaxrl tournament`: a round robin among bots, runs, checkpoints and policy files."""

from __future__ import annotations

import contextlib
from pathlib import Path

from jaxrl.league.elo import Ratings
from jaxrl.matches.tournaments import known_ratings
from jaxrl.matches.tournaments.round_robin import RoundRobin
from jaxrl.matches.tournaments.tournament import Tournament
from jaxrl.players.spec import parse
from jaxrl.policies.find import FoundPlayers
from jaxrl.runs.directory import enable_compilation_cache, write_json
from jaxrl.runs.logs.console import ProgressLine
from jaxrl.runs.metric_log import duration, rate
from jaxrl.runs.stopwatch import Stopwatch
from jaxrl_envs.shared.errors import UserError


def report_round_robin(field: FoundPlayers, *, deals: int, seed: int, anchor: str | None, out: str | None) -> None:
    """Plays a round robin and prints its matrix and ratings. Raises UserError: the anchor does not take part, or a file
    cannot be read or written. `anchor`: a player who is rated 0, or a file of `known_ratings`; None: bot:random, or the
    first player. `out`: the folder for matrix.json, table.md and ratings.yaml."""
    enable_compilation_cache(field.config.run.cache_dir)
    known = _anchors(anchor, field)
    tournament = Tournament(field.env, field.players, deals=deals, seed=seed)
    seconds, results = play_all(tournament)
    ratings = results.ratings(known)
    title = f"{deals} deals x {field.env.num_sides} {field.env.side_name}s a pair, seed {seed}"
    text = _report(results, ratings, title, field.env.winning)
    print(text)
    print(f"\n{seconds:.0f} s, {rate(results.total_games, seconds):,.0f} games/s, without compilation")
    if out:
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "matrix.json", results.record() | {"ratings": ratings.record()})
        (folder / "table.md").write_text(text + "\n", encoding="utf-8")
        known_ratings.write(folder / "ratings.yaml", field, ratings)
        print(f"written to {folder}: matrix.json, table.md, ratings.yaml")


def _anchors(anchor: str | None, field: FoundPlayers) -> str | dict[str, float]:
    """Returns the player who is rated 0, or known ratings by name."""
    if anchor and Path(anchor).suffix in (".yaml", ".yml"):
        return known_ratings.fitting(Path(anchor), field)
    names = [player.name for player in field.players]
    fixed = parse(anchor).label if anchor else "random" if "random" in names else names[0]
    if fixed not in names:
        raise UserError(f"--anchor {anchor!r} does not take part: choose one of {', '.join(names)}.")
    return fixed


def play_all(tournament: Tournament) -> tuple[float, RoundRobin]:
    """Plays all pairs; the seconds that they took without compilation, and the results."""
    watch, total = Stopwatch(), len(tournament.pairs)

    def progress(done: int) -> str:
        left = f"{duration((total - done) * watch.seconds() / done)} left" if done else "compiling ..."
        return f"{done} of {total} pairs, {left}"

    with contextlib.closing(ProgressLine()) as line:
        line.show(lambda _: progress(0))
        results = tournament.run(lambda done, _: line.show(lambda _: progress(done)))
    return watch.seconds(), results


def _report(results: RoundRobin, ratings: Ratings, title: str, winning: str) -> str:
    note = ""
    if ratings.virtual_draws:
        note = (
            "\n\nA player, or a group of them, won or lost every game against all others: "
            f"{ratings.virtual_draws:g} drawn game was added to each pair, or its distance would be infinite."
        )
    return (
        f"{len(results.names)} players, {results.total_games:,} games: {title}; mean length "
        f"{results.mean_steps:.2f} steps\n\nwin/draw/loss in % of the row\n\n{results.matrix_table(ratings.order())}"
        f"\n\n{winning}"
        f"\n\nBradley-Terry ratings on the Elo scale, 95 % half widths of the distance to "
        f"{', '.join(ratings.names[i] for i in ratings.anchors)}\n\n{results.rating_table(ratings)}{note}"
    )
