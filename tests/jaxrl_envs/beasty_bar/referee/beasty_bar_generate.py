"""Seeded random Beasty Bar games and bot choices by the referee, as records in exactly the format of the golden files,
which `tests.support.generate.write(path, games(seed, count))` writes, with `choices=True` those of bots."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.jaxrl_envs.beasty_bar.referee import beasty_bar as referee
from tests.jaxrl_envs.beasty_bar.referee import beasty_bar_bots as bots

DETERMINISTIC = [bot for bot in bots.BOTS if bot not in ("random", "noisy")]


def random_game(seed: int, number: int) -> dict:
    """One game of random legal play: of random ids in even games, of random cards, then ids, in odd ones."""
    rng = random.Random(f"{seed}/{number}")
    species = range(1, 13)
    decks, start = [rng.sample(species, 12) for _ in range(2)], rng.randrange(2)
    game, moves = referee.new_game(decks, start), []
    while not game.over:
        legal = game.legal()
        action = rng.choice(legal)
        if number % 2:
            card = rng.choice(sorted(game.hands[game.actor]))
            action = rng.choice([a for a in legal if referee.decode(a, game.queue).species == card])
        seat, game = game.actor, game.after(action)
        moves.append([seat, legal, action, *game.table])
    return {"g": number, "start": start, "decks": decks, "moves": moves, "points": game.points}


def bot_choices(seed: int, number: int) -> Iterator[dict]:
    """Every decision with a choice in one game of an opponent against itself with 35 % random moves."""
    rng = random.Random(f"bots/{seed}/{number}")
    bot = DETERMINISTIC[number % len(DETERMINISTIC)]
    game = referee.new_game([rng.sample(range(1, 13), 12) for _ in range(2)], rng.randrange(2))
    while not game.over:
        legal, best = game.legal(), bots.best(bot, game)
        if len(legal) > 1:
            queue, bar, out = game.table
            yield {
                **{"bot": bot, "start": game.start, "ply": game.ply, "queue": queue, "bar": bar, "out": out},
                "hand": [sorted(hand) for hand in game.hands],
                "deck": game.decks,
                "legal": legal,
                "score": [round(score, 6) for score in bots.scores(bot, game)],
                "best": best,
            }
        game = game.after(rng.choice(legal if rng.random() < 0.35 else best))


def games(seed: int, count: int, *, choices: bool = False) -> Iterator[dict]:
    """The records of `count` games, or of the opponents' choices in them."""
    for number in range(count):
        if choices:
            yield from bot_choices(seed, number)
        else:
            yield random_game(seed, number)
