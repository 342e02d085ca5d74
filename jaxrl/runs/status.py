"""State of a run, or how it ended, from its files alone.

Nothing is written, nothing that the files name is run, and jax is not imported: safe beside a training, and for a
stranger's run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from jaxrl import config as configs
from jaxrl.config import Config, presets
from jaxrl.runs import presence
from jaxrl.runs.checkpoints import record as checkpoint_record
from jaxrl.runs.checkpoints import state as checkpoint_state
from jaxrl.runs.folder import next_command
from jaxrl.runs.logs import files as log_files
from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError

TAIL = 2**16  # bytes at the end of metrics.jsonl in which its last lines are
SHOWN, MILESTONES = 5, 1_000  # warnings; milestones
LONGEST = 300  # letters of a name
MANY_DRAWS = 0.5  # share of games from which on returns are told instead of wins
UNREADABLE = "config.yaml cannot be read"
T = TypeVar("T")
# What reading a file of a stranger, or of a process that was killed, may raise.
UNSOUND = (UserError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


@dataclasses.dataclass(frozen=True)
class Status:
    """A run. Times are UTC in ISO 8601; empty or None where nothing is known."""

    name: str
    path: str
    game: str = "?"
    algorithm: str = "?"
    # training; finished; stopped (by a signal); failed; lost (its process is gone without a word); imitated;
    # no checkpoint; or `UNREADABLE`
    state: str = UNREADABLE
    why: str = ""  # reason of a failure, a sentence; and one for each file of `brief` and `glance` that cannot be told
    process: dict[str, Any] | None = None  # trainer, now or last, see `Presence`; here: whether that is on this machine
    update: int = 0
    updates: int = 0  # in all
    steps: int = 0  # environment steps of each seed, as in all
    total_steps: int = 0
    steps_per_second: float | None = None  # of all seeds, in the window of the last figures
    seconds_left: float | None = None  # at that rate; evaluations are not counted
    estimated_end: str = ""
    last_figures: str = ""  # time of their writing
    seconds: float | None = None  # of training so far
    cpu_seconds: float | None = None
    # reached in evaluations (`train.milestones`): opponent, win_rate or return, update, steps, seconds, cpu_seconds
    milestones: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    evaluation: dict[str, Any] | None = None  # the newest: update, and win_rate or return
    best: dict[str, Any] | None = None  # the best during training: update, best_by and score
    # the newest intact one: update, bytes; and those after it: `damaged`, and `unread`: update -> why
    checkpoint: dict[str, Any] | None = None
    # logs of its processes: rank, log, last_event; warnings, errors: in its last `logs.files.TAIL` bytes
    ranks: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    events: list[dict[str, Any]] = dataclasses.field(
        default_factory=list
    )  # last warnings, errors: time, rank, level, message
    next_command: str = ""  # continues it; empty without an intact checkpoint, unless there never was one


def found_in(folder: Path) -> list[Path]:
    """Returns the runs in a folder. Raises UserError if the folder holds no runs."""
    found = sorted(path.parent for path in folder.glob("*/config.yaml"))
    if not found:
        raise UserError(f"there are no runs in {folder}: begin one with `jaxrl train`, or name another folder.")
    return found


def brief(run: Path) -> Status:
    """Returns a run's state, progress and newest evaluation, from a few small files."""
    here = Status(run.name, str(run))
    try:
        config = configs.from_dict(presets.read(run / "config.yaml"))  # which runs nothing that it names
        updates = config.num_updates
    except UNSOUND as error:
        return dataclasses.replace(here, why=f"{error}")
    training, who = _trainer(run)
    said: list[str] = []
    if who is None:
        _told(run, presence.FILE, presence.of_record, said)
    rows, evaluation = list(_last_rows(run / "metrics.jsonl")), _told(run, "evaluation.json", _evaluation, said)
    state = "training" if training else _ended(run, updates, who, (evaluation or {}).get("update", -1))
    return dataclasses.replace(
        here,
        game=config.env.id,
        algorithm=config.train.algorithm,
        state=state,
        why=" ".join([who.why, *said] if who and who.why and state == presence.FAILED else said),
        process=who and who._asdict() | {"here": who.host == platform.node()},
        update=max((row["update"] for row in rows), default=0),
        updates=updates,
        steps=max((row["steps"] for row in rows), default=0),
        total_steps=updates * config.batch_size,
        evaluation=_newer(evaluation, rows),
        **_pace(run, config, rows, state),
    )


def glance(run: Path) -> Status:
    """Returns `brief`, the best evaluation and the logs; of checkpoints nothing is read."""
    found = brief(run)
    ranks, events = _logs(run, found.process)
    said = [found.why] if found.why else []
    best, milestones = _told(run, "best.json", _best, said), _told(run, "milestones.json", _milestones, said) or []
    why = " ".join(said)
    return dataclasses.replace(found, best=best, milestones=milestones, ranks=ranks, events=events, why=why)


def whole(run: Path) -> Status:
    """Returns the whole status: `glance`, and the checkpoints, every byte of which is read."""
    found = glance(run)
    checkpoint = _newest_intact(run)
    if checkpoint is None:  # a start from the beginning, if there never was one
        intact = not os.path.exists(checkpoint_record.mark(run / "checkpoints"))
    else:
        intact = checkpoint["update"] is not None and not checkpoint["unread"]
    goes_on = intact and found.state not in ("training", "finished", "imitated", UNREADABLE)
    return dataclasses.replace(
        found, checkpoint=checkpoint, next_command=next_command("resume", run) if goes_on else ""
    )


def _trainer(run: Path) -> tuple[bool, presence.Presence | None]:
    """Returns whether a process trains it, and who does or did last."""
    for _ in range(2):  # where the two do not fit together, it has just begun or ended: once more
        training = files.is_locked(run / ".lock")  # first: an end is written before the lock is given up
        who = presence.read_presence(run)
        if who is None or training != bool(who.ended):
            break
    return training, who


def _ended(run: Path, updates: int, who: presence.Presence | None, evaluated: int) -> str:
    """Returns the state of a run that no process trains."""
    saved = _saved(run)
    if saved and (run / "imitation.json").exists():
        return "imitated"
    if saved and who is not None and who.how == presence.FINISHED:  # by `train.stop` it may be before its last update
        return presence.FINISHED
    done = bool(saved) and saved[0] >= updates
    if done and (who is None or evaluated >= saved[0]):
        return presence.FINISHED
    if who is not None and not who.ended:
        return "lost"
    if who is not None and who.how == presence.FAILED:
        return presence.FAILED
    return presence.STOPPED if saved else "no checkpoint"


def _saved(run: Path) -> list[int]:
    """Returns the updates of its checkpoints, newest first."""
    return files.numbered(run / "checkpoints")[::-1]


def _pace(run: Path, config: Config, rows: list[dict[str, Any]], state: str) -> dict[str, Any]:
    """Returns the time of training so far, the run's speed, now or at last, and when it will be over."""
    newest: dict[str, float] = {}
    for row in rows:
        newest |= {tag: value for tag, value in row.items() if isinstance(value, float) and math.isfinite(value)}
    found: dict[str, Any] = {"seconds": newest.get("time/time_elapsed"), "cpu_seconds": newest.get("time/cpu_seconds")}
    with contextlib.suppress(*UNSOUND):  # without rows; or not a time, or not a number
        updates = max(config.num_updates - max(row["update"] for row in rows), 0)
        found["last_figures"] = presence.iso((run / "metrics.jsonl").stat().st_mtime)
        if (rate := newest.get("time/fps", 0.0)) > 0:
            left = updates * config.batch_size * config.run.seeds / rate
            found["steps_per_second"] = rate
            if state == "training" and left < 1e9:
                found |= {"seconds_left": left, "estimated_end": presence.iso(time.time() + left)}
    return found


def _told(run: Path, name: str, pick: Callable[[Any], T], said: list[str]) -> T | None:
    """Applies `pick` to a JSON file of a run; None without one, or if it is damaged, which is added to `said`."""
    if not os.path.lexists(run / name):
        return None
    try:
        return pick(files.read(run / name))
    except UserError as error:
        said.append(str(error))
    except UNSOUND as error:
        said.append(f"{run / name} is damaged, or of another version ({type(error).__name__}: {str(error)[:100]}).")
    return None


def _evaluation(records: Any) -> dict[str, Any]:
    """Returns the newest evaluation of a checkpoint."""
    last = records[-1]
    means = [row["figures"]["return"]["mean"] for row in last["rows"]]
    wins = [each["mean_win_rate"] for each in last["overall"].values() if each.get("mean_draw_rate", 0) <= MANY_DRAWS]
    score = {"win_rate": _finite(wins[0])} if wins else {"return": _finite(sum(means) / len(means))}
    even = {"fair": _finite(last["fair"])} if wins and last.get("fair") else {}
    return {"update": _whole(last["update"]), **score, **even}


def _newer(found: dict[str, Any] | None, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Returns an evaluation, or the newest one during the training if that is newer."""
    for row in rows:
        rate = row.get("eval/mean_win_rate")
        if isinstance(rate, float) and math.isfinite(rate) and (not found or row["update"] > found["update"]):
            draws, returns = (
                [value for tag, value in row.items() if tag.startswith("eval/") and tag.endswith(f"/{name}")]
                for name in ("draw_rate", "return")
            )
            drawn = draws and returns and sum(draws) / len(draws) > MANY_DRAWS
            even = {"fair": found["fair"]} if found and "fair" in found else {}
            score = {"return": _finite(sum(returns) / len(returns))} if drawn else {"win_rate": rate} | even
            found = {"update": row["update"]} | score
    return found


def _best(record: Any) -> dict[str, Any]:
    """Returns the best evaluation during training."""
    by = str(record["best_by"])[:LONGEST]
    return {"update": _whole(record["update"]), "best_by": by, "score": _finite(record["score"])}


def _milestones(found: Any) -> list[dict[str, Any]]:
    """Returns the milestones of a run, in the order in which they were reached."""
    numbers = ("update", "steps", "seconds", "cpu_seconds")
    return [
        {"opponent": str(one["opponent"])[:LONGEST]}
        | {key: _finite(one[key]) for key in ("return" if "return" in one else "win_rate", *numbers)}
        for one in found[:MILESTONES]
    ]


def _whole(value: Any) -> int:
    """Returns a whole number. Raises TypeError for anything else."""
    if type(value) is not int:
        raise TypeError("a number of updates is not whole")
    return value


def _finite(value: Any) -> float:
    """Reads a number; raises ValueError if it is not finite."""
    if not math.isfinite(number := float(value)):
        raise ValueError(f"{value} is no number")
    return number


def _newest_intact(run: Path) -> dict[str, Any] | None:
    """Returns the newest checkpoint with all files as they were written; None if there are no checkpoints."""
    damaged: list[int] = []
    unread: dict[str, str] = {}
    for step in _saved(run):
        place = run / "checkpoints" / str(step)
        try:
            checkpoint_state.check_files(place, step)
            size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        except checkpoint_record.Damaged:
            if os.path.exists(place):  # newer ones have not taken its place meanwhile
                damaged.append(step)
        except checkpoint_state.TooLarge:
            unread[str(step)] = "needs more memory than is free"
        except UserError:
            unread[str(step)] = "of a newer version of jaxrl"
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                unread[str(step)] = f"cannot be read: {error.strerror or error}"
        else:
            return {"update": step, "bytes": size, "damaged": damaged, "unread": unread}
    found = {"update": None, "bytes": 0, "damaged": damaged, "unread": unread}
    return found if damaged or unread else None


def _logs(run: Path, process: dict[str, Any] | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the logs of the processes, and the last warnings and errors in them, oldest first."""
    ranks, told = [], []
    for rank, path in log_files.logs(run).items():
        if process is not None and rank >= process["processes"]:
            continue  # of an earlier start
        events = log_files.events(path)
        levels = [event.level for event in events]
        counts = {"warnings": levels.count("warning"), "errors": levels.count("error")}
        last = presence.iso(events[-1].time) if events else ""
        ranks.append({"rank": rank, "log": path.name, "last_event": last} | counts)
        told += [(rank, event) for event in events if event.level in ("warning", "error")]
    told.sort(key=lambda each: each[1].time)
    return ranks, [
        {"time": presence.iso(event.time), "rank": rank, "level": event.level, "message": event.message}
        for rank, event in told[-SHOWN:]
    ]


def _last_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows at the end of a metrics.jsonl; broken lines are left out."""
    for line in log_files.last_lines(path, TAIL):
        try:
            row = json.loads(line)
            if isinstance(row["steps"] + row["update"], int) and max(row["steps"], row["update"]) < 2**63:
                yield row
        except (ValueError, LookupError, TypeError, RecursionError):
            continue
