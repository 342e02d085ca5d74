"""docs/games/car_soccer_parts.md lists all that a user of car soccer may compose, in the words of the docstrings.

After a change: python -m tests.jaxrl_envs.car_soccer.test_builders > docs/games/car_soccer_parts.md
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

HEAD = """\
# Car soccer: what can be composed

Everything below is chosen by name under `env.options` (`jaxrl config --env car_soccer` explains all options) and is a
pure function: setters of a key and the scene; views, conditions and bots of the game; rewards of one decision, which
is the game before and after it and what happened. A subclass of `CarSoccer` with larger tables has parts of its own:

```python
class Mine(CarSoccer):
    REWARDS = {**CarSoccer.REWARDS, "upside_down": Component(upside_down, "mechanics", 0.1, rate=True)}
```
"""

REWARDS = """\
`reward_mode` gives every group of components a factor, `rewards` sets single weights in their place (0 leaves one out),
and `reward_mode: listed` pays those alone. Weights of what lasts are per second, those of events are paid once, and
`factors` multiply all in overtime, close matches and for who is behind. What a car earns by itself in a decision is cut
to `reward_clip`, then `team_spirit` and `zero_sum` exchange it. Each component's share in the return is a figure
`reward_NAME` in logs and evaluations, and `reward_clipped` is how much the cut has taken off in an episode, whatever
its sign: where that is not near 0, components that are large, alone or together, count for less than their weights say,
and `jaxrl bench --without` finds them worth less. Raise `reward_clip` then, or lower the weights.

**Annealing.** Weights may change while a policy learns, and nothing is compiled again: two values go from the first to
the second in a straight line, over the share `annealed_by` of the training; so do two modes. Evaluations pay as at the
end.

```yaml
env:
  options:
    reward_mode: [dense, sparse]                        # from all that leads to goals to goals alone
    rewards: {touch: [0.5, 0], goal: 10, approach: [0.5, 0]}
    annealed_by: 0.5                                    # done after half of the training
```

In steps, and by what is won, a curriculum changes them; each of its stages is compiled when the training comes to it:

```yaml
curriculum:
  - {name: touches, env.options.rewards: {touch: 0.5, approach: 0.5}, until: {steps: 20_000_000}}
  - {name: goals, env.options.rewards: {touch: 0, approach: 0}}
```

**Ablation.** What each weight is worth is measured by trainings without it, several seeds of each in one program, all
evaluated in the same game, and told with intervals over seeds. What was trained already is not trained again:

```bash
jaxrl bench car_soccer_shoot --without env.options.rewards --seeds 5
```
"""


def said(part: Callable) -> str:
    """The first paragraph of a docstring, without the type or the verb that it may begin with."""
    first = " ".join((part.__doc__ or "").strip().split("\n\n")[0].split())
    told = first.removeprefix("bool[]: ").removeprefix("Returns ")
    return told if told == first.removeprefix("bool[]: ") else told[0].upper() + told[1:]


def rows(head: list[str], body: list[list[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def listed(title: str, parts: Mapping[str, Callable], note: str = "") -> str:
    body = [[f"`{name}`", said(part)] for name, part in parts.items()]
    return f"## {title}\n\n{note}{rows(['name', 'is'], body)}"


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
    """The whole page as it should be."""
    told = registry.options_of("car_soccer")["actions"].doc
    sets = "".join(f"- `{name}`: {words}\n" for name, words in re.findall(r"(\w+) \((.*?)\)", told))
    players = {"random": CarSoccer.random_action, **bots.DRIVERS}
    parts = [
        HEAD,
        listed("State setters (`setters`, by weight)", CarSoccer.SETTERS),
        listed("Observations (`observation`)", CarSoccer.OBSERVATIONS),
        listed("Parts that follow the observation (`extras`)", CarSoccer.EXTRAS),
        f"## Actions (`actions`)\n\n{sets}",
        listed("Terminations (`terminations`)", CarSoccer.TERMINATIONS),
        listed("Truncations (`truncations`, with seconds)", CarSoccer.TRUNCATIONS),
        listed("Bots (`seats`, `league`, `evaluate.opponents`)", players),
        f"## Rewards (`rewards`)\n\n{REWARDS}",
        f"Factors of the groups in each mode:\n\n{modes()}",
        f"{len(compose.COMPONENTS)} components, with their weights in mode `dense` before its factors:\n\n{rewards()}",
    ]
    return "\n".join(parts)


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
    print(page(), end="")
