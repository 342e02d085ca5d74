"""Engines that lie, and learners that diverge: one sentence names the culprit, and the newest checkpoint is as good as
if nothing had happened: with the engine mended, or a lower learning rate, the run ends as one without any trouble."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import cli
from jaxrl.runs.checkpoints.checkpoint import Snapshot
from jaxrl.runs.directory import RunDirectory
from jaxrl.training import make
from jaxrl.training.loop import Training
from jaxrl.training.stages import stage_setup
from jaxrl.training.state import is_sound
from jaxrl.training.strength.evaluation import TrainingEvaluation
from jaxrl_envs.host.engine import PythonEngine
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.shared.errors import UserError
from tests.support import small_runs
from tests.support.games import TicTacToe
from tests.support.host_games import TicTacToeGame
from tests.support.killing import assert_same
from tests.support.sebulba_training import threads_left
from tests.support.small_runs import configure, resume

pytestmark = pytest.mark.thorough

GAMES, STEPS, UPDATES, LYING = 16, 4, 6, 5
told: list[str] = []  # the lie that is being told


@dataclasses.dataclass(frozen=True)
class Lie:
    """What a method of game `LYING` gives instead of the truth, and what is said of it."""

    method: str
    answer: Callable[[], Any]
    sentence: str


def fail(error: BaseException) -> Any:
    raise error


def hang() -> None:
    while told:
        time.sleep(0.01)


LIES = {
    "nan observation": Lie("observe", lambda: [np.nan] * 18, "observation[0] is nan: an engine must give finite"),
    "nan reward": Lie("rewards", lambda: [0.0, np.nan], "rewards[1] is nan: an engine must give finite numbers"),
    "no legal action": Lie("mask", lambda: [False] * 9, "asks a question to which its mask allows no answer"),
    # Reported by `legal` at the first answer: a mask that allows too much is noticed only when it is used.
    "contradiction": Lie("legal", lambda: False, "its legal() does not"),
    "raise": Lie("step", lambda: fail(ZeroDivisionError("no dice")), "ZeroDivisionError: no dice"),
    "exit": Lie("step", lambda: fail(SystemExit(3)), "SystemExit: 3"),
    "hang": Lie("step", hang, "has not answered for 1 s; the engine hangs"),
}


class LiarGame(TicTacToeGame):
    """TicTacToe whose game `LYING` tells the lie that is `told`."""

    id = "liar"

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        engine = super().engine(num_games, seed, first_slot=first_slot)
        for board in engine.games:
            for method in ("observe", "rewards", "mask", "legal", "step") if board.slot == LYING else ():
                setattr(board, method, self.told_or(method, getattr(board, method)))
        return engine

    @staticmethod
    def told_or(method: str, truth: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*arguments: Any) -> Any:
            lie = LIES[told[0]] if told else None
            return lie.answer() if lie is not None and lie.method == method else truth(*arguments)

        return answer


class Liar(HostEnv):
    """The same as an `Env`."""

    id, version = LiarGame.id, LiarGame.version

    def __init__(self) -> None:
        super().__init__(LiarGame(opening=True))


class Unsound(TicTacToe):
    """A compiled game that pays what is no number for the last cell."""

    def _step(self, state: Any, action: Any, key: Any) -> Any:
        state = super()._step(state, action, key)
        return state.replace(rewards=jnp.where(action == 8, jnp.nan, state.rewards))


class Stuck(TicTacToe):
    """A compiled game without a legal action at the third stone."""

    def _step(self, state: Any, action: Any, key: Any) -> Any:
        state = super()._step(state, action, key)
        return state.replace(legal_action_mask=state.legal_action_mask & (jnp.sum(state.board >= 0) != 2))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny configuration of each algorithm."""
    home = tmp_path_factory.mktemp("runs")
    sections = {
        "ppo": {"entropy_coef": {"kind": "constant", "start": 0.01}},
        "dqn": {"updates": 2, "batch": 16, "capacity": 512, "learning_starts": 50},
    }
    for name, section in sections.items():
        configure(
            home,
            "tests.training.test_liars:Liar",
            UPDATES,
            name=name,
            sebulba={"threads": 2, "timeout": 1},
            train={"algorithm": name, "num_envs": GAMES, "num_steps": STEPS},
            **{name: section | {"learning_rate": {"kind": "constant", "start": 1e-3}}},
        )
    return home


@pytest.fixture(scope="module")
def programs() -> dict[Any, Any]:
    """The programs of all tests here: each is compiled once."""
    return {}


@pytest.fixture(autouse=True)
def small(programs: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No evaluations, and no thread is left."""

    def make_program(config: Any, env: Any) -> Any:
        identity = dataclasses.replace(config, run=dataclasses.replace(config.run, name=""))
        if identity not in programs:
            programs[identity] = make.make_program(config, env)
        return programs[identity]

    monkeypatch.setattr(stage_setup, "make_program", make_program)
    monkeypatch.setattr(Training, "final_evaluation", lambda self: [])
    yield
    told.clear()
    assert not threads_left()


def train(home: Path, algorithm: str, name: str, *overrides: str) -> int:
    return small_runs.train(home, name, *overrides, config=algorithm)


def newest(home: Path, name: str) -> Snapshot:
    """The newest checkpoint, which must be one that can be trained on from."""
    snapshot = RunDirectory(home / "runs" / name).checkpoints().newest()
    for leaf, array in snapshot.arrays.items():
        assert array.dtype.kind != "f" or np.isfinite(array).all(), leaf
    return snapshot


@pytest.fixture(scope="module")
def whole(home: Path, programs: dict[Any, Any]) -> Callable[[str], Snapshot]:
    """The last state of a run without any trouble, by algorithm."""
    found: dict[str, Snapshot] = {}

    def last(algorithm: str) -> Snapshot:
        if algorithm not in found:
            assert train(home, algorithm, f"{algorithm}-whole") == 0
            found[algorithm] = newest(home, f"{algorithm}-whole")
        return found[algorithm]

    return last


def only_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    errors = capsys.readouterr().err
    assert errors.count("jaxrl: ") == 1 and "Traceback" not in errors
    return errors.strip().splitlines()[-1]


@pytest.mark.parametrize(("algorithm", "lie"), [*(("ppo", lie) for lie in LIES), ("dqn", "nan reward")])
@pytest.mark.filterwarnings("ignore:game 5 does not return")
def test_a_lie_is_told_and_leaves_no_trace(home, whole, monkeypatch, capsys, algorithm, lie):
    last, name, call = whole(algorithm), f"{algorithm}-{lie}".replace(" ", "-"), Training._call

    def lying(self: Training) -> None:
        if self.update == 2:
            told.append(lie)
        call(self)

    monkeypatch.setattr(Training, "_call", lying)
    capsys.readouterr()
    assert train(home, algorithm, name) == cli.USER_ERROR
    sentence = only_sentence(capsys)
    assert sentence.startswith(f"jaxrl: the engine of liar failed in game {LYING}: "), sentence
    assert LIES[lie].sentence in sentence and "continue with: jaxrl resume" in sentence
    assert 2 <= newest(home, name).step < UPDATES
    told.clear()
    monkeypatch.setattr(Training, "_call", call)
    assert resume(home, name) == 0
    assert_same(last, newest(home, name))


def test_an_engine_that_fails_before_the_first_rollout(home, capsys):
    told.append("raise")
    assert train(home, "ppo", "early", "train.stagger=8", "sebulba.actors=4") == cli.USER_ERROR
    assert only_sentence(capsys).startswith(f"jaxrl: the engine of liar failed in game {LYING}: ")


def test_a_training_is_saved_where_an_evaluation_fails(home, monkeypatch, capsys):
    def failing(self: TrainingEvaluation, players: Any) -> Any:
        raise UserError("the engine of liar failed: no dice")

    monkeypatch.setattr(TrainingEvaluation, "__call__", failing)
    assert train(home, "ppo", "evaluated", "train.evaluate_every=2", "train.checkpoint_every=6") == cli.USER_ERROR
    assert "failed: no dice; the training is saved after update 2" in only_sentence(capsys)
    assert newest(home, "evaluated").step == 2


# ---- learners that diverge ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "rate", "how"),
    [("ppo", 1e4, "its policy answers"), pytest.param("dqn", 1e30, "is nan", marks=pytest.mark.slow)],
)
def test_a_diverged_learner_is_not_saved(home, whole, capsys, algorithm, rate, how):
    """Neither where its answers come to be illegal, nor where its metrics or parameters are no numbers."""
    last, name = whole(algorithm), f"{algorithm}-diverged"
    assert train(home, algorithm, name, f"train.total_steps={2 * GAMES * STEPS}") == 0
    capsys.readouterr()
    absurd = f"{algorithm}.learning_rate.start={rate}"
    assert resume(home, name, f"train.total_steps={UPDATES * GAMES * STEPS}", absurd) == cli.USER_ERROR
    sentence = only_sentence(capsys)
    assert sentence.startswith("jaxrl: training diverged: ") and how in sentence
    assert f"lower {algorithm}.learning_rate.start, then go on from checkpoint 2" in sentence
    assert newest(home, name).step == 2
    assert resume(home, name, f"{algorithm}.learning_rate.start=1e-3") == 0
    assert_same(last, newest(home, name))


@pytest.mark.slow
def test_checkpoints_of_a_policy_that_cannot_be_played_are_moved_aside(home, monkeypatch, capsys):
    """The weights of update 2 are saved before anybody notices that they answer illegally."""
    rate = ("dqn.learning_rate.start=1e5", "dqn.updates=1", "train.updates_per_call=1", "train.checkpoint_every=1")
    assert train(home, "dqn", "late", *rate) == cli.USER_ERROR
    sentence, store = only_sentence(capsys), RunDirectory(home / "runs" / "late").checkpoints()
    aside = sorted(int(path.name.split("-")[1]) for path in (home / "runs" / "late" / "damaged").iterdir())
    assert "which is not legal" in sentence and aside and max([0, *store.steps()]) < min(aside)
    for step in store.steps():
        assert f"checkpoint {step}" in sentence or step < max(store.steps())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e7])
def test_what_parameters_are_sound(bad):
    params = {"network": {"kernel": jnp.ones((3, 2))}, "normaliser": {"mean": jnp.full(3, 1e12)}}
    assert is_sound(params) and is_sound(jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params))
    assert not is_sound(params | {"network": {"kernel": jnp.ones((3, 2)).at[1, 1].set(bad)}})
    assert bool(is_sound(params | {"normaliser": {"mean": jnp.full(3, bad)}})) == np.isfinite(bad)
    for found in (params, params | {"normaliser": {"mean": jnp.full(3, bad)}}):  # of a role, say
        assert bool(is_sound({"worker": found})) == bool(is_sound(found))


@pytest.mark.parametrize(
    ("game", "fault"),
    [
        ("Unsound", "tic_tac_toe gave observations or rewards that are not finite"),
        ("Stuck", "tic_tac_toe asked seats that had no legal action"),
    ],
)
def test_a_compiled_game_that_breaks_its_contract_is_told_from_a_diverged_learner(home, capsys, game, fault):
    game = (
        f"env.id=tests.training.test_liars:{game}",
        "sebulba={}",
        "train.updates_per_call=1",
        "train.total_steps=64",
    )
    assert train(home, "ppo", "unsound", *game) == cli.USER_ERROR
    sentence = only_sentence(capsys)
    assert fault in sentence and "jaxrl check" in sentence
    assert "start again: nothing was saved yet" in sentence and "diverged" not in sentence
