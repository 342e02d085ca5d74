"""Imitation: recorded answers are learnt, measured against constant players, and trained on from."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
import yaml

from jaxrl import cli
from jaxrl.networks.config import NetworkConfig
from jaxrl.networks.factory import make_network
from jaxrl.players.player import network_player
from jaxrl.runs.directory import load_run
from jaxrl.runs.metric_log import read_rows
from jaxrl.training.imitation import collect_demonstrations, demonstrations, imitate
from jaxrl.training.imitation.cloning import make_check, minibatches, shrunk
from jaxrl.training.imitation.collect_demonstrations import labelled_by_bot, played_by_bots
from jaxrl.training.imitation.constant_policies import Prediction, best_constant, fit_weights, over_games
from jaxrl.training.imitation.dagger import Stop
from jaxrl.training.imitation.imitate import Report
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import Demonstrations
from jaxrl_envs.shared.errors import UserError
from tests.support.host_games import LINES, Board, HostTicTacToe, TicTacToeGame
from tests.support.memory_games import CUES, RecallGame, RecallOnHost


def move_of_expert(board: Board) -> int:
    """Wins if it can, blocks if it must, else the middle, else the highest free cell."""
    for seat in (board.asked, 1 - board.asked):
        for line in LINES:
            stones = [board.cells[cell] for cell in line]
            if stones.count(seat) == 2 and -1 in stones:
                return line[stones.index(-1)]
    return 4 if board.cells[4] < 0 else max(cell for cell in range(9) if board.cells[cell] < 0)


class ShownGame(TicTacToeGame):
    """TicTacToe whose recorded games are lines of moves; a line that ends with "?" was cut off."""

    recordings = (".moves",)

    def demonstrations(self, path: Path) -> Iterator[Demonstrations]:
        for line in path.read_text().splitlines():
            board, rows = Board(0, 0), []
            board.start()
            earned = np.zeros(2, np.float32)
            if not all(text in "012345678?" for text in line.split()):
                raise UserError(f"{path} holds no moves.")
            for text in line.replace("?", "").split():
                rows.append((board.observe(board.asked), board.mask(), int(text), board.asked))
                board.step(int(text))
                earned += np.array(board.paid, np.float32)
            yield Demonstrations(
                observation=np.array([row[0] for row in rows], np.float32),
                mask=np.array([row[1] for row in rows], bool),
                action=np.array([row[2] for row in rows], np.int32),
                seat=np.array([row[3] for row in rows], np.int32),
                result=np.full(2, math.nan, np.float32) if line.endswith("?") else earned,
            )


class Shown(HostEnv):
    """The same as an `Env`."""

    id, version = "shown", "1"

    def __init__(self, *, opening: bool = True):
        """A game.

        Args:
          opening: begin with one random stone of each seat.
        """
        super().__init__(ShownGame(opening=opening))


def record(path: Path, games: int, seed: int) -> None:
    """Games of the expert against itself after two random stones."""
    generator, lines = np.random.default_rng(seed), []
    for _ in range(games):
        board, moves = Board(0, 0), []
        board.start()
        while not board.how:
            free = [cell for cell in range(9) if board.cells[cell] < 0]
            moves.append(int(generator.choice(free)) if len(moves) < 3 else move_of_expert(board))
            board.step(moves[-1])
        lines.append(" ".join(map(str, moves)))
    path.write_text("\n".join(lines) + "\n")


def read_moves(*paths: Path) -> demonstrations.Found:
    game = ShownGame()
    return demonstrations.read(game, [demonstrations.source_of(game, str(path)) for path in paths])


SMALL = """
env: {id: "tests.training.imitation.test_imitate:Shown"}
run: {devices: 1, cache_dir: ""}
network: {hidden: [64]}
ppo: {epochs: 1, minibatches: 2}
sebulba: {groups: 1}
train: {num_envs: 4, num_steps: 8, total_steps: 64, updates_per_call: 2}
evaluate: {deals: 2, opponents: [random]}
"""


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A folder with the configuration, two files of games, and a run that has learnt from them."""
    place = tmp_path_factory.mktemp("imitate")
    (place / "small.yaml").write_text(SMALL)
    (place / "data" / "deep").mkdir(parents=True)
    record(place / "data" / "one.moves", 300, 1)
    record(place / "data" / "deep" / "two.moves", 300, 2)
    (place / "data" / "README").write_text("no moves\n")
    options = ["--data", str(place / "data"), f"run.directory={place}", "--name", "taught", "--learning-rate", "3e-3"]
    assert cli.main(["imitate", str(place / "small.yaml"), *options, "--minibatch", "64", "--epochs", "40"]) == 0
    return place


# ---- the command ----------------------------------------------------------------------------------------------------


def test_answers_are_predicted_better_than_by_any_constant_player(taught):
    report = json.loads((taught / "taught" / "imitation.json").read_text())
    players, margin = report["players"], report["margin"]
    assert list(players) == ["learnt", "best constant"]
    assert players["learnt"]["accuracy"]["mean"] > 0.6
    assert (report["games"], report["minibatch"], report["epochs"]) == (2000, 64, 40)  # as it was told
    assert margin["accuracy"]["mean"] - margin["accuracy"]["half_width_95"] > 0.1
    assert margin["cross_entropy"]["mean"] - margin["cross_entropy"]["half_width_95"] > 0.2
    assert report["value_error"] < report["value_variance"]  # values of few games are not surer than they may be
    assert 50 < report["checked_games"] <= 90  # games that are there twice are left out


def test_curves_stand_in_tensorboard_and_learning_stopped_in_time(taught):
    rows = read_rows(taught / "taught" / "metrics.jsonl")
    report = json.loads((taught / "taught" / "imitation.json").read_text())
    surprise = [row["imitate/cross_entropy"] for row in rows]
    assert report["epoch"] == 1 + int(np.argmin(surprise)) and len(rows) in (40, report["epoch"] + 4)
    assert (
        surprise[0] > min(surprise) and rows[0]["imitate/train_cross_entropy"] > rows[-1]["imitate/train_cross_entropy"]
    )
    assert list((taught / "taught" / "tensorboard").iterdir())


def test_ppo_goes_on_from_what_was_taught(taught, capsys):
    run = load_run(taught / "taught")
    assert run.update == 0
    options = [f"run.directory={taught}", "train.from_run=taught"]
    assert cli.main(["train", "--config", str(taught / "small.yaml"), "--name", "better", *options]) == 0
    assert f"parameters {run.params_hash}" in capsys.readouterr().err  # before the first update
    assert load_run(taught / "better").update == 2
    assert cli.main(["evaluate", str(taught / "taught"), "--deals", "100"]) == 0
    record = json.loads((taught / "taught" / "evaluation.json").read_text())[-1]
    assert record["rows"][0]["outcomes"]["win_rate"] > 0.6
    assert cli.main(["resume", str(taught / "taught")]) == cli.USER_ERROR
    assert "train.from_run=" in capsys.readouterr().err


def test_a_bot_shows_how_it_plays(taught, capsys):
    env = Shown()
    games = list(played_by_bots(env, ["lowest"], 20, seed=1))
    assert len(games) == 20
    for game in games:
        assert game.observation.shape == (len(game.action), env.game.num_features) and len(game.action) >= 3
        np.testing.assert_array_equal(game.action, np.argmax(game.mask, axis=1))
        assert set(np.diff(game.seat)) <= {-1, 1} and game.result.dtype == np.float32
        won = lined(game.observation[-1, 0::2], game.action[-1])  # by the seat that moved last, or a draw
        np.testing.assert_array_equal(game.result, won * np.where(np.arange(2) == game.seat[-1], 1.0, -1.0))
    assert {int(game.result[0]) for game in games} >= {-1, 1}
    again = list(played_by_bots(env, ["lowest"], 20, seed=1))
    assert all(np.array_equal(one.observation, two.observation) for one, two in zip(games, again, strict=True))
    assert len({game.observation.tobytes() for game in games}) > 10
    mixed = np.concatenate([each.mask.argmax(axis=1) != each.action for each in shown_by("lowest", "random")])
    assert 0.1 < mixed.mean() < 0.7, "half of the seats are held by one that draws"
    options = ["--data", "bot:lowest", "--games", "60", "--epochs", "3", f"run.directory={taught}", "--name", "lowest"]
    assert cli.main(["imitate", str(taught / "small.yaml"), *options]) == 0
    assert "games" in capsys.readouterr().out
    report = json.loads((taught / "lowest" / "imitation.json").read_text())
    assert report["players"]["learnt"]["accuracy"]["mean"] > 0.5
    assert cli.main(["imitate", str(taught / "small.yaml"), "--data", "bot:lowset", "--name", "wrong"]) == 2
    assert "lowset" in capsys.readouterr().err


def lined(own: np.ndarray, move: int) -> bool:
    """Whether a seat with these stones, f32[9], wins by one more."""
    return any(all(own[cell] or cell == move for cell in line) for line in LINES)


def shown_by(*names: str) -> list[Demonstrations]:
    return list(played_by_bots(Shown(), names, 60, seed=2))


def test_the_same_data_give_the_same_network(taught, capsys):
    hashes, stages = [], "curriculum=[{name: small, until: {steps: 32}}, {name: whole}]"
    for name in ("first", "second"):
        options = ["--data", str(taught / "data" / "one.moves"), f"run.directory={taught}", "--name", name]
        assert cli.main(["imitate", str(taught / "small.yaml"), *options, "--epochs", "2", stages]) == 0
        found = load_run(taught / name)
        hashes.append(found.params_hash)
        assert found.stage == "small"  # in which a training goes on from it, through both
        written = yaml.safe_load((taught / name / "config.yaml").read_text())["curriculum"]
        assert [stage["name"] for stage in written] == ["small", "whole"]
    assert hashes[0] == hashes[1]
    assert "margin over the best constant" in capsys.readouterr().out


def test_the_learner_plays_and_an_expert_says_what_it_should_have_done(taught, capsys):
    """Two rounds: the rule is learnt on positions into which its own moves lead, and it plays at the end."""
    options = ["--data", "bot:lowest", "--games", "40", "--dagger", "2", "--expert", "lowest", "--deals", "20"]
    more = ["--learning-rate", "3e-3", "--minibatch", "32", f"run.directory={taught}", "--name", "rounds"]
    assert cli.main(["imitate", str(taught / "small.yaml"), *options, *more, "--epochs", "12"]) == 0
    told = capsys.readouterr()
    assert "round 2: " in told.err
    report = json.loads((taught / "rounds" / "imitation.json").read_text())
    epochs = [row["update"] for row in read_rows(taught / "rounds" / "metrics.jsonl")]
    assert report["checked_games"] >= 10 and epochs == list(range(1, len(epochs) + 1)) and len(epochs) > 20
    rows = json.loads((taught / "rounds" / "evaluation.json").read_text())[-1]["rows"]
    assert [row["opponent"] for row in rows] == ["random"] and "| random" in told.out
    run = load_run(taught / "rounds")
    player = network_player(make_network(run.config.network, run.env), run.env, "it", run.params[0], greedy=False)
    games = list(labelled_by_bot(run.env, player, "lowest", 100, seed=7))
    legal, answers = np.concatenate([each.mask for each in games]), np.concatenate([each.action for each in games])
    np.testing.assert_array_equal(answers, legal.argmax(axis=1))
    assert report["players"]["learnt"]["accuracy"]["mean"] > 0.9


def test_what_is_best_so_far_is_written_when_it_is_stopped(taught, capsys, monkeypatch):
    """Between two steps, and while the learner plays."""
    line = imitate._line

    def stopping(epoch, row):
        if epoch == 3:
            signal.raise_signal(signal.SIGTERM)
        return line(epoch, row)

    monkeypatch.setattr(imitate, "_line", stopping)
    data = ["--data", str(taught / "data"), f"run.directory={taught}", "--epochs", "30"]
    assert cli.main(["imitate", str(taught / "small.yaml"), *data, "--name", "stopped"]) == 0
    told = capsys.readouterr().out
    assert "stopped before its games" in told and "jaxrl evaluate" in told
    report = json.loads((taught / "stopped" / "imitation.json").read_text())
    assert report["epoch"] == 3 and load_run(taught / "stopped").params_hash == report["params_hash"]
    assert not (taught / "stopped" / "evaluation.json").exists()

    def played(*arguments):
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal was ignored")

    monkeypatch.setattr(imitate, "_line", line)
    monkeypatch.setattr(collect_demonstrations, "labelled_by_bot", played)
    rounds = ["--dagger", "3", "--expert", "lowest", "--epochs", "2"]
    assert cli.main(["imitate", str(taught / "small.yaml"), *data, *rounds, "--name", "halted"]) == 0
    assert "stopped before its games" in capsys.readouterr().out
    assert json.loads((taught / "halted" / "imitation.json").read_text())["epoch"] == 2


def test_other_games_are_reported_on_alone_and_games_are_limited_and_weighed(taught, capsys):
    one = taught / "data" / "one.moves"
    more = ["--held-out-data", str(taught / "data" / "deep"), f"run.directory={taught}", "--deals", "0"]
    options = ["--data", f"{one}@50x0.25", f"{taught / 'data'}@30", "--epochs", "2", "--name", "parts"]
    assert cli.main(["imitate", str(taught / "small.yaml"), *options, *more]) == 0
    told = capsys.readouterr()
    assert "of --held-out-data" in told.out and not (taught / "parts" / "evaluation.json").exists()
    assert "80 games from" in told.err
    report = json.loads((taught / "parts" / "imitation.json").read_text())
    assert report["held_out"]["checked_games"] > 150 > report["checked_games"]  # without those that it learnt from
    game = ShownGame()
    sources = [demonstrations.source_of(game, f"{one}{part}") for part in ("@50x0.25", "@x2", "@7", "")]
    assert [(each.most, each.weight) for each in sources] == [(50, 0.25), (0, 2.0), (7, 1.0), (0, 1.0)]
    books = demonstrations.DemonstrationSplit(game, 1.0, False, 0.2, 0)
    first = demonstrations.read(game, sources[:1])
    books.add(first)
    found = demonstrations.Found(known=books.known)
    demonstrations.read_into(found, game, sources[1:2], print)
    assert found.twice >= 50  # what was there before is not added again
    books.add(found)
    weights = np.unique(books.train.weight, return_counts=True)
    assert list(weights[0]) == [0.25, 2.0] and weights[1].sum() == len(books.train)
    total = sum(float(batch.weight.sum()) for batch in minibatches(books.train, 16, np.random.default_rng(0)))
    assert total == pytest.approx(float(books.train.weight.sum()))
    assert books.train.games + books.check.games == 50 + len(found.games)


def test_examples_that_are_joined_are_those_of_both():
    game, files = ShownGame(), []
    for in_order in (False, True):
        parts = []
        for seed in (1, 2):
            found = demonstrations.Found()
            demonstrations.take(found, game, "a bot", played_by_bots(Shown(), ["random"], 12, seed))
            files.append(found)
            numbers = range(len(found.games))
            parts.append(demonstrations.examples_of(game, found, numbers, gamma=0.5, in_order=in_order))
        both = parts[0].joined(parts[1])
        assert both.games == parts[0].games + parts[1].games and len(both) == len(parts[0]) + len(parts[1])
        rows = [part.batch(np.arange(len(part))) for part in (*parts, both)]
        for one, two, all_of_them in zip(*rows, strict=True):
            np.testing.assert_array_equal(np.concatenate([one, two]), all_of_them)
        units = both.units[both.units >= 0]
        np.testing.assert_array_equal(np.sort(units), np.arange(len(both)))
        if in_order:
            assert all(len(np.unique(both.game[row[row >= 0]])) == 1 for row in both.units)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--data", "nowhere"], "there is no file or folder 'nowhere'"),
        (["--data", "."], "there are no recorded games (.moves) in"),
        (["--data", "data", "--check", "1"], "--check must lie between 0 and 1"),
        (["--data", "data", "--epochs", "0"], "--epochs must be at least 1"),
        (["--data", "data", "--dagger", "1"], "name the bot that knows better, --expert BOT"),
        (["--data", "data", "--expert", "lowest"], "--expert is of the rounds of --dagger"),
        (["--data", "data@0"], "would take nothing of it"),
        (["--data", "data", "--deals", "1"], "--deals must be 0 or at least 2"),
        (["--data", "data", "train.algorithm=dqn", "train.total_steps=100000"], "no probabilities to learn"),
        (["--data", "data", "env.id=tests.support.games:HighCard"], "imitation is for games on the host"),
        (["--data", "data", "env.id=tests.support.host_games:HostTicTacToe"], "has no recorded games to learn from"),
        (["--data", "data/README"], "README holds no moves"),
        (["--data", "wrong.moves"], "no legal action"),
        (["--data", "lonely.moves"], "at least two are needed"),
    ],
)
def test_mistakes_are_explained_and_leave_no_run(taught, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(taught)
    (taught / "wrong.moves").write_text("0 0 1\n")
    (taught / "lonely.moves").write_text("0 4 8 2\n0 4 8 2\n0 4 8 ?\n")
    if arguments[1] == ".":
        (taught / "empty").mkdir(exist_ok=True)
        arguments = ["--data", "empty"]
    assert cli.main(["imitate", "small.yaml", *arguments, "--name", "no", f"run.directory={taught}"]) == cli.USER_ERROR
    assert sentence in capsys.readouterr().err
    assert not (taught / "no").exists()


# ---- a memory -------------------------------------------------------------------------------------------------------


class RememberedGame(RecallGame):
    """Recall whose recorded games are lines of two cues: who plays answers them, and 0 where it is not asked."""

    recordings = (".cues",)

    def demonstrations(self, path: Path) -> Iterator[Demonstrations]:
        for line in path.read_text().splitlines():
            game, rows = RecallOnHost(0, 0, self.delays), []
            game.cues = list(map(int, line.split()))
            while not game.ended():
                seat = game.player()
                asked = game.number // 2 in (0, *self.delays)
                rows.append((game.observe(seat), game.mask(), game.cues[seat] if asked else 0, seat))
                game.step(rows[-1][2])
            columns = (np.array(column) for column in zip(*rows, strict=True))
            yield Demonstrations(*columns, result=np.full(2, len(self.delays), np.float32))  # type: ignore[misc]


class Remembered(HostEnv):
    """The same as an `Env`."""

    id, version = "remembered", "1"

    def __init__(self):
        super().__init__(RememberedGame((1, 3)))


@pytest.mark.parametrize(("kind", "share"), [("recurrent", (0.95, 1.0)), ("mlp", (0.5, 0.75))])
def test_what_must_be_remembered_is_learnt_by_who_remembers(tmp_path, kind, share):
    """Half of a seat's four answers can be seen; a quarter of the others is right by chance. Checked on other games."""
    cues = [f"{one} {two}" for one in range(CUES) for two in range(CUES)]
    (tmp_path / "all.cues").write_text("\n".join(cues))
    network = f"network: {{kind: {kind}, hidden: [16], recurrent: {{width: 16}}}}"
    (tmp_path / "small.yaml").write_text(
        SMALL.replace("test_imitate:Shown", "test_imitate:Remembered").replace("network: {hidden: [64]}", network)
    )
    options = ["--minibatch", "16", "--learning-rate", "1e-2", "--epochs", "30", "--patience", "30", "--check", "0.25"]
    data = ["--data", str(tmp_path / "all.cues"), f"run.directory={tmp_path}", "--name", "taught"]
    assert cli.main(["imitate", str(tmp_path / "small.yaml"), *data, *options, "ppo.sequence=8"]) == 0
    report = json.loads((tmp_path / "taught" / "imitation.json").read_text())
    assert (
        report["checked_decisions"] == 4 * 8 and share[0] <= report["players"]["learnt"]["accuracy"]["mean"] <= share[1]
    )


def test_questions_of_a_game_and_seat_stay_in_order(tmp_path):
    rows = demonstrations.sequences([np.array([0, 1, 1, 0]), np.array([1, 1, 1])])
    np.testing.assert_array_equal(rows, [[0, 3, -1], [1, 2, -1], [4, 5, 6]])
    record(tmp_path / "a.moves", 9, 3)
    found = read_moves(tmp_path / "a.moves")
    examples = demonstrations.examples_of(ShownGame(), found, range(len(found.games)), gamma=1.0, in_order=True)
    batches = list(minibatches(examples, 16, np.random.default_rng(0)))
    assert all(batch.mask.shape == (16 // examples.units.shape[1], examples.units.shape[1], 9) for batch in batches)
    total = sum((batch.weight[..., None] * batch.policy).sum(axis=(0, 1)) for batch in batches)
    np.testing.assert_array_equal(total, np.bincount(examples.action, minlength=9))
    for batch in batches:
        more = np.diff(batch.observation.sum(axis=-1), axis=1)  # stones on the board
        np.testing.assert_array_equal(more[batch.weight[:, 1:] > 0], 2)


# ---- the games ------------------------------------------------------------------------------------------------------


def test_examples_are_what_was_recorded(tmp_path):
    record(tmp_path / "a.moves", 20, 3)
    (tmp_path / "b.moves").write_text("4 0 ?\n4 0 8 1 2 5 6\n")
    game = ShownGame()
    raw = [each for each in game.demonstrations(tmp_path / "a.moves")]
    found = read_moves(*(tmp_path / f"{name}.moves" for name in "aba"))
    unique = len({each.action.tobytes() for each in raw}) + 1
    assert len(found.games) == unique and found.without_result == 1 and found.twice == len(raw) - (unique - 1) + 20
    examples = demonstrations.examples_of(game, found, [unique - 1, 0], gamma=0.5)
    last = list(game.demonstrations(tmp_path / "b.moves"))[1]
    batch = examples.batch(np.arange(7))
    np.testing.assert_array_equal(batch.observation, last.observation)
    np.testing.assert_array_equal(batch.mask, last.mask)
    np.testing.assert_array_equal(batch.action, [4, 0, 8, 1, 2, 5, 6])
    np.testing.assert_allclose(batch.value, [0.125, -0.25, 0.25, -0.5, 0.5, -1.0, 1.0])
    mixed = examples.batch(np.array([9, 2, 9, 0]))
    np.testing.assert_array_equal(mixed.observation[1], last.observation[2])
    np.testing.assert_array_equal(mixed.observation[0], raw[0].observation[2])
    np.testing.assert_array_equal(mixed.observation[0], mixed.observation[2])
    assert examples.games == 2 and list(examples.game[:8]) == [0] * 7 + [1]
    assert len(raw[0].action) == 9 or len(examples) == 7 + len(raw[0].action)  # a ninth move is no choice


def test_values_are_shrunk_and_nothing_else(tmp_path):
    record(tmp_path / "a.moves", 30, 3)
    found = read_moves(tmp_path / "a.moves")
    examples = demonstrations.examples_of(ShownGame(), found, range(len(found.games)), gamma=1.0)
    network = make_network(NetworkConfig(hidden=(16,)), Shown())
    params, check = network.init(jax.random.key(1)), make_check(network)
    loud = shrunk(params, 5.0)
    before, after = check(params, examples), check(loud, examples)
    np.testing.assert_array_equal(before.prediction.surprise, after.prediction.surprise)
    assert 0.0 < after.value_share < 1.0 or after.value_share == 0.0
    best = check(shrunk(loud, after.value_share), examples)
    assert (
        best.value_error < after.value_error and best.value_error <= best.value_variance + np.mean(examples.value) ** 2
    )
    assert best.value_share == pytest.approx(1.0) or after.value_share == 0.0


def test_games_are_divided_as_a_whole():
    train, check = demonstrations.split(40, 0.15, seed=1)
    assert len(check) == 6 and sorted([*train, *check]) == list(range(40))
    assert demonstrations.split(40, 0.15, seed=2)[1] != check
    assert [len(part) for part in demonstrations.split(2, 0.99, seed=0)] == [1, 1]


def test_the_result_of_a_bots_game_that_was_cut_off_is_not_known():
    env = HostTicTacToe(opening=True, limit=5)
    games = list(played_by_bots(env, ["random"], 40, seed=1))
    cut = [game.observation[-1].sum() == 4 and not lined(game.observation[-1, 0::2], game.action[-1]) for game in games]
    assert [np.isnan(game.result).all() for game in games] == cut and 0 < sum(cut) < 40
    found = demonstrations.Found()
    demonstrations.take(found, env.game, "bots", games)
    assert found.without_result == sum(cut) and len(found.games) + found.twice == 40 - sum(cut)


def test_a_game_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr(collect_demonstrations, "MAX_STEPS", 3)
    with pytest.raises(UserError, match="did not end within 3 steps.* must terminate"):
        list(played_by_bots(HostTicTacToe(), ["random"], 1, seed=1))


def test_a_stop_request_just_before_a_round_ends_it():
    stop = Stop()
    stop.wanted = signal.SIGINT
    with pytest.raises(KeyboardInterrupt), stop.at_once():
        pytest.fail("a round of an hour begins")


def test_values_are_of_what_is_earned_from_there_on():
    """A seat's rewards up to its next question, discounted by its questions; bots' games tell when they were paid."""
    nothing, seat = np.zeros((4, 1), np.float32), np.array([0, 1, 0, 0])
    before = np.float32([[0, 0], [1, 0], [1, 3], [6, 4]])
    game = Demonstrations(nothing, nothing, seat, seat, np.float32([10, 4]), before)
    np.testing.assert_array_equal(demonstrations._values(game, 0.5), [4.5, 4.0, 7.0, 4.0])
    np.testing.assert_array_equal(demonstrations._values(game._replace(before=None), 0.5), [2.5, 4.0, 5.0, 10.0])
    shown = list(played_by_bots(Remembered(), ["random"], 20, seed=1))
    for each in shown:
        right = (each.observation[:, CUES] > 0) & (each.action == each.observation[:2].argmax(axis=1)[each.seat])
        paid = np.diff([*each.before, each.result], axis=0)
        np.testing.assert_array_equal(paid, right[:, None] * (np.arange(2) == each.seat[:, None]))
        assert not each.before[0].any()
    assert sum(each.before.any() for each in shown) > 10


# ---- constant players -----------------------------------------------------------------------------------------------


def test_fixed_weights_are_the_most_probable_ones():
    """Answers drawn with known weights: the fit finds them, and no other weights explain the answers better."""
    generator = np.random.default_rng(0)
    mask = generator.random((20_000, 5)) < 0.6
    mask[:, 0] = True
    weights = np.array([1.0, 4.0, 0.5, 2.0, 1.0])
    share = mask * weights / (mask * weights).sum(axis=1, keepdims=True)
    action = np.array([generator.choice(5, p=row) for row in share])
    fitted = fit_weights(mask, action)
    np.testing.assert_allclose(np.exp(fitted - fitted[0]), weights, rtol=0.1)
    best = best_constant((mask, action), mask, action)
    expected = -np.log(share[np.arange(len(action)), action]).mean()
    assert best.surprise.mean() <= expected < np.log(mask.sum(axis=1)).mean()  # that of any legal action
    assert best.right.mean() > np.mean(np.argmax(mask, axis=1) == action)  # and of the first one


def test_intervals_are_over_games():
    generator = np.random.default_rng(0)
    game = np.repeat(np.arange(200), 25)
    alike = np.repeat(generator.random(200), 25)  # all questions of a game are alike: they count as one
    estimate, naive = over_games(alike, game), over_games(alike, np.arange(len(alike)))
    assert estimate.mean == pytest.approx(alike.mean()) and estimate.half == pytest.approx(5 * naive.half, rel=0.02)


def test_one_game_has_no_interval():
    guess = Prediction("constant", np.array([0.0, 1.0]), np.array([0.7, 0.7]))
    better = Prediction("network", np.array([1.0, 1.0]), np.array([0.2, 0.2]))
    one, two = (Report(better, guess, np.array(games), 0.1, 1.0).text() for games in ([0, 0], [0, 1]))
    assert "nan" not in one and "50.0 points of accuracy, 0.500 nats" in one
    assert "50.0 ± 635.3 points of accuracy" in two
