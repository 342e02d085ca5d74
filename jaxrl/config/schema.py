"""Every configuration key: name, type, default, documentation and allowed values.

`jaxrl config` prints this file as a table. The classes are frozen dataclasses: `Config(ppo=PPOConfig(epochs=4))`
is a valid way to build one in code, `jaxrl.config.load` reads one from YAML.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from jaxrl.config.belief_schema import BeliefConfig
from jaxrl.config.critic_schema import CriticConfig
from jaxrl.config.exploit_schema import ExploitConfig
from jaxrl.config.fleet_schema import FleetConfig
from jaxrl.config.hierarchical_schema import HierarchicalConfig
from jaxrl.config.network_schema import NetworkConfig
from jaxrl.config.schedule_schema import Schedule
from jaxrl_envs.contract import registry
from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.options import option

EVALUATION_SEED = 20250101  # of the deals of evaluations; never used in training
FOLLOWS = "follows train.total_steps if not given"  # `jaxrl.config.sizes`; the defaults here fit the default length


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """The run itself: where it is stored and what makes it reproducible."""

    name: str = option(
        "",
        "name of the run directory; empty: the name of the configuration file",
        pattern=r"([A-Za-z0-9_][A-Za-z0-9._-]*)?",
        words="letters, digits, '.', '_' and '-' only, beginning with a letter, digit or '_'",
    )
    directory: str = option("runs", "folder in which run directories are created")
    seed: int = option(0, "seed of everything random in training", minimum=0, maximum=2**32 - 1)
    seeds: int = option(1, "independent trainings side by side (seed, seed + 1, ...) in one program", minimum=1)
    devices: int = option(0, "devices to spread the games over; 0: all local ones that divide the batch", minimum=0)
    deterministic: bool = option(
        False, "bit-identical repeats on GPUs too, to find a mistake (slower; on CPU always so)"
    )
    cache_dir: str = option(
        "~/.cache/jaxrl", "compiled programs, for a fast second start; empty: none", runs=user_code.path
    )
    log_level: str = option(
        "info", "from which level on events go into the run's log.txt", choices=("error", "warning", "info", "debug")
    )
    log_format: str = option(
        "text", "json: log.jsonl in its place, with time, rank, host and update as fields", choices=("text", "json")
    )

    @property
    def path(self) -> Path:
        """The run's own folder."""
        return Path(self.directory).expanduser() / self.name


@dataclasses.dataclass(frozen=True)
class EnvConfig:
    """The game."""

    id: str = option("skull_king", "registered, pgx:GAME, gymnax:GAME, package.module:Class", runs=registry.permissions)
    options: dict[str, Any] = option({}, "options of the game, e.g. players; see `jaxrl config --env ID`")


@dataclasses.dataclass(frozen=True)
class SeatMix:
    """One way to fill the seats of a game. It is drawn when a game starts and stays until it ends."""

    weight: float = option(1.0, "relative frequency of this mix among the games", above=0.0)
    learners: int | str = option(
        "all", "seats held by the learner (a number, or all); with teams: whole sides", minimum=1, choices=("all",)
    )
    bots: tuple[str, ...] = option((), "bots drawn uniformly for each of the other seats, or sides")


@dataclasses.dataclass(frozen=True)
class PPOConfig:
    """Proximal policy optimisation (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

    epochs: int = option(4, "passes over the collected data per update", minimum=1)
    minibatches: int = option(8, f"optimizer steps per pass; {FOLLOWS}", minimum=1)
    sequence: int = option(
        16, "with a memory: steps through which a gradient flows back; chunks of so many are shuffled", minimum=1
    )
    accumulate: int = option(1, "portions of a minibatch with gradients summed; more if memory is short", minimum=1)
    learning_rate: Schedule = option(Schedule("linear", 6e-4, 6e-5), f"Adam step size; {FOLLOWS}")
    entropy_coef: Schedule = option(
        Schedule("constant", 0.3, 0.3),
        "weight of the entropy bonus beside advantages of unit variance; smaller where much is left to chance",
    )
    magnet: str = option(
        "none",
        "what the policy is pulled to by the KL divergence from it: uniform, all legal actions alike; policy, a copy "
        "of itself; self-play then circles less (https://arxiv.org/abs/2206.05825)",
        choices=("none", "uniform", "policy"),
    )
    magnet_coef: Schedule = option(Schedule("constant", 0.05, 0.05), "weight of that divergence")
    magnet_refresh: int = option(50, "policy: updates between copies", minimum=1)
    anchor: bool = option(
        False,
        "hold the policy near the one that the run begins with, e.g. a clone (train.from_run), by KL(that || policy), "
        "as in kickstarting (https://arxiv.org/abs/1803.03835)",
    )
    anchor_coef: Schedule = option(Schedule("linear", 0.3, 0.0), "weight of that divergence")
    value_warmup: int = option(
        0, "first updates of a run in which nothing but the last layer of the value learns", minimum=0
    )
    ema: float = option(
        0.0,
        "decay per update of the average over time of the parameters, which is evaluated, exported and played instead "
        "of them, e.g. 0.99; 0: none is kept",
        minimum=0.0,
        maximum=0.9999,
    )
    temperature: Schedule = option(Schedule("constant", 1.0, 1.0), "actions are drawn from pi^(1 / temperature)")
    clip: float = option(0.05, "clip range of the probability ratio; smaller where policies collapse", above=0.0)
    value_clip: float = option(0.2, "clip range of the value update; 0: off", minimum=0.0)
    value_coef: float = option(0.5, "weight of the value loss; smaller where returns are large", minimum=0.0)
    gamma: float = option(1.0, "discount per own decision of a seat", minimum=0.0, maximum=1.0)
    gae_lambda: float = option(
        0.95, "decay of the advantages; nearer to 1 where values are learnt badly", minimum=0.0, maximum=1.0
    )
    max_grad_norm: float = option(0.5, "gradients are scaled down to this norm; smaller where losses jump", above=0.0)
    critic: CriticConfig = option(CriticConfig(), "a critic that sees what is hidden (arXiv 2203.16406)")
    belief: BeliefConfig = option(BeliefConfig(), "who holds which hidden card, for search")
    target_kl: float = option(0.0, "stop the passes of an update beyond this mean KL; 0: off", minimum=0.0)


@dataclasses.dataclass(frozen=True)
class SebulbaConfig:
    """Actors and learner side by side, for games on the host (Hessel et al. 2021, https://arxiv.org/abs/2104.06272)."""

    actors: int = option(1, "threads that play; the games (train.num_envs) are shared evenly", minimum=1)
    groups: int = option(
        2, "parts of an actor's games: one part is stepped while the device chooses for another", minimum=1
    )
    threads: int = option(
        0,
        "engine threads, over all actors; 0: one for each core; engines of another process: one for each game",
        minimum=0,
    )
    lag: int = option(
        1,
        "updates between the parameters that play and those that learn; 0: playing and learning take turns; above 1, "
        "where playing takes very uneven times, V-trace corrects (https://arxiv.org/abs/1802.01561)",
        minimum=0,
    )
    timeout: float = option(
        60.0, "seconds after which a silent engine or actor stops the run; a slow learner is waited for", above=0.0
    )
    profile: bool = option(
        False, "measure every part of playing and learning (time/ms_per_1000_steps/...), to see what to tune"
    )


@dataclasses.dataclass(frozen=True)
class DQNConfig:
    """Deep Q-learning: double, dueling, n-step, with prioritised replay (Rainbow, https://arxiv.org/abs/1710.02298)."""

    updates: int = option(4, "optimizer steps after each round of playing", minimum=1)
    batch: int = option(384, "transitions in an optimizer step", minimum=1)
    capacity: int = option(
        100_000, "transitions in the replay memory, as many as fit; the oldest is overwritten", minimum=1
    )
    learning_starts: int = option(10_000, "transitions of random play before the first optimizer step", minimum=1)
    alpha: float = option(
        0.6, "exponent of the priorities that transitions are drawn by; 0: all alike", minimum=0.0, maximum=1.0
    )
    n_step: int = option(3, "own decisions of a seat that a target looks ahead", minimum=1)
    exploration: str = option(
        "epsilon", "epsilon-greedy, or noisy layers (https://arxiv.org/abs/1706.10295)", choices=("epsilon", "noisy")
    )
    epsilon: Schedule = option(Schedule("linear", 1.0, 0.05, until=0.25), "epsilon: share of random actions")
    learning_rate: Schedule = option(Schedule("constant", 1e-4, 1e-4), "Adam step size")
    gamma: float = option(0.99, "discount per own decision of a seat", minimum=0.0, maximum=1.0)
    target_every: int = option(1_000, "optimizer steps between copies to the target network", minimum=1)
    save_replay: bool = option(
        True, "checkpoints hold the replay memory, so that a run resumes exactly; false saves the disk"
    )


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """Length of the run and what happens how often."""

    algorithm: str = option(
        "ppo",
        "what learns: ppo, dqn or hierarchical, with the settings in the section of that name, or "
        "package.module:Class, your own",
        pattern=rf"[A-Za-z_]\w*|{user_code.NAME}",
        words="a name or package.module:Class",
        runs=user_code.permissions,
    )
    num_envs: int = option(512, f"games played side by side, over all devices; {FOLLOWS}", minimum=1)
    num_steps: int = option(64, f"steps of each game per update; {FOLLOWS}", minimum=1)
    stagger: int = option(0, "random decisions before training, none in the first game, all in the last", minimum=0)
    total_steps: int = option(
        10_000_000,
        "environment steps per seed; rounded up to whole calls; of a game on the host: decisions but those of bots",
        minimum=1,
    )
    updates_per_call: int = option(8, f"updates in one compiled call, a line in the logs; {FOLLOWS}", minimum=1)
    checkpoint_every: int = option(24, f"updates between checkpoints; {FOLLOWS}", minimum=1)
    keep: int = option(3, "newest checkpoints to keep (the best one is kept besides)", minimum=1)
    keep_every: int = option(0, "also keep every checkpoint at a multiple of this many updates; 0: none", minimum=0)
    evaluate_every: int = option(24, f"updates between evaluations during training; 0: off; {FOLLOWS}", minimum=0)
    from_run: str = option(
        "",
        "continue this run (a path, or a name in run.directory) as a new one, from its newest checkpoint or as "
        "RUN@UPDATE; empty: from nothing",
    )

    @property
    def from_update(self) -> int:
        """The checkpoint that `from_run` names, in updates; 0: the newest."""
        number = self.from_run.rpartition("@")[2]
        return int(number) if "@" in self.from_run and number.isdigit() else 0

    @property
    def from_name(self) -> str:
        """`from_run` without its checkpoint."""
        return self.from_run.rpartition("@")[0] if self.from_update else self.from_run


@dataclasses.dataclass(frozen=True)
class EvaluateConfig:
    """Evaluation on fixed deals; every deal is played once from every seat."""

    deals: int = option(400, "deals per opponent; and of a best response, as many others that choose it", minimum=2)
    opponents: tuple[str, ...] = option((), "bots to play against, or searcher-200; empty: all bots of the game")
    training_deals: int = option(64, "deals per opponent in the evaluations during training", minimum=2)
    best_by: str = option(
        "return",
        "what makes a checkpoint the best one, over all opponents: mean return, mean win rate, or the lowest win rate",
        choices=("return", "mean_win_rate", "min_win_rate"),
    )
    greedy: bool = option(True, "play the most probable action; false samples, where only a mixed policy is good")
    average: bool = option(True, "play the average of the parameters where ppo.ema keeps one; false: those that learn")
    options: dict[str, Any] = option({}, "options of the game that differ from env.options, e.g. {episode: game}")


@dataclasses.dataclass(frozen=True)
class LeagueConfig:
    """Opponents drawn per game from a pool: the policy itself, frozen snapshots of it and scripted bots.

    Off while `opponents` is empty. An opponent is drawn when a game starts and stays until it ends.
    """

    opponents: tuple[str, ...] = option(
        (), "self (the current policy on all seats), snapshots, and names of bots, or bots for all of them; empty: off"
    )
    learners: int = option(
        1,
        "the learner's seats (with teams: whole sides) where others play; copies of one opponent hold the rest",
        minimum=1,
    )
    self_play: float = option(
        0.25, "share of the games against itself, if self is listed; 1 if nobody else is", above=0.0, maximum=1.0
    )
    snapshots: int = option(
        0, "places for frozen policies and best responses; the oldest is overwritten, not met while it waits", minimum=0
    )
    snapshot_every: int = option(50, "updates between snapshots; 0: none are taken in training", minimum=0)
    cross_play: bool = option(
        False,
        "the seeds of a run (run.seeds) are a population that meets itself: the first snapshot of each is of the next "
        "seed, the second of the one after that, and so on in turn, its own among them",
    )
    margin: float = option(
        0.0,
        "rating points that the policy must gain for the next snapshot, and a best response be above it, to join; who "
        "is three times as many below it leaves, e.g. 100; 0: all join, and leave as the oldest",
        minimum=0.0,
    )
    weighting: str = option(
        "adaptive",
        "shares of the opponents but self, x = win rate of the learner with draws as half a win, d = distance of the "
        "ratings, E = points expected from it, t = age in tenths of the run (bots: 0): adaptive 1 - x, pfsp_hard "
        "(1 - x)^2, pfsp_even x (1 - x), elo exp(-|d| / 200), even exp(-|E - 1/2| / 0.5), recent exp(-0.5 t), each at "
        "least floor; fixed as in weights, without any all alike",
        choices=("fixed", "adaptive", "pfsp_hard", "pfsp_even", "elo", "even", "recent"),
    )
    weights: dict[str, float] = option(
        {}, "fixed: relative weights by bot, and of each snapshot under the name snapshots; 1 if left out", above=0.0
    )
    floor: float = option(0.05, "smallest relative weight before the weights are normalised", above=0.0, maximum=1.0)
    half_life: float = option(500.0, "games against an opponent after which a result counts half", above=0.0)
    update_from: str = option(
        "training",
        "which win rates the weights follow; evaluation: those of evaluations in training, for games of which few are "
        "played between two updates of the weights",
        choices=("training", "evaluation"),
    )


@dataclasses.dataclass(frozen=True)
class MetricsConfig:
    """Figures of a running training for other programs."""

    prometheus: int | str = option(
        "",
        "serve the figures to Prometheus there while training: a port of this machine alone, or host:port (0.0.0.0: to "
        "every machine in reach); each of several processes its own, at this port + its rank; empty: off",
        minimum=1,
        maximum=65535,
        pattern=r"(.*:[0-9]{1,5})?",
        words="a port from 1 to 65535 or host:port",
    )


@dataclasses.dataclass(frozen=True)
class Config:
    """A complete configuration."""

    run: RunConfig = option(RunConfig(), "the run itself")
    env: EnvConfig = option(EnvConfig(), "the game")
    seats: tuple[SeatMix, ...] = option((SeatMix(),), "who holds the seats; positions are permuted per game")
    league: LeagueConfig = option(LeagueConfig(), "opponents drawn from a pool that learns from results")
    network: NetworkConfig = option(NetworkConfig(), "policy and value network")
    ppo: PPOConfig = option(PPOConfig(), "the learner with train.algorithm ppo")
    dqn: DQNConfig = option(DQNConfig(), "the learner with train.algorithm dqn")
    hierarchical: HierarchicalConfig = option(
        HierarchicalConfig(),
        "the learner with train.algorithm hierarchical; what manager and worker say here, ppo does not",
    )
    sebulba: SebulbaConfig = option(SebulbaConfig(), "actors for games on the host")
    fleet: FleetConfig = option(FleetConfig(), "games on the host played by other machines")
    train: TrainConfig = option(TrainConfig(), "length of the run")
    evaluate: EvaluateConfig = option(EvaluateConfig(), "evaluation")
    exploit: ExploitConfig = option(ExploitConfig(), "approximate exploitability")
    curriculum: list[dict[str, Any]] = option([], "stages in order: name, the keys that differ, until; see below")
    algorithm: dict[str, Any] = option({}, "settings of an algorithm of your own, see train.algorithm")
    metrics: MetricsConfig = option(MetricsConfig(), "figures for other programs")
    callbacks: tuple[str, ...] = option(
        (), "your own, told how a training goes; see CONTRIBUTING.md", **user_code.OPTION
    )

    @property
    def evaluation_options(self) -> dict[str, Any]:
        """Options of the game that evaluation, play and export use."""
        return {**self.env.options, **self.evaluate.options}

    @property
    def batch_size(self) -> int:
        """Environment steps per update and seed."""
        return self.train.num_envs * self.train.num_steps

    @property
    def num_calls(self) -> int:
        """Compiled calls in the whole run."""
        return -(-self.train.total_steps // (self.batch_size * self.train.updates_per_call))

    @property
    def num_updates(self) -> int:
        """Updates in the whole run: `train.total_steps` rounded up to whole calls."""
        return self.num_calls * self.train.updates_per_call
