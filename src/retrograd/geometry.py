"""Window geometry of convolution and pooling: integers only, frozen, in any number of dimensions.

A window of R taps walks over an input of I positions, with lo zeros in front and hi behind, and makes O
outputs. On every axis, tap r of output o reads the input position

    i = o*stride + r*dilation - lo        0 <= o < O,  0 <= r < R;  a position outside 0 <= i < I is padding

so an output needs dilation*(R - 1) + 1 positions (the extent of the kernel), and

    O = (I + lo + hi - dilation*(R - 1) - 1)//stride + 1

One Window holds every size. It is made once, when the arguments of an operator are checked, and handed on
unchanged to the kernels and to the backward pass, so "which size was the input?" is never asked again.

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
    "AdaptiveWindow", "Window", "as_pairs", "as_tuple", "conv_padding", "conv_transpose_window", "conv_window",
    "meets", "pool_window", "shared_padding", "suits",
]  # fmt: skip

# How a convolution may be computed, in the compiled set or in the textbook: what Window.algorithm can be.
# "exact" is "auto" without transforms; NEEDS says what a convolution has to be for those that cannot compute every one.
ALGORITHMS = (
    "auto", "exact", "direct", "depthwise", "pointwise", "winograd", "singa", "mxnet", "pytorch", "numpy_ml",
)  # fmt: skip
NEEDS = {
    "winograd": (
        "3x3 taps (3-D: along the last two axes), stride 1, dilation 1, one group, and at least 2 inputs and 2 outputs "
        "on each of those two axes; or a transposed convolution of 4x4 taps with stride 2, dilation 1, one group"
    ),
    "depthwise": "as many groups as input channels and as output channels",
    "pointwise": "one tap, and a group of more than one channel (for others there is 'depthwise')",
}
_LARGEST = 2**40  # of all sizes, so that a product of two and an element's bytes fits into 64 bits, mostly
PADDING_WORDS = ("valid", "same", "same_upper", "same_lower", "causal")

# What the builders take, hashable: one number for all axes, or one entry per axis (of padding: a pair).
Extent = int | tuple[int, ...]
Padding = int | tuple[int | tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Window:
    """All sizes of a convolution or pooling; every tuple has one entry per axis.

    ``algorithm`` and ``workspace`` (bytes of temporary memory at most, None without limit) say how a convolution is to
    be computed, in both directions; what is computed does not depend on them.

    Made by conv_window, conv_transpose_window and pool_window, which check the sizes.
    """

    input: tuple[int, ...]
    kernel: tuple[int, ...]
    output: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    groups: int = 1
    algorithm: str = "auto"
    workspace: int | None = None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # a window is looked up in tables of plans at every call of an operator
        sizes = (self.input, self.kernel, self.output, self.stride, self.dilation, self.padding, self.groups)
        object.__setattr__(self, "_hash", hash((sizes, self.algorithm, self.workspace)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def ndim(self) -> int:
        """Number of axes, batch and channels not counted."""
        return len(self.input)

    @property
    def taps(self) -> int:
        """Number of kernel positions."""
        return math.prod(self.kernel)


def suits(algorithm: str, window: Window, inputs: int, outputs: int, transposed: bool = False) -> bool:
    """Whether a convolution of ``inputs`` to ``outputs`` channels has what ``algorithm`` needs, see NEEDS.

    ``transposed``: it is the window's input gradient that is asked for.
    """
    depthwise = window.groups == inputs == outputs
    if algorithm == "winograd":
        phases = window.kernel == (4, 4) and window.stride == (2, 2) and min(window.input) > 1
        if transposed and phases and window.dilation == (1, 1) and window.groups == 1:
            return True
        return (
            window.ndim in (2, 3) and window.kernel[-2:] == (3, 3) and window.groups == 1
            and max(window.stride) == max(window.dilation) == 1
            and min(*window.output[-2:], *window.input[-2:]) > 1
        )  # fmt: skip
    if algorithm == "depthwise":
        return depthwise
    return algorithm != "pointwise" or (window.taps == 1 and not depthwise)


@dataclass(frozen=True, slots=True)
class AdaptiveWindow:
    """Windows that share an input out evenly: output o of O reads the positions o*I//O <= i < ceil((o + 1)*I/O).

    Neighbours may overlap by one position, and their sizes differ by at most one.
    """

    input: tuple[int, ...]
    output: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """Number of axes, batch and channels not counted."""
        return len(self.input)

    @property
    def padding(self) -> tuple[tuple[int, int], ...]:
        """None, on every axis."""
        return ((0, 0),) * len(self.input)

    @property
    def kernel(self) -> tuple[int, ...]:
        """Positions of the largest window on every axis."""
        # o*I % O takes every multiple of gcd(I, O); the largest window begins where it is O - gcd(I, O)
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
    algorithm: str = "auto",
    workspace: int | None = None,
) -> Window:
    """The window of a convolution: O = (I + lo + hi - dilation*(R - 1) - 1)//stride + 1.

    Arguments must be hashable (tuples, not lists); ``input`` sets the number of axes.

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is too small, a tuple has the wrong length, or there would be no output.
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
        room = i + lo + hi - d * (r - 1) - 1
        if room < 0:
            raise ValueError(
                f"no output on axis {axis}: O = (I + lo + hi - dilation*(R - 1) - 1)//stride + 1 = "
                f"({i} + {lo} + {hi} - {d}*({r} - 1) - 1)//{s} + 1 = {room // s + 1} must be at least 1; "
                f"take a larger input or padding, or a smaller kernel or dilation"
            )
        output.append(room // s + 1)
    return Window(input, kernel, tuple(output), stride, dilation, pairs, groups, algorithm, workspace)


@lru_cache(maxsize=4096)
def conv_transpose_window(
    size: tuple[int, ...],
    kernel: Extent,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    dilation: Extent = 1,
    groups: int = 1,
    algorithm: str = "auto",
    workspace: int | None = None,
) -> Window:
    """The window of the convolution whose input gradient is this transposed convolution.

    ``size`` is the extent of the transposed convolution's argument, which is that convolution's output:

        window.output = size
        window.input = (size - 1)*stride - lo - hi + dilation*(R - 1) + output_padding + 1

    With a stride above 1, inputs of several sizes have this output; ``output_padding`` says which is meant.

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is too small, a tuple has the wrong length, the result would have no position, or
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
    for axis, (o, r, s, d, p, (lo, hi)) in enumerate(
        zip(size, kernel, stride, dilation, extra, pairs, strict=True)
    ):
        if p >= max(s, d):
            raise ValueError(
                f"output_padding={p} on axis {axis} must be less than max(stride, dilation) = max({s}, {d}): "
                f"larger sizes belong to a longer output; take a smaller output_padding or padding"
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
    return Window(tuple(extents), kernel, size, stride, dilation, pairs, groups, algorithm, workspace)


def conv_padding(
    padding: str, input: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    """The pairs (low, high) that a word stands for, in a convolution.

    "valid": none. "same", "same_upper", "same_lower": just enough for O = ceil(I/stride), shared as by
    ``shared_padding``; at stride 1 this is PyTorch's "same", at any stride TensorFlow's. "causal": dilation*(R - 1)
    low, so that output o reads no input behind o*stride, and O = ceil(I/stride).

    Raises:
        ValueError: padding is no such word.
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
    """The least padding with which ``input`` positions have ``output`` windows, as pairs (low, high):

        lo + hi = max(0, (O - 1)*stride + dilation*(R - 1) + 1 - I)

    An odd one goes to the high side ("same" and "same_upper") or to the low side ("same_lower"); in a transposed
    convolution, whose output ``input`` is, "causal" puts all of it on the high side.

    Raises:
        ValueError: padding is no such word.
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
    """The window of a pooling: sizes as conv_window's, and every output reads at least one input position.

    Without ``stride`` the windows stand side by side: stride = kernel.

    Raises:
        TypeError: a size is not an integer.
        ValueError: as conv_window; a padding is more than half of the kernel's extent dilation*(R - 1) + 1;
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
        # Tap 0 never stands behind the input (hi < extent): outputs that begin in front of it are in doubt.
        for first in range(-lo, min(0, o * s - lo), s):
            if not meets(first, r, d, i):
                taps = range(first, first + extent, d)
                raise ValueError(
                    f"output {(first + lo) // s} on axis {axis} reads padding only: its taps stand at "
                    f"{taps[0]}, ..., {taps[-1]} in steps of {d}, outside 0 <= i < {i}; "
                    f"take a smaller padding or dilation"
                )
    return window


def meets(first: int, taps: int, dilation: int, input: int) -> bool:
    """Whether any of the taps that stand at ``first`` and behind it reads one of ``input`` positions."""
    inside = first if first >= 0 else first % dilation  # the first one that does not stand in front of the input
    return inside < input and inside <= first + (taps - 1) * dilation


def as_tuple(
    value: SupportsIndex | Sequence[SupportsIndex], ndim: int, name: str, at_least: int | None = None
) -> tuple[int, ...]:
    """``value`` as one int per axis: an int, or the one entry of a sequence, is repeated, else it must have ``ndim``.

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
    """``padding`` as one pair (low, high) per axis.

    An int pads all sides. In a sequence each of the ``ndim`` entries is an int (both sides) or a pair; one entry alone
    serves all axes.

    Raises:
        TypeError: an entry is not an integer.
        ValueError: there are not ``ndim`` entries, a pair has not two, or a padding is negative.
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
        return index(entry)  # type: ignore[arg-type]  # the refusal below is the check
    except TypeError:
        raise TypeError(f"{name}={value!r} must be an int, or ints in a tuple") from None
