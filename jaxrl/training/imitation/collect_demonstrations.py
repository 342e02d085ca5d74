"""Games that are played to be learnt from: by bots, or by who learns, while an expert says what it would have done.

Who has learnt from the games of an expert alone meets, in games of its own, positions into which its own mistakes have
led and which no expert has ever been in. So it plays, an expert answers every question that it was asked, and it learns
from all games so far: DAgger (Ross et al. 2011, https://arxiv.org/abs/1011.0686), in the form without parameters, in
which the first games are the expert's and from then on the learner plays alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.matches.evaluate import Matchup
from jaxrl.players.player import MAX_STEPS, Player, endless
from jaxrl_envs.contract.env import Key, PyTree, State, is_over
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import Demonstrations, HostGame
from jaxrl_envs.shared.errors import UserError

AT_A_TIME = 256  # games side by side

Begin = Callable[[State, Key], PyTree]
"""(first state, key) -> what is carried through a game."""

Decide = Callable[[State, PyTree, Key], tuple[jax.Array, jax.Array, PyTree]]
"""(state, what is carried, key) -> the action taken, the one that is shown, what is carried on."""


def played_by_bots(env: HostEnv, names: Sequence[str], games: int, seed: int) -> Iterator[Demonstrations]:
    """Yields games in which bots hold all seats, each seat of each game one of them, drawn at random. Raises UserError:
    there is no such bot, all seats are asked at once, or it is played elsewhere.

    Args:
      env: the game, which asks one seat at a time.

    Returns:
      The games; the result of one that was cut off is not known.
    """
    refuse_unseen(env, "--data: bots")
    play = env.bot_switch(tuple(names))

    def begin(state: State, key: Key) -> PyTree:
        del state
        return jax.random.randint(key, (env.num_players,), 0, len(names))

    def decide(state: State, holders: PyTree, key: Key) -> tuple[jax.Array, jax.Array, PyTree]:
        action = play(state, holders[state.current_player], key)
        return action, action, holders

    return _played(env, begin, decide, games, seed)


def labelled_by_bot(env: HostEnv, player: Player, expert: str, games: int, seed: int) -> Iterator[Demonstrations]:
    """Yields games that a player plays against itself, with what a bot would have done in every position. `env`: the
    game, which asks one seat at a time. `games`, `seed`, what is returned and what is raised are as for
    `played_by_bots`."""
    refuse_unseen(env, "--expert: a bot")
    answer = env.bot_switch((expert,))

    def begin(state: State, key: Key) -> PyTree:
        seats = jnp.arange(env.num_players)
        keys = jax.random.split(key, env.num_players)
        return jax.vmap(lambda seat, key: player.init(player.params, state, seat, key))(seats, keys)

    def decide(state: State, memory: PyTree, key: Key) -> tuple[jax.Array, jax.Array, PyTree]:
        seat = state.current_player
        own = jax.tree.map(lambda leaf: leaf[seat], memory)
        action, own = player.act(player.params, own, state, jax.random.fold_in(key, 0))
        label = answer(state, jnp.int32(0), jax.random.fold_in(key, 1))
        return action, label, jax.tree.map(lambda leaf, new: leaf.at[seat].set(new), memory, own)

    return _played(env, begin, decide, games, seed)


def record_advised(
    env: HostEnv, game: HostGame, player: Player, opponents: Sequence[Player], games: int, seed: int
) -> None:
    """Plays and records games with the advice of the game's own player; an equal part against each opponent.
    `opponents`: players of the other side; bots, and the player itself. `games`: least number of games, each deal once
    from every side."""
    advised = HostEnv(game)
    for number, opponent in enumerate(opponents):
        deals = -(-games // (len(opponents) * env.num_sides))
        matchup = Matchup(advised, player, [opponent], deals=deals, seed=seed, stream=number)
        matchup.play(player.params)


def refuse_unseen(env: HostEnv, what: str) -> None:
    """Raises UserError if no whole games can be seen: all seats are asked at once, or another process plays."""
    if env.simultaneous or env.remote:
        raise UserError(f"{what} of {env.id} show nothing: all seats act at once, or another process plays.")


def _played(env: HostEnv, begin: Begin, decide: Decide, games: int, seed: int) -> Iterator[Demonstrations]:
    def step(state: State, carried: PyTree, key: Key) -> tuple[State, jax.Array, PyTree]:
        own_key, step_key = jax.random.split(key)
        action, shown, carried = decide(state, carried, own_key)
        return env.step(state, action, step_key), shown, carried

    deal, start, go_on = (jax.jit(jax.vmap(each)) for each in (env.init, begin, step))
    for first in range(0, games, AT_A_TIME):
        deal_key, seat_key, key = jax.random.split(jax.random.fold_in(jax.random.key(seed), first), 3)
        state = deal(jax.random.split(deal_key, AT_A_TIME))
        carried = start(state, jax.random.split(seat_key, AT_A_TIME))
        rows: list[tuple[Any, ...]] = []
        while (running := ~np.asarray(is_over(state))).any():
            if len(rows) == MAX_STEPS:
                raise endless(env.id, MAX_STEPS, int(running.sum()))
            keys = jax.random.split(jax.random.fold_in(key, len(rows)), AT_A_TIME)
            after, shown, carried = go_on(state, carried, keys)
            row = state.observation, state.legal_action_mask, shown, state.current_player, after.rewards
            rows.append((np.flatnonzero(running), *(np.asarray(part)[running] for part in row)))
            state = after
        lane, *parts = (np.concatenate(part) for part in zip(*rows, strict=True))
        ended = np.asarray(state.terminated)
        for game in range(min(AT_A_TIME, games - first)):
            observation, mask, action, seat, earned = (part[lane == game] for part in parts)
            total = np.cumsum(earned, axis=0)
            result = np.where(ended[game], total[-1], np.float32(np.nan))
            yield Demonstrations(observation, mask, action, seat, result, before=total - earned)
