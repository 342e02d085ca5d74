"""Made-up lines of a Forge daemon, of the form and size of real ones, and other ends for links, for tests."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import time

import pytest

from jaxrl_envs.forge.wire.link import LinkError

WORDS = "creature target deals damage draw a card whenever end of turn you may pay until Elf — Æther “flash”".split()
KEYWORDS = ("Flying", "Trample", "First Strike", "Haste", "Vigilance", "Lifelink")


def sentence(draw: random.Random, words: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(words)) + ".\n"


def card(draw: random.Random, number: int, battlefield: bool) -> dict:
    fields = {
        "id": number,
        "name": sentence(draw, 2).strip(".\n").title(),
        "mana_cost": draw.choice(("{1}{G}", "{R}", "{2}{W}{U}", "")),
        "cmc": draw.randrange(6),
        "types": draw.choice(("Creature Elf Druid", "Basic Land Forest", "Instant")),
        "keywords": draw.sample(KEYWORDS, draw.randrange(3)),
        "owner": draw.randrange(2),
        "colors": draw.choice(("G", "WU", "")),
    }
    if fields["types"].startswith("Creature"):
        fields |= {"power": draw.randrange(5), "toughness": draw.randrange(1, 6)}
    if battlefield:
        fields |= {"tapped": draw.random() < 0.5, "summoning_sick": False, "damage": 0, "counters": {"P1P1": 1}}
        fields |= {"attachments": [], "attached_to": -1, "token": False}
    return fields


def decision(draw: random.Random, number: int) -> dict:
    """A choose_action of about 7 KB."""
    players = []
    for seat in (0, 1):
        player: dict = {"seat": seat, "name": f"Agent({seat + 1})-aggro", "life": draw.randrange(1, 21), "poison": 0}
        if seat == 0:
            player["hand"] = [card(draw, 10 + i, False) for i in range(4)]
        player |= {"hand_size": 4, "library_size": 40}
        player["battlefield"] = [card(draw, 100 * seat + 50 + i, True) for i in range(7)]
        player["graveyard"] = [card(draw, 100 * seat + 80 + i, False) for i in range(4)]
        players.append(player | {"exile": [], "mana_pool": "GG", "lands_played": 1, "energy": 0})
    actions = [
        {"index": i, "description": sentence(draw, 12), "card": "Some Card", "card_id": 10 + i}
        | {"mana_cost": "{1}{G}", "is_land": False, "kind": "spell"}
        for i in range(6)
    ]
    asked = {"decision_type": "choose_action", "decision_id": number, "player": "Agent(1)-aggro", "seat": 0, "turn": 7}
    state = {"turn": 7, "phase": "MAIN1", "active": 0, "priority": 0, "you": 0, "players": players, "stack": []}
    return asked | {"phase": "MAIN1", "actions": actions, "game_state": state | {"combat": []}}


def decisions(count: int, seed: int = 0) -> list[bytes]:
    """Decisions as JSON in UTF-8, without the prefix and the end of line."""
    draw = random.Random(seed)
    return [json.dumps(decision(draw, i + 1), separators=(",", ":"), ensure_ascii=False).encode() for i in range(count)]


@contextlib.contextmanager
def server(serve, connections=1):
    """The port of a server that treats each connection by serve(socket), in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=max(connections, 5))
    listener.settimeout(20)

    def treat(connection):
        with connection, contextlib.suppress(OSError):
            serve(connection)

    def accept():
        for _ in range(connections):
            threading.Thread(target=treat, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    with listener:
        yield listener.getsockname()[1]
        thread.join()


def later(seconds, function, *arguments):
    thread = threading.Timer(seconds, function, arguments)
    thread.start()
    return thread


def failure(link, timeout=5.0):
    with pytest.raises(LinkError) as caught:
        link.receive_line(timeout)
    return caught.value.kind


def settle(condition):
    """Waits for what another thread does in its own time."""
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()
