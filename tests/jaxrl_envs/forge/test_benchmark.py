"""The benchmark of Forge: games and their CPU, and the sweep over JVM profiles."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jaxrl_envs.forge.settings import Deployment
from scripts.benchmark import __main__ as command
from scripts.benchmark import daemons, forge
from tests.support.forge.fake import DECISIONS, Fault, fake_home, fake_java

WORK = [Fault("work", seconds=0.02)]
COSTS = {
    "serial": 0.02,
    "parallel": 0.005,
    "g1": 0.04,
    "g1_common": 0.05,
}  # CPU seconds of a game, where they are handed in
SMALL = forge.ForgeEffort(warm_up=1, rounds=2, games=2)


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """Overrides for a fake Forge; little is measured."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FORGE_HOME", raising=False)
    monkeypatch.setattr(forge, "QUICK", SMALL)
    monkeypatch.setattr(daemons, "HEAPS", (300, 400))
    home, java = fake_home(tmp_path), fake_java(tmp_path, WORK)
    return [f"forge.home={home}", f"forge.java={java}", "forge.heap_mb=400", "--quick"]


@pytest.fixture
def costs(monkeypatch):
    """Games are played, and cost what COSTS says, whatever else the machine does."""

    def measured(bench, run):
        games, decisions = run()
        return daemons.Block(games, decisions, games * COSTS[bench.fleet.deployment.profile], 0.001, 0.1)

    monkeypatch.setattr(daemons.Bench, "_measured", measured)


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = command.main(["forge", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


# ---- measuring ----------------------------------------------------------------------------------------------------


def test_games_and_their_cpu(keys):
    settings = dict(key.removeprefix("forge.").split("=") for key in keys[:2])
    deployment = Deployment(**settings, profile="serial", daemons=1)
    with daemons.Bench(deployment, ("aggro", "xcosts")) as bench:
        ai, ours = bench.against_itself(3), bench.random_play(3)
        assert (ai.games, ai.decisions, ours.games, ours.decisions) == (3, 0, 3, 3 * DECISIONS)
        for block in (ai, ours):
            assert 10 < block.ms_per_game < 2000 and block.clock_seconds > 0
        assert ours.own_seconds > 0 and bench.memory_mib() > 1
        rounds = list(daemons.compared(bench, warm_up=1, rounds=2, games=2))
    found = daemons.summary(rounds)
    assert found["games"] == 4 and found["decisions_per_game"] == DECISIONS
    assert 0 < found["outside_the_jvm"] < 1 and found["games_per_clock_second"] > 0
    jvm = sum(each[1].jvm_seconds for each in rounds)
    own = sum(each[1].own_seconds for each in rounds)
    assert found["random_games_per_cpu_second"] == pytest.approx(4 / (jvm + own))
    assert found["ratio"] == pytest.approx(found["random_games_per_cpu_second"] / found["ai_games_per_cpu_second"])
    assert bench.fleet.supervisor.closing.is_set()


def test_the_best_profile_has_the_smaller_heap_if_that_is_as_good():
    found = [
        {"profile": "g1", "heap_mb": 1024, "ms_per_game": 100.0},
        {"profile": "serial", "heap_mb": 512, "ms_per_game": 101.0},
        {"profile": "parallel", "heap_mb": 256, "ms_per_game": 103.0},
    ]
    assert forge.best_of(found) == {"profile": "serial", "heap_mb": 512}


def test_only_heaps_that_fit_are_tried(monkeypatch):
    monkeypatch.setattr(daemons, "available_mb", lambda: 100_000)
    assert daemons.heaps_that_fit(Deployment(heap_mb=700)) == (512, 700, 1024)
    monkeypatch.setattr(daemons, "available_mb", lambda: 4000)
    assert daemons.heaps_that_fit(Deployment(heap_mb=700)) == (700,)


# ---- the command --------------------------------------------------------------------------------------------------


def test_games(keys, capsys, tmp_path):
    report = tmp_path / "report.json"
    code, out, _ = run(capsys, *keys, "--out", str(report))
    assert code == 0 and "cores" in out.splitlines()[0]
    for part in ("the engine's AI in both seats", "random play in both seats", "CPU outside of the JVM"):
        assert part in out, part
    assert out.count("\n== ") == 1 and "profiles of the JVM" not in out
    found = json.loads(report.read_text())
    assert set(found["parts"]) == {"games"} and found["hardware"]["cores"] >= 1
    assert found["config"]["heap_mb"] == 400
    facts = found["parts"]["games"]
    for kind in ("ai", "random"):
        half, most = facts[f"{kind}_seconds"]
        assert 0.01 < half <= most  # a game works for 0.02 s of CPU
        assert facts[f"{kind}_shares"] == {} and "time of a game" not in out  # the fake tells nothing of it
    assert "64 cores, random play" in out


def test_machines_and_their_prices(keys, capsys):
    code, out, _ = run(capsys, *keys, "--machine", "16:0.80", "--machine", "4")
    assert code == 0 and "16 cores, AI" in out and "4 cores, random play" in out and "64 cores" not in out
    code, _, err = run(capsys, *keys, "--machine", "0:1")
    assert code == 2 and "--machine '0:1': write cores and a price per hour" in err
    found = daemons.on_machine(forge.machine_of("16:0.80"), games_per_cpu_second=2.0, games=1e7)
    assert found["per_second"] == 32 and found["per_hour"] == 115_200
    assert found["days"] == pytest.approx(1e7 / 32 / 86_400) and found["total"] == pytest.approx(
        0.8 * 24 * found["days"]
    )
    assert daemons.on_machine(daemons.Machine(2), 1.0)["total"] is None


def test_shares_of_the_time_of_a_game():
    said = ["rules", "rules", "ai", "seats", "waiting", "waiting", "waiting", "idle"]
    statuses = [{"Game thread": name, "Garbage collection": f"{1000 + 100 * i} ms"} for i, name in enumerate(said)] + [
        {"Garbage collection": "1800 ms"}
    ]
    block = daemons.Block(games=4, decisions=9, jvm_seconds=5.0, own_seconds=2.0, clock_seconds=8.0)
    found = daemons.shares(block, statuses)
    assert [found[name] for name in daemons.DOINGS] == [2 / 8, 1 / 8, 1 / 8, 1 / 8, 3 / 8]
    assert found["gc"] == pytest.approx(0.1) and (found["own"], found["network"]) == (0.25, 0.125)
    assert daemons.shares(block, [{"Waiting": "0"}]) == {}
    facts = {"ai_shares": found, "random_shares": found}
    assert re.search(r"garbage collection, in all of these +10\.0 % +10\.0 %", "\n".join(forge._shares(facts)))


def test_without_forge_it_is_left_out(keys, capsys):
    code, out, _ = run(capsys, "--quick")
    assert code == 0 and "left out: Forge is not known here" in out
    code, _, err = run(capsys, "--quick", "--only", "games")
    assert code == 2 and "FORGE_HOME" in err and err.count("\n") == 1
    code, _, err = run(capsys, "--sweep")
    assert code == 2 and "FORGE_HOME" in err


def test_the_short_cuts_are_compared_on_the_same_games(keys, capsys, tmp_path):
    report = tmp_path / "report.json"
    code, out, _ = run(capsys, *keys, "--only", "short_cuts", "--out", str(report))
    assert code == 0 and "round 2 of 2" in out and out.count("without short cuts") == 2
    found = json.loads(report.read_text())["parts"]["short_cuts"]
    assert [each["deck"] for each in found] == list(daemons.DECKS)
    for each in found:
        assert each["decisions_per_game"] == DECISIONS and all(len(times) == 2 for times in each["times"].values())
        assert all(each[kind] > 1 for kind in ("ai", "random", "ai_stock", "random_stock"))


def test_the_sweep_writes_the_best_profile_into_the_configuration(keys, costs, capsys, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "# mine\nenv: {id: forge}\nforge:\n  profile: g1  # to be found out\n  decision_timeout: 60\ntrain: {keep: 2}\n"
    )
    code, out, _ = run(capsys, *keys, "--sweep", "--config", str(file))
    assert code == 0 and "parallel, 300 MiB" in out and "round 2 of 2" in out
    rows = [line.split(",")[0] for line in out.splitlines() if " MiB  " in line]
    assert rows == ["parallel", "parallel", "serial", "serial", "g1", "g1", "g1_common", "g1_common"]
    text = file.read_text()
    assert "written into" in out and "  profile: parallel  # to be found out\n" in text and text.startswith("# mine\n")
    assert "  heap_mb: 300\n" in text and "train: {keep: 2}" in text and not list(tmp_path.glob("*.part"))


def test_the_sweep_prints_the_lines_without_a_configuration(keys, costs, capsys, monkeypatch):
    monkeypatch.setattr(daemons, "HEAPS", ())
    code, out, _ = run(capsys, *keys, "--sweep")
    assert code == 0 and "forge:\n  profile: parallel\n  heap_mb: 400\n" in out


def test_mistakes(keys, capsys):
    assert run(capsys, "--only", "bridge")[0] == 2
    code, _, err = run(capsys, *keys, "forge.daemons=[a:1]", "--only", "games")
    assert code == 2 and "daemons elsewhere" in err
    code, _, err = run(capsys, "--out", "/nowhere/at/all/report.json")
    assert code == 2 and "there is no folder" in err
    assert command.main(["--sweep"]) == 2 and "python -m scripts.benchmark forge --sweep" in capsys.readouterr().err
    assert command.main(["--env", "forge"]) == 2 and "`python -m scripts.benchmark forge`" in capsys.readouterr().err
    assert command.main(["frge"]) == 2 and "unknown game 'frge'" in capsys.readouterr().err
    assert command.main(["battle"]) == 2 and "measured like other games" in capsys.readouterr().err


# ---- the file -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "forge:\n  heap_mb: 512\n  profile: g1\n"),
        ("env:\n  id: forge\n", "env:\n  id: forge\nforge:\n  heap_mb: 512\n  profile: g1\n"),
        (
            "forge:\n  profile: serial # why\nppo:\n  clip: 1\n",
            "forge:\n  heap_mb: 512\n  profile: g1 # why\nppo:\n  clip: 1\n",
        ),
        (
            "forge:  # here\n    heap_mb:   7   # x\n\na: 1\n",
            "forge:  # here\n    profile: g1\n    heap_mb:   512   # x\n\na: 1\n",
        ),
        (
            "a:\n  profile: x\nforge:\n  'port': 5\n",
            "a:\n  profile: x\nforge:\n  heap_mb: 512\n  profile: g1\n  'port': 5\n",
        ),
        ("forge:\n  # nothing yet\n", "forge:\n  heap_mb: 512\n  profile: g1\n  # nothing yet\n"),
        ("forge: {profile: serial}\n", None),
        ("forge:\n  'profile': serial\n", None),
    ],
)
def test_a_file_keeps_all_but_the_keys_that_are_set(before, after):
    assert forge.edited(before, "forge", {"profile": "g1", "heap_mb": 512}) == after


def test_a_file_that_cannot_be_edited_is_left_alone(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("forge: {profile: serial}\n")
    assert "put it in yourself" in forge.keep(str(file), {"profile": "g1"})
    assert file.read_text() == "forge: {profile: serial}\n"
    assert "put it into your configuration" in forge.keep("skull_king", {"profile": "g1"})


def test_shipped_configurations_can_be_edited():
    for path in (Path(__file__).resolve().parents[3] / "configs").glob("*.yaml"):
        assert forge.edited(path.read_text(), "forge", {"profile": "g1"}) is not None
