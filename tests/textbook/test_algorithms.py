"""The algorithms of convolution: the workspace limit, the bits, the reported cost.

Their values are tested with those of the kernels, in tests/kernels/test_convolution.py.
"""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from retrograd.kernels.textbook.algorithms import ALGORITHMS, cost, cost_table
from retrograd.kernels.textbook.algorithms.unfold import UNIT, boxes, col2im, im2col
from retrograd.specs.convolution_options import TEXTBOOK_ALGORITHMS as NAMES
from retrograd.specs.convolution_options import Options
from retrograd.specs.geometry import Window, conv_window
from strategies import LAYOUTS, Case, numbers

# Odd geometries: what is left over in a row, a plane, a batch; units of one position; taps that see padding alone.
CASES = {
    "one position left over": Case(conv_window((UNIT + 1,), 1), 3, 5, 1, False),
    "one position, one channel": Case(conv_window((3,), 3), 5, 1, 1, False),
    "pieces of a row": Case(conv_window((2, 2 * UNIT + 7), (1, 3), 1, ((0, 0), (2, 0))), 2, 3, 4, True),
    "rows left over": Case(conv_window((19, 40), 3, 1, 1), 3, 3, 5, True),
    "stride and dilation": Case(conv_window((23, 41), (2, 3), (2, 1), ((0, 3), (1, 2)), (3, 2), 2), 3, 4, 6, True),
    "stride above kernel": Case(conv_window((50, 31), 2, 3, ((0, 1), (2, 2))), 4, 2, 3, False),
    "depthwise": Case(conv_window((18, 18), 3, 1, 1, 1, 3), 2, 3, 6, True),
    "space": Case(conv_window((9, 6, 12), (3, 1, 2), (1, 1, 1), ((1, 1), (0, 0), (0, 1))), 2, 2, 3, True),
    "large padding": Case(conv_window((1, 20), (3, 3), 1, ((4, 4), (7, 0))), 3, 2, 2, False),
    "pointwise": Case(conv_window((30, 30), 1), 2, 8, 17, True),
    "small images": Case(conv_window((5, 7), 3, 1, 1), 11, 3, 4, True),
}
Run = Callable[..., np.ndarray]  # of a window and options
LAYERS = ("conv", "conv_input_grad", "conv_weight_grad")


def calls(name: str, case: Case, dtype: type, layout: str = "contiguous") -> dict[str, Run]:
    """The three kernels of an algorithm with their arrays: functions of a window and options."""
    rng, module = np.random.default_rng(0), ALGORITHMS[name]
    x, w, g, b_out, b_in = (
        LAYOUTS[layout](numbers(rng, shape, dtype))
        for shape in (case.x, case.w, case.y, (case.outputs,), (case.inputs,))
    )
    return {
        "conv": lambda *how: module.conv(x, w, b_out if case.bias else None, *how),
        "conv_input_grad": lambda *how: module.conv_input_grad(g, w, b_in if case.bias else None, *how),
        "conv_weight_grad": lambda *how: module.conv_weight_grad(x, g, *how),
    }


def least(name: str, case: Case, itemsize: int, copied: int = 0) -> int:
    """The smallest workspace that is accepted: what any of the three takes of one unit of one sample."""
    needs = ALGORITHMS[name].DEMAND.needs(case.window, (case.inputs, case.outputs))
    return max(need.fixed + min(need.unit, need.sample) + copied for need in needs) * itemsize


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", NAMES)
def test_chunked_equals_unchunked_bit_for_bit(name: str, case: str) -> None:
    window, geometry = CASES[case].window, CASES[case]
    for dtype, layout in ((np.float32, "contiguous"), (np.float64, "channels_last"), (np.float32, "every_other")):
        size = np.dtype(dtype).itemsize
        lowest = least(name, geometry, size, 0 if layout == "contiguous" else prod(geometry.w))
        for run in calls(name, geometry, dtype, layout).values():
            whole = run(window)
            for limit in (lowest, lowest + 3 * size, 2 * lowest + 5 * size, 7 * lowest, 40 * lowest):
                assert run(window, Options(workspace=limit)).tobytes() == whole.tobytes(), limit


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_alone_gives_its_bits_in_a_batch(name: str) -> None:
    case = CASES["rows left over"]
    rng, module = np.random.default_rng(0), ALGORITHMS[name]
    x, w, g = (numbers(rng, shape, np.float32) for shape in (case.x, case.w, case.y))
    y, gx = module.conv(x, w, None, case.window), module.conv_input_grad(g, w, None, case.window)
    for n in range(len(x)):
        assert module.conv(x[n : n + 1], w, None, case.window).tobytes() == y[n].tobytes()
        assert module.conv_input_grad(g[n : n + 1], w, None, case.window).tobytes() == gx[n].tobytes()


def test_what_was_one_chunk_and_what_was_many_are_the_same_to_singa_and_mxnet() -> None:
    """They differ only in how much they unfold at once, that is, in memory."""
    for case in CASES.values():
        for one, many in zip(*(calls(name, case, np.float32).values() for name in ("singa", "mxnet")), strict=True):
            assert one(case.window).tobytes() == many(case.window).tobytes()


# ---------------------------------------------------------------- memory


def peak(run: Run, window: Window, options: Options, limit: int) -> int:
    """The peak of allocated bytes during a call, without its result: of three the least, or the first within limit."""
    run(window, options)  # what is cached stays
    found: list[int] = []
    # other threads of the process, such as the test runner's, may allocate during one of them
    while len(found) < 3 and not (found and found[-1] <= limit):
        tracemalloc.start()
        try:
            result = run(window, options)
            found.append(tracemalloc.get_traced_memory()[1] - result.nbytes)
        finally:
            tracemalloc.stop()
    return min(found)


# arrays beside which Python's own objects, some tens of bytes for each unit and tap, count little
LARGE = {
    "plane": Case(conv_window((31, 40), 3, 1, 1), 3, 16, 20, True),
    "strided groups": Case(conv_window((64, 60), 4, 2, ((1, 1), (0, 2)), 1, 2), 3, 16, 24, True),
    "line": Case(conv_window((3000,), 9, 1, ((8, 0),)), 4, 12, 16, False),
    "space": Case(conv_window((9, 20, 21), (3, 2, 2), (2, 1, 1), 1), 3, 10, 8, True),
}


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("name", NAMES)
def test_peak_memory_is_what_is_stated_and_within_the_limit(name: str, case: str) -> None:
    geometry = LARGE[case]
    slack = 24_000
    lowest = least(name, geometry, 4)
    for limit in (None, lowest, 3 * lowest):
        channels = geometry.inputs, geometry.outputs
        stated = cost(name, geometry.window, geometry.batch, channels, workspace=limit)
        for kernel, run in calls(name, geometry, np.float32).items():
            memory = getattr(stated, kernel).memory
            assert limit is None or memory <= limit
            most = memory + slack
            assert memory <= peak(run, geometry.window, Options(workspace=limit), most) <= most, kernel


def test_weights_in_another_order_count() -> None:
    """The copy that they need counts within the limit."""
    case = LARGE["plane"]
    for name in NAMES:
        copied = 0 if name == "pytorch" else prod(case.w)
        limit = least(name, case, 4, copied)
        for run in calls(name, case, np.float32, "every_other").values():
            most = limit + 24_000
            assert peak(run, case.window, Options(workspace=limit), most) <= most


@pytest.mark.parametrize("name", NAMES)
def test_too_little_is_refused_with_what_is_enough(name: str) -> None:
    case = CASES["rows left over"]
    enough = least(name, case, 8)
    for kernel, run in calls(name, case, np.float64).items():
        expected = (
            rf"{kernel}: workspace={enough - 1} bytes is too little for algorithm='{name}': the smallest piece of this "
            rf"convolution and its gradients takes {enough} bytes \((\d+\.\d{{4}}) MB\); give at least that, or None"
        )
        with pytest.raises(ValueError, match=expected) as refusal:
            run(case.window, Options(workspace=enough - 1))
        megabytes = re.search(expected, str(refusal.value))
        assert megabytes and enough <= float(megabytes[1]) * 2**20 < enough + 210
        run(case.window, Options(workspace=enough))


@pytest.mark.parametrize(("megabytes", "nstep"), [(1, 1), (2, 2), (5, 6), (9, 12), (100, 20)])
def test_the_rule_of_mxnet(megabytes: int, nstep: int) -> None:
    """InitTemp: nstep = max(min(workspace // (C*kh*kw*OH*OW + F*OH*OW), N), 1), in float32."""
    window, (N, C, F) = conv_window((28, 28), 3, 1, 1), (20, 24, 32)
    elements = (megabytes << 20) // 4
    assert max(min(elements // ((C * 9 + F) * 28 * 28), N), 1) == nstep
    limited = cost("mxnet", window, N, (C, F), workspace=megabytes << 20)
    assert limited.conv == (nstep * (C * 9 + F) * 28 * 28 * 4, N * F * C * 9 * 28 * 28, nstep)
    assert limited.conv_input_grad == limited.conv


def test_mxnet_without_a_limit_has_that_of_mxnet() -> None:
    """1024 MB, or one sample where that is more."""
    (N, C), window = (64, 64), conv_window((224, 224), 3, 1, 1)
    taken = cost("mxnet", window, N, (C, C)).conv
    assert taken.samples == (1024 << 20) // (C * 10 * 224 * 224 * 4) and taken.memory <= 1024 << 20
    huge = conv_window((2000, 2000), 3, 1, 1)
    assert cost("mxnet", huge, N, (C, C)).conv.samples == 1
    assert cost("mxnet", huge, N, (C, C), workspace=1024 << 20).conv.samples == 0


# ---------------------------------------------------------------- operations


class Number:
    """A number that counts the multiplications of its kind."""

    multiplications = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def __mul__(self, other: Any) -> Number:
        Number.multiplications += 1
        return Number(self.value * getattr(other, "value", other))

    def __add__(self, other: Any) -> Number:
        return Number(self.value + getattr(other, "value", other))

    __rmul__, __radd__ = __mul__, __add__


@pytest.mark.parametrize(
    "window",
    [
        conv_window((7,), 3, 2, ((2, 0),), 2),
        conv_window((5, 4), (2, 3), (2, 1), 1, 1, 2),
        conv_window((3, 2, 3), 2, (1, 1, 2)),
    ],
    ids=lambda window: f"{window.ndim}",
)
@pytest.mark.parametrize("name", NAMES)
def test_multiplications_are_as_many_as_stated(name: str, window: Window) -> None:
    N, Ci, Co = 2, 4, 2
    stated, module = cost(name, window, N, (Ci, Co)), ALGORITHMS[name]
    x, w, g = (
        np.vectorize(Number, otypes=[object])(np.random.default_rng(0).normal(size=shape))
        for shape in ((N, Ci, *window.input), (Co, Ci // window.groups, *window.kernel), (N, Co, *window.output))
    )
    for kernel, arrays in zip(LAYERS, ((x, w, None), (g, w, None), (x, g)), strict=True):
        Number.multiplications = 0
        getattr(module, kernel)(*arrays, window)
        assert Number.multiplications == getattr(stated, kernel).multiplications, kernel


def test_costs_by_hand() -> None:
    """4 outputs of 3 taps: 2*3*4 numbers of columns, 5*4 of gradient, 5*2*3 of weights; 5*2*3*4 products."""
    window = conv_window((9,), 3, 2)
    assert cost("singa", window, 7, (2, 5), "float64").conv_weight_grad == (8 * (24 + 20 + 30), 7 * 120, 1)
    assert cost("mxnet", window, 7, (2, 5)).conv_input_grad == (4 * 7 * (24 + 20), 7 * 120, 7)
    assert cost("pytorch", window, 7, (2, 5)).conv == (4 * (30 + 7 * 7 * 4), 7 * 120, 7)
    # dilated and padded to 9 + 2 numbers, 3 taps at 9 inputs
    assert cost("numpy_ml", window, 7, (2, 5)).conv_input_grad == (4 * (30 + 7 * 5 * (11 + 27)), 7 * 270, 7)


def test_cost_is_a_table() -> None:
    text = str(cost("numpy_ml", conv_window((9,), 3, 2), 7, (2, 5)))
    assert text.splitlines()[2].split() == ["numpy_ml", "conv_input_grad", "5,440", "1,890", "7"]
    table = cost_table(conv_window((300, 300), 3), 7, (2, 5), workspace=200_000).splitlines()
    assert [line.split()[0] for line in table] == ["algorithm", *(name for name in NAMES for _ in LAYERS)]
    assert table[1].endswith("part of one") and len({len(line) for line in table}) == 1
    with pytest.raises(ValueError, match="cost: algorithm='caffe' must be one of singa, mxnet, pytorch, numpy_ml"):
        cost("caffe", conv_window((9,), 3), 1, (1, 1))
    with pytest.raises(ValueError, match=r"cost: channels=\(4, 3\) must be multiples of groups=2"):
        cost("singa", conv_window((9,), 3, groups=2), 1, (4, 3))


# ---------------------------------------------------------------- units, unfolding, empty batches


@pytest.mark.parametrize("extents", [(1,), (256,), (1000,), (16, 16), (17, 16), (3, 300), (5, 9, 8), (2, 3, 500)])
def test_units_are_all_of_an_image(extents: tuple[int, ...]) -> None:
    """In row-major order, each position once, none larger than UNIT, the first the largest."""
    numbered, found = np.arange(prod(extents)).reshape(extents), boxes(extents)
    assert np.concatenate([numbered[box.slices].ravel() for box in found]).tolist() == list(range(prod(extents)))
    assert all(numbered.ravel()[box.flat].tolist() == numbered[box.slices].ravel().tolist() for box in found)
    assert max(box.size for box in found) == found[0].size <= UNIT


@pytest.mark.parametrize("case", CASES)
def test_col2im_is_the_transpose_of_im2col(case: str) -> None:
    window, rng = CASES[case].window, np.random.default_rng(0)
    x, gx, total = numbers(rng, (2, 3, *window.input)), np.zeros((2, 3, *window.input)), 0.0
    for box in boxes(window.output):
        columns = np.full((2, 3, window.taps, *box.extents), np.nan)
        im2col(x, window, box, columns)
        upstream = numbers(rng, columns.shape)
        col2im(upstream, window, box, gx)
        total += np.vdot(columns, upstream)
    assert abs(total - np.vdot(x, gx)) <= 1e-11


@pytest.mark.parametrize("name", NAMES)
def test_empty_batch(name: str) -> None:
    window, module, options = conv_window((4, 5), 3, 2, 1, groups=2), ALGORITHMS[name], Options(workspace=10**6)
    x, w, g = np.empty((0, 4, 4, 5)), np.ones((3, 6, 3, 3)).swapaxes(0, 1)[:, :2], np.empty((0, 6, *window.output))
    assert not w.flags.c_contiguous
    assert module.conv(x, w, np.ones(6), window, options).shape == g.shape
    assert module.conv_input_grad(g, w, np.ones(4), window, options).shape == x.shape
    gw = module.conv_weight_grad(x, g, window, options)
    assert gw.shape == w.shape and not gw.any()
    stated = cost(name, window, 0, (4, 6), workspace=10**6)
    assert [getattr(stated, kernel).multiplications for kernel in LAYERS] == [0, 0, 0]


def test_every_pair_of_algorithms_agrees_to_rounding() -> None:
    for case, kernel in product(CASES.values(), LAYERS):
        first, *others = (calls(name, case, np.float64)[kernel](case.window) for name in NAMES)
        assert all(np.allclose(first, other, rtol=0, atol=1e-11) for other in others)


@pytest.mark.parametrize("channels", [(0, 3), (3, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_no_channels(name: str, channels: tuple[int, int]) -> None:
    case = Case(conv_window((5, 4), 3, 1, 1), 2, *channels, True)
    for kernel, run in calls(name, case, np.float64).items():
        result = run(case.window, Options(workspace=10_000))
        assert result.shape == {"conv": case.y, "conv_input_grad": case.x, "conv_weight_grad": case.w}[kernel]


@pytest.mark.parametrize("name", NAMES)
def test_infinity_in_the_input_reaches_what_reads_it(name: str) -> None:
    """In numpy-ml it is also multiplied by the zeros between the gradients, which gives NaN."""
    window, rng = conv_window((9,), 2, 3), np.random.default_rng(0)
    x, g = numbers(rng, (1, 1, 9)), numbers(rng, (1, 1, *window.output))
    x[0, 0, 4] = np.inf  # the second tap of the second output
    gw = ALGORITHMS[name].conv_weight_grad(x, g, window)[0, 0]
    assert np.isinf(gw[1]) and (np.isnan(gw[0]) if name == "numpy_ml" else np.isfinite(gw[0]))
