"""The commands in README, CONTRIBUTING.md and the pages of docs/ are valid."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

from jaxrl import cli
from jaxrl import config as configs
from jaxrl.config import command_line, presets
from jaxrl.networks.factory import make_network
from jaxrl.players import names as player_names
from jaxrl.policies.export import save_policy
from jaxrl.runs.directory import TrainedRun, make_evaluation_env
from jaxrl.zoo import hub
from tests.support.paths import ROOT

PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
}
README = PAGES["README.md"]
PYTHON = [block for text in PAGES.values() for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


def commands_of(block: str) -> list[str]:
    """Returns the lines of a block without comments. Bash expands a block with variables; there `jaxrl` is an echo."""
    if re.search(r"^[A-Z]+=", block, re.MULTILINE):
        script = "jaxrl() { echo jaxrl ${*@Q}; }\n" + block
        block = subprocess.run(["bash", "-eu", "-c", script], capture_output=True, text=True, check=True).stdout
    return [line.split(" #")[0].strip() for line in block.splitlines()]


LINES = [
    line
    for text in PAGES.values()
    for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    for line in commands_of(block)
]
LAUNCHERS = r"^(?:\.venv/bin/|srun |FORGE_HOME=\S+ )*(?=jaxrl )"  # what may stand before one of our commands
COMMANDS = list(dict.fromkeys(re.sub(LAUNCHERS, "", line) for line in LINES if re.search(LAUNCHERS, line)))
BENCHMARK = r"python -m (scripts\.benchmark[.\w]*)([^`#\n]*)"  # also in the middle of a sentence
SHARED = ("--config", "--allow")  # options of `jaxrl.config.command_line`
BENCHMARKS = [(page, *found) for page, text in PAGES.items() for found in re.findall(BENCHMARK, text)]
THEIRS = r"\bmy[_.\w]*\b|\bmy deck"  # files that a reader has and we have not
RUNS = {  # what runs, configurations and policy files in examples are of
    "mine": "forge_clone",
    "CONFIG": "forge_clone",
    "zoo:skull_king_any": "skull_king_any",
    "examples/policies/forge_tricks.jaxrl": "forge_tricks",
}
CHEAP = [  # and what their output holds; they need no run, no network and no other program
    (r"jaxrl config( \w+)?", "train"),
    (r"jaxrl config --env \w+", "env.options"),
    ("jaxrl games", "skull_king"),
    ("jaxrl zoo( show skull_king| get skull_king)?", "skull_king"),
    ("jaxrl check examples.nim:Nim", "passed"),
]


def untrained_run(name: str) -> TrainedRun:
    """Returns a run of the smallest game with random parameters."""
    config = configs.from_dict({"env": {"id": "examples.nim:Nim"}, "network": {"hidden": [8]}})
    env = make_evaluation_env(config)
    params = make_network(config.network, env).init(jax.random.key(0))
    return TrainedRun(name=name, config=config, env=env, update=0, params=[params], params_hash="")


def test_the_readme_is_read_in_three_minutes():
    assert len(README.splitlines()) <= 110
    assert len(PAGES["CONTRIBUTING.md"].encode()) <= 6 * 1024
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= 60
    assert len(re.findall(r"^python3 -m venv .*pip install", README, re.MULTILINE)) == 2, "to install, and to test"


def test_links_lead_somewhere():
    """`mkdocs build --strict` checks the pages of the site only; this test also checks the files of the repository."""
    for page, text in PAGES.items():
        for link in re.findall(r"""(?:\]\(|src=")([^)#"\s]+)[^)"]*[)"]""", re.sub(r"```.*?```", "", text, flags=re.S)):
            elsewhere = re.match(r"https?://|\.\./\.\./actions/workflows/", link)  # the latter are badges
            assert elsewhere or (ROOT / page).parent.joinpath(link).exists(), f"{page}: {link}"


def test_every_page_is_listed():
    listed = re.findall(r"^ +- .*?([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(set(listed)) == len(listed)
    assert {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")} <= set(listed)


def test_the_export_example_runs(tmp_path, monkeypatch, capsys):
    example = next(block for block in PYTHON if "load_policy" in block)
    assert len(example.splitlines()) == 10
    monkeypatch.chdir(tmp_path)
    save_policy("skull_king_cpu.jaxrl", untrained_run("skull_king_cpu"))
    exec(compile(example, "playing.md", "exec"), {})  # the text is ours
    assert "stones" in capsys.readouterr().out


@pytest.mark.thorough
def test_the_environment_example_runs():
    example = next(block for block in PYTHON if "jaxrl.make(" in block and "env.step" in block)
    names: dict = {}
    exec(compile(example, "library.md", "exec"), names)
    assert names["state"].current_player.shape == (1024,)
    assert not names["state"].illegal_action.any()


def test_resume_further_means_further_than_planned():
    lines = [shlex.split(line) for line in COMMANDS if line.startswith("jaxrl resume skull_king_cpu --steps")]
    preset = configs.load("skull_king_cpu")
    assert lines and all(float(line[-1]) > preset.num_updates * preset.batch_size for line in lines)


def test_the_shown_run_directory_is_that_of_every_preset():
    """Best checkpoints exist only where training evaluates, and evaluations happen only between calls."""
    tree = re.search(r"^    runs/(\w+)/\n(?:      .*\n)+", PAGES["docs/start/training.md"], re.MULTILINE)
    assert tree is not None and tree[1] == "skull_king_cpu" and "best.json" in tree[0]
    for name in presets.shipped():
        train = configs.load(name).train
        assert train.evaluate_every and train.evaluate_every % train.updates_per_call == 0, name


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_is_understood(line, monkeypatch):
    """The arguments are parsed by the real parsers and the keys checked in the configuration; nothing is run."""
    seen = []

    def prepare(*given):
        command = real(*given)
        return SimpleNamespace(main=seen.append, DEVICES=getattr(command, "DEVICES", cli.ONE))

    real = cli._prepare
    monkeypatch.setattr(cli, "_prepare", prepare)
    # Runs, files and configurations that a page speaks of need not exist.
    monkeypatch.setattr(player_names, "find_folder", lambda name, **more: Path(name))
    monkeypatch.setattr(hub, "policy_file", Path)
    monkeypatch.setattr(command_line, "existing_config", str)
    monkeypatch.chdir(ROOT)
    assert cli.main(shlex.split(line)[1:]) == 0
    [args] = seen
    keys = [word for word in getattr(args, "overrides", []) if "=" in word]
    if keys and not re.search(THEIRS, line):
        preset = preset_of(args, keys)
        configs.load(preset, keys) if preset else configs.from_dict(presets.apply_overrides({}, keys))


def preset_of(args, keys: list[str]) -> str | None:
    """The configuration whose keys a command changes: the one it names, or the preset after which its run is named."""
    given = [getattr(args, name, None) for name in ("config", "run", "candidate", "env")]
    words = [RUNS.get(word, word) for word in given if isinstance(word, str)]
    found = [word for word in words if word in presets.shipped() or word.endswith(".yaml")]
    assert found or any(key.startswith("env.id=") for key in keys), "its keys belong to no configuration that we know"
    return found[0] if found else None


@pytest.mark.parametrize("line", [line for line in COMMANDS if any(re.fullmatch(each, line) for each, _ in CHEAP)])
def test_cheap_commands_run(line, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    expected = next(words for pattern, words in CHEAP if re.fullmatch(pattern, line))
    assert cli.main(shlex.split(line)[1:]) == 0
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize(("page", "module", "words"), BENCHMARKS)
def test_every_benchmark_is_a_script_with_these_options(page, module, words):
    text = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    assert all(f'"{option}"' in text or option in SHARED for option in re.findall(r"(?<=\s)--?[a-z][-\w]*", words))


def test_every_preset_is_measured_or_named_among_those_that_are_not():
    measured = "".join(text for page, text in PAGES.items() if re.match(r"docs/(results/(?!limits)|games/)", page))
    without = re.search(r"\*\*no figure of strength\*\*.*?\.\s", PAGES["docs/results/limits.md"], re.DOTALL)
    named = set(re.findall(r"`(\w+)`", without[0])) if without else set()
    shipped = set(presets.shipped())
    assert shipped == named | {name for name in shipped if re.search(rf"`{name}`|--config {name}\b", measured)}
