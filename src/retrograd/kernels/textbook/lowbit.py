"""Low-bit arithmetic: rounding, codes packed into bytes, and products of codes.

``retrograd/specs/low_bit.py`` describes how codes are stored. Here they are unpacked into float64 numbers and convolved
like any others; float64 represents every sum exactly.

    y[n, k, o] = sum over c, r of X[n, c, i] W[k, c, r]      i = o*stride + r*dilation - lo; in the padding X is 0

Source: M. Rastegari et al., "XNOR-Net", 2016, arXiv:1603.05279 (binary); B. Jacob et al., "Quantization and Training of
Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018, arXiv:1712.05877 (int8).
"""

from __future__ import annotations

from itertools import product

import numpy as np

from ...specs.geometry import Window
from ...specs.low_bit import Filters, Requantized, Scaled, Thresholded, code_dtype, codes_of, make_filters
from .convolution import conv, conv_input_grad
from .ieee import ieee

__all__ = [
    "channel_words",
    "distinct_numbers",
    "integer_levels",
    "lowbit_conv",
    "lowbit_filters",
    "max_pool_codes",
    "mean_absolute",
    "pack_bits",
    "quantize_codes",
    "round_to_bfloat16",
    "round_to_grid",
    "scaled_integers",
    "shift_codes",
    "shift_parameters",
    "shift_values",
    "sign_bits",
    "trailing_zeros",
    "uniform_codes",
    "uniform_values",
    "unpack_bits",
]


# ---- Codes of a few bits: packed into a stream of bytes, and the integers that they represent -----------------------
# Codes are stored from their lowest bit on, each in the lowest free bit of a byte. The last byte is padded with zeros.


def pack_bits(codes: np.ndarray, bits: int) -> np.ndarray:
    """The stream, uint8, of n codes in C order, in n bits / 8 bytes, rounded up; bits: 1 to 16."""
    form = "u1" if bits <= 8 else "<u2"
    whole = np.ascontiguousarray(codes, form, like=codes).reshape(-1, 1)
    each = np.unpackbits(whole.view(np.uint8), axis=1, bitorder="little")
    return np.packbits(each[:, :bits], bitorder="little")


def unpack_bits(stream: np.ndarray, count: int, bits: int) -> np.ndarray:
    """The (count,) codes of a stream: uint8, or uint16 for more than 8 bits."""
    filled = np.zeros((count, 8 if bits <= 8 else 16), np.uint8, like=stream)
    filled[:, :bits] = np.unpackbits(stream, count=count * bits, bitorder="little").reshape(count, bits)
    codes = np.packbits(filled, axis=1, bitorder="little")
    return codes[:, 0] if bits <= 8 else codes.view("<u2")[:, 0].astype(np.uint16)


def uniform_codes(integers: np.ndarray, low: int, stride: int) -> np.ndarray:
    """(integers - low) / stride as uint32"""
    return ((integers - low) // stride).astype(np.uint32)


def uniform_values(codes: np.ndarray, low: int, stride: int) -> np.ndarray:
    """low + stride codes as int64"""
    return np.asarray(low + stride * codes.astype(np.int64), like=codes)


def shift_codes(terms: np.ndarray, bits: int, has_zero: bool) -> np.ndarray:
    """uint32 codes of integers that are powers of two with a sign, or 0 if ``has_zero``.

    The exponent is in the lower ``bits - 1`` bits, from 1 on if ``has_zero``, and the sign in the highest: 1 is minus.
    """
    size = np.abs(terms)
    exponents = np.log2(np.where(size > 0, size, 1)).astype(np.uint32) + np.uint32(has_zero)
    return np.where(size > 0, exponents, 0) | ((terms < 0).astype(np.uint32) << (bits - 1))


def shift_values(codes: np.ndarray, bits: int, has_zero: bool) -> np.ndarray:
    """The int64 integers of ``shift_codes``."""
    exponents = (codes & ((1 << (bits - 1)) - 1)).astype(np.int64) - has_zero
    size = np.where(exponents < 0, 0, np.int64(1) << exponents.clip(0))
    return np.where(codes >> (bits - 1) == 1, -size, size)


def trailing_zeros(filters: np.ndarray) -> np.ndarray:
    """(Co,) int64: how many binary zeros all integers of a row of (Co, n) end with; 0 for a row of zeros."""
    used = np.bitwise_or.reduce(np.abs(filters), axis=1)
    return np.where(used > 0, np.log2(np.maximum(used & -used, 1)), 0).astype(np.int64)


@ieee
def integer_levels(x: np.ndarray, step: np.ndarray, high: int) -> np.ndarray:
    """x / step rounded to int64, halves to even; ``high`` where the step is 0."""
    whole = step.astype(np.float64)
    ratio = np.where(whole > 0, x / np.where(whole > 0, whole, 1), high)
    return np.rint(ratio).astype(np.int64)


@ieee
def scaled_integers(integers: np.ndarray, step: np.ndarray) -> np.ndarray:
    """integers times step, multiplied in float64, in the type of step"""
    return np.asarray(integers * step.astype(np.float64), like=integers).astype(step.dtype)


def distinct_numbers(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct numbers of each row of x (R, n), compared by their bits, so that 0 and -0 differ.

    Returns them, (R, most), in the order of their bits as integers, shorter rows padded with zeros; how many each row
    has, (R,) int64; and the index of each element among those of its row, (R, n) int64.
    """
    bits = np.ascontiguousarray(x, like=x).view(f"u{x.itemsize}")
    found = [np.unique(row, return_inverse=True) for row in bits]
    counts = np.array([len(numbers) for numbers, _ in found], np.int64, like=x)
    lists = np.zeros((len(found), max(counts, default=0)), bits.dtype, like=x)
    places = np.empty(x.shape, np.int64, like=x)
    for row, line, (numbers, inverse) in zip(lists, places, found, strict=True):
        row[: len(numbers)], line[:] = numbers, inverse.reshape(-1)
    return lists.view(x.dtype), counts, places


# ---- Rounding to fewer bits, and initial parameters of quantizers ---------------------------------------------------


@ieee
def round_to_bfloat16(x: np.ndarray) -> np.ndarray:
    """x rounded to 8 significant bits, halves to even, in x's dtype; infinities and NaN do not change."""
    bits = x.astype(np.float32, order="K").view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32)).astype(x.dtype, copy=False)


@ieee
def round_to_grid(x: np.ndarray, bits: int) -> np.ndarray:
    """x rounded to multiples of max |x| / (2**(bits - 1) - 1), halves to even; x itself if that is 0 or not finite."""
    step = np.abs(x).max(initial=0) / x.dtype.type(2 ** (bits - 1) - 1)
    return np.asarray(np.rint(x / step) * step, like=x) if 0 < step < np.inf else x.copy()


@ieee
def mean_absolute(x: np.ndarray) -> np.ndarray:
    """The mean of |x| over all elements, in float64; NaN over no elements."""
    return np.asarray(np.abs(x).mean(dtype=np.float64) if x.size else np.nan, like=x)


@ieee
def shift_parameters(x: np.ndarray, shifts: int, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Initial parameters of DeepShiftPS: shifts and signs such that the sum of sign 2**shift approximates x.

    Both have the shape and dtype of x, with a first axis of extent ``shifts`` if that is not 1. A shift is log2 of the
    remainder after the previous terms, clipped to [``low``, ``high``]; a sign is 1 or -1, or half of it where the term
    is 0.
    """
    exponents, signs, rest = [], [], x
    for _ in range(shifts):
        size = np.abs(rest)
        exponent = np.log2(np.where(size == 0, 1, size))
        is_zero = (size == 0) | (np.rint(exponent) < low)
        exponent = np.where(size == 0, low, exponent).clip(low, high)
        # where the remainder is too small: +-0.5, the largest sign that is rounded to 0
        sign = np.where(rest < 0, -1.0, 1.0) * np.where(is_zero, 0.5, 1.0)
        rest = rest - np.exp2(np.rint(exponent)) * np.sign(np.rint(sign))
        exponents.append(exponent)
        signs.append(sign)
    found = [np.asarray(parts[0] if shifts == 1 else np.stack(parts), x.dtype, like=x) for parts in (exponents, signs)]
    return found[0], found[1]


# ---- Products of low-bit operands -----------------------------------------------------------------------------------


def sign_bits(x: np.ndarray, groups: int = 1) -> np.ndarray:
    """The signs of x as bits: 1 where x >= 0, so that the sign of 0 and of -0 is +1, and that of NaN -1.

    x (N, C, *S)  ->  (N, *S, groups*K) uint32, K = ceil(C/groups / 32) words for the channels of a group
    """
    return _packed(_by_group(x >= 0, groups))


@ieee
def quantize_codes(
    x: np.ndarray,
    scale: float,
    zero_point: int = 0,
    low: int = 0,
    high: int = 255,
    element: str = "int8",
    groups: int = 1,
) -> np.ndarray:
    """codes = clip(round(x / scale) + zero_point, low, high), halves to the even number; NaN becomes ``low``.

    x (N, C, *S)  ->  (N, *S, groups*K), K = C/groups rounded up to whole words; uint8, int8 if ``low`` is negative, or
    int16, as ``element`` says. 0 <= low <= high <= 255, -128 <= low <= high <= 127, or within int16.
    """
    q = np.rint(x / x.dtype.type(scale)) + x.dtype.type(zero_point)
    return _filled_up(_by_group(_clipped(q, low, high), groups), element, code_dtype(element, low))


def lowbit_filters(
    element: str, w: np.ndarray, groups: int, transposed: bool = False, most: int | None = None
) -> Filters:
    """The weights of a layer as ``lowbit_conv`` of the same kernel set reads them.

    w (Co, Ci/groups, *R), or (Ci, Co/groups, *R) of a ``transposed`` convolution: integers. For "binary" they are +1
    and -1, for "int8" within -128 to 127, for "int16" within -32,768 to 32,767. ``most`` bounds the absolute value of
    the inputs, for "int8" of the codes; by default it is the largest possible.

    Raises:
        ValueError: sums of products could exceed int32: in a filter, sum |w| * most >= 2**31.
    """
    return make_filters(element, w, groups, transposed, most, lambda by_output: w.astype(np.float64))


def lowbit_conv(
    x: np.ndarray,
    filters: Filters,
    window: Window,
    then: Scaled | Thresholded | Requantized | None = None,
    zero_point: int = 0,
) -> np.ndarray:
    """The convolution of codes with filters; ``then`` says how the sums are converted.

    x (N, *I, groups*K) codes, (N, *O, groups*K) of a transposed convolution, whose result is (N, Co, *I)  ->

    - None: the sums, (N, Co, *O) int32
    - Scaled: (N, Co, *O) of the type of its scale
    - Thresholded: (N, *O, K') uint32; Requantized: (N, *O, K') codes: inputs of a layer with one group

    ``zero_point`` is that of x, for "int8" only. The value of padding is 0, for "binary" too. With a window without
    axes this is a matrix product of the rows of x (N, groups*K) and the filters. The sums are exact.
    """
    values = _values(x, filters, zero_point)  # (N, Ci, *I)
    form = conv_input_grad if filters.transposed else conv
    sums = form(values, filters.codes, None, window).astype(np.int32)
    return sums if then is None else _finished(sums, then)


def channel_words(channels: np.ndarray, element: str) -> np.ndarray:
    """(K,) codes with all bits set where ``channels`` (C,) is True, and 0 elsewhere."""
    if element == "binary":
        return _packed(channels[np.newaxis]).astype(np.uint32)
    dtype = code_dtype(element)
    return _filled_up(np.where(channels, ~dtype.type(0), dtype.type(0))[np.newaxis], element, dtype)


def max_pool_codes(x: np.ndarray, words: np.ndarray, window: Window) -> np.ndarray:
    """Max pooling of codes x (N, *S, K) -> (N, *O, K), a bitwise OR for "binary".

    ``words`` (K,), from ``channel_words``, selects channels that are pooled by their smallest code instead.
    """
    x = x ^ words
    join = np.bitwise_or if x.dtype == np.uint32 else np.maximum
    least = 0 if x.dtype.kind == "u" else np.iinfo(x.dtype).min
    if any(map(any, window.padding)):
        x = np.pad(x, ((0, 0), *window.padding, (0, 0)), constant_values=least)
    y = None
    for tap in product(*map(range, window.kernel)):
        starts = [r * d for r, d in zip(tap, window.dilation, strict=True)]
        axes = zip(starts, window.output, window.stride, strict=True)
        part = x[(slice(None), *(slice(start, start + (o - 1) * s + 1, s) for start, o, s in axes))]
        y = part if y is None else join(y, part)
    return np.asarray(y ^ words, like=x)


@ieee
def _finished(sums: np.ndarray, then: Scaled | Thresholded | Requantized) -> np.ndarray:
    def per_channel(numbers: np.ndarray) -> np.ndarray:
        return numbers.reshape(-1, *(1,) * (sums.ndim - 2))  # (Co,) -> (Co, 1, ..., 1)

    if isinstance(then, Thresholded):
        return _packed(_by_group((sums >= per_channel(then.threshold)) != per_channel(then.flip), 1))
    if isinstance(then, Requantized):
        total = sums if then.bias is None else sums + per_channel(then.bias)
        dtype = then.scale.dtype.type
        q = np.rint(total.astype(dtype) * per_channel(then.scale)) + dtype(then.zero_point)
        dtype_of_codes = code_dtype(then.element, then.low)
        return _filled_up(_by_group(_clipped(q, then.low, then.high), 1), then.element, dtype_of_codes)
    y = sums.astype(then.scale.dtype) * per_channel(then.scale)
    if then.factor is not None:
        y = y * then.factor[:, np.newaxis]
    return y if then.bias is None else y + per_channel(then.bias)


def _by_group(x: np.ndarray, groups: int) -> np.ndarray:
    """(N, C, *S) -> (N, *S, G, C/G)"""
    last = np.moveaxis(x, 1, -1)
    return last.reshape(*last.shape[:-1], groups, x.shape[1] // groups)


def _clipped(q: np.ndarray, low: int, high: int) -> np.ndarray:
    q = np.where(q >= low, q, q.dtype.type(low))  # NaN is not
    return np.where(q <= high, q, q.dtype.type(high))


def _filled_up(codes: np.ndarray, element: str, dtype: np.dtype) -> np.ndarray:
    """Codes (N, *S, G, C/G) with zeros up to whole words, as (N, *S, G*K)."""
    filled = np.zeros((*codes.shape[:-1], codes_of(element, codes.shape[-1])), dtype, like=codes)
    filled[..., : codes.shape[-1]] = codes
    return _together(filled)


def _packed(bits: np.ndarray) -> np.ndarray:
    """Truth values (N, *S, G, C/G) as words, (N, *S, G*K): the first channel is the lowest bit."""
    filled = np.zeros((*bits.shape[:-1], 32 * codes_of("binary", bits.shape[-1])), np.bool_, like=bits)
    filled[..., : bits.shape[-1]] = bits
    return _together(np.packbits(filled, axis=-1, bitorder="little").view("<u4"))


def _together(codes: np.ndarray) -> np.ndarray:
    """(N, *S, G, K) -> (N, *S, G*K)"""
    return codes.reshape(*codes.shape[:-2], codes.shape[-2] * codes.shape[-1])


def _values(x: np.ndarray, filters: Filters, zero_point: int) -> np.ndarray:
    """The values that the codes represent, (N, Ci, *I) float64."""
    codes = x.shape[-1] // filters.groups
    split = np.ascontiguousarray(x, like=x).reshape(*x.shape[:-1], filters.groups, codes)  # (N, *I, G, K)
    if filters.element == "binary":
        bits = np.unpackbits(split.astype("<u4").view(np.uint8), axis=-1, bitorder="little")
        values = 2.0 * bits - 1
    else:
        values = split.astype(np.float64) - zero_point
    return np.moveaxis(_together(values[..., : filters.channels]), -1, 1)
