"""Modules import in one direction only and have no effects when imported; the tests read the source."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

from jaxrl_envs.contract import registry
from tests.support.paths import ROOT

TOPS = ("envs", "jaxrl", "scripts")
FILES = sorted(path for top in TOPS for path in (ROOT / top).rglob("*.py"))
NETWORK = {"socket", "socketserver", "requests", "urllib", "http", "ftplib"}
GAMES = ("battle", "beasty_bar", "car_soccer", "forge", "skull_king")
ENGINES = ("jaxrl_envs.battle", "jaxrl_envs.forge")  # written in Cython and Java
FOR_NETWORKS = ("env", "observe")  # their modules that put the engine behind the contract of compiled games


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix().removeprefix("envs/")


def imports(tree: ast.AST, path: Path) -> set[str]:
    """Returns the modules that a file imports, relative imports resolved; `from a import b` gives a and a.b."""
    found = set()
    package = Path(name_of(path)).parent.parts
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
    """Returns the expressions that run at import, with the defaults of functions but without their bodies."""
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
    """Returns the nodes of an expression that are evaluated with it; bodies of lambdas are left out."""
    found: list[ast.AST] = [expression]
    for node in found:
        found += [] if isinstance(node, ast.Lambda) else ast.iter_child_nodes(node)
    return found


def effects(tree: ast.Module) -> list[str]:
    """Returns calls and assignments that touch devices, the environment or the network when a module is imported."""
    found = []
    for expression in executed_at_import(tree.body):
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


# ---- one test for each rule -----------------------------------------------------------------------------------------


def module_of(path: Path) -> str:
    return name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


MODULES = {module_of(path): path for path in FILES}


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports_of(module: str) -> set[str]:
    return imports(tree_of(MODULES[module]), MODULES[module])


def offenders(prefix: str, wrong) -> list[str]:
    """Returns the forbidden imports of the modules below `prefix`, as "module: import"."""
    found = ((module, name) for module in MODULES if module.startswith(prefix) for name in imports_of(module))
    return sorted(f"{module}: {name}" for module, name in found if wrong(name))


def test_games_never_import_the_learner():
    assert offenders("jaxrl_envs", lambda name: under(name, "jaxrl")) == []


def test_the_learner_imports_no_concrete_game():
    games = [f"jaxrl_envs.{game}" for game in GAMES]
    assert offenders("jaxrl.", lambda name: any(under(name, game) for game in games)) == []


def test_engines_know_nothing_of_jax():
    for prefix in ENGINES:
        found = offenders(prefix, lambda name: under(name, "jax"))
        assert [
            each for each in found if not each.startswith(tuple(f"{prefix}.{name}:" for name in FOR_NETWORKS))
        ] == []


def test_no_module_imports_the_network():
    """Exceptions are the modules that talk to Forge's daemons over a socket, and those that look for a free
    port, listen themselves, or take a seat at their own server."""
    found = offenders("", lambda name: name.split(".")[0] in NETWORK)
    others = {each for each in found if not each.startswith("jaxrl_envs.forge.")}
    seat = {f"jaxrl.serve.mcp_seat: {name}" for name in ("urllib.error", "urllib.parse", "urllib.request")}
    assert others == {"jaxrl.training.launching.launch: socket", "jaxrl.serve.command: socket"} | seat


ORDER = (  # imports run from left to right only
    *("serve", "experiments", "diagnose", "training", "matches", "league", "policies", "search", "algorithms"),
    *("players", "networks", "runs", "games", "xla", "zoo", "config", "statistics", "text_tables", "version"),
)


def vocabulary() -> set[str]:
    """Returns the modules of the sections of all rooms, of which configurations are made: they count as `config`."""
    found, new = set(), {"jaxrl.config.schema"}
    while new:
        found |= new
        new = {name for module in new for name in run_imports(MODULES[module]) if name in MODULES} - found
    return {name for name in found if name.startswith("jaxrl.")}


def test_imports_run_one_way():
    """From room to room, without an exception by a file's name; `cli` and `api` are above all of them."""
    words = vocabulary()
    step = {room: number for number, room in enumerate(ORDER)}

    def room_of(module: str) -> str:
        return "config" if module in words else module.split(".")[1]

    ours = [module for module in MODULES if module.startswith("jaxrl.") and module.split(".")[1] in step]
    others = {module.split(".")[1] for module in MODULES if module.startswith("jaxrl.")} - step.keys()
    assert others == {"cli", "api", "__main__"}, "every room has its place in the order"
    backwards = [
        f"{module}: {name}"
        for module in ours
        for name in imports_of(module)
        if name in MODULES and name.startswith("jaxrl.")
        if step.get(room_of(name), -1) < step[room_of(module)]
    ]
    assert "\n".join(backwards) == ""


def test_there_are_no_circles():
    """Imports within functions count; those for annotations alone do not run."""
    graph = {module: {name for name in run_imports(path) if name in MODULES} for module, path in MODULES.items()}
    while graph:  # takes off what imports nothing that is left
        done = {module for module, names in graph.items() if not names & graph.keys() - {module}}
        assert done, f"circles among {sorted(graph)}"
        graph = {module: names for module, names in graph.items() if module not in done}


def run_imports(path: Path) -> set[str]:
    """Returns the modules that a module imports when it runs, without those under TYPE_CHECKING and its own parents."""
    nodes = list(ast.walk(tree_of(path)))
    typing = [node for node in nodes if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    ignored = {inner for node in typing for inner in ast.walk(node)}
    run = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) and node not in ignored]
    return {name for name in imports(ast.Module(run, []), path) if not under(module_of(path), name)}


def test_nothing_happens_at_import():
    assert {name_of(path): found for path in FILES if (found := effects(tree_of(path)))} == {}


def test_rules_know_nothing_of_learning_libraries():
    for path in (ROOT / "envs").rglob("rules.py"):
        assert not [name for name in imports_of(module_of(path)) if under(name, "optax") or under(name, "flax.linen")]


HAPPENING = [
    "TABLE = jnp.arange(3)",
    "class A:\n    table = jnp.zeros(3)",
    "def f(x=jnp.float32(1)): pass",
    "if True:\n    KEY = jax.random.key(0)",
    "try:\n    X = os.environ['A']\nexcept KeyError:\n    X = jax.devices()",
    "import os\nos.environ.setdefault('A', '1')",
    "@partial(f, jnp.ones(2))\ndef g(): pass",
]
HARMLESS = [
    "def f(x: int = 3):\n    return jnp.arange(x)",
    "F = lambda x: jnp.sum(x)",
    "DTYPE = jnp.float32",
    "RELU = {'relu': jax.nn.relu}",
    "if __name__ == '__main__':\n    print(jax.devices())",
    "run = jax.jit(jax.vmap(function))",
]


def test_the_detector_detects_and_leaves_the_rest_alone():
    assert [source for source in HAPPENING if not effects(ast.parse(source))] == []
    assert [source for source in HARMLESS if effects(ast.parse(source))] == []


def test_functions_fit_on_a_page():
    """Files are cut at joints, not at a number of lines; a function of more than 60 lines does several things."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ((path, node) for path in FILES for node in ast.walk(tree_of(path)) if isinstance(node, functions))
    assert [f"{name_of(path)}: {n.name}" for path, n in nodes if (n.end_lineno or n.lineno) - n.lineno >= 60] == []


def test_games_and_configurations_start_no_backend():
    """Flags of XLA and the number of devices are read from a configuration, so that loading one must come first."""
    program = """
from jax._src import xla_bridge

from jaxrl_envs.contract import registry
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
    """The library gets everything about a game from the registry; only the default of `env.id` names one."""
    known, found = set(registry.registered()), set()
    for path in (path for path in FILES if not name_of(path).startswith(("jaxrl_envs/", "scripts/"))):
        for node in ast.walk(tree_of(path)):
            word = getattr(node, "value", None) if isinstance(node, ast.Constant) else getattr(node, "attr", None)
            if isinstance(word, str) and word in known:
                found.add((name_of(path), word))
    assert found == {("jaxrl/config/schema.py", "skull_king")}
