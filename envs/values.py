"""How a setting is declared: default, documentation and allowed values in one place."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

from envs.errors import UserError

_METADATA_KEY = "envs"


@dataclasses.dataclass(frozen=True)
class Limits:
    """What is known about one key beyond its type.

    Attributes:
      doc: one line for `jaxrl config`.
      minimum: smallest allowed number (for a list: of each element).
      above: numbers must be strictly greater than this.
      maximum: largest allowed number.
      choices: the allowed strings.
      pattern: a regular expression that a string must match in full, with `pattern_doc` saying it in words.
    """

    doc: str = ""
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] | None = None
    pattern: str | None = None
    pattern_doc: str = ""

    def check(self, value: Any, path: str) -> None:
        """Raises UserError if `value`, already of the right type, is not allowed."""
        if isinstance(value, tuple):
            for index, element in enumerate(value):
                self.check(element, f"{path}.{index}")
        elif isinstance(value, str):
            self._check_text(value, path)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self._check_number(value, path)

    def _check_number(self, value: float, path: str) -> None:
        if not math.isfinite(value):
            raise UserError(f"{path} must be a finite number, got {value}.")
        if self.minimum is not None and value < self.minimum:
            raise UserError(f"{path} must be at least {self.minimum}, got {value}.")
        if self.above is not None and value <= self.above:
            raise UserError(f"{path} must be greater than {self.above}, got {value}.")
        if self.maximum is not None and value > self.maximum:
            raise UserError(f"{path} must be at most {self.maximum}, got {value}.")

    def _check_text(self, value: str, path: str) -> None:
        if self.choices is not None and value not in self.choices:
            raise UserError(f"{path} must be one of {', '.join(self.choices)}, got {value!r}.")
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            raise UserError(f"{path} must be {self.pattern_doc}, got {value!r}.")

    def range_text(self) -> str:
        """The allowed values in a few characters, e.g. ``"0 <= x <= 1"`` or ``"mlp | transformer"``."""
        if self.choices is not None:
            return " | ".join(self.choices)
        low = (
            f"{self.minimum} <= " if self.minimum is not None else f"{self.above} < " if self.above is not None else ""
        )
        high = f" <= {self.maximum}" if self.maximum is not None else ""
        return f"{low}x{high}" if low or high else ""


def option(
    default: Any,
    doc: str,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] | None = None,
    pattern: str | None = None,
    pattern_doc: str = "",
) -> Any:
    """A dataclass field that declares one configuration key; see `Limits` for the arguments."""
    limits = Limits(doc, minimum, above, maximum, choices, pattern, pattern_doc)
    metadata = {_METADATA_KEY: limits}
    if isinstance(default, dict):  # a mutable default needs a factory; frozen dataclasses with dicts cannot hash it
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata, hash=False)
    return dataclasses.field(default=default, metadata=metadata)


def limits_of(field: dataclasses.Field) -> Limits:
    """The `Limits` that `option` stored with a dataclass field."""
    return field.metadata.get(_METADATA_KEY, Limits())


def default_of(field: dataclasses.Field) -> Any:
    """The default value of a dataclass field."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
