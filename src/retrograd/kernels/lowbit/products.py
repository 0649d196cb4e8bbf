"""Convolutions and matrix products of low-bit operands, exact in int32, and what becomes of their sums.

Tap by tap through a table of addresses, as ``convolution/direct.py``: no copy of the input. A tap in the padding reads
words of zeros, whose values are not 0; what they add is known for every set of such taps, and the sums of a pixel start
from its opposite.
"""

from __future__ import annotations

from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np

from ...codes import Filters, Requantized, Scaled, Thresholded, code_dtype, codes_of, words_of
from ...geometry import Window
from ..convolution.plan import three_axes, three_strides
from ..machine.integer import WORD, integer_tile, offset
from ..machine.launch import kernel
from ..machine.scratch import aligned, per_thread
from ..memory.channels_last import usual_strides
from ..memory.packing import zeros_of
from .filters import in_phases
from .products_plan import Products, products_plan

__all__ = ["lowbit_conv"]

_products = kernel("lowbit.products.products")
_MOST_MADE = 64
_SIGNED = 128  # from codes in int8 to those in uint8
_WIDEST = 4 * 64  # bytes of the vectors of a panel
_PAST = 16  # numbers that the kernel may read past the end: a register


def lowbit_conv(
    x: np.ndarray, filters: Filters, window: Window, then: Scaled | Thresholded | Requantized | None = None,
    zero_point: int = 0,
) -> np.ndarray:  # fmt: skip
    if x.dtype == np.int8:
        x, zero_point = x.view(np.uint8) ^ _SIGNED, zero_point + _SIGNED
    finish, codes, dtype = _finish(then)
    plan, memory, row = _plan(
        window, len(x), filters.element, filters.transposed, filters.groups, filters.channels, filters.outputs,
        finish, codes, dtype.itemsize,
    )  # fmt: skip
    if finish in ("sums", "scaled"):
        y = aligned(prod(memory), dtype.char).reshape(memory)
        result = y.transpose(0, -1, *range(1, y.ndim - 1))
    else:
        result = y = np.zeros(memory, dtype)
    if plan.tasks == 0:
        return result
    scale, bias, factor, threshold, flip = None, None, None, _NO_WORDS, _NO_BYTES
    if isinstance(then, Thresholded):
        threshold = np.ascontiguousarray(then.threshold, np.int32)
        flip = np.ascontiguousarray(then.flip).view(np.uint8)
    elif then is not None:
        scale, bias, factor = then.scale, *(then[1:] if isinstance(then, Scaled) else (None, None))
    number = "f" if scale is None else scale.dtype.char
    scale, bias = _dense(scale, filters.outputs, number), _dense(bias, filters.outputs, number)
    _products[number](
        plan.tasks, np.ascontiguousarray(x).view(np.uint8), in_phases(filters, plan.taps),
        _starts(plan, filters, window, zero_point, then), _zero_bytes(row), y.view(np.uint8), scale, bias,
        _ones(number) if factor is None else np.ascontiguousarray(factor), int(factor is not None), threshold, flip,
        plan.words, per_thread(plan.scratch, "i8"), plan.scratch,
    )  # fmt: skip
    return result


_NO_WORDS, _NO_BYTES = np.zeros(1, np.int32), np.zeros(1, np.uint8)


@lru_cache(maxsize=64)
def _zero_bytes(count: int) -> np.ndarray:
    """Words of zeros for a row of the input, and for the widest row of filters."""
    return np.zeros(max(count, _WIDEST), np.uint8)


@cache
def _ones(dtype: str) -> np.ndarray:
    return np.ones(1, dtype)


def _dense(numbers: np.ndarray | None, count: int, dtype: str) -> np.ndarray:
    return zeros_of(count, dtype) if numbers is None else np.ascontiguousarray(numbers)


def _finish(then: Scaled | Thresholded | Requantized | None) -> tuple[str, tuple[int, int, int], np.dtype[Any]]:
    """The name in FINISHES; zero point and limits of codes; the type of the result."""
    if isinstance(then, Scaled):
        return "scaled", (0, 0, 0), then.scale.dtype
    if isinstance(then, Thresholded):
        return "bits", (0, 0, 0), code_dtype("binary")
    if isinstance(then, Requantized):
        name = "bytes" if then.element == "int8" else "shorts"
        return name, (then.zero_point, then.low, then.high), code_dtype(then.element, then.low)
    return "sums", (0, 0, 0), np.dtype(np.int32)


_ELEMENTS = {"bits": "binary", "bytes": "int8", "shorts": "int16"}  # of the codes that are written


@lru_cache(maxsize=1024)
def _plan(
    window: Window, batch: int, element: str, transposed: bool, groups: int, channels: int, outputs: int, finish: str,
    codes: tuple[int, int, int], size: int,
) -> tuple[Products, tuple[int, ...], int]:  # fmt: skip
    """The plan, the extents of the result in the order of memory, and the bytes of a pixel that is read."""
    words = words_of(element, channels)
    source, target = (window.output, window.input) if transposed else (window.input, window.output)
    last = codes_of(_ELEMENTS[finish], outputs) if finish in _ELEMENTS else outputs
    row = groups * words * WORD
    plan = products_plan(
        three_axes(window), transposed, batch, groups, outputs // groups, element, words,
        three_strides(usual_strides(batch, row, source, 1)), three_strides(usual_strides(batch, last, target, size)),
        last * size, size, finish, codes,
    )  # fmt: skip
    return plan, (batch, *target, last), row


def _starts(
    plan: Products, filters: Filters, window: Window, zero_point: int, then: Scaled | Thresholded | Requantized | None
) -> np.ndarray:
    """What the sums of each class of pixels and channel start from, int32 [class][group][column], kept for next time.

    start[class, k] = bias[k] + sum over taps of sums[tap, k] * (read if it is inside of the input, else skipped)

    and for binary the number of products besides: each is 1, less 2 where bits differ.
    """
    bias = then.bias if isinstance(then, Requantized) else None
    key = window, zero_point
    known, rows = filters.made.get(key, (None, None))
    if rows is not None and known is bias:
        return rows
    moved = offset(filters.element)
    read, skipped = {"binary": (0, 1), "int8": (moved - zero_point, moved), "int16": (0, 0)}[filters.element]
    sums = filters.sums[list(plan.taps)]
    start = read * (plan.inside @ sums) + skipped * (plan.outside @ sums)
    if filters.element == "binary":
        start += filters.channels * (plan.inside + plan.outside).sum(axis=1, keepdims=True)
    if bias is not None:
        start += bias
    columns = filters.outputs // filters.groups
    shape = len(start), filters.groups, integer_tile(filters.element, columns).columns
    rows = np.zeros(prod(shape) + _PAST, np.int32)
    rows[:-_PAST].reshape(shape)[..., :columns] = start.astype(np.int64).reshape(*shape[:-1], columns)
    if len(filters.made) >= _MOST_MADE:
        filters.made.clear()
    filters.made[key] = bias, rows
    return rows
