"""A report: parts that are measured one after the other, printed as soon as they are known, and JSON in the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from jaxrl import text_tables
from jaxrl.diagnose import hardware
from jaxrl_envs.shared.errors import UserError
from scripts.benchmark.worker import JobFailed

Found = tuple[Any, str]  # for the JSON, and as text


class Effort(NamedTuple):
    """How long to measure."""

    rounds: int
    seconds: float
    batches: tuple[int, ...] = ()


class Part(NamedTuple):
    """One measurement."""

    title: str
    name: str  # in the JSON
    run: Callable[[], Found]


def wanted(of: str, parts: Sequence[str], only: list[str] | None, asked_for: Iterable[str] = ()) -> list[str]:
    """The parts to measure, in order.

    Args:
      of: what has these parts, for the message.
      parts: all there are.
      only: those that the user names.
      asked_for: measured only if they are named.

    Raises:
      UserError: there is no such part.
    """
    if unknown := [part for part in only or [] if part not in parts]:
        raise UserError(f"--only {unknown[0]}: {of} the parts {', '.join(parts)}.")
    return [part for part in parts if (part in only if only else part not in asked_for)]


def measure(
    plan: Iterable[Part], config: dict[str, Any], say: Callable[[str], Any], named: bool = False
) -> dict[str, Any]:
    """The whole report; a part that fails is named in it and does not take the others with it.

    Args:
      plan: what is measured.
      config: told in the report.
      say: told everything as text.
      named: the user has named the parts: what one of them lacks is then a mistake.

    Raises:
      UserError: a part that was named cannot be measured here.
    """
    report: dict[str, Any] = {"hardware": hardware.describe(), "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    report |= {"config": config, "parts": {}, "failures": {}}
    say(text_tables.machine(report["hardware"]))
    for title, name, run in plan:
        say(f"\n== {title}")
        try:
            report["parts"][name], text = run()
        except JobFailed as error:
            report["failures"][name], text = str(error), f"failed:\n{error}"
        except UserError as error:
            if named:
                raise
            report["parts"][name], text = {"skipped": str(error)}, f"left out: {error}"
        say(text)
    return report
