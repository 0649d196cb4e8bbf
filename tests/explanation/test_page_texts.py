"""Text tabs in a browser: derivations, typed gradients of several arrays, and derived faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from explanation.browser import TAKE, opened, written
from retrograd.explanation.gradient_expressions import retyped
from retrograd.explanation.operators import find


def test_a_derivation_is_written_out(browser: Any, tmp_path: Any) -> None:
    given = find("mish").with_settings({})
    derivation = given.to_dict(whole=False)["derivation"]
    with opened(browser, written(tmp_path, given.to_html())) as page:
        page.get_by_role("tab", name="Derivation").click()
        for step, shown in zip(derivation["steps"], page.locator(".rules li").all(), strict=True):
            assert shown.locator("code").all_inner_texts() == [step["value"], *step["gives"]]
            assert shown.locator("p").inner_text() == step["rule"]
        texts = page.locator(".derivation .source").all_inner_texts()
        expected = [derivation["formula"], derivation["derived"], *derivation["declared"]]
        for text, wanted in zip(texts, expected, strict=True):
            assert text.split() == wanted.split()
        assert page.locator(".derivation .diagnosis").inner_text() == (
            f"On these numbers, the derived and the declared gradient are {derivation['apart']:g} ulp apart."
        )
        assert page.locator("#save-svg").is_hidden() and not page.locator("#entry").is_visible()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("exp", "This is a primitive, one of the operations"),
        ("Sign", "The declared gradient is not the derivative, but replaces it."),
        ("mul", "In it, a is called x, and b is called y."),
        ("relu6", "are equal bit for bit"),
    ],
)
def test_what_a_derivation_says(browser: Any, tmp_path: Any, name: str, words: str) -> None:
    with opened(browser, written(tmp_path, find(name).with_settings({}).to_html())) as page:
        page.get_by_role("tab", name="Derivation").click()
        assert words in page.locator(".derivation").inner_text()


def test_gradients_of_several_arrays_are_typed(browser: Any, served: str) -> None:
    with opened(browser, served.replace("operator=conv2d", "operator=mul&tab=rules"), refused=1) as page:
        assert page.get_by_label("ga =").get_attribute("placeholder") == "g * b"
        assert page.locator(".typing figcaption").all_inner_texts()[0].split() == ["ga", "the", "derivative"]
        page.get_by_label("gb =").fill("g * c")
        page.get_by_role("button", name="use them").click()
        message = "document.getElementById('rules-message').textContent"
        page.wait_for_function(f"() => {message}.includes('is unknown')")
        page.get_by_label("gb =").fill("g * b")
        page.get_by_label("gb =").press("Enter")
        page.wait_for_function("() => location.hash.includes('typed=')")
        typed = retyped(find("mul").with_settings({}), "gb = g * b")
        for name in ("ga", "gb"):
            values = typed.arrays[name].values.ravel()
            shown = [page.evaluate(TAKE, [name, at]) for at in range(values.size)]
            np.testing.assert_allclose([each["value"] for each in shown], values)
            assert all(each["agrees"] for each in shown) and all(each["confirmed"] for each in shown) == (name == "ga")
        wrong = np.abs(typed.numerical("gb") - typed.arrays["gb"].values.ravel()) > 1e-3
        assert f"{np.count_nonzero(wrong)} entries not the derivative" in page.locator(".typing").inner_text()
        address = page.url
    with opened(browser, address) as page:
        assert page.get_by_label("gb =").input_value() == "g * b" and not page.get_by_label("ga =").input_value()
        page.get_by_role("button", name="restore their own").click()
        page.wait_for_function("() => !location.hash.includes('typed=')")
        assert "not the derivative" not in page.locator(".typing").inner_text()


def test_a_file_has_nobody_to_ask(browser: Any, tmp_path: Any) -> None:
    with opened(browser, written(tmp_path, find("mul").with_settings({}).to_html())) as page:
        names = [tab.inner_text() for tab in page.get_by_role("tab").all()]
        assert names == ["Entry by entry", "Derivation", "Type it", "The code that ran", "Break it"]
        page.get_by_role("tab", name="Type it").click()
        assert page.locator(".typing pre").inner_text() == "ga = g * b\ngb = g * a"
        assert "To type another gradient, run retrograd explain mul." in page.locator(".typing").inner_text()
    with opened(browser, written(tmp_path, find("relu").with_settings({}).to_html())) as page:
        page.get_by_role("tab", name="Curves").click()
        assert "To type another gradient, run retrograd explain relu." in page.locator(".curves").inner_text()


@pytest.mark.parametrize("name", ["gelu", "linear", "PACT", "mse_loss"])
def test_derived_mistakes_mark_wrong_entries(browser: Any, tmp_path: Any, name: str) -> None:
    given = find(name).with_settings({})
    faults = given.to_dict()["faults"]
    with opened(browser, written(tmp_path, given.to_html())) as page:
        page.get_by_role("tab", name="Break it").click()
        for fault, button in zip(faults, page.locator(".faults nav button").all(), strict=True):
            button.click()
            assert page.locator(".change del").inner_text() == fault["before"]
            assert page.locator(".change ins").inner_text() == fault["after"]
            text = page.locator(".faults").inner_text()
            assert f"broken: {len(fault['marked'][next(iter(fault['wrong']))])} entr" in text
            assert all(line.replace("`", "") in text for line in fault["diagnosis"].splitlines())
