"""Upper bound of imitation: `FORGE_HOME=... python -m tests.support.forge.ceiling --decks sprint,aggro --pairs 100`.

Forge's AI plays one seat through the daemon's protocol against itself, each deal once from either seat. A perfect clone
wins as many games as:

    ai       lets the AI decide every question (`ai`): 50 % unless the protocol itself is a handicap
    advice   answers with the AI's advice to each question
    actions  the same, encoded as actions of the environment; the AI decides where they cannot express the advice
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from jaxrl.statistics import student_interval
from jaxrl_envs.forge.engine.decision import ForgeDecision
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.recordings import record_ai
from jaxrl_envs.forge.recordings.demonstrations import answered, result_of
from jaxrl_envs.forge.recordings.recording import quoted
from jaxrl_envs.forge.settings import Deployment
from tests.support.forge.fixtures import SECONDS, Answer

Decision = dict[str, Any]
AI = "ai"  # the answer with which the AI decides


def advice(decision: Decision) -> str:
    """The AI's advice; leaves the decision to the AI if its advice cannot be written as an answer."""
    return AI if decision["advice"] is None else decision["advice"]


class Advised:
    """Answers with the AI's advice, encoded as actions of the environment.

    Attributes:
      asked: number of decisions.
      unsaid: number of decisions whose advice no actions express, by type.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.unsaid: collections.Counter[str] = collections.Counter()

    def __call__(self, decision: Decision) -> str:
        question = ForgeDecision(json.dumps(decision))
        self.asked += 1
        answered(question, decision["advice"])
        if not question.answered:
            self.unsaid[decision["decision_type"]] += 1
            return AI
        return question.answer


def won(fleet: Fleet, deck: str, answer: Answer, seed: int, seat: int) -> float:
    """Plays one game against Forge's AI; 1 if `answer`, at `seat`, wins, 0.5 for a draw, 0 if it loses."""
    both = " ".join([quoted(record_ai.deck_argument(deck))] * 2)
    game = record_ai.play(fleet, f"NEWGAME {both} -p {seat + 1} -a -q -v -s {seed}", SECONDS, answer)
    return float(1 + np.nan_to_num(result_of(game)[seat])) / 2  # cut off: a draw


def main() -> None:
    """Prints the win rate of each player with each deck and its 95 % interval over pairs of games."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decks", default="sprint,aggro", help="each against itself: shipped names, or paths")
    parser.add_argument("--pairs", type=int, default=100, help="deals, each played from both seats")
    parser.add_argument("--daemons", type=int, default=2)
    args = parser.parse_args()
    advised = Advised()
    players: dict[str, Answer] = {AI: lambda decision: AI, "advice": advice, "actions": advised}
    deals, seats = np.repeat(np.arange(args.pairs), 2).tolist(), [0, 1] * args.pairs
    with Fleet(Deployment(daemons=args.daemons)) as fleet, ThreadPoolExecutor(args.daemons) as threads:
        for deck in args.decks.split(","):
            for name, answer in players.items():
                games = list(threads.map(functools.partial(won, fleet, deck, answer), deals, seats))
                pairs = np.array(games).reshape(-1, 2).mean(axis=1)
                mean, low, high = (100 * each for each in student_interval(pairs))
                print(f"{deck} {name}: {mean:.1f} % ({low:.1f} to {high:.1f}) of {len(deals)} games", flush=True)
    print(f"advice without actions in {advised.unsaid.total()} of {advised.asked} decisions {dict(advised.unsaid)}")


if __name__ == "__main__":
    main()
