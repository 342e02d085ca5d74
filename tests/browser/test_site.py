"""The page without a server, in a real browser: whole games against the policy of the zoo."""

from __future__ import annotations

import functools
import http.server
import threading

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (pip install playwright)")

from jaxrl import cli
from tests.browser.conftest import CHROMIUM

PATIENCE = 120_000  # milliseconds, on machines that may be busy
ASKED = ".action:enabled, .end table"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")
IN_SIGHT = "#queue [data-card], .cards [data-card], #hand-0 [data-card]"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "page"
    assert cli.main(["site", str(folder)]) == 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(params=[(1280, 800, "dark"), (390, 844, "light")], ids=["wide", "phone"])
def page(request, browser, address):
    """A page that loads nothing from elsewhere and says nothing in the console."""
    width, height, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page, said = context.new_page(), []
    page.set_default_timeout(PATIENCE)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda asked: asked.url.startswith(address) or said.append(asked.url))
    page.goto(address)
    yield page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the screen"
    context.close()
    assert said == []


def test_a_game_is_played_to_its_end(page):
    page.wait_for_selector(ASKED)
    page.select_option("#pace", "0")
    turns = 0
    while page.query_selector(".end table") is None:
        backs = page.eval_on_selector_all("#hand-1 use", "all => all.map(one => one.getAttribute('href'))")
        assert set(backs) <= {"#back-1"}, "the policy's cards are face down"
        every, seen = (len(page.query_selector_all(selector)) for selector in ("[data-card]", IN_SIGHT))
        assert every == seen, "a card that lies nowhere is in the page"
        page.keyboard.press("1")
        turns += 1
        assert turns <= 12
        page.wait_for_selector(ASKED)
    assert turns >= 10
    assert page.inner_text("#state").startswith(("You win", "The policy wins", "A draw"))
    story = page.inner_text("#story")
    assert story.count("You play") == turns and "The game is over" in story
    page.click("text=Play again")
    page.wait_for_selector(ASKED)
    assert "The game is over" not in page.inner_text("#story")


def test_hint_undo_and_cards(page):
    page.wait_for_selector(ASKED)
    page.select_option("#pace", "200")  # with its movements
    hand = page.eval_on_selector_all("#hand-0 [data-card]", "all => all.map(one => one.dataset.card)")
    page.keyboard.press("h")
    assert "the policy would choose" in page.inner_text("#advice")
    page.click(f"[data-card='{hand[0]}']")
    if page.query_selector("#hand-0 .chosen"):  # a choice is left: only its actions are shown
        page.click(".action >> nth=0")
    page.wait_for_selector(".action:enabled")
    page.wait_for_function("document.querySelectorAll('#story li').length >= 3")
    page.keyboard.press("u")
    page.wait_for_selector(".action:enabled")
    assert hand == page.eval_on_selector_all("#hand-0 [data-card]", "all => all.map(one => one.dataset.card)")
