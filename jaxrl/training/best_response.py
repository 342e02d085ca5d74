"""Approximate exploitability: the gain of best responses, which are trained against a frozen policy alone.

A *best response* is a new learner, alone at a table of copies of the frozen policy, which samples its actions at
temperature 1. Its gain over the policy itself in the same seats on the same deals is a lower bound of the
policy's exploitability (in a symmetric zero-sum game of two: of half its NashConv, Lanctot et al. 2017,
https://arxiv.org/abs/1711.00832); the stronger the best response, the tighter the bound: with as many decisions as the
policy has had (`same_updates`) it is tighter than after a short training. Several best responses are trained side by
side, from the policy's own parameters or from new ones; one is chosen on some deals and measured on others.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.algorithms.registry import make_algorithm, trained_player
from jaxrl.config import Config
from jaxrl.league.config import SELF, LeagueConfig, SeatMix
from jaxrl.league.elo import points
from jaxrl.league.pool import PRIOR_GAMES, redeal_all
from jaxrl.matches.config import EVALUATION_SEED
from jaxrl.matches.deals import EXPLOIT_DEALS
from jaxrl.matches.evaluate import Matchup
from jaxrl.matches.outcomes import GameTally, Outcomes
from jaxrl.matches.tables import format_estimate
from jaxrl.players.player import Player, no_memory
from jaxrl.runs import distributed
from jaxrl.runs.directory import each_seed
from jaxrl.runs.logs.console import ProgressLine, waiting
from jaxrl.statistics import Estimate
from jaxrl.training.config import ExploitConfig
from jaxrl.training.continuation import derived_seed
from jaxrl.training.make import make_program
from jaxrl.training.program import Failed, Program
from jaxrl.training.sebulba.remote.config import FleetConfig
from jaxrl.training.snapshots import insert_snapshot
from jaxrl_envs.contract.env import Env, Key, PyTree, State
from jaxrl_envs.shared.errors import UserError

POLICY, SCRATCH = "policy", "scratch"
_STARTS = {POLICY: "its own parameters", SCRATCH: "new ones"}


class Exploit(NamedTuple):
    """A best response and its results against the policy."""

    params: PyTree  # of the best response, on the host
    gain: Estimate  # the approximate exploitability: its return minus that of the policy in its place
    returned: Estimate  # its return
    tally: GameTally  # its games
    seed: int  # the number of the best response
    lead: float  # rating points above the policy, from its games
    start: str  # its initial parameters: `POLICY` or `SCRATCH`
    fair: float  # the share of the games that an equal player would win

    def scalars(self) -> dict[str, float]:
        """Metrics for the logs."""
        win, draw, _ = self.tally.rates()
        return {
            "exploit/gain": self.gain.mean,
            "exploit/return": self.returned.mean,
            "exploit/win_rate": win,
            "exploit/draw_rate": draw,
            "exploit/lead": self.lead,
        }

    def text(self) -> str:
        """One line for the terminal."""
        (win, draw, loss), (low, high) = self.tally.rates(), self.tally.interval()
        return (
            f"its best response (from {_STARTS[self.start]}) wins {win:.1%} ({low:.1%} to {high:.1%}; "
            f"fair {self.fair:.1%}), draws {draw:.1%} and loses {loss:.1%} of the games; "
            f"approximate exploitability {format_estimate(self.gain)}, {self.lead:+.0f} rating points"
        )

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "gain": {"mean": self.gain.mean, "half_width_95": self.gain.half},
            "return": {"mean": self.returned.mean, "half_width_95": self.returned.half},
            "lead": self.lead,
            "start": self.start,
            "fair_share": self.fair,
            "outcomes": self.tally.record(),
        }


class Exploiter:
    """Trains and measures best responses to policies of one network; its programs are compiled once."""

    def __init__(self, config: Config, env: Env, evaluation_env: Env):
        """Compiles nothing yet.

        Args:
          config: of the policy; its section `exploit` says how the best responses are trained.
          env: the game as it is trained on.
          evaluation_env: the game in which they are measured.

        Raises:
          UserError: a game of one side, a Q network, a number of games that does not divide, or `exploit.memory` for a
            policy that is recurrent already or cannot be.
        """
        if env.num_sides < 2:
            raise UserError(f"{config.env.id} has one {env.side_name} only: no opponent could exploit its policy.")
        self._settings, self._deals, self._seed = config.exploit, config.evaluate.deals, config.run.seed
        self._sides = env.num_sides
        self._program: Program = _make_program(config, env)
        policy = trained_player(config, evaluation_env, "policy", None, greedy=False)

        def matchup(network: Config) -> Matchup:
            candidate, deals = _candidate(network, evaluation_env), 2 * self._deals
            return Matchup(evaluation_env, candidate, [policy], deals=deals, seed=EVALUATION_SEED, stream=EXPLOIT_DEALS)

        self._own = self._matchup = matchup(config)
        if config.exploit.memory:
            self._matchup = matchup(with_memory(config))

    def __call__(self, policy: PyTree, update: int, seed: int = 0) -> Exploit:
        """The best of `from_each_start`."""
        return self.from_each_start(policy, update, seed)[0]

    def from_each_start(self, policy: PyTree, update: int, seed: int = 0) -> list[Exploit]:
        """Trains best responses to a policy and measures the best from each start (its own parameters, new ones); the
        better of them comes first.

        Args:
          policy: its parameters.
          update: its number of updates, from which all randomness is derived.
          seed: the number of the policy among those trained side by side.

        Raises:
          UserError: a training diverged.
        """
        responses = self._train(policy, derived_seed(self._seed, update, 1 + seed))
        half = self._deals
        with waiting(f"measuring the best responses on {2 * half} deals ..."):
            played = [_play(self._matchup, params, policy, greedy=True) for params in responses]
            own, _ = _play(self._own, policy, policy, greedy=False)
        starts = starts_of(self._settings)
        order = np.argsort([-returns[:half].mean() for returns, _ in played], kind="stable")  # the first half chooses
        best = {starts[number]: int(number) for number in order[::-1]}  # of each start
        found = []
        for number in sorted(best.values(), key=list(order).index):
            returns, outcomes = played[number]
            tally = outcomes.tally(slice(half, None))
            found.append(
                Exploit(
                    params=responses[number],
                    gain=Estimate.of(returns[half:] - own[half:]),  # the second half is reported
                    returned=Estimate.of(returns[half:]),
                    tally=tally,
                    seed=number,
                    lead=lead(tally, self._sides),
                    start=starts[number],
                    fair=1 / self._sides,
                )
            )
        return found

    def _train(self, policy: PyTree, seed: int) -> list[PyTree]:
        """The parameters of all best responses."""
        seeds = self._settings.seeds
        scratch = [start == SCRATCH for start in starts_of(self._settings)]
        policy = jax.device_get(policy)  # it may live on other devices, and be donated to the next call there
        if self._program.config.run.seeds == seeds:
            return self._train_side_by_side(policy, seed, scratch)
        each = [derived_seed(seed, number) for number in range(seeds)]
        return [self._train_side_by_side(policy, *one)[0] for one in zip(each, [[s] for s in scratch], strict=True)]

    def _train_side_by_side(self, policy: PyTree, seed: int, scratch: list[bool]) -> list[PyTree]:
        """Trains one best response for each seed of the program; `scratch` tells which begin with new parameters."""
        program, seeds = self._program, len(scratch)
        frozen = policy if seeds == 1 else jax.tree.map(lambda leaf: np.stack([leaf] * seeds), policy)
        state = insert_snapshot(program, program.init(seed), frozen, born=0)
        fresh = jax.device_get(state.learner.params)
        if all(scratch):
            params = fresh
        elif seeds == 1:
            params = policy
        else:
            params = jax.tree.map(lambda new, old: np.where(_like(scratch, new), new, old), fresh, frozen)
        assert state.pool is not None  # `response_config` has a league
        pool = redeal_all(state.pool)  # the games dealt so far are self-play
        # Placed as the program returns them: another placement would be compiled separately.
        places = program.shardings
        params, pool = distributed.place((params, pool), (places.learner.params, places.pool))
        learner = state.learner.replace(params=params)
        state = program.begin(dataclasses.replace(state, learner=learner, pool=pool))
        line, total = ProgressLine(), program.config.num_updates
        try:
            done = 0
            while done < total:  # a call is cut short by a fault, which the next one raises
                line.show(functools.partial(_progress, done, total, seeds))
                state, _, updates = program.advance(state)
                done += updates
        except Failed as failure:
            raise failure.__cause__ or failure from None
        finally:
            line.close()
            program.close()
        params = jax.device_get(state.learner.params)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params)):
            raise UserError("the training of a best response diverged: lower exploit.learning_rate.")
        return each_seed(params, seeds)


def _play(matchup: Matchup, candidate: PyTree, policy: PyTree, *, greedy: bool) -> tuple[np.ndarray, Outcomes]:
    """Returns f64[2 * deals] and outcomes of a candidate among copies of the policy."""
    samples = matchup.play({"params": candidate, "greedy": np.bool_(greedy)}, params=policy)
    assert samples.outcomes is not None  # there are two sides or more
    return samples.candidate["return"], samples.outcomes


def starts_of(settings: ExploitConfig) -> list[str]:
    """The start of each best response."""
    if settings.memory or settings.start == SCRATCH:  # parameters of another network do not fit
        return [SCRATCH] * settings.seeds
    if settings.start == POLICY:
        return [POLICY] * settings.seeds
    return [(POLICY, SCRATCH)[number % 2] for number in range(settings.seeds)]


def same_updates(config: Config, env: Env, update: int) -> int:
    """The updates after which a best response has made as many decisions as the policy had after `update` updates.

    A learner's own decisions count, by the seats that its configuration gives it (the mean if they are drawn): in
    self-play every seat is the policy's, a best response has one side.
    """
    mine = update * config.batch_size * _own_share(config, env)
    response = response_config(config, env)
    return math.ceil(round(mine / (response.batch_size * _own_share(response, env)), 6))


def _own_share(config: Config, env: Env) -> float:
    """The learner's share of the decisions."""
    league, sides = config.league, env.num_sides
    if league.opponents:
        alone = (league.self_play if len(league.opponents) > 1 else 1.0) if SELF in league.opponents else 0.0
        return alone + (1 - alone) * league.learners / sides
    held = [sides if mix.learners == "all" else int(mix.learners) for mix in config.seats]
    weights = [mix.weight for mix in config.seats]
    return float(np.average(held, weights=weights)) / sides


def lead(tally: GameTally, sides: int) -> float:
    """Rating points above the holder of all other sides, with `PRIOR_GAMES` even games added."""
    won, even = tally.wins + tally.draws / 2, 1 / sides
    return points((won + even * PRIOR_GAMES) / (tally.games + PRIOR_GAMES)) - points(even)


def _progress(done: int, total: int, seeds: int, seconds: float) -> str:
    """The line about a training of best responses."""
    which = "a best response" if seeds == 1 else f"{seeds} best responses"
    return f"training {which}: {done} of {total} updates{'' if done else ' (the first ones compile)'}"


def _like(flags: list[bool], leaf: np.ndarray) -> np.ndarray:
    """`flags` as bool[S, 1, ...] with the rank of `leaf`."""
    return np.reshape(flags, (-1, *[1] * (leaf.ndim - 1)))


def response_config(config: Config, env: Env) -> Config:
    """The configuration of the best responses to a policy trained with `config`: its algorithm, one opponent.

    Raises:
      UserError: the algorithm cannot train any, or not with `exploit.memory`.
    """
    exploit, config = config.exploit, with_memory(make_algorithm(config, env).best_response(config))
    num_envs = exploit.num_envs or config.train.num_envs
    per_call = min(config.train.updates_per_call, exploit.updates)
    return dataclasses.replace(
        config,
        run=dataclasses.replace(config.run, seeds=exploit.seeds),
        seats=(SeatMix(),),
        fleet=FleetConfig(),  # the workers are the training's
        league=LeagueConfig(opponents=("snapshots",), snapshots=1, snapshot_every=0, weighting="fixed"),
        train=dataclasses.replace(
            config.train,
            num_envs=num_envs,
            total_steps=exploit.updates * num_envs * config.train.num_steps,
            updates_per_call=per_call,
            keep_every=0,
            from_run="",
        ),
    )


def with_memory(config: Config) -> Config:
    """With the network of the best responses that `exploit.memory` asks for.

    Raises:
      UserError: the policy has a memory itself, or its network cannot be the torso of one.
    """
    network, cell = config.network, config.exploit.memory
    if not cell:
        return config
    if network.kind not in ("mlp", "transformer"):
        raise UserError(
            f"exploit.memory puts recurrent layers behind an mlp or a transformer, but network.kind is {network.kind}: "
            "leave it empty."
        )
    recurrent = dataclasses.replace(network.recurrent, torso=network.kind, cell=cell)
    return dataclasses.replace(config, network=dataclasses.replace(network, kind="recurrent", recurrent=recurrent))


def _make_program(config: Config, env: Env) -> Program:
    """Trains best responses: all of them side by side, or one after the other if the game lives on the host."""
    response = response_config(config, env)
    if env.host:
        response = dataclasses.replace(response, run=dataclasses.replace(response.run, seeds=1))
    frozen = dataclasses.replace(response, network=config.network) if config.exploit.memory else None
    try:
        return make_program(response, env, frozen)
    except UserError as error:
        if not config.exploit.num_envs:
            raise
        raise UserError(f"exploit.num_envs stands for train.num_envs in best responses: {error}") from error


def _candidate(config: Config, env: Env) -> Player:
    """A best response, which plays greedily, or the policy in its place, which samples; one program for both."""
    greedy, sampled = (trained_player(config, env, "best response", None, greedy=choice) for choice in (True, False))

    def init(candidate: PyTree, state: State, seat: jax.Array, key: Key) -> PyTree:
        return greedy.init(candidate["params"], state, seat, key)

    def act(candidate: PyTree, memory: PyTree, state: State, key: Key) -> tuple[jax.Array, PyTree]:
        (best, after), (drawn, _) = (each.act(candidate["params"], memory, state, key) for each in (greedy, sampled))
        return jnp.where(candidate["greedy"], best, drawn), after

    return dataclasses.replace(greedy, init=init if greedy.init is not no_memory else no_memory, act=act)
