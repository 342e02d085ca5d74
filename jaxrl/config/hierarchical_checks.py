"""What a manager and a worker need of a game, and what does not go with them."""

from __future__ import annotations

from typing import Any

from jaxrl.config.schema import Config
from jaxrl_envs.shared.errors import UserError


def check_goals(config: Config, env: Any) -> None:
    """Raises UserError for a game without goals, or what does not go with these roles."""
    import jax  # here, because reading a configuration does without

    name = config.env.id
    if env.host:
        raise UserError(f"train.algorithm hierarchical is for compiled games, which {name} is not: use ppo.")
    if config.ppo.belief.learned:
        raise UserError("ppo.belief.learned goes with train.algorithm ppo alone: set it to false.")
    if jax.eval_shape(env.manages, env.observation_spec) is None:
        raise UserError(
            "train.algorithm hierarchical needs a game that says which decisions set goals (Env.manages), which "
            f"{name} does not: use ppo."
        )
    if config.hierarchical.balance and not env.phases:
        raise UserError(f"hierarchical.balance needs the phases of the game (Env.phases), which {name} does not tell.")


def check_hindsight(config: Config, env: Any) -> None:
    """Raises UserError for a game or a network that relabelled sequences cannot be learnt with. Asked of trainings
    alone: to play, evaluate or exploit what was trained takes neither."""
    import jax

    if not config.hierarchical.hindsight.on:
        return
    state = jax.eval_shape(env.init, jax.eval_shape(lambda: jax.random.key(0)))
    action = jax.ShapeDtypeStruct((env.num_players,) if env.simultaneous else (), "int32")
    if jax.eval_shape(env.came_true, state, action, state) is None:
        raise UserError(
            "hierarchical.hindsight needs a game that says which goals came true (Env.came_true), which "
            f"{config.env.id} with these env.options does not: set hierarchical.hindsight.weight to 0."
        )
    if config.network.kind == "recurrent" or ":" in config.network.kind:
        raise UserError(
            "hierarchical.hindsight needs a network without a memory, which would remember the goal that did not come "
            "true: set its weight to 0, or network.kind to mlp or transformer."
        )
