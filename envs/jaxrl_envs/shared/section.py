"""A section of a configuration, and what several sections share."""

from __future__ import annotations

import dataclasses
from collections.abc import Set
from typing import Any, ClassVar

from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option


class Section:
    """The settings of one feature: a frozen dataclass of `option(...)`s that lies with the code that it configures.

    `jaxrl.config.schema.SECTIONS` lists the sections. A configuration calls the methods of all of them: `sized` and
    `check` when it is read, `check_game` when its game is made. Modules of sections import no jax.

    Attributes:
      fixed: keys that a trained policy depends on, so that no command can change them; ("",): all of them.
      per_stage: whether a stage of a curriculum may change the section.
      traced: whether its numbers and schedules enter the compiled program as arrays, so that trainings that differ in
        them alone can run side by side (`run.vary`); whether a number is 0, often "off", is not traced.
      of_game: whether it names bots or options of one game, and so is left out of a base for another game.
      largest_rollout: environment steps of a rollout that a long run of an algorithm takes by default at most.
    """

    fixed: ClassVar[tuple[str, ...]] = ()
    per_stage: ClassVar[bool] = False
    traced: ClassVar[bool] = False
    of_game: ClassVar[bool] = False
    largest_rollout: ClassVar[int] = 32768

    def sized(self, config: Any, given: Set[str]) -> Any:
        """Returns the section with defaults that follow other keys.

        Args:
          config: configuration with this section; sections before it are sized already.
          given: the keys "section.key" that the user has set.
        """
        return self

    def check(self, config: Any) -> None:
        """Checks what does not depend on the game; raises UserError with the keys to change."""

    def check_game(self, config: Any, env: Any) -> None:
        """Compares the section with the game that is trained on; raises UserError with the keys to change."""

    def without_deployment(self) -> Any:
        """Returns the section without the keys of where and how a run is computed, which change no result."""
        return self


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A value that may change over the run: from `start` at the first update to `end`."""

    kind: str = option("constant", "shape", choices=("constant", "linear", "cosine"))
    start: float = option(0.0, "value at the first update", minimum=0.0)
    end: float = option(0.0, "value at the last update; ignored by constant", minimum=0.0)
    until: float = option(1.0, "share of the run after which the value stays at its end", above=0.0, maximum=1.0)

    @staticmethod
    def of_number(value: float) -> dict[str, Any]:
        """Returns the schedule that a plain number stands for: constant."""
        return {"kind": "constant", "start": value, "end": value}

    @property
    def ends(self) -> list[float]:
        """The first and the last value; one of them if the schedule is constant."""
        return [self.start] if self.kind == "constant" else [self.start, self.end]

    @property
    def on(self) -> bool:
        """Whether the value is ever above 0."""
        return max(self.ends) > 0.0


def divides(number: int, divisor: int, number_name: str, divisor_name: str) -> None:
    """Raises UserError with the nearest number that works if `divisor` does not divide `number`."""
    if number % divisor:
        raise UserError(
            f"{number_name} ({number}) must be divisible by {divisor_name} ({divisor}); "
            f"the nearest number that is, is {max(divisor, round(number / divisor) * divisor)}."
        )
