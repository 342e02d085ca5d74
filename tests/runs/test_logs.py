"""Logging: levels, one line for each event, and that events which are off cost nothing."""

from __future__ import annotations

import logging
import re
import threading
import time

import pytest

from jaxrl.runs.logs import files as log_files
from jaxrl.runs.logs import run_log

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} (error|warning|info|debug) jaxrl[\w.]* [\w-]+: ")


def say_all() -> None:
    for level in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger("jaxrl.part"), level)("an event of level %s", level)


@pytest.mark.parametrize(("level", "lines"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_levels(level, lines, tmp_path, capsys):
    with run_log.to_run(level, tmp_path):
        say_all()
    found = (tmp_path / "log.txt").read_text().splitlines()
    assert len(found) == lines and all(LINE.match(line) for line in found)
    shown = capsys.readouterr().err.splitlines()
    assert [line.split(" ")[1] for line in shown] == ["warning", "error"][-min(lines, 2) :]


def test_nothing_is_left_behind_and_a_second_time_appends(tmp_path):
    handlers, level = list(run_log.LOG.handlers), run_log.LOG.level
    for _ in range(2):
        with run_log.to_run("error", tmp_path):
            say_all()
    assert run_log.LOG.handlers == handlers and run_log.LOG.level == level
    assert len((tmp_path / "log.txt").read_text().splitlines()) == 2


def test_an_exception_is_kept_with_its_traceback(tmp_path, capsys):
    with pytest.raises(RuntimeError), run_log.to_run("info", tmp_path):
        raise RuntimeError("broken\nin two lines")
    first, *rest = (tmp_path / "log.txt").read_text().splitlines()
    assert LINE.match(first) and "broken" in rest[-2] and all(line.startswith("    ") for line in rest)
    assert capsys.readouterr().err == ""  # its handler prints it


def test_the_thread_is_named(tmp_path):
    with run_log.to_run("info", tmp_path):
        thread = threading.Thread(target=logging.getLogger("jaxrl").info, args=("hello",), name="actor-3")
        thread.start()
        thread.join()
    assert " actor-3: hello" in (tmp_path / "log.txt").read_text()


def test_messages_of_a_training_are_logged(tmp_path, capsys):
    with run_log.to_run("info", tmp_path):
        run_log.say("update 5: saved [1]")
    assert "info jaxrl" in (tmp_path / "log.txt").read_text() and capsys.readouterr().err == "update 5: saved [1]\n"


def test_events_that_are_off_are_not_formatted(tmp_path):
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    log, what = logging.getLogger("jaxrl.part"), Costly()
    with run_log.to_run("info", tmp_path):
        log.debug("%s", what)
    assert (tmp_path / "log.txt").read_text() == ""


def test_events_are_read_back(tmp_path):
    with pytest.raises(RuntimeError), run_log.to_run("info", tmp_path):
        logging.getLogger("jaxrl.part").warning("two: lines\n2026-01-01 of it")
        raise RuntimeError("broken")
    (tmp_path / "log.3.txt").touch()
    assert log_files.logs(tmp_path) == {0: tmp_path / "log.txt", 3: tmp_path / "log.3.txt"}
    found = log_files.events(tmp_path / "log.txt")
    told = [("warning", "two: lines"), ("error", "the run ended by an exception")]
    assert [(event.level, event.message) for event in found] == told
    assert all(abs(event.time - time.time()) < 60 for event in found)


def test_times_that_no_calendar_has_are_left_out(tmp_path):
    times = ("0000-01-01T00:00:00.000", "0001-01-01T00:00:00.000", "2026-01-01T00:00:00.000")
    (tmp_path / "log.txt").write_text("".join(f"{time} error jaxrl MainThread: odd\n" for time in times))
    assert len(log_files.events(tmp_path / "log.txt")) in (1, 2)  # the machine's zone may reach back before year 1


def test_the_last_word_is_in_the_log_beside_other_writers(tmp_path, capsys):
    with run_log.to_run("info", tmp_path):
        run_log.last_word("process 1 of 2 has died", tmp_path)
    run_log.last_word("once more", tmp_path)
    assert [event.message for event in log_files.events(tmp_path / "log.txt")] == [
        "process 1 of 2 has died",
        "once more",
    ]
    assert capsys.readouterr().err == ""
