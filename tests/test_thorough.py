"""The tests that only a whole run has are there: see `tests/conftest.py`."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import THOROUGH


def test_every_name_is_a_test():
    for name in THOROUGH:
        if not name.startswith("#"):
            file, _, function = name.partition("::")
            assert f"def {function}(" in (Path(__file__).parent / file).read_text(encoding="utf-8"), name
