"""What a training is told: made once when it starts, and handed down."""

from __future__ import annotations

import dataclasses

from jaxrl.config import Config
from jaxrl.games import Stages, make_stages
from jaxrl.training.stages.continuation import Origin, PolicyOrigin, find_origin


@dataclasses.dataclass(frozen=True)
class Plan:
    """A training before it begins."""

    config: Config
    stages: Stages  # its stages with their games; one without a curriculum
    # the checkpoint or policy of `train.from_run` with which it begins; None without, and in one that goes on
    origin: Origin | PolicyOrigin | None = None


def make_plan(config: Config) -> Plan:
    """Returns the plan of a configuration. Raises UserError: there is no such game, or the configuration asks for
    something it does not have."""
    return Plan(config, make_stages(config))


def with_origin(plan: Plan) -> Plan:
    """Returns the plan with what `train.from_run` names, which is written out: "the newest" may be another one
    tomorrow. Raises UserError: see `find_origin`."""
    origin = find_origin(plan.config, plan.stages)
    if origin is None:
        return plan

    def written_out(config: Config) -> Config:
        return dataclasses.replace(config, train=dataclasses.replace(config.train, from_run=origin.from_run))

    stages = [(stage._replace(config=written_out(stage.config)), games) for stage, games in plan.stages]
    return Plan(written_out(plan.config), stages, origin)
