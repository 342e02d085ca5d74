"""Evaluations: a candidate against opponents on fixed deals.

The candidate holds every side of every deal once, against copies of one opponent. All intervals are over
deals (see `deals`); those of win rates are Wilson's with the design effect of a deal's games (see `jaxrl.statistics`).
Results are never the maximum over checkpoints: a checkpoint chosen by evaluations during training is measured again, on
other deals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.config import Config
from jaxrl.matches.deals import CANDIDATE, FINAL_DEALS, LANES, OTHER, DuplicateDeals, Samples, samples_of, seats_held
from jaxrl.matches.match import SeatedPlayer
from jaxrl.matches.remote import RemoteDeals, is_remote
from jaxrl.matches.tables import Row, by_candidate, fair, overall
from jaxrl.players.player import MAX_STEPS, Player, any_bot
from jaxrl.runs.directory import TrainedRun
from jaxrl_envs.contract.env import Env, PyTree
from jaxrl_envs.shared.errors import UserError, nearest


class Matchup:
    """One kind of candidate against each of several opponents on fixed deals; compiled at the first call.

    One program serves all opponents, because it takes longer to compile than to run: the opponent is an argument, like
    the parameters. Games of engines in another process are played there, unless a player must see whole states.
    """

    def __init__(
        self,
        env: Env,
        candidate: Player,
        opponents: Sequence[Player],
        *,
        deals: int,
        seed: int,
        stream: int = FINAL_DEALS,
        lanes: int = LANES,
        max_steps: int = MAX_STEPS,
        surprise: bool = False,
        devices: Sequence[jax.Device] = (),
    ):
        """Sets up a matchup.

        Args:
          candidate: the player under evaluation; its parameters come with each call.
          opponents: one of them fills all other seats; ignored in a game of one side.
          stream: set of deals under that seed: `FINAL_DEALS`, `TRAINING_DEALS` or `EXPLOIT_DEALS`.
          surprise: whether to measure the candidate's surprise in every game, see `jaxrl.matches.match`.
        """
        self.env, self.candidate = env, candidate
        self.opponents = list(opponents) if env.num_sides > 1 else [candidate.named("-", None)]
        self.base = jax.random.fold_in(jax.random.key(seed), stream)
        whole = any(player.observe is not None for player in (candidate, *self.opponents))
        self._remote: RemoteDeals | None = None
        if is_remote(env) and not whole:
            self._remote = RemoteDeals(env, deals=deals, max_steps=max_steps)
            return
        self._programs, self._places = _programs(env, self.opponents if env.num_sides > 1 else [])
        self._games = DuplicateDeals(
            env,
            self.seated,
            deals=deals,
            lanes=lanes,
            max_steps=max_steps,
            plain=any(player.plain for player in (candidate, *self.opponents)),
            surprise=surprise,
            devices=devices,
        )

    def rows(self, candidate: PyTree, name: str) -> list[Row]:
        """Returns the candidate with these parameters, called `name`, against every opponent."""
        each = enumerate(self.opponents)
        return [Row(name, opponent.name, self.play(candidate, number)) for number, opponent in each]

    def play(self, candidate: PyTree = None, opponent: int = 0, params: PyTree = None) -> Samples:
        """Plays all deals. Raises UserError: a player chose an illegal action, or a game did not end. `candidate`: its
        parameters; None for a bot. `params`: the opponent's; None: its own."""
        player = self.opponents[opponent]
        player = player.named(player.name, player.params if params is None else params)
        if self._remote is not None:
            title = f"against {player.name}" if self.env.num_sides > 1 else self.candidate.name
            games = self._remote([self.candidate.named(self.candidate.name, candidate), player], self.base, title)
            return samples_of(games, self.env)
        return samples_of(self._games(self.arguments(candidate, opponent, player.params), self.base), self.env)

    def program(self, candidate: PyTree) -> tuple[Any, tuple[Any, ...]]:
        """Returns the compiled program of all games, and the arguments of its first call; parameters may be
        ShapeDtypeStructs."""
        deals = np.arange(self._games.portion, dtype=np.uint32)
        return self._games.compiled, (self.arguments(candidate, 0, self.opponents[0].params), deals, self.base)

    def arguments(self, candidate: PyTree, opponent: int, params: PyTree = None) -> PyTree:
        """Returns the argument of `seated`, from the parameters of the candidate and of one of the opponents."""
        others: list[PyTree] = [program.params for program in self._programs]
        which = 0
        if self._programs:
            which, index = self._places[opponent]
            others[which] = params if index is None else index
        return candidate, others, np.int32(which)

    def seated(self, arguments: PyTree) -> list[SeatedPlayer]:
        """Returns the seated players; of several opponent programs only one plays."""
        candidate, others, which = arguments
        own, rest = seats_held(self.env)
        mine, other = np.arange(2) == CANDIDATE, np.arange(2) == OTHER
        seated = [SeatedPlayer(self.candidate, candidate, mine, slots=own)]
        for number, (program, params) in enumerate(zip(self._programs, others, strict=True)):
            holds = other if len(self._programs) == 1 else jnp.asarray(other) & (which == number)
            seated.append(SeatedPlayer(program, params, holds, number=1 + number, slots=rest))
        return seated


def _programs(env: Env, opponents: Sequence[Player]) -> tuple[list[Player], list[tuple[int, np.int32 | None]]]:
    """Returns the distinct programs of some opponents, where all bots share one, and for each opponent the number of
    its program and of its bot. A program has the parameters of its last opponent."""
    bots = [player.bot for player in opponents if player.bot]
    programs: dict[Any, Player] = {}
    places: list[tuple[int, np.int32 | None]] = []
    for player in opponents:
        identity = "bots" if player.bot else player.act
        if identity not in programs:
            first = any_bot(env, bots).named("bots", np.int32(0)) if player.bot else player
            programs[identity] = first
        index = np.int32(bots.index(player.bot)) if player.bot else None
        places.append((list(programs).index(identity), index))
    return list(programs.values()), places


def evaluate_players(env: Env, players: Sequence[Player], opponents: Sequence[Player], **settings: Any) -> list[Row]:
    """Evaluates players of one program (the seeds of a run) against each opponent; `settings` as for `Matchup`."""
    if not players or not (opponents or env.num_sides == 1):
        return []
    matchup = Matchup(env, players[0], opponents, **settings)
    return [row for player in players for row in matchup.rows(player.params, player.name)]


def in_simulator(env: Env, name: str) -> Env:
    """Returns the game in another simulator. Raises UserError: the game cannot be played there, or the program is not
    installed."""
    if not env.simulators:
        raise UserError(f"{env.id} is played by no other simulator: leave --simulator out.")
    if name not in env.simulators:
        raise UserError(f"there is no simulator {name!r} of {env.id}: {nearest(name, env.simulators)}")
    return env.simulators[name]()


def opponent_names(config: Config, env: Env) -> list[str]:
    """Returns the configured bots of evaluations, or all bots of the game."""
    return list(config.evaluate.opponents) or list(env.bots)


def evaluation_record(
    run: TrainedRun, rows: Sequence[Row], direct: Sequence[Row] = (), *, policy: str, seed: int
) -> dict[str, Any]:
    """Returns the record of one evaluation for evaluation.json. `rows`: results against the configured opponents, over
    which means and minima are taken; `direct`: results against another candidate."""
    totals = {name: overall(group) for name, group in by_candidate(rows).items()}
    return {
        "update": run.update,
        "params_hash": run.params_hash,
        "policy": policy,
        "seed": seed,
        "winning": run.env.winning,
        "fair": fair(run.env),
        "rows": [row.record() for row in (*rows, *direct)],
        "overall": {name: total.record() for name, total in totals.items() if total is not None},
    }
