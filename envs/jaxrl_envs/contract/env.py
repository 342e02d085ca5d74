"""The contract every compiled game fulfils: `State`, `Env` and their bookkeeping.

A game asks *seats* for one legal action at a time. Turn-based games ask one seat per step; simultaneous games ask all
of them, and the fields marked ``[P]`` below gain that leading seat axis. Everything here is written for a single game;
thousands of games are `jax.vmap` of it. Names follow Pgx (Koyamada et al. 2023, https://arxiv.org/abs/2303.17503).

Shape letters: P seats, A actions.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.contract.click_areas import Clickable
from jaxrl_envs.contract.goals import Goals
from jaxrl_envs.contract.judged import Judged
from jaxrl_envs.contract.views import Candidates as Candidates
from jaxrl_envs.contract.views import Tokens as Tokens
from jaxrl_envs.contract.views import Views
from jaxrl_envs.shared.card_beliefs import Conceals
from jaxrl_envs.shared.errors import UserError, nearest

PyTree = Any
Key = jax.Array  # a typed PRNG key, `jax.random.key(...)` or `jaxrl_envs.shared.prng.fast_key(...)`


@struct.dataclass
class State:
    """The public part of a game state; a game subclasses it and adds its own private leaves.

    Attributes:
      current_player: i32[], the seat asked now; i32[P] = arange(P) in a simultaneous game.
      observation: what that seat may see, never more; a leading P axis in a simultaneous game.
      legal_action_mask: bool[A] (or bool[P, A]), True = legal; all True once the game is over, so that no
        masked softmax ever divides zero by zero.
      rewards: f32[P], what each seat earned by the last step.
      terminated: bool[], the game ended by its rules.
      truncated: bool[], the game was cut off (a time limit): learners bootstrap instead of assuming zero.
      illegal_action: bool[], the game ended because a seat chose an illegal action.
    """

    current_player: jax.Array
    observation: PyTree
    legal_action_mask: jax.Array
    rewards: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    illegal_action: jax.Array


S = TypeVar("S", bound=State)

Bot = Callable[[State, Key], jax.Array]
"""A scripted player: (state, key) -> i32[], a legal action for ``state.current_player``, from what that seat sees."""


class Env(Views, Goals, Judged, Conceals, Clickable, abc.ABC):
    """A game. Subclasses supply `_init`, `_step` and `observe`; this class does the bookkeeping once.

    Attributes:
      id: the name in the registry, e.g. ``"skull_king"``.
      version: changes whenever a rule, the action numbering or the observation changes; checkpoints record it.
      num_players: P.
      num_actions: A.
      simultaneous: True if all seats act in every step.
      may_truncate: True if `State.truncated` can ever be set; learners then bootstrap from final observations.
      public_actions: True if every seat is told every action, also where two actions lead to the same position; a
        game with secret actions (sealed bids) must leave it False.
      perfect_information: True if every seat sees all of the position. Cards dealt ahead face down are hidden
        information, also where nobody sees them.
      multi_output_fusion: True if XLA's CPU backend may fuse this game's operations with several outputs each: many
        times faster for games of packed words, but XLA aborts the process while compiling some other games.
      host: True if the engine lives on the host (`jaxrl_envs.host.env.HostEnv`): such games train with actor threads.
      how_to_play: the rules on a page, for people; blank lines divide its paragraphs.
      colours: regular expressions of what renderings and events say, with their colours on a terminal (names of rich).
      delegated: actions A .. A + delegated - 1, in no mask: with one of them a bot leaves its seat to the engine.
      vocabulary: numbers of kinds of things in `candidates`, 0 among them; 0 for games without it.
      free_options: names of options that change neither what a seat observes nor what its actions are: whoever learnt
        with some plays with others, so that a run can go on, and be measured, with other decks or rosters.
    """

    id: ClassVar[str]
    version: ClassVar[str]
    num_players: int
    num_actions: int
    simultaneous: bool = False
    may_truncate: bool = False
    public_actions: ClassVar[bool] = False
    perfect_information: bool = False
    multi_output_fusion: ClassVar[bool] = False
    host: ClassVar[bool] = False
    illegal_action_penalty: float = 1.0
    how_to_play: str = ""
    colours: Mapping[str, str] = {}
    delegated: int = 0
    vocabulary: int = 0
    free_options: tuple[str, ...] = ()

    @property
    def sides(self) -> tuple[int, ...]:
        """The side of every seat, P numbers: the seats of a side win or lose together.

        By default each seat is a side of its own. A game with teams says so by a class attribute or a property of its
        own, e.g. ``sides = (0, 1, 0, 1)``; sides are numbered 0 .. `num_sides` - 1 and may differ in size.
        """
        return tuple(range(self.num_players))

    @property
    def num_sides(self) -> int:
        """How many sides there are."""
        return max(self.sides) + 1

    @property
    def side_name(self) -> str:
        """What to call a side before people: "seat", or "side" where sides have several seats."""
        return "side" if self.num_sides < self.num_players else "seat"

    # ---- what a game supplies -----------------------------------------------------------------------------------

    @abc.abstractmethod
    def _init(self, key: Key) -> State:
        """Deals a new game; `observation` may be left as None, the base class fills it in."""

    @abc.abstractmethod
    def _step(self, state: State, action: jax.Array, key: Key) -> State:
        """Applies a legal action to a running game; `observation` is filled in by the base class."""

    @abc.abstractmethod
    def observe(self, state: State, seat: jax.Array) -> PyTree:
        """What `seat` (i32[]) may see of `state`: for its own turn, for opponents, for search and for display."""

    def render(self, state: State, seat: int | None = None) -> str:
        """The state as text for a terminal: only what `seat` may see, or everything if `seat` is None.

        Args:
          state: one game, not a batch.
          seat: the observer. The conformance suite checks that exchanging what it cannot see changes nothing here.
        """
        raise NotImplementedError(f"{self.id} has no text rendering")

    def render_svg(self, state: State, seat: int | None = None) -> str:
        """The state as one SVG document: only what `seat` may see, or everything if `seat` is None."""
        raise NotImplementedError(f"{self.id} has no SVG rendering")

    def film(self, states: Sequence[State], actions: Sequence[Any], *, pace: float = 1.0) -> str:
        """A game as one animated SVG document, by default its drawings in turn and what happened between them.

        Args:
          states: one game from its first state on, everything of it is shown.
          actions: between them, int (or i32[P] in a simultaneous game).
          pace: 2 is twice as fast.
        """
        from jaxrl_envs.shared.display.film import film

        words = [self.event(*step) for step in zip(states[:-1], actions, states[1:], strict=True)]
        return film([self.render_svg(state) for state in states], ["", *words], pace=pace)

    def action_name(self, action: int) -> str:
        """A short human-readable name of an action."""
        return str(action)

    def event(self, before: State, action: Any, after: State, seat: int | None = None) -> str:
        """What happened in one step, as one or more short sentences for people.

        The default names the action to everybody: a game with secret actions overrides it, and so does one whose step
        settles more than the next state shows (a completed trick, the points of a round).

        Args:
          before, after: the states around the step, one game.
          action: the action, int (or i32[P] in a simultaneous game).
          seat: who is told, of all that happened only what that seat could see; None is told everything.
        """
        if bool(after.illegal_action):
            return "an illegal action ends the game"
        seats = np.atleast_1d(np.asarray(before.current_player))
        actions = np.atleast_1d(np.asarray(action))
        names = ["you" if s == seat else f"seat {s}" for s in seats]
        return ", ".join(f"{name}: {self.action_name(int(a))}" for name, a in zip(names, actions, strict=True))

    @property
    def bots(self) -> Mapping[str, Bot]:
        """Scripted players by name; every game has at least ``"random"``."""
        return {"random": self.random_action}

    def bot_switch(self, names: Sequence[str]) -> Callable[[State, jax.Array, Key], jax.Array]:
        """One player that is any of several bots.

        The default asks every named bot and selects, so its cost is the sum of theirs. A game whose bots share most of
        their work overrides this and pays for it once; the conformance suite checks that it plays as they do.

        Args:
          names: of bots, the numbers of `index` in this order.

        Returns:
          (state, index, key) -> the action of bot ``names[index]``, i32[]; `index` is i32[] and may be traced. In a
          simultaneous game the action is i32[P], and `index` may also be i32[P], one bot for each seat.

        Raises:
          UserError: no names, or one that is not in `bots`.
        """
        self._require_bots(names)
        bots = self.bots
        players = [bots[name] for name in names]

        def play(state: State, index: jax.Array, key: Key) -> jax.Array:
            action = players[0](state, jax.random.fold_in(key, 0)).astype(jnp.int32)
            for number, player in enumerate(players[1:], start=1):
                choice = player(state, jax.random.fold_in(key, number)).astype(jnp.int32)
                action = jnp.where(index == number, choice, action)
            return action

        return play

    @property
    def simulators(self) -> Mapping[str, Callable[[], Env]]:
        """Other programs that play this game, by name: each makes it; UserError: it is not installed."""
        return {}

    # ---- optional refinements -----------------------------------------------------------------------------------

    def reset(self, state: State, key: Key) -> State:
        """A fresh game for the lane whose game `state` is over: by default dealt anew with `init`. A game whose deal is
        expensive overrides this with a deal prepared in small portions by the steps before, because auto-reset
        evaluates it for every lane in every step."""
        return self.init(key)

    def annealed(self, progress: jax.Array) -> Env:
        """The game at a share of its training (f32[] 0..1); only its rewards may change."""
        return self

    def init_deal(self, key: Key) -> State:
        """A new game in which *every* chance event is already fixed by `key`, so that it can be played again from
        another seat (duplicate deals). Games that cannot do this deal an ordinary game."""
        return self.init(key)

    def is_legal(self, state: State, action: jax.Array) -> jax.Array:
        """bool[] (bool[P] in a simultaneous game): whether `action` is legal; numbers outside of 0..A-1 never are. A
        game with a packed mask overrides it with a bit test."""
        action = jnp.asarray(action)
        inside = (action >= 0) & (action < self.num_actions)
        index = jnp.clip(action, 0, self.num_actions - 1)
        chosen = jnp.take_along_axis(state.legal_action_mask, index[..., None], axis=-1)[..., 0]
        return chosen & inside

    def random_action(self, state: State, key: Key) -> jax.Array:
        """A uniformly random legal action, i32[] (i32[P] in a simultaneous game)."""
        mask = state.legal_action_mask
        score = jax.random.uniform(key, mask.shape)
        return jnp.argmax(jnp.where(mask, score, -1.0), axis=-1).astype(jnp.int32)

    def permute_hidden(self, state: State, seat: jax.Array, key: Key) -> State | None:
        """`state` with everything that `seat` cannot see exchanged at random, or None if the game does not say.

        By default the state itself where `perfect_information` is declared, and None elsewhere: what may hide something
        is never searched by mistake. A search draws its worlds with it, uniformly over all that is possible for the
        seat, so the result must be a function of the key and of what the seat sees. The legal actions must be those of
        the returned state, also if another seat is to move. `observation` may be left as it is. The conformance suite
        checks that the seat's observation and its own legal actions do not change, and that nothing hidden changes what
        is drawn.
        """
        return state if self.perfect_information else None

    def reconcile(self, particle: State, actual: State, seat: jax.Array, key: Key) -> tuple[State, jax.Array] | None:
        """What `seat` now sees of `actual`, with the hidden rest as `particle` has it, or None if the game cannot say.

        A belief (`jaxrl.search`) keeps states that the seat cannot tell from the real one, takes every step with them
        too, and after the step lets this method take over what has become visible: an opponent's cards stay as the
        particle holds them, the seat's own new card is the real one. What nobody's choice has depended on yet, such as
        the order of a deck, carries no information: it is drawn anew from `key`, which keeps the particles diverse.

        Args:
          particle: a state in which the same actions were taken; its own visible part may differ by chance.
          actual: the real state. Only what `seat` sees of it may be read.
          seat: i32[], whose belief it is.
          key: for what is drawn anew.

        Returns:
          The state, and bool[]: whether the particle's hidden part is possible given what `seat` sees; if not, the
          state may be anything. The conformance suite checks that the seat's observation is that of `actual`, and that
          exchanging what the seat cannot see of `actual` changes nothing.
        """
        return None

    def episode_stats(self, state: State) -> dict[str, jax.Array]:
        """Named f32[P] figures of a finished game beyond its rewards, e.g. points; meaningful once it is over."""
        return {}

    def reward_parts(self, state: State) -> dict[str, jax.Array]:
        """Named f32[P], what each component of the rewards has brought the seats since the game began, for pictures."""
        return {}

    def sketch(self, state: State) -> PyTree:
        """Arrays from which a viewer that cannot play the game draws a state; replays hold some of them."""
        return state

    # ---- the public interface -----------------------------------------------------------------------------------

    @property
    def observation_spec(self) -> PyTree:
        """The observation of one seat as a pytree of `jax.ShapeDtypeStruct`."""
        state = jax.eval_shape(self.init, jax.eval_shape(lambda: jax.random.key(0)))
        return jax.eval_shape(self.observe, state, jax.ShapeDtypeStruct((), jnp.int32))

    @property
    def num_features(self) -> int:
        """F, the length of `features`."""
        return jax.eval_shape(self.features, self.observation_spec).shape[0]

    def init(self, key: Key) -> State:
        """A new game, dealt from `key`."""
        return self._with_observation(self._init(key))

    def step(self, state: State, action: jax.Array, key: Key) -> State:
        """One step of one game.

        Args:
          state: the current state.
          action: i32[] for `state.current_player`; i32[P] in a simultaneous game.
          key: all the randomness of this step. It is an argument, so that a planner cannot see the future.

        Returns:
          The next state. An illegal action is not executed: the game ends, the offender gets -1 and the others share
          +1. A finished game stays as it is, with zero rewards.
        """
        over = is_over(state)
        legal = self.is_legal(state, action)  # bool[] or bool[P]
        all_legal = jnp.all(legal)
        stepped = self._step(state, action, key)
        state = select(over | ~all_legal, state, stepped)
        offence = ~over & ~all_legal
        state = state.replace(
            rewards=jnp.where(over, 0.0, jnp.where(offence, self._penalty(state, legal), state.rewards)),
            terminated=state.terminated | offence,
            illegal_action=state.illegal_action | offence,
        )
        over = is_over(state)
        state = state.replace(legal_action_mask=state.legal_action_mask | over)
        return self._with_observation(state)

    # ---- bookkeeping --------------------------------------------------------------------------------------------

    def _with_observation(self, state: S) -> S:
        if self.simultaneous:
            observation = jax.vmap(self.observe, in_axes=(None, 0))(state, state.current_player)
        else:
            observation = self.observe(state, state.current_player)
        return dataclasses.replace(state, observation=observation)

    def _require_bots(self, names: Sequence[str]) -> None:
        """Raises the UserError of `bot_switch`."""
        bots = self.bots
        if not names:
            raise UserError(f"{self.id}: name at least one bot of {', '.join(bots)}")
        for name in names:
            if name not in bots:
                raise UserError(f"{self.id} has no bot {name!r}; {nearest(name, bots)}")

    def _penalty(self, state: State, legal: jax.Array) -> jax.Array:
        """f32[P]: -penalty for each offender, +penalty shared by the others."""
        seats = jnp.arange(self.num_players)
        offender = ~legal if self.simultaneous else seats == state.current_player
        others = jnp.maximum(jnp.sum(~offender), 1)
        share = jnp.sum(offender) / others
        return jnp.where(offender, -self.illegal_action_penalty, self.illegal_action_penalty * share).astype(
            jnp.float32
        )


def is_over(state: State) -> jax.Array:
    """bool[...]: the game ended, by its rules or by a cut."""
    return state.terminated | state.truncated


def select(condition: jax.Array, on_true: PyTree, on_false: PyTree) -> PyTree:
    """`jnp.where` over a pytree with one bool[] condition; the observation leaf may be None on one side."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), on_true, on_false)


def public_fields(*, num_players: int, num_actions: int) -> dict[str, jax.Array]:
    """The public leaves of a running turn-based game before its first action; a game's `_init` starts from them."""
    return {
        "current_player": jnp.int32(0),
        "legal_action_mask": jnp.ones(num_actions, bool),
        "rewards": jnp.zeros(num_players, jnp.float32),
        "terminated": jnp.bool_(False),
        "truncated": jnp.bool_(False),
        "illegal_action": jnp.bool_(False),
    }
