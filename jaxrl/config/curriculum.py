"""The curriculum: stages of one training, one after the other, each of which changes some keys of its configuration.

    curriculum:
      - name: few cards
        env.options.round_weights: [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]
        until: {win_rate: 0.6, against: [easy], games: 512, margin: 0.1}
      - name: all cards

The keys of a stage, dotted or as sections, replace those of the configuration, as a file replaces keys of its `base`.
The same parameters pass through all stages, so keys that shape them cannot differ, nor can the size of a batch.
Schedules run over the whole training, not over a stage. A last stage with `until: {steps: N}` gives way to the first:
the stages take turns, e.g. at tables of two to eight players.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from jaxrl.config import presets
from jaxrl.config.schema import Config
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import Place, build, option
from jaxrl_envs.shared.section import divides

NAME, UNTIL = "name", "until"  # of a stage; all its other keys are those of a configuration
CHANGING = (  # what a stage may change
    *("env.options", "seats", "algorithm"),
    *(name for name, section in Config().sections() if section.per_stage),
)


@dataclasses.dataclass(frozen=True)
class Until:
    """End of a stage. Win rates are those of the evaluations during training; a draw counts half."""

    steps: int = option(0, "environment steps of the stage after which it ends at the latest; 0: never", minimum=0)
    win_rate: float = option(0.0, "win rate at which it ends; 0: any", minimum=0.0, maximum=1.0)
    against: tuple[str, ...] = option((), "opponents over which win_rate is a mean; empty: all of evaluate.opponents")
    games: int = option(100, "newest evaluated games of the stage that win_rate and rating need", minimum=1)
    rating: float = option(0.0, "Elo rating of the policy in the league that it also needs to end; 0: any")
    margin: float = option(
        0.0,
        "return to this stage if its win rate, over as many games of the next stage, falls this far below win_rate; "
        "0: never",
        minimum=0.0,
        maximum=1.0,
    )

    @property
    def earned(self) -> bool:
        """Whether the stage can end by the strength of the policy."""
        return self.win_rate > 0.0 or self.rating > 0.0


class Stage(NamedTuple):
    """A part of a training."""

    name: str  # empty for all of a training without a curriculum
    config: Config  # of a training that is nothing but this stage
    until: Until | None  # condition of its end; None for a last one that lasts to the end of the training

    def __str__(self) -> str:
        return f"stage {self.name!r} of the curriculum"


def resolve(config: Config, changed: Callable[[Config, dict[str, Any]], Config]) -> tuple[Stage, ...]:
    """Returns the stages of a configuration, in order; one without end where there is no curriculum.

    Args:
      config: configuration of the whole training.
      changed: makes a checked configuration with other values of some keys.

    Raises:
      UserError: naming the first stage that is wrong.
    """
    if not config.curriculum:
        return (Stage("", config, None),)
    stages: list[Stage] = []
    for number, written in enumerate(config.curriculum):
        name = written.get(NAME)
        if not isinstance(name, str) or not name.strip() or name in [stage.name for stage in stages]:
            raise UserError(f"curriculum.{number}.name must be a text that no other stage has, got {name!r}.")
        until = written.get(UNTIL)
        try:
            changes = _tree({key: value for key, value in written.items() if key not in (NAME, UNTIL)})
            own = changed(config, changes | {"curriculum": []})
            stages.append(Stage(name, own, None if until is None else build(Until, until, Place(path=UNTIL))))
            _check_changes(changes)
            _check_until(stages[-1], last=number == len(config.curriculum) - 1)
        except UserError as error:
            raise UserError(f"stage {name!r} of the curriculum: {error}") from None
    return tuple(stages)


def _tree(changes: dict[str, Any]) -> dict[str, Any]:
    """Expands dotted keys into nested sections."""
    tree: dict[str, Any] = {}
    paths = [path for key, value in changes.items() for path in _paths(value, key)]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise UserError(f"{path} is given twice, as a dotted key and in a section: leave one of them out.")
        for other in paths:
            if other.startswith(f"{path}."):
                raise UserError(f"{path} is set as a whole, and {other} within it: leave one of them out.")
    for path, value in changes.items():
        for key in reversed(path.split(".")):
            value = {key: value}
        tree = presets.merged(tree, value)
    return tree


def _paths(tree: Any, path: str = "") -> Iterator[str]:
    """Yields the dotted keys of all values."""
    if not isinstance(tree, dict) or not tree:
        yield path
        return
    for key, value in tree.items():
        yield from _paths(value, f"{path}.{key}" if path else key)


def _overlap(path: str, other: str) -> bool:
    """Returns whether two dotted keys are one, or one is within the other."""
    return f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")


def shadowed(config: Config, overrides: Sequence[str]) -> list[str]:
    """Returns a sentence for each override that stages of the curriculum put aside, because they set the same key."""
    own = {
        stage[NAME]: list(_paths({key: value for key, value in stage.items() if key not in (NAME, UNTIL)}))
        for stage in config.curriculum
    }
    found = []
    for path in filter(None, _paths(presets.apply_overrides({}, overrides))):
        names = [repr(name) for name, set_ in own.items() if any(_overlap(path, each) for each in set_)]
        if names:
            number = list(map(repr, own)).index(names[0])
            found.append(
                f"{path} has no effect in {'stage' if len(names) == 1 else 'the stages'} {', '.join(names)} of the "
                f"curriculum, which set{'s' * (len(names) == 1)} it: change it there, as curriculum.{number}.{path}."
            )
    return found


def _check_changes(changes: dict[str, Any]) -> None:
    for path in _paths(changes):
        if path and not f"{path}.".startswith(tuple(f"{each}." for each in CHANGING)):
            raise UserError(
                f"{path} is the same in all stages: a stage changes {', '.join(CHANGING)} and nothing else."
            )


def _check_until(stage: Stage, *, last: bool) -> None:
    """Checks everything that can be checked without the game."""
    until, train = stage.until, stage.config.train
    if until is None:
        if not last:
            raise UserError("it has no end, but stages follow: give it until, e.g. until: {steps: 1e6}.")
        return
    if last and until.earned:
        raise UserError("the last stage ends by until.steps alone, and the first begins again; or leave until out.")
    if not (until.steps or until.earned):
        raise UserError("until needs steps, win_rate or rating, or the stage has no end.")
    if not until.win_rate and (until.against or until.margin):
        raise UserError("until.against and until.margin are of a win rate: give until.win_rate, or leave them out.")
    if until.margin and until.margin >= until.win_rate:
        raise UserError(f"until.margin ({until.margin:g}) must be less than until.win_rate ({until.win_rate:g}).")
    if until.rating and not stage.config.league.opponents:
        raise UserError("until.rating is the policy's in its league: give league.opponents, or leave it out.")
    if until.earned:
        if not train.evaluate_every:
            raise UserError("until.win_rate and until.rating need evaluations: set train.evaluate_every.")
        divides(train.evaluate_every, train.updates_per_call, "train.evaluate_every", "train.updates_per_call")
