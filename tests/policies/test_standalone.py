"""Policies as files of other programs: NumPy code without jax and jaxrl, and ONNX models, equal to the JAX policies.

pytest -m slow tests/policies/test_standalone.py    # 1,000 states of every policy of the zoo, a minute
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import cli, zoo
from jaxrl.config import from_dict
from jaxrl.networks.factory import STATISTICS, make_network
from jaxrl.policies.export import ExportedPolicy, load_policy
from jaxrl.policies.standalone.numpy_file import save_numpy
from jaxrl.policies.standalone.onnx_file import save_onnx
from jaxrl.runs.directory import make_evaluation_env
from jaxrl_envs.shared.errors import UserError

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
ROWS = 5
DENSE = {"network": {"hidden": [9, 7], "activation": "silu", "layer_norm": True}}
NETWORKS = {
    "relu": {"network": {"hidden": [8]}},
    "silu": DENSE,
    "gelu": {"network": {"hidden": [8], "activation": "gelu"}},
    "tanh": {"network": {"hidden": [8], "activation": "tanh", "normalize": True}},
    "lstm": {"network": {"kind": "recurrent", "hidden": [8], "recurrent": {"width": 6, "layers": 2}}},
    "gru": {"network": {"kind": "recurrent", "hidden": [8], "recurrent": {"cell": "gru", "width": 6}}},
}
DENSE_ZOO = [name for name in zoo.names() if zoo.figures(name)["network"] in ("mlp", "recurrent")]  # others are refused
SLOW = [name for name in DENSE_ZOO if name.startswith("car_soccer")]  # minutes of compilation
ZOO = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in DENSE_ZOO]


def untrained(changes, game="tests.support.games:HighCard", name="untrained"):
    """A policy with random parameters, none of them zero."""
    config = from_dict({"env": {"id": game}, **changes})
    env = make_evaluation_env(config)
    params = make_network(config.network, env).init(jax.random.key(0))
    random = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: np.asarray(leaf + random.normal(0, 0.3, leaf.shape), np.float32), params)
    if STATISTICS in params:
        params[STATISTICS]["variance"] = np.abs(params[STATISTICS]["variance"])
        params[STATISTICS]["variance"][0] = 0  # a feature that has been constant
    return ExportedPolicy(name, config, env, 3, params)


def program_of(path):
    """The exported program as a module."""
    spec = importlib.util.spec_from_file_location("exported", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def expected(policy, features, masks, memory):
    """What the network of jaxrl says, for a batch; features stand in for the observation."""
    apply = jax.jit(jax.vmap(policy._algorithm.network.apply, (None, 0, 0, 0)))
    after, logits, value = apply(policy.player().params, memory, features, masks)
    return np.asarray(logits), np.asarray(value), after


def inputs(policy, rows, seed=0):
    """Random features and masks."""
    random = np.random.default_rng(seed)
    size = jax.eval_shape(policy.env.features, policy.env.observation_spec).shape[0]
    masks = random.random((rows, policy.env.num_actions)) < 0.5
    masks[:, 0] = True
    return random.normal(0, 2, (rows, size)).astype(np.float32), masks


def visited(policy, count):
    """Features and masks of states of random games, one after the other; of all seats where all are asked at once."""
    env = policy.env
    init, step = jax.jit(env.init), jax.jit(env.step)
    features = jax.jit(jax.vmap(env.features) if env.simultaneous else env.features)
    random, found, state, games = np.random.default_rng(1), [], None, 0
    for turn in range(count):
        if state is None or bool(state.terminated | state.truncated):
            state, games = init(jax.random.key(games)), games + 1
        masks = np.atleast_2d(state.legal_action_mask)
        found += zip(np.atleast_2d(features(state.observation)), masks, strict=True)
        actions = np.array([random.choice(np.flatnonzero(mask)) for mask in masks], np.int32)
        state = step(state, actions if env.simultaneous else actions[0], jax.random.key(1000 + turn))
    return tuple(map(np.stack, zip(*found, strict=True)))


def check_zoo(name, count, tmp_path):
    policy = load_policy(zoo.policy_file(name))
    save_numpy(tmp_path / "policy.py", policy)
    features, masks = visited(policy, count)
    logits, value, _ = program_of(tmp_path / "policy.py").NumpyPolicy().evaluate(features, masks)
    right, right_value, _ = expected(policy, features, masks, ())
    np.testing.assert_allclose(logits, right, **CLOSE)
    np.testing.assert_allclose(value, right_value, **CLOSE)
    assert (np.argmax(logits, 1) == np.argmax(right, 1)).mean() > 0.998  # near ties may fall either way


@pytest.mark.thorough
@pytest.mark.parametrize("name", ZOO)
def test_a_policy_of_the_zoo_is_the_same_in_numpy(name, tmp_path):
    check_zoo(name, 6, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", DENSE_ZOO)
def test_a_policy_of_the_zoo_is_the_same_in_a_thousand_states(name, tmp_path):
    check_zoo(name, 1000, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", NETWORKS)
def test_every_kind_of_layer_is_the_same_in_numpy(kind, tmp_path):
    policy = untrained(NETWORKS[kind])
    save_numpy(tmp_path / "policy.py", policy)
    ours = program_of(tmp_path / "policy.py").NumpyPolicy()
    memory, theirs = ours.empty_memory(ROWS), policy._algorithm.network.memory((ROWS,))
    for time in range(3):  # the recurrent state is carried on
        features, masks = inputs(policy, ROWS, time)
        logits, value, memory = ours.evaluate(features, masks, memory)
        right, right_value, theirs = expected(policy, features, masks, theirs)
        np.testing.assert_allclose(logits, right, **CLOSE)
        np.testing.assert_allclose(value, right_value, **CLOSE)
    if kind in ("lstm", "gru"):
        single, masks = inputs(policy, 2)
        first = [ours.act(single[0], masks[0]), ours.act(single[1], masks[1])]
        moved = ours.memory[0][0].copy()
        assert np.any(moved != 0)
        ours.reset()
        assert first == [ours.act(single[0], masks[0]), ours.act(single[1], masks[1])]
        assert np.array_equal(ours.memory[0][0], moved)


def test_a_canonical_network_answers_in_canonical_names(tmp_path):
    """From the features of the canonical observation, as jaxrl does before it names the actions as the game does."""
    changes = {"network": {"hidden": [8], "canonical": True}}
    policy = untrained(changes, "skull_king")
    save_numpy(tmp_path / "policy.py", policy)
    ours, env = program_of(tmp_path / "policy.py").NumpyPolicy(), policy.env
    state = env.init(jax.random.key(3))
    seen, names = env.canonical(state.observation)
    logits, value, _ = ours.evaluate(np.asarray(env.features(seen)), np.ones(env.num_actions, bool))
    everything = jnp.ones(env.num_actions, bool)
    _, right, right_value = policy._algorithm.network.evaluate(
        policy.player().params, (), state.observation, everything
    )
    np.testing.assert_allclose(env.from_canonical(jnp.asarray(logits), names), right, **CLOSE)
    np.testing.assert_allclose(value, right_value, **CLOSE)


def test_the_program_runs_without_jax_and_without_jaxrl(tmp_path):
    """In a process of its own, isolated from this one's paths; an illegal action is never chosen."""
    policy = untrained(DENSE, name='it\'s \\ """ {} \u2028 name')
    save_numpy(tmp_path / "policy.py", policy)
    features, masks = inputs(policy, 20)
    np.savez(tmp_path / "inputs.npz", features=features, masks=masks)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\nimport numpy as np, policy\nagent = policy.NumpyPolicy()\n"
        "data = np.load(sys.argv[1] + '/inputs.npz')\nrandom = np.random.default_rng(0)\n"
        "pairs = list(zip(data['features'], data['masks']))\n"
        "print([agent.act(*pair) for pair in pairs])\n"
        "assert all(mask[agent.act(x, mask, greedy=False, random=random)] for x, mask in pairs)\n"
        "assert not {'jax', 'jaxrl', 'jaxrl_envs', 'flax'} & set(sys.modules)\n"
        "print(ascii(policy.SETTINGS['policy']))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, tmp_path], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    actions, name = done.stdout.splitlines()
    right, _, _ = expected(policy, features, masks, ())
    assert actions == str(np.argmax(right, 1).tolist()) and name == ascii(policy.name)


def test_the_wrong_shape_is_one_sentence(tmp_path):
    policy = untrained(NETWORKS["relu"])
    save_numpy(tmp_path / "policy.py", policy)
    with pytest.raises(ValueError, match="must end with the sizes in SETTINGS"):
        program_of(tmp_path / "policy.py").NumpyPolicy().act(np.zeros(3), np.ones(policy.env.num_actions, bool))


def test_the_command_says_what_goes_in(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["export", "zoo:beasty_bar", "--numpy"]) == 0
    assert re.search(r"beasty_bar\.py: .*\nreads 406 features of beasty_bar.* 31 actions", capsys.readouterr().out)
    assert program_of("beasty_bar.py").SETTINGS["features"] == 406
    assert cli.main(["export", str(zoo.policy_file("beasty_bar")), "mine.py", "--numpy"]) == 0
    assert (tmp_path / "mine.py").read_bytes() == (tmp_path / "beasty_bar.py").read_bytes()
    for wrong, said in (
        (["zoo:beasty_bar"], "is a policy file already"),
        (["zoo:beasty", "--numpy"], "did you mean 'beasty_bar'?"),
        (["nothing", "--numpy"], "nothing"),
        (["bot:random", "--numpy"], "bot:random"),
        (["zoo:beasty_bar", "--numpy", "--half"], "not allowed with"),
        (["zoo:beasty_bar", "nowhere/policy.py", "--numpy"], "nowhere"),
    ):
        assert cli.main(["export", *wrong]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"network": {"kind": "transformer"}}, "network.kind transformer"),
        ({"network": {"kind": "recurrent", "recurrent": {"torso": "transformer"}}}, "recurrent.torso transformer"),
    ],
)
def test_other_networks_are_refused_with_a_sentence(changes, said, tmp_path):
    policy = untrained(NETWORKS["relu"])
    policy.config = from_dict({"env": {"id": "beasty_bar"}, **changes})
    for save in (save_numpy, save_onnx):
        with pytest.raises(UserError, match=said):
            save(tmp_path / "policy", policy)


def test_other_heads_are_refused_with_a_sentence(tmp_path):
    """Such as the action values of DQN."""
    policy = untrained(NETWORKS["relu"])
    del policy.player().params["heads"]["policy"]
    for save in (save_numpy, save_onnx):
        with pytest.raises(UserError, match="network.kind mlp and other heads"):
            save(tmp_path / "policy", policy)


# ---- ONNX -----------------------------------------------------------------------------------------------------------


def check_onnx(policy, batches, path):
    """Compares the model with the network along batches of features and masks of one row count."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (pip install onnxruntime)")
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    save_onnx(path, policy)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    memory = theirs = None
    for features, masks in batches:
        if theirs is None:
            theirs = policy._algorithm.network.memory((len(masks),))
            width = policy.config.network.recurrent.width
            carried = [put.name for put in session.get_inputs()[2:]]
            memory = {name: np.zeros((len(masks), width), np.float32) for name in carried}
        logits, value, *after = session.run(None, {"features": features, "mask": masks, **memory})
        memory = dict(zip(memory, after, strict=True))
        right, right_value, theirs = expected(policy, features, masks, theirs)
        np.testing.assert_allclose(logits, right, **CLOSE)
        np.testing.assert_allclose(value[:, 0], right_value, **CLOSE)


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_kind_of_layer_is_the_same_in_onnx(kind, tmp_path):
    policy = untrained(NETWORKS[kind])
    check_onnx(policy, [inputs(policy, ROWS, time) for time in range(3)], tmp_path / "policy.onnx")


@pytest.mark.slow
@pytest.mark.parametrize("name", DENSE_ZOO)
def test_a_model_of_the_zoo_is_the_same_in_a_thousand_states(name, tmp_path):
    policy = load_policy(zoo.policy_file(name))
    check_onnx(policy, [visited(policy, 1000)], tmp_path / "policy.onnx")


def test_without_the_package_a_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UserError, match="pip install"):
        save_onnx(tmp_path / "policy.onnx", untrained(NETWORKS["relu"]))
