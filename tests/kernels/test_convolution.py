"""The convolution kernels on chosen geometries; test_convolution_grid.py generates others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from comparison import assert_close, assert_equal, run
from kernels.convolutions import (
    FORMS,
    FORMS_OF_GRADIENT,
    check,
    check_clamp,
    check_input_grad_clamp,
    force,
    forward,
    input_grad,
    operands,
    plain,
    weight_grad,
)
from kernels.sets import textbook_at_night
from retrograd import kernels
from retrograd.kernels.compiled.convolution import depthwise, direct, direct_plan, fold, rowwise
from retrograd.kernels.compiled.convolution.axes import WEIGHT
from retrograd.kernels.compiled.machine.microkernel import packed_tile, tile
from retrograd.kernels.compiled.memory.layout import channels_last, nested_strides, usual_strides
from retrograd.specs.geometry import Window, conv_transpose_window, conv_window
from strategies import CHANNELS, DTYPES, LAYOUTS, Case, Source

# Regression tests: geometries that a kernel once got wrong.
FOUND = [
    Case(conv_window((1,), 2, 2, ((3, 0),)), 1, 1, 1, False),  # the padding alone is wider than the input and a tap
    Case(conv_window((1,), 1, groups=2), 1, 2, 2, True),
]


@pytest.mark.parametrize("layout", ["contiguous", "every_other"])
@pytest.mark.parametrize("case", FOUND, ids=range(len(FOUND)))
def test_found_before(kernel_set: Any, case: Case, layout: str) -> None:
    for dtype in DTYPES:
        check(kernel_set, case, Source(np.random.default_rng(0), dtype, (layout,)))


@pytest.mark.pairwise
@textbook_at_night
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [7, 16, 19, 33])
@pytest.mark.parametrize("channels", range(1, 10))
def test_few_channels_on_lines(kernel_set: Any, channels: int, width: int, dtype: type) -> None:
    """Fewer channels than lanes, on lines of less and more than whole registers, with and without padding between."""
    for low, high in ((0, 0), (1, 1), (0, 2), (2, 0)):
        window = conv_window((3, width + 2 - low - high), (2, 3), (1, 1), ((1, 0), (low, high)), (1, 1))
        check(kernel_set, *plain(window, 2, channels, 10 - channels, dtype, width))


@textbook_at_night
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [8, 10, 11, 18, 27])
@pytest.mark.parametrize("channels", [16, 19])
def test_three_taps_per_channel(kernel_set: Any, channels: int, width: int, dtype: type) -> None:
    """Depthwise, on lines around whole blocks of positions; neighboring taps, some apart, and every other position."""
    for stride, pads, dilation in (((1, 1), (1, 1), 1), ((1, 1), (0, 2), 1), ((1, 1), (2, 2), 2), ((1, 2), (1, 1), 1)):
        window = conv_window((4, width), (3, 3), stride, ((1, 1), pads), (1, dilation), channels)
        check(kernel_set, *plain(window, 2, channels, channels, dtype, width))


@pytest.mark.pairwise
@textbook_at_night
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", range(1, 10))
@pytest.mark.parametrize("width", [1, 4, 7, 8, 9, 14, 16, 17, 25, 33])
@pytest.mark.parametrize("channels", [3, 16, 23])
def test_tiles_of_depthwise(kernel_set: Any, channels: int, width: int, kernel: int, dtype: type) -> None:
    """Whole tiles of positions and parts; up to four taps together; less, as much and more than a register."""
    rng = np.random.default_rng(width)
    for stride, dilation in ((1, 1), (2, 1), (3, 2), (2, 2), (1, 2)):
        low, high = (int(each) for each in rng.integers(0, dilation * kernel, 2))
        high += max(0, dilation * (kernel - 1) + 1 - width - low - high)
        window = conv_window((3, width), (2, kernel), stride, ((1, 0), (low, high)), dilation, channels)
        check(kernel_set, *plain(window, 2, channels, channels, dtype, width))


@pytest.mark.parametrize("few", [0, 1 << 10])
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_of_large_tensors(stride: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With smaller tiles and prefetching, and phases in turns, as for tensors that are not in the caches."""
    for name, value in (("_NEAR", 0), ("_FEW", few), ("_INTERLEAVED", 4000), ("_BAND", 1)):
        monkeypatch.setattr(depthwise, name, value)
    for plans in (depthwise._plan, depthwise._sums_plan):
        plans.cache_clear()
    try:
        window = conv_window((11, 37), (3, 5), stride, ((1, 1), (2, 2)), 1, 70)
        check(kernels, *plain(window, 2, 70, 70, np.float32))
    finally:
        for plans in (depthwise._plan, depthwise._sums_plan):
            plans.cache_clear()


@pytest.mark.parametrize("dtype", DTYPES)
def test_depthwise_of_few_rows(dtype: type) -> None:
    """Two tasks with equal shares of the channels, since three rows have none."""
    window, x = conv_window((3, 3), 3, 1, 1, 1, 790), usual_strides(1, 790, (3, 3), np.dtype(dtype).itemsize)
    plan = depthwise._plan(window, False, 1, 790, np.dtype(dtype).char, x, x)
    tasks = plan.words[plan.words[depthwise.GATHER.tasks] :].reshape(plan.tasks, -1)
    shares = np.diff(tasks[:, depthwise.GATHER_TASK.channel_first :], axis=1)
    assert len(tasks) == 2
    assert np.ptp(shares) < 24
    check(kernels, *plain(window, 1, 790, 790, dtype))


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inputs", CHANNELS)
def test_channel_counts(kernel_set: Any, inputs: int, dtype: type) -> None:
    """Every pair of channel counts, on both sides of vector widths."""
    for outputs in CHANNELS:
        check(kernel_set, *plain(conv_window((5,), (2,), (1,), ((1, 0),), (1,)), 1, inputs, outputs, dtype, outputs))


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [1, 3])
def test_row_counts(kernel_set: Any, kernel: int, dtype: type) -> None:
    """Every number of rows up to 30, on both sides of tile heights, on a line and in a plane."""
    for rows in range(1, 31):
        padding = ((kernel // 2, kernel // 2),)
        check(kernel_set, *plain(conv_window((rows,), (kernel,), (1,), padding, (1,)), 1, 5, 17, dtype, rows))
        window = conv_window((2, rows), (1, kernel), (1, 1), ((0, 0), *padding), (1, 1))
        check(kernel_set, *plain(window, 1, 17, 5, dtype, rows))


@pytest.mark.parametrize("channels", CHANNELS)
def test_depthwise(kernel_set: Any, channels: int) -> None:
    """With one output per channel, and with two or three."""
    for stride, multiplier, dtype in (
        (1, 1, np.float32),
        (2, 1, np.float64),
        (2, 2 + channels % 2, DTYPES[channels % 2]),
    ):
        window = conv_window((3, 4), (3, 3), (stride, stride), ((1, 1), (1, 1)), (1, 1), channels)
        check(kernel_set, *plain(window, 1, channels, channels * multiplier, dtype, channels))


@pytest.mark.pairwise
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_layouts(kernel_set: Any, ndim: int, layout: str) -> None:
    window = conv_window((6, 5, 4)[:ndim], (3, 2, 2)[:ndim], (2, 1, 1)[:ndim], ((1, 0),) * ndim, (1,) * ndim, 2)
    for dtype in DTYPES:
        source = Source(np.random.default_rng(ndim), dtype, (layout,))
        check(kernel_set, Case(window, 2, 6, 10, True), source)


@textbook_at_night
@pytest.mark.parametrize("dtype", DTYPES)
def test_larger_than_one_task(kernel_set: Any, dtype: type) -> None:
    window = conv_window((20, 23), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    check(kernel_set, *plain(window, 2, 33, 40, dtype))


# Geometries for every algorithm of the compiled kernels.
WAYS = {
    "few outputs on a line": Case(conv_window((40,), 5, 1, 2), 3, 1, 6, True),
    "few outputs in a plane": Case(conv_window((9, 11), (3, 2), 1, ((1, 0), (0, 2)), (2, 1)), 2, 4, 5, True),
    "few outputs in space": Case(conv_window((3, 8, 9), (2, 3, 3), 1, ((1, 1), (0, 1), (2, 0))), 2, 3, 7, True),
    "few outputs of groups": Case(conv_window((10, 17), 3, 1, 1, 1, 5), 1, 15, 10, True),
    "few outputs, many inputs": Case(conv_window((6, 33), 3, 1, 1), 1, 70, 3, False),
    "few outputs in blocks of lines": Case(conv_window((12, 40), 3, 1, 1), 1, 58, 3, False),
    "taps reach beyond the padding": Case(conv_window((1, 9), (3, 3), 1, ((2, 2), (0, 0))), 1, 2, 2, False),
    "few inputs in a plane": Case(conv_window((7, 29), 3, 1, 1), 2, 3, 40, True),
    "few inputs on a long line": Case(conv_window((200,), 9, 1, 4), 2, 2, 16, True),
    "few inputs in space, strided": Case(
        conv_window((5, 6, 20), (3, 2, 3), (2, 1, 2), ((1, 1), (0, 1), (2, 1)), (1, 2, 1)), 2, 5, 33, True
    ),
    "few inputs, many outputs": Case(conv_window((4, 50), 3, 1, 1), 1, 3, 150, False),
    "one tap, many pixels": Case(conv_window((11, 13), 1), 2, 85, 90, True),
    "one tap, as wide as a panel": Case(conv_window((310,), 1), 2, 64, 64, True),
    "large weights": Case(conv_window((3, 4), 3, 1, 1), 1, 200, 300, True),
    "large weights, strided": Case(conv_window((5, 4), (3, 1), 2, ((1, 1), (0, 0))), 2, 300, 260, True),
    "large weights, deep": Case(conv_window((3,), 1), 2, 3000, 70, True),
    "large weights of groups": Case(conv_window((4, 4), 3, 1, 1, 1, 2), 1, 280, 300, False),
}


# Geometries of the line-by-line form, which is taken here however the costs compare.
NARROW = {
    "one channel": Case(conv_window((9, 14), 5, 1, 2), 2, 1, 24, True),
    "more terms than a block": Case(conv_window((8, 33), 7, 2, 3), 2, 4, 19, True),
    "contiguous taps": Case(conv_window((4, 30), (2, 3), (1, 2)), 2, 3, 40, False),
    "dilated": Case(conv_window((11, 13), 3, 1, 2, 2), 2, 5, 8, True),
    "residues without taps": Case(conv_window((7, 9), 1, 3), 2, 6, 5, True),
    "some residues without taps": Case(conv_window((6, 11), (3, 2), (2, 4), ((1, 1), (0, 3))), 1, 3, 33, True),
    "stride beyond the input": Case(conv_window((2, 3), 2, (5, 4), ((3, 3), (4, 4))), 2, 3, 4, True),
    "only padding": Case(conv_window((1, 2), 2, 4, 5), 1, 2, 9, True),
    "space": Case(conv_window((4, 5, 12), (3, 2, 3), (2, 1, 2), ((1, 1), (0, 1), (2, 0)), (1, 2, 1)), 2, 3, 12, True),
    "long line": Case(conv_window((150,), 4, 3, ((1, 2),)), 3, 5, 31, True),
    "groups": Case(conv_window((9, 21), 3, 2, 1, 1, 3), 2, 21, 30, True),
    "groups of several panels": Case(conv_window((6, 14), (3, 2), 1, 1, (2, 1), 4), 1, 20, 340, True),
    "groups, residues without taps": Case(conv_window((7, 9), 1, 3, 0, 1, 2), 2, 6, 10, True),
    "groups in space": Case(
        conv_window((4, 5, 12), (3, 2, 3), (2, 1, 2), ((1, 1), (0, 1), (2, 0)), 1, 3), 2, 9, 39, False
    ),
    "taps next to each other": Case(conv_window((6, 33), (3, 8), 1, (2, 3)), 2, 3, 7, True),
    "groups of taps of different sizes": Case(conv_window((5, 60), (2, 11), (1, 2), (1, 5)), 2, 5, 4, True),
    "groups of taps of stride 3 and dilation 2": Case(
        conv_window((5, 50), (3, 9), (2, 3), (1, 8), (1, 2)), 2, 4, 3, True
    ),
    "rows of taps in the padding alone": Case(conv_window((2, 3, 20), (3, 3, 5), 1, (4, 3, 2)), 1, 3, 6, True),
    "groups of taps in groups": Case(conv_window((7, 19), 5, 1, 2, 1, 4), 2, 12, 20, True),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["channels_last", "contiguous", "every_other"])
@pytest.mark.parametrize("name", NARROW)
def test_line_by_line(monkeypatch: pytest.MonkeyPatch, name: str, layout: str, dtype: type) -> None:
    force(monkeypatch, "narrow", "conv", "conv_input_grad")
    case = NARROW[name]
    check(kernels, case, Source(np.random.default_rng(1), dtype, (layout,)))
    swapped = Case(case.window, case.batch, case.outputs, case.inputs, case.bias)
    check(kernels, swapped, Source(np.random.default_rng(2), dtype, (layout,)))


# Weight gradients whose taps along H are in one tile, and some whose rows are too many for that.
TOGETHER = {
    "first layer": Case(conv_window((9, 23), 3, 2, 1), 3, 3, 6, True),
    "no padding": Case(conv_window((9, 23), 3), 2, 3, 16, False),
    "planes of few lines": Case(conv_window((3, 4), 3, 1, 1), 9, 2, 5, False),
    "taps outside of some planes": Case(conv_window((3, 2, 20), (3, 4, 3), (2, 1, 1), (2, 3, 1)), 2, 2, 7, False),
    "stride and dilation": Case(conv_window((13, 31), (3, 5), (3, 2), (4, 2), (2, 1)), 2, 1, 8, True),
    "more taps than a tile has rows": Case(conv_window((12, 30), 7, 1, 3), 2, 3, 9, False),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TOGETHER)
def test_taps_in_one_tile(monkeypatch: pytest.MonkeyPatch, name: str, dtype: type) -> None:
    force(monkeypatch, "narrow", "conv_weight_grad")
    for layout in ("channels_last", "contiguous"):
        check(kernels, TOGETHER[name], Source(np.random.default_rng(8), dtype, (layout,)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inputs", [5, 8])
def test_pairs_of_groups_have_the_bits_of_single_groups(
    monkeypatch: pytest.MonkeyPatch, inputs: int, dtype: type
) -> None:
    force(monkeypatch, "narrow", "conv", "conv_input_grad")
    window, one = conv_window((9, 40), (2, 5), 1, (0, 2), 1, 4), conv_window((9, 40), (2, 5), 1, (0, 2))
    source = Source(np.random.default_rng(9), dtype, ("channels_last",))
    x, w, g = source.arrays((2, 4 * inputs, 9, 40), (12, inputs, 2, 5), (2, 12, *window.output))
    y, gx = kernels.conv(x, w, None, window), kernels.conv_input_grad(g, w, None, window)
    for group in range(4):
        of_x, of_y = slice(inputs * group, inputs * (group + 1)), slice(3 * group, 3 * (group + 1))
        w_of_group = np.ascontiguousarray(w[of_y])
        assert_equal(y[:, of_y], kernels.conv(channels_last(x[:, of_x]), w_of_group, None, one))
        assert_equal(gx[:, of_x], kernels.conv_input_grad(channels_last(g[:, of_y]), w_of_group, None, one))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FORMS)
def test_what_follows_a_convolution(monkeypatch: pytest.MonkeyPatch, name: str, dtype: type) -> None:
    form, case = FORMS[name]
    force(monkeypatch, form, "conv")
    for layout in ("channels_last", "contiguous", "every_other"):
        check_clamp(kernels, case, Source(np.random.default_rng(3), dtype, (layout,)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("inputs", "outputs"), [(40, 70), (37, 68), (9, 281)])
def test_results_that_no_cache_holds(monkeypatch: pytest.MonkeyPatch, inputs: int, outputs: int, dtype: type) -> None:
    """Stored past the caches, they have the same bits, and a clamp and a formula follow as usual."""
    case = Case(conv_window((40, 41), 1), 2, inputs, outputs, True)
    force(monkeypatch, "line", "conv")
    x, w = Source(np.random.default_rng(6), dtype, ("channels_last",)).arrays(case.x, case.w)
    expected = kernels.conv(x, w, w[:, 0, 0, 0].copy(), case.window)
    rowwise._plan.cache_clear()
    try:
        for name, value in (("STREAMED", 0), ("_FEW", 1 << 20), ("registers", lambda: 32)):
            monkeypatch.setattr(rowwise, name, value)
        assert rowwise.is_streamed(2 * 40 * 41, inputs, outputs, np.dtype(dtype).char)
        assert_equal(kernels.conv(x, w, w[:, 0, 0, 0].copy(), case.window), expected)
        check_clamp(kernels, case, Source(np.random.default_rng(7), dtype, ("channels_last",)))
    finally:
        rowwise._plan.cache_clear()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FORMS)
def test_weights_in_any_order_give_the_same_bits(monkeypatch: pytest.MonkeyPatch, name: str, dtype: type) -> None:
    """A copy of a network may have its weights in another order: that of PyTorch, ours, or with adjacent outputs."""
    form, case = FORMS[name]
    force(monkeypatch, form, "conv")
    source, taps = Source(np.random.default_rng(5), dtype, ("channels_last",)), range(2, len(case.w))
    for batch in (case.batch, 1 if case.batch else 0):
        x, w = source.arrays((batch, *case.x[1:]), case.w)
        found = []
        for order in ((0, 1, *taps), (*taps, 1, 0), (1, 0, *taps), (1, *taps, 0)):
            each = np.ascontiguousarray(w.transpose(order)).transpose(np.argsort(order))
            found.append(kernels.conv(x, each, None, case.window))
            assert_equal(found[0], found[-1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FORMS_OF_GRADIENT)
def test_what_follows_an_input_gradient(monkeypatch: pytest.MonkeyPatch, name: str, dtype: type) -> None:
    form, case = FORMS_OF_GRADIENT[name]
    force(monkeypatch, form, "conv_input_grad")
    for layout in ("channels_last", "contiguous", "every_other"):
        check_input_grad_clamp(kernels, case, Source(np.random.default_rng(4), dtype, (layout,)))


# Geometries of the input gradient that adds the products of kernel rows.
FOLDED = {
    "stride 2": Case(conv_window((12, 26), 4, 2, 1), 2, 3, 20, True),
    "a part of a stride": Case(conv_window((11, 23), 5, 2, ((2, 1), (1, 3))), 2, 3, 7, True),
    "more than a register": Case(conv_window((6, 40), 3, (1, 5), 1), 1, 8, 9, True),
    "stride 1": Case(conv_window((9, 18), 3, 1, 1), 2, 1, 33, True),
    "stride beyond the kernel": Case(conv_window((9, 14), 2, (3, 4), ((0, 0), (3, 2))), 2, 5, 6, True),
    "stride beyond the input": Case(conv_window((2, 3), 2, (5, 4), ((3, 3), (4, 4))), 2, 3, 4, True),
    "dilated along lines": Case(conv_window((13, 9), 3, (2, 1), 2, (2, 1)), 2, 2, 5, False),
    "line": Case(conv_window((50,), 7, 3, 2), 3, 2, 11, True),
    "space": Case(conv_window((5, 6, 9), (3, 2, 3), (2, 1, 2), 1), 2, 3, 12, True),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["channels_last", "contiguous", "every_other"])
@pytest.mark.parametrize("name", FOLDED)
def test_products_of_kernel_rows(monkeypatch: pytest.MonkeyPatch, name: str, layout: str, dtype: type) -> None:
    force(monkeypatch, "fold", "conv_input_grad")
    assert fold.applies(FOLDED[name].inputs, FOLDED[name].window)
    check(kernels, FOLDED[name], Source(np.random.default_rng(1), dtype, (layout,)))


def test_kernel_rows_in_space_have_as_many_tasks() -> None:
    """Tasks are cut by all of the work, along whichever axis it lies."""
    tasks = set()
    for extents in ((16, 8, 9), (8, 16, 9)):
        window = conv_window(extents, 3, (1, 1, 2), 1)
        words, _, _ = fold._plan(window, 1, 40, 3, "f", usual_strides(1, 40, window.output, 4))
        tasks.add(int(words[fold.FOLD.tasks]))
    assert len(tasks) == 1
    assert min(tasks) > 1


@pytest.mark.parametrize("written", [60, 184])
@pytest.mark.parametrize("gradient", [False, True])
def test_large_weights_are_an_even_number_of_tasks(gradient: bool, written: int) -> None:
    """So that two threads have equal shares; few pixels are shared only where no task packs weights."""
    inputs, outputs = (written, 336) if gradient else (336, written)
    counts = []
    for extent in (28, 4):
        window = conv_window((extent, extent), 3, 1, 1)
        x, y = (usual_strides(1, count, window.output, 4) for count in (inputs, outputs))
        strides = nested_strides((3, 3, inputs, outputs), 4, (3, 2, 0, 1))
        ends = (y, x) if gradient else (x, y)
        plan, *_ = direct._gather_plan(window, gradient, 1, (outputs, inputs, 3, 3), strides, "f", *ends)
        counts.append(plan.tasks)
    assert counts[0] % 2 == 0 or counts[0] > 6
    assert counts[1] <= tile("f", "rows", written).panels if gradient else counts[1] % 2 == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("taps", "groups"), [(1, 1), (3, 2)])
def test_large_weights_in_place(taps: int, groups: int, dtype: type) -> None:
    """Few pixels read rows of the weights, in the memory order of layers, where they are."""
    depth, outputs, extent = 321, 702, 3
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, extent, extent, groups * depth)).astype(dtype).transpose(0, 3, 1, 2)
    w = rng.standard_normal((taps, taps, depth, outputs)).astype(dtype).transpose(3, 2, 0, 1)
    bias, residual = (rng.standard_normal(shape).astype(dtype) for shape in (outputs, (1, outputs, extent, extent)))
    window = conv_window((extent, extent), taps, 1, taps // 2, groups=groups)
    plan, *_ = direct._gather_plan(
        window, False, 1, w.shape, w.strides, x.dtype.char, x.strides, usual_strides(1, outputs, (3, 3), x.itemsize)
    )
    assert plan.words[direct_plan.GATHER.chunks] == 2
    y = kernels.conv(x, w, bias, window)
    padded = np.pad(x, ((0, 0), (0, 0), *[(taps // 2, taps // 2)] * 2)).reshape(groups, depth, extent + taps - 1, -1)
    read = np.lib.stride_tricks.sliding_window_view(padded.astype(np.float64), (taps, taps), (2, 3))
    expected = np.einsum("gchwij,gocij->gohw", read, w.reshape(groups, -1, *w.shape[1:]).astype(np.float64))
    expected = expected.reshape(y.shape) + bias.reshape(1, -1, 1, 1)
    np.testing.assert_allclose(y, expected, rtol=0, atol=(1e-4 if dtype is np.float32 else 1e-12))
    found = kernels.conv_clamp(x, w, bias, residual, -0.5, 2.0, window)
    np.testing.assert_array_equal(found, np.clip(y + residual, dtype(-0.5), dtype(2.0)))


# Geometries of the weight gradient.
SUMMED = {
    "few outputs": Case(conv_window((9, 14), 3, 2, 1), 2, 24, 5, False),
    "many of both": Case(conv_window((9, 7), 3, (2, 1), ((1, 0), (2, 1))), 1, 34, 70, False),
    "groups": Case(conv_window((9, 10), 3, 2, 1, 1, 4), 3, 28, 12, False),
    "taps in the padding alone": Case(conv_window((2, 5), (3, 2), 1, ((3, 3), (2, 0))), 2, 6, 9, False),
    "dilated": Case(conv_window((9, 20), 3, (1, 2), 2, 2), 2, 17, 3, False),
    "one tap": Case(conv_window((31,), 1), 3, 18, 7, False),
    "space": Case(conv_window((3, 4, 5), 2, (1, 2, 1), 1, groups=2), 2, 22, 6, False),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["many of both", "space"])
def test_weight_grad_of_far_operands(monkeypatch: pytest.MonkeyPatch, name: str, dtype: type) -> None:
    """The next chunk is prefetched where its rows exist: here of small arrays."""
    monkeypatch.setattr(direct_plan, "_FAR", 0)
    monkeypatch.setattr(direct_plan, "_FAR_WORK", 0)
    monkeypatch.setattr(direct_plan, "_NEAR", 1 << 10)
    force(monkeypatch, "direct", "conv_weight_grad")
    direct._reduce_plan.cache_clear()
    try:
        check(kernels, SUMMED[name], Source(np.random.default_rng(1), dtype, ("channels_last",)))
    finally:
        direct._reduce_plan.cache_clear()


# Geometries of the direct form whose last panel fills at most half a vector on some processor: 1 to 8 columns in it.
PAIRED = {
    "one column": Case(conv_window((9, 14), 3, 2, 1), 2, 24, 1, True),
    "an odd number of terms": Case(conv_window((9, 14), 3, 2, 1), 2, 21, 8, True),
    "one term of a tap": Case(conv_window((9, 9), 3, 2, 1), 2, 1, 6, True),
    "more terms than a block": Case(conv_window((5, 6), 3, 2, 1), 1, 90, 3, True),
    "after a vector": Case(conv_window((7, 9), 3, (2, 1), ((1, 0), (0, 2)), (1, 2)), 2, 13, 20, True),
    "after several vectors": Case(conv_window((6, 5), (3, 2), 2, 1), 1, 9, 36, False),
    "groups": Case(conv_window((9, 10), 3, 2, 1, 1, 4), 2, 28, 12, True),
    "groups of more than two vectors": Case(conv_window((5, 12), 3, 1, 1, 1, 2), 1, 34, 66, True),
    "line": Case(conv_window((50,), 5, 3, 2), 3, 7, 5, True),
    "space": Case(conv_window((3, 4, 5), 2, (1, 2, 1), 1), 2, 11, 2, True),
    "rows of taps in the padding alone": Case(conv_window((2, 3, 20), (3, 3, 5), 1, (4, 3, 2)), 1, 6, 4, True),
    "lines of taps in the padding alone": Case(conv_window((3, 9), (5, 3), (1, 2), ((4, 5), (0, 1))), 2, 10, 33, True),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["channels_last", "contiguous", "every_other"])
@pytest.mark.parametrize("name", PAIRED)
def test_pairs_of_terms(monkeypatch: pytest.MonkeyPatch, name: str, layout: str, dtype: type) -> None:
    force(monkeypatch, "direct", "conv", "conv_input_grad")
    monkeypatch.setattr(direct_plan, "_PACKING", -(1 << 40))
    monkeypatch.setattr(direct_plan, "packed_tile", lambda *given: packed_tile(*given[:3], 1 << 20))  # many terms
    direct._gather_plan.cache_clear()
    case = PAIRED[name]
    try:
        assert packed_tile(np.dtype(dtype).char, "rows", 1, 1 << 20).paired
        check(kernels, case, Source(np.random.default_rng(1), dtype, (layout,)))
        turned = Case(case.window, case.batch, case.outputs, case.inputs, case.bias)
        check(kernels, turned, Source(np.random.default_rng(2), dtype, (layout,)))
    finally:
        direct._gather_plan.cache_clear()


@pytest.mark.parametrize("form", ["rows", "line"])
def test_tiles_with_pairs_of_terms(form: str) -> None:
    """They are taken where the last vector is at most half full, and have a panel of their own."""
    lanes = tile("f", form, 1).lanes
    for columns in range(1, 9 * lanes):
        shape = packed_tile("f", form, columns, 100)
        assert shape.panels * shape.width >= columns > (shape.panels - 1) * shape.width
        if shape.paired:
            assert columns - (shape.panels - 1) * shape.width <= lanes // 2
    assert packed_tile("f", form, lanes // 2, 100).paired
    assert not packed_tile("f", form, lanes // 2, 1).paired
    assert not packed_tile("f", form, lanes, 100).paired


@pytest.mark.pairwise
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["channels_last", "contiguous", "every_other"])
@pytest.mark.parametrize("name", SUMMED)
def test_weight_grad_of_outputs_as_rows(
    monkeypatch: pytest.MonkeyPatch, name: str, layout: str, dtype: type, far: bool
) -> None:
    monkeypatch.setattr(direct_plan, "is_swapped", lambda *_: True)
    if far:  # prefetches
        for constant, value in (("_FAR", 0), ("_FAR_WORK", 0), ("_NEAR", 1 << 10), ("TASK_WORK", 1 << 10)):
            monkeypatch.setattr(direct_plan, constant, value)
    force(monkeypatch, "direct", "conv_weight_grad")
    direct._reduce_plan.cache_clear()
    case = SUMMED[name]
    try:
        source = Source(np.random.default_rng(1), dtype, (layout,))
        check(kernels, case, source)
        x, w, g = operands(case, source)
        whole = kernels.conv_weight_grad(x, g, case.window)
        for limit in (whole.nbytes, 3 * whole.nbytes):  # fewer partial sums at a time
            some = direct.weight_grad(channels_last(x), case.window, channels_last(g), limit)
            assert some.transpose(WEIGHT[x.ndim]).tobytes() == whole.tobytes()
    finally:
        direct._reduce_plan.cache_clear()


@pytest.mark.pairwise
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("panels", [1, 2, 9])
@pytest.mark.parametrize("name", SUMMED)
def test_weight_grad_of_copies(
    monkeypatch: pytest.MonkeyPatch, name: str, panels: int, dtype: type, swapped: bool
) -> None:
    """As with 16 registers, where rows of x share few lines of L1: here of all shapes, in blocks of few panels."""
    width = tile("f", "sums", 1000).width * np.dtype("f").itemsize
    constants = {"_APART": 1, "_READ_OFTEN": 1, "_READ_MORE_OFTEN": 1, "_TILES": 1, "_POSITIONS": 20}
    for constant, value in {**constants, "_COPIED": 20 * width * panels, "registers": lambda: 16}.items():
        monkeypatch.setattr(direct_plan, constant, value)
    monkeypatch.setattr(direct_plan, "is_swapped", lambda *_: swapped)
    force(monkeypatch, "direct", "conv_weight_grad")
    direct._reduce_plan.cache_clear()
    case = SUMMED[name]
    try:
        found = set()
        for layout in ("channels_last", "contiguous", "every_other"):
            source = Source(np.random.default_rng(1), dtype, (layout,))
            check(kernels, case, source)
            x, _, g = operands(case, Source(np.random.default_rng(2), dtype, (layout,)))
            found.add(kernels.conv_weight_grad(x, g, case.window).tobytes())
        assert len(found) == 1  # the same bits for any order of memory
    finally:
        direct._reduce_plan.cache_clear()


def test_rows_are_outputs_where_they_fill_vectors() -> None:
    lanes = tile("f", "sums", 1).lanes
    whole, part = 6 * lanes, 3 * lanes // 2
    assert direct_plan.is_swapped("f", whole, part, 28, 10_000, 9)
    assert not direct_plan.is_swapped("f", part, whole, 28, 10_000, 9)
    assert not direct_plan.is_swapped("f", whole, whole, 28, 10_000, 9)
    assert not direct_plan.is_swapped("f", whole, part, 28, 10, 9)  # too little work


@pytest.mark.pairwise
@textbook_at_night
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["channels_last", "contiguous", "fortran"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way(kernel_set: Any, way: str, layout: str, dtype: type) -> None:
    check(kernel_set, WAYS[way], Source(np.random.default_rng(1), dtype, (layout,)))


@textbook_at_night
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_weights_and_many_pixels(kernel_set: Any, dtype: type) -> None:
    case = Case(conv_window((32, 33), 1), 1, 500, 400, False)  # the oracle takes seconds
    check(kernel_set, case, Source(np.random.default_rng(1), dtype, ("channels_last",)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "window",
    [
        conv_transpose_window((5,), (3,), (4,), ((0, 0),), (3,), (1,)),
        conv_transpose_window((4, 3), (4, 4), (2, 2), ((1, 1), (1, 1)), (0, 0), (1, 1)),
        conv_transpose_window((3, 4), (2, 3), (3, 2), ((0, 1), (2, 0)), (1, 1), (2, 1), 3),
        conv_transpose_window((2, 2, 2), (2, 2, 2), (2, 2, 2), ((0, 0),) * 3, (1, 0, 1), (1, 1, 1)),
    ],
    ids=lambda window: f"{window.output}",
)
def test_transposed_convolution(kernel_set: Any, window: Window, dtype: type) -> None:
    check(kernel_set, *plain(window, 2, 3, 6, dtype))


def test_padding_alone_gives_the_bias(kernel_set: Any) -> None:
    window = conv_window((1, 1), (2, 2), (3, 3), ((4, 4), (4, 4)), (1, 1))
    rng = np.random.default_rng(0)
    x, w, bias = rng.normal(size=(1, 2, 1, 1)), rng.normal(size=(3, 2, 2, 2)), rng.normal(size=3)
    y = run(kernel_set.conv, x, w, bias, window)
    assert_close(y, forward(x, w, bias, window), 1e-15)
    assert np.all(y[0, :, 0, 0] == bias)


@pytest.mark.parametrize("channels", [1, 5, 16])
def test_empty_batch(kernel_set: Any, channels: int) -> None:
    window = conv_window((4, 4), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    x, w = np.empty((0, channels, 4, 4), np.float32), np.ones((3, channels, 3, 3), np.float32)
    assert run(kernel_set.conv, x, w, None, window).shape == (0, 3, 4, 4)
    g = np.empty((0, 3, 4, 4), np.float32)
    assert run(kernel_set.conv_input_grad, g, w, None, window).shape == (0, channels, 4, 4)
    gw = run(kernel_set.conv_weight_grad, x, g, window)
    assert gw.shape == w.shape and not gw.any()


def test_packed_records(kernel_set: Any) -> None:
    """Strides need not be multiples of the element size."""
    window = conv_window((4,), (2,), (1,), ((1, 0),), (1,))
    rng = np.random.default_rng(0)

    def packed(shape: tuple[int, ...]) -> np.ndarray:
        records = np.zeros(shape, [("flag", "i1"), ("value", "f4")])
        records["value"] = rng.normal(size=shape)
        return records["value"]

    x, w, g = packed((2, 3, 4)), packed((5, 3, 2)), packed((2, 5, 4))
    assert_close(run(kernel_set.conv, x, w, None, window), forward(x, w, None, window), 1e-5)
    assert_close(run(kernel_set.conv_input_grad, g, w, None, window), input_grad(g, w, None, window), 1e-5)
    assert_close(run(kernel_set.conv_weight_grad, x, g, window), weight_grad(x, g, window), 1e-5)
