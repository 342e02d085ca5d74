"""The tests that only a whole run has are there: see `tests/conftest.py`."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import THOROUGH


def test_every_name_is_a_test_or_a_file_of_them():
    for name in THOROUGH:
        if not name.startswith("#"):
            file, _, function = name.partition("::")
            wanted = f"def {function}(" if function else "def test_"
            assert wanted in (Path(__file__).parent / file).read_text(encoding="utf-8"), name
