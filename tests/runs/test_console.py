"""What people see in a terminal: commands run in one, and its screen is read."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from jaxrl import cli
from tests.support.displays import BAR, COMPILING, HOSTILE, MESSAGES, START
from tests.support.paths import PYTHONPATH
from tests.support.small_runs import NIM
from tests.support.terminal import INTERRUPT, Terminal

SPINNER, PROGRESS = re.compile("[\u2800-\u28ff] "), re.compile(r"\[[# ]{10}\] ")  # where a drawing begins
ESCAPED = HOSTILE.encode("unicode_escape").decode()


def is_redrawn(terminal: Terminal, kept: int = 0) -> bool:
    """Whether every screen so far had at most one drawing of a kind besides `kept` lines, no escape codes, and no
    message below a drawing."""
    for lines in terminal.moments:
        drawn = [[row for row, line in enumerate(lines) if begins.match(line)] for begins in (SPINNER, PROGRESS)]
        if max(len(drawn[0]), len(drawn[1]) - kept) > 1 or any("\\x" in line.replace(ESCAPED, "") for line in lines):
            return False
        below = "".join(lines[min(sum(drawn, [len(lines)])) :])
        if any(message.rpartition(": ")[2] in below for message in MESSAGES):
            return False
    return True


@pytest.mark.parametrize(("columns", "environment"), [(80, {}), (40, {}), (80, {"NO_COLOR": "1"})])
def test_one_line_is_redrawn_below_all_messages(columns, environment):
    with Terminal(START, ["displays", "work"], columns=columns, **environment) as terminal:
        assert terminal.end() == 0 and is_redrawn(terminal)
    *messages, last = terminal.text.split("[#")
    assert all(messages[0].count(text) == 2 - text.startswith("User") for text in MESSAGES)  # Python warns once
    assert last.startswith(BAR.format(3)[2:7]) and f"{ESCAPED} is in the pot" in last
    seen = {line for lines in terminal.moments for line in lines}
    assert any("Anne thinks" in line for line in seen) and any(line.startswith("games against") for line in seen)
    assert any(line.split()[-1] in COMPILING for line in seen if SPINNER.match(line)) and "games" not in terminal.lines


def test_a_terminal_that_cannot_draw_and_a_pipe_get_lines(tmp_path):
    with Terminal(START, ["displays", "work"], TERM="dumb") as terminal:
        assert terminal.end() == 0
    command = [sys.executable, "-c", START, "displays", "work"]
    environment = os.environ | {"PYTHONPATH": PYTHONPATH, "COLUMNS": "80"}
    piped = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for text in (" ".join(terminal.lines), " ".join(piped.stdout.split("\n"))):
        assert all(text.count(each) == 1 for each in (COMPILING, "| turn 0", "| turn 3"))
        assert (
            "\x1b" not in text
            and "\\x1b[" not in text
            and text.count(ESCAPED) > 1
            and not SPINNER.search(text)
            and "Anne" not in text
        )


def interrupted_after_resizes(what: str, full: str) -> tuple[Terminal, bool]:
    """The terminal of a program whose terminal was resized twice and that was interrupted then; and whether its lines
    were short enough for the "^C" each time."""
    fits = True
    with Terminal(START, ["displays", what]) as terminal:
        shown = full[2:20].strip()
        assert terminal.until(lambda: shown in terminal.text)
        for columns in (40, len(full)):  # as wide as the line: the "^C" that the terminal writes must not begin another
            drawn = len(terminal.moments)
            terminal.resize(columns)
            assert terminal.until(lambda drawn=drawn: len(terminal.moments) > drawn + 4)
            fits &= all(len(line) <= columns - 2 for line in terminal.lines)
        terminal.press(INTERRUPT)
        assert terminal.end() == cli.INTERRUPTED
    return terminal, fits


@pytest.mark.parametrize(("what", "full"), [("wait", f"* {COMPILING}"), ("train", BAR.format(9))])
def test_a_resize_and_ctrl_c_leave_no_line_behind(what, full):
    for _ in range(4):  # no program knows of a resize while it writes a line for the old width: that one may stay
        terminal, fits = interrupted_after_resizes(what, full)
        assert terminal.lines[-1] == "jaxrl: interrupted."
        if fits and is_redrawn(terminal) and len(terminal.lines) == (1 if what == "wait" else 3):
            return
    pytest.fail("\n".join(terminal.lines))


SESSION = """
import sys
from jaxrl import cli
for words in sys.argv[1:]:
    print(f"$ {words}: {cli.main(words.split())}", flush=True)
"""


@pytest.mark.thorough
def test_a_session_of_trainings_and_a_game(tmp_path):
    (tmp_path / "tiny.yaml").write_text(NIM)
    small = "train.num_envs=8 train.num_steps=8 train.updates_per_call=1 evaluate.deals=2"
    commands = [
        f"train tiny.yaml --name a {small} train.total_steps=256",
        "resume a --steps 512",
        "evaluate a --deals 2",
        "tournament a bot:random --deals 2",
        "play a --seed 1 --opponents random",
    ]
    with Terminal(SESSION, commands, cwd=tmp_path) as terminal:
        for command in commands[:-1]:
            assert terminal.until(lambda command=command: f"$ {command[:9]}" in terminal.text), terminal.lines
        for keys, answer in (("hint", "a would choose"), ("quit", "you left the table")):
            assert terminal.until(lambda: terminal.lines[-1].endswith("your action:")), terminal.lines
            terminal.press(f"{keys}\n".encode())
            assert terminal.until(lambda answer=answer: answer in terminal.text), terminal.lines
        assert terminal.end() == 0
    assert is_redrawn(terminal, kept=1) and terminal.text.count("loading jax ...") == 1
