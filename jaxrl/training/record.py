"""What a checkpoint remembers of the host: the records of all parts of a training."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxrl.runs.checkpoints.checkpoint import Snapshot
from jaxrl.runs.metric_log import Window
from jaxrl.training.strength.milestones import EvaluationRecord
from jaxrl_envs.shared.errors import UserError


@dataclasses.dataclass
class Clock:
    """The time that a training has taken, over all processes of its run."""

    clock: float = 0.0  # seconds, with all that is not training
    seconds: float = 0.0  # of training, from the first process of the run on
    cpu_seconds: float = 0.0  # the same of the CPU, of process 0 if several train together


@dataclasses.dataclass
class HostRecord:
    """The records of the parts; in a checkpoint one flat mapping."""

    clock: Clock = dataclasses.field(default_factory=Clock)
    evaluations: EvaluationRecord = dataclasses.field(default_factory=EvaluationRecord)
    curriculum: dict[str, Any] = dataclasses.field(default_factory=dict)  # `Course.record`
    window: Window = dataclasses.field(default_factory=Window)
    # the policies and bots that may hold a seat of the games in progress
    controllers: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, snapshot: Snapshot) -> HostRecord:
        """Returns the records in a checkpoint. Raises UserError: there is more in it than this version knows."""
        rest = dict(snapshot.meta["host"])
        curriculum, window = rest.pop("curriculum", {}), rest.pop("window", {})
        controllers, names = rest.pop("controllers", []), [field.name for field in dataclasses.fields(Clock)]
        clock = Clock(**{name: rest.pop(name) for name in names if name in rest})
        try:
            return cls(clock, EvaluationRecord(**rest), curriculum, Window(**window), controllers)
        except TypeError as error:
            raise unknown(snapshot.step, error) from None

    def tree(self) -> dict[str, Any]:
        """Returns the mapping for a checkpoint."""
        return {
            **dataclasses.asdict(self.clock),
            **dataclasses.asdict(self.evaluations),
            "curriculum": self.curriculum,
            "window": self.window.record() if self.window.updates else {},
            "controllers": self.controllers,
        }


def unknown(update: int, error: TypeError) -> UserError:
    """Returns the sentence for a record with keys of another version."""
    return UserError(
        f"the record of checkpoint {update} holds what this jaxrl does not know ({error}): use the version that has "
        "written it."
    )
