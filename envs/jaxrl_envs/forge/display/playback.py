"""Playback of recorded games of Magic as text, see `jaxrl_envs.shared.display.playback`.

A frame is a decision: the table as the recorded seats saw it, and the lines of the narration up to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl_envs.forge.display import terminal
from jaxrl_envs.forge.display.narration import Narrator
from jaxrl_envs.forge.recordings import recording
from jaxrl_envs.forge.recordings.recording import Conversation
from jaxrl_envs.shared.display.playback import Playback, PlaybackMoment
from jaxrl_envs.shared.errors import UserError

Json = dict[str, Any]
SUFFIXES = dict.fromkeys(recording.SUFFIXES, "a game of Magic")
MOST = 20_000  # decisions of a game that are shown


def fits(name: str, first: Mapping[str, Any]) -> bool:
    """Returns whether a file is a recorded conversation with Forge's daemon, by its name."""
    return name.endswith(recording.SUFFIXES)


def games(path: Path) -> list[str]:
    """Returns titles of the games of a recording: decks, seed and result."""
    return [_title(conversation) for conversation in recording.read(path)]


def play(path: Path, number: int) -> Playback:
    """Returns the playback of one game of a recording, by its number from 0."""
    conversation = next(itertools.islice(recording.read(path), number, None), None)
    if conversation is None:
        raise UserError(f"{path.name} has no game {number}.")
    tables: list[str] = []
    lives: list[list[float]] = []
    moments: list[PlaybackMoment] = []
    narrator = Narrator()
    shown: list[Json | None] = [None, None]
    for line, answer in itertools.islice(conversation.decisions(), MOST):
        decision = recording.parsed(line)
        if len(decision.get("game_state", {}).get("players", ())) != 2:
            continue
        shown[decision["seat"]] = decision
        moments += _told(list(narrator.tell(decision, answer)), len(tables), decision["seat"])
        tables.append(_table(decision, tuple(shown), conversation.meta.get("seed")))
        lives.append([float(player["life"]) for player in decision["game_state"]["players"]])
    if not tables:
        raise UserError(f"{path.name}: no seat decides anything in this game.")
    end = conversation.result or "the recording breaks off here"
    moments.append(PlaybackMoment(len(tables) - 1, end, -1, "the end"))
    names = next(each for each in shown if each is not None)["game_state"]["players"]
    return Playback(
        title=_title(conversation),
        seats=[str(player["name"]) for player in sorted(names, key=lambda player: player["seat"])],
        view="text",
        frames=len(tables),
        picture=lambda frame: tables[frame],
        moments=moments,
        curves={"life": lives},
    )


def _told(lines: list[str], at: int, seat: int) -> list[PlaybackMoment]:
    """Lines of the narration as moments; the headline of a turn is marked on the timeline."""
    turns = [line.startswith("Turn ") for line in lines]
    marks = [line.partition(",")[0].lower() if turn else "" for line, turn in zip(lines, turns, strict=True)]
    return [PlaybackMoment(at, line.strip(), seat, mark) for line, mark in zip(lines, marks, strict=True)]


def _table(decision: Json, shown: tuple[Json | None, ...], seed: Any) -> str:
    turn, asked = decision["game_state"].get("turn", 0), decision["seat"]
    known = seed if isinstance(seed, int) else 0
    text = terminal.render_text(terminal.ForgePosition("running", None, asked, turn, known, shown, None))
    return f"{text}\n\n{decision.get('player', '?')} decides: {decision.get('decision_type', '?').replace('_', ' ')}"


def _title(conversation: Conversation) -> str:
    meta = conversation.meta
    decks = " against ".join(map(recording.deck_name, meta.get("decks", ()))) or "a game"
    return f"{decks}, seed {meta.get('seed', 'unknown')}: {conversation.result or 'not played to its end'}"
