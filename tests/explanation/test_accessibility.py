"""Accessibility of the pages: axe-core finds no problem, in light and dark mode."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest

from explanation.browser import opened, written
from retrograd.explanation.operators import find


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core, which the extra `browser` installs."""
    pytest.importorskip("axe_playwright_python", reason="axe-core is not installed: pip install axe-playwright-python")
    return resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


RUN = """(rules) => axe.run({ exclude: [["#entry .products li:nth-child(n + 9)"]] },
                            rules ? { runOnly: rules } : {})"""  # the rows of a long list are alike


def check(page: Any, source: str) -> None:
    """Check all rules, and the rules on colors in the other theme too."""
    page.evaluate(source)
    for colors, rules in (("light", None), ("dark", ["color-contrast"])):
        page.emulate_media(color_scheme=colors, reduced_motion="reduce")
        found = page.evaluate(RUN, rules)
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []


STATES = [
    ("conv2d", "entries"),
    ("conv2d", "matrices"),
    ("conv2d", "code"),
    ("conv2d", "faults"),
    ("lstm", "time"),
    ("gelu", "curves"),
    ("gelu", "derivation"),
    ("linear", "matrices"),
    ("mul", "faults"),
]


@pytest.mark.parametrize(("name", "tab"), STATES)
def test_an_operator(axe, browser, tmp_path, name, tab):
    address = written(tmp_path, find(name).with_settings({}).to_html())
    with opened(browser, f"{address}#operator={name}&tab={tab}") as page:
        assert page.locator("#view").get_attribute("data-view") == tab
        check(page, axe)


def test_a_story(axe, browser, tmp_path):
    address = written(tmp_path, find("conv2d").with_settings({}).to_html())
    with opened(browser, address) as page:
        page.get_by_role("button", name="Why is dX a transposed convolution?").click()
        page.locator("#story .next").click()
        page.locator("#story .next").click()
        assert page.locator("#story .pictures figure").count() == 2
        check(page, axe)


def test_a_phone(axe, browser, tmp_path):
    phone = {"viewport": {"width": 375, "height": 740}, "has_touch": True, "is_mobile": True}
    with opened(browser, written(tmp_path, find("conv2d").with_settings({}).to_html()), **phone) as page:
        page.locator(".entry .handle").tap()
        check(page, axe)


def test_a_model(axe, browser, tmp_path):
    """Check the map, a large layer, one that is shown whole, and the path of a gradient."""
    from explanation.large_model import explanation

    address = written(tmp_path, explanation().to_html())
    with opened(browser, address) as page:
        page.wait_for_selector("#entry .checks")
        page.click("text=Follow it to the loss")
        page.wait_for_selector("#map .on-road")
        check(page, axe)
        page.locator("#map .layer").last.click()
        page.wait_for_function("() => window.retrograd.page.document.operator === 'head'")
        check(page, axe)
