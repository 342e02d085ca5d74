"""Policy files: `jaxrl export RUN FILE` writes one, `load_policy` reads it for inference.

The file is self-contained: parameters, configuration and game, with a checksum; no optimizer state, no games in
progress. Serving it takes a few lines:

    policy = load_policy("agent.jaxrl")
    policy.reset()  # at the beginning of a game
    action = policy.act(observation, legal_action_mask)
"""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Collection, Sequence, Sized
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import msgpack
import numpy as np
from flax import serialization

import jaxrl
from jaxrl import config as configs
from jaxrl.algorithms.registry import make_algorithm
from jaxrl.config import Config
from jaxrl.games import make_evaluation_env, make_games
from jaxrl.networks.factory import is_statistics
from jaxrl.players.player import Player
from jaxrl.players.spec import HUB, ZOO
from jaxrl.runs.directory import TrainedRun
from jaxrl_envs.contract import registry
from jaxrl_envs.contract.env import Env, PyTree, State
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

_MAGIC = b"jaxrl policy 1\n"
LARGEST = 1 << 31  # bytes of a file
LONGEST_NAME = 255  # letters of the name of a policy, as of a folder
_TOO_LARGE = 65_504.0  # the largest float16
_FIELDS = {"name": str, "update": int, "env_version": str, "config": dict, "params": dict}


class ExportedPolicy:
    """A trained policy for inference, in one seat of one game at a time: a recurrent one keeps its state between calls.

    Attributes:
      name: name of the run it comes from.
      env: its game, for observations, masks, action names and rendering.
      config: the configuration that it was trained with.
      update: updates of training.
      params: parameters of its network.
    """

    def __init__(self, name: str, config: Config, env: Env, update: int, params: PyTree):
        """A policy from its parts; see `load_policy`. Raises UserError if the parameters are of another network."""
        self.name, self.config, self.env, self.update = name, config, env, update
        self._algorithm = make_algorithm(config, env)
        if forms(params) != forms(jax.eval_shape(self._algorithm.network.init, jax.random.key(0))):
            raise UserError(f"the parameters of policy {name!r} do not fit the network of its configuration.")
        self.params = jax.tree.map(jnp.asarray, params)
        self._structure = jax.tree.structure(env.observation_spec)
        self.reset()

    def reset(self) -> None:
        """Clears the recurrent state: at the beginning of a game, or for another seat."""
        self._memory = self._algorithm.network.memory(())

    def act(self, observation: PyTree, mask: Any, *, greedy: bool = True, seed: int | None = None) -> int:
        """Chooses one action for one seat, and updates the recurrent state.

        Args:
          observation: observation of the seat, as `Env.observe` gives it; nested lists of numbers are accepted.
          mask: bool[A], the legal actions.
          greedy: the most probable action instead of a sampled one.
          seed: seed of the sampling; None draws a new one.

        Returns:
          The number of a legal action.

        Raises:
          UserError: observation or mask have the wrong shape, or nothing is legal.
        """
        checked = self._checked(observation), self._checked_mask(mask)
        memory, logits, _ = self._evaluate(self.params, self._memory, *checked)
        self._memory = memory
        probabilities = self._probabilities(logits)
        if greedy:
            return int(np.argmax(probabilities))
        return int(np.random.default_rng(seed).choice(probabilities.size, p=probabilities / probabilities.sum()))

    def player(self, name: str = "", *, greedy: bool = True) -> Player:
        """Returns the policy as a player of matches; its name is that of the run by default."""
        return self._algorithm.player(name or self.name, self.params, greedy=greedy)

    def act_on(self, state: State, *, greedy: bool = True, seed: int | None = None) -> int:
        """Chooses as `act` for the seat that is asked in a state of a turn-based game."""
        return self.act(state.observation, self.env.policy_mask(state), greedy=greedy, seed=seed)

    def probabilities(self, observation: PyTree, mask: Any) -> np.ndarray:
        """Returns f64[A], 0 for illegal actions; 1 for the best action of a Q network. Arguments and errors as for
        `act`; the recurrent state is left unchanged."""
        checked = self._checked(observation), self._checked_mask(mask)
        return self._probabilities(self._evaluate(self.params, self._memory, *checked)[1])

    def _probabilities(self, logits: Any) -> np.ndarray:
        if self._algorithm.by_value:
            return np.eye(self.env.num_actions)[int(np.argmax(logits))]
        weights = np.exp(np.asarray(logits, np.float64) - float(np.max(logits)))
        return weights / weights.sum()

    def value(self, observation: PyTree, mask: Any = None) -> float:
        """Returns the expected return of the seat; the recurrent state is left unchanged.

        Args:
          observation: observation of the seat.
          mask: bool[A], the legal actions; only a Q network needs it, whose value is that of the best one.
        """
        if mask is None and self._algorithm.by_value:
            raise UserError("the value of a Q network is that of its best legal action: give the mask too.")
        legal = jnp.ones(self.env.num_actions, bool) if mask is None else self._checked_mask(mask)
        return float(self._evaluate(self.params, self._memory, self._checked(observation), legal)[2])

    @functools.cached_property
    def _evaluate(self) -> Any:
        return jax.jit(self._algorithm.network.evaluate)

    def _checked(self, observation: PyTree) -> PyTree:
        spec = self.env.observation_spec
        try:
            parts = self._structure.flatten_up_to(observation)  # type: ignore[attr-defined]
            leaves = [np.asarray(x, s.dtype) for x, s in zip(parts, jax.tree.leaves(spec), strict=True)]
        except (ValueError, TypeError, OverflowError) as error:
            raise UserError(f"the observation is not one of {self.config.env.id}: {error}") from error
        for leaf, wanted in zip(leaves, jax.tree.leaves(spec), strict=True):
            if leaf.shape != wanted.shape:
                raise UserError(f"the observation has the shape {leaf.shape} where {wanted.shape} is expected.")
        return jax.tree.unflatten(self._structure, leaves)

    def _checked_mask(self, mask: Any) -> np.ndarray:
        mask = np.asarray(mask, bool)
        if mask.shape != (self.env.num_actions,) or not mask.any():
            raise UserError(f"the mask must hold {self.env.num_actions} truth values, at least one of them true.")
        return mask


def save_policy(path: str | os.PathLike[str], run: TrainedRun, seed_index: int = 0, *, half: bool = False) -> None:
    """Writes one seed of a run as a policy file, whole or not at all.

    Args:
      path: path of the file.
      run: the run.
      seed_index: number of one of its seeds.
      half: write parameters in half precision (float16), which halves the file; loading makes them float32 again.

    Raises:
      UserError: the run has no such seed, or the file cannot be written.
    """
    if not 0 <= seed_index < len(run.params):
        raise UserError(f"run {run.name!r} has {len(run.params)} seeds, there is no number {seed_index}.")
    params = jax.tree.map(np.asarray, run.params[seed_index])
    begun = run.config.train.from_run
    begun = begun if begun.startswith((ZOO, HUB)) else os.path.basename(begun)  # no folder of this machine
    origin = f"the run or policy {begun}" if begun else ""
    origin = f"stage {run.stage!r} of a curriculum" if run.stage else origin
    content = {
        "jaxrl": jaxrl.__version__,
        "name": run.name,
        "update": run.update,
        "env_version": run.env.version,
        "made": {**run.made, "origin": origin} if run.made else {},
        "config": _without_places(configs.to_dict(run.config)),
        "half": half,
        "params": _rounded(params, half),
    }
    body = serialization.msgpack_serialize(content)
    put(path, _MAGIC + zlib.crc32(body).to_bytes(4, "big") + body)


def _rounded(params: PyTree, half: bool) -> PyTree:
    """Returns the arrays as a policy file stores them."""
    return jax.tree_util.tree_map_with_path(_halved, params) if half else params


def stored(params: PyTree, *, half: bool) -> PyTree:
    """Returns parameters as `read_parameters` gives them back from a policy file; `half` as of `save_policy`."""
    return jax.tree.map(_whole, _rounded(jax.tree.map(np.asarray, params), half))


def put(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file where the user wants it, whole or not at all; raises UserError if that cannot be."""
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe would be replaced
        raise UserError(f"cannot write {os.fspath(path)}: it is no ordinary file; give another name.")
    try:
        files.write(path, data)
    except OSError as error:
        raise UserError(f"cannot write {os.fspath(path)}: {error.strerror}.") from error


def load_policy(
    path: str | os.PathLike[str], allow: Collection[str] = (), overrides: Sequence[str] = ()
) -> ExportedPolicy:
    """Reads a policy file.

    Args:
      path: path of the file.
      allow: modules that it may name, e.g. of a game of your own, see `jaxrl.config.trust`: importing one runs it.
      overrides: changes of its configuration, see `jaxrl.config.trained`; e.g. where the engine of its game is.

    Raises:
      UserError: not a policy file, damaged, for another version of its game, an override of what is fixed, or it names
        code that is not allowed.
    """
    content, config, env = _read(path, allow, overrides)
    return ExportedPolicy(content["name"], config, env, content["update"], _params_in(content, path))


class PolicyParameters(NamedTuple):
    """Part of a policy file that a training begins with, and its origin."""

    env_id: str
    env_version: str
    params: PyTree  # of the network
    name: str
    update: int
    made: dict[str, Any]  # as of `TrainedRun.made`; files of older versions have none
    half: bool


def read_parameters(path: str | os.PathLike[str]) -> PolicyParameters:
    """Returns the parameters in a policy file. Nothing that it names is made: neither its game nor its network.

    Raises:
      UserError: not a policy file, or a damaged one.
    """
    content = _content_of(path)
    env = content["config"].get("env")
    game = str(env.get("id")) if isinstance(env, dict) else ""
    made, params = content.get("made"), _params_in(content, path)
    origin = content["name"], content["update"], made if isinstance(made, dict) else {}, content.get("half") is True
    return PolicyParameters(game, content["env_version"], params, *origin)


def policy_config(path: str | os.PathLike[str], allow: Collection[str] = (), overrides: Sequence[str] = ()) -> Config:
    """Returns the configuration of a policy file: nothing that it names is made, and jax is not started. Arguments and
    errors as of `load_policy`."""
    return _config_in(_content_of(path), path, allow, overrides)


def policy_game(path: str | os.PathLike[str]) -> tuple[Config, Env]:
    """The configuration and the game of a policy file, without making its network. Errors as of `load_policy`."""
    return _read(path)[1:]


def _read(
    path: str | os.PathLike[str], allow: Collection[str] = (), overrides: Sequence[str] = ()
) -> tuple[dict[str, Any], Config, Env]:
    """Returns the content of a policy file, its configuration and its game."""
    content = _content_of(path)
    config = _config_in(content, path, allow, overrides)
    env = make_games(config).evaluation if overrides else make_evaluation_env(config)  # overrides may not fit
    if env.version != content["env_version"]:
        raise UserError(
            f"{os.fspath(path)} is for version {content['env_version']} of {config.env.id}, "
            f"this is version {env.version}: train again or install the older one."
        )
    return content, config, env


def _config_in(
    content: dict[str, Any], path: str | os.PathLike[str], allow: Collection[str], overrides: Sequence[str]
) -> Config:
    """Returns the configuration in the content of a policy file."""
    return configs.trained(_without_places(content["config"]), os.fspath(path), overrides, allow)


def _content_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the content of a policy file. Raises UserError: not one, or a damaged one."""
    try:
        data = files.contents(path, LARGEST)
    except OSError as error:
        raise UserError(f"cannot read {os.fspath(path)}: {error.strerror}.") from error
    if not data.startswith(_MAGIC):
        raise UserError(f"{os.fspath(path)} is not a policy file: make one with `jaxrl export RUN FILE`.")
    checksum, body = data[len(_MAGIC) : len(_MAGIC) + 4], data[len(_MAGIC) + 4 :]
    if zlib.crc32(body).to_bytes(4, "big") != checksum:
        raise UserError(f"{os.fspath(path)} is damaged (its checksum is wrong): export it again.")
    return _unpacked(body, os.fspath(path))


def _params_in(content: dict[str, Any], path: str | os.PathLike[str]) -> PyTree:
    """Returns the parameters in the content of a policy file, f32. Raises UserError if they are not finite."""
    params = jax.tree.map(_whole, content["params"]) if content.get("half") is True else content["params"]
    if not all(
        np.isfinite(leaf).all() for leaf in jax.tree.leaves(params) if getattr(leaf, "dtype", None) == np.float32
    ):
        raise UserError(f"{os.fspath(path)} holds parameters that are not finite: export another checkpoint.")
    return params


def _without_places(tree: dict[str, Any]) -> dict[str, Any]:
    """Returns a configuration without what belongs to the machine of the training: folders, other runs, engines. It is
    not written, and ignored in files that are read."""
    run, train = tree.get("run"), tree.get("train")
    away = ["callbacks", "metrics", *filter(registry.section_of, registry.registered())]
    tree = {key: value for key, value in tree.items() if key not in away}
    if isinstance(run, dict):
        cached = run.get("cache_dir") != ""
        tree["run"] = {key: run[key] for key in run if key != "directory" and not (key == "cache_dir" and cached)}
    if isinstance(train, dict):
        tree["train"] = {key: train[key] for key in train if key != "from_run"}
    return tree


def _unpacked(body: bytes, label: str) -> dict[str, Any]:
    """Returns the content of a policy file. Raises UserError: a field is missing, or of another type."""
    try:
        _check_count(body)
        content = serialization.msgpack_restore(body)
        wrong = [field for field, kind in _FIELDS.items() if not isinstance(content[field], kind)]
        jax.tree.structure(content["params"])  # of keys that can be sorted
        wrong += ["name"] * (not content["name"].isprintable() or len(content["name"]) > LONGEST_NAME)
    except Exception as error:  # msgpack and NumPy raise many types of exceptions
        raise UserError(f"{label} is malformed ({type(error).__name__} while reading it): export it again.") from error
    if wrong:
        raise UserError(f"{label} is malformed ({', '.join(wrong)}): export it again.")
    return content


def _check_count(body: bytes) -> None:
    """Raises ValueError if what a file unpacks to has more than `files.MOST` values beside the numbers of arrays."""
    count = 0

    def made(values: Sized) -> None:
        nonlocal count
        count += 1 + len(values)
        if count > files.MOST:
            raise ValueError(f"it holds more than {files.MOST:,} values")

    def leaf(code: int, data: bytes) -> None:
        msgpack.unpackb(data, raw=True, **limits)

    limits: dict[str, Any] = {"list_hook": made, "object_pairs_hook": made, "strict_map_key": False}
    limits |= {"max_array_len": files.MOST, "max_map_len": files.MOST}
    msgpack.unpackb(body, ext_hook=leaf, **limits)


def _halved(path: Any, leaf: np.ndarray) -> np.ndarray:
    """float32 as float16, but for the statistics of normalisers and arrays with numbers too large for float16."""
    fits = leaf.dtype == np.float32 and np.abs(leaf).max(initial=0) < _TOO_LARGE
    return leaf.astype(np.float16) if fits and not is_statistics(path) else leaf


def _whole(leaf: Any) -> Any:
    """Returns float16 as float32; other leaves unchanged."""
    return leaf.astype(np.float32) if getattr(leaf, "dtype", None) == np.float16 else leaf


def forms(tree: PyTree) -> dict[str, tuple[Any, Any]]:
    """Returns shape and dtype of every leaf of parameters by its path, None for leaves that are no arrays."""
    flat = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        jax.tree_util.keystr(path): (getattr(leaf, "shape", None), getattr(leaf, "dtype", None)) for path, leaf in flat
    }
