"""Policies annotate recorded games: their numbers are those of a table's hint."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from urllib.parse import quote

import jax
import numpy as np
import pytest

from jaxrl import config as configs
from jaxrl.matches.interactive import Programs
from jaxrl.networks.config import NetworkConfig
from jaxrl.networks.factory import make_network
from jaxrl.players.player import bot_player, network_player
from jaxrl.serve import player_catalog
from jaxrl.serve.player_catalog import PlayerCatalog
from jaxrl.serve.replays import annotation, state_store
from jaxrl.serve.replays.annotation import Annotation
from jaxrl.serve.replays.routes import NO_POLICY, UNKNOWN, ReplayRoutes
from jaxrl.serve.tables.game import Agent, GameRecord, TableGame
from jaxrl_envs.shared.display.playback import PlaybackDecisions
from jaxrl_envs.shared.errors import UserError
from tests.matches.test_replays import recorded
from tests.serve.test_replays import open_game, part
from tests.support.games import HighCard, RockPaperScissors
from tests.support.memory_games import Recall
from tests.support.paths import GOLDEN
from tests.support.serving import GAMES, serving
from tests.training.imitation.test_distill import RECURRENT

BATTLE = "0/battle/battles.jsonl.gz"


def network(env, config):
    made = make_network(config, env)
    return network_player(made, env, "network", made.init(jax.random.key(5)), greedy=False)


def decided(env, states, actions):
    """A game of these states, read again from its file."""
    fields = ("current_player", "observation", "legal_action_mask")
    shown = [jax.device_get(state) for state in states]
    return PlaybackDecisions(env.id, {"n": 1}, *([getattr(state, name) for state in shown] for name in fields), actions)


def through_a_file(folder, found):
    state_store.write(folder, found)
    return state_store.read(folder)


@pytest.mark.parametrize(
    ("env", "config"), [(HighCard(), NetworkConfig(hidden=(8,))), (Recall(delays=(1, 8)), RECURRENT)]
)
def test_the_numbers_are_those_of_the_hint(env, config, tmp_path, monkeypatch):
    """In the same position, also of a policy that remembers, and where a game takes several calls."""
    monkeypatch.setattr(annotation, "MOST", 8)
    monkeypatch.setattr(annotation, "LEAST", 4)
    agent = Agent("network", network(env, config))
    game = TableGame(env, Programs(env), GameRecord("", {}, [1, 2], [3, 4], []), [agent] * env.num_players, {})
    game.open()
    states, hints, actions = [], [], []
    while not game.over:
        states.append(game.state)
        hints.append(game.hint(agent, game.question()))
        decision, after = game.decide()
        actions.append(decision.action)
        game.play(decision, after)
    found = annotation.annotate(env, agent.player, through_a_file(tmp_path, decided(env, states, actions)))
    assert len(found) == len(states)
    for number, (judgement, hint) in enumerate(zip(found, hints, strict=True)):
        likely = dict(hint.likely)
        assert (judgement.at, judgement.seat) == (number + 1, hint.seat)
        assert env.worth(judgement.value) == hint.value
        assert judgement.name == env.action_name(actions[number])
        assert judgement.odds == pytest.approx(likely[judgement.name], abs=2e-4)
        assert judgement.chance == pytest.approx(max(likely.values()), abs=2e-4)
        assert judgement.chance == pytest.approx(likely[judgement.best], abs=2e-4)


def test_all_seats_of_a_simultaneous_game_are_judged(tmp_path):
    env = RockPaperScissors()
    player = network(env, NetworkConfig(hidden=(8,)))
    states, actions = [env.init(jax.random.key(1))], [[0, 1], [2, 2], [1, 0]]
    for action in actions:
        states.append(env.step(states[-1], np.array(action, np.int32), jax.random.key(2)))
    found = annotation.annotate(env, player, through_a_file(tmp_path, decided(env, states[:-1], actions)))
    assert [(each.at, each.seat) for each in found] == [(at, seat) for at in (1, 2, 3) for seat in (0, 1)]
    values = np.array([player.value(player.params, (), state) for state in states[:-1]])
    odds = np.array([player.odds(player.params, (), state) for state in states[:-1]])
    np.testing.assert_allclose([each.value for each in found], values.ravel(), atol=1e-4)
    taken = np.take_along_axis(odds, np.array(actions)[..., None], -1)
    np.testing.assert_allclose([each.odds for each in found], taken.ravel(), atol=1e-4)


def test_what_does_not_fit_is_not_judged_and_a_policy_that_has_diverged_says_nothing(tmp_path):
    env, state = HighCard(), HighCard().init(jax.random.key(1))
    found = through_a_file(tmp_path, decided(env, [state], [0]))
    with pytest.raises(UserError, match="neither probabilities nor values"):
        annotation.annotate(env, bot_player(env, "random"), found)
    player = network(env, NetworkConfig(hidden=(8,)))
    away = found._replace(seats=found.seats + env.num_players)
    for wrong in (found._replace(legal=found.legal[:, :-1]), found._replace(leaves=found.leaves[:-1]), away):
        with pytest.raises(UserError, match="looks otherwise"):
            annotation.annotate(env, player, wrong)
    broken = dataclasses.replace(player, params=jax.tree.map(lambda leaf: leaf * np.nan, player.params))
    with pytest.raises(UserError, match="has diverged"):
        annotation.annotate(env, broken, found)


def test_the_game_of_a_recording_has_its_options(monkeypatch):
    """Those that change what is seen or done; nothing is made of what may name a file."""
    library, made, real = PlayerCatalog(["car_soccer"], Path("nowhere"), ()), [], player_catalog.make_context
    monkeypatch.setattr(player_catalog, "make_context", lambda game, options: made.append(options) or real(game, {}))
    library.recorded("car_soccer", {"teams": [2, 2], "rewards": {"goal": 9}, "observation": "default", "meshes": "/x"})
    library.recorded("car_soccer", {"teams": [1, 1], "observation": "relative", "extras": ["aim"]})
    assert made == [{}, {"teams": [2, 2]}, {"observation": "relative", "extras": ["aim"]}]
    for bad in ({"hitbox": "../x"}, {"teams": [1e9, 1]}, {"teams": {"a": 1}}, {"extras": ["a"] * 1000}):
        with pytest.raises(UserError, match="options of this recording"):
            library.recorded("car_soccer", bad)


def test_who_sees_otherwise_does_not_fit():
    """The two views of car soccer have one shape; rewards make no difference."""
    context = player_catalog.make_context("car_soccer", {})
    for options, fits in (({"rewards": {"goal": 9.0}}, True), ({"observation": "relative"}, False)):
        config = configs.from_dict({"env": {"id": "car_soccer", "options": options}})
        assert player_catalog._fit(context, config, context.env) == fits


def test_the_curve_keeps_what_a_seat_expected_and_signs_stand_where_policies_disagree():
    def row(at, seat, value, odds=0.5, chance=0.5):
        return Annotation(at, seat, "a", odds, "b", chance, value)

    found = [row(1, 0, 1.0, 0.1, 0.9), row(2, 1, 2.0), row(3, 1, 3.0, 0.1, 0.25), row(4, 0, 4.0, 0.2, 0.8)]
    assert annotation.curve(found, 3) == [[1, 2, None], [1, 2, None], [1, 3, None], [4, 3, None], [4, 3, None]]
    assert annotation.doubted(found) == [0, 3]
    together = [row(1, 0, 1.0), row(1, 1, 2.0), row(2, 0, 3.0), row(2, 1, 4.0)]
    assert annotation.curve(together, 2) == [[1, 2], [3, 4], [3, 4]]


# ---- the server -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    (folder / "runs").mkdir()
    _, found = recorded(HighCard(), GAMES[0], bot_player(HighCard(), "random"), [bot_player(HighCard(), "lowest")])
    found[0].write(folder / "runs" / "high_card.replay")
    roots = (GOLDEN, GOLDEN.parent.parent / "docs" / "games" / "assets", folder / "runs")
    with serving(folder, games=(*GAMES, "battle"), replays=roots, allow=("tests",)) as client:
        yield client


def ask(client, id, what):
    status, text = client.request(f"/replays/open/{id}/{what}")
    return status, json.loads(gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text)


def test_a_battle_is_judged_by_the_zoo(client):
    opened = open_game(client, BATTLE)
    assert ask(client, opened["id"], "judges") == (200, {"judges": ["zoo:battle", "zoo:battle_anywhere"], "why": ""})
    status, told = ask(client, opened["id"], f"judged?by={quote('zoo:battle')}")
    head = part(client, opened["id"], "head")[1]
    assert status == 200 and told["by"] == "zoo:battle" and len(told["values"]) == head["frames"]
    seats = [moment["seat"] for moment in head["moments"]]
    assert [each["seat"] for each in told["judgements"]] == seats
    assert all(0 <= each["odds"] <= each["chance"] <= 1.001 for each in told["judgements"])
    assert ask(client, opened["id"], f"judged?by={quote('zoo:battle')}")[1] == told


@pytest.mark.parametrize(
    "by", ["", "zoo:absent", "zoo:beasty_bar", "bot:random", "run:../../x", "search:1", "/etc/passwd", "x" * 5000]
)
def test_players_that_are_not_offered_are_not_asked(client, by):
    opened = open_game(client, BATTLE)
    status, told = ask(client, opened["id"], f"judged?by={quote(by)}")
    assert status == 400 and "no policy" in told["error"] and len(told["error"]) < 200
    assert client.request(f"/replays/open/nothing/judged?by={quote(by)}")[0] == 400


@pytest.mark.parametrize(("file", "why"), [("1/battle_film.svg", UNKNOWN), ("2/high_card.replay", NO_POLICY)])
def test_the_page_says_so_if_no_player_can_judge(client, file, why):
    opened = open_game(client, file)
    assert opened["state"] == "open"
    assert ask(client, opened["id"], "judges") == (200, {"judges": [], "why": why})
    assert ask(client, opened["id"], "judged?by=zoo:battle")[0] == 400


def test_what_a_run_says_is_of_its_newest_checkpoint(client, monkeypatch):
    newest, annotated = [3], []
    monkeypatch.setattr(PlayerCatalog, "newest", lambda self, spec: newest[0])
    note = lambda self, folder, by: annotated.append(by) or gzip.compress(b"{}")  # noqa: E731
    monkeypatch.setattr(ReplayRoutes, "_annotate", note)
    opened = open_game(client, BATTLE)
    for newest[0] in (3, 3, 4):
        assert ask(client, opened["id"], "judged?by=run:mine") == (200, {})
    assert len(annotated) == 2
    monkeypatch.setattr(ReplayRoutes, "_annotate", lambda self, folder, by: 1 / 0)
    assert client.request(f"/replays/open/{opened['id']}/judged?by=run:other")[0] == 500
    monkeypatch.setattr(ReplayRoutes, "_annotate", lambda self, folder, by: gzip.compress(b"[]"))
    assert ask(client, opened["id"], "judged?by=run:other") == (200, []), "a fault is not kept"
