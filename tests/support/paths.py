"""Paths of the checkout, for tests in any folder."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
PYTHONPATH = os.pathsep.join([str(ROOT), str(ROOT / "envs")])  # for processes that a test starts in another folder
