"""Demonstrations from recorded games: questions with the answer that Forge's AI advised or the player chose."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jaxrl_envs.forge import layout
from jaxrl_envs.forge.encoding.facts import Facts
from jaxrl_envs.forge.engine.decision import ForgeDecision
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.host.game import Demonstrations
from jaxrl_envs.shared.errors import UserError

_WINNER = re.compile(r"(?:Agent|Ai)\(([12])\)-")
Asked = list[tuple[np.ndarray, np.ndarray, int, int, int]]


def read(path: Path) -> Iterator[Demonstrations]:
    """Yields the games of a recording; a question whose answer cannot be said in actions is left out.

    Raises:
      UserError: the file is no recording.
    """
    for conversation in recording.read(path):
        asked: Asked = []
        facts = Facts()
        for line, choice in conversation.decisions(facts.hear):
            label = recording.parsed(line).get("advice", choice) if b'"advice":' in line else choice
            asked += answered(_decision(path, line, facts), label)
        yield Demonstrations(
            observation=np.array([each[0] for each in asked], np.float32).reshape(-1, layout.FEATURES),
            mask=np.array([each[1] for each in asked], np.bool_).reshape(-1, layout.NUM_ACTIONS),
            action=np.array([each[2] for each in asked], np.int32),
            seat=np.array([each[3] for each in asked], np.int32),
            kind=np.array([each[4] for each in asked], np.int32),
            result=result_of(conversation),
        )


def _decision(path: Path, line: bytes, facts: Facts) -> ForgeDecision:
    try:
        return ForgeDecision(line, facts)
    except ValueError:
        begin = line[:60].decode(errors="replace")
        raise UserError(f"{path}: a recorded decision is damaged ({begin!r}); leave the file out.") from None


def answered(question: ForgeDecision, choice: str | None) -> Asked:
    """(observation, mask, action, seat, kind) of the questions that lead to a choice; [] if no actions lead to it."""
    asked: Asked = []
    if not question.aim(choice):
        return asked
    while not question.answered:
        action = question.wanted()
        if action < 0:
            return []
        asked.append((question.observe(), question.mask(), action, question.seat, question.number))
        question.step(action)
    return asked


def result_of(conversation: recording.Conversation) -> np.ndarray:
    """f32[2]: 1 and -1, or 0 each; not a number if the game has not ended by its rules."""
    cut = any(line.startswith((b"< GAME_TIMEOUT", b"< GAME_ERROR")) for line in conversation.lines[-3:])
    if cut or not conversation.complete:
        return np.full(2, math.nan, np.float32)
    winner = _WINNER.match(conversation.result)
    if winner is None:
        return np.zeros(2, np.float32)
    return np.array([1, -1] if winner[1] == "1" else [-1, 1], np.float32)
