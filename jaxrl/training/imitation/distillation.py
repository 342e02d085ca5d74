"""Teaching a network what a search finds: `jaxrl imitate --search`.

Games are played by the search of `jaxrl.search` against bots, whom it knows only with `--search-model opponent`, or
against the policy itself. Every searched decision is kept: what the seat saw, the improved policy (Danihelka et al.
2022: the network's logits shifted by the results) and what the seat earned from there on, discounted as in the training
of the network. The network learns the policies by cross-entropy and the returns by regression, then the improved
network searches again (expert iteration, Anthony et al. 2017, https://arxiv.org/abs/1705.08439). The result is a run
like any other: evaluate, play, resume.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.algorithms import optimizer
from jaxrl.algorithms.registry import check_one_network, find_algorithm, make_algorithm, trained_player
from jaxrl.config import Config
from jaxrl.games import make_games
from jaxrl.matches.evaluate import opponent_names
from jaxrl.matches.evaluate_search import Searcher, beliefs_of, make_searcher, other_scale
from jaxrl.matches.match import GameKeys, SeatedPlayer, play_match
from jaxrl.networks.base import Network
from jaxrl.networks.factory import make_network
from jaxrl.players.player import Player, any_bot, bot_player
from jaxrl.players.spec import worlds_of
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.directory import (
    RunDirectory,
    TrainedRun,
    begun_run,
    enable_compilation_cache,
    find_run,
    load_run,
    make_env,
    make_stamp,
    read_checkpoint,
)
from jaxrl.runs.folder import next_command
from jaxrl.runs.logs.console import waiting
from jaxrl.runs.stopwatch import Stopwatch
from jaxrl.search.player import Search
from jaxrl.search.policies import SearchParams
from jaxrl.search.settings import SELF, SearchRequest
from jaxrl.training.imitation.supervised import LabelledDecisions, Losses, check_learning, make_step
from jaxrl.training.record import HostRecord
from jaxrl.training.strength.milestones import EvaluationRecord
from jaxrl_envs.contract.env import Env, Key, PyTree, State, is_over
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError


class Collected(NamedTuple):
    """Decisions and mean return of a batch of games."""

    decisions: LabelledDecisions
    mean_return: jax.Array  # f32[], of the searching seat


def collect_games(
    env: Env, search: Search, opponent: Player, games: int, steps: int, *, in_order: bool = False
) -> Callable[[SearchParams, PyTree, Key], Collected]:
    """Returns a function that plays games by search and keeps its decisions.

    Args:
      search: player of one seat of each game, in turn every seat.
      games: N, side by side.
      steps: T, the most steps of a game that are kept; a game longer than this teaches only what it has shown so far.
      in_order: whether to keep the order of each game, for a network that remembers.

    Returns:
      (search's parameters, opponent's parameters, key) -> decisions [T * N], in order [N, T].
    """
    seats = (jnp.arange(games) % env.num_players).astype(jnp.int32)
    holders = (jnp.arange(env.num_players) != seats[:, None]).astype(jnp.int32)  # i32[N, P], 0 is the search

    def others(params: PyTree) -> SeatedPlayer:
        return SeatedPlayer(opponent, params, np.array([False, True]), number=1, slots=max(1, env.num_players - 1))

    def one(params: SearchParams, other: PyTree, state: State, memories: Any, seat: Any, holder: Any, key: Key) -> Any:
        memory, theirs = memories
        plan_key, other_key, step_key, memory_key = jax.random.split(key, 4)
        plan = search.plan(params, memory, state, plan_key)
        mine = state.current_player == seat
        answer, theirs = others(other).ask(state, holder, theirs, other_key)
        action = jnp.where(mine, plan.action, answer)
        after = env.step(state, action, step_key)
        decides = mine & ~is_over(state)
        searched = decides & (jnp.sum(state.legal_action_mask) > 1)
        decision = (state.observation, state.legal_action_mask, plan.policy, searched.astype(jnp.float32)), decides
        memory = search.belief.update(params, memory, state, action, after, seat, memory_key)
        return after, (memory, others(other).see(theirs, state, action, after, holder, other_key)), decision

    def collect(params: SearchParams, other: PyTree, key: Key) -> Collected:
        deal_key, memory_key, play_key = jax.random.split(key, 3)
        deal_keys = jax.vmap(prng.from_key)(jax.random.split(deal_key, games))
        lane_keys = jax.vmap(prng.from_key)(jax.random.split(play_key, games))
        memory_keys = jax.vmap(prng.from_key)(jax.random.split(memory_key, games))
        state = jax.vmap(env.init)(deal_keys)
        memory = jax.vmap(search.belief.init, in_axes=(None, 0, 0, 0))(params, state, seats, memory_keys)
        theirs = jax.vmap(others(other).begin)(state, holders, memory_keys)

        def step(carry: tuple[State, Any], time: jax.Array) -> tuple[tuple[State, Any], Any]:
            keys = jax.vmap(lambda k: jax.random.fold_in(k, time))(lane_keys)
            play = jax.vmap(one, in_axes=(None, None, 0, 0, 0, 0, 0))
            state, memories, decision = play(params, other, *carry, seats, holders, keys)
            own = jnp.take_along_axis(state.rewards, seats[:, None], axis=1)[:, 0]
            return (state, memories), (decision, own)

        (end, _), ((kept, decides), earned) = jax.lax.scan(step, (state, (memory, theirs)), jnp.arange(steps))
        observation, mask, policy, searched = kept
        weight = searched * is_over(end).astype(jnp.float32)  # only games that ended say how they ended
        value = returns_from(earned, decides, search.lineup.discount)
        decisions = arranged(LabelledDecisions(observation, mask, policy, value, weight), decides, in_order=in_order)
        return Collected(decisions, jnp.mean(jnp.sum(earned, axis=0)))

    return collect


def returns_from(earned: jax.Array, decides: jax.Array, discount: float) -> jax.Array:
    """Sums what a seat earns from each step on, f32[T, N], discounted once for each of its decisions after that step.
    `earned`: f32[T, N], the seat's rewards; `decides`: bool[T, N], whether the seat decides in a step."""
    if discount == 1.0:
        return jnp.cumsum(earned[::-1], axis=0)[::-1]

    def before(after: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        value = step[0] + after
        return jnp.where(step[1], discount, 1.0) * value, value

    return jax.lax.scan(before, jnp.zeros_like(earned[0]), (earned, decides), reverse=True)[1]


def arranged(decisions: LabelledDecisions, decides: jax.Array, *, in_order: bool) -> LabelledDecisions:
    """Maps [T, N, ...] -> [T * N, ...], or in order [N, T, ...] with the steps in front in which the seat decides."""
    if not in_order:
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), decisions)
    order = jnp.argsort(~decides, axis=0, stable=True).T
    return jax.tree.map(lambda leaf: leaf[order, jnp.arange(order.shape[0])[:, None]], decisions)


def make_learner(
    network: Network, epochs: int, minibatch: int, learning_rate: float, value_coef: float
) -> Callable[[PyTree, Any, LabelledDecisions, Key], tuple[PyTree, Any, Losses]]:
    """A function (params, optimizer state, decisions, key) -> both after `epochs` passes in shuffled minibatches."""
    teach = make_step(network, learning_rate, value_coef)

    def learn(params: PyTree, opt_state: Any, decisions: LabelledDecisions, key: Key) -> tuple[PyTree, Any, Losses]:
        count, taught = decisions.weight.shape[0], decisions.weight.reshape(decisions.weight.shape[0], -1).sum(axis=1)
        size = max(1, min(minibatch // (decisions.weight.size // count), count))
        batches = count // size

        def step(carry: tuple[PyTree, Any], batch: LabelledDecisions) -> tuple[tuple[PyTree, Any], Losses]:
            params, opt_state, losses = teach(*carry, batch)
            return (params, opt_state), losses

        def one(carry: tuple[PyTree, Any], index: jax.Array) -> tuple[tuple[PyTree, Any], tuple[Losses, jax.Array]]:
            batch = jax.tree.map(lambda leaf: leaf[index], decisions)
            weight = jnp.sum(batch.weight)
            nothing = Losses(jnp.float32(0.0), jnp.float32(0.0))
            carry, losses = jax.lax.cond(weight > 0, step, lambda carry, _: (carry, nothing), carry, batch)
            return carry, (losses, weight)

        def epoch(carry: tuple[PyTree, Any], key: Key) -> tuple[tuple[PyTree, Any], tuple[Losses, jax.Array]]:
            # Decisions without a label (another seat's, forced ones) come last: they would only thin out minibatches.
            shuffled = jax.random.permutation(key, count)
            order = shuffled[jnp.argsort(taught[shuffled] <= 0, stable=True)]
            return jax.lax.scan(one, carry, order[: batches * size].reshape(batches, size))

        (params, opt_state), (losses, weight) = jax.lax.scan(epoch, (params, opt_state), jax.random.split(key, epochs))
        share = weight[-1] / jnp.maximum(jnp.sum(weight[-1]), 1.0)
        return params, opt_state, jax.tree.map(lambda x: jnp.sum(share * x[-1]), losses)

    return learn


def longest_game(env: Env, games: int = 64) -> int:
    """Returns how many steps to keep of each game: a quarter more than the longest of some random games."""
    keys = jax.vmap(prng.from_key)(jax.random.split(jax.random.key(0), games))
    holders = jnp.zeros((games, env.num_players), jnp.int32)

    def play(keys: Key) -> jax.Array:
        random = SeatedPlayer(bot_player(env, "random"), None, np.array([True]))
        return jnp.max(play_match(env, [random], holders, GameKeys(keys, keys, keys)).length)

    return int(jax.jit(play)(keys) * 1.25) + 1


# ---- from run to run ---------------------------------------------------------------------------------------------


class DistillationSettings(NamedTuple):
    """Settings for playing and learning in distillation."""

    iterations: int  # turns of playing and learning
    games: int  # per turn
    epochs: int  # passes over the games of a turn
    minibatch: int  # searched decisions per step
    learning_rate: float
    value_coef: float
    seed: int


def distill(
    run: str,
    name: str,
    search: SearchRequest,
    settings: DistillationSettings,
    *,
    opponents: Sequence[str] = (),
    checkpoint_name: str = "newest",
    overrides: Sequence[str] = (),
    allow: Collection[str] = (),
) -> None:
    """Makes a new run whose network has learnt from the search of another one. Raises UserError: there is no such run,
    its policy cannot be distilled, or settings are out of range. `opponents`: bots, or self alone; empty: those of its
    evaluations. `checkpoint_name`: newest, best, or a number of updates."""
    counts = {key: getattr(settings, key) for key in ("iterations", "games", "epochs", "minibatch")}
    check_learning(settings.learning_rate, settings.value_coef, **counts)
    source = load_run(run, checkpoint_name, allow, overrides)
    if len(source.params) != 1:
        raise UserError(f"run {source.name!r} trains {len(source.params)} seeds at once: distill a run of one seed.")
    place = find_run(run)
    beside = dataclasses.replace(source.config.run, name=name, directory=str(place.path.parent))
    config = configs.named(dataclasses.replace(source.config, run=beside), name)
    source = dataclasses.replace(source, config=config, env=make_games(config).evaluation)
    teacher = _make_teacher(source, search, opponents)  # before there is a folder: mistakes leave nothing behind
    _warn(config)
    enable_compilation_cache(config.run.cache_dir)
    with begun_run(config) as target, target.lock():
        params = _distil(source, teacher, settings)
        _save(target, config, read_checkpoint(place, str(source.update)), params)
    measure = next_command("evaluate", target.path)
    print(f"saved as run {name!r}, {checkpoint.params_hash(params)}; measure it: {measure}")


def _warn(config: Config) -> None:
    """Warns if the returns of the searched games are on another scale than those that the network was trained on."""
    names = other_scale(config)
    if names:
        print(
            f"warning: evaluation plays with another {' and '.join(names)} than training, and the values are learnt "
            "from the games as evaluated: they begin on another scale, to which `jaxrl resume` would train them back.",
            file=sys.stderr,
        )


class SearchTeacher(NamedTuple):
    """The search that teaches, and its opponents."""

    names: list[str]  # of the opponents
    searcher: Searcher
    opponent: Player  # who plays the other seats, see `collect_games`
    by_itself: bool


def _make_teacher(source: TrainedRun, search: SearchRequest, opponents: Sequence[str]) -> SearchTeacher:
    """Creates the teacher. Raises UserError for unknown opponents or models."""
    env, config = source.env, source.config
    if find_algorithm(config.train.algorithm).by_value:
        raise UserError(f"run {source.name!r} is a Q network, which has no probabilities to teach: distil a PPO run.")
    check_one_network(config.train.algorithm, "distil")
    if env.simultaneous:
        raise UserError(f"{env.id} asks all seats at once: its search plays (`evaluate --search`), it cannot teach.")
    names = list(opponents or opponent_names(config, env))
    if SELF in names and len(names) > 1:
        raise UserError("--opponents is either self alone or names of bots.")
    if searchers := [name for name in names if worlds_of(name) is not None]:
        raise UserError(f"a search cannot be taught against {searchers[0]}: name bots, or self, with --opponents.")
    by_itself = names == [SELF]
    itself = trained_player(config, env, SELF, None, greedy=False)
    players = [itself] if by_itself else [bot_player(env, name) for name in names]
    searcher = make_searcher(env, config, players, search._replace(model=SELF) if by_itself else search)
    opponent = itself if by_itself else any_bot(env, names)
    return SearchTeacher(names, searcher, opponent, by_itself)


def _distil(source: TrainedRun, teacher: SearchTeacher, settings: DistillationSettings) -> PyTree:
    """Returns the parameters after all turns; prints one line for each."""
    env, config = source.env, source.config
    names, searcher, opponent, by_itself = teacher
    network = make_network(config.network, env)
    with waiting("looking at some random games, for their length ..."):
        steps, in_order = longest_game(env), network.remembers
    assert isinstance(searcher.search, Search)  # the teacher of a simultaneous game is refused
    program = collect_games(env, searcher.search, opponent, settings.games, steps, in_order=in_order)
    collect = jax.jit(program, compiler_options=xla.plain_options())
    how = settings.epochs, settings.minibatch, settings.learning_rate, settings.value_coef
    learn = jax.jit(make_learner(network, *how))

    params, belief = source.params[0], beliefs_of(source, searcher.search.settings)[0]
    opt_state, key = optimizer.init(params), jax.random.key(settings.seed)
    for number in range(settings.iterations):
        watch, table = Stopwatch(), number % len(names)
        collect_key, learn_key = jax.random.split(jax.random.fold_in(key, number))
        other = params if by_itself else jnp.int32(table)
        with waiting(
            f"playing and learning from {settings.games} games; the first turn compiles ...", again=number > 0
        ):
            found = collect(SearchParams(params, searcher.models[table], belief), other, collect_key)
            params, opt_state, losses = jax.block_until_ready(learn(params, opt_state, found.decisions, learn_key))
        seconds = watch.seconds()
        print(
            f"{number + 1}/{settings.iterations} against {names[table]}: search earns {float(found.mean_return):+.3f}, "
            f"policy gap {float(losses.policy):.4f} nats, value error {float(losses.value):.4f}, {seconds:.1f} s",
            flush=True,
        )
    return params


def _save(target: RunDirectory, config: Config, snapshot: checkpoint.Snapshot, params: PyTree) -> None:
    """Writes the source's training state with other parameters as the first checkpoint of a run.

    What the host remembers of the source (its best evaluation, its time) stays there: it is not of these parameters.
    """
    env = make_env(config)
    copies = jax.eval_shape(make_algorithm(config, env).init, jax.random.key(0)).target_params
    arrays, leaves = checkpoint.pack({"learner": {"params": params, "target_params": dict.fromkeys(copies, params)}})
    theirs, kept = (
        {name: leaf for name, leaf in each.items() if not name.startswith(checkpoint.TARGET_PARAMS)}
        for each in (snapshot.arrays, snapshot.meta["leaves"])
    )
    meta = snapshot.meta | {
        "params_hash": checkpoint.params_hash(params),
        "leaves": kept | leaves,
        "config_digest": make_stamp(config, env).config_digest,
        "host": HostRecord(evaluations=EvaluationRecord(best_by=config.evaluate.best_by)).tree(),
    }
    configs.save(config, target.config_file)
    with checkpoint.no_space_is_user_error(target.path), contextlib.closing(target.checkpoints()) as store:
        store.save(checkpoint.Snapshot(snapshot.step, theirs | arrays, meta))
