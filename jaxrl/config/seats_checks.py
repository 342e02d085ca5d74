"""Checks of who holds the seats: the sections `seats` and `league`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jaxrl.config.numbers import divides
from jaxrl.config.schema import Config, LeagueConfig, SeatMix
from jaxrl.config.searchers import refuse_searcher, worlds_of
from jaxrl_envs.shared.errors import UserError, nearest

SELF, SNAPSHOTS, BOTS = "self", "snapshots", "bots"  # what `league.opponents` may list beside names of bots
MAX_ENTRIES = 127  # controllers are i8


def check_league(config: Config) -> None:
    """Everything that can be said without the game.

    Raises:
      UserError: keys of the section that contradict each other, `seats`, or the number of games.
    """
    league = config.league
    if not config.seats:
        raise UserError("seats must hold at least one mix, e.g. [{weight: 1, learners: all, bots: []}].")
    if not league.opponents:
        if league.snapshots:
            raise UserError("league.snapshots needs league.opponents: [self, snapshots] with the bots you want.")
        return
    if config.seats != (SeatMix(),):
        raise UserError("seats and league.opponents both say who holds the seats: set seats to [{learners: all}].")
    if len(set(league.opponents)) < len(league.opponents):
        raise UserError("league.opponents lists a name twice.")
    if (SNAPSHOTS in league.opponents) != (league.snapshots > 0):
        raise UserError(
            f"league.snapshots is {league.snapshots}: list snapshots in league.opponents and set league.snapshots to "
            "how many are kept, e.g. 8, or do neither."
        )
    if league.self_play == 1.0 and SELF in league.opponents and len(league.opponents) > 1:
        raise UserError("league.self_play must be less than 1, because league.opponents lists others too.")
    if league.margin and not league.snapshots:
        raise UserError("league.margin says who joins and leaves the pool: it needs league.snapshots, e.g. 8.")
    if league.cross_play and league.margin:
        raise UserError(
            "league.margin asks whether the learner itself has gained, but league.cross_play takes snapshots of "
            "others: set league.margin to 0."
        )
    if league.cross_play and not (config.run.seeds > 1 and league.snapshots and league.snapshot_every):
        raise UserError(
            "league.cross_play lets the seeds of a run meet snapshots of each other: set run.seeds to 2 or more, and "
            "league.snapshots and league.snapshot_every."
        )
    if league.update_from == "evaluation" and not config.train.evaluate_every:
        raise UserError("league.update_from evaluation needs evaluations: set train.evaluate_every.")
    if league.weights and league.weighting != "fixed":
        raise UserError("league.weights are read with league.weighting fixed only: set that, or leave them out.")
    if league.snapshots:
        divides(config.train.num_envs, league.snapshots, "train.num_envs", "league.snapshots")


def check_seats(config: Config, env: Any) -> None:
    """Compares both sections with the game.

    Raises:
      UserError: an unknown bot, opponent or weight, more learners than fit, seats that nobody holds, or more opponents
        than are possible.
    """
    if config.league.opponents:
        _check_league_seats(config, env)
    for index, mix in enumerate(config.seats):
        path, sides = f"seats.{index}", env.num_sides
        learners = sides if mix.learners == "all" else int(mix.learners)
        if learners > sides:
            raise UserError(f"{path}.learners is {learners}, but {config.env.id} has {sides} {env.side_name}s here.")
        if learners < sides and not mix.bots:
            raise UserError(
                f"{path}.bots is empty, but {sides - learners} {env.side_name}s are left for bots; "
                f"choose from {', '.join(env.bots)} or set {path}.learners to all."
            )
        check_bots(mix.bots, env, f"{path}.bots")


def check_bots(names: Iterable[str], env: Any, path: str, *, searchers: bool = False) -> None:
    """Raises UserError if the game has not all of these bots; names of searchers pass where they are allowed."""
    for name in names:
        if searchers and worlds_of(name) is not None:
            continue
        refuse_searcher(name, path)
        if name not in env.bots:
            raise UserError(f"{path}: there is no bot {name!r}; {nearest(name, env.bots)}")


def _check_league_seats(config: Config, env: Any) -> None:
    league = config.league
    bots = league_bots(league, env)
    others = env.num_sides - 1
    if others < 1:
        raise UserError(f"league.opponents: {config.env.id} has one {env.side_name} only, so leave the league out.")
    if league.learners > others:
        raise UserError(
            f"league.learners is {league.learners}, but {config.env.id} has {env.num_sides} {env.side_name}s here."
        )
    if len(bots) + league.snapshots > MAX_ENTRIES:
        raise UserError(f"league: bots and snapshots must be at most {MAX_ENTRIES} together.")
    known = [*bots, *([SNAPSHOTS] if league.snapshots else [])]
    for name in league.weights:
        if name not in known:
            raise UserError(f"league.weights: there is no opponent {name!r}; {nearest(name, known)}")


def league_bots(league: LeagueConfig, env: Any) -> tuple[str, ...]:
    """The scripted opponents of a league in order, ``bots`` replaced by all bots of the game.

    Raises:
      UserError: a bot that the game does not have.
    """
    names: dict[str, None] = {}
    for name in league.opponents:
        if name == BOTS:
            names |= dict.fromkeys(env.bots)
        elif name in env.bots:
            names[name] = None
        elif name not in (SELF, SNAPSHOTS):
            refuse_searcher(name, "league.opponents")
            known = [SELF, SNAPSHOTS, BOTS, *env.bots]
            raise UserError(f"league.opponents: there is no bot {name!r}; {nearest(name, known)}")
    return tuple(names)
