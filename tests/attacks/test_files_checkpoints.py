"""Checkpoints of strangers: right checksums, and arrays that lie about their size or say that they lie elsewhere."""

from __future__ import annotations

import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.games import make_stages
from jaxrl.runs import status
from jaxrl.runs.checkpoints import files, state
from jaxrl.runs.checkpoints.checkpoint import CheckpointStore, Damaged, Snapshot, Stamp, take
from jaxrl.runs.checkpoints.leaves import checksum
from jaxrl.runs.checkpoints.record import digest_of
from jaxrl.runs.directory import RunDirectory, make_stamp
from jaxrl.training.make import make_program
from jaxrl_envs.shared import resources
from jaxrl_envs.shared.errors import UserError
from tests.runs.test_checkpoint import STAMP, a_state, store_with
from tests.support.damaging import soon
from tests.support.hostile_checkpoints import claim, database, point_elsewhere, rebuild, reseal, set_metadata, zeros

KERNEL = "learner.params.params.dense_0.kernel"
HUGE = 6 * 10**9  # numbers: 24 GB


@pytest.fixture
def store(tmp_path) -> CheckpointStore:
    """Checkpoints 1 and 2, of which the second is to be changed."""
    store = store_with(tmp_path, 1.0, 2.0)
    store.close()
    return store


def refused(store: CheckpointStore) -> str:
    """Why the changed checkpoint is not read; `jaxrl runs` must see it too, and the one before it is taken."""
    with soon():
        with pytest.raises(Damaged) as told:
            store.read(2)
        with pytest.raises(Damaged):
            state.check_files(store.directory / "2", 2)
        assert store.newest().step == 1
    return str(told.value)


def same_arrays(first: Snapshot, second: Snapshot) -> bool:
    return all(array.tobytes() == second.arrays[name].tobytes() for name, array in first.arrays.items())


# ---- sizes ----------------------------------------------------------------------------------------------------------

SIZES = {  # changes of the `.zarray` of a leaf of f32[2, 3]
    "a shape": {"shape": [HUGE // 3, 3]},
    "a shape and chunks": {"shape": [HUGE // 3, 3], "chunks": [HUGE // 3, 3]},
    "chunks": {"chunks": [HUGE // 3, 3]},
    "more than memory has": {"shape": [2**40, 2**20], "chunks": [2**40, 2**20]},
    "a type": {"dtype": "<f8"},
    "a structured type": {"dtype": [["x", "<f4", [HUGE]]]},
    "another packer": {"compressor": {"id": "blosc", "cname": "lz4", "clevel": 1, "shuffle": 1}},
    "none": {"compressor": None},
    "a filter": {"filters": [{"id": "delta"}]},
    "a driver": {"driver": "http", "kvstore": "http://localhost:1/x"},
    "negative": {"shape": [-2, 3], "chunks": [-2, 3]},
    "no shape": {"shape": None, "chunks": None},
    "nothing": {"shape": 3},
}


@pytest.mark.parametrize("what", SIZES)
def test_an_array_that_is_not_as_its_record_says_is_never_read(store, what):
    set_metadata(store.directory / "2", KERNEL, **SIZES[what])
    reseal(store.directory / "2")
    refused(store)


def test_the_sizes_are_known_before_anything_is_read(store, monkeypatch):
    """With a record that agrees: one sentence where the machine has not the memory."""
    shape = [HUGE // 3, 3]
    set_metadata(store.directory / "2", KERNEL, shape=shape, chunks=shape)
    reseal(store.directory / "2", lambda record: record["leaves"][KERNEL].update(shape=shape))
    monkeypatch.setattr(resources, "free_bytes", lambda: 8 * 10**9)
    with pytest.raises(UserError, match=r"checkpoint .*2 needs 24\.0 GB of memory, but 8\.0 GB are free\.$"):
        store.read(2)
    with pytest.raises(UserError, match="needs 24"):
        state.check_files(store.directory / "2", 2)


@pytest.mark.parametrize("shape", [[10**30], [-1], [True], ["2"], [2.0, 3], None, 6, [[2, 3]]])
def test_a_shape_that_no_array_has_is_damage(store, shape):
    reseal(store.directory / "2", lambda record: record["leaves"][KERNEL].update(shape=shape))
    refused(store)


def test_a_chunk_that_grows_is_not_unpacked(store):
    """The first holds 64 GB in 2 MB."""
    place = store.directory / "2"
    for chunk in (zeros(1 << 36), zeros(1 << 20), zeros(24)[:-1], zeros(24) * 2, b"", bytes(99)):
        database(place).write(f"{KERNEL}/0.0", chunk).result()
        reseal(place)
        refused(store)


def test_a_chunk_of_zeros_is_no_attack(store):
    place, zero = store.directory / "2", np.zeros((2, 3), np.float32)
    database(place).write(f"{KERNEL}/0.0", zeros(24)).result()
    reseal(place, lambda record: record["leaves"][KERNEL].update(crc32=checksum(zero)))
    assert np.array_equal(store.read(2).arrays[KERNEL], zero)


def test_files_larger_than_the_arrays_are_not_read(store):
    with (store.directory / "2" / "state" / "d" / "more").open("wb") as file:
        file.truncate(1 << 42)
    assert "larger than the arrays" in refused(store)


def with_share(store: CheckpointStore, file: str = "share-0.npz", **changes) -> None:
    """Makes the bytes of one leaf a share, as several processes store it."""
    array = store.read(2).arrays[KERNEL]
    named = {KERNEL: array.reshape(-1).view(np.uint8)} | changes
    path = store.directory / "2" / file
    np.savez(path, **named)

    def change(record):
        leaf = record["leaves"][KERNEL]
        leaf["axis"] = 0
        record["shares"] = [{"file": file, "sha256": digest_of(path), "crc32": {KERNEL: leaf.pop("crc32")}}]

    reseal(store.directory / "2", change)


def test_a_share_is_read(store):
    before = store.read(2).arrays[KERNEL]
    with_share(store)
    assert np.array_equal(store.read(2).arrays[KERNEL], before)


def test_a_share_that_grows_is_not_unpacked(store):
    """An archive that unpacks to a thousand times its size."""
    with_share(store)
    path = store.directory / "2" / "share-0.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{KERNEL}.npy", bytes(1 << 24))

    def change(record):
        record["shares"][0]["sha256"] = digest_of(path)

    reseal(store.directory / "2", change)
    assert "is packed in a way that is not ours" in refused(store)


@pytest.mark.parametrize("file", ["../1/share-0.npz", "../outside.npz", "/absolute.npz", "state/share-0.npz"])
def test_a_share_outside_of_its_checkpoint_is_not_opened(store, tmp_path, file):
    file = str(tmp_path / file[1:]) if file[0] == "/" else file
    with_share(store, file)
    assert "is no file of a share" in refused(store)


# ---- places ---------------------------------------------------------------------------------------------------------


def test_paths_in_the_database_stay_below_its_folder(store):
    """A database whose manifest and nodes name files by another path of the same length: if that leads out of the
    folder, it is refused, although the files are there."""
    place, before = store.directory / "2", store.read(2)
    shutil.copytree(place, kept := place.parent.parent / "kept")
    rebuild(place, "xxxx/")
    reseal(place)
    assert same_arrays(store.read(2), before)
    for new in ("../x/", "/x/y/", "./xx/", "x/../", "//xx/"):
        shutil.rmtree(place)
        shutil.copytree(kept, place)
        rebuild(place, "xxxx/")
        shutil.copytree(place / "state" / "xxxx", place / "x")
        assert point_elsewhere(place, "xxxx/", new) > 2
        reseal(place)
        refused(store)


def test_what_orbax_would_read_of_a_file_is_not_asked(store):
    """`_METADATA` says how and where each array lies: with it orbax opens any path."""
    place, before = store.directory / "2", store.read(2)
    metadata = place / "state" / "_METADATA"
    text = metadata.read_text()
    assert '"use_zarr3": false' in text
    for change in (text.replace(KERNEL, "/etc"), text.replace("false", "true"), "{}", "[" * 100_000):
        metadata.write_text(change)
        reseal(place)
        assert same_arrays(store.read(2), before)


def test_a_link_in_a_new_checkpoint_does_not_lead_a_save_elsewhere(store, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (store.directory / "3").symlink_to(tmp_path / "elsewhere")
    store.save(take(3, a_state(3.0), STAMP))
    store.close()
    assert not list((tmp_path / "elsewhere").iterdir())
    assert isinstance(store.newest(), Snapshot) and store.newest().step == 3


# ---- what the configuration needs -----------------------------------------------------------------------------------

CLAIMS = {  # leaf -> the shape that its record and its array claim, and what is said
    "learner.params.dense_0.kernel": ([10**8, 2], r"float32\[100000000, 2\] there but float32\[18, 256\] here"),
    "lanes.env_state.rewards": ([10**8], r"float32\[100000000\] there but float32\[4, 2\] here"),
    "key": ([10**8], r"float32\[100000000\] there but uint32\[2\] key:threefry2x32 here"),
    "learner.hyper.numbers.extra": ([10**8], "in the checkpoint but not in this training"),
    "learner.more": ([10**8], "in the checkpoint but not in this training"),
}


@pytest.fixture
def begun(tmp_path, monkeypatch) -> RunDirectory:
    """A run of two checkpoints, of which the second is to be changed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAXRL_ALLOW", "tests")
    tree = {"env": {"id": "tests.support.games:TicTacToe"}, "run": {"name": "run", "cache_dir": ""}}
    config = configs.from_dict(tree | {"train": {"num_envs": 4, "num_steps": 4, "total_steps": 1600}})
    (stage, games), run = make_stages(config)[0], RunDirectory(Path("runs/run"))
    program, stamp = make_program(stage.config, games.training), make_stamp(stage.config, games.training)
    run.path.mkdir(parents=True)
    configs.save(config, run.config_file)
    store = run.checkpoints()
    for step in (10, 20):
        store.save(take(step, program.saved(program.init(0)), stamp))
    store.close()
    return run


@pytest.mark.thorough
@pytest.mark.parametrize("leaf", CLAIMS)
def test_an_array_that_the_configuration_does_not_need_is_never_read(begun, leaf, monkeypatch, capsys):
    """With a record and an array that agree, and less than is free."""
    shape, said = CLAIMS[leaf]
    claim(begun.checkpoints().directory / "20", leaf, shape)
    monkeypatch.setattr(files, "_checked_arrays", lambda *arguments: pytest.fail("arrays are read"))
    with soon():
        assert cli.main(["resume", "runs/run"]) == 2
    told = capsys.readouterr().err
    assert re.search(rf"^jaxrl: the checkpoint does not fit: {leaf} is {said}", told) and told.count("\n") == 1


# ---- commands -------------------------------------------------------------------------------------------------------


def test_commands_end_in_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    store = CheckpointStore(Path("runs/evil/checkpoints"))
    store.save(take(8, a_state(), Stamp("skull_king", "1", {})))
    store.close()
    Path("runs/evil/config.yaml").write_text("train: {total_steps: 1000000}\n")
    set_metadata(Path("runs/evil/checkpoints/8"), KERNEL, **SIZES["a shape"])
    reseal(Path("runs/evil/checkpoints/8"))
    assert status.whole(Path("runs/evil")).checkpoint["damaged"] == [8]
    assert cli.main(["runs", "evil"]) == 0 and "damaged" in capsys.readouterr().out
    for command in ("evaluate", "resume", "export", "play"):
        assert cli.main([command, "runs/evil"]) == 2
        told = capsys.readouterr().err
        assert "every checkpoint in" in told and "Traceback" not in told
