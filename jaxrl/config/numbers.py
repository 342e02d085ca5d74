"""Arithmetic that the checks share."""

from __future__ import annotations

from jaxrl_envs.shared.errors import UserError


def divides(number: int, divisor: int, number_name: str, divisor_name: str) -> None:
    """Raises UserError with the nearest number that works if `divisor` does not divide `number`."""
    if number % divisor:
        raise UserError(
            f"{number_name} ({number}) must be divisible by {divisor_name} ({divisor}); "
            f"the nearest number that is, is {max(divisor, round(number / divisor) * divisor)}."
        )
