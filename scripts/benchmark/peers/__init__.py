"""Other people's programs that do comparable work, made comparable: each module turns one peer into `Contestant`s.

All peers are optional. A module is imported only when its peer is wanted, and says what to install if it is missing.
Whatever here re-creates a peer's algorithm is written from its description; no peer's code is copied.
"""

from __future__ import annotations

import importlib
import importlib.util
import types

MODULES = {
    "openspiel": "openspiel",
    "pgx": "pgx_games",
    "gymnax": "gymnax_games",
    "beastybar": "beastybar_cython",
}  # peers that are games
SAME_GAME = {"beasty_bar": ("beastybar",)}  # our game -> peers that play the very same one

BEASTYBAR = "clone github.com/diegooprime/beastybar, build _01_simulator/_cython, put it on PYTHONPATH"
RLGYM = "pip install 'jaxrl[rlgym]', then pip install --no-deps rlgym-rocket-league==2.0.1"  # asks for an old numpy
PACKAGES = {  # peer -> (packages it needs, how to get them)
    "openspiel": (("pyspiel",), "pip install open_spiel"),
    "pgx": (("pgx",), "pip install pgx"),
    "gymnax": (("gymnax",), "pip install gymnax six"),
    "beastybar": (("_01_simulator",), BEASTYBAR),
    "rocketsim": (("RocketSim", "rlgym"), RLGYM),
    "purejaxrl": (("gymnax",), "pip install gymnax six"),
    "gymnasium_vector": (("gymnasium",), "pip install gymnasium"),
    "sb3": (("gymnasium", "stable_baselines3", "sb3_contrib"), "pip install gymnasium stable-baselines3 sb3-contrib"),
}


def missing(peer: str) -> str | None:
    """None if `peer` can run here, else one sentence saying what to install."""
    packages, install = PACKAGES[peer]
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"{peer}: not installed ({install})" if absent else None


def load(peer: str) -> types.ModuleType:
    """The module of a peer that is a game; its ``contestants()`` plays it."""
    return importlib.import_module(f"scripts.benchmark.peers.{MODULES[peer]}")
