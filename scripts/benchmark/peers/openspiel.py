"""`python -m scripts.benchmark.peers.openspiel`: OpenSpiel's C++ ``oh_hell``, the published game nearest to Skull King.

OpenSpiel: Lanctot et al. 2019, https://arxiv.org/abs/1908.09453.

Bids, then tricks, four seats; one chance event per dealt card. Two ways to play it at random inside C++ calls:

- whole rounds, deal and play: ``evaluate_bots`` with uniformly random bots, one call per round;
- play alone: the rollout evaluator from the first bid of one dealt round, thousands of rollouts per call. It is called
  through a tree search of one simulation, which is one evaluation. A tree search cannot start at a chance event, so
  this leaves the deal out: it is what the peer could reach if dealing cost nothing, and no whole game.

With ``num_tricks_fixed`` = N a round has exactly ``players * (1 + N)`` decisions.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

from jaxrl import cli
from jaxrl.diagnose.timing import Contestant
from jaxrl_envs.adapters import require
from scripts.benchmark.peers import our_random_play
from scripts.benchmark.report import compare

PLAYERS = 4
LONGEST_ROUND = 10
ROUNDS_PER_CALL = 2000


def contestants(seed: int = 1) -> list[Contestant]:
    """Returns the peer's fastest ways to play; `units` are exact counts of decisions."""
    return [
        _whole_rounds(range(1, LONGEST_ROUND + 1), seed, "OpenSpiel oh_hell, whole rounds of 1-10 tricks"),
        _whole_rounds([LONGEST_ROUND], seed, "OpenSpiel oh_hell, whole rounds of 10 tricks"),
        _play_alone(range(1, LONGEST_ROUND + 1), seed, "OpenSpiel oh_hell, play without the deal, 1-10 tricks"),
        _play_alone([LONGEST_ROUND], seed, "OpenSpiel oh_hell, play without the deal, 10 tricks"),
    ]


def decisions(tricks: int) -> int:
    """Returns decisions of one round: a bid per seat and a card per seat and trick."""
    return PLAYERS * (1 + tricks)


def _pyspiel() -> Any:
    return require("pyspiel", "OpenSpiel's oh_hell", "jaxrl[openspiel]")


def _game(tricks: int) -> Any:
    return _pyspiel().load_game("oh_hell", {"players": PLAYERS, "num_tricks_fixed": tricks})


def _whole_rounds(lengths: range | list[int], seed: int, name: str) -> Contestant:
    pyspiel = _pyspiel()
    starts = [_game(tricks).new_initial_state() for tricks in lengths]
    bots = [pyspiel.make_uniform_random_bot(seat, seed + seat) for seat in range(PLAYERS)]
    repeats = 100

    def block() -> None:
        for number in range(repeats):
            for start in starts:
                pyspiel.evaluate_bots(start.clone(), bots, seed + number)

    return Contestant(name, float(repeats * sum(decisions(tricks) for tricks in lengths)), block, {"deal": True})


def _play_alone(lengths: range | list[int], seed: int, name: str) -> Contestant:
    evaluations = [_evaluation(tricks, seed) for tricks in lengths]

    def block() -> None:
        for evaluate in evaluations:
            evaluate()

    units = ROUNDS_PER_CALL * sum(decisions(tricks) for tricks in lengths)
    return Contestant(name, float(units), block, {"deal": False})


def _evaluation(tricks: int, seed: int) -> Callable[[], None]:
    pyspiel, game = _pyspiel(), _game(tricks)
    state = game.new_initial_state()
    generator = random.Random(seed)
    while state.is_chance_node():
        actions, weights = zip(*state.chance_outcomes(), strict=True)
        state.apply_action(generator.choices(actions, weights)[0])
    evaluator = pyspiel.RandomRolloutEvaluator(n_rollouts=ROUNDS_PER_CALL, seed=seed)
    search = pyspiel.MCTSBot(game, evaluator, 1.0, 1, 16, False, seed, False)  # one simulation, no solver, quiet
    return lambda: search.step(state)


def main() -> int:
    """Measures and prints."""
    compare("environment steps", our_random_play("skull_king"), contestants())
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
