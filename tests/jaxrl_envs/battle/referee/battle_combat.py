"""The attack sequence of the battle in plain Python (section 5.6 of the rules)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.jaxrl_envs.battle.referee.battle_geometry import Cell, distance2

if TYPE_CHECKING:
    from tests.jaxrl_envs.battle.referee.battle import Battle, Unit


def firing(battle: Battle, a: Unit, t: Unit, reach: float) -> list[Cell]:
    """The models of a that have a visible model of t within reach."""
    sees = battle.board.sees
    within = reach * reach
    return [m for m in a.cells if any(distance2(m, n) <= within and sees(m, n) for n in t.cells)]


def wound_target(strength: int, toughness: int) -> int:
    """The die that wounds."""
    if strength >= 2 * toughness:
        return 2
    if strength > toughness:
        return 3
    if strength == toughness:
        return 4
    return 6 if 2 * strength <= toughness else 5


def covered(battle: Battle, a: Unit, t: Unit) -> bool:
    """Cover of t against a by terrain, smoke or lying down."""
    terrain = battle.board.in_cover(a.cells[0], t.cells[0], t.has("infantry"))
    return bool(t.flags & {"smoked", "grounded"}) or terrain


def save_target(t: Unit, ap: int, cover: bool) -> int:
    """The die that saves; above 6 nothing does."""
    armour = t.type["Sv"] + ap
    if cover and not (t.type["Sv"] <= 3 and ap == 0):
        armour -= 1
    saves = [max(2, armour)]
    if t.type.get("Inv", 0):
        saves.append(t.type["Inv"])
    if "grounded" in t.flags:
        saves.append(6)
    return min(saves)


def attack(battle: Battle, a: Unit, t: Unit, how: str) -> None:
    """All attacks of unit a on unit t.

    Args:
      how: "shoot", "snap" or "fight".
    """
    roll = battle.dice.roll
    weapon = a.type["melee" if how == "fight" else "ranged"]
    ability = weapon.get("abilities", {})
    ap = -weapon["AP"]

    if how == "fight":
        models, cover = list(a.cells), False
    else:
        reach = weapon["range"] if how == "shoot" else min(24, weapon["range"])
        models, cover = firing(battle, a, t, reach), covered(battle, a, t)
    attacks = sum(battle.dice.expression(weapon["A"]) for _ in models)
    if how != "fight":
        close = firing(battle, a, t, weapon["range"] / 2)
        attacks += ability.get("rapid_fire", 0) * len([m for m in models if m in close])
        if ability.get("blast"):
            attacks += len(models) * (len(t.cells) // 5)

    modifier = 0
    if how == "shoot":
        modifier += 1 if ability.get("heavy") and "moved" not in a.flags else 0
        modifier -= 1 if "smoked" in t.flags else 0
    to_wound, to_save = wound_target(weapon["S"], t.type["T"]), save_target(t, ap, cover)

    for _ in range(attacks):
        if not t.alive:
            return
        critical = False
        if not ability.get("torrent"):
            die = roll(6)
            critical = die == 6
            if die == 1 or (not critical and (how == "snap" or die + modifier < weapon["skill"])):
                continue
        hits = 1 + (ability.get("sustained_hits", 0) if critical else 0)
        for hit in range(hits):
            if not t.alive:
                return
            lethal = critical and hit == 0 and bool(ability.get("lethal_hits"))
            devastating = False
            if not lethal:
                die = roll(6)
                if die < to_wound and ability.get("twin_linked"):
                    die = roll(6)
                if die < to_wound:
                    continue
                devastating = die == 6 and bool(ability.get("devastating_wounds"))
            if not devastating and to_save <= 6 and roll(6) >= to_save:
                continue
            t.lead -= battle.dice.expression(weapon["D"])
            if t.lead <= 0:
                t.lose_model()
