"""`python -m scripts.benchmark.card`, with the CPU in the place of a GPU; see its `--dry`."""

from __future__ import annotations

import pytest

from jaxrl.config import Config
from scripts.benchmark import card


class Loaded(Exception):
    """The configuration of a part, before anything is made of it."""


def loaded(config: Config) -> None:
    raise Loaded(config)


def test_the_parts_differ_and_their_configurations_are_valid(monkeypatch, tmp_path):
    monkeypatch.setattr(card, "make_env", loaded)
    assert len({part.name for part in card.PARTS}) == len(card.PARTS)
    for part in card.PARTS:
        if part.rows not in (card.kill_and_resume, card.to_a_mark):  # these are commands
            with pytest.raises(Loaded):
                next(part.rows(card.Place(tmp_path, dry=False)))


@pytest.mark.slow
def test_every_kind_of_part_in_a_dry_run(monkeypatch, tmp_path, capsys):
    kinds = {getattr(part.rows, "__qualname__", ""): part for part in reversed(card.PARTS)}
    monkeypatch.setattr(card, "PARTS", parts := list(kinds.values())[::-1])
    monkeypatch.setattr(card, "launch", card.measure)  # in this process
    assert card.main(["--dry", "--out", str(tmp_path), "--minutes", "30"]) == 0
    page = (tmp_path / card.PAGE).read_text()
    assert len(parts) == 6 and page.count("\n## ") == 6 and "failed" not in page
    bits, killed = (
        card.lines_of(part, tmp_path)[1:] for part in parts if part.name in ("the same bits", "kill and resume")
    )
    assert bits[0]["row"]["hash"] == bits[1]["row"]["hash"]
    assert killed[0]["row"]["equal"] == killed[0]["row"]["arrays of the state"] > 10
    assert card.main(["--dry", "--out", str(tmp_path)]) == 0 and "complete" in capsys.readouterr().out


def test_a_part_that_fails_is_named_and_comes_again(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(card, "PARTS", [card.PARTS[0]._replace(flags="--xla_no_such_flag=1")])
    for _ in range(2):
        assert card.main(["--dry", "--out", str(tmp_path), "--minutes", "1"]) == 1
        assert "the same command goes on with speed" in capsys.readouterr().out
        page = (tmp_path / card.PAGE).read_text()
        assert page.count("failed: exit code") == 1 and "xla_no_such_flag" in page


def test_without_a_gpu_it_says_so(tmp_path, capsys):
    assert card.main(["--out", str(tmp_path)]) == 2
    assert "--dry" in capsys.readouterr().err
