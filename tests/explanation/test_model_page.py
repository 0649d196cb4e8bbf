"""The page of a model in a browser: map, parts of large layers, path to the loss; served and as a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from explanation.browser import opened, written
from retrograd import nn

PROGRAM = Path(__file__).with_name("large_model.py")
PINNED = "() => window.retrograd.page.selection.pinned"
READ = """() => {
  const { sum } = window.retrograd.page.selection.reading;
  const listed = sum.products.map((each) => each.value);
  return { value: sum.value, total: sum.total, count: sum.count, rest: sum.rest, listed,
           numerical: sum.numerical, agrees: sum.agrees, confirmed: sum.confirmed };
}"""
TAKEN = """() => { const sum = window.retrograd.page.selection.reading?.sum;
               return sum && !sum.pending && !sum.awaited; }"""


def made() -> Any:
    """Layers too large to be shown whole, and small ones."""
    from explanation.large_model import explanation

    return explanation()


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> str:
    return written(tmp_path_factory.mktemp("model"), made().to_html())


@pytest.fixture(scope="module")
def served(browser) -> Iterator[str]:
    command = [sys.executable, "-u", str(PROGRAM)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        yield program.stdout.readline().strip()
        program.kill()


def taken(page: Any) -> dict[str, Any]:
    page.wait_for_function(TAKEN, timeout=20_000)
    return page.evaluate(READ)


@pytest.mark.parametrize("which", ["served", "file"])
def test_it_begins_with_the_largest_entry_taken_apart(browser, request, which):
    with opened(browser, request.getfixturevalue(which)) as page:
        found = taken(page)
        gw = made().layer("wide").arrays["gw"].values
        assert page.evaluate(PINNED) == {"name": "gw", "at": int(np.abs(gw).argmax())}
        assert found["value"] == pytest.approx(gw.ravel()[np.abs(gw).argmax()], rel=1e-5)
        assert found["count"] == 3 * 144 and len(found["listed"]) == 200 and found["rest"]["count"] == 3 * 144 - 200
        assert sum(found["listed"]) + found["rest"]["total"] == pytest.approx(found["total"], rel=1e-6)
        assert found["agrees"] and found["confirmed"]
        assert "the other 232 add up to" in page.text_content("#entry .rest")
        rows = page.locator("#map .layer")
        assert rows.count() == 5 and "wide" in rows.nth(0).inner_text() and "12×12" in rows.nth(0).inner_text()
        assert page.locator("#map [aria-current]").count() == 1


def test_pointing_moving_and_walking(browser, served):
    with opened(browser, served) as page:
        taken(page)
        layer = made().layer("wide")
        page.evaluate("() => window.retrograd.page.selection.pin('gx', 1234)")
        found = taken(page)
        assert found["value"] == pytest.approx(layer.arrays["gx"].values.ravel()[1234], rel=1e-4)
        assert found["total"] == pytest.approx(found["value"], rel=1e-3, abs=1e-7)
        grid = page.locator('[data-array="gx"]')
        grid.locator('input[aria-label="gx: from c"]').fill("3")
        grid.locator('input[aria-label="gx: from c"]').press("Enter")
        values = """() => { const array = window.retrograd.page.model.arrays.get('gx');
                           return array.complete && [array.start, array.value(array.flat(array.start))]; }"""
        start, value = page.wait_for_function(values).json_value()
        assert start[1] == 3 and value == pytest.approx(layer.arrays["gx"].values[tuple(start)], rel=1e-5)
        page.locator('[data-array="gw"] .paper').focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        assert taken(page)["agrees"]


def test_a_factor_leads_to_its_part(browser, served):
    with opened(browser, served) as page:
        taken(page)
        term = page.locator("#entry [data-product] .term").nth(7)
        name = term.locator("code").inner_text()
        term.click()
        shown = """([name]) => { const { model } = window.retrograd.page; const [array] = name.split('[');
          const index = name.slice(array.length + 1, -1).split(', ').map(Number);
          return model.arrays.get(array).shows(model.arrays.get(array).flat(index)); }"""
        assert page.evaluate(shown, [name])


@pytest.mark.parametrize("which", ["served", "file"])
def test_the_path_is_drawn_over_the_map(browser, request, which):
    with opened(browser, request.getfixturevalue(which)) as page:
        taken(page)
        page.click("text=Follow it to the loss")
        page.wait_for_selector("#map .on-path .stops button")
        stops = page.locator("#map .stops button")
        assert stops.count() == 4  # the layer that flattens passes it on
        assert "This path alone carries" in page.inner_text("#map .say")
        assert page.locator("#map .end.on-path").count() == 1
        stops.nth(3).click()
        page.wait_for_function("() => window.retrograd.page.document.operator === 'head'")
        assert page.evaluate(PINNED)["name"] == "gy"


def test_layers_by_keyboard_and_link(browser, served):
    with opened(browser, served) as page:
        taken(page)
        page.locator("#map .layer").nth(0).focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_function("() => window.retrograd.page.document.operator === 'relu'")
        place = page.evaluate("() => location.hash")
        assert place.startswith("#layer=relu&entry=gx:")
    with opened(browser, f"{served}#layer=head&entry=gw:7") as page:
        assert page.evaluate(PINNED) == {"name": "gw", "at": 7}
        assert page.evaluate("() => window.retrograd.page.document.operator") == "head"


def test_a_small_layer_has_the_tabs_of_its_operator(browser, served):
    """But no gradient is typed there: those of the model's run are shown."""
    with opened(browser, f"{served}#layer=head") as page:
        names = [tab.inner_text() for tab in page.get_by_role("tab").all()]
        assert names == ["Entry by entry", "As matrices"]  # too large to step through its code
        assert "rules" in page.evaluate("() => window.retrograd.page.document")


def test_the_title_names_operator_and_layer(browser, file):
    with opened(browser, f"{file}#layer=wide") as page:
        assert page.locator("#operator").inner_text().split() == ["conv2d", "of", "layer", "wide"]
        assert page.title() == "conv2d of layer wide · Sequential · see the gradient"
        page.locator("#map .layer").last.click()
        page.wait_for_function("() => document.title === 'linear of layer head · Sequential · see the gradient'")


def test_what_cannot_be_opened_says_why(browser, served):
    with opened(browser, served) as page:
        page.click("#map .closed")
        assert "it passes its input on" in page.inner_text("#map .say")


def test_a_file_says_what_it_does_not_hold(browser, file):
    with opened(browser, file) as page:
        taken(page)
        page.evaluate("() => window.retrograd.page.selection.pin('gw', 5)")
        page.wait_for_function("() => document.querySelector('#entry .why').textContent.includes('.show()')")


def test_the_map_marks_what_is_wrong(browser, tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    model[0].weight.data = rg.ones(4, 3)
    model[0].bias.data = rg.tensor(np.array([-100.0, 1, -100, 1], np.float32))
    model[2].weight.data = rg.tensor(np.array([[1, 1, 1, np.nan], [1, 1, 1, 1]], np.float32))
    html = rg.explain(model, rg.ones(2, 3), lambda y: y[:, 1].sum()).to_html()
    with opened(browser, written(tmp_path, html)) as page:
        text = page.inner_text("#map")
        assert "50 % dead" in text and "6 NaN or infinite entries" in text


@pytest.mark.parametrize("width", [375, 820, 1280, 1700])
def test_nothing_sticks_out(browser, served, width):
    with opened(browser, served, viewport={"width": width, "height": 800}) as page:
        taken(page)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
