"""Settings of a search player."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from jaxrl_envs.shared.errors import UserError

PLANNERS = ("halving", "tree")
OBJECTIVES = ("return", "wins", "standing")
LEARNED = "learned"
BELIEFS = ("uniform", LEARNED)
FEWEST_SIMULATIONS = 4
SEQUENCE = 12  # decisions of a sequence of actions (`shooting`), where no depth is named
SELF = "self"  # the policy itself as the opponent model, or in simulated games


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """Settings of a search.

    Where games are played to their end (halving without a depth), returns count as in evaluations, undiscounted. Where
    a network's values stand for the rest of a game (tree, depth), results are on the network's scale: rewards are
    discounted as in its training, once for each later decision of the seat."""

    # the most simulated games per move, over all worlds and actions (in `tree`: simulations of the tree, over all
    # worlds; in a simultaneous game: sequences of `depth` actions)
    simulations: int = 300
    # "halving" is sequential halving over playouts to the end of the game; "tree" grows a tree in each world, with
    # the network's values at its leaves
    planner: str = "halving"
    # "return" maximises the expected return, "wins" the share of games won (a draw is not a win), "standing" the
    # game's own evaluation where this part of it ends, such as a round (`Env.standing`, halving)
    objective: str = "return"
    worlds: int = 0  # worlds drawn per move; 0 leaves it to the planner
    # worlds kept during the game and weighted by the others' actions; 0 draws new ones at every move
    particles: int = 256
    candidates: int = 16  # the most actions tried, the likeliest ones by the prior
    rounds: int = 4  # rounds of sequential halving
    prior: float = 0.01  # weight of the network's log-probability beside the simulated results, in returns per nat
    # own moves of the searching seat in a simulated game before the network evaluates the position; 0: games are
    # played to the end (halving)
    depth: int = 0
    # the share of the others' actions assumed to be uniformly random, which keeps a belief from overconfidence
    doubt: float = 0.02
    # "uniform" draws worlds uniformly, and keeps `particles` where the game can; "learned" draws new ones at every
    # move from a belief network (`ppo.belief`)
    belief: str = "uniform"
    # the played move is drawn from policy * exp(result / temperature) with the lowest temperature at which the KL
    # divergence from the policy stays within this many nats (Jacob et al. 2022); None plays the best result
    kl: float | None = None
    sure: float = 1.0  # probability at or above which the policy's likeliest action is played without a search
    greedy: bool = False  # the searching seat's simulated moves are its policy's likeliest ones instead of sampled ones
    scale: float = 8.0  # improved policies are softmax(log prior + scale * simulated result), for learning from search
    batch: int = 16384  # simulated games side by side, which bounds the memory

    def __post_init__(self) -> None:
        """Raises UserError for a setting out of its range."""
        if self.simulations < FEWEST_SIMULATIONS:
            raise UserError(f"a search needs at least {FEWEST_SIMULATIONS} simulations, got {self.simulations}.")
        if self.planner not in PLANNERS:
            raise UserError(f"the planner must be one of {', '.join(PLANNERS)}, got {self.planner!r}.")
        if self.objective not in OBJECTIVES:
            raise UserError(f"the objective must be one of {', '.join(OBJECTIVES)}, got {self.objective!r}.")
        if self.belief not in BELIEFS:
            raise UserError(f"the belief must be one of {', '.join(BELIEFS)}, got {self.belief!r}.")
        if self.kl is not None and not self.kl > 0.0:
            raise UserError(f"the KL divergence of a search must be above 0, got {self.kl}; leave it out for the best.")
        if not 0.0 < self.sure <= 1.0:
            raise UserError(f"the probability from which a search is sure must be above 0 and at most 1: {self.sure}.")
        if self.objective == "standing" and (self.planner != "halving" or self.depth):
            raise UserError(
                "the objective 'standing' evaluates a position where a part of the game ends: search for it with the "
                "planner 'halving' and depth 0."
            )
        for name in ("worlds", "particles", "prior", "depth"):
            if getattr(self, name) < 0:
                raise UserError(f"the {name} of a search must be at least 0, got {getattr(self, name)}.")
        if not 0.0 <= self.doubt <= 1.0:
            raise UserError(f"the doubt of a search must be between 0 and 1, got {self.doubt}.")


class SearchRequest(NamedTuple):
    """A search as a user asks for it."""

    settings: SearchSettings
    model: str = SELF  # the opponent model: self, opponent, types or bot:NAME
    rollouts: str = SELF  # the policy of the searching seat in simulated games: self or bot:NAME
