"""The section `ppo`, with its parts `ppo.critic` and `ppo.belief`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Set
from typing import Any, ClassVar

from jaxrl.runs.config import shuffle_groups
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Schedule, Section, divides

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.01, 100.0  # within them the fill of illegal logits stays out of reach
NAME = "ppo"  # of the algorithm, the default of train.algorithm
USERS = (NAME, "hierarchical")  # algorithms that read the section


@dataclasses.dataclass(frozen=True)
class CriticConfig:
    """A network of its own for the advantages, in training only; actions never depend on it."""

    privileged: bool = option(
        False,
        "it sees all of the position, hidden cards too: advantages with less noise, in compiled games that tell what "
        "is hidden; false: none, the policy network's value serves",
    )
    hidden: tuple[int, ...] = option((256, 256), "widths of its dense layers", minimum=1)


@dataclasses.dataclass(frozen=True)
class BeliefConfig:
    """A network of its own that guesses who holds what; actions depend on it only in a search that asks for it."""

    learned: bool = option(
        False,
        "it learns who holds each hidden card from what the seat sees, in compiled games that tell; search draws its "
        "worlds by it (--search-belief learned); false: none",
    )
    hidden: tuple[int, ...] = option((256, 256), "widths of its dense layers", minimum=1)


@dataclasses.dataclass(frozen=True)
class PPOConfig(Section):
    """Proximal policy optimisation (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

    fixed: ClassVar[tuple[str, ...]] = ("belief",)
    per_stage: ClassVar[bool] = True

    epochs: int = option(4, "passes over the collected data per update", minimum=1)
    minibatches: int = option(8, "optimizer steps per pass; follows train.total_steps if not given", minimum=1)
    sequence: int = option(
        16, "with a memory: steps through which a gradient flows back; chunks of this length are shuffled", minimum=1
    )
    accumulate: int = option(1, "portions of a minibatch with gradients summed; more if memory is short", minimum=1)
    optimizer: str = option(
        "adam",
        "adamw: adam with weight decay; muon: orthogonalised steps for hidden matrices, adam for the rest "
        "(https://arxiv.org/abs/2502.16982)",
        choices=("adam", "adamw", "muon"),
    )
    learning_rate: Schedule = option(
        Schedule("linear", 6e-4, 6e-5), "step size of the optimizer; follows train.total_steps if not given"
    )
    entropy_coef: Schedule = option(
        Schedule("constant", 0.3, 0.3),
        "weight of the entropy bonus beside advantages of unit variance; smaller where much is left to chance",
    )
    magnet: str = option(
        "none",
        "what the policy is pulled to by the KL divergence from it: uniform, all legal actions alike; policy, a copy "
        "of itself; self-play then circles less (https://arxiv.org/abs/2206.05825)",
        choices=("none", "uniform", "policy"),
    )
    magnet_coef: Schedule = option(Schedule("constant", 0.05, 0.05), "weight of that divergence")
    magnet_refresh: int = option(50, "policy: updates between copies", minimum=1)
    anchor: bool = option(
        False,
        "hold the policy near the one that the run begins with, e.g. a clone (train.from_run), by KL(that || policy), "
        "as in kickstarting (https://arxiv.org/abs/1803.03835)",
    )
    anchor_coef: Schedule = option(Schedule("linear", 0.3, 0.0), "weight of that divergence")
    value_warmup: int = option(
        0, "first updates of a run in which nothing but the last layer of the value learns", minimum=0
    )
    ema: float = option(
        0.0,
        "decay per update of the average over time of the parameters, which is evaluated, exported and played instead "
        "of them, e.g. 0.99; 0: none is kept",
        minimum=0.0,
        maximum=0.9999,
    )
    temperature: Schedule = option(Schedule("constant", 1.0, 1.0), "actions are drawn from pi^(1 / temperature)")
    clip: float = option(0.05, "clip range of the probability ratio; smaller where policies collapse", above=0.0)
    value_clip: float = option(0.2, "clip range of the value update; 0: off", minimum=0.0)
    value_coef: float = option(0.5, "weight of the value loss; smaller where returns are large", minimum=0.0)
    gamma: float = option(1.0, "discount per own decision of a seat", minimum=0.0, maximum=1.0)
    gae_lambda: float = option(
        0.95, "decay of the advantages; nearer to 1 where values are learnt badly", minimum=0.0, maximum=1.0
    )
    max_grad_norm: float = option(0.5, "gradients are scaled down to this norm; smaller where losses jump", above=0.0)
    critic: CriticConfig = option(CriticConfig(), "a critic that sees what is hidden (arXiv 2203.16406)")
    belief: BeliefConfig = option(BeliefConfig(), "who holds which hidden card, for search")
    target_kl: float = option(0.0, "stop the passes of an update beyond this mean KL; 0: off", minimum=0.0)

    def sized(self, config: Any, given: Set[str]) -> PPOConfig:
        """Minibatches and a learning rate that follow the length of the run."""
        more: dict[str, Any] = {}
        if "ppo.minibatches" not in given:  # four, and eight of large rollouts, if they divide what is shuffled
            group = self.group_size(config, self.chunk(config.network))
            more["minibatches"] = math.gcd(
                group // self.accumulate, 4 if config.batch_size < self.largest_rollout else 8
            )
        if "ppo.learning_rate" not in given:
            more["learning_rate"] = _learning_rate(config.train.total_steps)
        return dataclasses.replace(self, **more)

    def chunk(self, network: Any) -> int:
        """Steps of a sequence to learn from if the network is recurrent; one of the user's own may be."""
        return self.sequence if network.kind == "recurrent" or ":" in network.kind else 1

    def group_size(self, config: Any, sequence: int) -> int:
        """Chunks of `sequence` steps in a shuffle group: what is cut into minibatches."""
        train = config.train
        return train.num_envs // shuffle_groups(train.num_envs, config.run.devices or 1) * train.num_steps // sequence

    def check(self, config: Any) -> None:
        """Batches that can be cut as asked, and possible temperatures."""
        if config.train.algorithm not in USERS:
            return
        self.check_batch(config, self.sequence if config.network.kind == "recurrent" else 1)
        if not all(LOWEST_TEMPERATURE <= value <= HIGHEST_TEMPERATURE for value in self.temperature.ends):
            raise UserError(
                f"ppo.temperature must stay within {LOWEST_TEMPERATURE} and {HIGHEST_TEMPERATURE}, got "
                f"{' to '.join(map(str, self.temperature.ends))}; 1 draws actions from the policy as it is."
            )

    def check_batch(self, config: Any, sequence: int) -> None:
        """Rejects a batch that minibatches, or chunks of `sequence` steps (1: without a memory), do not divide."""
        train = config.train
        groups = shuffle_groups(train.num_envs, config.run.devices or 1)
        divides(train.num_envs, groups, "train.num_envs", "run.devices")
        what = f"train.num_envs / {groups} * train.num_steps" if groups > 1 else "train.num_envs * train.num_steps"
        if sequence > 1:  # chunks are shuffled, not steps
            divides(train.num_steps, sequence, "train.num_steps", "ppo.sequence")
            what = f"{what} / ppo.sequence"
        group = self.group_size(config, sequence)
        divides(group, self.minibatches, what, "ppo.minibatches")
        divides(group // self.minibatches, self.accumulate, f"{what} / ppo.minibatches", "ppo.accumulate")

    def check_game(self, config: Any, env: Any) -> None:
        """A game that tells what a privileged critic sees and what a belief guesses."""
        if config.train.algorithm not in USERS or not (self.critic.privileged or self.belief.learned):
            return
        import jax  # here, because reading a configuration does without

        def told(method: Any) -> bool:
            state = jax.eval_shape(env.init, jax.eval_shape(lambda: jax.random.key(0)))
            return jax.eval_shape(method, state, jax.ShapeDtypeStruct((), "int32")) is not None

        sees = not env.host and told(env.privileged)
        if self.critic.privileged and not sees:
            raise UserError(
                "ppo.critic.privileged needs a compiled game that tells what its seats cannot see (Env.privileged), "
                f"which {config.env.id} does not: set it to false."
            )
        if self.belief.learned and not (sees and told(lambda *at: env.card_beliefs(env.observe(*at)))):
            raise UserError(
                "ppo.belief.learned needs a compiled game that tells who may hold what is hidden (Env.card_beliefs and "
                f"Env.privileged), which {config.env.id} does not: set it to false."
            )


def _learning_rate(total_steps: int) -> Schedule:
    """1e-3 up to a million steps, then less the longer the run (6e-4 for 10 million); falling to a tenth of that."""
    start = 1e-3 * min(1.0, (1e6 / min(total_steps, 1 << 62)) ** 0.25)
    start, end = (float(f"{max(start, 3e-4) * share:.0e}") for share in (1.0, 0.1))
    return Schedule("linear", start, end)
