"""Checks of the section `league`."""

from __future__ import annotations

from typing import Any

from envs.errors import UserError, nearest
from jaxrl.config.schema import Config, LeagueConfig, SeatMix

SELF, SNAPSHOTS, BOTS = "self", "snapshots", "bots"  # what `league.opponents` may list beside names of bots
MAX_ENTRIES = 127  # controllers are i8


def check_league(config: Config) -> None:
    """Everything that can be said without the game.

    Raises:
      UserError: keys of the section that contradict each other, `seats`, or the number of games.
    """
    league = config.league
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
    if league.update_from == "evaluation" and not config.train.evaluate_every:
        raise UserError("league.update_from evaluation needs evaluations: set train.evaluate_every.")
    _check_weights(league)
    if league.snapshots:
        divides(config.train.num_envs, league.snapshots, "train.num_envs", "league.snapshots")


def _check_weights(league: LeagueConfig) -> None:
    if league.weights and league.weighting != "fixed":
        raise UserError("league.weights are read with league.weighting fixed only: set that, or leave them out.")
    for name, weight in league.weights.items():
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0.0 < weight < float("inf"):
            raise UserError(f"league.weights.{name} must be a number greater than 0, got {weight!r}.")


def check_league_game(config: Config, env: Any) -> None:
    """Compares the section with the game.

    Raises:
      UserError: an unknown opponent or weight, more learners than fit, or more opponents than are possible.
    """
    league = config.league
    if not league.opponents:
        return
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
            known = [SELF, SNAPSHOTS, BOTS, *env.bots]
            raise UserError(f"league.opponents: there is no bot {name!r}; {nearest(name, known)}")
    return tuple(names)


def divides(number: int, divisor: int, number_name: str, divisor_name: str) -> None:
    """Raises UserError with the nearest number that works if `divisor` does not divide `number`."""
    if number % divisor:
        raise UserError(
            f"{number_name} ({number}) must be divisible by {divisor_name} ({divisor}); "
            f"the nearest number that is, is {max(divisor, round(number / divisor) * divisor)}."
        )
