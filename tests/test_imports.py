"""Imports run one way, and nothing happens at import: read from the source, not from a running program."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from envs import registry

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted([*(ROOT / "envs").rglob("*.py"), *(ROOT / "jaxrl").rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])
NETWORK = {"socket", "requests", "urllib", "http", "ftplib"}
SHARED_ENVS = {
    "core",
    "golden",
    "registry",
    "files",
    "values",
    "wrappers",
    "prng",
    "errors",
    "conformance",
    "adapters",
    "host",
    "sides",
}
HOST_GAMES = ("envs/battle", "envs/forge")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(tree: ast.AST, path: Path) -> set[str]:
    """Every module imported anywhere in a file, relative imports resolved; `from a import b` gives a and a.b."""
    found = set()
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found


def under(module: str, parent: str) -> bool:
    return module == parent or module.startswith(parent + ".")


def executed_at_import(body: list[ast.stmt]) -> list[ast.expr]:
    """The expressions that run when a module is imported: not the bodies of functions, but their defaults."""
    found: list[ast.expr] = []
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found += [*node.decorator_list, *node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        elif isinstance(node, ast.ClassDef):
            found += [*node.decorator_list, *executed_at_import(node.body)]
        elif isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            continue
        elif isinstance(node, ast.AnnAssign):
            found += [node.value] if node.value is not None else []
        else:
            found += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
            blocks = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            found += executed_at_import(blocks)
            for handler in getattr(node, "handlers", []):
                found += executed_at_import(handler.body)
    return found


def walk_eager(expression: ast.expr) -> list[ast.AST]:
    """The nodes of an expression that are evaluated with it: not the bodies of lambdas."""
    found: list[ast.AST] = []
    stack: list[ast.AST] = [expression]
    while stack:
        node = stack.pop()
        found.append(node)
        if not isinstance(node, ast.Lambda):
            stack += list(ast.iter_child_nodes(node))
    return found


def effects(source: str) -> list[str]:
    """What a module does to devices, the environment or the network when it is imported."""
    found = []
    for expression in executed_at_import(ast.parse(source).body):
        for node in walk_eager(expression):
            if isinstance(node, ast.Call):
                function = ast.unparse(node.func)
                arrays = function.startswith(("jnp.", "jax.numpy.", "jax.random.", "jax.lax.", "jax.nn.", "lax."))
                starts = ("jax.devices", "jax.local_devices", "jax.device_put", "jax.default_backend")
                if arrays or function.startswith((*starts, "jax.config.", "os.getenv", "os.putenv")):
                    found.append(f"line {node.lineno}: {function}()")
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "os.environ":
                found.append(f"line {node.lineno}: os.environ")
    return found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_layers(path):
    found = imports(ast.parse(path.read_text(encoding="utf-8")), path)
    name = name_of(path)
    if name.startswith("envs/"):
        assert not [module for module in found if under(module, "jaxrl")], "envs never imports jaxrl"
    if name.startswith("jaxrl/"):
        games = [m for m in found if m.startswith("envs.") and m.split(".")[1] not in SHARED_ENVS]
        assert not games, "jaxrl imports no concrete game, only envs.core, the registry and the like"
    if name.startswith(HOST_GAMES):
        assert not [module for module in found if under(module, "jax")], "host games know nothing of jax"
    assert not [module for module in found if module.split(".")[0] in NETWORK], "no network"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_happens_at_import(path):
    assert effects(path.read_text(encoding="utf-8")) == []


def test_rules_know_nothing_of_learning_libraries():
    for path in (ROOT / "envs").rglob("rules.py"):
        found = imports(ast.parse(path.read_text(encoding="utf-8")), path)
        assert not [module for module in found if under(module, "optax") or under(module, "flax.linen")]


@pytest.mark.parametrize(
    "source",
    [
        "TABLE = jnp.arange(3)",
        "class A:\n    table = jnp.zeros(3)",
        "def f(x=jnp.float32(1)): pass",
        "if True:\n    KEY = jax.random.key(0)",
        "try:\n    X = os.environ['A']\nexcept KeyError:\n    X = jax.devices()",
        "import os\nos.environ.setdefault('A', '1')",
        "@partial(f, jnp.ones(2))\ndef g(): pass",
    ],
)
def test_the_detector_detects(source):
    assert effects(source)


@pytest.mark.parametrize(
    "source",
    [
        "def f(x: int = 3):\n    return jnp.arange(x)",
        "F = lambda x: jnp.sum(x)",
        "DTYPE = jnp.float32",
        "RELU = {'relu': jax.nn.relu}",
        "if __name__ == '__main__':\n    print(jax.devices())",
        "run = jax.jit(jax.vmap(function))",
    ],
)
def test_the_detector_leaves_the_rest_alone(source):
    assert effects(source) == []


SIZE_LIMITS = {"file": 400, "function": 60}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_sizes(path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= SIZE_LIMITS["file"]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= SIZE_LIMITS["function"], f"{node.name} has {lines} lines"


def test_games_and_configurations_start_no_backend():
    """Flags of XLA and the number of devices are read from a configuration, so that loading one must come first."""
    program = """
from jax._src import xla_bridge

from envs import registry
from jaxrl.config import load, presets

for id in registry.registered():
    registry.make(id)
    assert not xla_bridge.backends_are_initialized(), id
for name in presets.shipped():
    load(name)
    assert not xla_bridge.backends_are_initialized(), name
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_game_is_known_by_name():
    """What concerns one game comes from it through the registry; only the default of `env.id` is a name."""
    known, found = set(registry.registered()), set()
    for path in (path for path in FILES if name_of(path).startswith("jaxrl/")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            word = getattr(node, "value", None) if isinstance(node, ast.Constant) else getattr(node, "attr", None)
            if isinstance(word, str) and word in known:
                found.add((name_of(path), word))
    elsewhere = ("jaxrl/benchmark/", "jaxrl/peers/")  # measurement is about games by name
    assert {entry for entry in found if not entry[0].startswith(elsewhere)} == {
        ("jaxrl/config/schema.py", "skull_king")
    }
