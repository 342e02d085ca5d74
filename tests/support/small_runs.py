"""Configurations whose trainings take a second, and the commands that train and resume them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from jaxrl import cli

# The beginning of a configuration: Nim, a tiny network, one device, no cache.
NIM = """
env: {id: "examples.nim:Nim"}
run: {devices: 1, cache_dir: ""}
network: {hidden: [8]}
ppo: {minibatches: 2}
"""
TINY: dict[str, Any] = {
    "network": {"hidden": [8]},
    "ppo": {"epochs": 1, "minibatches": 2},
    "train": {"num_envs": 8, "num_steps": 4, "updates_per_call": 2, "checkpoint_every": 2, "keep": 100},
    "evaluate": {"deals": 2, "training_deals": 2, "opponents": ["random"]},
}


def configure(home: Path, game: str, updates: int, *, name: str = "tiny", **sections: Any) -> None:
    """Writes a configuration of some updates of a game, whose runs lie in `home`; sections add to those of TINY."""
    run = {"directory": str(home / "runs"), "cache_dir": "", "devices": 1}
    tree: dict[str, Any] = TINY | {"run": run, "env": {"id": game}}
    for section, keys in sections.items():
        tree[section] = tree.get(section, {}) | keys if isinstance(keys, dict) else keys
    total = updates * tree["train"]["num_envs"] * tree["train"]["num_steps"]
    tree["train"] = {"total_steps": total} | tree["train"]
    (home / f"{name}.yaml").write_text(yaml.safe_dump(tree))


def train(home: Path, name: str, *overrides: str, config: str = "tiny") -> int:
    """Trains a new run of a configuration of that folder; returns the exit code."""
    return cli.main(["train", "--config", str(home / f"{config}.yaml"), "--name", name, *overrides])


def resume(home: Path, name: str, *overrides: str) -> int:
    """Resumes a run of that folder; returns the exit code."""
    return cli.main(["resume", str(home / "runs" / name), *overrides])
