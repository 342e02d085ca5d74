"""Tables of results name commit, machine and commands, and one command runs those commands."""

from __future__ import annotations

import re
import subprocess

import pytest

from jaxrl_envs.shared.errors import UserError
from scripts import measured

SECTIONS = {
    title: text
    for page in measured.PAGES
    for title, text in zip(
        *[iter(re.split(r"^#{2,3} (.*)\n", page.read_text(encoding="utf-8"), flags=re.M)[1:])] * 2, strict=True
    )
    if "```bash" in text or re.search(r"^\|---", text, re.M)
}


@pytest.mark.parametrize("title", [title for title in SECTIONS if title != "Speed"])  # which is an overview
def test_a_table_says_what_makes_it_again(title):
    said = re.search(r"^First in commit `[0-9a-f]{7,}` \(\d{4}-\d\d-\d\d\); (.*)", SECTIONS[title], re.MULTILINE)
    assert said and re.search("AMD EPYC|Intel Xeon|the same", said[1]), "commit, date and machine"
    assert measured.sections()[title].strip(), "commands"


def test_the_commands_of_a_section_are_run(monkeypatch, capfd):
    monkeypatch.setattr(measured, "stamp", lambda: "commit 0123456 (2026-01-01); a machine")
    monkeypatch.setattr(measured, "sections", lambda: {"Nim": "echo once\nfalse\necho never\n"})
    assert measured.main([]) == 0 and measured.main(["Nim"]) == 1
    out = capfd.readouterr().out
    assert "commit 0123456" in out and "once" in out and "never" not in out
    with pytest.raises(UserError, match="no section 'Nym'"):
        measured.main(["Nym"])


def test_a_stamp_names_commit_date_and_machine():
    try:
        subprocess.run(["git", "rev-parse", "HEAD"], cwd=measured.ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a clone")
    assert re.match(r"commit [0-9a-f]{7,}.* \(\d{4}-\d\d-\d\d\); cpu ", measured.stamp())
