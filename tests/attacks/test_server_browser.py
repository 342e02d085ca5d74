"""Names, actions, stories, drawings, tags and files with HTML in them, in a real browser: nothing of them runs."""

from __future__ import annotations

import json
import socket as sockets
import time
from urllib.parse import quote

import jax
import pytest

from tests.serve.test_runs import RESULT, TABLE, make_run
from tests.support.browser import launched
from tests.support.games import HighCard
from tests.support.serving import serving

pytestmark = pytest.mark.thorough
GAME = "tests.attacks.test_server_browser:Hostile"
PATIENCE = 120_000
IMAGE = '<img src=x onerror="window.owned=1">'
SCRIPT = "<script>window.owned=1</script>"
HTML = f'"><b onmouseover="owned=1">{IMAGE}{SCRIPT}<iframe srcdoc="{SCRIPT}"></iframe><a href="javascript:x">x</a>'
FRAME = SCRIPT.replace("<", "&lt;")
BOARD = f"""<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink" viewBox="0 0 100 50"
 width="9" onload="window.owned=1" style="background:url(http://127.0.0.9:PORT/seen)"><script>window.owned=1</script>
 <rect id="mine" width="9" height="9" style="fill:rgb(1, 2, 3)" onclick="window.owned=1"/>
 <image href="http://127.0.0.9:PORT/seen" width="9" height="9"/><image x:href="x" onerror="window.owned=1"/>
 <a href="javascript:window.owned=1"><text id="link" y="20">a link</text></a><use href="http://127.0.0.9:PORT/seen#a"/>
 <foreignObject width="9" height="9"><iframe xmlns="http://www.w3.org/1999/xhtml" srcdoc="{FRAME}"/>
 <form xmlns="http://www.w3.org/1999/xhtml" action="/api/tables" method="post"/></foreignObject>
 <set attributeName="href" to="javascript:window.owned=1"/></svg>"""


class Hostile(HighCard):
    port = 9  # of 127.0.0.9, where no page may ask
    __doc__ = f"A game {HTML}"
    how_to_play = f"{HTML}\n\n{HTML}"

    def action_name(self, action: int) -> str:
        return f"{action} {HTML}"

    def event(self, before, action, after, seat=None) -> str:
        return f"{action}: {HTML}"

    def render_svg(self, state, seat=None) -> str:
        return BOARD.replace("PORT", str(self.port))

    def episode_stats(self, state) -> dict[str, jax.Array]:
        return {HTML: state.won.astype("float32")}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    name = '<img src=x onerror="owned=1">'
    run = make_run(folder / "runs" / "x").rename(folder / "runs" / name)
    make_run(folder / "runs" / "second")
    rows = [{"update": each, "steps": each, HTML: 1.0, f"league/share/{HTML}": 1.0} for each in range(1, 4)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    row = RESULT | {"candidate": HTML, "opponent": HTML, "figures": {HTML: {"mean": 1.0, "half_width_95": 0.1}}}
    (run / "evaluation.json").write_text(json.dumps([TABLE | {"policy": HTML, "rows": [row]}]))
    (run / "log.txt").write_text(f"2026-01-01T00:00:00.000 warning jaxrl MainThread: {HTML}\n")
    (run / "config.yaml").write_text((run / "config.yaml").read_text() + f"# {HTML}\n")
    (run / "replays").mkdir()
    (run / "replays" / f"{name}.replay").write_bytes(b"x")
    (folder / f"{name}.table").write_text("{")
    return folder


@pytest.fixture(scope="module")
def client(place):
    with serving(place, games=(GAME,), replays=(place / "runs", place / "replays"), allow=("tests",)) as client:
        yield client


@pytest.fixture(scope="module")
def new_page(client):
    """Pages of one person with a hostile name; none asks another address, opens a dialogue or runs anything."""
    wrong = []
    elsewhere = sockets.create_server(("127.0.0.9", 0))
    elsewhere.setblocking(False)
    Hostile.port = elsewhere.getsockname()[1]
    with elsewhere, launched() as browser:
        context = browser.new_context()
        context.add_init_script(f"localStorage.setItem('name', {json.dumps('<img src=x onerror=owned')})")

        def make(path):
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            page.on("dialog", lambda each: wrong.append(f"dialogue {each.message}"))
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.goto(f"http://{client.host}{path}")
            return page

        yield make
        with pytest.raises(BlockingIOError):
            elsewhere.accept()
    assert wrong == []


HARM = (
    "script:not([src^='/static/']), iframe[srcdoc], [onerror], [onload], [onclick], [onmouseover], [href^='javascript']"
)


def nothing_ran(page) -> int:
    """Returns how many elements the page has."""
    assert page.evaluate("window.owned") is None and page.evaluate("document.title") != "owned"
    assert page.query_selector_all(HARM) == []
    return page.evaluate("document.querySelectorAll('*').length")


def wait(page, words):
    """For words on the page, as they are written."""
    end = time.monotonic() + PATIENCE / 1000
    while words not in page.inner_text("body"):
        assert time.monotonic() < end, page.inner_text("body")[:2000]
        page.wait_for_timeout(50)


def test_a_hostile_game_is_played_and_kept(client, new_page, place):
    page = new_page(f"/?game={GAME}")
    wait(page, "A game")
    wait(page, "cannot be read")
    wait(page, IMAGE)
    nothing_ran(page)
    page.wait_for_selector("#open:enabled")
    page.select_option("#seat-1", "bot:lowest")
    page.select_option("#seat-2", "bot:lowest")
    page.click("#open")
    page.wait_for_selector("select[aria-label='pace of the agents']")
    page.select_option("select[aria-label='pace of the agents']", "0")
    page.wait_for_selector(".action:enabled")
    look = new_page(page.url[page.url.index("/table") :].partition("#")[0])
    wait(look, "<img src=x onerror=owned")
    assert page.evaluate("getComputedStyle(document.querySelector('#mine')).fill") == "rgb(1, 2, 3)", "styles are kept"
    page.click("#link", force=True)
    page.keyboard.press("h")
    wait(page, "would choose")
    nothing_ran(page)
    while page.query_selector(".end table") is None:
        if page.query_selector(".action:enabled"):
            page.keyboard.press("1")
        page.wait_for_timeout(30)
    assert HTML in page.inner_text(".story") and HTML.replace("_", " ") in page.inner_text(".end")
    nothing_ran(page)
    wait(look, "The game is over.")
    nothing_ran(look)
    page.click("text=Watch the replay")
    page.wait_for_url("**/replays/view?file=*")
    nothing_ran(page)
    replays = new_page("/replays")
    wait(replays, " · ")  # its result is told
    nothing_ran(replays)
    (file,) = (place / "replays").glob("*.replay")
    assert f"{quote(f'1/{file.name}', safe='')}&seat=0" in page.url
    view = new_page(f"/replays/view?file=1/{file.name}")
    wait(view, IMAGE)
    view.wait_for_selector("#stage [data-frame], #stage img, #stage pre")
    view.keyboard.press("End")
    view.wait_for_timeout(1000)
    assert nothing_ran(view) > 30


def test_a_hostile_run_is_looked_at(client, new_page, place):
    name = quote(next(path.name for path in (place / "runs").iterdir() if path.name.startswith("<")))
    for path in ("runs", f"runs/view/{name}", f"runs/compare?runs={name},second", f"replays/view?file={name}&game=0"):
        page = new_page(f"/{path}")
        wait(page, "onerror")
        for each in page.query_selector_all("summary, [role=tab]"):
            each.click()
        page.wait_for_timeout(1000)
        assert nothing_ran(page) > 10
    for path in (f"runs/view/x{name}", f"table/{name}", f"replays/view?file=0/{name}", f"?game={name}&player={name}"):
        page = new_page(f"/{path}")
        page.wait_for_timeout(1000)
        nothing_ran(page)
