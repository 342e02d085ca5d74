"""Records the conversations of tests/golden/forge from a real daemon: `FORGE_HOME=... python -m
tests.support.forge.fixtures`, needed again whenever the daemon says something else.

Rules texts are the publisher's: whatever is longer than a few words is replaced by a mark that is the same for the
same text.
"""

from __future__ import annotations

import itertools
import json
import random
import zlib
from collections.abc import Callable
from typing import Any

from jaxrl_envs.forge.fleet.find import DECKS
from jaxrl_envs.forge.fleet.fleet import Fleet
from jaxrl_envs.forge.recordings import record_ai
from jaxrl_envs.forge.recordings.recording import Conversation, Writer
from jaxrl_envs.forge.settings import Deployment
from tests.support.forge.conversations import RECORDED

WORDS = {"description": 2, "message": 2, "keywords": 3}  # a text of at most this many words is not the publisher's
SECONDS = 300.0
Answer = Callable[[dict[str, Any]], str]


# ---- answers --------------------------------------------------------------------------------------------------------


class RandomPlayer:
    """Any usable answer."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)

    def __call__(self, decision: dict[str, Any]) -> str:
        return getattr(self, decision["decision_type"])(decision)

    def choose_action(self, decision: dict[str, Any]) -> str:
        return str(self.draw.choice([-1, *range(len(decision["actions"])), *range(len(decision["actions"]))]))

    def _some(self, decision: dict[str, Any]) -> str:
        count = len(decision["options"])
        if decision.get("repeat"):
            return ",".join(map(str, self.draw.choices(range(count), k=decision["max"])))
        least, most = decision.get("min", 0), min(decision.get("max", count), count)
        return ",".join(map(str, sorted(self.draw.sample(range(count), self.draw.randint(least, most)))))

    def _one(self, decision: dict[str, Any]) -> str:
        return str(self.draw.randrange(-1 if decision.get("optional") else 0, len(decision["options"])))

    def _yes_or_no(self, decision: dict[str, Any]) -> str:
        return self.draw.choice("yn")

    choose_targets = choose_mode = choose_cards = scry = _some
    choose_ability = choose_entity = choose_color = _one
    confirm_action = play_trigger = mulligan = _yes_or_no

    def announce_value(self, decision: dict[str, Any]) -> str:
        return str(self.draw.randint(decision["min"], min(decision["max"], decision["min"] + 10)))

    def order(self, decision: dict[str, Any]) -> str:
        places = list(range(len(decision["options"])))
        self.draw.shuffle(places)
        return ",".join(map(str, places))

    def declare_attackers(self, decision: dict[str, Any]) -> str:
        return ",".join(
            f"{each['index']}:{self.draw.randrange(len(each['defenders']))}"
            for each in decision["attackers"]
            if each["must"] or self.draw.random() < 0.6
        )

    def declare_blockers(self, decision: dict[str, Any]) -> str:
        chosen = [
            (each["index"], self.draw.choice(each["can_block"]))
            for each in decision["blockers"]
            if each["can_block"] and (each["must"] or self.draw.random() < 0.5)
        ]
        for attacker in decision["attackers"]:
            own = [block for block in chosen if block[1] == attacker["index"]]
            if len(own) < attacker["min_blockers"]:
                chosen = [block for block in chosen if block not in own]
            elif attacker["max_blockers"]:
                chosen = [block for block in chosen if block not in own[attacker["max_blockers"] :]]
        return ",".join(f"{blocker}:{attacker}" for blocker, attacker in chosen)


def sometimes(player: RandomPlayer, other: str, when: Callable[[dict[str, Any]], bool]) -> Answer:
    """Returns a player who says something else in some decisions."""
    return lambda decision: other if when(decision) else player(decision)


# ---- conversations --------------------------------------------------------------------------------------------------


def converse(fleet: Fleet, command: str, answer: Answer, strip: bool = True) -> Conversation:
    """Plays one game; `strip`: gives it back without rules texts."""
    found = record_ai.play(fleet, command, SECONDS, answer)
    return stripped(found) if strip else found


def stripped(conversation: Conversation) -> Conversation:
    """Returns a conversation without rules texts."""
    lines = []
    for line in conversation.lines:
        for head in (b"< DECISION:", b"< INFO:"):
            if line.startswith(head):
                fields = without_texts(json.loads(line[len(head) :]))
                line = head + json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
        lines.append(line)
    return conversation._replace(lines=lines)


def without_texts(value: Any, key: str = "") -> Any:
    """Returns a JSON value with marks instead of texts."""
    if isinstance(value, dict):
        return {name: without_texts(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [without_texts(each, key) for each in value]
    if isinstance(value, str) and len(value.split()) > WORDS.get(key, 99):
        return f"~{zlib.crc32(value.encode()):08x}"
    return value


def plan() -> dict[str, list[tuple[str, Callable[[int], Answer]]]]:
    """Returns the files, and for each of its games the command and who answers."""
    decks = sorted(path.stem for path in DECKS.glob("*.dck"))
    turned = [*decks[1:], decks[0]]
    pairs = [*zip(decks, turned, strict=True), *zip(turned, decks, strict=True)]
    aggro, control = "aggro", "counterspells"
    every = itertools.count()
    return {
        "both_seats": [(f"NEWGAME {a} {b} -i -a", RandomPlayer) for a, b in pairs],
        "every_pass": [(f"NEWGAME {aggro} {control} -i", RandomPlayer)],
        "against_ai": [(f"NEWGAME {aggro} {control} -p {seat} -a", RandomPlayer) for seat in (1, 2)],
        "mulligans": [(f"NEWGAME {control} {aggro} -i -a -m", RandomPlayer)],
        "observed": [(f"NEWGAME {a} {b} -o -a", RandomPlayer) for a, b in pairs[:2]],
        "handed_over": [
            (
                f"NEWGAME {aggro} {control} -i -a -A Reckless,Cautious",
                lambda seed: sometimes(RandomPlayer(seed), "ai", lambda decision: decision["decision_id"] % 3 == 0),
            ),
            (
                f"NEWGAME {control} {aggro} -i -a",
                lambda seed: sometimes(
                    RandomPlayer(seed), "ai! Cautious", lambda decision: decision["seat"] == 1 and decision["turn"] > 4
                ),
            ),
        ],
        "refused": [
            (
                f"NEWGAME {aggro} {control} -i -a",
                lambda seed: sometimes(RandomPlayer(seed), "nonsense", lambda decision: next(every) % 7 == 3),
            )
        ],
    }


def main() -> None:
    """Records everything again."""
    with Fleet(Deployment(daemons=1)) as fleet:
        for number, (name, games) in enumerate(plan().items()):
            with Writer(RECORDED / f"{name}.forge.gz") as writer:
                for game, (command, player) in enumerate(games):
                    seed = 1 + 100 * number + game
                    writer.copy(converse(fleet, f"{command} -s {seed}", player(seed)))


if __name__ == "__main__":
    main()
