"""The contract of `jaxrl_envs.contract.env` as executable code: run it on your own game.

    jaxrl check my_package.my_game:MyGame num_players=3
    report = jaxrl_envs.conformance.check(MyGame(num_players=3)); assert report.ok, report

Every promise of the contract is one small named function in `rules_checks`, `learning_checks` or `display_checks`.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from typing import NamedTuple

from jaxrl_envs.conformance import display_checks, gpu_checks, learning_checks, rules_checks
from jaxrl_envs.conformance.probe import Broken, NotApplicable, Probe
from jaxrl_envs.contract.env import Env
from jaxrl_envs.shared import user_code
from jaxrl_envs.shared.errors import UserError, nearest

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
FORM = "shapes_and_dtypes"  # a game that fails it cannot be played

CHECKS: dict[str, Callable[[Probe], str | None]] = {  # by name, in the order in which they run
    function.__name__: function
    for checks in (rules_checks, learning_checks, display_checks, gpu_checks)
    for function in checks.CHECKS
}


class CheckResult(NamedTuple):
    """The result of one check."""

    name: str
    status: str  # PASS, FAIL or SKIP
    note: str  # one sentence; never empty for FAIL and SKIP
    seconds: float


class CheckReport(NamedTuple):
    """The results of all checks; ``str(report)`` is a table."""

    env: str
    results: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
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
        if self.ok and any(r.name == "hidden_information" and r.status == SKIP for r in self.results):
            verdict += ", but no leak was looked for"
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
      seed: seed of all randomness in the checks.
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
        skipped = CheckResult(name, SKIP, f"not tried: {FORM} comes first", 0.0)
        results.append(skipped if formless else _run(name, probe))
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
        status, note = FAIL, user_code.fault(error) or _raised(error)
    return CheckResult(name, status, note, time.perf_counter() - start)


def _raised(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    first_line = (str(error).strip() or "no message").splitlines()[0]
    return f"raised {type(error).__name__}: {first_line} ({frame.filename}:{frame.lineno})"
