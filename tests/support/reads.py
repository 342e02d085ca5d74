"""Configuration keys that a source file reads, found from its syntax."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator

from jaxrl.config import Config
from jaxrl_envs.shared.section import Schedule

SECTIONS = {  # what a parameter or variable with this annotation holds
    "Config": "",
    "DQNCoefs": "dqn",
    "DQNConfig": "dqn",
    "ExploitConfig": "exploit",
    "LeagueConfig": "league",
    "NetworkConfig": "network",
    "PPOCoefs": "ppo",
    "PPOConfig": "ppo",
    "SeatMix": "seats.0",
    "SebulbaConfig": "sebulba",
    "Sequence[SeatMix]": "seats",
    "StopRules": "train.stop",
}
CALLS = {"coefs_of": "ppo", "PPOCoefs": "ppo", "DQNCoefs": "dqn"}  # what gives the traced numbers of a section
ROLES = ("hierarchical.manager", "hierarchical.worker")  # whose schedules stand in for those of ppo
Names = dict[str, str]  # variable -> the section or key that it holds; "" is the whole configuration


def keys_read(source: str, properties: dict[str, set[str]] | None = None) -> set[str]:
    """The dotted paths of all keys that the source reads, and of the sections above them.

    Followed are chains such as `self.config.ppo.clip`, variables bound to a part of one (`ppo, x = config.ppo, y`,
    `for mix in config.seats`), annotated parameters, what `__init__` keeps of them, `getattr(part, name)` where the
    names are written out, and sections whose numbers have become traced ones (`jaxrl.algorithms.schedule`).

    Args:
      source: source of a module.
      properties: keys that each property of `Config` reads, by its name.
    """
    tree = ast.parse(source)
    found = set(_of_scope(tree, {}))
    for name, reads in (properties or {}).items():
        if name in found:
            found |= reads
    return found


def properties_of_config(source: str) -> dict[str, set[str]]:
    """The keys that each property of `BaseConfig` reads, directly or through another property."""
    [cls] = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == "BaseConfig"]
    methods = {node.name: set(_of_scope(node, {"self": ""})) for node in cls.body if isinstance(node, ast.FunctionDef)}
    for _ in methods:  # this many steps reach everything
        for reads in methods.values():
            reads |= {path for name in reads & methods.keys() for path in methods[name]}
    return methods


def _of_scope(scope: ast.AST, outer: Names) -> Iterator[str]:
    """Collects the reads in one function or module; nested functions see its names."""
    names = dict(outer)
    for field in scope.body if isinstance(scope, ast.ClassDef) else []:  # what its methods know as self.<field>
        if isinstance(field, ast.AnnAssign) and ast.unparse(field.annotation) in SECTIONS:
            names[f"self.{ast.unparse(field.target)}"] = SECTIONS[ast.unparse(field.annotation)]
        if isinstance(field, ast.FunctionDef) and field.name == "__init__":
            names |= _kept(field, names)
    _bind_arguments(scope, names)
    inner, own = [], []
    stack = list(ast.iter_child_nodes(scope))
    while stack:
        node = stack.pop(0)
        (inner if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)) else own).append(node)
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            stack = [*ast.iter_child_nodes(node), *stack]
    for node in own:
        _bind(node, names)
    texts = {node.value for node in own if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for node in own:
        if isinstance(node, ast.Attribute) and (path := _path(node, names)):
            yield path
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            section = _path(node.args[0], names)
            yield from (f"{section}.{text}" for text in texts if section)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "make_hyper":
            yield from _schedules(_path(node.args[0], names))
    for node in inner:
        yield from _of_scope(node, names)


def _bind_arguments(scope: ast.AST, names: Names) -> None:
    """Binds the annotated parameters of a function."""
    arguments = getattr(scope, "args", None)
    if not isinstance(arguments, ast.arguments):
        return
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        annotation = ast.unparse(argument.annotation) if argument.annotation else ""
        if argument.arg != "self":  # stays what it is in the class
            names.pop(argument.arg, None)
        if annotation in SECTIONS:
            names[argument.arg] = SECTIONS[annotation]


def _kept(init: ast.FunctionDef, outer: Names) -> Names:
    """The arguments of `__init__` that a class stores as self.<name>."""
    names = dict(outer)
    _bind_arguments(init, names)
    for node in ast.walk(init):
        _bind(node, names)
    return {name: path for name, path in names.items() if name.startswith("self.")}


def _schedules(section: str | None) -> Iterator[str]:
    """The keys of a section that `make_hyper` reads: every part of its schedules."""
    for place in [section, *ROLES] if section == "ppo" else [section] if section else []:
        default: object = Config()
        for name in place.split("."):
            default = getattr(default, name, None)
        for name, value in vars(default).items() if default is not None else ():
            if isinstance(value, Schedule):
                yield from (f"{place}.{name}.{leaf.name}" for leaf in dataclasses.fields(Schedule))


def _bind(node: ast.AST, names: Names) -> None:
    """Binds the targets of an assignment or a loop."""
    pairs: list[tuple[ast.AST, ast.AST, str]] = []
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = [(t, v, "") for t, v in zip(target.elts, value.elts, strict=False)]
        else:
            pairs = [(target, value, "")]
    elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) in SECTIONS:
        names[ast.unparse(node.target)] = SECTIONS[ast.unparse(node.annotation)]
    elif isinstance(node, (ast.For, ast.comprehension)):
        target, value = node.target, node.iter
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "enumerate" and isinstance(target, ast.Tuple):
            target, value = target.elts[1], value.args[0]
        pairs = [(target, value, ".0")]
    for target, value, suffix in pairs:
        path = _path(value, names)
        if isinstance(target, (ast.Name, ast.Attribute)) and path is not None:
            names[ast.unparse(target)] = path + suffix


def _path(node: ast.AST, names: Names) -> str | None:
    """The path of the configuration's part that an expression denotes, or None."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "" if node.id == "config" else None)
    if isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS:
        return CALLS[ast.unparse(node.func)]
    if not isinstance(node, ast.Attribute):
        return None
    if ast.unparse(node) in names:
        return names[ast.unparse(node)]
    base = _path(node.value, names)
    if base is None:
        return "" if node.attr == "config" else None
    return f"{base}.{node.attr}".lstrip(".")
