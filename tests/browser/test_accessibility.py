"""Pages have no fault that axe-core calls serious. It is not a dependency: `npm install axe-core` in any folder, and
`JAXRL_AXE=FOLDER/node_modules/axe-core/axe.min.js`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tests.support.browser  # noqa: F401 - skips this module without a browser
from tests.serve.test_runs import make_run
from tests.support.serving import HIGH_CARD, serving

AXE = Path(os.environ.get("JAXRL_AXE", "node_modules/axe-core/axe.min.js"))
PAGES = ("/", "/drive", "/replays", "/runs", "/runs/view/first", "/runs/compare?runs=first,second")
SLEDGES = "tests.support.driven.driving:Sledges"
TABLES = ("skull_king", "beasty_bar", "battle")
SCENES = (*TABLES, "the end of a game", "a replay", "a match")

if not AXE.is_file():
    pytest.skip("axe-core is not installed (npm install axe-core)", allow_module_level=True)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name in ("first", "second"):
        make_run(folder / "runs" / name)
    with serving(folder, games=(*TABLES, HIGH_CARD, SLEDGES), replays=(folder,), allow=("tests",)) as client:
        yield client


def show(page, client, scene):
    """Goes to a page that has no address of its own."""
    if scene == "a match":
        page.goto(f"http://{client.host}/drive")
        page.click("#begin:enabled")
        return page.wait_for_selector("#stage[data-own]")
    page.goto(f"http://{client.host}/")
    page.click(f"[data-game='{scene if scene in TABLES else HIGH_CARD}']")
    page.wait_for_selector(".action:enabled")
    while scene not in TABLES and not page.query_selector(".end table"):
        page.keyboard.press("1")
        page.wait_for_timeout(50)
    if scene == "a replay":
        page.click("text=Watch the replay")
        page.wait_for_selector(".story button")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", (*PAGES, *SCENES))
def test_no_page_has_a_serious_fault(browser, client, path, scheme):
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(600_000)
    if path in SCENES:
        show(page, client, path)
    else:
        page.goto(f"http://{client.host}{path}")
        page.wait_for_load_state("load")
        page.wait_for_timeout(1500)
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run()")["violations"]
    context.close()
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
