"""Programs and language models in a seat, by the doors that are documented.

pip install -e '.[mcp]'    # without it the tests of the Model Context Protocol are skipped
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import subprocess
import sys

import pytest

from jaxrl import cli
from tests.support.paths import PYTHONPATH, ROOT
from tests.support.serving import HIGH_CARD, TIC_TAC_TOE, serving


def test_a_program_of_thirty_lines_plays_a_game(tmp_path):
    with serving(tmp_path) as client:
        command = [sys.executable, ROOT / "examples" / "play_a_seat.py", f"http://{client.host}", TIC_TAC_TOE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
        assert done.stdout.splitlines()[-1] in ("[1, -1]", "[-1, 1]", "[0, 0]"), done.stderr
    code = (ROOT / "examples" / "play_a_seat.py").read_text()
    assert len(code.partition('"""\n\n')[2].splitlines()) <= 30
    assert code in (ROOT / "docs" / "start" / "browser.md").read_text()


async def conversation(folder) -> tuple[str, list[str]]:
    """A stand-in for a model, which plays the first action of every list until its game is over."""
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters

    words = ["-m", "jaxrl", "serve", "--mcp", "--runs", str(folder), "--game", HIGH_CARD]
    env = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": PYTHONPATH,
        "http_proxy": "http://127.0.0.1:9",
    }  # not used
    heard: list[str] = []
    async with Client(StdioServerParameters(command=sys.executable, args=words, env=env)) as model:

        async def call(name: str, **args: object) -> str:
            answer = await model.call_tool(name, args)
            heard.append(f"error: {answer.content[0].text}" if answer.is_error else answer.content[0].text)
            return heard[-1]

        assert {each.name for each in (await model.list_tools()).tools} == {"games", "open_table", "look", "play"}
        await call("games")
        await call("open_table", game="nothing")
        link = (await call("open_table", game=HIGH_CARD, seats=["person", "bot:lowest", "bot:highest"])).split()[-1]
        await call("look", seat=link.partition("#")[0] + "#other")
        await call("look", seat=link.replace("token=", "token=x"))
        text = await call("look", seat=link)
        await call("play", seat=link, action="99")
        while number := re.search(r"(?m)^(\d+): ", text):
            text = await call("play", seat=link, action=number[1])
        await call("play", seat=link, action="1")
    return link, heard


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="needs the extra mcp")
def test_a_model_plays_a_whole_game(tmp_path):
    link, heard = asyncio.run(conversation(tmp_path))
    assert f"{HIGH_CARD}: 3 seats" in heard[0] and "car_soccer" not in heard[0], "whose seats are asked all at once"
    assert "error" in heard[1] and "does not offer" in heard[1]
    assert link.startswith("http://127.0.0.1:") and "?token=" in link
    assert heard[3].startswith("error") and "of no seat of this table" in heard[3]
    assert heard[4].startswith("error") and "401" in heard[4]
    assert "you are seat 0" in heard[5] and "your actions:" in heard[5]
    assert "'99' is not legal now" in heard[6]
    assert re.search(r"The game is over: (won|lost|drawn)", heard[-2]) and "the game is over" in heard[-1]
    assert len(heard) == 7 + 3 + 1, "three cards each"


def test_without_the_package_a_sentence_names_it(tmp_path, monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "mcp" else find(name, *more))
    monkeypatch.chdir(tmp_path)
    assert cli.main(["serve", "--mcp"]) == 2
    assert "pip install 'jaxrl[mcp]'" in capsys.readouterr().err
