"""The benchmark measures what it says: counts, FLOPs, turns, failures and the command itself."""

from __future__ import annotations

import json
import os

import jax
import jax.numpy as jnp
import pytest

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.diagnose import hardware, jaxprs, play, timing
from jaxrl.diagnose.timing import Contestant, Speed
from jaxrl.diagnose.training import comparable
from jaxrl.text_tables import count, table
from jaxrl_envs.shared.errors import UserError
from scripts.benchmark import __main__ as command
from scripts.benchmark import breakdown, compiled, fleet, jobs, report, soccer, tables, training, worker
from scripts.benchmark.peers import published
from tests.support import games


def result(name: str, rate: float, cpu_rate: float = 1.0, view: str = "") -> Speed:
    return Speed(name, rate, rate, rate, cpu_rate, 1.0, 2.0, {"view": view})


# ---- timing -------------------------------------------------------------------------------------------------------


def test_contestants_take_turns_after_their_warm_up():
    calls: list[str] = []
    contestants = [Contestant(name, 10.0, lambda name=name: calls.append(name)) for name in "ab"]
    results = timing.race(contestants, rounds=3, seconds=0.0)
    assert "".join(calls) == "ab" + "ab" + "ab" * 3
    assert [each.name for each in results] == ["a", "b"] and all(each.low <= each.rate <= each.high for each in results)


def test_speed_meters_do_not_divide_by_zero():
    assert timing.safe_ratio(1.0, 0.0) == 0.0
    clock, cpu = timing.runner(lambda: None)(1)
    assert clock > 0 and cpu > 0


# ---- the game -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["lean", "observed", "features"])
def test_random_play_goes_on_through_many_games(view):
    program, states, lengths = play.playing(games.TicTacToe(), batch=8, steps=40, view=view)
    assert lengths.shape == (8,) and jnp.all((lengths >= 5) & (lengths <= 9))
    after, total, buffer = program(states, 1)
    assert after.observation is None and after.board.shape == (8, 9)
    assert jnp.any(total != 0) and jnp.any(after.board != states.board)
    leaves = jax.tree.leaves(buffer)
    assert len(leaves) == (0 if view == "lean" else 2) and all(leaf.shape[:2] == (40, 8) for leaf in leaves)


def test_reset_cost():
    """jumanji 297: what the reset costs is measured by leaving it out."""
    program, states, _ = play.playing(games.TicTacToe(), batch=8, steps=9, view="endless")
    after, _, buffer = program(states, 1)
    assert after.terminated.all() and buffer is None
    pair = [result("a", 80.0, view="lean"), result("b", 100.0, view="endless")]
    assert breakdown.reset_share(pair) == pytest.approx(0.2)


def test_seeds_of_random_play_matter():
    program, states, _ = play.playing(games.TicTacToe(), batch=8, steps=5, view="lean")
    one, same, other = (program(states, seed)[0].board for seed in (1, 1, 2))
    assert jnp.array_equal(one, same) and not jnp.array_equal(one, other)


def test_steps_become_games_per_second():
    team = jobs.bots("tests.support.games:TicTacToe", {}, batch=16, devices=1)
    random, lowest = team.contestants
    assert random.name == "random" and 5.0 < random.info["decisions_per_game"] < 9.0
    assert lowest.info["decisions_per_game"] == 7.0  # 0, 2, 4, 6: the first seat's fourth move completes a line
    lowest.block()
    results = [result("lowest", 70.0, 140.0)._replace(info=lowest.info)]
    header, _, row = tables.rates("bots", results).splitlines()
    assert "games/s" in header and row.split()[-3:] == ["10", "20", "7.00"]
    assert "games/s" not in tables.rates("bots", [result("of unknown length", 70.0)])
    figures = [published.Published("a paper", 5.0)]
    [found] = breakdown.against_published(results, figures)
    assert (found["ratio"], found["by_cpu_time"]) == pytest.approx((2.0, 4.0))
    assert tables.published([found]).split()[-2:] == ["4.0", "2.0"]  # by CPU time first
    assert breakdown.against_published([result("of unknown length", 70.0)], figures) == []


def test_simultaneous_games_can_be_measured():
    found = play.contestant(games.RockPaperScissors(), batch=4, view="features", steps=3)
    found.block()
    assert found.units == 12


def test_long_buffers_are_cut_short(monkeypatch):
    env = games.TicTacToe()
    assert play.view_bytes(env, "lean") == 0
    assert play.view_bytes(env, "observed") == 18 + 9
    assert play.view_bytes(env, "features") == 4 * 18 + 9
    monkeypatch.setattr(play, "BUFFER_BYTES", 20_000)
    found = play.contestant(env, batch=2**6, view="features", steps=128)
    assert found.info["steps"] == 20_000 // (2**6 * 81)


def test_program_size_counts_inner_programs():
    inner = jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, _: (c + 1, None), x, None, length=3)[0])(1)
    assert jaxprs.count_equations(inner.jaxpr) == 2  # the scan and its addition
    assert jaxprs.program_size(games.TicTacToe()) > 20


# ---- training -----------------------------------------------------------------------------------------------------


def test_flops_of_products_and_loops():
    def function(x, y):
        return jax.lax.scan(lambda c, _: (c @ y, None), x, None, length=3)[0]

    def bounded(x, y):
        return jax.lax.while_loop(lambda c: (c[0] < 3) & (c[1][0, 0] > 0), lambda c: (c[0] + 1, c[1] @ y), (0, x))[1]

    for each in (function, bounded):
        jaxpr = jax.make_jaxpr(each)(jnp.ones((2, 5)), jnp.ones((5, 5)))
        assert jaxprs.count_flops(jaxpr.jaxpr) == 3 * 2 * 2 * 5 * 5


SMALL = ["env.id=tests.support.games:TicTacToe", "network.hidden=[8,16]", "train.num_envs=8", "train.num_steps=4"]
SMALLER = [*SMALL, "ppo.minibatches=2", "ppo.epochs=3", "train.updates_per_call=1", "ppo.target_kl=0.1"]


@pytest.mark.thorough
def test_training_parts_run_and_are_counted():
    config = configs.load(None, [*SMALLER, "run.devices=1"])
    contestants, told = training.contestants(config)
    for each in contestants[:3]:
        each.block(), each.block()
    facts, forward = told(), 2 * (18 * 8 + 8 * 16 + 16 * 9 + 16 * 1)
    assert facts["flops_per_decision_forward"] == forward
    assert facts["flops_playing"] == forward
    # Forward and backward cost three products of each layer, but two of the first: nothing needs its input's gradient.
    assert facts["flops_learning"] == 3 * (3 * forward - 2 * 18 * 8)
    assert facts["others"] == 0.0 and facts["learnt"] == pytest.approx(1.0 - facts["forced"])
    assert 0.7 < facts["learnt"] < 1.0  # the ninth move is forced
    assert [each.name for each in contestants] == ["whole", "playing", "game", "matrix product on 1"]
    assert [each.units for each in contestants[:3]] == [32.0, 32.0, 32.0]


def test_early_stops_are_off_while_measuring():
    config = comparable(configs.load(None, [*SMALLER, "run.seeds=3"]))
    assert config.ppo.target_kl == 0.0 and config.run.seeds == 1


def test_breakdown():
    results = [result("whole", 100.0), result("playing", 400.0), result("game", 1000.0), result("matrix 1", 2e6)]
    facts = {"num_envs": 5, "num_steps": 2, "flops_playing": 4e3, "flops_learning": 8e3, "learnt": 0.75, "memory": {}}
    report = breakdown.of_training(worker.Measurement(results, facts))
    assert report["share"] == pytest.approx({"environment": 0.1, "inference": 0.15, "update": 0.75})
    assert report["seconds_per_update"]["update"] == pytest.approx(0.075)
    assert report["flops_share"] == pytest.approx(0.5)


def test_ratios_take_our_fastest():
    found = breakdown.ratios([result("a", 6.0, 3.0), result("b", 4.0, 8.0)], [result("peer", 2.0, 4.0)])
    assert found == [{"against": "peer", "ratio": 3.0, "by_cpu_time": 2.0}]
    assert breakdown.ratios([], []) == []


def test_the_peer_and_ours_have_equal_settings():
    config = configs.from_dict(compiled._cartpole(1))
    given = compiled.CARTPOLE
    assert (config.train.num_envs, config.train.num_steps) == (given["num_envs"], given["num_steps"])
    assert (config.ppo.epochs, config.ppo.minibatches) == (given["epochs"], given["minibatches"])
    assert list(config.network.hidden) == given["hidden"] and config.train.updates_per_call == given["updates"]


def test_a_block_of_stable_baselines_is_a_whole_iteration(monkeypatch):
    contrib = pytest.importorskip("sb3_contrib")
    from scripts.benchmark.peers import sb3_ppo

    learnt: list[int] = []
    train = contrib.MaskablePPO.train
    monkeypatch.setattr(contrib.MaskablePPO, "train", lambda self: (learnt.append(self.num_timesteps), train(self)))
    config = configs.load(None, SMALLER)
    found = sb3_ppo.contestant(config, games.TicTacToe())
    for _ in range(3):
        found.block()
    assert learnt == [32, 64, 96] and found.units == config.batch_size == 32
    monkeypatch.setattr(contrib.MaskablePPO, "train", lambda self: None)
    with pytest.raises(RuntimeError, match="not one whole iteration"):
        found.block()


# ---- processes ----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_workers_of_two_processes_take_turns():
    job = {"env": "tests.support.games:TicTacToe", "options": {}, "entries": [[4, "lean"]], "devices": 2}
    both = [worker.Task("environment", job, devices=2), worker.Task("environment", {**job, "devices": 1})]
    two, one = worker.ask(both, rounds=1, seconds=0.01)
    assert two.facts["hardware"]["devices"] == 2 and one.facts["hardware"]["devices"] == 1
    assert two.results[0].rate > 0 and two.results[0].info["batch"] == 4
    assert one.facts["jaxpr_equations"] > 20 and one.facts["memory"]["peak_rss_mib"] > 1
    json.dumps(two.as_dict())


def test_a_dead_worker_is_reported_with_its_last_words():
    with pytest.raises(worker.JobFailed, match="no_such_game"):
        worker.ask([worker.Task("bots", {"env": "no_such_game", "options": {}, "batch": 1, "devices": 1})])


def test_workers_get_flags_of_their_own(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_backend_extra_options=xla_cpu_use_multi_output_fusion --xla_dump_to=/x")
    flags = worker._environment(worker.Task("peer_games", {}, devices=3, our_flags=False))["XLA_FLAGS"]
    assert flags.split() == ["--xla_dump_to=/x", "--xla_force_host_platform_device_count=3"]


def test_the_game_decides_about_fusion(monkeypatch):
    for game, job in (
        ("skull_king", {"env": "skull_king"}),
        ("tests.support.games:TicTacToe", {"config": {"env": {"id": "tests.support.games:TicTacToe"}}}),
    ):
        monkeypatch.setenv("XLA_FLAGS", "")
        assert worker._game_of(job) == game
        xla.prepare_game(game)
        assert ("xla_cpu_use_multi_output_fusion" in os.environ["XLA_FLAGS"]) == (game == "skull_king")


# ---- the command --------------------------------------------------------------------------------------------------


def run(*given: str) -> int:
    return command.run(command.arguments().parse_intermixed_args(given))


def parts(only: list[str] | None, peers: bool) -> list[str]:
    """Names of what is measured, the repetition on one core left out."""
    config = configs.load(None, ["env.id=tests.support.games:TicTacToe", "run.devices=2"])
    plan = compiled.plan(config, report.Effort(1, 0.1, (8,)), only, peers)
    return [part.name for part in plan if not part.name.endswith("_core")]


def test_parts():
    assert parts(None, peers=False) == ["environment", "bots", "training", "compile"]
    assert parts(None, peers=True) == ["environment", "bots", "training", "compile", "ppo", "sb3"]
    assert parts(["compile", "training"], peers=True) == ["training", "compile"]
    with pytest.raises(UserError, match="compiled games have the parts environment, bots"):
        parts(["bridge"], peers=False)


@pytest.mark.parametrize("missing", [None, "rocketsim: not installed (pip install it)"])
def test_car_soccer_runs_beside_the_simulators(monkeypatch, missing):
    rates = {"arena_ticks": [100.0, 400.0], "environment": [10.0, 30.0], "soccer_peers": [200.0, 2.0]}

    def ask(tasks, *, rounds, seconds):
        facts = {"flops_per_tick": 1234.0, "bytes_per_arena": 828}
        results = [
            [result(task.kind, 1.0, rate)._replace(info={"batch": 8}) for rate in rates[task.kind]] for task in tasks
        ]
        return [worker.Measurement(each, facts) for each in results]

    monkeypatch.setattr(soccer, "ask", ask)
    monkeypatch.setattr(soccer.peers_package, "missing", lambda peer: missing)
    config = configs.load("car_soccer", [])
    plan = soccer.parts(config, report.Effort(1, 0.1, (8, 16)), True, None)
    assert [part.name for part in plan] == ["ticks_1v1", "ticks_2v2", "ticks_3v3"]
    found, text = plan[1].run()
    assert "1,234 FLOP" in text and "828 bytes" in text
    if missing:
        assert missing in text and "by_cpu_time" not in found
    else:
        assert found["by_cpu_time"] == {"ticks": 2.0, "decisions": 60.0}  # four cars decide in every step
    assert soccer.parts(configs.load(None, SMALL), report.Effort(1, 0.1, (8,)), True, None) == []


def test_a_folder_that_is_missing_is_said_before_anything_runs(tmp_path):
    with pytest.raises(UserError, match="no folder"):
        run("--out", str(tmp_path / "none" / "report.json"))


def test_an_unknown_game_is_said_before_anything_runs():
    with pytest.raises(UserError, match="skull_king"):
        run("--env", "skul_king")


def test_the_command_writes_a_table_and_json(tmp_path, capsys, monkeypatch):
    def ask(tasks, *, rounds=1, seconds=0.1):
        facts = {"jaxpr_equations": 7, "memory": hardware.memory()}
        return [
            worker.Measurement(
                [result(f"{task.kind} {view}", 1e6, 1e6, view) for _, view in task.job["entries"]], facts
            )
            for task in tasks
        ]

    monkeypatch.setattr(compiled, "ask", ask)
    target = tmp_path / "report.json"
    given = ["--env", "tests.support.games:TicTacToe", "--only", "environment", "--quick", "--out", str(target)]
    assert run(*given) == 0
    printed = capsys.readouterr().out
    assert "environment lean" in printed and "7 equations" in printed and "cores" in printed
    written = json.loads(target.read_text())
    assert written["hardware"]["cpu"] and written["config"]["env"]["id"] == "tests.support.games:TicTacToe"
    assert written["parts"] and not written["failures"]


def test_a_part_that_fails_does_not_take_the_others_with_it(capsys, monkeypatch):
    def ask(tasks, *, rounds=1, seconds=0.1):
        raise worker.JobFailed("Check failed: something in XLA")

    monkeypatch.setattr(compiled, "ask", ask)
    given = ["--env", "tests.support.games:TicTacToe", "--only", "environment", "--only", "compile", "--quick"]
    assert run(*given) == 1
    assert capsys.readouterr().out.count("Check failed: something in XLA") >= 2


def test_tables():
    text = table(["name", "x"], [["a", "1"], ["long name", "22"]])
    assert text.splitlines() == ["name        x", "---------  --", "a           1", "long name  22"]
    assert [count(value) for value in (12.3e6, 4.5e3, 7.0)] == ["12.3 M", "4.5 k", "7"]


def test_hardware_is_named():
    facts = hardware.describe()
    assert facts["cpu"] and facts["cores"] >= 1 and facts["jax"] and facts["device_kind"]
    assert hardware.package_version("no-such-distribution") is None
    assert isinstance(hardware.gpus(), list)


def test_games_that_sleep_are_as_fast_as_their_threads_and_cost_little():
    found = fleet.play("1 ms", 0, 8, 0.3)
    assert 50 < found.rate <= 1000 * fleet.GROUPS and 0 < found.learner < 1000
