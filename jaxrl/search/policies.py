"""Policies of simulated games, which also give the likelihood of an action.

The searching seat starts a simulated game from its real recurrent state. The other seats' states are unknown to it, so
they start each simulated game with an empty memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.networks import distributions
from jaxrl.networks.factory import Network
from jaxrl.players.player import Act, Init, Player, no_memory
from jaxrl_envs.contract.env import Bot, Env, Key, PyTree, State
from jaxrl_envs.shared.errors import UserError

Guide = Callable[[PyTree, PyTree, State], tuple[PyTree, jax.Array, jax.Array]]
"""(params, memory, state) -> the memory of the seat asked afterwards, masked logits f32[A], expected return f32[]."""


class PlayoutPolicy(NamedTuple):
    """A policy of simulated games; its functions take one game."""

    act: Act

    likelihood: Callable[[PyTree, State, jax.Array, Key], jax.Array]
    """(params, state, action, key) -> f32[], the probability of choosing `action` there as the first decision that it
    remembers, or an unbiased estimate of it."""

    memory: Init = no_memory
    """The memory of a seat that begins to play in this state."""

    bot: Callable[[PyTree], jax.Array] | None = None
    """(params) -> i32[], its place in `Env.bots`; None for others than bots."""

    types: int = 0
    """If above 0, the policy is one of this many players: its memory is the number of the player, i32[], and its
    likelihood that of each player, f32[types]."""


class SearchParams(NamedTuple):
    """The parameters of a search player."""

    own: PyTree  # of the searching seat's policy, and of its guide
    model: PyTree = None  # of the opponent model
    belief: PyTree = None  # of the learned belief


def bot_policy(bot: Bot, draws: int = 2) -> PlayoutPolicy:
    """Returns a scripted bot, which takes no parameters. `bot`: (state, key) -> action. `draws`: calls of the bot to
    estimate one likelihood; it returns actions, not probabilities."""
    return act_policy(lambda params, memory, state, key: (bot(state, key), memory), draws)


def switch_policy(env: Env, names: Sequence[str], draws: int = 2) -> PlayoutPolicy:
    """Returns the bot `names[index]`; its parameter is the index, i32[], so that one program serves all bots."""
    play, places = env.bot_switch(tuple(names)), np.array([list(env.bots).index(name) for name in names], np.int32)
    policy = act_policy(lambda index, memory, state, key: (play(state, index, key), memory), draws)
    return policy._replace(bot=lambda index: jnp.asarray(places)[index])


def types_policy(env: Env, names: Sequence[str], draws: int = 16) -> PlayoutPolicy:
    """Returns one of the bots `names`, unknown which: its type is inferred from its actions. It takes no parameters."""
    one, odds = switch_policy(env, names, draws), env.bot_odds(names)

    def act(params: PyTree, which: jax.Array, state: State, key: Key) -> tuple[jax.Array, jax.Array]:
        return one.act(which, (), state, key)[0], which

    def likelihood(params: PyTree, state: State, action: jax.Array, key: Key) -> jax.Array:
        if odds is not None:
            return odds(state, action)
        # With the same key for all of them, what bots share is computed once (`Env.bot_switch`).
        return jax.vmap(one.likelihood, in_axes=(0, None, None, None))(jnp.arange(len(names)), state, action, key)

    return PlayoutPolicy(act, likelihood, lambda params, state, seat, key: jnp.int32(0), types=len(names))


def named_policy(env: Env, name: str, draws: int = 2) -> PlayoutPolicy:
    """Returns the bot `name`, which takes no parameters; its number serves games that play their bots themselves."""
    return bot_policy(env.bots[name], draws)._replace(bot=lambda params: jnp.int32(list(env.bots).index(name)))


def act_policy(act: Act, draws: int = 2, memory: Init = no_memory) -> PlayoutPolicy:
    """Returns a policy from its `act` alone: likelihoods are estimated from `draws` actions."""

    def likelihood(params: PyTree, state: State, action: jax.Array, key: Key) -> jax.Array:
        keys, empty = jax.random.split(key, draws), memory(params, state, state.current_player, key)
        same = jax.vmap(lambda k: act(params, empty, state, k)[0] == action)(keys)
        return jnp.mean(same.astype(jnp.float32))

    return PlayoutPolicy(act, likelihood, memory)


def player_policy(player: Player, draws: int = 2) -> PlayoutPolicy:
    """Returns a player of matches, with its parameters. Raises UserError: it has an `observe`, which is not called in
    simulated games."""
    if player.observe is not None:
        raise UserError(f"{player.name!r} remembers what others do: a search cannot take others for it, only for bots.")
    return act_policy(player.act, draws, player.init)


def network_policy(network: Network, *, greedy: bool = False) -> PlayoutPolicy:
    """A network's policy; `greedy` concerns its moves, while its likelihood is always that of the whole policy."""
    guide = network_guide(network)

    def act(params: PyTree, memory: PyTree, state: State, key: Key) -> tuple[jax.Array, PyTree]:
        memory, logits, _ = guide(params, memory, state)
        action = distributions.greedy(logits) if greedy else distributions.sample(logits, jax.random.uniform(key))
        return action, memory

    def likelihood(params: PyTree, state: State, action: jax.Array, key: Key) -> jax.Array:
        del key
        return jnp.exp(distributions.log_prob(guide(params, network.memory(()), state)[1], action))

    return PlayoutPolicy(act, likelihood, lambda params, state, seat, key: network.memory(()))


def network_guide(network: Network) -> Guide:
    """Returns the network's own policy and value."""
    return lambda params, memory, state: network.evaluate(params, memory, state.observation, state.legal_action_mask)


def bot_guide(bot: Bot) -> Guide:
    """Returns a prior from a bot: half of the probability on its action, the rest uniform over the others; the value is
    0. A random bot is asked with one fixed key."""

    def guide(params: PyTree, memory: PyTree, state: State) -> tuple[PyTree, jax.Array, jax.Array]:
        mask = state.legal_action_mask
        chosen = jnp.arange(mask.shape[-1]) == bot(state, jax.random.key(0))
        others = jnp.maximum(jnp.sum(mask) - 1, 1)
        return memory, distributions.mask_logits(jnp.where(chosen, jnp.log(others), 0.0), mask), jnp.float32(0.0)

    return guide


def no_guide(params: PyTree, memory: PyTree, state: State) -> tuple[PyTree, jax.Array, jax.Array]:
    """Returns a uniform prior over the legal actions and a value of 0."""
    del params
    mask = state.legal_action_mask
    return memory, distributions.mask_logits(jnp.zeros(mask.shape), mask), jnp.float32(0.0)
