"""The picture of a recurrent layer unrolled in time matches the layer's arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import retrograd as rg
from explanation.browser import opened, written
from explanation.test_operators import explained
from retrograd import nn
from retrograd.explanation.document import through_time
from retrograd.explanation.html_page import page as as_html
from retrograd.explanation.model_page import answers_of
from retrograd.explanation.operators import find
from retrograd.explanation.operators.recurrent_cells import DIAGRAMS


@pytest.mark.parametrize("name", DIAGRAMS)
def test_the_ways_to_a_state_are_all_its_products(name):
    explanation = find(name).with_settings({"batch": 2})
    arrays, diagram = {each: array.values for each, array in explanation.arrays.items()}, DIAGRAMS[name]
    named = {each for pair in (*diagram.states, *diagram.gates) for each in pair} | {diagram.between, diagram.kept}
    assert named - {""} <= arrays.keys()
    assert {gate for join in diagram.joins for gate in join.gates} == {gate for gate, _ in diagram.gates}
    for _, gradient in diagram.states:
        ways = [way for way in diagram.ways if way.to == gradient]
        kinds = [[way for way in ways if set(way.sources) & set(each.factors)] for each in explanation.sums[gradient]]
        assert all(len(found) == 1 for found in kinds)
        assert {way for found in kinds for way in found} == {*ways}
        for way in ways:  # the source is as many steps later as the picture says
            for each in explanation.sums[gradient]:
                for column, factor in enumerate(each.factors):
                    if factor in way.sources:
                        steps = each.index[:, [0, 1 + column]] // arrays[gradient][0].size
                        assert np.all(steps[:, 1] - steps[:, 0] == way.by)
            if way.gate:
                assert way.gate in arrays and way.kind == "state"


def number(text: str) -> float:
    return float(text.replace("−", "-"))


PINNED = "() => window.retrograd.page.selection.pinned"


@pytest.mark.parametrize(
    ("name", "gate", "settings"),
    [
        ("lstm", "f", {"batch": 2, "initial_state": "True"}),
        ("gru", "z", {}),
        ("rnn_relu", "", {"units": 3}),
    ],
)
def test_the_picture(browser, tmp_path, name, gate, settings):
    explanation = find(name).with_settings(settings)
    arrays = {each: array.values for each, array in explanation.arrays.items()}
    steps, batch, units = arrays["y"].shape
    gradient = "gc" if name == "lstm" else "gh"
    with opened(browser, written(tmp_path, as_html([explanation.to_dict(whole=False)]))) as page:
        page.evaluate(f"() => window.retrograd.page.selection.pin('{gradient}', 0)")
        assert page.locator("[role=tab][aria-selected=true]").inner_text() == "Through time"
        nodes = page.locator(".diagram .node")
        labels = nodes.evaluate_all("(all) => all.map((each) => each.getAttribute('aria-label').split(' = '))")
        shown = dict(labels)
        assert len(shown) == len(labels)
        for pair in (*DIAGRAMS[name].states, *DIAGRAMS[name].gates):
            for each in pair:
                for t in range(steps):  # one node for each, with its number
                    value = number(shown[f"{each}[{t}, 0, 0]"].split(",")[0])
                    assert value == pytest.approx(arrays[each][t, 0, 0], rel=1e-5, abs=1e-9)
        assert ("c0[0, 0, 0]" in shown) == ("initial_state" in settings)
        # a node is selected, and the arrows to it show the terms of its sum
        page.locator(f".diagram [aria-label^='{gradient}[1, 0, 0]']").click()
        assert page.evaluate(PINNED) == {"name": gradient, "at": batch * units}
        assert page.locator(".diagram .node.taken").count() == 1
        told = page.locator(".told p").first.inner_text().split(": ")[1]
        parts = [number(each.split(" ")[0]) for each in told.split("; ")]
        assert sum(parts) == pytest.approx(arrays[gradient][1, 0, 0], rel=1e-2)
        assert (
            page.locator(".diagram .way.lit").count()
            == len(parts)
            == sum(way.to == gradient for way in DIAGRAMS[name].ways)
        )
        # the keyboard moves between nodes, and through time
        page.keyboard.press("ArrowRight")
        taken = page.evaluate("() => window.retrograd.page.selection.hovered")
        assert taken == {"name": gradient, "at": 2 * batch * units}
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert page.evaluate(PINNED)["name"] != gradient
        page.get_by_label("time step").fill("0")
        assert page.locator(".entry h2 code").inner_text().split("[")[1].startswith("0,")
        page.get_by_label("unit that is shown").select_option("1")
        assert page.evaluate(PINNED)["at"] % units == 1
        if gate:
            product = number(page.locator(".kept-product").inner_text())
            assert product == pytest.approx(np.prod(arrays[gate][1:, 0, 1]), rel=6e-3)
        else:
            assert "No gate carries the gradient through" in page.locator(".told").inner_text()
        if batch > 1:
            page.get_by_label("sequence that is shown").select_option("1")
            assert page.evaluate(PINNED)["at"] // units % batch == 1
        with page.expect_download() as download:
            page.locator("#save-svg").click()
        picture = ElementTree.fromstring(Path(download.value.path()).read_text(encoding="utf-8"))
        texts = ["".join(each.itertext()) for each in picture.iter("{http://www.w3.org/2000/svg}text")]
        assert {f"t = {t}" for t in range(steps)} <= set(texts)


def test_many_steps_are_drawn_a_part_at_a_time(browser, tmp_path):
    random = np.random.default_rng(0)
    T, H = 30, 2
    inputs = {
        "x": random.standard_normal((T, 1, 9)),
        "w_ih": random.standard_normal((4 * H, 9)),
        "w_hh": random.standard_normal((4 * H, H)),
    }
    given = explained("lstm", inputs)
    with opened(browser, written(tmp_path, as_html([given.to_dict(whole=False)]))) as page:
        moments = page.locator(".diagram .moment")
        assert moments.count() == 12
        page.evaluate("() => window.retrograd.page.selection.pin('gc', 25 * 2)")
        assert "t = 25" in moments.all_text_contents() and moments.count() == 12
        page.evaluate("() => window.retrograd.page.selection.pin('x', 9 * 29 + 8)")  # the last of many inputs
        assert page.locator(".diagram .node.taken").get_attribute("aria-label").startswith("x[29, 0, 8]")
        page.locator(".diagram .node.taken").focus()
        for _ in range(29):
            page.keyboard.press("ArrowLeft")
        assert page.locator(".diagram .node.taken").get_attribute("aria-label").startswith("x[0, 0, 8]")


def large() -> Any:
    """Two layers that are too large to be sent whole."""
    rg.manual_seed(0)
    model, x = nn.LSTM(6, 40, num_layers=2), np.random.default_rng(1).standard_normal((14, 3, 6)).astype(np.float32)
    return rg.explain(model, x, lambda result: (result[0][-1] ** 2).sum())


def test_one_unit_at_every_step():
    run = large()
    explanation = run.layer("l0")
    found = answers_of(run)["through_time"]({"layer": "l0", "sequence": "2", "unit": "7", "input": "1"})
    arrays = {name: array.values for name, array in explanation.arrays.items()}
    for name in ("f", "gc", "kept", "y"):
        assert found["values"][name] == arrays[name][:, 2, 7].tolist()
    assert found["values"]["gx"] == arrays["gx"][:, 2, 1:5].ravel().tolist()
    for state in ("gc", "gh"):  # the paths to a state add up to its gradient
        ways = [way for way, each in zip(found["ways"], DIAGRAMS["lstm"].ways, strict=True) if each.to == state]
        np.testing.assert_allclose(np.sum(ways, 0)[1:], arrays[state][:, 2, 7], rtol=1e-5, atol=1e-9)
    for place, words in (((3, 0, 0), "no sequence 3"), ((0, -1, 0), "no unit -1"), ((0, 0, 6), "no input 6")):
        with pytest.raises(ValueError, match=words):
            through_time(explanation, *place)
    with pytest.raises(ValueError, match="relu has no steps in time"):
        through_time(find("relu").with_settings({}), 0, 0, 0)


def test_the_picture_of_a_large_layer(browser, tmp_path):
    run = large()
    values = {name: array.values for name, array in run.layer("l1").arrays.items()}
    with opened(browser, f"{written(tmp_path, run.to_html())}#layer=l1&tab=time&entry=gc:0") as page:
        page.wait_for_function("() => document.querySelector('.told .kept-product')")
        assert number(page.locator(".kept-product").inner_text()) == pytest.approx(values["kept"][0, 0, 0], rel=6e-3)
        label = page.locator(".diagram [aria-label^='f[1, 0, 0]']").get_attribute("aria-label")
        assert number(label.split(" = ")[1].split(",")[0]) == pytest.approx(values["f"][1, 0, 0], rel=1e-5)
        page.get_by_label("unit that is shown").select_option("30")  # a file has no more than the first of them
        page.wait_for_function("() => document.querySelector('.told').innerText.includes('contains only a part')")
        page.wait_for_timeout(
            300
        )  # the selected entry is requested meanwhile, and its answer does not change the caption
        assert "contains only a part" in page.locator(".told").inner_text()
        page.get_by_label("unit that is shown").select_option("0")
        page.wait_for_function("() => document.querySelector('.told .kept-product')")
