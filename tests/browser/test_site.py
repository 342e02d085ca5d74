"""The page without a server, in a real browser: whole games against the policy of the zoo."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading

import pytest

from jaxrl import cli
from tests.support.browser import BIG, PHONE

PATIENCE = 120_000  # milliseconds, on machines that may be busy
ASKED = ".action:enabled, .end table"
IN_SIGHT = "#queue [data-card], .cards [data-card], #hand-0 [data-card]"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(tmp_path_factory, *words):
    folder = tmp_path_factory.mktemp("site") / "page"
    assert cli.main(["serve", "--site", str(folder), *words]) == 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with served(tmp_path_factory) as address:
        yield address


@pytest.fixture(scope="module")
def skull_king_address(tmp_path_factory):
    with served(tmp_path_factory, "--policy", "zoo:skull_king") as address:
        yield address


@contextlib.contextmanager
def opened(browser, address, width, height, scheme):
    """A page that loads nothing from elsewhere and says nothing in the console."""
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


SIZES = pytest.mark.parametrize("size", [(*BIG, "dark"), (*PHONE, "light")], ids=["wide", "phone"])


@pytest.fixture
def page(browser, address, size):
    with opened(browser, address, *size) as page:
        yield page


@SIZES
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


@SIZES
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


@SIZES
def test_a_game_of_skull_king_is_played_to_its_end(browser, skull_king_address, size):
    with opened(browser, skull_king_address, *size) as page:
        page.wait_for_selector(ASKED)
        page.select_option("#pace", "0")
        answers = 0
        while page.query_selector(".end table") is None:
            backs = page.eval_on_selector_all("#others use", "all => all.map(one => one.getAttribute('href'))")
            assert set(backs) <= {"#back"}, "the policies' cards are face down"
            every = page.eval_on_selector_all("[data-card]", "all => all.length")
            assert every == len(page.query_selector_all("#hand [data-card], #trick [data-card]"))
            page.keyboard.press("1")
            answers += 1
            assert answers <= 10 * 11 + 55 + 50
            page.wait_for_selector(ASKED)
        assert answers >= 10 + 55
        assert "with" in page.inner_text("#state") and "points" in page.inner_text("#state")
        story = page.inner_text("#story")
        assert all(f"Points of round {number}:" in story for number in range(1, 11)) and "The game is over" in story
        assert page.locator("#beside tr").count() == 11 and page.locator(".end tr").count() == 5
        page.click("text=Play again")
        page.wait_for_selector(ASKED)
        assert page.locator("#beside tr").count() == 0


def test_a_full_trick_lies_for_a_moment_and_a_card_is_taken_back(browser, skull_king_address):
    with opened(browser, skull_king_address, *BIG, "light") as page:
        page.wait_for_selector(ASKED)
        page.keyboard.press("1")
        page.wait_for_selector("#hand .card:enabled")
        card = page.get_attribute("#hand .card:enabled", "data-card")
        page.keyboard.press("h")
        assert "In your place the policy would choose" in page.inner_text("#advice")
        page.click("#hand .card:enabled")
        if page.query_selector("#hand .chosen"):  # the Tigress
            page.click(".action >> nth=0")
        page.wait_for_selector("#trick figure:nth-child(4)")
        assert page.locator("#trick .wins").count() <= 1
        page.wait_for_selector(".action:enabled")
        page.keyboard.press("u")
        page.wait_for_selector(f"#hand [data-card='{card}']:enabled")
