"""Measuring host engines: what is counted, that nothing is allocated, and the peers' ways to do the same."""

from __future__ import annotations

import itertools
import json
import time

import numpy as np
import pytest

from jaxrl import config as configs
from jaxrl.algorithms.dqn.sumtree import SumTree
from jaxrl.config import Config, EnvConfig
from jaxrl.diagnose.host_play import BLOCK
from jaxrl.diagnose.timing import Speed
from jaxrl.diagnose.training import Training, buffer_bytes
from jaxrl.training.timers import NAMES
from jaxrl_envs.host.engine import NoopEngine, PythonEngine
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.host.python_game import PythonGame
from jaxrl_envs.shared.errors import UserError
from scripts.benchmark import allocations, breakdown, engines, host, peers, report, sum_trees, tables
from scripts.benchmark.engine_play import EnginePlay, SingleGame
from scripts.benchmark.peers.python_sum_tree import PythonSumTree


class Countdown(PythonGame):
    """Two seats take one or two from five in turn; who takes the last wins. A round is two decisions."""

    fails = False

    def start(self) -> None:
        super().start()
        self.left, self.moves, self.paid = 5, 0, [0.0, 0.0]

    def step(self, action: int) -> None:
        if self.fails:
            raise OSError("broken")
        seat = self.player()
        self.left, self.moves = self.left - 1 - action, self.moves + 1
        self.paid = [0.0, 0.0]
        if not self.left:
            self.paid = [1.0 if each == seat else -1.0 for each in range(2)]

    def player(self) -> int:
        return self.moves % 2 if self.left else -1

    def legal(self, action: int) -> bool:
        return action < self.left

    def ended(self) -> int:
        return int(not self.left)

    def rewards(self):
        return self.paid

    def observe(self, seat: int):
        return np.array([self.left, seat], np.float32)

    def mask(self):
        return np.array([not self.left or action < self.left for action in range(2)])

    def info(self):
        return np.array([self.moves // 2 + 1], np.int32)

    def save(self) -> bytes:
        return bytes([self.left, self.moves])

    def load(self, data: bytes) -> None:
        self.left, self.moves = data[0], data[1]

    def bot(self, number: int) -> int:
        return super().bot(0) if number == 0 else 0


class CountdownGame(HostGame):
    id, version = "countdown", "1"
    num_players, num_actions, num_features, state_bytes = 2, 2, 2, 2
    bots, info_names = ("random", "one"), ("round",)
    game = Countdown

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        sizes = {name: getattr(self, f"num_{name}") for name in ("players", "actions", "features")}
        games = [self.game(seed, first_slot + i) for i in range(num_games)]
        sizes = {f"num_{name}": size for name, size in sizes.items()}
        return PythonEngine(games, **sizes, state_bytes=2, num_info=1, num_bots=2)


# ---- the engine alone ---------------------------------------------------------------------------------------------


def test_decisions_games_and_rounds_are_counted():
    play = EnginePlay(CountdownGame().engine(3, 0), [1, 1], round_info=0)
    assert play.play(10) == (30, 6, 6 * 3)  # five decisions each, the last one in the third round
    assert play.play(4, 1, 1) == (4, 0, 0) and play.play(1, 1, 2) == (2, 1, 3)


def test_games_can_be_shared_by_threads():
    with engines.HostContestants(CountdownGame(), 5) as seats:
        found = seats.engine_alone(1, observe=True, threads=2)
        found.block()
        assert found.units == 5 * (BLOCK // 5)
        assert found.info["decisions_per_game"] == 5.0 and found.info["rounds_per_game"] == 3.0


def test_an_engine_that_fails_is_reported():
    class Failing(Countdown):
        fails = True

    class Game(CountdownGame):
        game = Failing

    play = EnginePlay(Game().engine(2, 0), [0, 0])
    with pytest.raises(RuntimeError, match="game 0: OSError: broken"):
        play.play(1)
    with pytest.raises(ValueError, match="2 seats"):
        EnginePlay(Game().engine(2, 0), [0])
    with pytest.raises(ValueError, match="games 0 to 1"):
        play.play(1, 1, 2)


def test_one_game_behind_plain_calls():
    game = SingleGame(CountdownGame().engine(1, 0))
    game.start()
    assert game.player == 0 and game.mask.tolist() == [True, True] and game.observation.tolist() == [5.0, 0.0]
    assert [game.step(1), game.step(1)] == [0, 0] and game.mask.tolist() == [True, False]
    with pytest.raises(ValueError, match="action 1"):
        game.step(1)
    assert game.step(0) == 1 and game.rewards.tolist() == [1.0, -1.0]


# ---- through the bridge -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_the_bridge_is_measured(threads):
    with engines.HostContestants(CountdownGame(), 6) as seats:
        contestants = [
            seats.bridge(0, threads=threads),
            seats.bridge(1, threads=threads),
            seats.chosen(threads=threads),
        ]
        for found in contestants:
            found.block()
            assert found.units >= 6 and found.info["threads"] == threads


def test_choices_are_legal_and_uniform():
    mask = np.tile([True, False, True], (3000, 1))
    chosen = engines.legal_choice(np.random.default_rng(0), mask)
    assert chosen.dtype == np.int32 and set(chosen) == {0, 2} and 1400 < (chosen == 0).sum() < 1600


@pytest.mark.parametrize(("env", "batch", "decisions"), [("", 512, 1_000_000), ("battle", 64, 200_000)])
def test_playing_allocates_nothing(env, batch, decisions):
    """The bridge, and the battle by its random player and by its scripts, observations and masks included."""
    assert allocations.missing() is None
    job = {"env": env, "options": {}, "batch": batch, "decisions": decisions, "threads": 2}
    facts = allocations.measure(job)
    assert len(facts) == (3 if env else 2)
    for name, found in facts.items():
        assert found["decisions"] > 0.8 * decisions
        assert found["malloc_calls"] < 30 and found["bytes"] < 2000, (name, found)
        assert found["python_objects"] < 30 and found["rss_mib"] < 1.0, (name, found)


def test_allocations_are_seen():
    """The counter counts: a block that allocates once per call is told from one that does not."""
    source = "import numpy as np; from scripts.benchmark.allocations import while_running"
    library = "import json; print(json.dumps(while_running(lambda: np.full(1000, 1, np.int32), 500)))"
    assert 500 <= allocations.counting(f"{source}; {library}")["malloc_calls"] < 530


# ---- training -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learning():
    """A training with its counters on, after three calls."""
    overrides = ["train.num_envs=8", "train.num_steps=4", "ppo.minibatches=2", "run.devices=1"]
    overrides += ["network.hidden=[8]", "train.updates_per_call=1", "sebulba.actors=2", "sebulba.groups=2"]
    config = configs.load(None, [*overrides, "ppo.epochs=1", "env.id=battle"])
    training = Training(config, HostEnv(CountdownGame()), profile=True)
    for _ in range(3):
        training.block()
    yield training
    training.close()


def test_training_counts_where_its_time_goes(learning):
    found, facts = learning.contestant("training"), learning.facts()
    assert found.units == 32.0
    assert {"action", "env_step", "backward"} <= set(facts["counters"]) <= set(NAMES)
    assert all(value > 0 for name, value in facts["counters"].items() if name != "opponent_turn")
    assert 0 < facts["figures"]["engine_busy"] <= 1 and facts["threads"]["actor"] == 2
    json.dumps(facts)
    text = tables.host_training([a_result(found.name, 1e5, **found.info)], facts)
    assert "engine busy" in text and "env step, ms per 1,000 steps" in text and "2 actor" in text


def test_buffers_are_counted_once(learning):
    class Program:
        def __init__(self):
            memory = np.zeros(1000, np.uint8)
            self.rows = [memory[i : i + 10] for i in range(3)]
            self.again = {"whole": memory, "other": np.zeros(24)}

    assert buffer_bytes(Program()) == 1000 + 24 * 8
    storage = learning.program.storages
    least = sum(array.nbytes for each in storage for array in each.buffers.arrays().values())
    assert least <= 2**20 * learning.facts()["buffer_mib"] < 3 * least + 2**17


# ---- peers --------------------------------------------------------------------------------------------------------


def test_async_vector_env_steps_the_same_engine():
    if sentence := peers.missing("gymnasium_vector"):
        pytest.skip(sentence)
    from scripts.benchmark.peers.gymnasium_vector import SingleGameEnv

    env = SingleGameEnv(engines.NoopGame, 3)
    seen, _ = env.reset(seed=1)
    assert env.observation_space["observation"].contains(seen["observation"]) and seen["mask"].all()
    ends = [env.step(0)[2] for _ in range(100)]
    assert ends == [False] * 99 + [True]
    with engines.HostContestants(engines.NoopGame(), 2) as seats:
        found = seats.peer()
        found.block()
        assert found.units == 100.0 and found.info["layer"] == "peer"


def test_the_python_sum_tree_does_the_same_as_ours():
    generator = np.random.default_rng(0)
    priorities = generator.random(50, np.float32)
    ours, theirs = SumTree(50), PythonSumTree(50)
    ours.load(priorities)
    assert [theirs.push(float(priority)) for priority in priorities] == list(range(50))
    ours.set(np.array([7, 3], np.int32), np.array([0.5, 0.0], np.float32))
    theirs.update(7, 0.5), theirs.update(3, 0.0)
    assert theirs.total == pytest.approx(ours.total)
    for tree in (ours, theirs):
        counts = np.zeros(50)
        for _ in range(200):
            if tree is ours:
                numbers = np.zeros(100, np.int32)
                ours.sample_at(generator.random(100), numbers, np.zeros(100, np.float32))
            else:
                numbers = np.array(theirs.sample(generator.random(100))[0])
            np.add.at(counts, numbers, 1)
        expected = 20_000 * ours.priorities() / ours.total
        assert counts[3] == 0
        kept = expected > 0
        chi_square = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
        assert chi_square < 85.35  # the 99.9 % quantile with 48 degrees of freedom


def test_replay_contestants_do_their_jobs():
    team = sum_trees.contestants(capacity=256, batch=32, games=8)
    for each in itertools.chain(team, team):
        each.block()
    assert [(each.info["job"], each.info["peer"]) for each in team] == list(
        itertools.product(sum_trees.JOBS, (False, True))
    )
    assert [each.units for each in team] == [8.0, 8.0, 32.0, 32.0, 32.0, 32.0]


def test_an_engine_as_slow_as_one_likes():
    play = EnginePlay(engines.WorkGame(200.0).engine(2, 0), [0, 0])
    start = time.perf_counter()
    assert play.play(50) == (100, 0, 0) and play.play(50)[1] == 2
    assert 0.04 <= time.perf_counter() - start
    assert tables.busy({"engine_busy": {"10": 0.5}, "threads": 2}).splitlines()[-1].split() == ["10", "us", "50.0", "%"]


def test_the_noop_game_is_what_the_engine_says():
    game, engine = engines.NoopGame(), NoopEngine(1)
    assert (game.num_players, game.num_actions, game.num_features, game.state_bytes, len(game.info_names)) == (
        engine.num_players,
        engine.num_actions,
        engine.num_features,
        engine.state_bytes,
        engine.num_info,
    )


# ---- the command --------------------------------------------------------------------------------------------------


def a_result(name: str, rate: float, **info) -> Speed:
    return Speed(name, rate, rate / 2, rate * 2, rate / 4, 1.0, 2.0, info)


def noop_config() -> Config:
    """A configuration whose game is the one in which nothing happens."""
    return Config(env=EnvConfig(id="", options={}))


def test_threads_and_sum_trees_are_compared():
    played = {"layer": "engine", "bot": "random", "observe": True, "batch": 8}
    results = [a_result("one", 10.0, **played, threads=1), a_result("two", 19.0, **played, threads=2)]
    other = a_result("other", 5.0, **(played | {"observe": False}), threads=2)
    [scaling] = breakdown.thread_scaling([*results, other])
    assert scaling == {"name": "two", "batch": 8, "ratio": pytest.approx(1.9), "by_cpu_time": pytest.approx(3.8)}
    pair = [a_result(name, rate, job="push", peer=name == "b", batch=64) for name, rate in (("a", 1e6), ("b", 1e4))]
    [found] = breakdown.replay_ratios(pair)
    assert found["ratio"] == pytest.approx(100.0) and found["microseconds"] == pytest.approx(1.0)
    assert tables.replay([found]).splitlines()[-1].split()[:3] == ["push", "64", "1.000"]


def test_rates_are_told_in_decisions_games_and_rounds():
    played = {"layer": "engine", "batch": 8, "decisions_per_game": 100.0, "rounds_per_game": 5.0}
    results = [a_result("a", 1e5, **played), a_result("b", 1.0, layer="peer", batch=2)]
    header, _, row, other = tables.host_rates("title", results).splitlines()
    assert header.endswith("rounds/s  per CPU s")
    assert row.split() == ["a", "8", "100", "k", "50", "k", "200", "k", "25", "k", "1", "k", "5", "k", "1.25", "k"]
    assert other.split() == ["b", "2", "1", "0.5", "2"]


def names(only: list[str] | None, peers: bool) -> list[str]:
    return [part.name for part in host.plan(noop_config(), report.Effort(1, 0.001), only, peers)]


def test_parts_of_host_games():
    assert names(None, False) == [part for part in host.PARTS if part != "peers"]
    assert names(["replay", "bridge"], True) == ["bridge", "replay"]
    with pytest.raises(UserError, match="environment, bots"):
        names(["compile"], False)


@pytest.mark.thorough
def test_every_part_is_measured(monkeypatch):
    """Each part with an effort next to none, workers in processes of their own included."""
    monkeypatch.setattr(host, "BATCHES", (4, 8))
    monkeypatch.setattr(host, "REPLAY", {"capacity": 64, "batch": 8, "games": 4})
    monkeypatch.setattr(host, "DECISIONS", 20_000)
    parts = [part for part in host.PARTS if part not in ("training", "busy", "peers")]
    effort = report.Effort(1, 0.001)
    found = {name: run() for _, name, run in host.plan(noop_config(), effort, parts, False)}
    json.dumps({name: facts for name, (facts, _) in found.items()})
    assert list(found) == parts
    assert "bridge: random, 1 thread" in found["environment"][1] and len(found["environment"][0]["results"]) >= 6
    assert found["bots"][1] == "the game has no scripted players"
    assert "ns of processor time a game-step" in found["bridge"][1]
    assert [each["job"] for each in found["replay"][0]["ratios"]] == list(sum_trees.JOBS)
    assert "calls of malloc" in found["allocations"][1]


def test_the_peer_runs_beside_the_bridge(monkeypatch):
    if sentence := peers.missing("gymnasium_vector"):
        pytest.skip(sentence)
    monkeypatch.setattr(host, "BATCHES", (4, 8))
    monkeypatch.setattr(host, "PROCESSES", 2)
    [(_, _, run)] = host.plan(noop_config(), report.Effort(1, 0.001), ["peers"], True)
    facts, text = run()
    assert facts["no-op"]["ratios"]["2"] > 0 and "x AsyncVectorEnv" in text
