"""All checks by name, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from jaxrl_envs.conformance import display_checks, learning_checks, rules_checks
from jaxrl_envs.conformance.probe import Probe

CHECKS: dict[str, Callable[[Probe], str | None]] = {
    function.__name__: function for function in (*rules_checks.CHECKS, *learning_checks.CHECKS, *display_checks.CHECKS)
}
