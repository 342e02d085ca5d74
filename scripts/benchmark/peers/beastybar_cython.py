"""`python -m scripts.benchmark.peers.beastybar_cython`: the public Cython engine of Beasty Bar beside ours.

It is https://github.com/diegooprime/beastybar, folder ``_01_simulator/_cython``, and no package: build its extension in
a clone of that repository and put the clone on PYTHONPATH. Random play in two ways, with one thread each:

- batch: legal masks of all games, a choice by NumPy, one step of all games; what its training does;
- native: its own random choice game by game, one step of all games; the faster one.

Its rules differ in details (specification 13.2), which hardly changes the length of a game. A block always plays the
same games, so their decisions are counted once.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrl import cli
from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.shared.errors import UserError
from scripts.benchmark.peers import our_random_play
from scripts.benchmark.report import compare

Choose = Callable[[Any, Any], Any]  # (states, numbers of running games i64[n]) -> actions i64[n]


def contestants(*, games: int = 2048) -> list[Contestant]:
    """Returns both ways to play; `units` are exact counts of decisions."""
    return [
        _contestant("beastybar Cython, batch interface", _by_mask, games),
        _contestant("beastybar Cython, native random choice", _native, games),
    ]


def _contestant(name: str, make: Callable[[int], Choose], games: int) -> Contestant:
    decisions = play(make(games), games)
    info = {"batch": games, "decisions_per_game": decisions / games}
    return Contestant(name, float(decisions), lambda: play(make(games), games), info)


def play(choose: Choose, games: int) -> int:
    """Plays whole games side by side; the number of decisions."""
    from _01_simulator._cython import _cython_core as engine

    states = engine.GameStateArray(games)
    for index in range(games):
        states.init_game(index, index + 1)
    running, decisions = np.arange(games), 0
    while len(running):
        engine.step_batch_parallel(states, running, choose(states, running), 1)
        decisions += len(running)
        running = running[~engine.is_terminal_batch(states, running)]
    return decisions


def _by_mask(games: int) -> Choose:
    from _01_simulator._cython import _cython_core as engine

    generator = np.random.default_rng(1)
    buffer = np.zeros((games, engine.PY_ACTION_DIM), np.float32)

    def choose(states: Any, running: Any) -> Any:
        masks = buffer[: len(running)]
        masks[:] = 0.0
        engine.get_legal_masks_parallel(states, running, masks, 1)
        return np.argmax(generator.random(masks.shape, np.float32) * masks, axis=1)

    return choose


def _native(games: int) -> Choose:
    from _01_simulator._cython import _cython_core as engine

    del games
    generator = np.random.default_rng(1)

    def choose(states: Any, running: Any) -> Any:
        seeds = generator.integers(1, 2**32, len(running), np.uint32).tolist()
        pick = engine.select_random_action
        actions = (pick(states, index, seed) for index, seed in zip(running.tolist(), seeds, strict=True))
        return np.fromiter(actions, np.int64, len(running))

    return choose


def main() -> int:
    """Measures and prints."""
    if importlib.util.find_spec("_01_simulator") is None:
        raise UserError("clone github.com/diegooprime/beastybar, build _01_simulator/_cython, put it on PYTHONPATH.")
    compare("environment steps", our_random_play("beasty_bar"), contestants())
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
