"""The files by which a public project is recognised parse, and commands in them exist; none is run here."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib

import pytest
import yaml

import jaxrl
from jaxrl import cli
from tests.conftest import AS_USERS
from tests.support.paths import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
INSTALLED = {"pip", "pytest", "mkdocs", "cibuildwheel", "build", "venv"}  # modules that are there or a step installs
PROGRAMS = {"python", "true", "test", "cyclonedx-py", "pip-audit"}  # the same


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_steps_of_a_workflow_name_what_exists(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", True, "permissions", "jobs"} <= set(workflow)  # YAML 1.1 reads the key `on` as true
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 180 and set(job.get("needs", [])) <= set(workflow["jobs"])
        for step in job["steps"]:
            assert len({"uses", "run"} & set(step)) == 1
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v1)", step["uses"])
            else:
                check_command(re.sub(r"\$\{\{ matrix\.\w+ \}\}", "", step["run"]))


def test_built_wheels_are_tried_by_what_exists():
    check_command(PYPROJECT["tool"]["cibuildwheel"]["test-command"].replace("{project}/", ""))


def check_command(text: str) -> None:
    subprocess.run(["bash", "-n", "-c", text], check=True)
    words = shlex.split(text)
    for word in words:
        if word.startswith((".ci/", "tests/")):
            assert (ROOT / word).exists(), word
        for extra in re.findall(r"^\.\[(\w+)\]$", word):
            assert extra in PROJECT["optional-dependencies"]
    assert words[0] in PROGRAMS or (ROOT / words[0]).stat().st_mode & 0o111, text
    if "-m" in words:
        assert words[words.index("-m") + 1] in INSTALLED


def test_the_matrix_begins_with_the_oldest_python():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    assert PROJECT["requires-python"] == ">=" + workflow["jobs"]["pythons"]["strategy"]["matrix"]["python"][0]


def test_the_weekly_run_compiles_as_users_do():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "weekly.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["optimised"]["env"]["XLA_FLAGS"] == AS_USERS


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_issue_templates_ask_for_what_exists(path):
    template = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.stem != "config":
        assert template["name"] and template["description"]
        ids = [part["id"] for part in template["body"]]
        assert len(ids) == len(set(ids)) and all(part["attributes"]["label"] for part in template["body"])
    for command in re.findall(r"`jaxrl (\w+)`", path.read_text(encoding="utf-8")):
        assert command in cli.COMMANDS
    for page in re.findall(r"docs/[\w/.]+\w", path.read_text(encoding="utf-8")):
        assert (ROOT / page).exists(), page


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert (citation["version"], citation["license"]) == (jaxrl.__version__, PROJECT["license"])


def test_the_image_opens_the_page():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    found = {word: rest for word, _, rest in (line.partition(" ") for line in lines if line[:1].isupper())}
    assert set(re.findall(r"\.\[(\w+)\]", found["RUN"])) <= set(PROJECT["optional-dependencies"])
    command, *options = json.loads(found["CMD"])
    parser = cli.Parser(prog="jaxrl serve")
    cli.find_command(command).add_options(parser)
    assert json.loads(found["ENTRYPOINT"]) == ["jaxrl"]
    assert parser.parse_args(options).port == int(found["EXPOSE"])


def test_badges_belong_to_workflows():
    names = re.findall(r"actions/workflows/([\w.]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert names and set(names) <= {path.name for path in WORKFLOWS}


@pytest.mark.parametrize(("name", "most"), [("AGENTS.md", 70), ("llms.txt", 40)])
def test_what_coding_assistants_read_is_short_and_links_to_what_exists(name, most):
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(r"\]\(([^)]+)\)", text) + re.findall(r"`((?:jaxrl|envs|examples|tests|configs)/[\w./]*)`", text)
    assert len(paths) > 5 and all((ROOT / path).exists() for path in paths), paths
    assert len(text.splitlines()) <= most
