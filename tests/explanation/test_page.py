"""The page in a browser: what it lists for an entry is what the definition says, by mouse, keyboard and touch."""

from __future__ import annotations

import itertools
import math
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from explanation.browser import chromium, opened, written
from retrograd.explanation.explain import explain
from retrograd.explanation.operators import find
from retrograd.explanation.standalone import page as as_html

TAKE = "([name, at]) => window.retrograd.take(name, at)"
PINNED = "() => window.retrograd.page.selection.pinned"
HOVERED = "() => window.retrograd.page.selection.hovered"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def document(name: str, **settings: Any) -> dict[str, Any]:
    return find(name).with_settings(settings).to_dict()


@pytest.fixture(scope="module")
def conv2d(tmp_path_factory) -> str:
    documents = [document("conv2d"), document("conv2d", stride=2), document("conv2d", stride=2, padding=0)]
    return written(tmp_path_factory.mktemp("conv2d"), as_html(documents))


# ---- what is listed


def meetings(shapes: dict[str, list[int]], s: dict[str, Any]) -> Iterator[tuple[int | None, int, int]]:
    """Every product of a 2-D convolution as flat places in x (None: padding), w and y, from the definition."""
    (_, _, H, W), (_, C, R, S), (N, K, P, Q) = shapes["x"], shapes["w"], shapes["y"]
    flat = {name: np.arange(prod(shape)).reshape(shape) for name, shape in shapes.items()}
    filters = K // s["groups"]
    for n, k, p, q, c, r, t in itertools.product(*map(range, (N, K, P, Q, C, R, S))):
        i = p * s["stride"] + r * s["dilation"] - s["padding"]
        j = q * s["stride"] + t * s["dilation"] - s["padding"]
        inside = 0 <= i < H and 0 <= j < W
        place = int(flat["x"][n, k // filters * C + c, i, j]) if inside else None
        yield place, int(flat["w"][k, c, r, t]), int(flat["y"][n, k, p, q])


def settings_of_conv2d(count: int, seed: int) -> list[dict[str, Any]]:
    """Different combinations of settings that go together."""
    choices = {each.name: each.choices for each in find("conv2d").settings}
    rng, found = random.Random(seed), []
    while len(found) < count:
        s = {name: rng.choice(those) for name, those in choices.items()}
        fits = s["size"] + 2 * s["padding"] >= (s["kernel"] - 1) * s["dilation"] + 1
        small = s["batch"] * s["channels"] * s["filters"] * s["size"] ** 2 * s["kernel"] ** 2 < 6000
        if fits and small and not s["channels"] % s["groups"] and not s["filters"] % s["groups"] and s not in found:
            found.append(s)
    return found


def check_lists(page: Any, given: dict[str, Any], settings: dict[str, Any]) -> None:
    arrays = {name: np.array(each["values"], np.float64) for name, each in given["arrays"].items()}
    shapes = {name: each["shape"] for name, each in given["arrays"].items()}
    expected: dict[str, Any] = {name: defaultdict(list) for name in ("y", "gx", "gw")}
    for i, r, o in meetings(shapes, settings):
        expected["y"][o].append((i, r))
        expected["gw"][r].append((o, i))
        if i is not None:
            expected["gx"][i].append((o, r))
    rng = random.Random(1)
    for name, entries in expected.items():
        size = arrays[name].size
        for at in rng.sample(range(size), min(size, 12)):
            shown = page.evaluate(TAKE, [name, at])
            pairs = [tuple(None if place < 0 else place for _, place, _ in each["factors"])
                     for each in shown["products"] if len(each["factors"]) == 2]  # fmt: skip
            assert sorted(pairs, key=str) == sorted(entries[at], key=str), (name, at)
            assert all(each["target"] == name and each["to"] == at for each in shown["products"])
            for each in shown["products"]:
                for factor, place, value in each["factors"]:
                    assert value == (arrays[factor][place] if place >= 0 else 0)
                assert each["value"] == pytest.approx(each["scale"] * prod(value for *_, value in each["factors"]))
            total = sum(each["value"] for each in shown["products"])
            assert shown["total"] == pytest.approx(total) and shown["value"] == arrays[name][at]
            assert total == pytest.approx(arrays[name][at], rel=1e-4, abs=1e-4) and shown["agrees"]
            assert shown["confirmed"] is (None if name == "y" else True)


@pytest.mark.parametrize("chunk", [0, *(pytest.param(j, marks=pytest.mark.nightly) for j in range(1, 10))])
def test_lists_of_a_convolution_are_those_of_its_definition(browser, tmp_path, chunk):
    for j, settings in enumerate(settings_of_conv2d(6 if chunk == 0 else 22, seed=chunk)):
        given = document("conv2d", **settings)
        (tmp_path / str(j)).mkdir()
        with opened(browser, written(tmp_path / str(j), as_html([given]))) as page:
            check_lists(page, given, settings)


OPERATORS = [
    "linear", "conv1d", "conv3d", "conv_transpose2d", "max_pool2d", "avg_pool2d", "batch_norm", "layer_norm", "softmax",
    "cross_entropy", "scaled_dot_product_attention", "rnn_tanh", "lstm", "gru", "gelu", "relu",
]  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_lists_add_up_and_are_their_own_inverse(browser, tmp_path, name):
    given = document(name)
    with opened(browser, written(tmp_path, as_html([given]))) as page:
        goes_into = defaultdict(set)
        for target, each in given["sums"].items():
            values = given["arrays"][target]["values"]
            for at in random.Random(1).sample(range(len(values)), min(6, len(values))):
                shown = page.evaluate(TAKE, [target, at])
                total = sum(each["value"] for each in shown["products"])
                size = max(map(abs, values)) + sum(abs(each["value"]) for each in shown["products"])
                assert shown["agrees"] and total == pytest.approx(values[at], rel=1e-4, abs=2e-5 * size)
            for products in each["products"]:
                for row in zip(*[iter(products["index"])] * (1 + len(products["factors"])), strict=True):
                    for factor, place in zip(products["factors"], row[1:], strict=True):
                        goes_into[factor, place].add((target, row[0]))
        page.evaluate("() => window.retrograd.page.selection.prefer('uses')")
        for (factor, place), entries in random.Random(2).sample(sorted(goes_into.items()), min(20, len(goes_into))):
            shown = page.evaluate(TAKE, [factor, place])
            assert shown["shown"] == "uses"
            assert {(each["target"], each["to"]) for each in shown["products"]} == entries


def test_what_is_wrong_gets_a_cross(browser, tmp_path):
    given = document("conv2d")
    given["arrays"]["gw"]["values"][3] += 1
    given["numerical"]["gw"][4] += 1
    with opened(browser, written(tmp_path, as_html([given]))) as page:
        assert page.evaluate(TAKE, ["gw", 3])["agrees"] is False
        assert page.locator(".checks .cross").count() == 2
        assert "the numbers do not add up to it" in page.locator("#lead").inner_text()
        assert page.evaluate(TAKE, ["gw", 4])["confirmed"] is False
        assert page.locator(".checks .cross").count() == 1


# ---- how it is reached


def address_of(page: Any) -> str:
    """Asked of the page itself: what Playwright knows is a moment old."""
    address: str = page.evaluate("() => location.href")
    return address


def middle(page: Any, name: str, at: int) -> tuple[float, float]:
    """Where an entry is on the screen."""
    find_grid = "([name, at]) => window.retrograd.page.view.grids.find((grid) => grid.array.name === name).middle(at)"
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # laid out
    place = page.evaluate(find_grid, [name, at])
    return place["x"], place["y"]


def test_it_opens_with_an_entry_taken_apart(browser, conv2d):
    with opened(browser, conv2d) as page:
        assert page.evaluate(PINNED)["name"] == "gw"
        assert page.locator("#lead").inner_text().startswith("gw[0, 0, 2, 1] = 61, the sum of 25 products gy · x.")
        assert page.locator(".products li").count() == 25
        assert page.locator(".checks .tick").count() == 2
        assert "every bit" in page.locator("#badge").inner_text()


def test_mouse(browser, conv2d):
    with opened(browser, conv2d) as page:
        before = page.evaluate(PINNED)
        page.mouse.move(*middle(page, "gx", 7))
        assert page.evaluate(HOVERED) == {"name": "gx", "at": 7}
        assert page.locator(".entry h2 code").inner_text() == "gx[0, 0, 1, 2]"
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


# ---- settings, addresses, what is taken along


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


BROKEN = "stride=9", "operator=nothing", "entry=gw:999", "entry=none:0", "tab=none", "%%%", "x"


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
        assert {"x", "w", "b", "y", "gx", "gw", "gb", "gy", "F.conv2d(x, w, b, padding=1)", "61"} <= set(texts)


def test_colours(browser, conv2d):
    ground = "() => getComputedStyle(document.documentElement).backgroundColor"
    with opened(browser, conv2d, color_scheme="dark") as page:
        dark = page.evaluate(ground)
        page.locator("#theme").click()
        assert page.locator("html").get_attribute("data-theme") == "light"
        assert page.evaluate(ground) != dark
        page.reload()
        assert page.locator("html").get_attribute("data-theme") == "light"


# ---- served


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """The address of a page that `retrograd explain` serves."""
    pytest.importorskip("uvicorn", reason="the extra explain is not installed")
    pytest.importorskip("starlette", reason="the extra explain is not installed")
    code = "from retrograd.cli import main; main(['explain', 'conv2d', '--no-browser'])"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.send_signal(signal.SIGINT)
        server.wait(timeout=20)


def test_a_served_page_asks_for_other_settings(browser, served):
    with opened(browser, served) as page:
        assert page.locator("#call").inner_text() == "F.conv2d(x, w, b, padding=1)"
        page.locator("#setting-stride").fill("1")
        page.wait_for_function("() => document.getElementById('call').textContent.includes('stride=2')")
        given = document("conv2d", stride=2)
        check_lists(page, given, {each["name"]: each["value"] for each in given["settings"]})
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


def test_long_lists_begin_with_300_products(browser, tmp_path):
    rng = np.random.default_rng(0)
    given = explain("linear", rng.standard_normal((400, 2)), rng.standard_normal((1, 2)))
    with opened(browser, written(tmp_path, given.to_html())) as page:
        shown = page.evaluate(TAKE, ["gw", 1])
        assert len(shown["products"]) == 400 and page.locator(".products li").count() == 301
        rest = sum(each["value"] for each in shown["products"][300:])
        text = page.locator(".products .rest").text_content()
        assert text.startswith("and 100 others, whose sum is ")
        assert float(text.split()[-1].replace("−", "-")) == pytest.approx(rest, rel=1e-5)
        page.evaluate("() => window.retrograd.page.selection.pin('gw', 1)")
        page.locator(".controls .plain").click()
        first = [float(text.replace("−", "-")) for text in page.locator(".products .value").all_text_contents()]
        assert [abs(each) for each in first] == sorted((abs(each) for each in first), reverse=True)
        page.locator(".products .rest button").click()
        assert page.locator(".products li").count() == 400


def test_nan_and_infinity(browser, tmp_path):
    x = np.array([[1.0, np.nan], [np.inf, 2.0]])
    with np.errstate(all="ignore"):
        given = explain("linear", x, np.array([[1.0, -2.0]]), np.array([[1.0], [3.0]]))
        address = written(tmp_path, as_html([given.to_dict()]))
    with opened(browser, address) as page:
        assert math.isnan(page.evaluate(TAKE, ["gw", 1])["value"])
        assert page.locator(".entry h2 strong").inner_text() == "NaN"
        assert page.evaluate(TAKE, ["gw", 0])["total"] == math.inf
        assert "∞" in page.locator("#lead").inner_text()


def test_panels_that_do_not_fit_are_chosen(browser, tmp_path):
    given = document("conv2d", batch=3, channels=4, filters=4)
    with opened(browser, written(tmp_path, as_html([given]))) as page:
        figure = page.locator("figure[data-array=x]")
        assert figure.locator("output").inner_text() == "n 0"
        figure.get_by_role("button", name="next n").click()
        assert figure.locator("output").inner_text() == "n 1"
        page.evaluate(TAKE, ["y", 4 * 25 * 2 + 7])  # of the last sample: its x is shown
        assert figure.locator("output").inner_text() == "n 2"
        lit = """() => {
          const grid = window.retrograd.page.view.grids.find((grid) => grid.array.name === "x");
          return [...grid.selection.reading.lit.get("x").keys()].every((at) => grid.middle(at));
        }"""
        assert page.evaluate(lit)


def test_what_it_writes_of_one_product(browser, tmp_path):
    with opened(browser, written(tmp_path, as_html([document("max_pool2d")]))) as page:
        assert page.locator("#lead").inner_text().startswith("gx[0, 0, 1, 3] = 3, which is gy[0, 0, 0, 1].")
        assert "x[0, 0, 1, 3] was passed on to one entry of y" in page.locator(".why").inner_text()


# ---- the other parts


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


def test_the_code_steps(browser, tmp_path):
    given = find("conv2d").with_settings({})
    with opened(browser, written(tmp_path, given.to_html())) as page:
        page.get_by_role("tab", name="The code that ran").click()
        forward = page.get_by_role("button", name="step forward")
        seen = set()
        for _ in range(12):
            seen.add(page.locator(".line[aria-current]").inner_text())
            forward.click()
        assert len(seen) > 5
        for group in page.locator(".traces .choice").first.locator("button").all():
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


def test_time_is_scrubbed(browser, tmp_path):
    with opened(browser, written(tmp_path, as_html([document("lstm")]))) as page:
        assert page.locator("[role=tab][aria-selected=true]").inner_text() == "Through time"
        page.mouse.click(*middle(page, "gc", 0))
        page.get_by_label("time step").fill("2")
        pinned = page.evaluate(PINNED)
        assert pinned["name"] == "gc" and page.locator(".entry h2 code").inner_text().startswith("gc[2,")


def test_curves(browser, tmp_path):
    with opened(browser, written(tmp_path, as_html([document("gelu")]))) as page:
        page.get_by_role("tab", name="Curves").click()
        assert page.locator(".curves path.curve").count() >= 2
        page.mouse.move(*(page.locator(".curves svg").bounding_box()[each] + 200 for each in ("x", "y")))
        assert page.locator(".readout").inner_text().startswith("at ")


# ---- screens and readers


@pytest.mark.parametrize("name", ["conv2d", "lstm", "scaled_dot_product_attention"])
def test_a_phone(browser, tmp_path, name):
    phone = {"viewport": {"width": 375, "height": 740}, "has_touch": True, "is_mobile": True}
    with opened(browser, written(tmp_path, as_html([document(name)])), **phone) as page:
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
        assert page.evaluate("() => document.getElementById('view').scrollWidth") <= 375
        grid = page.evaluate("() => window.retrograd.page.view.grids[0].array.name")
        page.touchscreen.tap(*middle(page, grid, 0))
        assert page.evaluate(PINNED) == {"name": grid, "at": 0}
        assert not page.locator(".entry .products").first.is_visible()
        page.locator(".entry .handle").tap()
        assert page.locator(".entry .products").first.is_visible()


def axe() -> str:
    """The source of axe-core where npm has it, or a skip."""
    places = [Path(os.environ.get("AXE_CORE", "/none")), Path("node_modules/axe-core/axe.min.js")]
    try:
        root = subprocess.run(["npm", "root", "-g"], capture_output=True, text=True, timeout=60).stdout.strip()
        places.append(Path(root, "axe-core/axe.min.js"))
    except (OSError, subprocess.TimeoutExpired):
        pass
    found = next((each for each in places if each.is_file()), None)
    if found is None:
        pytest.skip("axe-core is not installed: npm install -g axe-core, or AXE_CORE=the path of axe.min.js")
    return found.read_text(encoding="utf-8")


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize(("name", "tab"), [("conv2d", "entries"), ("conv2d", "matrices"), ("conv2d", "code"),
                                           ("conv2d", "faults"), ("lstm", "time"), ("gelu", "curves")])  # fmt: skip
def test_axe_finds_nothing(browser, tmp_path, name, tab, colours):
    source = axe()
    address = written(tmp_path, find(name).with_settings({}).to_html())
    with opened(browser, f"{address}#operator={name}&tab={tab}", color_scheme=colours) as page:
        page.evaluate(source)
        found = page.evaluate("() => axe.run()")
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []
