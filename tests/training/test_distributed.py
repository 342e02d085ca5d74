"""Several processes that train together: the same bits as one process, also after a death or with another number."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.runs import distributed, status
from jaxrl.runs.checkpoints import shares
from jaxrl.runs.checkpoints.checkpoint import CheckpointStore
from jaxrl.runs.checkpoints.record import Damaged
from jaxrl.runs.config import device_count
from jaxrl.runs.directory import RunDirectory
from jaxrl.runs.heartbeat import LOST
from jaxrl.training import memory_budget
from jaxrl.training.launching import launch
from jaxrl_envs.shared.errors import UserError
from tests.support.killing import assert_same, newest, rows
from tests.support.paths import PYTHONPATH

LEAGUE = {"opponents": ["self", "snapshots", "random"], "snapshots": 2, "snapshot_every": 2}
TREE: dict[str, Any] = {
    "env": {"id": "tests.support.games:TicTacToe"},
    "network": {"hidden": [8]},
    "league": LEAGUE,
    "ppo": {"epochs": 1, "minibatches": 2, "learning_rate": {"kind": "constant", "start": 5e-3}},
    "train": {
        "num_envs": 16,
        "num_steps": 8,
        "total_steps": 8 * 16 * 8,  # 8 updates
        "updates_per_call": 2,
        "checkpoint_every": 4,
        "evaluate_every": 4,
    },
    "evaluate": {"opponents": ["random"], "training_deals": 5, "deals": 5},
    "run": {"cache_dir": ""},
}
RECURRENT = {
    "network": {"kind": "recurrent", "hidden": [8], "recurrent": {"width": 4}},
    "ppo": TREE["ppo"] | {"sequence": 4},
    "run": {"cache_dir": "", "seeds": 2},
}
LONG = {"train": TREE["train"] | {"total_steps": 1 << 20, "evaluate_every": 0}}


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A folder to run in, with the configuration; processes choose their number of devices."""
    monkeypatch.chdir(tmp_path)
    flags = (flag for flag in os.environ.get("XLA_FLAGS", "").split() if "device_count" not in flag)
    monkeypatch.setenv("XLA_FLAGS", " ".join(flags))
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    configure(tmp_path)
    return tmp_path


def configure(home: Path, **sections: Any) -> None:
    """The configuration with other sections."""
    (home / "c.yaml").write_text(yaml.safe_dump(TREE | sections))


def start(count: int, *words: str, program: tuple[str, ...] = ("-m", "jaxrl")) -> list[subprocess.Popen]:
    """Starts `count` processes with one device each."""
    more = ["--distributed", "--coordinator", f"127.0.0.1:{launch.free_port()}", "--processes", str(count)]
    return [
        subprocess.Popen(
            [sys.executable, *program, *words, *more, "--rank", str(rank)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


def together(count: int, *words: str, **more: Any) -> list[tuple[int, str, str]]:
    """Exit codes, output and errors of `count` processes."""
    started = start(count, *words, **more)
    texts = [process.communicate(timeout=1800) for process in started]
    return [(process.returncode, *text) for process, text in zip(started, texts, strict=True)]


def alone(*words: str) -> None:
    """One process."""
    done = subprocess.run([sys.executable, "-m", "jaxrl", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def trains(count: int, *words: str) -> None:
    """Trains in `count` processes, which all end with code 0; only the first one prints."""
    codes, outputs, _ = zip(*(found := together(count, *words)), strict=True)
    assert set(codes) == {0}, found
    assert outputs[0] and not any(outputs[1:])


# ---- the same as one process ----------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_two_processes_train_as_one_with_two_devices(home):
    trains(2, "train", "--config", "c.yaml", "--name", "two", "run.devices=2")
    alone("train", "--config", "c.yaml", "--name", "one", "run.devices=2")
    assert_same(newest(home, "one"), newest(home, "two"))
    assert rows(home, "one") == rows(home, "two")
    evaluations = [json.loads((home / "runs" / name / "evaluation.json").read_text()) for name in ("one", "two")]
    assert evaluations[0][0]["params_hash"] == evaluations[1][0]["params_hash"]
    assert (home / "runs/one/best.json").read_text() == (home / "runs/two/best.json").read_text()
    folder = home / "runs" / "two" / "checkpoints" / "8"
    record = RunDirectory(home / "runs" / "two").checkpoints().record(8)
    assert [share["file"] for share in record["shares"]] == ["share-0.npz", "share-1.npz"]
    assert all(name.startswith("lanes.") == ("axis" in leaf) for name, leaf in record["leaves"].items())
    with np.load(folder / "share-1.npz") as own:  # the lanes of process 1, after those of process 0
        last = newest(home, "two").arrays["lanes.episode_length"][8:]
        assert own["lanes.episode_length"].tobytes() == last.tobytes()
    assert (home / "runs/two/log.1.txt").exists()


@pytest.mark.slow
def test_recurrent_seeds_and_resuming(home):
    configure(home, **RECURRENT)
    alone("train", "--config", "c.yaml", "--name", "one", "run.devices=2")
    trains(2, "train", "--config", "c.yaml", "--name", "two", "run.devices=2", "train.total_steps=512")
    trains(2, "resume", "runs/two", "--steps", "1024")
    assert_same(newest(home, "one"), newest(home, "two"))
    assert rows(home, "one")[-1] == rows(home, "two")[-1]


@pytest.mark.slow
def test_other_numbers_of_processes_go_on(home):
    """2, then 1, then 4: what was saved is what is gone on with; the log tells the hash of the parameters."""
    trains(2, "train", "--config", "c.yaml", "--name", "run", "train.total_steps=512", "run.devices=0")
    alone("resume", "runs/run", "--steps", "1024", "run.devices=1")
    trains(4, "resume", "runs/run", "--steps", "1536", "run.devices=4")
    record = newest(home, "run").meta
    assert record["step"] == 12 and len(record["shares"]) == 4
    stored = RunDirectory(home / "runs" / "run").checkpoints()
    begun = [line.split()[-1] for line in (home / "runs/run/log.txt").read_text().splitlines() if "parameters" in line]
    assert begun[1:] == [stored.record(step)["params_hash"] for step in (4, 8)]


def test_what_cannot_be_divided_or_trained_together_is_refused():
    config = configs.from_dict(TREE)
    assert device_count(config, 6, 2) == 4 and device_count(config, 2, 2) == 2
    with pytest.raises(UserError, match=r"train.num_envs \(16\) must be divisible by processes \* league.snapshots"):
        device_count(config, 3, 3)
    with pytest.raises(UserError, match=r"must be divisible by league.snapshots \(3\)"):
        device_count(configs.from_dict(TREE | {"league": LEAGUE | {"snapshots": 3}}), 1)
    with pytest.raises(UserError, match="the number of processes"):
        device_count(configs.from_dict(TREE | {"run": {"devices": 2}}), 4, 4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("10.0.0.1:1234", 2, None), "belong together"),
        (("10.0.0.1:1234", 2, 2), "--rank 2 is not one of the --processes 2"),
        (("10.0.0.1:1234", 0, 0), "--rank 0 is not one of the --processes 0"),
        (("10.0.0.1", 2, 0), "--coordinator must be HOST:PORT"),
        (("10.0.0.1:x", 2, 0), "--coordinator must be HOST:PORT"),
    ],
)
def test_who_cannot_join_is_told_why(given, said):
    with pytest.raises(UserError, match=said):
        distributed.join(*given)


def test_memory_that_another_process_lacks(monkeypatch):
    monkeypatch.setattr(distributed, "maximum", lambda short: 1)
    with pytest.raises(UserError, match="which another of its processes does not have: lower train.num_envs"):
        memory_budget._check(configs.from_dict(TREE), {"games": 1}, None)
    monkeypatch.setattr(distributed, "maximum", int)
    memory_budget._check(configs.from_dict(TREE), {"games": 1}, 1)


# ---- what the processes know together -------------------------------------------------------------------------------

COMMON = """
import json, os, sys, time
os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=2"
import numpy as np
import jax, jax.numpy as jnp
from jax._src import distributed as of_jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as Spec
from jaxrl.runs import distributed
from pathlib import Path
from jaxrl_envs.shared.errors import UserError
from jaxrl.runs.checkpoints import checkpoint

def work():
    *_, address, _, count, _, rank = sys.argv
    distributed.join(address, int(count), int(rank))
    time.sleep(40.0 * LATE * int(rank))
    distributed.connect_devices()
    assert of_jax.global_state.preemption_sync_manager is None  # which takes SIGTERM
    mesh = Mesh(np.array(distributed.devices(int(count))), ("lanes",))
    all_devices = NamedSharding(Mesh(np.array(distributed.devices()), ("lanes",)), Spec())
    assert mesh.size == int(count) and len(all_devices.device_set) == 2 * mesh.size
    everywhere, spread, each = (NamedSharding(mesh, Spec(*axes)) for axes in ((), (None, "lanes"), ("lanes",)))
    whole = jnp.arange(12.0).reshape(3, 4)
    lanes, key = distributed.place((whole, jax.random.key(7)), (spread, everywhere))
    again, more, key_there = (distributed.place(x, to) for x, to in (
        (lanes, everywhere), (lanes, all_devices), (key, all_devices)))
    distributed.place(lanes, everywhere)
    assert distributed._mover(everywhere)._cache_size() == 1  # compiled once
    assert np.asarray(more).tolist() == np.asarray(whole).tolist()
    assert jax.random.key_data(key_there).tolist() == jax.random.key_data(key).tolist()
    own = np.asarray(distributed.local_part(lanes))
    share = 4 // int(count)
    mine = np.s_[:, share * int(rank) : share * (int(rank) + 1)]
    assert own.tolist() == np.asarray(whole[mine]).tolist() and distributed.sharded_axis(lanes) == 1
    assert distributed.fetch(lanes).tolist() == np.asarray(again).tolist() == np.asarray(whole).tolist()
    assert jax.random.key_data(key).tolist() == jax.random.key_data(jax.random.key(7)).tolist()
    try:
        np.asarray(lanes)
        raise AssertionError("lanes of other processes can be read")
    except RuntimeError:
        pass
    store = checkpoint.CheckpointStore(Path("checkpoints"))
    lane_keys = jax.jit(lambda n: jax.vmap(jax.random.key)(n), out_shardings=each)(np.arange(4))
    state = {"learner": {"params": {"w": again}}, "lanes": {"x": lanes, "key": lane_keys}}
    if count == "2":
        store.save(checkpoint.take(3, state, checkpoint.Stamp("game", "1", {})))
        store.wait()
        if rank == "1":  # its disk is broken
            checkpoint.write_share = os.rmdir
        store.save(checkpoint.take(6, state, checkpoint.Stamp("game", "1", {})))
        try:
            store.close()
            raise AssertionError("half a checkpoint")
        except (UserError, TypeError) as error:
            assert rank == "1" or "process 1 cannot write its share of checkpoint 6" in str(error)
        assert store.steps() == [3]
    saved = store.newest(quarantine=True)
    form = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)
    found = checkpoint.unpack(saved.arrays, saved.meta["leaves"], form)
    assert np.asarray(distributed.local_part(found["lanes"]["x"])).tolist() == own.tolist()
    assert np.asarray(found["learner"]["params"]["w"]).tolist() == whole.tolist()
    words = [jax.random.key_data(keys) for keys in (found["lanes"]["key"], lane_keys)]
    first, second = (np.asarray(distributed.local_part(each)).tolist() for each in words)
    assert first == second
    assert distributed.broadcast(lambda: [int(rank), "x"]) == [0, "x"]
    assert distributed.maximum(int(rank)) == int(count) - 1
    kept = distributed._groups[0].client.key_value_dir_get("jaxrl/broadcast/")
    assert rank != "0" or not kept, kept
    distributed.check_equal({"version": "1", "configuration": "a"})
    print("fine", file=sys.stderr)
    distributed.check_equal({"version": "1", "configuration": rank})

def run():
    try:
        work()
    except UserError as error:
        print(error, file=sys.stderr)
        return distributed.USER_ERROR

sys.exit(distributed.exit_together(run))
"""


@pytest.mark.parametrize("late", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_what_processes_know_together(home, late):
    """Arrays, what is agreed on, and a checkpoint; also where one of them is later than gloo waits for."""
    counts = (2, 4) if late else (2,)
    for count in counts:  # four read what two have saved
        found = together(count, program=("-c", f"LATE = {late}\n{COMMON}"))
        assert {code for code, *_ in found} == {distributed.USER_ERROR}, found
        told = [[line for line in errors.splitlines() if line.startswith(("fine", "process"))] for *_, errors in found]
        refused = "process 1 has another configuration than process 0: start all of them with the same command, files"
        assert told == [["fine", f"{refused} and version of jaxrl."], *[["fine"]] * (count - 1)]
    saved = CheckpointStore(home / "checkpoints").newest()  # and so does one
    assert saved.arrays["lanes.x"].tolist() == np.arange(12.0).reshape(3, 4).tolist() and saved.step == 3
    (home / "checkpoints" / "3" / "share-1.npz").write_bytes(b"")
    with pytest.raises(UserError, match="damaged"):
        CheckpointStore(home / "checkpoints").newest()


def test_one_process_is_as_ever():
    assert (distributed.count(), distributed.rank(), distributed.is_rank0(), distributed.maximum(3)) == (1, 0, True, 3)
    assert distributed.broadcast(lambda: (1, 2)) == (1, 2)  # no JSON in between
    with distributed.broadcast_result("no peer"):
        pass
    code = cli.main(["train", "env.id=tests.support.games:TicTacToe", "--rank", "0", "--allow", "tests"])
    assert code == distributed.USER_ERROR == cli.USER_ERROR


# ---- shares of checkpoints ------------------------------------------------------------------------------------------


def as_process(monkeypatch, rank: int, count: int) -> None:
    monkeypatch.setattr(distributed, "rank", lambda: rank)
    monkeypatch.setattr(distributed, "count", lambda: count)


def test_shares_are_dealt_again(tmp_path, monkeypatch):
    """Two processes write 3 seeds x 8 lanes; one and four read them."""
    lanes, plain = np.arange(24, dtype=np.int16).reshape(3, 8), np.arange(8, dtype=np.float32)
    leaves: Any = {
        "a": {"shape": [3, 8], "dtype": "int16", "axis": 1},
        "b": {"shape": [8], "dtype": "float32", "axis": 0},
        "c": {"shape": [], "dtype": "int32"},
    }
    written = []
    for rank, half in enumerate((np.s_[:4], np.s_[4:])):
        as_process(monkeypatch, rank, 2)
        arrays = {"a": np.ascontiguousarray(lanes[:, half]), "b": plain[half], "c": np.int32(1)}
        written.append(shares.write_share(tmp_path, arrays, leaves))
    meta = {"leaves": leaves, shares.SHARES: json.loads(json.dumps(written))}
    as_process(monkeypatch, 0, 1)
    for whole in (True, False):
        found = shares.read_shares(tmp_path, meta, whole=whole)
        assert found["a"].tolist() == lanes.tolist() and found["b"].tolist() == plain.tolist() and "c" not in found
    for rank in range(4):
        as_process(monkeypatch, rank, 4)
        found = shares.read_shares(tmp_path, meta, whole=False)
        own = np.s_[2 * rank : 2 * rank + 2]
        assert found["a"][:, own].tolist() == lanes[:, own].tolist() and found["b"][own].tolist() == plain[own].tolist()
        assert not found["b"][4:].any() if rank < 2 else not found["b"][:4].any()  # of the other share nothing is read
    damaged = bytearray((tmp_path / "share-1.npz").read_bytes())
    damaged[200] ^= 1
    (tmp_path / "share-1.npz").write_bytes(damaged)
    with pytest.raises(Damaged, match="share-1.npz"):
        shares.read_shares(tmp_path, meta, whole=False)


# ---- processes that die ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_who_is_left_ends(home, victim):
    configure(home, **LONG)
    started = start(2, "train", "--config", "c.yaml", "--name", "run")
    until_saved(home / "runs" / "run", 8)
    started[victim].kill()
    errors = started[1 - victim].communicate(timeout=1800)[1]
    code = started[1 - victim].returncode
    if victim:  # jax itself ends the others at once where process 0 is gone
        assert code == LOST and "jaxrl: process 1 of 2 has died or hangs" in errors
        run = status.whole(home / "runs" / "run")
        assert (run.state, run.why) == ("failed", "process 1 of 2 has died or hangs")
        assert "process 1 of 2 has died or hangs" in run.events[-1]["message"]
    else:
        assert code != 0


def until_saved(run: Path, step: int) -> None:
    """Waits until there is a checkpoint of a later update than `step`."""
    until = time.monotonic() + 1200
    while max(RunDirectory(run).checkpoints().steps(), default=0) <= step:
        assert time.monotonic() < until, "nothing is saved"
        time.sleep(0.1)
