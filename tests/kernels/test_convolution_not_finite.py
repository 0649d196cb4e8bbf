"""Infinities and NaN in convolutions: they reach exactly the results that read them by the definition.

Padding adds nothing, not even 0 times an infinite weight, whichever algorithm computes the sums. (Only the transforms
of Winograd's algorithm spread them.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from comparison import FORMULAS, assert_close, assert_equal, assert_sums, clamped, run
from kernels.convolutions import (
    BOUNDS,
    FORMS,
    FORMS_OF_GRADIENT,
    by_loops,
    force,
    forward,
    input_grad,
    operands,
    plain,
    terms_of,
    trio,
    weight_grad,
)
from retrograd import kernels
from retrograd.formulas import POINTWISE
from retrograd.specs.convolution_options import Options
from retrograd.specs.geometry import Window, conv_window, pool_window
from strategies import DTYPES, Case, Source

VALUES = np.nan, np.inf, -np.inf
# the largest ones take the oracle seconds
SLOW = "planar in blocks", "line", "line of pairs", "line, the last panel in pairs", "line of one panel"
EXACT = {name: form for name, form in FORMS.items() if form[0] != "winograd" and name not in (*SLOW, "nothing")}
EXACT_GRADIENTS = {
    name: form for name, form in FORMS_OF_GRADIENT.items() if form[0] != "winograd" and name != "nothing"
}
# A geometry of each form of the weight gradient.
EXACT_WEIGHT_GRADIENTS = {
    "direct": ("direct", Case(conv_window((7, 9), 3, 2, 1), 2, 20, 37, False)),
    "direct of outputs as rows": ("direct", Case(conv_window((9, 14), 3, 2, 1), 2, 24, 5, False)),
    "direct in groups": ("direct", Case(conv_window((7, 9), 3, 1, 2, 2, 3), 2, 12, 15, False)),
    "narrow": ("narrow", Case(conv_window((9, 14), 5, 2, 2), 2, 3, 37, False)),
    "planar": ("planar", Case(conv_window((9, 14), 3, 1, 1), 2, 17, 3, False)),
    "depthwise": ("depthwise", Case(conv_window((9, 14), 3, 2, 1, 1, 37), 2, 37, 37, False)),
}


def _planted(source: Source, shape: tuple[int, ...], count: int) -> np.ndarray:
    """Random numbers, some of them not finite: at the ends and in the middle of the axes of positions or taps."""
    (x,) = source.arrays(shape)
    x = x.copy("K")
    for at in range(count):
        channel = (int(source.rng.integers(shape[0])), int(source.rng.integers(shape[1])))
        place = [int(source.rng.choice((0, extent // 2, extent - 1))) for extent in shape[2:]]
        x[(*channel, *place)] = VALUES[at % 3]
    return x


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["channels_last", "contiguous", "every_other"])
@pytest.mark.parametrize("name", EXACT)
def test_every_form(monkeypatch: pytest.MonkeyPatch, name: str, layout: str, dtype: type) -> None:
    """In x, or in weights, whose products with padding are left out; and what follows the sums."""
    form, case = EXACT[name]
    force(monkeypatch, form, "conv")
    source, window = Source(np.random.default_rng(6), dtype, (layout,)), case.window
    x, w, bias, residual = source.arrays(case.x, case.w, (case.outputs,), case.y)
    for given in ((_planted(source, case.x, 3), w), (x, _planted(source, case.w, 6))):
        y = run(kernels.conv, *given, bias, window)
        assert_sums(y, forward(*given, bias, window), terms_of(case)[0])
        for low, high in BOUNDS:
            found = run(kernels.conv_clamp, *given, bias, residual, low, high, window)
            assert_sums(found, clamped(forward(*given, bias, window), residual, low, high), terms_of(case)[0])
        _check_formulas(kernels.conv_clamp, y, (*given, bias), window)
        if min(window.output) > 1:
            pool = pool_window(window.output, 2)
            found = run(kernels.conv_max_pool, *given, bias, 0.0, np.inf, window, pool, Options())
            expected = kernels.max_pool_values(clamped(y, None, 0.0, np.inf), pool)
            assert_sums(found, np.asarray(expected, np.float64), terms_of(case)[0])


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["channels_last", "contiguous", "every_other"])
@pytest.mark.parametrize("name", EXACT_GRADIENTS)
def test_every_form_of_the_input_gradient(monkeypatch: pytest.MonkeyPatch, name: str, layout: str, dtype: type) -> None:
    form, case = EXACT_GRADIENTS[name]
    force(monkeypatch, form, "conv_input_grad")
    source, window = Source(np.random.default_rng(7), dtype, (layout,)), case.window
    g, w, bias, residual = source.arrays(case.y, case.w, (case.inputs,), case.x)
    for given in ((_planted(source, case.y, 3), w), (g, _planted(source, case.w, 6))):
        gx, expected = run(kernels.conv_input_grad, *given, bias, window), input_grad(*given, bias, window)
        assert_sums(gx, expected, terms_of(case)[1])
        for low, high in BOUNDS:
            found = run(kernels.conv_input_grad_clamp, *given, bias, residual, low, high, window)
            assert_sums(found, clamped(expected, residual, low, high), terms_of(case)[1])
        _check_formulas(kernels.conv_input_grad_clamp, gx, (*given, bias), window)


def _check_formulas(kernel: Any, y: np.ndarray, given: tuple[Any, ...], window: Window) -> None:
    """Formulas that keep NaN, and others that hide it."""
    for formula, numbers in (FORMULAS[0], FORMULAS[8], ("sign", ()), ("nan_to_num", (1.0, 2.0, 3.0))):
        found = run(kernel, *given, None, -np.inf, np.inf, window, Options(), POINTWISE[formula], numbers)
        assert_equal(found, getattr(kernels, formula)(y, *numbers))


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["channels_last", "contiguous", "every_other"])
@pytest.mark.parametrize("name", EXACT_WEIGHT_GRADIENTS)
def test_every_form_of_the_weight_gradient(
    monkeypatch: pytest.MonkeyPatch, name: str, layout: str, dtype: type
) -> None:
    form, case = EXACT_WEIGHT_GRADIENTS[name]
    force(monkeypatch, form, "conv_weight_grad")
    source = Source(np.random.default_rng(8), dtype, (layout,))
    x, g = source.arrays(case.x, case.y)
    for given in ((_planted(source, case.x, 3), g), (x, _planted(source, case.y, 3))):
        assert_sums(
            run(kernels.conv_weight_grad, *given, case.window), weight_grad(*given, case.window), terms_of(case)[2]
        )


@pytest.mark.pairwise
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kernel", [3, 4, 7])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", [5, 9, 16, 20])
@pytest.mark.parametrize("channels", [5, 19])
def test_depthwise_padding_is_not_multiplied(channels: int, width: int, stride: int, kernel: int, value: float) -> None:
    """NaN or inf at the borders of x, w or g reaches exactly the results that read it."""
    window = conv_window((4, width), (3, kernel), stride, ((1, 1), (kernel // 2, kernel // 2)), 1, channels)
    for place in (0, -1, width // 2):
        x, w, g = operands(*plain(window, 2, channels, channels, np.float64, width))
        x[1, 2, 1, place] = w[3, 0, 0, place % kernel] = g[0, 4, 1, place % window.output[1]] = value
        for found, wanted in zip(trio(kernels, (x, w, g), window), by_loops((x, w, g), window), strict=True):
            assert_close(found, wanted, 1e-13)


@pytest.mark.pairwise
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize(("width", "stride"), [(6, 2), (12, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_inf_reach_what_reads_them(
    kernel_set: Any, dtype: type, width: int, stride: int, groups: int, value: float
) -> None:
    """NaN or inf in x or g reaches exactly the results that read it by the definition, with or without zero padding."""
    window = conv_window((5, width), (3, 2), (stride, 1), ((1, 1), (1, 0)), (1, 2), groups)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 6, 5, width)).astype(dtype), rng.normal(size=(6, 6 // groups, 3, 2)).astype(dtype)
    x[1, 4, 2, 3] = value
    tolerance = 200 * np.finfo(dtype).eps
    assert_close(run(kernel_set.conv, x, w, None, window), forward(x, w, None, window), tolerance)
    g = rng.normal(size=(2, 6, *window.output)).astype(dtype)
    assert_close(run(kernel_set.conv_weight_grad, x, g, window), weight_grad(x, g, window), tolerance)
    g[0, 3, 1, 1] = value
    assert_close(run(kernel_set.conv_input_grad, g, w, None, window), input_grad(g, w, None, window), tolerance)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("channels", [2, 20])
def test_weight_grad_leaves_padding_out(channels: int, value: float) -> None:
    """The textbook multiplies the zeros of the padding; the compiled kernels give what the definition says."""
    window = conv_window((5, 12), 3, 1, 1)
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(2, 3, 5, 12)), rng.normal(size=(2, channels, 5, 12))
    g[0, 1, 0, 0] = value
    assert_close(run(kernels.conv_weight_grad, x, g, window), weight_grad(x, g, window), 1e-13)


@pytest.mark.parametrize("groups", [1, 2])
def test_nan_weight_stays_in_its_channels(kernel_set: Any, groups: int) -> None:
    window = conv_window((5, 5), (2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), groups)
    rng = np.random.default_rng(0)
    x, w, g = rng.normal(size=(1, 4, 5, 5)), rng.normal(size=(6, 4 // groups, 2, 2)), rng.normal(size=(1, 6, 4, 4))
    w[5, 1, 0, 1] = np.nan
    assert_close(run(kernel_set.conv, x, w, None, window), forward(x, w, None, window), 1e-13)
    broken = g.copy()
    broken[0, 2, 1, 1] = np.inf
    assert_close(run(kernel_set.conv_weight_grad, x, broken, window), weight_grad(x, broken, window), 1e-13)


@pytest.mark.pairwise
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [(9,), (5, 12), (3, 4, 5)])
@pytest.mark.parametrize(("channels", "groups"), [((5, 3), 1), ((16, 32), 1), ((6, 4), 2), ((1, 1), 1), ((4, 4), 4)])
def test_a_weight_that_is_no_number(
    size: tuple[int, ...], stride: int, channels: tuple[int, int], groups: int, value: float
) -> None:
    """It reaches the positions of an input gradient that read it, and no others."""
    rng = np.random.default_rng(0)
    window = conv_window(size, 3, stride, 1, 1, groups)
    w = rng.standard_normal((channels[0], channels[1] // groups, *window.kernel)).astype(np.float32)
    g = rng.standard_normal((2, channels[0], *window.output)).astype(np.float32)
    bias = rng.standard_normal(channels[1]).astype(np.float32)
    tap = tuple(rng.integers(0, 3, len(size)))
    w[(0, 0, *tap)] = value
    gx = kernels.conv_input_grad(g, w, bias, window, Options("exact"))
    reads = np.zeros(window.input, bool)
    for o in np.ndindex(window.output):
        i = [at * stride + r - 1 for at, r in zip(o, tap, strict=True)]
        if all(0 <= place < extent for place, extent in zip(i, size, strict=True)):
            reads[tuple(i)] = True
    np.testing.assert_array_equal(np.isfinite(gx[:, 0]), np.broadcast_to(~reads, gx[:, 0].shape))
    clean = np.where(np.isfinite(w), w, 0)
    expected = kernels.conv_input_grad(g, clean, bias, window, Options("exact"))
    np.testing.assert_allclose(gx[:, 0][:, ~reads], expected[:, 0][:, ~reads], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gx[:, 1:], expected[:, 1:], rtol=1e-4, atol=1e-5)
