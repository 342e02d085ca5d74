"""The sections `seats` and `league`: opponents."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from jaxrl.players.spec import check_bots, refuse_searcher
from jaxrl_envs.shared.errors import UserError, nearest
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section, divides

SELF, SNAPSHOTS, BOTS = "self", "snapshots", "bots"  # what `league.opponents` may list beside names of bots
MAX_ENTRIES = 127  # controllers are i8


@dataclasses.dataclass(frozen=True)
class SeatMix:
    """One way to fill the seats of a game. It is drawn when a game starts and stays until it ends."""

    weight: float = option(1.0, "relative frequency of this mix among the games", above=0.0)
    learners: int | str = option(
        "all", "seats held by the learner (a number, or all); with teams: whole sides", minimum=1, choices=("all",)
    )
    bots: tuple[str, ...] = option((), "bots drawn uniformly for each of the other seats, or sides")


@dataclasses.dataclass(frozen=True)
class LeagueConfig(Section):
    """Opponents drawn per game from a pool: the policy itself, frozen snapshots of it and scripted bots.

    Off while `opponents` is empty. An opponent is drawn when a game starts and stays until it ends.
    """

    per_stage: ClassVar[bool] = True
    of_game: ClassVar[bool] = True

    opponents: tuple[str, ...] = option(
        (), "self (the current policy on all seats), snapshots, and names of bots, or bots for all of them; empty: off"
    )
    learners: int = option(
        1,
        "the learner's seats (with teams: whole sides) where others play; copies of one opponent hold the rest",
        minimum=1,
    )
    self_play: float = option(
        0.25, "share of the games against itself, if self is listed; 1 if it alone is", above=0.0, maximum=1.0
    )
    snapshots: int = option(
        0, "places for frozen policies and best responses; the oldest is overwritten, not met while it waits", minimum=0
    )
    snapshot_every: int = option(50, "updates between snapshots; 0: none are taken in training", minimum=0)
    cross_play: bool = option(
        False,
        "the seeds of a run (run.seeds) are a population that meets itself: the first snapshot of each is of the next "
        "seed, the second of the one after that, and so on in turn, its own among them",
    )
    margin: float = option(
        0.0,
        "rating points that the policy must gain for the next snapshot, and a best response be above it, to join; who "
        "is three times as many below it leaves, e.g. 100; 0: all join, and leave as the oldest",
        minimum=0.0,
    )
    weighting: str = option(
        "adaptive",
        "shares of the opponents but self, x = win rate of the learner with draws as half a win, d = distance of the "
        "ratings, E = points expected from it, t = age in tenths of the run (bots: 0): adaptive 1 - x, pfsp_hard "
        "(1 - x)^2, pfsp_even x (1 - x), elo exp(-|d| / 200), even exp(-|E - 1/2| / 0.5), recent exp(-0.5 t), each at "
        "least floor; fixed as in weights, without any all alike",
        choices=("fixed", "adaptive", "pfsp_hard", "pfsp_even", "elo", "even", "recent"),
    )
    weights: dict[str, float] = option(
        {}, "fixed: relative weights by bot, and of each snapshot under the name snapshots; 1 if left out", above=0.0
    )
    floor: float = option(0.05, "smallest relative weight before the weights are normalised", above=0.0, maximum=1.0)
    half_life: float = option(500.0, "games against an opponent after which a result counts half", above=0.0)
    update_from: str = option(
        "training",
        "which win rates the weights follow; evaluation: those of evaluations in training, for games of which few are "
        "played between two updates of the weights",
        choices=("training", "evaluation"),
    )

    def check(self, config: Any) -> None:
        """Keys that go together, and games that the pool divides."""
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
        if self.cross_play and self.margin:
            raise UserError(
                "league.margin asks whether the learner itself has gained, but league.cross_play takes snapshots of "
                "others: set league.margin to 0."
            )
        if self.cross_play and not (config.run.seeds > 1 and self.snapshots and self.snapshot_every):
            raise UserError(
                "league.cross_play lets the seeds of a run meet snapshots of each other: set run.seeds to 2 or more, "
                "and league.snapshots and league.snapshot_every."
            )
        if self.update_from == "evaluation" and not config.train.evaluate_every:
            raise UserError("league.update_from evaluation needs evaluations: set train.evaluate_every.")
        if self.weights and self.weighting != "fixed":
            raise UserError("league.weights are read with league.weighting fixed only: set that, or leave them out.")
        if self.snapshots:
            divides(config.train.num_envs, self.snapshots, "train.num_envs", "league.snapshots")

    def check_game(self, config: Any, env: Any) -> None:
        """Bots that the game has, and seats that are all taken."""
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

    def _check_seats(self, config: Any, env: Any) -> None:
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
