"""Car soccer driven by hand in a real browser, by keyboard."""

from __future__ import annotations

import time

import pytest

from tests.support.browser import PHONE
from tests.support.driven import driving
from tests.support.serving import serving
from tests.support.waiting import wait_until

PAD = "{axes: [0, 0], buttons: Array.from({length: 10}, (_, i) => ({value: i === 7 ? 0.5 : 0}))}"  # half throttle
PATIENCE = 900_000  # milliseconds: the physics is compiled first


def stage(page, name):
    return page.get_attribute("#stage", f"data-{name}") or ""


def kickoff(page, text):
    """Where the own car stands when play is about to begin, with this headline; games may choose it by chance."""
    assert wait_until(lambda: page.inner_text("#score") == text)
    time.sleep(0.5)  # the newest frame is drawn, of the three seconds that it stands still
    return stage(page, "own")


def later(route):
    time.sleep(1.0)
    route.continue_()


@pytest.mark.slow
@pytest.mark.parametrize("game", ["tests.support.driven.driving:Sledges", "car_soccer"])
def test_a_person_drives_by_keyboard_and_gamepad_and_stands_while_paused(new_page, tmp_path, game):
    errors = []
    with serving(tmp_path, games=(game,)) as client:
        page = new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.add_init_script("navigator.getGamepads = () => [window.pad || null]")
        page.goto(f"http://{client.host}/drive")
        page.wait_for_selector("#begin:enabled")
        page.select_option("[data-seat='1']", "bot:still")
        page.click("#begin")
        page.wait_for_selector("#waiting")
        page.wait_for_selector(".watching #stage canvas")  # a recorded match meanwhile
        assert "s" in page.inner_text("#seconds") and page.is_disabled("#again") and not stage(page, "own")
        page.wait_for_selector("#stage[data-own]")
        assert page.is_hidden("#waiting") and page.is_enabled("#again")
        assert wait_until(lambda: page.inner_text("#score"))
        text = page.inner_text("#score")
        at_kickoff = kickoff(page, text)
        page.keyboard.down("w")
        assert wait_until(lambda: stage(page, "own") != at_kickoff)
        assert page.inner_text("#names").split() == ["You", "Still", "bot"]
        assert wait_until(
            lambda: int(stage(page, "seen")) > 90
        )  # more than the server sends to who does not say what it has
        page.keyboard.press("p")
        assert wait_until(lambda: page.inner_text("#said") == "Pause")
        time.sleep(1.0)
        seen = stage(page, "seen")
        time.sleep(1.0)
        assert stage(page, "seen") == seen
        page.keyboard.up("w")
        page.route("**/space.js", later)  # no frame may be lost while the page still loads
        page.reload()  # the address names the match: the page finds it again, still paused
        page.wait_for_selector("#stage[data-own]", timeout=60_000)
        assert page.inner_text("#said") == "Pause" and stage(page, "own") != at_kickoff
        page.click("#again")
        at_kickoff = kickoff(page, text)
        page.evaluate(f"window.pad = {PAD}")
        assert wait_until(lambda: stage(page, "own") != at_kickoff)
        page.focus("#pause")
        page.keyboard.press("Space")  # is the button's, not the car's
        assert wait_until(lambda: page.inner_text("#said") == "Pause")
        other = new_page()
        other.goto(page.url)
        page.wait_for_selector("#begin:enabled")
        assert page.inner_text("#said") == "another driver has taken over" and page.is_hidden("#match-view")
        other.close()
        seen = stage(page, "seen")
        page.evaluate("window.pad = null")
        page.select_option("[data-seat='1']", "bot:still")
        page.dblclick("#begin")
        assert wait_until(lambda: int(stage(page, "seen")) < int(seen))
        at_kickoff = kickoff(page, text)
        page.keyboard.down("w")
        assert wait_until(lambda: stage(page, "own") != at_kickoff)
        assert page.locator("canvas").count() == 1  # the view of the match before is used again
    assert errors == []


@pytest.mark.slow
def test_a_person_drives_by_touch_and_sees_a_goal_again(new_page, tmp_path, monkeypatch):
    """The stick, the buttons and both cameras of a phone; after a restart of play the page shows what led to it."""
    frame = driving.DrivenSledges.frame

    def scored(self, state, controls):
        after, row = frame(self, state, controls)
        return after, row.at[1].set(after.places[0] > 2)

    monkeypatch.setattr(driving.DrivenSledges, "frame", scored)
    with serving(tmp_path, games=("tests.support.driven.driving:Sledges",)) as client:
        page = new_page(PHONE, touch=True)
        page.goto(f"http://{client.host}/drive")
        page.wait_for_selector("#begin:enabled")
        page.tap("#begin")
        page.wait_for_selector("#stage[data-own]")
        box, at_kickoff = page.locator("#stick").bounding_box(), stage(page, "own")
        assert (
            box["width"] >= 100 and box["x"] >= 0 and page.locator("[data-press='horn']").bounding_box()["width"] >= 44
        )
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 4)
        page.mouse.down()
        assert wait_until(lambda: stage(page, "own") != at_kickoff)
        assert wait_until(lambda: page.inner_text("#countdown") == "replay")
        assert page.get_attribute(".cameras [aria-pressed=true]", "data-view") != "free"
        page.mouse.up()
        assert page.evaluate("document.getElementById('stick').style.getPropertyValue('--push')") == "0px 0px"
        assert wait_until(lambda: page.inner_text("#countdown") in ("3", "2", "1"))
        page.tap("#ball")
        assert page.get_attribute("#ball", "aria-pressed") == "false"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
