"""Recurrent gradients, V-trace and importance weights against NumPy code from the papers, in double precision."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algorithms.dqn.device_replay import DeviceReplay
from jaxrl.algorithms.dqn.loss import importance_weights
from jaxrl.algorithms.ppo.algorithm import coefs_of
from jaxrl.algorithms.ppo.loss import ppo_loss
from jaxrl.algorithms.trajectory import vtrace_estimates
from jaxrl.training.anakin.rollout import collect
from jaxrl.training.make import make_program
from tests.networks.test_memory import chunked, recurrent_config, unrolled
from tests.support.dqn_training import dqn_config, train
from tests.support.games import TicTacToe
from tests.support.memory_games import SEATS, Recall
from tests.support.training import in_mesh

# ---- networks as in the papers ---------------------------------------------------------------------------------------


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def dense(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ layer["kernel"] + layer.get("bias", 0.0)


def lstm(cell: Any, memory: Any, x: np.ndarray) -> tuple[Any, np.ndarray]:
    """Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al. 2000."""
    kept, out = memory
    gate = {name: dense(cell[f"i{name}"], x) + dense(cell[f"h{name}"], out) for name in "ifgo"}
    kept = sigmoid(gate["f"]) * kept + sigmoid(gate["i"]) * np.tanh(gate["g"])
    out = sigmoid(gate["o"]) * np.tanh(kept)
    return (kept, out), out


def gru(cell: Any, memory: Any, x: np.ndarray) -> tuple[Any, np.ndarray]:
    """Cho et al. 2014, with the reset gate after the matrix as in cuDNN."""
    reset, update = (sigmoid(dense(cell[f"i{name}"], x) + dense(cell[f"h{name}"], memory)) for name in "rz")
    new = np.tanh(dense(cell["in"], x) + reset * dense(cell["hn"], memory))
    out = (1.0 - update) * new + update * memory
    return out, out


def evaluated(params: Any, cell: str, memory: Any, features: np.ndarray) -> tuple[Any, np.ndarray, float]:
    """Returns (memory, log-probabilities f64[A], value) of one decision."""
    x = np.maximum(dense(params["torso"]["dense_0"], features), 0.0)
    memory, x = {"lstm": lstm, "gru": gru}[cell](params[f"{cell}_0"], memory, x)
    logits, value = dense(params["heads"]["policy"], x), dense(params["heads"]["value"], x)[0]
    return memory, logits - np.log(np.sum(np.exp(logits))), value


def doubled(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)


def pick(memory: Any, *at: int) -> Any:
    """Returns the state of one seat, of the only layer."""
    return jax.tree.map(lambda leaf: np.asarray(leaf[at], np.float64), memory)[0]


# ---- gradients of chunks ---------------------------------------------------------------------------------------------


def chunk_loss(params: Any, cell: str, chunks: Any, number: int, coefs: dict[str, float]) -> float:
    """PPO's loss (Schulman et al. 2017, equation 9) over one chunk, from the memory with which it was stored."""
    total, over = 0.0, np.asarray(chunks.recurrent.over)[number]
    memory = [pick(chunks.recurrent.memory, number, seat) for seat in range(SEATS)]
    rows = {name: np.asarray(getattr(chunks, name), np.float64)[number, :, 0] for name in DECISION}
    for t in range(len(over)):
        seat = int(chunks.recurrent.seat[number, t, 0])
        memory[seat], log_pi, value = evaluated(params, cell, memory[seat], rows["observation"][t])
        row = {name: rows[name][t] for name in DECISION}
        ratio = np.exp(log_pi[int(row["action"])] - row["log_prob"])
        surrogate = min(
            ratio * row["advantage"], np.clip(ratio, 1 - coefs["clip"], 1 + coefs["clip"]) * row["advantage"]
        )
        near = row["value"] + np.clip(value - row["value"], -coefs["value_clip"], coefs["value_clip"])
        error = max((value - row["target"]) ** 2, (near - row["target"]) ** 2)
        entropy = -np.sum(np.exp(log_pi) * log_pi)
        loss = -surrogate + coefs["value_coef"] * 0.5 * error - coefs["entropy_coef"] * entropy
        total += row["weight"] * loss
        if over[t]:
            memory = [jax.tree.map(np.zeros_like, one) for one in memory]
    return total


DECISION = ("observation", "action", "log_prob", "value", "advantage", "target", "weight")


@pytest.mark.parametrize("cell", ["lstm", pytest.param("gru", marks=pytest.mark.thorough)])
def test_gradients_of_recurrent_chunks(cell):
    """The derivatives along random directions of the loss of all chunks, each from its stored memory: truncated
    backpropagation through time. The parameters have moved since the rollout, so ratios are not 1."""
    rng = np.random.default_rng(3)
    config = recurrent_config(cell, sequence=3, num_steps=12, num_envs=4, clip=0.2)
    algorithm, learner, batch = unrolled(config, Recall(delays=(1, 3)))
    chunks = chunked(batch, 3)
    chunks = chunks._replace(advantage=jnp.asarray(rng.normal(size=chunks.advantage.shape), jnp.float32))
    moved = jax.tree.map(lambda leaf: leaf + 0.1 * rng.normal(size=leaf.shape).astype(np.float32), learner.params)
    coefs = coefs_of(learner, jnp.int32(0))._replace(temperature=jnp.float32(1.0), entropy_coef=jnp.float32(0.01))
    at = {name: float(value) for name, value in coefs._asdict().items() if np.ndim(value) == 0}
    at["value_clip"] = at["value_clip"] or np.inf
    loss = jax.jit(jax.value_and_grad(lambda params: ppo_loss(params, chunks, algorithm.network, config.ppo, coefs)[0]))
    ours, gradient = loss(moved)

    def plain(params: Any) -> float:
        return sum(chunk_loss(params, cell, chunks, number, at) for number in range(len(chunks.weight)))

    assert plain(doubled(moved)) == pytest.approx(float(ours), rel=2e-5)
    for _ in range(6):
        way = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), moved)
        ahead, behind = (plain(jax.tree.map(lambda p, d, e=e: p + e * d, doubled(moved), way)) for e in (1e-5, -1e-5))
        along = sum(jax.tree.leaves(jax.tree.map(lambda g, d: np.sum(np.asarray(g, np.float64) * d), gradient, way)))
        length = np.sqrt(sum(np.sum(np.square(leaf, dtype=np.float64)) for leaf in jax.tree.leaves(gradient)))
        assert (ahead - behind) / 2e-5 == pytest.approx(along, abs=1e-4 * length)


# ---- V-trace ---------------------------------------------------------------------------------------------------------


def played(config: Any, env: Any) -> tuple[Any, Any, Any]:
    """Returns an algorithm, its first learner, and a rollout of it."""
    program = make_program(config, env)
    state, algorithm = program.init(0), program.algorithm

    def rollout_of(state: Any) -> Any:
        policy = algorithm.policy(state.learner, state.update)
        ids = jnp.arange(config.train.num_envs, dtype=jnp.uint32)
        return collect(program.setup, policy, None, state.lanes, jax.random.key(7), ids, config.train.num_steps)[1]

    return algorithm, state.learner, jax.device_get(in_mesh(rollout_of)(state))


def decisions_of(params: Any, cell: str, rollout: Any, lane: int) -> list[list[dict[str, Any]]]:
    """The games of one lane seat by seat: each a list of decisions with value, ratio and reward until the next one;
    the last entry has only a value: that to bootstrap from, 0 after a game's end, absent if it is not known."""
    steps = rollout.steps
    memory = [pick(rollout.memory, 0, lane, seat) for seat in range(SEATS)]
    open_games: list[list[dict[str, Any]]] = [[] for _ in range(SEATS)]
    games = []
    for t in range(steps.rewards.shape[0]):
        seat = int(steps.seat[t, lane, 0])
        memory[seat], log_pi, value = evaluated(params, cell, memory[seat], doubled(steps.observation[t, lane, 0]))
        ratio = np.exp(log_pi[steps.action[t, lane, 0]] - float(steps.log_prob[t, lane, 0]))
        open_games[seat].append({"t": t, "seat": seat, "value": value, "ratio": ratio, "reward": 0.0})
        for each in range(SEATS):
            if open_games[each]:
                open_games[each][-1]["reward"] += float(steps.rewards[t, lane, each])
        if steps.terminated[t, lane] or steps.truncated[t, lane]:
            for each in range(SEATS):
                end = [{"value": 0.0}] if steps.terminated[t, lane] else []
                if steps.truncated[t, lane] and int(steps.final_seat[t, lane, 0]) == each:
                    features = doubled(steps.final_observation[t, lane, 0])
                    end = [{"value": evaluated(params, cell, memory[each], features)[2]}]
                games.append(open_games[each] + end)
            open_games = [[] for _ in range(SEATS)]
            memory = [jax.tree.map(np.zeros_like, one) for one in memory]
    seat = int(rollout.last.seat[lane, 0])
    last = evaluated(params, cell, memory[seat], doubled(rollout.last.observation[lane, 0]))[2]
    return [*games, *(open_games[each] + ([{"value": last}] if each == seat else []) for each in range(SEATS))]


def vtrace_target(game: list[dict[str, Any]], first: int, gamma: float, decay: float) -> float | None:
    """v_s of Espeholt et al. 2018, equation 1, with rho and c truncated at 1; None if nothing is known to follow."""
    if first + 1 >= len(game):
        return None
    target, trace = game[first]["value"], 1.0
    for k in range(first, len(game) - 1):
        now, weight = game[k], min(game[k]["ratio"], 1.0)
        delta = weight * (now["reward"] + gamma * game[k + 1]["value"] - now["value"])
        target += gamma ** (k - first) * trace * delta
        trace *= decay * weight
    return target


@pytest.mark.thorough
@pytest.mark.parametrize(("cell", "decay"), [("lstm", 1.0), ("gru", 0.9)])
def test_vtrace_targets_and_their_bootstraps(cell, decay):
    """Rollouts of games that end, are cut and go on, learnt from by other parameters than those that played."""
    rng, gamma = np.random.default_rng(5), 0.97
    config = recurrent_config(cell, sequence=4, num_steps=16, num_envs=6)
    algorithm, learner, rollout = played(config, Recall(delays=(1, 3), limit=5))
    params = jax.tree.map(lambda leaf: leaf + 0.3 * rng.normal(size=leaf.shape).astype(np.float32), learner.params)
    find = jax.jit(lambda params: vtrace_estimates(algorithm.network, params, rollout, 1.0, 1.0, gamma, decay))
    found = jax.device_get(find(params))
    assert rollout.steps.truncated.any()
    known = bootstrapped = 0
    for lane in range(6):
        for game in decisions_of(doubled(params), cell, rollout, lane):
            for k, now in enumerate(game):
                if "t" not in now:
                    continue
                at, wanted = (now["t"], lane, 0), vtrace_target(game, k, gamma, decay)
                assert bool(found.valid[at]) == (wanted is not None)
                if wanted is None:
                    continue
                known, bootstrapped = known + 1, bootstrapped + (game[-1]["value"] != 0.0)
                assert found.value[at] + found.value_error[at] == pytest.approx(wanted, abs=2e-5)
                if decay == 1.0:  # the policy gradient of the paper, whose weight is the ratio of PPO's loss
                    following = vtrace_target(game, k + 1, gamma, decay)
                    following = game[k + 1]["value"] if following is None else following
                    advantage = now["reward"] + gamma * following - now["value"]
                    assert found.advantage[at] == pytest.approx(advantage, abs=2e-5)
    assert known > 40 and bootstrapped > 20


# ---- importance weights ----------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("beta", [0.4, 1.0])
def test_weights_of_prioritised_replay(beta):
    """w = (N P)^-beta / max w with P = p^alpha / sum (Schaul et al. 2016, section 3.4), of a memory that was played."""
    config = dqn_config(hidden=(8,), capacity=512, batch=64, learning_starts=64)
    env = TicTacToe()
    _, state, _ = train(env, config, 1)
    memory = jax.tree.map(lambda leaf: leaf, state.learner.replay)
    priorities = np.asarray(memory.priority, np.float64).ravel()
    kept = priorities > 0
    assert kept.sum() > 100 and len(np.unique(priorities[kept])) > 50
    record, batch = DeviceReplay(env, config.dqn, config.train.num_envs).sample(memory, jax.random.key(1), 0.99)
    share = priorities / priorities.sum()
    weight = (kept.sum() * share[np.asarray(record)]) ** -beta
    ours = importance_weights(batch.priority, jnp.float32(beta))
    np.testing.assert_allclose(ours, weight / weight.max(), rtol=1e-5)
    # With beta 1 the weighted mean over draws is the plain mean over the memory, whatever is estimated.
    draws = np.random.default_rng(0).choice(len(share), 200_000, p=share)
    weight = 1.0 / (kept.sum() * share[draws])
    assert np.mean(weight * np.sin(draws)) == pytest.approx(np.mean(np.sin(np.flatnonzero(kept))), abs=0.02)
