"""What people write: the one validator of settings, options, rosters and maps, and the one reader of YAML and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from jaxrl_envs.shared import files
from jaxrl_envs.shared.errors import UserError
from jaxrl_envs.shared.options import (
    Place,
    UnknownKey,
    all_paths,
    build,
    convert,
    option,
    required,
    to_tree,
    type_name,
    words_of,
)


@dataclass(frozen=True, kw_only=True)
class Wheel:
    name: str = required()
    size: float = option(1.0, above=0.0, maximum=2.0)


@dataclass(frozen=True)
class Car:
    wheels: tuple[Wheel, ...] = option((), items=(0, 2), words="a list of 0 to 2 wheels")
    seats: int | Literal["many"] = option(1, "who sits", minimum=1)
    spare: Wheel | None = option(None)
    weights: dict[str, float] = option({}, above=0.0)
    colours: tuple[str, ...] = option((), choices=("red", "blue"))
    even: int = option(2, parse=lambda value: value if value in (2, 4) else None, words="2 or 4")
    any: dict[str, Any] = option({})


def test_conversion_guesses_nothing_but_whole_floats_and_tuples():
    assert convert(3, float) == 3.0 and isinstance(convert(3, float), float)
    assert convert([1, 2], tuple[float, ...]) == (1.0, 2.0) and convert((1,), list[int]) == [1]
    assert convert(None, int | None) is None and convert(None, str | None) is None and convert(None, str) == ""
    assert convert("b", Literal["a", "b"]) == "b"
    for value, kind in ((True, float), (True, int), (1, bool), ("1", int), (1.5, int), ("ab", tuple[str, ...])):
        with pytest.raises(UserError):
            convert(value, kind)
    with pytest.raises(UserError, match="first must be roll, 0 or 1, got True."):
        convert(True, Literal["roll", 0, 1], place=Place("", "first"))


def test_a_tree_becomes_what_is_declared_and_back():
    tree = {"wheels": [{"name": "left", "size": 2}], "spare": {"name": "third"}, "weights": {"a": 1}, "any": {"b": [1]}}
    car = build(Car, tree)
    assert car == Car((Wheel(name="left", size=2.0),), 1, Wheel(name="third"), {"a": 1.0}, (), 2, {"b": [1]})
    assert build(Car, to_tree(car)) == car and build(car, {"even": 4}).wheels == car.wheels
    assert all_paths(Car)[:4] == ["wheels", "wheels.0.name", "wheels.0.size", "seats"]


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        (
            None,
            "car.yaml must be a mapping with the keys wheels, seats, spare, weights, colours, even, any, got nothing.",
        ),
        ({"wheels": {}}, "car.yaml: wheels must be a list of 0 to 2 wheels, got {}."),
        ({"wheels": [{}] * 3}, "car.yaml: wheels must be a list of 0 to 2 wheels, got 3."),
        ({"wheels": [{}]}, "car.yaml: wheels.0 lacks name: give text."),
        ({"wheels": [{"name": "a", "size": 0}]}, "wheels.0 (a).size must be a number above 0 and at most 2, got 0.0."),
        ({"wheels": [{"name": "a", "size": float("nan")}]}, "got nan."),
        ({"seats": 0}, "car.yaml: seats must be a whole number of at least 1 or many, got 0."),
        ({"seats": "few"}, "seats must be a whole number of at least 1 or many, got 'few'."),
        ({"spare": {"sise": 1}}, "car.yaml: unknown key 'spare.sise': did you mean 'spare.size'?"),
        ({"spare": 3}, "spare must be a mapping with the keys name, size or nothing, got 3."),
        ({"weights": {"a": 0}}, "weights.a must be a number above 0, got 0.0."),
        ({"weights": {1: 1}}, "weights must be a mapping from names to values, got {1: 1}."),
        ({"colours": ["rad"]}, "colours.0 must be red or blue, got 'rad'."),
        ({"even": 3}, "even must be 2 or 4, got 3."),
        ({"seets": 1}, "car.yaml: unknown key 'seets': did you mean 'seats'?"),
        ({"size": 1}, "unknown key 'size': did you mean 'wheels.0.size'?"),
        ({"zzz": 1}, "unknown key 'zzz': known: wheels, seats, spare, weights, colours, even, any"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(tree, sentence):
    with pytest.raises(UserError) as error:
        build(Car, tree, Place("car.yaml"))
    assert sentence in str(error.value) and "\n" not in str(error.value)
    assert isinstance(error.value, UnknownKey) == ("unknown key" in sentence)


def test_types_in_words():
    assert (
        words_of(dict[str, int]) == "a mapping from names to values"
        and words_of(bool | None) == "true or false or nothing"
    )
    assert type_name(tuple[int, ...]) == "list of int" and type_name(int | str) == "int or str"
    assert type_name(Literal["a", 1]) == "one of 'a', 1" and type_name(dict[str, Any]) == "mapping"


def test_numbers_of_yaml_1_2_and_keys_that_are_written_once(tmp_path: Path):
    assert files.parse("a: 3e-4\nb: [1_000, .5e1, 1e3]", "x") == {"a": 3e-4, "b": [1000, 5.0, 1000.0]}
    assert files.read(write(tmp_path / "a.json", '{"a": 1}')) == {"a": 1}
    for text in ("a: 1\na: 2", "1: 1\n1: 2"):
        with pytest.raises(UserError, match=r"x, line 2 is not valid YAML: key .* appears twice."):
            files.parse(text, "x")
    with pytest.raises(UserError, match="there is no file"):
        files.read(tmp_path / "b.yaml")


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_numbers_beyond_all_bounds_are_a_sentence():
    huge = 10**400
    assert convert(huge, int) == huge
    for kind, number in ((float, huge), (float, 1 << 20_000), (str, 1 << 20_000)):
        with pytest.raises(UserError, match="must be"):
            convert(number, kind, place=Place("", "x"))
