"""The contract of `envs.core` as executable code: run it on your own game.

    jaxrl check my_package.my_game:MyGame num_players=3
    report = envs.conformance.check(MyGame(num_players=3)); assert report.ok, report

Every promise of the contract is one small named function in `envs.conformance.checks`.
"""

from __future__ import annotations

import argparse
import ast
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from envs import registry
from envs.conformance.checks import CHECKS
from envs.conformance.probe import Broken, NotApplicable, Probe
from envs.core import Env
from envs.errors import UserError, nearest

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
FORM = "shapes_and_dtypes"  # a game that fails it cannot be played


class CheckResult(NamedTuple):
    """The outcome of one check."""

    name: str
    status: str  # PASS, FAIL or SKIP
    note: str  # one sentence; always there for FAIL and SKIP
    seconds: float


class CheckReport(NamedTuple):
    """The outcome of all checks; ``str(report)`` is a table."""

    env: str
    results: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """No check failed."""
        return not self.failures

    @property
    def failures(self) -> dict[str, str]:
        """The sentence of every failed check by name."""
        return {result.name: result.note for result in self.results if result.status == FAIL}

    def __str__(self) -> str:
        width = max(len(result.name) for result in self.results)
        lines = [f"{r.status}  {r.name:<{width}}  {r.seconds:5.1f} s  {r.note}".rstrip() for r in self.results]
        counts = {status: sum(r.status == status for r in self.results) for status in (PASS, FAIL, SKIP)}
        verdict = "fulfils the contract" if self.ok else "does not fulfil the contract"
        tally = f"{counts[PASS]} passed, {counts[FAIL]} failed, {counts[SKIP]} skipped"
        return "\n".join([*lines, f"{self.env} {verdict}: {tally}"])


def check(
    env: Env,
    *,
    games: int = 16,
    seed: int = 0,
    max_steps: int = 5000,
    only: Iterable[str] = (),
    on_result: Callable[[CheckResult], None] | None = None,
) -> CheckReport:
    """Runs the conformance suite.

    Args:
      env: the game.
      games: random games to play; more find rarer mistakes.
      seed: of all randomness in the checks.
      max_steps: a random game that is still running then "does not terminate".
      only: names of the checks to run, all if empty.
      on_result: called with every result as soon as it is known.
    """
    only = list(only)
    for name in only:
        if name not in CHECKS:
            raise UserError(f"there is no check {name!r}: {nearest(name, CHECKS)}")
    probe = Probe(env, games=games, seed=seed, max_steps=max_steps)
    results: list[CheckResult] = []
    for name in only or CHECKS:
        formless = any(result.name == FORM and result.status == FAIL for result in results)
        results.append(
            CheckResult(name, SKIP, f"not tried: {FORM} comes first", 0.0) if formless else _run(name, probe)
        )
        if on_result is not None:
            on_result(results[-1])
    return CheckReport(f"{env.id} {env.version}" if isinstance(env, Env) else repr(env), tuple(results))


def _run(name: str, probe: Probe) -> CheckResult:
    start = time.perf_counter()
    try:
        status, note = PASS, CHECKS[name](probe) or ""
    except Broken as failure:
        status, note = FAIL, str(failure)
    except NotApplicable as reason:
        status, note = SKIP, str(reason)
    except Exception as error:  # the game under test may raise anything: that is a finding, not a crash of the suite
        frame = traceback.extract_tb(error.__traceback__)[-1]
        first_line = (str(error).strip() or "no message").splitlines()[0]
        status, note = FAIL, f"raised {type(error).__name__}: {first_line} ({frame.filename}:{frame.lineno})"
    return CheckResult(name, status, note, time.perf_counter() - start)


# ---- command line ---------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``jaxrl check``."""
    parser.add_argument("env", help="a registered game, LIBRARY:NAME, or your own package.module:Class")
    parser.add_argument("options", nargs="*", metavar="option=value", help="options of the game")
    parser.add_argument("--games", type=int, default=16, help="random games to play (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of all randomness in the checks (default %(default)s)")
    parser.add_argument("--max-steps", type=int, default=5000, help="limit of a random game (default %(default)s)")
    parser.add_argument("--only", action="append", default=[], metavar="CHECK", help="run this check alone; repeatable")


def main(args: argparse.Namespace) -> int:
    """Prints the report; 0 if the game fulfils the contract, else 1. Raises UserError for a bad request."""
    if args.games < 1 or args.max_steps < 1:
        raise UserError("--games and --max-steps must be at least 1")
    env = registry.make(args.env, **parse_options(args.options))
    width = max(map(len, CHECKS))

    def show(result: CheckResult) -> None:
        line = f"{result.status}  {result.name:<{width}}  {result.seconds:5.1f} s  {result.note}"
        print(line.rstrip(), flush=True)

    report = check(env, games=args.games, seed=args.seed, max_steps=args.max_steps, only=args.only, on_result=show)
    print(str(report).splitlines()[-1])
    return 0 if report.ok else 1


def parse_options(assignments: Iterable[str]) -> dict[str, Any]:
    """["num_players=3", "expansion=false"] -> {"num_players": 3, "expansion": False}; other words are strings."""
    words = {"true": True, "false": False, "null": None, "none": None}
    options: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise UserError(f"{assignment!r} is not an option: write option=value, e.g. num_players=3")
        try:
            options[name] = words[text.lower()] if text.lower() in words else ast.literal_eval(text)
        except (ValueError, SyntaxError):
            options[name] = text
    return options
