"""Games of PettingZoo as host games: ``make("pettingzoo:connect_four")``, in Python, stepped by actor threads.

PettingZoo cannot save a game, so a saved state is the seed of its `reset` and the actions since: loading plays them
again. Chance within a game follows that seed alone, so only games known to have none are searched. An environment of
one's own is a class:

    class Mine(HostEnv):  # jaxrl train env.id=my_module:Mine
        id, version = "mine", "1"

        def __init__(self):
            super().__init__(PettingZooGame(my_package.parallel_env, "mine", "1"))
"""

from __future__ import annotations

import contextlib
import importlib
import io
import pkgutil
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxrl_envs.adapters import boards, require
from jaxrl_envs.host.engine import PythonEngine
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.host.python_game import PythonGame, ReplayedGame, SimultaneousPythonGame
from jaxrl_envs.shared.errors import UserError, nearest

_FAMILIES = ("classic", "butterfly", "sisl")  # ours, so that a name in a file imports nothing else
_OPEN = ("chess", "connect_four", "go", "tictactoe")  # perfect information, and no chance


class PettingZooEnv(HostEnv):
    """One game of PettingZoo with its default parameters; its only bot is ``"random"``.

    Simultaneous where PettingZoo offers a parallel environment. Actions must be discrete; observations are flattened,
    and shorter ones padded with zeros where agents differ.

    Args:
      max_steps: decisions (of all seats at once in a simultaneous game) until a game is cut off.
    """

    id = "pettingzoo"
    version = "1"

    def __init__(self, name: str, *, max_steps: int = 1000):
        """The game that PettingZoo calls `name`, with or without its version (``connect_four_v3``)."""
        if not 1 <= max_steps <= 1_000_000:
            raise UserError(f"'pettingzoo:{name}' option max_steps must be 1 to 1,000,000, not {max_steps}")
        library = require("pettingzoo", f"the game 'pettingzoo:{name}'", "jaxrl[pettingzoo]")
        place, found = _find(name)
        module = _imported(f"{place}.{found}", name)
        factory = getattr(module, "parallel_env", None) or module.env
        version = f"{library.__version__}-{found}"
        super().__init__(PettingZooGame(factory, f"pettingzoo:{name}", version, max_steps=max_steps))
        board = found.rpartition("_v")[0]
        self.perfect_information = self.game.perfect_information = board in _OPEN


class PettingZooGame(HostGame):
    """Any environment of PettingZoo, AEC or parallel, as a host game."""

    may_truncate = True
    public_actions = False

    def __init__(self, factory: Callable[[], Any], id: str, version: str, *, max_steps: int = 1000):
        """The game that `factory` makes.

        Args:
          factory: returns a new environment, which decides by its `reset(seed)` and the actions alone.
          id, version: as of every game; the version names the environment's rules.
          max_steps: decisions until a game is cut off.

        Raises:
          UserError: actions that are not discrete.
        """
        gymnasium = require("gymnasium", id, "jaxrl[pettingzoo]")
        env = factory()
        self.id, self.version = id, version  # type: ignore[misc]
        self.factory, self.max_steps = factory, max_steps
        self.simultaneous = not hasattr(env, "agent_iter")
        agents = env.possible_agents
        actions = [env.action_space(agent) for agent in agents]
        if not all(isinstance(space, gymnasium.spaces.Discrete) and space.start == 0 for space in actions):
            raise UserError(f"{id!r} has actions that are not discrete; only discrete actions are supported")
        self.num_players, self.num_actions = len(agents), max(int(space.n) for space in actions)
        self.choices = [int(space.n) for space in actions]
        self.flatten = [_flattening(gymnasium.spaces, env.observation_space(agent)) for agent in agents]
        self.num_features = max(size for size, _ in self.flatten)
        self.row = self.num_players if self.simultaneous else 1  # actions in a step
        self.state_bytes = ReplayedGame.saved_bytes(1 + max_steps * self.row)

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        kind = _Parallel if self.simultaneous else _Turns
        return PythonEngine(
            [kind(self, seed, first_slot + game) for game in range(num_games)],
            num_players=self.num_players,
            num_actions=self.num_actions,
            num_features=self.num_features,
            state_bytes=self.state_bytes,
            num_bots=1,
            simultaneous=self.simultaneous,
        )

    def render(self, state: np.ndarray, seat: int | None = None) -> str:
        """Connect Four as a board; other games of PettingZoo draw pixels only."""
        if not self.id.startswith("pettingzoo:connect_four"):
            raise NotImplementedError(f"{self.id} has no text rendering")
        game, viewer = _Turns(self, 0, 0), 0 if seat is None else seat
        game.load(bytes(state))
        planes = game.observe(viewer).reshape(6, 7, 2)
        return boards.board_text("connect_four", planes, viewer, seat)


class _Played(ReplayedGame):
    """A game that is the seed of its reset and its actions; subclasses know how its kind of environment is stepped."""

    def __init__(self, game: PettingZooGame, seed: int, slot: int):
        super().__init__(seed, slot)
        self.game, self.env = game, game.factory()
        self.agents = list(self.env.possible_agents)
        self.how, self.paid = 0, [0.0] * game.num_players

    def start(self) -> None:
        super().start()
        self.played = []
        self._replay([self.draw(2**31 - 1)])

    def ended(self) -> int:
        return self.how

    def rewards(self) -> list[float]:
        return self.paid

    def _replay(self, numbers: list[int]) -> None:
        if numbers and not self.played:
            self._reset(numbers[0])
            self.played, numbers = numbers[:1], numbers[1:]
        for first in range(0, len(numbers), self.game.row):
            actions = numbers[first : first + self.game.row]
            self.played += actions
            self._step(actions)
            if not self.how and len(self.played) > self.game.max_steps * self.game.row:
                self.how = 2

    def _reset(self, seed: int) -> None:
        raise NotImplementedError

    def _step(self, actions: list[int]) -> None:
        raise NotImplementedError

    def _mask(self, seat: int, observation: Any, info: Any) -> np.ndarray:
        """bool[A] of an agent: all its actions, or what its observation or its info says."""
        mask = np.zeros(self.game.num_actions, bool)
        said = observation.get("action_mask") if isinstance(observation, dict) else None
        said = info.get("action_mask") if said is None and info else said
        mask[: self.game.choices[seat]] = True if said is None else np.asarray(said, bool)
        return mask

    def _flat(self, seat: int, observation: Any) -> np.ndarray:
        """f32[F] of an agent; zeros for one that has none, as it has left."""
        row, (size, flatten) = np.zeros(self.game.num_features, np.float32), self.game.flatten[seat]
        if observation is not None:
            row[:size] = flatten(observation)
        return row


class _Turns(_Played, PythonGame):
    """A game of an AEC environment."""

    def _reset(self, seed: int) -> None:
        self.env.reset(seed=seed)
        self.how, self.paid, self.asked = 0, [0.0] * len(self.agents), 0
        self._continue()

    def step(self, action: int) -> None:
        self._replay([action])

    def _step(self, actions: list[int]) -> None:
        self.env.step(actions[0])
        self.paid = [float(self.env.rewards.get(agent, 0.0)) for agent in self.agents]
        self._continue()

    def _continue(self) -> None:
        """Takes agents that are done out of a game that goes on, up to the next question, or notes the end."""
        env = self.env
        while True:
            cut = [env.truncations[agent] and not env.terminations[agent] for agent in env.agents]
            if all(env.terminations[agent] or env.truncations[agent] for agent in env.agents):
                self.how = 2 if cut and all(cut) else 1
                break
            asked = env.agent_selection
            if not (env.terminations[asked] or env.truncations[asked]):
                self.asked = self.agents.index(asked)
                break
            env.step(None)
        self.legals = self._legals()

    def _legals(self) -> np.ndarray:
        if self.how:
            return np.ones(self.game.num_actions, bool)
        agent = self.agents[self.asked]
        return self._mask(self.asked, self.env.observe(agent), self.env.infos.get(agent))

    def player(self) -> int:
        return -1 if self.how == 1 else self.asked

    def mask(self) -> np.ndarray:
        return self.legals | bool(self.how)

    def legal(self, action: int) -> bool:
        return bool(self.mask()[action])

    def observe(self, seat: int) -> np.ndarray:
        agent = self.agents[seat]
        return self._flat(seat, self.env.observe(agent) if agent in self.env.agents else None)


class _Parallel(_Played, SimultaneousPythonGame):
    """A game of a parallel environment; an agent that has left sees zeros and has one action, which is ignored."""

    def _reset(self, seed: int) -> None:
        self.seen, self.infos = self.env.reset(seed=seed)
        self.how, self.paid = 0, [0.0] * len(self.agents)

    def step(self, actions: Any) -> None:
        self._replay([int(action) for action in actions])

    def _step(self, actions: list[int]) -> None:
        chosen = {agent: actions[seat] for seat, agent in enumerate(self.agents) if agent in self.env.agents}
        self.seen, rewards, terminated, _, self.infos = self.env.step(chosen)
        self.paid = [float(rewards.get(agent, 0.0)) for agent in self.agents]
        if not self.env.agents:
            self.how = 1 if any(terminated.values()) else 2

    def mask(self, seat: int) -> np.ndarray:
        agent = self.agents[seat]
        if self.how:
            return np.ones(self.game.num_actions, bool)
        if agent not in self.env.agents:
            return np.arange(self.game.num_actions) == 0
        return self._mask(seat, self.seen.get(agent), self.infos.get(agent))

    def legal(self, seat: int, action: int) -> bool:
        return bool(self.mask(seat)[action])

    def observe(self, seat: int) -> np.ndarray:
        return self._flat(seat, self.seen.get(self.agents[seat]))


def _flattening(spaces: Any, space: Any) -> tuple[int, Callable[[Any], np.ndarray]]:
    """The length of flattened observations, and the function; an action mask among them is left out."""
    if isinstance(space, spaces.Dict) and "action_mask" in space.spaces:
        rest = spaces.Dict({name: each for name, each in space.spaces.items() if name != "action_mask"})
        return spaces.flatdim(rest), lambda seen: spaces.flatten(rest, {name: seen[name] for name in rest.spaces})
    return spaces.flatdim(space), lambda seen: spaces.flatten(space, seen)


def _find(name: str) -> tuple[str, str]:
    """(package, module) of a game by its name, of the newest version if it names none."""
    known: dict[str, str] = {}
    for family in _FAMILIES:
        package = _imported(f"pettingzoo.{family}", name)
        for each in pkgutil.iter_modules(package.__path__):
            if re.fullmatch(r"\w+_v\d+", each.name):
                known[each.name] = package.__name__
    versions = [each for each in known if name in (each, each.rpartition("_v")[0])]
    if not versions:
        raise UserError(f"PettingZoo has no game {name!r} in {', '.join(_FAMILIES)}: {nearest(name, known)}")
    found = max(versions, key=lambda each: int(each.rpartition("_v")[2]))
    return known[found], found


def _imported(module: str, name: str) -> Any:
    """A module of PettingZoo, without the greetings and warnings of what it imports."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(module)
        except ImportError as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"'pettingzoo:{name}' needs more: pip install 'pettingzoo[classic]' ({reason})") from error
