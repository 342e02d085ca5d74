"""Files of every other kind that a command reads: damaged, and changed by a hostile hand with right checksums.

Each try ends in what was written, in a sentence, or, where a file has no checksum, in other values of the right form.
Nothing is called, and nothing is written anywhere else.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from flax import serialization

from jaxrl import cli, zoo
from jaxrl.config import from_dict
from jaxrl.diagnose import machine_report
from jaxrl.matches.recording import replays
from jaxrl.matches.tournaments import published_matrix, rating_scale
from jaxrl.networks.factory import make_network
from jaxrl.players.export import _MAGIC, load_policy, save_policy
from jaxrl.runs import metric_log, status
from jaxrl.runs.directory import TrainedRun, make_env, read_json_list
from jaxrl_envs.battle import golden as battle
from jaxrl_envs.battle import maps, rosters
from jaxrl_envs.beasty_bar import golden as beasty_bar
from jaxrl_envs.car_soccer import golden as car_soccer
from jaxrl_envs.car_soccer import setters
from jaxrl_envs.car_soccer.display import playback
from jaxrl_envs.car_soccer.field import Teams
from jaxrl_envs.forge.deckbuilding.deck import read_deck
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.shared import golden
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.skull_king import golden as skull_king
from tests.support.damaging import changed, damaged, soon
from tests.support.paths import GOLDEN, ROOT

GAME = "tests.support.games:HighCard"


class Kind(NamedTuple):
    """A kind of files.

    Attributes:
      suffix: of their names.
      files: contents of some, as they are written.
      read: reads one; what it returns shows with `repr` what was read.
      tree: what a file holds, to be changed by a hostile hand; None: nothing but its bytes.
      write: a file from such a tree, with right checksums.
      exact: whether a checksum covers all that is read.
    """

    suffix: str
    files: list[bytes]
    read: Callable[[Path], Any]
    tree: Any = None
    write: Callable[[Any], bytes] = lambda tree: json.dumps(tree).encode()
    exact: bool = False


def _lines(records: Any) -> bytes:
    """Records as JSON lines, whatever stands in the place of the list."""
    each = records if isinstance(records, list) else [records]
    return "\n".join(json.dumps(record) for record in each).encode()


def _recorded(name: str, kinds: Any) -> Kind:
    """Recorded games of a game, the first two of a file."""
    lines = gzip.decompress((GOLDEN / name).read_bytes()).splitlines(keepends=True)[:2]
    files = [gzip.compress(b"".join(part), mtime=0) for part in (lines, lines[:1], lines[1:])]
    read: Callable[[Path], Any] = lambda path: list(golden.read(path, kinds)[1])  # noqa: E731
    return Kind(".jsonl.gz", files, read, [json.loads(line) for line in lines], _lines, exact=True)


def _policy(folder: Path) -> Kind:
    config = from_dict({"env": {"id": GAME}, "network": {"hidden": [8]}, "run": {"name": "run"}})
    env = make_env(config)
    init = jax.jit(make_network(config.network, env).init)
    for seed in range(2):
        save_policy(folder / f"{seed}", TrainedRun("run", config, env, 7, [init(jax.random.key(seed))], "hash"))
    files = [(folder / f"{seed}").read_bytes() for seed in range(2)]

    def read(path: Path) -> Any:
        policy = load_policy(path, ["tests.support.games"])
        assert policy.name.isprintable() and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(policy.params))
        return policy.name, policy.update, [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(policy.params)]

    def write(content: Any) -> bytes:
        body = serialization.msgpack_serialize(content)
        return bytes(_MAGIC + zlib.crc32(body).to_bytes(4, "big") + body)

    return Kind(".jaxrl", files, read, serialization.msgpack_restore(files[0][len(_MAGIC) + 4 :]), write, exact=True)


def _zoo() -> Kind:
    """Policies of the zoo, of which the whole game is made: the smallest."""
    paths = sorted((zoo.policy_file(name) for name in zoo.names()), key=lambda path: path.stat().st_size)[:2]
    files = [path.read_bytes() for path in paths]
    return Kind(".jaxrl", files, lambda path: load_policy(path).name, exact=True)


def _replay() -> Kind:
    def replay(number: int) -> replays.Replay:
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
        )

    def write(tree: Any) -> bytes:
        return gzip.compress(replays.Replay(**tree).text().encode(), mtime=0)

    read: Callable[[Path], Any] = lambda path: replays.read(str(path), allow=["tests.support.games"]).replay  # noqa: E731
    files = [replay(number).packed() for number in range(2)]
    return Kind(".replay", files, read, vars(replay(0)), write, exact=True)


def _cars() -> Kind:
    """Recorded episodes, shortened."""
    found = json.loads(gzip.decompress((GOLDEN / "car_soccer" / "trajectories.json.gz").read_bytes()))
    tree = {name: found[name] for name in ("air_none", "ball_side_ramp", "car_bump")}
    for record in tree.values():
        record |= {key: record[key][:5] for key in ("ticks", "states", "controls_rle")} | {"T": 5}

    def read(path: Path) -> Any:
        records = car_soccer.read(path)
        shown = [len(playback.play(path, number).record()) for number, _ in enumerate(playback.games(path))]
        return records, shown, str(car_soccer.measure(records))

    files = [gzip.compress(json.dumps({name: tree[name]}).encode(), mtime=0) for name in tree]
    return Kind(".json.gz", files, read, tree, exact=True)


def _states(folder: Path) -> Kind:
    """States from which games of car soccer begin."""
    teams = Teams((1, 1))
    one = jax.eval_shape(lambda: setters.kickoff(jax.random.key(0), setters.Scene(teams)))
    for number in range(2):
        filled = {name: np.full((3, *spec.shape), number + 0.5, np.float32) for name, spec in vars(one).items()}
        setters.save_states(folder / f"{number}.npz", setters.Start(**filled))
    files = [(folder / f"{number}.npz").read_bytes() for number in range(2)]
    read: Callable[[Path], Any] = lambda path: [  # noqa: E731
        each.tobytes() for each in vars(setters.load_states(str(path), teams)).values()
    ]
    return Kind(".npz", files, read, exact=True)


def _forge() -> Kind:
    read: Callable[[Path], Any] = lambda path: list(recording.read(path))  # noqa: E731
    return Kind(".forge.gz", [path.read_bytes() for path in sorted((GOLDEN / "forge").glob("*.gz"))[:3]], read)


def _run(folder: Path) -> Kind:
    """The files of a run beside its checkpoints, as `jaxrl status` and `jaxrl runs` read them."""
    evaluations = [
        {"update": 3, "rows": [{"figures": {"return": {"mean": 1.0}}}], "overall": {"a": {"mean_win_rate": 0.5}}}
    ]
    tree = {
        "metrics.jsonl": {"update": 3, "steps": 300, "time/fps": 100.0, "eval/mean_win_rate": 0.5},
        "evaluation.json": evaluations,
        "best.json": {"update": 3, "best_by": "win_rate", "score": 0.5},
        "milestones.json": [
            {"opponent": "a", "win_rate": 0.5, "update": 3, "steps": 300, "seconds": 1.0, "cpu_seconds": 2.0}
        ],
        "process.json": {"pid": 1, "host": "x", "started": "", "ended": "", "how": "", "why": "", "processes": 1},
    }
    run = folder / "runs" / "run"
    run.mkdir(parents=True, exist_ok=True)
    (run / "config.yaml").write_text("train: {total_steps: 100000}\n")

    def read(path: Path) -> Any:
        content = json.loads(path.read_bytes())
        for name in tree:
            (run / name).write_text(json.dumps(content.get(name)))
        found = status.whole(run)
        json.dumps(vars(found))
        metric_log.read_rows(run / "metrics.jsonl")
        return read_json_list(run / "evaluation.json")

    def read_bytes(path: Path) -> Any:
        try:
            return read(path)
        except (ValueError, AttributeError):  # of this test
            return None

    return Kind(".json", [json.dumps(tree).encode()], read_bytes, tree)


def _plain(suffix: str, path: Path, read: Callable[[Path], Any]) -> Kind:
    """A file of YAML or JSON without a checksum."""
    data = path.read_bytes()
    tree = yaml.safe_load(data)
    dump = json.dumps if suffix == ".json" else yaml.safe_dump
    return Kind(suffix, [data], read, tree, lambda tree: dump(tree).encode())


def _report(folder: Path) -> Kind:
    report = {
        "format": machine_report.FORMAT,
        "training": {"steps_per_second": 1.0, "steps_per_cpu_second": 1.0, "rollout_ms": 1.0, "update_ms": 2.0},
        "environment": {"steps_per_second": 1.0, "steps_per_cpu_second": 1.0},
        "inference_ms": {},
        "first_call_seconds": {"training": 1.0},
        "memory": {"peak_rss_mib": 1.0, "peak_device_mib": None},
    }
    (folder / "report.json").write_text(json.dumps(report))
    read: Callable[[Path], Any] = lambda path: machine_report.figures(machine_report.load_report(str(path)))  # noqa: E731
    return _plain(".json", folder / "report.json", read)


BATTLE, DECKS = ROOT / "envs" / "jaxrl_envs" / "battle" / "data", ROOT / "examples" / "decks"
MAKE: dict[str, Callable[[Path], Kind]] = {
    "policies": _policy,
    "policies of the zoo": lambda folder: _zoo(),
    "replays": lambda folder: _replay(),
    "games of Skull King": lambda folder: _recorded("skull_king/games.jsonl.gz", skull_king.KINDS),
    "choices of Beasty Bar": lambda folder: _recorded("beasty_bar/bot_choices.jsonl.gz", beasty_bar.KINDS),
    "battles": lambda folder: _recorded("battle/battles.jsonl.gz", battle.KINDS),
    "episodes of car soccer": lambda folder: _cars(),
    "states of car soccer": _states,
    "conversations with Forge": lambda folder: _forge(),
    "decks": lambda folder: Kind(".dck", [path.read_bytes() for path in sorted(DECKS.rglob("*.dck"))[:3]], read_deck),
    "a published matrix": lambda folder: _plain(
        ".json", GOLDEN / "beasty_bar" / "bot_matrix.json", published_matrix.load_matrix
    ),
    "a rating scale": lambda folder: _plain(
        ".yaml", sorted((ROOT / "configs" / "ratings").glob("*.yaml"))[0], rating_scale.read
    ),
    "a report of a machine": _report,
    "maps": lambda folder: _plain(".yaml", BATTLE / "maps.yaml", lambda path: maps.load_map(f"{path}:centre")),
    "rosters": lambda folder: _plain(".yaml", sorted((BATTLE / "rosters").glob("*.yaml"))[0], rosters.load_roster),
    "files of a run": _run,
}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory) -> dict[str, Kind]:
    """Kinds that were made already."""
    return {}


@pytest.fixture
def kind(request, kinds, tmp_path_factory, monkeypatch, tmp_path) -> Kind:
    """One kind; the working directory is a new one, in which nothing may appear but what the test writes."""
    name = request.param
    if name not in kinds:
        kinds[name] = MAKE[name](tmp_path_factory.mktemp("kind"))
    if name == "episodes of car soccer":  # compiling the physics is not what is tried
        monkeypatch.setattr(car_soccer, "play", _still)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path.cwd())])  # so that it could be imported
    Path("mark.py").write_text("open('called', 'w')")
    return kinds[name]


def _still(settings: Any, geometry: Any, arenas: Any, pressed: Any) -> car_soccer.Poses:
    lanes, ticks, cars = pressed.shape[:3]
    return car_soccer.Poses(
        jnp.zeros((lanes, ticks, 3)), jnp.zeros((lanes, ticks, cars, 3)), jnp.zeros((lanes, ticks, cars, 3, 3))
    )


def attempt(kind: Kind, path: Path) -> str:
    """What reading a file gives: "a sentence", or what was read."""
    try:
        with soon():
            return repr(kind.read(path))
    except UserError as error:
        assert str(error)
        return "a sentence"
    finally:
        assert "mark" not in sys.modules and {each.name for each in Path().iterdir()} <= {"mark.py", path.name}


TRIES = [12, pytest.param(200, marks=pytest.mark.slow)]


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("kind", MAKE, indirect=True)
def test_damaged_files(kind, tries, request):
    """Flipped bits, cut, zeroed blocks, blocks of another file of the same kind, holes, and tails."""
    random_, counts = random.Random(tries), Counter[str]()
    path = Path(f"file{kind.suffix}")
    path.write_bytes(kind.files[0])
    whole = attempt(kind, path)
    assert whole != "a sentence"
    for number in range(tries):
        path.write_bytes(damaged(random_, kind.files, 0))
        found = attempt(kind, path)
        counts["as it was" if found == whole else found if found == "a sentence" else "other values"] += 1
        assert not kind.exact or found in (whole, "a sentence"), number
    print(f"{tries} damages of {request.node.callspec.params['kind']}: {dict(counts)}")


@pytest.mark.parametrize("tries", TRIES)
@pytest.mark.parametrize("kind", [name for name in MAKE if name not in ("decks", "policies of the zoo")], indirect=True)
def test_files_of_a_hostile_hand(kind, tries, request):
    """Values that are odd, missing, doubled, deep or in another's place, with checksums that are right."""
    random_, counts = random.Random(tries), Counter[str]()
    path = Path(f"file{kind.suffix}")
    if kind.tree is None:
        pytest.skip("only its bytes can be changed")
    while sum(counts.values()) < tries:
        try:
            data = kind.write(changed(random_, kind.tree, random_.randrange(1, 3)))
        except (TypeError, ValueError, OverflowError, yaml.YAMLError, RecursionError):  # no file can say that
            continue
        path.write_bytes(data)
        counts["a sentence" if attempt(kind, path) == "a sentence" else "read"] += 1
    print(f"{tries} hostile {request.node.callspec.params['kind']}: {dict(counts)}")


@pytest.mark.parametrize("what", ["nothing", "a folder", "a pipe", "a device", "a link to itself", "empty", "zeros"])
@pytest.mark.parametrize("kind", [name for name in MAKE if name not in ("decks", "files of a run")], indirect=True)
def test_what_is_no_file_is_not_waited_for(kind, what):
    path = Path(f"file{kind.suffix}")
    match what:
        case "a folder":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "a device":
            path.symlink_to("/dev/zero")
        case "a link to itself":
            path.symlink_to(path)
        case "empty":
            path.touch()
        case "zeros":
            path.write_bytes(bytes(1 << 16))
    found = attempt(kind, path)
    assert found == "a sentence" or (what == "empty" and found == "[]")


GZIPPED = [name for name in MAKE if name not in ("a published matrix", "a report of a machine", "files of a run")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", GZIPPED, indirect=True)
def test_what_unpacks_to_too_much_is_one_sentence(kind):
    """A gigabyte of zeros and a gigabyte of spaces, in a megabyte."""
    path = Path(f"file{kind.suffix}")
    for block in (bytes(1 << 24), b" " * (1 << 24), b"[" * (1 << 24), b"1\n" * (1 << 23)):
        with gzip.open(path, "wb", 1) as file:
            for _ in range(64):
                file.write(block)
        assert attempt(kind, path) == "a sentence" or kind.suffix == ".dck"


# ---- compiled programs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tries", TRIES)
def test_damaged_compiled_programs_are_compiled_again(tries, tmp_path, monkeypatch):
    from jax._src import compilation_cache

    from jaxrl.runs.directory import enable_compilation_cache

    before = {name: getattr(jax.config, name) for name in CACHE}
    cache, random_, counts = tmp_path / "cache", random.Random(tries), Counter[str]()
    try:
        enable_compilation_cache(str(cache))
        compilation_cache.reset_cache()
        wanted = _program()
        kept = tmp_path / "kept"
        shutil.copytree(cache, kept)
        entries = sorted(kept.glob("*-cache"))
        assert entries
        for _ in range(tries):
            shutil.rmtree(cache)
            shutil.copytree(kept, cache)
            (cache / ".checked").unlink()
            entry = random_.choice(entries)
            (cache / entry.name).write_bytes(damaged(random_, [entry.read_bytes()]))
            enable_compilation_cache(str(cache))
            counts["removed" if len(list(cache.glob("*-cache"))) < len(entries) else "left"] += 1
            assert _program() == wanted
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
    print(f"{tries} damages of compiled programs: {dict(counts)}")


CACHE = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


def _program() -> bytes:
    """The result of a small program that is compiled, or read from the cache."""
    jax.clear_caches()
    return np.asarray(jax.jit(lambda x: jnp.sin(x) @ x.T)(jnp.arange(12.0).reshape(3, 4))).tobytes()


# ---- two runs of strangers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tries", TRIES)
def test_runs_with_invented_figures_are_compared_or_refused(tries, tmp_path, monkeypatch, capsys):
    """`jaxrl compare` of two runs, of which one says what it likes."""
    monkeypatch.chdir(tmp_path)
    random_, counts = random.Random(tries), Counter[str]()
    rows = [{"update": n, "steps": 100 * n, "time/fps": 100.0, "rollout/ep_rew_mean": 0.5} for n in range(4)]
    figures = {"return": {"mean": 1.0, "half_width_95": 0.1}}
    outcomes = {"games": 8, "wins": 4, "draws": 0, "losses": 4}
    row = {"candidate": "b", "opponent": "random", "deals": 8, "outcomes": outcomes, "figures": figures}
    trees = {"evaluation.json": [{"update": 3, "rows": [row], "overall": {}}]}
    for name in "ab":
        Path(name).mkdir()
        Path(name, "config.yaml").write_text("env: {id: skull_king}\n")
    for _ in range(tries):
        for name in "ab":
            said = changed(random_, rows) if name == "b" else rows
            each = said if isinstance(said, list) else [said]
            Path(name, "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in each))
            evaluations = changed(random_, trees["evaluation.json"]) if name == "b" else trees["evaluation.json"]
            text = json.dumps(evaluations).replace('"candidate": "b"', f'"candidate": "{name}"')
            Path(name, "evaluation.json").write_text(text)
        with soon():
            counts[str(cli.main(["compare", "a", "b"]))] += 1
        assert "Traceback" not in capsys.readouterr().err
    print(f"{tries} comparisons with invented figures, by exit code: {dict(counts)}")
