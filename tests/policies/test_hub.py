"""Policies on a hub: pushed and pulled, players everywhere, and what is wrong is one sentence.

pip install -e '.[hub]'    # without it all but one of these tests are skipped
"""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest
import yaml

from jaxrl import cli, zoo
from jaxrl.policies.export import load_policy
from jaxrl.policies.find import find_policy
from jaxrl.zoo import hub as client
from jaxrl_envs.contract import registry
from tests.support.hub import hub
from tests.support.small_runs import configure, train

NAME, CARD = "hf:ann/bears", zoo.card_file("beasty_bar")


def forget() -> None:
    """Forgets what this process has fetched."""
    client.policy_file.cache_clear()
    client.card_file.cache_clear()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A hub to which a zoo policy was pushed by the command."""
    constants = pytest.importorskip("huggingface_hub.constants")
    forget()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    monkeypatch.chdir(tmp_path)
    with hub() as found:
        monkeypatch.setenv("HF_ENDPOINT", found.address)
        assert cli.main(["zoo", "push", "beasty_bar", NAME]) == 0
        yield found


def fails(capsys, *words: str) -> str:
    """Returns the one sentence in which a command ends, asked as if nothing had been fetched in this process."""
    forget()
    capsys.readouterr()
    assert cli.main(list(words)) == 2
    said = capsys.readouterr().err
    assert said.startswith("jaxrl: ") and said.count("\n") == 1 and "Traceback" not in said
    return said


def test_a_policy_is_pushed_with_a_model_card(server):
    held = server.repositories["ann/bears"]
    assert held["policy.jaxrl"] == zoo.policy_file("beasty_bar").read_bytes()
    _, head, text = held["README.md"].decode().split("---\n", 2)
    told = yaml.safe_load(head)
    assert (told["license"], told["library_name"], told["pipeline_tag"]) == (
        "apache-2.0",
        "jaxrl",
        "reinforcement-learning",
    )
    [model], rows = told["model-index"], zoo.figures("beasty_bar")["evaluation"]["rows"]
    first = model["results"][0]
    assert len(model["results"]) == len(rows) and first["dataset"]["name"] == "beasty_bar against random"
    metric = first["metrics"][0]
    assert metric["value"] == 98.95 and "95 % from 98.4 to 99.3, of 2,000 games" in metric["name"], (
        "as the card's table"
    )
    own = told["jaxrl"]
    assert own["sha256"] == hashlib.sha256(held["policy.jaxrl"]).hexdigest()
    assert own["rules"] == registry.rules_hash("beasty_bar") and len(own["rules"]) == 64
    assert "| minimum: distilled" in text and f"jaxrl play {NAME}" in text
    assert all(agent.startswith("jaxrl/") for _, agent in server.heard)


def test_a_policy_of_the_hub_is_a_player_everywhere(server, tmp_path, capsys):
    (tmp_path / "pulled").mkdir()
    assert cli.main(["zoo", "pull", NAME, "pulled"]) == 0
    heads = {each: server.asked.count(each) for each in server.asked}
    assert heads["README.md"] == heads["policy.jaxrl"], "as often as the package asks for one file"
    assert load_policy(tmp_path / "pulled" / "bears.jaxrl").update == 1120
    assert (tmp_path / "pulled" / "bears.md").read_bytes() == server.repositories["ann/bears"]["README.md"]
    policy, stem = find_policy(f"{NAME}@main")
    assert (policy.env.id, stem) == ("beasty_bar", "bears")
    assert cli.main(["export", NAME, "--numpy"]) == 0 and (tmp_path / "bears.py").is_file()
    again = fails(capsys, "export", NAME)
    assert "is a policy file already" in again
    server.shutdown()
    server.server_close()
    forget()
    assert client.policy_file("ann/bears").is_file(), "what was fetched is used offline"


def test_what_is_wrong_with_a_repository_is_one_sentence(server, capsys, monkeypatch):
    held = server.repositories["ann/bears"]
    assert "there is no hf:ann/wolves" in fails(capsys, "play", "hf:ann/wolves")
    assert "no such revision" in fails(capsys, "play", f"{NAME}@old")
    for name in ("hf:bears", "hf:ann/a--b", "hf:ann/bear\u00e9", f"{NAME}@../../x"):
        assert "named hf:USER/REPO" in fails(capsys, "zoo", "pull", name)
    assert "say where to" in fails(capsys, "zoo", "push", "beasty_bar", "bears")
    with monkeypatch.context() as patch:
        patch.setattr(client, "LARGEST", 100)
        assert "it is no policy" in fails(capsys, "play", NAME)
    with monkeypatch.context() as patch:
        patch.setattr(client.files, "BY_HAND", 100)
        assert "README.md has more than" in fails(capsys, "play", NAME)
    held["policy.jaxrl"] = held["policy.jaxrl"][:-1]
    assert "another checksum" in fails(capsys, "play", NAME)
    for card in (b"# bears\n", b"---\njaxrl: 1\n---\n", b"---\na: !!python/name:os.system x\n---\n"):
        held["README.md"] = card
        assert "hf:ann/bears" in fails(capsys, "zoo", "pull", NAME)
    del held["README.md"]
    assert "holds no policy of jaxrl" in fails(capsys, "evaluate", NAME)
    monkeypatch.delenv("HF_TOKEN")
    assert "log in" in fails(capsys, "zoo", "push", "beasty_bar", NAME)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "go online" in fails(capsys, "play", "hf:ann/foxes")
    assert "go online" in fails(capsys, "zoo", "push", "beasty_bar", NAME)


def test_a_run_of_a_game_of_the_users_is_pushed_once_its_module_is_allowed(server, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("JAXRL_ALLOW", raising=False)
    configure(tmp_path, "examples.nim:Nim", 2)
    assert train(tmp_path, "mine", "env.id=examples.nim:Nim") == 0
    run = str(tmp_path / "runs" / "mine")
    assert "--allow examples" in fails(capsys, "zoo", "push", run, NAME)
    assert cli.main(["zoo", "push", run, NAME, "--allow", "examples"]) == 0
    assert b"game: examples.nim:Nim" in server.repositories["ann/bears"]["README.md"]
    assert "--allow examples" in fails(capsys, "export", NAME, "--numpy")


def test_rules_that_have_changed_since_are_told(server, capsys, monkeypatch):
    monkeypatch.setattr(registry, "rules_hash", lambda id: "other")
    forget()
    client.policy_file("ann/bears")
    assert "the sources of beasty_bar have changed since" in capsys.readouterr().err


def test_without_the_package_a_sentence_names_it(tmp_path):
    program = (
        "import sys; sys.modules['huggingface_hub'] = None; from jaxrl import cli; sys.exit(cli.main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "zoo", "pull", NAME]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "pip install 'jaxrl[hub]'" in done.stderr and "Traceback" not in done.stderr
