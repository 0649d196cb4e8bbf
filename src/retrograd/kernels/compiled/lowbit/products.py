"""Convolutions and matrix products of low-bit operands, exact in int32, and what becomes of their sums.

Tap by tap through a table of addresses, as ``convolution/direct.py``: no copy of the input. A tap in the padding reads
words of zeros, whose values are not 0; what they add is known for every set of such taps, and the sums of a pixel start
from its opposite.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ....specs.geometry import Window
from ....specs.low_bit import Filters, Requantized, Scaled, Thresholded, code_dtype, codes_of, words_of
from ..convolution.plan import three_axes, three_strides
from ..machine.integer import BYTES, WORD, integer_tile, offset
from ..machine.launch import kernel
from ..machine.scratch import aligned, per_thread
from ..memory.channels_last import usual_strides
from .filters import in_phases
from .products_plan import Products, products_plan

__all__ = ["lowbit_conv"]

_products = kernel("lowbit.products.products")
_MOST_MADE = 64
_SIGNED = 128  # from codes in int8 to those in uint8
_WIDEST = 4 * 64  # bytes of the vectors of a panel


def lowbit_conv(
    x: np.ndarray,
    filters: Filters,
    window: Window,
    then: Scaled | Thresholded | Requantized | None = None,
    zero_point: int = 0,
) -> np.ndarray:
    if x.dtype == np.int8:
        x, zero_point = x.view(np.uint8) ^ _SIGNED, zero_point + _SIGNED
    result, dtype = _result(then)
    plan, memory, row = _plan(
        window, len(x), filters.element, filters.transposed, filters.groups, filters.channels, filters.outputs, result
    )
    if result in _CODES:  # bits are set one by one; other codes are 0 beyond the channels
        y = target = (np.zeros if result == "t" or memory[-1] > filters.outputs else np.empty)(memory, dtype)
    else:
        target = aligned(prod(memory), dtype.char).reshape(memory)
        y = target.transpose(0, -1, *range(1, target.ndim - 1))
    if plan.tasks == 0:
        return y
    scale = bias = factor = None
    numbers: np.dtype[Any] = np.dtype(np.float32)
    if isinstance(then, Scaled):
        (scale, bias, factor), numbers = then, dtype
    elif isinstance(then, Thresholded):
        (scale, bias), numbers = then, np.dtype(np.int32)
    elif then is not None:
        scale, bias = then.scale, np.array([then.zero_point, then.low, then.high])
    _products["f"](
        plan.tasks,
        _bytes(x, x.dtype),
        in_phases(filters, plan.taps),
        _starts(plan, filters, window, zero_point, then),
        _zero_bytes(row),
        target.view(np.uint8),
        *(_bytes(one, numbers) for one in (scale, bias, factor)),
        int(factor is not None),
        plan.words,
        per_thread(plan.scratch, "i8"),
        plan.scratch,
    )
    return y


_NOTHING = np.zeros(1, np.uint8)


def _bytes(x: np.ndarray | None, dtype: np.dtype[Any]) -> np.ndarray:
    """The memory of an array of this type, made contiguous; something if there is none."""
    return _NOTHING if x is None else np.ascontiguousarray(x, dtype, like=x).view(np.uint8)


@lru_cache(maxsize=64)
def _zero_bytes(count: int) -> np.ndarray:
    """Words of zeros for a row of the input, and for the widest row of filters."""
    return np.zeros(max(count, _WIDEST), np.uint8)


def _result(then: Scaled | Thresholded | Requantized | None) -> tuple[str, np.dtype[Any]]:
    """The letters of the result that the micro-kernel writes, see integer.py, and its dtype."""
    if isinstance(then, Scaled):
        more = ("" if then.factor is None else "k") + ("" if then.bias is None else "b")
        return then.scale.dtype.char + more, then.scale.dtype
    if isinstance(then, Thresholded):
        return "t", code_dtype("binary")
    if isinstance(then, Requantized):
        return "b" if then.element == "int8" else "h", code_dtype(then.element, then.low)
    return "i", np.dtype(np.int32)


_CODES = {"t": "binary", "b": "int8", "h": "int16"}  # the element of results that are codes


@lru_cache(maxsize=1024)
def _plan(
    window: Window, batch: int, element: str, transposed: bool, groups: int, channels: int, outputs: int, result: str
) -> tuple[Products, tuple[int, ...], int]:
    """The plan, the extents of the result in the order of memory, and the bytes of a pixel that is read."""
    words = words_of(element, channels)
    source, target = (window.output, window.input) if transposed else (window.input, window.output)
    last, size = codes_of(_CODES[result], outputs) if result in _CODES else outputs, BYTES.get(result[0], WORD)
    row = groups * words * WORD
    plan = products_plan(
        three_axes(window),
        transposed,
        batch,
        groups,
        outputs // groups,
        element,
        words,
        three_strides(usual_strides(batch, row, source, 1)),
        three_strides(usual_strides(batch, last, target, size)),
        last * size,
        result,
    )
    return plan, (batch, *target, last), row


def _starts(
    plan: Products, filters: Filters, window: Window, zero_point: int, then: Scaled | Thresholded | Requantized | None
) -> np.ndarray:
    """The initial sums for each class of pixels and each channel, int32 [class][group][column], cached in ``filters``.

    start[class, k] = bias[k] + sum over taps of sums[tap, k] * (read if it is inside of the input, else skipped)

    and for binary also the number of products: each is 1, less 2 where bits differ.
    """
    bias = then.bias if isinstance(then, Requantized) else None
    key = window, zero_point
    known, rows = filters.made.get(key, (None, None))
    if rows is not None and (bias is None) == (known is None) and (bias is None or np.array_equal(bias, known)):
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
    rows = np.zeros((len(start), filters.groups, integer_tile(columns).columns), np.int32)
    rows[..., :columns] = start.astype(np.int64).reshape(len(start), filters.groups, columns)
    if len(filters.made) >= _MOST_MADE:
        filters.made.clear()
    filters.made[key] = None if bias is None else bias.copy(), rows
    return rows
