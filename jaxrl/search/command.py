"""Search on the command line: the options of `jaxrl evaluate --search` and `jaxrl distill`, and who is modelled how."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from envs.core import Env, PyTree
from envs.errors import UserError, nearest
from jaxrl.config import Config
from jaxrl.match import Matchup, Player
from jaxrl.networks.factory import make_network
from jaxrl.search.player import Search, make_search
from jaxrl.search.policies import (
    Guide,
    Policy,
    SearchParams,
    act_policy,
    bot_policy,
    network_guide,
    network_policy,
    no_guide,
    switch_policy,
)
from jaxrl.search.settings import OBJECTIVES, PLANNERS, SearchSettings
from jaxrl.tables import Row

SELF, OPPONENT, BOT_PREFIX = "self", "opponent", "bot:"
SELF_DOUBT, SELF_PRIOR = 0.25, 0.05
LANES = 1024  # games side by side on one device; each carries its particles


def add_search_arguments(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """The options that describe a search."""
    known = SearchSettings()
    parser.add_argument(
        "--search", type=int, metavar="SIMS", required=required, help="look ahead: simulated games per move"
    )
    parser.add_argument(
        "--search-model",
        default=SELF,
        metavar="MODEL",
        help="who the others are taken for: self (the policy itself), opponent (who it is), bot:NAME (default: self)",
    )
    parser.add_argument("--search-planner", default=known.planner, choices=PLANNERS, help="default: %(default)s")
    parser.add_argument(
        "--search-objective", default=known.objective, choices=OBJECTIVES, help="what is maximised (default: return)"
    )
    parser.add_argument("--worlds", type=int, default=known.worlds, help="hidden cards drawn per move (default: auto)")
    parser.add_argument(
        "--search-depth",
        type=int,
        default=known.depth,
        metavar="MOVES",
        help="own moves before the network judges (halving); 0: play to the end (default: %(default)s)",
    )
    parser.add_argument(
        "--particles",
        type=int,
        default=known.particles,
        help="worlds of the belief; 0: none (default: %(default)s)",
    )


def settings_of(args: argparse.Namespace) -> SearchSettings:
    """The settings that the options describe. Raises UserError for one out of its range."""
    # The policy itself is a wrong model of everybody else: what it says of their cards and plans counts for less.
    unsure, known = args.search_model == SELF, SearchSettings()
    return SearchSettings(
        doubt=SELF_DOUBT if unsure else known.doubt,
        prior=SELF_PRIOR if unsure else known.prior,
        simulations=args.search,
        planner=args.search_planner,
        objective=args.search_objective,
        worlds=args.worlds,
        particles=args.particles,
        depth=args.search_depth,
    )


def own_policy(config: Config, env: Env, settings: SearchSettings, bot: str | None = None) -> tuple[Policy, Guide]:
    """How the searching seat plays on in simulated games, and what guides it: a network, or a bot by name.

    Raises:
      UserError: a tree is to be grown without a network.
    """
    if bot is None:
        network = make_network(config.network, env)
        return network_policy(network, greedy=settings.greedy), network_guide(network)
    if settings.planner == "tree" or settings.depth:
        raise UserError("a tree and a limited depth need a network's values: search with a run, or play to the end.")
    return bot_policy(env.bots[bot]), no_guide


@dataclasses.dataclass(frozen=True)
class Searcher:
    """A search against known tables: the search, and the model's parameters at each of them."""

    search: Search
    models: list[PyTree]
    model: str  # for records

    def record(self) -> dict[str, Any]:
        """For evaluation.json."""
        return {"model": self.model} | dataclasses.asdict(self.search.settings)

    def __str__(self) -> str:
        settings, belief = self.search.settings, self.search.belief.particles
        return (
            f"search with {settings.simulations} simulations a move ({settings.planner}, model {self.model}, "
            f"objective {settings.objective}, {f'{belief} particles' if belief else 'no belief'})"
        )


def make_searcher(
    env: Env, config: Config, opponents: Sequence[Player], settings: SearchSettings, model: str, bot: str | None = None
) -> Searcher:
    """A search by the network of `config` (or by a bot) against each of some opponents.

    Args:
      env: the game.
      config: names the network.
      opponents: who sits at the other seats of each table; bots, or one trained run.
      settings: of the search.
      model: self, opponent or bot:NAME.
      bot: the candidate, if it is a bot.

    Raises:
      UserError: an unknown model, or a game that cannot be searched.
    """
    own, guide = own_policy(config, env, settings, bot)
    other: Policy | None = None
    models: list[PyTree] = [None] * len(opponents)
    if model == OPPONENT:
        names = [player.name for player in opponents]
        if all(player.params is None for player in opponents):
            other, models = switch_policy(env, names), [jnp.int32(i) for i in range(len(names))]
        elif len(opponents) == 1:
            other, models = act_policy(opponents[0].act), [opponents[0].params]
        else:
            raise UserError("--search-model opponent wants bots, or one run, at the other seats.")
    elif model.startswith(BOT_PREFIX):
        name = model.removeprefix(BOT_PREFIX)
        if name not in env.bots:
            raise UserError(f"--search-model: there is no bot {name!r} in this game: {nearest(name, env.bots)}")
        other = bot_policy(env.bots[name])
    elif model != SELF:
        raise UserError(f"--search-model must be self, opponent or bot:NAME, got {model!r}.")
    return Searcher(make_search(env, settings, own=own, guide=guide, model=other), models, model)


def evaluate_search(
    env: Env, searcher: Searcher, candidates: Sequence[Player], opponents: Sequence[Player], **settings: Any
) -> list[Row]:
    """Rows for candidates that search, against each opponent; `settings` are those of `Matchup`."""
    if not opponents:
        return []
    search = searcher.search
    matchup = Matchup(
        env, search.act, [player.act for player in opponents], memory=search.memory, **({"lanes": LANES} | settings)
    )
    others = [player.params for player in opponents]
    return [
        Row(f"{candidate.name}+search", player.name, matchup(SearchParams(candidate.params, model), others, index))
        for candidate in candidates
        for index, (player, model) in enumerate(zip(opponents, searcher.models, strict=True))
    ]
