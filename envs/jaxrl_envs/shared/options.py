"""Options that users write (in files and on the command line), declared as dataclass fields and validated here.

    @dataclass(frozen=True, kw_only=True)
    class Unit:
        name: str = required("shown to people")
        models: int = option(5, "how many stand on the table", minimum=1, maximum=20)

    build(Unit, {"name": "Squad", "models": 30}, Place("mine.yaml"))  # UserError: mine.yaml: models must be

Every mistake is a `UserError` that names the dotted key: unknown keys with the nearest one, types, ranges and choices.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import math
import re
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

from jaxrl_envs.shared.errors import LONG, UserError

_METADATA_KEY = "envs"
_SEQUENCES = (tuple, list, collections.abc.Sequence)
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "nothing"}


class UnknownKey(UserError):
    """A key that no dataclass declares; `path` is the key with dots."""

    path = ""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Constraints on one option beyond its type.

    Attributes:
      doc: one line of help.
      minimum: smallest allowed number (for a list: of each element).
      above: numbers must be strictly greater than this.
      maximum: largest allowed number.
      choices: the allowed strings.
      items: the smallest and the largest length of a list; `words` must state them.
      pattern: a regular expression that a string must match in full.
      parse: converts the written value; returns None to reject it.
      words: the allowed values in words, if the fields above do not describe them well.
      runs: marks texts that name code to run (classes of users, programs) or a folder that an engine writes to: the
        permissions of which a user must have given one before a file may set it; empty if the text needs none.
    """

    doc: str = ""
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] | None = None
    items: tuple[int, int] | None = None
    pattern: str | None = None
    parse: Callable[[Any], Any] | None = None
    words: str = ""
    runs: Callable[[str], tuple[str, ...]] | None = None

    def allow(self, value: Any) -> bool:
        """Returns whether a number or a string, already of the right type, is allowed."""
        if isinstance(value, str):
            known = self.choices is None or value in self.choices
            return known and (self.pattern is None or re.fullmatch(self.pattern, value) is not None)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return True
        low = (self.minimum is None or value >= self.minimum) and (self.above is None or value > self.above)
        finite = isinstance(value, int) or math.isfinite(value)  # isfinite fails for very large integers
        return low and finite and (self.maximum is None or value <= self.maximum)

    def range_text(self) -> str:
        """Returns the allowed values in a few characters, e.g. ``"0 <= x <= 1"`` or ``"mlp | transformer"``."""
        if self.choices is not None:
            return " | ".join(self.choices)
        low = f"{self.minimum} <= " if self.minimum is not None else ""
        low = f"{self.above} < " if self.above is not None else low
        high = f" <= {self.maximum}" if self.maximum is not None else ""
        return f"{low}x{high}" if low or high else ""


NO_LIMITS = Limits()


def option(default: Any, doc: str = "", **limits: Any) -> Any:
    """Returns a dataclass field that declares one option; `limits` are the attributes of `Limits`."""
    metadata = {_METADATA_KEY: Limits(doc, **limits)}
    if isinstance(default, (dict, list)):  # a mutable default needs a factory; frozen dataclasses cannot hash it
        return dataclasses.field(default_factory=default.copy, metadata=metadata, hash=False)
    return dataclasses.field(default=default, metadata=metadata)


def required(doc: str = "", **limits: Any) -> Any:
    """Returns a dataclass field for an option without a default."""
    return option(dataclasses.MISSING, doc, **limits)


def limits_of(field: dataclasses.Field) -> Limits:
    """Returns the `Limits` that `option` stored with a dataclass field."""
    return field.metadata.get(_METADATA_KEY, NO_LIMITS)


class Place(NamedTuple):
    """The location of a value, for messages."""

    source: str = ""  # begins every message, e.g. the name of a file
    path: str = ""  # dotted keys
    root: type | None = None  # the outermost dataclass, searched for the nearest key

    def at(self, key: Any) -> Place:
        """Returns the place of a key or of an index into a list."""
        return self._replace(path=f"{self.path}.{key}" if self.path else str(key))

    def __str__(self) -> str:
        return ": ".join(filter(None, self[:2]))

    def wrong(self, words: str, value: Any) -> UserError:
        """Returns the error for a value that does not match the description `words`."""
        return UserError(f"{self} must be {words}, got {shown(value)}.")


NOWHERE = Place()


def shown(value: Any) -> str:
    """Returns a value as text for a message, shortened to 60 characters."""
    try:
        text = "nothing" if value is None else repr(value)
    except ValueError:  # Python refuses to format integers of more than 4,300 digits
        text = "a number of thousands of digits"
    return text if len(text) <= 60 else text[:57] + "..."


# ---- building -------------------------------------------------------------------------------------------------------


def build(default: Any, tree: Any, place: Place = NOWHERE) -> Any:
    """Builds a declared dataclass from a mapping.

    Args:
      default: an instance, whose values are kept for missing keys; or the class.
      tree: a mapping from key to plain values.
      place: place of the mapping.

    Raises:
      UserError: an unknown or a missing key, a wrong type or a value out of range.
    """
    cls = default if isinstance(default, type) else type(default)
    place = place if place.root else place._replace(root=cls)
    if not isinstance(tree, dict):
        raise place.wrong(words_of(cls), tree)
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key in tree:
        if key not in fields:
            raise _unknown(place, key, fields)
    values = {}
    for key, value in tree.items():
        if dataclasses.is_dataclass(hints[key]) and not isinstance(default, type):
            value = {} if value is None else _spelt_out(hints[key], value)
            values[key] = build(getattr(default, key), value, place.at(key))
        else:
            values[key] = convert(value, hints[key], limits_of(fields[key]), place.at(key))
    if not isinstance(default, type):
        return dataclasses.replace(default, **values)
    for field in fields.values():
        if field.name not in tree and default_of(field) is dataclasses.MISSING:
            raise UserError(f"{place} lacks {field.name}: give {words_of(hints[field.name], limits_of(field))}.")
    return cls(**values)


def convert(value: Any, kind: Any, limits: Limits = NO_LIMITS, place: Place = NOWHERE) -> Any:
    """Converts `value` to the annotated type `kind`. Accepted conversions: int to float, a whole float (1e6) to int, a
    list to a tuple, a number or one of the choices to a list of one, a number to the mapping that `of_number` of a
    dataclass returns for it.

    Raises:
      UserError: `value` is of another type or outside of `limits`.
    """
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if limits.parse is not None:
        if (parsed := limits.parse(value)) is None:
            raise place.wrong(words_of(kind, limits), value)
        return parsed
    if dataclasses.is_dataclass(kind):
        return build(kind, _spelt_out(kind, value), place)
    if origin in (typing.Union, types.UnionType):
        return _one_of(value, kind, limits, place)
    single = _is_number(value) or (limits.choices is not None and isinstance(value, str))
    if origin in _SEQUENCES and limits.items is None and single:
        value = [value]
    if origin in _SEQUENCES and isinstance(value, (list, tuple)):
        return _sequence(value, kind, limits, place)
    if origin is dict and value is None:  # `options:` in a file
        return {}
    if origin is str and value is None:  # `run.cache_dir=` on the command line, `cache_dir:` in a file
        value = ""
    if origin is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            raise place.wrong(words_of(kind, limits), value) from None
    if origin is int and isinstance(value, float) and value.is_integer():  # 1e6
        if abs(value) >= 2**53:  # from here on a float stands for several whole numbers
            most = f" and at most {2**53}" if limits.maximum is None else ""
            raise place.wrong(words_of(kind, limits) + most, value)
        value = int(value)
    if not (_is_a(value, origin, arguments) and limits.allow(value)):
        raise place.wrong(words_of(kind, limits), value)
    if origin is dict:
        return {key: convert(item, (*arguments, Any, Any)[1], limits, place.at(key)) for key, item in value.items()}
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _spelt_out(kind: Any, value: Any) -> Any:
    """Returns a number as the mapping that `kind.of_number` returns for it; other values unchanged."""
    return kind.of_number(value) if _is_number(value) and hasattr(kind, "of_number") else value


def _is_a(value: Any, origin: Any, arguments: tuple[Any, ...]) -> bool:
    """Returns whether a value (not a list) has a type."""
    if origin is Any:
        return True
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in arguments)
    if origin is dict:
        return isinstance(value, dict) and all(isinstance(key, str) for key in value)
    return origin not in _SEQUENCES and isinstance(value, origin) and (origin is bool or not isinstance(value, bool))


def _sequence(value: Any, kind: Any, limits: Limits, place: Place) -> Any:
    low, high = limits.items or (0, len(value))
    if not low <= len(value) <= high:
        raise UserError(f"{place} must be {words_of(kind, limits)}, got {len(value)}.")
    element = (*typing.get_args(kind), Any)[0]
    each = dataclasses.replace(limits, items=None)
    found = [
        convert(item, element, each, place.at(f"{i} ({item['name']})" if _named(item) else i))
        for i, item in enumerate(value)
    ]
    return found if (typing.get_origin(kind) or kind) is list else tuple(found)


def _named(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def _one_of(value: Any, kind: Any, limits: Limits, place: Place) -> Any:
    """Converts to the first of several types that accepts the value; errors inside a mapping are its own."""
    kinds = typing.get_args(kind)
    for one in kinds:
        if isinstance(value, dict) and dataclasses.is_dataclass(one):
            return build(one, value, place)
    for one in sorted(kinds, key=lambda one: one is not type(None)):  # None stays None, it does not become ""
        try:
            return convert(value, one, limits, place)
        except UserError:
            continue
    raise place.wrong(words_of(kind, limits), value)


def _unknown(place: Place, key: Any, fields: Iterable[str]) -> UnknownKey:
    """Returns the error for an unknown key; suggests the nearest known key, here or elsewhere."""
    path, here = place.at(key).path, {name: place.at(name).path for name in fields}
    known_paths = all_paths(place.root) if place.root else []
    elsewhere = {known.rpartition(".")[2]: known for known in reversed(known_paths)}
    near = [
        known[name]
        for known in (here, elsewhere)
        for name in difflib.get_close_matches(str(key)[:LONG].lower(), known, n=1)
    ]
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(fields)}"
    if path in known_paths:  # a key "a.b" of a mapping
        above, _, below = path.rpartition(".")
        hint = f"in a file write {below!r} below {above!r}, without a dot."
    error = UnknownKey(f"{place._replace(path='unknown key')} {path[:LONG]!r}: {hint}")
    error.path = path[:LONG]
    return error


# ---- looking --------------------------------------------------------------------------------------------------------


def default_of(field: dataclasses.Field) -> Any:
    """Returns the default value of a dataclass field; `dataclasses.MISSING` if it has none."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def to_tree(value: Any) -> Any:
    """Returns the plain tree (dicts, lists, numbers, strings) of a dataclass, complete with defaults."""
    if dataclasses.is_dataclass(value):
        return {field.name: to_tree(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (list, tuple)):
        return [to_tree(item) for item in value]
    if isinstance(value, dict):
        return {key: to_tree(item) for key, item in value.items()}
    return value


def all_paths(cls: type, path: str = "") -> list[str]:
    """Returns all dotted keys; elements of lists of mappings are written with a 0, as in ``seats.0.weight``."""
    paths = []
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        here, kind = f"{path}.{field.name}" if path else field.name, hints[field.name]
        inner = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else kind
        paths.append(here)
        if dataclasses.is_dataclass(inner):
            paths += all_paths(typing.cast(type, inner), here if inner is kind else f"{here}.0")
    return paths


def words_of(kind: Any, limits: Limits = NO_LIMITS) -> str:
    """Returns the allowed values in words that follow "must be"."""
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if limits.words:
        return limits.words
    if dataclasses.is_dataclass(kind):
        short = "a number or " if hasattr(kind, "of_number") else ""
        return f"{short}a mapping with the keys {', '.join(field.name for field in dataclasses.fields(kind))}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(words_of(one, limits) for one in arguments)
    if origin is Literal or (origin is str and limits.choices is not None):
        return _listed(arguments if origin is Literal else limits.choices or ())
    if origin in _SEQUENCES:
        return "a list" + (f" of {_listed(limits.choices)}" if limits.choices else "")
    if origin is dict:
        return "a mapping from names to values"
    name = str(_NAMES.get(origin) or getattr(origin, "__name__", origin))
    return name + _range(limits) if origin in (int, float) else name


def _listed(choices: Iterable[Any]) -> str:
    return " or ".join(", ".join(map(str, choices)).rsplit(", ", 1))


def _range(limits: Limits) -> str:
    low, high = limits.minimum, limits.maximum
    if low is not None and high is not None:
        return f" from {_number(low)} to {_number(high)}"
    parts = [
        f" of at least {_number(low)}" if low is not None else "",
        f" above {_number(limits.above)}" if limits.above is not None else "",
        f" of at most {_number(high)}" if high is not None and limits.above is None else "",
        f" and at most {_number(high)}" if high is not None and limits.above is not None else "",
    ]
    return "".join(parts)


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def type_name(kind: Any) -> str:
    """Returns a type in a word or two, e.g. ``list of int`` or ``one of 'a', 'b'``."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(repr(value) for value in arguments)
    if origin in _SEQUENCES:
        return f"list of {type_name(arguments[0])}"
    if origin is dict:
        return "mapping"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(type_name(one) for one in arguments)
    return getattr(kind, "__name__", str(kind))
