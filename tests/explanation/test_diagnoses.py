"""The sentences of "Break it" hold of the arrays beside them; plain Python checks each claim."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from explanation.sample import sampled
from retrograd.explanation.explanation import Explanation
from retrograd.explanation.gradient_differences import diagnosis, differing
from retrograd.explanation.measurements import gradients
from retrograd.explanation.operators import find

Index = tuple[int, ...]


class Shown:
    """A gradient of the page, correct and broken, and the numbers by index."""

    def __init__(self, explanation: Explanation, name: str, document: dict[str, Any]) -> None:
        self.explanation, self.name = explanation, name
        array = explanation.arrays[name].values
        self.shape: Index = array.shape
        self.places = [*itertools.product(*map(range, self.shape))]
        self.right = dict(zip(self.places, array.ravel().tolist(), strict=True))
        self.wrong = dict(zip(self.places, map(float, document["wrong"][name]), strict=True))
        self.marked = {self.places[at] for at in document["marked"][name]}
        self.scale = max([abs(each) for each in self.right.values() if math.isfinite(each)], default=0.0)

    def near(self, a: float, b: float) -> bool:
        """Compare a float32 of the screen with a float64."""
        return abs(a - b) <= 4e-5 * max(self.scale, abs(a), abs(b)) or (math.isnan(a) and math.isnan(b))

    def everywhere(self, expected: Callable[[Index], float]) -> bool:
        return all(self.near(self.wrong[place], expected(place)) for place in self.places)

    def of(self, gy: np.ndarray) -> dict[Index, float]:
        """Return the correct gradient for another upstream gradient."""
        inputs = {name: array.values for name, array in self.explanation.case.inputs.items()}
        found = gradients(self.explanation.case.call, inputs, gy.astype(self.explanation.gy.dtype), "textbook")
        return dict(zip(self.places, found[self.name].ravel().tolist(), strict=True))


def value(text: str) -> float:
    """Read "−0.5" or "1/3"."""
    top, _, bottom = text.replace("−", "-").partition("/")
    return float(top) / float(bottom or 1)


def rounds(text: str, number: float) -> bool:
    return abs(value(text) - number) <= 6e-4 * abs(number) + 1e-6


def _counted(shown: Shown, count: str, size: str) -> bool:
    return int(count) == len(shown.marked) and int(size) == len(shown.places)


def _moved(shown: Shown, by: str, axis: str, wraps: bool) -> bool:
    def source(place: Index) -> float:
        at = place[int(axis)] - value(by)
        if not wraps and not 0 <= at < shown.shape[int(axis)]:
            return 0.0
        return shown.right[(*place[: int(axis)], int(at % shown.shape[int(axis)]), *place[int(axis) + 1 :])]

    return shown.everywhere(source)


def _exchanged(shown: Shown, a: str, b: str) -> bool:
    def source(place: Index) -> float:
        other = [*place]
        other[int(a)], other[int(b)] = place[int(b)], place[int(a)]
        return shown.right[tuple(other)]

    return shown.everywhere(source)


def _flipped(shown: Shown, axes: str) -> bool:
    along = {int(each) for each in axes.split(", ")}
    ends = shown.shape
    return shown.everywhere(
        lambda place: shown.right[tuple([ends[k] - 1 - i if k in along else i for k, i in enumerate(place)])]
    )


def _alone(shown: Shown, part: str) -> bool:
    gy = np.zeros_like(shown.explanation.gy)
    gy[int(part)] = shown.explanation.gy[int(part)]
    found = shown.of(gy)
    return shown.everywhere(found.__getitem__)


def _ones(shown: Shown) -> bool:
    found = shown.of(np.ones_like(shown.explanation.gy))
    return shown.everywhere(found.__getitem__)


def _wrong(shown: Shown, place: str, wrong: str, right: str) -> bool:
    at = tuple(int(i) for i in place.split(", ")) if place else ()
    error = {each: abs(shown.wrong[each] - shown.right[each]) for each in shown.places}
    largest = error[at] >= max(error.values()) - 4e-5 * max(shown.scale, abs(shown.wrong[at]))
    return at in shown.marked and largest and rounds(wrong, shown.wrong[at]) and rounds(right, shown.right[at])


def _others_are_right(shown: Shown) -> bool:
    others = [place for place in shown.places if place not in shown.marked]
    return bool(others) and all(shown.near(shown.wrong[place], shown.right[place]) for place in others)


def _all_marked(shown: Shown, size: str | None = None) -> bool:
    return len(shown.marked) == len(shown.places) == int(size or 1)


def _sorted(shown: Shown) -> bool:
    pairs = zip(sorted(shown.wrong.values()), sorted(shown.right.values()), strict=True)
    return all(shown.near(a, b) for a, b in pairs)


def _zero_where_marked(shown: Shown) -> bool:
    return all(shown.wrong[place] == 0 and not shown.near(0, shown.right[place]) for place in shown.marked)


def _not_finite(shown: Shown, count: str | None = None, size: str | None = None) -> bool:
    found = sum(not math.isfinite(each) for each in shown.wrong.values())
    return found == int(count or size or 1) and int(size or 1) == len(shown.places)


CLAIMS: list[tuple[str, Callable[..., bool]]] = [  # a piece of a sentence, and its check
    (r"Every entry of `NAME` is 0\.$", lambda s: all(each == 0 for each in s.wrong.values()) and bool(s.marked)),
    (r"Every entry of `NAME` has the wrong sign\.", lambda s: s.everywhere(lambda at: -s.right[at])),
    (
        r"Every entry of `NAME` is ([−\d./e+-]+) times the right one\.",
        lambda s, by: all(
            abs(s.wrong[at] - value(by) * s.right[at]) <= 1e-3 * abs(value(by)) * s.scale for at in s.places
        ),
    ),
    (r"`NAME` ignores the upstream gradient: it is the gradient for a `gy` of ones\.", _ones),
    (r"`NAME` is what `gy\[(\d)\]` alone gives\. What [^.]+ adds is missing\.", _alone),
    (r"`NAME` has the right numbers, but with axes (\d) and (\d) exchanged\.", _exchanged),
    (r"`NAME` has the right numbers, but flipped along ax[ie]s ([\d, ]+)\.", _flipped),
    (
        r"`NAME` has the right numbers, but moved by (−?1) along axis (\d), around the end\.",
        lambda s, by, axis: _moved(s, by, axis, True),
    ),
    (
        r"`NAME` has the right numbers, but moved by (−?1) along axis (\d), with zeros behind\.",
        lambda s, by, axis: _moved(s, by, axis, False),
    ),
    (r"`NAME` has the right numbers, but in the wrong places\.", _sorted),
    (r"(\d+) of (\d+) entries of `NAME` (?:is|are) NaN or infinite\.", _not_finite),
    (r"All (\d+) entries of `NAME` are NaN or infinite\.", lambda s, size: _not_finite(s, None, size)),
    (r"`NAME` is NaN or infinite\.", _not_finite),
    (r"(\d+) of (\d+) entries of `NAME` (?:is|are) (?=wrong|0)", _counted),
    (r"All (\d+) entries of `NAME` are (?=wrong|0)", _all_marked),
    (r"`NAME` is (?=wrong)", _all_marked),
    (r"0 and should not be(?=[.;])", _zero_where_marked),
    (r"wrong(?=[.;])", lambda s: all(abs(s.wrong[at] - s.right[at]) > 5e-6 * s.scale for at in s.marked)),
    (r"; the others are right(?=\.)", _others_are_right),
    (r"\. The largest error is in `NAME(?:\[([\d, ]*)\])?`: ([−\w.+-]+) in place of ([−\w.+-]+?)\.(?= |$)", _wrong),
    (r"\.(?= Every|$)", lambda s: True),
    (
        r" Every wrong entry has index (\d+) on axis (\d+)\.",
        lambda s, i, axis: {at[int(axis)] for at in s.marked} == {int(i)} and s.shape[int(axis)] > 1,
    ),
]


def check(shown: Shown, line: str) -> None:
    """Check every claim of a line; all of its text must belong to a claim."""
    rest = line
    while rest:
        for pattern, holds in CLAIMS:
            found = re.match(pattern.replace("NAME", re.escape(shown.name)), rest)
            if found and found[0]:
                assert holds(shown, *found.groups()), (line, found[0])
                rest = rest[found.end() :]
                break
        else:
            raise AssertionError(f"nothing checks {rest!r} of {line!r}")


def check_all(explanation: Explanation) -> int:
    """Check every diagnosis of an operator's page, and return how many there are."""
    faults = explanation.to_dict()["faults"]
    count = 0
    for fault in faults:
        lines = fault["diagnosis"].split("\n") if fault["diagnosis"] else []
        assert len(lines) == len(fault["wrong"]) == len(fault["marked"]), fault["name"]
        for name, line in zip(fault["wrong"], lines, strict=True):
            check(Shown(explanation, name, fault), line)
            count += 1
    return count


@pytest.mark.parametrize("name", sampled(start=2))
def test_every_diagnosis_holds_of_the_arrays(name: str) -> None:
    explanation = find(name).with_settings({})
    assert check_all(explanation) >= len([each for each in explanation.outcomes() if each.wrong])


SETTINGS = [
    ("conv2d", {"stride": 2, "batch": 2}),
    ("conv2d", {"batch": 3, "dilation": 2, "kernel": 2, "values": "decimals"}),
    ("conv2d", {"padding": 0, "channels": 1, "filters": 1, "kernel": 2}),
    ("conv1d", {"stride": 2, "padding": 2, "batch": 2}),
    ("conv_transpose2d", {"stride": 1, "batch": 3}),
    ("max_pool2d", {"stride": 1}),
    ("avg_pool2d", {"stride": 1}),
    ("lstm", {"batch": 2}),
]


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_with_other_settings(name: str, settings: dict[str, Any]) -> None:
    assert check_all(find(name).with_settings(settings)) > 0


def test_right_values_in_the_wrong_places_are_claimed_of_the_gradient_only() -> None:
    """A transpose that is missing permutes the Jacobian, but not the gradient: 26 and 31 do not occur in it."""
    explanation = find("conv2d").with_settings({"size": 5, "batch": 1})
    (found,) = [each for each in explanation.outcomes() if each.fault.name == "forget a transpose"]
    assert "in the wrong places" in found.report and "in the wrong places" not in found.diagnosis
    assert {26, 31} & {*found.wrong["gx"].ravel()} and not {26, 31} & {*explanation.arrays["gx"].values.ravel()}


RIGHT = np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 6.0], [7.0, 8.0, 10.0]])
GY = np.array([[1.0], [2.0]])


def backward(gy: np.ndarray) -> dict[str, np.ndarray]:
    return {"gx": RIGHT * gy.sum() / 3}


MOVED = np.vstack([RIGHT[:1] * 0, RIGHT[:2]])
PERMUTED = RIGHT.ravel()[[8, 1, 3, 2, 4, 5, 6, 7, 0]].reshape(3, 3)
ONE = RIGHT + [[0, 0, 0], [0, 2, 0], [0, 0, 0]]
NUMBERS = "`gx` has the right numbers, but"
PLACED = "The largest error is in `gx[1, 1]`: 2 in place of 0."
AXIS_0, AXIS_1 = (f"Every wrong entry has index 1 on axis {axis}." for axis in (0, 1))
CHANGED = [
    (RIGHT * 0, "Every entry of `gx` is 0."),
    (-RIGHT, "Every entry of `gx` has the wrong sign."),
    (RIGHT * 1.5, "Every entry of `gx` is 1.5 times the right one."),
    (RIGHT.T, f"{NUMBERS} with axes 0 and 1 exchanged."),
    (RIGHT[:, ::-1], f"{NUMBERS} flipped along axis 1."),
    (RIGHT[::-1, ::-1], f"{NUMBERS} flipped along axes 0, 1."),
    (np.roll(RIGHT, -1, 1), f"{NUMBERS} moved by −1 along axis 1, around the end."),
    (MOVED, f"{NUMBERS} moved by 1 along axis 0, with zeros behind."),
    (PERMUTED, f"{NUMBERS} in the wrong places."),
    (RIGHT * [1, 0, 1], f"2 of 9 entries of `gx` are 0 and should not be; the others are right. {AXIS_1}"),
    (ONE, f"1 of 9 entries of `gx` is wrong; the others are right. {PLACED} {AXIS_0} {AXIS_1}"),
    (RIGHT * np.where(RIGHT == 8, np.nan, 1), "1 of 9 entries of `gx` is NaN or infinite."),
]


@pytest.mark.parametrize(("wrong", "line"), CHANGED)
def test_each_sentence(wrong: np.ndarray, line: str) -> None:
    assert diagnosis({"gx": RIGHT}, {"gx": wrong}, GY, backward) == line


def test_partial_gradients() -> None:
    def linear(gy: np.ndarray) -> dict[str, np.ndarray]:
        return {"gw": gy.T @ np.array([[1.0, 2.0], [3.0, 5.0]])}

    right = linear(GY)
    one = {"gw": np.array([[6.0, 10.0]])}
    assert diagnosis(right, one, GY, linear) == "`gw` is what `gy[1]` alone gives. What `gy[0]` adds is missing."
    ones = {"gw": np.array([[4.0, 7.0]])}
    assert diagnosis(right, ones, GY, linear).startswith("`gw` ignores the upstream gradient")


def test_rounding_is_no_difference() -> None:
    assert not differing(RIGHT, RIGHT * (1 + 1e-7)).any()
    assert differing(RIGHT * 1e-6, RIGHT * 1e-6 + 1e-8).all()
    assert not differing(np.array([np.nan, np.inf]), np.array([np.nan, np.inf])).any()
