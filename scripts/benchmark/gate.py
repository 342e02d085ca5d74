"""`python -m scripts.benchmark.gate`: fails if training or random play became slower than `speed_gate.json` says.

A rate is in steps per CPU second of one core, divided by that of a calibration kernel in the same process: plain jax,
none of our code. What the machine's clock and its other users do to both of them cancels. Every preset has a process of
its own, because XLA's flags are the game's. In it figures and kernel take turns, the best turn counts, and what looks
slow is measured again before it fails.

Ratios hold for one kind of processor. On another kind the figures are printed, and nothing fails.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp

from jaxrl import cli, xla
from jaxrl import config as configs
from jaxrl.config import Config
from jaxrl.diagnose import hardware, play
from jaxrl.diagnose.host_play import through_bridge
from jaxrl.diagnose.timing import Contestant, Speed, race, safe_ratio
from jaxrl.diagnose.training import MeasuredTraining
from jaxrl.games import make_env
from jaxrl.text_tables import table
from jaxrl_envs.host.env import HostEnv

FILE = Path(__file__).with_name("speed_gate.json")
MOST = 15.0  # per cent of its ratio that a figure may lose; card games kept within 4 % at a load of 15 on two cores
LOOSE = {"battle": 60.0}  # the same where threads hand over to each other: training was 42 % off at that load
ATTEMPTS = 3  # a figure is slow if it is slow in all of them
TURNS, SECONDS = 7, 0.3  # of every figure in an attempt; least CPU seconds of a turn
SMALL = ["run.devices=1", "train.updates_per_call=1", "train.num_envs=256", "train.num_steps=16", "train.stagger=0"]
ALONE = ["league.opponents=[]", "league.snapshots=0"]
PRESETS = {  # so small that they are compiled and measured within a CI step
    "skull_king": ("skull_king_cpu", [*SMALL, "ppo.minibatches=4", "seats=[{learners: all}]"]),
    "beasty_bar": ("beasty_bar", [*SMALL, "ppo.minibatches=4", *ALONE, "env.options.lookahead=false"]),
    "battle": ("battle_speed", ["run.devices=1", "train.updates_per_call=1", "train.num_steps=32"]),
}

Ratios = dict[str, float]  # "preset, figure" -> its rate over that of the calibration kernel


def ratio(figure: Speed, calibration: Speed) -> float:
    """Returns the best rate per CPU second of a figure over that of the calibration kernel."""
    return safe_ratio(figure.best_cpu_rate, calibration.best_cpu_rate)


def calibration() -> Contestant:
    """Returns a product and a hash of words that fit the caches, for figures to be divided by; a unit is both."""

    def mix(words: jax.Array, _: None) -> tuple[jax.Array, None]:
        words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
        return words ^ (words >> 15), None

    @jax.jit
    def both(seed: jax.Array) -> tuple[jax.Array, jax.Array]:
        left = jax.random.normal(jax.random.key(0), (512, 512), jnp.float32)
        words = jnp.arange(2**15, dtype=jnp.uint32) + seed
        return left @ (left + seed.astype(jnp.float32)), jax.lax.scan(mix, words, length=256)[0]

    return Contestant("calibration", 1.0, lambda: jax.block_until_ready(both(jnp.uint32(1))))


def figures(config: Config, *, turns: int = TURNS, seconds: float = SECONDS) -> Ratios:
    """Returns the ratios of one configuration by figure, measured in this process."""
    xla.set_devices(1)
    env = make_env(config)
    with contextlib.ExitStack() as stack:
        training = stack.enter_context(contextlib.closing(MeasuredTraining(config, env)))
        if isinstance(env, HostEnv):
            game = through_bridge(stack, env.game, 64, threads=1)
        else:
            game = play.contestant(env, batch=1024, view="observed", steps=32)
        contestants = [training.contestant("training"), game._replace(name="random play"), calibration()]
        *found, kernel = race(contestants, rounds=turns, seconds=seconds)
    return {figure.name: ratio(figure, kernel) for figure in found}


def measured() -> Ratios:
    """Measures all ratios, one preset after the other on one core."""
    found: Ratios = {}
    for preset in PRESETS:
        words = [sys.executable, "-m", "scripts.benchmark.gate", "--preset", preset]
        told = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
        found |= {f"{preset}, {name}": value for name, value in json.loads(told).items()}
    return found


def measure_here(preset: str) -> int:
    """Prints the ratios of a preset as JSON."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    name, overrides = PRESETS[preset]
    print(json.dumps(figures(configs.load(name, overrides))))
    return 0


def slow(found: Ratios, recorded: Ratios, most: float) -> list[str]:
    """Returns the figures that lost more than `most` per cent of what is recorded, or more than `LOOSE` allows."""
    share = {name: 1.0 - max(most, LOOSE.get(name.partition(",")[0], 0.0)) / 100.0 for name in recorded}
    return [name for name, value in recorded.items() if found.get(name, 0.0) < value * share[name]]


def best_of(attempts: int, recorded: Ratios, most: float) -> Ratios:
    """Measures until nothing is slow, at most `attempts` times; returns the best. Programs come from a common cache."""
    found: Ratios = {}
    with tempfile.TemporaryDirectory(prefix="jaxrl-gate-") as cache:
        os.environ["JAX_COMPILATION_CACHE_DIR"] = os.environ.get("JAX_COMPILATION_CACHE_DIR", cache)
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        for _ in range(attempts):
            now = measured()
            found = {name: max(value, found.get(name, 0.0)) for name, value in now.items()}
            if not slow(found, recorded, most):
                break
    return found


def run(args: argparse.Namespace) -> int:
    """Measures, prints, and records or compares; 1 if a figure is slow."""
    if args.preset:
        return measure_here(args.preset)
    known: dict[str, Ratios] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    machine = ", ".join(filter(None, [hardware.cpu_model(), hardware.cpu_generation(), hardware.vector_width()]))
    recorded = {} if args.record else known.get(machine, {})
    found = best_of(1 if args.record else ATTEMPTS, recorded, args.most)
    rows = [
        [name, f"{value:.4g}", f"{recorded[name]:.4g}", f"{100 * (value / recorded[name] - 1):+.1f} %"]
        if name in recorded
        else [name, f"{value:.4g}", "-", "-"]
        for name, value in found.items()
    ]
    print(table([f"steps per calibration, {machine}", "now", "recorded", "change"], rows))
    if args.record:
        FILE.write_text(json.dumps(known | {machine: found}, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    if not recorded:
        print("nothing is recorded for this processor, so nothing fails (python -m scripts.benchmark.gate --record)")
    lost = slow(found, recorded, args.most)
    print("\n".join(f"FAIL  {name} lost too much (bound: {args.most:g} %)" for name in lost), end="\n" * bool(lost))
    return 1 if lost else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = cli.Parser(prog="python -m scripts.benchmark.gate", description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="write today's ratios for this processor")
    parser.add_argument("--most", type=float, default=MOST, metavar="PERCENT", help="that a figure may lose")
    parser.add_argument("--preset", choices=PRESETS, help="print the ratios of this one alone, as JSON")
    args = parser.parse_args(argv)
    return cli.guarded(functools.partial(run, args))


if __name__ == "__main__":
    sys.exit(main())
