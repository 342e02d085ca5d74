"""The section `ppo`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Set
from typing import TYPE_CHECKING, Any, ClassVar

from jaxrl.runs.config import shuffle_groups
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import option
from jaxrl_envs.shared.section import Schedule, Section, divides

if TYPE_CHECKING:
    from jaxrl.config.schema import Config
    from jaxrl.networks.config import NetworkConfig
    from jaxrl_envs.contract.env import Env

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.01, 100.0  # within them the fill of illegal logits stays out of reach
NAME = "ppo"  # of the algorithm, the default of train.algorithm
USERS = (NAME, "hierarchical")  # algorithms that read the section


@dataclasses.dataclass(frozen=True)
class PPOConfig(Section):
    """Proximal policy optimisation (Schulman et al. 2017, https://arxiv.org/abs/1707.06347)."""

    fixed: ClassVar[tuple[str, ...]] = ("belief",)
    per_stage: ClassVar[bool] = True
    traced: ClassVar[bool] = True

    epochs: int = option(4, "passes over the rollout per update", minimum=1)
    minibatches: int = option(
        8, "minibatches (optimizer steps) per pass; follows train.total_steps if not given", minimum=1
    )
    batch_size: int = option(
        0, "decisions in a minibatch, instead of ppo.minibatches, which is made from it; 0: not given", minimum=0
    )
    sequence: int = option(
        16,
        "recurrent networks: steps of truncated backpropagation through time; chunks of this length are shuffled",
        minimum=1,
    )
    accumulate: int = option(
        1, "parts of a minibatch whose gradients are accumulated, e.g. 4 where memory is short", minimum=1
    )
    optimizer: str = option(
        "adam",
        "adam, adamw (weight decay), or muon (for hidden matrices, adam for the rest; "
        "https://arxiv.org/abs/2502.16982)",
        choices=("adam", "adamw", "muon"),
    )
    learning_rate: Schedule = option(
        Schedule("linear", 6e-4, 6e-5), "learning rate; follows train.total_steps if not given"
    )
    entropy_coef: Schedule = option(
        Schedule("constant", 0.3, 0.3),
        "weight of the entropy bonus, with advantages of unit variance; lower in games of much chance",
    )
    magnet: str = option(
        "none",
        "regularise by KL to uniform (all legal actions alike) or to a periodic copy of the policy, "
        "against cycles in self-play (https://arxiv.org/abs/2206.05825)",
        choices=("none", "uniform", "policy"),
    )
    magnet_coef: Schedule = option(Schedule("constant", 0.05, 0.05), "weight of KL(policy || magnet)")
    magnet_refresh: int = option(50, "magnet policy: updates between copies", minimum=1)
    anchor: Schedule = option(
        Schedule("linear", 0.0, 0.0),
        "weight of KL(initial policy || policy), to keep what a clone (train.from_run) does, e.g. start 0.3; 0: off "
        "(https://arxiv.org/abs/1803.03835)",
    )
    value_warmup: int = option(
        0, "first updates in which only the value head learns, e.g. 10 after imitation", minimum=0
    )
    ema: float = option(
        0.0,
        "decay per update of averaged parameters, which are evaluated, exported and played, e.g. 0.99; 0: none",
        minimum=0.0,
        maximum=0.9999,
    )
    temperature: Schedule = option(
        Schedule("constant", 1.0, 1.0), "sampling temperature: actions are drawn from pi^(1 / temperature)"
    )
    clip: float = option(0.05, "clip range of the probability ratio; lower where policies collapse", above=0.0)
    value_clip: float = option(0.2, "clip range of the value update; 0: off", minimum=0.0)
    value_coef: float = option(0.5, "weight of the value loss; lower where returns are large", minimum=0.0)
    gamma: float = option(1.0, "discount per decision of a seat", minimum=0.0, maximum=1.0)
    gae_lambda: float = option(
        0.95, "lambda of generalised advantage estimation; nearer to 1 where values are poor", minimum=0.0, maximum=1.0
    )
    max_grad_norm: float = option(0.5, "clip gradients to this global norm; lower where losses jump", above=0.0)
    critic: tuple[int, ...] = option(
        (),
        "dense layers of a critic for the advantages that also sees hidden cards, e.g. [256, 256]; empty: none "
        "(https://arxiv.org/abs/2203.16406)",
        minimum=1,
    )
    belief: tuple[int, ...] = option(
        (),
        "dense layers of a network that learns who holds each hidden card, for --search-belief learned, e.g. "
        "[256, 256]; empty: none",
        minimum=1,
    )
    target_kl: float = option(0.0, "mean KL at which an update stops early; 0: off", minimum=0.0)

    def sized(self, config: Config, given: Set[str]) -> PPOConfig:
        """Minibatches and a learning rate that follow the length of the run."""
        more: dict[str, Any] = {}
        if config.ppo.batch_size:
            if "ppo.minibatches" in given:
                raise UserError("ppo.batch_size and ppo.minibatches say the same: give one of them.")
            divides(config.batch_size, self.batch_size, "train.num_envs * train.num_steps", "ppo.batch_size")
            more |= {"minibatches": config.batch_size // self.batch_size, "batch_size": 0}
        elif "ppo.minibatches" not in given:  # four, and eight of large rollouts, if they divide what is shuffled
            group = self.group_size(config, self.chunk(config.network))
            more["minibatches"] = math.gcd(
                group // self.accumulate, 4 if config.batch_size < self.largest_rollout else 8
            )
        if "ppo.learning_rate" not in given:
            more["learning_rate"] = _learning_rate(config.train.total_steps)
        return dataclasses.replace(self, **more)

    def chunk(self, network: NetworkConfig) -> int:
        """Steps of a sequence to learn from if the network is recurrent; one of the user's own may be."""
        return self.sequence if network.kind == "recurrent" or ":" in network.kind else 1

    def group_size(self, config: Config, sequence: int) -> int:
        """Returns the number of chunks of `sequence` steps in a shuffle group: what is cut into minibatches."""
        train = config.train
        return train.num_envs // shuffle_groups(train.num_envs, config.run.devices or 1) * train.num_steps // sequence

    def check(self, config: Config) -> None:
        """Rejects batches that minibatches do not divide, and temperatures out of range."""
        if config.train.algorithm not in USERS:
            return
        self.check_batch(config, self.sequence if config.network.kind == "recurrent" else 1)
        if not all(LOWEST_TEMPERATURE <= value <= HIGHEST_TEMPERATURE for value in self.temperature.ends):
            raise UserError(
                f"ppo.temperature must stay within {LOWEST_TEMPERATURE} and {HIGHEST_TEMPERATURE}, got "
                f"{' to '.join(map(str, self.temperature.ends))}; 1 draws actions from the policy as it is."
            )

    def check_batch(self, config: Config, sequence: int) -> None:
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

    def check_game(self, config: Config, env: Env) -> None:
        """Rejects a critic or belief for a game that does not describe its hidden information."""
        if config.train.algorithm not in USERS or not (self.critic or self.belief):
            return
        import jax  # here, because reading a configuration does without

        def told(method: Any) -> bool:
            state = jax.eval_shape(env.init, jax.eval_shape(lambda: jax.random.key(0)))
            return jax.eval_shape(method, state, jax.ShapeDtypeStruct((), "int32")) is not None

        sees = not env.host and told(env.privileged)
        if self.critic and not sees:
            raise UserError(
                "ppo.critic needs a compiled game that tells what its seats cannot see (Env.privileged), "
                f"which {config.env.id} does not: leave it empty."
            )
        if self.belief and not (sees and told(lambda *at: env.card_beliefs(env.observe(*at)))):
            raise UserError(
                "ppo.belief needs a compiled game that tells who may hold what is hidden (Env.card_beliefs and "
                f"Env.privileged), which {config.env.id} does not: leave it empty."
            )


def _learning_rate(total_steps: int) -> Schedule:
    """1e-3 up to a million steps, then less the longer the run (6e-4 for 10 million); falling to a tenth of that."""
    start = 1e-3 * min(1.0, (1e6 / min(total_steps, 1 << 62)) ** 0.25)
    start, end = (float(f"{max(start, 3e-4) * share:.0e}") for share in (1.0, 0.1))
    return Schedule("linear", start, end)
