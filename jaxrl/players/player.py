"""Players: bots, networks, searches and exported policies have one type, and can hold any seat of any match.

A player is some parameters and pure functions of them, of one game. What it carries from one of a seat's decisions to
the next is its *memory*: any pytree of arrays whose structure, shapes and dtypes never change, one for each game and
each seat that it holds. A player that looks only at the present state has the empty memory ``()``, which costs nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax

from jaxrl.networks import distributions
from jaxrl.networks.base import Network
from jaxrl.players.spec import refuse_searcher
from jaxrl_envs.contract.env import Env, Key, PyTree, State
from jaxrl_envs.contract.outside_agent import OutsideAgent
from jaxrl_envs.shared.errors import UserError, nearest
from jaxrl_envs.shared.user_code import find_class

MAX_STEPS = 20_000  # a longer game counts as one that does not end


def endless(id: str, steps: int, games: int = 1) -> UserError:
    """Returns the error of games, of that id, which are not over after that many steps."""
    return UserError(
        f"{games} game(s) did not end within {steps} steps: a game of {id} must terminate or be truncated, whatever "
        "the players do."
    )


Init = Callable[[PyTree, State, jax.Array, Key], PyTree]
"""(params, state, seat i32[], key) -> the memory of the player in that seat before its first action. Matches of
remote games (`jaxrl.matches.remote`) have no first state: there it is the seat's first question, public fields only."""

Act = Callable[[PyTree, PyTree, State, Key], tuple[jax.Array, PyTree]]
"""(params, memory, state, key) -> a legal action for the seat asked, i32[], and its memory afterwards.

In a simultaneous game all seats are asked: the memory has a leading axis [P], one for each, and the actions are i32[P];
those of seats that the player does not hold are ignored."""

Observe = Callable[[PyTree, PyTree, State, jax.Array, State, jax.Array, Key], PyTree]
"""(params, memory, before, action, after, seat, key) -> the memory of a seat after a step of a running game, by any.

It sees whole states, as a bot does, and must put into the memory only what its seat may know."""

Odds = Callable[[PyTree, PyTree, State], jax.Array]
"""(params, memory, state) -> f32[A], the probabilities of a sampled answer."""

Value = Callable[[PyTree, PyTree, State], jax.Array]
"""(params, memory, state) -> f32[], what the seat asked is expected to earn from now on, discounted; f32[P] in a
simultaneous game."""


def no_memory(params: PyTree, state: State, seat: jax.Array, key: Key) -> PyTree:
    """Returns the memory of a player that looks only at the present state."""
    del params, state, seat, key
    return ()


@dataclasses.dataclass(frozen=True)
class Player:
    """A player: pure functions and their parameters.

    Attributes:
      name: name for tables.
      act: chooses its actions. Players with the same function are one program with different parameters.
      params: its parameters, None for a bot.
      init: makes its first memory.
      observe: updates its memory after a step by any seat; None if its memory changes only where it acts.
      bot: its name in `Env.bots`, empty for others.
      odds: the probabilities of its actions, for people; None if it has none.
      value: its value estimate; None if it has none.
      discount: discount of those values, for each decision of the seat.
      plain: whether its games are compiled with `xla.plain_options`: XLA aborts the process on some searches otherwise.
    """

    name: str
    act: Act
    params: PyTree = None
    init: Init = no_memory
    observe: Observe | None = None
    bot: str = ""
    odds: Odds | None = None
    value: Value | None = None
    discount: float = 1.0
    plain: bool = False

    def named(self, name: str, params: PyTree) -> Player:
        """Returns a player of another name with the same program."""
        return dataclasses.replace(self, name=name, params=params)


def bot_player(env: Env, name: str) -> Player:
    """Returns the scripted player `name` of a game.

    Raises:
      UserError: there is no such bot; the message names the nearest one.
    """
    if name not in env.bots:
        refuse_searcher(name, "the name of a bot")
        raise UserError(f"there is no bot {name!r} in this game: {nearest(name, env.bots)}")
    bot = env.bots[name]
    return Player(name, lambda params, memory, state, key: (bot(state, key), memory), bot=name)


def agent_player(env: Env, name: str) -> Player:
    """The program "package.module:Class" of the user's own; its module is imported. Errors as of `find_class`."""
    agent: OutsideAgent = find_class(name, OutsideAgent, "agent")(env)
    return Player(name, lambda params, memory, state, key: (agent.actions(state), memory))


def any_bot(env: Env, names: Sequence[str]) -> Player:
    """Returns one player that is any of several bots: its parameter is the number of the name, i32[] (or i32[P])."""
    switch = env.bot_switch(tuple(names))
    return Player("bots", lambda index, memory, state, key: (switch(state, index, key), memory))


def network_player(network: Network, env: Env, name: str, params: PyTree, *, greedy: bool) -> Player:
    """Returns a network, with its own memory; see `jaxrl.algorithms.base.Algorithm.player`.

    Args:
      network: network with a policy, or with the values of actions.
      env: its game.
      name, params: attributes as of `Player`.
      greedy: the most probable action instead of a sampled one.
    """
    evaluate = jax.vmap(network.evaluate, in_axes=(None, 0, 0, 0)) if env.simultaneous else network.evaluate

    def init(params: PyTree, state: State, seat: jax.Array, key: Key) -> PyTree:
        del params, state, seat, key
        return network.memory(())

    def act(params: PyTree, memory: PyTree, state: State, key: Key) -> tuple[jax.Array, PyTree]:
        memory, logits, _ = evaluate(params, memory, state.observation, env.policy_mask(state))
        if greedy:
            return distributions.greedy(logits), memory
        return distributions.sample(logits, jax.random.uniform(key, logits.shape[:-1])), memory

    def odds(params: PyTree, memory: PyTree, state: State) -> jax.Array:
        return jax.nn.softmax(evaluate(params, memory, state.observation, env.policy_mask(state))[1])

    def value(params: PyTree, memory: PyTree, state: State) -> jax.Array:
        return evaluate(params, memory, state.observation, env.policy_mask(state))[2]

    return Player(name, act, params, init=init if network.remembers else no_memory, odds=odds, value=value)
