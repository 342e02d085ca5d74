"""Logging: levels, one line for each event, and that events which are off cost nothing."""

from __future__ import annotations

import logging
import re
import threading

import pytest

from jaxrl import config as configs
from jaxrl.envs.errors import UserError
from jaxrl.runs import logs

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} (error|warning|info|debug) jaxrl[\w.]* [\w-]+: ")


def say_all() -> None:
    for level in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger("jaxrl.part"), level)("an event of level %s", level)


@pytest.mark.parametrize(("level", "lines"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_levels(level, lines, tmp_path, capsys):
    with logs.to_run(level, tmp_path):
        say_all()
    found = (tmp_path / logs.FILE).read_text().splitlines()
    assert len(found) == lines and all(LINE.match(line) for line in found)
    shown = capsys.readouterr().err.splitlines()
    assert [line.split(" ")[1] for line in shown] == ["warning", "error"][-min(lines, 2) :]


def test_nothing_is_left_behind_and_a_second_time_appends(tmp_path):
    handlers, level = list(logs.LOG.handlers), logs.LOG.level
    for _ in range(2):
        with logs.to_run("error", tmp_path):
            say_all()
    assert logs.LOG.handlers == handlers and logs.LOG.level == level
    assert len((tmp_path / logs.FILE).read_text().splitlines()) == 2


def test_an_exception_is_kept_with_its_traceback(tmp_path, capsys):
    with pytest.raises(RuntimeError), logs.to_run("info", tmp_path):
        raise RuntimeError("broken\nin two lines")
    first, *rest = (tmp_path / logs.FILE).read_text().splitlines()
    assert LINE.match(first) and "broken" in rest[-2] and all(line.startswith("    ") for line in rest)
    assert capsys.readouterr().err == ""  # whoever catches it says so


def test_the_thread_is_named(tmp_path):
    with logs.to_run("info", tmp_path):
        thread = threading.Thread(target=logging.getLogger("jaxrl").info, args=("hello",), name="actor-3")
        thread.start()
        thread.join()
    assert " actor-3: hello" in (tmp_path / logs.FILE).read_text()


def test_messages_of_a_training_are_logged(tmp_path, capsys):
    with logs.to_run("info", tmp_path):
        logs.say("update 5: saved [1]")
    assert "info jaxrl" in (tmp_path / logs.FILE).read_text() and capsys.readouterr().err == "update 5: saved [1]\n"


def test_events_that_are_off_are_not_formatted(tmp_path):
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    log, what = logging.getLogger("jaxrl.part"), Costly()
    with logs.to_run("info", tmp_path):
        log.debug("%s", what)
    assert (tmp_path / logs.FILE).read_text() == ""


def test_the_level_is_a_key():
    assert configs.load(None, ["run.log_level=debug"]).run.log_level == "debug"
    with pytest.raises(UserError, match="run.log_level"):
        configs.load(None, ["run.log_level=loud"])
