"""A small game whose actions are a list of things: a market with five stalls, each with a different kind of goods."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.contract.env import Candidates, Env, Key, State, public_fields

KINDS, STALLS, TURNS, PURSE = 12, 5, 4, 8
WORTH = np.array([0, 3, 1, 8, 2, 9, 1, 4, 6, 2, 7, 5], np.float32)  # of a kind; nothing says so but the results
CONTEXT, ENTITY, OPTION = 3, 3, 3  # features of each


@struct.dataclass
class MarketState(State):
    kinds: jax.Array  # i8[STALLS], on offer now, 0 none
    prices: jax.Array  # i8[STALLS]
    bought: jax.Array  # i8[2, TURNS], kinds
    purse: jax.Array  # i8[2]
    turn: jax.Array  # i8[], decisions so far


class Market(Env):
    """The seats take turns; action 0 buys nothing, action s buys at stall s - 1. The seat with the most value wins."""

    id, version = "market", "1"
    num_players, num_actions = 2, STALLS + 1
    vocabulary = KINDS

    def _init(self, key: Key) -> MarketState:
        return self._offer(
            MarketState(
                observation=None,
                kinds=jnp.zeros(STALLS, jnp.int8),
                prices=jnp.zeros(STALLS, jnp.int8),
                bought=jnp.zeros((2, TURNS), jnp.int8),
                purse=jnp.full(2, PURSE, jnp.int8),
                turn=jnp.int8(0),
                **public_fields(num_players=2, num_actions=STALLS + 1),
            ),
            key,
        )

    def _offer(self, state: MarketState, key: Key) -> MarketState:
        kind_key, price_key = jax.random.split(key)
        kinds = jax.random.randint(kind_key, (STALLS,), 0, KINDS).astype(jnp.int8)  # 0: the stall is empty
        prices = jax.random.randint(price_key, (STALLS,), 1, 5).astype(jnp.int8)
        seat = (state.turn % 2).astype(jnp.int32)
        affordable = (kinds > 0) & (prices <= state.purse[seat])
        mask = jnp.concatenate([jnp.ones(1, bool), affordable])
        return state.replace(kinds=kinds, prices=prices, current_player=seat, legal_action_mask=mask)

    def _step(self, state: MarketState, action: jax.Array, key: Key) -> MarketState:
        seat, stall = state.current_player, jnp.maximum(action - 1, 0)
        kind = jnp.where(action > 0, state.kinds[stall], 0).astype(jnp.int8)
        price = jnp.where(action > 0, state.prices[stall], 0).astype(jnp.int8)
        bought = state.bought.at[seat, state.turn // 2].set(kind)
        turn = state.turn + jnp.int8(1)
        over = turn >= 2 * TURNS
        worth = jnp.asarray(WORTH)[bought].sum(axis=1)
        rewards = jnp.where(over, jnp.sign(worth - worth[::-1]), 0.0).astype(jnp.float32)
        state = state.replace(bought=bought, purse=state.purse.at[seat].add(-price), turn=turn, rewards=rewards)
        return self._offer(state, key).replace(rewards=rewards, terminated=over)

    def observe(self, state: MarketState, seat: jax.Array) -> jax.Array:
        """f32[F]: context, the bought things of both seats, own ones first, and the options; each row with its id."""
        context = jnp.array([state.turn / 8.0, state.purse[seat], state.purse[1 - seat]])
        things = jnp.concatenate([state.bought[seat], state.bought[1 - seat]]).astype(jnp.float32)
        mine = (jnp.arange(2 * TURNS) < TURNS).astype(jnp.float32)
        entities = jnp.stack([things, mine, 1.0 - mine, jnp.ones(2 * TURNS)], axis=1)
        asked = (seat == state.current_player).astype(jnp.float32)
        kinds = jnp.concatenate([jnp.zeros(1), asked * state.kinds])
        prices = jnp.concatenate([jnp.zeros(1), asked * state.prices])
        options = jnp.stack([kinds, prices / 4.0, kinds > 0, jnp.arange(STALLS + 1) == 0], axis=1)
        return jnp.concatenate([context, entities.ravel(), options.ravel()]).astype(jnp.float32)

    def candidates(self, observation: jax.Array) -> Candidates:
        context, rest = observation[:CONTEXT], observation[CONTEXT:]
        entities = rest[: 2 * TURNS * (1 + ENTITY)].reshape(2 * TURNS, 1 + ENTITY)
        options = rest[2 * TURNS * (1 + ENTITY) :].reshape(STALLS + 1, 1 + OPTION)
        return Candidates(
            context=context,
            entities=entities[:, 1:],
            entity_ids=entities[:, 0].astype(jnp.int32),
            entity_mask=entities[:, 0] > 0,
            options=options[:, 1:],
            option_ids=options[:, 0].astype(jnp.int32),
            zones=entities[:, 1:3],
        )
