"""Seeded random Skull King games by the referee, as records in exactly the format of the golden files: these were
written by `write(path, games(1, 280))` and, for choices of bots, `games(seed, count, bots=True)`."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.jaxrl_envs.skull_king.referee.skull_king import BID, END, NUM_ROUNDS, Game, replay
from tests.jaxrl_envs.skull_king.referee.skull_king_bots import BOTS

CONFIGURATIONS = [(n, expansion, abilities) for n in range(2, 9) for expansion in (1, 0) for abilities in (1, 0)]


def head(rng: random.Random, number: int) -> dict:
    """Returns the start of a record, which determines the game: configuration, starter and the ten decks."""
    n, expansion, abilities = CONFIGURATIONS[number % len(CONFIGURATIONS)]
    cards = range(74 if expansion else 70)
    return {
        "game": number,
        "n": n,
        "expansion": expansion,
        "abilities": abilities,
        "first": rng.randrange(n),
        "decks": [rng.sample(cards, len(cards)) for _ in range(NUM_ROUNDS)],
    }


def random_game(seed: int, number: int) -> dict:
    """Plays one game of random legal play; odd blocks of configurations bid low, so that more bids are exact."""
    rng = random.Random(f"{seed}/{number}")
    record = head(rng, number)
    game = replay(record)
    bid_low = number // len(CONFIGURATIONS) % 2 == 1
    while game.phase != END:
        if game.phase == BID and bid_low:
            game.step(rng.randint(0, min(1 + game.h // game.n, game.h)))
        else:
            game.step(rng.choice(game.legal()))
    return {**record, "rounds": game.rounds, "final": game.totals, "rank": game.rank}


def bot_game(seed: int, number: int, checks: int = 25) -> dict:
    """Plays one game between mixed bots with `checks` sampled decisions and what each bot chooses there."""
    rng = random.Random(f"bots/{seed}/{number}")
    record = head(rng, number)
    seats = [rng.choice(["random", "easy", "medium", "hard"]) for _ in range(record["n"])]
    game, candidates = replay(record), []
    while game.phase != END:
        candidates.append(_check(rng, game))
        game.step(BOTS[seats[game.actor]](game, _draw(rng)))
    # Few decisions are abilities: take up to half of the sample from them.
    rare = [check for check in candidates if check["phase"] >= 2]
    sample = rng.sample(rare, min(len(rare), checks // 2))
    rest = [check for check in candidates if check not in sample]
    sample += rng.sample(rest, min(len(rest), checks - len(sample)))
    return {
        **record,
        "bots": seats,
        "actions": [action for _, _, _, action in game.history],
        "checks": sorted(sample, key=lambda check: check["i"]),
        "final": game.totals,
    }


def _draw(rng: random.Random) -> tuple[int, int, int]:
    return rng.randrange(1000), rng.randrange(1000), rng.randrange(1000)


def _check(rng: random.Random, game: Game) -> dict:
    k = _draw(rng)
    choices = {bot: BOTS[bot](game, k) for bot in ("easy", "medium", "hard")}
    return {"i": len(game.history), "seat": game.actor, "phase": game.phase, "k": list(k), **choices}


def games(seed: int, count: int, *, bots: bool = False) -> Iterator[dict]:
    """Yields `count` records, cycling through 2..8 players and both switches."""
    make = bot_game if bots else random_game
    return (make(seed, number) for number in range(count))


def read(path: Path) -> list[dict]:
    """Returns the records of a file of JSON lines, packed."""
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def write(path: Path, records: Iterable[dict]) -> None:
    """Writes records as gzip JSON lines, byte for byte reproducible."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as out:
        for record in records:
            out.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
