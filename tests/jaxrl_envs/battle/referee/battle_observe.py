"""What a side of the battle sees, in plain Python (section 9 of the rules)."""

from __future__ import annotations

from math import isqrt

from tests.jaxrl_envs.battle.referee.battle import Battle
from tests.jaxrl_envs.battle.referee.battle_combat import firing
from tests.jaxrl_envs.battle.referee.battle_dice import twice_mean
from tests.jaxrl_envs.battle.referee.battle_table import FLAGS, Unit

NUM_FEATURES = 1051
UNIT_FEATURES = 60
_SHOWN_FLAGS = ["moved", "advanced", "fell", "charged", "engaged", "shocked", "smoked", "grounded", "fought"]


def observation(battle: Battle, side: int) -> list[float]:
    """The 1051 numbers for a side."""
    seen: list[float] = []
    for owner in (side, 1 - side):
        for index in range(8):
            units = battle.units[owner]
            if index < len(units) and units[index].alive:
                seen += _unit(battle, units[index], side)
            else:
                seen += [0.0] * UNIT_FEATURES
    return seen + _globals(battle, side)


def _unit(battle: Battle, unit: Unit, side: int) -> list[float]:
    board, kind = battle.board, unit.type
    row, col = unit.cells[0]
    shocked = "shocked" in unit.flags
    inv = kind.get("Inv", 0)
    f: list[float] = [1.0, len(unit.cells) / 20, len(unit.cells) / unit.models]
    f += [unit.lead / unit.wounds, unit.hp / (unit.models * unit.wounds)]
    f += [row / (board.rows - 1), board.home(col, battle.mirrored(side)) / (board.cols - 1)]
    f += [kind["M"] / 12, kind["T"] / 12, kind["Sv"] / 7, (7 - inv) / 6 if inv else 0.0]
    f += [kind["W"] / 12, kind["Ld"] / 12, 0.0 if shocked else kind["OC"] / 5]
    f += [float(unit.has(keyword)) for keyword in ("infantry", "smoke", "fly")]
    flags = set(unit.flags) | ({"engaged"} if battle.engaged(unit) else set())
    assert flags <= {*FLAGS, "engaged"}
    f += [float(flag in flags) for flag in _SHOWN_FLAGS]
    f += _weapon(kind.get("ranged"), ranged=True) + _weapon(kind.get("melee"), ranged=False)
    f.append(min((board.tenths_to(unit.cells[0], o) for o in board.objectives), default=0) / 600)
    f.append(float(any(board.on_objective(cell, o) for cell in unit.cells for o in board.objectives)))
    f.append(kind.get("regen", 0) / 6)
    return f + _relation(battle, unit, side)


def _weapon(weapon: dict | None, *, ranged: bool) -> list[float]:
    if weapon is None:
        return [0.0] * (16 if ranged else 10)
    ability = weapon.get("abilities", {})

    def flag(name: str) -> float:
        return float(ability.get(name, False))

    f = [1.0, weapon["range"] / 48] if ranged else [1.0]
    f += [twice_mean(weapon["A"]) / 2 / 12, (7 - weapon["skill"]) / 6, weapon["S"] / 16, -weapon["AP"] / 6]
    f += [twice_mean(weapon["D"]) / 2 / 6, flag("lethal_hits"), ability.get("sustained_hits", 0) / 3]
    f += [flag("devastating_wounds"), flag("twin_linked")]
    if ranged:
        f += [ability.get("rapid_fire", 0) / 3, flag("assault"), flag("heavy"), flag("torrent"), flag("blast")]
    return f


def _relation(battle: Battle, unit: Unit, side: int) -> list[float]:
    """Features 55 to 59: deciding unit, subject, and the relation to the reference unit."""
    asked = battle.decision
    if asked is None or asked.side != side:
        return [0.0] * 5
    own = unit.side == side
    f = [float(own and unit.index == asked.unit), float(not own and unit.index == asked.subject)]
    if asked.unit >= 0:
        reference = battle.units[side][asked.unit]
    elif asked.subject >= 0:
        reference = battle.units[1 - side][asked.subject]
    else:
        return [*f, 0.0, 0.0, 0.0]
    if unit.side == reference.side:
        return [*f, 0.0, 0.0, 0.0]
    shooter, target = (reference, unit) if reference.side == side else (unit, reference)
    weapon = shooter.type.get("ranged")
    share = len(firing(battle, shooter, target, weapon["range"])) / len(shooter.cells) if weapon else 0.0
    distance = isqrt(100 * battle.apart2(shooter, target)) / 600
    cover = battle.board.in_cover(shooter.cells[0], target.cells[0], target.has("infantry"))  # by terrain alone
    return [*f, distance, share, float(cover)]


def _globals(battle: Battle, side: int) -> list[float]:
    board, other, asked = battle.board, 1 - side, battle.decision
    mine = asked is not None and asked.side == side
    f: list[float] = [battle.round / battle.rounds, battle.rounds / 20]
    f += [float(battle.active == side), float(battle.first == side)]
    f += [battle.vp[side] / 50, battle.vp[other] / 50, battle.cp[side] / 10, battle.cp[other] / 10]
    f += [float(battle.phase == phase) for phase in range(5)]
    f += [float(mine and asked.kind == kind) for kind in range(11)]
    f.append(float(battle.mission == "annihilation"))
    f += [asked.roll / 12, asked.needed / 12] if mine else [0.0, 0.0]
    f += [float(stratagem in battle.used[s]) for s in (side, other) for stratagem in range(6)]
    f += [board.rows / 64, board.cols / 64]
    for i in range(8):
        if i >= len(board.objectives):
            f += [0.0] * 6
            continue
        row, col, _ = objective = board.objectives[i]
        own, enemy = battle.control(side, objective), battle.control(other, objective)
        f += [1.0, row / (board.rows - 1), board.home(col, battle.mirrored(side)) / (board.cols - 1)]
        f += [own / 20, enemy / 20, float((own > enemy) - (own < enemy))]
    return f + [battle.hp[s] / battle.start_hp[s] for s in (side, other)]


def planes(battle: Battle, side: int) -> dict[str, list[list[int]]]:
    """The optional planes for a side, rows of columns in its home frame: terrain, own and enemy models."""
    board, mirrored = battle.board, battle.mirrored(side)
    found = {name: [[0] * board.cols for _ in range(board.rows)] for name in ("terrain", "own", "enemy")}
    for number, cells in ((1, board.barricades), (2, board.walls)):
        for r, c in cells:
            found["terrain"][r][board.home(c, mirrored)] = number
    for name, owner in (("own", side), ("enemy", 1 - side)):
        for unit in battle.units[owner]:
            for r, c in unit.cells:
                found[name][r][board.home(c, mirrored)] = unit.index + 1
    return found
