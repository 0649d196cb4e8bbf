""" "Read this first": its claims hold for the arrays of the run, and its steps show what they describe."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from explanation.browser import opened, written
from retrograd.explanation.explain import explain
from retrograd.explanation.operators import find

SETTINGS = [
    ("conv1d", {"dilation": 2}),
    ("conv2d", {}),
    ("conv2d", {"stride": 2, "groups": 2, "size": 6, "batch": 2}),
    ("conv2d", {"stride": 3, "padding": 2, "kernel": 2, "values": "decimals"}),
    ("conv3d", {"stride": 2}),
    ("conv_transpose1d", {}),
    ("conv_transpose2d", {"padding": 1, "groups": 2, "dilation": 2}),
    ("conv_transpose3d", {"stride": 1}),
]


def steps_of(name: str, **settings: Any) -> list[Any]:
    return [step for story in find(name).with_settings(settings).stories for step in story.steps]


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_gx_is_the_other_convolution_of_gy(name, settings):
    """The step that claims to have run the other convolution has done so, and prints its result."""
    (text,) = (step.text for step in steps_of(name, **settings) if "was run" in step.text)
    assert ("F.conv_transpose" in text) == ("transpose" not in name)
    found = re.search(r"are those of gx, the same numbers(?: up to (.+))?\.", text)
    assert found and float(found[1] or 0) < 1e-5


@pytest.mark.parametrize(("name", "settings"), [(n, s) for n, s in SETTINGS if "2d" in n])
def test_the_windows_that_meet(name, settings):
    """The elementwise product of the two pictures sums to the contribution of one filter, by the definition."""
    given = find(name).with_settings(settings)
    arrays = {each: array.values.astype(np.float64) for each, array in given.arrays.items()}
    (step,) = (step for story in given.stories for step in story.steps if step.pictures and step.name == "gx")
    patch, kernel = (picture.values.astype(np.float64) for picture in step.pictures)
    s = {each.name: each.value for each in given.settings}
    n, c, i, j = np.unravel_index(step.at, arrays["x"].shape)
    rows = given.sums["gx"][0].of(step.at)
    k = int(np.unravel_index(rows[step.product, 0], arrays["gy"].shape)[1])
    total = 0.0
    _, _, H, W = arrays["gy"].shape
    R = s["kernel"]
    for p, q, r, t in itertools.product(range(H), range(W), range(R), range(R)):
        down, across = (p, i) if "transpose" not in name else (i, p), (q, j) if "transpose" not in name else (j, q)
        reads = [
            o * s["stride"] + tap * s["dilation"] - s["padding"] == place
            for (o, place), tap in ((down, r), (across, t))
        ]
        if all(reads):
            own = c % (arrays["x"].shape[1] // s["groups"]), k % (arrays["y"].shape[1] // s["groups"])
            w = arrays["w"][(c, own[1])] if "transpose" in name else arrays["w"][(k, own[0])]
            total += arrays["gy"][n, k, p, q] * w[r, t]
    assert (patch * kernel).sum() == pytest.approx(total)
    assert f"filter {k} gives {total:.3g}".replace("-", "−") in step.text.replace("Filter", "filter")


@pytest.mark.parametrize("settings", [{}, {"batch": 3, "stride": 2, "padding": 2}, {"values": "decimals", "kernel": 2}])
def test_each_sample_adds_its_term(settings):
    """grad_b times col_data.T() of each sample by its definition: the numbers, and the pictures that add up to gw."""
    given = find("conv2d").with_settings(settings)
    s = {each.name: each.value for each in given.settings}
    arrays = {name: array.values.astype(np.float64) for name, array in given.arrays.items()}
    *_, loop, added = given.stories[0].steps
    assert "`dw += Mult(grad_b, col_data.T())`" in loop.text and "the output gradient of sample b" in loop.text
    k, c, r, t = np.unravel_index(added.at, arrays["gw"].shape)
    padded = np.pad(arrays["x"], ((0, 0), (0, 0), (s["padding"],) * 2, (s["padding"],) * 2))
    _, _, height, width = arrays["gy"].shape
    terms = np.zeros((s["batch"], s["kernel"], s["kernel"]))
    for b, p, q, i, j in itertools.product(*map(range, (s["batch"], height, width, s["kernel"], s["kernel"]))):
        terms[b, i, j] += arrays["gy"][b, k, p, q] * padded[b, c, p * s["stride"] + i, q * s["stride"] + j]
    *shown, total = (picture.values for picture in added.pictures)
    np.testing.assert_allclose(shown, terms, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(total, arrays["gw"][k, c], rtol=1e-5)
    np.testing.assert_allclose(terms.sum(0), total, rtol=1e-4, atol=1e-5)
    assert [picture.sign for picture in added.pictures] == ["", *["+"] * (s["batch"] - 1), "="]
    written = [f"{term:.3g}".replace("-", "−") for term in terms[:, r, t]]
    for b, term in enumerate(written[:2]):
        assert f"{term} for b = {b}" in loop.text
    assert f"columns {height * width}–{2 * height * width - 1} for b = 1" in loop.text
    assert " + ".join(f"({term})" if term[0] == "−" else term for term in written) in added.text
    assert f"only the last sample would count: {written[-1]} in place of" in added.text


def test_many_samples_are_added_in_three_terms():
    rng = np.random.default_rng(3)
    x, w = rng.integers(1, 4, (6, 1, 3, 3)).astype(float), rng.integers(1, 4, (1, 1, 2, 2)).astype(float)
    given = explain("conv2d", x, w, np.ones((6, 1, 2, 2)))
    pictures = given.stories[0].steps[-1].pictures
    assert [picture.title for picture in pictures] == ["b = 0", "b = 1", "b = 2 to 5", "gw[0, 0]"]
    np.testing.assert_allclose(sum(picture.values for picture in pictures[:-1]), given.arrays["gw"].values[0, 0])


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_the_kept_share_is_the_product_that_is_said(name):
    given = find(name).with_settings({"steps": 5, "units": 3, "batch": 2})
    gate = {"lstm": "f", "gru": "z"}[name]
    steps = given.stories[0].steps
    gates = given.arrays[gate].values.reshape(5, -1)[1:, steps[1].at]
    assert f"= {np.prod(gates):.3g}." in steps[1].text
    assert f"at step {1 + int(gates.argmin())}" in steps[2].text
    assert np.prod(given.arrays[gate].values[1:], 0).min() == pytest.approx(gates.prod())
    assert find(name).with_settings({"steps": 1}).stories == []


def test_of_nothing_nothing_is_told():
    zero = explain("conv2d", np.ones((1, 1, 3, 3)), np.ones((1, 1, 2, 2)), np.zeros((1, 1, 2, 2)))
    assert zero.stories == []
    empty = explain("conv2d", np.ones((0, 1, 3, 3)), np.ones((1, 1, 2, 2)), np.zeros((0, 1, 2, 2)))
    assert empty.stories == []


NOW = """() => { const { reading, pinned, product } = window.retrograd.page.selection;
  return { ...pinned, shown: reading.shown, into: [...new Set(reading.products.map((each) => each.target.name))],
           product: product && [product.target.name, product.to],
           view: document.getElementById("view").dataset.view }; }"""


@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d", "lstm", "rnn_relu"])
def test_each_step_shows_its_entry(browser, tmp_path, name):
    given = find(name).with_settings({})
    with opened(browser, written(tmp_path, given.to_html())) as page:
        for story in given.stories:
            page.locator("#story button", has_text=story.question).click()
            for number, step in enumerate(story.steps):
                assert f"{number + 1} of {len(story.steps)}" in page.locator("#story").inner_text()
                text = page.locator("#story .tell p").text_content()
                assert text == step.text.replace("`", "")
                now = page.evaluate(NOW)
                assert (now["name"], now["at"], now["view"]) == (step.name, step.at, step.view)
                assert now["into"] == [step.into] if step.into else now["shown"] == "sum"
                assert now["product"] == (None if step.product is None else [step.name, step.at])
                if number + 1 < len(story.steps):
                    page.locator("#story .next").click()
            page.get_by_role("button", name="close").click()
        assert page.locator("#story .label").inner_text() == "Read this first"


def test_a_story_goes_on_with_other_settings(browser, tmp_path):
    from retrograd.explanation.html_page import page as as_html

    documents = [find("conv2d").with_settings({"stride": stride}).to_dict() for stride in (1, 2)]
    with opened(browser, written(tmp_path, as_html(documents))) as page:
        page.locator("#story button").first.click()
        page.locator("#story .next").click()
        before = page.locator("#story .tell p").text_content()
        page.locator("#setting-stride").fill("1")
        after = page.locator("#story .tell p").text_content()
        assert before != after and after == documents[1]["stories"][0]["steps"][1]["text"].replace("`", "")
        assert page.locator("#story .place").inner_text() == "2 of 7"


def test_a_link_leads_into_a_story(browser, tmp_path):
    address = written(tmp_path, find("conv2d").with_settings({}).to_html())
    with opened(browser, address) as page:
        page.locator("#story button").first.click()
        page.locator("#story .next").click()
        link, text = page.url, page.locator("#story .tell p").text_content()
        page.get_by_role("button", name="close").click()
        assert link.endswith("&story=0:1") and "story=" not in page.url
    with opened(browser, link) as page:
        assert page.locator("#story .place").inner_text().startswith("2 of")
        assert page.locator("#story .tell p").text_content() == text and page.url == link
