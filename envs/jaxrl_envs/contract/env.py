"""The contract between a game and everything that plays it: `State` and `Env`, complete on this page.

A game asks *seats* for one legal action at a time. Turn-based games ask one seat per step. Simultaneous games ask all
seats in every step, and the fields marked ``[P]`` below gain that leading seat axis. Everything here is written for a
single game; a batch of games is `jax.vmap` of it. Names follow Pgx (Koyamada et al. 2023,
https://arxiv.org/abs/2303.17503).

Shape letters: P seats, A actions.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.contract.sides import outcome as best_return_wins
from jaxrl_envs.shared import kernels
from jaxrl_envs.shared.card_beliefs import CardBeliefs
from jaxrl_envs.shared.errors import UserError, nearest

PyTree = Any
Key = jax.Array  # a typed PRNG key, `jax.random.key(...)` or `jaxrl_envs.shared.prng.fast_key(...)`

MAX_SUITS, MAX_RANKS = 16, 32  # of `Tokens`


@struct.dataclass
class State:
    """The public part of a game state; a game subclasses it and adds its own private leaves.

    Attributes:
      current_player: i32[], the seat asked now; i32[P] = arange(P) in a simultaneous game.
      observation: all that that seat may see, never more; a leading P axis in a simultaneous game.
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

    if TYPE_CHECKING:

        def __getattr__(self, leaf: str) -> Any:
            """Returns a private leaf: functions of a game take its own states for those of the contract."""


S = TypeVar("S", bound=State)

Bot = Callable[[State, Key], jax.Array]
"""A scripted player: (state, key) -> i32[], a legal action for ``state.current_player``, from what that seat sees."""


class Tokens(NamedTuple):
    """A set-of-cards view of an observation, for attention encoders. N tokens with D flags each, C global features."""

    suit: jax.Array  # i32[N], 0 .. MAX_SUITS - 1
    rank: jax.Array  # i32[N], 0 .. MAX_RANKS - 1
    features: jax.Array  # f32[N, D], where the card is now
    context: jax.Array  # f32[C], everything that is not a card


class Candidates(NamedTuple):
    """A view of an observation for games whose actions are described by features instead of fixed numbers.

    The meaning of an action number changes between decisions ("the third card in the hand"); its row of `options`
    describes what it does. E entities with C features, A options with O features, G global features. Ids are numbers
    of kinds of things (card names), 0 .. `Env.vocabulary` - 1; 0 means no kind.

    A game that can describe its kinds also gives the fields from `kinds` on: K kinds with D features, and the P parts
    with H features that they consist of (the abilities of a card). Ids of entities and options are then 1 + rows of
    `kinds`.
    """

    context: jax.Array  # f32[G], the situation and the kind of question
    entities: jax.Array  # f32[E, C], the things in the game
    entity_ids: jax.Array  # i32[E]
    entity_mask: jax.Array  # bool[E], rows in use
    options: jax.Array  # f32[A, O], the choices: row a is action a
    option_ids: jax.Array  # i32[A]
    zones: jax.Array | None = None  # f32[E, Z], one-hot: the zone that an entity is in
    option_entity: jax.Array | None = None  # i32[A], the row of the entity that an option is about, -1: no entity
    nearness: jax.Array | None = None  # f32[N, E, K], how near each entity is after option 0 .. N - 1, N <= A
    option_mask: jax.Array | None = None  # bool[A], rows in use, legal or not; None: all
    partners: jax.Array | None = None  # i32[E, M], the entity that each is tied to in M ways, -1: no entity
    kinds: jax.Array | None = None  # f32[K, D]
    kind_ids: jax.Array | None = None  # i32[K]
    parts: jax.Array | None = None  # f32[P, H]
    part_rows: jax.Array | None = None  # i32[P, 2], its kind, and the part that it belongs to (or itself); -1: unused
    entity_part: jax.Array | None = None  # i32[E], the part that an entity is (an ability on the stack), -1: no part
    option_part: jax.Array | None = None  # i32[A], the part that an option uses, -1: no part


class ClickArea(NamedTuple):
    """A rectangle of a drawing, in its units, that stands for one action or for several to choose from."""

    x: float
    y: float
    width: float
    height: float
    actions: tuple[int, ...]


class PartScores(NamedTuple):
    """Scores of the seats in a part of a game, such as a round; known to every seat."""

    part: str  # its name, such as "round 3"
    points: tuple[float, ...]  # of that part, by seat
    notes: tuple[str, ...]  # what they are for, a few words by seat, such as "bid 2, won 1"


class CameTrue(NamedTuple):
    """The goals that a step has settled, as they turned out (hindsight)."""

    goal: jax.Array  # i32[P], the goal that the seat's moves since its last goal have reached; -1: not settled
    reward: jax.Array  # f32[P], what the seat would have earned for reaching it, since it set its goal; >= 0


class Env(abc.ABC):
    """A game. Subclasses supply `_init`, `_step` and `observe`; this class does the bookkeeping once.

    Attributes:
      id: the name in the registry, e.g. ``"skull_king"``.
      version: changes with every change of a rule, the action numbering or the observation; checkpoints record it.
      num_players: P.
      num_actions: A.
      simultaneous: True if all seats act in every step.
      may_truncate: True if `State.truncated` can ever be set; learners then bootstrap from final observations.
      public_actions: True if every seat is told every action, also where two actions lead to the same position; a
        game with secret actions (sealed bids) must leave it False.
      perfect_information: True if every seat sees all of the position. Cards dealt in advance face down are hidden
        information, even if no seat ever sees them.
      multi_output_fusion: True if XLA's CPU backend may fuse this game's operations with several outputs each: many
        times faster for games of packed words, but XLA aborts the process while compiling some other games.
      host: True if the engine lives on the host (`jaxrl_envs.host.env.HostEnv`): such games train with actor threads.
      illegal_action_penalty: cost of an illegal action to its seat; the other seats share it as a reward.
      free_options: names of options that leave a policy's observations and actions as they are. One trained with one
        value of such an option can play, be evaluated and be trained further with another (decks, rosters, and tables
        for a network that reads them padded).
      weight_options: names of options that map names to weights of rewards, which `weighted` replaces.
      delegated: actions A .. A + delegated - 1, never in a mask: with one of them a bot leaves its seat to the engine.
      vocabulary: the number of kinds of things in `candidates`, 0 included; 0 for games without candidates.
      how_to_play: the rules on a page, for people; blank lines divide its paragraphs.
      colours: regular expressions matched in renderings and events, with their terminal colours (names of rich).
      reference_bot: the strongest bot; a reference searcher models every opponent by it.
      phases: groups of decisions for metrics, e.g. ``{"round": ("1", "2"), "phase": ("bid", "play")}``.
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
    free_options: tuple[str, ...] = ()
    weight_options: tuple[str, ...] = ()
    delegated: int = 0
    vocabulary: int = 0
    how_to_play: str = ""
    colours: Mapping[str, str] = {}
    reference_bot: str = "random"
    phases: Mapping[str, tuple[str, ...]] = {}

    # ---- what a game must supply --------------------------------------------------------------------------------

    @abc.abstractmethod
    def _init(self, key: Key) -> State:
        """Deals a new game; `observation` may be left as None, the base class fills it in."""

    @abc.abstractmethod
    def _step(self, state: State, action: jax.Array, key: Key) -> State:
        """Applies a legal action to a running game; `observation` is filled in by the base class."""

    @abc.abstractmethod
    def observe(self, state: State, seat: jax.Array) -> PyTree:
        """Returns all that `seat` (i32[]) may see of `state`: for its own turn, for opponents, search and display."""

    # ---- what the base class makes of it: the public interface --------------------------------------------------

    def init(self, key: Key) -> State:
        """Returns a new game, dealt from `key`."""
        return self._with_observation(self._init(key))

    def step(self, state: State, action: jax.Array, key: Key) -> State:
        """Returns one step of one game.

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
            rewards=jnp.where(over, 0.0, jnp.where(offence, _penalties(self, state, legal), state.rewards)),
            terminated=state.terminated | offence,
            illegal_action=state.illegal_action | offence,
        )
        over = is_over(state)
        state = state.replace(legal_action_mask=state.legal_action_mask | over)
        return self._with_observation(state)

    @functools.cached_property
    def observation_spec(self) -> PyTree:
        """The observation of one seat as a pytree of `jax.ShapeDtypeStruct`."""
        state = jax.eval_shape(self.init, jax.eval_shape(lambda: jax.random.key(0)))
        return jax.eval_shape(self.observe, state, jax.ShapeDtypeStruct((), jnp.int32))

    def _with_observation(self, state: S) -> S:
        if self.simultaneous:
            observation = jax.vmap(self.observe, in_axes=(None, 0))(state, state.current_player)
        else:
            observation = self.observe(state, state.current_player)
        return dataclasses.replace(state, observation=observation)

    # ---- what a game may refine for learners and evaluation -----------------------------------------------------

    @property
    def sides(self) -> tuple[int, ...]:
        """The side of every seat, P numbers: the seats of a side win or lose together.

        By default each seat is a side of its own. A game with teams overrides this by a class attribute or a property,
        e.g. ``sides = (0, 1, 0, 1)``; sides are numbered 0 .. `num_sides` - 1 and may differ in size.
        """
        return tuple(range(self.num_players))

    @property
    def remote(self) -> bool:
        """Whether the engine is another process (`jaxrl_envs.host.game.HostGame.remote`)."""
        return False

    @property
    def num_sides(self) -> int:
        """The number of sides."""
        return max(self.sides) + 1

    @property
    def side_name(self) -> str:
        """The word for a side in messages: "seat", or "side" where sides have several seats."""
        return "side" if self.num_sides < self.num_players else "seat"

    def outcome(self, returns: Any) -> Any:
        """Returns the result of a game by side, i8[..., n]: 1 won, 0 drawn, -1 lost; for win rates and searches.

        By default a side wins whose return is above every other's. A game in which several sides can win, such as all
        but one loser, overrides it and `winning`, e.g. ``2 * (returns > 0).astype("int8") - 1``.

        Args:
          returns: f32[..., n], of whole games by side, NumPy or JAX.
        """
        return best_return_wins(returns)

    @property
    def winning(self) -> str:
        """Meaning of a win and a draw (`outcome`), in a sentence for people, below tables of win rates."""
        return f"A win is a return above every other {self.side_name}'s, a draw one that equals the best of them."

    def reset(self, state: State, key: Key) -> State:
        """A new game for the lane whose game `state` is over; by default `init`. Auto-reset evaluates this for every
        lane in every step, so a game with an expensive deal overrides it with a deal that the steps before have
        prepared in small portions."""
        return self.init(key)

    def init_deal(self, key: Key) -> State:
        """A new game in which *every* chance event is already fixed by `key`, so that it can be played again from
        another seat (duplicate deals). Games that cannot do this deal an ordinary game."""
        return self.init(key)

    def annealed(self, progress: jax.Array) -> Env:
        """Returns the game at a share of its training (f32[] 0..1); only its rewards may change."""
        return self

    def weighted(self, weights: Mapping[str, Mapping[str, Any]]) -> Env:
        """Returns the game with other weights of its rewards (f32[]), by option of `weight_options` and by name, for
        trainings with different ones in one program; only its rewards may change."""
        return self

    def policy_mask(self, state: State) -> jax.Array:
        """Returns the legal actions among which a policy made for this game chooses, as `State.legal_action_mask`; by
        default all. An option may narrow them, e.g. to the moves of a book: a rule of that policy's own, so other
        players of the match are free. Searches of games that ask one seat at a time ignore it."""
        return state.legal_action_mask

    def adopted(self, state: State) -> State:
        """Returns the position of a game with other `free_options` as a state of this one; by default as it is."""
        return state

    def is_legal(self, state: State, action: jax.Array) -> jax.Array:
        """bool[] (bool[P] in a simultaneous game): whether `action` is legal; numbers outside 0..A-1 never are. A
        game with a packed mask overrides it with a bit test."""
        action = jnp.asarray(action)
        inside = (action >= 0) & (action < self.num_actions)
        index = jnp.clip(action, 0, self.num_actions - 1)
        chosen = jnp.take_along_axis(state.legal_action_mask, index[..., None], axis=-1)[..., 0]
        return chosen & inside

    def episode_stats(self, state: State) -> dict[str, jax.Array]:
        """Returns named f32[P] metrics of a finished game beyond its rewards, once it is over."""
        return {}

    def reward_parts(self, state: State) -> dict[str, jax.Array]:
        """Returns named f32[P], the sum of each reward component per seat since the game began, for diagrams."""
        return {}

    # ---- bots and other programs that play the game -------------------------------------------------------------

    @property
    def bots(self) -> Mapping[str, Bot]:
        """Scripted players by name; every game has at least ``"random"``."""
        return {"random": self.random_action}

    def random_action(self, state: State, key: Key) -> jax.Array:
        """Returns a uniformly random legal action, i32[] (i32[P] in a simultaneous game)."""
        mask = state.legal_action_mask
        score = jax.random.uniform(key, mask.shape)
        return jnp.argmax(jnp.where(mask, score, -1.0), axis=-1).astype(jnp.int32)

    def bot_switch(self, names: Sequence[str]) -> Callable[[State, jax.Array, Key], jax.Array]:
        """Returns one player that is any of several bots, selected by an index that may be traced.

        The default asks every named bot and selects, so its cost is the sum of theirs. A game whose bots share most of
        their work overrides this and pays for it once; the conformance suite checks that it plays as they do.

        Args:
          names: bots, the numbers of `index` in this order.

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

    def _require_bots(self, names: Sequence[str]) -> None:
        """Raises the UserError of `bot_switch`."""
        bots = self.bots
        if not names:
            raise UserError(f"{self.id}: name at least one bot of {', '.join(bots)}")
        for name in names:
            if name not in bots:
                raise UserError(f"{self.id} has no bot {name!r}; {nearest(name, bots)}")

    @property
    def simulators(self) -> Mapping[str, Callable[[], Env]]:
        """Factories of other implementations of this game, by name; each raises UserError if it is not installed."""
        return {}

    # ---- what networks read -------------------------------------------------------------------------------------

    def features(self, observation: PyTree) -> jax.Array:
        """Returns an observation as f32[F] for a dense network; stored packed, it is expanded here, late."""
        return _flat(observation)

    @property
    def num_features(self) -> int:
        """F, the length of `features`."""
        return jax.eval_shape(self.features, self.observation_spec).shape[0]

    def canonical(self, observation: PyTree) -> tuple[PyTree, PyTree] | None:
        """One observation that stands for all that a symmetry of the game makes of it, e.g. by exchanging suits, and
        what `from_canonical` needs; None: the game does not say. Networks with `network.canonical` read only this one,
        so they play alike in all of them (canonicalisation, Kaba et al. 2023, arXiv 2211.06489)."""
        return None

    def from_canonical(self, logits: jax.Array, names: PyTree) -> jax.Array:
        """f32[..., A], a number for each action, from those of the actions as `canonical` names them."""
        raise NotImplementedError

    def tokens(self, observation: PyTree) -> Tokens:
        """Returns one observation as a set of cards, for attention encoders."""
        raise NotImplementedError(f"{self.id} has no card tokens: use the mlp network")

    def candidates(self, observation: PyTree) -> Candidates:
        """Returns one observation as entities and options, for networks that score every option by its description."""
        raise NotImplementedError(f"{self.id} does not describe its options: use the mlp network")

    def privileged(self, state: State, seat: jax.Array) -> PyTree | None:
        """Returns the part of `state` that `seat` (i32[]) cannot see, relative to its place at the table: the other
        hands in the order of play after it, the deck. None if the game does not support it.

        Packed like an observation, beside which it is read. For a critic in training (`ppo.critic`), never for players.
        """
        return None

    def privileged_features(self, privileged: PyTree) -> jax.Array:
        """`privileged` as f32[G] for a dense network."""
        return _flat(privileged)

    # ---- what people see ----------------------------------------------------------------------------------------

    def render(self, state: State, seat: int | None = None) -> str:
        """Returns the state as text for a terminal: only what `seat` may see, or everything if `seat` is None.

        Args:
          state: one game, not a batch.
          seat: the observer. The conformance suite checks that exchanging what it cannot see changes nothing here.
        """
        raise NotImplementedError(f"{self.id} has no text rendering")

    def render_svg(self, state: State, seat: int | None = None) -> str:
        """Returns the state as one SVG document: only what `seat` may see, or everything if `seat` is None."""
        raise NotImplementedError(f"{self.id} has no SVG rendering")

    @property
    def upright(self) -> Env:
        """The same game with drawings and click areas for a screen that is taller than wide, such as a phone's; by
        default itself, with the drawings that it has."""
        return self

    def settled_svg(self, before: State, action: int, after: State, seat: int | None = None) -> str:
        """A drawing of what a step settles and the next state no longer shows, such as a completed trick, as `seat` may
        see it; "" (the default) if there is nothing of the kind. Of turn-based games."""
        return ""

    def part_scores(self, before: State, action: int, after: State) -> PartScores | None:
        """Returns the scores of the part of the game that a step ends, for a score sheet; None if it ends none.
        Shown to every seat, so only what all of them know. Of turn-based games."""
        return None

    def click_areas(self, state: State, seat: int) -> Sequence[ClickArea]:
        """Returns clickable areas of the drawing that `seat`, whose turn it is, is shown; legal actions only.
        Actions without an area are chosen from a list."""
        return ()

    def action_name(self, action: int) -> str:
        """Returns a short human-readable name of an action."""
        return str(action)

    def action_note(self, state: State, action: int) -> str:
        """Returns what a legal action promises, in a few words for people, such as "+60 if exact"; "" by default. It
        may tell only what the seat that is asked can see."""
        return ""

    def worth(self, value: float, standing: bool = False) -> str:
        """Returns an expected return, or an expected `standing`, in words for people, such as "+12 points" or "65 % to
        win"."""
        return f"{'standing' if standing else 'return'} {value:+.2f}"

    def event(self, before: State, action: Any, after: State, seat: int | None = None) -> str:
        """Describes one step in one or more short sentences for people.

        The default names the action to every seat. A game with secret actions overrides it, and so does one whose step
        settles more than the next state shows (a completed trick, the points of a round).

        Args:
          before, after: the states around the step, one game.
          action: the action, int (or i32[P] in a simultaneous game).
          seat: the reader, who is told only what that seat could see; None is told everything.
        """
        if bool(after.illegal_action):
            return "an illegal action ends the game"
        seats = np.atleast_1d(np.asarray(before.current_player))
        actions = np.atleast_1d(np.asarray(action))
        names = ["you" if s == seat else f"seat {s}" for s in seats]
        return ", ".join(f"{name}: {self.action_name(int(a))}" for name, a in zip(names, actions, strict=True))

    def film(self, states: Sequence[State], actions: Sequence[Any], *, pace: float = 1.0) -> str:
        """Returns a game as one animated SVG document, by default its drawings in turn with the events between them.

        Args:
          states: one game from its first state on; everything in them is shown.
          actions: actions between them, int (or i32[P] in a simultaneous game).
          pace: 2 is twice as fast.
        """
        from jaxrl_envs.shared.display.film import film

        words = [self.event(*step) for step in zip(states[:-1], actions, states[1:], strict=True)]
        return film([self.render_svg(state) for state in states], ["", *words], pace=pace)

    def sketch(self, state: State) -> PyTree:
        """Returns the arrays from which a viewer without the engine draws a state; replays store some of them."""
        return state

    # ---- what search and belief learning ask --------------------------------------------------------------------

    def permute_hidden(self, state: State, seat: jax.Array, key: Key) -> State | None:
        """`state` with everything that `seat` cannot see exchanged at random, or None if the game does not support it.

        By default the state itself where `perfect_information` is declared, and None elsewhere, so that a game with
        hidden information is never searched by mistake. A search draws its worlds with it, uniformly over all that is
        possible for the seat, so the result must be a function of the key and of what the seat sees. The legal actions
        must be those of the returned state, also if another seat is to move. `observation` may be left as it is. The
        conformance suite checks that the seat's observation and its own legal actions do not change, and that the
        hidden part of `state` has no influence on what is drawn.
        """
        return state if self.perfect_information else None

    def with_secret_choices(
        self, state: State, seat: jax.Array, choose: Callable[[State, Key], jax.Array], key: Key
    ) -> State:
        """Returns a world of `permute_hidden` with the secret choices of the other seats drawn from a policy.

        The cards of other seats are drawn at random, but sealed choices such as bids depend on those cards. A game with
        secret actions overrides this: for each sealed choice that `seat` has not been told, it asks the bot `choose`
        again, with the cards of this world. By default the world itself.
        """
        return state

    def reconcile(self, particle: State, actual: State, seat: jax.Array, key: Key) -> tuple[State, jax.Array] | None:
        """Joins what `seat` now sees of `actual` and the hidden part of `particle`; None if the game does not do it.

        A belief (`jaxrl.search`) keeps states that the seat cannot tell from the real one and takes every step with
        them too. After the step this method copies what has become visible: an opponent's cards stay as the particle
        holds them, the seat's own new card is the real one. Chance that has influenced no choice yet, such as the order
        of a deck, carries no information: it is drawn again from `key`, which keeps the particles diverse.

        Args:
          particle: a state in which the same actions were taken; its own visible part may differ by chance.
          actual: the real state. Only what `seat` sees of it may be read.
          seat: i32[], whose belief it is.
          key: randomness of what is drawn again.

        Returns:
          The state, and bool[]: whether the particle's hidden part is possible given what `seat` sees; if not, the
          state may be anything. The conformance suite checks that the seat's observation is that of `actual`, and that
          exchanging what the seat cannot see of `actual` changes nothing.
        """
        return None

    def card_beliefs(self, observation: PyTree) -> CardBeliefs | None:
        """Returns where the rules allow each hidden card to be, given one observation; None if the game does not
        support it. `room` adds up to the number of rows with a possible holder."""
        return None

    def holders(self, observation: PyTree, privileged: PyTree) -> jax.Array:
        """i32[N]: where the hidden cards are, from `observe` and `privileged` of one seat; -1 for the others."""
        raise NotImplementedError

    def world_with(self, state: State, seat: jax.Array, holders: jax.Array, key: Key) -> State:
        """A world as of `permute_hidden` in which `holders` (i32[N]) hold the hidden cards; other hidden information is
        drawn from `key`."""
        raise NotImplementedError

    def bot_odds(self, names: Sequence[str]) -> Callable[[State, jax.Array], jax.Array] | None:
        """(state, action i32[]) -> f32[N], the probability that each of N bots chooses `action` for the seat asked.
        None if the game does not support it: a search that infers which bot a seat is then samples the bots."""
        return None

    def part(self, state: State) -> jax.Array:
        """i32[], the number of the part of the game, such as a round, that `state` belongs to; arbitrary for the last
        state. By default the game is one part. Searches that use `standing` look ahead to the end of the part."""
        return jnp.int32(0)

    def standing(self, state: State) -> jax.Array | None:
        """f32[P], the value of each seat's position at the start of a part or the end of the game, e.g. its probability
        of winning; None if the game does not support it. Reference searchers maximise it instead of rewards."""
        return None

    # ---- what hierarchical learners ask (`jaxrl.algorithms.hierarchical`) ---------------------------------------
    # A *manager's* decision sets the goal of its seat, such as a bid; all others are the *worker's*, which is rewarded
    # up to the seat's next goal and sees its goal in the observation.

    def manages(self, observation: PyTree) -> jax.Array | None:
        """bool[]: the decision asked with this packed observation sets a goal. None: the game has no goals."""
        return None

    def came_true(self, before: State, action: jax.Array, after: State) -> CameTrue | None:
        """Returns the goals settled by one `step`, from the states around it; None if the game does not support it."""
        return None

    def relabelled(self, observation: PyTree, mask: jax.Array, goal: jax.Array) -> tuple[PyTree, jax.Array]:
        """A worker's decision under another goal, for hindsight: the packed observation and mask bool[A] that the seat
        would have had if its goal had been `goal` (i32[], one that `came_true` may return), everything else equal."""
        raise NotImplementedError

    def phase(self, observation: PyTree) -> dict[str, jax.Array]:
        """i32[] for every key of `phases`: the index of the phase that a packed observation belongs to."""
        return {}


def _penalties(env: Env, state: State, legal: jax.Array) -> jax.Array:
    """f32[P]: -penalty for each offender, +penalty shared by the others."""
    if env.simultaneous:
        offender = ~legal
        share = kernels.total(offender) / jnp.maximum(kernels.total(legal), 1)
    else:
        offender = np.arange(env.num_players) == state.current_player
        share = jnp.float32(1 / max(1, env.num_players - 1))
    return jnp.where(offender, -env.illegal_action_penalty, env.illegal_action_penalty * share).astype(jnp.float32)


def _flat(tree: PyTree) -> jax.Array:
    """Returns all numbers of a pytree, f32[F]."""
    return jnp.concatenate([jnp.ravel(jnp.asarray(leaf)).astype(jnp.float32) for leaf in jax.tree.leaves(tree)])


def is_over(state: State) -> jax.Array:
    """bool[...]: the game ended, by its rules or by a cut."""
    return state.terminated | state.truncated


def select(condition: jax.Array, on_true: PyTree, on_false: PyTree) -> PyTree:
    """`jnp.where` over a pytree with one bool[] condition; the observation leaf may be None on one side."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), on_true, on_false)


def public_fields(*, num_players: int, num_actions: int) -> dict[str, jax.Array]:
    """Returns the public leaves of a turn-based game before its first action, from which `_init` starts."""
    return {
        "current_player": jnp.int32(0),
        "legal_action_mask": jnp.ones(num_actions, bool),
        "rewards": jnp.zeros(num_players, jnp.float32),
        "terminated": jnp.bool_(False),
        "truncated": jnp.bool_(False),
        "illegal_action": jnp.bool_(False),
    }
