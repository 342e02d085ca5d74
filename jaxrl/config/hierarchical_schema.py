"""The section `hierarchical`: a manager that sets goals and a worker that plays for them."""

from __future__ import annotations

import dataclasses

from jaxrl.config.schedule_schema import Schedule
from jaxrl_envs.shared.options import option


@dataclasses.dataclass(frozen=True)
class RoleConfig:
    """What differs between the two, in place of the keys of `ppo` with these names."""

    epochs: int = option(12, "passes over its own decisions per update, in minibatches as large as PPO's", minimum=1)
    learning_rate: Schedule = option(Schedule("linear", 5e-4, 2e-5), "Adam step size")
    entropy_coef: Schedule = option(Schedule("linear", 0.01, 0.001), "weight of the entropy bonus")
    gamma: float = option(1.0, "discount per own decision of a seat", minimum=0.0, maximum=1.0)
    gae_lambda: float = option(0.95, "decay of the advantages", minimum=0.0, maximum=1.0)


@dataclasses.dataclass(frozen=True)
class HindsightConfig:
    """The worker's sequences once more, with the goal that came true."""

    weight: Schedule = option(
        Schedule("constant", 0.0), "weight of what they teach beside the worker's own loss, e.g. 0.5; 0: off"
    )
    cap: float = option(
        2.0, "largest importance weight of a sequence; larger: less bias and more noise", above=0.0, maximum=1e6
    )

    @property
    def on(self) -> bool:
        """Whether it ever has a weight."""
        return self.weight.start > 0.0 or (self.weight.kind != "constant" and self.weight.end > 0.0)


@dataclasses.dataclass(frozen=True)
class HierarchicalConfig:
    """A manager decides what sets goals (bids), a worker all the rest; what is not said here is as in `ppo`."""

    manager: RoleConfig = option(
        RoleConfig(epochs=25, learning_rate=Schedule("linear", 3e-4, 2e-5)), "who sets the goals"
    )
    worker: RoleConfig = option(RoleConfig(), "who plays for them")
    hindsight: HindsightConfig = option(HindsightConfig(), "relabelled sequences (arXiv 1711.06006)")
    balance: bool = option(
        False, "advantages have unit variance within every phase of the game, instead of over all of them"
    )
