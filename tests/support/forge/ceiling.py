"""What is lost on the way from Forge's AI to a policy: `FORGE_HOME=... python -m tests.support.forge.ceiling --decks
sprint,aggro --pairs 100`.

Forge's AI plays one seat through the interface against itself, every deal from both seats. A perfect imitation wins
half of the games, less what these players lose:

    ai       answers `ai` to every question: what is lost because questions are asked at all
    advice   answers its advice, which is what it would answer to that question alone
    actions  the same, as actions of the environment: what they cannot say, the AI decides and a table counts
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from jaxrl.statistics import student_interval
from jaxrl_envs.forge.engine.decision import ForgeDecision
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.recordings import record_ai
from jaxrl_envs.forge.recordings.demonstrations import answered, result_of
from jaxrl_envs.forge.settings import Deployment
from tests.support.forge.fixtures import SECONDS, Answer

Decision = dict[str, Any]
AI = "ai"  # the answer with which the AI decides


def advice(decision: Decision) -> str:
    """The answer that Forge's AI advises, where it can be said as a line."""
    return AI if decision["advice"] is None else decision["advice"]


class Advised:
    """Answers the advice of Forge's AI as actions of the environment.

    Attributes:
      asked, unsaid: decisions, and those whose advice no actions lead to, by type.
    """

    def __init__(self) -> None:
        self.asked: collections.Counter[str] = collections.Counter()
        self.unsaid: collections.Counter[str] = collections.Counter()

    def __call__(self, decision: Decision) -> str:
        question, kind = ForgeDecision(json.dumps(decision)), decision["decision_type"]
        self.asked[kind] += 1
        if answered(question, decision["advice"]):
            return question.answer
        self.unsaid[kind] += 1
        return AI


def won(fleet: Fleet, deck: str, answer: Answer, seed: int, seat: int) -> float:
    """Share of a game, 0, 0.5 or 1, that `answer` wins on a seat against Forge's AI."""
    both = " ".join([record_ai.deck_argument(deck)] * 2)
    game = record_ai.play(fleet, f"NEWGAME {both} -p {seat + 1} -a -q -v -s {seed}", SECONDS, answer)
    return float(1 + np.nan_to_num(result_of(game)[seat])) / 2  # cut off: a draw


def main() -> None:
    """Prints the share of games won by each player with each deck, with its 95 % interval over pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", default=os.environ.get("FORGE_HOME", ""), help="folder of a Forge release")
    parser.add_argument("--decks", default="sprint,aggro", help="each against itself: shipped names, or paths")
    parser.add_argument("--pairs", type=int, default=100, help="deals, each played from both seats")
    parser.add_argument("--daemons", type=int, default=2)
    args = parser.parse_args()
    advised = Advised()
    players: dict[str, Answer] = {AI: lambda decision: AI, "advice": advice, "actions": advised}
    deals, seats = np.repeat(np.arange(args.pairs), 2).tolist(), [0, 1] * args.pairs
    with Fleet(Deployment(home=args.home, daemons=args.daemons)) as fleet, ThreadPoolExecutor(args.daemons) as threads:
        for deck in args.decks.split(","):
            for name, answer in players.items():
                games = list(threads.map(functools.partial(won, fleet, deck, answer), deals, seats))
                pairs = np.array(games).reshape(-1, 2).mean(axis=1)
                mean, low, high = (100 * each for each in student_interval(pairs))
                print(f"{deck} {name}: {mean:.1f} % ({low:.1f} to {high:.1f}) of {len(deals)} games", flush=True)
    print(f"of {advised.asked.total()} decisions, no actions say the advice in {dict(advised.unsaid)}")


if __name__ == "__main__":
    main()
