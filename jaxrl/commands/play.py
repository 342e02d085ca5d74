"""A person at the table: `jaxrl play RUN`, or `jaxrl play bot:NAME`."""

from __future__ import annotations

import argparse
import difflib
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.envs.core import Env, State, is_over
from jaxrl.envs.errors import UserError
from jaxrl.matches.entrants import BOT_PREFIX, find_entrant
from jaxrl.matches.single import SingleGame
from jaxrl.players import Player, bot_player
from jaxrl.runs.directory import enable_compilation_cache

Ask = Callable[[str], str]  # a prompt -> the person's answer; raises EOFError when there is nobody
Tell = Callable[[str], Any]


class Sitting:
    """One game between a person and players, in a terminal."""

    def __init__(
        self, env: Env, seat: int, others: Sequence[Player | None], *, ask: Ask | None = None, tell: Tell = print
    ):
        """A game to be played.

        Args:
          env: a turn-based game.
          seat: the person's.
          others: the player of each seat, partners and opponents; the person's own entry is not used.
          ask, tell: the terminal; None is `input`.
        """
        self._env, self._seat, self._ask, self._tell = env, seat, ask or input, tell
        self._game = SingleGame(env, [None if i == seat else player for i, player in enumerate(others)])

    def play(self, key: jax.Array) -> State:
        """Plays one game dealt from `key`; returns its end.

        Raises:
          EOFError: the person left.
        """
        deal_key, key = jax.random.split(key)
        state = self._game.deal(deal_key)
        while not bool(is_over(state)):
            key, act_key, step_key = jax.random.split(key, 3)
            asked = int(state.current_player) == self._seat
            action = self._answer(state) if asked else self._game.answer(act_key)
            before, state = state, self._game.step(action, step_key)
            self._tell(f"  {self._env.event(before, action, state, self._seat)}")
        self._tell(self._view(state))
        self._tell(summary(self._env, state, self._seat))
        return state

    def _answer(self, state: State) -> int:
        """Asks the person until the answer is a legal action."""
        self._tell(self._view(state))
        legal = {int(a): self._env.action_name(int(a)) for a in np.flatnonzero(np.asarray(state.legal_action_mask))}
        self._tell(
            "  ".join(f"[{action}] {name}" if name != str(action) else f"[{action}]" for action, name in legal.items())
        )
        while True:
            answer = self._ask(f"seat {self._seat}, your action: ").strip()
            action, problem = parse_action(answer, legal)
            if action is not None:
                return action
            self._tell(problem)

    def _view(self, state: State) -> str:
        """What the person may see, as text."""
        return render_for(self._env, state, self._seat)


def render_for(env: Env, state: State, seat: int) -> str:
    """The state as text, of which `seat` may see everything; the bare observation if the game has no rendering."""
    try:
        return env.render(state, seat)
    except NotImplementedError:
        return str(jax.tree.map(np.asarray, env.observe(state, jnp.int32(seat))))


def parse_action(answer: str, legal: dict[int, str]) -> tuple[int | None, str]:
    """The legal action meant by a number or (the beginning of) a name, or None and what is wrong with the answer."""
    if answer.isdigit():
        if int(answer) in legal:
            return int(answer), ""
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


def summary(env: Env, state: State, seat: int) -> str:
    """The figures of a finished game, seat by seat."""
    stats = {name: np.asarray(value) for name, value in env.episode_stats(state).items()}
    stats = stats or {"reward of the last step": np.asarray(state.rewards)}
    lines = ["the game is over"]
    for player in range(env.num_players):
        who = f"seat {player}" + (" (you)" if player == seat else "")
        lines.append(f"{who:>13}: " + ", ".join(f"{name} {value[player]:g}" for name, value in stats.items()))
    return "\n".join(lines)


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl play`."""
    candidate = find_entrant(args.candidate, args)
    env = candidate.env
    enable_compilation_cache(candidate.config.run.cache_dir)
    if env.simultaneous:
        raise UserError(f"{candidate.config.env.id} asks all seats at once: it cannot be played in a terminal.")
    if not 0 <= args.seat < env.num_players:
        raise UserError(f"--seat must be between 0 and {env.num_players - 1}, got {args.seat}.")
    bots = [bot_player(env, name) for name in args.opponents.split(",")] if args.opponents else []
    pool = bots or candidate.players
    others = [pool[i % len(pool)] for i in range(env.num_players)]
    seed = args.seed if args.seed is not None else secrets.randbelow(2**31)
    name = args.candidate.removeprefix(BOT_PREFIX)
    print(f"you are seat {args.seat} of {env.num_players} against {args.opponents or name}; deal {seed}; Ctrl-D leaves")
    partner = {i: " (your side)" if env.sides[i] == env.sides[args.seat] else "" for i in range(env.num_players)}
    print(", ".join(f"seat {i}: {player.name}{partner[i]}" for i, player in enumerate(others) if i != args.seat))
    try:
        Sitting(env, args.seat, others).play(jax.random.key(seed))
    except (EOFError, KeyboardInterrupt):
        print("\nyou left the table")
    return 0
