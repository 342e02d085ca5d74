"""A search by a network that remembers: its memory is that of its own decisions, real ones and then simulated ones."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from jaxrl import xla
from jaxrl.networks.base import Network
from jaxrl.networks.distributions import mask_logits
from jaxrl.players.player import Player, bot_player, network_player
from jaxrl.search.player import Search, make_search
from jaxrl.search.playout import TO_THE_END, Lineup, of_seat, play_on
from jaxrl.search.policies import SearchParams, bot_policy, network_guide, network_policy, player_policy
from jaxrl.search.settings import SearchSettings
from jaxrl_envs.contract.env import Env, Key, State, public_fields
from jaxrl_envs.shared.errors import UserError

NOTHING = SearchParams(own=None, model=None)
ACTIONS, DECISIONS = 3, 6
jitted = functools.partial(jax.jit, compiler_options=xla.plain_options())


@struct.dataclass
class InTurnState(State):
    number: jax.Array  # i32[], decisions so far, of both seats


class InTurn(Env):
    """Two seats decide six times each, in turn, and see nothing. A seat earns 1 for each decision in which it takes the
    action whose number is that of its own decisions so far, modulo 3: who does not remember cannot know it."""

    id, version = "in_turn", "1"
    num_players, num_actions = 2, ACTIONS

    def _init(self, key: Key) -> InTurnState:
        fields = public_fields(num_players=2, num_actions=ACTIONS)
        return InTurnState(observation=None, number=jnp.int32(0), **fields)

    def _step(self, state: InTurnState, action: jax.Array, key: Key) -> InTurnState:
        right = action == (state.number // 2) % ACTIONS
        return state.replace(
            current_player=1 - state.current_player,
            number=state.number + 1,
            rewards=((jnp.arange(2) == state.current_player) & right).astype(jnp.float32),
            terminated=state.number + 1 == 2 * DECISIONS,
        )

    def observe(self, state: InTurnState, seat: jax.Array) -> jax.Array:
        return jnp.zeros(1)

    def permute_hidden(self, state: InTurnState, seat: jax.Array, key: Key) -> InTurnState:
        return state


def counting_network() -> Network:
    """Counts its decisions, takes the right action, and expects to go on like that."""

    def apply(params: Any, memory: Any, encoded: Any, mask: jax.Array, key: Any = None) -> Any:
        logits = jnp.where(jnp.arange(ACTIONS) == memory % ACTIONS, 50.0, 0.0)
        return memory + 1, mask_logits(logits, mask), (DECISIONS - memory).astype(jnp.float32)

    return Network(ACTIONS, lambda x: x, lambda key: None, apply, lambda batch: jnp.zeros(batch, jnp.int32))


def states(numbers: list[int]) -> InTurnState:
    """Games after this many decisions of both seats."""
    env = InTurn()
    state = jax.vmap(env.init)(keys_of(len(numbers)))
    number = jnp.array(numbers)
    return state.replace(number=number, current_player=number % 2)


def keys_of(count: int) -> jax.Array:
    return jax.random.split(jax.random.key(0), count)


def searching(**settings: Any) -> Search:
    env, network = InTurn(), counting_network()
    known = SearchSettings(**({"simulations": 24, "prior": 0.0} | settings))
    own, model = network_policy(network), bot_policy(env.bots["random"])
    return make_search(env, known, own=own, guide=network_guide(network), model=model)


@pytest.mark.parametrize("other", ["itself", "another run", "bot"])
def test_the_seat_remembers_its_decisions_and_the_others_begin_without_a_memory(other: str) -> None:
    env, network = InTurn(), counting_network()
    model = {
        "itself": None,
        "another run": player_policy(network_player(network, env, "run", None, greedy=True)),
        "bot": bot_policy(lambda state, key: jnp.int32(0)),
    }[other]
    lineup, state = Lineup(env, network_policy(network), model), states([0, 2, 3, 8])
    seat, keys, decided = state.current_player, keys_of(4), jnp.array([0, 1, 1, 4])
    memories = lineup.memories(NOTHING, decided + 1, state, seat, keys)  # after the decision that is carried out now
    first = (decided % ACTIONS).astype(jnp.int32)

    @functools.partial(jax.jit, static_argnames="turns")
    def play(turns: int) -> Any:
        return play_on(lineup, NOTHING, state, memories, first, seat, keys, turns=turns)

    end = play(TO_THE_END)
    np.testing.assert_array_equal(of_seat(end.returns, seat), DECISIONS - decided)
    theirs = DECISIONS - decided - (seat == 1)
    right = [
        [(n % ACTIONS) == (0 if other == "bot" else i % ACTIONS) for i, n in enumerate(range(6 - left, 6))]
        for left in theirs.tolist()
    ]
    np.testing.assert_array_equal(of_seat(end.returns, 1 - seat), [sum(row) for row in right])
    np.testing.assert_array_equal(of_seat(end.memories[0], seat), DECISIONS)
    if other != "bot":
        np.testing.assert_array_equal(of_seat(end.memories[-1], 1 - seat), theirs)
    stopped = play(1)
    np.testing.assert_array_equal(of_seat(stopped.memories[0], seat), np.minimum(decided + 2, DECISIONS))
    assert (stopped.state.current_player == seat)[:3].all()


@pytest.mark.parametrize(
    "settings", [{}, {"depth": 1}, {"planner": "tree", "worlds": 2}], ids=["halving", "depth", "tree"]
)
def test_what_a_search_foresees_goes_on_from_its_memory(settings: dict[str, Any]) -> None:
    if "planner" in settings:
        pytest.importorskip("mctx")
    search, state = searching(**settings), states([0, 2, 5, 7, 10])
    decided = state.number // 2

    @jitted
    def plan(own: jax.Array) -> Any:
        memory = jax.vmap(search.belief.init, in_axes=(None, 0, 0, 0))(NOTHING, state, state.current_player, keys_of(5))
        return jax.vmap(search.plan, in_axes=(None, 0, 0, 0))(NOTHING, memory.replace(own=own), state, keys_of(5))

    found = plan(decided)
    np.testing.assert_array_equal(found.action, decided % ACTIONS)
    np.testing.assert_allclose(found.value, DECISIONS - decided)
    assert not np.allclose(plan(jnp.zeros_like(decided)).value[1:], DECISIONS - decided[1:])


def test_the_memory_of_a_search_is_that_of_its_seats_real_decisions() -> None:
    env, search = InTurn(), searching()
    player, key = search.player(), jax.random.key(1)
    assert player.observe is not None
    observe = jax.jit(player.observe)
    state = env.init(key)
    memory = [player.init(NOTHING, state, jnp.int32(seat), key) for seat in range(2)]
    for number in range(2 * DECISIONS + 2):  # what follows the end changes nothing
        after = env.step(state, jnp.int32(1), key)
        memory = [observe(NOTHING, memory[seat], state, jnp.int32(1), after, jnp.int32(seat), key) for seat in range(2)]
        assert int(memory[0].own) == min(number // 2 + 1, DECISIONS)
        assert int(memory[1].own) == min((number + 1) // 2, DECISIONS)
        state = after


def test_who_remembers_what_others_do_is_no_model() -> None:
    bot = bot_player(InTurn(), "random")
    watching = Player("spy", bot.act, observe=lambda params, memory, *step: memory)
    with pytest.raises(UserError, match="remembers what others do"):
        player_policy(watching)
    state = InTurn().init(jax.random.key(0))
    policy = player_policy(network_player(counting_network(), InTurn(), "run", None, greedy=True))
    likelihood = [float(policy.likelihood(None, state, jnp.int32(action), jax.random.key(0))) for action in range(3)]
    assert likelihood == [1.0, 0.0, 0.0]
