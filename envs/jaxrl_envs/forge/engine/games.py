"""The engine of Magic behind the host contract: seeds and actions here, the rules in Forge's daemons.

A game is a function of its decks, seed and actions, so that is all that is saved. Conversations with daemons are
caches: a JVM that dies, hangs or talks nonsense, and a daemon that another game needs more, cost time and nothing else.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxrl_envs.forge import layout
from jaxrl_envs.forge.encoding.observation import observe
from jaxrl_envs.forge.engine.daemon_leases import DaemonLeases, Seated
from jaxrl_envs.forge.engine.decision import ForgeDecision
from jaxrl_envs.forge.engine.faults import EVICTED, GameFault
from jaxrl_envs.forge.engine.live_game import LiveGame, Terms
from jaxrl_envs.forge.engine.state import BROKEN, DRAWN, RUNNING, TOO_LONG, WON, GameState, state_bytes_of
from jaxrl_envs.host.engine import PythonEngine, random_below, random_key, random_word
from jaxrl_envs.host.game import EngineError
from jaxrl_envs.shared.errors import UserError

STAT_NAMES = ("won", "turns", "life", "decisions", "engine_errors")
INFO_NAMES = (
    *("turn", "decision_type", "options_cut", "cards_cut", "unknown_types", "refused_answers", "engine_errors"),
    *("end", "episode"),
)
REMEMBERED = 256  # positions of games that people look at
Remembered = collections.OrderedDict[tuple[int, int], tuple[bytes | None, ...]]


class GameSlot:
    """One slot of an engine: the methods that `jaxrl_envs.host.python_game.PythonGame` names.

    Attributes:
      state: all of it.
      live: the conversation that plays it, a cache; it may be at another position, or not exist.
      number: number in its engine.
      players: names of the players in the seats, if known, for recordings.
    """

    def __init__(self, terms: Terms, leases: DaemonLeases, remembered: Remembered, state: GameState, number: int = 0):
        self.terms, self.leases, self.remembered, self.state = terms, leases, remembered, state
        self.number = number
        self.players: Sequence[str] = ()
        self.live = LiveGame(terms)
        self._problem: Exception | None = None

    # ---- getting on -------------------------------------------------------------------------------------------------

    def reach(self) -> LiveGame:
        """Returns the live game at the position of the state, whatever happens to daemons.

        Raises:
          UserError: it cannot be got there; from then on always, until another state is loaded.
        """
        if self._problem is not None:
            raise self._problem
        if self.live.stands_at(self.state):
            return self.live
        try:
            self._forward()
        except Exception as problem:
            self._problem = problem
            raise
        if self.live.over:
            self.leases.give_back(self.live)
        self.live.leave()
        return self.live

    def _forward(self) -> None:
        attempts = 0
        while True:
            try:
                return self.live.forward(self.state)
            except GameFault as fault:
                attempts += fault.kind != EVICTED
                self.leases.renew(self.live, self.state, fault, attempts, self.players)

    def _advance(self) -> None:
        """Plays on to the next question after an action or a start, and counts what that brought."""
        live, state = self.reach(), self.state
        before, result = state.progress.potential, 0.0
        state.progress = live.progress.copy()
        if live.over:
            state.how, state.winner = live.how, live.winner
            result = {0: 1.0, 1: -1.0}.get(live.winner, 0.0)
            # A potential is 0 at the end, else it would change the best play; that of a truncated game stays.
            state.progress.potential = 0.0 if live.how in (WON, DRAWN) else before
        elif len(state.actions) >= self.terms.max_decisions:
            state.how = TOO_LONG
        state.reward = result + state.progress.potential - before
        if state.how != RUNNING:
            self.leases.count(live, state)

    # ---- the contract -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins the next episode."""
        old = self.state
        self.leases.give_back(self.live)  # a game that is abandoned
        key = random_key(old.seed, old.slot, old.episode + 1)
        self.state = GameState(old.seed, old.slot, old.episode + 1, key=key)
        self.live.reset(key)
        self.players = self.leases.seated(self.number)
        self._advance()

    def step(self, action: int) -> None:
        """Takes an action, up to the next question."""
        self.state.actions.append(action)
        self._advance()

    def bot(self, number: int) -> int:
        """Returns a random legal action; or one that leaves the seat to Forge's AI."""
        if not 0 <= number <= len(self.terms.profiles):
            raise UserError("there is no such bot")
        if number > 0:
            return layout.NUM_ACTIONS + number - 1
        legal, state = self._question().legal, self.state
        word = random_word(state.seed, state.slot, state.episode, 1, state.drawn)
        state.drawn += 1
        return legal[random_below(word, len(legal))]

    def _question(self) -> ForgeDecision:
        decision = self.reach().decision
        assert decision is not None
        return decision

    def player(self) -> int:
        """Returns the seat asked."""
        return self.state.progress.asked

    def legal(self, action: int) -> bool:
        """Returns whether it is, also of those behind the mask."""
        if self.state.how != RUNNING:
            return action < layout.NUM_ACTIONS
        return action >= layout.NUM_ACTIONS or self._question().allows(action)

    def mask(self) -> np.ndarray:
        """bool[A]."""
        if self.state.how != RUNNING or self.state.episode < 0:
            return np.ones(layout.NUM_ACTIONS, np.bool_)
        return self._question().mask()

    def observe(self, seat: int) -> np.ndarray:
        """f32[F]."""
        decision = self.reach().shown[seat] if self.state.episode >= 0 else None
        if decision is None:
            return np.zeros(layout.FEATURES, np.float32)
        return observe(decision.view, decision if decision is self.live.decision else None)

    def rewards(self) -> tuple[float, float]:
        """Rewards of both seats for the last step."""
        return self.state.reward, -self.state.reward

    def ended(self) -> int:
        """0 running, 1 terminated, 2 truncated."""
        return 0 if self.state.how == RUNNING else 1 if self.state.how in (WON, DRAWN) else 2

    def stats(self) -> list[tuple[float, ...]]:
        """f32[2, 5], see STAT_NAMES."""
        state, progress = self.state, self.state.progress
        broken = state.how == BROKEN
        return [
            (state.winner == seat, progress.turn, progress.life[seat], progress.decisions[seat], broken)
            for seat in (0, 1)
        ]

    def info(self) -> tuple[int, ...]:
        """i32[9], see INFO_NAMES."""
        state, progress = self.state, self.state.progress
        cut = (progress.options_cut, progress.cards_cut, progress.unknown_types, progress.refused)
        return (progress.turn, progress.type, *cut, state.how == BROKEN, state.how, state.episode)

    def reseed(self, seed: int) -> None:
        """Draws other random numbers from here on."""
        self.state.seed, self.state.drawn = seed, 0

    def save(self) -> bytes:
        """Returns the state; if it is on the table, people can look at it later without playing it again."""
        if len(self.live.done) == len(self.state.actions) and self.live.leads_to(self.state):
            self.remember()
        return self.state.pack(self.terms.mark)

    def load(self, data: bytes) -> None:
        """Goes on from a state."""
        state = GameState.unpack(data, self.terms.mark)
        if state is None:
            raise UserError("the saved game is damaged, or belongs to other decks or options")
        self.state, self._problem, self.players = state, None, self.leases.seated(self.number)
        if not self.live.leads_to(state):
            self.live = self.leases.adopt(self.live, state)
        self.live.checking = self.live.progress.seen < state.progress.seen

    # ---- for people -------------------------------------------------------------------------------------------------

    @property
    def position(self) -> tuple[int, int]:
        """The key of a position in the cache."""
        return self.state.key, len(self.state.actions)

    def remember(self) -> None:
        """Keeps what both seats see, for `look`."""
        self.remembered[self.position] = tuple(None if each is None else each.line for each in self.live.shown)
        self.remembered.move_to_end(self.position)
        while len(self.remembered) > REMEMBERED:
            self.remembered.popitem(last=False)


class ForgeEngine(PythonEngine):
    """A batch of games.

    Attributes:
      pairs: the decks of both seats of every kind of game.
      replays: {reason: how often games had to be played again}
    """

    def __init__(
        self,
        fleet: Any,
        num_games: int,
        terms: Terms,
        *,
        seed: int = 0,
        first_slot: int = 0,
        recorder: Any = None,
        remembered: Remembered | None = None,
    ):
        """Games that have not begun.

        Args:
          fleet: lends daemons, see `DaemonLeases`.
          num_games: N.
          terms: terms that they have in common.
          seed, first_slot: a game depends on (seed, slot, episode) alone.
          recorder: a `Folder` of `recording` for all conversations, or None.
          remembered: positions by key and number of actions, for people; see `look`.
        """
        self.pairs, self._leases = terms.pairs, DaemonLeases(fleet, terms, recorder)
        self.replays = self._leases.replays
        known: Remembered = collections.OrderedDict() if remembered is None else remembered
        states = [GameState(seed, first_slot + i) for i in range(num_games)]
        super().__init__(
            [GameSlot(terms, self._leases, known, state, number) for number, state in enumerate(states)],
            num_players=2,
            num_actions=layout.NUM_ACTIONS,
            num_features=layout.FEATURES,
            num_stats=len(STAT_NAMES),
            num_info=len(INFO_NAMES),
            state_bytes=state_bytes_of(terms.max_decisions),
            num_bots=1 + len(terms.profiles),
            delegated=len(terms.profiles),
        )
        weakref.finalize(self, self._leases.close)

    @property
    def seated(self) -> Seated:
        """Names the players in the seats of a game that begins, see `HostGame.seat`."""
        return self._leases.seated

    @seated.setter
    def seated(self, names: Seated) -> None:
        self._leases.seated = names

    def close(self) -> None:
        """Gives all daemons back; games that are played on ask for others."""
        self._leases.close()

    def error(self, game: int, code: int) -> str:
        """The sentence for an error; other than a user's it names the exception, for it is a mistake of ours."""
        problem = self.cause(game)
        return str(problem) if isinstance(problem, UserError) else super().error(game, code)


def look(engine: ForgeEngine, data: np.ndarray) -> tuple[GameState, tuple[bytes | None, ...]]:
    """Returns a saved game u8[S], played again by `engine` (in its game 0) if it is not remembered.

    Returns:
      Its state, and for each seat the JSON of its last decision, or None.

    Raises:
      EngineError: it cannot be played.
    """
    if len(data) != engine.state_bytes:
        raise ValueError(f"a saved game has {engine.state_bytes} bytes, not {len(data)}")
    game: GameSlot = engine.games[0]
    try:
        game.load(data.tobytes())
        if game.state.episode >= 0 and game.position not in game.remembered:
            game.reach()
            game.remember()
    except UserError as error:
        raise EngineError(0, str(error)) from error
    return game.state, game.remembered.get(game.position, (None, None))
