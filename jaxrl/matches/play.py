"""A person at the table: `jaxrl play RUN`, `jaxrl play zoo:NAME` or `jaxrl play bot:NAME`."""

from __future__ import annotations

import contextlib
import difflib
import re
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from jaxrl.matches.interactive import InteractiveGame, SavedGame
from jaxrl.players.player import Player, bot_player, no_memory
from jaxrl.players.spec import parse
from jaxrl.policies.find import Lookup, find_opponents, find_player
from jaxrl.runs.directory import enable_compilation_cache
from jaxrl.runs.logs.console import Screen, waiting
from jaxrl.search.player import make_search
from jaxrl.search.policies import SearchParams, bot_policy, no_guide
from jaxrl.search.settings import SearchSettings
from jaxrl_envs.contract.env import Env, State
from jaxrl_envs.contract.sides import of_sides
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

WIDTH = 100  # columns at most
SIMULATIONS = 200  # of the search that gives hints if no player can
LIKELIEST, LEAST = 5, 0.005  # the most actions in a hint; the least probability of one
RESULTS = ("drawn", "won", "lost")  # 0, 1, -1
YOU = r"\b[Yy]ou(r|rs)?\b"


class Moment(NamedTuple):
    """A decision of the person, to which it can go back."""

    game: SavedGame
    news: tuple[str, ...]  # what had happened since the decision before
    returns: np.ndarray  # f32[P], so far


class Sitting:
    """One game between a person and players, in a terminal."""

    def __init__(
        self,
        env: Env,
        seat: int,
        others: Sequence[Player | None],
        *,
        adviser: Player | None = None,
        screen: Console | None = None,
    ):
        """Sets up a game to be played. `others`: the player of each seat, partners and opponents; the person's own
        entry is not used. `adviser`: gives hints from what the person's seat sees. `screen`: the terminal; None is a
        new one on standard output."""
        self._env, self._seat, self._adviser, self._screen = env, seat, adviser, screen or make_screen()
        self._game = InteractiveGame(env, [adviser if i == seat else player for i, player in enumerate(others)])
        self._past: list[Moment] = []
        self._news: list[str] = []
        self._returns = np.zeros(env.num_players, np.float32)

    def play(self, key: jax.Array) -> State:
        """Plays one game dealt from `key`; returns its end. Raises EOFError: the person left."""
        deal_key, key = jax.random.split(key)
        with waiting("compiling the game: only its beginning takes so long", again=True, screen=self._screen):
            self._game.deal(deal_key)
        self._game.play(key, self._ask, self._tell)
        self._show()
        self._screen.print(Text(summary(self._env, self._game.state, self._returns, self._seat), "bold"))
        return self._game.state

    def _waiting(self) -> contextlib.AbstractContextManager[None]:
        """Shows a status line while the person waits."""
        compiling = len(self._past) < 2  # not every program has run yet
        text = "compiling: only the first turns take so long" if compiling else "the others play"
        return waiting(text, again=True, screen=self._screen)

    def _ask(self, key: jax.Array) -> int | None:
        """Returns the action of the seat asked; None: the person went back to the previous decision."""
        if int(self._game.state.current_player) != self._seat:
            with self._waiting():
                return int(self._game.answer(key))
        moment = Moment(self._game.save(), tuple(self._news), self._returns)
        action = self._decide(moment, key)
        if action is None:
            moment = self._past.pop()
            self._game.restore(moment.game)
            self._news, self._returns = list(moment.news), moment.returns
            return None
        self._past.append(moment)
        self._news = []
        if self._adviser is not None and self._adviser.init is not no_memory:
            with self._waiting():
                self._game.answer(key)  # it remembers that its seat was asked
        return action

    def _tell(self, before: State, action: int | np.ndarray, after: State) -> None:
        self._news.append(self._env.event(before, int(action), after, self._seat))
        self._returns = self._returns + np.asarray(after.rewards)

    def _decide(self, moment: Moment, key: jax.Array) -> int | None:
        """Returns the person's legal action; None: the last one is taken back."""
        mask = np.asarray(moment.game.state.legal_action_mask)
        legal = {int(action): self._env.action_name(int(action)) for action in np.flatnonzero(mask)}
        self._question(legal)
        words: dict[str, Callable[[], None]] = {
            "help": self._help,
            "hint": lambda: self._hint(key),
            "rules": self._rules,
            "undo": lambda: self._problem("this is your first decision: there is nothing to take back."),
            "": lambda: self._question(legal),
        }
        while True:
            answer = self._screen.input(Text(f"seat {self._seat}, your action: ", "bold")).strip()
            word = answer.lower()
            if word in ("quit", "q", "exit"):
                raise EOFError
            if word == "undo" and self._past:
                return None
            if word in words:
                words[word]()
                continue
            action, problem = parse_action(answer, legal)
            if action is not None:
                return action
            self._problem(problem)

    # ---- what the person gets to see --------------------------------------------------------------------------------

    def _question(self, legal: dict[int, str]) -> None:
        self._show()
        self._screen.print(options(legal))

    def _show(self) -> None:
        """Shows the position, and the events since the person's last decision."""
        self._screen.print()
        page = render_for(self._env, self._game.state, self._seat)
        self._screen.print(self._coloured(page))
        if self._news:
            self._screen.print(Text("\nsince your last turn:" if self._past else "\nso far:", "dim"))
        for line in self._news:
            self._screen.print(Padding(self._coloured(line), (0, 0, 0, 2), expand=False))
        self._screen.print()

    def _coloured(self, text: str) -> Text:
        shown = Text(text)
        for pattern, style in self._env.colours.items():
            shown.highlight_regex(pattern, style)
        shown.highlight_regex(YOU, "bold")
        return shown

    def _problem(self, sentence: str) -> None:
        self._screen.print(Text(sentence, "yellow"))

    def _help(self) -> None:
        hint = f"what {self._adviser.name} would do" if self._adviser else "no player here can give one"
        for word, meaning in (
            ("a number or a name", "of an option: your action; the beginning of a name will do"),
            ("hint", hint),
            ("undo", "back to your last decision"),
            ("rules", "of the game, in a page"),
            ("Enter alone", "the position again"),
            ("quit", "leave the table, as Ctrl-D does"),
        ):
            self._screen.print(Text.assemble("  ", (f"{word:20}", "bold green"), meaning))

    def _rules(self) -> None:
        text = self._env.how_to_play.strip() or "This game brings no text of its rules (how_to_play)."
        for paragraph in re.split(r"\n\s*\n", text):
            self._screen.print(Padding(self._coloured(" ".join(paragraph.split())), (0, 0, 1, 2), expand=False))

    def _hint(self, key: jax.Array) -> None:
        if self._adviser is None:
            self._problem("no player here can give a hint: play against a trained run, or a bot that knows the game.")
            return
        with waiting(f"{self._adviser.name} thinks", again=True, screen=self._screen):
            action, odds, _ = self._game.advice(key, self._game.save())
        likeliest = [action]
        if odds is not None:
            likeliest = [int(a) for a in np.argsort(-odds, kind="stable")[:LIKELIEST] if odds[a] >= LEAST]
        said = ", ".join(
            option(a, self._env.action_name(a)) + ("" if odds is None else f" {100 * odds[a]:.0f} %") for a in likeliest
        )
        self._screen.print(Text(f"{self._adviser.name} would choose {said}", "cyan"))


def make_screen() -> Console:
    """Standard output, at most `WIDTH` columns of it; without colours if it is no terminal or NO_COLOR is set."""
    screen = Screen(markup=False, highlight=False, emoji=False)
    screen.width = min(screen.width, WIDTH) if screen.is_terminal else WIDTH
    return screen


def option(action: int, name: str) -> str:
    """Returns an action as people see it: by number, and by name if it has another one."""
    return f"[{action}]" + ("" if name == str(action) else f" {name}")


def options(legal: dict[int, str]) -> Columns:
    """Returns legal actions in columns."""
    cells = [Text(option(action, name)) for action, name in legal.items()]
    for cell in cells:
        cell.highlight_regex(r"^\[\d+\]", "green")
    return Columns(cells, padding=(0, 2))


def render_for(env: Env, state: State, seat: int) -> str:
    """The state as text, of which `seat` may see everything; the bare observation if the game has no rendering."""
    try:
        return env.render(state, seat)
    except NotImplementedError:
        return str(jax.tree.map(np.asarray, env.observe(state, jnp.int32(seat))))


def parse_action(answer: str, legal: dict[int, str]) -> tuple[int | None, str]:
    """The legal action meant by a number or (the beginning of) a name, or None and what is wrong with the answer."""
    if answer.isdigit():
        if (number := files.number(answer)) in legal:
            return number, ""
        return None, f"{answer} is not a legal action now: choose one of the numbers above."
    names = {action: name.lower() for action, name in legal.items()}
    exact = [action for action, name in names.items() if name == answer.lower()]
    found = exact or [action for action, name in names.items() if answer and name.startswith(answer.lower())]
    if len(found) == 1:
        return found[0], ""
    if found:
        return (
            None,
            f"{answer!r} may mean {', '.join(legal[action] for action in found)}: type more of it or the number.",
        )
    near = difflib.get_close_matches(answer.lower(), names.values(), n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return None, f"{answer!r} is not a legal action now{hint}: type a number or a name from the list."


def summary(env: Env, state: State, returns: np.ndarray, seat: int) -> str:
    """Returns who won a finished game, and its figures (by default `returns`), seat by seat."""
    stats = {name: np.asarray(value) for name, value in env.episode_stats(state).items()} or {"return": returns}
    won = np.asarray(env.outcome(of_sides(returns, env.sides)))  # by side; of one side alone it says nothing
    lines = ["the game is over"]
    for player, side in enumerate(env.sides):
        who = f"seat {player}" + (" (you)" if player == seat else "")
        told = [RESULTS[won[side]]] if env.num_sides > 1 else []
        lines.append(f"{who:>13}: " + ", ".join(told + [f"{name} {each[player]:g}" for name, each in stats.items()]))
    return "\n".join(lines)


def adviser_of(env: Env, candidate: Player, others: Sequence[Player]) -> Player | None:
    """The player that gives hints: a trained policy, else a bot, else a search with playouts to the end of the game."""
    if not candidate.bot:
        return candidate
    known = [player for player in (candidate, *others) if player.bot not in ("", "random")]
    known += [bot_player(env, name) for name in list(env.bots)[::-1] if name != "random"]
    if known and not env.delegated:
        return known[0]
    settings = SearchSettings(simulations=SIMULATIONS, particles=0)
    try:
        search = make_search(env, settings, own=bot_policy(env.random_action), guide=no_guide)
    except UserError:
        return None
    return search.player("a search", SearchParams(own=None), plain=True)


def play(name: str, lookup: Lookup, *, seat: int, opponents: Sequence[str] | None, seed: int | None) -> None:
    """Plays a game at the terminal. Raises UserError: a player is unknown, or the game cannot be played so. `name`:
    name of the player at the other seats, see `find_player`. `opponents`: players at the other seats in its place, in
    turn. `seed`: seed of the deal; None: a new one."""
    candidate = find_player(name, lookup)
    env = candidate.env
    enable_compilation_cache(candidate.config.run.cache_dir)
    if env.simultaneous:
        raise UserError(f"{candidate.config.env.id} asks all seats at once: it cannot be played in a terminal.")
    if not 0 <= seat < env.num_players:
        raise UserError(f"--seat must be between 0 and {env.num_players - 1}, got {seat}.")
    pool = find_opponents(opponents, lookup, candidate) if opponents else candidate.players
    others = [pool[i % len(pool)] for i in range(env.num_players)]
    seed = seed if seed is not None else secrets.randbelow(2**31)
    against = ",".join(opponents) if opponents else parse(name).label
    print(f"you are seat {seat} of {env.num_players} against {against}; deal {seed}")
    partner = {i: " (your side)" if env.sides[i] == env.sides[seat] else "" for i in range(env.num_players)}
    print(", ".join(f"seat {i}: {player.name}{partner[i]}" for i, player in enumerate(others) if i != seat))
    print("beside the options you can type help, hint, undo, rules or quit")
    table = Sitting(env, seat, others, adviser=adviser_of(env, candidate.players[0], others))
    try:
        table.play(jax.random.key(seed))
    except (EOFError, KeyboardInterrupt):
        print("\nyou left the table")
