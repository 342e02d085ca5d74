"""Playback of recorded battles, see `jaxrl_envs.shared.display.playback`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxrl_envs.battle.actions import NUM_ACTIONS
from jaxrl_envs.battle.display.drawing import draw
from jaxrl_envs.battle.display.events import describe
from jaxrl_envs.battle.display.position import BattlePosition, look
from jaxrl_envs.battle.engine.rules import Rules
from jaxrl_envs.battle.engine.single import Battle
from jaxrl_envs.battle.golden import ACTION, KINDS, rules_of
from jaxrl_envs.shared import golden
from jaxrl_envs.shared.display.playback import Playback, PlaybackDecisions, PlaybackMoment
from jaxrl_envs.shared.errors import UserError

games = golden.titles


def fits(name: str, first: Mapping[str, Any]) -> bool:
    """Returns whether a file holds recorded battles, by the keys of its first record."""
    return {"half_turns", "rosters", "dice"} <= set(first)


def play(path: Path, number: int) -> Playback:
    """Returns the playback of one battle of a file, with its recorded dice."""
    kind, record = golden.nth(path, KINDS, number)
    boards, rosters, settings = rules_of(record)
    identity = {name: record[name] for name in ("seed", "slot", "episode")}
    try:
        battle = Battle(Rules(boards, [rosters], settings), **identity, tape=record["dice"])
        views, asked = [look(battle)], []
        for row in record["decisions"]:
            asked.append((battle.side, battle.observe(battle.side), np.isin(np.arange(NUM_ACTIONS), battle.legal)))
            battle.step(row[ACTION])
            views.append(look(battle))
    except ValueError as error:
        raise UserError(f"{path.name}: the battle cannot be played as it was recorded: {error}.") from None
    actions = [row[ACTION] for row in record["decisions"]]
    seats, seen, legal = ([row[column] for row in asked] for column in range(3))
    return Playback(
        title=f"{kind.label(record, number)}, {' against '.join(record['players'])}",
        seats=[f"side {side}: {player}" for side, player in enumerate(record["players"])],
        view="pictures",
        frames=len(views),
        picture=lambda frame: draw(views[frame]),
        moments=list(_moments(views, actions)),
        curves={
            "victory points": [list(map(float, view.points)) for view in views],
            "wounds left": [[float(sum(squad.health for squad in side)) for side in view.squads] for view in views],
        },
        decided=PlaybackDecisions("battle", {}, seats, seen, legal, actions),
    )


def _moments(views: list[BattlePosition], actions: list[int]) -> list[PlaybackMoment]:
    """Returns a moment for every decision, with its effects."""
    found = []
    for at, (before, action, after) in enumerate(zip(views[:-1], actions, views[1:], strict=True), 1):
        side = before.question.side if before.question is not None else -1
        mark = f"round {after.round}" if after.round != before.round else "the end" if after.over else ""
        found.append(PlaybackMoment(at, describe(before, action, after), side, mark))
    return found
