"""A search against known opponents, as `jaxrl evaluate` and `jaxrl imitate` ask for it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from jaxrl.algorithms.registry import make_algorithm
from jaxrl.config import Config
from jaxrl.matches.evaluate import Matchup
from jaxrl.matches.tables import Row
from jaxrl.players.player import Player
from jaxrl.players.spec import BOT, parse
from jaxrl.runs.directory import TrainedRun, make_env, make_evaluation_env
from jaxrl.search.belief import Believe
from jaxrl.search.player import Search, make_search
from jaxrl.search.policies import (
    Guide,
    PlayoutPolicy,
    SearchParams,
    bot_guide,
    named_policy,
    network_guide,
    network_policy,
    player_policy,
    switch_policy,
    types_policy,
)
from jaxrl.search.settings import LEARNED, SELF, SearchRequest, SearchSettings
from jaxrl.search.shooting import Shooting, make_shooting
from jaxrl_envs.contract.env import Env, PyTree
from jaxrl_envs.shared.errors import UserError, nearest

OPPONENT, TYPES = "opponent", "types"  # opponent models beside self and bot:NAME
SCALES = ("reward", "episode")  # options of games that decide what a return is
LANES = 1024  # games side by side on one device; each carries its particles


def other_scale(config: Config) -> list[str]:
    """Returns the options that make returns in training other numbers than in evaluation: reward, episode."""
    train, table = make_env(config), make_evaluation_env(config)
    missing = object()
    return [name for name in SCALES if getattr(train, name, missing) != getattr(table, name, missing)]


def warn_of_scale(config: Config, settings: SearchSettings) -> None:
    """Warns if a network trained on another scale of returns evaluates the searched positions."""
    names = other_scale(config)
    if settings.objective == "wins" and config.env.options.get("reward") == "wins":
        names = [name for name in names if name != "reward"]  # both are +1 for a win and -1 otherwise
    if names and (settings.depth or settings.planner == "tree"):
        print(
            f"warning: the network was trained with another {' and '.join(names)} than is evaluated, so its values are "
            "not on the scale of the searched games: play them to the end (halving, --search-depth 0).",
            file=sys.stderr,
        )


def own_policy(
    config: Config, env: Env, settings: SearchSettings, bot: str | None = None, rollouts: str = SELF
) -> tuple[PlayoutPolicy, Guide]:
    """Returns the policy of the searching seat in simulated games, and its guide: a network, or a bot by name. Raises
    UserError: a tree without a network, or bots in the rollouts of a recurrent network."""
    played = None if rollouts == SELF else _bot_of("--search-rollouts", rollouts, env)
    if bot is None:
        network = make_algorithm(config, env).network
        if played is None:
            return network_policy(network, greedy=settings.greedy), network_guide(network)
        if network.remembers:
            raise UserError("--search-rollouts: a bot cannot play on for a network that remembers; leave it out.")
        return named_policy(env, played), network_guide(network)
    if settings.planner == "tree" or settings.depth:
        raise UserError("a tree and a limited depth need a network's values: search with a run, or play to the end.")
    return named_policy(env, played or bot), bot_guide(env.bots[bot])


def _bot_of(option: str, text: str, env: Env) -> str:
    """Returns the bot that an option names as bot:NAME."""
    spec = parse(text)
    if spec.kind != BOT:
        raise UserError(f"{option} must be self or bot:NAME, got {text!r}.")
    if spec.name not in env.bots:
        raise UserError(f"{option}: there is no bot {spec.name!r} in this game: {nearest(spec.name, env.bots)}")
    return spec.name


@dataclasses.dataclass(frozen=True)
class Searcher:
    """A search against known opponents: the search, and the parameters of the opponent model for each of them."""

    search: Search | Shooting
    models: list[PyTree]
    model: str  # for records
    rollouts: str = SELF

    def record(self) -> dict[str, Any]:
        """Returns the record for evaluation.json; `particles` is 0 with a learned belief, which keeps none."""
        settings = dataclasses.asdict(self.search.settings) | {"particles": self.search.particles}
        return {"model": self.model, "rollouts": self.rollouts} | settings

    def __str__(self) -> str:
        settings, particles = self.search.settings, self.search.particles
        if isinstance(self.search, Shooting):
            return f"search with {settings.simulations} sequences of {settings.depth} actions a decision"
        plain = f"{particles} particles" if particles else "no belief"
        belief = "learned belief" if settings.belief == LEARNED else plain
        near = "" if settings.kl is None else f", within {settings.kl:g} nats of the policy"
        return (
            f"search with {settings.simulations} simulations a move ({settings.planner}, model {self.model}, "
            f"rollouts {self.rollouts}, objective {settings.objective}, "
            f"{belief}{near})"
        )


def make_searcher(
    env: Env, config: Config, opponents: Sequence[Player], request: SearchRequest, bot: str | None = None
) -> Searcher:
    """Returns a search by the network of `config` (or by a bot) against each of some opponents. Raises UserError: an
    unknown model or bot, or a game that cannot be searched. `bot`: the candidate, if it is a bot."""
    settings, model, rollouts = request
    if env.simultaneous:
        if model != SELF or rollouts != SELF:
            raise UserError(f"{env.id} is searched with the policy in all seats: leave out who plays them.")
        algorithm = None if bot else make_algorithm(config, env)
        shooting = make_shooting(env, make_env(config), algorithm, settings)
        return Searcher(shooting, [None] * len(opponents), model)
    own, guide = own_policy(config, env, settings, bot, rollouts)
    other: PlayoutPolicy | None = None
    models: list[PyTree] = [None] * len(opponents)
    if model == OPPONENT:
        names = [player.name for player in opponents]
        if all(player.bot for player in opponents):
            other, models = switch_policy(env, names), [jnp.int32(i) for i in range(len(names))]
        elif len(opponents) == 1:
            other, models = player_policy(opponents[0]), [opponents[0].params]
        else:
            raise UserError("--search-model opponent wants bots, or one run, at the other seats.")
    elif model == TYPES:
        other = types_policy(env, list(env.bots))
    elif parse(model).kind == BOT:
        other = named_policy(env, _bot_of("--search-model", model, env))
    elif model != SELF:
        raise UserError(f"--search-model must be self, opponent, types or bot:NAME, got {model!r}.")
    believe = learned_belief(config, env, bot) if settings.belief == LEARNED else None
    discount = 1.0 if bot else make_algorithm(config, env).discount
    search = make_search(env, settings, own=own, guide=guide, model=other, believe=believe, discount=discount)
    return Searcher(search, models, model, rollouts)


def learned_belief(config: Config, env: Env, bot: str | None) -> Believe:
    """Returns the belief network of a policy. Raises UserError if it was trained without one."""
    believe = None if bot else make_algorithm(config, env).believe
    if believe is None:
        who = "a bot has none" if bot else "this policy was trained without one (ppo.belief)"
        raise UserError(f"--search-belief learned: {who}; search with a run that learned it, or with a uniform belief.")
    return believe


def beliefs_of(run: TrainedRun | None, settings: SearchSettings) -> list[PyTree]:
    """Returns the parameters `SearchParams.belief` of each seed of a run; [None] for others than runs. Raises
    UserError: a learned belief of a policy file, which holds none."""
    if settings.belief != LEARNED:
        return [None] * (len(run.params) if run else 1)
    if run is None:
        raise UserError("--search-belief learned: a policy file holds no belief; search with the run it was made of.")
    return run.beliefs


def evaluate_search(
    env: Env,
    searcher: Searcher,
    candidates: Sequence[Player],
    opponents: Sequence[Player],
    beliefs: Sequence[PyTree],
    **settings: Any,
) -> list[Row]:
    """Evaluates candidates that search, each with its belief, against each opponent; `settings` as for `Matchup`."""
    if not opponents:
        return []
    # Each bot is a program of its own, with the random numbers of its place among the opponents.
    each = [dataclasses.replace(player, bot="") for player in opponents]
    matchup = Matchup(env, searcher.search.player(), each, **({"lanes": LANES} | settings))
    return [
        Row(f"{candidate.name}+search", player.name, matchup.play(SearchParams(candidate.params, model, belief), index))
        for candidate, belief in zip(candidates, beliefs, strict=True)
        for index, (player, model) in enumerate(zip(opponents, searcher.models, strict=True))
    ]
