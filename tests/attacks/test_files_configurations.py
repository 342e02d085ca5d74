"""Configurations of strangers: empty, deep, huge, full of aliases, or with tags that would run code."""

from __future__ import annotations

import contextlib
import io
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.config import presets
from jaxrl_envs.shared.errors import UserError
from tests.support.damaging import damaged, soon
from tests.support.paths import PYTHONPATH

DEEP = {
    "lists": "curriculum: {open}{close}".format(open="[" * 3000, close="]" * 3000),
    "mappings": "{a: " * 3000 + "1" + "}" * 3000,
    "options": "env: {options: " + "{a: " * 3000 + "1" + "}" * 3001,
    "blocks": "".join(" " * i + "a:\n" for i in range(3000)),
    "dashes": "a:\n " + "- " * 3000 + "1",
    "keys": "? " * 3000 + "1",
    "a little deep": "algorithm: " + "{a: " * 300 + "1" + "}" * 300,
}
LAUGHS = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) or 'lol'}]\n" for i in range(30)).replace("*a-1", "lol")
TAGS = {
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
    "digits": "9" * 5000,
    "base 60": "9" + ":59" * 5000,
    "nan": ".nan",
    "infinite": ".inf",
    "huge": "1e999",
    "hexadecimal": "0x" + "f" * 5000,
    "nul": "'\0'",
    "surrogate": '"\\ud800"',
    "long": "x" * 100_000,
    "escape": '"\\e[2J"',
    "line": '"a\\nb"',
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory in which nothing may be called."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])  # so that it could be imported
    Path("mark.py").write_text("open('called', 'w')")
    yield
    assert not Path("called").exists() and "mark" not in sys.modules


def told(*argv: str) -> str:
    """What a command says that must fail as a user's mistake, at once; or an empty text if it goes well."""
    out, err = io.StringIO(), io.StringIO()
    with soon(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(argv)
    assert "\x1b" not in out.getvalue() + err.getvalue()
    said = err.getvalue()
    assert code in (0, 2) and (code == 0 or (said.startswith("jaxrl: ") and len(said) < 9_000)), said
    return said if code else ""


@pytest.mark.parametrize("what", DEEP)
@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_a_deep_configuration_is_one_sentence_at_once(what, suffix):
    text = DEEP[what].replace("a:", '"a":').replace("curriculum:", '"curriculum":') if suffix == "json" else DEEP[what]
    Path(f"deep.{suffix}").write_text(f"{{{text}}}" if suffix == "json" and text[0] != "{" else text)
    assert "nested too deeply" in (said := told("config", f"deep.{suffix}")) or "is not valid JSON" in said


def test_the_process_of_a_deep_configuration_ends():
    Path("deep.yaml").write_text(DEEP["lists"])
    command = [sys.executable, "-m", "jaxrl", "config", "deep.yaml"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": PYTHONPATH}, timeout=30, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and done.stderr == "jaxrl: deep.yaml cannot be read: it is nested too deeply.\n"


@pytest.mark.parametrize("key", ["a." * 3000 + "a", "env.options." + "a." * 300 + "a", "x" * 100_000])
def test_a_long_key_on_the_command_line_is_one_sentence(key):
    assert told("config", f"{key}=1")


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "null", "~"])
def test_an_empty_configuration_is_one_sentence(text):
    Path("empty.yaml").write_text(text)
    assert "empty.yaml is empty: it must hold at least one key" in told("config", "empty.yaml")
    Path("above.yaml").write_text("base: empty.yaml\n")
    assert "empty.yaml is empty" in told("train", "--config", "above.yaml")


def test_a_network_without_layers_is_one_sentence():
    assert "network.hidden is empty: give the width" in told("config", "skull_king_cpu", "network.hidden=[]")
    recurrent = ["network.kind=recurrent", "network.recurrent.torso=mlp"]
    assert "network.hidden is empty" in told("config", "skull_king_cpu", "network.hidden=[]", *recurrent)


@pytest.mark.parametrize("option", ["--runs", "--replays"])
def test_a_folder_that_does_not_exist_is_not_made(option):
    assert f"{option}: there is no folder nothere" in told("serve", option, "nothere")
    assert not Path("nothere").exists()


@pytest.mark.parametrize("what", TAGS)
@pytest.mark.parametrize("key", ["env.id", "network.kind", "callbacks", "forge.java", "train.total_steps", "x"])
def test_odd_values_are_one_sentence_or_plain_values(what, key):
    section, _, name = key.partition(".")
    value = TAGS[what]
    game = "env: {id: forge}\n" if section == "forge" else ""
    Path("odd.yaml").write_text(f"{game}{section}:\n  {name}: {value}\n" if name else f"{game}{section}: {value}\n")
    told("config", "odd.yaml")


@pytest.mark.parametrize("tries", [30, pytest.param(2000, marks=pytest.mark.slow)])
def test_damaged_configurations(tries):
    """Shipped ones with flipped bits, cut, zeroed, or with parts of each other: a sentence, or a configuration."""
    random_, counts = random.Random(tries), Counter[str]()
    shipped = [path.read_bytes() for path in presets.shipped().values()]
    for _ in range(tries):
        Path("damaged.yaml").write_bytes(damaged(random_, shipped))
        try:
            with soon():
                configs.load("damaged.yaml")
            counts["read"] += 1
        except UserError:
            counts["a sentence"] += 1
    print(f"{tries} damaged configurations: {dict(counts)}")
    assert counts["a sentence"] > tries / 3
