"""Tries an installed wheel: its files, every command's help, a tiny training and what follows.

Usage: python smoke.py FOLDER_OF_PROGRAMS, in an empty folder and with the python of that environment.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from jaxrl import cli
from jaxrl.config import presets
from jaxrl_envs.contract import registry

TINY = ["train.num_envs=32", "train.num_steps=24", "train.total_steps=1536", "train.updates_per_call=1"]
TINY += ["network.hidden=[16]", "ppo.minibatches=2", "league={}", "evaluate.training_deals=2", "evaluate.deals=4"]
TINY += ["evaluate.opponents=[random]", "run.cache_dir=", "run.devices=1", "train.stagger=0"]
TINY += ["env.options.lookahead=false"]


def main(programs: Path) -> int:
    """Tries everything; the first that fails ends it."""
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"

    def jaxrl(*words: str, typed: str = "") -> str:
        done = subprocess.run([programs / "jaxrl", *words], input=typed, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"jaxrl {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    here = Path(cli.__file__).resolve()
    assert "site-packages" in here.parts, f"{here} is not the wheel"
    check_files(here.parent)
    assert "skull_king" in jaxrl("zoo") and "zoo" in jaxrl("--help")
    for name in cli.commands():
        first = () if name in cli.COMMANDS else tuple(registry.game_module(name, "commands").COMMANDS)[:1]
        assert f"usage: jaxrl {name}" in said(name, *first, "--help"), name
    for name in presets.shipped():
        assert "env:" in said("config", name), name
    jaxrl("train", "--config", "beasty_bar", "--name", "tiny", *TINY)
    assert "random" in jaxrl("evaluate", "tiny", "--deals", "4")
    jaxrl("export", "tiny", "tiny.jaxrl")
    assert "index.html" in jaxrl("serve", "--site", "page")
    assert "tiny" in jaxrl("runs")
    jaxrl("play", "beasty_bar", typed="hint\nquit\n")  # no run is called so: the policy of the zoo
    print(f"smoke: {len(cli.commands())} commands, {len(presets.shipped())} presets")
    return 0


def said(*words: str) -> str:
    """Returns what a command prints, in this process: a start costs more than an answer."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        assert cli.main(list(words)) == 0, words
    return text.getvalue()


def check_files(package: Path) -> None:
    """Checks that all that is read at run time is there: configurations, policies, compiled parts, pages."""
    for folder, pattern, least in (
        ("configs", "*.yaml", 15),
        ("configs/ratings", "*.yaml", 2),
        ("zoo", "*.jaxrl", 3),
        ("zoo", "*.md", 3),
        ("serve/site", "*.*", 6),
        ("../jaxrl_envs/beasty_bar/browser", "*.*", 6),
        ("../jaxrl_envs/skull_king/browser", "*.*", 6),
        ("../jaxrl_envs/battle/data", "**/*.yaml", 3),
        ("../jaxrl_envs/forge/daemon/src", "**/*.java", 20),
        ("../jaxrl_envs/forge/decks", "*.dck", 10),
        (".", "**/*.so", 1),
        ("../jaxrl_envs", "**/*.so", 10),
    ):
        found = list((package / folder).glob(pattern))
        assert len(found) >= least, f"{folder}/{pattern}: {len(found)} files"
    if (package / "serve").is_dir():
        assert list((package / "serve" / "static").glob("*.html")), "the pages of the browser are missing"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
