"""The battle behind the host contract: options and names, the engine, and text and drawings for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from jaxrl_envs.battle import actions, random_setups, settings
from jaxrl_envs.battle.display import drawing, events, render
from jaxrl_envs.battle.display.how_to_play import COLOURS, TEXT
from jaxrl_envs.battle.display.position import BattlePosition, look
from jaxrl_envs.battle.engine.batch import INFO_NAMES, NUM_ACTIONS, NUM_FEATURES, STAT_NAMES, BattleEngine
from jaxrl_envs.battle.engine.players import BOT_NAMES
from jaxrl_envs.battle.engine.rules import Rules
from jaxrl_envs.battle.engine.setup import check_deployable
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.maps import BattleMap, load_map
from jaxrl_envs.battle.rosters import Roster, load_roster
from jaxrl_envs.battle.settings import BattleSettings, settings_from_tree
from jaxrl_envs.host.game import HostGame
from jaxrl_envs.shared.errors import UserError

MOST_FOR_ALL = 64  # rosters of which every pair is played


class BattleGame(HostGame):
    """A tabletop battle of two sides on a grid: 69 actions, about 100 decisions, f32[1051] observations."""

    id = "battle"
    version = "1"
    num_players, num_actions, num_features = 2, NUM_ACTIONS, NUM_FEATURES
    bots, stat_names, info_names = BOT_NAMES, STAT_NAMES, INFO_NAMES
    reference_bot = "balanced"
    perfect_information = True
    how_to_play, colours = TEXT, COLOURS
    form: Any = drawing  # module that draws it
    free_options = ("maps", "rosters", "pairings", "reward_vp", *settings.KEYS)

    def __init__(
        self,
        *,
        maps: tuple[str, ...] = ("standard",),
        rosters: tuple[str, ...] = ("line", "line"),
        pairings: Literal["sides", "all", "matched"] = "sides",
        mission: Literal["hold", "annihilation"] = "hold",
        rounds: int = 5,
        vp_each: int = 5,
        vp_cap: int = 15,
        score_from: int = 2,
        tiebreak: Literal["auto", "none", "damage"] = "auto",
        deploy: Literal["roll", 0, 1] = "roll",
        first: Literal["roll", 0, 1] = "roll",
        zone: int = 15,
        cp_start: int = 0,
        reward_vp: float = 0.0,
    ):
        """Sets up a kind of battle; nothing is asymmetric between the sides but what rosters and roll-offs decide.

        Args:
          maps: shipped names (standard, centre, walled, small), "file.yaml:name", or drawn ones by number: random:7,
            random:0-15; each battle draws one of them.
          rosters: shipped names (line, horde, walkers), YAML files, or drawn ones by number: random:7, random:0-15.
            One for both sides; two for side 0 and side 1; with pairings "all" or "matched", any number.
          pairings: sides (as listed) | all (every ordered pair of the listed rosters, in turn) | matched (each of them
            against one other, on both sides: for hundreds of rosters).
          mission: hold (objectives give VP) | annihilation (destroyed units do).
          rounds: rounds of a battle, 1 to 20.
          vp_each: hold: VP for every objective controlled, 0 to 1000.
          vp_cap: hold: most VP of one scoring, 0 to 1000.
          score_from: hold: the first round that scores, 1 to 20.
          tiebreak: rule at equal VP: none (a draw) | damage (the side that did more of it wins) | auto (damage in
            annihilation, else none).
          deploy: the side that deploys on the left, 0 or 1; roll: a roll-off decides.
          first: the side that has the first turn, 0 or 1; roll: a roll-off decides.
          zone: columns of a deployment zone, from 4 to half the map's less 2; 10 suits the map small.
          cp_start: command points of both sides at the start, 0 to 12.
          reward_vp: reward for each VP ahead, besides +1 for a win and -1 for a loss; 0 to 10.
        """
        options = dict(locals())
        self.settings: BattleSettings = settings_from_tree({key: options[key] for key in settings.KEYS}, "battle")
        if not maps:
            raise UserError("battle: maps must name at least one map, e.g. [standard].")
        self.maps: tuple[BattleMap, ...] = tuple(load_map(name) for name in random_setups.expanded(maps))
        self.pairs = _pairs(rosters, pairings)
        self.rules = Rules(self.maps, self.pairs, self.settings)
        check_deployable(self.rules)
        self.varieties = len(self.pairs)
        self.state_bytes = BattleEngine(self.rules, 1).state_bytes

    def engine(self, num_games: int, seed: int, *, first_slot: int = 0) -> BattleEngine:
        return BattleEngine(self.rules, num_games, seed=seed, first_slot=first_slot)

    def render(self, state: np.ndarray, seat: int | None = None) -> str:
        return render.render_text(self.position(state), seat)

    def render_svg(self, state: np.ndarray, seat: int | None = None) -> str:
        return str(self.form.draw(self.position(state), seat))

    def click_areas(self, state: np.ndarray, seat: int, legal: Sequence[int]) -> list[drawing.Area]:
        found: list[drawing.Area] = self.form.click_areas(self.position(state), legal)
        return found

    def action_name(self, action: int) -> str:
        return actions.action_name(action)

    def event(self, before: np.ndarray, action: int, after: np.ndarray, seat: int | None = None) -> str:
        return events.describe(self.position(before), action, self.position(after), seat)

    def position(self, state: np.ndarray) -> BattlePosition:
        """Returns a saved state u8[S] as plain Python."""
        return look(Battle(self.rules, saved=np.asarray(state)))


def _pairs(names: Sequence[str], pairings: str) -> tuple[tuple[Roster, Roster], ...]:
    """Returns the rosters of side 0 and side 1 of every kind of battle."""
    if not names:
        raise UserError("battle: rosters must name at least one roster, e.g. [line].")
    rosters = [load_roster(name) for name in random_setups.expanded(names)]
    if pairings == "all":
        if len(rosters) > MOST_FOR_ALL:
            raise UserError(
                f"battle: pairings all of {len(rosters)} rosters are {len(rosters) ** 2:,}: name at most "
                f"{MOST_FOR_ALL}, or set pairings to matched."
            )
        return tuple((one, other) for one in rosters for other in rosters)
    if pairings == "matched":
        return tuple(random_setups.matched(rosters))
    if len(rosters) > 2:
        raise UserError(
            f"battle: rosters names {len(rosters)}: give one for both sides or one for each, or set pairings to all or "
            "matched."
        )
    return ((rosters[0], rosters[-1]),)
