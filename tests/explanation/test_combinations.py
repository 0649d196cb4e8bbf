"""Other settings in the page's file: which it contains, their size, and equality with the served page."""

from __future__ import annotations

import base64
import itertools
import json
import re
import zlib
from typing import Any

import numpy as np
import pytest

from explanation.browser import TAKE, opened
from retrograd.explanation.explanation import LARGEST_FILE, Setting
from retrograd.explanation.operator_page import changes, others
from retrograd.explanation.operators import find

SETTINGS = (
    Setting("stride", 1, (1, 2, 3), ""),
    Setting("mode", "b", ("a", "b", "c"), ""),
    Setting("fixed", 1, (1,), ""),
    Setting("pad", 0, (0, 1), ""),
)


def unpacked(text: str) -> Any:
    """Unpack a document whose indices are stored as differences between neighbors in a column."""
    found = json.loads(zlib.decompress(base64.b64decode(text)))
    for sums in found.get("sums", {}).values():
        for each in sums["products"]:
            each["index"] = np.cumsum(np.reshape(each["index"], (1 + len(each["factors"]), -1)), 1).T.ravel().tolist()
    for array in found.get("arrays", {}).values():
        if array["copies"]:
            array["copies"]["index"] = np.cumsum(array["copies"]["index"]).tolist()
    return found


def held(html: str) -> Any:
    found = re.search('<script type="application/json" id="others">(.*?)</script>', html)
    assert found is not None
    return json.loads(found[1])


def test_every_change_of_one_setting_and_of_two() -> None:
    found = [*changes(SETTINGS)]
    expected = set()
    choices = {each.name: each.choices for each in SETTINGS}
    default = {each.name: each.value for each in SETTINGS}
    for values in itertools.product(*choices.values()):
        changed = {name: value for name, value in zip(choices, values, strict=True) if value != default[name]}
        if 1 <= len(changed) <= 2:
            expected.add(tuple(sorted(changed.items())))
    assert len(found) == len(expected) and {tuple(sorted(each.items())) for each in found} == expected
    assert [len(each) for each in found] == sorted(len(each) for each in found)
    assert found[-1] == {"stride": 3, "mode": "a"} or found[-1] in ({"stride": 3, "mode": "c"}, {"stride": 3, "pad": 1})


def test_they_hold_what_the_server_answers() -> None:
    operator = find("linear")
    given = operator.with_settings({"batch": 3})
    found = others(given, 10_000_000)
    assert found is not None
    assert found["about"] == "this file holds every change of one setting and every change of two settings"
    for each in found["documents"][::9]:
        expected = json.loads(json.dumps(operator.with_settings({"batch": 3, **each["changed"]}).to_dict()))
        later = {name: expected.pop(name) for name in ("steps", "traces", "faults")}
        assert unpacked(each["packed"]) == expected | {"later": ["traces", "faults"]}
        assert ("later" in each) == (len(each["changed"]) == 1)
        if "later" in each:
            assert unpacked(each["later"]) == later


def test_settings_that_do_not_go_together_are_in_it_as_sentences() -> None:
    found = others(find("conv1d").with_settings({"channels": 1}), 60_000)
    assert found is not None
    refused = {tuple(each["changed"].items()): each["error"] for each in found["documents"] if "error" in each}
    assert refused[("groups", 2),] == "channels=1 and filters=2 must be multiples of groups=2"


def test_no_more_than_there_is_room_for() -> None:
    given = find("linear").with_settings({})
    alone = len(given.to_html())
    assert held(given.to_html()) is None
    for most in (alone + 100, alone + 12_000, alone + 90_000):
        html = given.to_html(most)
        assert len(html) <= most
        found = held(html)
        count = 0 if found is None else len(found["documents"])
        if 0 < count < 12:
            assert found["about"] == f"this file holds {count} of 12 changes of one setting"


def test_arrays_of_the_users_own_have_no_other_settings(tmp_path: Any) -> None:
    import retrograd as rg

    given = rg.explain("linear", np.ones((2, 3)), np.ones((4, 3)))
    assert held(given.to_html(LARGEST_FILE)) is None
    given.save(tmp_path / "own.html", 1000)
    assert (tmp_path / "own.html").read_text(encoding="utf-8") == given.to_html()


@pytest.fixture(scope="module")
def file(tmp_path_factory: Any) -> str:
    path = tmp_path_factory.mktemp("others") / "conv1d.html"
    find("conv1d").with_settings({}).save(path, 1_500_000)
    assert path.stat().st_size <= 1_500_000
    return str(path.as_uri())


CALL = "document.getElementById('call').textContent"


def test_a_file_shows_other_settings_like_the_served_page(browser: Any, file: str) -> None:
    with opened(browser, file) as page:
        page.locator("#setting-stride").fill("1")
        page.wait_for_function(f"() => {CALL}.includes('stride=2')")
        page.locator("#setting-dilation").fill("1")
        page.wait_for_function(f"() => {CALL}.includes('dilation=2')")
        expected = find("conv1d").with_settings({"stride": 2, "dilation": 2}).to_dict()
        values = expected["arrays"]["gw"]["values"]
        shown = [page.evaluate(TAKE, ["gw", at]) for at in range(len(values))]
        assert [each["value"] for each in shown] == values
        assert all(each["agrees"] and each["confirmed"] for each in shown)
        page.get_by_role("tab", name="Break it").click()
        words = "This file contains this for at most one changed setting: "
        command = "retrograd explain conv1d --set stride=2 --set dilation=2 shows it."
        assert page.locator("#view").inner_text() == words + command
        address = page.evaluate("() => location.href")
    with opened(browser, f"{file}#stride=2") as page:
        page.get_by_role("tab", name="Break it").click()
        given = find("conv1d").with_settings({"stride": 2}).to_dict()
        page.wait_for_selector(".faults nav button")
        assert page.locator(".faults nav button").count() == len(given["faults"])
        page.get_by_role("tab", name="The code that ran").click()
        page.wait_for_selector(".source .line")
    with opened(browser, address) as page:
        assert "stride=2" in page.locator("#call").inner_text() and "dilation=2" in page.locator("#call").inner_text()


def test_a_file_says_what_it_does_not_hold(browser: Any, file: str) -> None:
    with opened(browser, file) as page:
        note = page.locator(".settings .note").inner_text()
        assert note.startswith("this file holds every change of one setting and ")
        assert note.endswith("; retrograd explain conv1d computes any other")
        for name, place, words in (("stride", 1, "stride=2"), ("dilation", 1, "dilation=2")):
            page.locator(f"#setting-{name}").fill(str(place))
            page.wait_for_function(f"() => {CALL}.includes('{words}')")
        before = page.locator("#call").inner_text()
        page.locator("#setting-batch").fill("2")
        page.wait_for_selector(".settings .error:not(:empty)")
        error = page.locator(".settings .error").inner_text()
        assert error.startswith("This file holds every change of one setting and ")
        assert error.endswith(": retrograd explain conv1d --set stride=2 --set dilation=2 --set batch=3 computes these")
        assert page.locator("#setting-batch").input_value() == "1" and page.locator("#call").inner_text() == before
        page.locator("#setting-dilation").fill("0")
        page.wait_for_function(f"() => !{CALL}.includes('dilation')")
        assert not page.locator(".settings .error").inner_text()


def test_a_file_says_why_settings_do_not_go_together(browser: Any, file: str) -> None:
    with opened(browser, file) as page:
        page.locator("#setting-channels").fill("0")
        page.wait_for_function("() => window.retrograd.page.settings.values.channels === 1")
        page.locator("#setting-groups").fill("1")
        page.wait_for_selector(".settings .error:not(:empty)")
        assert "channels=1 and filters=2 must be multiples of groups=2" in page.locator(".settings .error").inner_text()
        assert page.locator("#setting-groups").input_value() == "0"
