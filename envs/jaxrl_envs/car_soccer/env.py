"""The environment of car soccer: options, one decision, rewards and episode statistics."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxrl_envs.car_soccer import actions as rows
from jaxrl_envs.car_soccer import (
    bots,
    conditions,
    episode_stats,
    events,
    field,
    observe,
    openings,
    prediction,
    scoreboard,
    setters,
)
from jaxrl_envs.car_soccer.display import drawing, render
from jaxrl_envs.car_soccer.display.how_to_play import TEXT
from jaxrl_envs.car_soccer.field import Teams
from jaxrl_envs.car_soccer.game import CarSoccerGame, Step
from jaxrl_envs.car_soccer.physics.field import arena as world
from jaxrl_envs.car_soccer.physics.settings import HITBOXES, PhysicsSettings
from jaxrl_envs.car_soccer.physics.state import Arena
from jaxrl_envs.car_soccer.physics.tick import ticks
from jaxrl_envs.car_soccer.rewards import compose
from jaxrl_envs.car_soccer.simulators.rocketsim import RocketSim, rlgym_meshes
from jaxrl_envs.contract.env import Bot, Env, Key, State, is_over, select
from jaxrl_envs.shared import prng
from jaxrl_envs.shared.errors import UserError, nearest

LARGEST_TEAM = 3


@struct.dataclass
class CarSoccerState(State):
    """The public leaves, the game, and sums over the episode: figures f32[M, P], shares of rewards f32[R, P]."""

    game: CarSoccerGame
    figures: jax.Array
    shares: jax.Array


class CarSoccer(Env):
    """Cars and a ball, 1 against 1 to 3 against 3, all seats at once.

    What may be composed is found by name in the tables below; a subclass with larger tables has components of its own:

        class Mine(CarSoccer):
            REWARDS = {**CarSoccer.REWARDS, "upside_down": Component(upside_down, "mechanics", 0.1, rate=True)}

    Args:
      teams: cars of the first and of the second team, 1 to 3 each; 0 in the second: no defenders.
      tick_skip: ticks of 1/120 s between two decisions.
      delay: ticks until a decision reaches the car, at most tick_skip.
      hitbox: octane | dominus | plank | breakout | hybrid | merc, of all cars.
      actions: table (all 90 rows) | ground (24 of them, which drive and boost but never jump or turn in the air).
      openings: whether policies drive kickoffs by the book, see `openings`: until the ball is touched, they choose
        nothing else. Bots, and policies with another value of this option, are free.
      meshes: folder of collision meshes (.cmf) of your own; empty: the arena that comes with jaxrl.
      iterations: iterations of the contact solver; 10 as in the reference simulator, fewer are faster and less exact.
      setters: weights of the ways in which episodes begin: kickoff, random, air, shoot, replay.
      difficulty: 0 to 1, difficulty of the initial states of shoot and air.
      replays: file of states for the setter replay.
      observation: default (RLGym's) | relative (to the own car).
      extras: further parts of the observation: present, aim, previous_action, scoreboard, prediction.
      padded: observations have room for 3 against 3, so that parameters fit all team sizes.
      reward_mode: sparse | dense | hybrid, weights by groups of components; listed: only those under rewards. A list of
        two, e.g. [dense, sparse], is annealed from the first to the second while training.
      rewards: weights by component, which replace those of the mode; 0 leaves one out; a list of two is annealed.
      annealed_by: share of the training after which annealed weights have their second value.
      reward_clip: a car's own reward of a decision is clipped to -reward_clip..reward_clip; 0: off. The metric
        reward_clipped is the amount cut off in an episode.
      team_spirit: 0 to 1, share of its own reward that a car exchanges for the mean of its team.
      zero_sum: 0 to 1, share of the other team's mean reward that is subtracted.
      factors: factors on all rewards by situation: overtime, close (a close match), losing (for the losing team).
      terminations: rules that end an episode: goal, match, touch; without goal, kickoffs follow goals.
      truncations: limits in seconds that cut an episode off: no_touch, timeout, ball_down.
      match_seconds: length of a match on its clock, in seconds.
    """

    id = "car_soccer"
    version = "1"
    simultaneous = True
    multi_output_fusion = True
    how_to_play = TEXT
    free_options = (
        *("meshes", "openings", "setters", "difficulty", "replays", "reward_mode", "rewards", "annealed_by"),
        *("reward_clip", "team_spirit", "zero_sum", "factors", "terminations", "truncations", "match_seconds"),
    )
    weight_options = ("rewards",)
    SETTERS: ClassVar[Mapping[str, setters.Setter]] = setters.SETTERS
    OBSERVATIONS: ClassVar[Mapping[str, observe.View]] = observe.OBSERVATIONS
    EXTRAS: ClassVar[Mapping[str, observe.View]] = observe.EXTRAS
    REWARDS: ClassVar[Mapping[str, compose.Component]] = compose.COMPONENTS
    TERMINATIONS: ClassVar[Mapping[str, Callable]] = conditions.TERMINATIONS
    TRUNCATIONS: ClassVar[Mapping[str, Callable]] = conditions.TRUNCATIONS
    simulator: RocketSim | None = None  # with its own physics, None for ours

    def __init__(
        self,
        *,
        teams: Sequence[int] = (1, 1),
        tick_skip: int = 8,
        delay: int = 1,
        hitbox: str = "octane",
        actions: str = "table",
        openings: bool = False,
        meshes: str = "",
        iterations: int = 10,
        setters: dict[str, float] | None = None,
        difficulty: float = 1.0,
        replays: str = "",
        observation: str = "default",
        extras: Sequence[str] = (),
        padded: bool = True,
        reward_mode: str | Sequence[str] = "hybrid",
        rewards: dict[str, float | Sequence[float]] | None = None,
        annealed_by: float = 1.0,
        reward_clip: float = 10.0,
        team_spirit: float = 0.0,
        zero_sum: float = 0.0,
        factors: dict[str, float] | None = None,
        terminations: Sequence[str] = ("goal",),
        truncations: dict[str, float] | None = None,
        match_seconds: float = 300.0,
    ):
        """Makes an arena; the arguments are those of the class."""
        self.teams = _teams(teams)
        require(0 < tick_skip <= 120, f"tick_skip must be 1 to 120, not {tick_skip}")
        require(0 <= delay <= tick_skip, f"delay must be 0 to tick_skip ({tick_skip}), not {delay}")
        require(0 < iterations <= 50, f"iterations must be 1 to 50, not {iterations}")
        require(match_seconds > 0, f"match_seconds must be above 0, not {match_seconds}")
        shares = {"difficulty": difficulty, "team_spirit": team_spirit, "zero_sum": zero_sum}
        for name, value in shares.items():
            require(0 <= value <= 1, f"{name} must be 0 to 1, not {value}")
        require(not openings or tick_skip == 8, f"openings are a book for tick_skip 8, not {tick_skip}")
        self.num_players, self.num_actions = self.teams.seats, rows.NUM_ACTIONS
        self.allowed = rows.ALLOWED[_known(actions, rows.ALLOWED, "actions")]
        self.tick_skip, self.delay, self.match_seconds = tick_skip, delay, float(match_seconds)
        self.openings = openings
        self.seconds = tick_skip / field.TICKS  # of a decision
        self.settings = PhysicsSettings(tuple(map(int, self.teams.of)), _known(hitbox, HITBOXES, "hitbox"), iterations)
        self.meshes, self.geometry = meshes, world.of_folder(meshes) if meshes else world.own()
        self._begin_with(setters or {"kickoff": 1.0}, difficulty, replays)
        self.view = self.OBSERVATIONS[_known(observation, self.OBSERVATIONS, "observation")]
        self.extras = [self.EXTRAS[_known(name, self.EXTRAS, "extras")] for name in extras]
        self.padded = padded
        require(0 < annealed_by <= 1, f"annealed_by must be above 0 and at most 1, not {annealed_by}")
        require(0 <= reward_clip < np.inf, f"reward_clip must be a number >= 0, not {reward_clip}")
        weights, self.annealed_by = self._reward_weights(reward_mode, rewards or {}), annealed_by
        _weights(factors or {}, compose.FACTORS, "factors")
        self.reward = compose.Reward(weights, self.REWARDS, team_spirit, zero_sum, factors or {}, reward_clip)
        self._end_with(terminations, {"no_touch": 10.0, "timeout": 300.0} if truncations is None else truncations)

    def _begin_with(self, weights: dict[str, float], difficulty: float, replays: str) -> None:
        _weights(weights, self.SETTERS, "setters")
        require(any(weights.values()), "the weights of setters sum to nothing: give one above 0")
        needs = weights.get("replay", 0.0) > 0
        require(bool(replays) or not needs, "the setter replay needs a file of states, option replays")
        states = setters.load_states(replays, self.teams) if needs else None
        self.scene = setters.Scene(self.teams, difficulty, states)
        self.setter = setters.mixture(weights, self.SETTERS)

    def _reward_weights(self, mode: Any, listed: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a weight by component, or two where they differ."""
        ends = {name: _ends(weight, f"rewards.{name}") for name, weight in listed.items()}
        for end in range(2):
            _weights({name: pair[end] for name, pair in ends.items()}, self.REWARDS, "rewards", least=-np.inf)
        modes = _ends(mode, "reward_mode")
        for each in modes:
            _known(each, compose.MODES, "reward_mode")
        weights = compose.annealed_weights(modes, ends, self.REWARDS, mates=bool(self.teams.mates.any()))
        require(bool(weights), "the weights of rewards sum to nothing: give one that is not 0")
        return {name: pair if pair[0] != pair[1] else pair[0] for name, pair in weights.items()}

    def _end_with(self, terminations: Sequence[str], truncations: dict[str, float]) -> None:
        _weights(truncations, self.TRUNCATIONS, "truncations")
        self.truncations = {name: seconds for name, seconds in truncations.items() if seconds > 0}
        require(bool(self.truncations), "an episode may never end: give timeout or no_touch under truncations")
        known = self.TERMINATIONS
        self.terminations = [known[_known(name, known, "terminations")] for name in terminations]
        self.kicks_off = "goal" not in terminations  # a goal is followed by a kickoff
        self.plays_matches = "match" in terminations
        self.may_truncate = True

    @property
    def sides(self) -> tuple[int, ...]:
        return tuple(map(int, self.teams.of))

    def annealed(self, progress: jax.Array) -> CarSoccer:
        """Returns the game with the reward weights at a share of the training."""
        if not any(isinstance(weight, tuple) for weight in self.reward.weights.values()):
            return self
        now = copy.copy(self)
        now.reward = dataclasses.replace(self.reward, annealed=jnp.clip(progress / self.annealed_by, 0.0, 1.0))
        return now

    def weighted(self, weights: Mapping[str, Mapping[str, Any]]) -> CarSoccer:
        now = copy.copy(self)
        now.reward = dataclasses.replace(self.reward, weights={**self.reward.weights, **weights["rewards"]})
        return now

    # ---- the contract -----------------------------------------------------------------------------------------------

    def _init(self, key: Key) -> CarSoccerState:
        seed_key, start_key = jax.random.split(key)
        start = self.setter(start_key, self.scene)
        arena = setters.arena(start, self.settings, jax.random.bits(seed_key))
        still = jnp.all(start.ball_velocity == 0) & jnp.all(start.ball_position[:2] == 0)
        seats = self.num_players
        game = CarSoccerGame(
            arena=arena,
            controls=jnp.zeros((seats, 8), jnp.float32),
            board=scoreboard.begin(self.match_seconds),
            tracks=events.begin(self.teams, prediction.foreseen(arena.ball), kickoff=still),
        )
        return CarSoccerState(
            current_player=jnp.arange(seats, dtype=jnp.int32),
            observation=None,
            legal_action_mask=self.legal(game),
            rewards=jnp.zeros(seats, jnp.float32),
            terminated=jnp.bool_(False),
            truncated=jnp.bool_(False),
            illegal_action=jnp.bool_(False),
            game=game,
            figures=episode_stats.zeros(seats),
            shares=jnp.zeros((len(self.reward.names), seats), jnp.float32),
        )

    def _step(self, state: State, action: jax.Array, key: Key) -> State:
        del key  # all that chance decides follows from the seed of the arena
        return self.driven(state, jnp.asarray(rows.TABLE)[action])

    def driven(self, state: State, controls: jax.Array) -> State:
        """Returns the state after the ticks of a decision with any controls, f32[P, 8], without an observation."""
        before = state.game
        arena = self._after_ticks(before, controls, is_over(state))
        tracks, happened = events.observe(self.teams, before.tracks, before.arena, arena)
        board = scoreboard.advance(before.board, events.goals(arena), self.seconds, arena.ball.position.z)
        after = CarSoccerGame(arena=arena, controls=controls, board=board, tracks=tracks)
        step = Step(self.teams, self.seconds, before, after, happened)
        rewards, shares = self.reward(step)
        terminated = jnp.any(jnp.stack([jnp.bool_(False), *(ends(after) for ends in self.terminations)]))
        cut = jnp.any(jnp.stack([self.TRUNCATIONS[name](after, limit) for name, limit in self.truncations.items()]))
        game = self._continued(before, after) if self.kicks_off or self.plays_matches else after
        return state.replace(
            game=game,
            legal_action_mask=self.legal(game),
            rewards=rewards,
            terminated=terminated,
            truncated=cut & ~terminated,
            figures=state.figures + episode_stats.sums(step),
            shares=state.shares + shares,
        )

    def legal(self, game: CarSoccerGame) -> jax.Array:
        """bool[P, 90], see `actions.mask`; with the row of the book, which boosts before there is boost."""
        possible = rows.mask(game.arena, self.allowed, self.tick_skip)
        if not self.openings:
            return possible
        return possible | (jnp.arange(self.num_actions) == openings.rows(game, self.teams)[:, None])

    def policy_mask(self, state: State) -> jax.Array:
        """In an opening the row of the book alone; in the game of a player without it the legal row most like it."""
        mask = state.legal_action_mask
        if not (self.openings and isinstance(state, CarSoccerState)):  # recorded positions have no game
            return mask
        row = openings.rows(state.game, self.teams)
        book = rows.nearest(jnp.asarray(rows.TABLE)[row], mask)
        return jnp.where(row[:, None] < 0, mask, jnp.arange(self.num_actions) == book[:, None])

    def permute_hidden(self, state: State, seat: jax.Array, key: Key) -> State:
        """All is seen but what chance will decide, the places of kickoffs and of returning cars."""
        assert isinstance(state, CarSoccerState)
        arena = state.game.arena.replace(seed=jax.random.bits(key))
        return state.replace(game=state.game.replace(arena=arena))

    def adopted(self, state: State) -> State:
        assert isinstance(state, CarSoccerState)
        shares = jnp.zeros((len(self.reward.names), self.num_players), jnp.float32)
        return state.replace(legal_action_mask=self.legal(state.game) | is_over(state), shares=shares)

    def observe(self, state: State, seat: jax.Array) -> jax.Array:
        """f32[F], see `observe`."""
        return self._views(state)[seat]

    def episode_stats(self, state: State) -> dict[str, jax.Array]:
        """Figures of `behaviour`, and `reward_NAME`: the share of a component in the return, and what was cut off."""
        found = episode_stats.figures(state.figures, mates=bool(self.teams.mates.any()))
        shares = zip(self.reward.names, state.shares, strict=True)
        return found | {f"reward_{name}": share for name, share in shares}

    def reward_parts(self, state: State) -> dict[str, jax.Array]:
        return dict(zip(self.reward.weights, state.shares, strict=False))  # without the share that was clipped

    @property
    def bots(self) -> Mapping[str, Bot]:
        def bot(driver: bots.Driver) -> Bot:
            def play(state: State, key: Key) -> jax.Array:
                del key
                return rows.nearest(driver(state.game, self.teams), state.legal_action_mask)

            return play

        return {"random": self.random_action} | {name: bot(driver) for name, driver in bots.DRIVERS.items()}

    @property
    def simulators(self) -> Mapping[str, Callable[[], Env]]:
        """rocketsim: RocketSim with the same arena. rlgym: with the game's own meshes, which RLGym brings."""
        return {
            "rocketsim": lambda: self._in_rocketsim(self.meshes),
            "rlgym": lambda: self._in_rocketsim(rlgym_meshes()),
        }

    def rlbot(self, name: str, update: int) -> dict[str, str]:
        """Returns the files of a bot of RLBot that plays a policy of this game, see `files_of_a_bot`."""
        from jaxrl_envs.car_soccer.simulators.rlbot import files_of_a_bot

        return files_of_a_bot(self, name, update)

    # ---- for people -------------------------------------------------------------------------------------------------

    def action_name(self, action: int) -> str:
        return rows.name(action)

    def render(self, state: State, seat: int | None = None) -> str:
        return render.render_text(self, state)

    def render_svg(self, state: State, seat: int | None = None) -> str:
        return drawing.picture(self, state)

    def film(self, states: Sequence[State], actions: Sequence[Any], *, pace: float = 1.0) -> str:
        return drawing.film(self, states, pace=pace)

    def sketch(self, state: State) -> dict[str, Any]:
        """Places in uu, directions, boost of 100, who is demolished, which pads are there, goals, ticks."""
        arena, board = state.game.arena, state.game.board
        cars, axes = arena.cars, arena.cars.axes
        return {
            "ball": arena.ball.position.array,
            "cars": cars.position.array,
            "forward": axes.forward.array,
            "up": axes.up.array,
            "boost": cars.boost,
            "demolished": cars.is_demoed,
            "pads": arena.pads.cooldown == 0,
            "goals": board.goals,
            "tick": arena.tick,
        }

    def event(self, before: State, action: Any, after: State, seat: int | None = None) -> str:
        return "an illegal action ends the game" if bool(after.illegal_action) else render.describe(self, before, after)

    # ---- private ----------------------------------------------------------------------------------------------------

    def _in_rocketsim(self, meshes: str) -> Env:
        other = copy.copy(self)
        other.simulator = RocketSim(self.settings, meshes, self.tick_skip, self.delay)
        return other

    def _after_ticks(self, game: CarSoccerGame, controls: jax.Array, over: jax.Array) -> Arena:
        """Returns the arena after the ticks of a decision."""
        if self.simulator is not None:
            return self.simulator(game.arena, controls, game.controls, over)
        return ticks(self.geometry, self.settings, game.arena, controls, self.tick_skip, game.controls, self.delay)

    def _with_observation(self, state: Any) -> Any:
        return state.replace(observation=self._views(state))

    def _views(self, state: State) -> jax.Array:
        """f32[P, F]."""
        return observe.observe(state.game, self.teams, self.view, self.extras, self.padded)

    def _continued(self, before: CarSoccerGame, after: CarSoccerGame) -> CarSoccerGame:
        """Returns the game after a kickoff, if a goal ended neither episode nor match, or overtime begins."""
        ended = after.board.over & self.plays_matches
        goal = jnp.any(events.goals(after.arena)) & self.kicks_off & ~ended
        overtime = after.board.overtime & ~before.board.overtime & self.plays_matches
        return select(goal | overtime, self._kicked_off(after), after)

    def _kicked_off(self, game: CarSoccerGame) -> CarSoccerGame:
        """Returns the game after a kickoff."""
        board = game.board.replace(kickoffs=game.board.kickoffs + 1, kickoff_tick=game.arena.tick)
        key = jax.random.fold_in(prng.fast_key(game.arena.seed), board.kickoffs)
        fresh = setters.arena(setters.kickoff(key, self.scene), self.settings, game.arena.seed)
        counts = game.arena.counts
        counts = counts.replace(last_touch=jnp.full_like(counts.last_touch, -1))
        return CarSoccerGame(
            arena=fresh.replace(tick=game.arena.tick, counts=counts),
            controls=jnp.zeros_like(game.controls),
            board=board,
            tracks=events.begin(self.teams, prediction.still(fresh.ball), kickoff=jnp.bool_(True)),
        )


# ---- options --------------------------------------------------------------------------------------------------------


def require(condition: bool, sentence: str) -> None:
    """Raises the UserError of an option."""
    if not condition:
        raise UserError(f"car_soccer: {sentence}.")


def _teams(sizes: Sequence[int]) -> Teams:
    wanted = "teams must be two numbers of cars, 1 to 3 (the second may be 0)"
    require(len(sizes) == 2, f"{wanted}, not {list(sizes)}")
    first, second = sizes
    require(1 <= first <= LARGEST_TEAM and 0 <= second <= LARGEST_TEAM, f"{wanted}, not {list(sizes)}")
    return Teams((int(first), int(second)))


def _known(name: str, names: Iterable[str], option: str) -> str:
    require(name in names, f"{option} {name!r} is not known: {nearest(name, list(names))}")
    return name


def _ends(value: Any, option: str) -> tuple[Any, Any]:
    """Returns the values at the beginning and at the end of the training: a single value at both."""
    if isinstance(value, (tuple, list)):
        require(len(value) == 2, f"{option} must be one value, or two that it goes from and to, not {list(value)}")
        return value[0], value[1]
    return value, value


def _weights(weights: Mapping[str, float], names: Iterable[str], option: str, least: float = 0.0) -> None:
    wanted = "a number" if least < 0 else f"a number >= {least:g}"
    for name, weight in weights.items():
        _known(name, names, option)
        require(bool(np.isfinite(weight)) and weight >= least, f"{option}.{name} must be {wanted}, not {weight}")
