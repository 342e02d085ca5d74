"""Who moves in a simulated game: policies that can also say how likely they were to choose an action."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from envs.core import Bot, Env, Key, PyTree, State
from envs.errors import UserError
from jaxrl.networks import distributions
from jaxrl.networks.factory import Network
from jaxrl.players import Player, no_memory

Guide = Callable[[PyTree, State], tuple[jax.Array, jax.Array]]
"""(params, state) -> masked logits f32[A] of the seat asked and its expected return f32[]."""


class PlayoutPolicy(NamedTuple):
    """A player of simulated games; functions of one game."""

    act: Callable[[PyTree, State, Key], jax.Array]
    """(params, state, key) -> i32[], a legal action for the seat asked."""

    likelihood: Callable[[PyTree, State, jax.Array, Key], jax.Array]
    """(params, state, action, key) -> f32[], the probability of choosing `action`, or an unbiased estimate of it."""


class SearchParams(NamedTuple):
    """What a search player is parametrised by."""

    own: PyTree  # of the policy that moves for the searching seat, and of its guide
    model: PyTree = None  # of the policy that moves for all others


def bot_policy(bot: Bot, draws: int = 2) -> PlayoutPolicy:
    """A scripted bot, which takes no parameters.

    Args:
      bot: (state, key) -> action.
      draws: how often the bot is asked for one likelihood; it tells only what it does, not with which probability.
    """
    return act_policy(lambda params, state, key: bot(state, key), draws)


def switch_policy(env: Env, names: Sequence[str], draws: int = 2) -> PlayoutPolicy:
    """The bot `names[index]`; its parameter is the index i32[], so that one program serves for all of them."""
    play = env.bot_switch(tuple(names))
    return act_policy(lambda index, state, key: play(state, index, key), draws)


def act_policy(act: Callable[[PyTree, State, Key], jax.Array], draws: int = 2) -> PlayoutPolicy:
    """Any player of which only the choice is known: (params, state, key) -> action."""

    def likelihood(params: PyTree, state: State, action: jax.Array, key: Key) -> jax.Array:
        keys = jax.random.split(key, draws)
        same = jax.vmap(lambda k: act(params, state, k) == action)(keys)
        return jnp.mean(same.astype(jnp.float32))

    return PlayoutPolicy(act, likelihood)


def player_policy(player: Player, draws: int = 2) -> PlayoutPolicy:
    """A player of matches, with its parameters.

    Raises:
      UserError: it has a memory, which nobody keeps in simulated games.
    """
    if player.init is not no_memory:
        raise UserError(f"{player.name!r} remembers what happened: a search cannot take others for it, only for bots.")
    return act_policy(lambda params, state, key: player.act(params, (), state, key)[0], draws)


def network_policy(network: Network, *, greedy: bool = False) -> PlayoutPolicy:
    """A network's policy; `greedy` concerns its moves, while its likelihood is always that of the whole policy."""

    def logits_of(params: PyTree, state: State) -> jax.Array:
        return network.evaluate(params, network.memory(()), state.observation, state.legal_action_mask)[1]

    def act(params: PyTree, state: State, key: Key) -> jax.Array:
        logits = logits_of(params, state)
        return distributions.greedy(logits) if greedy else distributions.sample(logits, jax.random.uniform(key))

    def likelihood(params: PyTree, state: State, action: jax.Array, key: Key) -> jax.Array:
        del key
        return jnp.exp(distributions.log_prob(logits_of(params, state), action))

    return PlayoutPolicy(act, likelihood)


def network_guide(network: Network) -> Guide:
    """The network's own policy and value."""
    return lambda params, state: network.evaluate(
        params, network.memory(()), state.observation, state.legal_action_mask
    )[1:]


def no_guide(params: PyTree, state: State) -> tuple[jax.Array, jax.Array]:
    """Every legal action alike and a value of 0: for bots, which give no opinion."""
    del params
    mask = state.legal_action_mask
    return distributions.mask_logits(jnp.zeros(mask.shape), mask), jnp.float32(0.0)
