"""Window geometry of convolution and pooling: frozen integers, in any number of dimensions.

A window of R taps slides over an input of I positions, with lo zeros before and hi after it, giving O outputs. On every
axis, tap r of output o reads the input position

    i = o*stride + r*dilation - lo        0 <= o < O,  0 <= r < R;  a position outside 0 <= i < I is padding

so an output spans dilation*(R - 1) + 1 positions (the extent of the kernel), and

    O = (I + lo + hi - dilation*(R - 1) - 1)//stride + 1

One Window contains all sizes. It is created once, when the arguments of an operator are checked, and passed unchanged
to the kernels and the backward pass.

Source: V. Dumoulin, F. Visin, "A guide to convolution arithmetic for deep learning", 2016.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import index
from typing import SupportsIndex

__all__ = [
    "AdaptiveWindow",
    "Window",
    "as_pairs",
    "as_tuple",
    "conv_padding",
    "conv_transpose_window",
    "conv_window",
    "meets",
    "pool_window",
    "shared_padding",
]

_LARGEST = 2**40  # limit of every size, so that the byte counts of realistic arrays fit into 64 bits
PADDING_WORDS = ("valid", "same", "same_upper", "same_lower", "causal")

# Hashable arguments of the builders: one number for all axes, or one entry per axis (for padding, a pair).
Extent = int | tuple[int, ...]
Padding = int | tuple[int | tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Window:
    """All sizes of a convolution or pooling; every tuple has one entry per axis.

    Created by conv_window, conv_transpose_window and pool_window, which check the sizes.
    """

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    output: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    groups: int = 1
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # precomputed: every operator call looks up its plan by window
        sizes = (self.input, self.kernel, self.output, self.stride, self.dilation, self.padding, self.groups)
        object.__setattr__(self, "_hash", hash(sizes))

    def __hash__(self) -> int:
        return self._hash

    @property
    def ndim(self) -> int:
        """Number of axes, without batch and channels."""
        return len(self.input)

    @property
    def taps(self) -> int:
        """Number of kernel positions."""
        return math.prod(self.kernel)


@dataclass(frozen=True, slots=True)
class AdaptiveWindow:
    """Windows that divide an input evenly: output o of O reads the positions o*I//O <= i < ceil((o + 1)*I/O).

    Neighbors may overlap by one position, and their sizes differ by at most one.
    """

    input: tuple[int, ...]
    output: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """Number of axes, without batch and channels."""
        return len(self.input)

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        """Zero on every axis."""
        return ((0, 0),) * len(self.input)

    @property
    def kernel(self) -> tuple[int, ...]:
        """Positions of the largest window on every axis."""
        # o*I % O takes every multiple of gcd(I, O); the largest window starts where it is O - gcd(I, O)
        spans = zip(self.input, self.output, strict=True)
        return tuple(-(-(i + o - math.gcd(i, o)) // o) for i, o in spans)

    @property
    def taps(self) -> int:
        """Positions of the largest window."""
        return math.prod(self.kernel)


@lru_cache(maxsize=4096)
def conv_window(
    input: tuple[int, ...],
    kernel: Extent,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
) -> Window:
    """Return the window of a convolution: O = (I + lo + hi - dilation*(R - 1) - 1)//stride + 1.

    Arguments must be hashable (tuples, not lists); ``input`` sets the number of axes.

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is too small, a tuple has the wrong length, or there is no output.
    """
    input = as_tuple(input, len(input), "input", at_least=1)
    ndim = len(input)
    kernel = as_tuple(kernel, ndim, "kernel", at_least=1)
    stride = as_tuple(stride, ndim, "stride", at_least=1)
    dilation = as_tuple(dilation, ndim, "dilation", at_least=1)
    pairs = as_pairs(padding, ndim)
    groups = as_tuple(groups, 1, "groups", at_least=1)[0]
    output = []
    for axis, (i, r, s, d, (lo, hi)) in enumerate(zip(input, kernel, stride, dilation, pairs, strict=True)):
        last_start = i + lo + hi - d * (r - 1) - 1
        if last_start < 0:
            raise ValueError(
                f"no output on axis {axis}: O = (I + lo + hi - dilation*(R - 1) - 1)//stride + 1 = "
                f"({i} + {lo} + {hi} - {d}*({r} - 1) - 1)//{s} + 1 = {last_start // s + 1} must be at least 1; "
                f"take a larger input or padding, or a smaller kernel or dilation"
            )
        output.append(last_start // s + 1)
    return Window(input, kernel, tuple(output), stride, dilation, pairs, groups)


@lru_cache(maxsize=4096)
def conv_transpose_window(
    size: tuple[int, ...],
    kernel: Extent,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    dilation: Extent = 1,
    groups: int = 1,
) -> Window:
    """Return the window of the convolution whose input gradient is this transposed convolution.

    ``size`` is the extent of the transposed convolution's argument, which is that convolution's output:

        window.output = size
        window.input = (size - 1)*stride - lo - hi + dilation*(R - 1) + output_padding + 1

    With a stride above 1, inputs of several sizes have this output; ``output_padding`` selects one.

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is too small, a tuple has the wrong length, the result would be empty, or
            output_padding >= max(stride, dilation).
    """
    size = as_tuple(size, len(size), "size", at_least=1)
    ndim = len(size)
    kernel = as_tuple(kernel, ndim, "kernel", at_least=1)
    stride = as_tuple(stride, ndim, "stride", at_least=1)
    dilation = as_tuple(dilation, ndim, "dilation", at_least=1)
    extra = as_tuple(output_padding, ndim, "output_padding", at_least=0)
    pairs = as_pairs(padding, ndim)
    groups = as_tuple(groups, 1, "groups", at_least=1)[0]
    extents = []
    for axis, (o, r, s, d, p, (lo, hi)) in enumerate(zip(size, kernel, stride, dilation, extra, pairs, strict=True)):
        if p >= max(s, d):
            raise ValueError(
                f"output_padding={p} on axis {axis} must be less than max(stride, dilation) = max({s}, {d}): "
                f"a larger result needs a larger input; take a smaller output_padding or padding"
            )
        i = (o - 1) * s - lo - hi + d * (r - 1) + p + 1
        if i < 1:
            raise ValueError(
                f"no output on axis {axis}: "
                f"(size - 1)*stride - lo - hi + dilation*(R - 1) + output_padding + 1 = "
                f"({o} - 1)*{s} - {lo} - {hi} + {d}*({r} - 1) + {p} + 1 = {i} must be at least 1; "
                f"take a smaller padding or a larger kernel"
            )
        extents.append(i)
    return Window(tuple(extents), kernel, size, stride, dilation, pairs, groups)


def conv_padding(
    padding: str, input: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    """Return the pairs (low, high) for a padding word in a convolution.

    "valid": none. "same", "same_upper", "same_lower": just enough for O = ceil(I/stride), split as by
    ``shared_padding``; at stride 1 this is PyTorch's "same", at any stride TensorFlow's. "causal": dilation*(R - 1)
    on the low side, so that output o reads no input after o*stride, and O = ceil(I/stride).

    Raises:
        ValueError: padding is not one of these words.
    """
    if padding == "valid":
        return ((0, 0),) * len(input)
    if padding == "causal":
        return tuple((d * (r - 1), 0) for r, d in zip(kernel, dilation, strict=True))
    output = tuple(-(-i // s) for i, s in zip(input, stride, strict=True))
    return shared_padding(padding, input, output, kernel, stride, dilation)


def shared_padding(
    padding: str,
    input: tuple[int, ...],
    output: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[tuple[int, int], ...]:
    """Return the least padding for which ``input`` positions have ``output`` windows, as pairs (low, high):

        lo + hi = max(0, (O - 1)*stride + dilation*(R - 1) + 1 - I)

    The odd element goes to the high side ("same" and "same_upper") or the low side ("same_lower"); for a transposed
    convolution, with ``input`` as its output, "causal" puts all of it on the high side.

    Raises:
        ValueError: padding is not one of these words.
    """
    pairs = []
    for i, o, r, s, d in zip(input, output, kernel, stride, dilation, strict=True):
        total = max(0, (o - 1) * s + d * (r - 1) + 1 - i)
        low = {"same": total // 2, "same_upper": total // 2, "same_lower": total - total // 2, "causal": 0}.get(padding)
        if low is None:
            words = ", ".join(map(repr, PADDING_WORDS))
            raise ValueError(f"padding={padding!r} must be numbers or one of {words}")
        pairs.append((low, total - low))
    return tuple(pairs)


@lru_cache(maxsize=4096)
def pool_window(
    input: tuple[int, ...],
    kernel: Extent,
    stride: Extent | None = None,
    padding: Padding = 0,
    dilation: Extent = 1,
) -> Window:
    """Return the window of a pooling: as for conv_window, but every output must read at least one input position.

    ``stride`` defaults to kernel.

    Raises:
        TypeError: a size is not an integer.
        ValueError: as for conv_window; a padding is more than half of the kernel's extent dilation*(R - 1) + 1;
            or no tap of an output meets the input (a dilated kernel can step over a short one).
    """
    window = conv_window(input, kernel, kernel if stride is None else stride, padding, dilation)
    sizes = zip(window.input, window.kernel, window.output, window.stride, window.dilation, strict=True)
    for axis, ((i, r, o, s, d), (lo, hi)) in enumerate(zip(sizes, window.padding, strict=True)):
        extent = d * (r - 1) + 1
        if max(lo, hi) > extent // 2:
            raise ValueError(
                f"padding={(lo, hi)} on axis {axis} must be at most half of the kernel's extent, "
                f"(dilation*(R - 1) + 1)//2 = ({d}*({r} - 1) + 1)//2 = {extent // 2}; "
                f"take a smaller padding or a larger kernel"
            )
        # Tap 0 is never after the input (hi < extent), so only outputs that start before it need a check.
        for first in range(-lo, min(0, o * s - lo), s):
            if not meets(first, r, d, i):
                taps = range(first, first + extent, d)
                raise ValueError(
                    f"output {(first + lo) // s} on axis {axis} reads padding only: its taps are at "
                    f"{taps[0]}, ..., {taps[-1]} in steps of {d}, outside 0 <= i < {i}; "
                    f"take a smaller padding or dilation"
                )
    return window


def meets(first: int, taps: int, dilation: int, input: int) -> bool:
    """Return whether any of the taps from position ``first`` on reads one of ``input`` positions."""
    inside = first if first >= 0 else first % dilation  # the first tap that is not before the input
    return inside < input and inside <= first + (taps - 1) * dilation


def as_tuple(
    value: SupportsIndex | Sequence[SupportsIndex], ndim: int, name: str, at_least: int | None = None
) -> tuple[int, ...]:
    """Return ``value`` as one int per axis: an int or a sequence of one is repeated, others need ``ndim`` entries.

    Raises:
        TypeError: an entry is not an integer.
        ValueError: the number of entries is not ``ndim``, or an entry is less than ``at_least`` or above 2**40.
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) not in (1, ndim):
            raise ValueError(f"{name}={value!r} has {len(value)} entries, needs one int or {ndim} of them")
        numbers = tuple(_as_int(entry, value, name) for entry in value) * (ndim if len(value) == 1 else 1)
    else:
        numbers = (_as_int(value, value, name),) * ndim
    if at_least is not None and numbers and min(numbers) < at_least:
        raise ValueError(f"{name}={value!r} must be at least {at_least}")
    if numbers and max(numbers) > _LARGEST:
        raise ValueError(f"{name}={value!r} must be at most 2**40")
    return numbers


def as_pairs(
    padding: SupportsIndex | Sequence[SupportsIndex | Sequence[SupportsIndex]], ndim: int
) -> tuple[tuple[int, int], ...]:
    """Return ``padding`` as one pair (low, high) per axis.

    An int pads all sides. Each of the ``ndim`` entries of a sequence is an int (both sides) or a pair; a single entry
    is used for all axes.

    Raises:
        TypeError: an entry is not an integer.
        ValueError: there are not ``ndim`` entries, a pair does not have two, or a padding is negative.
    """
    if isinstance(padding, Sequence) and not isinstance(padding, str):
        if len(padding) not in (1, ndim):
            raise ValueError(
                f"padding={padding!r} has {len(padding)} entries, "
                f"needs one int, or {ndim} entries: ints or pairs (low, high)"
            )
        entries = tuple(padding) * (ndim if len(padding) == 1 else 1)
    else:
        entries = (padding,) * ndim
    pairs = []
    for entry in entries:
        low, high = as_tuple(entry, 2, "padding", at_least=0)
        pairs.append((low, high))
    return tuple(pairs)


def _as_int(entry: object, value: object, name: str) -> int:
    try:
        if isinstance(entry, bool):
            raise TypeError
        return index(entry)  # type: ignore[arg-type]  # the except clause is the check
    except TypeError:
        raise TypeError(f"{name}={value!r} must be an int, or ints in a tuple") from None
