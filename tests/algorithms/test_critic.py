"""The critic that sees what is hidden: less noise, no bias in the advantages, and an actor that knows nothing of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from jaxrl.algorithms.gae import gae
from jaxrl.algorithms.ppo.algorithm import PPO, coefs_of
from jaxrl.algorithms.ppo.auxiliary import AuxiliaryState
from jaxrl.algorithms.ppo.critic import returns_of
from jaxrl.algorithms.trajectory import Values, of_decisions, trajectory_of
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.training.anakin.rollout import collect
from jaxrl_envs.contract.env import Env, Key, State, public_fields
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import Schedule
from tests.support.dqn_training import dqn_config
from tests.support.games import Corridor, CorridorState, HighCard, RockPaperScissors, RockPaperScissorsState, TicTacToe
from tests.support.host_games import HostTicTacToe
from tests.support.training import assert_identical, in_mesh, on_devices, program, small_config

CRITIC = (16,)
ONE = jnp.float32(1.0)


@struct.dataclass
class WagerState(State):
    card: jax.Array  # i32[], 0..2
    luck: jax.Array  # i32[], -1 or 1, in no seat's observation
    time: jax.Array  # i32[]


class Wager(Env):
    """Two bets on one own card and one hidden coin: action 1 pays (card - 1) / 2 + luck, action 0 nothing.

    For a seat that bets by tossing a coin, what is left is worth n / 2 * (card - 1) / 2 with n bets to come, and
    n / 2 * luck more to who knows it. Betting is worth (card - 1) / 2 more than not.
    """

    id, version = "wager", "1"
    num_players, num_actions = 1, 2

    def _init(self, key: Key) -> WagerState:
        card_key, luck_key = jax.random.split(key)
        return WagerState(
            observation=None,
            card=jax.random.randint(card_key, (), 0, 3),
            luck=jax.random.randint(luck_key, (), 0, 2) * 2 - 1,
            time=jnp.int32(0),
            **public_fields(num_players=1, num_actions=2),
        )

    def _step(self, state: WagerState, action: jax.Array, key: Key) -> WagerState:
        pays = action * ((state.card - 1) / 2 + state.luck)
        return state.replace(time=state.time + 1, rewards=pays[None].astype(jnp.float32), terminated=state.time == 1)

    def observe(self, state: WagerState, seat: jax.Array) -> jax.Array:
        """bool[5]: card and time, one-hot."""
        return jnp.concatenate([state.card == jnp.arange(3), state.time == jnp.arange(2)])

    def privileged(self, state: WagerState, seat: jax.Array) -> jax.Array:
        return state.luck[None]


class Clocked(Corridor):
    """The corridor, whose hidden part is the time: `State.truncated` is no surprise to who sees it."""

    may_truncate = True

    def privileged(self, state: CorridorState, seat: jax.Array) -> jax.Array:
        return state.time[None]


# ---- less noise, no bias --------------------------------------------------------------------------------------------


def wager_rollouts(updates: int) -> tuple[Any, Values, jax.Array]:
    """The last of the rollouts that a critic has learnt from, what it expected along it, and its advantages; the policy
    is that before the first update: it tosses a coin."""
    rate = Schedule("constant", 3e-3)
    config = small_config(num_envs=256, num_steps=8, learning_rate=rate, epochs=4, critic=CRITIC, value_clip=0.0)
    anakin = program(Wager(), config)
    state, algorithm = anakin.init(0), anakin.algorithm
    assert isinstance(algorithm, PPO) and algorithm._critic is not None
    critic, ids = algorithm._critic, jnp.arange(256, dtype=jnp.uint32)
    coefs, policy = coefs_of(state.learner, jnp.int32(0)), algorithm.policy(state.learner, jnp.int32(0))

    def once(lanes: Any, judge: AuxiliaryState, number: jax.Array) -> Any:
        key = jax.random.fold_in(jax.random.key(1), number)
        lanes, rollout, _ = collect(anakin.setup, policy, None, lanes, key, ids, 8)
        values = critic.values(judge, rollout)
        per_seat, valid = gae(trajectory_of(rollout, values), ONE, ONE)
        found = of_decisions(per_seat, rollout.steps.seat)
        returns = returns_of(rollout, values, found, of_decisions(valid, rollout.steps.seat))
        judge, _ = critic.learn(judge, rollout, returns, coefs, jax.random.split(key, 8))
        return lanes, judge, (rollout, values, found)

    once, lanes, judge, last = in_mesh(once), state.lanes, state.learner.critic, None
    for number in range(updates):
        lanes, judge, last = once(lanes, judge, jnp.int32(number))
    assert last is not None
    return last


@pytest.mark.thorough
def test_advantages_have_the_same_means_and_less_variance_than_with_the_best_public_values() -> None:
    rollout, values, found = wager_rollouts(40)
    steps = rollout.steps
    card, time = (np.argmax(steps.observation[..., 0, part], axis=-1) for part in (slice(0, 3), slice(3, 5)))
    luck, action = np.asarray(steps.privileged[..., 0, 0]), np.asarray(steps.action[..., 0])
    edge, left = (card - 1) / 2, (2 - time) / 2
    np.testing.assert_allclose(values.value[..., 0], left * (edge + luck), atol=0.15)  # it has learnt what is known
    last = np.asarray(rollout.last.observation[:, 0])
    best = Values(
        jnp.asarray((left * edge)[..., None], jnp.float32),
        jnp.zeros_like(values.final),
        jnp.asarray((np.argmax(last[:, :3], axis=1) - 1) / 2, jnp.float32)[:, None],  # games are two steps, rollouts 8
    )
    public = np.asarray(jax.jit(gae)(trajectory_of(rollout, best), ONE, ONE)[0][..., 0])
    private = np.asarray(found[..., 0])
    noise = {"public": [], "private": []}
    for at in np.ndindex(3, 2, 2):
        here = (card == at[0]) & (time == at[1]) & (action == at[2])
        known = ((at[0] - 1) / 2) * (at[2] - 0.5)  # betting against not betting, and halfway is the value
        for name, advantage in (("public", public), ("private", private)):
            of_case = advantage[here]
            noise[name].append(of_case.var())
            bound = 4 * of_case.std() / np.sqrt(len(of_case)) + 0.05  # four standard errors, and a critic in the making
            assert abs(of_case.mean() - known) < bound, (name, at)
    assert np.mean(noise["private"]) < 0.6 * np.mean(noise["public"])


# ---- the actor ------------------------------------------------------------------------------------------------------


def test_a_critic_changes_nothing_of_the_actor_at_the_start() -> None:
    states = [program(HighCard(), small_config(critic=critic)).init(3) for critic in ((), CRITIC)]
    assert_identical(states[0].learner.params, states[1].learner.params)
    assert_identical(states[0].lanes, states[1].lanes)
    assert states[0].learner.critic is None and states[1].learner.critic is not None


def test_the_actor_never_reads_what_is_hidden() -> None:
    anakin = program(HighCard(), small_config(critic=CRITIC))
    state, env, algorithm = anakin.init(0), anakin.setup.env, anakin.algorithm
    policy = algorithm.policy(state.learner, jnp.int32(0))

    @jax.jit
    @jax.vmap
    def decide(game: State, key: Key) -> Any:
        asked = jax.tree.map(lambda leaf: leaf[0], anakin.setup.asked(game))
        return algorithm.act(policy, asked, (), key), anakin.setup.privileged(game)

    games, keys = state.lanes.env_state, jax.random.split(jax.random.key(0), 16)
    other = jax.vmap(env.permute_hidden)(games, games.current_player, keys)
    other = jax.vmap(env._with_observation)(other)
    decision, hidden = decide(games, keys)
    again, exchanged = decide(other, keys)
    assert_identical(decision, again)
    assert not np.array_equal(hidden, exchanged)


def test_the_view_of_a_cut_game_is_that_of_its_last_state() -> None:
    config = small_config(critic=CRITIC, num_envs=8, num_steps=12)
    anakin = program(Clocked(), config)
    state = anakin.init(0)
    policy = anakin.algorithm.policy(state.learner, jnp.int32(0))
    run = jax.jit(
        lambda lanes, key: collect(anakin.setup, policy, None, lanes, key, jnp.arange(8, dtype=jnp.uint32), 12)
    )
    lanes, rollout, _ = run(state.lanes, jax.random.key(0))
    steps = rollout.steps
    cut = np.asarray(steps.truncated)
    time, final = np.asarray(steps.privileged[..., 0, 0]), np.asarray(steps.final_privileged[..., 0, 0])
    assert cut.any() and np.all(final[cut] == anakin.setup.env.limit) and np.all(final == time + 1)
    np.testing.assert_array_equal(rollout.last_privileged[:, 0, 0], lanes.env_state.time)


class Sealed(RockPaperScissors):
    """All seats choose at once; a critic is told the round."""

    def privileged(self, state: RockPaperScissorsState, seat: jax.Array) -> jax.Array:
        return jnp.stack([state.round, seat.astype(jnp.int8)])


def test_seats_that_act_at_the_same_time_have_a_view_each() -> None:
    """Traced, not run."""
    anakin = program(Sealed(), small_config(critic=CRITIC))
    after, found = jax.eval_shape(anakin.compiled, anakin.abstract_state)
    assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, anakin.abstract_state)
    assert "train/critic_explained_variance" in found
    assert after.learner.critic.params["dense_0"]["kernel"].shape == (Sealed().num_features + 2, 16)


# ---- what it does not go with ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [TicTacToe(), HostTicTacToe()], ids=["nothing told", "host"])
def test_a_game_that_does_not_tell_is_one_sentence(env: Env) -> None:
    with pytest.raises(UserError, match=r"ppo\.critic needs a compiled game that tells .* leave it empty"):
        small_config(critic=CRITIC).check_game(env)


def test_dqn_has_no_critic() -> None:
    config = dqn_config()
    config = dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, critic=CRITIC))
    with pytest.raises(UserError, match=r"ppo\.critic is \(16,\), but with train\.algorithm dqn"):
        config.check()


DEVICES_PROGRAM = """
import json
import jax, numpy as np
from tests.support.games import HighCard
from tests.algorithms.test_critic import CRITIC
from tests.support.training import small_config, train, on_host
results = []
for devices in (1, 4):
    _, state, _ = train(HighCard(), small_config(devices=devices, critic=CRITIC), 1)
    leaves = jax.tree.leaves(on_host(state.learner))
    results.append([np.asarray(leaf, np.float64).ravel().tolist() for leaf in leaves])
print(json.dumps(results))
"""


def test_policies_carry_no_critic_and_runs_without_one_do_not_go_on_with_one() -> None:
    """Players, snapshots and policy files are made of the parameters; `train.from_run` takes over the learner."""
    without, with_critic = (program(HighCard(), small_config(critic=critic)) for critic in ((), CRITIC))
    arrays, leaves = checkpoint.pack(with_critic.init(0))
    assert any(name.startswith("learner.critic.params.") for name in arrays)
    own = jax.eval_shape(without.algorithm.network.init, jax.random.key(0))
    assert jax.tree.map(np.shape, checkpoint.params_of(arrays)) == jax.tree.map(jnp.shape, own)
    with pytest.raises(UserError, match=r"learner\.critic\.\S+ is not in the checkpoint"):
        checkpoint.unpack(*checkpoint.pack(without.init(0)), with_critic.abstract_state)
    assert_identical(checkpoint.unpack(arrays, leaves, with_critic.abstract_state), with_critic.init(0))


@pytest.mark.slow  # pytest -m slow tests/algorithms/test_critic.py: a process of its own with virtual devices
def test_one_and_four_devices_agree() -> None:
    one, four = on_devices(DEVICES_PROGRAM, 4)
    for left, right in zip(one, four, strict=True):
        np.testing.assert_allclose(left, right, atol=2e-5)
