"""A decision of Forge: the daemon's line with the seat's view and the questions that lead to an answer."""

from __future__ import annotations

import numpy as np

from jaxrl_envs.forge import layout
from jaxrl_envs.forge.encoding.facts import Facts
from jaxrl_envs.forge.encoding.observation import observe
from jaxrl_envs.forge.encoding.question import Question
from jaxrl_envs.forge.encoding.view import DecisionView
from jaxrl_envs.forge.wire.link import parsed


class ForgeDecision(Question):
    """One decision: its small questions one after the other, and in the end the answer.

    Attributes:
      line: the JSON.
    """

    def __init__(self, line: str | bytes, facts: Facts | None = None):
        """Reads a line.

        Args:
          line: JSON in UTF-8, with or without "DECISION:" before it; also of an INFO line that reports a decision.
          facts: facts told of the game's cards before; they keep which of them the seat has seen.

        Raises:
          ValueError: it is no decision.
        """
        line = line.encode() if isinstance(line, str) else line
        self.line = line.removeprefix(b"DECISION:").removeprefix(b"INFO:")
        try:
            fields = parsed(self.line)
        except ValueError as error:
            raise ValueError("this line is no decision") from error
        super().__init__(DecisionView(fields, facts))
        self._wanted: list[int] = []  # actions that lead to an observed choice, see `aim`
        self._paired: dict[int, int] | None = None  # or what attacks or is blocked, by the daemon's numbers

    @property
    def seat(self) -> int:
        """The seat that is asked."""
        return self.view.seat

    @property
    def id(self) -> int:
        """The daemon's number of the decision, -1 if it has no number."""
        number = self.view.decision.get("decision_id")
        return number if type(number) is int else -1

    @property
    def type(self) -> str:
        """The name of its type, "" of one that we do not know."""
        return layout.TYPES[self.number] if self.number >= 0 else ""

    def observe(self) -> np.ndarray:
        """f32[F], of the seat that is asked."""
        return observe(self.view, self)

    # ---- towards a recorded choice ----------------------------------------------------------------------------------

    def aim(self, choice: str | None) -> bool:
        """Returns whether `choice`, an answer line or None, can be reached; `wanted` then leads to it."""
        self._wanted, self._paired = [], None
        try:
            self._aim(choice)
        except (AttributeError, ValueError):  # "ai", None, or an option that is not offered
            return False
        return True

    def _aim(self, choice: str | None) -> None:
        if not self.type or self.ask_ai or choice is None:
            raise ValueError
        numbers = [text.split(":") for text in choice.split(",")] if choice else []
        if self.type in ("confirm_action", "play_trigger", "mulligan"):
            self._wanted = ["ny".index(choice)]
        elif self.type == "announce_value":
            self._wanted = [int(choice) - self.first]
        elif self.type in ("declare_attackers", "declare_blockers"):
            self._paired = {int(pair[0]): int(pair[1]) if len(pair) > 1 else 0 for pair in numbers}
            if len(self._paired) != len(numbers):
                raise ValueError
        elif self.type == "choose_color":
            self._wanted = [self._place(int(choice))]
        elif self.type in ("choose_action", "choose_ability", "choose_entity"):
            self._wanted = [1 + self._place(int(choice)) if int(choice) >= 0 else 0]
        else:
            places = [self._place(int(number[0])) for number in numbers]
            self._wanted = [1 + place for place in (places if self.type == "order" else sorted(places))] + [0]

    def _place(self, number: int) -> int:
        """Returns the place of the option with the daemon's number, or of an equal one. Raises ValueError: none."""
        return [number in numbers for numbers in self.numbers].index(True)

    def wanted(self) -> int:
        """Returns the next action towards the choice, -1 if no legal actions lead to it."""
        if self._paired is None:
            action = self._wanted[len(self.picks)]
        else:
            attacker_or_blocker, goals = self.pairing()
            goal = self._paired.get(attacker_or_blocker, -1)
            action = 0 if goal < 0 else 1 + goals.index(goal) if goal in goals else -1
        return action if self.allows(action) else -1
