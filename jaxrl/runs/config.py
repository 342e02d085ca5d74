"""The sections `run` and `metrics`: where a run is stored, what it computes on, what it reports."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Section, divides

if TYPE_CHECKING:
    from jaxrl.config.schema import Config
    from jaxrl_envs.contract.env import Env

WEIGHTS = "env.options."  # keys of `run.vary` that are weights of rewards begin so
SHUFFLE_GROUPS = 8  # of games, each shuffled by itself: a shuffle that need not cross devices, nor all of the memory


@dataclasses.dataclass(frozen=True)
class RunConfig(Section):
    """The run itself: where it is stored and what makes it reproducible."""

    fixed: ClassVar[tuple[str, ...]] = ("seeds",)

    name: str = option(
        "",
        "name of the run directory; empty: the name of the configuration file",
        pattern=r"([A-Za-z0-9_][A-Za-z0-9._-]*)?",
        words="letters, digits, '.', '_' and '-' only, beginning with a letter, digit or '_'",
    )
    directory: str = option("runs", "folder that holds the run directories")
    seed: int = option(0, "seed of all randomness in training", minimum=0, maximum=2**32 - 1)
    seeds: int = option(1, "independent trainings (seed, seed + 1, ...), vmapped in one program", minimum=1)
    vary: dict[str, Any] = option(
        {},
        "numbers of the algorithm, and weights of rewards, in which the trainings of run.seeds differ: of 4 seeds with "
        "{ppo.learning_rate: [1e-3, 2e-3]} two have 1e-3, with seed and seed + 1, and two 2e-3, with the same seeds",
    )
    devices: int = option(0, "devices to shard the games over; 0: all local ones that divide the batch", minimum=0)
    deterministic: bool = option(False, "bit-identical repeats on a GPU, to find a fault (slower); on a CPU always so")
    one_kernel: bool = option(False, "on a GPU, a step of all games is one kernel of ours; false: as XLA compiles it")
    cache_dir: str = option(
        "~/.cache/jaxrl",
        "folder of compiled programs for fast later starts, e.g. on a local disk; empty: none",
        runs=user_code.path,
    )
    logs: tuple[str, ...] = option(
        ("all",),
        "loggers, e.g. [tensorboard, wandb]: all is tensorboard; metrics.jsonl is written besides, alone by jsonl, and "
        "not by none, which leaves curves, `jaxrl runs` and comparisons without figures",
        choices=("none", "jsonl", "all", "tensorboard", "trackio", "wandb"),
    )
    log_level: str = option(
        "info",
        "lowest level of events in the run's log.txt; debug to find a fault",
        choices=("error", "warning", "info", "debug"),
    )
    profile: int = option(
        0, "updates after the first call to trace by jax.profiler, into the run's folder profile; 0: none", minimum=0
    )

    @property
    def path(self) -> Path:
        """The run's own folder."""
        return Path(self.directory).expanduser() / self.name

    @property
    def contenders(self) -> int:
        """Number of settings among the seeds: values in each list of `vary`."""
        return len(next(iter(self.vary.values()))) if self.vary else 1

    def check(self, config: Config) -> None:
        """Rejects devices that do not divide the games, seeds beyond 32 bits, and lists that the seeds do not fit."""
        lists = [len(values) if isinstance(values, list) else 0 for values in self.vary.values()]
        if lists and (min(lists) < 2 or max(lists) > min(lists) or self.seeds % lists[0]):
            raise UserError(
                "run.vary must give each key a list of values, at least two, all lists of one length that divides "
                f"run.seeds ({self.seeds}); got {', '.join(map(str, lists))} values."
            )
        if self.devices:
            slots = max(1, config.league.snapshots)
            name = "run.devices * league.snapshots" if slots > 1 else "run.devices"
            divides(config.train.num_envs, self.devices * slots, "train.num_envs", name)
        if self.seed + self.seeds > 2**32:
            raise UserError("run.seed + run.seeds must be at most 4294967296; choose a smaller run.seed.")

    def check_game(self, config: Config, env: Env) -> None:
        """Rejects weights of rewards in `vary` that the game does not replace, or of which it has none."""
        for key, values in self.vary.items():
            if not key.startswith(WEIGHTS):
                continue
            option, _, name = key.removeprefix(WEIGHTS).partition(".")
            given, numbers = config.env.options.get(option), all(isinstance(each, (int, float)) for each in values)
            if option not in env.weight_options or not isinstance(given, dict) or name not in given or not numbers:
                known = ", ".join(f"{WEIGHTS}{option}.NAME" for option in env.weight_options) or "none"
                raise UserError(
                    f"run.vary: {key} must be a weight that the configuration gives, with numbers as values; {env.id} "
                    f"replaces {known}."
                )

    def without_deployment(self) -> RunConfig:
        """Returns the section without folders, devices, logs and traces."""
        return dataclasses.replace(
            self, directory="", devices=0, cache_dir="", logs=("all",), log_level="info", profile=0
        )


@dataclasses.dataclass(frozen=True)
class MetricsConfig(Section):
    """Figures of a running training for other programs."""

    prometheus: int | str = option(
        "",
        "port (this machine only) or HOST:PORT (0.0.0.0: all machines) that serves metrics to "
        "Prometheus; a process adds its rank to the port; empty: off",
        minimum=1,
        maximum=65535,
        pattern=r"(.*:[0-9]{1,5})?",
        words="a port from 1 to 65535 or host:port",
    )

    def without_deployment(self) -> MetricsConfig:
        """Returns the defaults: they change no result."""
        return MetricsConfig()


def shuffle_groups(num_envs: int, devices: int) -> int:
    """Groups of games that are shuffled each by itself, a multiple of `devices`: the results of a training depend on
    them, so they depend on the number of devices only where that divides the usual number not."""
    groups = SHUFFLE_GROUPS if num_envs % SHUFFLE_GROUPS == 0 else 1
    return groups if groups % devices == 0 else devices


def device_count(config: Config, available: int, processes: int = 1) -> int:
    """Returns the number of devices: `run.devices`, or for 0 the most `available` ones that change no result.

    Args:
      config: configuration of the training.
      available: devices, of all processes together.
      processes: each of which uses equally many.

    Raises:
      UserError: more devices are wanted than there are, or the games cannot be divided by the processes.
    """
    wanted = config.run.devices
    if wanted > available:
        raise UserError(f"run.devices is {wanted}, but there are only {available} here; lower it, or use 0 for all.")
    if wanted:
        divides(wanted, processes, "run.devices", "the number of processes")
        return wanted
    num_envs, slots = config.train.num_envs, max(1, config.league.snapshots)
    factors = {"processes": processes, "league.snapshots": slots}
    by = " * ".join(name for name, factor in factors.items() if factor > 1)
    divides(num_envs, processes * slots, "train.num_envs", by)
    groups, each = shuffle_groups(num_envs, 1), range(processes, available + 1, processes)
    return max((n for n in each if num_envs % (n * slots) == 0 and groups % n == 0), default=processes)
