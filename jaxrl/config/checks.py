"""Checks that involve more than one key: divisibility, the length of the run, and the game."""

from __future__ import annotations

from typing import Any

from jaxrl.config.dqn_checks import check_dqn, check_dqn_game
from jaxrl.config.hierarchical_checks import check_goals, check_hindsight
from jaxrl.config.numbers import divides
from jaxrl.config.ppo_checks import check_auxiliary_networks, check_ppo, shuffle_groups
from jaxrl.config.schema import Config, NetworkConfig
from jaxrl.config.seats_checks import check_bots, check_league, check_seats
from jaxrl_envs.shared.errors import UserError

MAX_BATCH = 2**31 - 1  # positions in a batch are i32 in the compiled program, and so are updates


def check_numbers(config: Config) -> None:
    """Everything that can be said without the game.

    Raises:
      UserError: an impossible batch shape, with the numbers and the keys to change.
    """
    if config.batch_size > MAX_BATCH:
        raise UserError(f"train.num_envs * train.num_steps must be at most {MAX_BATCH}, got {config.batch_size}.")
    if config.train.algorithm in ("ppo", "hierarchical"):
        check_ppo(config, config.ppo.sequence if config.network.kind == "recurrent" else 1)
    elif config.train.algorithm == "dqn":
        check_dqn(config)
    if config.algorithm and ":" not in config.train.algorithm:
        name = config.train.algorithm
        raise UserError(f"the section algorithm is for one of your own: the settings of {name} are the section {name}.")
    updates = -(-config.train.total_steps // config.batch_size)
    if updates > MAX_BATCH:
        raise UserError(
            f"train.total_steps ({config.train.total_steps}) make {updates} updates of {config.batch_size} steps, more "
            f"than the {MAX_BATCH} that are counted: lower it."
        )
    if config.train.updates_per_call > updates:
        raise UserError(
            f"train.updates_per_call ({config.train.updates_per_call}) must be at most the {updates} update(s) that "
            f"train.total_steps ({config.train.total_steps}) make with {config.batch_size} steps each."
        )
    _check_train(config)
    check_league(config)
    if config.run.devices:
        slots = max(1, config.league.snapshots)
        name = "run.devices * league.snapshots" if slots > 1 else "run.devices"
        divides(config.train.num_envs, config.run.devices * slots, "train.num_envs", name)
    _check_layer_norm(config.network)
    size = config.network.transformer
    divides(size.dim, size.heads, "network.transformer.dim", "network.transformer.heads")
    if config.run.seed + config.run.seeds > 2**32:
        raise UserError("run.seed + run.seeds must be at most 4294967296; choose a smaller run.seed.")


def check_name(config: Config) -> None:
    """Raises UserError if the run continues itself."""
    if config.train.from_run and config.train.from_name == config.run.name:
        raise UserError(f"train.from_run is the run {config.run.name!r} itself: continue it with `jaxrl resume`.")


def _check_layer_norm(network: NetworkConfig) -> None:
    """Raises UserError if no dense layers are there to be normalised."""
    reader = network.recurrent.torso if network.kind == "recurrent" else network.kind
    if network.layer_norm and reader in ("transformer", "candidates"):
        raise UserError(f"network.layer_norm is for the dense layers of mlp, not for {reader}: set it to false.")


def _check_train(config: Config) -> None:
    """Raises UserError if the run continues itself or something as long, or keeps what there is not."""
    train = config.train
    check_name(config)
    if train.keep_every:  # or there would be no checkpoint at those updates
        divides(train.keep_every, train.updates_per_call, "train.keep_every", "train.updates_per_call")
        divides(train.keep_every, train.checkpoint_every, "train.keep_every", "train.checkpoint_every")
    if config.num_updates <= train.from_update:
        raise UserError(
            f"train.total_steps ({train.total_steps}) make {config.num_updates} updates, but train.from_run begins "
            f"after {train.from_update}: steps count from the beginning of the first run; raise train.total_steps."
        )


def device_count(config: Config, available: int, processes: int = 1) -> int:
    """Devices to use: `run.devices`, or for 0 the most of the `available` ones that change no result.

    Args:
      config: of the training.
      available: devices, of all processes together.
      processes: each of which uses equally many.

    Raises:
      UserError: more devices are wanted than there are, or the games cannot be divided by the processes.
    """
    wanted = config.run.devices
    if wanted > available:
        raise UserError(f"run.devices is {wanted}, but there are only {available} here; lower it, or use 0 for all.")
    if wanted:
        divides(wanted, processes, "run.devices", "the number of processes")
        return wanted
    num_envs, slots = config.train.num_envs, max(1, config.league.snapshots)
    factors = {"processes": processes, "league.snapshots": slots}
    by = " * ".join(name for name, factor in factors.items() if factor > 1)
    divides(num_envs, processes * slots, "train.num_envs", by)
    groups, each = shuffle_groups(num_envs, 1), range(processes, available + 1, processes)
    return max((n for n in each if num_envs % (n * slots) == 0 and groups % n == 0), default=processes)


def check_game(config: Config, env: Any, table: Any) -> None:
    """Compares a configuration with its game.

    Args:
      config: without mistakes of its own.
      env, table: the game as it is trained on, and as it is evaluated and played.

    Raises:
      UserError: bots, seats, a network or a way to train that the game does not have.
    """
    sizes = [(game.sides, game.num_actions, game.num_features) for game in (env, table)]
    if sizes[0] != sizes[1]:
        raise UserError("evaluate.options change the seats, actions or observation of the game: leave those as in env.")
    _check_network(config, env)
    if config.train.algorithm == "dqn":
        check_dqn_game(config, env)
    if getattr(env, "host", False):
        check_host(config)
    elif config.fleet.workers:
        raise UserError(f"fleet.workers plays games on the host, which {config.env.id} is not: set it to 0.")
    if config.train.algorithm in ("ppo", "hierarchical"):
        check_auxiliary_networks(config, env)
    if config.train.algorithm == "hierarchical":
        check_goals(config, env)
        check_hindsight(config, env)
    check_seats(config, env)
    check_bots(config.evaluate.opponents, env, "evaluate.opponents", searchers=True)
    if env.num_sides < 2 and (config.evaluate.best_by != "return" or config.exploit.every):
        raise UserError(
            f"{config.env.id} has one {env.side_name} only, so nobody wins or exploits: "
            "set evaluate.best_by to return and exploit.every to 0."
        )
    if config.exploit.memory and config.exploit.every and config.league.opponents and config.league.snapshots:
        raise UserError(
            "best responses with a memory (exploit.memory) cannot join a league of policies that have none: leave it "
            "to `jaxrl exploit --memory`, or set league.snapshots to 0."
        )


def _check_network(config: Config, env: Any) -> None:
    """Raises UserError if the game does not describe what the network reads."""
    from jaxrl_envs.contract.env import Env  # here, because it imports jax, which reading a configuration does without

    network = config.network
    reader, key = (
        (network.recurrent.torso, "recurrent.torso") if network.kind == "recurrent" else (network.kind, "kind")
    )
    if reader == "transformer" and type(env).tokens is Env.tokens:
        raise UserError(f"network.{key} transformer needs card tokens, which {config.env.id} has not: use mlp.")
    if reader == "candidates" and type(env).candidates is Env.candidates:
        raise UserError(
            f"network.{key} candidates needs options that are described one by one, which {config.env.id} has not: "
            "use mlp."
        )


def check_host(config: Config) -> None:
    """Raises UserError for several seeds, or games that the actors cannot share evenly."""
    if config.run.seeds > 1:
        raise UserError(
            f"run.seeds is {config.run.seeds}, but a game on the host trains one seed at a time: "
            "start a run for each run.seed."
        )
    sebulba, slots = config.sebulba, max(1, config.league.snapshots)
    name = "sebulba.actors * sebulba.groups" + (" * league.snapshots" if slots > 1 else "")
    divides(config.train.num_envs, sebulba.actors * sebulba.groups * slots, "train.num_envs", name)
    if config.fleet.workers:
        if sebulba.profile:
            raise UserError(
                "sebulba.profile measures engines of this process, but fleet.workers play elsewhere: "
                "set sebulba.profile to false or fleet.workers to 0."
            )
        divides(config.fleet.workers, sebulba.actors, "fleet.workers", "sebulba.actors")
        parts = sebulba.groups * config.fleet.workers
        divides(config.train.num_envs, parts, "train.num_envs", "sebulba.groups * fleet.workers")
