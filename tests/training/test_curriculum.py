"""Curricula: what is refused, when a training moves, exact resume around every move, and what goes with it."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from flax import struct

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.games import make_stages
from jaxrl.matches.outcomes import GameTally
from jaxrl.policies.export import load_policy
from jaxrl.runs import directory as runs
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.statistics import Estimate
from jaxrl.training.exploit.best_response import Exploit
from jaxrl.training.launching.start import make_training
from jaxrl.training.loop import Training
from jaxrl.training.make import make_program
from jaxrl.training.plan import make_plan
from jaxrl.training.stages.curriculum import Course
from jaxrl.training.stages.stage_setup import carried, check_learners
from jaxrl.training.strength.evaluation import Evaluated
from jaxrl_envs.contract.env import Bot, Env, Key, State, public_fields
from jaxrl_envs.shared.errors import UserError
from tests.support.killing import assert_same, newest, rows
from tests.support.training import assert_identical, run
from tests.training.test_resume import CASES

pytestmark = pytest.mark.thorough


@struct.dataclass
class EchoState(State):
    word: jax.Array  # i32[]
    heard: jax.Array  # f32[P], 1 for those who have said it right


class Echo(Env):
    """Every seat in turn says the word that it hears, `shift` words further; a team is as good as its mean."""

    id, version = "echo", "1"
    num_actions = 4
    public_actions = True

    def __init__(self, *, team: int = 1, words: int = 4, shift: int = 0, narrow: bool = False):
        """A game of two teams.

        Args:
          team: seats of each.
          words: that there are, at most 4.
          shift: what has to be added to a word, modulo 4.
          narrow: an observation of another shape.
        """
        self.num_players, self.words, self.shift, self.narrow = 2 * team, words, shift, narrow

    @property
    def sides(self) -> tuple[int, ...]:
        return tuple(seat % 2 for seat in range(self.num_players))

    def _init(self, key: Key) -> EchoState:
        fields = public_fields(num_players=self.num_players, num_actions=4)
        word = jax.random.randint(key, (), 0, self.words)
        return EchoState(observation=None, word=word, heard=jnp.zeros(self.num_players), **fields)

    def _step(self, state: EchoState, action: jax.Array, key: Key) -> EchoState:
        seat = state.current_player
        heard = state.heard.at[seat].set(action == (state.word + self.shift) % 4)
        last = seat == self.num_players - 1
        right = jnp.stack([heard[0::2].mean(), heard[1::2].mean()])[jnp.array(self.sides)]
        return state.replace(
            word=jax.random.randint(key, (), 0, self.words),
            heard=heard,
            current_player=(seat + 1) % self.num_players,
            rewards=jnp.where(last, 2 * right - right.mean() * 2, 0.0),
            terminated=last,
        )

    def observe(self, state: EchoState, seat: jax.Array) -> jax.Array:
        """bool[4], the same for every seat."""
        return jnp.arange(3 if self.narrow else 4) == state.word

    @property
    def bots(self) -> Mapping[str, Bot]:
        return {"random": self.random_action, "echo": lambda state, key: state.word}


ECHO = "tests.training.test_curriculum:Echo"
BATCH = 32 * 4
EASY = {"name": "easy", "env.options.words": 2, "until": {"win_rate": 0.6, "games": 100, "margin": 0.1}}
HARD = {"name": "hard", "env": {"options": {"team": 2, "shift": 1}}, "ppo.entropy_coef": 0.02}


def tree(*curriculum: dict[str, Any], home: Path | str = "", **sections: Any) -> dict[str, Any]:
    """A configuration of seconds."""
    train = {"num_envs": 32, "num_steps": 4, "total_steps": 12 * BATCH, "updates_per_call": 2}
    return {
        "run": {"name": "echo", "directory": f"{home}/runs", "cache_dir": "", "devices": 1},
        "env": {"id": ECHO},
        "network": {"hidden": [16]},
        "ppo": {"minibatches": 2, "learning_rate": 0.01},
        "train": train | {"checkpoint_every": 2, "evaluate_every": 2, "keep": 100},
        "evaluate": {"deals": 4, "training_deals": 64, "opponents": ["random"]},
        "curriculum": list(curriculum),
    } | sections


# ---- what is written ------------------------------------------------------------------------------------------------


def test_a_stage_is_the_configuration_with_its_own_keys():
    config = configs.from_dict(tree(EASY, HARD))
    easy, hard = configs.stages(config)
    assert (easy.name, easy.config.env.options, hard.config.env.options) == (
        "easy",
        {"words": 2},
        {"team": 2, "shift": 1},
    )
    assert hard.config.ppo.entropy_coef.start == 0.02 and easy.config.ppo == config.ppo and hard.until is None
    assert easy.until and (easy.until.games, easy.until.margin, easy.until.steps) == (100, 0.1, 0)
    assert not easy.config.curriculum and hash(easy.config)
    assert configs.from_dict(configs.to_dict(config)) == config
    changed = configs.trained(
        configs.to_dict(config), "run", ["curriculum.0.until.win_rate=0.7", "curriculum.1.ppo.clip=0.3"]
    )
    assert configs.stages(changed)[0].until.win_rate == 0.7 and configs.stages(changed)[1].config.ppo.clip == 0.3
    [whole] = configs.stages(configs.Config())
    assert whole == ("", configs.Config(), None)


def told(**wrong: Any) -> str:
    """What is said of a curriculum whose first stage is wrong somewhere."""
    with pytest.raises(UserError) as error:
        check_learners(make_stages(configs.from_dict(tree(EASY | wrong, HARD))))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"name": "hard"}, "curriculum.1.name must be a text that no other stage has, got 'hard'"),
        ({"until": None}, "stage 'easy' of the curriculum: it has no end, but stages follow"),
        ({"until": {}}, "stage 'easy' of the curriculum: until needs steps, win_rate or rating"),
        ({"until": {"step": 1}}, "unknown key 'until.step': did you mean 'until.steps'?"),
        ({"until": {"steps": 9, "margin": 0.1}}, "until.against and until.margin are of a win rate"),
        ({"until": {"win_rate": 0.3, "margin": 0.3}}, "until.margin (0.3) must be less than until.win_rate (0.3)"),
        ({"until": {"rating": 1100}}, "until.rating is the policy's in its league"),
        ({"until": {"win_rate": 0.5, "against": ["eco"]}}, "until.against: there is no bot 'eco'; did you mean 'echo'"),
        ({"until": {"win_rate": 0.5, "against": ["echo"]}}, "'echo' is not among evaluate.opponents"),
        ({"ppo.clp": 1}, "unknown key 'ppo.clp': did you mean 'ppo.clip'?"),
        ({"network.hidden": [8]}, "network.hidden is the same in all stages: a stage changes env.options, seats"),
        ({"env.id": "skull_king"}, "env.id is the same in all stages"),
        ({"evaluate.opponents": ["absent"]}, "stage 'easy' of the curriculum: evaluate.opponents: there is no bot"),
        ({"env": 3}, "env is set as a whole, and env.options.words within it: leave one of them out"),
        ({"env": {"options": {"words": [2]}}}, "env.options.words is given twice, as a dotted key and in a section"),
        ({"env.options.narrow": True}, "that of stage 'easy' 3 and 4: one network plays all stages, so pad them"),
    ],
)
def test_a_mistake_is_one_sentence_before_anything_compiles(wrong, expected):
    assert expected in told(**wrong)


def test_what_needs_the_game_or_other_keys_is_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("JAXRL_ALLOW", "tests")
    late = [EASY, HARD | {"until": {"steps": 5, "win_rate": 0.5}}]
    (tmp_path / "late.yaml").write_text(yaml.safe_dump(tree(*late, home=tmp_path)))
    assert cli.main(["train", "--config", str(tmp_path / "late.yaml")]) == 2
    assert capsys.readouterr().err.endswith("and the first begins again; or leave until out.\n")
    assert not (tmp_path / "runs").exists()
    with pytest.raises(UserError, match="need evaluations: set train.evaluate_every"):
        configs.from_dict(tree(EASY, HARD, train={"evaluate_every": 0}))
    alone = {"id": "tests.support.games:Corridor"}
    with pytest.raises(UserError, match="one seat only, so no side wins: give until.steps alone"):
        make_stages(
            configs.from_dict({"env": alone, "curriculum": [{"name": "a", "until": {"win_rate": 1}}, {"name": "end"}]})
        )
    noisy = {"name": "noisy", "dqn.exploration": "noisy"}
    with pytest.raises(UserError, match="stage 'noisy' .* the learner is of another shape"):
        dqn = tree({"name": "plain", "until": {"steps": 9}}, noisy)
        check_learners(make_stages(configs.from_dict(configs.presets.merged(dqn, {"train": {"algorithm": "dqn"}}))))


# ---- when it moves --------------------------------------------------------------------------------------------------


def course(league: dict[str, Any] | None = None, **until: Any) -> Course:
    """Of three stages, without their games."""
    middle = {"name": "middle", "until": {"steps": 1000, "win_rate": 0.8, "margin": 0.5}}
    config = configs.from_dict(tree(EASY | {"until": EASY["until"] | until}, middle, {"name": "last"}, league=league))
    return Course([(stage, None) for stage in configs.stages(config)])


def result(rate: float, games: int = 60, **others: float) -> Evaluated:
    scores = {name: np.array([each, each]) for name, each in ({"random": rate} | others).items()}
    return Evaluated({}, 0.0, "", scores, games)


def test_a_stage_is_over_with_enough_games_won_and_stays_so_within_its_margin():
    at = course()
    assert at.take(result(1.0)) == {} and at.due(2, None)[0] == 0  # 60 games are too few
    assert at.take(result(0.1)) == {"curriculum/win_rate": 0.55} and at.due(4, None)[0] == 0
    assert at.take(result(0.7)) == {"curriculum/win_rate": pytest.approx(0.4)}  # the oldest 60 are not needed any more
    at.take(result(0.5))
    assert at.due(8, None) == (1, "the one before is done with a win rate of 60.0%")
    at.enter(1, 8)
    assert (
        at.watched
        and at.watched.name == "easy"
        and at.metrics(10) == {"curriculum/stage": 1, "curriculum/steps": 2 * BATCH}
    )
    at.take(result(0.1), result(0.6))
    at.take(result(0.1), result(0.42))
    assert at.due(10, None)[0] == 1  # 0.51: worse than when it was left, but within the margin
    at.take(result(0.1), result(0.56))
    assert at.due(12, None) == (0, "its win rate has fallen to 49.0%")
    again = Course(at.stages)
    again.begin(1, 12, json.loads(json.dumps(at.record())))  # what a checkpoint holds decides the same
    assert again.due(12, None) == at.due(12, None)
    at.enter(0, 12)
    assert at.watched is None and not at.standing.here and at.due(12, None)[0] == 0  # it takes as many games again


def test_a_stage_that_has_had_its_steps_is_left_for_good():
    """Nothing was reached that could be lost."""
    at = course(steps=5 * BATCH)
    at.take(result(0.2, games=200))
    assert at.due(4, None)[0] == 0 and at.due(5, None) == (1, "the one before has had its 640 steps")
    at.enter(1, 6)
    assert at.watched is None and at.due(6, None)[0] == 1
    at.take(result(0.9, games=200))
    at.enter(at.due(8, None)[0], 8)
    assert at.stage.name == "last" and at.watched and at.watched.name == "middle"
    at.take(result(0.0), result(0.2, games=200))
    assert at.due(10, None)[0] == 1


def test_only_some_opponents_may_count_and_the_rating_besides():
    league = {"opponents": ["self", "random"]}
    at = course(league, against=["echo"], rating=1100.0, games=50)
    pool = SimpleNamespace(elo=np.array([[1100.0, 1000.0], [1000.0, 1000.0]]))
    assert at.take(result(0.0, echo=0.7)) == {"curriculum/win_rate": 0.7} and at.due(2, pool)[0] == 0
    pool.elo += 50.0
    assert at.due(2, pool) == (1, "the one before is done with a win rate of 70.0%, rated 1100")
    assert at.due(2, None)[0] == 0


# ---- trainings ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the run "whole": a word is learnt, then another answer to it, so that the first is forgotten."""
    home = tmp_path_factory.mktemp("curriculum")
    (home / "echo.yaml").write_text(yaml.safe_dump(tree(EASY, HARD, home=home)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXRL_ALLOW", "tests")
        assert cli.main(["train", "--config", str(home / "echo.yaml"), "--name", "whole"]) == 0
        yield home


def test_a_training_is_promoted_and_demoted_and_says_so(home):
    found = rows(home, "whole")
    trained = [row for row in found if "curriculum/stage" in row]
    assert [row["curriculum/stage"] for row in trained] == [0, 1, 1, 1, 0, 1]
    assert [row["curriculum/steps"] // BATCH for row in trained] == [2, 2, 4, 6, 2, 2]
    log = (home / "runs" / "whole" / "log.txt").read_text()
    assert "update 2: stage 'hard' of the curriculum begins: the one before is done with a win rate of" in log
    assert "update 8: stage 'easy' of the curriculum begins: its win rate has fallen to" in log
    assert [row for row in found if row["update"] == 8][-1]["eval/random/win_rate"] > 0.8


@pytest.mark.parametrize("whole, at", [("whole", 2), ("whole", 6), ("turns", 6), ("turns", 8)])
def test_resume_is_exact_in_every_stage_and_around_every_move(home, whole, at):
    """The promotion is due after update 2; 6 lies in the stage behind it, on the way to the demotion. Where two games
    take turns, the first one is due again after update 6."""
    name = f"{whole}_from_{at}"
    if whole == "turns" and not (home / "runs" / whole).exists():
        turns = [EASY | {"until": {"steps": 2 * BATCH}}, HARD | {"until": {"steps": 4 * BATCH}}]
        (home / "turns.yaml").write_text(yaml.safe_dump(tree(*turns, home=home)))
        assert cli.main(["train", "--config", str(home / "turns.yaml"), "--name", whole]) == 0
        stages = [row["curriculum/stage"] for row in rows(home, whole) if "curriculum/stage" in row]
        assert stages == [0, 1, 1, 0, 1, 1]
    shutil.copytree(home / "runs" / whole, home / "runs" / name)
    run = runs.RunDirectory(home / "runs" / name)
    for step in run.checkpoints().steps():
        if step > at:
            shutil.rmtree(run.checkpoints().directory / str(step))
    config = run.config(["tests"])
    with contextlib.closing(make_training(make_plan(config), run, resume=True)) as trainer:
        assert trainer.train()
    assert_same(newest(home, whole), newest(home, name))
    assert newest(home, whole).meta["host"]["curriculum"] == newest(home, name).meta["host"]["curriculum"]
    assert rows(home, whole) == rows(home, name)


def test_a_checkpoint_is_used_in_the_game_of_its_stage(home, capsys):
    run = str(home / "runs" / "whole")
    for update, stage, options in ((2, "easy", {"words": 2}), (6, "hard", {"team": 2, "shift": 1})):
        trained = runs.load_run(run, str(update))
        assert (trained.stage, trained.config.env.options) == (stage, options) and not trained.config.curriculum
        assert trained.env.num_players == 2 * options.get("team", 1)
    assert cli.main(["evaluate", run, "--deals", "4", "--checkpoint", "6"]) == 0
    assert "checkpoint after 6 updates, in stage 'hard', parameters" in capsys.readouterr().out
    assert cli.main(["export", run, str(home / "echo.jaxrl")]) == 0
    assert load_policy(home / "echo.jaxrl").env.num_players == 4
    assert cli.main(["resume", run, "curriculum.1.name=other"]) == 2
    assert "the checkpoint is in stage 'hard' of a curriculum, but the stages of this configuration are 'easy', " in (
        capsys.readouterr().err
    )
    for lie in (5, {"stage": ["hard"]}, {"stages": "hard"}):
        with pytest.raises(UserError, match="the stages of this configuration are 'easy', 'hard'"):
            runs.stage_number(configs.stages(configs.from_dict(tree(EASY, HARD))), {"curriculum": lie})


def test_an_override_that_a_stage_puts_aside_is_told(home, capsys):
    (home / "again.yaml").write_text(yaml.safe_dump(tree(EASY, HARD, home=home)))
    configs.load(home / "again.yaml", ["ppo.clip=0.3", "curriculum.1.ppo.entropy_coef=0.1", "env.options.team=1"])
    assert capsys.readouterr().err == (
        "env.options.team has no effect in stage 'hard' of the curriculum, which sets it: change it there, as "
        "curriculum.1.env.options.team.\n"
    )
    runs.load_run(home / "runs" / "whole", "2", ["tests"], ["ppo.entropy_coef.start=0.3"])
    assert "ppo.entropy_coef.start has no effect in stage 'hard'" in capsys.readouterr().err
    configs.load("skull_king_rounds")  # its last stage sets nothing, and no override is given
    assert capsys.readouterr().err == ""


def test_late_stages_are_checked_at_the_start(home, monkeypatch):
    """Nothing of them is compiled before the training comes there, but what does not fit is said before it begins."""

    def free(*, host: bool) -> int:
        return 2**30

    def size(forms: Any, *, host: bool) -> int:
        heard = getattr(getattr(forms, "env_state", None), "heard", None)
        return 2**40 if heard is not None and heard.shape[-1] == 4 else 0

    monkeypatch.setattr("jaxrl.training.memory_budget.free_bytes", free)
    monkeypatch.setattr("jaxrl.training.memory_budget.size_of", size)
    config = configs.named(configs.load(home / "echo.yaml"), "late")
    with pytest.raises(UserError, match="^stage 'hard' of the curriculum: this training needs about 1,024.0 GiB"):
        make_training(make_plan(config), runs.new_run(config), resume=False)


def test_another_run_goes_on_in_the_stage_of_its_checkpoint(home):
    """Of a stage that it does not have it begins in its first, in which the same network plays."""

    def begun(name: str, *stages: dict[str, Any], **options: Any) -> Training:
        origin = {"train": tree()["train"] | {"from_run": "whole@6", "total_steps": 99 * BATCH}}
        wanted = tree(*stages, home=home, **origin, **options)
        config = configs.named(configs.from_dict(wanted), name)
        return make_training(make_plan(config), runs.new_run(config), resume=False)

    source = runs.RunDirectory(home / "runs" / "whole").checkpoints().read(6)
    for number, stages in ((1, (EASY, HARD)), (0, (EASY, HARD | {"name": "harder"})), (0, ())):
        with contextlib.closing(begun(f"on_{number}", *stages)) as trainer:
            assert checkpoint.params_hash(trainer.params) == source.meta["params_hash"]
            assert trainer.course.number == number and trainer.course.standing.since == trainer.update == 6
    with pytest.raises(UserError, match="train.from_run: 'whole' after 6 updates: the checkpoint does not fit"):
        begun("narrow", env={"id": ECHO, "options": {"narrow": True}})


def test_a_run_is_diagnosed_in_the_stage_that_it_has_reached(home, monkeypatch, capsys):
    measured: list[configs.Config] = []
    monkeypatch.setattr("jaxrl.diagnose.machine_report.diagnose", lambda config, seconds: measured.append(config))
    monkeypatch.setattr("jaxrl.diagnose.machine_report.describe", str)
    assert cli.main(["diagnose", str(home / "runs" / "whole")]) == 0
    assert cli.main(["diagnose", "--config", str(home / "echo.yaml")]) == 0
    assert [each.env.options for each in measured] == [{"team": 2, "shift": 1}, {"words": 2}]
    assert capsys.readouterr().out.startswith("stage 'hard' of the curriculum\n")


def test_all_checkpoints_are_exploited_on_as_many_deals(home, monkeypatch):
    """A stage's own `evaluate.deals` does not stand above what the command line says."""
    deals: list[int] = []

    class Counting:
        def __init__(self, config: configs.Config, env: Env, table: Env, deviators: tuple[str, ...]):
            deals.append(config.evaluate.deals)

        def from_each_start(self, *args: Any) -> list[Exploit]:
            return [Exploit(None, Estimate(0.0, 0.0), Estimate(0.0, 0.0), GameTally(1, 0, 1), 0, 0.0, "policy", 0.5)]

    monkeypatch.setattr("jaxrl.training.exploit.exploitability.Exploiter", Counting)
    run = home / "runs" / "whole"
    keys = ["curriculum.0.evaluate.deals=9", "exploit.updates=3"]
    assert cli.main(["exploit", str(run), "--checkpoint", "2,6", "--deals", "7", *keys]) == 0
    records = json.loads((run / "exploitability.json").read_text())
    assert deals == [7, 7] and [record["settings"]["deals"] for record in records] == [7, 7]


# ---- what goes with it ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["ppo, league, memory, two seeds, magnet, average", "dqn, host, cut games"])
def test_what_was_learnt_goes_on_in_new_games(case):
    """Also opponents of the past; but no replay buffer, which is of other games."""
    config, env = CASES[case]
    program = make_program(config, env)
    state, _ = run(program, program.init(3), calls=2)
    if config.league.snapshots:  # as if the last two had come after one update, into places that had become free
        order = state.pool.order[:, ::-1]
        state = state.replace(pool=state.pool.replace(order=order, born=jnp.full_like(state.pool.born, 4)))
    begun = carried(program, state)
    assert_identical(begun.learner.params, state.learner.params)
    assert_identical(begun.learner.opt_state, state.learner.opt_state)
    assert_identical((begun.key, begun.update, begun.env_steps), (state.key, state.update, state.env_steps))
    games = [lanes.blobs if env.host else lanes.env_state.board for lanes in (begun.lanes, state.lanes)]
    assert not np.array_equal(*games)
    if config.league.snapshots:
        order, kept = np.argsort(state.pool.order[0]), (state.pool.born, state.pool.snapshots)
        assert_identical((begun.pool.born, begun.pool.snapshots), jax.tree.map(lambda leaf: leaf[:, order], kept))
        assert begun.pool.games.sum() == 0
    if config.train.algorithm == "dqn":
        assert state.learner.ready and not begun.learner.ready
    done = np.asarray(state.update)
    after, found = run(program, begun)
    program.close()
    assert np.all(after.update == done + config.train.updates_per_call)
    assert np.all(np.isfinite(found["train/loss"]))


def test_the_shipped_curriculum_fits():
    config = configs.load("skull_king_rounds")
    stages = configs.stages(config)
    make_stages(config)
    assert [stage.until is None for stage in stages] == [False] * (len(stages) - 1) + [True]
    assert stages[-1].config.env == configs.load("skull_king_cpu").env
