"""The static page: its JavaScript has the rules, the features and the network of the Python package."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl
from jaxrl import cli, zoo
from jaxrl.config import from_dict
from jaxrl.policies.export import load_policy
from jaxrl.serve.site.build import build
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.skull_king import browser
from tests.policies.test_standalone import NETWORKS, untrained
from tests.support.paths import GOLDEN, ROOT

NODE = shutil.which("node")
GAMES = GOLDEN / "beasty_bar" / "games.jsonl.gz"
COMPARED = 45  # games, a thousand states
ROUNDS = GOLDEN / "skull_king"
needs_node = pytest.mark.skipif(NODE is None, reason="there is no node on this machine: JavaScript cannot be compared")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "page"
    assert cli.main(["serve", "--site", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def skull_king(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "page"
    assert cli.main(["serve", "--site", str(folder), "--policy", "zoo:skull_king"]) == 0
    return folder


def run_node(script, site, tmp_path, lines):
    """What a script of tests/support/node prints for lines of JSON."""
    shutil.copytree(site, tmp_path / "page")
    (tmp_path / "page" / "package.json").write_text('{"type": "module"}')  # as <script type="module"> has it
    path = ROOT / "tests" / "support" / "node" / script
    done = subprocess.run(
        [NODE, path, tmp_path / "page"], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def recorded(file=GAMES):
    with gzip.open(file, "rt") as lines:
        yield from (line.strip() for line in lines)


def states_compared(script, site, tmp_path, games, env, look):
    """The states of games in which the page says what Python computes there; hidden cards do not reach what it says.

    `look`: (state) -> features, logits and value of the policy.
    """
    begin, step, states = jax.jit(env.init_from_decks), jax.jit(env.step), []
    answers = run_node(script, site, tmp_path, map(json.dumps, games))
    for game, answer in zip(games, answers, strict=True):
        state = begin(jnp.asarray(game["decks"], jnp.int32), jnp.int32(game["first"]))
        for action, found in zip(game["actions"], json.loads(answer), strict=True):
            features, logits, value = look(state)
            assert found["legal"] == np.flatnonzero(state.legal_action_mask).tolist() and found["secret"]
            np.testing.assert_allclose(found["features"], features, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(found["logits"], logits[np.array(found["legal"])], rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(found["value"], value, rtol=1e-5, atol=1e-5)
            states.append(state)
            state = step(state, jnp.int32(action), jax.random.key(0))
    assert len(states) >= 1000
    return states


@needs_node
def test_the_rules_replay_every_recorded_game(site, tmp_path):
    lines = list(recorded())
    turns = sum(len(json.loads(line)["moves"]) for line in lines)
    assert run_node("replay.mjs", site, tmp_path, lines) == [f"{len(lines)} games, {turns} turns"]
    assert len(lines) == 1500
    broken = json.loads(lines[0])
    broken["moves"][3][2] = broken["moves"][4][2]  # the comparison compares
    assert len(run_node("replay.mjs", site, tmp_path / "again", [json.dumps(broken)])) > 1


@pytest.mark.thorough
@needs_node
def test_features_and_network_are_those_of_the_policy(site, tmp_path):
    """From the views of both seats, and the views do not depend on hidden cards."""
    policy = load_policy(zoo.policy_file("beasty_bar"))
    env, network = policy.env, policy._algorithm.network

    @jax.jit
    def look(state):
        features = env.features(state.observation)
        _, logits, value = network.apply(policy.player().params, (), features, state.legal_action_mask)
        return features, logits, value

    games = [json.loads(line) for line in islice(recorded(), COMPARED)]
    asked = [
        {"decks": game["decks"], "first": game["start"], "actions": [move[2] for move in game["moves"]]}
        for game in games
    ]
    states_compared("check_network.mjs", site, tmp_path, asked, env, look)


@needs_node
@pytest.mark.thorough
def test_the_rules_replay_every_recorded_game_and_trick_of_skull_king(skull_king, tmp_path):
    """At every number of players and with every switch."""
    lines = [*recorded(ROUNDS / "games.jsonl.gz"), *recorded(ROUNDS / "tricks.jsonl.gz")]
    found = run_node("replay_skull_king.mjs", skull_king, tmp_path, lines)
    assert found == ["800 games, 248061 decisions, 19390 tricks"]
    games = [json.loads(lines[0]) for _ in range(3)]
    games[0]["rounds"][3]["tricks"][1]["win"] ^= 1
    games[1]["rounds"][5]["scores"][2] += 10
    games[2]["rounds"][7]["dec"][20][2].append(99)  # the comparison compares
    assert len(run_node("replay_skull_king.mjs", skull_king, tmp_path / "again", map(json.dumps, games))) == 4


@needs_node
@pytest.mark.slow
def test_features_and_network_of_skull_king_are_those_of_the_policy(skull_king, tmp_path):
    policy = load_policy(zoo.policy_file("skull_king"))
    env, network = policy.env, policy._algorithm.network
    own = {"n": 4, "expansion": 1, "abilities": 1}
    games = (json.loads(line) for line in recorded(ROUNDS / "games.jsonl.gz"))
    chosen = [game for game in games if own.items() <= game.items()][:4]
    whole = type(env)()  # the policy was trained on single rounds

    @jax.jit
    def look(state):
        words, _ = env.canonical(state.observation)
        features = network.encode(state.observation)
        _, logits, value = network.apply(policy.player().params, (), features, state.legal_action_mask)
        return env.features(words), logits, value

    setup = {"players": 4, "expansion": True, "abilities": True}
    asked = [
        {"setup": setup, "decks": game["decks"], "first": game["first"],
         "actions": [decision[3] for entry in game["rounds"] for decision in entry["dec"]]}
        for game in chosen
    ]  # fmt: skip
    states = states_compared("check_skull_king.mjs", skull_king, tmp_path, asked, whole, look)
    assert {int(state.game.phase) for state in states} == set(range(6))


def test_nothing_is_loaded_from_elsewhere(site):
    assert {path.name for path in site.iterdir()} >= {"index.html", "page.js", "rules.js", "network.js", "policy.bin"}
    for path in site.iterdir():
        text = path.read_bytes().decode("latin1")
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == [], path.name
    assert "---\ntitle: Beasty Bar\nsdk: static\n" in (site / "README.md").read_text()
    page = (site / "index.html").read_text()
    assert "default-src 'self'" in page and "$rules" not in page and "Heaven" not in page.partition("<body>")[0]
    for name in re.findall(r'(?:src|href)="([^"]+)"', page):
        assert (site / name).is_file(), name


def test_a_page_is_replaced_and_nothing_else_is(site, tmp_path, capsys):
    assert cli.main(["serve", "--site", str(site), "--policy", "zoo:beasty_bar"]) == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("mine")
    (tmp_path / "file").touch()
    for words, said in (
        ([str(tmp_path / "mine")], "is no page of"),
        ([str(tmp_path / "file")], "is no page of"),
        ([str(tmp_path / "file" / "in")], "cannot write to the folder"),
        ([str(tmp_path / "new"), "--policy", "zoo:battle"], "has no page that needs no server"),
        ([str(tmp_path / "new"), "--policy", "zoo:beasty"], "did you mean 'beasty_bar'?"),
    ):
        assert cli.main(["serve", "--site", *words]) == 2
        assert said in capsys.readouterr().err
    assert (tmp_path / "mine" / "index.html").read_text() == "mine" and not (tmp_path / "new").exists()


def test_a_table_that_the_page_does_not_show_is_refused():
    assert "page.js" in browser.files(jaxrl.make("skull_king", players=6))
    with pytest.raises(UserError, match=r"^the page of skull_king shows tables without env.history"):
        browser.files(jaxrl.make("skull_king", history=True))


def test_a_network_that_the_page_cannot_compute_is_refused(tmp_path):
    policy = untrained(NETWORKS["relu"])
    for kind in ("lstm", "silu"):
        policy.config = from_dict({"env": {"id": "beasty_bar"}, **NETWORKS[kind]})
        with pytest.raises(UserError, match="the page computes dense networks"):
            build(tmp_path / "page", policy, "mine")
    assert not (tmp_path / "page").exists()
