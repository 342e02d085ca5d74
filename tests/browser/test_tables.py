"""Whole games in a real browser: `.ci/run` installs what this needs where there is a Chromium."""

from __future__ import annotations

import re
import socket
import time

import pytest

from jaxrl_envs.contract import registry
from tests.support.browser import BIG, PHONE
from tests.support.serving import HIGH_CARD, serving

READY = ".action:enabled"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    with serving(folder, games=(*registry.registered(), HIGH_CARD), replays=(folder,), allow=("tests",)) as client:
        yield client


def sit_down(page, client, game, others, pace="0"):
    """Opens a table by the form; the person sits on seat 0."""
    page.goto(f"http://{client.host}/?game={game}")
    page.wait_for_selector("#open:enabled")
    for seat, who in enumerate(others, start=1):
        page.select_option(f"#seat-{seat}", who)
    page.click("#open")
    page.wait_for_selector("select[aria-label='pace of the agents']")
    page.select_option("select[aria-label='pace of the agents']", pace)


def test_a_card_of_a_game_sits_down_at_once(client, new_page):
    """Against the zoo's policy with the picture of the game, and at a game without either."""
    page = new_page(PHONE)
    for game, opponent in (("beasty_bar", "Zoo policy"), (HIGH_CARD, "Highest bot")):
        page.goto(f"http://{client.host}/")
        card = page.locator(".game", has=page.locator(f"[data-game='{game}']"))
        assert opponent in card.inner_text()
        assert card.locator("img").count() == (game == "beasty_bar") and not page.is_visible("#open")
        if game == "beasty_bar":
            assert page.evaluate("document.querySelector('.game img').naturalWidth") > 100
        page.click(f"[data-game='{game}']")
        page.wait_for_selector(READY)
        page.keyboard.press("1")
        page.wait_for_selector(".story li")


def over(page) -> bool:
    return page.query_selector(".end table") is not None


def play(pages, act, seconds=1200.0):
    """Lets everybody act who is asked, until the game is over for all."""
    turns, end = 0, time.monotonic() + seconds
    while not all(over(page) for page in pages):
        assert time.monotonic() < end, "the game does not end"
        for page in pages:
            if page.query_selector(READY):
                act(page)
                turns += 1
            else:
                page.wait_for_timeout(15)
    return turns


def by_number(page):
    page.keyboard.press("1")


def by_arrows(page):
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")


def by_click(page):
    """A card, and a button where there is a choice."""
    spot = page.query_selector(".overlay rect")
    if spot is None:
        return page.wait_for_timeout(15)
    actions = (spot.get_attribute("data-actions") or "").split()
    spot.click()
    if len(actions) > 1:
        page.click(f".action[data-action='{actions[-1]}']")


def test_skull_king_by_two_people_and_two_agents(client, new_page):
    anna, ben = new_page(), new_page(PHONE)
    sit_down(anna, client, "skull_king", ["bot:hard", "person", "bot:easy"])
    ben.goto(anna.get_attribute("button[data-link]", "data-link"))
    turns = play([anna, ben], by_number)
    assert turns >= 2 * 65, "ten rounds, with bids"
    for page in (anna, ben):
        page.wait_for_selector(".scene:visible")
    scores = [page.locator(".standing .number").all_inner_texts() for page in (anna, ben)]
    assert scores[0] == scores[1] and scores[0][0] == "points" and len(scores[0]) == 5
    assert [ben.inner_text(f".people li:nth-child({seat}) .name") for seat in (2, 3)] == ["Hard bot", "You"]
    for page in (anna, ben):  # players are called by their names, in the drawing and in the story, too
        told = [line.inner_text() for line in page.query_selector_all(".board, .story, .scores, .standing, .scene h2")]
        assert all("Hard bot" in text or "win" in text for text in told[:4]), told
        assert not re.search(r"\bseat \d", " ".join(told), re.IGNORECASE)
    winner = anna.inner_text(".standing .won td:first-child")
    assert anna.inner_text(".scene h2").startswith(f"{winner} win") and " points" in anna.inner_text(".scene h2")
    with anna.expect_download() as download:
        anna.click("text=replay file")
    assert download.value.suggested_filename.endswith(".replay")


def test_a_full_trick_of_skull_king_stays_for_a_moment(client, new_page):
    page = new_page()
    sit_down(page, client, "skull_king", ["bot:easy", "bot:easy"])
    held = None
    while not held:
        if page.query_selector(READY):
            by_number(page)
        page.wait_for_timeout(50)
        held = page.query_selector(".board[data-held]")
    began, text = time.monotonic(), page.inner_text(".board")
    assert "the trick" in text or "this trick" in text
    page.wait_for_selector(".board:not([data-held])")
    assert time.monotonic() - began < 30


def test_beasty_bar_by_clicks_on_a_phone(client, new_page):
    page = new_page(PHONE)
    sit_down(page, client, "beasty_bar", ["bot:heuristic"])
    moved = []

    def act(page):
        by_click(page)
        moved.extend(page.query_selector_all(".board .moving"))

    play([page], act)
    told = [line.inner_text() for line in page.query_selector_all(".story li")]
    assert moved, "a card that is played moves from the hand to the queue"
    mine = [line.startswith("You play") for line in told if line.startswith(("You play", "Heuristic bot plays"))]
    assert 21 <= len(mine) <= 24, "a game ends after a turn that leaves fewer than five cards (specification, 6)"
    assert all(before != after for before, after in zip(mine, mine[1:], strict=False)), "the seats take turns"
    page.locator(".board").filter(has_text="Game over").wait_for()  # after what the last turn removed has been shown
    assert page.query_selector("main").bounding_box()["width"] <= 390


def by_touch(page):
    """An area of the board or, where it has none, a button; and a button where there is a choice."""
    spot = page.query_selector(".overlay rect") or page.query_selector(READY)
    if spot is not None:
        spot.tap()
    if page.query_selector("button.quiet:text-is('back')"):
        page.tap(READY)


@pytest.mark.slow
@pytest.mark.parametrize("act", [by_touch, by_arrows])
@pytest.mark.parametrize(
    ("game", "others"),
    [("skull_king", ["bot:easy"] * 3), ("beasty_bar", ["bot:heuristic"]), ("battle", ["bot:random"])],
)
def test_a_whole_game_on_a_phone_by_touch_and_by_keyboard(client, new_page, game, others, act):
    """Nothing is wider than the screen, the console stays empty, and the end counts who has beaten whom."""
    page, said = new_page(PHONE, touch=True), []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    sit_down(page, client, game, others)
    assert play([page], act) > 10
    page.wait_for_selector(".scene:visible")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") and said == []
    duels = page.evaluate(f"JSON.parse(localStorage.getItem('duels:{game}'))")
    assert list(duels) == others[:1] and sum(duels[others[0]]) <= 1
    if sum(duels[others[0]]):
        assert re.search("beaten (it|you) 1 : 0", page.inner_text(".scene"))


@pytest.mark.parametrize("size", [BIG, PHONE])
def test_the_battle_is_played_on_its_map(client, new_page, size):
    """A click on a place moves the unit that is asked, one on an enemy shoots at it; Hint and Undo stay in view."""
    page = new_page(size)
    sit_down(page, client, "battle", ["bot:random"])
    while not page.query_selector(".action:has-text('shoot'):enabled"):
        page.wait_for_selector(READY)
        told = page.inner_text(".story")
        places = page.locator(".overlay rect[aria-label*='move forward, full']")  # where one is, also beside others
        if places.count():
            places.first.click()
            if page.query_selector("button.quiet:text-is('back')"):  # it stands for several actions
                page.click(".action:has-text('move forward, full')")
        else:
            by_number(page)
        end = time.monotonic() + 60
        while page.inner_text(".story") == told:
            assert time.monotonic() < end, "nothing has moved"
            page.wait_for_timeout(50)
    assert re.search(r"Your [\w ]+\(\d\) moves \d+ (east|west)", page.inner_text(".story"))
    for name in ("Hint", "Undo"):
        box = page.locator(f".bar button:has-text('{name}')").bounding_box()
        assert 0 <= box["y"] and box["y"] + box["height"] <= size[1]
    page.locator(".overlay rect[aria-label^='shoot at unit']").first.click()
    page.wait_for_selector(".story li:has-text('shoots at')")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_agent_of_the_zoo_gives_hints(client, new_page):
    page = new_page()
    sit_down(page, client, "beasty_bar", ["zoo:beasty_bar"])
    page.wait_for_selector(READY)
    page.keyboard.press("h")
    page.wait_for_selector(".advice strong")
    assert re.search(r"Zoo policy would choose .*, expects: \d+ % to win", page.inner_text(".advice"))
    assert page.locator(".board svg").count() == 2 and page.locator(".board pre").count() == 0, "the drawing stays"


def test_a_finished_game_is_watched_again_and_played_again(client, new_page):
    page = new_page()
    sit_down(page, client, HIGH_CARD, ["bot:lowest", "bot:lowest"])
    play([page], by_number)
    table = page.url
    page.click("text=Watch the replay")
    page.wait_for_selector(".story button")
    assert "seat=0" in page.url and page.locator("#costly").count() == 1
    assert page.locator("#seats .seat").all_inner_texts() == ["Person", "lowest 1", "lowest 2"]
    assert "lowest 2: " in page.inner_text(".story") and "seat" not in page.inner_text(".story").lower()
    page.goto(table)
    page.click("text=Play again")
    page.wait_for_selector(READY)
    assert page.url != table


def test_the_server_is_started_again(new_page, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    page = new_page()
    with serving(tmp_path, port) as client:
        sit_down(page, client, HIGH_CARD, ["bot:lowest", "bot:lowest"])
        page.wait_for_selector(READY)
        page.keyboard.press("1")
        page.wait_for_selector(READY)
        before = page.inner_text(".story"), page.inner_text(".actions")
    page.wait_for_selector(".lost")
    with serving(tmp_path, port):
        page.wait_for_selector(".table:not(.lost)")
        page.wait_for_selector(READY)
        assert (page.inner_text(".story"), page.inner_text(".actions")) == before
        play([page], by_number)


@pytest.mark.parametrize(("game", "others"), [("skull_king", ["bot:easy"] * 3), ("beasty_bar", ["bot:heuristic"])])
@pytest.mark.parametrize("size", [PHONE, PHONE[::-1]])
def test_cards_fit_a_finger_on_a_phone(client, new_page, game, others, size):
    """A card that can be clicked is at least 44 pixels wide and in sight, upright and on its side."""
    page = new_page(size)
    sit_down(page, client, game, others)
    end = time.monotonic() + 120
    while not page.query_selector(".overlay rect"):
        assert time.monotonic() < end, "no card can be clicked"
        asked = page.query_selector(READY)
        page.wait_for_timeout(300)  # a busy page draws the cards after the buttons, and a bid has none
        if asked and not page.query_selector(".overlay rect"):
            by_number(page)
    page.wait_for_selector(".board:not([data-held])")
    box = page.locator(".overlay rect").first.bounding_box()
    assert box["width"] >= 44 and 0 <= box["y"] and box["y"] + box["height"] <= size[1] + 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_person_who_does_not_see_is_told_hand_trick_and_reasons(client, new_page):
    """By keyboard: the table in words when asked, a reason after each trick, and agents by first names."""
    page = new_page()
    page.emulate_media(reduced_motion="reduce")
    sit_down(page, client, "skull_king", ["bot:easy"] * 3)
    page.wait_for_selector(READY)
    assert "if exact" in page.inner_text(".actions")
    page.click("text=How it is played")
    assert "bid" in page.inner_text("details[open]")
    page.click("text=How it is played")
    while not re.search(r" beats | came before | destroys ", page.inner_text("[role=log]")):
        if page.query_selector(READY):
            by_number(page)
        page.wait_for_timeout(50)
        assert page.evaluate("document.getAnimations().length") == 0
    page.wait_for_selector(READY)
    words = page.locator("[aria-label='the table in words']")
    assert words.get_attribute("aria-live") == "polite" and "your hand" in words.text_content()
    assert [page.inner_text(f".people li:nth-child({n}) .name") for n in (2, 3, 4)] == ["Anne", "Jack", "Mary"]
