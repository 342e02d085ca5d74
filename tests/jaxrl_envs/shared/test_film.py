"""`jaxrl film`: a game between players as an animated picture."""

from __future__ import annotations

import bisect
import re
import xml.etree.ElementTree as ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import cli
from jaxrl.matches.recording.film import record
from jaxrl.players.player import Player, bot_player
from jaxrl_envs.shared.display import film, svg
from tests.support.games import RockPaperScissors, TicTacToe

COMMAND = ["film", "bot:balanced", "--opponents", "aggressor", "run.cache_dir=''", "env.id=battle"]
SHORT = ["env.options.maps=[small]", "env.options.zone=10", "env.options.rounds=1"]


def test_a_game_is_recorded_step_by_step():
    env = TicTacToe()
    states, actions = record(env, [bot_player(env, "lowest")] * 2, jax.random.key(0))
    assert actions == list(range(7)) and len(states) == 8
    assert bool(states[-1].terminated) and not bool(states[-2].terminated)


def test_the_command_writes_the_same_film_again(tmp_path, capsys):
    pages = []
    for name in ("one.svg", "two.svg"):
        assert cli.main([*COMMAND, *SHORT, "--seed", "4", "--out", str(tmp_path / name)]) == 0
        pages.append((tmp_path / name).read_text(encoding="utf-8"))
    assert pages[0] == pages[1] and ElementTree.fromstring(pages[0]).tag.endswith("svg")
    output = capsys.readouterr().out
    assert re.search(r"two.svg: \d+ decisions \(seat 0: balanced, seat 1: aggressor\), \d+ kB", output)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seat", "2"], "--seat must be between 0 and 1"),
        (["--pace", "0"], "--pace must be from 0.1 to 20, got 0"),
        (["--out", "nowhere/film.svg"], "cannot write nowhere/film.svg"),
        (["--opponents", "balance"], "did you mean 'balanced'?"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments, said, capsys):
    assert cli.main([*COMMAND, *SHORT, *arguments]) == 2
    *notes, error = capsys.readouterr().err.splitlines()
    assert said in error and len(notes) <= 1


def test_a_game_without_drawings(capsys):
    assert cli.main(["film", "bot:lowest", "env.id=tests.support.games:TicTacToe", "run.cache_dir=''"]) == 2
    assert "tests.support.games:TicTacToe has no drawings: a film needs its render_svg" in capsys.readouterr().err


class Throwing(RockPaperScissors):
    """Two against two, drawn as a disc for every choice."""

    sides = (0, 1, 0, 1)

    def __init__(self):
        super().__init__(num_players=4, rounds=3)

    def render_svg(self, state, seat=None):
        colours = ("grey", "white", "red", "black")
        discs = [svg.circle(i + 0.5, 0.5, 0.4, colours[int(choice)]) for i, choice in enumerate(state.last)]
        return svg.document(4, 1, discs)

    @property
    def bots(self):
        return super().bots | {"rock": lambda state, key: jnp.zeros(4, jnp.int32)}


def in_turn(params, memory, state, key):
    """Rock, paper, scissors, as many further as it has chosen before."""
    return memory % 3, memory + 1


def test_a_game_that_asks_all_at_once_is_recorded_too():
    """All seats act, each with its own memory: two players that count from different numbers, and a bot."""
    env = Throwing()
    players = [
        Player(str(first), in_turn, init=lambda params, state, seat, key, first=first: jnp.int32(first))
        for first in (0, 1)
    ]
    states, actions = record(env, [*players, players[0], bot_player(env, "random")], jax.random.key(3))
    assert np.array(actions)[:, :3].tolist() == [[0, 1, 0], [1, 2, 1], [2, 0, 2]]
    assert len(states) == 4 and bool(states[-1].terminated)
    assert [state.last.tolist() for state in states[1:]] == [action.tolist() for action in actions]


def test_the_command_films_sides(tmp_path, capsys):
    file = tmp_path / "film.svg"
    command = ["film", "bot:rock", "--opponents", "random", "--seat", "1", "--out", str(file), "run.cache_dir=''"]
    assert cli.main([*command, "env.id=tests.jaxrl_envs.shared.test_film:Throwing"]) == 0
    assert "3 steps (seat 0: random, seat 1: rock, seat 2: random, seat 3: rock)" in capsys.readouterr().out
    assert "seat 1: 0" in file.read_text() and "seat 3: 0" in file.read_text()


class Drawn(TicTacToe):
    """Stones on a board; those of the second seat have a gradient of the same name as the first board's ground."""

    def render_svg(self, state, seat=None):
        owners = [int(owner) for owner in np.asarray(state.board)]
        ground = svg.gradient("ground", "#fff", f"#{min(owners.count(1), 1)}00")
        stones = "".join(
            svg.circle(place % 3 + 0.5, place // 3 + 0.5, 0.4, ("red", "url(#ground)")[owner])
            for place, owner in enumerate(owners)
            if owner >= 0
        )
        return svg.document(3, 3, [f"<defs>{ground}</defs>", f'<g fill="red">{stones}</g>'])


def shown_at(page: str, share: float) -> list[str]:
    """What is to be seen of a film at this share of its length: all drawn elements, from the back to the front."""
    found: list[str] = []

    def look(node):
        animation = node.find("{http://www.w3.org/2000/svg}animate")
        if animation is not None:
            times = [float(time) for time in animation.get("keyTimes").split(";")]
            value = animation.get("values").split(";")[bisect.bisect(times, share) - 1]
            if value == "0":
                return
        tag = node.tag.rpartition("}")[2]
        if tag in ("circle", "text", "stop"):
            found.append(f"{tag} {node.get('cx')} {node.get('cy')} {node.get('fill')} {node.text or ''}".strip())
        for child in node:
            look(child)

    look(ElementTree.fromstring(page))
    return found


def test_every_drawing_is_seen_in_its_time():
    env = Drawn()
    states, actions = record(env, [bot_player(env, "random")] * 2, jax.random.key(1))
    page = env.film(states, actions)
    frames = len(states)
    total = frames * film.SECONDS + film.CLOSING
    names = set(re.findall(r'id="([^"]+)"', page))
    assert len(names) == 2  # the two grounds are told apart
    for number, state in enumerate(states):
        told = shown_at(page, (number + 0.5) * film.SECONDS / total)
        owners = [int(owner) for owner in np.asarray(state.board)]
        stones = [line for line in told if line.startswith("circle")]
        places = [place for place, owner in enumerate(owners) if owner >= 0]
        assert [line.split()[1:3] for line in stones] == [[f"{p % 3 + 0.5}", f"{p // 3 + 0.5}"] for p in places]
        assert ["red" in line for line in stones] == [owners[place] == 0 for place in places]
        assert len({line.split()[3] for line in stones} - {"red"}) <= 1
        said = env.event(states[number - 1], actions[number - 1], state) if number else ""
        assert [line for line in told if line.startswith("text")] == [f"text None None #f2ead7 {said}".strip()]
    one = film.film([env.render_svg(states[0])], [""])
    assert "animate" not in one and ElementTree.fromstring(one).get("viewBox").startswith("0 0 3 3.2")


def test_drawings_without_a_view_box_and_with_names_outside_of_defs():
    pages = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="240.0" height="100pt"><g id="a"><circle r="{r}"/></g>'
        '<use href="#a"/></svg>'
        for r in (1, 2)
    ]
    page = film.film(pages, ["", "<b>"])
    root = ElementTree.fromstring(page)
    assert root.get("viewBox").startswith("0 0 240 113") and page.count("<circle") == 2
    names = re.findall(r' id="([^"]+)"', page)
    assert len(set(names)) == 2 and re.findall(r'href="#([^"]+)"', page) == names
