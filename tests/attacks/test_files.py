"""Every kind of file that jaxrl reads, and everything that may have happened to it.

Each try ends in what was written, in a sentence, or, where a file has no checksum, in other values of the right form:
without another exception, soon, with little memory, and nothing is called, started, or written anywhere else.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import lzma
import os
import random
import shutil
import socket
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

from jaxrl import cli
from jaxrl.runs.checkpoints.checkpoint import Damaged
from jaxrl_envs.car_soccer import golden as car_soccer
from jaxrl_envs.shared.errors import UserError
from tests.attacks.kinds import KINDS, Kind, codec_of, still
from tests.support.damaging import changed, changed_to, damaged, soon
from tests.support.hostile_checkpoints import zeros
from tests.support.watching import bounded_memory, nothing_elsewhere

pytest.importorskip("starlette", reason="the extra web is not installed")

MEMORY = 1 << 30  # bytes that one reading may take
SECONDS = 20.0  # of computing
KEPT = Path(".kept")  # what lay in the place of what is tried
LONG = dict.fromkeys(("runs", "checkpoints"), pytest.mark.thorough)  # kinds of many files
Change = tuple[str, bytes | Callable[[Path], object]]  # in words, and the new content, or what makes something else


# ---- the damages ----------------------------------------------------------------------------------------------------


def of_bytes(kind: Kind, name: str, data: bytes, tries: int) -> Iterator[Change]:
    """Yields flipped bits, cut, zeroed blocks, blocks of another file of the same kind, holes, and tails."""
    random_ = random.Random(f"{name} {tries}")
    for _ in range(tries if data else 0):
        yield "bytes", damaged(random_, [data, *kind.others], 0)


def of_values(kind: Kind, name: str, data: bytes, tries: int) -> Iterator[Change]:
    """Values that are odd, missing, doubled, deep or in another's place, with checksums that are right."""
    random_, codec = random.Random(f"{name} {tries}"), codec_of(name)
    if kind.names == (name,) and name.endswith(".yaml"):
        for what, value in TAGS.items():
            tree = changed_to("@@", random.Random(what), codec.parse(data))
            yield what, codec.text(tree).replace(codec.marker, value.encode(), 1)
    while codec.parse and codec.pack and tries > 0:
        try:
            new = codec.pack(codec.text(changed(random_, codec.parse(data), random_.randrange(1, 3))))
        except (TypeError, ValueError, OverflowError, RecursionError, yaml.YAMLError, AttributeError):
            continue  # no file can say that
        tries -= 1
        yield "values", new


LAUGHS = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) or 'lol'}]\n" for i in range(30)).replace("*a-1", "lol")
TAGS = {  # what YAML alone can say
    "a call": "!!python/object/apply:os.system ['touch called']",
    "an object": "!!python/object:subprocess.Popen {}",
    "a module": "!!python/module:mark",
    "a name": "!!python/name:os.abort",
    "new": "!!python/object/new:os.system ['touch called']",
    "one of ours": "!Config {}",
    "binary": "!!binary aGVsbG8=",
    "a date": "2020-99-99",
    "a time": "2020-01-01T00:00:00+99:99",
    "a set": "!!set {a, b}",
    "pairs": "!!omap [a: 1]",
    "itself": "&a [*a]",
    "laughs": f"1\n{LAUGHS}",
    "merged": "1\na: &a {b: 1}\nc: {<<: [*a, *a]}\n<<: *a",
    "base 60": "9" + ":59" * 5000,
    "hexadecimal": "0x" + "f" * 5000,
    "nul": "'\0'",
}


def of_places(kind: Kind, name: str, data: bytes, tries: int) -> Iterator[Change]:
    """Yields pipes, devices, links, folders and sockets in its place, and nothing at all."""
    yield "nothing", lambda path: None
    yield "a pipe", os.mkfifo
    yield "a folder", Path.mkdir
    yield "a device", lambda path: path.symlink_to("/dev/zero")
    yield "a link to the same", lambda path: path.symlink_to(KEPT.absolute())
    yield "a link to itself", lambda path: path.symlink_to(path)
    yield "a link to another's", lambda path: path.symlink_to("/proc/1/environ" if os.getuid() else "/dev/tty")
    yield "a socket", _socket
    yield "empty", b""
    yield "a terabyte without a byte", lambda path: path.touch() or os.truncate(path, 1 << 40)
    yield "zeros", bytes(1 << 16)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def of_bombs(kind: Kind, name: str, data: bytes, tries: int) -> Iterator[Change]:
    """Files that unpack to, claim or ask for far more than they have: at the limits of their readers, and beyond; if
    `tries` are few, some of them, and a thousandth of that."""
    if tries > 100:
        yield from _bombs(kind, name, data, kind.most)
    else:
        found = list(_bombs(kind, name, data, max(1 << 14, kind.most >> 10)))
        yield from random.Random(name).sample(found, min(tries, len(found)))


def _bombs(kind: Kind, name: str, data: bytes, most: int) -> Iterator[Change]:
    codec = codec_of(name)
    if codec.pack:
        for what, (begin, unit, end) in TEXTS.items():
            text = begin + unit * (most // len(unit) - 8) + end
            yield what, codec.pack(text)
            if not name.endswith((".gz", ".replay")):
                yield f"packed {what}", gzip.compress(text, 1)
    if codec.parse and codec.pack:
        for what, value in _values(codec.marker, min(most, 1 << 23)).items():
            tree = changed_to("@@", random.Random(what), codec.parse(data))
            yield f"a value of {what}", codec.pack(codec.text(tree).replace(codec.marker, value, 1))
    for what, make in _binary(most).items():
        yield what, make()


TEXTS = {  # beginning, unit, end
    "open lists": (b"", b"[", b""),
    "open mappings": (b"", b'{"a":', b""),
    "lists": (b"[", b"[],", b"[]]"),
    "mappings": (b"[", b'{"a":1},', b"{}]"),
    "texts": (b"[", b'"ab",', b'""]'),
    "numbers": (b"[", b"1.5,", b"1]"),
    "ones": (b"[", b"1,", b"1]"),
    "halves": (b'["', b"\\ud800", b'"]'),
    "one text": (b'["', b"x", b'"]'),
    "one word": (b"", b"x", b""),
    "one number": (b"", b"9", b""),
    "lines": (b"", b"\n", b""),
    "rows": (b"", b"{}\n", b""),
    "counts": (b"", b"1\n", b""),
    "spaces": (b"", b" ", b""),
    "zeros": (b"", b"\0", b""),
    "dashes": (b"", b"- 1\n", b""),
    "keys": (b"", b"? ", b""),
    "deep dashes": (b"", b"- ", b""),
    "aliases": (b"a: &a [1]\nb: [", b"*a,", b"*a]"),
    "elements": (b'<svg xmlns="http://www.w3.org/2000/svg">', b"<g/>", b"</svg>"),
    "open elements": (b"", b"<g>", b""),
    "entities": (b'<!DOCTYPE svg [<!ENTITY a "aaaa">]><svg xmlns="http://www.w3.org/2000/svg">', b"&a;", b"</svg>"),
    "cards": (b"[main]\n", b"1 a\n", b""),
    "turns": (b'# jaxrl forge conversation 1 {"a": 1}\n', b"< a\n", b""),
}


def _values(marker: bytes, size: int) -> dict[str, bytes]:
    """Returns texts to stand in the place of a value."""
    if marker == b"\xa2@@":  # msgpack
        many = (size // 2).to_bytes(4, "big")
        return {
            "deep": b"\x91" * 100_000 + b"\xc0",
            "nothings": b"\xdd" + many + b"\xc0" * (size // 2),
            "lists": b"\xdd" + many + b"\x90" * (size // 2),
            "a claim": b"\xdd\xff\xff\xff\xff\xc0",
            "an array": b"\xc9" + (5 + size // 2).to_bytes(4, "big") + b"\x01\xdd" + many + b"\x90" * (size // 2),
            "text": b"\xdb" + many + b"x" * (size // 2),
        }
    deep, wide = 100_000, size // 16
    return {
        "deep lists": b"[" * deep + b"]" * deep,
        "deep mappings": b'{"a": ' * deep + b"1" + b"}" * deep,
        "many lists": b"[" + b"[]," * wide + b"[]]",
        "many mappings": b"[" + b'{"a":1},' * wide + b"{}]",
        "many keys": b"{" + b",".join(b'"%d":1' % number for number in range(wide)) + b"}",
        "long text": b'"' + b"x" * size + b'"',
        "digits": b"9" * 100_000,
        "a great number": b"1e999",
        "a large number": b"1e308",
        "a small number": b"-1e308",
        "an exponent": b"1e" + b"9" * 1000,
        "not a number": b"NaN",
        "half a character": b'"\\ud800"',
        "seventy bits": b"-1180591620717411303424",
    }


def _binary(most: int) -> dict[str, Callable[[], bytes]]:
    """Archives and arrays that claim much or grow, for whichever reader may open them."""
    huge = {"shape": (1 << 50,), "fortran_order": False, "descr": "<f4"}
    return {
        "zstd": lambda: zeros(1 << 30),
        "xz": lambda: lzma.compress(bytes(1 << 24), preset=0) * 8,
        "xz with a large dictionary": _xz,
        "gzip in many parts": lambda: gzip.compress(b"") * (most // 64),
        "an array that claims much": lambda: _npz(_npy(huge)),
        "an array with a long header": lambda: _npz(_npy(huge | {"descr": "<f4" + " " * (1 << 20)})),
        "an array with a deep header": lambda: _npz(b"\x93NUMPY\x01\0\x60\xea" + b"(" * 60_000),
        "an array of objects": lambda: _npz(_npy(huge | {"descr": "|O"})),
        "an array of zeros": lambda: _npz(_npy(huge | {"shape": (most - 256,), "descr": "|i1"}) + bytes(most - 256)),
        "many arrays": lambda: _npz(*[b""] * (1_000 if most < 1 << 20 else 50_000)),
        "a mesh that claims much": lambda: np.array([2**31 - 1, 2**31 - 1], "<i4").tobytes(),
    }


def _npy(header: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_2_0(out, header)
    return out.getvalue()


def _npz(*arrays: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, data in enumerate(arrays):
            archive.writestr(f"{number}.npy", data)
    return out.getvalue()


def _xz() -> bytes:
    """Returns a small file whose header asks for a dictionary of 1.5 GB."""
    data = lzma.compress(b"x" * 100, preset=0)
    size = 4 * data[12]  # of the header of its block, without the checksum
    header = data[12 : 12 + size].replace(b"\x21\x01\x0c", b"\x21\x01\x25")
    return data[:12] + header + zlib.crc32(header).to_bytes(4, "little") + data[16 + size :]


DAMAGES: dict[str, Callable[[Kind, str, bytes, int], Iterator[Change]]] = {
    "bytes": of_bytes,
    "values": of_values,
    "places": of_places,
    "bombs": of_bombs,
}


# ---- trying them ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, tuple[Kind, Path]]:
    """Kinds that were made already, and where their good files lie."""
    return {}


@pytest.fixture
def kind(request, made, tmp_path_factory, monkeypatch, tmp_path) -> Kind:
    """One kind; the working directory is a new one, in which nothing may appear but what the test writes."""
    name = request.param
    if name not in made:
        folder = tmp_path_factory.mktemp("kind")
        made[name] = KINDS[name](folder), folder
    found, folder = made[name]
    monkeypatch.setattr(car_soccer, "play", still)  # compiling the physics is not what is tried
    shutil.copytree(folder, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(tempfile, "tempdir", str(Path.cwd()))
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path.cwd())])  # so that it could be imported
    Path("mark.py").write_text("open('called', 'w')")
    return found


def attempt(kind: Kind, caplog: pytest.LogCaptureFixture) -> tuple[str, int]:
    """Returns what reading gives, "a sentence" or what was read, and the memory that it took in bytes."""
    caplog.clear()
    try:
        with soon(SECONDS), bounded_memory(MEMORY) as used, nothing_elsewhere(Path.cwd()):
            found = repr(kind.read(Path.cwd()))
    except (UserError, Damaged) as error:
        assert str(error)
        found = "a sentence"
    assert not [each.exc_text for each in caplog.records if each.exc_info]
    assert "mark" not in sys.modules and not Path("called").exists()
    assert {each.name for each in Path.cwd().parent.iterdir()} == {"here"}
    return found, used.peak


def remove(path: Path) -> None:
    """Removes whatever lies there."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


@pytest.mark.parametrize("tries", [24, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", [pytest.param(name, marks=LONG.get(name, ())) for name in KINDS], indirect=True)
def test_files(kind, damage, tries, request, caplog):
    caplog.set_level(logging.WARNING)
    whole, _ = attempt(kind, caplog)
    assert whole != "a sentence"
    counts, largest = Counter[str](), (0, "")
    names = [*kind.names, *(kind.places if damage == "places" else ())]
    for name in names:
        path = Path(name)
        data = path.read_bytes() if path.is_file() else b""
        if there := path.exists():
            path.rename(KEPT)
        for what, change in DAMAGES[damage](kind, name, data, -(-tries // len(kind.names))):
            path.write_bytes(change) if isinstance(change, bytes) else change(path)
            found, peak = attempt(kind, caplog)
            remove(path)
            counts["as it was" if found == whole else found if found == "a sentence" else "other values"] += 1
            assert damage == "values" or not kind.exact or found in (whole, "a sentence"), (name, what)
            largest = max(largest, (peak, f"{what} in {name}"))
        if there:
            KEPT.rename(path)
    print(f"{request.node.callspec.id}: {dict(counts)}, at most {largest[0] >> 20} MB ({largest[1]})")


# ---- compiled programs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tries", [12, pytest.param(200, marks=pytest.mark.slow)])
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
    """Returns the result of a small program that is compiled, or read from the cache."""
    jax.clear_caches()
    return np.asarray(jax.jit(lambda x: jnp.sin(x) @ x.T)(jnp.arange(12.0).reshape(3, 4))).tobytes()


# ---- two runs of strangers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tries", [12, pytest.param(200, marks=pytest.mark.slow)])
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
