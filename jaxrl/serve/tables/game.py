"""A game at a table, without the network: it runs in threads and can be rebuilt from a `GameRecord`."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.config import Config
from jaxrl.matches.interactive import InteractiveGame, Programs, SavedGame
from jaxrl.matches.recording import replays
from jaxrl.players.player import MAX_STEPS, Player, no_memory
from jaxrl.serve.replays.annotation import by_name
from jaxrl.serve.tables.timed_search import TimedSearch
from jaxrl_envs.contract.env import Env, Key, PartScores, State, is_over
from jaxrl_envs.contract.sides import ahead, of_sides
from jaxrl_envs.shared.errors import UserError

TOLD = 80  # steps that a story is made of again, where the game was read from a file
PAST = 128  # moments that are kept, TOLD or more; up to twice as many
BACK = 20  # steps that are looked back for the last thing that one settled
STORY = 1000  # steps that a story tells; of those before there are empty lines
PARTS = 40  # of a game, whose scores are shown
LIKELIEST, LEAST = 6, 0.005  # most actions named for a decision; least probability of one
_PLAYERS = np.uint32(0xFFFF0000)  # folded into the words of the deal for the players' randomness


@dataclasses.dataclass
class GameRecord:
    """The part of a game that is stored; the rest follows from it.

    Attributes:
      game, options: the game.
      deal, step: words of the keys of chance, u32[2] each.
      actions: actions so far, i32 (or i32[P] in a simultaneous game).
    """

    game: str
    options: dict[str, Any]
    deal: list[int]
    step: list[int]
    actions: list[Any]


@dataclasses.dataclass(frozen=True)
class Agent:
    """An automatic player of a seat: a player, or a search with its time in seconds. `env` is the game of its training,
    whose returns it expects (None: that of the table)."""

    name: str
    player: Player | None = None
    search: TimedSearch | None = None
    seconds: float = 0.0
    env: Env | None = None


class ShownDecision(NamedTuple):
    """An agent's decision, with its probabilities and values for display."""

    seat: int
    action: Any  # int, or i32[P] in a simultaneous game
    by: str = ""
    likely: Sequence[tuple[str, float]] = ()  # names and probabilities
    results: Sequence[tuple[str, str]] = ()  # names and results of a search in words
    value: str = ""  # the expected return in words
    note: str = ""


class Question(NamedTuple):
    """A position in which an agent is asked for a hint, apart from the game, which may go on meanwhile."""

    saved: SavedGame
    key: Key
    time: int  # of the game


class PastPosition(NamedTuple):
    """A position as `_kept` makes it, and the returns of the seats up to it, f32[P]."""

    saved: SavedGame
    earned: np.ndarray


class TableGame:
    """A game between agents and people."""

    def __init__(
        self,
        env: Env,
        programs: Programs,
        record: GameRecord,
        agents: Sequence[Agent | None],
        advisers: Mapping[int, Agent],
    ):
        """Computes nothing yet.

        Args:
          env, programs: the game, and its compiled programs.
          record: record of this game; it grows with it.
          agents: agents of the seats; None is a person.
          advisers: advisers of people, by seat.
        """
        self.env, self.record, self.agents = env, record, list(agents)
        self._programs, self.advisers = programs, dict(advisers)
        sitting = [agent or self.advisers.get(seat) for seat, agent in enumerate(self.agents)]
        self._game = InteractiveGame(env, [each.player if each else None for each in sitting], programs)
        self._past: list[PastPosition] = []  # the newest, up to now
        self._askers: list[int] = []  # the seats that acted so far; -1: all
        self._told: dict[int | None, list[str]] = {}
        self._scores: list[tuple[int, PartScores]] = []  # of the parts that have ended, with the time after each
        self._still = threading.RLock()  # the past does not change while it is read

    def open(self) -> None:
        """Deals and replays the record, which stays whole throughout, also if that fails.

        Raises:
          UserError: the record is not of this game.
        """
        self._game.deal(replays.keys_of(self.record.deal), duplicate=True)
        self._scores = []
        first = _kept(self._game.save())
        self._past, self._askers = [PastPosition(first, np.zeros_like(first.state.rewards))], []
        whole, self.record = self.record, dataclasses.replace(self.record, actions=[])
        for action in whole.actions:
            if self.over or not self.is_legal(action):
                raise UserError("what was kept of this table is not a game by the rules of this version.")
            self.take(action)
        self.record = whole

    # ---- the position -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The current state."""
        return self._game.state

    @property
    def time(self) -> int:
        """The number of actions so far."""
        return len(self.record.actions)

    @property
    def over(self) -> bool:
        """Whether the game has ended."""
        return bool(is_over(self.state)) or self.time >= MAX_STEPS

    @property
    def asked(self) -> list[int]:
        """The seats whose actions are missing; empty at the end."""
        return [] if self.over else [int(seat) for seat in np.atleast_1d(np.asarray(self.state.current_player))]

    @property
    def search(self) -> TimedSearch | None:
        """The search that is to move, which takes its time; None if none is."""
        agents = [self.agents[seat] for seat in self.asked]
        return next((agent.search for agent in agents if agent is not None and agent.search is not None), None)

    @property
    def waits(self) -> bool:
        """Whether a person is to move."""
        return any(self.agents[seat] is None for seat in self.asked)

    def is_legal(self, action: Any) -> bool:
        """Returns whether an action is legal now."""
        chosen = np.asarray(action)
        mask = np.asarray(self.state.legal_action_mask)
        if chosen.dtype.kind not in "iu" or chosen.shape != mask.shape[:-1]:
            return False
        if (chosen < 0).any() or (chosen >= mask.shape[-1]).any():
            return False
        return bool(np.take_along_axis(mask, chosen[..., None], axis=-1).all())

    def returns(self) -> np.ndarray:
        """Returns the returns of the seats so far, f32[P]."""
        return self._past[-1].earned

    def outcome(self) -> list[int]:
        """Returns the result of the finished game by seat: 1 won, 0 drawn, -1 lost (`Env.outcome`)."""
        by_side = np.asarray(self.env.outcome(of_sides(self.returns(), self.env.sides)))
        return by_side[list(self.env.sides)].tolist()

    def points(self, seat: int) -> dict[int, float]:
        """Returns the points of a seat's side in the finished game against each seat of another side, for ratings."""
        sides, won = self.env.sides, self.outcome()
        earned = of_sides(self.returns(), sides)[list(sides)]
        others = [other for other, side in enumerate(sides) if side != sides[seat]]
        return {each: float(1 + ahead(won[seat], won[each], earned[seat], earned[each])) / 2 for each in others}

    # ---- what happens -----------------------------------------------------------------------------------------------

    def take(self, action: Any) -> None:
        """Takes a legal action of the seats that are asked; a seat's agent or adviser decides along, for its memory."""
        seat = 0 if self.env.simultaneous else int(self.state.current_player)
        agent = self.agents[seat] or self.advisers.get(seat)
        player = agent.player if agent and not self.env.simultaneous else None
        if player is not None and player.init is not no_memory:
            self._game.answer(self._keys()[0])
        self._step(action)

    def decide(self, *, told: bool = False) -> tuple[ShownDecision, SavedGame]:
        """Returns the decision of the agent to move, if `told` with probabilities and values where it knows them, and
        its memory afterwards; the game is left unchanged."""
        if self.env.simultaneous:
            action = self._game.answer(self._keys()[0])
            return ShownDecision(-1, np.asarray(action).tolist()), self._game.save()
        seat = self.asked[0]
        agent = self.agents[seat]
        assert agent is not None
        if agent.search is not None:
            return self.hint(agent, self.question()), self._game.save()
        about = self.hint(agent, self.question()) if told else ShownDecision(seat, 0, agent.name)
        action = self._game.answer(self._keys()[0])
        return about._replace(action=int(action)), self._game.save()

    def play(self, decision: ShownDecision, after: SavedGame) -> None:
        """Carries out a decision made in this position."""
        self._game.restore(after)
        self._step(decision.action)

    def question(self) -> Question:
        """Returns the current position for `hint`."""
        return Question(self._game.save(), self._keys()[0], self.time)

    def hint(self, agent: Agent, question: Question) -> ShownDecision:
        """Asks an agent what it would do for the seat asked in a position; the game may go on meanwhile."""
        state = question.saved.state
        seat, mask = int(state.current_player), np.asarray(state.legal_action_mask)
        if agent.search is not None:
            found = agent.search.think(state, question.key, agent.seconds)
            note = f"{found.simulations} simulated games in {found.seconds:.1f} s"
            best, likely = self._best(found.results, -np.inf, mask), self._likely(found.policy, mask)
            results = [(name, self.env.worth(value, agent.search.standing)) for name, value in best]
            value = self.env.worth(float(found.results[found.action]), agent.search.standing)
            return ShownDecision(seat, found.action, agent.name, likely, results, value, note)
        advice = self._game.advice(question.key, question.saved)
        likely = [] if advice.odds is None else self._likely(advice.odds, mask)
        value = "" if advice.value is None else (agent.env or self.env).worth(float(advice.value))
        return ShownDecision(seat, advice.action, agent.name, likely, value=value)

    def undo(self, seat: int) -> bool:
        """Goes back to the last decision of a person. Returns False if there was none."""
        if seat not in self._askers:
            return False
        last = self.time - 1 - self._askers[::-1].index(seat)
        with self._still:
            del self.record.actions[last:]
            for lines in self._told.values():
                del lines[last:]
            self._scores = [each for each in self._scores if each[0] <= last]
            if last < self._first:
                self.open()  # that moment is not kept any more
            else:
                del self._past[last - self._first + 1 :], self._askers[last:]
                self._game.restore(self._past[-1].saved._replace(state=self._state(self.time)))
        return True

    def _best(self, numbers: np.ndarray, least: float, legal: np.ndarray) -> list[tuple[str, float]]:
        """Returns the best legal actions by name with their numbers; of actions that share a name, the greater."""
        order = np.argsort(np.where(legal, -numbers, np.inf), kind="stable")[: int(legal.sum())]
        found: dict[str, float] = {}
        for action in order[numbers[order] >= least]:
            found.setdefault(self.env.action_name(int(action)), round(float(numbers[action]), 4))
        return list(found.items())[:LIKELIEST]

    def _likely(self, odds: np.ndarray, legal: np.ndarray) -> list[tuple[str, float]]:
        """Returns the likeliest actions by name with their probabilities."""
        return self._best(by_name(self.env, legal, odds), LEAST, legal)

    def _keys(self) -> tuple[Key, Key]:
        """Returns the keys of the players and of chance for the current step."""
        words = np.array([self.record.deal, self.record.step], np.uint32)
        return self._programs(_keys_at)(words, np.uint32(self.time))

    def _step(self, action: Any) -> None:
        asker = -1 if self.env.simultaneous else int(self.state.current_player)
        before = self.state
        self._game.step(np.asarray(action, np.int32), self._keys()[1])
        scores = None if self.env.simultaneous else self.env.part_scores(before, int(action), self.state)
        with self._still:
            if scores is not None:
                self._scores.append((self.time + 1, scores))
            self.record.actions.append(np.asarray(action).tolist())
            self._askers.append(asker)
            now = _kept(self._game.save(), self._past[-1].saved)
            self._past.append(PastPosition(now, self.returns() + now.state.rewards))
            if len(self._past) > 2 * PAST:
                del self._past[:-PAST]

    @property
    def _first(self) -> int:
        """The time of the first position that is kept."""
        return len(self._askers) + 1 - len(self._past)

    def _state(self, time: int) -> State:
        """Returns a kept state in arrays of jax again."""
        return self._programs(_copied)(self._past[time - self._first].saved.state)

    # ---- for people -------------------------------------------------------------------------------------------------

    def view(self, seat: int | None, upright: bool = False) -> dict[str, Any]:
        """Returns all that a seat, or everyone, is shown of the newest position: `position`, story and scores; drawn as
        `Env.upright` where the screen is taller than wide."""
        state, lines = self.moment(seat)
        env = self.env.upright if upright else self.env
        told = {"time": len(lines), "lines": lines, "settled": self.settled(seat, env), "scores": self.scores()}
        return position(env, state, seat) | told

    def moment(self, seat: int | None) -> tuple[State, list[str]]:
        """Returns the newest state and the story of the game as a seat was told it; None is told everything."""
        with self._still:
            return self._state(self.time), list(self._story(seat))

    def settled(self, seat: int | None, env: Env) -> dict[str, Any] | None:
        """Returns the last thing that a step settled, as a seat may see it (`settled_svg` of `env`): {"time": after
        that step, "board": SVG}; None if none of the last steps settled anything."""
        with self._still:
            times = [] if self.env.simultaneous else range(self.time, max(self.time - BACK, self._first), -1)
            after = self._state(self.time)
            for t in times:
                before = self._state(t - 1)
                if board := env.settled_svg(before, self.record.actions[t - 1], after, seat):
                    return {"time": t, "board": board}
                after = before
        return None

    def scores(self) -> list[dict[str, Any]]:
        """Returns the scores of the newest parts of the game that have ended (`Env.part_scores`), oldest first."""
        with self._still:
            return [scores._asdict() for _, scores in self._scores[-PARTS:]]

    def _story(self, seat: int | None) -> list[str]:
        lines = self._told.setdefault(seat, [])
        if self.time - len(lines) > TOLD:
            lines += [""] * (self.time - len(lines) - TOLD)
        for t in range(len(lines), self.time):
            action = self.record.actions[t]
            said = np.asarray(action, np.int32) if self.env.simultaneous else action
            lines.append(self.env.event(self._state(t), said, self._state(t + 1), seat))
        if len(lines) > STORY:
            lines[:-STORY] = [""] * (len(lines) - STORY)
        return lines

    def replay(self, config: Config, lanes: replays.ReplayLanes, names: list[str]) -> replays.Replay:
        """Returns the finished game as a replay. Raises UserError: replaying it gives another result."""
        words = jnp.asarray([self.record.deal, self.record.step], jnp.uint32)
        deal, step = (replays.keys_of(jnp.tile(each, (replays.LANES, 1))) for each in words)
        actions = [np.array(self.record.actions, np.int32)] * replays.LANES
        first = lanes.play(deal, step, replays.recorded(actions))
        label = replays.ReplayLabel("table", names, f"{config.env.id}: {', '.join(names)}")
        found = replays.make_replays(config, lanes, deal, step, first, [label])
        if not found or not np.allclose(found[0].returns, self.returns(), atol=1e-4):
            raise UserError("this game does not play again as it was played: no replay can be made of it.")
        return found[0]


def position(env: Env, state: State, seat: int | None) -> dict[str, Any]:
    """Returns a position as `seat` may see it: drawing and text, legal actions and where to click.

    This is the only source of positions that reach a browser: all of it is what the game says for that seat
    (`render_svg(state, seat)`, `render(state, seat)`, `event(…, seat)`). With `seat` None everything is shown, for
    games without people and those that are over.
    """
    over = bool(is_over(state))
    asked = [] if over else [int(each) for each in np.atleast_1d(np.asarray(state.current_player))]
    shown: dict[str, Any] = {"asked": asked, "over": over, "legal": [], "click_areas": [], "board": "", "text": ""}
    with contextlib.suppress(NotImplementedError):
        shown["board"] = env.render_svg(state, seat)
    with contextlib.suppress(NotImplementedError):
        shown["text"] = env.render(state, seat)
    if seat is not None and not shown["board"] and not shown["text"]:
        shown["text"] = str(jax.tree.map(np.asarray, env.observe(state, jnp.int32(seat))))
    if seat in asked and not env.simultaneous:
        legal = np.flatnonzero(np.asarray(state.legal_action_mask))
        shown["legal"] = [[n, env.action_name(n), env.action_note(state, n)] for n in map(int, legal)]
        shown["click_areas"] = [list(area) for area in env.click_areas(state, seat)]
    if over:
        shown["figures"] = {name: np.asarray(each).tolist() for name, each in env.episode_stats(state).items()}
    return shown


def _kept(now: SavedGame, before: SavedGame | None = None) -> SavedGame:
    """Returns a position as numpy arrays, shared with the position before where they are equal: a table keeps hundreds
    of positions, and an array of jax takes 1.6 KB beside its numbers."""
    leaves, form = jax.tree.flatten(jax.device_get(now))
    old = [*jax.tree.leaves(before), *[None] * len(leaves)]
    return jax.tree.unflatten(form, [_shared(*each) for each in zip(leaves, old, strict=False)])


def _copied(state: State) -> State:
    return jax.tree.map(jnp.copy, state)  # a program of nothing else would return what it is given


def _shared(leaf: Any, before: Any) -> Any:
    if not isinstance(leaf, np.ndarray):  # a key, or the number of steps
        return leaf
    same = isinstance(before, np.ndarray) and before.dtype == leaf.dtype and np.array_equal(before, leaf)
    return before if same else leaf.copy()  # what `device_get` returns holds the array of jax


def _keys_at(words: jax.Array, time: jax.Array) -> tuple[Key, Key]:
    """Returns the keys of the players and of chance at a time; `words` u32[2, 2] are those of deal and step."""
    players = jax.random.fold_in(replays.keys_of(words[0]), _PLAYERS)
    return jax.random.fold_in(players, time), jax.random.fold_in(replays.keys_of(words[1]), time)
