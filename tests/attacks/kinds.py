"""All kinds of files that jaxrl reads, for attacks on their readers: how good ones are made, read, and forged."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import io
import json
import math
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import orjson
import yaml
from flax import serialization

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.diagnose.gpu.cards import _FACTS, TARGET, find_card
from jaxrl.matches.recording import replays
from jaxrl.matches.tournaments import known_ratings
from jaxrl.networks.factory import make_network
from jaxrl.policies.export import _MAGIC, load_policy, read_parameters, save_policy
from jaxrl.runs import metric_log, status
from jaxrl.runs.checkpoints import state
from jaxrl.runs.checkpoints.checkpoint import CheckpointStore, Damaged
from jaxrl.runs.directory import TrainedRun, make_env
from jaxrl_envs.battle import golden as battle
from jaxrl_envs.battle import maps, rosters
from jaxrl_envs.beasty_bar import golden as beasty_bar
from jaxrl_envs.car_soccer import golden as car_soccer
from jaxrl_envs.car_soccer import setters
from jaxrl_envs.car_soccer.display import playback
from jaxrl_envs.car_soccer.field import Teams
from jaxrl_envs.car_soccer.physics.field import mesh
from jaxrl_envs.forge.deckbuilding.deck import read_deck
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.shared import golden
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.skull_king import golden as skull_king
from scripts import published_matrix
from tests.runs.test_checkpoint import store_with
from tests.support.paths import GOLDEN, ROOT

GAME = "tests.support.games:HighCard"
BATTLE = ROOT / "envs" / "jaxrl_envs" / "battle" / "data"


class Codec(NamedTuple):
    """How a file's text becomes a file, with checksums that are right.

    Attributes:
      pack: a file of a text.
      parse, text: a tree of the bytes of a file, and the text of a tree; None for files that hold no tree.
      marker: what `text` makes of "@@", to be replaced by what no tree can say.
    """

    pack: Callable[[bytes], bytes] | None = lambda text: text
    parse: Callable[[bytes], Any] | None = None
    text: Callable[[Any], bytes] = lambda tree: json.dumps(tree).encode()
    marker: bytes = b'"@@"'


def _gzipped(text: bytes) -> bytes:
    return gzip.compress(text, 1, mtime=0)


def _lines(records: Any) -> bytes:
    """Returns records as JSON lines, whatever stands in the place of the list."""
    each = records if isinstance(records, list) else [records]
    return "\n".join(json.dumps(record) for record in each).encode()


def _sealed_replay(text: bytes) -> bytes:
    with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
        record = json.loads(text)
        record.pop("sha256", None)
        digest = hashlib.sha256(replays._dumped(record).encode()).hexdigest()
        text = replays._dumped(record | {"sha256": digest}).encode()
    return _gzipped(text)


def _of_lines(data: bytes) -> Any:
    return [json.loads(line) for line in data.splitlines()]


CODECS = {  # by the end of a file's name, the first that fits
    "record.json": Codec(
        lambda text: hashlib.sha256(text).hexdigest().encode() + b"\n" + text,
        lambda data: json.loads(data.partition(b"\n")[2]),
    ),
    ".replay": Codec(_sealed_replay, lambda data: json.loads(gzip.decompress(data))),
    ".jsonl.gz": Codec(_gzipped, lambda data: _of_lines(gzip.decompress(data)), _lines),
    ".json.gz": Codec(_gzipped, lambda data: json.loads(gzip.decompress(data))),
    ".forge.gz": Codec(_gzipped),
    ".jsonl": Codec(parse=_of_lines, text=_lines),
    ".json": Codec(parse=json.loads),
    ".table": Codec(parse=json.loads),
    ".yaml": Codec(parse=yaml.safe_load, text=lambda tree: yaml.safe_dump(tree).encode(), marker=b"'@@'"),
    ".jaxrl": Codec(
        lambda body: bytes(_MAGIC + zlib.crc32(body).to_bytes(4, "big") + body),
        lambda data: serialization.msgpack_restore(data[len(_MAGIC) + 4 :]),
        serialization.msgpack_serialize,
        b"\xa2@@",
    ),
    **{suffix: Codec() for suffix in (".dck", ".svg", ".txt", ".pbtxt")},
    "": Codec(pack=None),
}


def codec_of(name: str) -> Codec:
    """Returns the codec of a file."""
    return next(codec for suffix, codec in CODECS.items() if name.endswith(suffix))


class Kind(NamedTuple):
    """A kind of files, one of which is written already.

    Attributes:
      read: reads it in a folder; what it returns shows with `repr` what was read, or is a sentence in a `UserError` or
        `Damaged`.
      names: of the files that are attacked.
      most: bytes that a reader unpacks, about.
      exact: whether a checksum covers all that is read.
      others: files of the same kind, whose bytes may get into it.
      places: further names at which something else may lie, such as folders.
    """

    read: Callable[[Path], Any]
    names: tuple[str, ...]
    most: int = 1 << 24
    exact: bool = False
    others: tuple[bytes, ...] = ()
    places: tuple[str, ...] = ()


def _one(folder: Path, name: str, files: list[bytes], read: Callable[[Path], Any], **more: Any) -> Kind:
    """Returns a kind whose files are read one by one."""
    (folder / name).write_bytes(files[0])
    return Kind(lambda place: read(place / name), (name,), others=tuple(files), **more)


# ---- policies, replays, recordings ----------------------------------------------------------------------------------


def _policies(folder: Path) -> Kind:
    config = configs.from_dict({"env": {"id": GAME}, "network": {"hidden": [8]}, "run": {"name": "run"}})
    env = make_env(config)
    init = jax.jit(make_network(config.network, env).init)
    for seed in range(2):
        save_policy(folder / f"{seed}", TrainedRun("run", config, env, 7, [init(jax.random.key(seed))], "hash"))
    files = [(folder / f"{seed}").read_bytes() for seed in range(2)]

    def read(path: Path) -> Any:
        policy, again = load_policy(path, ["tests.support.games"]), read_parameters(path)
        assert policy.name.isprintable() and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(policy.params))
        assert again.env_id == GAME
        return policy.name, policy.update, [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(policy.params)]

    return _one(folder, "file.jaxrl", files, read, exact=True)


def _replays(folder: Path) -> Kind:
    def replay(number: int) -> bytes:
        return replays.Replay(
            game=GAME,
            version="1",
            options={},
            deal=[number, 1],
            step=[2, 3],
            lane=0,
            actions=[0, 1, 2, 0, 1, 2],
            returns=[0.5, -0.5, 0.0],
            digest="ab",
            kind="longest",
            players=["a", "b", "c"],
            title="a game",
            made=replays.made_here(),
            thinned=[{"step": 0, "hand": [1, 2]}],
        ).packed()

    def read(path: Path) -> Any:
        assert replays.is_replay(str(path))
        return replays.read(str(path), allow=["tests.support.games"]).replay

    return _one(folder, "file.replay", [replay(0), replay(1)], read, most=replays.LIMIT, exact=True)


def _recorded(name: str, kinds: Any, most: int = 1 << 24) -> Callable[[Path], Kind]:
    """Returns the maker of recorded games of a game, the first two of a file."""

    def make(folder: Path) -> Kind:
        lines = gzip.decompress((GOLDEN / name).read_bytes()).splitlines(keepends=True)[:2]
        files = [gzip.compress(b"".join(part), mtime=0) for part in (lines, lines[:1], lines[1:])]
        read: Callable[[Path], Any] = lambda path: (len(golden.titles(Path(path))), list(golden.read(path, kinds)[1]))  # noqa: E731
        return _one(folder, "file.jsonl.gz", files, read, most=most, exact=True)

    return make


def episodes() -> dict[str, Any]:
    """Returns three recorded episodes, shortened: a car in the air, a ball at a ramp, two cars that meet."""
    found = json.loads(gzip.decompress((GOLDEN / "car_soccer" / "trajectories.json.gz").read_bytes()))
    tree = {name: found[name] for name in ("air_none", "ball_side_ramp", "car_bump")}
    for record in tree.values():
        record |= {key: record[key][:5] for key in ("ticks", "states", "controls_rle")} | {"T": 5}
    return tree


def still(settings: Any, geometry: Any, arenas: Any, pressed: Any) -> car_soccer.Poses:
    """Moves nothing, in the place of our physics."""
    lanes, ticks, cars = pressed.shape[:3]
    shapes = ((), (cars,), (cars, 3))
    return car_soccer.Poses(*(jnp.zeros((lanes, ticks, *shape, 3)) for shape in shapes))


def _episodes(folder: Path) -> Kind:
    def read(path: Path) -> Any:
        records = car_soccer.read(path)
        shown = [len(playback.play(path, number).record()) for number, _ in enumerate(playback.games(path))]
        return records, shown, str(car_soccer.measure(records))

    tree = episodes()
    files = [_gzipped(json.dumps(tree | {f"{number}": tree["air_none"]}).encode()) for number in range(2)]
    return _one(folder, "file.json.gz", files, read, most=car_soccer.LIMIT, exact=True)


def _conversations(folder: Path) -> Kind:
    files = [path.read_bytes() for path in sorted((GOLDEN / "forge").glob("*.gz"))[:3]]
    return _one(folder, "file.forge.gz", files, lambda path: list(recording.read(path)), most=recording.SMALL)


def _films(folder: Path) -> Kind:
    from jaxrl.serve.replays.render_recording import FILM, film  # a room whose tests need no server

    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><g><rect x="1"/><animate dur="2s"/></g></svg>'
    return _one(folder, "file.svg", [svg.encode()], lambda path: film(path).picture(0), most=FILM)


# ---- what a game is made of -----------------------------------------------------------------------------------------


def _plain(name: str, path: Path, read: Callable[[Path], Any]) -> Callable[[Path], Kind]:
    """Returns a file of text without a checksum."""
    return lambda folder: _one(folder, name, [path.read_bytes()], read)


def _states(folder: Path) -> Kind:
    teams = Teams((1, 1))
    one = jax.eval_shape(lambda: setters.kickoff(jax.random.key(0), setters.Scene(teams)))
    for number in range(2):
        filled = {name: np.full((3, *spec.shape), number + 0.5, np.float32) for name, spec in vars(one).items()}
        setters.save_states(folder / f"{number}.npz", setters.Start(**filled))
    files = [(folder / f"{number}.npz").read_bytes() for number in range(2)]
    read: Callable[[Path], Any] = lambda path: [  # noqa: E731
        each.tobytes() for each in vars(setters.load_states(str(path), teams)).values()
    ]
    return _one(folder, "file.npz", files, read, most=setters.LARGEST, exact=True)


def _meshes(folder: Path) -> Kind:
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4")
    data = np.array([1, 3], "<i4").tobytes() + np.arange(3, dtype="<i4").tobytes() + corners.tobytes()
    return _one(folder, "file.cmf", [data], lambda path: mesh.read_folder(path.parent))


# ---- runs and tables ------------------------------------------------------------------------------------------------

OUTCOMES = {"games": 8, "wins": 6, "win_rate": 0.75, "win_rate_95": [0.4, 0.93], "draw_rate": 0.0}
ROW = {"candidate": "run", "opponent": "random", "figures": {"return": {"mean": 1.0}}, "outcomes": OUTCOMES}
BEGUN = "2026-01-01T00:00:00+00:00"
RUN: dict[str, Any] = {  # the files of a run beside its checkpoints
    "config.yaml": {"env": {"id": "skull_king"}, "train": {"total_steps": 100_000}, "ppo": {"learning_rate": 0.1}},
    "metrics.jsonl": [{"update": n, "steps": 100 * n, "time/fps": 100.0, "eval/mean_win_rate": 0.5} for n in (2, 3)],
    "evaluation.json": [{"update": 3, "rows": [ROW], "overall": {"a": {"mean_win_rate": 0.5}}}],
    "exploitability.json": [{"update": 3, "score": 0.5}],
    "best.json": {"update": 3, "best_by": "win_rate", "score": 0.5},
    "milestones.json": [
        {"opponent": "a", "win_rate": 0.5, "update": 3, "steps": 300, "seconds": 1.0, "cpu_seconds": 2.0}
    ],
    "process.json": {
        "pid": 1,
        "host": "x",
        "processes": 1,
        "begun": BEGUN,
        "ended": BEGUN,
        "how": "failed",
        "why": ".",
    },
    "imitation.json": {"loss": 1.0},
    "log.1.jsonl": [{"time": "2026-01-01T00:00:00.000", "level": "warning", "message": "a warning"}],
}


def _runs(folder: Path) -> Kind:
    """Returns a run, beside another, as everything reads it that lists runs or looks at one without restoring it."""
    run, other = folder / "runs" / "run", folder / "runs" / "other"
    store_with(run, 1.0, 2.0).close()
    for name, tree in RUN.items():
        (run / name).write_bytes(codec_of(name).text(tree))
    (run / "log.txt").write_text("2026-01-01T00:00:00.000 warning jaxrl MainThread: a warning\n")
    (run / "replays" / "00000003").mkdir(parents=True)
    (run / "replays" / "00000003" / "highest.replay").write_bytes(b"x")
    shutil.copytree(run, other)

    def read(place: Path) -> Any:
        from jaxrl.serve.player_catalog import PlayerCatalog
        from jaxrl.serve.replays.library import RecordingLibrary
        from jaxrl.serve.runs.run_watcher import RunWatcher, trainer_of

        run, watcher = place / "runs" / "run", RunWatcher(place / "runs")
        catalog, library = PlayerCatalog([], place / "runs", ()), RecordingLibrary([place / "runs"])
        listed = {each["name"]: each for each in watcher.listed()}
        assert listed["other"]["evaluation"] == {"update": 3, "win_rate": 0.5}, "one bad run hides no other"
        found = [listed, catalog.known(), [library.find(each["file"]) for each in library.listed()["files"]]]
        if "run" in listed:
            found += [watcher.state(run), watcher.details(run), watcher.curves(run, ["time/fps"], -1)]
        found += [dataclasses.asdict(look(run)) for look in (status.brief, status.glance, status.whole)]
        orjson.dumps(found[0]), orjson.dumps(found[3:], option=orjson.OPT_NON_STR_KEYS)
        with contextlib.suppress(OSError):
            found.append(metric_log.read_rows(run / "metrics.jsonl"))
        with contextlib.suppress(UserError):
            trainer_of(run)
        for command in (["runs", "runs"], ["runs", "runs/run"], ["runs", "--directory", "runs", "--json"]):
            found.append(said(command))
        library.close()
        return [each | {"written": 0} if isinstance(each, dict) else each for each in found]

    more = ("log.txt", "checkpoints/2/record.json")
    places = (".lock", "checkpoints", "best", "replays", "checkpoints/2", "replays/00000003/highest.replay")
    names = tuple(f"runs/run/{name}" for name in (*RUN, *more))
    return Kind(read, names, places=tuple(f"runs/run/{name}" for name in places))


def said(command: list[str]) -> tuple[int, str]:
    """Returns the exit code of a command and what it prints; it must end as commands do."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(command)
    printed = out.getvalue() + err.getvalue()
    assert code in (0, 1, 2) and "Traceback" not in printed and "\x1b" not in printed, (command, code, printed)
    assert code != 2 or err.getvalue().startswith("jaxrl: ") and len(err.getvalue()) < 9_000, (command, printed)
    return code, printed


def _checkpoints(folder: Path) -> Kind:
    store_with(folder, 1.0, 2.0).close()
    files = [path for path in (folder / "checkpoints" / "2").rglob("*") if path.is_file()]

    def read(place: Path) -> Any:
        store = CheckpointStore(place / "checkpoints")
        newest = store.newest()  # the one before, if the second is damaged
        if newest.step == 1:
            with contextlib.suppress(Damaged):
                state.check_files(place / "checkpoints" / "2", 2)
            raise Damaged("the second")
        return newest.meta, {name: array.tobytes() for name, array in newest.arrays.items()}

    names = tuple(path.relative_to(folder).as_posix() for path in files)
    places = ("checkpoints/2", "checkpoints/2/state", "checkpoints/2/state/d", "checkpoints/2/share-0.npz")
    return Kind(read, names, exact=True, others=tuple(path.read_bytes() for path in files), places=places)


def table(id: str = "0123456789ab", **more: Any) -> dict[str, Any]:
    """Returns what a server writes of a person and two agents."""
    from jaxrl.serve.tables.game import GameRecord
    from jaxrl.serve.tables.record import TableRecord

    game = GameRecord(GAME, {}, [1, 2], [3, 4], [])
    specs, keys = ["person", "bot:lowest", "bot:lowest"], ["key", "", ""]
    kept = TableRecord(id, game, specs, ["Anna", "lowest", "lowest"], keys, ["", "", ""], 1e9, 0.0)
    return dataclasses.asdict(kept) | more


def _tables(folder: Path) -> Kind:
    from jaxrl.serve.tables.record import read_table

    def read(path: Path) -> Any:
        kept = read_table(path, [GAME])
        text = json.dumps(dataclasses.asdict(kept), allow_nan=False)
        assert kept.beside in ("", kept.beside.strip("<>:/."))
        assert len(kept.specs) == len(kept.names) == len(kept.keys) == len(kept.people) > 0
        assert not any(each in text for each in ("\\u001b", "\\n", "\\ud800"))
        return text, kept.shown_names

    good = table(people=["anna1", "", ""], record=table()["record"] | {"actions": [0, [1]]})
    return _one(folder, "0123456789ab.table", [json.dumps(good).encode()], read)


def _people(folder: Path) -> Kind:
    from jaxrl.serve.tables.ratings import PeopleRatings

    def read(path: Path) -> Any:
        ratings = PeopleRatings(path)
        before = {name: ratings.of(name, game) for name, game in (("anna", "skull_king"), ("ben", "nim"))}
        assert all(map(math.isfinite, before.values()))
        ratings.nearest("anna", "skull_king")
        with contextlib.suppress(OSError):  # the server tells it
            ratings.add("anna", "skull_king", [("hard", 1.0)])
        return before

    return _one(folder, "ratings.json", [b'{"anna skull_king": 7.5, "ben nim": -3}'], read)


KINDS: dict[str, Callable[[Path], Kind]] = {
    "configurations": _plain(
        "file.yaml", ROOT / "configs" / "skull_king_cpu.yaml", lambda path: configs.to_dict(configs.load(path))
    ),
    "policies": _policies,
    "replays": _replays,
    "games of Skull King": _recorded("skull_king/games.jsonl.gz", skull_king.KINDS, golden.LIMIT),
    "choices of Beasty Bar": _recorded("beasty_bar/bot_choices.jsonl.gz", beasty_bar.KINDS),
    "battles": _recorded("battle/battles.jsonl.gz", battle.KINDS),
    "episodes of car soccer": _episodes,
    "conversations with Forge": _conversations,
    "films": _films,
    "states of car soccer": _states,
    "meshes": _meshes,
    "decks": _plain("file.dck", sorted((ROOT / "examples" / "decks").rglob("*.dck"))[0], read_deck),
    "maps": _plain("file.yaml", BATTLE / "maps.yaml", lambda path: maps.load_map(f"{path}:centre")),
    "rosters": _plain("file.yaml", sorted((BATTLE / "rosters").glob("*.yaml"))[0], rosters.load_roster),
    "a published matrix": _plain("file.json", GOLDEN / "beasty_bar" / "bot_matrix.json", published_matrix.load_matrix),
    "known ratings": _plain("file.yaml", sorted((ROOT / "configs/ratings").glob("*.yaml"))[0], known_ratings.read),
    "a graphics card": lambda folder: _one(
        folder, "file.pbtxt", [TARGET.format(**_FACTS["h100"]).encode()], lambda path: find_card(str(path))
    ),
    "runs": _runs,
    "checkpoints": _checkpoints,
    "tables": _tables,
    "ratings of people": _people,
}
