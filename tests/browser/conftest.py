"""The browser and the pages that tests share; their modules import `tests.support.browser`, which may skip them."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def browser():
    from tests.support.browser import launched  # here, because it may be missing

    with launched() as browser:
        yield browser


@pytest.fixture
def new_page(browser):
    """Pages of people of their own; at the end none of them may have seen an error of a script."""
    errors, contexts = [], []

    def make(size=(1280, 800), touch=False):
        screen = {"width": size[0], "height": size[1]}
        context = browser.new_context(viewport=screen, has_touch=touch, is_mobile=touch)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(600_000)  # programs may have to be compiled, on machines that may be busy
        page.on("pageerror", lambda error: errors.append(str(error)))
        return page

    yield make
    for context in contexts:
        context.close()
    assert errors == []
