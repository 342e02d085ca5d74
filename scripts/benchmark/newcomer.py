"""From a clone to a won trick in the browser, by the clock: what a newcomer waits for who does everything at once.

    python -m scripts.benchmark.newcomer

Clones this repository into a temporary folder with a home of its own, so that nothing is cached, follows the page on
`jaxrl serve`, and plays Skull King in Chromium (which needs playwright) with its first legal action until the person
has won a trick. Prints the seconds of every step.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright import sync_api

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 600_000  # milliseconds
WON = "You win the trick"


class Clock:
    """Prints how long each step took."""

    def __init__(self) -> None:
        """Starts it."""
        self._begun = self._last = time.monotonic()

    def __call__(self, step: str) -> None:
        """A step is done."""
        now = time.monotonic()
        print(f"{step:44} {now - self._last:7.1f} s   in all {now - self._begun:7.1f} s", flush=True)
        self._last = now


def play(page: sync_api.Page, clock: Clock) -> None:
    """Opens a table of Skull King as the form suggests it, and plays until a trick is won."""
    page.wait_for_selector("#open:enabled")
    clock("the page with the form")
    page.click("#open")
    page.wait_for_selector(".action:enabled")
    clock("the table is laid, the first bid is asked")
    page.select_option("select[aria-label='pace of the agents']", "0")
    turns = 0
    while WON not in page.inner_text("main"):
        if page.query_selector(".action:enabled"):
            page.keyboard.press("1")
            turns += 1
        page.wait_for_timeout(50)
    clock(f"a trick is won, after {turns} turns")


def main() -> None:
    """The whole way."""
    with tempfile.TemporaryDirectory() as place, sync_api.sync_playwright() as playwright:
        home = Path(place) / "home"
        home.mkdir()
        environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
        clone, clock = Path(place) / "jaxrl", Clock()

        def run(*command: str) -> None:
            subprocess.run(command, check=True, env=environment, cwd=place, stdout=subprocess.DEVNULL)

        run("git", "clone", "-q", str(ROOT), str(clone))
        clock("git clone")
        run(sys.executable, "-m", "venv", f"{clone}/.venv")
        clock("python -m venv .venv")
        run(f"{clone}/.venv/bin/pip", "install", "-q", "-e", f"{clone}[web]")
        clock("pip install -e '.[web]'")
        command = [f"{clone}/.venv/bin/jaxrl", "serve", "--port", "0"]
        with subprocess.Popen(command, cwd=clone, env=environment, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            clock("jaxrl serve")
            try:
                chromium = shutil.which("chromium") or shutil.which("chromium-browser")
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page()
                page.set_default_timeout(PATIENCE)
                page.goto(f"{address}?game=skull_king")
                play(page, clock)
                browser.close()
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
