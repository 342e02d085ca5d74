"""From a clone to a won trick in the browser, by the clock: what a newcomer waits for who does everything at once.

    python -m scripts.benchmark.newcomer            # from the clone on
    python -m scripts.benchmark.newcomer --here     # from `jaxrl serve` on, by this installation: cold, then warm

Clones this repository into a temporary folder with a home of its own, so that nothing is cached, follows the page on
`jaxrl serve`, and plays Skull King in Chromium (which needs playwright) with its first legal action until the person
has played a card and won a trick. Prints the seconds of every step, and what the server has computed in them: on a
machine that is busy otherwise the seconds of the processor say more.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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
        self.server: int | None = None  # its process

    def __call__(self, step: str) -> None:
        """Prints a step that is done."""
        now, cpu = time.monotonic(), ""
        if self.server is not None:
            ticks = Path(f"/proc/{self.server}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
            cpu = f"   processor {sum(map(int, ticks)) / os.sysconf('SC_CLK_TCK'):6.1f} s"
        print(f"{step:44} {now - self._last:7.1f} s   in all {now - self._begun:7.1f} s{cpu}", flush=True)
        self._last = now


def play(page: sync_api.Page, clock: Clock) -> None:
    """Sits down at Skull King by its card, and plays until a trick is won."""
    page.wait_for_selector("[data-game='skull_king']")
    clock("the first page")
    page.click("[data-game='skull_king']")
    page.wait_for_selector(".board svg")
    clock("the table is laid")
    page.wait_for_selector(".action:enabled")
    clock("the first bid is asked")
    page.select_option("select[aria-label='pace of the agents']", "0")
    turns, played = 0, False
    while WON not in (told := page.inner_text("main")):
        if not played and "You play" in told:
            played = True
            clock("the first card is played")
        if page.query_selector(".action:enabled"):
            page.keyboard.press("1")
            turns += 1
        page.wait_for_timeout(50)
    clock(f"a trick is won, after {turns} turns")


def serve(command: list[str], place: Path, environment: dict[str, str], clock: Clock) -> None:
    """Starts the server and plays on it."""
    with subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        clock.server = server.pid
        address = server.stdout.readline().split()[-1]
        clock("jaxrl serve")
        try:
            chromium = shutil.which("chromium") or shutil.which("chromium-browser")
            with sync_api.sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page()
                page.set_default_timeout(PATIENCE)
                clock("a browser is started")
                page.goto(address)
                play(page, clock)
                browser.close()
        finally:
            server.terminate()


@contextlib.contextmanager
def fresh() -> Iterator[tuple[Path, dict[str, str]]]:
    """Makes a temporary folder, and an environment whose home is in it."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place) / "home"
        home.mkdir()
        yield Path(place), {"HOME": str(home), "PATH": os.environ["PATH"]}


def from_here() -> None:
    """Measures from the start of the server on, first with nothing compiled, then with what the first time has left."""
    with fresh() as (place, environment):
        environment |= {name: os.environ[name] for name in ("PYTHONPATH", "JAX_PLATFORMS") if name in os.environ}
        for state in ("cold", "warm"):
            print(f"{state}:")
            serve([sys.executable, "-m", "jaxrl", "serve", "--port", "0"], place, environment, Clock())


def from_a_clone() -> None:
    """Measures the whole way."""
    with fresh() as (place, environment):
        clone, clock = place / "jaxrl", Clock()

        def run(*command: str) -> None:
            subprocess.run(command, check=True, env=environment, cwd=place, stdout=subprocess.DEVNULL)

        run("git", "clone", "-q", str(ROOT), str(clone))
        clock("git clone")
        run(sys.executable, "-m", "venv", f"{clone}/.venv")
        clock("python -m venv .venv")
        run(f"{clone}/.venv/bin/pip", "install", "-q", "-e", f"{clone}[web]")
        clock("pip install -e '.[web]'")
        serve([f"{clone}/.venv/bin/jaxrl", "serve", "--port", "0"], clone, environment, clock)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--here", action="store_true", help="from the start of the server on, by this installation")
    from_here() if parser.parse_args().here else from_a_clone()
