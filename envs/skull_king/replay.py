"""Recorded games played through the compiled engine in batches: what `verify` compares.

Games of one table (players and switches) are one program: `lax.scan` over the decisions, `jax.vmap` over the games.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from envs.cards import get_field
from envs.recorded import Record
from envs.skull_king import records, rules
from envs.skull_king.bots import CHOOSE
from envs.skull_king.cards import NUM_CARDS, TIGRESS_PIRATE
from envs.skull_king.deal import Deal, Setup
from envs.skull_king.rules import Game
from envs.skull_king.trick import Trick, resolve

CHECKED_BOTS = ("easy", "medium", "hard")
MAX_GAMES = 512  # per call: bounds the memory of the outputs


class Steps(NamedTuple):
    """One decision of a game; as host arrays [games, decisions, ...]. P seats."""

    seat: jax.Array  # i32[], who is asked
    phase: jax.Array  # i32[]
    number: jax.Array  # i32[], the round
    legal: jax.Array  # u32[4], `rules.legal_words`
    choices: jax.Array  # i32[3], what the three bots would do
    # After the action, before the next round is dealt:
    bids: jax.Array  # i32[P], after Harry
    won: jax.Array  # i32[P]
    captured: jax.Array  # i32[P], points
    wagers: jax.Array  # i32[P], points
    alliances: jax.Array  # i32[4], Loot player + 1 and trick winner + 1 of each Loot
    leader: jax.Array  # i32[], leads the current or next trick
    total: jax.Array  # i32[P]


class Replay(NamedTuple):
    """One game."""

    steps: Steps  # NumPy, leading axis = decisions (padded)
    final: np.ndarray  # i32[P]
    rank: np.ndarray  # i32[P]
    ended: bool


def replay(recorded: Sequence[Record], *, bots: bool) -> list[Replay]:
    """Plays all games; the results come in the order of the records.

    Args:
      recorded: checked records of games or bot choices.
      bots: also ask the bots, at every decision named in `checks`.
    """
    groups: dict[tuple[int, int, int], list[int]] = {}
    for index, record in enumerate(recorded):
        groups.setdefault((record["n"], record["expansion"], record["abilities"]), []).append(index)
    results: dict[int, Replay] = {}
    # Compiling is most of the work and does not hold the interpreter lock.
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        work = [(setup, [recorded[i] for i in members]) for setup, members in groups.items()]
        done = pool.map(lambda item: list(_replay_group(*item, bots=bots)), work)
        for members, replays in zip(groups.values(), done, strict=True):
            results.update(zip(members, replays, strict=True))
    return [results[index] for index in range(len(recorded))]


def resolve_tricks(recorded: Sequence[Record]) -> dict[str, np.ndarray]:
    """Winner, next leader, bonus (points) and the alliances of single tricks, as arrays over the records."""
    size = 8
    plays = np.full((len(recorded), size), -1, np.int32)
    for row, record in zip(plays, recorded, strict=True):
        row[: len(record["plays"])] = [TIGRESS_PIRATE if pirate else card for card, pirate in record["plays"]]
    trick, outcome = jax.device_get(jax.jit(jax.vmap(_resolve_trick))(plays))
    return {
        "win": outcome.winner,
        "next": outcome.next_leader,
        "bonus": 10 * outcome.bonus,
        "loots": np.stack(trick.loots, axis=1),
    }


def _resolve_trick(plays: jax.Array):
    def add(trick: Trick, item):
        seat, play = item
        return rules.select(play >= 0, trick.add(seat, jnp.maximum(play, 0)), trick), None

    seats = jnp.arange(plays.shape[0], dtype=jnp.int32)
    trick, _ = lax.scan(add, Trick.empty(), (seats, plays))
    return trick, resolve(trick, jnp.int32(0))


# ---- one group ------------------------------------------------------------------------------------------------------


def _replay_group(table: tuple[int, int, int], recorded: list[Record], *, bots: bool) -> Iterator[Replay]:
    players, expansion, abilities = table
    setup = Setup(players=players, expansion=bool(expansion), abilities=bool(abilities))
    # Few different shapes, so that a program serves many groups.
    length = records.max_decisions(players)
    batch = min(max(8, 1 << (len(recorded) - 1).bit_length()), MAX_GAMES)
    program = _compile(setup, batch, length, bots)
    for start in range(0, len(recorded), batch):
        chunk = recorded[start : start + batch]
        padded = chunk + [chunk[-1]] * (batch - len(chunk))
        final, rank, ended, steps = jax.device_get(program(*_inputs(padded, length)))
        for i in range(len(chunk)):
            yield Replay(Steps(*(leaf[i] for leaf in steps)), final[i], rank[i], bool(ended[i]))


def _inputs(recorded: list[Record], length: int) -> tuple[np.ndarray, ...]:
    decks = np.zeros((len(recorded), rules.NUM_ROUNDS, NUM_CARDS), np.uint8)
    actions = np.zeros((len(recorded), length), np.int32)
    draws = np.zeros((len(recorded), length, 3), np.int32)
    for i, record in enumerate(recorded):
        rows = np.asarray(record["decks"], np.uint8)
        decks[i, :, : rows.shape[1]] = rows
        taken = records.actions(record)
        actions[i, : len(taken)] = taken
        for check in record.get("checks", ()):
            draws[i, check["i"]] = check["k"]
    first = np.asarray([record["first"] for record in recorded], np.int32)
    return decks, first, actions, draws


@cache
def _compile(setup: Setup, batch: int, length: int, bots: bool) -> Callable:
    """The program for one table. Compiling is nearly all of the work, so the expensive passes are left out."""
    shapes = (
        jax.ShapeDtypeStruct((batch, rules.NUM_ROUNDS, NUM_CARDS), jnp.uint8),
        jax.ShapeDtypeStruct((batch,), jnp.int32),
        jax.ShapeDtypeStruct((batch, length), jnp.int32),
        jax.ShapeDtypeStruct((batch, length, 3), jnp.int32),
    )
    options: dict[str, str | bool] | None = None
    if jax.default_backend() == "cpu":
        options = {"xla_backend_optimization_level": "0", "xla_llvm_disable_expensive_passes": True}
    program = jax.jit(jax.vmap(partial(_play_game, setup=setup, bots=bots)))
    return program.lower(*shapes).compile(compiler_options=options)


def _play_game(decks: jax.Array, first: jax.Array, actions: jax.Array, draws: jax.Array, *, setup: Setup, bots: bool):
    """One game: final scores i32[P], rank i32[P], bool[] ended, and `Steps` with a leading axis of decisions."""
    game = rules.game_from_decks(decks, first, setup)
    game, steps = lax.scan(partial(_decide, setup=setup, bots=bots), game, (actions, draws))
    return game.scores, rules.ranking(game.scores)[0], game.phase == rules.END, steps


def _decide(game: Game, inputs: tuple[jax.Array, jax.Array], *, setup: Setup, bots: bool) -> tuple[Game, Steps]:
    action, k = inputs
    legal = rules.legal_words(game, setup)
    choices = jnp.zeros(3, jnp.int32)
    if bots:
        choices = jnp.stack([CHOOSE[name](game, legal, k, setup) for name in CHECKED_BOTS])
    # With `single_round` a step stops after scoring, so that the finished round can still be read.
    unused = jnp.zeros(setup.draws, jnp.uint32)
    settled, _ = rules.step(game, action, unused, setup._replace(single_round=True))
    after, _ = rules.step(game, action, unused, setup)
    over = game.phase == rules.END
    after = rules.select(over, game, after)
    r = settled.round
    seats = jnp.arange(setup.players)
    steps = Steps(
        seat=game.actor,
        phase=game.phase,
        number=game.number,
        legal=jnp.stack(legal),
        choices=choices,
        bids=get_field(r.bids, seats),
        won=get_field(r.won, seats),
        captured=10 * get_field(jnp.where(seats < 4, r.captured[0], r.captured[1]), seats & 3, 8),
        wagers=10 * get_field(r.wagers, seats),
        alliances=get_field(r.alliances, jnp.arange(4)),
        leader=r.leader,
        total=settled.scores,
    )
    return after.replace(next=Deal.empty(setup.players)), steps
