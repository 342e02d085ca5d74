"""A slow and obvious twin of the encoder (`envs/jaxrl_envs/forge/engine/{question,observation}.pyx`), on plain JSON.

`Referee(decision)` asks one decision in micro-questions: `legal()` actions, `step(action)`, and in the end `answer`.
`referee.observe()` is f32[FEATURES]; `overview(decision)` the same for a seat that is not asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl_envs.forge import layout as at
from tests.jaxrl_envs.forge.referee.forge_facts import Told
from tests.jaxrl_envs.forge.referee.forge_view import View
from tests.jaxrl_envs.forge.referee.forge_words import LARGEST, ratio, sort, whole

MOST_OPTIONS = at.NUM_ACTIONS - 1
PICKS = 128  # picks, attackers and blockers at most
MERGED_ZONES = ("Library", "Hand")
ASKS_AI = "ai"

SETS = ("choose_targets", "choose_mode", "choose_cards", "scry")
YES_NO = ("confirm_action", "play_trigger", "mulligan")
LISTS = ("choose_ability", "choose_entity")


class Referee:
    """The micro-questions of one decision.

    Attributes:
      answer: the line to send, None while something is asked.
      cut: options that are not offered.
      unknown: the type of the decision is not one of ours.
    """

    def __init__(self, decision: dict[str, Any], told: Told | None = None):
        self.told = told or Told()
        self.decision, self.type, self.seat = decision, decision["decision_type"], decision["seat"]
        self.answer: str | None = None
        self.cut, self.unknown = 0, self.type not in at.TYPES
        self.picks: list[int] = []  # options; of attackers: 0 or 1 + defender; of blockers: -1 or the attacker
        self.options: list[dict[str, Any]] = []  # of equal ones the first
        self.numbers: list[list[int]] = []  # what each and its equals are called
        self.least, self.most, self.repeat = 0, 0, False
        if self.unknown:
            self.answer = ASKS_AI
            return
        self._read()
        self._settle()

    # ---- what is asked ----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        d = self.decision
        if self.type == "declare_attackers":
            self.cut += max(0, len(d["attackers"]) - PICKS)
            self.cut += sum(max(0, len(a["defenders"]) - MOST_OPTIONS) for a in d["attackers"][:PICKS])
        elif self.type == "declare_blockers":
            self.cut += max(0, len(d["blockers"]) - PICKS) + max(0, len(d["attackers"]) - PICKS)
            for blocker in d["blockers"][:PICKS]:
                self.cut += max(0, len(self._targets(blocker)) - MOST_OPTIONS)
        elif self.type == "announce_value":
            self.cut += max(0, self._span() - at.NUM_ACTIONS)
        elif self.type == "choose_action":
            self.options = d["actions"]
            self._cut_options()
        elif self.type not in YES_NO:
            self.options = d["options"]
            self._read_bounds()
            self._cut_options()

    def _read_bounds(self) -> None:
        count, self.repeat = len(self.options), bool(self.decision.get("repeat", False))
        if self.type == "scry":
            self.least, self.most = 0, count
        elif self.type in SETS:
            self.least, self.most = whole(self.decision.get("min")), whole(self.decision.get("max"), count)
        elif self.type == "order":
            self.least = self.most = count
        else:
            self.least = self.most = 1

    def _cut_options(self) -> None:
        """No more options than there are actions; equal ones are one."""
        view, kept, numbers, seen = View(self.decision), [], [], {}
        for place, option in enumerate(self.options):
            found = self._look(view, option)
            if found is not None:
                which, look = found
                number = 1  # the same card twice is two options
                while which >= 0 and which in seen.get((look, number), (0, ()))[1]:
                    number += 1
                if (look, number) in seen:
                    first, cards = seen[look, number]
                    numbers[first].append(option.get("index", place))
                    cards.add(which)
                    continue
                seen[look, number] = (len(kept), {which})
            kept.append(option)
            numbers.append([option.get("index", place)])
        self.cut += max(0, len(kept) - MOST_OPTIONS)
        self.options, self.numbers = kept[:MOST_OPTIONS], numbers[:MOST_OPTIONS]
        total = sum(len(each) for each in self.numbers)
        if not self.repeat:
            if self.type == "order" and self.cut or self.type in SETS and self.least > total and self.cut:
                self.answer = ASKS_AI
            self.most = min(self.most, total)
            self.least = min(self.least, self.most)
        self.most = min(self.most, PICKS)
        if self.type in (*LISTS, "choose_color") and not self.options and not self.decision.get("optional", False):
            self.answer = ASKS_AI

    def _look(self, view: View, option: dict[str, Any]) -> tuple[int, str] | None:
        """The card that an option is, and what it looks like; None: it is like no other one."""
        action, zone, name = self.type == "choose_action", option.get("zone", ""), option.get("name", "")
        if not action and option.get("kind") != "card":
            return None
        which = option.get("card_id", -1) if action else option.get("id", option.get("card_id", -1))
        row = view.row_of(view.find(which))
        if not row:
            return (which, repr((name, zone))) if zone in MERGED_ZONES and not action else None
        if not action:
            return which, repr((row, zone, whole(option.get("controller"), -1), name))
        texts = [option.get(key, "") for key in ("kind", "card", "mana_cost", "description")]
        return which, repr((row, option.get("is_land") is True, texts, whole(option.get("part"), -1)))

    def _span(self) -> int:
        return min(max(1, whole(self.decision.get("max"), self._first()) - self._first() + 1), LARGEST)

    def _first(self) -> int:
        return whole(self.decision.get("min"))

    def _targets(self, blocker: dict[str, Any]) -> list[int]:
        """The places of the attackers that it may block."""
        places = {attacker["index"]: place for place, attacker in reversed(list(enumerate(self._attackers())))}
        return [places[index] for index in blocker["can_block"] if index in places]

    def _attackers(self) -> list[dict[str, Any]]:
        return self.decision["attackers"][:PICKS]

    def _blockers(self) -> list[dict[str, Any]]:
        return self.decision["blockers"][:PICKS]

    def _assigned(self, attacker: int) -> int:
        return self.picks.count(attacker)

    # ---- what is legal ----------------------------------------------------------------------------------------------

    def legal(self) -> list[int]:
        """The legal actions, ascending; none once the decision is answered."""
        return [action for action in range(at.NUM_ACTIONS) if self.is_legal(action)] if self.answer is None else []

    def is_legal(self, action: int) -> bool:
        d, option = self.decision, action - 1
        if self.type in YES_NO:
            return action < 2
        if self.type == "announce_value":
            return action < self._span()
        if self.type == "choose_color":
            return action < len(self.options)
        if self.type == "declare_attackers":
            attacker = self._attackers()[len(self.picks)]
            count = min(len(attacker["defenders"]), MOST_OPTIONS)
            return action <= count if action else not (attacker["must"] and count)
        if self.type == "declare_blockers":
            return self._may_block(action)
        if self.type == "choose_action":
            return action <= len(self.options)
        if self.type in LISTS:
            return option < len(self.options) if action else bool(d.get("optional", False))
        if self.type == "order":
            return 0 <= option < len(self.options) and self.picks.count(option) < len(self.numbers[option])
        return self._may_pick(option) if action else len(self.picks) >= self.least

    def _may_block(self, action: int) -> bool:
        blocker = self._blockers()[len(self.picks)]
        targets = self._targets(blocker)[:MOST_OPTIONS]
        free = [self._room(attacker) for attacker in targets]
        if action == 0:
            return not (blocker["must"] and any(free))
        return action <= len(free) and free[action - 1]

    def _room(self, attacker: int) -> bool:
        most = self._attackers()[attacker].get("max_blockers", 0)
        return most <= 0 or self._assigned(attacker) < most

    def _may_pick(self, option: int) -> bool:
        """Picks come in ascending order, and enough options must be left for those that are still to come."""
        count, last = len(self.options), self.picks[-1] if self.picks else -1
        if option >= count or len(self.picks) >= self.most:
            return False
        if self.repeat:
            return option >= last
        done = self.picks.count(option)
        left = sum(len(each) for each in self.numbers[option:]) - done - 1
        return option >= last and done < len(self.numbers[option]) and left >= self.least - len(self.picks) - 1

    # ---- answering --------------------------------------------------------------------------------------------------

    def step(self, action: int) -> None:
        """Takes a legal action, and all that follow without a choice."""
        assert self.answer is None and self.is_legal(action), action
        self._take(action)
        self._settle()

    def _settle(self) -> None:
        while self.answer is None:
            if self._complete():
                self.answer = self._compose()
                return
            legal = self.legal()
            if not legal:  # a question that cannot be answered
                self.answer = ASKS_AI
            if len(legal) != 1:
                return
            self._take(legal[0])

    def _take(self, action: int) -> None:
        if self.type in YES_NO:
            self.answer = "ny"[action]
        elif self.type == "announce_value":
            self.answer = str(self._first() + action)
        elif self.type == "choose_color":
            self.answer = str(self._index(action))
        elif self.type in ("choose_action", *LISTS):
            self.answer = str(self._index(action - 1)) if action else "-1"
        elif self.type == "declare_attackers":
            self.picks.append(action)
        elif self.type == "declare_blockers":
            blocker = self._blockers()[len(self.picks)]
            self.picks.append(self._targets(blocker)[action - 1] if action else -1)
        elif action == 0:
            self.answer = self._compose()
        else:
            self.picks.append(action - 1)

    def _complete(self) -> bool:
        if self.type == "declare_attackers":
            return len(self.picks) == len(self._attackers())
        if self.type == "declare_blockers":
            return len(self.picks) == len(self._blockers())
        return (self.type in SETS or self.type == "order") and len(self.picks) >= self.most

    def _index(self, option: int, equal: int = 0) -> int:
        return self.numbers[option][equal]

    def _compose(self) -> str:
        if self.type == "declare_attackers":
            attacking = [(a, pick - 1) for a, pick in zip(self._attackers(), self.picks, strict=True) if pick]
            return ",".join(f"{a['index']}:{a['defenders'][d].get('index', d)}" for a, d in attacking)
        if self.type == "declare_blockers":
            attackers, pairs = self._attackers(), []
            for blocker, pick in zip(self._blockers(), self.picks, strict=True):
                if pick >= 0 and self._assigned(pick) >= attackers[pick].get("min_blockers", 0):
                    pairs.append(f"{blocker['index']}:{attackers[pick]['index']}")
            return ",".join(pairs)
        before = [0 if self.repeat else self.picks[:place].count(pick) for place, pick in enumerate(self.picks)]
        return ",".join(str(self._index(pick, equal)) for pick, equal in zip(self.picks, before, strict=True))

    # ---- what is seen -----------------------------------------------------------------------------------------------

    def observe(self) -> np.ndarray:
        """f32[FEATURES] for the seat that is asked."""
        view = View(self.decision, self.told)
        if self.answer is None:
            self._observe_question(view)
        return view.arrays()

    def _observe_question(self, view: View) -> None:
        legal, d, out = self.legal(), self.decision, view.globals
        out[at.ASKED] = 2 if d.get("for") == 1 - d["seat"] else 1
        out[at.FIRST_TYPE + at.TYPES.index(self.type)] = 1
        if self.type in SETS or self.type == "order":
            out[at.CHOSEN] = ratio(len(self.picks), 8)
            out[at.LEAST], out[at.MOST] = ratio(self.least, 8), ratio(self.most, 8)
        out[at.CHOICES] = ratio(len(legal), 16)
        out[at.CAN_STOP] = 0 in legal and self._has_stop()
        if self.type == "declare_attackers":
            out[at.PROGRESS] = ratio(len(self.picks), len(self._attackers()))
        if self.type == "declare_blockers":
            out[at.PROGRESS] = ratio(len(self.picks), len(self._blockers()))
        out[at.TO_GRAVEYARD] = self.type == "scry" and d.get("bottom") == "graveyard"
        out[at.MULLIGANS] = ratio(d.get("mulligans", 0), 4) if self.type == "mulligan" else 0
        self._write_options(view)
        for row in legal:
            entity = int(view.options[row, at.OPTION_ENTITY])
            if entity:
                view.entities[entity - 1, at.OFFERED] = 1
        self._mark_picked(view)
        self._show_subject(view)

    def _has_stop(self) -> bool:
        return self.type not in ("announce_value", "choose_color")

    def _write_options(self, view: View) -> None:
        """What each action is about."""
        rows, has_stop = view.options, self._has_stop()
        stops = self.decision.get("optional", False) if self.type == "choose_entity" else has_stop
        if stops and self.type not in ("choose_ability", "order"):
            rows[0, at.SORT] = sort("stop")
        if self.type in YES_NO:
            rows[1, at.SORT] = sort("yes")
            rows[1, at.OPTION_KIND] = view.tables.kind(view.text(self.decision.get("message", "")))
        elif self.type == "announce_value":
            about = self.decision.get("about", {})
            for i in range(min(self._span(), at.NUM_ACTIONS)):
                rows[i, at.SORT], rows[i, at.NUMBER] = sort("number"), ratio(self._first() + i, 10)
                rows[i, at.OPTION_ENTITY] = view.row_of(view.find(about.get("card_id")))
                rows[i, at.ME], rows[i, at.THEM] = about.get("player") == view.me, about.get("player") == 1 - view.me
        elif self.type == "declare_attackers":
            for row, defender in enumerate(self._attackers()[len(self.picks)]["defenders"][:MOST_OPTIONS], 1):
                view.write_option(rows[row], defender)
        elif self.type == "declare_blockers":
            for row, place in enumerate(self._targets(self._blockers()[len(self.picks)])[:MOST_OPTIONS], 1):
                attacker = self._attackers()[place]
                view.write_card(rows[row], attacker["card_id"], attacker.get("name", ""))
                rows[row, at.TAKEN] = ratio(self._assigned(place), 2)
        else:
            for place, option in enumerate(self.options):
                row = rows[place + has_stop]
                (view.write_action if self.type == "choose_action" else view.write_option)(row, option)
                row[at.OPTION_COUNT] = ratio(len(self.numbers[place]), 4)
            for pick in self.picks:
                rows[1 + pick, at.TAKEN] = ratio(self.picks.count(pick), 2)

    def _mark_picked(self, view: View) -> None:
        if self.type == "declare_attackers":
            for attacker, pick in zip(self._attackers(), self.picks, strict=False):
                view.mark(view.find(attacker["card_id"]), at.PICKED, 0.5 if pick else 0.0)
        elif self.type == "declare_blockers":
            for blocker, pick in zip(self._blockers(), self.picks, strict=False):
                view.mark(view.find(blocker["card_id"]), at.PICKED, 0.5 if pick >= 0 else 0.0)
            for place, attacker in enumerate(self._attackers()):
                view.mark(view.find(attacker["card_id"]), at.PICKED, ratio(self._assigned(place), 2))
        else:
            for pick in self.picks:
                entity = int(view.options[1 + pick, at.OPTION_ENTITY])
                if entity:
                    row = view.entities[entity - 1]
                    row[at.PICKED] = min(row[at.PICKED] + 0.5, at.LIMIT)

    def _show_subject(self, view: View) -> None:
        if self.type == "declare_attackers":
            asked = self._attackers()[len(self.picks)]
            view.show_subject(asked["card_id"], asked.get("name", ""))
        elif self.type == "declare_blockers":
            asked = self._blockers()[len(self.picks)]
            view.show_subject(asked["card_id"], asked.get("name", ""))
        elif isinstance(self.decision.get("source"), dict):
            source = self.decision["source"]
            view.show_subject(source.get("card_id", -1), source.get("name", ""))
        elif self.decision.get("message") or self.decision.get("name"):
            view.show_text(self.decision.get("message") or self.decision.get("name"))


def overview(decision: dict[str, Any], told: Told | None = None) -> np.ndarray:
    """f32[FEATURES] for a seat that is not asked: its last decision, without the question."""
    return View(decision, told).arrays()
