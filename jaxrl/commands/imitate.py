"""Learning to play as somebody has played: `jaxrl imitate`.

Recorded games (`HostGame.demonstrations`), or games that bots play for it, say what was seen, what could have been done
and what was done. The policy
learns that by cross-entropy, the value how the games ended by regression. A part of the games is never learnt from: by
those the learning is stopped in time, and they tell how well answers are predicted, compared with players that know the
legal actions and nothing else. The result is a run with one checkpoint, from which `train.from_run` goes on with PPO.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import config as configs
from jaxrl.algorithms import optimizer
from jaxrl.algorithms.registry import check_one_network, find_algorithm, make_algorithm
from jaxrl.commands.common import check_learning
from jaxrl.config import Config
from jaxrl.envs.core import Env, PyTree
from jaxrl.envs.errors import UserError
from jaxrl.envs.host.core import HostGame
from jaxrl.envs.host.env import HostEnv
from jaxrl.intervals import Estimate
from jaxrl.matches.entrants import BOT_PREFIX
from jaxrl.matches.tables import align
from jaxrl.networks.distributions import log_prob
from jaxrl.networks.factory import Network, make_network
from jaxrl.runs import checkpoint
from jaxrl.runs.command import next_command
from jaxrl.runs.directory import RunDirectory, begun_run, enable_compilation_cache, make_stamp, write_json
from jaxrl.runs.games import make_games
from jaxrl.runs.logs import say
from jaxrl.runs.metrics import MetricsLogger
from jaxrl.training import demonstrations
from jaxrl.training.constant_policies import Prediction, all_constant, over_games
from jaxrl.training.demonstrations import Examples, Questions
from jaxrl.training.state import Counter
from jaxrl.training.supervised import Lessons, evaluate_all, make_step

CHECKED_AT_A_TIME = 256


class Checked(NamedTuple):
    """How a network does on games that it has not learnt from."""

    prediction: Prediction
    value_error: float  # squared
    value_variance: float  # of what it has to predict
    value_share: float  # 0 .. 1: this share of its values would be nearest to what it has to predict

    @property
    def surprise(self) -> float:
        """Mean cross-entropy in nats."""
        return float(self.prediction.surprise.mean())

    @property
    def accuracy(self) -> float:
        """Share of answers that are its first choice."""
        return float(self.prediction.right.mean())


# ---- learning -------------------------------------------------------------------------------------------------------


def lessons_of(batch: Questions, weight: np.ndarray) -> Lessons:
    """Questions as lessons: the recorded action is what should be done."""
    policy = (np.arange(batch.mask.shape[-1]) == batch.action[..., None]).astype(np.float32)
    return Lessons(batch.observation, batch.mask, policy, batch.value, weight)  # type: ignore[arg-type]  # NumPy


def minibatches(examples: Examples, size: int, generator: np.random.Generator) -> Iterator[Lessons]:
    """All units once, shuffled, about `size` questions at a time; the last minibatch is filled up with weight 0."""
    order, rows = generator.permutation(len(examples.units)), examples.units_of(size)
    for first in range(0, len(order), rows):
        index = examples.units[np.resize(order[first : first + rows], rows)]
        index[len(order) - first :] = -1
        yield lessons_of(examples.batch(index), (index >= 0).astype(np.float32))


def make_check(network: Network) -> Callable[[PyTree, Examples], Checked]:
    """The function (params, examples) -> how well they are predicted; compiled once."""

    @jax.jit
    def predict(params: PyTree, observation: Any, mask: Any, action: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        logits, value = evaluate_all(network, params, observation, mask)
        return jnp.argmax(logits, axis=-1) == action, -log_prob(logits, action), value

    def check(params: PyTree, examples: Examples) -> Checked:
        parts = np.zeros((3, len(examples)))
        rows = examples.units_of(CHECKED_AT_A_TIME)
        for first in range(0, len(examples.units), rows):
            units = examples.units[first : first + rows]
            index = np.resize(units, (rows, *units.shape[1:]))
            batch = examples.batch(index)
            found = jax.device_get(predict(params, batch.observation, batch.mask, batch.action))
            parts[:, index[index >= 0]] = [part[index >= 0] for part in found]
        right, surprise, value = parts
        target = examples.value.astype(np.float64)
        share = float(np.clip(value @ target / max(float(value @ value), 1e-12), 0.0, 1.0))
        error = float(np.square(value - target).mean())
        return Checked(Prediction("learnt", right, surprise), error, float(np.var(target)), share)

    return check


def shrunk(params: PyTree, share: float) -> PyTree:
    """The same policy with values that are `share` of what they were.

    All decisions of a game tell of one result, so values learn games by heart long before answers do, and are sure of
    themselves on other games too. PPO would have to unlearn that first.
    """
    value = jax.tree.map(lambda leaf: np.float32(share) * leaf, params["heads"]["value"])
    return {**params, "heads": {**params["heads"], "value": value}}


def learn(
    network: Network,
    train: Examples,
    check: Examples,
    args: argparse.Namespace,
    tell: Callable[[int, dict[str, float]], None],
) -> tuple[PyTree, Checked, int]:
    """Parameters of the best epoch, how well they predict the games to check with, and the number of that epoch.

    Args:
      network: that learns.
      train, check: the games.
      args: epochs, minibatch, learning_rate, value_coef, patience and seed.
      tell: hears (epoch, figures) after each of them.
    """
    step = jax.jit(make_step(network, args.learning_rate, args.value_coef), donate_argnums=(0, 1))
    predict = make_check(network)
    generator = np.random.default_rng(args.seed)
    params = network.init(jax.random.key(args.seed))
    opt_state = optimizer.init(params)
    best: tuple[PyTree, Checked, int] | None = None
    for epoch in range(1, args.epochs + 1):
        start, policy, value, total = time.perf_counter(), 0.0, 0.0, 0.0
        for lessons in minibatches(train, min(args.minibatch, len(train)), generator):
            params, opt_state, losses = step(params, opt_state, lessons)
            weight = float(np.sum(lessons.weight))
            total, policy = total + weight, policy + weight * float(losses.policy)
            value += weight * float(losses.value)
        found = predict(params, check)
        if not math.isfinite(found.surprise):
            raise UserError("the learning diverged: lower --learning-rate.")
        figures = {
            "imitate/train_cross_entropy": policy / total,
            "imitate/train_value_error": value / total,
            "imitate/cross_entropy": found.surprise,
            "imitate/accuracy": found.accuracy,
            "imitate/value_error": found.value_error,
            "time/decisions_per_s": total / (time.perf_counter() - start),
        }
        tell(epoch, figures)
        if best is None or found.surprise < best[1].surprise:
            best = (jax.device_get(params), found, epoch)
        elif epoch - best[2] >= args.patience:
            break
    assert best is not None  # there is at least one epoch
    params = shrunk(best[0], best[1].value_share)
    return params, predict(params, check), best[2]


# ---- what came out --------------------------------------------------------------------------------------------------


class Report(NamedTuple):
    """The network beside constant players, on games that nobody has learnt from."""

    players: list[Prediction]  # the network first, "best constant" last
    game: np.ndarray  # i32[N], of each question
    value_error: float
    value_variance: float

    def margins(self) -> tuple[Estimate, Estimate]:
        """How much better than the best constant the network is: accuracy, and nats of cross-entropy."""
        learnt, constant = self.players[0], self.players[-1]
        right = over_games(learnt.right - constant.right, self.game)
        return right, over_games(constant.surprise - learnt.surprise, self.game)

    def text(self) -> str:
        """A table in Markdown and the margins."""
        cells = [["player", "first choice right, %", "cross-entropy, nats"]]
        for player in self.players:
            right, surprise = over_games(player.right, self.game), over_games(player.surprise, self.game)
            known = math.isfinite(surprise.mean)
            cells.append([player.name, _percent(right), _figure(surprise, 3) if known else "-"])
        right, nats = self.margins()
        return (
            f"{align(cells)}\n\nmargin over the best constant: {_percent(right)} points of accuracy, "
            f"{_figure(nats, 3)} nats (95 % intervals over games); the value explains "
            f"{100 * (1 - self.value_error / max(self.value_variance, 1e-12)):.0f} % of the variance of the results"
        )

    def record(self) -> dict[str, Any]:
        """For JSON."""

        def pair(estimate: Estimate) -> dict[str, float | None]:
            values = {"mean": estimate.mean, "half_width_95": estimate.half}
            return {name: value if math.isfinite(value) else None for name, value in values.items()}

        right, nats = self.margins()
        return {
            "decisions": len(self.game),
            "games": len(np.unique(self.game)),
            "players": {
                player.name: {
                    "accuracy": pair(over_games(player.right, self.game)),
                    "cross_entropy": pair(over_games(player.surprise, self.game)),
                }
                for player in self.players
            },
            "margin": {"accuracy": pair(right), "cross_entropy": pair(nats)},
            "value_error": self.value_error,
            "value_variance": self.value_variance,
        }


def _percent(share: Estimate) -> str:
    return _figure(Estimate(100 * share.mean, 100 * share.half), 1)


def _figure(estimate: Estimate, digits: int) -> str:
    """One game has no interval."""
    half = f" ± {estimate.half:.{digits}f}" if math.isfinite(estimate.half) else ""
    return f"{estimate.mean:.{digits}f}{half}"


def report_of(checked: Checked, train: Examples, check: Examples) -> Report:
    """Compares a network with constant players."""
    known, asked = ((each.masks(np.arange(len(each))), each.action) for each in (train, check))
    constant, best = all_constant(known, asked)
    return Report([checked.prediction, *constant, best], check.game, checked.value_error, checked.value_variance)


def save(run: RunDirectory, whole: Config, config: Config, env: Env, params: PyTree) -> str:
    """Writes a run whose only checkpoint, before its first update, holds these parameters; returns their hash.

    It holds what `train.from_run` takes over, and no games in progress: there are none.

    Args:
      run: that is written.
      whole: its configuration.
      config: of the first stage, in which a training that goes on from it begins.
      env: the game of that.
      params: of the network.
    """
    state = {
        "learner": make_algorithm(config, env).init(jax.random.key(config.run.seed)).begin_with(params),
        "key": jax.random.key(config.run.seed),
        "update": jnp.int32(0),
        "env_steps": Counter.zero(),
        "games": Counter.zero(),
    }
    configs.save(whole, run.config_file)
    snapshot = checkpoint.take(0, state, make_stamp(config, env, whole))
    with contextlib.closing(run.checkpoints()) as store:
        store.save(snapshot)
    return snapshot.meta["params_hash"]


# ---- jaxrl imitate --------------------------------------------------------------------------------------------------


def main(args: argparse.Namespace) -> int:
    """`jaxrl imitate`: a new run whose network plays as it was shown."""
    whole = _checked(args)
    config = configs.stages(whole)[0].config  # a training that goes on from it begins there
    env = make_games(config).training
    game = getattr(env, "game", None)
    if not isinstance(game, HostGame):
        raise UserError(f"{config.env.id} has no recorded games to learn from: imitation is for games on the host.")
    assert isinstance(env, HostEnv)
    bots = [text.removeprefix(BOT_PREFIX) for text in args.data if text.startswith(BOT_PREFIX)]
    files = demonstrations.files_of(game, [text for text in args.data if not text.startswith(BOT_PREFIX)])
    shown = demonstrations.played_by_bots(env, bots, args.bot_games, args.seed) if bots else ()
    found = demonstrations.read(game, files, say, shown)
    parts = demonstrations.split(len(found.games), args.check, args.seed)
    network, gamma = make_network(config.network, env), config.ppo.gamma
    in_order = network.remembers
    train, check = (demonstrations.examples_of(game, found, part, gamma, in_order=in_order) for part in parts)
    say(_summary(found, train, check))
    del found  # twice in memory otherwise
    enable_compilation_cache(config.run.cache_dir)
    with begun_run(config) as target, target.lock(), checkpoint.no_space_is_user_error(target.path):
        with contextlib.closing(MetricsLogger(target.path)) as logger:

            def tell(epoch: int, row: dict[str, float]) -> None:
                logger.write(epoch, epoch * len(train), row)
                say(_line(epoch, row))

            params, checked, epoch = learn(network, train, check, args, tell)
        report = report_of(checked, train, check)
        digest = save(target, whole, config, env, params)
        settings = {name: value for name, value in vars(args).items() if name not in ("config", "overrides", "allow")}
        write_json(target.imitation_file, report.record() | {"epoch": epoch, "params_hash": digest} | settings)
    print(f"after epoch {epoch}, on {check.games} games with {len(check):,} decisions that nobody has learnt from:\n")
    print(f"{report.text()}\n\nsaved as run {str(target.path)!r}, parameters {digest}; play on with PPO:")
    print(f"  {next_command('train', target.path)}")
    return 0


def _checked(args: argparse.Namespace) -> Config:
    """The configuration of the new run. Raises UserError for options out of range."""
    check_learning(args)
    if not 0.0 < args.check < 1.0:
        raise UserError(f"--check must lie between 0 and 1, got {args.check}.")
    # A list of paths takes whatever follows it: keys to change are known by their "=".
    keys = [text for text in args.data if "=" in text and not Path(text).exists()]
    args.data = [text for text in args.data if text not in keys]
    config = configs.load(args.config, [*args.overrides, *keys], args.allow)
    if find_algorithm(config.train.algorithm).by_value:
        raise UserError("a Q network has no probabilities to learn: imitate with train.algorithm ppo.")
    check_one_network(config.train.algorithm, "imitate")
    if config.network.normalize:
        raise UserError("network.normalize is learnt while playing: imitate without it.")
    name = args.name or f"{config.run.name or Path(args.config).stem}-imitated"
    return configs.named(config, name)


def _summary(found: demonstrations.Found, train: Examples, check: Examples) -> str:
    left = [f"{found.without_result} cut off"] if found.without_result else []
    left += [f"{found.twice} twice there"] if found.twice else []
    source = f" from {found.files} file(s)" if found.files else ""
    more = f" (left out: {' and '.join(left)})" if left else ""
    return (
        f"{len(found.games)} games{source}{more}: {train.games} with {len(train):,} decisions to "
        f"learn from, {check.games} with {len(check):,} to check with"
    )


def _line(epoch: int, row: dict[str, float]) -> str:
    return (
        f"epoch {epoch}: cross-entropy {row['imitate/train_cross_entropy']:.4f} learnt, "
        f"{row['imitate/cross_entropy']:.4f} checked, {100 * row['imitate/accuracy']:.1f} % right, value error "
        f"{row['imitate/value_error']:.3f}, {row['time/decisions_per_s']:.0f} decisions/s"
    )
