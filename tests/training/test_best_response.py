"""Best responses: what they win against policies whose exploitability is known, and that a resume repeats them."""

from __future__ import annotations

import dataclasses
import json
import logging
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples.nim import Nim
from jaxrl import cli
from jaxrl import config as configs
from jaxrl.algorithms.registry import make_algorithm
from jaxrl.games import make_games
from jaxrl.league.config import LeagueConfig, SeatMix
from jaxrl.runs import directory as runs
from jaxrl.training.config import ExploitConfig
from jaxrl.training.exploit import exploitability
from jaxrl.training.exploit.best_response import Exploiter, response_config, same_updates, starts_of
from jaxrl.training.loop import Training
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import Schedule
from tests.support.games import Corridor, RockPaperScissors
from tests.support.killing import assert_same, rows
from tests.support.small_runs import configure, train
from tests.support.training import small_config

pytestmark = pytest.mark.thorough

LARGEST = 9


def nim_value() -> float:
    """What the best response to uniformly random play wins in Nim, over both seats and all first piles."""

    @cache
    def mine(stones: int) -> float:
        return max(1.0 if take == stones else theirs(stones - take) for take in range(1, min(3, stones) + 1))

    @cache
    def theirs(stones: int) -> float:
        takes = range(1, min(3, stones) + 1)
        return float(np.mean([-1.0 if take == stones else mine(stones - take) for take in takes]))

    return float(np.mean([(mine(n) + theirs(n)) / 2 for n in range(1, LARGEST + 1)]))


def config(**exploit):
    settings = {"every": 2, "updates": 40, "seeds": 2, "learning_rate": 0.02, "num_envs": 64}
    base = small_config(num_steps=16, minibatches=4)
    evaluate = dataclasses.replace(base.evaluate, deals=300)
    return dataclasses.replace(base, evaluate=evaluate, exploit=ExploitConfig(**(settings | exploit)))


def policy_of(settings, env, bias=(0.0, 0.0, 0.0)):
    """Parameters of a policy that draws actions with these log-odds, whatever it sees."""
    params = make_algorithm(settings, env).network.init(jax.random.key(0))
    head = {"kernel": jnp.zeros_like(params["heads"]["policy"]["kernel"]), "bias": jnp.asarray(bias)}
    return params | {"heads": params["heads"] | {"policy": head}}


@pytest.mark.slow
def test_the_best_response_to_random_play_is_found():
    env, settings = Nim(largest=LARGEST), config()
    found = Exploiter(settings, env, env)(policy_of(settings, env), update=7)
    exact = nim_value()
    assert exact == pytest.approx(0.706, abs=1e-3)
    assert exact - 0.12 < found.gain.mean < exact + 2 * found.gain.half
    assert found.returned.mean == pytest.approx(found.gain.mean, abs=0.15)  # the policy itself earns 0 in its seat
    wins, draws, losses = found.tally.rates()
    assert found.tally.games == 600 and draws == 0 and wins - losses == pytest.approx(found.returned.mean)


def test_a_policy_that_cannot_be_exploited_and_one_that_always_can(caplog):
    """Rock, paper, scissors in four rounds: uniform play loses nothing to anybody, always rock loses all of them."""
    env, settings = RockPaperScissors(), config()
    exploiter = Exploiter(settings, env, env)

    def programs() -> set[str]:
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        wanted = ("_init_one", "_lanes_of", "_run_seeds", "_play")
        return {name for name in wanted if any("Compiling" in line and name in line for line in lines)}

    first, second = policy_of(settings, env), policy_of(settings, env, bias=(12.0, 0.0, 0.0))
    with jax.log_compiles(), caplog.at_level(logging.WARNING, "jax"):
        caplog.clear()
        uniform = exploiter(first, update=1)
        assert programs() == {"_init_one", "_lanes_of", "_run_seeds", "_play"}
        found = exploiter.from_each_start(second, update=2)
        assert not programs()  # compiled once for all cycles
    assert abs(uniform.gain.mean) < 2 * uniform.gain.half < 0.5
    assert found[0].gain.mean > 3.9 and found[0].tally.rates()[0] > 0.99 and found[0].fair == 0.5
    assert sorted(each.start for each in found) == ["policy", "scratch"] and found[0].seed != found[1].seed


def test_as_many_decisions_as_the_policy():
    """In self-play every decision is the policy's, a best response has one seat of n."""
    settings = config(num_envs=0)
    assert same_updates(settings, RockPaperScissors(), 10) == 20
    assert same_updates(settings, RockPaperScissors(num_players=4), 10) == 40
    larger = dataclasses.replace(settings, exploit=dataclasses.replace(settings.exploit, num_envs=64))
    assert same_updates(larger, RockPaperScissors(), 10) == 5
    mixed = dataclasses.replace(settings, seats=(SeatMix(weight=3), SeatMix(weight=1, learners=1, bots=("random",))))
    assert same_updates(mixed, RockPaperScissors(num_players=4), 16) == 52  # (3 + 1 / 4) / 4 of the decisions
    league = dataclasses.replace(settings, league=LeagueConfig(opponents=("self", "snapshots"), self_play=0.2))
    assert same_updates(league, RockPaperScissors(), 10) == 12


def test_what_best_responses_begin_with():
    def starts(**exploit):
        return starts_of(ExploitConfig(seeds=3, **exploit))

    assert starts() == ["policy", "scratch", "policy"] and starts(start="policy") == ["policy"] * 3
    assert starts(start="scratch") == ["scratch"] * 3


def test_what_a_best_response_is_trained_with():
    base = config(updates=5, seeds=3, num_envs=0)
    base = dataclasses.replace(base, ppo=dataclasses.replace(base.ppo, magnet="policy", ema=0.9))
    base = dataclasses.replace(base, train=dataclasses.replace(base.train, updates_per_call=2))
    derived = response_config(base, RockPaperScissors())
    assert derived.run.seeds == 3 and derived.num_updates == 6  # whole calls
    assert derived.train.num_envs == base.train.num_envs and derived.ppo.learning_rate == Schedule("linear", 0.02, 0.0)
    assert derived.league.opponents == ("snapshots",) and derived.league.snapshots == 1
    assert derived.network == base.network and derived.ppo.epochs == base.ppo.epochs
    assert derived.ppo.magnet == "none" and derived.ppo.ema == 0.0  # it should win, and need not be hard to exploit


def test_a_number_of_games_that_does_not_divide_is_told_by_its_key():
    env = Nim(largest=LARGEST)
    settings = config(num_envs=5)
    settings = dataclasses.replace(settings, ppo=dataclasses.replace(settings.ppo, minibatches=32))
    with pytest.raises(UserError, match=r"exploit.num_envs stands .* \(80\) must be divisible by ppo.minibatches"):
        Exploiter(settings, env, env)


def test_a_game_of_one_seat_has_no_best_response():
    env = Corridor()
    with pytest.raises(UserError, match="one seat only"):
        Exploiter(config(), env, env)
    with pytest.raises(UserError, match="exploit.every to 0"):
        make_games(configs.load(None, ["env.id=tests.support.games:Corridor", "exploit.every=5"]))


# ---- in training, and the command ----


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the run "league": 8 updates, exploit cycles after 4 and 8, a checkpoint every 2."""
    home = tmp_path_factory.mktemp("exploit")
    configure(
        home,
        "examples.nim:Nim",
        8,
        env={"options": {"largest": LARGEST}},
        league={"opponents": ["self", "snapshots", "random"], "snapshots": 2, "snapshot_every": 0},
        train={"evaluate_every": 4},
        evaluate={"deals": 4, "training_deals": 4, "best_by": "mean_win_rate"},
        exploit={"every": 4, "updates": 2, "seeds": 1},
    )
    with pytest.MonkeyPatch.context() as patch:  # the last evaluation would only take time
        patch.setattr(Training, "final_evaluation", lambda self: [])
        assert train(home, "league") == 0
        yield home


def test_exploit_cycles_are_logged_fill_the_pool_and_are_repeated_by_a_resume(home, capsys):
    run = runs.RunDirectory(home / "runs" / "league")
    whole, logged = run.checkpoints().newest(), rows(home, "league")
    assert [row["update"] for row in logged if "exploit/gain" in row] == [4, 8]
    for row in logged:
        if "exploit/gain" in row:
            assert -2.0 <= row["exploit/gain"] <= 2.0 and 0.0 <= row["exploit/win_rate"] <= 1.0
    assert whole.arrays["pool.born"].tolist() == [4, 8] and whole.arrays["pool.role"].tolist() == [1, 1]
    assert not np.array_equal(*whole.arrays["pool.snapshots.dense_0.kernel"])
    for step in (4, 6, 8):  # as if killed before the first cycle
        run.checkpoints().quarantine(step)
    assert cli.main(["resume", str(run.path)]) == 0
    assert_same(whole, run.checkpoints().newest())
    assert rows(home, "league") == logged
    table = capsys.readouterr().out.partition("the league of league after update 8\n")[2]
    assert [line.split()[3] for line in table.splitlines()[2:6]] == ["main", "bot", "exploiter", "exploiter"]


def test_evaluations_in_training_choose_the_best(home):
    run = runs.RunDirectory(home / "runs" / "league")
    rates = {
        row["update"]: row["eval/random/win_rate"] for row in rows(home, "league") if "eval/random/win_rate" in row
    }
    assert set(rates) == {4, 8}
    best = json.loads(run.best_file.read_text())
    assert best["best_by"] == "mean_win_rate" and best["score"] == max(rates.values()) == rates[best["update"]]


def test_the_command_measures_checkpoints_and_keeps_what_it_finds(home, capsys):
    run = runs.RunDirectory(home / "runs" / "league")
    command = ["exploit", str(run.path), "--checkpoint", "2,8", "--updates", "2", "exploit.learning_rate=0.5"]
    assert cli.main(command) == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| league")]
    assert [line.split("|")[2].strip() for line in table] == ["2", "8"]
    records = json.loads(run.exploitability_file.read_text())
    assert [record["update"] for record in records] == [2, 8] and records[0]["settings"]["learning_rate"] == 0.5
    assert records[1]["outcomes"]["games"] == 8
    assert [record["start"] for record in records] == ["policy"] * 2 and records[0]["fair_share"] == 0.5
    assert cli.main([*command[:2], "--budget", "same", "--from", "scratch", "--deals", "4"]) == 0
    record, control = json.loads(run.exploitability_file.read_text())[-2:]
    told = capsys.readouterr().out
    assert record["settings"]["updates"] == 10 and record["start"] == "scratch"  # 8 updates, self_play 0.2
    assert control["settings"] == record["settings"] and control["update"] == 2  # the nearest to a tenth of 8
    assert record["policy"] == "league" and control["policy"].startswith("control: ")
    assert "as many decisions as it each" in told and "fair 50.0%" in told
    assert cli.main([*command, "--budget", "same"]) == 2
    assert "leave one out" in capsys.readouterr().err
    assert cli.main(["exploit", str(run.path), "env.options.largest=3"]) == 2
    assert "env cannot be changed here" in capsys.readouterr().err
    assert cli.main(["exploit", str(run.path), "--checkpoint", "3"]) == 2
    assert "use newest, best, or one of" in capsys.readouterr().err


def test_each_checkpoint_has_its_own_budget_and_a_control_that_of_the_last(home, capsys, monkeypatch):
    run, made = runs.RunDirectory(home / "runs" / "league"), []

    class Counting:
        def __init__(self, config, *games):
            self.updates = config.exploit.updates

        def from_each_start(self, params, update, seed):
            made.append((update, self.updates))
            return []

    monkeypatch.setattr(exploitability, "Exploiter", Counting)
    command = ["exploit", str(run.path), "--checkpoint", "2,8", "--budget", "same", "--control"]
    assert cli.main([*command, f"{run.path}@4"]) == 0
    assert made == [(2, 3), (8, 10), (4, 10)]
    made.clear()
    assert cli.main([*command, "nothing"]) == 2 and not made, "a name that is wrong costs no training"
    assert cli.main([*command, "zoo:battle"]) == 2
    assert "plays another game" in capsys.readouterr().err


def test_a_bot_in_the_place_of_the_policy_is_another_lower_bound(home, capsys):
    """The perfect player wins every game of Nim that begins with a pile from which one can be won, from either seat."""
    run = runs.RunDirectory(home / "runs" / "league")
    command = ["exploit", str(run.path), "--updates", "2", "--deals", "16", "--control", "none"]
    assert cli.main([*command, "--deviators", "searcher-8,perfect,random"]) == 0
    searcher, perfect, random = json.loads(run.exploitability_file.read_text())[-3:]
    assert [perfect["start"], random["start"]] == ["perfect", "random"] and perfect["update"] == 8
    assert searcher["start"] == "searcher-8" and searcher["gain"]["mean"] > random["gain"]["mean"]
    assert perfect["gain"]["mean"] > random["gain"]["mean"] and perfect["gain"]["mean"] >= 0
    assert "perfect in its place wins" in capsys.readouterr().out
    assert cli.main([*command, "--deviators", "unknown"]) == 2 and "unknown" in capsys.readouterr().err


def test_the_command_measures_a_policy_file_as_it_measures_its_run(home, capsys, tmp_path):
    run, file = runs.RunDirectory(home / "runs" / "league"), tmp_path / "tiny.jaxrl"
    assert cli.main(["export", str(run.path), str(file)]) == 0
    rows_of, kept = [], []
    for name in (str(run.path), str(file)):
        capsys.readouterr()
        assert cli.main(["exploit", name, "--updates", "2", "--control", "none", "exploit.learning_rate=0.5"]) == 0
        rows_of.append([cell.strip() for cell in capsys.readouterr().out.split("\n|")[-1].split("|")])
        kept.append(run.exploitability_file.read_bytes())
    assert rows_of[0][1:5] == rows_of[1][1:5] and rows_of[0][1:3] == ["8", "policy"]
    assert kept[0] == kept[1]  # what is found of a file is printed alone
    assert cli.main(["exploit", str(file), "--checkpoint", "8"]) == 2
    assert "leave --checkpoint out" in capsys.readouterr().err
