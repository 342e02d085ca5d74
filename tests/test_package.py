"""The package as others receive it: complete, and the documentation says what is tested."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_package_is_installed():
    found = {"jaxrl.configs"}
    for top in ("envs", "jaxrl"):
        folders = {path.parent for path in (ROOT / top).rglob("*.py")}
        found |= {".".join(folder.relative_to(ROOT).parts).replace("envs", "jaxrl.envs") for folder in folders}
    assert sorted(found) == sorted(PROJECT["tool"]["setuptools"]["packages"])


def test_every_package_has_an_init_file():
    for name in PROJECT["tool"]["setuptools"]["packages"]:
        if name != "jaxrl.configs":
            assert (ROOT / name.replace(".", "/") / "__init__.py").is_file(), name


def test_the_daemon_is_installed_whole():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["jaxrl.envs.forge"]
    installed = {path for pattern in patterns for path in (ROOT / "envs" / "forge").glob(pattern)}
    found = {path for path in (ROOT / "envs" / "forge" / "daemon").rglob("*") if path.is_file()}
    assert found <= installed and sum(path.suffix == ".java" for path in found) > 20


def test_every_test_is_collected():
    for path in (ROOT / "tests").rglob("*.py"):
        if not path.name.startswith("test_"):
            assert "\ndef test_" not in path.read_text(encoding="utf-8"), f"{path.name} is not collected by pytest"


def test_continuous_integration_runs_the_documented_test_command():
    commands = [line.strip() for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()]
    tests = [line for line in commands if "-m pytest" in line and ".[dev]" in line]
    assert len(tests) == 1, "the README has exactly one command that installs and tests"
    pytest_part = tests[0].rpartition("&&")[2].strip().removeprefix(".venv/bin/python ")
    assert pytest_part.startswith("-m pytest")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script, "the command is read from the README"


def test_every_required_package_is_imported():
    """Nobody installs what is not used; what is imported under another name is listed here."""
    import_names = {"orbax-checkpoint": "orbax", "PyYAML": "yaml"}
    source = "\n".join(
        path.read_text(encoding="utf-8") for top in ("envs", "jaxrl") for path in (ROOT / top).rglob("*.py")
    )
    for requirement in PROJECT["project"]["dependencies"]:
        package = re.split(r"[><=\[]", requirement)[0]
        name = import_names.get(package, package)
        assert re.search(rf"^\s*(import|from) {name}\b", source, re.MULTILINE), package


def test_a_folder_envs_of_the_user_is_theirs(tmp_path):
    """`envs` at the top level is a name for anybody's code: we are `jaxrl.envs` alone."""
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "__init__.py").write_text("raise SystemExit('this is not yours')")
    program = "from jaxrl.envs import registry; print(len(registry.registered()))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert int(done.stdout) >= 4, done.stderr
