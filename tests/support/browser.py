"""Playwright and Chromium for tests in a real browser; a module that imports them is skipped where one is missing."""

from __future__ import annotations

import contextlib
import shutil

import pytest

for package in ("starlette", "uvicorn", "websockets"):
    pytest.importorskip(package, reason="the extra web is not installed")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no chromium on this machine", allow_module_level=True)
FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # three dimensions without a GPU
BIG, PHONE = (1280, 800), (390, 844)


@contextlib.contextmanager
def launched():
    """A browser."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
