"""The battle for people: the board as text and as SVG, and events in words."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from jaxrl_envs.battle import actions
from jaxrl_envs.battle.display import drawing, events, paint, render
from jaxrl_envs.battle.display import position as view
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.game import BattleGame
from jaxrl_envs.shared.display import svg

KINDS = {
    "open ground": {"rosters": ("line", "horde")},
    "walls": {"maps": ("walled",), "rosters": ("walkers", "line")},
    "kill points": {"maps": ("small",), "zone": 10, "rosters": ("horde", "walkers"), "mission": "annihilation"},
}


class Played:
    """A battle between scripted players, with every view and action."""

    def __init__(self, options, seed, players):
        self.game = BattleGame(**options)
        battle = Battle(self.game.rules, seed=seed)
        self.saved, self.actions = [saved(battle)], []
        while not battle.over:
            self.actions.append(battle.bot(players[battle.side]))
            battle.step(self.actions[-1])
            self.saved.append(saved(battle))
        self.views = [self.game.position(state) for state in self.saved]
        self.steps = list(zip(self.views[:-1], self.actions, self.views[1:], strict=True))


def saved(battle):
    return np.frombuffer(battle.save(), np.uint8)


@pytest.fixture(scope="module", params=KINDS, ids=lambda name: name.replace(" ", "-"))
def played(request):
    return Played(KINDS[request.param], seed=5, players=(6, 2))


@pytest.fixture(scope="module")
def opening():
    """The first position of a battle on open ground: side 0 is asked about its first move."""
    game = BattleGame(rosters=("line", "horde"), deploy=0, first=0)
    return game.position(saved(Battle(game.rules, seed=1)))


def squads_of(position):
    return [squad for units in position.squads for squad in units]


# ---- what can be clicked --------------------------------------------------------------------------------------------


def test_a_unit_moves_to_the_place_that_is_clicked_and_attacks_the_unit(played):
    """Every move, attack and answer of the battle has its area: of moves around the cell where the anchor arrives if
    nothing is in its way, of attacks around the models that they name."""
    arrived = []
    for before, action, after in played.steps:
        layout, asked = paint.Layout.of(before.ground), before.question
        found = [area for area in drawing.click_areas(before, [action]) if area[4] == (action,)]
        assert bool(found) == (actions.DECLINE < action < actions.REROLL or asked.kind in ("move", "fall_back"))
        if actions.FIRST_MOVE <= action < actions.FIRST_MOVE + 16 and after.squads[asked.side][asked.unit].alive:
            (x, y, width, height, _), (row, col) = *found, after.squads[asked.side][asked.unit].cells[0]
            arrived.append(x <= layout.x(col) <= x + width and y <= layout.y(row) <= y + height)
        elif actions.FIRST_SHOOT <= action < actions.FIRST_SNAP:
            target = before.squads[1 - asked.side][(action - actions.FIRST_SHOOT) % 8]
            assert len(found) == len(target.cells) + 1, "its models and its card"
            middles = {(x + width / 2, y + height / 2) for x, y, width, height, _ in found}
            assert {(layout.x(c), layout.y(r)) for r, c in target.cells} <= middles
    assert arrived and np.mean(arrived) > 0.6


# ---- text -----------------------------------------------------------------------------------------------------------


def test_the_text_shows_every_model_and_fits_the_terminal(played):
    for position in played.views[::9]:
        text = render.render_text(position, 0)
        board = "\n".join(line[: 3 + position.ground.cols] for line in text.splitlines()[3 : 3 + position.ground.rows])
        for side in (0, 1):
            living = [squad for squad in position.squads[side] if squad.alive]
            models = sum(len(squad.cells) for squad in living)
            assert board.count(render.MODELS[side]) == models - len(living)
            anchors = [board.count(render.ANCHORS[side][squad.index]) for squad in living]
            assert anchors == [1] * len(living)
        assert max(map(len, text.splitlines()[:-1])) <= 100
        for squad in squads_of(position):
            assert f"{squad.name[:13]:13} {f'{len(squad.cells)}/{squad.start}':>5}" in text
        assert f"VP {position.points[0]}  CP {position.command[0]}" in text


def test_the_largest_board_fits_the_terminal(tmp_path):
    place = tmp_path / "big.yaml"
    place.write_text("{rows: 64, cols: 64, walls: [[30, 31, 33, 32]], objectives: [[31.5, 20, 4], [31.5, 43, 4]]}")
    game = BattleGame(maps=(str(place),), rosters=("walkers", "horde"), zone=20)
    state = saved(Battle(game.rules, seed=2))
    text = game.render(state)
    assert max(map(len, text.splitlines())) <= 100 and text.count(render.TERRAIN["wall"]) == 8
    width, height = paint.Layout.of(game.position(state).ground).page
    assert width <= 1500 and height <= 830
    ElementTree.fromstring(game.render_svg(state))


def test_every_question_has_words(opening):
    texts = set()
    for kind in view.KINDS:
        unit, subject = (-1, 1) if kind in ("snap", "counter") else (0, 1)
        text = render.ask(opening._replace(question=view.BattleQuestion(0, kind, unit, subject, 4, 7)))
        assert text.startswith("Side 0 decides: ")
        texts.add(text)
    assert len(texts) == len(view.KINDS) == 11


def test_a_side_without_models_loses_also_if_it_is_ahead(opening):
    last = opening._replace(question=None, end=1, winner=1, points=(30, 20))
    assert render.outcome(last) == "side 0 is wiped out: side 1 wins, 20 to 30"
    drawn = last._replace(end=3, winner=None, points=(5, 5))
    assert render.outcome(drawn, 0) == "the last round is over: a draw, 5 to 5"


# ---- drawings -------------------------------------------------------------------------------------------------------


def test_the_drawing_shows_every_model(played):
    for position in played.views[::17]:
        root = ElementTree.fromstring(drawing.draw(position, 1))
        names = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert root.tag.endswith("svg") and not names & {"script", "image", "foreignObject", "style"}
        layout = paint.Layout.of(position.ground)
        drawn = sorted((e.get("href"), e.get("x"), e.get("y")) for e in root.iter("{http://www.w3.org/2000/svg}use"))
        assert drawn == sorted(
            (f"#m{squad.side}", svg.number(layout.x(col)), svg.number(layout.y(row)))
            for squad in squads_of(position)
            for row, col in squad.cells
        )
        words = ["".join(e.itertext()) for e in root.iter("{http://www.w3.org/2000/svg}text")]
        assert not [squad.name for squad in squads_of(position) if view.shorten(squad.name, 19) not in words]


def test_a_drawing_is_small_and_always_the_same(played):
    page = drawing.draw(played.views[40])
    assert page == drawing.draw(played.game.position(played.saved[40])) == played.game.render_svg(played.saved[40])
    assert len(page) < 60_000


def test_a_battle_ends_with_its_result_in_all_pictures(played):
    last = played.views[-1]
    assert last.over and last.winner in (0, 1)
    own, other = last.points[last.winner], last.points[1 - last.winner]
    for text in (render.render_text(last), drawing.draw(last)):
        assert f"side {last.winner} wins, {own} to {other}" in text
    assert f"you win, {own} to {other}" in render.render_text(last, last.winner)


def test_names_of_users_cannot_break_a_page_or_a_terminal(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        r'{name: "<b>&", units: [{name: "A<&\" \e[2J\nB", models: 2, M: 6, T: 4, Sv: 3, W: 2, Ld: 6, OC: 1}]}'
    )
    game = BattleGame(rosters=(str(path),))
    state = saved(Battle(game.rules, seed=1))
    names = ["".join(e.itertext()) for e in ElementTree.fromstring(game.render_svg(state)).iter()]
    assert 'A<&"  [2J B' in names and "<b>&" in names
    assert not [letter for letter in game.render(state) if not letter.isprintable() and letter != "\n"]


# ---- events ---------------------------------------------------------------------------------------------------------


def test_events_tell_every_loss_point_and_turn(played):
    for before, action, after in played.steps:
        told = events.describe(before, action, after)
        assert told.endswith(".") and "  " not in told
        for old, new in zip(squads_of(before), squads_of(after), strict=True):
            lost, name = len(old.cells) - len(new.cells), f"Side {old.side}'s {old.name} ({old.number})"
            assert (f"{name} is destroyed." in told) == (old.alive and not new.alive)
            if new.alive and lost > 0:
                assert f"{name} loses {lost} model" in told and f"{len(new.cells)} " in told
            assert (f"{name} is shocked." in told) == ("shocked" in new.flags - old.flags)
            if new.alive and old.cells[0] != new.cells[0]:
                gait = r" (moves|advances|falls back|charges, moving) [\d.]+ (north|s|e|w)"
                assert re.search(re.escape(name) + gait, told)
        for side in (0, 1):
            won = after.points[side] - before.points[side]
            assert (f"Side {side} scores {won} VP ({after.points[side]})." in told) == (won > 0)
        turned = (before.round, before.active) != (after.round, after.active)
        begins = f"Round {after.round}: the half-turn of side {after.active} begins."
        assert (begins in told) == (turned and not after.over)
    assert "The battle is over: " in told and "wins" in told


def test_events_call_the_observer_you(played):
    for before, action, after in played.steps[::5]:
        side = before.question.side
        told = events.describe(before, action, after, side)
        assert f"Side {side}" not in told and f"side {side}" not in told.replace(f"of side {side} begins", "")


def moved(position, side, index, cells, **changes):
    """The position with a unit elsewhere."""
    units = [list(units) for units in position.squads]
    units[side][index] = dataclasses.replace(units[side][index], cells=tuple(cells), **changes)
    return position._replace(squads=(tuple(units[0]), tuple(units[1])))


def test_charges_that_fall_short_are_told(opening):
    charge = opening._replace(question=view.BattleQuestion(0, "charge", 4, -1, 0, 0), phase="charge")
    action = actions.FIRST_CHARGE + 3
    asked = charge._replace(question=view.BattleQuestion(0, "reroll_charge", 4, 3, 5, 8))
    begins = "Side 0's Jump Squad (5) declares a charge on side 1's Beasts (4)."
    assert events.describe(charge, action, asked) == begins
    assert events.describe(charge, action, charge) == f"{begins} Side 0's Jump Squad (5) falls short."
    assert events.describe(asked, 0, charge) == "Side 0's Jump Squad (5) fails to reach side 1's Beasts (4)."
    snap = charge._replace(question=view.BattleQuestion(1, "snap", -1, 4, 0, 0))
    assert events.describe(snap, actions.FIRST_SNAP, charge) == (
        "Side 1's Big Brute (1) fires at side 0's Jump Squad (5) at once (snap fire). "
        "Side 0's Jump Squad (5) falls short. Side 1 pays 1 CP."
    )
