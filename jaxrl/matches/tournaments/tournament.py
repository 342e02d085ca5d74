"""A round robin among players of any kind: `jaxrl tournament`.

Every pair plays its own deals, so that the cells of the matrix are independent, each deal from every side, so that the
luck of the deal cancels out. In a game of two sides a pair meets once; with more sides a player meets copies of the
other, and the other way round. One compiled program plays all pairs: the pair is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl.matches.deals import CANDIDATE, LANES, OTHER, DuplicateDeals, seats_held
from jaxrl.matches.match import SeatedPlayer
from jaxrl.matches.outcomes import outcomes_of
from jaxrl.matches.remote import RemoteDeals, is_remote
from jaxrl.matches.tournaments.round_robin import RoundRobin
from jaxrl.players.player import Act, Player, any_bot
from jaxrl_envs.contract.env import Env, PyTree
from jaxrl_envs.contract.sides import ahead, of_sides
from jaxrl_envs.shared.errors import UserError

TOURNAMENT_DEALS = 0x7001  # a stream of deals beside those of `jaxrl.matches.deals`


class Tournament:
    """The program and the pairs of one round robin; compiled at the first pair. M players, P seats."""

    def __init__(
        self,
        env: Env,
        players: Sequence[Player],
        *,
        deals: int,
        seed: int = 0,
        lanes: int = LANES,
        self_pairs: bool = False,
    ):
        """Sets up a tournament. Raises UserError: too few players, deals or sides. `players`: M players; those of one
        program differ in their parameters. `seed`: seed of the deals and of the players' own randomness."""
        if env.num_sides < 2:
            raise UserError(
                f"{env.id} is a game for one{' side' * (env.num_players > 1)}: there are no opponents; "
                "use `jaxrl evaluate`."
            )
        if len(players) < 2 and not (players and self_pairs):
            raise UserError(f"a tournament needs two players, got {len(players)}.")
        if deals < 2:
            raise UserError(f"--deals must be at least 2, got {deals}.")
        self._env, self._players, self._groups = env, list(players), Groups(players)
        self._bots = any_bot(env, self._groups.bots) if self._groups.bots else None
        self._base = jax.random.fold_in(jax.random.key(seed), TOURNAMENT_DEALS)
        whole = any(player.observe is not None for player in players)
        plain = any(player.plain for player in players)
        self._games: RemoteDeals | DuplicateDeals
        if is_remote(env) and not whole:
            self._games = RemoteDeals(env, deals=deals)
        else:
            self._games = DuplicateDeals(env, self._seated, deals=deals, lanes=lanes, plain=plain)
        both = env.num_sides > 2  # (i, j) and (j, i) are then different games
        count = range(len(players))
        self.pairs = [(i, j) for i in count for j in count if i < j or (self_pairs and i == j) or (both and i > j)]

    def run(self, progress: Callable[[int, int], None] | None = None) -> RoundRobin:
        """Plays all pairs. Raises UserError: a player chose an illegal action. `progress`: called with (pairs played,
        pairs) after each."""
        names, sides = [player.name for player in self._players], self._env.sides
        results = RoundRobin.empty(names, sides)
        params = None if isinstance(self._games, RemoteDeals) else self._games.placed(self._groups.params)
        for number, (i, j) in enumerate(self.pairs):
            base = jax.random.fold_in(self._base, number)
            if isinstance(self._games, RemoteDeals):
                games = self._games([self._players[i], self._players[j]], base, f"{names[i]} against {names[j]}")
            else:
                games = self._games((params, np.array([i, j], np.int32)), base)
            figures = {name: of_sides(values, sides) for name, values in games.figures.items()}
            outcomes = outcomes_of(figures, games.length, self._env)
            assert outcomes is not None  # at least two sides
            results.add(i, j, outcomes, _points(figures["return"], self._env))
            if progress:
                progress(number + 1, len(self.pairs))
        return results

    def _seated(self, arguments: tuple[PyTree, jax.Array]) -> list[SeatedPlayer]:
        """Returns the seated players of a pair, i32[2]: the first is the candidate, copies of the second hold all other
        seats."""
        stacked, pair = arguments
        group, slot = jnp.asarray(self._groups.group)[pair], jnp.asarray(self._groups.slot)[pair]  # i32[2]
        seated, slots = [], seats_held(self._env)
        if self._bots is not None:
            which = jnp.where(group == 0, slot, 0)
            seated.append(SeatedPlayer(self._bots, which, group == 0, by_holder=True))
        for g, (player, params) in enumerate(zip(self._groups.programs, stacked, strict=True), start=1):
            for holder in (CANDIDATE, OTHER):
                holds = (group == g) & (np.arange(2) == holder)
                member = jnp.where(holds[holder], slot[holder], 0)  # arbitrary where this program does not play
                own = jax.tree.map(lambda leaf, member=member: leaf[member], params)
                seated.append(SeatedPlayer(player, own, holds, number=1 + holder, slots=slots[holder]))
        return seated


def _points(returns: np.ndarray, env: Env) -> float:
    """The candidate's points in games f32[D, rotation, side]: the share of the other sides it beat, a tie half."""
    own = np.eye(returns.shape[1], dtype=bool)

    def split(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return values[:, own][..., None], values[:, ~own].reshape(*values.shape[:2], -1)

    beaten = ahead(*split(np.asarray(env.outcome(returns))), *split(returns))
    return float(((beaten + 1) / 2).mean(axis=-1).sum())


class Groups:
    """Players grouped by their program: all bots are one group, and all parameters of one program another.

    Attributes:
      bots: names of the bots; their group is 0.
      programs: a player of each other program; the group of ``programs[g]`` is g + 1.
      params: stacked parameters of the players of each of those.
      group, slot: i32[M], a player's group, and its number in it.
    """

    def __init__(self, players: Sequence[Player]):
        """Stacks parameters of the same program; M players."""
        self.bots = [player.bot for player in players if player.bot]
        self.programs: list[Player] = []
        acts: list[Act] = []
        members: list[list[PyTree]] = []
        group, slot = [], []
        for player in players:
            if player.bot:
                group.append(0)
                slot.append(self.bots.index(player.bot))
            else:
                if player.act not in acts:
                    acts.append(player.act)
                    self.programs.append(player)
                    members.append([])
                number = acts.index(player.act)
                group.append(number + 1)
                slot.append(len(members[number]))
                members[number].append(player.params)
        self.params = [jax.tree.map(lambda *xs: np.stack(jax.device_get(xs)), *each) for each in members]
        self.group, self.slot = np.array(group, np.int32), np.array(slot, np.int32)
