"""Trains the policy of a file again from what the file holds, and compares the parameters bit by bit."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Collection, Mapping
from typing import Any

import jax
import numpy as np

from jaxrl import xla
from jaxrl.config import Config
from jaxrl.players.spec import parse, policy_file
from jaxrl.policies.export import PolicyParameters, load_policy, policy_config, read_parameters, stored
from jaxrl.runs.directory import load_run
from jaxrl.training.callbacks import Callback
from jaxrl.training.launching.start import prepare, train
from jaxrl.training.sebulba.remote.config import FleetConfig
from jaxrl_envs.contract import registry
from jaxrl_envs.shared.errors import UserError

LATER = "policy files that are exported from now on hold"


def reproduce(text: str, allow: Collection[str] = ()) -> int:
    """Trains a policy again in a folder of its own, which is removed; returns 0 if every bit is equal, else 1.

    Args:
      text: specification of a policy file, see `jaxrl.players.spec`.
      allow: modules that it may name, see `jaxrl.config.trust`.

    Raises:
      UserError: no policy file, or it does not hold all that its training began with.
    """
    file = policy_file(parse(text))
    if file is None:
        raise UserError(f"{text}: name the policy to train again: zoo:NAME, hf:USER/REPO or a policy file.")
    found, config = read_parameters(file), policy_config(file, allow)
    check(text, found, config)
    with tempfile.TemporaryDirectory() as folder:
        run = dataclasses.replace(config.run, directory=folder, name="again", logs=("jsonl",))
        run = dataclasses.replace(run, devices=_devices(config, found.made))
        config = dataclasses.replace(config, run=run, fleet=FleetConfig())
        prepare(config, False, None, None, None)
        load_policy(file, allow)  # refuses another version of the game, or parameters of another network
        differences = _differences(found.made, config.env.id)
        same = "under the same conditions: versions, devices, vectors, flags, rules" if found.made else ""
        print("\n".join(differences) or same, file=sys.stderr)
        if code := train(config, callbacks=[_Until(found.update * config.batch_size)]):
            return code
        again = load_run(config.run.path, str(found.update), allow)
    differences += [
        each for each in _differences(found.made, config.env.id) if each not in differences
    ]  # of its module
    return _compare(text, found, stored(again.params[0], half=found.half), differences)


class _Until(Callback):
    """Ends a training after some environment steps: that of a checkpoint before its end needs no more."""

    def __init__(self, steps: int):
        self._steps = steps

    def on_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Sees how far the training is."""
        self.stop = step >= self._steps


def check(text: str, found: PolicyParameters, config: Config) -> None:
    """Raises UserError, with what is missing, for a policy whose file does not hold what its training began with."""
    origin = found.made.get("origin", "")
    if origin:
        raise UserError(f"{text} cannot be trained again from its file: its training went on from {origin}.")
    if config.run.seeds > 1:
        raise UserError(f"{text} cannot be trained again from its file: it is one of {config.run.seeds} seeds.")
    if not 0 < found.update <= config.num_updates:
        raise UserError(f"{text} cannot be trained again from its file: its training has no update {found.update}.")
    if not found.made:
        print(
            f"{text}: its file lacks the conditions of its training (versions, devices, vectors, XLA's flags, the hash "
            f"of the rules, whether it began with another run), which {LATER}: a difference proves nothing.",
            file=sys.stderr,
        )


def _devices(config: Config, made: dict[str, Any]) -> int:
    """Returns the devices of the training, which a configuration may leave to the machine."""
    known = made.get("devices")
    return config.run.devices or (known if type(known) is int and 0 < known <= 4096 else 0)


def _differences(made: dict[str, Any], game: str) -> list[str]:
    """Returns the conditions that are others than those of the training, in words."""
    here = xla.conditions() | {"rules": registry.rules_hash(game)}
    advice = {"vectors": "XLA_FLAGS=--xla_cpu_max_isa=AVX2 at both trainings narrows this gap"}
    return [
        f"another {name}: {made[name]!s:.200} then, {now} now" + (f" ({advice[name]})" if name in advice else "")
        for name, now in here.items()
        if now and made.get(name) not in (None, "", now)
    ]


def _compare(text: str, found: PolicyParameters, again: Any, differences: list[str]) -> int:
    """Prints whether the parameters are equal, bit by bit; returns 0 or 1."""
    pairs = list(zip(jax.tree.leaves(found.params), jax.tree.leaves(again), strict=True))
    equal = sum(int(np.sum(one == other)) for one, other in pairs)
    total = sum(one.size for one, _ in pairs)
    if all(one.tobytes() == other.tobytes() for one, other in pairs):
        print(f"{text}: trained again, all {total:,} parameters are equal, bit by bit")
        return 0
    far = max(float(np.max(np.abs(one - other))) for one, other in pairs)
    print(f"{text}: trained again, {equal:,} of {total:,} parameters are equal; the largest difference is {far:.2g}")
    print("\n".join(differences), file=sys.stderr)
    if not differences and found.made:
        print(
            "its conditions are those of its file, so its training is not what the file says, or other sources differ"
        )
    return 1
