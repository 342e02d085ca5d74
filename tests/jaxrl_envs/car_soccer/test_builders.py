"""docs/games/car_soccer_parts.md lists all that a user of car soccer may compose, in the words of the docstrings.

After a change its tables are made again: python -m tests.jaxrl_envs.car_soccer.test_builders
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jaxrl.config import load
from jaxrl_envs.car_soccer import actions, bots
from jaxrl_envs.car_soccer.env import CarSoccer
from jaxrl_envs.car_soccer.rewards import compose
from jaxrl_envs.contract import registry
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "games" / "car_soccer_parts.md"


def said(part: Callable) -> str:
    """The first paragraph of a docstring, without the type or the verb that it may begin with."""
    first = " ".join((part.__doc__ or "").strip().split("\n\n")[0].split())
    told = first.removeprefix("bool[]: ").removeprefix("Returns ")
    return told if told == first.removeprefix("bool[]: ") else told[0].upper() + told[1:]


def rows(head: list[str], body: list[list[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def parts(table: Mapping[str, Callable]) -> str:
    return rows(["name", "is"], [[f"`{name}`", said(part)] for name, part in table.items()])


def rewards() -> str:
    """One line for every component."""
    body = []
    for name, part in compose.COMPONENTS.items():
        marks = ["per second"] * part.rate + ["teams"] * part.mates
        body.append([f"`{name}`", part.group, f"{part.weight:g}", ", ".join(marks), said(part.function)])
    return rows(["name", "group", "weight", "", "is"], body)


def modes() -> str:
    names = [name for name in compose.MODES if compose.MODES[name]]
    groups = {part.group for part in compose.COMPONENTS.values()}
    body = [[group, *(compose.MODES[name].get(group, 0.0) for name in names)] for group in sorted(groups)]
    return rows(["group", *names], body)


def page() -> str:
    """The page as it should be: its own words with the tables made again."""
    told = registry.options_of("car_soccer")["actions"].doc
    made = {
        "## State setters (`setters`, by weight)": parts(CarSoccer.SETTERS),
        "## Observations (`observation`)": parts(CarSoccer.OBSERVATIONS),
        "## Parts that follow the observation (`extras`)": parts(CarSoccer.EXTRAS),
        "## Actions (`actions`)": "".join(f"- `{n}`: {words}\n" for n, words in re.findall(r"(\w+) \((.*?)\)", told)),
        "## Terminations (`terminations`)": parts(CarSoccer.TERMINATIONS),
        "## Truncations (`truncations`, with seconds)": parts(CarSoccer.TRUNCATIONS),
        "## Bots (`seats`, `league`, `evaluate.opponents`)": parts({"random": CarSoccer.random_action, **bots.DRIVERS}),
        "Factors of the groups in each mode:": modes(),
        "components, with their weights in mode `dense` before its factors:": rewards(),
    }
    text = re.sub(r"\d+(?= components, with)", str(len(compose.COMPONENTS)), PAGE.read_text(encoding="utf-8"))
    for head, table in made.items():
        before, _, after = text.partition(f"{head}\n\n")
        text = f"{before}{head}\n\n{table}" + "\n".join(["", *after.split("\n\n", 1)[1:]])
    return text


def test_the_page_lists_everything_in_its_own_words():
    assert PAGE.read_text(encoding="utf-8") == page(), __doc__
    assert all(f"- `{name}`: " in page() for name in actions.ALLOWED)


def test_everything_says_what_it_is():
    tables = [CarSoccer.SETTERS, CarSoccer.OBSERVATIONS, CarSoccer.EXTRAS, CarSoccer.TERMINATIONS, bots.DRIVERS]
    parts = [part for table in tables for part in table.values()]
    parts += [part.function for part in compose.COMPONENTS.values()]
    assert len(parts) > 80 and all(len(said(part)) > 5 for part in parts)


def test_the_shown_configurations_are_understood(tmp_path):
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.yaml"
        file.write_text(f"base: car_soccer\n{block}")
        config = load(file)
        assert CarSoccer(**config.env.options).reward.names and len(config.curriculum) == 2 * number


def test_what_users_of_rlgym_are_told_exists():
    """The right column of its tables names options and parts; the rest is listed here."""
    text = (ROOT / "docs" / "start" / "coming_from.md").read_text(encoding="utf-8")
    lines = text.split("## RLGym\n")[1].split("\n## ")[0].splitlines()
    cells = [line.split("|")[2] for line in lines if line.startswith("| `")]
    words = {
        word for cell in cells for code in re.findall(r"`([^`]*)`", cell) for word in re.findall(r"[A-Za-z_]+", code)
    }
    tables = [
        CarSoccer.SETTERS,
        CarSoccer.OBSERVATIONS,
        CarSoccer.EXTRAS,
        CarSoccer.TERMINATIONS,
        CarSoccer.TRUNCATIONS,
    ]
    known = {name for table in tables for name in table} | set(compose.COMPONENTS) | set(actions.ALLOWED)
    known |= set(registry.options_of("car_soccer"))
    others = (
        "jaxrl jaxrl_envs car_soccer simulators rlgym RLGym reset step evaluate simulator rocketsim curriculum true a b"
    )
    assert len(cells) > 35 and words - known <= {*others.split(), "reward_NAME", "zero_padding"}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
