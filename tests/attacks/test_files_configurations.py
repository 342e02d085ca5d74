"""Configurations of strangers: empty, deep, huge, full of aliases, or with tags that would run code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.attacks.kinds import said
from tests.support.damaging import soon

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
    with soon():
        code, printed = said(list(argv))
    return printed if code else ""


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
