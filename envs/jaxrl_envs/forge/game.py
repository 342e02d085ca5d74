"""Magic behind the host contract: options and names, the engine, and text for people."""

from __future__ import annotations

import collections
import copy
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jaxrl_envs.forge import layout
from jaxrl_envs.forge.deckbuilding.deck import SUFFIX, cards_of, check_decks, expanded, find_deck
from jaxrl_envs.forge.display import terminal
from jaxrl_envs.forge.display.how_to_play import TEXT
from jaxrl_envs.forge.engine.games import INFO_NAMES, STAT_NAMES, ForgeEngine, look
from jaxrl_envs.forge.engine.live_game import Terms
from jaxrl_envs.forge.engine.state import state_bytes_of
from jaxrl_envs.forge.recordings import demonstrations, recording
from jaxrl_envs.forge.settings import Deployment
from jaxrl_envs.host.game import Demonstrations, HostGame
from jaxrl_envs.shared.errors import UserError

if TYPE_CHECKING:
    from jaxrl_envs.forge.fleet.fleet import Fleet

PROFILES = ("", "Default", "Cautious", "Reckless")  # of Forge's AI; "": the one that it takes by itself


class ForgeGame(HostGame):
    """A game of Magic for two: 64 actions, f32[5273] observations; Forge keeps the rules in processes of its own."""

    id = "forge"
    version = "2"
    num_players, num_actions, num_features = 2, layout.NUM_ACTIONS, layout.FEATURES
    bots = ("random", *(f"forge:{name}" if name else "forge" for name in PROFILES))
    delegated = len(PROFILES)
    stat_names, info_names = STAT_NAMES, INFO_NAMES
    may_truncate, public_actions, remote = True, False, True
    recordings, question_kinds = recording.SUFFIXES, layout.TYPES
    how_to_play = TEXT
    free_options = (
        *("decks", "pairings", "first", "ask_mulligans", "always_ask", "advice", "game_limit", "max_decisions"),
        *("shaping_life", "shaping_board", "shaping_cards"),
    )

    def __init__(
        self,
        *,
        decks: tuple[str, ...] = ("aggro", "aggro"),
        pairings: Literal["sides", "all", "mirror"] = "sides",
        first: Literal["coin", 0, 1] = "coin",
        ask_mulligans: bool = False,
        always_ask: bool = False,
        advice: bool = False,
        game_limit: float = 120.0,
        max_decisions: int = 2000,
        shaping_life: float = 0.0,
        shaping_board: float = 0.0,
        shaping_cards: float = 0.0,
    ):
        """Sets up a kind of game.

        Args:
          decks: shipped names, names in the folder forge.decks, or paths of .dck files, also by a pattern like
            decks/*.dck. One: of both seats; two: of seat 0 and seat 1; with other pairings any number.
          pairings: sides (as listed) | all (every ordered pair of the listed decks, in turn) | mirror (each against
            itself, in turn).
          first: the seat that begins, 0 or 1; coin: Forge's coin decides.
          ask_mulligans: ask whether to keep the first hand; else Forge's AI decides.
          always_ask: ask also where passing is the only choice: nine times as many questions.
          advice: Forge's AI says in every question what it would do, for recordings (forge.record); hidden from seats.
          game_limit: CPU seconds that a daemon may spend on a game before it is cut off.
          max_decisions: actions of both seats after which a game is cut off, 1 to 32000.
          shaping_life: weight of the lead in life, in twenties, in a potential whose changes are rewarded; 0: none.
          shaping_board: weight of the lead in power on the battlefield, in tens.
          shaping_cards: weight of the lead in cards in hand, in sevens.
        """
        self.pairs = _pairs(decks, pairings)
        self.shaping = (shaping_life, shaping_board, shaping_cards)
        if not 1 <= max_decisions <= 32000:
            raise UserError(f"forge: max_decisions must be 1 to 32000, not {max_decisions}.")
        if not 1 <= game_limit <= 86400:
            raise UserError(f"forge: game_limit must be 1 to 86400 seconds, not {game_limit:g}.")
        if not all(0 <= weight <= 10 for weight in self.shaping):
            raise UserError(f"forge: the weights shaping_* must be 0 to 10, not {self.shaping}.")
        self.options = " ".join(
            ["-i", "-q"]
            + ([] if always_ask else ["-a"])
            + (["-m"] if ask_mulligans else [])
            + (["-v"] if advice else [])
            + ([] if first == "coin" else [f"-f {first}"])
        )
        self.max_decisions, self.game_limit = max_decisions, game_limit
        self.varieties, self.state_bytes = len(self.pairs), state_bytes_of(max_decisions)
        self.deployment: Deployment | None = None
        self._recorded_in: Path | None = None  # the folder for recordings, see `meant_for` and `advised`
        self._fleet: Fleet | None = None
        self._viewer: ForgeEngine | None = None
        self._remembered: collections.OrderedDict[Any, Any] = collections.OrderedDict()

    # ---- where it runs ----------------------------------------------------------------------------------------------

    def deploy(self, deployment: Deployment | None = None, **options: Any) -> None:
        """Says where Forge is and how its daemons are run; without, FORGE_HOME and one daemon less than cores.

        Raises:
          UserError: an option is wrong, or a deck cannot be found or, where Forge is found, not be played; a pattern
            of paths that means none is refused by `ready` only.
        """
        self.deployment = deployment or Deployment(**options)
        self._fleet = self._viewer = None
        if not any("*" in deck for pair in self.pairs for deck in pair):
            self._located()

    def meant_for(self, purpose: str) -> ForgeGame:
        if self._recorded_in is not None or self.deployment is None or not self.deployment.record:
            return self
        game = copy.copy(self)
        game._recorded_in = Path(self.deployment.record) / purpose
        return game

    def seat(self, engine: Any, names: Callable[[int], Sequence[str]]) -> None:
        engine.seated = names

    def ready(self) -> None:
        self.fleet()

    def fleet(self) -> Fleet:
        """Returns the daemons; none is started before the first game.

        Raises:
          UserError: there is no Forge, or no Java for it, or a deck cannot be played.
        """
        from jaxrl_envs.forge.fleet.fleet import Fleet

        self.deployment = self.deployment or Deployment()
        self._located()
        self._fleet = Fleet.shared(self.deployment)
        return self._fleet

    def capacity(self) -> int:
        return self.fleet().capacity

    def patience(self) -> float:
        """A silent daemon is given up, another one starts, and the game is played again up to where it was."""
        deployment = self.deployment or Deployment()
        return deployment.decision_timeout + deployment.start_timeout + self.game_limit

    def counters(self) -> dict[str, Any]:
        return self._fleet.counters() if self._fleet is not None else {}

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> ForgeEngine:
        return self.engine_on(self.fleet(), num_games, seed, first_slot=first_slot)

    def engine_on(self, fleet: Any, num_games: int, seed: int = 0, *, first_slot: int = 0) -> ForgeEngine:
        """Returns an engine whose games are played by the daemons of `fleet`, of any kind."""
        deployment = self.deployment = self.deployment or Deployment()
        pairs, mark = self._located()
        limits = (self.game_limit, self.max_decisions, deployment.decision_timeout)
        return ForgeEngine(
            fleet,
            num_games,
            Terms(pairs, self.options, mark, PROFILES, *limits, self.shaping),
            seed=seed,
            first_slot=first_slot,
            recorder=recording.Folder(folder) if (folder := self._recorded_in or deployment.record) else None,
            remembered=self._remembered,
        )

    def _located(self) -> tuple[tuple[tuple[str, str], ...], int]:
        """Returns the decks as daemons know them, and a number for all that decides a game."""
        deployment = self.deployment or Deployment()
        folder = Path(deployment.decks).expanduser().absolute() if deployment.decks else None
        names = dict.fromkeys(name for pair in self.pairs for name in pair)
        files = {} if deployment.remote else {name: find_deck(name, folder) for name in names}
        if files:
            check_decks(files.values(), *cards_of(deployment.home))
        described = [self.options]
        for pair in self.pairs:
            for name in pair:
                content = zlib.crc32(files[name].read_bytes()) if files else 0
                described.append(f"{Path(name).name.removesuffix(SUFFIX)} {content:08x}")
        text = "\n".join(described).encode()
        mark = zlib.crc32(text) | zlib.crc32(text[::-1]) << 32
        located = tuple((str(files.get(a, a)), str(files.get(b, b))) for a, b in self.pairs)
        return located, mark

    # ---- people -----------------------------------------------------------------------------------------------------

    def position(self, state: np.ndarray) -> terminal.ForgePosition:
        """Returns a saved state u8[S] as plain Python; it is played again if it is not in the cache."""
        if self._viewer is None:
            self._viewer = self.engine(1, 0)
        return terminal.position(*look(self._viewer, np.ascontiguousarray(state)))

    def render(self, state: np.ndarray, seat: int | None = None) -> str:
        return terminal.render_text(self.position(state), seat)

    def action_name(self, action: int) -> str:
        """Returns the name of an action in every question; its meaning in one is shown with the position."""
        if action >= self.num_actions:
            return f"leave it to {self.bots[1 + action - self.num_actions]}"
        return "pass" if action == 0 else f"choice {action}"

    def event(self, before: np.ndarray, action: int, after: np.ndarray, seat: int | None = None) -> str:
        return terminal.event(self.position(before), action, self.position(after), seat, self.num_actions)

    # ---- recorded games ---------------------------------------------------------------------------------------------

    def demonstrations(self, path: Path) -> Iterator[Demonstrations]:
        return demonstrations.read(path)

    def advised(self, folder: Path) -> ForgeGame:
        """Returns the same game on the same daemons, with the advice of Forge's AI in recordings in `folder`."""
        game = copy.copy(self)
        game.options += "" if "-v" in self.options.split() else " -v"
        game._recorded_in, game._viewer, game._remembered = folder, None, collections.OrderedDict()
        return game


def _pairs(decks: Sequence[str], pairings: str) -> tuple[tuple[str, str], ...]:
    """Returns the decks of seat 0 and seat 1 of every kind of game, in turn."""
    if not decks or not all(decks):
        raise UserError("forge: decks must name at least one deck, e.g. [aggro].")
    decks = expanded(decks)
    if pairings == "mirror":
        return tuple((deck, deck) for deck in decks)
    if pairings == "all":  # one after the other with different decks, mirrored games last
        count = len(decks)
        return tuple((decks[i], decks[(i + k) % count]) for k in (*range(1, count), 0) for i in range(count))
    if len(decks) > 2:
        raise UserError(
            f"forge: decks names {len(decks)}: give one for both seats or one for each, or set pairings to all."
        )
    return ((decks[0], decks[-1]),)
