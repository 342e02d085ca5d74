"""The promises a learner lives on: fresh deals, hidden information, auto-reset, features, bots, and compile cost.

The same conventions as in `rules_checks`.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_envs.conformance.gpu_checks import equations
from jaxrl_envs.conformance.probe import (
    NotApplicable,
    Probe,
    batch_size,
    difference,
    distinct,
    is_over,
    require,
    require_same,
    take,
)
from jaxrl_envs.conformance.rules_checks import FLOAT_TOLERANCE
from jaxrl_envs.conformance.secrets import beliefs, card_beliefs, hidden_information, privileged_view
from jaxrl_envs.contract.env import MAX_RANKS, MAX_SUITS, Env, State
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError

SLOW_COMPILE_SECONDS = 60.0
COMPILE_BATCH = 256
SWITCH_STATES, SWITCH_DRAWS = 16, 64  # where a bot and the switch in its place are asked, and how often in each


# ---- deals ----------------------------------------------------------------------------------------------------------


def fresh_deals_at_init(probe: Probe) -> str:
    """Checks that different keys deal different games."""
    different, count = distinct(probe.views(probe.init(probe.keys(10, 64)))), 64
    if different == 1:
        different = distinct(probe.init(probe.keys(10, 64)))
    if different == 1 and not _draws_random_numbers(probe):
        raise NotApplicable("every game starts alike")
    require(different > 1, "64 keys all deal the same game")
    return f"{different} different deals from {count} keys"


def fresh_deals_at_reset(probe: Probe) -> str:
    """Checks that successive games of auto-reset lanes differ from each other like games from different keys."""
    resets = probe.reset_games
    count = batch_size(resets)
    fresh = probe.init(probe.keys(11, count))
    view = distinct(probe.views(fresh)) > 1  # else nothing is visible at the start: compare whole states
    expected = distinct(probe.views(fresh) if view else fresh)
    found = distinct(probe.views(resets) if view else resets)
    if expected == 1:
        raise NotApplicable("every game starts alike")
    sentence = f"{count} games after auto-reset have only {found} different deals; {count} inits have {expected}"
    require(2 * found >= expected, sentence)
    return f"{found} different deals in {count} resets"


def _draws_random_numbers(probe: Probe) -> bool:
    jaxpr = jax.make_jaxpr(probe.env.init)(jax.random.key(0))
    return any(each.primitive.name.startswith(("random_", "threefry")) for each, _ in equations(jaxpr.jaxpr))


def reset_starts_a_game(probe: Probe) -> None:
    """Checks that auto-reset replaces a finished game by a running one without rewards and with legal actions."""
    first = probe.reset_games
    require(not is_over(first).any(), "reset returned a game that is already over")
    require(not np.asarray(first.illegal_action).any(), "reset returned a game with illegal_action set")
    require((np.asarray(first.rewards) == 0).all(), "reset returned a game with rewards")
    require(np.asarray(first.legal_action_mask).any(axis=-1).all(), "reset returned a game without a legal action")
    sentence = "the observation of a reset game is not that of its first state: {}"
    require_same(_movers_views(probe, first), first.observation, sentence)


def final_observation_kept(probe: Probe) -> None:
    """Checks that auto-reset hands over the observation, rewards and flags of the state in which the game ended."""
    at = np.nonzero(~probe.trace.over[:-1] & probe.trace.over[1:])
    if len(at[0]) == 0:
        raise NotApplicable("no random game ended")
    before, action, keys = probe.recorded(at), jnp.asarray(probe.trace.actions[at]), probe.keys(12, len(at[0]))
    stepped = probe.step(before, action, jax.vmap(jax.random.split)(keys)[:, 0])
    require(is_over(stepped).any(), "replaying the last action of a game does not end it")
    _, final = probe.step_and_reset(before, action, keys)
    for name in ("observation", "rewards", "terminated", "truncated", "illegal_action"):
        sentence = f"auto-reset loses the final {name}{{}}"
        require_same(getattr(final, name), getattr(stepped, name), sentence, FLOAT_TOLERANCE)


def duplicate_deals(probe: Probe) -> str:
    """Checks that `init_deal` is a deal of the same form; says whether it fixes every chance event of the game."""
    env = probe.env
    keys = probe.keys(13, probe.games)
    state = probe.compiled(env.init_deal)(keys)
    require_same(state, probe.compiled(env.init_deal)(keys), "init_deal gives another {} for the same key")
    one, other = state, state
    for t in range(min(probe.trace.steps, probe.max_steps)):
        action, step_keys = probe.random_action(one, probe.keys(3 * t, probe.games)), probe.keys(3 * t + 1, probe.games)
        one = probe.step(one, action, step_keys)
        other = probe.step(other, action, probe.keys(3 * t + 2, probe.games))
        if difference((one.legal_action_mask, one.rewards), (other.legal_action_mask, other.rewards)) is not None:
            return "chance is not fixed by the deal: duplicate deals share the first state only"
    return "every chance event is fixed by the deal"


# ---- information ----------------------------------------------------------------------------------------------------


def observation_is_the_movers(probe: Probe) -> None:
    """Checks that `state.observation` is what `observe` gives for the seat to move (for all in simultaneous games)."""
    for states in (probe.running(64), probe.ended()):
        sentence = "state.observation{} is not observe(state, current_player)"
        require_same(_movers_views(probe, states), states.observation, sentence)


def _movers_views(probe: Probe, states: State) -> Any:
    """Returns the observations of the seats to move; [B, ...], or [B, P, ...] in a simultaneous game."""
    views = probe.views(states)
    if probe.env.simultaneous:
        return views
    at = (np.arange(batch_size(states)), np.asarray(states.current_player))
    return take(views, at)


def features_are_finite(probe: Probe) -> str:
    """Checks that `features`, and `tokens` and `candidates` if there are any, turn observations into finite f32[F]."""
    env = probe.env
    for states in (probe.running(64), probe.ended()):
        views = probe.views(states)
        features = probe.compiled(jax.vmap(env.features))(views)
        require(features.dtype == jnp.float32, f"features are {features.dtype}, not float32")
        require(features.ndim == 3, f"features have shape {features.shape[2:]}, not [F]")
        require(features.shape[2] == env.num_features, f"{features.shape[2]} features, not {env.num_features}")
        require(np.isfinite(np.asarray(features)).all(), "a feature is not finite")
        largest = float(jnp.abs(features).max())
        tokens = [text for text in (_tokens(probe, views), _candidates(probe, views)) if text] or ["no tokens"]
    return "; ".join([f"{env.num_features} features, largest magnitude {largest:.2f}", *tokens])


def _tokens(probe: Probe, views: Any) -> str:
    try:
        tokens = probe.compiled(jax.vmap(probe.env.tokens))(views)
    except NotImplementedError:
        return ""
    for name, values, limit in (("suit", tokens.suit, MAX_SUITS), ("rank", tokens.rank, MAX_RANKS)):
        inside = (np.asarray(values) >= 0) & (np.asarray(values) < limit)
        require(inside.all(), f"a token's {name} is not in 0 .. {limit - 1}")
    for leaf in (tokens.features, tokens.context):
        finite = leaf.dtype == jnp.float32 and np.isfinite(np.asarray(leaf)).all()
        require(finite, "a token feature is not finite float32")
    return f"{tokens.suit.shape[2]} tokens"


def _candidates(probe: Probe, views: Any) -> str:
    """Returns whether options and entities are described as promised; "" if the game does not describe them."""
    env = probe.env
    try:
        view = probe.compiled(jax.vmap(env.candidates))(views)
    except NotImplementedError:
        return ""
    entities, options = view.entities.shape[2], view.options.shape[2]
    require(options == env.num_actions, f"candidates describe {options} options, but there are {env.num_actions}")
    require(view.option_ids.shape[2] == options, "an option has no id, or an id no option")
    sizes = {array.shape[2] for array in (view.entity_ids, view.entity_mask)}
    require(sizes == {entities}, f"{entities} entities, but ids and mask of {sorted(sizes)}")
    for ids in (view.entity_ids, view.option_ids):
        inside = (np.asarray(ids) >= 0) & (np.asarray(ids) < max(env.vocabulary, 1))
        require(inside.all(), f"an id is not in 0 .. {env.vocabulary - 1}, the game's vocabulary")
    for leaf in (view.context, view.entities, view.options):
        require(leaf.dtype == jnp.float32 and np.isfinite(np.asarray(leaf)).all(), "a feature is not finite float32")
    if view.option_entity is not None:
        inside = (np.asarray(view.option_entity) >= -1) & (np.asarray(view.option_entity) < entities)
        require(inside.all(), f"an option is about an entity that is not in -1 .. {entities - 1}")
    return f"{entities} entities and {options} options"


# ---- players, cost --------------------------------------------------------------------------------------------------


def bots_are_legal(probe: Probe) -> str:
    """Checks that every bot chooses a legal action in every state it meets, in every seat."""
    require("random" in probe.bots, "env.bots has no 'random'")
    form = (probe.env.num_players,) if probe.env.simultaneous else ()
    for name, choose in probe.bots.items():
        chosen = jax.eval_shape(choose, probe.first, probe.keys(0, probe.games))
        found = f"{chosen.dtype}{list(chosen.shape[1:])}"
        right = (chosen.dtype, chosen.shape[1:]) == (jnp.int32, form)
        require(right, f"bot {name!r} returns {found}, not int32{list(form)}")
        trace = probe.play(choose)
        wrong = int((~trace.legal).sum())
        require(wrong == 0, f"bot {name!r} chose {wrong} illegal actions in {probe.games} games")
        require(trace.over[-1].all(), f"games among {name!r} bots do not end within {trace.steps} steps")
    return ", ".join(probe.bots)


def bots_keep_to_what_they_see(probe: Probe) -> str:
    """Checks that exchanging what a seat cannot see changes no bot's choice for it."""
    env, states = probe.env, probe.running(64)
    count, keys = batch_size(states), probe.keys(24, batch_size(states))
    if probe.permute is None:
        raise NotApplicable("the game does not implement permute_hidden, so hidden information is not tested")
    for seat in range(env.num_players):
        permuted = probe.permute(states, jnp.full(count, seat, jnp.int32), probe.keys(25 + seat, count))
        asked = np.asarray(states.current_player) == seat  # bool[B], or bool[B, P] if simultaneous
        for name, bot in probe.bots.items():
            changed = asked & (np.asarray(bot(states, keys)) != np.asarray(bot(permuted, keys)))
            require(not changed.any(), f"bot {name!r} reads something that seat {seat} must not see")
    return f"{count} states, every seat"


def bot_switch_plays_as_the_bots(probe: Probe) -> str:
    """Checks that an overridden `bot_switch` draws what the named bot draws, as often, and refuses other names."""
    env = probe.env
    if type(env).bot_switch is Env.bot_switch:
        raise NotApplicable("the game inherits bot_switch")
    for wrong in ((), ("no such bot",)):
        try:
            env.bot_switch(wrong)
        except UserError:
            continue
        require(False, f"bot_switch({list(wrong)}) does not raise UserError")
    names = tuple(probe.bots)[::-1]  # an order of its own: the index must be that of the argument
    switch = probe.compiled(env.bot_switch(names))
    states = probe.running(SWITCH_STATES)
    index = np.repeat(np.arange(batch_size(states)), SWITCH_DRAWS)
    states = take(states, index)
    for number, name in enumerate(names):
        alone = probe.bots[name](states, probe.keys(22, len(index)))
        switched = switch(states, jnp.full(len(index), number, jnp.int32), probe.keys(23, len(index)))
        drawn = [_counts(np.asarray(actions), env.num_actions + env.delegated) for actions in (alone, switched)]
        require(_alike(*drawn), f"bot_switch({list(names)}) with index {number} does not play as {name!r} does")
    return f"{len(names)} bots in {len(index) // SWITCH_DRAWS} states, {SWITCH_DRAWS} times each"


def _counts(actions: np.ndarray, num_actions: int) -> np.ndarray:
    """Counts the draws of each action in each state (and by each seat), [N, A]; the draws of a state are together."""
    chosen = actions.reshape(-1, SWITCH_DRAWS, *actions.shape[1:])
    return np.sum(chosen[..., None] == np.arange(num_actions), axis=1).reshape(-1, num_actions)


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Returns whether two tables of counts [N, A] may come from the same distributions, by chi squared with leeway."""
    total = one + other
    statistic = np.sum(np.square(one - other) / np.maximum(total, 1))
    freedom = int(np.sum(np.sum(total > 0, axis=1) - 1))
    return bool(statistic <= freedom + 6.0 * np.sqrt(2.0 * freedom) + 20.0)


def program_size(probe: Probe) -> str:
    """Checks that a step compiles in reasonable time; says how large the program is."""
    env = probe.env
    state, key = take(probe.first, 0), prng.fast_key(0)
    action = probe.random_action(probe.first, probe.keys(0, probe.games))[0]
    size = sum(1 for _ in equations(jax.make_jaxpr(env.step)(state, action, key).jaxpr))
    keys = probe.keys(0, COMPILE_BATCH)
    states = jax.eval_shape(jax.vmap(env.init), keys)
    actions = jax.ShapeDtypeStruct((COMPILE_BATCH, *action.shape), action.dtype)
    start = time.perf_counter()
    jax.jit(jax.vmap(env.step)).lower(states, actions, keys).compile()
    seconds = time.perf_counter() - start
    require(seconds <= SLOW_COMPILE_SECONDS, f"a step takes {seconds:.0f} s to compile ({size} equations)")
    return f"{size} jaxpr equations, a batch of {COMPILE_BATCH} steps compiles in {seconds:.1f} s"


CHECKS = (
    fresh_deals_at_init,
    fresh_deals_at_reset,
    reset_starts_a_game,
    final_observation_kept,
    duplicate_deals,
    observation_is_the_movers,
    hidden_information,
    privileged_view,
    beliefs,
    card_beliefs,
    features_are_finite,
    bots_are_legal,
    bots_keep_to_what_they_see,
    bot_switch_plays_as_the_bots,
    program_size,
)
