"""Who is in the pool of a training, with which role, and how strong."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxrl.league.elo import Ratings, bradley_terry
from jaxrl.league.pool import EXPLOITER, FIRST_RATING, League, PoolState
from jaxrl.league.seats import LEARNER
from jaxrl.matches.tables import align, percent


def member_ratings(league: League, pool: PoolState) -> Ratings:
    """A Bradley-Terry fit of the results that count (`league.half_life`), of the learner and everybody it met.

    The fit takes players as fixed and results as games: the learner's have been played over a while, in which it has
    changed, and older ones count less, which makes intervals somewhat too wide.

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
    own = np.arange(len(names)) == LEARNER  # the others were as strong as the handicap says more, together
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
