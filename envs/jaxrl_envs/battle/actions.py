"""The 69 actions by number and in words (section 8 of the rules)."""

from __future__ import annotations

NUM_ACTIONS = 69
DECLINE, FIRST_MOVE, FIRST_SHOOT, FIRST_CHARGE, FIRST_FIGHT = 0, 1, 25, 33, 41
FIRST_SNAP, FIRST_COUNTER, REROLL, STEEL, SMOKE, COVER = 49, 57, 65, 66, 67, 68
ADVANCE = 2
DOWN = (0, 1, 1, 1, 0, -1, -1, -1)  # rows of a step in each
FORWARD = (1, 1, 0, -1, -1, -1, 0, 1)  # columns, towards the enemy's edge
GAITS = ("half", "full", "advance")
# Directions in the frame of the side that decides: forward is away from its own edge, north is the top of the board.
DIRECTIONS = ("forward", "forward-south", "south", "back-south", "back", "back-north", "north", "forward-north")
_BY_UNIT = {
    FIRST_SHOOT: "shoot at unit {}",
    FIRST_CHARGE: "charge unit {}",
    FIRST_FIGHT: "fight unit {}",
    FIRST_SNAP: "snap fire by unit {}",
    FIRST_COUNTER: "counter-charge by unit {}",
}
_OTHERS = {DECLINE: "decline", REROLL: "re-roll", STEEL: "steel nerves", SMOKE: "smoke", COVER: "take cover"}


def action_name(action: int) -> str:
    """Returns an action in words: "move forward-north, full", "shoot at unit 3"; units are numbered from 1.

    Args:
      action: 0..68. "decline" is to stay, hold fire, keep a roll or let something pass, whatever is asked.
    """
    if action in _OTHERS:
        return _OTHERS[action]
    if not 0 < action < NUM_ACTIONS:
        raise ValueError(f"there is no action {action}: actions are 0 to {NUM_ACTIONS - 1}")
    if action < FIRST_SHOOT:
        gait, direction = divmod(action - FIRST_MOVE, 8)
        return f"move {DIRECTIONS[direction]}, {GAITS[gait]}"
    first = max(first for first in _BY_UNIT if first <= action)
    return _BY_UNIT[first].format(action - first + 1)
