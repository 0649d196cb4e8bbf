"""The algorithms that the page steps through: all give the same arrays, and gradcheck finds planted bugs."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from retrograd.explanation import address_table_convolution, winograd_convolution
from retrograd.explanation.explanation import Explanation
from retrograd.explanation.mutation_testing import Bug
from retrograd.explanation.operators import find
from retrograd.explanation.operators.gradient_bugs import CONVOLUTION
from retrograd.explanation.tracing import as_dicts, traced
from retrograd.specs.geometry import Window, conv_window


@st.composite
def convolutions(draw: Any, square: bool = False) -> tuple[Window, np.ndarray, np.ndarray]:
    """Draw a window, and x and w for it."""
    ndim = 2 if square else draw(st.integers(1, 3))
    groups, batch = draw(st.sampled_from((1, 2))), draw(st.integers(1, 2))
    kernel = (3, 3) if square else tuple(draw(st.integers(1, 3)) for _ in range(ndim))
    stride, dilation = (1, 1) if square else (draw(st.integers(1, 3)), draw(st.integers(1, 2)))
    padding = tuple((draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(ndim))
    inputs = tuple(draw(st.integers(dilation * (r - 1) + 1, 7)) for r in kernel)
    window = conv_window(inputs, kernel, stride, padding, dilation, groups)
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    x = rng.standard_normal((batch, 2 * groups, *inputs))
    return window, x, rng.standard_normal((groups * draw(st.integers(1, 3)), 2, *kernel))


def agree(module: Any, window: Window, x: np.ndarray, w: np.ndarray) -> None:
    """Check that a module's three functions equal the loops of the definition."""
    sizes = window.stride, window.padding, window.dilation, window.groups
    rng = np.random.default_rng(7)
    bias = rng.standard_normal(len(w))
    y = naive.conv(x, w, bias, *sizes)
    g = rng.standard_normal(y.shape)
    np.testing.assert_allclose(module.conv(x, w, bias, window), y, atol=1e-12)
    gx = naive.conv_input_grad(g, w, None, x.shape[2:], *sizes)
    np.testing.assert_allclose(module.conv_input_grad(g, w, window), gx, atol=1e-12)
    gw = naive.conv_weight_grad(x, g, w.shape[2:], *sizes)
    np.testing.assert_allclose(module.conv_weight_grad(x, g, window), gw, atol=1e-12)


@given(convolutions())
def test_the_table_of_addresses(case: tuple[Window, np.ndarray, np.ndarray]) -> None:
    agree(address_table_convolution, *case)


@given(convolutions(square=True))
def test_winograd(case: tuple[Window, np.ndarray, np.ndarray]) -> None:
    agree(winograd_convolution, *case)


def explained(**settings: Any) -> Explanation:
    return find("conv2d").with_settings(settings)


def test_every_algorithm_is_stepped_through_to_the_same_arrays() -> None:
    explanation = explained(stride=1, padding=1, groups=2, batch=2)
    runs = explanation.runs()
    assert {run.algorithm.group for run in runs} == {
        "backward",
        "textbook",
        "singa",
        "mxnet",
        "pytorch",
        "numpy_ml",
        "address table",
        "winograd",
    }
    for run in runs[1:]:
        np.testing.assert_allclose(
            run.trace.result, explanation.arrays[run.algorithm.result].values, atol=1e-5, err_msg=run.algorithm.name
        )
        assert run.trace.steps and run.trace.complete
        last = [step.arrays["returned"] for step in run.trace.steps if "returned" in step.arrays][-1]
        assert np.array_equal(run.trace.values[last], run.trace.result)


def test_a_trace_has_the_text_that_ran() -> None:
    (backward, *_) = explained(stride=2).runs()
    (document,) = as_dicts([backward])
    names = {each["name"] for each in document["functions"]}
    assert {"backward", "conv_input_grad", "conv_weight_grad"} <= names
    for step in document["steps"]:
        function = document["functions"][step["function"]]
        lines = function["source"].splitlines()
        assert 0 <= step["line"] - function["first_line"] < len(lines)
        assert all(number < len(document["values"]) for number in step["arrays"].values())
    (file,) = {each["file"] for each in document["functions"] if each["name"] == "conv_weight_grad"}
    assert file == "retrograd/kernels/textbook/convolution.py"


def test_a_trace_leaves_the_tracer_as_it_was_and_passes_errors_on() -> None:
    def fails() -> None:
        raise ZeroDivisionError

    def watch(*_: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        with pytest.raises(ZeroDivisionError):
            traced(fails, lambda code: True)
        assert sys.gettrace() is watch
    finally:
        sys.settrace(before)


def test_a_long_run_is_cut() -> None:
    def long() -> int:
        total = 0
        for number in range(2000):
            total += number
        return total

    trace = traced(long, lambda code: code is long.__code__)
    assert trace.result == 1999000 and not trace.complete and len(trace.steps) == 600


@pytest.mark.parametrize("bug", CONVOLUTION, ids=lambda bug: bug.name)
def test_a_broken_line_is_found_at_the_entries_that_are_wrong(bug: Bug) -> None:
    """The settings are ones at which each bug matters; the gradients that it does not touch stay correct."""
    explanation = explained(stride=2, dilation=2, batch=2, padding=1, size=6)
    (found,) = [each for each in explanation.outcomes() if each.fault is bug]
    assert not found.error
    touched = "gw" if bug.kernel == "conv_weight_grad" else "gx"
    assert [*found.wrong] == [touched]
    assert found.report.startswith("gradcheck failed") and found.diagnosis
    right = explanation.arrays[touched].values
    assert (~np.isclose(found.wrong[touched], right)).any()


def test_a_broken_line_that_makes_no_difference() -> None:
    (found,) = [each for each in explained(stride=1).outcomes() if each.fault.name == "drop the stride"]
    assert not found.wrong and found.report == "gradcheck: passed" and not found.error


def test_a_broken_line_that_fails() -> None:
    (found,) = [each for each in explained(filters=4).outcomes() if each.fault.name == "forget a transpose"]
    assert "ValueError" in found.error and not found.wrong


def test_a_fault_must_fit_the_text() -> None:
    with pytest.raises(ValueError, match="'no such line' occurs 0 times in conv"):
        Bug("", "", "convolution", "conv", "no such line", "").planted()


def test_the_kernels_are_whole_again() -> None:
    explanation = explained(stride=2)
    before = explanation.result("textbook")["gx"]
    explanation.outcomes()
    again = explained(stride=2).result("textbook")["gx"]
    assert np.array_equal(before, again)
