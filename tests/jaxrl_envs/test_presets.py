"""The comments of the presets of all games say what they set."""

from __future__ import annotations

import re

import pytest
import yaml

from jaxrl import config as configs
from jaxrl.config import presets

TEXTS = {name: path.read_text(encoding="utf-8") for name, path in presets.shipped().items()}


@pytest.mark.parametrize("name", TEXTS)
def test_numbers_in_comments_are_right(name):
    """The updates (rounds) that the comment beside train.total_steps tells are those of the run."""
    for told in re.findall(r"total_steps: .*?, ([\d,]+) (?:updates|rounds)", TEXTS[name]):
        assert int(told.replace(",", "")) == configs.load(name).num_updates


@pytest.mark.parametrize("name", TEXTS)
def test_overrides_in_the_heads_are_understood(name):
    for line in re.findall(rf"^#   jaxrl train --config {name} .*", TEXTS[name], re.MULTILINE):
        overrides = [text.replace("'", "") for text in re.findall(r"\S+=(?:'[^']*'|\S+)", line)]
        assert configs.load(name, overrides), line
        assert all(yaml.safe_load(text.split("=")[1]) is not None for text in overrides)
