"""Playwright and Chromium for tests in a real browser; a module that imports them is skipped where one is missing."""

from __future__ import annotations

import shutil

import pytest

for package in ("starlette", "uvicorn", "websockets"):
    pytest.importorskip(package, reason="the extra web is not installed")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no chromium on this machine", allow_module_level=True)
