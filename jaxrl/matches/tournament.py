"""A round robin among bots, runs and checkpoints: `jaxrl tournament`.

Every pair plays deals of its own, so that the cells of the matrix are independent, and each deal from every side, so
that luck of the deal falls on both alike. In a game of two sides a pair meets once; with more sides a player meets a
table of copies of the other, and the other way round. One compiled program plays all pairs: who sits where is an
argument.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from envs.core import Env, Key, PyTree, State
from envs.errors import UserError
from jaxrl.league.rating import Ratings
from jaxrl.matches import heatmap, reference
from jaxrl.matches.entrants import Entrant, Groups, find_entrants
from jaxrl.matches.host_match import HostDeals, Side, is_remote
from jaxrl.matches.match import BOT_PREFIX, LANES, DuplicateDeals, GameKeys, Games, play_games
from jaxrl.matches.outcomes import compare, of_sides, outcomes_of
from jaxrl.matches.results import Results
from jaxrl.runs.directory import enable_compilation_cache, write_json

TOURNAMENT_DEALS = 0x7001  # a stream of deals beside those of `jaxrl.matches.match`


class Tournament:
    """The program and the pairs of one round robin; compiled at the first pair. M players, P seats."""

    def __init__(
        self,
        env: Env,
        entrants: Sequence[Entrant],
        *,
        deals: int,
        seed: int = 0,
        lanes: int = LANES,
        self_pairs: bool = False,
    ):
        """A tournament.

        Args:
          env: the game.
          entrants: M players.
          deals: per pair, each played from all sides.
          seed: of the deals and of the players' own randomness.
          lanes: games side by side on one device.
          self_pairs: whether players also meet themselves.

        Raises:
          UserError: too few players, deals or sides.
        """
        if env.num_sides < 2:
            raise UserError(
                f"{env.id} is a game for one{' side' * (env.num_players > 1)}: there is nobody to meet; "
                "use `jaxrl evaluate`."
            )
        if len(entrants) < 2 and not (entrants and self_pairs):
            raise UserError(f"a tournament needs two players, got {len(entrants)}.")
        if deals < 2:
            raise UserError(f"--deals must be at least 2, got {deals}.")
        self._env, self._names = env, [entrant.name for entrant in entrants]
        self._groups = Groups(entrants)
        self._bots = env.bot_switch(self._groups.bots) if self._groups.bots else None
        self._base = jax.random.fold_in(jax.random.key(seed), TOURNAMENT_DEALS)
        self._entrants = list(entrants)
        self._live = HostDeals(env, deals=deals) if is_remote(env) else None
        self._games = DuplicateDeals(env, self._play, deals=deals, lanes=lanes)
        both = env.num_sides > 2  # (i, j) and (j, i) are then different games
        count = range(len(entrants))
        self.pairs = [(i, j) for i in count for j in count if i < j or (self_pairs and i == j) or (both and i > j)]

    def run(self, progress: Callable[[int, int], None] | None = None) -> Results:
        """Plays all pairs.

        Args:
          progress: told (pairs played, pairs) after each.

        Raises:
          UserError: a player chose an illegal action.
        """
        results = Results.empty(self._names, self._env.sides)
        everywhere = jax.sharding.NamedSharding(self._games.mesh, jax.sharding.PartitionSpec())
        params = jax.device_put(self._groups.params, everywhere)
        for number, (i, j) in enumerate(self.pairs):
            base = jax.random.fold_in(self._base, number)
            if self._live is not None:
                games = self._live([self._side(i), self._side(j)], base, f"{self._names[i]} against {self._names[j]}")
            else:
                games = self._games((params, np.array([i, j], np.int32)), base)
            sides = self._env.sides
            figures = {name: of_sides(np.asarray(values), sides) for name, values in games.figures.items()}
            outcomes = outcomes_of(figures, np.asarray(games.length), self._env.side_name)
            assert outcomes is not None  # at least two sides
            results.add(i, j, outcomes, _points(figures["return"]))
            if progress:
                progress(number + 1, len(self.pairs))
        return results

    def _side(self, number: int) -> Side:
        """An entrant as the holder of seats of live games."""
        entrant = self._entrants[number]
        return Side(bot=entrant.name) if entrant.act is None else Side(act=entrant.act, params=entrant.params)

    def _play(self, arguments: tuple[PyTree, jax.Array], rotation: jax.Array, keys: GameKeys) -> Games:
        """Games of pair i32[2]; the first of it is side ``rotation``, copies of the second in all others."""
        stacked, pair = arguments
        group, slot = jnp.asarray(self._groups.group)[pair], jnp.asarray(self._groups.slot)[pair]  # i32[2]
        mine = [  # by network, by side: parameters, of any member where the side is no player of this network
            [jax.tree.map(lambda x, s=side, g=g: x[jnp.where(group[s] == g, slot[s], 0)], each) for side in (0, 1)]
            for g, each in enumerate(stacked, start=1)
        ]

        def choose(state: State, holder: jax.Array, key: Key, memory: PyTree) -> jax.Array:
            side = holder[state.current_player]  # i32[], 0 or 1; i32[P] in a simultaneous game
            action = jnp.zeros(side.shape, jnp.int32)

            def hear(player: Callable[[], jax.Array], asked: jax.Array, heard: jax.Array) -> jax.Array:
                # `asked` is the same in all games: a player that is not in this pair costs nothing.
                chosen = jax.lax.cond(asked, lambda: player().astype(jnp.int32), lambda: jnp.zeros_like(action))
                return jnp.where(asked & heard, chosen, action)

            if self._bots is not None:
                bots, which = self._bots, jnp.where(group == 0, slot, 0)[side]
                key_of_bots = jax.random.fold_in(key, 0)
                player = functools.partial(bots, state, which, key_of_bots)
                action = hear(player, jnp.any(group == 0), (group == 0)[side])
            for g, act in enumerate(self._groups.acts, start=1):
                for s in (0, 1):
                    own, params = jax.random.fold_in(key, 1 + s), mine[g - 1][s]
                    action = hear(functools.partial(act, params, state, own), group[s] == g, side == s)
            return action

        holders = jnp.where(np.array(self._env.sides) == rotation[:, None], 0, 1)
        return play_games(self._env, choose, holders, keys)


def _points(returns: np.ndarray) -> float:
    """The candidates' points in games f32[D, rotation, side]: the share of the others left behind, a tie half."""
    own = np.eye(returns.shape[1], dtype=bool)
    others = returns[:, ~own].reshape(*returns.shape[:2], -1)
    return float(((compare(returns[:, own][..., None], others) + 1) / 2).mean(axis=-1).sum())


# ---- jaxrl tournament ---------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `jaxrl tournament`."""
    parser.add_argument(
        "players",
        nargs="+",
        metavar="PLAYER",
        help="RUN, RUN@UPDATE, RUN@best, RUN@all (checkpoints), bot:NAME, bots (all of the game); "
        "a.b=v changes a key of the game if only bots play",
    )
    parser.add_argument("--config", help="if only bots play: the configuration that names the game")
    parser.add_argument("--deals", type=int, default=1000, help="deals per pair, each from every side (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the deals (default: 0)")
    parser.add_argument("--sampled", action="store_true", help="sample from the policies even if they are greedy")
    parser.add_argument("--self", action="store_true", dest="self_pairs", help="players also meet themselves")
    parser.add_argument("--anchor", metavar="PLAYER", help="whose rating is fixed (default: bot:random, or the first)")
    parser.add_argument("--anchor-rating", type=float, default=0.0, metavar="R", help="that rating (default: 0)")
    parser.add_argument("--out", metavar="FOLDER", help="write matrix.json, table.md and heatmap.png there")
    parser.add_argument("--no-picture", action="store_true", help="leave heatmap.png out (it needs matplotlib)")
    parser.add_argument("--reference", metavar="FILE", help="a matrix to agree with, as matrix.json; else exit code 1")


def main(args: argparse.Namespace) -> int:
    """Runs `jaxrl tournament`; 1 if the results disagree with the reference."""
    expected = reference.load_reference(args.reference) if args.reference else None
    if args.out and not args.no_picture:
        heatmap.require_matplotlib()
    field = find_entrants(args.players, args.config, sampled=args.sampled)
    enable_compilation_cache(field.config.run.cache_dir)
    names = [entrant.name for entrant in field.entrants]
    anchor = args.anchor.removeprefix(BOT_PREFIX) if args.anchor else ("random" if "random" in names else None)
    if anchor is not None and anchor not in names:
        raise UserError(f"--anchor {args.anchor!r} does not take part: choose one of {', '.join(names)}.")
    tournament = Tournament(field.env, field.entrants, deals=args.deals, seed=args.seed, self_pairs=args.self_pairs)
    if args.out:
        _make_folder(args.out)  # before anything is played
    started = time.monotonic()
    results = tournament.run(_show_progress)
    seconds = time.monotonic() - started
    ratings = results.ratings(anchor, args.anchor_rating)
    text = _report(
        results, ratings, f"{args.deals} deals x {field.env.num_sides} {field.env.side_name}s a pair, seed {args.seed}"
    )
    print(text)
    print(f"\n{seconds:.0f} s, {results.total_games / seconds:,.0f} games/s with compilation")
    if args.out:
        _write(Path(args.out), results, ratings, text, picture=not args.no_picture)
    if expected is None:
        return 0
    agreement = reference.compare(results, expected)
    print(f"\n{reference.players_table(results, expected)}\n\n{agreement}")
    return 0 if agreement.ok else 1


def _report(results: Results, ratings: Ratings, title: str) -> str:
    note = ""
    if ratings.virtual_draws:
        note = (
            "\n\nA player, or a group of them, won or lost every game against all others: "
            f"{ratings.virtual_draws:g} drawn game was added to each pair, or its distance would be infinite."
        )
    return (
        f"{len(results.names)} players, {results.total_games:,} games: {title}; mean length "
        f"{results.mean_steps:.2f} steps\n\nwin/draw/loss in % of the row\n\n{results.matrix_table(ratings.order())}"
        f"\n\nBradley-Terry ratings on the Elo scale, 95 % half widths of the distance to "
        f"{ratings.names[ratings.anchor]}\n\n{results.rating_table(ratings)}{note}"
    )


def _make_folder(path: str) -> None:
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--out {path!r} cannot be a folder ({error.strerror}): choose another.") from error


def _write(folder: Path, results: Results, ratings: Ratings, text: str, *, picture: bool) -> None:
    write_json(folder / "matrix.json", results.record() | {"ratings": ratings.record()})
    (folder / "table.md").write_text(text + "\n", encoding="utf-8")
    if picture:
        heatmap.draw(results, ratings, folder / "heatmap.png")
    print(f"written to {folder}: matrix.json, table.md{', heatmap.png' if picture else ''}")


def _show_progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {total} pairs", end="" if done < total else "\n", file=sys.stderr, flush=True)
