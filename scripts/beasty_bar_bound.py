"""`python -m scripts.beasty_bar_bound [BOT ...]`: bounds the share of games that can be won at Beasty Bar against bots.

For each deal a player who knows both decks, the bot and its dice tries many lines of play, some close to a bot's, some
at random, until one wins. A deal that no player can win is among those that no line has won.
"""

from __future__ import annotations

import argparse
import sys

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import cli
from jaxrl.statistics import wilson
from jaxrl_envs.beasty_bar.env import BeastyBar
from jaxrl_envs.contract.env import Key, State

BATCH = 16384  # lines side by side
TURNS = 24  # of the longest game
GUIDE = "distilled"  # the bot whose moves a line makes where it does not move at random
ME = 0


class Lines:
    """Batches of lines against some bots, compiled once."""

    def __init__(self, bots: list[str]):
        self._env = BeastyBar()
        self._switch = self._env.bot_switch([*bots, GUIDE])
        self._guide = len(bots)
        self.play = jax.jit(jax.vmap(self._play, in_axes=(None, 0, 0)))

    def _play(self, bot: jax.Array, deal: Key, moves: Key) -> jax.Array:
        """Returns whether a line with its own moves (a key) wins a deal against a bot (i32[], of `bots`), bool[]."""
        daring = jax.random.uniform(jax.random.fold_in(moves, TURNS))  # the share of random moves in this line

        def turn(state: State, time: jax.Array) -> tuple[State, jax.Array]:
            dice, mine = jax.random.fold_in(deal, time), jax.random.split(jax.random.fold_in(moves, time), 3)
            my_turn = state.current_player == ME
            key = jnp.where(my_turn, mine[0], dice)
            action = self._switch(state, jnp.where(my_turn, self._guide, bot), key)
            wild = my_turn & (jax.random.uniform(mine[1]) < daring)
            action = jnp.where(wild, self._env.random_action(state, mine[2]), action)
            state = self._env.step(state, action, dice)
            return state, state.rewards[ME]

        return jnp.sum(jax.lax.scan(turn, self._env.init(deal), jnp.arange(TURNS))[1]) > 0

    def lost(self, bot: int, deals: int, most: int, key: Key) -> tuple[int, int]:
        """Returns how many deals no line has won after `most` lines of each, and the most lines that a win took."""
        left, tried, needed = np.arange(deals), 0, 0
        while left.size and tried < most:
            these, tried = np.resize(left, BATCH), tried + BATCH // left.size
            dealt = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.asarray(these))
            moves = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, 2**31), tried), BATCH)
            won = these[np.asarray(self.play(jnp.int32(bot), dealt, moves))]
            left, needed = np.setdiff1d(left, won), tried if won.size else needed
        return left.size, needed


def arguments() -> argparse.ArgumentParser:
    """Returns the parser of the program's options."""
    parser = cli.Parser(prog="python -m scripts.beasty_bar_bound", description=__doc__.partition("\n")[0])
    parser.add_argument("bots", nargs="*", default=["online", "outcome", "distilled"], metavar="BOT")
    parser.add_argument("--deals", type=int, default=4000, choices=range(1, BATCH + 1), metavar="N")
    parser.add_argument("--lines", type=int, default=100_000, help="the most lines of a deal")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def run(args: argparse.Namespace) -> int:
    """Prints the share of deals without a win for each bot."""
    lines = Lines(args.bots)
    for number, bot in enumerate(args.bots):
        lost, needed = lines.lost(number, args.deals, args.lines, jax.random.key(args.seed))
        low, high = wilson(lost, args.deals)
        share = f"{lost / args.deals:.2%} ({low:.2%} to {high:.2%})"
        said = f"{bot}: no line wins {lost} of {args.deals} deals, {share}; a win took {needed:,} lines at most"
        print(said, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(lambda: run(arguments().parse_args())))
