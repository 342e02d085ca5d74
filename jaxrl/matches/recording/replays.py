"""Replays: one game as a small file that plays it again exactly.

A file is one JSON object, gzipped: the game with its options, the keys of chance, the actions of all seats, a digest of
all states, which follow from them, and last the SHA-256 of the rest. Rounding differs from program to program, and a
game of floats would diverge: so replays are always played by one form of program, `LANES` games wide and without
players, and each in the lane in which it was recorded. A sample of the states is in the file as plain numbers too
(`Env.sketch`), for viewers that cannot play it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxrl
from jaxrl import config as configs
from jaxrl import xla
from jaxrl.config import Config
from jaxrl.games import make_env
from jaxrl.runs.logs.run_log import LOG
from jaxrl_envs.contract.env import Env, Key, PyTree, State, is_over
from jaxrl_envs.shared import files, golden, prng
from jaxrl_envs.shared.errors import UserError

FORMAT = 2
SUFFIX = ".replay"
LANES = 4
LONGEST = 10_000  # steps of a game that is recorded
SHOWN = 100  # states that a file holds, about
HIDDEN = ("observation", "legal_action_mask")  # of a state, which no file holds
LIMIT = 1 << 26  # bytes of a file, unpacked
_WORDS = (range(1 << 32),) * 2
_SHAPE = {
    "replay": frozenset([FORMAT]),
    "game": str,
    "version": str,
    "options": {},
    "deal": _WORDS,
    "step": _WORDS,
    "lane": range(LANES),
    "actions": list,
    "returns": [float],
    "digest": str,
    "kind": str,
    "players": [str],
    "title": str,
    "made": {"jaxrl": str, "jax": str, "platform": str},
    "thinned": list,
}


@dataclasses.dataclass(frozen=True)
class Replay:
    """Contents of a replay file."""

    game: str
    version: str
    options: dict[str, Any]
    deal: list[int]  # words of the keys, [2]
    step: list[int]  # words of the keys, [2]
    lane: int  # lane in which it was played
    actions: list[Any]  # [T], or [T, P] in a simultaneous game
    returns: list[float]  # [P]
    digest: str  # digest of the T + 1 states
    kind: str  # the reason why it was kept, see `jaxrl.matches.recording.highlights`
    players: list[str]  # their names, [P]
    title: str  # description for people
    made: dict[str, str]  # versions and machine that made it
    thinned: list[dict[str, Any]]  # a sample of the states, see `Env.sketch`, each with its number as "step"

    def text(self) -> str:
        """Returns all of the file, unpacked."""
        record = {"replay": FORMAT} | vars(self)
        return _dumped(record | {"sha256": hashlib.sha256(_dumped(record).encode()).hexdigest()})

    def write(self, path: Path) -> None:
        """Writes the file, whole or not at all."""
        files.write(path, self.packed())

    def packed(self) -> bytes:
        """Returns the file."""
        return gzip.compress(self.text().encode(), mtime=0)


def _dumped(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"))


# ---- playing --------------------------------------------------------------------------------------------------------


class PlayedLanes(NamedTuple):
    """Games as they were played in lanes, [LANES]."""

    actions: list[np.ndarray]  # i32[T] or i32[T, P] each
    returns: np.ndarray  # f32[LANES, P]
    digests: list[str]
    over: np.ndarray  # bool, False = longer than `LONGEST`


class ReplayLanes:
    """Games side by side, by programs that do not depend on the players."""

    def __init__(self, env: Env):
        """Compiles at the first game."""
        self.env = env
        options = {} if env.multi_output_fusion else xla.plain_options()
        self._init = jax.jit(jax.vmap(env.init_deal), compiler_options=options)
        self._step = jax.jit(jax.vmap(self._one, in_axes=(0, 0, 0, None)), compiler_options=options)

    def _one(self, state: State, action: jax.Array, key: Key, time: jax.Array) -> State:
        return self.env.step(state, action, jax.random.fold_in(key, time))

    def play(
        self,
        deal: Key,
        step: Key,
        answer: Callable[[State, np.int32], Any],
        watch: Callable[[State, int], None] | None = None,
    ) -> PlayedLanes:
        """Plays a game in every lane. `deal`, `step`: key[LANES], as in `jaxrl.matches.match.GameKeys`; `answer`:
        (states, steps so far) -> i32[LANES] or i32[LANES, P]; `watch`: callback for all states and their numbers."""
        game = _Lanes(self.env.num_players, watch)
        state = self._init(deal)
        game.see(state)
        while game.running.any() and game.time < LONGEST:
            action, time = np.asarray(answer(state, np.int32(game.time)), np.int32), np.int32(game.time)
            state = self._step(state, action, step, time)
            game.record(action, state)
        return game.played()


class _Lanes:
    """The recording of games in all lanes; `running` is bool[LANES], `time` the number of steps."""

    def __init__(self, seats: int, watch: Callable[[State, int], None] | None):
        self.running, self.time = np.ones(LANES, bool), 0
        self._watch = watch
        self._digests = [hashlib.sha256() for _ in range(LANES)]
        self._actions: list[list[np.ndarray]] = [[] for _ in range(LANES)]
        self._returns = np.zeros((LANES, seats), np.float32)

    def record(self, action: np.ndarray, after: State) -> None:
        self.time += 1
        for lane in np.flatnonzero(self.running):
            self._actions[lane].append(action[lane])
        self.see(after)

    def see(self, state: State) -> None:
        """Adds a state to the digests and returns of the games that have not ended before."""
        shown: State = jax.device_get(state)
        leaves = [np.asarray(_words_of(leaf)) for leaf in jax.tree.leaves(shown)]
        for lane in np.flatnonzero(self.running):
            self._digests[lane].update(b"".join(leaf[lane].tobytes() for leaf in leaves))
        if self.time:
            self._returns += np.where(self.running[:, None], shown.rewards, np.float32(0))
        if self._watch is not None:
            self._watch(shown, self.time)
        self.running &= ~np.asarray(is_over(shown))

    def played(self) -> PlayedLanes:
        digests = [digest.hexdigest() for digest in self._digests]
        return PlayedLanes([np.array(each) for each in self._actions], self._returns, digests, ~self.running)


def recorded(actions: Sequence[np.ndarray]) -> Callable[[State, np.int32], np.ndarray]:
    """Returns, for `ReplayLanes.play`, the actions of a recording; the last one is repeated after the end of a game."""
    return lambda _, time: np.stack([each[min(int(time), len(each) - 1)] for each in actions])


# ---- writing --------------------------------------------------------------------------------------------------------


class ReplayLabel(NamedTuple):
    """The labels of a replay, for people."""

    kind: str  # the reason why it was kept
    players: list[str]  # [P]
    title: str


def make_replays(
    config: Config, lanes: ReplayLanes, deal: Key, step: Key, first: PlayedLanes, labels: Sequence[ReplayLabel]
) -> list[Replay]:
    """Plays recorded games again, without the players; games that end differently, or did not end, are left out with a
    warning. `deal`, `step`: key[LANES]; `labels`: labels of the lanes that count, from the first on."""
    env = lanes.env
    thinned: list[list[dict[str, Any]]] = [[] for _ in labels]

    def watch(state: State, time: int) -> None:
        for lane, shown in enumerate(thinned):
            steps = len(first.actions[lane])
            if time > steps or (time % max(1, -(-steps // SHOWN)) and time < steps):
                continue
            sketch = env.sketch(jax.tree.map(lambda leaf, lane=lane: leaf[lane], state))
            shown.append({"step": time} | _numbers(sketch))

    again = lanes.play(deal, step, recorded(first.actions), watch)
    words = [np.asarray(jax.random.key_data(keys)).tolist() for keys in (deal, step)]
    found = []
    for lane, label in enumerate(labels):
        if not first.over[lane] or again.digests[lane] != first.digests[lane]:
            LOG.warning("%s does not repeat exactly: it is not kept as a replay", label.title)
            continue
        found.append(
            Replay(
                game=config.env.id,
                version=env.version,
                options=config.evaluation_options,
                deal=words[0][lane],
                step=words[1][lane],
                lane=lane,
                actions=first.actions[lane].tolist(),
                returns=first.returns[lane].tolist(),
                digest=first.digests[lane],
                kind=label.kind,
                players=label.players,
                title=label.title,
                made=made_here(),
                thinned=thinned[lane],
            )
        )
    return found


def write_replays(folder: Path, found: Sequence[Replay]) -> None:
    """Writes replays into a folder, named by their kinds, and removes other replays in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"*{SUFFIX}"):
        old.unlink()
    for replay in found:
        replay.write(folder / f"{replay.kind}{SUFFIX}")


def _numbers(sketch: PyTree) -> dict[str, Any]:
    """Returns the arrays of a sketch by name, for JSON, without observations and masks."""
    named = {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(sketch)}
    return {name: _plain(leaf) for name, leaf in named.items() if not name.startswith(HIDDEN)}


def _name(path: Any) -> str:
    return re.sub(r"\W+", ".", jax.tree_util.keystr(path)).strip(".")


def _plain(value: Any) -> Any:
    """Numbers for JSON, with six digits; None for values that are not finite."""
    value = np.asarray(_words_of(value))
    if value.dtype.kind != "f":
        return value.tolist()
    short = np.frompyfunc(lambda x: float(f"{x:.6g}") if math.isfinite(x) else None, 1, 1)
    return np.asarray(short(value), object).tolist()


# ---- reading --------------------------------------------------------------------------------------------------------


def is_replay(name: str) -> bool:
    """Returns whether a file is meant as a replay, by its suffix or its first bytes."""
    path = Path(name)
    if name.endswith(SUFFIX) or not path.is_file():
        return name.endswith(SUFFIX)
    with contextlib.suppress(OSError), files.opened(path) as file:
        return file.read(2) == b"\x1f\x8b"
    return True  # reading it raises the error


class OpenedReplay(NamedTuple):
    """A replay file that was read; nothing is computed yet."""

    path: str
    replay: Replay
    config: Config
    env: Env

    def last(self) -> PyTree:
        """Returns the last sketch as the file holds it, with zeros for observations and masks; nothing is played."""
        numbers = self.replay.thinned[-1]

        def read(path: Any, leaf: jax.ShapeDtypeStruct) -> jax.Array:
            if (name := _name(path)).startswith(HIDDEN):
                return jnp.zeros(leaf.shape, leaf.dtype)
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                return keys_of(numbers[name])
            return jnp.asarray(np.asarray(numbers[name], leaf.dtype).reshape(leaf.shape))

        form = jax.eval_shape(lambda key: self.env.sketch(self.env.init(key)), keys_of(self.replay.deal))
        return jax.tree_util.tree_map_with_path(read, form)

    def play(self, lanes: ReplayLanes | None = None) -> tuple[list[State], list[Any]]:
        """Returns all states, and the actions between them as `Env.film` takes them. Raises UserError: the states
        differ from the recorded ones."""
        replay, states = self.replay, []
        actions = np.array(replay.actions, np.int32)

        def watch(state: State, time: int) -> None:
            if time <= len(actions):
                states.append(jax.tree.map(lambda leaf: leaf[replay.lane], state))

        played = (lanes or ReplayLanes(self.env)).play(
            keys_of([replay.deal] * LANES), keys_of([replay.step] * LANES), recorded([actions] * LANES), watch
        )
        if played.digests[replay.lane] != replay.digest:
            raise UserError(
                f"{self.path} does not play here as it was recorded ({_said(replay.made)}; here {_said(made_here())}): "
                "play it where it was made, or it is damaged."
            )
        return states, list(actions) if self.env.simultaneous else actions.tolist()


def read(path: str, overrides: Sequence[str] = (), allow: Collection[str] = ()) -> OpenedReplay:
    """Reads the file of a replay; `OpenedReplay.play` plays it. Raises UserError: it is no replay, is damaged, is of
    another version of its game, or names code that is not allowed. `overrides`: changes of the configuration, but for
    the game. `allow`: modules that the file may name, see `jaxrl.config.trust`; no other code is run."""
    text = files.unpacked(path, LIMIT)
    record = files.parse(text, path, json_text=True)
    with _no_replay(path):
        golden.fit(record, _SHAPE)
        replay = Replay(**{field.name: record[field.name] for field in dataclasses.fields(Replay)})
    if replay.text() != text:
        raise UserError(f"{path} is damaged, its sha256 is not that of what it holds: take another replay of the run.")
    tree = {"env": {"id": replay.game, "options": replay.options}}
    config = configs.trained(tree, path, overrides, allow)
    env = make_env(config)
    if env.version != replay.version:
        raise UserError(
            f"{path} is of version {replay.version} of {replay.game}, this is version {env.version}: "
            "film another one, or install the older version."
        )
    one = range(env.num_actions)
    with _no_replay(path):
        golden.fit(replay.actions, [(one,) * env.num_players] if env.simultaneous else [one], "actions")
        golden.require(0 < len(replay.actions) <= LONGEST, f"actions must be 1 to {LONGEST}")
        golden.require(len(replay.players) == env.num_players, f"players must be {env.num_players}")
    return OpenedReplay(path, replay, config, env)


@contextlib.contextmanager
def _no_replay(path: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise UserError(f"{path} is no replay ({what}): a training writes them into RUN/replays.") from None


def made_here() -> dict[str, str]:
    """Returns `Replay.made` of games that are recorded now."""
    return {"jaxrl": jaxrl.__version__, "jax": jax.__version__, "platform": jax.default_backend()}


def keys_of(words: Any) -> Key:
    """Returns fast keys from their words, u32[..., 2]."""
    return jax.random.wrap_key_data(jnp.asarray(words, jnp.uint32), impl=prng.implementation())


def _said(made: Mapping[str, str]) -> str:
    return f"jaxrl {made['jaxrl']}, jax {made['jax']}, {made['platform']}"


def _words_of(leaf: Any) -> Any:
    """Returns a leaf of a state; of a key its words."""
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
