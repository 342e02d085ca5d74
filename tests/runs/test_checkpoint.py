"""Checkpoints: bit-exact round trips, damage, mismatches, a full disk, kill -9 during a save."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.checkpoints.checkpoint import (
    CheckpointStore,
    Damaged,
    Stamp,
    check_stamp,
    is_no_space,
    pack,
    params_hash,
    params_of,
    take,
    unpack,
)
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError
from tests.support.hostile_checkpoints import reseal
from tests.support.paths import PYTHONPATH

STAMP = Stamp("high_card", "1", {"players": 3, "weights": [1.0, 2.0]})


def a_state(scale: float = 1.0):
    """A tree with every kind of leaf that a training state may have."""
    params = {"params": {"dense_0": {"kernel": scale * jnp.arange(6.0).reshape(2, 3), "bias": jnp.zeros(3)}}}
    return {
        "learner": {"params": params},
        "opt_state": optax.adam(1e-3).init(params),
        "key": jax.random.key(7),
        "fast": jax.random.split(prng.fast_key(3), 4),
        "bf16": jnp.array([1.5, -0.0, jnp.nan], jnp.bfloat16),
        "flags": jnp.array([True, False]),
        "bytes": jnp.arange(5, dtype=jnp.uint8),
        "empty": jnp.zeros((0, 3)),
        "none": None,
        "count": jnp.int32(9),
    }


def same_bits(a, b) -> bool:
    first, second = pack(a)[0], pack(b)[0]
    return first.keys() == second.keys() and all(first[n].tobytes() == second[n].tobytes() for n in first)


def store_with(path: Path, *scales: float, keep: int = 3, keep_every: int = 0) -> CheckpointStore:
    store = CheckpointStore(path / "checkpoints", keep=keep, keep_every=keep_every)
    for step, scale in enumerate(scales, start=1):
        store.save(take(step, a_state(scale), STAMP, {"best": scale}))
    store.wait()
    return store


def test_round_trip_is_exact_with_keys_and_odd_leaves(tmp_path):
    store = store_with(tmp_path, 1.0, 2.0)
    snapshot = store.newest()
    restored = unpack(snapshot.arrays, snapshot.meta["leaves"], a_state(0.0))
    assert snapshot.step == 2 and snapshot.meta["host"] == {"best": 2.0}
    assert same_bits(restored, a_state(2.0))
    assert isinstance(restored["opt_state"], type(a_state()["opt_state"]))
    draw = jax.random.uniform
    assert draw(restored["key"]) == draw(a_state()["key"]) and draw(restored["fast"][2]) == draw(a_state()["fast"][2])
    restored_hash, other = (params_hash(state["learner"]["params"]) for state in (restored, a_state(1.0)))
    assert snapshot.meta["params_hash"] == restored_hash != other
    kernel = params_of(snapshot.arrays)["params"]["dense_0"]["kernel"]
    assert np.array_equal(kernel, 2.0 * np.arange(6.0).reshape(2, 3))


def test_shapes_are_a_template_too():
    """So that resuming does not have to compile and run the initial state."""
    arrays, leaves = pack(a_state(3.0))
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    template = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), a_state())
    restored = unpack(arrays, leaves, template)
    assert same_bits(restored, a_state(3.0)) and restored["fast"].dtype == a_state()["fast"].dtype
    with pytest.raises(UserError, match="key is uint32.*key:threefry2x32 there but"):
        unpack(arrays, leaves, template | {"key": template["count"]})


def test_a_snapshot_survives_donation_of_its_source():
    state = {"params": jnp.arange(1000.0)}
    snapshot = take(1, state, STAMP)
    step = jax.jit(lambda s: jax.tree.map(lambda x: x * 0 - 1, s), donate_argnums=0)
    jax.block_until_ready(step(state))
    assert np.array_equal(snapshot.arrays["params"], np.arange(1000.0))


def test_only_the_newest_are_kept(tmp_path):
    assert store_with(tmp_path, 1.0, 2.0, 3.0, 4.0, keep=2).steps() == [3, 4]


def test_every_so_manieth_is_kept_for_good(tmp_path):
    assert store_with(tmp_path, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, keep=1, keep_every=3).steps() == [3, 6, 7]


def test_no_intact_checkpoint_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="there is no checkpoint"):
        CheckpointStore(tmp_path / "none").newest()
    store = store_with(tmp_path, 1.0)
    (store.directory / "1" / "record.json").unlink()
    for _ in range(2):  # what is damaged stays, so that it is not taken for a run without any
        with pytest.raises(UserError, match="every checkpoint .* is damaged"):
            store.newest(quarantine=True)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"learner": {"params": {"params": {"dense_1": jnp.zeros(3)}}}}, "does not fit: learner.params.params.dense_"),
        ({"count": jnp.int32([1, 2])}, r"count is int32\[\] there but int32\[2\] here"),
        ({"count": jnp.float32(1)}, r"count is int32\[\] there but float32\[\] here"),
        ({"key": prng.fast_key(1)}, "key is uint32"),
    ],
)
def test_load_silently_ignored(change, message):
    """PufferLib 618, random weights kept: a state that does not fit is an error, never a warning."""
    arrays, leaves = pack(a_state())
    with pytest.raises(UserError, match=message):
        unpack(arrays, leaves, a_state() | change)


def test_an_older_checkpoint_has_other_hyper_parameters():
    """They come from the configuration; those that are in both stay as they were stored."""
    with_hyper = lambda *names: {"learner": {"hyper": dict.fromkeys(names, jnp.float32(0.5)), "params": jnp.ones(2)}}  # noqa: E731
    found = unpack(*pack(with_hyper("clip", "gone")), with_hyper("clip", "ema"))
    assert found["learner"]["hyper"] == {"clip": 0.5, "ema": 0.0} and found["learner"]["params"].tolist() == [1, 1]


@pytest.mark.parametrize("change", [{"env_id": "chess"}, {"env_version": "2"}, {"env_options": {"players": 4}}])
def test_wrong_game_for_a_checkpoint(change):
    meta = take(1, a_state(), STAMP).meta
    check_stamp(meta, STAMP)
    with pytest.raises(UserError, match="of another game"):
        check_stamp(meta, Stamp(**(vars(STAMP) | change)))


def test_no_space_is_recognised_at_any_depth():
    try:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise ValueError("RESOURCE_EXHAUSTED") from error
    except ValueError as error:
        assert is_no_space(error)
    assert is_no_space(ValueError("Failed to write 12 bytes: No space left on device [os_error_code='28']"))
    assert not is_no_space(ValueError("something else")) and not is_no_space(None)


def test_no_space_left_keeps_the_previous_checkpoint(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        store = CheckpointStore(disk / "checkpoints", keep=10)
        rng = np.random.default_rng(0)
        state = {"params": jnp.asarray(rng.normal(size=250_000), jnp.float32)}  # 1 MB, hardly compressible
        with pytest.raises(UserError, match=r"no space left .* checkpoint \d+ is intact"):
            for step in range(1, 20):
                store.save(take(step, state, STAMP))
            store.wait()
        whole = CheckpointStore(disk / "checkpoints").newest()
        assert whole.step >= 1 and np.array_equal(whole.arrays["params"], state["params"])
        assert not list((disk / "checkpoints").glob("*.orbax-checkpoint-tmp*"))
        store.close()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


KILLED = """
    import numpy as np
    from pathlib import Path
    from jaxrl.runs.checkpoints.checkpoint import CheckpointStore, Stamp, take
    store = CheckpointStore(Path({path!r}), keep=2)
    base = np.random.default_rng(0).normal(size=2_000_000).astype(np.float32)
    for step in range(1, 10_000):
        store.save(take(step, {{"params": base + step}}, Stamp("g", "1", {{}})))
"""


def test_kill_in_the_middle_of_a_save_leaves_the_previous_one_usable(tmp_path):
    path = tmp_path / "checkpoints"
    script = textwrap.dedent(KILLED.format(path=str(path)))
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": PYTHONPATH}
    for delay in (0.0, 0.03):
        child = subprocess.Popen([sys.executable, "-c", script], env=environment)
        deadline = time.monotonic() + 60
        while not list(path.glob("*.orbax-checkpoint-tmp*")) or not CheckpointStore(path).steps():
            assert time.monotonic() < deadline and child.poll() is None
            time.sleep(0.001)
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
        snapshot = CheckpointStore(path).newest()
        base = np.random.default_rng(0).normal(size=2_000_000).astype(np.float32)
        assert np.array_equal(snapshot.arrays["params"], base + snapshot.step)
        for step in CheckpointStore(path).steps():
            CheckpointStore(path).quarantine(step)


# ---- damage: that of single files is tried in tests/attacks/test_files.py -------------------------------------------


@pytest.fixture(scope="module")
def pristine(tmp_path_factory) -> CheckpointStore:
    """Checkpoints 1 and 2; tests copy them and leave these unchanged."""
    store = store_with(tmp_path_factory.mktemp("pristine"), 1.0, 2.0)
    store.close()
    return store


@pytest.fixture
def store(pristine, tmp_path) -> CheckpointStore:
    """A copy to be damaged."""
    shutil.copytree(pristine.directory, tmp_path / "checkpoints")
    return CheckpointStore(tmp_path / "checkpoints")


DAMAGES = {  # of the newest, with another one beside it
    "a record that is cut": lambda other, newest: (newest / "record.json").write_bytes(b"{"),
    "no record": lambda other, newest: (newest / "record.json").unlink(),
    "record of another": lambda other, newest: shutil.copy(other / "record.json", newest),
    "no state": lambda other, newest: shutil.rmtree(newest / "state"),
    "arrays of another": lambda other, newest: copied(other / "state", newest / "state"),
    "another": lambda other, newest: copied(other, newest),
}


def copied(source: Path, place: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(source, place)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(store, caplog, damage):
    DAMAGES[damage](store.directory / "1", store.directory / "2")
    with caplog.at_level(logging.WARNING, logger="jaxrl"):
        snapshot = store.newest(quarantine=True)
    restored = unpack(snapshot.arrays, snapshot.meta["leaves"], a_state(0.0))
    assert snapshot.step == 1 and same_bits(restored, a_state(1.0))
    assert "is damaged" in caplog.text and "falling back to the one before" in caplog.text
    assert store.steps() == [1] and (store.directory.parent / "damaged" / "checkpoints-2").is_dir()
    again = CheckpointStore(store.directory, keep=3)  # and the step can be written again
    again.save(take(2, a_state(5.0), STAMP))
    again.close()
    assert again.newest().step == 2


def test_what_the_library_reads_is_compared_too(store):
    """Arrays of another checkpoint under checksums of files that are right: those of the leaves notice."""
    copied(store.directory / "1" / "state", store.directory / "2" / "state")
    reseal(store.directory / "2", lambda record: None)
    with pytest.raises(Damaged, match="checksum of learner.params"):
        store.read(2)


@pytest.mark.parametrize(
    "change",
    [
        {"step": 1},
        {"step": "2"},
        {"leaves": {"count": 7}},
        {"leaves": {"none": {"shape": [2], "dtype": "int32", "crc32": 0}}},
        {"leaves": {"count": {"shape": [10**12], "dtype": "int32", "crc32": 0}}},
        {"game": {"id": "high_card"}},
        {"host": None},
        {"format": "two"},
        {"leaves": {"empty": {"shape": [0], "dtype": "os:abort", "crc32": 0}}},
    ],
)
def test_a_record_that_makes_no_sense_is_damage(store, change):
    reseal(store.directory / "2", lambda record: record.update(change))
    with pytest.raises(Damaged):
        store.read(2)
    assert store.newest().step == 1


def test_a_newer_format_is_told(store):
    reseal(store.directory / "2", lambda record: record.update(format=4))
    with pytest.raises(UserError, match="has the format 4, this jaxrl reads up to 3"):
        store.newest()


# ---- between two checkpoints ----------------------------------------------------------------------------------------


def test_the_only_one_goes_when_the_next_can_be_read(tmp_path, monkeypatch):
    store = store_with(tmp_path, 1.0, keep=1)

    def unreadable(place: Path, meta: dict, *, whole: bool) -> None:
        assert store.steps() == [1]  # the next has no name yet
        raise Damaged("a disk that forgets")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "read_arrays", unreadable)
        store.save(take(2, a_state(2.0), STAMP))
        with pytest.raises(UserError, match="checkpoint .*2 cannot be read back .*a disk that forgets"):
            store.wait()
    assert store.steps() == [1]
    store.save(take(2, a_state(3.0), STAMP))  # the same one again
    store.close()
    newest = store.newest()
    assert store.steps() == [2] and same_bits(unpack(newest.arrays, newest.meta["leaves"], a_state()), a_state(3.0))


def test_reading_while_the_only_checkpoint_is_replaced_gives_the_next(tmp_path, monkeypatch, caplog):
    store, read = store_with(tmp_path, 1.0, keep=1), checkpoint.read_record

    def late(place: Path, step: int) -> dict:
        if step == 1:
            monkeypatch.setattr(checkpoint, "read_record", read)
            store.save(take(2, a_state(2.0), STAMP))
            store.close()
        return read(place, step)

    monkeypatch.setattr(checkpoint, "read_record", late)
    with caplog.at_level(logging.WARNING, logger="jaxrl"):
        assert CheckpointStore(store.directory).newest().step == 2
    assert not caplog.records


def test_what_was_left_half_done_is_removed_and_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkpoints" / ".removed" / "9").mkdir(parents=True)
    (tmp_path / "checkpoints" / "1.orbax-checkpoint-tmp").symlink_to(tmp_path / "elsewhere")
    store_with(tmp_path, 1.0).close()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["1"]
    assert not list((tmp_path / "elsewhere").iterdir())
