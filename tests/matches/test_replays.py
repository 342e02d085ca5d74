"""Replays: which games of an evaluation are kept, that they play again bit by bit, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.matches.evaluate import Matchup
from jaxrl.matches.recording import replays
from jaxrl.matches.recording.highlights import HighlightRecorder, highlights
from jaxrl.players.player import Player, bot_player
from jaxrl_envs.shared.display import reward_curves
from jaxrl_envs.shared.errors import UserError
from tests.jaxrl_envs.shared.test_film import Drawn
from tests.support.games import HighCard, RockPaperScissors, TicTacToe

DISCOUNT = 0.9


class Priced(Drawn):
    """Whose rewards are told in two parts."""

    def reward_parts(self, state):
        won = state.terminated * state.rewards
        return {"won": won, "nothing": jnp.zeros(2), "twice": -2 * won}


def value_of(features):
    return jnp.sin(3.0 * jnp.sum(features * (1.0 + jnp.arange(features.size))))


def counting(env):
    """Plays at random, remembers how often its seat was asked, sees every step, and has arbitrary values."""

    def value(params, memory, state):
        def one(observation, memory):
            return value_of(env.features(observation)) + memory[0]

        if env.simultaneous:
            return jax.vmap(one)(state.observation, memory)
        return one(state.observation, memory)

    def act(params, memory, state, key):
        return env.random_action(state, key), memory + jnp.array([1.0, 0.0])

    def observe(params, memory, before, action, after, seat, key):
        return memory + jnp.array([0.0, 1.0])

    return Player(
        "counting",
        act,
        init=lambda params, state, seat, key: jnp.zeros(2),
        observe=observe,
        value=value,
        discount=DISCOUNT,
    )


def recorded(env, name, player, opponents, deals=8):
    """The table of one evaluation and the replays of its highlights."""
    config = configs.from_dict({"env": {"id": name}})
    matchup = Matchup(env, player, opponents, deals=deals, seed=3, surprise=True)
    rows = matchup.rows(player.params, player.name)
    recorder = HighlightRecorder(config, matchup, replays.ReplayLanes(env))
    return rows, recorder(highlights([rows]), [player], "a test")


def surprise_of(env, opened, states, actions):
    """Root of the mean square of value - discounted return, over the decisions of the seats of "counting", by loops."""
    errors = []
    for seat, name in enumerate(opened.replay.players):
        if name != "counting":
            continue
        asked = [time for time in range(len(actions)) if seat in np.atleast_1d(states[time].current_player)]
        for number, time in enumerate(asked):
            observation = jax.tree.map(
                lambda leaf, s=seat: leaf[s] if env.simultaneous else leaf, states[time].observation
            )
            value = float(value_of(env.features(observation))) + number
            earned, decided = 0.0, 0
            for later in range(time, len(actions)):
                decided += later > time and later in asked
                earned += DISCOUNT**decided * float(states[later + 1].rewards[seat])
            errors.append(value - earned)
    return np.sqrt(np.mean(np.square(errors)))


@pytest.mark.parametrize(("game", "opponents"), [(HighCard, ["random", "lowest"]), (RockPaperScissors, ["random"])])
def test_the_highlights_of_an_evaluation_play_again(game, opponents, tmp_path):
    env = game()
    rows, found = recorded(
        env, f"tests.support.games:{game.__name__}", counting(env), [bot_player(env, name) for name in opponents]
    )
    kinds = ["highest_return", "lowest_return", "highest_surprise", "lowest_surprise"]
    assert [each.kind for each in found] == kinds
    returned = np.stack([row.samples.each.returned for row in rows])
    surprise = np.stack([row.samples.each.surprise for row in rows])
    extremes = [returned.max(), returned.min(), surprise.max(), surprise.min()]
    lanes = replays.ReplayLanes(env)
    for replay, extreme in zip(found, extremes, strict=True):
        file = tmp_path / f"{replay.kind}.replay"
        replay.write(file)
        opened = replays.read(str(file))
        states, actions = opened.play(lanes)
        assert len(states) == len(actions) + 1 and bool(states[-1].terminated) and not bool(states[-2].terminated)
        seat = replay.players.index("counting")
        assert replay.returns[seat] == pytest.approx(float(sum(state.rewards[seat] for state in states[1:])))
        if replay.kind.endswith("return"):
            assert replay.returns[seat] == pytest.approx(extreme)
        else:
            assert surprise_of(env, opened, states, actions) == pytest.approx(extreme, rel=1e-4)
        assert [each["step"] for each in replay.thinned] == list(range(len(states)))
        assert len({len(each) for each in replay.thinned}) == 1 and "observation" not in replay.thinned[0]
        end = states[-1].replace(observation=None, legal_action_mask=None)
        chex.assert_trees_all_close(opened.last().replace(observation=None, legal_action_mask=None), end, rtol=1e-5)


def test_long_games_are_thinned_or_left_out(monkeypatch):
    env = RockPaperScissors(rounds=9)
    random = bot_player(env, "random")
    monkeypatch.setattr(replays, "SHOWN", 4)
    _, found = recorded(env, "tests.support.games:RockPaperScissors", random, [random], deals=2)
    assert [each.kind for each in found] == ["highest_return", "lowest_return"]  # a bot expects nothing
    assert [each["step"] for each in found[0].thinned] == [0, 3, 6, 9]
    monkeypatch.setattr("jaxrl.matches.recording.highlights.LONGEST", 8)
    assert recorded(env, "tests.support.games:RockPaperScissors", random, [random], deals=2)[1] == []


# ---- in a run -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A training with four evaluations on its way, resumed and extended once."""
    home = tmp_path_factory.mktemp("replays")
    tree = {
        "run": {"directory": str(home), "name": "run", "cache_dir": "", "devices": 1},
        "env": {"id": "tests.matches.test_replays:Priced", "options": {"random_start": True}},
        "network": {"hidden": [8]},
        "ppo": {"epochs": 1, "minibatches": 1, "gamma": 0.5},
        "train": {"num_envs": 8, "num_steps": 4, "total_steps": 192, "updates_per_call": 1, "checkpoint_every": 2}
        | {"evaluate_every": 2, "keep": 2},
        "evaluate": {"deals": 4, "training_deals": 4, "opponents": ["random", "lowest"]},
    }
    (home / "tiny.yaml").write_text(yaml.safe_dump(tree))
    assert cli.main(["train", "--config", str(home / "tiny.yaml")]) == 0
    return home / "run"


@pytest.mark.thorough
def test_a_run_keeps_the_newest_the_best_and_the_final(run):
    best = json.loads((run / "best.json").read_text())["update"]
    kept = {f"{update:08d}" for update in {best, 4, 6}} | {"final"}
    assert {path.name for path in (run / "replays").iterdir()} == kept
    files = sorted((run / "replays" / "final").iterdir())
    assert [path.stem for path in files] == ["highest_return", "highest_surprise", "lowest_return", "lowest_surprise"]
    assert sum(path.stat().st_size for path in files) < 4_000


def test_a_resumed_run_writes_the_same_again_and_drops_a_future_that_will_not_be(run, tmp_path):
    again = tmp_path / run.name
    shutil.copytree(run, again)
    for folder in ("00000006", "final"):
        shutil.rmtree(again / "replays" / folder)
    (again / "replays" / "00000099").mkdir()
    shutil.rmtree(again / "checkpoints" / "6")
    assert cli.main(["resume", str(again)]) == 0
    before, after = (
        {str(file.relative_to(place)): file.read_bytes() for file in (place / "replays").rglob("*.replay")}
        for place in (run, again)
    )
    assert before == after and not (again / "replays" / "00000099").exists()


def test_where_no_replay_can_be_kept_a_run_goes_on(run, tmp_path):
    """Neither on its way nor in its final evaluation, whose table is kept."""
    again = tmp_path / run.name
    shutil.copytree(run, again)
    for folder in ("checkpoints/6", "replays"):
        shutil.rmtree(again / folder)
    for file in ("evaluation.json", "log.txt"):
        (again / file).unlink()
    (again / "replays").write_text("in the way")
    assert cli.main(["resume", str(again)]) == 0
    assert (again / "log.txt").read_text().count(f"cannot keep replays in {again / 'replays'}: ") == 2
    assert len(json.loads((again / "evaluation.json").read_text())) == 1


def test_a_replay_is_filmed_with_its_rewards(run, tmp_path, capsys):
    file = run / "replays" / "final" / "highest_return.replay"
    film, rewards = tmp_path / "film.svg", tmp_path / "rewards.svg"
    assert cli.main(["film", str(file), "--out", str(film), "--rewards", str(rewards)]) == 0
    output = capsys.readouterr().out
    assert "highest return of the final evaluation" in output and "seat 0: r" in output
    opened = replays.read(str(file))
    states, actions = opened.play()
    assert opened.env.film(states, actions) == film.read_text()
    panels = reward_curves.panels(opened.env, states)
    assert list(panels) == ["return", "twice", "won"]  # what brought nothing is left out
    np.testing.assert_allclose(panels["return"][-1], opened.replay.returns)
    text = "".join(ElementTree.parse(rewards).getroot().itertext())
    assert "twice" in text and "nothing" not in text and "seat 1: " in text


# ---- what is refused ------------------------------------------------------------------------------------------------


def refused(file: Path, *arguments: str) -> str:
    """The sentence with which the command refuses a file."""
    with pytest.raises(UserError) as caught:
        replays.read(str(file)).play()
    return str(caught.value)


def changed(**values):
    """A way to change what a file holds, and its sum, too."""

    def change(record):
        body = {key: value for key, value in (record | values).items() if key != "sha256"}
        text = json.dumps(body, separators=(",", ":"))
        return json.dumps(body | {"sha256": hashlib.sha256(text.encode()).hexdigest()}, separators=(",", ":")).encode()

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda record: json.dumps(record).encode()[:-9], "is not valid JSON"),
        (lambda record: b"[]", "is no replay"),
        (lambda record: b'{"replay": 2}', "is no replay ('game' is missing)"),
        (changed(replay=1), "is no replay (replay must be one of 2"),
        (changed(game="unheard_of"), "unknown game 'unheard_of'"),
        (changed(game="os:system"), "names code or folders of its own, os:system"),
        (changed(options={"sides": 3}), "no option 'sides'"),
        (changed(version="0"), "is of version 0 of tests.matches.test_replays:Priced"),
        (changed(actions=[]), "is no replay (actions must be 1 to"),
        (changed(actions=[9]), "is no replay (actions.0 must be 0..8, not 9)"),
        (changed(actions=[[0, 1]]), "is no replay (actions.0 must be 0..8"),
        (changed(deal=[0, -1]), "is no replay (deal.1 must be 0..4294967295"),
        (changed(lane=4), "is no replay (lane must be 0..3"),
        (changed(players=["one"]), "is no replay (players must be 2"),
        (changed(deal=[1, 2]), "does not play here as it was recorded"),
        (changed(digest="00"), "does not play here as it was recorded"),
        (changed(made={"jaxrl": "9"}), "is no replay ('jax' is missing)"),
    ],
)
def test_what_is_no_replay_is_refused_in_one_sentence(run, tmp_path, damage, said):
    record = json.loads(gzip.decompress((run / "replays" / "final" / "lowest_return.replay").read_bytes()))
    file = tmp_path / "bad.replay"
    file.write_bytes(gzip.compress(damage(record)))
    sentence = refused(file)
    assert said in sentence and "\n" not in sentence


def test_all_that_a_replay_holds_is_covered(run, tmp_path):
    """Also what does not follow from the game: the figures for viewers, names, titles; and how it is written."""
    packed = (run / "replays" / "final" / "lowest_return.replay").read_bytes()
    text = gzip.decompress(packed).decode()
    record, file = json.loads(text), tmp_path / "bad.replay"
    file.write_bytes(changed()(record))  # it may be unpacked
    assert replays.read(str(file)).replay.text() == text
    other = {"returns": [9.0, 9.0], "title": "", "kind": "", "players": ["", ""], "lane": (record["lane"] + 1) % 4}
    thinned = [record["thinned"][0] | {"step": 7}, *record["thinned"][1:]]
    more = {"thinned": thinned, "made": record["made"] | {"jax": "0"}, "sha256": "0" * 64, "unknown": 1}
    texts = [json.dumps(record | {key: value}, separators=(",", ":")) for key, value in (other | more).items()]
    for bad in [*texts, json.dumps(record), text + " "]:
        file.write_text(bad)
        assert (
            refused(file)
            == f"{file} is damaged, its sha256 is not that of what it holds: take another replay of the run."
        )


def test_mistakes_of_the_command_end_in_one_sentence(run, tmp_path, capsys):
    good = str(run / "replays" / "final" / "lowest_return.replay")
    bad = tmp_path / "bad.replay"
    bad.write_bytes(b"anything")
    for arguments, said in [
        ([good, "--opponents", "random", "--seed", "3"], "leave --opponents and --seed out"),
        ([good, "env.id=skull_king"], "env cannot be changed here"),
        ([good, "--rewards", "nowhere/rewards.svg"], "cannot write nowhere/rewards.svg"),
        ([str(bad)], "is not valid JSON"),
        ([str(tmp_path / "none.replay")], "there is no file"),
    ]:
        assert cli.main(["film", *arguments, "--out", str(tmp_path / "film.svg")]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1


def test_a_game_that_does_not_repeat_is_not_kept(caplog):
    env = TicTacToe(random_start=True)
    player = bot_player(env, "random")
    matchup = Matchup(env, player, [player], deals=2, seed=3)
    lanes = replays.ReplayLanes(env)
    recorder = HighlightRecorder(configs.from_dict({"env": {"id": "tests.support.games:TicTacToe"}}), matchup, lanes)
    plain, calls = lanes.play, []

    def forgetful(*arguments):
        calls.append(plain(*arguments))
        digests = calls[-1].digests
        return calls[-1]._replace(digests=["", *digests[1:]]) if len(calls) == 2 else calls[-1]

    lanes.play = forgetful
    found = recorder(highlights([matchup.rows(None, "random")]), [player], "a test")
    assert [each.kind for each in found] == ["lowest_return"]
    assert "highest return of a test does not repeat exactly" in caplog.text


@pytest.mark.slow
def test_car_soccer_repeats_bit_by_bit(tmp_path):
    """A minute: its physics are compiled twice."""
    config = configs.load("car_soccer", ["evaluate.options.truncations={timeout: 8}"])
    from jaxrl.games import make_games

    env = make_games(config).evaluation
    player = bot_player(env, "rule_policy")
    matchup = Matchup(env, player, [player], deals=2, seed=5)
    found = HighlightRecorder(config, matchup, replays.ReplayLanes(env))(
        highlights([matchup.rows(None, "rule")]), [player], "a test"
    )
    assert len(found) == 2
    for replay in found:
        replay.write(tmp_path / "one.replay")
        opened = replays.read(str(tmp_path / "one.replay"))
        states, _ = opened.play()
        assert float(states[-1].game.arena.tick) == 8 * (len(states) - 1)
        assert {"ball", "cars", "boost", "step"} <= set(replay.thinned[0])
        parts = reward_curves.panels(env, states)
        np.testing.assert_allclose(sum(parts[name][-1] for name in parts if name != "return"), parts["return"][-1])
