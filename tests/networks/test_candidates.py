"""The network that scores options one by one."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl import config as configs
from jaxrl.algorithms.dqn.config import DQNConfig
from jaxrl.algorithms.registry import trained_player
from jaxrl.games import make_games
from jaxrl.matches.evaluate import evaluate_players
from jaxrl.networks import distributions
from jaxrl.networks.base import Network
from jaxrl.networks.config import CandidatesConfig, NetworkConfig, RecurrentConfig
from jaxrl.players.player import bot_player
from jaxrl_envs.contract.env import Candidates
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.section import Schedule
from tests.support.candidate_games import KINDS, STALLS, Market
from tests.support.games import HighCard
from tests.support.training import compiled_network, small_config, train

pytestmark = pytest.mark.thorough

SMALL = CandidatesConfig(dim=16, layers=1)
CONFIG = NetworkConfig(kind="candidates", candidates=SMALL)
DEEP = NetworkConfig(kind="candidates", candidates=CandidatesConfig(dim=16, layers=2))
BFLOAT16 = NetworkConfig(kind="candidates", candidates=SMALL, compute_dtype="bfloat16")
HEADS = {"policy": None, "dueling": DQNConfig(), "noisy": DQNConfig(exploration="noisy")}


def trained(network: Network) -> dict:
    """Parameters with which everything matters: first embeddings are 0, first logits nearly so."""
    random = np.random.default_rng(1)
    return jax.tree.map(
        lambda leaf: leaf + 0.3 * random.standard_normal(leaf.shape, np.float32), network.init(jax.random.key(0))
    )


@functools.cache
def questions(count: int) -> tuple[jax.Array, jax.Array]:
    """Observations and masks of games after two random steps."""
    env = Market()

    def play(key):
        state = env.init(key)
        for i in range(2):
            step_key = jax.random.fold_in(key, i)
            state = env.step(state, env.random_action(state, step_key), step_key)
        return state.observation, state.legal_action_mask

    return jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(5), count))


@pytest.mark.parametrize(
    ("config", "dqn"),
    [
        *(pytest.param(CONFIG, dqn, id=f"small-{name}") for name, dqn in HEADS.items()),
        pytest.param(DEEP, None, id="deep-policy"),
        pytest.param(BFLOAT16, None, id="bfloat16-policy"),
        pytest.param(BFLOAT16, HEADS["dueling"], id="bfloat16-dueling"),
    ],
)
def test_outputs_are_float32_and_masked(config, dqn):
    network = compiled_network(config, Market(), dqn)
    params = network.init(jax.random.key(0))
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    observation, mask = questions(7)
    _, logits, value = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0))(params, (), observation, mask)
    assert logits.shape == (7, STALLS + 1) and value.shape == (7,) and logits.dtype == value.dtype == jnp.float32
    np.testing.assert_array_equal(logits == distributions.MASK_FILL, ~mask)
    if dqn is None:
        assert np.abs(np.asarray(logits)[np.asarray(mask)]).max() < 0.1  # the first policy is nearly uniform


@pytest.mark.parametrize("dqn", HEADS.values(), ids=HEADS)
def test_mixed_options_have_mixed_logits(dqn):
    network = compiled_network(CONFIG, Market(), dqn)
    params = trained(network)
    observation, mask = jax.tree.map(lambda leaf: leaf[0], questions(1))
    view, order = Market().candidates(observation), jax.random.permutation(jax.random.key(3), STALLS + 1)
    mixed = view._replace(options=view.options[order], option_ids=view.option_ids[order])
    _, logits, value = network.apply(params, (), view, mask)
    np.testing.assert_allclose(network.apply(params, (), mixed, mask[order])[1], logits[order], atol=1e-4)
    np.testing.assert_allclose(network.apply(params, (), mixed, mask[order])[2], value, atol=1e-4)
    assert len(np.unique(np.asarray(logits)[np.asarray(mask)])) == mask.sum()


def test_the_order_of_the_entities_does_not_matter_but_their_zone_does():
    network = compiled_network(CONFIG, Market())
    params = trained(network)
    observation, mask = jax.tree.map(lambda leaf: leaf[0], questions(1))
    view = (
        Market()
        .candidates(observation)
        ._replace(entity_mask=jnp.arange(8) < 6, entity_ids=jnp.arange(8, dtype=jnp.int32) % KINDS)
    )
    order = jax.random.permutation(jax.random.key(3), 8)
    mixed = view._replace(
        entities=view.entities[order],
        entity_ids=view.entity_ids[order],
        entity_mask=view.entity_mask[order],
        zones=view.zones[order],
    )
    _, logits, value = network.apply(params, (), view, mask)
    np.testing.assert_allclose(network.apply(params, (), mixed, mask)[1], logits, atol=1e-4)
    np.testing.assert_allclose(network.apply(params, (), mixed, mask)[2], value, atol=1e-4)
    hidden = view._replace(entities=view.entities.at[7].add(3.0), entity_ids=view.entity_ids.at[6].set(11))
    np.testing.assert_array_equal(network.apply(params, (), hidden, mask)[1], logits)  # rows that stand for nothing
    elsewhere = view._replace(zones=view.zones[::-1])
    assert abs(network.apply(params, (), elsewhere, mask)[2] - value) > 1e-3


def test_unknown_kinds_are_their_features_and_kind_0_has_no_embedding():
    network = compiled_network(CONFIG, Market())
    params = network.init(jax.random.key(0))
    observation, mask = jax.tree.map(lambda leaf: leaf[0], questions(1))
    view = Market().candidates(observation)
    fresh = network.apply(params, (), view, mask)
    other = network.apply(params, (), view._replace(option_ids=(view.option_ids + 1) % KINDS), mask)
    np.testing.assert_array_equal(fresh[1], other[1])
    params["kinds"]["embedding"] = params["kinds"]["embedding"].at[0].set(99.0)
    np.testing.assert_array_equal(network.apply(params, (), view, mask)[1], fresh[1])


def test_an_option_may_be_about_an_entity():
    class Pointed(Market):
        def candidates(self, observation) -> Candidates:
            view = super().candidates(observation)
            return view._replace(option_entity=jnp.array([-1, 0, 1, 2, 3, -1], jnp.int32))

    network = compiled_network(CONFIG, Pointed())
    params = trained(network)
    observation, mask = jax.tree.map(lambda leaf: leaf[0], questions(1))
    view, everything = Pointed().candidates(observation), jnp.ones_like(mask)
    view = view._replace(entity_mask=jnp.zeros(8, bool))  # in no sum: what is left is what the options are about
    _, logits, _ = network.apply(params, (), view, everything)
    _, changed, _ = network.apply(params, (), view._replace(entities=view.entities.at[1].add(1.0)), everything)
    np.testing.assert_array_equal(np.asarray(changed != logits), np.arange(6) == 2)


def test_entities_look_at_those_that_stand_for_something():
    config = NetworkConfig(kind="candidates", candidates=CandidatesConfig(dim=16, layers=1, attention=1))
    network = compiled_network(config, Market())
    params = trained(network)
    observation, mask = jax.tree.map(lambda leaf: leaf[0], questions(1))
    view = Market().candidates(observation)._replace(entity_mask=jnp.arange(8) < 6)
    _, logits, value = network.apply(params, (), view, mask)
    order = jax.random.permutation(jax.random.key(3), 8)
    fields = {name: getattr(view, name)[order] for name in ("entities", "entity_ids", "entity_mask", "zones")}
    np.testing.assert_allclose(network.apply(params, (), view._replace(**fields), mask)[2], value, atol=1e-4)
    hidden = view._replace(entities=view.entities.at[7].add(3.0))
    np.testing.assert_array_equal(network.apply(params, (), hidden, mask)[1], logits)
    seen = view._replace(entities=view.entities.at[5].add(3.0))
    assert abs(network.apply(params, (), seen, mask)[2] - value) > 1e-3


def test_options_look_at_each_other_and_only_at_those_that_there_are():
    class Masked(Market):
        def candidates(self, observation) -> Candidates:
            return super().candidates(observation)._replace(option_mask=jnp.arange(STALLS + 1) < STALLS)

    config = NetworkConfig(kind="candidates", candidates=CandidatesConfig(dim=16, layers=1, together=1))
    network = compiled_network(config, Masked())
    params = trained(network)
    observation, mask = jax.tree.map(lambda leaf: leaf[0], questions(1))
    view, everything = Masked().candidates(observation), jnp.ones_like(mask)
    _, logits, value = network.apply(params, (), view, everything)
    order = jnp.array([2, 0, 1, *range(3, STALLS + 1)])
    mixed = view._replace(options=view.options[order], option_ids=view.option_ids[order])
    np.testing.assert_allclose(network.apply(params, (), mixed, everything)[1], logits[order], atol=1e-4)
    altered = view._replace(options=view.options.at[STALLS].add(3.0))
    _, others, same = network.apply(params, (), altered, everything)
    np.testing.assert_allclose(others[:STALLS], logits[:STALLS], atol=1e-5)
    np.testing.assert_allclose(same, value, atol=1e-5)
    better = view._replace(options=view.options.at[1].add(3.0))
    assert abs(network.apply(params, (), better, everything)[1] - logits)[2] > 1e-3


class Told(Market):
    """What the kinds are is told: three of them, of five parts in all; things are tied to their neighbours."""

    def candidates(self, observation) -> Candidates:
        view = super().candidates(observation)
        return view._replace(
            entity_ids=view.entity_ids % 4,
            option_ids=view.option_ids % 4,
            kinds=jnp.eye(3),
            kind_ids=jnp.array([0, 0, 5], jnp.int32),
            parts=jnp.arange(20.0).reshape(5, 4) / 10.0,
            part_rows=jnp.array([[0, 0], [0, 0], [2, 2], [1, 3], [-1, -1]], jnp.int32),
            option_part=jnp.array([-1, 0, 2, 3, -1, -1], jnp.int32),
            partners=jnp.array([[1, -1]] + [[-1, -1]] * 7, jnp.int32),
        )


def test_kinds_are_the_sum_of_their_parts():
    network = compiled_network(CONFIG, Told())
    params = trained(network)
    observation, mask = jax.tree.map(lambda leaf: leaf[0], questions(1))
    view, everything = Told().candidates(observation), jnp.ones_like(mask)
    view = view._replace(option_ids=jnp.array([0, 1, 1, 2, 3, 0], jnp.int32), entity_ids=jnp.zeros(8, jnp.int32))

    def changed(other: Candidates) -> list[int]:
        difference = np.abs(network.apply(params, (), other, everything)[1] - logits)
        return list(np.flatnonzero(difference > 1e-4))

    _, logits, _ = network.apply(params, (), view, everything)
    assert changed(view._replace(parts=view.parts.at[4].add(1.0))) == []  # of no kind
    assert changed(view._replace(parts=view.parts.at[1].add(1.0))) == [1, 2]  # of both cards, and of what one uses
    assert changed(view._replace(parts=view.parts.at[2].add(1.0))) == [2, 4]  # used by one, a part of another
    assert changed(view._replace(kinds=view.kinds.at[1].add(1.0))) == [3]
    order = jnp.array([1, 0, 2, 3, 4])  # of the parts of one kind
    swapped = view.part_rows.at[:2, 1].set(1)
    mixed = view._replace(parts=view.parts[order], part_rows=swapped, option_part=view.option_part.at[1].set(1))
    assert changed(mixed) == []


def test_things_hear_from_those_that_they_are_tied_to():
    class Pointed(Told):
        def candidates(self, observation) -> Candidates:
            return super().candidates(observation)._replace(option_entity=jnp.arange(6, dtype=jnp.int32) - 1)

    network = compiled_network(CONFIG, Pointed())
    params = trained(network)
    observation, mask = jax.tree.map(lambda leaf: leaf[0], questions(1))
    view, everything = Pointed().candidates(observation), jnp.ones_like(mask)
    view = view._replace(entity_mask=jnp.zeros(8, bool))  # in no sum
    _, logits, _ = network.apply(params, (), view, everything)
    for entity, wanted in ((0, {1, 2}), (1, {1, 2}), (2, {3})):  # option 1 + i is about thing i
        moved = view._replace(entities=view.entities.at[entity].add(1.0))
        difference = np.abs(network.apply(params, (), moved, everything)[1] - logits)
        assert set(np.flatnonzero(difference > 1e-4)) == wanted


def test_options_are_scored_in_what_is_remembered():
    config = NetworkConfig(
        kind="recurrent", candidates=SMALL, recurrent=RecurrentConfig(torso="candidates", cell="gru", width=8)
    )
    network = compiled_network(config, Market())
    params, (observation, mask) = trained(network), jax.tree.map(lambda leaf: leaf[0], questions(1))
    view, everything = Market().candidates(observation), jnp.ones_like(mask)
    memory, logits, value = network.apply(params, network.memory(()), view, everything)
    assert jax.tree.map(jnp.shape, memory) == ((8,),) and network.remembers
    _, later, _ = network.apply(params, memory, view, everything)
    assert np.ptp(np.asarray(later - logits)) > 1e-3  # not the same shift for all: which option is good has changed
    order = jnp.arange(STALLS + 1)[::-1]
    mixed = view._replace(options=view.options[order], option_ids=view.option_ids[order])
    np.testing.assert_allclose(network.apply(params, memory, mixed, everything)[1], later[order], atol=1e-4)


@pytest.mark.parametrize("rows", [False, True])
def test_the_context_reads_rows_only_if_it_is_told(rows):
    part = dataclasses.replace(SMALL, rows=rows, context=24, layer_norm=False)
    network = compiled_network(NetworkConfig(kind="candidates", candidates=part), Market())
    params = trained(network)
    assert params["context_0"]["kernel"].shape[1] == 24 and not any("norm" in name for name in params)
    observation, mask = jax.tree.map(lambda leaf: leaf[0], questions(1))
    view = Market().candidates(observation)
    view = view._replace(entity_mask=jnp.ones(8, bool), entities=view.entities.at[0].add(1.0))
    order = jnp.arange(8)[::-1]
    fields = {name: getattr(view, name)[order] for name in ("entities", "entity_ids", "entity_mask", "zones")}
    value, other = (network.apply(params, (), each, mask)[2] for each in (view, view._replace(**fields)))
    assert (abs(value - other) > 1e-3) == rows


def test_what_is_near_an_option_is_near_that_option_alone():
    class Placed(Market):
        def candidates(self, observation) -> Candidates:
            near = jnp.zeros((3, 8, 2)).at[1, 4, 0].set(1.0)
            return super().candidates(observation)._replace(nearness=near)

    network = compiled_network(CONFIG, Placed())
    params = trained(network)
    observation, mask = jax.tree.map(lambda leaf: leaf[0], questions(1))
    view, everything = Placed().candidates(observation), jnp.ones_like(mask)
    view = view._replace(entity_mask=jnp.zeros(8, bool))  # in no sum: what is left is what is near
    _, logits, _ = network.apply(params, (), view, everything)
    for entity, wanted in ((4, 1), (3, None)):
        moved = view._replace(entities=view.entities.at[entity].add(1.0))
        _, changed, _ = network.apply(params, (), moved, everything)
        np.testing.assert_array_equal(np.asarray(changed != logits), np.arange(6) == wanted)
    farther = view._replace(nearness=jnp.roll(view.nearness, 1, axis=2))
    assert abs(network.apply(params, (), farther, everything)[1] - logits)[1] > 1e-3


def test_gradients_reach_every_parameter():
    network = compiled_network(CONFIG, Market())
    params = trained(network)
    observation, mask = questions(32)

    def objective(params):
        _, logits, value = jax.vmap(network.evaluate, in_axes=(None, None, 0, 0))(params, (), observation, mask)
        return jnp.sum(jnp.square(value - 1.0)) + jnp.sum(distributions.log_prob(logits, jnp.argmax(mask, axis=-1)))

    for path, leaf in jax.tree_util.tree_leaves_with_path(jax.jit(jax.grad(objective))(params)):
        assert np.all(np.isfinite(leaf)) and np.any(leaf != 0), path


def test_ppo_learns_what_kinds_are_worth():
    """What a kind is worth stands nowhere: it is learnt once for all stalls, from few games."""
    env = Market()
    rate = Schedule("linear", 3e-3, 3e-4)
    config = small_config(num_envs=16, num_steps=16, epochs=4, updates=10, calls=12, learning_rate=rate)
    config = dataclasses.replace(config, network=CONFIG)
    _, state, _ = train(env, config, calls=12)
    player = trained_player(config, env, "learnt", state.learner.params, greedy=True)
    [row] = evaluate_players(env, [player], [bot_player(env, "random")], deals=200, seed=1)
    assert row.samples.outcomes.tally().rates()[0] > 0.85


def test_games_without_described_options_are_refused():
    with pytest.raises(UserError, match="described one by one, which skull_king has not: use mlp"):
        make_games(configs.load(None, ["network.kind=candidates"]))
    with pytest.raises(NotImplementedError, match="use the mlp network"):
        HighCard().candidates(None)
