"""The sections `seats` and `league`: opponents."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, ClassVar

from jaxrl.players.spec import check_bots
from jaxrl_envs.shared.errors import UserError, nearest
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section, divides

if TYPE_CHECKING:
    from jaxrl.config.schema import Config
    from jaxrl_envs.contract.env import Env

SELF, SNAPSHOTS, BOTS = "self", "snapshots", "bots"  # what `league.opponents` may list beside names of bots
MAX_ENTRIES = 127  # controllers are i8


@dataclasses.dataclass(frozen=True)
class SeatMix:
    """One way to fill the seats of a game. It is drawn when a game starts and stays until it ends."""

    weight: float = option(1.0, "relative frequency of this mix", above=0.0)
    learners: int | str = option(
        "all", "seats of the learner (a number, or all); in team games: whole sides", minimum=1, choices=("all",)
    )
    bots: tuple[str, ...] = option((), "bots for the other seats or sides, one drawn uniformly for each")


@dataclasses.dataclass(frozen=True)
class LeagueConfig(Section):
    """Opponents drawn per game from a pool: the policy itself, frozen snapshots of it and scripted bots.

    Off while `opponents` is empty. An opponent is drawn when a game starts and stays until it ends.
    """

    per_stage: ClassVar[bool] = True
    of_game: ClassVar[bool] = True

    opponents: tuple[str, ...] = option(
        (),
        "self (the current policy in all seats), snapshots, and names of bots, or bots for all of "
        "them; empty: no league",
    )
    learners: int = option(
        1,
        "seats of the learner against others (in team games: whole sides); more: more decisions to "
        "learn from; copies of one opponent hold the rest",
        minimum=1,
    )
    self_play: float = option(
        0.25, "share of games against itself, if self is listed; 1 if nothing else is", above=0.0, maximum=1.0
    )
    snapshots: int = option(
        0,
        "slots for frozen policies and best responses; the oldest is overwritten next, and not drawn meanwhile",
        minimum=0,
    )
    snapshot_every: int = option(50, "updates between snapshots; 0: none during training", minimum=0)
    margin: float = option(
        0.0,
        "rating points that a policy, or a best response, must gain to join the pool, e.g. 100; "
        "members three times as far below leave; 0: all join",
        minimum=0.0,
    )
    weighting: str = option(
        "adaptive",
        "weights of opponents by win rate x and rating distance d: adaptive 1 - x, pfsp_hard (1 - x)^2, "
        "pfsp_even x (1 - x), elo exp(-|d| / 200), each at least floor; fixed: league.weights, equal without any",
        choices=("fixed", "adaptive", "pfsp_hard", "pfsp_even", "elo"),
    )
    weights: dict[str, float] = option(
        {},
        "for weighting fixed: relative weights by bot, and of each snapshot as `snapshots`; 1 where left out",
        above=0.0,
    )
    floor: float = option(0.05, "smallest relative weight, before normalisation", above=0.0, maximum=1.0)
    half_life: float = option(500.0, "games against an opponent after which a result counts half", above=0.0)

    def check(self, config: Config) -> None:
        """Rejects keys that contradict each other, and games that the snapshots do not divide."""
        if not config.seats:
            raise UserError("seats must hold at least one mix, e.g. [{weight: 1, learners: all, bots: []}].")
        if not self.opponents:
            if self.snapshots:
                raise UserError("league.snapshots needs league.opponents: [self, snapshots] with the bots you want.")
            return
        if config.seats != (SeatMix(),):
            raise UserError("seats and league.opponents both say who holds the seats: set seats to [{learners: all}].")
        if len(set(self.opponents)) < len(self.opponents):
            raise UserError("league.opponents lists a name twice.")
        if (SNAPSHOTS in self.opponents) != (self.snapshots > 0):
            raise UserError(
                f"league.snapshots is {self.snapshots}: list snapshots in league.opponents and set league.snapshots to "
                "how many are kept, e.g. 8, or do neither."
            )
        if self.self_play == 1.0 and SELF in self.opponents and len(self.opponents) > 1:
            raise UserError("league.self_play must be less than 1, because league.opponents lists others too.")
        if self.margin and not self.snapshots:
            raise UserError("league.margin says who joins and leaves the pool: it needs league.snapshots, e.g. 8.")
        if self.weights and self.weighting != "fixed":
            raise UserError("league.weights are read with league.weighting fixed only: set that, or leave them out.")
        if self.snapshots:
            divides(config.train.num_envs, self.snapshots, "train.num_envs", "league.snapshots")

    def check_game(self, config: Config, env: Env) -> None:
        """Rejects bots that the game lacks, and seats that stay empty."""
        if self.opponents:
            self._check_seats(config, env)
        for index, mix in enumerate(config.seats):
            path, sides = f"seats.{index}", env.num_sides
            learners = sides if mix.learners == "all" else int(mix.learners)
            if learners > sides:
                raise UserError(
                    f"{path}.learners is {learners}, but {config.env.id} has {sides} {env.side_name}s here."
                )
            if learners < sides and not mix.bots:
                raise UserError(
                    f"{path}.bots is empty, but {sides - learners} {env.side_name}s are left for bots; "
                    f"choose from {', '.join(env.bots)} or set {path}.learners to all."
                )
            check_bots(mix.bots, env, f"{path}.bots")

    def _check_seats(self, config: Config, env: Env) -> None:
        check_bots(self.opponents, env, "league.opponents", also=(SELF, SNAPSHOTS, BOTS))
        bots = league_bots(self, env)
        others = env.num_sides - 1
        if others < 1:
            raise UserError(f"league.opponents: {config.env.id} has one {env.side_name} only, so leave the league out.")
        if self.learners > others:
            raise UserError(
                f"league.learners is {self.learners}, but {config.env.id} has {env.num_sides} {env.side_name}s here."
            )
        if len(bots) + self.snapshots > MAX_ENTRIES:
            raise UserError(f"league: bots and snapshots must be at most {MAX_ENTRIES} together.")
        known = [*bots, *([SNAPSHOTS] if self.snapshots else [])]
        for name in self.weights:
            if name not in known:
                raise UserError(f"league.weights: there is no opponent {name!r}; {nearest(name, known)}")


def league_bots(league: LeagueConfig, env: Env) -> tuple[str, ...]:
    """Returns the scripted opponents of a league in order, ``bots`` replaced by all bots of the game."""
    listed = (env.bots if name == BOTS else (name,) for name in league.opponents if name not in (SELF, SNAPSHOTS))
    return tuple(dict.fromkeys(itertools.chain(*listed)))
