"""Operators as matrices: copied entries, products, and the number of entries that col2im adds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from explanation.browser import document, opened, written
from retrograd.explanation.explanation import Explanation
from retrograd.explanation.html_page import page as as_html
from retrograd.explanation.operators import find


def values(explanation: Explanation) -> dict[str, np.ndarray]:
    return {name: array.values.astype(np.float64) for name, array in explanation.arrays.items()}


def is_copied(explanation: Explanation, name: str) -> None:
    array = explanation.arrays[name]
    assert array.copies is not None and array.view == "matrices"
    source, index = array.copies
    flat = explanation.arrays[source].values.ravel()
    assert array.values.shape == index.shape
    assert np.array_equal(array.values, np.where(index < 0, 0, flat[np.maximum(index, 0)]))


def test_a_linear_layer() -> None:
    for explanation in (
        find("linear").with_settings({"batch": 3}),
        rg.explain("linear", np.arange(24.0).reshape(2, 3, 4), np.arange(20.0).reshape(5, 4), b=np.ones(5)),
    ):
        found = values(explanation)
        for name in ("X", "W", "Y", "G", "dW", "dX"):
            is_copied(explanation, name)
        np.testing.assert_allclose(found["Y"], found["X"] @ found["W"].T + found["b"])
        np.testing.assert_allclose(found["dW"], found["G"].T @ found["X"])
        np.testing.assert_allclose(found["dX"], found["G"] @ found["W"])
        assert found["dX"].shape == (found["x"].size // found["x"].shape[-1], found["x"].shape[-1])
        assert len(explanation.entry("Y", (0, 1)).products) == found["x"].shape[-1] + 1


def test_a_layer_of_real_size_has_none() -> None:
    explanation = rg.explain("linear", np.ones((64, 64)), np.ones((32, 64)))
    assert not [name for name, array in explanation.arrays.items() if array.view == "matrices"]


SETTINGS = [
    {},
    {"stride": 1, "padding": 1, "batch": 2},
    {"stride": 3, "dilation": 2, "groups": 2},
    {"padding": 2, "groups": 2, "batch": 2, "size": 3, "values": "decimals"},
]


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_transposed_convolution(ndim: int, settings: dict[str, Any]) -> None:
    given = settings | ({"channels": 2, "filters": 2} if "groups" in settings else {})
    explanation = find(f"conv_transpose{ndim}d").with_settings(given)
    found = values(explanation)
    for name in ("W_row", "X_row", "G_col", "dW_row", "dX_row", "col2im"):
        is_copied(explanation, name)
    rows, columns = found["W_row"], found["G_col"]
    np.testing.assert_allclose(found["Y_col"], rows.swapaxes(1, 2) @ found["X_row"], atol=1e-5)
    np.testing.assert_allclose(found["dX_row"], rows @ columns, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["dW_row"], found["X_row"] @ columns.swapaxes(1, 2), rtol=1e-4, atol=1e-4)
    samples, filters = found["y"].shape[:2]
    image = np.zeros(found["y"].shape)
    options = {each.name: each.value for each in explanation.settings}
    groups, kernel, size = options["groups"], options["kernel"], options["size"]
    counts = np.zeros(found["y"].shape, int)
    per_group = filters // groups
    for g, k, n in itertools.product(range(groups), range(per_group), range(samples)):
        for taps in itertools.product(range(kernel), repeat=ndim):
            for place in itertools.product(range(size), repeat=ndim):
                at = [
                    o * options["stride"] + r * options["dilation"] - options["padding"]
                    for o, r in zip(place, taps, strict=True)
                ]
                if all(0 <= i < extent for i, extent in zip(at, image.shape[2:], strict=True)):
                    u = k * kernel**ndim + int(np.ravel_multi_index(taps, (kernel,) * ndim))
                    o = n * size**ndim + int(np.ravel_multi_index(place, (size,) * ndim))
                    image[(n, g * per_group + k, *at)] += found["Y_col"][g, u, o]
                    counts[(n, g * per_group + k, *at)] += 1
    bias = found["b"].reshape(1, -1, *(1,) * ndim)
    np.testing.assert_allclose(found["y"], image + bias, rtol=1e-4, atol=1e-4)
    scattered, added = explanation.sums["col2im"]
    assert scattered.factors == ("Y_col",) and added.factors == ("b",)
    assert np.array_equal(np.bincount(scattered.index[:, 0], minlength=image.size), counts.ravel())


LIT = "name => [...window.retrograd.page.selection.reading.lit.get(name) ?? []]"


@pytest.mark.parametrize("name", ["linear", "conv_transpose2d", "conv_transpose1d"])
def test_the_page_links_them(browser: Any, tmp_path: Any, name: str) -> None:
    settings = {"padding": 1} if "conv" in name else {}
    given = document(name, **settings)
    with opened(browser, f"{written(tmp_path, as_html([given]))}#tab=matrices") as page:
        page.get_by_role("tab", name="As matrices").click()
        texts = [button.inner_text() for button in page.locator(".matrices nav button").all()]
        linear = ["Y = X · Wᵀ", "dW = Gᵀ · X", "dX = G · W"]
        conv = ["Y_col = W_rowᵀ · X_row", "col2im ← Y_col", "dW_row = X_row · G_colᵀ", "dX_row = W_row · G_col"]
        assert texts == (linear if name == "linear" else conv)
        for button in page.locator(".matrices nav button").all():
            button.click()
            assert page.locator(".matrices figure").count() > 5
        matrix = "dW" if name == "linear" else "dW_row"
        for array, each in given["arrays"].items():
            if each["copies"] and array not in ("col2im",):
                at = len(each["copies"]["index"]) // 2
                page.evaluate("([name, at]) => window.retrograd.take(name, at)", [array, at])
                source, place = each["copies"]["array"], each["copies"]["index"][at]
                lit = page.evaluate(LIT, source)
                assert ([place, "copy"] in lit) == (place >= 0), array
        shown = page.evaluate("([name, at]) => window.retrograd.take(name, at)", [matrix, 1])
        assert shown["agrees"] and shown["value"] == given["arrays"][matrix]["values"][1]
