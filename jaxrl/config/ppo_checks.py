"""How PPO cuts its batches, and checks of that."""

from __future__ import annotations

from typing import Any

from jaxrl.config.numbers import divides
from jaxrl.config.schema import Config
from jaxrl_envs.shared.errors import UserError

SHUFFLE_GROUPS = 8  # of games, each shuffled by itself: a shuffle that need not cross devices, nor all of the memory
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.01, 100.0  # within them the fill of illegal logits stays out of reach


def shuffle_groups(num_envs: int, devices: int) -> int:
    """Groups of games that are shuffled each by itself, a multiple of `devices`: the results of a training depend on
    them, so they depend on the number of devices only where that divides the usual number not."""
    groups = SHUFFLE_GROUPS if num_envs % SHUFFLE_GROUPS == 0 else 1
    return groups if groups % devices == 0 else devices


def group_size(config: Config, sequence: int) -> int:
    """Chunks of `sequence` steps in a group: what is cut into minibatches."""
    train = config.train
    return train.num_envs // shuffle_groups(train.num_envs, config.run.devices or 1) * train.num_steps // sequence


def check_auxiliary_networks(config: Config, env: Any) -> None:
    """Raises UserError if a critic is to see, or a belief to guess, what the game does not tell."""
    import jax  # here, because reading a configuration does without

    def told(method: Any) -> bool:
        state = jax.eval_shape(env.init, jax.eval_shape(lambda: jax.random.key(0)))
        return jax.eval_shape(method, state, jax.ShapeDtypeStruct((), "int32")) is not None

    def sees() -> bool:
        return not env.host and told(env.privileged)

    if config.ppo.critic.privileged and not sees():
        raise UserError(
            "ppo.critic.privileged needs a compiled game that tells what its seats cannot see (Env.privileged), which "
            f"{config.env.id} does not: set it to false."
        )
    if config.ppo.belief.learned and not (sees() and told(lambda *at: env.holdings(env.observe(*at)))):
        raise UserError(
            "ppo.belief.learned needs a compiled game that tells who may hold what is hidden (Env.holdings and "
            f"Env.privileged), which {config.env.id} does not: set it to false."
        )


def check_ppo(config: Config, sequence: int) -> None:
    """Everything that can be said without the game.

    Args:
      config: of the training.
      sequence: steps of a chunk, 1 without a memory.

    Raises:
      UserError: a batch that cannot be cut as asked, with the keys to change, or impossible temperatures.
    """
    ppo, train = config.ppo, config.train
    groups = shuffle_groups(train.num_envs, config.run.devices or 1)
    divides(train.num_envs, groups, "train.num_envs", "run.devices")
    what = f"train.num_envs / {groups} * train.num_steps" if groups > 1 else "train.num_envs * train.num_steps"
    if sequence > 1:  # chunks are shuffled, not steps
        divides(train.num_steps, sequence, "train.num_steps", "ppo.sequence")
        what = f"{what} / ppo.sequence"
    group = group_size(config, sequence)
    divides(group, ppo.minibatches, what, "ppo.minibatches")
    divides(group // ppo.minibatches, ppo.accumulate, f"{what} / ppo.minibatches", "ppo.accumulate")
    temperature = ppo.temperature
    ends = [temperature.start] + ([temperature.end] if temperature.kind != "constant" else [])
    if not all(LOWEST_TEMPERATURE <= value <= HIGHEST_TEMPERATURE for value in ends):
        raise UserError(
            f"ppo.temperature must stay within {LOWEST_TEMPERATURE} and {HIGHEST_TEMPERATURE}, got "
            f"{' to '.join(map(str, ends))}; 1 draws actions from the policy as it is."
        )
