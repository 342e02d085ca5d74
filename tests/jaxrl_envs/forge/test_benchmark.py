"""The benchmark of Forge: games and their CPU, JVM profiles and short cuts in turn, machines and their prices."""

from __future__ import annotations

import pytest

from jaxrl_envs.forge.fleet.profiles import PROFILES
from jaxrl_envs.forge.settings import Deployment
from scripts.benchmark import forge
from tests.support.forge.fake import DECISIONS, Fault, fake_home, fake_java


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """Overrides for a fake Forge, whose games work for 0.02 s of CPU; little is measured."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FORGE_HOME", raising=False)
    measure = forge.measure
    monkeypatch.setattr(forge, "measure", lambda benches, kinds, *_: measure(benches, kinds, 1, 2, 2))
    home, java = fake_home(tmp_path), fake_java(tmp_path, [Fault("work", seconds=0.02)])
    return [f"forge.home={home}", f"forge.java={java}", "forge.heap_mb=400"]


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = forge.main(arguments)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_games_and_their_cpu(keys):
    settings = dict(key.removeprefix("forge.").split("=") for key in keys[:2])
    with forge.Bench(Deployment(**settings), ("aggro", "xcosts")) as bench:
        blocks = forge.measure({"": bench}, list(forge.KINDS))
    ai, ours = blocks["", "ai"], blocks["", "random"]
    assert [each.decisions for each in (*ai, *ours)] == [0, 0, 2 * DECISIONS, 2 * DECISIONS]
    for block in (*ai, *ours):
        assert len(block.durations) == 2 and min(block.durations) > 0.01 and 0.02 < block.jvm < 4
    spent = sum(each.jvm + each.own for each in ours)
    assert ours[0].own > 0 and forge.per_cpu_second(ours) == pytest.approx(4 / spent)
    assert bench.fleet.supervisor.closing.is_set()


def test_machines_and_their_prices(keys, capsys):
    code, out, _ = run(capsys, *keys, "--machine", "16:0.80", "--machine", "4:0.5")
    assert code == 0 and "cores" in out.splitlines()[0]
    for part in ("\nrandom play ", "\nForge's AI ", "16 cores, Forge's AI", "4 cores, random play", "MiB a JVM"):
        assert part in out, part
    code, _, err = run(capsys, *keys, "--machine", "0:1")
    assert code == 2 and "--machine '0:1': write cores and a price per hour" in err
    block = forge.Block(0, 8.0, 2.0, (1.0,) * 20)
    row = forge.machines({("", "ai"): [block]}, [(16, 0.80)]).splitlines()[-1].split()
    assert row[-5:] == ["32.00", "115,200", "3.6", "0.80", "69.44"]  # two games per CPU second


def test_profiles_take_turns(keys, capsys):
    code, out, err = run(capsys, *keys, "--profiles")
    assert code == 0 and err.count("round ") == 2 and "Forge's AI" not in out
    assert [line.split(":")[0] for line in out.splitlines() if ": random play" in line] == list(PROFILES)


def test_the_short_cuts_are_compared_on_the_same_games(keys, capsys):
    code, out, _ = run(capsys, *keys, "--short-cuts")
    assert code == 0 and out.count("without short cuts: ") == 2 * len(forge.DECKS)
    same = {("a", "random"): [forge.Block(5, 1.0, 1.0, (1.0,))]}
    with pytest.raises(RuntimeError, match="other games were played"):
        forge.check_same_games(same | {("b", "random"): [forge.Block(6, 1.0, 1.0, (1.0,))]})


def test_mistakes(keys, capsys):
    code, _, err = run(capsys, *keys, "forge.daemons=[a:1]")
    assert code == 2 and "daemons elsewhere" in err
    code, _, err = run(capsys)
    assert code == 2 and "FORGE_HOME" in err and err.count("\n") == 1
