"""Imitation learning from recorded games: `jaxrl imitate`.

Recorded games (`HostGame.demonstrations`), or games that bots play for it, say what was seen, what could have been done
and what was done. The policy learns that by cross-entropy, the value how the games ended by regression. A part of the
games is never learnt from: by those the learning is stopped in time, and they tell how well answers are predicted,
compared with a player that knows the legal actions and nothing else. With `--dagger` it then plays itself, and learns
what an expert would have done there. The result is a run with one checkpoint, from which `train.from_run` goes on with
PPO; how well it plays is measured in games, for who is right most of the time may still lose.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl import config as configs
from jaxrl import xla
from jaxrl.algorithms.registry import check_one_network, find_algorithm, make_algorithm
from jaxrl.config import Config
from jaxrl.games import make_games
from jaxrl.networks.factory import make_network
from jaxrl.players.player import bot_player
from jaxrl.players.spec import BOT, parse
from jaxrl.runs.checkpoints import checkpoint
from jaxrl.runs.directory import RunDirectory, begun_run, enable_compilation_cache, make_stamp, write_json
from jaxrl.runs.folder import next_command
from jaxrl.runs.logs.run_log import say
from jaxrl.runs.metric_log import MetricsLogger
from jaxrl.statistics import Estimate
from jaxrl.text_tables import align
from jaxrl.training.imitation import collect_demonstrations, demonstrations
from jaxrl.training.imitation.cloning import Checked, CloningResult, CloningSettings, make_check
from jaxrl.training.imitation.constant_policies import Prediction, best_constant, over_games
from jaxrl.training.imitation.dagger import Dagger, Stop, expert_of
from jaxrl.training.imitation.demonstrations import DemonstrationSplit, Examples
from jaxrl.training.imitation.supervised import check_learning
from jaxrl.training.state import Counter
from jaxrl_envs.contract.env import Env, PyTree
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.shared.errors import UserError

ROUNDS = "dagger"  # the folder of a run with the games of its rounds

# ---- what came out --------------------------------------------------------------------------------------------------


class Report(NamedTuple):
    """The network beside the best constant player, on games held out from training."""

    learnt: Prediction
    constant: Prediction
    game: np.ndarray  # i32[N], of each question
    value_error: float
    value_variance: float
    kinds: dict[str, np.ndarray] = {}  # bool[N] each, which questions are of a kind; those that were asked

    def margins(self) -> tuple[Estimate, Estimate]:
        """Returns the network's lead over the best constant: in accuracy, and in nats of cross-entropy."""
        right = over_games(self.learnt.right - self.constant.right, self.game)
        return right, over_games(self.constant.surprise - self.learnt.surprise, self.game)

    def text(self) -> str:
        """Returns a table in Markdown and the margins."""
        cells = [["player", "first choice right, %", "cross-entropy, nats"]]
        for player in (self.learnt, self.constant):
            right, surprise = over_games(player.right, self.game), over_games(player.surprise, self.game)
            cells.append([player.name, _percent(right), _shown_number(surprise, 3)])
        right, nats = self.margins()
        return (
            f"{align(cells)}\n\nmargin over the best constant: {_percent(right)} points of accuracy, "
            f"{_shown_number(nats, 3)} nats (95 % intervals over games); the value explains "
            f"{100 * (1 - self.value_error / max(self.value_variance, 1e-12)):.0f} % of the variance of the results"
            f"{self._by_kind()}"
        )

    def of_kind(self, name: str) -> Estimate:
        """Returns the share of answers of a kind that are the network's first choice."""
        chosen = self.kinds[name]
        return over_games(self.learnt.right[chosen], self.game[chosen])

    def _by_kind(self) -> str:
        """Returns a second table, if the game tells kinds apart."""
        each = sorted(self.kinds, key=lambda name: -int(self.kinds[name].sum()))
        rows = [[name, f"{self.kinds[name].sum():,}", _percent(self.of_kind(name))] for name in each]
        return f"\n\n{align([['kind', 'questions', 'first choice right, %'], *rows])}" if rows else ""

    def record(self) -> dict[str, Any]:
        """Returns the record for JSON."""
        right, nats = self.margins()
        return {
            "checked_decisions": len(self.game),
            "checked_games": len(np.unique(self.game)),
            "players": {
                player.name: {
                    "accuracy": over_games(player.right, self.game).record(),
                    "cross_entropy": over_games(player.surprise, self.game).record(),
                }
                for player in (self.learnt, self.constant)
            },
            "margin": {"accuracy": right.record(), "cross_entropy": nats.record()},
            "kinds": {
                name: {"decisions": int(chosen.sum()), "accuracy": self.of_kind(name).record()}
                for name, chosen in self.kinds.items()
            },
            "value_error": self.value_error,
            "value_variance": self.value_variance,
        }


def _percent(share: Estimate) -> str:
    return _shown_number(Estimate(100 * share.mean, 100 * share.half), 1)


def _shown_number(estimate: Estimate, digits: int) -> str:
    """Returns a mean with its half width, if it has one."""
    half = f" ± {estimate.half:.{digits}f}" if math.isfinite(estimate.half) else ""
    return f"{estimate.mean:.{digits}f}{half}"


def report_of(checked: Checked, train: Examples, check: Examples, kinds: tuple[str, ...] = ()) -> Report:
    """Compares a network with the best constant player; `kinds`: the names of `Examples.kind`."""
    known, asked = ((each.masks(np.arange(len(each))), each.action) for each in (train, check))
    asked_of = {name: check.kind == number for number, name in enumerate(kinds)}
    found = {name: chosen for name, chosen in asked_of.items() if chosen.any()}
    constant = best_constant(known, *asked)
    return Report(checked.prediction, constant, check.game, checked.value_error, checked.value_variance, found)


def save(run: RunDirectory, whole: Config, config: Config, env: Env, params: PyTree) -> str:
    """Writes a run whose only checkpoint, before its first update, holds these parameters; returns their hash.

    It holds what `train.from_run` takes over, and no games in progress. `config`: configuration of the first stage, in
    which a training that goes on from it begins."""
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


@dataclasses.dataclass(frozen=True)
class ImitationSettings:
    """Settings of imitation: the data, and how a network learns from them."""

    data: Sequence[str]  # recorded games, as files or folders, and bots (bot:NAME) that play some
    held_out_data: Sequence[str]  # recorded games to report on alone
    games: int  # games that bots play, and the learner in each round
    dagger: int  # rounds in which the learner plays and the expert labels its decisions
    expert: str  # the bot that labels; empty: the game's own player, or else its reference bot
    check: float  # share of the games that are held out to stop in time
    cloning: CloningSettings


def imitate(whole: Config, settings: ImitationSettings) -> tuple[RunDirectory, bool]:
    """Makes a run whose network plays as in recorded games; returns it, and whether learning was stopped on request.
    Raises UserError: settings are out of range, or there are too few games."""
    xla.keep_memory()
    _check(whole, settings)
    config = configs.stages(whole)[0].config  # a training that goes on from it begins there
    env = make_games(config).training
    if not isinstance(getattr(env, "game", None), HostGame):
        raise UserError(f"{config.env.id} has no recorded games to learn from: imitation is for games on the host.")
    assert isinstance(env, HostEnv)
    dagger, held_out = _make_dagger(settings, config, env)
    enable_compilation_cache(config.run.cache_dir)
    with begun_run(config) as target, target.lock(), checkpoint.no_space_is_user_error(target.path):
        with contextlib.closing(MetricsLogger(target.path)) as logger, Stop() as stop:

            def on_epoch(epoch: int, row: dict[str, float]) -> None:
                logger.write(epoch, epoch * len(dagger.data.train), row)
                say(_line(epoch, row))

            learnt = dagger.train(settings.dagger, stop, target.path / ROUNDS, on_epoch)
        digest = save(target, whole, config, env, learnt.params)
        _report(settings, dagger, held_out, learnt, target, digest)
    print(f"\nsaved as run {str(target.path)!r}, parameters {digest}; play on with PPO:")
    print(f"  {next_command('train', target.path)}")
    if learnt.stopped:
        print(f"stopped before its games; they are played by:\n  {next_command('evaluate', target.path)}")
    return target, learnt.stopped


def _make_dagger(settings: ImitationSettings, config: Config, env: HostEnv) -> tuple[Dagger, Examples | None]:
    """Reads all recorded games: those that are learnt from, and those of --held-out-data. Raises UserError: there are
    too few, or no bot can label the learner's own games."""
    game, network = env.game, make_network(config.network, env)
    specs = [parse(text) for text in settings.data]
    bots = [spec.name for spec in specs if spec.kind == BOT]
    named = [spec.text for spec in specs if spec.kind != BOT], settings.held_out_data
    sources, others = ([demonstrations.source_of(game, text) for text in dict.fromkeys(part)] for part in named)
    expert = expert_of(env, settings.expert, config.run.path) if settings.dagger else ""
    games, seed = settings.games, settings.cloning.seed
    data = DemonstrationSplit(game, config.ppo.gamma, network.remembers, settings.check, seed)
    found = demonstrations.read(game, sources, say)
    if bots:
        played = collect_demonstrations.played_by_bots(env, bots, games, seed)
        demonstrations.take(found, game, "a bot", played)
    data.add(found)
    say(data.summary(found))
    del found  # twice in memory otherwise
    opponents = [bot_player(env, name) for name in config.evaluate.opponents if name in env.bots and name != "random"]
    held_out = None
    if others:
        unseen = demonstrations.Found(known=set(data.known))  # what is learnt from is not held out
        demonstrations.read_into(unseen, game, others, say)
        if not unseen.games:
            raise UserError("--held-out-data: there is no game that has a result and is not among those of --data.")
        held_out = data.examples(unseen)
    return Dagger(env, network, data, settings.cloning, expert, opponents, games), held_out


def _report(
    settings: ImitationSettings,
    dagger: Dagger,
    held_out: Examples | None,
    learnt: CloningResult,
    target: RunDirectory,
    digest: str,
) -> None:
    """Prints and writes how well answers are predicted."""
    data, kinds = dagger.data, dagger.env.game.question_kinds
    report = report_of(learnt.checked, data.train, data.check, kinds)
    said = vars(settings) | settings.cloning._asdict()
    record = {name: value for name, value in said.items() if name != "cloning"} | report.record()
    record |= {"epoch": learnt.epoch, "params_hash": digest}
    counted = f"{data.check.games} games with {len(data.check):,} decisions held out from training"
    print(f"after epoch {learnt.epoch}, on {counted}:\n\n{report.text()}")
    if held_out is not None:
        found = make_check(dagger.network)(learnt.params, held_out)
        other = report_of(found, data.train, held_out, kinds)
        record |= {"held_out": other.record()}
        counted = f"{held_out.games} games with {len(held_out):,} decisions of --held-out-data"
        print(f"\non {counted}:\n\n{other.text()}")
    write_json(target.imitation_file, record)


def _check(config: Config, settings: ImitationSettings) -> None:
    """Raises UserError for settings out of range, or a network that cannot learn so."""
    cloning = settings.cloning
    counts = {"epochs": cloning.epochs, "patience": cloning.patience, "minibatch": cloning.minibatch}
    check_learning(cloning.learning_rate, cloning.value_coef, games=settings.games, **counts)
    if settings.expert and not settings.dagger:
        raise UserError("--expert is of the rounds of --dagger: give their number too.")
    if not 0.0 < settings.check < 1.0:
        raise UserError(f"--check must lie between 0 and 1, got {settings.check}.")
    if find_algorithm(config.train.algorithm).by_value:
        raise UserError("a Q network has no probabilities to learn: imitate with train.algorithm ppo.")
    check_one_network(config.train.algorithm, "imitate")
    if config.network.normalize:
        raise UserError("network.normalize is learnt while playing: imitate without it.")


def _line(epoch: int, row: dict[str, float]) -> str:
    return (
        f"epoch {epoch}: cross-entropy {row['imitate/train_cross_entropy']:.4f} learnt, "
        f"{row['imitate/cross_entropy']:.4f} checked, {100 * row['imitate/accuracy']:.1f} % right, value error "
        f"{row['imitate/value_error']:.3f}, {row['time/decisions_per_s']:.0f} decisions/s"
    )
