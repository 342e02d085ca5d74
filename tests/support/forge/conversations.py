"""Conversations with Forge's daemon for tests, made up or recorded in tests/golden/forge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from jaxrl_envs.forge.recordings.recording import Conversation
from tests.support.paths import GOLDEN

RECORDED = GOLDEN / "forge"
OWN = Path(__file__).parent / "decks"
"""Decks of rare rules."""


def decision(number: int, seat: int, note: str = "") -> bytes:
    """Returns a DECISION line with little in it."""
    fields = {
        "decision_type": "choose_action",
        "decision_id": number,
        "player": f"Agent({seat + 1})-{'ab'[seat]}",
        "seat": seat,
        "turn": 1 + number // 4,
        "phase": "MAIN1",
        "actions": [{"index": 0, "description": note, "card": "Plains", "card_id": number, "is_land": True}],
        "game_state": {"turn": 1, "phase": "MAIN1", "you": seat},
    }
    return b"DECISION:" + json.dumps(fields, separators=(",", ":")).encode()


def made_up(
    decks: Sequence[str] = ("a", "b"), seed: int = 1, decisions: int = 10, options: str = "-i -a", note: str = ""
) -> Conversation:
    """Returns a game of `decisions` decisions, the seats in turn, answered 0, 1, 2, 0, ..."""
    lines = [f"> NEWGAME {' '.join(decks)} {options} -s {seed}".encode()]
    lines += [f"< GAME_START: {decks[0]} vs {decks[1]}".encode(), f"< SEED: {seed}".encode()]
    for number in range(decisions):
        lines += [b"< " + decision(number + 1, number % 2, f"{note}{seed}"), f"> {number % 3}".encode()]
    lines.append(f"< GAME_RESULT: Agent(1)-{decks[0]} won in 3ms".encode())
    return Conversation({"forge": "1.0", "decks": list(decks), "seed": seed, "options": options}, lines, True)
