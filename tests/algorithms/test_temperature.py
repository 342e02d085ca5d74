"""The sampling temperature: what acts and what learns agree about the distribution; schedules that begin late."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.algorithms.ppo.loss import PPOCoefs
from jaxrl.algorithms.schedule import make_hyper, make_schedule
from jaxrl.networks import distributions
from jaxrl.training.anakin.loop import Anakin
from jaxrl.training.anakin.rollout import collect
from jaxrl.training.make import make_program
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import Schedule
from tests.support.games import HighCard
from tests.support.training import run, small_config, with_hyper

pytestmark = pytest.mark.thorough

VIEWS = (None, None, 0, 0)  # of `Network.evaluate`, vmapped
ONE_PASS = small_config(updates=1, epochs=1, minibatches=1)


@pytest.fixture(name="sharp", scope="module")
def _sharp():
    """The program of `ONE_PASS` with a policy that is far from uniform.

    Its network looks logits up in a table: a product of matrices is rounded differently in batches of other sizes, and
    that would hide what is tested here.
    """
    anakin = make_program(ONE_PASS, HighCard())

    def apply(params, memory, hand, mask, key=None):
        logits = params["table"][jnp.sum(hand * jnp.arange(12)) % 12]
        return memory, distributions.mask_logits(logits, mask), jnp.float32(0.0)

    anakin.algorithm.network = anakin.algorithm.network._replace(
        encode=lambda view: view.hand, init=lambda key: {"table": 3.0 * jax.random.normal(key, (12, 12))}, apply=apply
    )
    return Anakin(anakin.config, anakin.setup, anakin.mesh)


def first_state(anakin, temperature: float):
    """The state before the first update, with another temperature."""
    return with_hyper(anakin.init(0), temperature=make_schedule("constant", temperature, 0.0))


@pytest.mark.parametrize("temperature", [0.5, 0.7, 1.0, 3.0])
def test_the_ratio_uses_the_behaviour_log_probability(sharp, temperature: float) -> None:
    """The first minibatch's log-ratio is exactly 0 at any temperature, and the rollout was drawn at that one."""
    anakin, state = sharp, first_state(sharp, temperature)
    ids = jnp.arange(16, dtype=jnp.uint32)
    evaluate = jax.vmap(jax.vmap(jax.vmap(anakin.algorithm.network.evaluate, VIEWS), VIEWS), VIEWS)

    @jax.jit
    def rollout_of(learner):
        policy = anakin.algorithm.policy(learner, state.update)
        _, rollout, _ = collect(anakin.setup, policy, None, state.lanes, prng.fast_key(1), ids, 9)
        steps = rollout.steps
        mask = distributions.unpack_mask(steps.mask, 12)
        return steps, evaluate(learner.params, (), steps.observation, mask)[1]

    steps, logits = rollout_of(state.learner)
    tempered = distributions.log_prob(logits / temperature, steps.action)
    np.testing.assert_allclose(steps.log_prob, tempered, atol=1e-5)
    gap = np.max(np.abs(steps.log_prob - distributions.log_prob(logits, steps.action)))
    assert gap > 0.5 or temperature == 1.0, "a ratio against the plain policy would not be 1"
    _, metrics = run(anakin, state)
    assert metrics["train/approx_kl"] == 0.0 and metrics["train/clip_fraction"] == 0.0
    assert metrics["train/temperature"] == np.float32(temperature)


def test_a_low_temperature_sharpens_play_and_its_entropy(sharp) -> None:
    """The entropy bonus is for the distribution that is drawn from."""
    runs = {value: run(sharp, first_state(sharp, value))[1] for value in (0.1, 1.0, 10.0)}
    entropy = {value: -float(metrics["train/entropy_loss"]) for value, metrics in runs.items()}
    assert 0.0 < entropy[0.1] < 0.5 * entropy[1.0] and entropy[1.0] < 0.8 * entropy[10.0]


def test_temperature_follows_its_schedule(sharp) -> None:
    assert run(sharp, sharp.init(0))[1]["train/temperature"] == 1.0
    state, seen = with_hyper(sharp.init(0), temperature=make_schedule("linear", 1.0, 0.5), total_updates=3), []
    for _ in range(3):
        state, metrics = run(sharp, state)
        seen.append(float(metrics["train/temperature"]))
    np.testing.assert_allclose(seen, [1.0, 0.75, 0.5], rtol=1e-6)


def test_schedules_begin_with_the_first_update() -> None:
    """A run that continues another one from update 600 runs its schedules from there to the end."""
    ppo = PPOConfig(entropy_coef=Schedule("linear", 0.04, 0.01), temperature=Schedule("cosine", 1.0, 0.5))
    hyper = make_hyper(ppo, 1001, first_update=600)
    at = [PPOCoefs(**hyper.at(jnp.int32(update))) for update in (0, 600, 800, 1000, 1200)]
    np.testing.assert_allclose([float(now.entropy_coef) for now in at], [0.04, 0.04, 0.025, 0.01, 0.01], rtol=1e-5)
    np.testing.assert_allclose([float(now.temperature) for now in at], [1.0, 1.0, 0.75, 0.5, 0.5], rtol=1e-5)


@pytest.mark.parametrize("schedule", [Schedule("constant", 0.0), Schedule("linear", 1.0, 1000.0)])
def test_impossible_temperatures(schedule: Schedule) -> None:
    with pytest.raises(UserError, match=r"ppo\.temperature must stay within 0\.01 and 100"):
        small_config(temperature=schedule).check()
    small_config(temperature=Schedule("constant", 1.0, 0.0)).check()  # its end is not used
