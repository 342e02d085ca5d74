"""`jaxrl runs RUN`: a run through its life, from its files alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jaxrl import cli
from jaxrl.runs import presence, status
from jaxrl.runs.checkpoints import state as checkpoint_state
from jaxrl.runs.logs.run_log import LOG
from jaxrl.training import loop
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from tests.support.paths import PYTHONPATH
from tests.support.small_runs import NIM

pytestmark = pytest.mark.thorough

CONFIG = (
    NIM
    + """\
train: {num_envs: 16, num_steps: 8, total_steps: 1024, updates_per_call: 1, checkpoint_every: 2, evaluate_every: 2}
evaluate: {deals: 2, training_deals: 2, opponents: [random]}
"""
)


def told(*arguments: str, capsys) -> dict:
    """Returns the output of `jaxrl runs --json`."""
    capsys.readouterr()
    assert cli.main(["runs", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    """The folder of a run that was stopped, failed and then finished, and its `whole` status after each and between."""
    home, patch, seen = tmp_path_factory.mktemp("home"), pytest.MonkeyPatch(), {}
    patch.chdir(home)
    Path("nim.yaml").write_text(CONFIG)
    run, log = Path("runs/nim"), loop.Training._log

    def at_update(number: int, then):
        def logged(self, row):
            log(self, row)
            if self.update == number and "train/loss" in row:
                then(self)

        return logged

    def stop(self):
        LOG.warning("update %d: a warning\nof two lines", self.update)
        seen["training"] = status.whole(run)
        os.kill(os.getpid(), signal.SIGINT)

    def fail(self):
        raise ZeroDivisionError("nothing to divide by")

    patch.setattr(loop.Training, "_log", at_update(3, stop))
    assert cli.main(["train", "--config", "nim.yaml"]) == 130
    seen["stopped"] = status.whole(run)
    patch.setattr(loop.Training, "_log", at_update(5, fail))
    with pytest.raises(ZeroDivisionError):
        cli.main(["resume", "nim"])
    seen["failed"] = status.whole(run)
    patch.undo()
    patch.chdir(home)
    assert cli.main(["resume", "nim"]) == 0
    seen["finished"] = status.whole(run)
    yield home, seen
    patch.undo()


def test_while_it_trains(life):
    run = life[1]["training"]
    assert (run.state, run.update, run.updates, run.next_command) == ("training", 3, 8, "")
    assert run.process["pid"] == os.getpid() and run.process["here"] and not run.process["ended"]
    assert (run.game, run.algorithm, run.steps, run.total_steps) == ("examples.nim:Nim", "ppo", 3 * 128, 1024)
    left = 5 * 128 / run.steps_per_second
    assert run.seconds_left == pytest.approx(left) and run.estimated_end >= presence.iso(time.time() - 3600)
    assert run.evaluation["update"] == 2 and 0.0 <= run.evaluation["win_rate"] <= 1.0
    assert [rank["rank"] for rank in run.ranks] == [0] and run.ranks[0]["warnings"] == 1
    assert run.events[-1]["message"] == "update 3: a warning" and run.events[-1]["level"] == "warning"


def test_how_it_was_stopped_and_failed_and_finished(life):
    stopped, failed, finished = (life[1][state] for state in ("stopped", "failed", "finished"))
    assert (stopped.state, stopped.next_command) == ("stopped", "jaxrl resume runs/nim")
    assert stopped.checkpoint["update"] == 3 and not stopped.checkpoint["damaged"] and stopped.seconds_left is None
    assert (failed.state, failed.why) == ("failed", "ZeroDivisionError: nothing to divide by")
    assert failed.checkpoint["update"] == 4 and failed.events[-1]["message"] == "the run ended by an exception"
    assert (finished.state, finished.why, finished.next_command) == ("finished", "", "")
    assert finished.update == finished.updates == 8 and finished.evaluation["update"] == 8
    assert finished.best["update"] in (2, 4, 6, 8) and finished.best["best_by"] == "return"
    place = life[0] / "runs" / "nim" / "checkpoints" / "8"
    assert finished.checkpoint["bytes"] == sum(f.stat().st_size for f in place.rglob("*") if f.is_file())


def test_as_text_and_as_json(life, capsys, monkeypatch):
    monkeypatch.chdir(life[0])
    assert cli.main(["runs", "nim"]) == 0
    text = capsys.readouterr().out
    for line in (
        "state       finished: process",
        "update 8 of 8 (100.0%), 1.02 k of 1.02 k steps",
        "of update 8, intact",
    ):
        assert line in text
    assert told("nim", capsys=capsys)["state"] == "finished"
    [each] = told(capsys=capsys)
    assert each["name"] == "nim" and each["state"] == "finished"
    assert cli.main(["runs"]) == 0 and "finished" in capsys.readouterr().out


@pytest.fixture
def copied(life, tmp_path, monkeypatch):
    """A copy of the finished run, to be changed."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(life[0] / "runs", tmp_path / "runs")
    return tmp_path / "runs" / "nim"


def test_a_process_that_is_gone_without_a_word(copied, capsys):
    shutil.rmtree(copied / "checkpoints" / "8")
    record = json.loads((copied / "process.json").read_text()) | {"ended": "", "how": "", "host": "elsewhere"}
    (copied / "process.json").write_text(json.dumps(record))
    run = status.whole(copied)
    assert run.state == "lost" and run.next_command.startswith("jaxrl resume")
    assert cli.main(["runs", "nim"]) == 0
    assert "on elsewhere has gone without a word: killed, or with its machine; it may" in capsys.readouterr().out


def test_a_damaged_checkpoint_is_passed_over(copied):
    file = max((f for f in (copied / "checkpoints" / "8").rglob("*") if f.is_file()), key=lambda f: f.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    found = status.whole(copied).checkpoint
    assert found["damaged"] == [8] and found["update"] == 6
    shutil.rmtree(copied / "checkpoints")
    gone = status.whole(copied)
    assert (gone.checkpoint, gone.state, gone.next_command) == (None, "no checkpoint", "")  # resume finds nothing
    (copied / ".checkpoints-saved").unlink()
    assert status.whole(copied).next_command.startswith("jaxrl resume")  # it starts from the beginning


def test_a_checkpoint_that_cannot_be_read_is_not_called_damaged(copied, capsys, monkeypatch):
    check = checkpoint_state.check_files

    def checked(place, step):
        if step == 8:
            raise PermissionError(13, "Permission denied")
        return check(place, step)

    (copied / "evaluation.json").unlink()
    (copied / "process.json").write_text("{}")
    monkeypatch.setattr(status, "_ended", lambda *_: "stopped")
    monkeypatch.setattr(checkpoint_state, "check_files", checked)
    found = status.whole(copied)
    assert found.checkpoint["update"] == 6 and not found.checkpoint["damaged"] and found.next_command == ""
    assert cli.main(["runs", "nim"]) == 0 and "; 8: cannot be read: Permission denied" in capsys.readouterr().out
    monkeypatch.setattr(checkpoint_state, "check_files", check)
    for step in status._saved(copied):
        record = json.loads((copied / "checkpoints" / str(step) / "record.json").read_bytes().partition(b"\n")[2])
        files.write(*_record(copied / "checkpoints" / str(step), record | {"format": 99}))
    found = status.whole(copied)
    assert found.checkpoint["update"] is None and found.checkpoint["unread"]["8"] == "of a newer version of jaxrl"
    for step in status._saved(copied):
        (copied / "checkpoints" / str(step) / "record.json").write_text("x")
    found = status.whole(copied)
    assert found.checkpoint["damaged"] == status._saved(copied) and found.next_command == ""


def _record(place: Path, record: dict) -> tuple[Path, bytes]:
    """The file of a record and what stands in it."""
    text = json.dumps(record).encode()
    return place / "record.json", hashlib.sha256(text).hexdigest().encode() + b"\n" + text


def test_a_run_that_ends_while_it_is_looked_at_is_not_lost(copied, monkeypatch):
    ended = json.loads((copied / "process.json").read_text())
    (copied / "process.json").write_text(json.dumps(ended | {"ended": "", "how": ""}))
    shutil.rmtree(copied / "checkpoints" / "8")
    read, seen = presence.read_presence, []

    def reading(run):  # it ends just after it was read for the first time
        seen.append(read(run))
        (copied / "process.json").write_text(json.dumps(ended | {"how": "stopped"}))
        return seen[-1]

    monkeypatch.setattr(presence, "read_presence", reading)
    found = status.brief(copied)
    assert (found.state, found.process["ended"]) == ("stopped", ended["ended"]) and len(seen) == 2


def test_how_a_process_says_that_it_ends(tmp_path):
    def left(error: BaseException | None = None, lost: str = "", stopped: bool = False) -> tuple[str, str]:
        with contextlib.suppress(BaseException), presence.present(tmp_path, 2) as here:
            here.stopped = stopped
            if lost:
                here.lost(lost)
            if error:
                raise error
        found = presence.read_presence(tmp_path)
        assert found.ended and found.processes == 2
        return found.how, found.why

    assert left() == ("finished", "") and left(stopped=True) == left(KeyboardInterrupt()) == ("stopped", "")
    assert left(UserError("a sentence.")) == ("failed", "a sentence.")
    gone = "process 1 of 2 has died or hangs"
    assert left(lost=gone) == left(RuntimeError("connection reset"), lost=gone) == ("failed", gone)
    with presence.present(tmp_path, 1) as here:
        pass
    with presence.present(tmp_path, 3):  # another process by now
        here.lost(gone)
        assert not presence.read_presence(tmp_path).ended


def test_one_strange_run_leaves_the_table_whole(copied, capsys):
    shutil.copytree(copied, copied.parent / "odd")
    for number in ("1" + 400 * "0", "0x" + 5000 * "f"):
        for more in ("", "num_envs: 1000000, num_steps: 2000, "):
            text = f"env: {{id: 'examples.nim:Nim'}}\ntrain: {{{more}total_steps: {number}}}\n"
            (copied.parent / "odd" / "config.yaml").write_text(text)
            assert cli.main(["runs"]) == 0
            odd = capsys.readouterr().out
            assert "config.yaml cannot be read" in odd and "finished" in odd


def test_a_strangers_run_runs_nothing_and_reads_nothing_odd(copied, capsys):
    Path("theirs.py").write_text("open('executed', 'w')")
    (copied / "config.yaml").write_text("env: {id: 'theirs:Game'}\ncallbacks: ['theirs:Callback']\n")
    (copied / "process.json").write_text('{"pid": "x", "host": 3}')
    for name in ("metrics.jsonl", "best.json", "evaluation.json"):
        (copied / name).unlink()
    os.mkfifo(copied / "metrics.jsonl")  # reading it would wait for ever
    (copied / "best.json").write_text('{"update": 1e999, "best_by": [], "score": NaN}')
    (copied / "evaluation.json").write_text("[" * 100_000)
    (copied / "log.txt").write_text(
        "2026-01-01T00:00:00.000 warning jaxrl MainThread: \x1b[2Jboo\n\udcff".encode("utf-8", "replace").decode()
    )
    assert cli.main(["runs", "nim"]) == 0
    text = capsys.readouterr().out
    assert "theirs:Game" in text and "\x1b" not in text and "boo" in text and not Path("executed").exists()
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*")}
    assert cli.main(["runs", "nim", "--json"]) == 0
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*")} == before


def test_mistakes_are_one_sentence(copied, capsys):
    assert cli.main(["runs", "nimm"]) == 2
    assert capsys.readouterr().err == "jaxrl: there is no run 'nimm': did you mean 'nim'?\n"
    (copied / "config.yaml").write_text("train: [")
    assert cli.main(["runs", "nim"]) == 2 and "config.yaml cannot be read" in capsys.readouterr().err
    assert cli.main(["runs", "--directory", "nowhere"]) == 2


def test_without_jax(copied):
    code = "import sys\nfrom jaxrl import cli\nassert cli.main(['runs', 'nim']) == 0\nassert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": PYTHONPATH})
