"""Checks of a convolution: its three kernels against the oracle and against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naive
from comparison import FORMULAS, assert_equal, assert_sums, clamped, run
from retrograd.formulas import POINTWISE
from retrograd.kernels.compiled.convolution import algorithm
from retrograd.kernels.compiled.convolution import convolution as compiled_convolution
from retrograd.specs.convolution_options import AUTO, Options
from retrograd.specs.geometry import Window, conv_window, pool_window
from strategies import Case, Source

Trio = tuple[np.ndarray, np.ndarray, np.ndarray]


def forward(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window) -> np.ndarray:
    return naive.conv(x, w, bias, window.stride, window.padding, window.dilation, window.groups)


def input_grad(g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window) -> np.ndarray:
    geometry = window.stride, window.padding, window.dilation
    return naive.conv_input_grad(g, w, bias, window.input, *geometry, window.groups)


def weight_grad(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    geometry = window.stride, window.padding, window.dilation
    return naive.conv_weight_grad(x, g, window.kernel, *geometry, window.groups)


def by_loops(arrays: Trio, window: Window) -> Trio:
    """Compute y, gx and gw with the oracle."""
    x, w, g = arrays
    return forward(x, w, None, window), input_grad(g, w, None, window), weight_grad(x, g, window)


def trio(kernel_set: Any, arrays: Trio, window: Window, options: Options = AUTO) -> Trio:
    """Compute y, gx and gw with the kernels of one set."""
    x, w, g = arrays
    return (
        run(kernel_set.conv, x, w, None, window, options),
        run(kernel_set.conv_input_grad, g, w, None, window, options),
        run(kernel_set.conv_weight_grad, x, g, window, options),
    )


def check(kernel_set: Any, case: Case, source: Source) -> None:
    """Check the three kernels on random arrays, with a random upstream gradient."""
    arrays = x, w, g = operands(case, source)
    expected = by_loops(arrays, case.window)
    found = trio(kernel_set, arrays, case.window, case.options)
    check_trio(case, arrays, found, expected)
    if case.bias:
        check_bias(kernel_set, case, source, arrays, expected)


BOUNDS = (0.0, np.inf), (0.0, 6.0), (-0.5, 0.25), (-np.inf, np.inf), (1.0, -1.0)


def check_clamp(kernel_set: Any, case: Case, source: Source, options: Options = AUTO) -> None:
    """Check a convolution with what follows it against the same convolution, followed by these: the same bits."""
    x, w, residual, bias = source.arrays(case.x, case.w, case.y, (case.outputs,))
    given = bias if case.bias else None
    if source.rng.random() < 0.5:
        x = _with_one_not_finite(x, source)
    y = _check_finish(kernel_set, "conv", x, w, given, residual, case.window, options, source)
    if y.size and min(case.window.output) > 1:
        low, high = BOUNDS[source.rng.integers(len(BOUNDS))]
        for pool in (pool_window(case.window.output, 2), pool_window(case.window.output, 2, 1, 1)):
            found = run(kernel_set.conv_max_pool, x, w, given, low, high, case.window, pool, options)
            taken = {"kernel": pool.kernel, "stride": pool.stride, "padding": pool.padding, "dilation": pool.dilation}
            expected, _ = naive.max_pool(clamped(y, None, low, high), **taken, output=pool.output)
            assert_equal(found, expected)


def check_input_grad_clamp(kernel_set: Any, case: Case, source: Source, options: Options = AUTO) -> None:
    """The same for an input gradient, or transposed convolution; a weight that is not finite takes another way."""
    g, w, residual, bias = source.arrays(case.y, case.w, case.x, (case.inputs,))
    for changed in ("none", "g", "w"):
        x = _with_one_not_finite(g, source) if changed == "g" else g
        by = _with_one_not_finite(w, source) if changed == "w" else w
        given = bias if case.bias else None
        _check_finish(kernel_set, "conv_input_grad", x, by, given, residual, case.window, options, source)


def _with_one_not_finite(x: np.ndarray, source: Source) -> np.ndarray:
    if x.size:
        x = x.copy("K")
        x.flat[source.rng.integers(x.size)] = source.rng.choice([np.nan, np.inf, -np.inf])
    return x


def _check_finish(
    kernel_set: Any,
    name: str,
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    residual: np.ndarray,
    window: Window,
    options: Options,
    source: Source,
) -> np.ndarray:
    y: np.ndarray = run(getattr(kernel_set, name), x, w, bias, window, options)
    finished = getattr(kernel_set, f"{name}_clamp")
    for low, high in BOUNDS:
        for added in (None, residual):
            found = run(finished, x, w, bias, added, low, high, window, options)
            assert_equal(found, clamped(y, added, low, high))
            formula, numbers = FORMULAS[source.rng.integers(len(FORMULAS))]
            followed = run(finished, x, w, bias, added, low, high, window, options, POINTWISE[formula], numbers)
            assert_equal(followed, getattr(kernel_set, formula)(found, *numbers))
    return y


def operands(case: Case, source: Source) -> Trio:
    """x, w and g."""
    x, w, g = source.arrays(case.x, case.w, case.y)
    return x, w, g


def check_trio(case: Case, arrays: Trio, found: Trio, expected: Trio) -> None:
    """Compare with the oracle up to the rounding of the sums; in float64 also check the adjoint identity."""
    __tracebackhide__ = True
    for actual, wanted, terms in zip(found, expected, terms_of(case), strict=True):
        assert_sums(actual, wanted, terms, transformed=can_be_transformed(case.window))
    if arrays[0].dtype == np.float64:
        check_adjoints(arrays, found)


def check_adjoints(arrays: Trio, found: Trio) -> None:
    """<conv(x, w), g> = <x, conv_input_grad(g, w)> = <w, conv_weight_grad(x, g)>"""
    (x, w, g), (y, gx, gw) = arrays, found
    forms = np.vdot(y, g), np.vdot(x, gx), np.vdot(w, gw)
    size = max(np.linalg.norm(y) * np.linalg.norm(g), 1e-300)
    assert max(forms) - min(forms) <= 1e-12 * size


def check_bias(kernel_set: Any, case: Case, source: Source, arrays: Trio, expected: Trio) -> None:
    """Check conv and conv_input_grad with a bias for each output channel, and conv with what follows it."""
    (x, w, g), window, options = arrays, case.window, case.options
    b_out, b_in = source.arrays((case.outputs,), (case.inputs,))
    transformed = can_be_transformed(window)
    for y, bias, without, terms in (
        (run(kernel_set.conv, x, w, b_out, window, options), b_out, expected[0], terms_of(case)[0]),
        (run(kernel_set.conv_input_grad, g, w, b_in, window, options), b_in, expected[1], terms_of(case)[1]),
    ):
        column = np.asarray(bias, np.float64).reshape(-1, *(1,) * window.ndim)
        assert_sums(y, without + column, terms, transformed=transformed)
    low, high = BOUNDS[source.rng.integers(len(BOUNDS))]
    found = run(kernel_set.conv_clamp, x, w, b_out, g, low, high, window, options)
    assert_equal(found, clamped(kernel_set.conv(x, w, b_out, window, options), g, low, high))
    found = run(kernel_set.conv_input_grad_clamp, g, w, b_in, x, low, high, window, options)
    assert_equal(found, clamped(kernel_set.conv_input_grad(g, w, b_in, window, options), x, low, high))


def terms_of(case: Case) -> tuple[int, int, int]:
    """The number of terms in an element of y or gx, the bias included, and in an element of gw."""
    taps, groups = case.window.taps, case.window.groups
    positions = int(np.prod(case.window.output))
    return taps * case.inputs // groups + 1, taps * case.outputs // groups + 1, case.batch * positions


def can_be_transformed(window: Window) -> bool:
    """Whether an algorithm that rounds more than sums do, such as Winograd's, may have been used."""
    return window.groups == 1 and max(window.kernel) >= 3


def plain(window: Window, batch: int, inputs: int, outputs: int, dtype: type, seed: int = 0) -> tuple[Case, Source]:
    source = Source(np.random.default_rng(seed), dtype, ("channels_last", "contiguous", "channels_last"))
    return Case(window, batch, inputs, outputs, False), source


def force(monkeypatch: pytest.MonkeyPatch, form: str, *jobs: str) -> None:
    choose = algorithm.choose
    monkeypatch.setattr(compiled_convolution, "choose", lambda job, *args: form if job in jobs else choose(job, *args))


# A geometry of each form of the forward pass, and of its variants.
FORMS = {
    "line": ("line", Case(conv_window((40, 41), 1), 2, 40, 70, True)),
    "line of pairs": ("line", Case(conv_window((40, 41), 1), 2, 43, 4, True)),
    "line, the last panel in pairs": ("line", Case(conv_window((40, 41), 1), 2, 37, 36, True)),
    "line of one panel": ("line", Case(conv_window((40, 41), 1), 2, 40, 16, False)),
    "direct": ("direct", Case(conv_window((7, 9), 3, 2, 1), 2, 20, 37, True)),
    "direct, padding at the end": ("direct", Case(conv_window((7, 14), 3, 1, ((0, 2), (0, 1))), 2, 40, 37, True)),
    "direct in parts": ("direct", Case(conv_window((5, 5), 3, 2, 1), 2, 400, 40, True)),
    "direct in parts, one tap": ("direct", Case(conv_window((3, 3), 1), 1, 450, 400, True)),
    "direct in parts, groups": ("direct", Case(conv_window((3, 2), 3, 1, 1, groups=2), 1, 260, 300, False)),
    "direct in pairs": ("direct", Case(conv_window((17, 19), 3, 2, 1), 3, 71, 5, True)),
    "direct, the last panel in pairs": ("direct", Case(conv_window((17, 19), 3, 2, 1), 3, 71, 36, True)),
    "direct in groups": ("direct", Case(conv_window((7, 9), 3, 1, 1, 1, 3), 2, 30, 60, True)),
    "narrow": ("narrow", Case(conv_window((9, 30), 5, 2, 2), 2, 3, 37, True)),
    "narrow in blocks": ("narrow", Case(conv_window((9, 30), 5, 1, 2), 2, 16, 20, False)),
    "narrow with groups of taps": ("narrow", Case(conv_window((9, 30), 9, 1, 4), 2, 3, 6, True)),
    "narrow in groups": ("narrow", Case(conv_window((9, 30), 3, 1, 1, 1, 3), 2, 21, 39, True)),
    "narrow with pairs of groups": ("narrow", Case(conv_window((9, 30), 3, 1, 1, 1, 4), 2, 12, 20, True)),
    "planar": ("planar", Case(conv_window((9, 30), 3, 1, 1), 2, 17, 3, True)),
    "planar in blocks": ("planar", Case(conv_window((21, 200), 3, 1, 1), 1, 30, 5, True)),
    "planar of short lines": ("planar", Case(conv_window((9, 8), 1), 2, 17, 3, True)),
    "planar in groups": ("planar", Case(conv_window((9, 30), 3, 1, 1, 1, 5), 2, 15, 10, True)),
    "depthwise": ("depthwise", Case(conv_window((9, 30), 3, 1, 1, 1, 37), 2, 37, 37, True)),
    "depthwise of few": ("depthwise", Case(conv_window((9, 30), 3, 2, 1, 1, 3), 2, 3, 3, True)),
    "depthwise of many": ("depthwise", Case(conv_window((3, 3), 3, 1, 1, 1, 790), 1, 790, 790, True)),
    "winograd": ("winograd", Case(conv_window((13, 14), 3, 1, 1), 3, 35, 40, True)),
    "winograd of one image": ("winograd", Case(conv_window((22, 23), 3, 1, 1), 1, 17, 64, True)),
    "winograd of five taps": ("winograd", Case(conv_window((13, 14), 5, 1, 2), 2, 9, 19, True)),
    "winograd of residues": ("winograd", Case(conv_window((13, 14), 3, 1, 2, 2), 2, 9, 19, True)),
    "winograd in space": ("winograd", Case(conv_window((3, 8, 9), 3, 1, 1), 2, 9, 19, True)),
    "nothing": ("direct", Case(conv_window((7, 9), 3, 2, 1), 0, 20, 37, True)),
}

# And of the input gradient, some with positions that no tap reaches.
FORMS_OF_GRADIENT = {
    "line": ("line", Case(conv_window((20, 21), 1), 2, 40, 70, True)),
    "direct": ("direct", Case(conv_window((7, 9), 3, 2, 1), 2, 20, 37, True)),
    "direct in parts": ("direct", Case(conv_window((5, 5), 3, 2, 1), 2, 40, 400, False)),
    "direct with gaps": ("direct", Case(conv_window((8, 9), 1, (2, 3)), 2, 17, 12, True)),
    "direct, filled": ("direct", Case(conv_window((30, 31), 2, 11, 1), 2, 9, 5, True)),
    "narrow": ("narrow", Case(conv_window((9, 30), 5, 2, 2), 2, 3, 37, True)),
    "narrow with gaps": ("narrow", Case(conv_window((9, 30), 2, 3), 2, 3, 6, False)),
    "narrow with pairs of groups": ("narrow", Case(conv_window((9, 30), (2, 3), 1, 1, 1, 6), 2, 42, 12, True)),
    "planar": ("planar", Case(conv_window((9, 30), 3, 1, 1), 2, 3, 17, True)),
    "depthwise": ("depthwise", Case(conv_window((9, 30), 3, 2, 1, 1, 37), 2, 37, 37, True)),
    "depthwise, filled": ("depthwise", Case(conv_window((30, 31), 2, 11, 1, 1, 5), 2, 5, 5, True)),
    "winograd": ("winograd", Case(conv_window((13, 14), 3, 1, 1), 3, 35, 40, True)),
    "winograd by phases": ("winograd", Case(conv_window((13, 14), 4, 2, 1), 2, 9, 19, True)),
    "winograd of residues": ("winograd", Case(conv_window((13, 14), 3, 1, 2, 2), 2, 9, 19, False)),
    "fold": ("fold", Case(conv_window((12, 26), 4, 2, 1), 2, 3, 20, True)),
    "fold with gaps": ("fold", Case(conv_window((9, 14), 2, (3, 4), ((0, 0), (3, 2))), 2, 5, 6, False)),
    "nothing": ("direct", Case(conv_window((7, 9), 3, 2, 1), 0, 20, 37, True)),
}
