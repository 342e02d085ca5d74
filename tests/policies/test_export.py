"""Policy files."""

from __future__ import annotations

import dataclasses
import os
import re
import zlib

import jax
import msgpack
import numpy as np
import pytest
from flax import serialization

from jaxrl.algorithms.registry import trained_player
from jaxrl.config import from_dict, save
from jaxrl.networks.factory import STATISTICS, make_network
from jaxrl.policies.export import _MAGIC, load_policy, save_policy
from jaxrl.runs.checkpoints.checkpoint import take
from jaxrl.runs.directory import TrainedRun, load_run, make_env, make_stamp, new_run
from jaxrl_envs.shared.errors import UserError


def a_run(tmp_path, *, env: str = "tests.support.games:HighCard", seeds: int = 1, dtype: str = "float32"):
    """A run directory with one checkpoint of untrained parameters, made without training."""
    config = from_dict(
        {
            "run": {"directory": str(tmp_path), "name": "run", "seeds": seeds},
            "env": {"id": env},
            "network": {"hidden": [8], "compute_dtype": dtype},
        }
    )
    game = make_env(config)
    run = new_run(config)
    save(config, run.config_file)
    keys = jax.random.split(jax.random.key(0), seeds)
    init = make_network(config.network, game).init
    params = jax.vmap(init)(keys) if seeds > 1 else init(keys[0])
    store = run.checkpoints()
    store.save(take(7, {"learner": {"params": params, "opt_state": params}}, make_stamp(config, game)))
    store.close()
    return run


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_exported_policy_acts_like_the_run(tmp_path, dtype):
    run = load_run(a_run(tmp_path, dtype=dtype).path)
    save_policy(tmp_path / "agent.jaxrl", run)
    policy = load_policy(tmp_path / "agent.jaxrl")
    assert (policy.name, policy.update, policy.env.id) == ("run", 7, "high_card")
    act = jax.jit(trained_player(run.config, run.env, "run", None, greedy=True).act)
    step = jax.jit(run.env.step)
    state = run.env.init(jax.random.key(1))
    for turn in range(9):
        action = policy.act(state.observation, state.legal_action_mask)
        assert action == policy.act_on(state) == int(act(run.params[0], (), state, jax.random.key(0))[0])
        probabilities = policy.probabilities(state.observation, state.legal_action_mask)
        assert probabilities.sum() == pytest.approx(1) and not probabilities[~np.asarray(state.legal_action_mask)].any()
        sampled = policy.act_on(state, greedy=False, seed=turn)
        assert state.legal_action_mask[sampled] and sampled == policy.act_on(state, greedy=False, seed=turn)
        assert np.isfinite(policy.value(state.observation))
        state = step(state, action, jax.random.key(turn))


def test_half_precision_is_half_the_size_and_plays_alike(tmp_path, capsys):
    from jaxrl import cli

    run = a_run(tmp_path, seeds=2)
    whole, half = tmp_path / "whole.jaxrl", tmp_path / "half.jaxrl"
    assert cli.main(["export", str(run.path), str(whole)]) == 0
    assert cli.main(["export", str(run.path), str(half), "--half", "--seed-index", "1"]) == 0
    assert re.search(r"the same choice in \d+\.\d\d% of [\d,]+ decisions", capsys.readouterr().out)
    [params, second] = load_run(run.path).params
    assert load_policy(whole).player().params.keys() == params.keys()
    for loaded, exact in zip(jax.tree.leaves(load_policy(half).player().params), jax.tree.leaves(second), strict=True):
        assert loaded.dtype == np.float32 and np.array_equal(loaded, np.float32(np.float16(exact)))
    saved = sum(leaf.nbytes for leaf in jax.tree.leaves(params)) // 2
    assert half.stat().st_size == pytest.approx(whole.stat().st_size - saved, abs=100)


def test_numbers_that_are_too_large_for_half_precision_stay_whole(tmp_path):
    """As of a normaliser, which counts its observations."""
    run = load_run(a_run(tmp_path).path)
    large = jax.tree.map(lambda leaf: np.full_like(leaf, 123_457.0), run.params[0])
    save_policy(tmp_path / "agent.jaxrl", dataclasses.replace(run, params=[large]), half=True)
    loaded = load_policy(tmp_path / "agent.jaxrl").player().params
    assert all(np.array_equal(*pair) for pair in zip(*map(jax.tree.leaves, (loaded, large)), strict=True))


def test_what_a_normaliser_knows_stays_whole(tmp_path):
    """93.15 with a variance of 1e-4 would become 93.125, two and a half deviations away."""
    run = load_run(a_run(tmp_path).path)
    known = {"mean": np.float32([93.15]), "variance": np.float32([1e-9])}
    whole = {STATISTICS: known, "w": known["mean"], "worker": {STATISTICS: known, "w": known["mean"]}}
    save_policy(tmp_path / "a.jaxrl", dataclasses.replace(run, params=[whole]), half=True)
    params = serialization.msgpack_restore((tmp_path / "a.jaxrl").read_bytes()[len(_MAGIC) + 4 :])["params"]
    for part in (params, params["worker"]):
        assert part["w"].dtype == np.float16
        assert all(np.array_equal(part[STATISTICS][name], leaf) for name, leaf in known.items())


def test_plain_lists_are_observations_too(tmp_path):
    """As a server gets them from JSON."""
    save_policy(tmp_path / "agent.jaxrl", load_run(a_run(tmp_path, env="tests.support.games:TicTacToe").path))
    policy = load_policy(tmp_path / "agent.jaxrl")
    state = policy.env.init(jax.random.key(0))
    observation, mask = np.asarray(state.observation).tolist(), np.asarray(state.legal_action_mask).tolist()
    assert policy.act(observation, mask) == policy.act_on(state)
    with pytest.raises(UserError, match="shape"):
        policy.act([[True, False]], mask)
    with pytest.raises(UserError, match="the mask must hold 9"):
        policy.act(observation, [True] * 8)
    with pytest.raises(UserError, match="at least one of them true"):
        policy.act(observation, [False] * 9)


def test_the_command_and_the_seeds_of_a_run(tmp_path, capsys):
    from jaxrl import cli

    run = a_run(tmp_path, seeds=2)
    for index in (0, 1):
        file = str(tmp_path / f"{index}.jaxrl")
        assert cli.main(["export", str(run.path), file, "--seed-index", str(index)]) == 0
    assert "after 7 updates" in capsys.readouterr().out
    first, second = (load_policy(tmp_path / f"{index}.jaxrl") for index in (0, 1))
    state = first.env.init(jax.random.key(0))
    assert first.value(state.observation) != second.value(state.observation)
    assert cli.main(["export", str(run.path), str(tmp_path / "x"), "--seed-index", "2"]) == 2
    assert cli.main(["export", str(run.path), str(tmp_path / "no" / "x")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_what_is_no_file_is_not_replaced(tmp_path):
    """`jaxrl export RUN /dev/full`: a device, or a pipe, stays what it is."""
    os.mkfifo(tmp_path / "pipe")
    config = from_dict({"env": {"id": "tests.support.games:TicTacToe"}})
    run = TrainedRun("mine", config, make_env(config), 0, [{}], "")
    with pytest.raises(UserError, match="no ordinary file"):
        save_policy(tmp_path / "pipe", run)
    assert (tmp_path / "pipe").is_fifo()


MALFORMED = {
    "no array": lambda good: msgpack.packb(msgpack.ExtType(1, msgpack.packb(((3,), "object", b"x" * 24)))),
    "no network": lambda good: good | {"params": {}},
    "another network": lambda good: good | {"params": jax.tree.map(lambda leaf: leaf[:2], good["params"])},
    "another precision": lambda good: good | {"params": jax.tree.map(np.float16, good["params"])},
    "half of what is no number": lambda good: good | {"half": True, "params": jax.tree.map(str, good["params"])},
    "half in words": lambda good: good | {"half": "yes", "params": jax.tree.map(np.float16, good["params"])},
    "texts": lambda good: good | {"params": jax.tree.map(str, good["params"])},
    "a folder for a leaf": lambda good: good | {"params": jax.tree.map(lambda leaf: {"x": leaf}, good["params"])},
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "agent.jaxrl"
    save_policy(path, load_run(a_run(path.parent).path))
    return path


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_file_with_a_right_checksum_is_one_sentence(exported, tmp_path, change):
    data = exported.read_bytes()
    begin = len(b"jaxrl policy 1\n")
    body = change(serialization.msgpack_restore(data[begin + 4 :]))
    body = body if isinstance(body, bytes) else serialization.msgpack_serialize(body)
    (tmp_path / "agent.jaxrl").write_bytes(data[:begin] + zlib.crc32(body).to_bytes(4, "big") + body)
    with pytest.raises(UserError, match="is malformed|do not fit the network") as error:
        load_policy(tmp_path / "agent.jaxrl")
    assert "\n" not in str(error.value)


def test_another_version_of_the_game_is_refused(tmp_path, monkeypatch):
    run = load_run(a_run(tmp_path).path)
    assert isinstance(run, TrainedRun)
    save_policy(tmp_path / "agent.jaxrl", run)
    monkeypatch.setattr("tests.support.games.HighCard.version", "2")
    with pytest.raises(UserError, match="is for version 1 .* this is version 2"):
        load_policy(tmp_path / "agent.jaxrl")
    with pytest.raises(UserError, match="of another game: its version"):
        load_run(tmp_path / "run")
