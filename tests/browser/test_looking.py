"""Replays of every kind and a training that goes on, in a real browser: by keyboard, by links, on a phone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from jaxrl_envs.contract import registry
from tests.serve.test_runs import make_run
from tests.support.browser import BIG, PHONE
from tests.support.paths import ROOT
from tests.support.serving import GAMES, serving

PATIENCE = 180_000  # milliseconds: what is opened may have to be compiled
TRAIN = "network.hidden=[8] train.num_envs=8 train.num_steps=8 train.total_steps=300000 train.updates_per_call=1"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("looking")
    for name in ("first", "second"):
        make_run(folder / "runs" / name, updates=30)
    return folder


@pytest.fixture(scope="module")
def client(place):
    roots = (ROOT / "tests" / "golden", ROOT / "docs" / "games" / "assets", place / "runs")
    with serving(place, games=(*GAMES, *registry.registered()), replays=roots) as client:
        yield client


@pytest.fixture
def new_page(new_page, client):
    """Pages that log no error and are not wider than their screen."""
    errors, pages = [], []

    def make(path, size=BIG):
        page = new_page(size)
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(f"http://{client.host}{path}")
        pages.append(page)
        return page

    yield make
    widths = [page.evaluate("[document.documentElement.scrollWidth, innerWidth]") for page in pages]
    assert errors == [] and all(wide <= screen for wide, screen in widths)


def until(page, expression):
    """Waits until it is true; the policy of our pages lets no page evaluate text by itself, as Playwright would."""
    end = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        time.sleep(0.1)


def frame(page) -> int:
    return int(page.get_attribute("[data-frame]", "data-frame"))


def wait_for_frame(page, number):
    until(page, f"document.querySelector('[data-frame]')?.dataset.frame === '{number}'")


def scrub(page):
    """By the keyboard: to the end, back, step by step, a jump; by the slider; by a line of the story."""
    page.wait_for_selector("[data-frame]")
    last = int(page.get_attribute("input[type=range]", "max"))
    assert frame(page) == 0 and last > 0
    page.keyboard.press("End")
    wait_for_frame(page, last)
    page.keyboard.press("ArrowLeft")
    wait_for_frame(page, last - 1)
    page.keyboard.press("Home")
    wait_for_frame(page, 0)
    page.keyboard.press("ArrowRight")
    wait_for_frame(page, 1)
    page.fill("input[type=range]", str(last // 2))
    wait_for_frame(page, last // 2)
    until(page, f"location.hash.startsWith('#t=') && location.hash !== '#t=0' || {last // 2} === 0")
    line = page.query_selector_all(".story button")[0]
    line.click()
    wait_for_frame(page, int(line.get_attribute("data-at")))
    return last


RECORDINGS = {
    "pictures": "0/beasty_bar/games.jsonl.gz&game=2",
    "battle": "0/battle/battles.jsonl.gz&game=1",
    "text": "0/forge/observed.forge.gz",
    "film": "1/battle_film.svg",
    "space": "0/car_soccer/random.json.gz&game=200",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", RECORDINGS)
def test_a_recording_is_opened_and_scrubbed(new_page, kind):
    page = new_page(f"/replays/view?file={RECORDINGS[kind]}")
    scrub(page)
    if kind in ("pictures", "battle"):
        assert page.evaluate("document.querySelector('img.picture').naturalWidth") > 100
        assert page.get_attribute("img.picture", "alt")
    if kind == "text":
        assert "life" in page.inner_text("pre.stage")
    if kind == "film":
        page.fill("input[type=range]", "300")
        wait_for_frame(page, 300)
        inner = "document.querySelector('iframe').contentDocument.documentElement.getCurrentTime()"
        assert page.evaluate(inner) == pytest.approx(30.0, abs=0.01)


@pytest.mark.slow
def test_a_policy_judges_a_recorded_battle(new_page):
    """Chosen by the keyboard's way of a list; the curve, the signs, the numbers below, and a link that names it."""
    page = new_page(f"/replays/view?file={RECORDINGS['battle']}")
    page.wait_for_selector("#judge:enabled")
    page.select_option("#judge", "zoo:battle")
    page.wait_for_selector(".curves .doubt", state="attached")
    assert page.locator(".curves .line").count() == 2
    assert page.input_value("select[aria-label=curve]") == "value, as judged"
    page.keyboard.press("Home")
    assert page.inner_text("#judgement") == ""
    page.keyboard.press("ArrowRight")
    until(page, "document.getElementById('judgement').innerText.includes('expects')")
    lines = page.locator(".story .judgement").all_inner_texts()
    assert len(lines) == page.locator(".story button").count()
    assert lines[0] == page.inner_text("#judgement")
    page.keyboard.press("ArrowUp")
    again = new_page(page.url.removeprefix(page.url.split("/replays")[0]), PHONE)
    again.wait_for_selector(".curves .doubt", state="attached")
    assert again.input_value("#judge") == "zoo:battle"
    page.select_option("#judge", "")
    until(page, "!document.querySelector('.judgement, .doubt')")
    assert page.input_value("select[aria-label=curve]") == "victory points"


@pytest.mark.slow
def test_an_episode_is_seen_from_everywhere_in_three_dimensions(new_page):
    page = new_page(f"/replays/view?file={RECORDINGS['space']}#t=0.5")
    page.wait_for_selector(".stage.space[data-drawn]")
    assert frame(page) == 10  # the link names half a second, 20 frames are one
    assert int(page.get_attribute(".stage.space", "data-drawn")) > 1000  # triangles
    shot = page.locator("canvas").screenshot()
    page.get_by_role("button", name="blue 0", exact=True).click()
    page.wait_for_timeout(500)
    assert page.get_attribute("[data-view='blue 0']", "aria-pressed") == "true"
    assert page.locator("canvas").screenshot() != shot
    page.keyboard.press("c")
    assert page.get_attribute("[data-view='orange 1']", "aria-pressed") == "true"
    page.focus("canvas")  # on a button the space bar presses that
    page.keyboard.press(" ")
    until(page, "+document.querySelector('[data-frame]').dataset.frame > 10")


@pytest.mark.slow
def test_a_damaged_file_says_what_is_wrong(new_page, place):
    (place / "runs" / "broken.forge.gz").write_bytes(b"\x1f\x8b nothing")
    page = new_page("/replays/view?file=2/broken.forge.gz")
    page.wait_for_selector("#said.error")
    assert "broken.forge.gz" in page.inner_text("#said")


# ---- runs -----------------------------------------------------------------------------------------------------------


def points(page, title):
    """How many points the curve of a chart has."""
    path = page.get_attribute(f"figure:has-text('{title}') path.line", "d")
    return path.count("L") + 1


@pytest.mark.slow
def test_a_run_page_follows_what_is_written(new_page, place):
    run = make_run(place / "runs" / "growing", updates=30)
    page = new_page("/runs/view/growing")
    page.wait_for_selector("figure:has-text('rollout/ep_rew_mean') path.line", state="attached")
    assert points(page, "rollout/ep_rew_mean") == 30
    titles = page.locator("figcaption strong").all_inner_texts()
    heights = page.locator("figcaption").evaluate_all("all => all.map((each) => each.getBoundingClientRect().height)")
    assert max(heights) < 70, heights  # a title and the name of its figure, in at most three lines
    assert "Return of a game" in titles and all("/" not in title for title in titles)
    page.wait_for_selector("#main[data-live=yes]")

    def write():
        with (run / "metrics.jsonl").open("a") as file:
            for update in range(31, 36):
                row = {"update": update, "steps": 100 * update, "rollout/ep_rew_mean": 1.0, "league/share/self": 1.0}
                file.write(json.dumps(row) + "\n")
                file.flush()
                time.sleep(0.2)

    writer = threading.Thread(target=write)
    writer.start()
    page.wait_for_selector("#main[data-read='35']")
    writer.join()
    until(
        page,
        "[...document.querySelectorAll('figure')].find((f) => f.innerText.includes('ep_rew_mean'))"
        ".querySelector('path.line').getAttribute('d').split('L').length === 35",
    )
    assert "update\n35 of" in page.inner_text("#facts")
    assert page.inner_text("#league-rows").split()[:2] == ["self", "100.0"]
    assert "75.0 %" in page.inner_text("#matches")


@pytest.mark.slow
def test_runs_are_compared_and_read_on_a_phone_by_keyboard(new_page):
    page = new_page("/runs", PHONE)
    page.wait_for_selector(".run")
    page.keyboard.press("Tab")
    page.check("[aria-label='compare first']")
    page.check("[aria-label='compare second']")
    page.click("#compare")
    page.wait_for_selector("figure path.line.seat1", state="attached")
    assert "What differs" in page.inner_text("main")
    tint = page.evaluate("getComputedStyle(document.querySelector('td.win')).backgroundColor")
    assert tint != "rgba(0, 0, 0, 0)", "75 % where 25 % is fair"
    page = new_page("/runs/view/first", PHONE)
    page.wait_for_selector("figure path.line", state="attached")
    page.focus("figure svg.chart")
    page.keyboard.press("ArrowLeft")
    assert "0.5" in page.inner_text("figure .readout")


@pytest.mark.slow
def test_a_training_is_followed_while_it_trains_and_stopped(new_page, place):
    command = [sys.executable, "-m", "jaxrl", "train", "env.id=tests.support.games:HighCard", "--name", "trained"]
    command += [*TRAIN.split(), "train.evaluate_every=0", f"run.directory={place / 'runs'}"]
    log = (place / "train.log").open("w")
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"JAX_PLATFORMS": "cpu"}, stdout=log, stderr=log)
    try:
        page = new_page("/runs")
        page.wait_for_selector(".run:has-text('trained') .state.training")
        page.click("text=trained")
        page.wait_for_selector("figure:has-text('rollout/ep_rew_mean') path.line", state="attached")
        until(page, "+document.getElementById('main').dataset.read > 1")
        seen = int(page.get_attribute("#main", "data-read"))
        until(page, f"+document.getElementById('main').dataset.read > {seen}")
        page.click("#stop")
        page.click("dialog >> text=Stop it")
        assert process.wait(180) == 130, (place / "train.log").read_text()  # as after Ctrl-C
        page.wait_for_selector("#facts .state.stopped")
        page.wait_for_selector("#checkpoints >> text=play it")
    finally:
        process.kill()
        process.wait()
