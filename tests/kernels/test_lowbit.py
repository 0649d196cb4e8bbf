"""Low-bit products: exact sums for every geometry, their conversion, and quantization to codes.

The oracle is tests/naive.py on the values; the storage of codes is implemented a second time here, element by element.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import naive
from comparison import memory
from kernels.sets import textbook_at_night
from retrograd.kernels.compiled.machine import launch, microkernel
from retrograd.kernels.compiled.machine.compiler import emit
from retrograd.kernels.compiled.machine.integer_microkernel_jit import build
from retrograd.kernels.compiled.machine.target import integer_bytes
from retrograd.specs.geometry import Window, conv_transpose_window, conv_window
from retrograd.specs.low_bit import Requantized, Scaled, Thresholded, fits
from strategies import LAYOUTS, Case, conv_case, evenly

HELD = {"binary": 32, "int8": 4, "int16": 2}  # codes in a word
DTYPES = {"binary": np.uint32, "int8": np.uint8, "int16": np.int16}
ELEMENTS = sorted(HELD)


def run(kernel: Any, *arguments: Any) -> np.ndarray:
    """Return the result of a kernel; check that it changes no argument and shares no memory with one."""
    blocks = memory(arguments)
    before = [block.tobytes() for block in blocks]
    result: np.ndarray = kernel(*arguments)
    assert [block.tobytes() for block in blocks] == before
    assert result.flags.writeable and not any(np.may_share_memory(result, block) for block in blocks)
    return result


def drawn(rng: np.random.Generator, element: str, *shape: int, weights: bool = False) -> np.ndarray:
    """Draw the values of weights, or of inputs."""
    if element == "binary":
        return rng.choice([-1, 1], shape)
    low, high = {("int8", False): (0, 256), ("int8", True): (-128, 128), ("int16", False): (-32768, 32768)}.get(
        (element, weights), (-12, 13)
    )
    return rng.integers(low, high, shape)


def stored(values: np.ndarray, element: str, groups: int, dtype: Any = None, rest: int = 0) -> np.ndarray:
    """Codes (N, *S, G*K) of values (N, C, *S), one at a time; ``rest`` fills the padding of channels."""
    N, C, *S = values.shape
    channels, held = C // groups, HELD[element]
    words = -(-channels // held)
    bits = element == "binary"
    codes = np.full((N, *S, groups * words * (1 if bits else held)), 0 if bits else rest, dtype or DTYPES[element])
    for n, c, *at in np.ndindex(values.shape):
        group, place = c // channels, c % channels
        value = values[(n, c, *at)]
        if not bits:
            codes[(n, *at, group * words * held + place)] = value
        elif value > 0:
            codes[(n, *at, group * words + place // 32)] |= np.uint32(1 << place % 32)
    return codes


def check_sums(k: Any, case: Case, element: str, transposed: bool, rng: np.random.Generator) -> None:
    """With ``transposed`` the window is that of the convolution whose input gradient the product is."""
    window, groups = case.window, case.window.groups
    sizes = window.stride, window.padding, window.dilation, groups
    x = drawn(rng, element, *(case.y if transposed else case.x))
    w = drawn(rng, element, *case.w, weights=True)  # (Co, Ci/G, *R): of the transposed one (its Ci, its Co/G, *R)
    zero_point = int(rng.integers(0, 256)) if element == "int8" else 0
    codes = stored(x, element, groups, rest=int(rng.integers(0, 100)))
    filters = k.lowbit_filters(element, w, groups, transposed)
    y = run(k.lowbit_conv, codes, filters, window, None, zero_point)
    values = x - zero_point
    if transposed:
        expected = naive.conv_input_grad(values, w, None, window.input, *sizes)
    else:
        expected = naive.conv(values, w, None, *sizes)
    assert y.dtype == np.int32 and y.shape == expected.shape
    assert (y == expected).all()


@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transposed"])
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("number", range(8))
def test_sums(kernel_set: Any, number: int, element: str, transposed: bool) -> None:
    pick, source = evenly(100 * ELEMENTS.index(element) + 10 * number + transposed)
    check_sums(kernel_set, conv_case(pick, positions=40), element, transposed, source.rng)


@pytest.mark.nightly
@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transposed"])
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("number", range(300))
def test_sums_of_many(kernel_set: Any, number: int, element: str, transposed: bool) -> None:
    pick, source = evenly(7_000 + 10 * number + 3 * transposed + ELEMENTS.index(element))
    check_sums(kernel_set, conv_case(pick), element, transposed, source.rng)


# Where the parts of the plan differ: 3, 4 and more panels, panels of half a byte of bits, several groups in one word,
# padding wider than the kernel, no pixel whose taps are all inside, a stride beyond the kernel, more than 31 words.
CHOSEN = {
    "panels": Case(conv_window((5, 4), 3, 1, 1), 2, 40, 200, False),
    "narrow": Case(conv_window((5, 4), 3, 1, 1), 1, 33, 75, False),
    "groups": Case(conv_window((9,), 3, 1, 2, 1, 4), 3, 12, 20, False),
    "wide padding": Case(conv_window((3, 2), 2, 1, ((4, 5), (3, 0))), 1, 5, 6, False),
    "small input": Case(conv_window((2, 2), 5, 1, 2), 1, 64, 70, False),
    "both ends": Case(conv_window((3,), 4, 1, 2, 1), 1, 8, 9, False),
    "stride": Case(conv_window((30,), 2, 9, 1), 2, 8, 9, False),
    "deep": Case(conv_window((2, 2), 2, 1, 1), 1, 1100, 17, False),
    "line": Case(conv_window((40,), 3, 1, 1), 1, 8, 9, False),
    "tasks": Case(conv_window((30, 31), 3, 1, 1), 1, 130, 130, False),
}


@pytest.mark.parametrize("transposed", [False, True], ids=["conv", "transposed"])
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("name", CHOSEN)
@textbook_at_night
def test_sums_of_chosen_shapes(kernel_set: Any, name: str, element: str, transposed: bool) -> None:
    check_sums(kernel_set, CHOSEN[name], element, transposed, np.random.default_rng(1))


def test_more_phases_than_are_listed_with_their_taps(kernel_set: Any) -> None:
    window = conv_transpose_window((3,), 3, 70, 1, 40)  # most positions have no tap
    check_sums(kernel_set, Case(window, 2, 6, 5, False), "binary", True, np.random.default_rng(2))


ROWS = conv_window((), 1)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 200, 1000), (17, 100, 130), (5, 3, 2), (0, 3, 2)])
def test_rows(kernel_set: Any, rows: int, inputs: int, outputs: int, element: str) -> None:
    """A window without axes: x @ w.T."""
    rng = np.random.default_rng(rows)
    x, w = drawn(rng, element, rows, inputs), drawn(rng, element, outputs, inputs, weights=True)
    filters = kernel_set.lowbit_filters(element, w, 1)
    y = run(kernel_set.lowbit_conv, stored(x, element, 1), filters, ROWS)
    assert (y == x @ w.T).all() and y.shape == (rows, outputs)


def test_padding_is_zero_and_not_minus_one(kernel_set: Any) -> None:
    """By hand: three pixels of +1 under three taps of +1."""
    window = conv_window((3,), 3, 1, 1)
    filters = kernel_set.lowbit_filters("binary", np.ones((1, 1, 3), np.int64), 1)
    y = kernel_set.lowbit_conv(np.ones((1, 3, 1), np.uint32), filters, window)
    assert y.tolist() == [[[2, 3, 2]]]


def test_signed_bytes(kernel_set: Any) -> None:
    rng = np.random.default_rng(3)
    x, w = rng.integers(-128, 128, (2, 5, 4, 3)), drawn(rng, "int8", 6, 5, 2, 2, weights=True)
    window = conv_window((4, 3), 2, 1, 1)
    codes = stored(x, "int8", 1, np.int8)
    y = run(kernel_set.lowbit_conv, codes, kernel_set.lowbit_filters("int8", w, 1), window, None, -7)
    assert (y == naive.conv(x + 7, w, None, (1, 1), ((1, 1),) * 2, (1, 1), 1)).all()


def test_any_strides(kernel_set: Any) -> None:
    rng = np.random.default_rng(4)
    x, w = drawn(rng, "int16", 2, 4, 5), drawn(rng, "int16", 3, 4, 2, weights=True)
    codes = np.repeat(stored(x, "int16", 1), 2, axis=2)[:, :, ::2]
    y = kernel_set.lowbit_conv(codes, kernel_set.lowbit_filters("int16", w[:, :, ::-1], 1), conv_window((5,), 2))
    assert (y == naive.conv(x, w[:, :, ::-1], None, (1,), ((0, 0),), (1,), 1)).all()


# ---------------------------------------------------------------- conversion of the sums


def _sums(k: Any, groups: int, outputs: int, then: Any) -> tuple[np.ndarray, np.ndarray]:
    """The sums of a drawn convolution, int64, and what ``then`` makes of them."""
    rng = np.random.default_rng(outputs)
    x, w = drawn(rng, "binary", 2, 6 * groups, 4, 3), drawn(rng, "binary", outputs, 6, 3, 3)
    filters = k.lowbit_filters("binary", w, groups)
    window = conv_window((4, 3), 3, 1, 1, 1, groups)
    sums = naive.conv(x, w, None, (1, 1), ((1, 1),) * 2, (1, 1), groups).astype(np.int64)
    return sums, run(k.lowbit_conv, stored(x, "binary", groups), filters, window, then)


def per_channel(numbers: np.ndarray) -> np.ndarray:
    return numbers[:, np.newaxis, np.newaxis]


SIZES = [(1, 5), (1, 70), (2, 40), (3, 15), (5, 5)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("bias", "factor"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("groups", "outputs"), SIZES[1:4])
def test_scaled(kernel_set: Any, groups: int, outputs: int, bias: bool, factor: bool, dtype: type) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, outputs)).astype(dtype)
    f = rng.uniform(0.5, 2, (2, 4, 3)).astype(dtype)
    sums, y = _sums(kernel_set, groups, outputs, Scaled(a, b if bias else None, f if factor else None))
    expected = sums.astype(dtype) * per_channel(a)
    expected = expected * f[:, np.newaxis] if factor else expected
    expected = expected + per_channel(b) if bias else expected
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, expected)  # to the last bit: nothing is fused


@pytest.mark.parametrize(("groups", "outputs"), SIZES)
def test_thresholded(kernel_set: Any, groups: int, outputs: int) -> None:
    rng = np.random.default_rng(6)
    threshold, flip = rng.integers(-5, 6, outputs).astype(np.int32), rng.random(outputs) < 0.5
    threshold[0], flip[0] = -(2**31), False  # always 1
    threshold[1], flip[1] = -(2**31), True  # always 0
    sums, y = _sums(kernel_set, groups, outputs, Thresholded(threshold, flip))
    truth = (sums >= per_channel(threshold)) != per_channel(flip)
    assert truth[:, 0].all() and not truth[:, 1].any()
    np.testing.assert_array_equal(y, stored(np.where(truth, 1, -1), "binary", 1))


@pytest.mark.parametrize(
    ("zero_point", "low", "high", "element", "dtype"),
    [
        (7, 0, 255, "int8", np.uint8),
        (100, 100, 255, "int8", np.uint8),
        (-3, -128, 127, "int8", np.int8),
        (0, -127, 127, "int8", np.int8),
        (5, -20, 3000, "int16", np.int16),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("groups", "outputs"), SIZES)
def test_requantized(
    kernel_set: Any,
    groups: int,
    outputs: int,
    bias: bool,
    zero_point: int,
    low: int,
    high: int,
    element: str,
    dtype: type,
) -> None:
    rng = np.random.default_rng(7)
    scale = rng.choice([0.5, 0.25, 1.5, 40], outputs).astype(np.float32)  # halves, and beyond both ends
    b = rng.integers(-9, 10, outputs).astype(np.int32) if bias else None
    sums, y = _sums(kernel_set, groups, outputs, Requantized(scale, b, zero_point, low, high, element))
    total = sums if b is None else sums + per_channel(b)
    codes = [
        [min(max(round(float(v) * float(s)) + zero_point, low), high) for v in row.ravel()]  # Python's round: to even
        for image in total
        for row, s in zip(image, scale, strict=True)
    ]
    assert y.dtype == dtype
    expected = np.array(codes).reshape(sums.shape)
    np.testing.assert_array_equal(y[..., :outputs], np.moveaxis(expected, 1, -1))
    assert y.shape[-1] == -(-outputs // HELD[element]) * HELD[element]


def test_one_layer_feeds_the_next(kernel_set: Any) -> None:
    """Bits as a binary layer makes them are those that sign_bits makes of its sums."""
    rng = np.random.default_rng(8)
    x, w = drawn(rng, "binary", 2, 33, 5), drawn(rng, "binary", 37, 33, 3)
    filters, window = kernel_set.lowbit_filters("binary", w, 1), conv_window((5,), 3, 1, 1)
    nothing = np.zeros(37, np.int32), np.zeros(37, np.bool_)
    bits = kernel_set.lowbit_conv(stored(x, "binary", 1), filters, window, Thresholded(*nothing))
    sums = kernel_set.lowbit_conv(stored(x, "binary", 1), filters, window)
    np.testing.assert_array_equal(bits, kernel_set.sign_bits(sums.astype(np.float32)))


def test_filters_serve_several_inputs(kernel_set: Any) -> None:
    """The data that a kernel set caches with filters depend on the window, the zero point and the bias."""
    rng = np.random.default_rng(9)
    w = drawn(rng, "int8", 3, 4, 3, weights=True)
    filters = kernel_set.lowbit_filters("int8", w, 1)
    shared = np.zeros(3, np.int32)
    for size, zero_point, bias in ((5, 0, 0), (7, 0, 0), (5, 9, 0), (5, 9, 3), (5, 0, 0)):
        x = drawn(rng, "int8", 1, 4, size)
        shared[:] = bias
        then = Requantized(np.ones(3, np.float32), shared, 0, -30000, 30000, "int16")
        y = kernel_set.lowbit_conv(stored(x, "int8", 1), filters, conv_window((size,), 3, 1, 1), then, zero_point)
        expected = naive.conv(x - zero_point, w, None, (1,), ((1, 1),), (1,), 1) + bias
        np.testing.assert_array_equal(y[..., :3], np.moveaxis(np.clip(expected, -30000, 30000), 1, -1))


# ---------------------------------------------------------------- codes of numbers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize(("groups", "channels"), [(1, 5), (1, 64), (1, 75), (3, 11), (4, 1)])
def test_sign_bits(kernel_set: Any, groups: int, channels: int, layout: str, dtype: type) -> None:
    rng = np.random.default_rng(10)
    x = rng.standard_normal((2, groups * channels, 3, 4)).astype(dtype)
    special = rng.choice([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -1e-45], x.shape)
    x = LAYOUTS[layout](np.where(rng.random(x.shape) < 0.3, special, x).astype(dtype))
    expected = [[1 if value >= 0 else -1 for value in image.ravel()] for image in x]  # of NaN -1, of -0 +1
    bits = run(kernel_set.sign_bits, x, groups)
    np.testing.assert_array_equal(bits, stored(np.array(expected).reshape(x.shape), "binary", groups))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "every_other", "unaligned"])
@pytest.mark.parametrize(
    ("element", "low", "high", "zero_point"),
    [("int8", 0, 255, 100), ("int8", -128, 127, 0), ("int8", 3, 17, 5), ("int16", -999, 1000, 0)],
)
@pytest.mark.parametrize(("groups", "channels"), [(1, 5), (1, 64), (3, 11)])
def test_quantize_codes(
    kernel_set: Any,
    groups: int,
    channels: int,
    element: str,
    low: int,
    high: int,
    zero_point: int,
    layout: str,
    dtype: type,
) -> None:
    rng = np.random.default_rng(11)
    x = rng.integers(-2500, 2500, (2, groups * channels, 3)) / 8  # many halves of the scale
    x = LAYOUTS[layout](np.where(rng.random(x.shape) < 0.1, rng.choice([np.inf, -np.inf, np.nan], x.shape), x))
    x = LAYOUTS[layout](x.astype(dtype))
    codes = run(kernel_set.quantize_codes, x, 0.25, zero_point, low, high, element, groups)

    def code(value: float) -> int:
        if np.isnan(value) or value == -np.inf:
            return low
        return high if value == np.inf else min(max(round(value / 0.25) + zero_point, low), high)

    dtype_of_codes = np.int8 if element == "int8" and low < 0 else DTYPES[element]
    values = np.array([code(float(value)) for value in x.ravel()]).reshape(x.shape)
    assert codes.dtype == dtype_of_codes
    np.testing.assert_array_equal(codes, stored(values, element, groups, dtype_of_codes))


def test_sums_beyond_int32_are_refused(kernel_set: Any) -> None:
    w = np.ones((2, 4, 8), np.int64)
    w[1] = 2100
    with pytest.raises(ValueError, match="filter 1: the sum of absolute values 67200, times inputs up to 32768"):
        kernel_set.lowbit_filters("int16", w, 1)
    kernel_set.lowbit_filters("int16", w, 1, most=31000)
    with pytest.raises(ValueError, match="filter 0"):
        kernel_set.lowbit_filters("int8", np.full((1, 70000), 127), 1)
    with pytest.raises(ValueError, match=r"less than 2\*\*31"):
        fits(np.array([[2**30, -(2**30)]]), 1)
    fits(np.array([[2**30, 1 - 2**30]]), 1)


# ---------------------------------------------------------------- micro-kernels for other CPUs


FORMS = [
    ("binary", "bytes"),
    ("int8", "lanes"),
    ("int16", "lanes"),
    *([("int8", "pairs"), ("int16", "pairs")] if microkernel.machine() in ("x86_64", "AMD64") else []),
]


@pytest.mark.parametrize(("entries", "words"), [(1, 1), (3, 2), (2, 40), (9, 8), (1, 100)])
@pytest.mark.parametrize(("element", "form"), FORMS)
def test_forms_of_the_micro_kernel(element: str, form: str, entries: int, words: int) -> None:
    """The forms for CPUs that lack an instruction that this CPU may have."""
    rows, vectors, lanes = 3, 2, integer_bytes() // 4
    name = f"test_dot_{element}_{form}"
    address, _ = launch.load(name, lambda: b"\n" + emit(build(name, "i", element, form, rows, vectors), name))
    rng = np.random.default_rng(words)
    a = rng.integers(0, 2**32, (entries, rows, words + 1), np.uint32)
    b = rng.integers(0, 2**32, (entries, words, vectors * lanes), np.uint32)
    if element != "int8":  # the largest sums of extremes, unless they exceed int32
        a[:, 0], b[..., 0] = (0x80808080, 0x7F7F7F7F) if element == "binary" else (0x00800080, 0x7FFF7FFF)
    else:
        a[:, 0], b[..., 0] = 0xFFFFFFFF, 0x80808080
    c = np.full((rows, vectors * lanes), 77, np.int32)
    table = np.zeros((entries, 8), np.int64)
    table[:, :rows] = a.ctypes.data + np.arange(entries * rows).reshape(entries, rows) * a.strides[1]
    starts = rng.integers(-9, 10, (rows, 3 + vectors * lanes), np.int32)
    rows_of = [np.array([one[i].ctypes.data for i in range(rows)]) for one in (starts, c)]
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 13)(address)(
        table.ctypes.data,
        entries,
        words,
        4,
        b.ctypes.data,
        rows_of[0].ctypes.data,
        12,
        rows_of[1].ctypes.data,
        8,
        lanes - 2,
        0,
        0,
        0,
    )
    left, right = a[:, :, 1:].transpose(1, 0, 2).reshape(rows, -1), b.reshape(-1, vectors * lanes).T

    def parts(words: np.ndarray, dtype: type) -> np.ndarray:
        return np.ascontiguousarray(words).view(dtype).astype(np.int64)

    if element == "binary":
        bits = [np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1) for words in (left, right)]
        expected = -2 * (bits[0][:, np.newaxis] != bits[1][np.newaxis]).sum(-1)
    elif element == "int8":
        expected = parts(left, np.uint8) @ parts(right, np.int8).T
    else:
        expected = parts(left, np.int16) @ parts(right, np.int16).T
    expected = (expected + starts[:, 3:]).astype(np.int32)  # modulo 2**32
    assert (c[:, 2:] == expected[:, :-2]).all() and (c[:, :2] == 77).all()  # two columns do not exist


@pytest.mark.parametrize(("element", "form", "instruction"), [("binary", "bytes", "cnt"), ("int8", "sdot", "sdot")])
def test_instructions_of_arm(monkeypatch: pytest.MonkeyPatch, element: str, form: str, instruction: str) -> None:
    """The code for Arm contains these instructions; it cannot run here."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("aarch64-linux-gnu").create_target_machine(features="+neon,+dotprod", opt=3)
    monkeypatch.setattr("retrograd.kernels.compiled.machine.integer_microkernel_jit.integer_bytes", lambda: 16)
    module = llvm.parse_assembly(build("arm", "f", element, form, 8, 2))
    module.triple = "aarch64-linux-gnu"
    assert len(re.findall(rf"^\t{instruction}\t", target.emit_assembly(module), re.MULTILINE)) >= 16


def test_a_window_of_rows_is_the_one_without_axes() -> None:
    assert isinstance(ROWS, Window) and ROWS.ndim == 0 and ROWS.taps == 1
