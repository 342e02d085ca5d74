"""Draws boards of Pgx as text from the planes of an observation; Pgx itself draws SVG only."""

from __future__ import annotations

import numpy as np

from jaxrl_envs.shared.display.seats import whom

STONES = ("tic_tac_toe", "connect_four", "othello", "hex", "go_9x9", "go_19x19")  # planes: own stones, the other's
PIECES = ("chess", "gardner_chess")  # planes: own pawn, knight, ..., then the other's
OPEN = (*STONES, *PIECES, "2048", "animal_shogi", "backgammon", "shogi")  # games of perfect information
COLUMNS = "abcdefghijklmnopqrstuvwxyz"
COLOURS = {r"\bX\b": "bold blue", r"\bO\b": "bold red"}


def board_text(name: str, observation: np.ndarray, seat: int, you: int | None) -> str:
    """Returns the board as `seat` sees it: its own planes come first in `observation` [rows, columns, planes].

    Args:
      name: name of the game.
      observation: the seat's observation.
      seat: the seat that observes.
      you: the viewer's seat, None for a spectator.

    Raises:
      NotImplementedError: the game has no such board.
    """
    planes = np.asarray(observation)
    if name in STONES:
        marks, legend = ("XO", "OX")[seat], f"X: {whom(0, you)}, O: {whom(1, you)}"
    elif name in PIECES:
        marks, legend = "PNBRQKpnbrqk", f"{whom(seat, you)}: PNBRQK, {whom(1 - seat, you)}: pnbrqk"
    elif name == "2048":
        return "\n".join(" ".join(f"{2**k if k else '.':>5}" for k in row) for row in planes.argmax(axis=-1))
    elif name.startswith("minatar"):
        marks, legend = COLUMNS[: planes.shape[-1]], "a letter is a plane of the observation"
    else:
        raise NotImplementedError(f"pgx:{name} has no text rendering")
    planes = planes[:, :, : len(marks)]
    cells = [[marks[int(np.argmax(cell))] if cell.any() else "." for cell in row] for row in planes]
    width = len(str(len(cells)))
    head = [" " * width + " " + " ".join(column_name(name, i) for i in range(len(cells[0])))]
    slope = name == "hex"  # a row stands half a cell to the right of the one above
    rows = [f"{' ' * i * slope}{i + 1:>{width}} {' '.join(row)}" for i, row in enumerate(cells)]
    return "\n".join([*head, *rows, legend])


def place_name(name: str, action: int, size: int) -> str:
    """Returns the name of an action: a square of the board, "pass" or "swap"; its number in games without stones."""
    if name not in STONES:
        return str(action)
    if name == "connect_four":
        return f"column {column_name(name, action)}"
    if action == size * size:
        return "swap" if name == "hex" else "pass"
    return f"{column_name(name, action % size)}{action // size + 1}"


def column_name(name: str, column: int) -> str:
    """Names a column: a letter, or in Connect Four its number, which is that of the action."""
    return str(column) if name == "connect_four" else COLUMNS[column]
