"""The script players of the battle in plain Python (section 11 of the rules)."""

from __future__ import annotations

from functools import cache
from math import isqrt

from tests.jaxrl_envs.battle.referee.battle import (
    CHARGE,
    COUNTER,
    FALL_BACK,
    FIGHT,
    MOVE,
    PROTECT,
    REROLL_ADVANCE,
    REROLL_CHARGE,
    SHOCK,
    SHOOT,
    SNAP,
    Battle,
)
from tests.jaxrl_envs.battle.referee.battle_combat import wound_target
from tests.jaxrl_envs.battle.referee.battle_dice import twice_mean
from tests.jaxrl_envs.battle.referee.battle_geometry import Cell, distance2
from tests.jaxrl_envs.battle.referee.battle_table import Unit

STYLES = ["balanced", "aggressor", "gunline", "objective", "turtle"]
WEIGHTS = [  # of O, A, S, H, X, C, and the bias of a charge
    (10, 3, 8, 10, 3, 5, 0),
    (4, 12, 4, 20, 0, 0, 200),
    (5, 4, 16, 2, 8, 10, -200),
    (20, 1, 6, 6, 2, 5, 0),
    (8, 0, 10, 6, 8, 15, -100),
]


def share(a: Unit, t: Unit, weapon: dict | None, hit: int | None = None) -> int:
    """The expected permille of t's remaining hp that a removes; `hit` replaces the chances in six to hit."""
    if weapon is None:
        return 0
    torrent = weapon.get("abilities", {}).get("torrent", False)
    h = 6 if torrent else (7 - weapon["skill"] if hit is None else hit)
    save = max(2, t.type["Sv"] - weapon["AP"])
    if t.type.get("Inv", 0):
        save = min(save, t.type["Inv"])
    f = 6 if save > 6 else save - 1
    wounds = 7 - wound_target(weapon["S"], t.type["T"])
    damage = min(twice_mean(weapon["D"]), 2 * t.wounds)
    return min(1000, 1000 * len(a.cells) * twice_mean(weapon["A"]) * h * wounds * f * damage // 864 // t.hp)


def shot(a: Unit, t: Unit) -> int:
    """G: the share with the ranged weapon."""
    return share(a, t, a.type.get("ranged"))


def strike(a: Unit, t: Unit) -> int:
    """P: the share with the melee weapon."""
    return share(a, t, a.type.get("melee"))


def value(permille: int) -> int:
    """A share, with a bonus for one that destroys."""
    return permille + 300 if permille == 1000 else permille


@cache
def chances(n: int) -> int:
    """P36: how many results of two dice are at least n."""
    return sum(a + b >= n for a in range(1, 7) for b in range(1, 7))


def choices(battle: Battle) -> list[int]:
    """What the five styles choose at this decision."""
    asked = battle.decision
    side, enemies = asked.side, battle.units[1 - asked.side]
    unit = battle.units[side][asked.unit] if asked.unit >= 0 else None
    subject = enemies[asked.subject] if asked.subject >= 0 else None
    if asked.kind == MOVE:
        return _moves(battle, unit, asked.legal)
    if asked.kind == FALL_BACK:
        return _fall_back(battle, unit)
    if asked.kind == CHARGE:
        return [_charge(battle, unit, weights[-1]) for weights in WEIGHTS]
    if asked.kind in (SHOOT, FIGHT):
        strength = shot if asked.kind == SHOOT else strike
        base = 25 if asked.kind == SHOOT else 41
        targets = {a: enemies[a - base] for a in asked.legal if a}
        scores = {a: value(strength(unit, t)) + 150 * _holds(battle, t) for a, t in targets.items()}
        return [_best(scores)] * 5
    if asked.kind == SNAP:
        scores = {a: _snap(battle.units[side][a - 49], subject) for a in asked.legal if a}
        return [_best(scores) if max(scores.values()) + 40 * battle.cp[side] >= 160 else 0] * 5
    if asked.kind == COUNTER:
        scores = {a: strike(battle.units[side][a - 57], subject) for a in asked.legal if a}
        return [_best(scores) if max(scores.values()) >= 300 else 0] * 5
    if asked.kind == PROTECT:
        return [min(a for a in asked.legal if a) if shot(subject, unit) >= 250 else 0] * 5
    if asked.kind == SHOCK:
        return [max(asked.legal) if _holds(battle, unit) else 0] * 5
    if asked.kind == REROLL_ADVANCE:
        return [65 if asked.roll <= 2 and battle.cp[side] >= 3 else 0] * 5
    assert asked.kind == REROLL_CHARGE
    return [65 if chances(min(12, asked.needed)) >= 15 else 0] * 5


def _best(scores: dict[int, int]) -> int:
    """The id of the highest score, the lowest id of equal ones."""
    return max(sorted(scores), key=lambda action: scores[action])


def _holds(battle: Battle, unit: Unit) -> bool:
    """Whether a model of the unit stands on an objective."""
    return any(battle.board.on_objective(cell, o) for cell in unit.cells for o in battle.board.objectives)


def _snap(unit: Unit, subject: Unit) -> int:
    return share(unit, subject, unit.type["ranged"], hit=1)


def _charge(battle: Battle, unit: Unit, bias: int) -> int:
    living = battle.living(1 - unit.side)
    scores = {0: 0}
    for action in battle.decision.legal:
        p = 0
        if action and "melee" in unit.type:
            t = battle.units[1 - unit.side][action - 33]
            p = chances(battle.needed(battle.apart2(unit, t)))
        if p >= 6:
            m = strike(unit, t)
            v = m - strike(t, unit) * (1000 - m) // 1000 + shot(t, unit) // 2
            v += 100 * _holds(battle, t) + bias - max(shot(unit, e) for e in living) // 2
            scores[action] = v * p // 36
    return _best(scores)


def _fall_back(battle: Battle, unit: Unit) -> list[int]:
    touching = [enemy for enemy in battle.living(1 - unit.side) if battle.touching(unit, enemy)]
    worth_it = sum(strike(e, unit) for e in touching) > max(strike(unit, e) for e in touching) + 200
    if "ranged" not in unit.type or "shocked" in unit.flags or not worth_it:
        return [0] * 5
    return _moves(battle, unit, [action for action in battle.decision.legal if action])


def _moves(battle: Battle, unit: Unit, actions: list[int]) -> list[int]:
    """The best-scored of some move ids for every style."""
    ends = _ends(battle, unit, actions)
    enemies = battle.living(1 - unit.side)
    given = {t: (shot(unit, t), strike(unit, t)) for t in enemies}
    taken = {t: (shot(t, unit), strike(t, unit)) for t in enemies}
    parts = {action: _parts(battle, unit, action, ends[action], given, taken) for action in actions}
    found = []
    for o, a, s, h, x, c, _ in WEIGHTS:
        if battle.mission == "annihilation":
            a *= 3
        scores = {}
        for action, (po, pa, ps, ph, px, pc) in parts.items():
            scores[action] = -o * po - a * pa + (s * ps + h * ph - x * px) // 10 + 10 * c * pc
        found.append(_best(scores))
    return found


def _ends(battle: Battle, unit: Unit, actions: list[int]) -> dict[int, Cell]:
    """The anchors after some move ids, an advance with a roll of 3."""
    allowances = [(unit.type["M"] + 1) // 2, unit.type["M"], unit.type["M"] + 3]
    goes = [action for action in actions if action]
    moves = [((action - 1) % 8, allowances[(action - 1) // 8]) for action in goes]
    formations = battle.ends_of_moves(unit, moves, battle.decision.kind == FALL_BACK)
    return {0: unit.cells[0]} | {action: cells[0] for action, cells in zip(goes, formations, strict=True)}


def _parts(
    battle: Battle, unit: Unit, action: int, p: Cell, given: dict[Unit, tuple], taken: dict[Unit, tuple]
) -> tuple[int, int, int, int, int, int]:
    """O, A, S, H, X and C of a move id that ends at p; G and P against every enemy, and theirs."""
    board, advance = battle.board, action > 16
    apart2 = {t: distance2(p, t.cells[0]) for t in given}
    ranged, melee = unit.type.get("ranged"), unit.type.get("melee")

    wanted = 10
    if ranged and (not melee or max(g for g, _ in given.values()) >= max(p for _, p in given.values())):
        wanted = 75 * ranged["range"] // 10
    closing = max(0, min(isqrt(100 * d2) for d2 in apart2.values()) - wanted)

    shooting = 0
    if ranged and (not advance or ranged.get("abilities", {}).get("assault")):
        for t in given:
            if apart2[t] <= ranged["range"] ** 2 and board.sees(p, t.cells[0]):
                shooting = max(shooting, value(given[t][0]))
    charging = 0
    if not advance:
        for t in given:
            if apart2[t] <= 144:
                charging = max(charging, given[t][1] * chances(battle.needed(apart2[t])) // 36)
    danger = 0
    for t in taken:
        weapon = t.type.get("ranged")
        if weapon and apart2[t] <= weapon["range"] ** 2 and board.sees(t.cells[0], p):
            danger += taken[t][0]
        if apart2[t] <= (t.type["M"] + 7) ** 2:
            danger += taken[t][1]
    box = range(-3, 4)
    cover = unit.has("infantry") and any((p[0] + r, p[1] + c) in board.barricades for r in box for c in box)
    return _objective(battle, unit, p), closing, shooting, charging, min(2000, danger), int(cover)


def _objective(battle: Battle, unit: Unit, p: Cell) -> int:
    """O: how far the best objective is, in tenths, with a penalty for own units that are nearer."""
    board = battle.board
    if battle.mission != "hold" or unit.type["OC"] == 0 or not board.objectives:
        return 0
    found = []
    for objective in board.objectives:
        rank = (board.tenths_to(unit.cells[0], objective), unit.index)
        others = [u for u in battle.living(unit.side) if u is not unit and u.type["OC"] > 0]
        crowd = sum((board.tenths_to(u.cells[0], objective), u.index) < rank for u in others)
        found.append(max(0, board.tenths_to(p, objective) - 10 * objective[2]) + 40 * crowd)
    return min(found)
