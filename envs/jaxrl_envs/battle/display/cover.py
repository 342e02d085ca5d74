"""The picture of the game on the first page of `jaxrl serve`."""

from __future__ import annotations

from jaxrl_envs.battle.display.board import defs, draw_board, draw_marker, draw_terrain
from jaxrl_envs.battle.display.drawing import draw_squads
from jaxrl_envs.battle.display.paint import Layout
from jaxrl_envs.battle.display.position import Cell, Ground, Marker, Squad
from jaxrl_envs.shared.display import svg

TITLE = "Squad battle"
ABOUT = "Lead your squads over the map, hold the objectives, and shoot and charge what stands in the way."
_CELL, _ROWS, _COLS = 17.0, 10, 18
_UNITS: tuple[tuple[int, tuple[Cell, ...]], ...] = (  # side and cells, the anchor first
    (0, ((2, 3), (1, 2), (3, 2), (2, 1), (1, 3))),
    (0, ((7, 5), (6, 4), (7, 4), (8, 4), (8, 5))),
    (1, ((3, 13), (2, 14), (3, 14), (4, 14), (2, 13))),
    (1, ((7, 12), (8, 13), (7, 13))),
)


def picture() -> str:
    """Squads around an objective, as SVG."""
    width, height = _CELL * _COLS, _CELL * _ROWS
    layout = Layout(_CELL, 0, 0, width, height, (width, height))
    ground = Ground(_ROWS, _COLS, ((1, 8, 1, 10), (8, 8, 8, 9)), ((3, 5, 4, 6),), 4)
    marker = Marker(5, 9, 2, (0, 0), None)
    squads = [
        Squad(side, number % 2, "", len(cells), 1, 1, 6, cells, 1, frozenset())
        for number, (side, cells) in enumerate(_UNITS)
    ]
    board = [defs(layout), draw_board(layout, ground, 0), draw_marker(layout, marker, 0, None)]
    return svg.document(width, height, [*board, draw_terrain(layout, ground), *draw_squads(layout, squads)])
