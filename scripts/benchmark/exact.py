"""Exact exploitability in small games of OpenSpiel, computed by OpenSpiel: PPO beside its solvers, at equal CPU time.

    python -m scripts.benchmark.exact kuhn_poker "kuhn_poker(players=3)" leduc_poker --seconds 40 --seeds 3
    python -m scripts.benchmark.exact kuhn_poker leduc_poker liars_dice --responses 50,200,800

Everything counts that a contestant spends on the CPU until its policy is there, with our compilation. A figure is
NashConv over the number of players, in chips a game: what a player gains on average who plays a best response while the
others do not change. OpenSpiel's PPO, NFSP and R-NaD: `python -m scripts.benchmark.peers.openspiel_learners`.

With `--responses` it asks the other way round: how much of the exact value do the best responses of `jaxrl exploit`
find after a number of updates? Ours are trained on the game as a table (`openspiel_table:NAME`).
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

import jaxrl
from jaxrl import cli
from jaxrl.games import make_games
from jaxrl.text_tables import table
from jaxrl.training.callbacks import Callback
from jaxrl.training.exploit.best_response import Exploiter
from jaxrl_envs.adapters import require

MMD_ALPHA = 0.002  # with 0 its sequences underflow after some two thousand iterations of Kuhn poker
GAMES = ["kuhn_poker", "kuhn_poker(players=3)", "leduc_poker"]
OURS = {  # tuned in Leduc poker; its schedules end after the decisions of some 40 CPU seconds
    "network": {"hidden": [64, 64]},
    "ppo": {
        "ema": 0.99,
        "entropy_coef": {"kind": "linear", "start": 0.25, "end": 0.04},
        "learning_rate": {"kind": "linear", "start": 2e-3, "end": 1e-5},
        "clip": 0.2,
        "value_clip": 0.0,
        "gae_lambda": 1.0,
        "minibatches": 4,
        "epochs": 2,
    },
    "train": {
        "num_envs": 256,
        "num_steps": 16,
        "total_steps": 7_000_000,
        "evaluate_every": 0,
        "checkpoint_every": 10**6,
    },
    "evaluate": {"opponents": ["random"], "deals": 2},
}

Found = tuple[str, str, Any]  # what it is, how far it has come, its policy as pyspiel has them


class Budget(Callback):
    """Ends a training when the process has spent this many CPU seconds since it was made."""

    def __init__(self, seconds: float):
        """Starts the clock."""
        self.end = time.process_time() + seconds

    def on_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        self.stop = time.process_time() > self.end


def trained(name: str, folder: str, seconds: float, seed: int, overrides: Sequence[str]) -> Any:
    """Trains the run `exact` in a folder for CPU seconds, and returns it."""
    run = {"directory": folder, "cache_dir": "", "seed": seed, "log_level": "warning"}
    config = OURS | {"env": {"id": f"openspiel_table:{name}"}, "run": run}
    return jaxrl.train(config, overrides, name="exact", callbacks=[Budget(seconds)])


def ours(name: str, game: Any, seconds: float, seed: int, overrides: Sequence[str]) -> Iterator[Found]:
    """Trains once; yields its average parameters and its last ones."""
    with tempfile.TemporaryDirectory() as folder:
        run = trained(name, folder, seconds, seed, overrides)
        decisions = run.update * run.config.train.num_envs * run.config.train.num_steps
        for what, average in (("average", "true"), ("last", "false")):
            found = jaxrl.load(f"{folder}/exact", [f"evaluate.average={average}"], sampled=True)
            yield (
                f"jaxrl, PPO, falling entropy bonus: {what} parameters",
                f"{decisions:,} decisions",
                tabulated(game, found),
            )


def tabulated(game: Any, found: Any, response: Any = None) -> Any:
    """Tabulates a loaded run's policy in every information state, as a policy of pyspiel; with the parameters of a best
    response to it, what that one does, greedily."""
    policies = require("open_spiel.python.policy", "a table of a policy", "jaxrl[openspiel]")
    entries, (player,) = policies.TabularPolicy(game), found.players
    state = found.env.init(jax.random.key(0))

    def odds(observation: jax.Array, mask: jax.Array) -> jax.Array:
        asked = state.replace(observation=observation, legal_action_mask=mask)
        return player.odds(player.params if response is None else response, (), asked)

    seen = np.array([each.information_state_tensor(each.current_player()) for each in entries.states], np.float32)
    mask = np.array([each.legal_actions_mask() for each in entries.states], bool)
    probabilities = np.where(mask, jax.jit(jax.vmap(odds))(seen, mask), 0.0)
    if response is not None:
        probabilities = (probabilities == probabilities.max(axis=1, keepdims=True)).astype(float)
    entries.action_probability_array[:] = probabilities / probabilities.sum(axis=1, keepdims=True)
    return policies.python_policy_to_pyspiel_policy(entries)


def theirs(game: Any, seconds: float) -> Iterator[Found]:
    """Yields OpenSpiel's solvers."""
    spiel = require("pyspiel", "OpenSpiel's solvers", "jaxrl[openspiel]")
    sampling, exact = spiel.ExternalSamplingMCCFRSolver(game, 0), spiel.CFRSolver(game)
    yield "MCCFR, external sampling (C++)", repeated(sampling.run_iteration, seconds), sampling.average_policy()
    yield "CFR (C++)", repeated(exact.evaluate_and_update_policy, seconds), exact.average_policy()
    if game.num_players() == 2:
        policies = require("open_spiel.python.policy", "MMD", "jaxrl[openspiel]")
        module = require("open_spiel.python.algorithms.mmd_dilated", "MMD", "jaxrl[openspiel]")
        descent = module.MMDDilatedEnt(game, MMD_ALPHA, stepsize=1.0)
        descent.stepsize = 1.0 / np.linalg.norm(descent.payoff_mat, 2)
        far = repeated(descent.update_sequences, seconds)
        average = policies.python_policy_to_pyspiel_policy(descent.get_avg_policies())
        yield f"MMD, alpha {MMD_ALPHA}, average policy (Python)", far, average


def repeated(step: Callable[[], Any], seconds: float) -> str:
    """Repeats a step for this many CPU seconds; how often, in words."""
    end, count = time.process_time() + seconds, 0
    while time.process_time() < end:
        step()
        count += 1
    return f"{count:,} iterations"


def measure(name: str, seconds: float, seeds: int, overrides: Sequence[str]) -> str:
    """Returns the table of one game."""
    spiel = require("pyspiel", "exact exploitability", "jaxrl[openspiel]")
    game = spiel.load_game(name)
    found: dict[str, tuple[str, list[float]]] = {}
    uniform: Found = ("uniform play", "", spiel.UniformRandomPolicy(game))
    each = [ours(name, game, seconds, seed, overrides) for seed in range(seeds)]
    for what, far, policy in itertools.chain(*each, theirs(game, seconds), [uniform]):
        exploitability = spiel.nash_conv(game, policy) / game.num_players()
        found.setdefault(what, (far, []))[1].append(exploitability)
        print(f"{name}: {what}, {far}: {exploitability:.5f}", file=sys.stderr, flush=True)
    rows = [[what, far, ", ".join(f"{one:.4f}" for one in by_seed)] for what, (far, by_seed) in found.items()]
    return table([name, "how far", "exploitability, each seed"], rows)


def expected_return(game: Any, response: Any, policy: Any) -> float:
    """Returns what a player wins on average who plays `response` while the others play `policy`, exactly."""
    spiel, seats = require("pyspiel", "exact values", "jaxrl[openspiel]"), range(game.num_players())
    tables = [[response if other == seat else policy for other in seats] for seat in seats]
    start = game.new_initial_state()
    each = [spiel.expected_returns(start, players, -1, True)[seat] for seat, players in enumerate(tables)]
    return float(np.mean(each))


def exploiters(name: str, seconds: float, budgets: Sequence[int], overrides: Sequence[str]) -> str:
    """Returns the table of what best responses find, by their updates, of the exploitability of a policy of `seconds`
    CPU seconds, and of one of a tenth of them."""
    spiel, rows = require("pyspiel", "exact exploitability", "jaxrl[openspiel]"), []
    game = spiel.load_game(name)
    for spent in (seconds / 10, seconds):
        with tempfile.TemporaryDirectory() as folder:
            trained(name, folder, spent, 0, overrides)
            found = jaxrl.load(f"{folder}/exact", [], sampled=True)
        policy = tabulated(game, found)
        exact = spiel.nash_conv(game, policy) / game.num_players()
        for updates in budgets:
            began = time.process_time()
            settings = dataclasses.replace(found.config.exploit, updates=updates)
            exploiter = Exploiter(dataclasses.replace(found.config, exploit=settings), *make_games(found.config))
            response = exploiter(found.players[0].params, update=1).params
            took, gain = time.process_time() - began, expected_return(game, tabulated(game, found, response), policy)
            rows.append(
                [f"{spent:.0f}", f"{exact:.3f}", f"{updates:,}", f"{took:.0f}", f"{gain:.3f}", f"{gain / exact:.0%}"]
            )
            print(name, *rows[-1], file=sys.stderr, flush=True)
    return table(
        [f"{name}: CPU s of the policy", "exact", "updates of best responses", "CPU s", "found", "share"], rows
    )


def arguments() -> argparse.ArgumentParser:
    """Returns the parser of the program's options."""
    parser = cli.Parser(prog="python -m scripts.benchmark.exact", description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="GAME or a.b=value", help=f"default: {', '.join(GAMES)}")
    parser.add_argument("--seconds", type=float, default=40.0, help="of the CPU, for each seed of each contestant")
    parser.add_argument("--seeds", type=int, default=3)
    help = "measures what best responses find instead, by their updates, e.g. 50,200,800"
    parser.add_argument("--responses", type=lambda text: [int(each) for each in text.split(",")], help=help)
    return parser


def run(args: argparse.Namespace) -> int:
    """Prints a table for each game."""
    overrides = [word for word in args.words if re.match(r"[\w.]+=", word)]
    for name in [word for word in args.words if word not in overrides] or GAMES:
        if args.responses:
            found = exploiters(name, args.seconds, args.responses, overrides)
        else:
            found = measure(name, args.seconds, args.seeds, overrides)
        print(found, end="\n\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(lambda: run(arguments().parse_args())))
