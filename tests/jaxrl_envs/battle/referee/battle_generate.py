"""Seeded random battles by the referee, as records in exactly the format of the golden battles, which
`tests.support.generate.write(path, records(seed, count))` writes.

Rosters with every ability, sides of eight units, units of twenty models, maps with walls and every setting occur.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.jaxrl_envs.battle.referee.battle import CHARGE, FALL_BACK, MOVE, PROTECT, SNAP, Battle
from tests.jaxrl_envs.battle.referee.battle_geometry import covered
from tests.jaxrl_envs.battle.referee.battle_observe import observation
from tests.jaxrl_envs.battle.referee.battle_script import STYLES, choices

PLAYERS = ("random", *STYLES, "mixed", "noisy", "brawl")


def _amount(rng: random.Random, high: int) -> int | str:
    if rng.random() < 0.05:
        return 20 if high > 3 else 12  # the greatest allowed
    if rng.random() < 0.6:
        return rng.randint(1, high)
    plus = rng.choice(["", "", "+1", "+2", "+6"])
    return f"{rng.choice(['', '', '2', '3'])}D{rng.choice([3, 6])}{plus}"


def _weapon(rng: random.Random, *, ranged: bool) -> dict:
    names = ["lethal_hits", "sustained_hits", "devastating_wounds", "twin_linked"]
    names += ["rapid_fire", "assault", "heavy", "torrent", "blast"]
    chosen = [name for name in names if rng.random() < 0.25]
    numbers = ("sustained_hits", "rapid_fire")
    weapon = {
        "A": _amount(rng, 5),
        "skill": rng.randint(2, 6),
        "S": rng.choice([rng.randint(1, 12), rng.randint(1, 12), rng.randint(1, 24)]),
        "AP": rng.choice([0, 0, -1, -1, -2, -3, -6]),
        "D": _amount(rng, 3),
        "abilities": {name: rng.randint(1, 3) if name in numbers else True for name in chosen},
    }
    return {**weapon, "range": rng.choice([1, 6, 9, 12, 12, 18, 24, 24, 30, 48])} if ranged else weapon


def _unit(rng: random.Random, number: int, most: int) -> dict:
    unit = {
        "name": f"unit {number}",
        "models": min(most, rng.choice([1, 1, 2, 3, 5, 5, 6, 10, 11, 20])),
        "M": rng.choice([1, 4, 5, 6, 6, 7, 8, 9, 10, 12, 14, 20]),
        "T": rng.choice([rng.randint(1, 8), rng.randint(1, 16)]),
        "Sv": rng.randint(2, 7),
        "Inv": rng.choice([0, 0, 0, 2, 4, 5, 6]),
        "W": rng.choice([1, 1, 2, 2, 3, 4, 7, 12, 24]),
        "Ld": rng.randint(2, 12),
        "OC": rng.choice([0, 1, 1, 2, 3, 10]),
        "regen": rng.choice([0, 0, 0, 3, 6]),
        "kp": rng.choice([0, 1, 1, 2, 5]),
        "keywords": [word for word in ("infantry", "smoke", "fly", "vehicle") if rng.random() < 0.4],
    }
    if rng.random() < 0.8:
        unit["ranged"] = _weapon(rng, ranged=True)
    if rng.random() < 0.85:
        unit["melee"] = _weapon(rng, ranged=False)
    return unit


def roster(rng: random.Random) -> dict:
    """A roster of 1 to 8 units."""
    units = rng.choice([1, 2, 3, 4, 5, 6, 8, 8])
    return {"name": "generated", "units": [_unit(rng, i, 20) for i in range(units)]}


def board(rng: random.Random) -> dict:
    """A map of any size, with barricades and walls; not always symmetric."""
    rows, cols = rng.choice(
        [(16, 24), (24, 36), (40, 60), (40, 60), (64, 64), (rng.randint(16, 64), rng.randint(24, 64))]
    )
    terrain: dict[str, list[list[int]]] = {"barricades": [], "walls": []}
    taken: set[tuple[int, int]] = set()
    for name in ("barricades", "walls"):
        for _ in range(rng.choice([0, 0, 3, 6, 10])):
            height, width = rng.choice([(1, 1), (1, 4), (4, 1), (2, 2), (8, 1), (1, 8), (3, 5)])
            row, col = rng.randrange(rows - height), rng.randrange(cols - width)
            rectangle = [row, col, row + height - 1, col + width - 1]
            if not covered([rectangle]) & taken:
                taken |= covered([rectangle])
                terrain[name].append(rectangle)
    objectives = []
    for _ in range(rng.choice([0, 1, 2, 5, 8])):
        place = [rng.randrange(2 * rows - 1) / 2, rng.randrange(2 * cols - 1) / 2]
        objectives.append([*place, rng.choice([1, 3, 3, 5, 12])])
    return {"rows": rows, "cols": cols, **terrain, "objectives": objectives}


def config(rng: random.Random) -> dict:
    """Settings and one to three maps."""
    boards = [board(rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    deepest = min(tree["cols"] for tree in boards) // 2 - 2
    found = {
        "maps": boards,
        "zone": rng.choice([deepest, rng.randint(4, deepest)]),
        "mission": rng.choice(["hold", "hold", "annihilation"]),
        "rounds": rng.choice([1, 2, 3, 5, 5, 7]),
        "deploy": rng.choice(["roll", 0, 1]),
        "first": rng.choice(["roll", 0, 1]),
        "cp_start": rng.choice([0, 0, 1, 6, 12]),
    }
    optional = {
        "vp_each": rng.choice([0, 1, 4, 5]),
        "vp_cap": rng.choice([3, 12, 15]),
        "score_from": rng.choice([1, 2, 3]),
        "tiebreak": rng.choice(["none", "damage"]),
        "reward_vp": rng.choice([0, 0.01, 0.5]),
    }
    return {**found, **{key: value for key, value in optional.items() if rng.random() < 0.5}}


def choose(rng: random.Random, player: str, battle: Battle, scripts: list[int]) -> int:
    """The action of one of PLAYERS; `brawl` seeks every fight and every stratagem."""
    asked = battle.decision
    if player == "random":
        return battle.random()
    if player == "mixed":
        return scripts[battle.mixed_style(asked.side)]
    if player in STYLES:
        return scripts[STYLES.index(player)]
    if player == "noisy":
        return rng.choice(asked.legal) if rng.random() < 0.3 else rng.choice(scripts)
    if asked.kind in (MOVE, FALL_BACK) or rng.random() < 0.1:
        return rng.choice([scripts[1], rng.choice(asked.legal)])
    if asked.kind in (CHARGE, SNAP, PROTECT) or rng.random() < 0.8:
        return rng.choice([action for action in asked.legal if action])
    return rng.choice(asked.legal)


def _begin(rng: random.Random, identity: dict) -> tuple[dict, list[dict], Battle]:
    """A battle in which both sides find room."""
    while True:
        settings, rosters = config(rng), [roster(rng), roster(rng)]
        try:
            return settings, rosters, Battle(settings, rosters, **identity)
        except ValueError:  # no legal deployment
            continue


def record(seed: int, number: int, watched: float = 0.05) -> dict:
    """One battle as a golden record.

    Args:
      seed, number: of the battle; equal ones give equal battles.
      watched: share of decisions with observations of both sides.
    """
    rng = random.Random(f"battle/{seed}/{number}")
    identity = {"seed": rng.getrandbits(64), "slot": rng.randrange(1000), "episode": rng.randrange(1000)}
    settings, rosters, battle = _begin(rng, identity)
    players = [rng.choice(PLAYERS) for _ in range(2)]
    start, decisions, scripts, seen = battle.state, [], [], []
    while battle.decision is not None:
        asked = battle.decision
        if rng.random() < watched:
            seen += [[len(decisions), side, _sparse(battle, side)] for side in range(2)]
        scripts.append(choices(battle))
        action = choose(rng, players[asked.side], battle, scripts[-1])
        decisions.append([*asked, action, len(battle.dice.results)])
        battle.step(action)
    head = {"id": f"{seed}-{number}", **identity, "key": f"{battle.key:016x}", "config": settings, "rosters": rosters}
    setup = {"map_index": battle.map_index, "left": battle.left, "first": battle.first, "start": start}
    tape = {"faces": battle.dice.faces, "dice": battle.dice.results}
    course = {"decisions": decisions, "scripts": scripts, "obs": seen, **tape, "half_turns": battle.half_turns}
    return {**head, "players": players, **setup, **course, "result": battle.result}


def _sparse(battle: Battle, side: int) -> list[list[float]]:
    return [[i, round(value, 7)] for i, value in enumerate(observation(battle, side)) if value]


def records(seed: int, count: int, watched: float = 0.05) -> Iterator[dict]:
    """The records of `count` battles."""
    return (record(seed, number, watched) for number in range(count))
