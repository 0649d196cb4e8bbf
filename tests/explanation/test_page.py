"""The page in a browser: by mouse, keyboard and touch, as a file and served."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from explanation.browser import TAKE, document, opened, written
from retrograd.explanation.gradient_expressions import retyped
from retrograd.explanation.html_page import page as as_html
from retrograd.explanation.operators import find

PINNED = "() => window.retrograd.page.selection.pinned"
HOVERED = "() => window.retrograd.page.selection.hovered"


@pytest.fixture(scope="module")
def conv2d(tmp_path_factory) -> str:
    documents = [document("conv2d"), document("conv2d", stride=2), document("conv2d", stride=2, padding=0)]
    return written(tmp_path_factory.mktemp("conv2d"), as_html(documents))


# ---- Selecting an entry


def address_of(page: Any) -> str:
    """Return the address as the page itself sees it, since Playwright's value lags behind."""
    address: str = page.evaluate("() => location.href")
    return address


def middle(page: Any, name: str, at: int) -> tuple[float, float]:
    """Return the position of an entry on the screen."""
    find_grid = "([name, at]) => window.retrograd.page.view.grids.find((grid) => grid.array.name === name).middle(at)"
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # laid out
    place = page.evaluate(find_grid, [name, at])
    return place["x"], place["y"]


def test_it_opens_with_an_entry_taken_apart(browser, conv2d):
    with opened(browser, conv2d) as page:
        assert page.evaluate(PINNED)["name"] == "gw"
        assert page.locator("#lead").inner_text().startswith("gw[0, 1, 1, 1] = 74, the sum of 32 products gy · x.")
        assert page.locator(".products li").count() == 32
        assert page.locator(".checks .tick").count() == 2
        assert "bit for bit" in page.locator("#badge").inner_text()


def test_mouse(browser, conv2d):
    with opened(browser, conv2d) as page:
        before = page.evaluate(PINNED)
        page.mouse.move(*middle(page, "gx", 7))
        assert page.evaluate(HOVERED) == {"name": "gx", "at": 7}
        assert page.locator(".entry h2 code").inner_text() == "gx[0, 0, 1, 3]"
        page.mouse.move(5, 5)
        assert page.evaluate(HOVERED) is None and page.evaluate(PINNED) == before
        page.mouse.click(*middle(page, "gx", 7))
        assert page.evaluate(PINNED) == {"name": "gx", "at": 7}
        assert "entry=gx:7" in address_of(page)
        page.locator(".products li").nth(2).hover()
        assert page.locator(".lines path").count() == 2
        page.mouse.move(*middle(page, "x", -1))
        assert page.evaluate(HOVERED) == {"name": "x", "at": -1}
        assert "padding" in page.locator("#lead").inner_text()


def test_keyboard_alone(browser, conv2d):
    with opened(browser, conv2d) as page:
        seen = []
        for _ in range(60):
            page.keyboard.press("Tab")
            seen.append(page.evaluate("() => document.activeElement.closest('figure')?.dataset.array ?? null"))
            if seen[-1] == "gy":
                break
        assert [each for each in seen if each] == ["x", "w", "b", "y", "gx", "gw", "gb", "gy"]
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        assert page.evaluate(HOVERED)["name"] == "gw"
        page.keyboard.press("Home")
        start = page.evaluate(HOVERED)["at"]
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        moved = page.evaluate(HOVERED)["at"]
        assert np.subtract(np.unravel_index(moved, (2, 2, 3, 3)), np.unravel_index(start, (2, 2, 3, 3)))[3] == 1
        page.keyboard.press("]")
        assert page.evaluate(HOVERED)["at"] == moved + 9
        page.keyboard.press("[")
        page.keyboard.press("Enter")
        assert page.evaluate(PINNED) == {"name": "gw", "at": moved}
        page.wait_for_timeout(300)
        assert page.locator("#announce").inner_text().startswith("gw[")
        page.keyboard.press("Space")
        assert page.locator(".products li.active").count() == 1
        page.keyboard.press("Space")
        page.keyboard.press("Escape")
        assert page.evaluate(PINNED) is None and "Every number" in page.locator("#lead").inner_text()


def test_the_arrows_reach_every_cell(browser, tmp_path):
    given = document("conv2d", batch=2, channels=2, size=3, kernel=2)
    with opened(browser, written(tmp_path, as_html([given]))) as page:
        reached = page.evaluate("""() => {
          const grid = window.retrograd.page.view.grids.find((each) => each.array.name === "x");
          const found = new Set();
          let edge = [grid.panels.moved(0, -1e9, -1e9)];
          while (edge.length) {
            const at = edge.pop();
            if (found.has(at)) continue;
            found.add(at);
            edge.push(...[[1, 0], [-1, 0], [0, 1], [0, -1]].map((by) => grid.panels.moved(at, ...by)));
            edge.push(grid.panels.turned(at, 1), grid.panels.turned(at, -1));
          }
          return [...found];
        }""")
        assert sum(at >= 0 for at in reached) == 2 * 2 * 3 * 3 and sum(at < 0 for at in reached) == 4 * (25 - 9)


def test_adding_up_step_by_step(browser, tmp_path):
    with opened(browser, written(tmp_path, as_html([document("linear")])), reduced_motion="reduce") as page:
        page.locator(".play").click()
        page.wait_for_function("() => document.querySelector('.play').textContent.includes('add up')", timeout=20_000)
        total = page.evaluate("() => window.retrograd.page.selection.reading.sum.total")
        assert page.locator(".running").inner_text() == f"so far {total:g}".replace("-", "−")


# ---- Settings, links and exports


def test_settings_of_a_file_are_those_it_carries(browser, conv2d):
    with opened(browser, conv2d) as page:
        note = page.locator(".settings .note").inner_text()
        assert note == "run retrograd explain conv2d for the other settings"
        assert page.locator("#setting-groups").is_disabled() and page.locator("#setting-stride").is_enabled()
        page.locator("#setting-stride").fill("1")
        assert page.locator("#call").inner_text() == "F.conv2d(x, w, b, stride=2, padding=1)"
        assert page.locator("#setting-padding").is_enabled()
        page.locator("#setting-padding").focus()
        page.keyboard.press("ArrowLeft")
        assert page.locator("#call").inner_text() == "F.conv2d(x, w, b, stride=2)"
        assert page.evaluate("() => document.activeElement.id") == "setting-padding"
        assert "stride=2" in address_of(page) and "padding=0" in address_of(page)


def test_a_link_brings_back_what_was_shown(browser, conv2d):
    with opened(browser, conv2d) as page:
        page.locator("#setting-stride").fill("1")
        page.get_by_role("tab", name="As matrices").click()
        page.mouse.click(*middle(page, "gw", 8))
        address = address_of(page)
    with opened(browser, address) as page:
        assert page.locator("#call").inner_text() == "F.conv2d(x, w, b, stride=2, padding=1)"
        assert page.evaluate(PINNED) == {"name": "gw", "at": 8}
        assert page.get_by_role("tab", name="As matrices").get_attribute("aria-selected") == "true"


BROKEN = "stride=9", "operator=nothing", "entry=gw:999", "entry=none:0", "tab=none", "story=9:9", "story=0", "%%%", "x"


@pytest.mark.parametrize("place", BROKEN)
def test_a_broken_link_opens_the_beginning(browser, conv2d, place):
    with opened(browser, f"{conv2d}#{place}") as page:
        assert page.evaluate(PINNED)["name"] == "gw"


def test_copies(browser, conv2d):
    with opened(browser, conv2d) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        for button, text in (("#copy-python", "F.conv2d(x, w, b, padding=1)"), ("#copy-gradcheck", "gradcheck")):
            page.locator(button).click()
            page.wait_for_timeout(50)
            assert text in page.evaluate("() => navigator.clipboard.readText()")
        page.locator("#copy-link").click()
        page.wait_for_timeout(50)
        assert "operator=conv2d" in page.evaluate("() => navigator.clipboard.readText()")


def test_svg(browser, conv2d):
    with opened(browser, conv2d) as page:
        with page.expect_download() as download:
            page.locator("#save-svg").click()
        assert download.value.suggested_filename == "conv2d.svg"
        picture = ElementTree.fromstring(Path(download.value.path()).read_text(encoding="utf-8"))
        texts = ["".join(each.itertext()) for each in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert {"x", "w", "b", "y", "gx", "gw", "gb", "gy", "F.conv2d(x, w, b, padding=1)", "74"} <= set(texts)


def test_colors(browser, conv2d):
    ground = "() => getComputedStyle(document.documentElement).backgroundColor"
    with opened(browser, conv2d, color_scheme="dark") as page:
        dark = page.evaluate(ground)
        page.locator("#theme").click()
        assert page.locator("html").get_attribute("data-theme") == "light"
        assert page.evaluate(ground) != dark
        page.reload()
        assert page.locator("html").get_attribute("data-theme") == "light"


# ---- Served pages


def test_a_served_page_asks_for_other_settings(browser, served):
    with opened(browser, served) as page:
        assert page.locator("#call").inner_text() == "F.conv2d(x, w, b, padding=1)"
        page.locator("#setting-stride").fill("1")
        page.wait_for_function("() => document.getElementById('call').textContent.includes('stride=2')")
        values = document("conv2d", stride=2)["arrays"]["gw"]["values"]
        shown = [page.evaluate(TAKE, ["gw", at]) for at in range(len(values))]
        assert [each["value"] for each in shown] == values and all(each["agrees"] for each in shown)
        page.get_by_label("operator").select_option("linear")
        page.wait_for_function("() => document.getElementById('call').textContent.startsWith('F.linear')")
        assert page.title() == "linear · see the gradient"
        page.get_by_role("tab", name="The code that ran").click()
        page.wait_for_selector(".source .line")


def test_settings_that_do_not_go_together_are_said_beside_them(browser, served):
    with opened(browser, served, refused=1) as page:
        page.locator("#setting-channels").fill("0")
        page.wait_for_function("() => window.retrograd.page.settings.values.channels === 1")
        before = page.locator("#call").inner_text()
        page.locator("#setting-groups").fill("1")
        page.wait_for_selector(".settings .error:not(:empty)")
        assert "channels=1 and filters=2 must be multiples of groups=2" in page.locator(".settings .error").inner_text()
        assert page.locator("#call").inner_text() == before and page.locator("#setting-groups").input_value() == "0"
        page.locator("#setting-channels").fill("1")
        page.wait_for_function("() => !document.querySelector('.settings .error').textContent")


def test_in_a_notebook(browser, tmp_path):
    given = find("linear").with_settings({})
    notebook = "<!doctype html><html data-ready lang=en><title>notebook</title><body>" + given._repr_html_()
    with opened(browser, written(tmp_path, notebook)) as page:
        frame = page.frames[1]
        frame.wait_for_selector("html[data-ready]", state="attached")
        shown = frame.evaluate(TAKE, ["gw", 2])
        assert shown["agrees"] and shown["value"] == float(given.arrays["gw"].values.ravel()[2])
        frame.locator(".paper").first.click()
        assert frame.evaluate(PINNED)["name"] == "x"
        frame.get_by_role("tab").last.click()
        page.keyboard.press("Tab")
        assert page.frames[1] is frame and frame.evaluate("() => location.href") == "about:srcdoc"


def test_panels_that_do_not_fit_are_chosen(browser, tmp_path):
    given = document("conv2d", batch=3, channels=4, filters=4)
    with opened(browser, written(tmp_path, as_html([given]))) as page:
        figure = page.locator("figure[data-array=x]")
        assert figure.locator("output").inner_text() == "n 0"
        figure.get_by_role("button", name="next n").click()
        assert figure.locator("output").inner_text() == "n 1"
        page.evaluate(TAKE, ["y", 4 * 16 * 2 + 7])  # of the last sample: its x is shown
        assert figure.locator("output").inner_text() == "n 2"
        lit = """() => {
          const grid = window.retrograd.page.view.grids.find((grid) => grid.array.name === "x");
          return [...grid.selection.reading.lit.get("x").keys()].every((at) => grid.middle(at));
        }"""
        assert page.evaluate(lit)


# ---- Other tabs


def test_tabs(browser, tmp_path):
    given = find("conv2d").with_settings({"stride": 2})
    with opened(browser, written(tmp_path, given.to_html())) as page:
        names = page.get_by_role("tab").all_inner_texts()
        assert names == ["Entry by entry", "As matrices", "The code that ran", "Break it"]
        page.get_by_role("tab").first.focus()
        for name in [*names[1:], names[0]]:
            page.keyboard.press("ArrowRight")
            selected = page.locator("[role=tab][aria-selected=true]")
            assert selected.inner_text() == name and page.locator("#view").inner_text()


def test_a_matrix_entry_lights_what_it_is_a_copy_of(browser, conv2d):
    lit = "(name) => [...(window.retrograd.page.selection.reading.lit.get(name) ?? new Map())]"
    with opened(browser, f"{conv2d}#operator=conv2d&tab=matrices") as page:
        given = document("conv2d")
        source = given["arrays"]["X_col"]["copies"]["index"]
        at = next(j for j, place in enumerate(source) if place >= 0)
        page.evaluate(TAKE, ["X_col", at])
        assert [source[at], "copy"] in page.evaluate(lit, "x")
        page.evaluate(TAKE, ["x", source[at]])
        copies = {j for j, place in enumerate(source) if place == source[at]}
        assert {place for place, how in page.evaluate(lit, "X_col") if how == "copy"} == copies
        for button in page.locator(".matrices nav button").all():
            button.click()
            assert page.locator(".matrices figure").count() > 6


@pytest.mark.parametrize("name", ["conv2d", "lstm", "add"])
def test_the_kernel_calls(browser, tmp_path, name):
    given = find(name).with_settings({})
    with opened(browser, written(tmp_path, given.to_html())) as page:
        page.get_by_role("tab", name="The code that ran").click()
        page.get_by_role("button", name="kernel calls", exact=True).click()
        every = [step for steps in given.steps().values() for step in steps]
        assert page.locator(".calls .step").all_inner_texts() == [step.text for step in every]
        stops = [stop for step in every for stop in (step.kernel, *step.launches)]
        shown = [each.all_inner_texts() for each in (page.locator(".calls ul code"), page.locator(".calls ul small"))]
        assert shown == [[stop.name for stop in stops], [stop.place for stop in stops]]
        assert page.locator(".calls h2 code").first.inner_text() == f"y = {given.case.source}"
        assert page.locator(".calls .step strong").all_inner_texts() == [step.kernel.name for step in every]
        assert page.locator("#save-svg").is_hidden()


def test_the_code_steps(browser, tmp_path):
    given = find("conv2d").with_settings({})
    with opened(browser, written(tmp_path, given.to_html())) as page:
        page.get_by_role("tab", name="The code that ran").click()
        assert page.locator("#save-svg").is_visible()
        forward = page.get_by_role("button", name="step forward")
        seen = set()
        for _ in range(12):
            seen.add(page.locator(".line[aria-current]").inner_text())
            forward.click()
        assert len(seen) > 5
        for group in page.locator(".traces .choice").first.locator("button").all()[:-1]:
            group.click()
            assert page.locator(".source .line").count() > 3


def test_a_broken_line_marks_wrong_entries(browser, tmp_path):
    given = find("conv2d").with_settings({"stride": 2, "padding": 1})
    with opened(browser, written(tmp_path, given.to_html())) as page:
        page.get_by_role("tab", name="Break it").click()
        for button in page.locator(".faults nav button").all():
            button.click()
            assert page.locator(".change ins").inner_text()
            text = page.locator(".faults").inner_text()
            assert "wrong" in text or "computes the same" in text
        page.get_by_role("button", name="drop the stride").click()
        assert "entries wrong" in page.locator(".faults").inner_text()


def test_curves(browser, tmp_path):
    with opened(browser, written(tmp_path, as_html([document("gelu")]))) as page:
        page.get_by_role("tab", name="Curves").click()
        assert page.locator(".curves path.curve").count() >= 2
        page.mouse.move(*(page.locator(".curves svg").bounding_box()[each] + 200 for each in ("x", "y")))
        assert page.locator(".readout").inner_text().startswith("at ")


def test_another_gradient_is_typed(browser, served):
    """The typed gradient is used in the picture, the entries and the link; errors appear next to the input."""
    with opened(browser, served.replace("operator=conv2d", "operator=relu&tab=curves"), refused=1) as page:
        typed = page.get_by_label("Type another gradient")
        typed.fill("g * (abs(x) <= 1")
        typed.press("Enter")
        page.wait_for_function("() => document.getElementById('typed-message').textContent.includes('an expression')")
        typed.fill("g * (abs(x) <= 1)")
        typed.press("Enter")
        page.wait_for_function("() => location.hash.includes('typed=')")
        values = retyped(find("relu").with_settings({}), "g * (abs(x) <= 1)").arrays["gx"].values.ravel()
        shown = [page.evaluate(TAKE, ["gx", at]) for at in range(values.size)]
        assert [each["value"] for each in shown] == values.tolist() and all(each["agrees"] for each in shown)
        address = page.url
    with opened(browser, address) as page:
        assert page.get_by_label("Type another gradient").input_value() == "g * (abs(x) <= 1)"
        page.get_by_role("button", name="restore its own").click()
        page.wait_for_function("() => !location.hash.includes('typed=')")
        assert page.get_by_label("Type another gradient").input_value() == ""


# ---- Screen sizes and screen readers


@pytest.mark.parametrize("name", ["conv2d", "lstm", "scaled_dot_product_attention"])
def test_a_phone(browser, tmp_path, name):
    phone = {"viewport": {"width": 375, "height": 740}, "has_touch": True, "is_mobile": True}
    with opened(browser, written(tmp_path, as_html([document(name)])), **phone) as page:
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
        assert page.evaluate("() => document.getElementById('view').scrollWidth") <= 375
        grid = page.evaluate("() => window.retrograd.page.view.grids[0].array.name")
        page.evaluate("() => window.retrograd.page.view.grids[0].element.scrollIntoView()")
        page.touchscreen.tap(*middle(page, grid, 0))
        assert page.evaluate(PINNED) == {"name": grid, "at": 0}
        assert not page.locator(".entry .products").first.is_visible()
        page.locator(".entry .handle").tap()
        assert page.locator(".entry .products").first.is_visible()
