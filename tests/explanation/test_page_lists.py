"""The products that the page lists for an entry match the definition and add up to the entry."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

from explanation.browser import TAKE, document, opened, written
from retrograd.explanation.explain import explain
from retrograd.explanation.html_page import page as as_html
from retrograd.explanation.operators import find


def meetings(shapes: dict[str, list[int]], s: dict[str, Any]) -> Iterator[tuple[int | None, int, int]]:
    """Return every product of a 2-D convolution as flat positions in x (None: padding), w and y, by definition."""
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
    """Draw different compatible combinations of settings."""
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
            pairs = [
                tuple(None if place < 0 else place for _, place, _ in each["factors"])
                for each in shown["products"]
                if len(each["factors"]) == 2
            ]
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
    for j, settings in enumerate(settings_of_conv2d(3 if chunk == 0 else 23, seed=chunk)):
        given = document("conv2d", **settings)
        (tmp_path / str(j)).mkdir()
        with opened(browser, written(tmp_path / str(j), as_html([given]))) as page:
            check_lists(page, given, settings)


OPERATORS = [
    "linear",
    "conv1d",
    "conv3d",
    "conv_transpose2d",
    "max_pool2d",
    "avg_pool2d",
    "batch_norm",
    "layer_norm",
    "softmax",
    "cross_entropy",
    "scaled_dot_product_attention",
    "rnn_tanh",
    "lstm",
    "gru",
    "gelu",
    "relu",
]


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
        assert "the products do not add up to it" in page.locator("#lead").inner_text()
        assert page.evaluate(TAKE, ["gw", 4])["confirmed"] is False
        assert page.locator(".checks .cross").count() == 1


def test_long_lists_begin_with_300_products(browser, tmp_path):
    rng = np.random.default_rng(0)
    given = explain("linear", rng.standard_normal((400, 2)), rng.standard_normal((1, 2)))
    with opened(browser, written(tmp_path, given.to_html())) as page:
        shown = page.evaluate(TAKE, ["gw", 1])
        assert len(shown["products"]) == 400 and page.locator(".products li").count() == 13  # pointing stays quick
        page.evaluate("() => window.retrograd.page.selection.pin('gw', 1)")
        assert page.locator(".products li").count() == 301
        rest = sum(each["value"] for each in shown["products"][300:])
        text = page.locator(".products .rest").text_content()
        assert text.startswith("and 100 others, whose sum is ")
        assert float(text.split()[-1].replace("−", "-")) == pytest.approx(rest, rel=1e-5)
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


def test_what_it_writes_of_one_product(browser, tmp_path):
    with opened(browser, written(tmp_path, as_html([document("max_pool2d")]))) as page:
        assert page.locator("#lead").inner_text().startswith("gx[0, 0, 1, 3] = 3, which is gy[0, 0, 0, 1].")
        assert "x[0, 0, 1, 3] was passed on to one entry of y" in page.locator(".why").inner_text()
