"""Games of OpenSpiel (Lanctot et al. 2019, https://arxiv.org/abs/1908.09453) as host games:
``make("openspiel:leduc_poker(players=3)")``, rules in C++, stepped by actor threads.

Chance is drawn from the game's own stream, and a saved state is what chance drew and the actions: loading plays them
again. Simultaneous games ask their seats one after the other (OpenSpiel's turn-based form), unseen by the others. Your
own game, registered with pyspiel, is a class:

    class Mine(HostEnv):  # jaxrl train env.id=my_module:Mine
        id, version = "mine", "1"

        def __init__(self):
            super().__init__(OpenSpielGame(pyspiel.load_game("mine"), "mine", "1"))
"""

from __future__ import annotations

import functools
import os
import random
import re
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from jaxrl_envs.adapters import require
from jaxrl_envs.host.engine import PythonEngine
from jaxrl_envs.host.env import HostEnv
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.host.python_game import PythonGame, ReplayedGame, python_engine
from jaxrl_envs.shared.errors import UserError, nearest

Tensor = Literal["auto", "information_state", "observation"]

_LONGEST = 5_000  # decisions, where a game itself allows more; chess declares 17,695
_CHANCE = 3  # laser_tag and coop_box_pushing have up to three times the chance nodes that they declare
_GRAIN = 2**30  # steps of a draw with unequal probabilities
_NAMED_GAMES, _NAMED_STEPS = 5, 400  # random games, and the decisions of all, in which actions are named


class OpenSpielEnv(HostEnv):
    """One game of OpenSpiel, with parameters as OpenSpiel writes them; its only bot is ``"random"``.

    Args:
      tensor: observation of a seat: OpenSpiel's information state, in which a policy without a memory remembers
        everything, its observation, or by default the first of them that the game has.
      max_steps: decisions until a game is cut off; by default its own longest, but at most 5,000.
    """

    id = "openspiel"
    version = "1"

    def __init__(self, name: str, *, tensor: Tensor = "auto", max_steps: int | None = None):
        """Loads the game that OpenSpiel calls `name`, such as ``kuhn_poker(players=3)``."""
        id = f"openspiel:{name}"
        library = require("pyspiel", f"the game {id!r}", "jaxrl[openspiel]")
        known, base = library.registered_names(), name.partition("(")[0]
        if base not in known:
            raise UserError(f"OpenSpiel has no game {base!r}: {nearest(base, known)}")
        try:
            game = OpenSpielGame(library.load_game(name), id, library.__version__, tensor=tensor, max_steps=max_steps)
        except (library.SpielError, IndexError) as error:  # IndexError: nfg_game without its file
            raise UserError(f"OpenSpiel refuses {name!r}: {str(error).splitlines()[-1]}") from error
        super().__init__(game)


class OpenSpielGame(HostGame):
    """A game object of pyspiel as a host game."""

    def __init__(self, game: Any, id: str, version: str, *, tensor: Tensor = "auto", max_steps: int | None = None):
        """Wraps the game `game`.

        Args:
          game: result of ``pyspiel.load_game``.
          id, version: identity as of every game; the version names the rules.
          tensor, max_steps: options as of `OpenSpielEnv`.

        Raises:
          UserError: a game without explicit chance, one of a mean field, or one without the tensor.
        """
        spiel = require("pyspiel", id, "jaxrl[openspiel]")
        kind = game.get_type()
        if kind.dynamics == spiel.GameType.Dynamics.MEAN_FIELD:
            raise UserError(f"{id!r} is a mean-field game: only games with a seat for every player are supported")
        if kind.chance_mode == spiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
            raise UserError(f"{id!r} draws its chance itself, so its states cannot be repeated: it is not supported")
        if max_steps is not None and not 1 <= max_steps <= 1_000_000:
            raise UserError(f"{id!r} option max_steps must be 1 to 1,000,000, not {max_steps}")
        if kind.dynamics == spiel.GameType.Dynamics.SIMULTANEOUS:
            game = spiel.convert_to_turn_based(game)
        self.id, self.version = id, version  # type: ignore[misc]
        self.rules, self.kind = game, game.get_type()
        self.tensor = _tensor(self.kind, tensor, id)
        self.max_steps = max_steps or min(game.max_game_length(), _LONGEST)
        self.may_truncate = self.max_steps < game.max_game_length()
        self.num_players, self.num_actions = game.num_players(), game.num_distinct_actions()
        self.num_features = getattr(game, f"{self.tensor}_size")()
        self.state_bytes = ReplayedGame.saved_bytes(self.max_steps + _CHANCE * game.max_chance_nodes_in_history())
        self.perfect_information = self.kind.information == spiel.GameType.Information.PERFECT_INFORMATION
        self.public_actions = self.perfect_information
        self.how_to_play = f"{self.kind.long_name}, by OpenSpiel: https://openspiel.readthedocs.io/en/latest/games.html"

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> PythonEngine:
        return python_engine(self, [_Game(self, seed, first_slot + game) for game in range(num_games)])

    def render(self, state: np.ndarray, seat: int | None = None) -> str:
        """Returns the position in OpenSpiel's words."""
        position = self._position(state)
        if seat is None or self.perfect_information:
            return str(position)
        if self.kind.provides_information_state_string:
            return position.information_state_string(seat)
        if self.kind.provides_observation_string:
            return position.observation_string(seat)
        raise NotImplementedError(f"{self.id} has no text of what a seat sees")

    def action_name(self, action: int) -> str:
        """OpenSpiel's word for an action; its number in a game whose words depend on the position."""
        return self._names.get(action, str(action))

    def event(self, before: np.ndarray, action: Any, after: np.ndarray, seat: int | None = None) -> str:
        """Returns the action in OpenSpiel's words, for other seats only in games of perfect information."""
        position = self._position(before)
        asked = position.current_player()
        if seat not in (None, asked) and not self.perfect_information:
            return f"seat {asked} has acted"
        return f"seat {asked}: {position.action_to_string(asked, int(action))}"

    def _position(self, state: np.ndarray) -> Any:
        game = _Game(self, 0, 0)
        game.load(bytes(state))
        return game.position

    @functools.cached_property
    def _names(self) -> dict[int, str]:
        """Actions by their names without the mark of the seat ("x(0,1)", "[P0]Bid: 2"), from random games.

        Empty if an action has several names: they depend on the position, like the moves of chess.
        """
        found: dict[int, set[str]] = {}
        for action, name in self._named_actions():
            found.setdefault(action, set()).add(name)
        marked = {action: os.path.commonprefix([name[::-1] for name in each])[::-1] for action, each in found.items()}
        names = {action: re.sub(r"^[^\w(]+", "", name) for action, name in marked.items()}
        unique = all(names.values()) and len(set(names.values())) == len(names)
        return names if unique else {}

    def _named_actions(self) -> Iterator[tuple[int, str]]:
        """(action, its name there) of every legal action in a few random games, always the same ones."""
        rng, left = random.Random(0), _NAMED_STEPS
        for _ in range(_NAMED_GAMES):
            position = self.rules.new_initial_state()
            while left and not position.is_terminal():
                if position.is_chance_node():
                    outcomes, odds = zip(*position.chance_outcomes(), strict=True)
                    position.apply_action(rng.choices(outcomes, odds)[0])
                    continue
                seat, legal, left = position.current_player(), position.legal_actions(), left - 1
                yield from ((action, position.action_to_string(seat, action)) for action in legal)
                position.apply_action(rng.choice(legal))


class _Game(ReplayedGame, PythonGame):
    """One game: the history of a pyspiel state."""

    def __init__(self, game: OpenSpielGame, seed: int, slot: int):
        super().__init__(seed, slot)
        self.game, self.seats = game, game.num_players
        self._replay([])

    def start(self) -> None:
        super().start()
        self.played = []
        self._replay([])
        self._draw_chance()

    def step(self, action: int) -> None:
        self._replay([action])
        self._draw_chance()

    def _replay(self, numbers: list[int]) -> None:
        if not self.played:
            self.position, self.decisions, self.before = self.game.rules.new_initial_state(), 0, [0.0] * self.seats
        for number in numbers:
            if not self.position.is_chance_node():
                self.before, self.decisions = self.position.returns(), self.decisions + 1
            self.position.apply_action(number)
        self.played += numbers

    def _draw_chance(self) -> None:
        """Chance, up to the next question or the end."""
        while self.position.is_chance_node():
            left, (*others, (drawn, _)) = (self.draw(_GRAIN) + 0.5) / _GRAIN, self.position.chance_outcomes()
            for outcome, probability in others:
                left -= probability
                if left < 0:
                    drawn = outcome
                    break
            self._replay([drawn])

    def ended(self) -> int:
        return 1 if self.position.is_terminal() else 2 * (self.decisions >= self.game.max_steps)

    def rewards(self) -> list[float]:
        return [now - before for now, before in zip(self.position.returns(), self.before, strict=True)]

    def player(self) -> int:
        return -1 if self.position.is_terminal() else self.position.current_player()

    def mask(self) -> np.ndarray:
        mask = np.full(self.game.num_actions, bool(self.ended()))
        mask[self.position.legal_actions()] = True
        return mask

    def legal(self, action: int) -> bool:
        return bool(self.ended()) or action in self.position.legal_actions()

    def observe(self, seat: int) -> np.ndarray:
        return np.array(getattr(self.position, self.game.tensor)(seat), np.float32)


def _tensor(kind: Any, wanted: Tensor, id: str) -> str:
    """Returns the name of the tensor that is observed, as OpenSpiel calls its methods."""
    offered = {
        "information_state": kind.provides_information_state_tensor,
        "observation": kind.provides_observation_tensor,
    }
    found = [name for name, there in offered.items() if there and wanted in (name, "auto")]
    if not found:
        what = "no tensor for a network to read" if wanted == "auto" else f"no tensor of its {wanted.replace('_', ' ')}"
        raise UserError(f"{id!r} has {what} in OpenSpiel")
    return f"{found[0]}_tensor"
