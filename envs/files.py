"""YAML and JSON that people write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from jaxrl.envs.errors import UserError

SUFFIXES = (".yaml", ".yml", ".json")
MOST = 1_000_000  # values of a file


class _Loader(yaml.SafeLoader):
    """Safe YAML that reads 3e-4 as a number (YAML 1.2) and refuses a key that is written twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be plain text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} appears twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no key may be repeated."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} appears twice")
        found[key] = value
    return found


def _check_size(value: Any) -> None:
    """Raises ValueError for more than `MOST` values, or for one that contains itself: YAML's anchors allow both."""
    rest, count = [value], 0
    while rest:
        value, count = rest.pop(), count + 1
        if count > MOST:
            raise ValueError(f"it holds more than {MOST:,} values, or a value within itself")
        rest += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def is_path(text: str) -> bool:
    """Whether a name given by a user means a file: it has a suffix of YAML or JSON, or a folder in it."""
    return text.lower().endswith(SUFFIXES) or "/" in text or "\\" in text


def read(path: str | Path) -> Any:
    """What a YAML file holds, or one of JSON if its name ends in .json.

    Raises:
      UserError: there is no such file, it cannot be read, or it is neither; the message names the line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"there is no file {path}: check the path.") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read {path}: it is not text in UTF-8.") from None
    return parse(text, str(path), json_text=path.suffix.lower() == ".json")


def parse(text: str, label: str, *, json_text: bool = False) -> Any:
    """What a YAML text holds, or one of JSON.

    Raises:
      UserError: it is neither; the message names `label` and the line.
    """
    try:
        found = json.loads(text, object_pairs_hook=_once) if json_text else yaml.load(text, Loader=_Loader)
        _check_size(found)
        return found
    except RecursionError:
        raise UserError(f"{label} cannot be read: it is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{label}, line {error.lineno} is not valid JSON: {error.msg}.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(error, "problem", None) or "broken").split())
        raise UserError(f"{label}{place} is not valid YAML: {problem}.") from None
    except ValueError as error:  # a key twice in JSON, a date that does not exist in YAML
        raise UserError(f"{label} cannot be read: {error}.") from None
