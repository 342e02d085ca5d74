"""The game loop on the host: order of calls, games that are set back, and its keys."""

from __future__ import annotations

import jax
import numpy as np

from jaxrl.matches.host_loop import KeyChain, play_host_game


class Counter:
    """A game of three steps whose state is the sum of its actions."""

    def __init__(self):
        self.state, self.time = 0, 0

    @property
    def over(self) -> bool:
        return self.time == 3

    def step(self, action, key):
        self.state, self.time = self.state + action, self.time + 1
        return self.state


def words(key) -> list[int]:
    return np.asarray(jax.random.key_data(key)).tolist()


def test_every_step_is_recorded_with_the_states_around_it():
    seen = []
    game = Counter()
    play_host_game(game, lambda time: (time, None), lambda time: time + 1, lambda *step: seen.append(step))
    assert seen == [(0, 1, 1), (1, 2, 3), (3, 3, 6)] and game.over


def test_a_game_that_is_set_back_meets_the_same_keys_again():
    game, met = Counter(), []

    def ask(key):
        met.append((game.time, words(key)))
        if len(met) == 3:
            game.state, game.time = 1, 1
            return None
        return 1

    play_host_game(game, KeyChain(jax.random.key(7)), ask, lambda *_: None)
    assert [time for time, _ in met] == [0, 1, 2, 1, 2] and met[3] == met[1] and met[4] == met[2]


def test_keys_are_split_one_after_the_other():
    chain, key = KeyChain(jax.random.key(1)), jax.random.key(1)
    for time in range(3):
        key, for_players, for_chance = jax.random.split(key, 3)
        assert list(map(words, chain(time))) == [words(for_players), words(for_chance)]
