"""Names with escape codes and line breaks in every place where the command line prints them."""

from __future__ import annotations

import json
import re

import pytest

from jaxrl import cli
from jaxrl.config import command_line
from jaxrl.runs.logs.run_log import LOG, to_run
from jaxrl.text_tables import table
from tests.serve.test_runs import RESULT, TABLE, make_run

EVIL = "\x1b]0;owned\x07\x1b[2Jx\ny\r\x9b31m\u202e"
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
COMMANDS = """runs|runs .|status {R}|config {R}/config.yaml|config {N}|evaluate {R}|evaluate {N}|evaluate bot:{N}
 film {N}|resume {N}|compare {R} {R}|export {R}|film {R}/a.replay|play {N}|play skull_king --opponents {N}|zoo show {N}
 zoo {N}|{N}|tournament skull_king {N}|train --config {N}|train --config skull_king {N}=1|games {N}|rate {N}|plan {N}
 train --config skull_king env.id={N}|train --config evil.yaml|check {N}|verify {N} {N}|verify skull_king {N}|runs {N}
 verify skull_king {R}/metrics.jsonl|serve --host {N}|serve --game {N} --port 0|imitate {N}|diagnose --config {N}
 ablate {N}|status {N}|export {N}|evaluate skull_king --against {N}""".replace("\n", "|").split("|")


@pytest.mark.thorough
def test_no_command_prints_what_a_terminal_would_carry_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "runs" / "x").rename(tmp_path / "runs" / EVIL)
    tree = json.dumps({"env": {"id": f"{EVIL}:call", "options": {EVIL: EVIL}}, EVIL: EVIL})
    (run.parent / "second").mkdir()
    (run.parent / "second" / "config.yaml").write_text(tree)
    (tmp_path / "evil.yaml").write_text(tree)
    rows = [RESULT | {"opponent": EVIL}]
    (run / "evaluation.json").write_text(json.dumps([TABLE | {"policy": EVIL, "rows": rows}]))
    (run / "metrics.jsonl").write_text(json.dumps({"update": 1, "steps": 1, EVIL: 1.0}) + "\n")
    (run / "log.txt").write_text(f"2026-01-01T00:00:00.000 warning jaxrl MainThread: {EVIL}\n")
    (run / "a.replay").write_bytes(EVIL.encode())
    tries = said = 0
    for words in filter(None, map(str.strip, COMMANDS)):
        argv = [word.format(N=EVIL, R=f"runs/{EVIL}") for word in words.split()]
        cli.main(argv)
        out, err = capsys.readouterr()
        found = HARMFUL.findall(out + err)
        assert not found, (words, found, out, err)
        tries, said = tries + 1, said + ("\\x1b" in out + err)
    assert said > tries / 2
    print(f"{tries} commands with names of escape codes, {said} of them print it")


def test_a_name_of_two_lines_stays_on_its_line():
    assert table(["run", "state"], [["x\nfake", "done"]]).splitlines()[2].startswith("x\\nfake")


def test_a_log_holds_no_escape_codes(tmp_path, capsys):
    with to_run("info", tmp_path):
        LOG.warning("a seat is called %s", EVIL)
    assert not HARMFUL.search((tmp_path / "log.txt").read_text()) and not HARMFUL.search(capsys.readouterr().err)
    assert "\\x1b" in (tmp_path / "log.txt").read_text()


def test_completions_leave_such_names_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "runs" / "x").rename(tmp_path / "runs" / EVIL)
    make_run(tmp_path / "runs" / "mine")
    assert command_line.run_names() == ["mine"]
