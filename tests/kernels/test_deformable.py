"""Deformable convolution against the oracle, against the ordinary one, and within a workspace."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import naive_deformable as naive
from comparison import assert_close, bits, run
from retrograd import kernels
from retrograd.kernels.compiled.machine.launch import get_num_threads, set_num_threads
from retrograd.specs.geometry import Window, conv_window
from strategies import DTYPES, LAYOUTS, numbers

CHANNELS = (1, 2, 3, 5, 8, 16, 17, 34)


class Operands(NamedTuple):
    x: np.ndarray
    offset: np.ndarray
    mask: np.ndarray | None
    w: np.ndarray
    bias: np.ndarray | None
    g: np.ndarray
    window: Window


def operands(
    window: Window,
    batch: int,
    channels: int,
    outputs: int,
    deformable: int,
    seed: int = 0,
    dtype: type = np.float64,
    layouts: tuple[str, ...] = ("contiguous",),
    masked: bool = True,
    scale: float = 2.0,
) -> Operands:
    rng = np.random.default_rng(seed)
    shapes = [
        (batch, channels, *window.input),
        (batch, 2 * deformable * window.taps, *window.output),
        (batch, deformable * window.taps, *window.output),
        (outputs, channels // window.groups, *window.kernel),
        (outputs,),
        (batch, outputs, *window.output),
    ]
    x, offset, mask, w, bias, g = (numbers(rng, shape, dtype) for shape in shapes)
    offset = offset * dtype(scale)
    offset[rng.random(offset.shape) < 0.1] = -1  # a tap on a position
    offset[rng.random(offset.shape) < 0.1] *= 10  # far outside
    arrays = [
        LAYOUTS[layouts[n % len(layouts)]](array.astype(dtype)) for n, array in enumerate((x, offset, mask, w, bias, g))
    ]
    x, offset, mask, w, bias, g = arrays
    return Operands(x, offset, mask if masked else None, w, bias if masked else None, g, window)


def drawn(number: int) -> Operands:
    """Sizes, options and layouts that differ with the number, for at most about 1500 steps of the oracle."""
    rng = np.random.default_rng(number)
    kernel, dilation, stride = ([int(v) for v in rng.integers(1, high + 1, 2)] for high in (3, 2, 3))
    padding = tuple((int(low), int(high)) for low, high in rng.integers(0, 3, (2, 2)))
    size = tuple(max(1, d * (r - 1) + 1 + int(rng.integers(0, 4))) for r, d in zip(kernel, dilation, strict=True))
    groups = int(rng.choice([1, 1, 2, 3]))
    depth, wide, batch = int(rng.choice(CHANNELS)), int(rng.choice(CHANNELS)), int(rng.integers(0, 3))
    deformable = int(rng.choice([d for d in range(1, depth * groups + 1) if depth * groups % d == 0]))
    while True:
        window = conv_window(size, tuple(kernel), tuple(stride), padding, tuple(dilation), groups)
        if batch * depth * groups * window.taps * np.prod(window.output) <= 1500 or (depth, kernel) == (1, [1, 1]):
            break
        depth, kernel, deformable = (1, [1, 1], 1) if depth <= 3 else (depth // 2, kernel, 1)
    turns = tuple(str(turn) for turn in rng.choice(sorted(LAYOUTS), 5))
    return operands(
        window, batch, depth * groups, wide * groups, deformable, number, DTYPES[number % 2], turns, number % 3 != 0
    )


def check(kernel_set: Any, case: Operands) -> None:
    x, offset, mask, w, bias, g, window = case
    geometry = window.stride, window.padding, window.dilation
    y, (gx, goffset, gmask, gw) = naive.deform_conv(x, offset, mask, w, bias, g, *geometry)
    found = [
        run(kernel_set.deform_conv, x, offset, mask, w, bias, window),
        *run(kernel_set.deform_conv_grad, g, x, offset, mask, w, window, (True,) * 3),
        run(kernel_set.deform_conv_weight_grad, x, offset, mask, g, window),
    ]
    eps = np.finfo(x.dtype).eps
    for actual, expected in zip(found, (y, gx, goffset, gmask, gw), strict=True):
        assert actual.dtype == x.dtype
        assert_close(actual, expected, 300 * eps * max(1.0, np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("number", range(28))
def test_against_the_definition(kernel_set: Any, number: int) -> None:
    check(kernel_set, drawn(number))


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(28, 800))
def test_against_the_definition_nightly(kernel_set: Any, number: int) -> None:
    check(kernel_set, drawn(number))


# Sizes for different paths of the compiled kernels: blocks of channels in and across deformable groups, panels,
# several rows of columns, weights that are too large for partial sums. (size, kernel, groups, batch, Ci, Co, D)
WAYS = {
    "parts of a deformable group": ((3, 4), 1, 1, 1, 64, 3, 1),
    "blocks of deformable groups": ((2, 3), (1, 2), 1, 1, 64, 5, 4),
    "blocks of groups": ((2, 2), 1, 4, 1, 64, 8, 2),
    "several panels": ((3, 3), (2, 1), 1, 1, 3, 140, 1),
    "groups and panels": ((2, 3), (1, 2), 2, 2, 6, 134, 1),
    "large weights": ((2, 2), (1, 2), 1, 1, 256, 330, 1),
    "large weights in groups": ((2, 1), (2, 1), 2, 1, 256, 700, 4),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way(kernel_set: Any, way: str) -> None:
    size, kernel, groups, *rest = WAYS[way]
    check(kernel_set, operands(conv_window(size, kernel, 1, 0, 1, groups), *rest))


def large(dtype: type = np.float32) -> Operands:
    window = conv_window((21, 18), 3, 1, ((1, 0), (2, 1)), 1, 2)
    return operands(window, 3, 64, 36, 2, dtype=dtype)


def every(k: Any, case: Operands, workspace: int | None = None) -> list[bytes]:
    x, offset, mask, w, bias, g, window = case
    return bits(
        (
            k.deform_conv(x, offset, mask, w, bias, window, workspace),
            *k.deform_conv_grad(g, x, offset, mask, w, window, (True,) * 3, workspace),
            k.deform_conv_weight_grad(x, offset, mask, g, window, workspace),
        )
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_workspace_changes_no_bit(dtype: type) -> None:
    case = large(dtype)
    wanted, before = every(kernels, case), get_num_threads()
    try:
        for threads in (1, 2):
            set_num_threads(threads)
            for workspace in (1, 10_000, 100_000, 1 << 30):
                assert every(kernels, case, workspace) == wanted, f"{workspace} bytes, {threads} threads"
    finally:
        set_num_threads(before)


def test_the_columns_stay_within_the_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd.kernels.compiled.convolution import deformable

    case = large()
    for threads in (1, 3):
        monkeypatch.setattr(deformable, "get_num_threads", lambda count=threads: count)
        for kind in ("forward", "grad", "weight_grad"):
            plan = deformable._plan_of(kind, case.x, case.offset, None, 36, case.window, 200_000)
            assert 0 < plan.columns * 4 * threads <= 200_000


def test_the_same_bits_in_any_memory_order() -> None:
    case = large()
    order = [None if a is None or a.ndim != 4 else LAYOUTS["channels_last"](a) for a in case[:3]]
    assert every(kernels, case._replace(x=order[0], offset=order[1], mask=order[2])) == every(kernels, case)


@pytest.mark.parametrize("groups", [1, 2])
def test_without_offsets_it_is_the_ordinary_convolution(kernel_set: Any, groups: int) -> None:
    window = conv_window((6, 5), (3, 2), (1, 2), ((1, 0), (1, 2)), (1, 2), groups)
    x, offset, mask, w, bias, g, _ = operands(window, 2, 4, 6, 2)
    zero, ones = np.zeros_like(offset), np.ones_like(mask)
    for m in (None, ones):
        y = kernel_set.deform_conv(x, zero, m, w, bias, window)
        np.testing.assert_allclose(y, kernel_set.conv(x, w, bias, window), rtol=1e-12, atol=1e-13)
        gx, _, _ = kernel_set.deform_conv_grad(g, x, zero, m, w, window, (True, False, False))
        np.testing.assert_allclose(gx, kernel_set.conv_input_grad(g, w, None, window), rtol=1e-12, atol=1e-13)
        gw = kernel_set.deform_conv_weight_grad(x, zero, m, g, window)
        np.testing.assert_allclose(gw, kernel_set.conv_weight_grad(x, g, window), rtol=1e-12, atol=1e-13)


def test_adjoint_identity(kernel_set: Any) -> None:
    """y is linear in x, in the mask and in w, each with the others fixed."""
    x, offset, mask, w, _, g, window = operands(conv_window((5, 6), 3, 2, 1, 1, 2), 2, 8, 6, 4)
    form = np.vdot(kernel_set.deform_conv(x, offset, mask, w, None, window), g)
    gx, _, gmask = kernel_set.deform_conv_grad(g, x, offset, mask, w, window, (True, True, True))
    gw = kernel_set.deform_conv_weight_grad(x, offset, mask, g, window)
    for array, gradient in ((x, gx), (mask, gmask), (w, gw)):
        assert np.vdot(array, gradient) == pytest.approx(form, rel=1e-12)


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)])
def test_gradients_nobody_asked_for_are_not_computed(kernel_set: Any, wanted: tuple[bool, ...]) -> None:
    x, offset, mask, w, _, g, window = operands(conv_window((4, 4), 2), 2, 32, 3, 1)
    every = kernel_set.deform_conv_grad(g, x, offset, mask, w, window, (True, True, True))
    some = kernel_set.deform_conv_grad(g, x, offset, mask, w, window, wanted)
    for want, one, other in zip(wanted, some, every, strict=True):
        assert np.array_equal(one, other) if want else one is None


@pytest.mark.parametrize("batch", [0, 1])
def test_no_channels_made_or_no_images(kernel_set: Any, batch: int) -> None:
    x, offset, mask, w, bias, g, window = operands(conv_window((4, 4), 2), batch, 3, 0 if batch else 2, 1)
    y = kernel_set.deform_conv(x, offset, mask, w, bias, window)
    assert y.shape == g.shape and y.size == 0
    found = kernel_set.deform_conv_grad(g, x, offset, mask, w, window, (True, True, True))
    found = (*found, kernel_set.deform_conv_weight_grad(x, offset, mask, g, window))
    for gradient, array in zip(found, (x, offset, mask, w), strict=True):
        assert gradient.shape == array.shape and not gradient.any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_places_that_are_no_numbers(kernel_set: Any, dtype: type) -> None:
    """A NaN offset makes the outputs NaN; an infinite one is outside the input; x is not read out of bounds."""
    x, offset, mask, w, _, g, window = operands(conv_window((4, 4), 2), 1, 2, 3, 1, dtype=dtype, scale=0.3)
    offset[0, 0, 1, 2] = np.nan
    y = kernel_set.deform_conv(x, offset, mask, w, None, window)
    assert np.isnan(y[0, :, 1, 2]).all() and np.isnan(y).sum() == 3
    kernel_set.deform_conv_grad(g, x, offset, mask, w, window, (True, True, True))
    finite = offset.copy()
    offset[0, 0, 1, 2], finite[0, 0, 1, 2] = np.inf, 1e9
    far = kernel_set.deform_conv(x, offset, mask, w, None, window)
    np.testing.assert_array_equal(far, kernel_set.deform_conv(x, finite, mask, w, None, window))
    x[0, :, 3] = np.nan
    offset[:, ::2] = -1 - np.arange(3).reshape(1, 1, 3, 1)  # rows -1 and 0 at the most
    assert np.isfinite(kernel_set.deform_conv(x, offset, mask, w, None, window)).all()
