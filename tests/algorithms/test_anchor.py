"""What holds PPO to what it began with: the anchor, and the warm-up of the value."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import config as configs
from jaxrl.algorithms.base import ANCHOR
from jaxrl.algorithms.ppo.config import PPOConfig
from jaxrl.algorithms.ppo.loss import ppo_loss
from jaxrl.algorithms.schedule import make_schedule
from jaxrl.config import Config
from jaxrl.networks import distributions
from jaxrl.networks.base import NetworkModule
from jaxrl.networks.config import NetworkConfig
from jaxrl.networks.factory import STATISTICS, make_network
from jaxrl.runs import directory as runs
from jaxrl.runs import metrics
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.checkpoints.leaves import PARAMS, TARGET_PARAMS
from jaxrl.training.launching.start import make_training
from jaxrl.training.make import make_program
from jaxrl.training.plan import make_plan
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import Schedule
from tests.algorithms.test_magnet import decisions, kl_by_hand
from tests.algorithms.test_update import now
from tests.networks.test_memory import recurrent_config
from tests.networks.test_normaliser import Physical, normalising
from tests.support.games import HighCard, TicTacToe
from tests.support.memory_games import HostRecall, Recall
from tests.support.small_runs import configure, train
from tests.support.training import assert_identical, run, small_config, with_hyper

pytestmark = pytest.mark.thorough

HELD = Schedule("linear", 0.3)

# ---- the anchor -----------------------------------------------------------------------------------------------------


def test_the_divergence_is_that_of_the_policy_from_the_anchor() -> None:
    """And only decisions of the learner count."""
    network = make_network(NetworkConfig(hidden=(16,)), TicTacToe())
    params = jax.tree.map(lambda leaf: 20.0 * leaf, network.init(jax.random.key(0)))
    batch = decisions(np.random.default_rng(1), 24)
    mask = distributions.unpack_mask(batch.mask, 9)
    logits = jax.vmap(lambda seen, legal: network.evaluate(params, (), seen, legal)[1])(batch.observation, mask)
    other = distributions.mask_logits(jnp.asarray(np.random.default_rng(2).normal(size=(24, 9)), jnp.float32), mask)
    settings = PPOConfig(anchor=Schedule("constant", 0.7))
    held, parts = ppo_loss(params, batch._replace(anchor=other), network, *now(settings))
    free, _ = ppo_loss(params, batch, network, *now(PPOConfig()))
    rows = zip(np.asarray(other), np.asarray(logits), np.asarray(mask), np.asarray(batch.weight), strict=True)
    wanted = sum(weight * kl_by_hand(one, two, legal) for one, two, legal, weight in rows)
    assert float(parts.anchor_kl) == pytest.approx(wanted, rel=1e-4) and wanted > 1.0
    assert float(held - free) == pytest.approx(0.7 * wanted, rel=1e-3)


@pytest.mark.parametrize("env", [Recall(delays=(1, 3)), HostRecall(delays=(1, 3))], ids=["compiled", "host"])
def test_where_a_run_begins_the_anchor_does_not_pull(env: Env) -> None:
    """Also of a network with a memory, whose games end within the rollout."""
    program = make_program(recurrent_config(anchor=HELD, epochs=1, minibatches=1, updates=1, calls=9), env)
    state = program.init(0)
    params = dict(state.learner.params)
    params["heads"] = jax.tree.map(lambda leaf: 2000.0 * leaf, params["heads"])  # what it remembers matters
    learner = state.learner.replace(params=params, target_params={ANCHOR: jax.tree.map(jnp.copy, params)})
    _, found, _ = program.advance(program.begin(state.replace(learner=learner)))
    program.close()
    found = metrics.values(jax.device_get(found))
    assert found["rollout/games"] > 0 and abs(found["train/anchor_kl"]) < 1e-6
    assert found["train/anchor_coef"] == pytest.approx(0.3)


def test_an_anchor_keeps_the_policy_near() -> None:
    config = recurrent_config(anchor=HELD, updates=3, learning_rate=Schedule("constant", 0.01))
    program, moved = make_program(config, Recall(delays=(1, 3))), []
    first = jax.device_get(program.init(0).learner.params)
    for weight in (0.0, 30.0):
        state = with_hyper(program.init(0), anchor=make_schedule("constant", weight, weight))
        state, found = run(program, state, 2)
        moved.append(float(found["train/anchor_kl"]))
        assert_identical(state.learner.target_params[ANCHOR], first)
    assert moved[0] > 0.003 and moved[1] < moved[0] / 5


# ---- the warm-up of the value ---------------------------------------------------------------------------------------

WARMED: dict[str, Config] = {
    "memory": recurrent_config(value_warmup=3, updates=1, calls=9),
    "normaliser, average, two seeds": normalising(small_config(value_warmup=3, updates=1, calls=9, seeds=2, ema=0.5)),
}


def of_the_value(params: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The last layer of the value, and all other parameters."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    names = ["'heads'" in (name := jax.tree_util.keystr(path)) and "'value'" in name for path, _ in leaves]
    return tuple(
        [leaf for (_, leaf), is_value in zip(leaves, names, strict=True) if is_value == which]
        for which in (True, False)
    )


@pytest.mark.parametrize("name", WARMED)
def test_a_warm_up_leaves_the_policy_untouched_and_teaches_the_value(name: str) -> None:
    """Even if Adam comes with moments of what was learnt before; then everything learns."""
    program = make_program(WARMED[name], Physical() if "normaliser" in name else Recall(delays=(1, 3)))
    state = program.init(0)
    moments = jax.tree.map(lambda leaf: leaf + jnp.ones_like(leaf), state.learner.opt_state)
    state = program.begin(state.replace(learner=state.learner.replace(opt_state=moments)))
    assert (STATISTICS in state.learner.params) == ("normaliser" in name)
    for number in range(4):
        before = of_the_value(jax.device_get(state.learner.params))
        state, found = run(program, state, 1)
        after = of_the_value(jax.device_get(state.learner.params))
        value, policy = ([*map(np.array_equal, *both)] for both in zip(before, after, strict=True))
        assert len(value) == 2 and not any(value)
        assert all(policy) if number < 3 else not any(policy), number
        assert np.all((np.abs(found["train/approx_kl"]) < 1e-7) == (number < 3))
    program.close()


# ---- runs -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a configuration and the run "anchored" of 4 updates, of which one warmed up."""
    home = tmp_path_factory.mktemp("anchor")
    more = {"env": {"options": {"random_start": True}}, "ppo": {"anchor": {"start": 0.3}, "value_warmup": 1}}
    configure(home, "tests.support.games:TicTacToe", 4, train={"evaluate_every": 0}, **more)
    assert train(home, "anchored") == 0
    return home


def test_a_run_that_goes_on_is_held_to_what_it_begins_with(home: Path) -> None:
    """Not to what the run before began with."""
    arrays = runs.RunDirectory(home / "runs" / "anchored").checkpoints().read(2).arrays
    league = "league={opponents: [self, snapshots], snapshots: 1}"
    more = ["run.name=further", "train.from_run=anchored@2", "train.total_steps=256", league]
    config = configs.load(home / "tiny.yaml", more)
    new = make_training(make_plan(config), runs.new_run(config), resume=False)
    new.close()
    learner = jax.device_get(new.state.learner)
    newest = checkpoint.params_of(arrays)
    assert_identical(learner.target_params[ANCHOR], newest)
    assert_identical(learner.params, newest)
    first = jax.tree.map(lambda leaf: leaf[0], jax.device_get(new.state.pool.snapshots))
    assert checkpoint.params_hash(first) == checkpoint.params_hash(newest), "nothing is earlier, so it meets itself"
    place = f"{TARGET_PARAMS}{ANCHOR}."
    pairs = [(arrays[name], arrays[name.replace(place, PARAMS)]) for name in arrays if name.startswith(place)]
    assert pairs and not any(np.array_equal(*pair) for pair in pairs), "the earlier run has learnt since it began"


def test_a_warm_up_cannot_be_negative() -> None:
    with pytest.raises(UserError, match="ppo.value_warmup"):
        configs.load(None, ["ppo.value_warmup=-1"])


class Alone(NetworkModule):
    """Ends in layers of its own names."""

    @nn.compact
    def __call__(self, memory, encoded):
        return memory, (nn.Dense(self.num_actions, name="moves")(encoded), nn.Dense(1, name="worth")(encoded)[0])


def test_a_warm_up_needs_a_value_that_it_knows() -> None:
    """It would learn nothing at all, in silence."""
    network = NetworkConfig(kind="tests.algorithms.test_anchor:Alone")
    with pytest.raises(UserError, match="ppo.value_warmup: .*Alone has no parameters heads/value"):
        make_program(dataclasses.replace(small_config(value_warmup=2), network=network), TicTacToe())
    make_program(dataclasses.replace(small_config(), network=network), TicTacToe())
    critic = small_config(value_warmup=2, critic=(16,))  # learns whatever the network is
    make_program(dataclasses.replace(critic, network=network), HighCard())
