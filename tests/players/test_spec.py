"""The grammar of players' names."""

from __future__ import annotations

import pytest

from jaxrl.players.spec import AGENT, BARE, BOT, HUB, RUN, SEARCH, ZOO, parse, split_checkpoint


@pytest.mark.parametrize(
    ("text", "kind", "name", "checkpoint", "label"),
    [
        ("bot:hard", BOT, "hard", "", "hard"),
        ("bot:searcher-200", BOT, "searcher-200", "", "searcher-200"),
        ("zoo:battle", ZOO, "battle", "", "zoo:battle"),
        ("hf:ann/bears@v1", HUB, "ann/bears@v1", "", "hf:ann/bears@v1"),
        ("run:mine", RUN, "mine", "", "run:mine"),
        ("run:mine@best", RUN, "mine", "best", "run:mine@best"),
        ("agent:a.b:C", AGENT, "a.b:C", "", "agent:a.b:C"),
        ("search:1.5", SEARCH, "1.5", "", "search:1.5"),
        ("mine@500", BARE, "mine@500", "", "mine@500"),
    ],
)
def test_a_specification_is_read_by_its_prefix(text, kind, name, checkpoint, label):
    spec = parse(text)
    assert (spec.kind, spec.name, spec.checkpoint, spec.label, spec.text) == (kind, name, checkpoint, label, text)


@pytest.mark.parametrize(
    ("text", "run", "checkpoint"),
    [
        ("mine", "mine", ""),
        ("mine@12", "mine", "12"),
        ("/a@b/runs/mine", "/a@b/runs/mine", ""),
        ("a@b/c@7", "a@b/c", "7"),
    ],
)
def test_a_checkpoint_stands_behind_the_run_and_never_in_its_path(text, run, checkpoint):
    assert split_checkpoint(text) == (run, checkpoint)
