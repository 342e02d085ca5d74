"""Checks that involve more than one key: divisibility, seats and the game."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envs.errors import UserError, nearest
from jaxrl.config.dqn_checks import check_dqn, check_dqn_game
from jaxrl.config.league_checks import check_league, check_league_game, divides
from jaxrl.config.schema import Config
from jaxrl.config.sebulba_checks import check_sebulba

MAX_BATCH = 2**31 - 1  # positions in a batch are i32 in the compiled program
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.01, 100.0  # within them the fill of illegal logits stays out of reach


def check_numbers(config: Config) -> None:
    """Everything that can be said without the game.

    Raises:
      UserError: an impossible batch shape, with the numbers and the keys to change.
    """
    ppo, train = config.ppo, config.train
    divides(train.num_envs, ppo.shuffle_groups, "train.num_envs", "ppo.shuffle_groups")
    group = train.num_envs // ppo.shuffle_groups * train.num_steps
    what = "train.num_envs / ppo.shuffle_groups * train.num_steps"
    divides(group, ppo.minibatches, what, "ppo.minibatches")
    divides(group // ppo.minibatches, ppo.accumulate, f"{what} / ppo.minibatches", "ppo.accumulate")
    if config.batch_size > MAX_BATCH:
        raise UserError(f"train.num_envs * train.num_steps must be at most {MAX_BATCH}, got {config.batch_size}.")
    updates = -(-config.train.total_steps // config.batch_size)
    if config.train.updates_per_call > updates:
        raise UserError(
            f"train.updates_per_call ({config.train.updates_per_call}) must be at most the {updates} update(s) that "
            f"train.total_steps ({config.train.total_steps}) make with {config.batch_size} steps each."
        )
    _check_train(config)
    check_league(config)
    check_dqn(config)
    if config.run.devices:
        check_devices(config, config.run.devices)
    size = config.network.transformer
    divides(size.dim, size.heads, "network.transformer.dim", "network.transformer.heads")
    ends = [ppo.temperature.start] + ([ppo.temperature.end] if ppo.temperature.kind != "constant" else [])
    if not all(LOWEST_TEMPERATURE <= value <= HIGHEST_TEMPERATURE for value in ends):
        raise UserError(
            f"ppo.temperature must stay within {LOWEST_TEMPERATURE} and {HIGHEST_TEMPERATURE}, got "
            f"{' to '.join(map(str, ends))}; 1 draws actions from the policy as it is."
        )
    if config.run.seed + config.run.seeds > 2**32:
        raise UserError("run.seed + run.seeds must be at most 4294967296; choose a smaller run.seed.")
    if not config.seats:
        raise UserError("seats must hold at least one mix, e.g. [{weight: 1, learners: all, bots: []}].")


def _check_train(config: Config) -> None:
    """Raises UserError if the run continues nothing, itself or something as long, or keeps what there is not."""
    train = config.train
    if train.from_update and not train.from_run:
        raise UserError("train.from_update is a checkpoint of train.from_run: name that run too, or leave both out.")
    if train.from_run and train.from_run == config.run.name:
        raise UserError(f"train.from_run is the run {train.from_run!r} itself: continue it with `jaxrl resume`.")
    if train.keep_every:  # or there would be no checkpoint at those updates
        divides(train.keep_every, train.updates_per_call, "train.keep_every", "train.updates_per_call")
        divides(train.keep_every, train.checkpoint_every, "train.keep_every", "train.checkpoint_every")
    if config.num_updates <= train.from_update:
        raise UserError(
            f"train.total_steps ({train.total_steps}) make {config.num_updates} updates, but train.from_update is "
            f"{train.from_update}: steps count from the beginning of the first run; raise train.total_steps."
        )


def check_devices(config: Config, devices: int) -> None:
    """Raises UserError if the games cannot be spread evenly over `devices`."""
    if config.league.snapshots:
        divides(
            config.train.num_envs,
            devices * config.league.snapshots,
            "train.num_envs",
            "run.devices * league.snapshots",
        )
    divides(config.train.num_envs, devices, "train.num_envs", "run.devices")
    divides(config.ppo.shuffle_groups, devices, "ppo.shuffle_groups", "run.devices")


def device_count(config: Config, available: int) -> int:
    """Devices to use: `run.devices`, or for 0 the largest number of the `available` ones that divides the batch.

    Raises:
      UserError: more devices are wanted than there are.
    """
    wanted = config.run.devices
    if wanted > available:
        raise UserError(f"run.devices is {wanted}, but there are only {available} here; lower it, or use 0 for all.")
    if wanted:
        return wanted
    ppo, train, slots = config.ppo, config.train, max(1, config.league.snapshots)
    return max(n for n in range(1, available + 1) if train.num_envs % (n * slots) == 0 and ppo.shuffle_groups % n == 0)


def check_game(config: Config) -> None:
    """Makes the game once and compares seats, bots and network with it. Compiles nothing.

    Raises:
      UserError: an unknown game, option or bot, or seats that the game does not have.
    """
    from jaxrl.runs.games import make_env, make_evaluation_env

    try:
        env = make_env(config)
    except UserError as error:
        raise UserError(f"env: {error}") from error
    try:
        table = make_evaluation_env(config)
    except UserError as error:
        raise UserError(f"evaluate.options: {error}") from error
    if (table.sides, table.num_actions, table.num_features) != (
        env.sides,
        env.num_actions,
        env.num_features,
    ):
        raise UserError("evaluate.options change the seats, actions or observation of the game: leave those as in env.")
    _check_network(config, env)
    _check_loop(config, env)
    for index, mix in enumerate(config.seats):
        path = f"seats.{index}"
        learners = env.num_sides if mix.learners == "all" else int(mix.learners)
        if learners > env.num_sides:
            raise UserError(
                f"{path}.learners is {learners}, but {config.env.id} has {env.num_sides} {env.side_name}s here."
            )
        if learners < env.num_sides and not mix.bots:
            raise UserError(
                f"{path}.bots is empty, but {env.num_sides - learners} {env.side_name}s are left for bots; "
                f"choose from {', '.join(env.bots)} or set {path}.learners to all."
            )
        _known(mix.bots, list(env.bots), f"{path}.bots")
    check_league_game(config, env)
    _known(config.evaluate.opponents, list(env.bots), "evaluate.opponents")
    if env.num_sides < 2 and (config.evaluate.best_by != "return" or config.exploit.every):
        raise UserError(
            f"{config.env.id} has one {env.side_name} only, so nobody wins or exploits: "
            "set evaluate.best_by to return and exploit.every to 0."
        )


def _check_loop(config: Config, env: Any) -> None:
    """Raises UserError if the game cannot be played by the loop that is asked for, or not as it is set up."""
    if config.train.algorithm == "dqn":
        check_dqn_game(config, env)
    if env.host:
        check_sebulba(config)


def _check_network(config: Config, env: Any) -> None:
    """Raises UserError if the game does not describe what the network reads."""
    from envs.core import Env

    if config.network.kind == "transformer" and type(env).tokens is Env.tokens:
        raise UserError(f"network.kind transformer needs card tokens, which {config.env.id} has not: use mlp.")
    if config.network.kind == "candidates" and type(env).candidates is Env.candidates:
        raise UserError(
            f"network.kind candidates needs options that are described one by one, which {config.env.id} has not: "
            "use mlp."
        )


def _known(names: Iterable[str], known: list[str], path: str) -> None:
    for name in names:
        if name not in known:
            raise UserError(f"{path}: there is no bot {name!r}; {nearest(name, known)}")
