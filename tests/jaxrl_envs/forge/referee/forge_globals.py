"""The situation in an observation of Magic: the part of the referee of `tests/jaxrl_envs/forge/referee/forge.py` for
its globals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxrl_envs.forge import layout as at
from tests.jaxrl_envs.forge.referee.forge_words import keyword_of, ratio, whole

if TYPE_CHECKING:
    from tests.jaxrl_envs.forge.referee.forge_view import View


def write_globals(view: View) -> None:
    state, out = view.state, view.globals
    out[at.TURN] = ratio(whole(state.get("turn")), 20)
    out[at.MY_TURN] = state.get("active") == view.me
    out[at.MY_PRIORITY] = state.get("priority") == view.me
    if state.get("phase") in at.PHASES:
        out[at.FIRST_PHASE + at.PHASES.index(state["phase"])] = 1
    _write_player(view, out[at.FIRST_PLAYER :], view.me)
    _write_player(view, out[at.FIRST_PLAYER + at.PLAYER :], 1 - view.me)
    out[at.STACK_SIZE] = ratio(len(state.get("stack", [])), 4)
    if view.stack:
        out[at.TOP_IS_MINE] = view.stack[0]["controller"] == view.me
        out[at.TOP_IS_THEIRS] = view.stack[0]["controller"] == 1 - view.me
    power, free = 0, 0
    for attack in view.combat:
        card = view.find(attack.get("attacker"))
        if card is not None:
            power += whole(card.get("power"))
            free += 0 if attack.get("blockers") else whole(card.get("power"))
            out[at.I_ATTACK] = card["controller"] == view.me
    out[at.ATTACKERS] = ratio(len(view.combat), 8)
    out[at.ATTACK_POWER], out[at.FREE_ATTACK_POWER] = ratio(power, 16), ratio(free, 16)


def _write_player(view: View, out: np.ndarray, seat: int) -> None:
    player = view.players.get(seat)
    if player is None:
        return
    scales = {"life": 20, "poison": 10, "hand_size": 7, "library_size": 60}
    for column, (key, scale) in enumerate(scales.items()):
        out[column] = ratio(whole(player.get(key)), scale)
    out[at.GRAVEYARD] = ratio(len(player.get("graveyard", [])), 20)
    out[at.EXILE] = ratio(len(player.get("exile", [])), 20)
    sums = dict.fromkeys((at.LANDS, at.FREE_LANDS, *range(at.FREE_COLORS, at.LANDS_PLAYED)), 0)
    for card in view.cards:
        if card["controller"] == seat and card["zone"] == "battlefield":
            _count(view, card, sums)
    for column, number in sums.items():
        scale = {at.OTHERS: 4, at.PLANESWALKERS: 2}.get(column, 8)
        scale = 16 if at.TOTAL_POWER <= column <= at.FLYING_POWER else scale
        scale = 4 if at.FREE_COLORS <= column < at.CREATURES else scale
        out[column] = ratio(number, scale)
    out[at.LANDS_PLAYED] = ratio(whole(player.get("lands_played")), 2)
    out[at.ENERGY] = ratio(whole(player.get("energy")), 8)
    for column, letter in enumerate("WUBRGC"):
        out[at.MANA + column] = ratio(player.get("mana_pool", "").count(letter), 4)


def _count(view: View, card: dict[str, Any], sums: dict[int, int]) -> None:
    words = card.get("types", "").lower().split(" ")
    tapped, power = card.get("tapped") is True, whole(card.get("power"))
    if "land" in words:
        sums[at.LANDS] += 1
        sums[at.FREE_LANDS] += not tapped
        for column, letter in enumerate("WUBRG"):
            sums[at.FREE_COLORS + column] += not tapped and letter in view.makes(card)
    if "creature" in words:
        sums[at.CREATURES] += 1
        sums[at.FREE_CREATURES] += not tapped
        sums[at.TOTAL_POWER] += power
        sums[at.FREE_POWER] += 0 if tapped else power
        sums[at.TOTAL_TOUGHNESS] += whole(card.get("toughness")) - whole(card.get("damage"))
        flies = any(keyword_of(text) == "flying" for text in card.get("keywords", []))
        sums[at.FLYING_POWER] += power if flies else 0
    sums[at.PLANESWALKERS] += "planeswalker" in words
    sums[at.OTHERS] += not {"land", "creature", "planeswalker"} & set(words)
