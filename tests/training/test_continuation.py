"""`train.from_run`: what a new run takes over from another one, and every way in which it cannot."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.games import make_stages
from jaxrl.runs import directory as runs
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.metric_log import read_rows
from jaxrl.training.config import TrainConfig
from jaxrl.training.launching.start import make_training
from jaxrl.training.loop import Training
from jaxrl.training.plan import make_plan
from jaxrl_envs.shared.errors import UserError
from tests.support.games import TicTacToe
from tests.support.killing import assert_same
from tests.support.small_runs import configure, train

pytestmark = pytest.mark.thorough

BATCH = 8 * 4  # steps per update of the first run


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a configuration and the run "first": 8 updates, a checkpoint every 2."""
    home = tmp_path_factory.mktemp("continuation")
    rates = {"learning_rate": {"kind": "constant", "start": 0.001}}
    rates |= {"entropy_coef": {"kind": "linear", "start": 0.04, "end": 0.01}}
    configure(home, "tests.support.games:TicTacToe", 8, env={"options": {"random_start": True}}, ppo=rates)
    assert train(home, "first") == 0
    return home


def trainer(home: Path, name: str, *overrides: str) -> Training:
    """A new run before its first update."""
    config = configs.load(home / "tiny.yaml", [f"run.name={name}", *overrides])
    return make_training(make_plan(config), runs.new_run(config), resume=False)


def refused(home: Path, *overrides: str) -> str:
    with pytest.raises(UserError) as error:
        trainer(home, "refused", *overrides).close()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_parameters_optimizer_key_and_counters_are_taken_over(home):
    """Also onto another number of games; then the environment steps are those really made."""
    source = runs.RunDirectory(home / "runs" / "first").checkpoints().read(4)
    new = trainer(
        home, "taken", "train.from_run=first@4", "train.num_envs=16", "run.seed=5", f"train.total_steps={99 * BATCH}"
    )
    arrays, _ = checkpoint.pack(new.state)
    new.close()
    parts = ("learner.params.", "learner.opt_state.", "key", "update", "env_steps.", "games.")
    names = [name for name in source.arrays if name.startswith(parts)]
    assert len(names) > 20
    for name in names:
        assert arrays[name].tobytes() == source.arrays[name].tobytes(), name
    assert new.update == 4 and new.steps == int(new.state.env_steps) == 4 * BATCH
    assert int(new.state.games) == int(source.arrays["games.lo"]) > 0
    assert arrays["lanes.controllers"].shape == (16, 2)
    hyper = new.state.learner.hyper
    assert float(hyper.first_update) == 4 and int(hyper.at(4)["entropy_coef"] * 1e6) in (39999, 40000)


def test_the_pool_begins_with_the_earlier_checkpoints(home):
    """The newest before the update, the oldest of them is the first to be overwritten."""
    league = "league={opponents: [self, snapshots, random], snapshots: 2}"
    total = f"train.total_steps={99 * BATCH}"
    new = trainer(home, "pooled", "train.from_run=first@8", league, total)
    new.close()
    pool, store = jax.device_get(new.state.pool), runs.RunDirectory(home / "runs" / "first").checkpoints()
    assert pool.born.tolist() == [4, 6] and pool.order.tolist() == [0, 1]
    for slot, update in enumerate((4, 6)):
        held = jax.tree.map(lambda leaf, slot=slot: leaf[slot], pool.snapshots)
        assert checkpoint.params_hash(held) == store.read(update).meta["params_hash"]


def test_options_that_change_no_shape_may_differ_where_the_game_says_so(home, monkeypatch, capsys):
    """`Env.free_options`: in a run that goes on, and of the candidate and the other one in an evaluation."""
    monkeypatch.chdir(home)
    other = ["train.from_run=first@4", "env.options.random_start=false", f"train.total_steps={6 * BATCH}"]
    allowed = ["--allow", "tests", "--deals", "2", "--opponents", "random"]
    assert "its options is" in refused(home, *other)
    monkeypatch.setattr(TicTacToe, "free_options", ("random_start",))
    trainer(home, "moved", *other).close()
    assert train(home, "elsewhere", *other) == 0
    assert cli.main(["evaluate", "elsewhere", "--against", "first", *allowed]) == 0
    assert capsys.readouterr().out.count("| first ") == 2  # against random, and in person
    monkeypatch.setattr(TicTacToe, "free_options", ())
    assert cli.main(["evaluate", "elsewhere", "--against", "first", *allowed]) == cli.USER_ERROR
    assert "plays another game" in capsys.readouterr().err


def test_games_are_dealt_again(home):
    """Not those of the first run, and other ones at each place of it."""
    boards = []
    for update in (2, 4):
        new = trainer(home, "deals", f"train.from_run=first@{update}")
        boards.append(np.asarray(new.state.lanes.env_state.board))
        new.close()
    first = runs.RunDirectory(home / "runs" / "first")
    config = dataclasses.replace(first.config(), run=dataclasses.replace(first.config().run, name="again"))
    again = make_training(make_plan(config), runs.new_run(config), resume=False)
    boards.append(np.asarray(again.state.lanes.env_state.board))
    again.close()
    assert not any(np.array_equal(boards[i], boards[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_a_continued_run_counts_on_and_resumes_exactly(home):
    """The newest checkpoint is written out, schedules begin with it, and a stop in between changes nothing."""
    total = f"train.total_steps={12 * BATCH}"
    assert train(home, "second", "train.from_run=first", total) == 0
    run = runs.RunDirectory(home / "runs" / "second")
    assert run.config().train.from_update == 8
    digest = runs.make_stamp(run.config(), runs.make_env(run.config())).config_digest
    assert run.checkpoints().newest().meta["config_digest"] == digest  # resuming it gives the same digest
    rows = [row for row in read_rows(run.metrics_file) if "train/loss" in row]
    assert [row["update"] for row in rows] == [10, 12]
    assert [row["time/total_timesteps"] for row in rows] == [10 * BATCH, 12 * BATCH]
    assert rows[-1]["train/entropy_coef"] == pytest.approx(0.01) and rows[0]["train/entropy_coef"] == pytest.approx(
        0.03
    )

    split = trainer(home, "split", "train.from_run=first", total)
    split._call()
    split.checkpoints.save(split.snapshot(), 0.0)
    split.close()
    assert cli.main(["resume", str(home / "runs" / "split")]) == 0
    assert_same(run.checkpoints().newest(), runs.RunDirectory(home / "runs" / "split").checkpoints().newest())


def test_a_resume_without_own_checkpoints_begins_with_the_other_run_again(home):
    trainer(home, "early", "train.from_run=first@6").close()
    run = runs.RunDirectory(home / "runs" / "early")
    again = make_training(make_plan(run.config()), run, resume=True)
    again.close()
    assert again.update == 6
    source = runs.RunDirectory(home / "runs" / "first").checkpoints().read(6)
    assert checkpoint.params_hash(again.params) == source.meta["params_hash"]


def test_a_run_that_is_not_as_its_checkpoints_is_one_sentence(home, capsys):
    run = runs.RunDirectory(home / "runs" / "first")
    shutil.copytree(run.path, home / "runs" / "strange")
    run, path = runs.RunDirectory(home / "runs" / "strange"), str(home / "runs" / "strange")
    written = run.config_file.read_text()
    run.config_file.write_text(written.replace("seeds: 1", "seeds: 2", 1))
    for command in ("resume", "evaluate"):
        assert cli.main([command, path]) == 2
        assert "it is of 1 seed(s), but run.seeds is 2: set it to 1" in capsys.readouterr().err
    run.config_file.write_text(written)
    for part in ("a day", ("window", "a day"), ("curriculum", "a day")):
        newest = run.checkpoints().newest()
        for step in run.checkpoints().steps():
            shutil.rmtree(run.checkpoints().directory / str(step))
        host = newest.meta["host"]
        told = host | ({part: 1} if isinstance(part, str) else {part[0]: {part[1]: 1}})
        store = run.checkpoints()
        store.save(dataclasses.replace(newest, meta=newest.meta | {"host": told}))
        store.close()
        assert cli.main(["resume", path]) == 2
        found = capsys.readouterr().err
        assert found.count("\n") == 1 and ("a day" in found or "of a curriculum" in found)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["train.from_run=frist"], "did you mean 'first'"),
        (["train.from_run=first@5"], "use newest, best, or one of 2, 4, 6, 8"),
        (["train.from_run=first@4", "train.updates_per_call=3"], "multiple of train.updates_per_call"),
        (["train.from_run=first", "train.updates_per_call=3", "train.total_steps=1000"], "multiple of train.updates"),
        (["train.from_run=first@4", "network.hidden=[9]"], "does not fit"),
        (["train.from_run=first@4", "run.seeds=2"], "it is of 1 seed(s), but run.seeds is 2: set it to 1"),
        (["train.from_run=first@4", "env.options={random_start: false}"], "of another game"),
        (["train.from_run=first"], "has 8 updates already"),
        (["train.from_run=first@8"], "raise train.total_steps"),
        (["train.from_run=refused"], "is the run 'refused' itself"),
        (["train.from_run=nowhere.jaxrl"], "cannot read nowhere.jaxrl"),
        (["train.from_run=zoo:beasty_baar"], "did you mean 'beasty_bar'"),
        (["train.from_run=zoo:beasty_bar"], "zoo:beasty_bar plays beasty_bar ("),
    ],
)
def test_what_cannot_be_continued_is_said(home, overrides, expected):
    assert expected in refused(home, *overrides)


def test_a_run_begins_with_a_policy_file(home, monkeypatch, seeds=2):
    """Its parameters, in every seed, the target's and the pool's too; with other options of the game, and counting from
    0. It resumes like any run."""
    monkeypatch.chdir(home)
    source, file = runs.RunDirectory(home / "runs" / "first").checkpoints().newest(), home / "first.jaxrl"
    allowed = ["--allow", "tests"]
    assert cli.main(["export", "first", str(file), *allowed]) == 0
    league, game = "league={opponents: [self, snapshots], snapshots: 2}", "env.options.random_start=false"
    begin = [f"train.from_run={file}", f"run.seeds={seeds}", f"train.total_steps={4 * BATCH}"]
    options = [*begin, league, game, "ppo.anchor={start: 0.1}"]
    new = trainer(home, f"fine{seeds}", *options)
    new.close()
    assert new.update == new.steps == 0
    learner, pool = new.state.learner, new.state.pool
    for seed in range(seeds):
        trees = runs.each_seed((learner.params, learner.target_params["anchor"], pool.snapshots), seeds)[seed]
        trees = (*trees[:2], jax.tree.map(lambda leaf: leaf[0], trees[2]))
        assert {checkpoint.params_hash(tree) for tree in trees} == {source.meta["params_hash"]}
    assert train(home, f"finer{seeds}", *options) == 0
    assert cli.main(["resume", f"finer{seeds}", "--steps", str(6 * BATCH), *allowed]) == 0
    assert "does not fit" in refused(home, *options, "network.hidden=[9]")


def test_an_empty_string_on_the_command_line():
    assert configs.load(None, ["run.cache_dir="]).run.cache_dir == ""


@pytest.mark.parametrize(
    ("from_run", "name", "checkpoint"),
    [
        ("shown", "shown", "newest"),
        ("shown@0", "shown", "0"),
        ("a@b@600", "a@b", "600"),
        ("zoo:battle", "zoo:battle", "newest"),
    ],
)
def test_the_run_and_the_checkpoint_in_from_run(from_run: str, name: str, checkpoint: str) -> None:
    train = TrainConfig(from_run=from_run)
    assert (train.from_name, train.from_checkpoint) == (name, checkpoint)


def test_the_shipped_continuation_fits_the_run_that_it_continues():
    """The earlier run keeps update 600, network and game are the same, and the numbers are those it is named for."""
    first, second = configs.load("beasty_bar_transformer"), configs.load("resume_600_to_1000")
    train = second.train
    assert (train.from_name, train.from_update, second.num_updates) == ("beasty_bar_transformer", 600, 1000)
    assert first.num_updates >= 600 and 600 % first.train.keep_every == 0
    assert (first.env, first.network, first.run.seeds) == (second.env, second.network, second.run.seeds)
    assert first.evaluation_options == second.evaluation_options
    make_stages(second)  # the game's own checks
    assert 600 % train.updates_per_call == 25 % train.updates_per_call == 0
