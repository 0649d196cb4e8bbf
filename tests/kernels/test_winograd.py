"""Winograd's transforms: along one axis in rational numbers, then every pass against the definition."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from comparison import assert_close, bits
from kernels.convolutions import Trio, by_loops, trio
from retrograd import kernels
from retrograd.kernel_set import plan
from retrograd.kernels.compiled.convolution import winograd, winograd_plan
from retrograd.kernels.compiled.convolution.algorithm import JOBS, choose
from retrograd.kernels.compiled.convolution.axes import three_axes, three_steps, three_strides
from retrograd.kernels.compiled.convolution.winograd_plan import PAIRS, WINOGRAD, tiles_of
from retrograd.specs.convolution_options import Options
from retrograd.specs.geometry import Window, conv_transpose_window, conv_window
from strategies import CHANNELS, DTYPES, LAYOUTS, Case, Source

# ---------------------------------------------------------------- tiles and transforms


@pytest.mark.parametrize("extent", range(2, 40))
def test_tiles_fill_an_axis(extent: int) -> None:
    tiles = tiles_of(extent)
    assert sum(tiles) == extent
    assert set(tiles) <= {2, 3, 4}
    assert tiles == sorted(tiles, reverse=True)  # those that need many points come first
    assert len(tiles) == -(-extent // 4)


def matrix(function: Callable[..., Any], inputs: int, *first: int) -> list[list[Fraction]]:
    """The matrix of a linear function, a row for each result, as the exact rational values of its floats."""
    columns = [function(*first, *(float(i == j) for j in range(inputs))) for i in range(inputs)]
    return [[Fraction(entry).limit_denominator(10**7) for entry in row] for row in zip(*columns, strict=True)]


# taps, positions of a tile, the kind of its transform, its points
TRANSFORMS = [(3, 2, 4, 4), (3, 3, 5, 5), (3, 4, 6, 6), (5, 2, 7, 6), (2, 3, 3, 4)]


@pytest.mark.parametrize(("taps", "size", "kind", "count"), TRANSFORMS)
def test_transforms_are_exact(taps: int, size: int, kind: int, count: int) -> None:
    """Sum over points e of A[j, e] G[e, r] B[e, i] is 1 where i = j + r, else 0; and the adjoints are transposed."""
    points = pytest.importorskip("retrograd.kernels.compiled.convolution.winograd_transforms_jit")
    used = range(count)
    inputs = matrix(points.points_of_input, 6, kind)
    outputs = matrix(points.tile_of_points, 6, kind)
    weights = matrix(points.points_of_weights, 5, taps)
    for j, r, i in product(range(size), range(taps), used):
        total = sum(outputs[j][e] * weights[e][r] * inputs[e][i] for e in used)
        assert abs(total - (i == j + r)) < Fraction(1, 10**5)
    if taps == 2:  # only for input gradients
        return
    gradient = matrix(points.points_of_gradient, 4, kind)
    back = matrix(points.weights_of_points, 6, taps)
    assert all(gradient[e][j] == outputs[j][e] for e in used for j in range(size))
    assert all(back[r][e] == weights[e][r] for e in range(6) for r in range(taps))


# ---------------------------------------------------------------- the passes


FORCED = Options("winograd")


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Of these channels-last extents, with the channels moved to the front."""
    return np.moveaxis(rng.standard_normal((shape[0], *shape[2:], shape[1]), dtype=np.float32), -1, 1)


def window_of(input: tuple[int, ...], padding: Any, kernel: Any = 3, dilation: Any = 1) -> Window:
    return conv_window(input, kernel, 1, padding, dilation)


def check(window: Window, batch: int, inputs: int, outputs: int, source: Source) -> None:
    """The three passes within a few roundings of the definition, relative to the root mean square of the result."""
    __tracebackhide__ = True
    case = Case(window, batch, inputs, outputs, False)
    arrays: Trio = tuple(source.arrays(case.x, case.w, case.y))  # type: ignore[assignment]
    eps = np.finfo(arrays[0].dtype).eps
    for found, wanted in zip(trio(kernels, arrays, window, FORCED), by_loops(arrays, window), strict=True):
        assert_close(found, wanted, 120 * eps * max(np.sqrt(np.mean(wanted**2)), 1.0))


# every extent from 2 to 15 on both axes, each beside another one
EXTENTS = [(extent, extent * 5 % 14 + 2) for extent in range(2, 16)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("extents", EXTENTS, ids=str)
def test_extents(extents: tuple[int, int], dtype: type) -> None:
    rng = np.random.default_rng(extents[0])
    check(window_of(extents, 1), 2, 5, 17, Source(rng, dtype, ("channels_last", "contiguous", "channels_last")))


# none, on one side, more than the kernel reaches, and so much that whole tiles lie in it
PADDINGS = [0, ((0, 1), (1, 0)), ((2, 0), (0, 2)), ((3, 4), (0, 0)), ((5, 1), (2, 6)), ((9, 0), (1, 7))]


@pytest.mark.parametrize("padding", PADDINGS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_padding(padding: Any, dtype: type) -> None:
    for extents in ((5, 6), (4, 9), (6, 4)):
        check(window_of(extents, padding), 1, 3, 4, Source(np.random.default_rng(0), dtype, ("channels_last",)))


@pytest.mark.parametrize("channels", CHANNELS)
def test_channels(channels: int) -> None:
    """On both sides of vector widths, read and written."""
    for other, dtype in ((1, np.float32), (18, np.float64), (35, np.float32)):
        check(window_of((5, 6), 1), 1, channels, other, Source(np.random.default_rng(other), dtype, ("channels_last",)))
        check(window_of((3, 4), 1), 1, other, channels, Source(np.random.default_rng(other), dtype, ("channels_last",)))


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_layouts(layout: str) -> None:
    for dtype in DTYPES:
        check(window_of((6, 7), ((1, 1), (0, 1))), 2, 9, 6, Source(np.random.default_rng(1), dtype, (layout,)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("padding", [0, 2, ((0, 3), (4, 1)), ((6, 0), (2, 9))], ids=str)
def test_five_taps(padding: Any, dtype: type) -> None:
    source = Source(np.random.default_rng(6), dtype, ("channels_last", "contiguous"))
    for extents, inputs, outputs in (((6, 7), 3, 18), ((9, 8), 17, 5), ((13, 5), 8, 8), ((6, 22), 1, 33)):
        window = window_of(extents, padding, 5)
        if min(window.output) > 1:
            assert choose("conv", window, FORCED, 2, inputs, outputs, "f") == "winograd"
            check(window, 2, inputs, outputs, source)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dilation", [2, 3, (1, 2), (4, 1)], ids=str)
@pytest.mark.parametrize("padding", [0, 2, 3, ((0, 5), (7, 1))], ids=str)
def test_dilation(padding: Any, dilation: Any, dtype: type) -> None:
    """The positions of a tile share their residue."""
    source = Source(np.random.default_rng(7), dtype, ("channels_last", "contiguous"))
    for kernel, extents, inputs, outputs in ((3, (17, 14), 5, 18), (3, (11, 13), 17, 3), (5, (21, 20), 9, 16)):
        window = window_of(extents, padding, kernel, dilation)
        if all(size >= 2 * d for size, d in zip(window.output, window.dilation, strict=True)):
            assert choose("conv", window, FORCED, 2, inputs, outputs, "f") == "winograd"
            check(window, 2, inputs, outputs, source)


@pytest.mark.parametrize("shape", [(1, (23, 19), 3, 5), (3, (9, 10), 5, 3), (1, (8, 7), 9, 70)], ids=str)
def test_dilation_in_blocks(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, tuple[int, int], int, int]) -> None:
    """Tiles of all residues, in blocks of some lines and of some images."""
    batch, extents, inputs, outputs = shape
    monkeypatch.setattr(winograd_plan, "_BLOCK_BYTES", 40_000)
    monkeypatch.setattr(winograd_plan, "_SUM_BLOCK_BYTES", 40_000)
    monkeypatch.setattr(winograd_plan, "_LONG_SUM", 0)
    for plans in (winograd._call, winograd._filters):
        monkeypatch.setattr(winograd, plans.__name__, plans.__wrapped__)  # without the cached plans
    check(
        window_of(extents, 2, 3, 2),
        batch,
        inputs,
        outputs,
        Source(np.random.default_rng(9), np.float32, ("channels_last",)),
    )


@pytest.mark.parametrize(("dtype", "dilation"), [(np.float32, 1), (np.float64, 1), (np.float32, 2)])
def test_threads_share_a_single_block(dtype: type, dilation: int) -> None:
    """A weight gradient whose tiles are all of one block would else be one task."""
    window = window_of((14, 13), dilation, 3, dilation)
    source = Source(np.random.default_rng(6), dtype, ("channels_last",))
    case = Case(window, 1, 33, 40, False)
    x, g = source.arrays(case.x, case.y)
    found = plan("conv_weight_grad", x, g, window, FORCED)
    assert all(launch.tasks > 1 for launch in found.launches), str(found)
    check(window, 1, 33, 40, source)


def test_dilation_of_three_axes() -> None:
    window = window_of((4, 9, 12), ((1, 1), (2, 2), (1, 3)), 3, (1, 2, 2))
    check(window, 2, 5, 17, Source(np.random.default_rng(8), np.float32, ("channels_last",)))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_three_axes(depth: int) -> None:
    """Taps along D are added up in the products."""
    for extent, low, high in ((1, 1, 1), (3, 1, 0), (4, 0, 2)):
        if extent + low + high >= depth:
            window = window_of((extent, 5, 6), ((low, high), (1, 1), (0, 1)), kernel=(depth, 3, 3))
            check(window, 2, 5, 17, Source(np.random.default_rng(depth), np.float32, ("channels_last",)))


@pytest.mark.parametrize("budget", [30_000, 200_000])
@pytest.mark.parametrize("shape", [(1, (11, 9, 6), 3, 5), (3, (5, 7, 10), 9, 3), (2, (7, 3, 4), 5, 20)], ids=str)
def test_slices_in_blocks(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, tuple[int, int, int], int, int], budget: int
) -> None:
    """A task keeps the slices that its next block reads again, for some lines or for all."""
    batch, extents, inputs, outputs = shape
    monkeypatch.setattr(winograd_plan, "_RING_BYTES", budget)
    monkeypatch.setattr(winograd_plan, "_SHARED_SUM_BYTES", budget)
    monkeypatch.setattr(winograd_plan, "_PARTS", 2)
    for plans in (winograd._call, winograd._filters):
        monkeypatch.setattr(winograd, plans.__name__, plans.__wrapped__)  # without the cached plans
    source = Source(np.random.default_rng(11), np.float32, ("channels_last",))
    for depth, low, high in ((3, 1, 1), (2, 0, 1), (4, 3, 0)):
        window = window_of(extents, ((low, high), (1, 2), (1, 1)), kernel=(depth, 3, 3))
        check(window, batch, inputs, outputs, source)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("padding", [0, 1, ((1, 2), (0, 1)), ((3, 0), (2, 3))], ids=str)
def test_phases_of_a_transposed_convolution(padding: Any, dtype: type) -> None:
    """4x4 taps at stride 2: the input gradient, which is the transposed convolution, by the transforms."""
    source = Source(np.random.default_rng(4), dtype, ("channels_last", "contiguous"))
    for size, extra in (((1, 2), 1), ((3, 5), 0), ((4, 7), (1, 0)), ((9, 6), 1)):
        for inputs, outputs in ((17, 5), (3, 33)):
            window = conv_transpose_window(size, 4, 2, padding, extra)
            if min(window.input) > 1:
                assert choose("conv_input_grad", window, FORCED, 2, inputs, outputs, "f") == "winograd"
                check(window, 2, inputs, outputs, source)


@pytest.mark.parametrize(("extents", "inputs", "outputs"), [((9, 10), 130, 70), ((5, 5), 70, 200)])
def test_weights_that_threads_share(extents: tuple[int, int], inputs: int, outputs: int) -> None:
    check(window_of(extents, 1), 2, inputs, outputs, Source(np.random.default_rng(2), np.float32, ("channels_last",)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("extents", "kernel", "inputs", "outputs"),
    [((5, 6), 3, 131, 150), ((3, 7), 3, 300, 69), ((6, 5), 5, 140, 131), ((3, 5, 4), 3, 67, 81)],
    ids=str,
)
def test_some_filters_at_a_time(
    extents: tuple[int, ...], kernel: int, inputs: int, outputs: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many weights for few positions, of one image along D: the transformed ones are not all in memory."""
    batch, window = 2 if len(extents) == 2 else 1, window_of(extents, kernel // 2, kernel)
    weights = inputs * outputs * window.taps // kernel**2 * 36 * np.dtype(dtype).itemsize
    for count, share in ((1, 0.8), (64, 2.2)):  # each core has some of them, but no more cores than there are parts
        monkeypatch.setattr(winograd, "cores", lambda count=count: count)
        for job in JOBS:
            assert winograd.temporary(window, job, batch, inputs, outputs, np.dtype(dtype).char) < share * weights
    check(window, batch, inputs, outputs, Source(np.random.default_rng(9), dtype, ("channels_last", "contiguous")))


def test_some_filters_with_a_finish() -> None:
    rng = np.random.default_rng(10)
    window, x, w = window_of((6, 5), 1), normal(rng, 2, 140, 6, 5), normal(rng, 150, 140, 3, 3)
    bias, residual = rng.standard_normal(150, dtype=np.float32), normal(rng, 2, 150, 6, 5)
    y = kernels.conv(x, w, bias, window, FORCED)
    found = kernels.conv_clamp(x, w, bias, residual, -1.0, 20.0, window, FORCED)
    assert found.tobytes() == np.clip(y + residual, -1, 20).astype(np.float32).tobytes()
    bias, residual = bias[:140], normal(rng, 2, 140, 6, 5)
    gx = kernels.conv_input_grad(y, w, bias, window, FORCED)
    found = kernels.conv_input_grad_clamp(y, w, bias, residual, -1.0, 20.0, window, FORCED)
    assert found.tobytes() == np.clip(gx + residual, -1, 20).astype(np.float32).tobytes()


def test_a_plan_keeps_the_transformed_weights_of_all_filters() -> None:
    """A frozen network transforms its weights once, however few of them are in memory otherwise."""
    rng = np.random.default_rng(12)
    window, x = window_of((6, 5), 1), normal(rng, 2, 140, 6, 5)
    w = rng.standard_normal((3, 3, 140, 150), dtype=np.float32).transpose(3, 2, 0, 1)
    found = plan("conv", x, w, None, window, FORCED)
    (transforms,) = (at for at, one in enumerate(found.launches) if "transforms" in one.name)
    assert [*found.constant_launches({1})] == [transforms]
    assert found.run(x, w).tobytes() == kernels.conv(x, w, None, window, FORCED).tobytes()


@pytest.mark.parametrize("extents", [(15, 14), (66, 61)])  # whole images form a block, and some lines of one
@pytest.mark.parametrize("apart", [False, True])  # pixels with memory between them that is not read
def test_operands_larger_than_the_cache(extents: tuple[int, int], apart: bool) -> None:
    """They are prefetched, block by block."""
    batch, channels = 200_000 // (16 * extents[0] * extents[1]) + 2, 16
    rng = np.random.default_rng(11)
    wide = rng.standard_normal((batch, *extents, channels * (4 if apart else 1))).astype(np.float32)
    x, g = (np.moveaxis(wide[..., :channels], -1, 1) for _ in range(2))
    w = rng.standard_normal((channels, channels, 3, 3)).astype(np.float32)
    window = window_of(extents, 1)
    for found, wanted in zip(trio(kernels, (x, w, g), window, FORCED), by_loops((x, w, g), window), strict=True):
        assert_close(found, wanted, 1e-5 * np.sqrt(np.mean(wanted**2)))


def test_bits_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(3)
    threads = kernels.get_num_threads()
    for window, inputs, outputs in (
        (window_of((23, 21), 1), 40, 33),
        (window_of((12, 13), 1), 150, 130),
        (window_of((19, 22), 2, 5), 40, 33),
        (window_of((19, 22), 2, 3, 2), 150, 130),
        (window_of((6, 5), 1), 150, 170),
        (window_of((11, 20, 18), 1), 40, 33),
    ):
        case = Case(window, 3, inputs, outputs, False)
        arrays: Trio = tuple(Source(rng, np.float32, ("channels_last",)).arrays(case.x, case.w, case.y))  # type: ignore[assignment]
        found = []
        try:
            for count in (1, 2):
                kernels.set_num_threads(count)
                found.append(bits(trio(kernels, arrays, window, FORCED)))
        finally:
            kernels.set_num_threads(threads)
        assert found[0] == found[1]


# ---------------------------------------------------------------- errors


def by_taps(x: np.ndarray, w: np.ndarray, g: np.ndarray) -> Trio:
    """y, gx and gw in float64 of taps with as many outputs as inputs, one product for each tap."""
    # in C order: NumPy multiplies what has gaps without BLAS, a hundred times as slowly
    x, g = (array.transpose(0, 2, 3, 1).astype(np.float64, "C") for array in (x, g))
    w = w.transpose(2, 3, 0, 1).astype(np.float64, "C")
    (_, high, wide, ci), low = x.shape, len(w) // 2
    padded = np.pad(x, ((0, 0), (low, low), (low, low), (0, 0)))
    y, gx, gw = np.zeros(g.shape), np.zeros(padded.shape), np.zeros(w.shape)
    for i, j in product(range(len(w)), repeat=2):
        seen = padded[:, i : i + high, j : j + wide].copy()
        y += seen @ w[i, j].T
        gx[:, i : i + high, j : j + wide] += g @ w[i, j]
        gw[i, j] = g.reshape(-1, g.shape[-1]).T @ seen.reshape(-1, ci)
    return y.transpose(0, 3, 1, 2), gx[:, low:-low, low:-low].transpose(0, 3, 1, 2), gw.transpose(2, 3, 0, 1)


SHAPES = [(64, 56), (128, 28), (256, 14), (512, 7)]


def check_errors(batch: int, channels: int, extent: int, relu: bool, taps: int = 3) -> None:
    """At most 2.5e-6 in the root mean square and 1.5e-5 anywhere (5 taps: 2.5e-5), of that of the result."""
    rng = np.random.default_rng(channels)
    x, g = (rng.standard_normal((batch, extent, extent, channels)).astype(np.float32) for _ in range(2))
    if relu:
        x = np.maximum(x, 0)
    w = rng.standard_normal((channels, channels, taps, taps)).astype(np.float32) / np.float32(taps * channels**0.5)
    arrays = x.transpose(0, 3, 1, 2), w, g.transpose(0, 3, 1, 2)
    window = window_of((extent, extent), taps // 2, taps)
    for found, wanted in zip(trio(kernels, arrays, window, FORCED), by_taps(*arrays), strict=True):
        error, size = found - wanted, np.sqrt(np.mean(wanted**2))
        assert np.sqrt(np.mean(error**2)) <= 2.5e-6 * size
        assert np.max(np.abs(error)) <= (1.5e-5 if taps == 3 else 2.5e-5) * size


@pytest.mark.parametrize("relu", [False, True], ids=["normal", "relu"])
@pytest.mark.parametrize(("channels", "extent"), SHAPES)
def test_errors(channels: int, extent: int, relu: bool) -> None:
    check_errors(1, channels, extent, relu)


@pytest.mark.parametrize("relu", [False, True], ids=["normal", "relu"])
@pytest.mark.parametrize(("channels", "extent"), SHAPES[1:])
def test_errors_of_five_taps(channels: int, extent: int, relu: bool) -> None:
    check_errors(1, channels, extent, relu, 5)


@pytest.mark.nightly
@pytest.mark.parametrize("relu", [False, True], ids=["normal", "relu"])
@pytest.mark.parametrize(("channels", "extent"), SHAPES)
def test_errors_of_whole_batches(channels: int, extent: int, relu: bool) -> None:
    check_errors(8, channels, extent, relu)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_reaches_the_tiles_that_read_it(value: float) -> None:
    """It reaches no others: the outputs of other tiles have the same bits as without it."""
    x = np.random.default_rng(4).standard_normal((2, 16, 12, 12)).astype(np.float32)
    w = np.random.default_rng(5).standard_normal((16, 16, 3, 3)).astype(np.float32)
    window = window_of((12, 12), 1)
    clean = kernels.conv(x, w, None, window, FORCED)
    x[0, 3, 6, 5] = value
    found = kernels.conv(x, w, None, window, FORCED)
    assert not np.isfinite(found[0, :, 5:8, 4:7]).any()  # the windows that it is in
    tile = found[0, :, 4:8, 4:8]
    assert not np.isfinite(tile).any()
    changed = (found != clean) | np.isnan(found)
    changed[0, :, 4:8, 4:8] = False
    assert not changed.any()
    exact = kernels.conv(x, w, None, window, Options("direct"))
    assert np.isfinite(exact).sum() == exact.size - 16 * 9


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize(("batch", "channels", "extent"), [(32, 32, 32), (32, 64, 16), (22, 32, 14)])
def test_threads_are_far_apart_and_have_equal_shares(sums: bool, batch: int, channels: int, extent: int) -> None:
    """A CPU prefetches twelve steps ahead: none of them may reach the memory of another thread."""
    axes = three_axes(window_of((extent, extent), 1))
    x = np.empty((batch, extent, extent, channels), np.float32).transpose(0, 3, 1, 2).strides
    steps = three_strides(x), three_steps(x, "f")
    build = winograd_plan.transform_sum_plan if sums else winograd_plan.transform_plan
    plan = build(axes, batch, channels, channels, "f", *steps)
    read, written = (int(plan.words[at]) for at in (WINOGRAD.input_step, WINOGRAD.product_step))
    used = PAIRS * (read + written) if sums else (PAIRS + 1) * read
    assert not plan.shared and plan.work - used == 12 * max(read, written) and plan.table % 512 == 0
    tasks = [last - first for first, last in plan.parts] if sums else [1] * len(plan.blocks)
    half = len(tasks) // 2
    assert len(tasks) % 2 == 0 and sum(tasks[:half]) == sum(tasks[half:])
