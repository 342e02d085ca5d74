"""The sections `train` and `exploit`: the length of a run, and best responses."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any

from jaxrl.algorithms.ppo.config import NAME as DEFAULT_ALGORITHM
from jaxrl.players.spec import HUB, ZOO, split_checkpoint
from jaxrl_envs.shared import files, user_code
from jaxrl_envs.shared.errors import UserError, nearest
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section, divides

if TYPE_CHECKING:
    from jaxrl.config.schema import Config
    from jaxrl_envs.contract.env import Env

FOLLOWS = "follows train.total_steps if not given"  # see `FOLLOWING`; the defaults here fit the default length
NEWEST = "newest"  # checkpoint of a run
MEAN = ""  # the mean over the opponents, among their names
RETURN = "return"  # the mean return over the opponents, among their names in `train.milestones`
MAX_BATCH = 2**31 - 1  # positions in a batch are i32 in the compiled program, and so are updates


@dataclasses.dataclass(frozen=True)
class StopRules:
    """Rules that end a training before its last update; the first one that holds counts."""

    plateau: int = option(0, "evaluations during training in a row without a better one (evaluate.best_by)", minimum=0)
    win_rate: float | dict[str, float] = option(
        0.0,
        "win rate of an evaluation during training, mean over opponents, or of each that is named, e.g. {hard: 0.7}",
        minimum=0.0,
        maximum=1.0,
        words="a number from 0 to 1, or a mapping from opponents to such numbers",
    )
    minutes: float = option(0.0, "minutes by the clock, with compilation, evaluations and waits", minimum=0.0)
    cpu_minutes: float = option(0.0, "CPU minutes of the updates alone, over its cores (time/cpu_seconds)", minimum=0.0)

    @property
    def by_opponent(self) -> dict[str, float]:
        """Win rates by opponent; that of the mean over opponents by the name `MEAN`."""
        rates = self.win_rate if isinstance(self.win_rate, dict) else {MEAN: self.win_rate}
        return {name: rate for name, rate in rates.items() if rate}


@dataclasses.dataclass(frozen=True)
class TrainConfig(Section):
    """Length of the run and what happens how often."""

    algorithm: str = option(
        DEFAULT_ALGORITHM,
        "ppo, dqn or hierarchical, each with a section of its name, or package.module:Class of your own",
        pattern=rf"[A-Za-z_]\w*|{user_code.NAME}",
        words="a name or package.module:Class",
        runs=user_code.permissions,
    )
    num_envs: int = option(512, f"parallel games over all devices; {FOLLOWS}", minimum=1)
    num_steps: int = option(64, f"steps of each game per update; {FOLLOWS}", minimum=1)
    stagger: int = option(
        0, "random decisions before training, from 0 in the first game to this many in the last", minimum=0
    )
    total_steps: int = option(
        10_000_000,
        "environment steps per seed, rounded up to whole calls; of host games: decisions, but those of bots",
        minimum=1,
    )
    updates_per_call: int = option(8, f"updates per compiled call, which logs one line; {FOLLOWS}", minimum=1)
    checkpoint_every: int = option(24, f"updates between checkpoints, five minutes at most; {FOLLOWS}", minimum=1)
    keep: int = option(3, "newest checkpoints to keep, besides the best one", minimum=1)
    keep_every: int = option(0, "also keep every checkpoint at a multiple of this many updates; 0: none", minimum=0)
    evaluate_every: int = option(24, f"updates between evaluations during training; 0: off; {FOLLOWS}", minimum=0)
    milestones: dict[str, tuple[float, ...]] = option(
        {},
        "win rates by opponent, and returns, mean over opponents, e.g. {hard: [0.5, 0.6], return: [10, 20]}: logs "
        "steps and time when an evaluation first reaches each",
    )
    stop: StopRules = option(StopRules(), "rules that end the training early; 0: off")
    from_run: str = option(
        "",
        "run to start from (a path, or a name in run.directory), at its newest checkpoint or as "
        "RUN@UPDATE, or the policy zoo:NAME, hf:USER/REPO or FILE.jaxrl; empty: none",
    )

    @property
    def from_policy(self) -> bool:
        """Whether `from_run` names a policy, not a run."""
        return self.from_run.startswith((ZOO, HUB)) or self.from_run.endswith(".jaxrl")

    @property
    def from_checkpoint(self) -> str:
        """The checkpoint that `from_run` names: a number of updates, or "newest"."""
        checkpoint = "" if self.from_policy else split_checkpoint(self.from_run)[1]
        return NEWEST if files.number(checkpoint) is None else checkpoint

    @property
    def from_update(self) -> int:
        """The same in updates; 0 also for the newest and for a policy."""
        return 0 if self.from_checkpoint == NEWEST else int(self.from_checkpoint)

    @property
    def from_name(self) -> str:
        """`from_run` without its checkpoint."""
        return self.from_run if self.from_checkpoint == NEWEST else split_checkpoint(self.from_run)[0]

    def sized(self, config: Config, given: Set[str]) -> TrainConfig:
        """With the keys of `FOLLOWING` that are not given made from the others."""
        for key, make in FOLLOWING.items():
            if f"train.{key}" not in given:
                change: dict[str, Any] = {key: make(config, given)}
                config = dataclasses.replace(config, train=dataclasses.replace(config.train, **change))
        return config.train

    def check(self, config: Config) -> None:
        """Rejects batches and lengths that overflow, and checkpoints between two calls."""
        if config.batch_size > MAX_BATCH:
            raise UserError(f"train.num_envs * train.num_steps must be at most {MAX_BATCH}, got {config.batch_size}.")
        if config.algorithm and ":" not in self.algorithm:
            raise UserError(
                f"the section algorithm is for one of your own: the settings of {self.algorithm} are the section "
                f"{self.algorithm}."
            )
        updates = -(-self.total_steps // config.batch_size)
        if (counted := config.num_updates) > MAX_BATCH:
            raise UserError(
                f"train.total_steps ({self.total_steps}) make {counted} updates of {config.batch_size} steps, more "
                f"than the {MAX_BATCH} that are counted: lower it."
            )
        if self.updates_per_call > updates:
            raise UserError(
                f"train.updates_per_call ({self.updates_per_call}) must be at most the {updates} update(s) that "
                f"train.total_steps ({self.total_steps}) make with {config.batch_size} steps each."
            )
        self.check_origin(config)
        if (self.milestones or self.stop.plateau or self.stop.by_opponent) and not self.evaluate_every:
            raise UserError(
                "train.milestones, train.stop.plateau and train.stop.win_rate look at evaluations during training, and "
                "train.evaluate_every is 0: set it to a number of updates."
            )
        for name, rates in self.milestones.items():
            if name != RETURN and not all(0.0 < rate <= 1.0 for rate in rates):
                raise UserError(f"train.milestones.{name} must be win rates, above 0 and at most 1, got {list(rates)}.")
        if self.keep_every:  # or there would be no checkpoint at those updates
            divides(self.keep_every, self.updates_per_call, "train.keep_every", "train.updates_per_call")
            divides(self.keep_every, self.checkpoint_every, "train.keep_every", "train.checkpoint_every")
        if config.num_updates <= self.from_update:
            raise UserError(
                f"train.total_steps ({self.total_steps}) make {config.num_updates} updates, but train.from_run begins "
                f"after {self.from_update}: steps count from the beginning of the first run; raise train.total_steps."
            )

    def check_game(self, config: Config, env: Env) -> None:
        """Rejects milestones and stop rules of opponents that evaluations do not have."""
        known = list(config.evaluate.opponents) or list(env.bots)
        milestones = [name for name in self.milestones if name != RETURN]
        for key, names in (("train.milestones", milestones), ("train.stop.win_rate", list(self.stop.by_opponent))):
            if names and env.num_sides < 2:
                raise UserError(f"{key}: {config.env.id} has one {env.side_name} only, so no side wins: leave it out.")
            for name in names:
                if name and name not in known:
                    raise UserError(f"{key}: {name!r} is no opponent of the evaluations: {nearest(name, known)}")

    def check_origin(self, config: Config) -> None:
        """Rejects a run that continues from itself."""
        if self.from_run and self.from_name == config.run.name:
            raise UserError(f"train.from_run is the run {config.run.name!r} itself: continue it with `jaxrl resume`.")

    def without_deployment(self) -> TrainConfig:
        """Returns the section without the checkpoint of `from_run`, which a run writes out when it begins."""
        return dataclasses.replace(self, from_run=self.from_name)


@dataclasses.dataclass(frozen=True)
class ExploitConfig(Section):
    """The exploit cycle: best responses trained against the frozen current policy, which measure how well it holds."""

    every: int = option(0, "updates between exploit cycles during training; 0: off", minimum=0)
    updates: int = option(100, "updates of a best response, rounded up to whole calls", minimum=1)
    seeds: int = option(2, "best responses trained side by side, of which the best counts", minimum=1)
    num_envs: int = option(0, "parallel games per best response; 0: train.num_envs", minimum=0)
    learning_rate: float = option(1e-3, "initial learning rate, annealed to 0", above=0.0)
    start: str = option(
        "both",
        "initial parameters: the policy's, new ones (scratch), or both in turn",
        choices=("both", "policy", "scratch"),
    )


# ---- defaults that follow the size of the run -----------------------------------------------------------------------

UPDATES = 128  # that a run has at least, if rollouts of the smallest size allow it
SMALLEST = 256  # environment steps of a rollout
CALLS, EVENTS = 32, 10  # lines in the logs, and evaluations and checkpoints, that a run has at least
FEW = 20  # updates of a run that is too short for evaluations on the way


def _batch(config: Config) -> int:
    """Returns the number of environment steps of a rollout, a power of two."""
    largest = getattr(getattr(config, config.train.algorithm, None), "largest_rollout", Section.largest_rollout)
    return _between(SMALLEST, _power(min(config.train.total_steps, 1 << 62) / UPDATES), largest)


def _num_steps(config: Config, given: Set[str]) -> int:
    """Returns a quarter as many steps as games, unless the games are given; whole chunks."""
    batch, chunk = _batch(config), config.ppo.chunk(config.network)
    steps = batch / config.train.num_envs if "train.num_envs" in given else math.sqrt(batch / 4)
    return -(-_between(8, _power(steps), 64) // chunk) * chunk


def _num_envs(config: Config, given: Set[str]) -> int:
    """Returns the number of games for the rollout size, in shares that devices, snapshots and actors divide."""
    sebulba, slots = config.sebulba, max(1, config.league.snapshots)
    share = slots * math.lcm(sebulba.actors * sebulba.groups, max(1, config.run.devices))
    games = _between(8, _batch(config) // config.train.num_steps, 512)
    return max(1, round(games / share)) * share


def _updates_per_call(config: Config, given: Set[str]) -> int:
    """Returns at most eight updates, such that checkpoints that are kept, or continued from, lie between two calls."""
    calls = min(_power(_updates(config) / CALLS), 8)
    return math.gcd(math.gcd(calls, config.train.keep_every), config.train.from_update)


def _every(config: Config) -> int:
    """Returns a tenth of the run in whole calls."""
    per_call = config.train.updates_per_call
    return max(1, _updates(config) // EVENTS // per_call) * per_call


def _checkpoint_every(config: Config, given: Set[str]) -> int:
    return config.train.keep_every or min(_every(config), 200)


def _evaluate_every(config: Config, given: Set[str]) -> int:
    return _every(config) if _updates(config) >= FEW else 0


FOLLOWING: dict[str, Callable[[Config, Set[str]], int]] = {  # in this order: later ones rest on earlier ones
    "num_steps": _num_steps,
    "num_envs": _num_envs,
    "updates_per_call": _updates_per_call,
    "checkpoint_every": _checkpoint_every,
    "evaluate_every": _evaluate_every,
}


def _updates(config: Config) -> int:
    return -(-config.train.total_steps // config.batch_size)


def _power(number: float) -> int:
    """Rounds down to a power of two, at least 1."""
    return 1 << max(0, int(math.log2(max(number, 1.0))))


def _between(low: int, number: int, high: int) -> int:
    return max(low, min(number, high))
