"""The installed package is complete, its dependencies are used, and CI runs the README's test command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

from tests.support.paths import PYTHONPATH, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_folder_with_code_is_a_package():
    """`setup.py` finds packages by their `__init__.py`."""
    for top in ("envs/jaxrl_envs", "jaxrl"):
        for pattern in ("*.py", "*.pyx"):
            for path in (ROOT / top).rglob(pattern):
                assert (path.parent / "__init__.py").is_file(), path


def test_there_are_no_symbolic_links():
    """A plain checkout works everywhere, and every tool can follow every import."""
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []


def test_the_daemon_is_installed_whole():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["jaxrl_envs.forge"]
    installed = {path for pattern in patterns for path in (ROOT / "envs" / "jaxrl_envs" / "forge").glob(pattern)}
    found = {path for path in (ROOT / "envs" / "jaxrl_envs" / "forge" / "daemon").rglob("*") if path.is_file()}
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
    """No dependency is unused. Packages that are imported under another name are listed here."""
    import_names = {"orbax-checkpoint": "orbax", "PyYAML": "yaml"}
    source = "\n".join(
        path.read_text(encoding="utf-8") for top in ("envs", "jaxrl") for path in (ROOT / top).rglob("*.py")
    )
    for requirement in PROJECT["project"]["dependencies"]:
        package = re.split(r"[><=\[]", requirement)[0]
        name = import_names.get(package, package)
        assert re.search(rf"^\s*(import|from) {name}\b", source, re.MULTILINE), package


def test_a_folder_envs_of_the_user_is_theirs(tmp_path):
    """`envs` at the top level belongs to the user's own code: ours is `jaxrl_envs`."""
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "__init__.py").write_text("raise SystemExit('this is not yours')")
    program = "from jaxrl_envs.contract import registry; print(len(registry.registered()))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        check=False,
    )
    assert int(done.stdout) >= 4, done.stderr
