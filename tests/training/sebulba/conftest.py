"""Every test here must leave no thread behind."""

from __future__ import annotations

import pytest

from tests.support.sebulba_training import threads_left


@pytest.fixture(autouse=True)
def no_thread_survives():
    yield
    assert not threads_left()
