"""Accessibility of the pages: axe-core finds no problem, in light and dark mode; roles have colors of their own."""

from __future__ import annotations

import itertools
import re
from importlib import resources
from typing import Any

import numpy as np
import pytest

from explanation.browser import opened, written
from retrograd.explanation.explain import explain
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
        page.wait_for_selector("#map .on-path")
        check(page, axe)
        page.locator("#map .layer").last.click()
        page.wait_for_function("() => window.retrograd.page.document.operator === 'head'")
        check(page, axe)


# ---- Colors of the roles

ROLES = "input", "weight", "output", "upstream", "gradient", "inner"
# Machado et al., "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009), severity 1
SIGHT = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def linear(text: str) -> np.ndarray:
    """Return a color "#rrggbb" as linear light."""
    parts = np.array([int(text[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def oklab(light: np.ndarray) -> np.ndarray:
    """Return linear light in Oklab, whose distances are those that people see (Ottosson, 2020)."""
    cones = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
    cones.append([0.0883024619, 0.2817188376, 0.6299787005])
    lab = [[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099]]
    lab.append([0.0259040371, 0.7827717662, -0.808675766])
    return np.array(lab) @ np.cbrt(np.array(cones) @ light)


def contrast(a: str, b: str) -> float:
    low, high = sorted(float(linear(each) @ [0.2126, 0.7152, 0.0722]) for each in (a, b))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_each_role_has_its_color(theme):
    """Roles are distinct for every kind of sight, and readable as text."""
    style = resources.files("retrograd.explanation").joinpath("page", "base.css").read_text(encoding="utf-8")
    found = {name: pair[theme] for name, *pair in re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\)", style)}
    for sight, matrix in SIGHT.items():
        seen = {role: oklab(np.clip(np.array(matrix) @ linear(found[role]), 0, 1)) for role in ROLES}
        for a, b in itertools.combinations(ROLES, 2):
            assert np.linalg.norm(seen[a] - seen[b]) > 0.12, (sight, a, b)
    for role in ROLES:
        for ground in ("paper", "raised", "zero"):
            assert contrast(found[role], found[ground]) >= 4.5, (role, ground)


# ---- Numbers in cells

FILL = """() => { window.written = []; const { fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    window.written.push([text, parseFloat(this.font)]);
    return fillText.call(this, text, x, y);
  };
  window.retrograd.page.layout(); }"""
CELLS = """async () => { const { palette, forget } = await import("page/color"); forget();
  const { cells, pale, nan } = palette(); return { cells, pale, nan: [nan] }; }"""


def hexadecimal(text: str) -> str:
    """Turn "rgb(1 2 3)" into "#010203"."""
    return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", text))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_number_has_contrast(browser, tmp_path, theme):
    """Every color of a cell, also while others are highlighted, has a text of a contrast of at least 4.5."""
    address = written(tmp_path, find("relu").with_settings({}).to_html())
    with opened(browser, address, color_scheme=theme) as page:
        for kind, cells in page.evaluate(CELLS).items():
            assert len(cells) == (1 if kind == "nan" else 257)
            for cell in cells:
                assert contrast(hexadecimal(cell["fill"]), hexadecimal(cell["text"])) >= 4.5, (kind, cell)


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("name", ["conv2d", "lstm", "large model"])
def test_every_number_is_large_enough(browser, tmp_path, name, width):
    """Numbers are written in 11 px at least; an array that does not fit is scrolled, and nothing else sticks out."""
    from explanation.large_model import explanation

    html = (
        explanation().to_html() if name == "large model" else find(name).with_settings({"values": "decimals"}).to_html()
    )
    with opened(browser, written(tmp_path, html), viewport={"width": width, "height": 860}) as page:
        for tab in page.get_by_role("tab").all() or [None]:
            if tab is not None:
                tab.click()
            page.wait_for_timeout(200)
            page.evaluate(FILL)
            found = page.evaluate("() => window.written")
            assert [each for each in found if each[1] < 10.9] == []
            if tab is None or tab.inner_text() == "Entry by entry":
                assert len([text for text, _ in found if re.fullmatch(r"−?\d*\.\d+", text)]) > 20
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_zoom_and_scroll(browser, tmp_path):
    """Larger cells scroll within their frame, down to the last entry; much smaller ones are colors without numbers."""
    rng = np.random.default_rng(0)
    arrays = rng.integers(-9, 9, (3, 200)).astype(float), rng.integers(-9, 9, (5, 200)).astype(float)
    address = written(tmp_path, explain("linear", *arrays).to_html())
    with opened(browser, address, viewport={"width": 1024, "height": 800}) as page:
        last = "() => window.retrograd.page.view.grids.find(({ array }) => array.name === 'w').middle(999)"
        page.evaluate("() => window.retrograd.page.selection.pin('w', 0)")
        assert page.evaluate(last) is None
        page.evaluate("() => window.retrograd.page.selection.pin('w', 999)")
        place = page.evaluate(last)
        page.mouse.move(place["x"], place["y"])
        assert page.evaluate("() => window.retrograd.page.selection.hovered") == {"name": "w", "at": 999}
        size = "() => window.retrograd.page.view.grids[0].cell"
        before = page.evaluate(size)
        page.get_by_role("button", name="larger cells").click()
        assert page.evaluate(size) > before
        for _ in range(4):
            page.get_by_role("button", name="smaller cells").click()
        assert page.evaluate(size) < before / 2 and page.get_by_role("button", name="smaller cells").is_disabled()
        page.evaluate(FILL)
        numbers = [text for text, _ in page.evaluate("() => window.written") if re.fullmatch(r"−?\d+", text)]
        assert numbers == []
