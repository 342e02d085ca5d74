"""The league between two compiled calls of a training: exploiters join it, and its members are shown.

Main agents and exploiters take turns: every `exploit.every` updates the main agent rests while exploiters are trained
against it alone (`jaxrl.training.best_response`). The best one joins the pool as an opponent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from jaxrl.league.elo import Ratings, bradley_terry
from jaxrl.league.pool import EXPLOITER, FIRST_RATING, League, PoolState
from jaxrl.league.seats import LEARNER
from jaxrl.matches.tables import align, percent
from jaxrl.runs.directory import each_seed, seed_names
from jaxrl.training.best_response import Exploit
from jaxrl.training.program import Program
from jaxrl.training.snapshots import insert_snapshot
from jaxrl.training.state import TrainState


def join(program: Program, state: TrainState, found: Sequence[Exploit], update: int) -> TrainState:
    """Adds the best response of each seed to its pool, if it is `league.margin` better than the policy.

    Args:
      program: the training, with at least one slot.
      state: after `update` updates.
      found: by seed.
      update: when they were trained.
    """
    params = jax.tree.map(lambda *leaves: np.stack(leaves), *[exploit.params for exploit in found])
    params = params if len(found) > 1 else found[0].params
    margin = program.config.league.margin
    leads = [exploit.lead if not margin or exploit.lead >= margin else None for exploit in found]
    return insert_snapshot(program, state, params, update, role=EXPLOITER, leads=leads)


def tables(program: Program, state: TrainState, name: str, update: int) -> list[str]:
    """Tables of the league's members, one for each seed; [] without a league."""
    seats, seeds = program.setup.seats, program.config.run.seeds
    if not isinstance(seats, League) or state.pool is None:
        return []
    pools = each_seed(jax.device_get(state.pool.replace(snapshots=None)), seeds)
    return [
        f"the league of {each} after update {update}\n{members_table(seats, pool)}"
        for each, pool in zip(seed_names(name, seeds), pools, strict=True)
    ]


def member_ratings(league: League, pool: PoolState) -> Ratings:
    """Fits Bradley-Terry ratings of the learner and the opponents it met to their recent results (`league.half_life`).

    The fit assumes constant strength, but the learner has changed over its games, and older ones count less, which
    makes the intervals somewhat too wide.

    Args:
      league: the configured pool.
      pool: its state on the host, of one seed.

    Returns:
      The first bot at 1000 if it was met, else the learner at its running rating.
    """
    games, score = (np.asarray(leaf, np.float64) for leaf in (pool.games, pool.score))
    met = np.asarray(league.present(pool)) & (games > 0)
    met[LEARNER] = True
    numbers = np.flatnonzero(met)
    names = [league.names[number] for number in numbers]
    points = np.zeros((len(names), len(names)))
    points[0, 1:] = score[numbers[1:]]
    points[1:, 0] = (games - score)[numbers[1:]]
    by_bot = int(bool(league.bots) and met[1])
    fit = bradley_terry(points, names, names[by_bot], FIRST_RATING if by_bot else float(pool.elo[LEARNER]))
    own = np.arange(len(names)) == LEARNER  # several opponents together are ahead by the handicap
    moved = np.where(own, league.handicap, 0.0) if by_bot else np.where(own, 0.0, -league.handicap)
    return dataclasses.replace(fit, rating=fit.rating + moved)


def members_table(league: League, pool: PoolState) -> str:
    """All members in Markdown: the learner, the bots in their order, and the others from the oldest on.

    Args:
      league: the configured pool.
      pool: its state on the host, of one seed.
    """
    fit, share = member_ratings(league, pool), np.asarray(league.shares(pool))
    first = 1 + len(league.bots)
    slots = [first + int(slot) for slot in np.argsort(pool.order, kind="stable") if pool.born[slot] >= 0]
    cells = [["member", "role", "since update", "share %", "games", "main scores %", "rating", "95 %"]]
    for number in (*range(first), *slots):
        name = league.names[number]
        role, since = ("main" if number == LEARNER else "bot"), "-"
        if number >= first:
            role = "exploiter" if pool.role[number - first] == EXPLOITER else "past"
            since = str(pool.born[number - first])
        games = "-" if number == LEARNER else f"{pool.games[number]:.0f}"
        cells.append([name, role, since, percent(share[number]), games, "-", "-", "-"])
        if name in fit.names:
            index = fit.names.index(name)
            cells[-1][-3] = "-" if number == LEARNER else percent(float(pool.score[number] / pool.games[number]))
            cells[-1][-2] = f"{fit.rating[index]:.0f}"
            cells[-1][-1] = "anchor" if index == fit.anchor else f"± {fit.half[index]:.0f}"
    return align(cells)
