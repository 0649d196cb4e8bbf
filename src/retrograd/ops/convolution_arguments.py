"""The arguments of convolutions, checked once and brought into the one Window that says everything.

Both functions are cached: what they check depends on shapes and options alone.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..engine.grad_mode import thread
from ..engine.tensor import Tensor
from ..geometry import (
    ALGORITHMS,
    NEEDS,
    Window,
    as_pairs,
    as_tuple,
    conv_padding,
    conv_transpose_window,
    conv_window,
    shared_padding,
    suits,
)
from .dtype import require_same
from .padding import Pairs

Extent = int | tuple[int, ...]
Padding = int | str | tuple[int, ...] | tuple[tuple[int, int], ...]
Sizes = tuple[int, ...]

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def check_operands(name: str, x: Tensor, w: Tensor, b: Tensor | None) -> tuple[Sizes, Any]:
    """Shapes of x and b, once all operands are known to be Tensors of one type: floating-point or int64."""
    try:
        dtype = x.array.dtype
        fits = dtype is w.array.dtype and dtype.kind == "f" and (b is None or b.array.dtype is dtype)
    except AttributeError:
        fits = False
    if not fits:
        require_same(name, "x", x, "w", w, True)
        if b is not None:
            require_same(name, "w", w, "b", b, True)
    return x.array.shape, None if b is None else b.array.shape


@lru_cache(maxsize=4096)
def conv_arguments(
    name: str,
    ndim: int,
    xs: Sizes,
    ws: Sizes,
    bs: Sizes | None,
    stride: Extent,
    padding: Padding,
    dilation: Extent,
    groups: int,
    padding_mode: str = "zeros",
    algorithm: str = "auto",
    workspace: int | None = None,
) -> tuple[Window, Pairs | None]:
    """The window of a checked convolution, and by how much x is to be extended before it if not with zeros."""
    _check_ranks(name, ndim, xs, ws, groups)
    check_choices(name, padding_mode, algorithm)
    channels = xs[-ndim - 1]
    if channels != ws[1] * groups:
        raise ValueError(
            f"{name}: x has {channels} channels, w expects {ws[1]} x groups {groups} = {ws[1] * groups}; "
            f"x.shape={xs}, w.shape={ws}"
        )
    if ws[0] % groups:
        raise ValueError(f"{name}: w.shape={ws} makes {ws[0]} channels, which groups={groups} does not divide")
    _check_bias(name, bs, ws[0], ws)
    size, kernel = xs[-ndim:], ws[2:]
    try:
        steps, spread = as_tuple(stride, ndim, "stride", 1), as_tuple(dilation, ndim, "dilation", 1)
        if isinstance(padding, str):
            pairs = conv_padding(padding, size, kernel, steps, spread)
        else:
            pairs = as_pairs(padding, ndim)
        window = conv_window(size, kernel, steps, pairs, spread, groups, algorithm, workspace)
        _check_needs(window, channels, ws[0])
        if padding_mode == "zeros" or not any(map(any, pairs)):
            return window, None
        _check_extension(padding_mode, size, pairs)
        longer = tuple(i + low + high for i, (low, high) in zip(size, pairs, strict=True))
        return conv_window(longer, kernel, steps, 0, spread, groups, algorithm, workspace), ((0, 0), (0, 0), *pairs)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}; x.shape={xs}, w.shape={ws}") from None


@lru_cache(maxsize=4096)
def conv_transpose_arguments(
    name: str,
    ndim: int,
    xs: Sizes,
    ws: Sizes,
    bs: Sizes | None,
    stride: Extent,
    padding: Padding,
    output_padding: Extent,
    dilation: Extent,
    groups: int,
    padding_mode: str = "zeros",
    output_size: Sizes | None = None,
    adj: Extent | None = None,
    target_shape: Extent | None = None,
    algorithm: str = "auto",
    workspace: int | None = None,
) -> tuple[Window, Pairs | None]:
    """The window of the convolution whose input gradient a checked transposed convolution is, and the extension of x.

    What decides the extents O of the output, and with them the window:

        padding in numbers, "valid"       O = (I - 1)*stride - lo - hi + dilation*(R - 1) + output_padding + 1
        "same", "same_upper", ..._lower,  O = I*stride, as of TensorFlow's and ONNX's; lo + hi is the rest, shared as of
        "causal"                          ``geometry.shared_padding``: with "causal", x[i] adds to no y[o], o < i*stride
        output_size                       the O wanted, of those that this padding and stride leave open
        target_shape                      the O wanted, any that lo + hi >= 0 leads to; an odd one goes to the low side
    """
    _check_ranks(name, ndim, xs, ws, groups)
    check_choices(name, padding_mode, algorithm)
    channels = xs[-ndim - 1]
    if channels != ws[0]:
        raise ValueError(f"{name}: x has {channels} channels, w expects {ws[0]}; x.shape={xs}, w.shape={ws}")
    if channels % groups:
        raise ValueError(f"{name}: x has {channels} channels, which groups={groups} does not divide; x.shape={xs}")
    _check_bias(name, bs, ws[1] * groups, ws)
    size, kernel = xs[-ndim:], ws[2:]
    try:
        steps, spread = as_tuple(stride, ndim, "stride", 1), as_tuple(dilation, ndim, "dilation", 1)
        extra = one_name(output_padding, adj, ndim)
        padding = 0 if padding == "valid" else padding
        if target_shape is not None:
            check_alone(ndim, padding, extra, output_size)
            pairs = _target_padding(size, as_tuple(target_shape, ndim, "target_shape", 1), kernel, steps, spread)
        elif isinstance(padding, str):
            check_word(padding, extra)
            most = tuple(i * s for i, s in zip(size, steps, strict=True))
            least = tuple((i - 1) * s + 1 for i, s in zip(size, steps, strict=True))
            wanted = most if output_size is None else _chosen(output_size, xs, least, most)
            pairs = shared_padding(padding, wanted, size, kernel, steps, spread)
            extra = _rest(size, wanted, kernel, steps, spread, pairs)
        else:
            pairs = as_pairs(padding, ndim)
            if output_size is not None:
                if any(extra):
                    raise ValueError(f"output_size={output_size} and output_padding={extra} are given; leave one out")
                least = tuple(-rest for rest in _rest(size, (0,) * ndim, kernel, steps, spread, pairs))
                most = tuple(o + s - 1 for o, s in zip(least, steps, strict=True))
                extra = _rest(size, _chosen(output_size, xs, least, most), kernel, steps, spread, pairs)
        options = spread, groups, algorithm, workspace
        window = conv_transpose_window(size, kernel, steps, pairs, extra, *options)
        extension = () if padding_mode == "zeros" else _seen(window)
        _check_needs(window, ws[1] * groups, channels, transposed=True)
        if not any(map(any, extension)):
            return window, None
        _check_extension(padding_mode, size, extension)
        size = tuple(before + i + after for i, (before, after) in zip(size, extension, strict=True))
        lows = tuple(low + before * s for (low, _), (before, _), s in zip(pairs, extension, steps, strict=True))
        rests = _rest(size, window.input, kernel, steps, spread, tuple((low, 0) for low in lows))
        pairs = tuple((low, max(0, -rest)) for low, rest in zip(lows, rests, strict=True))
        extra = tuple(max(0, rest) for rest in rests)
        return conv_transpose_window(size, kernel, steps, pairs, extra, *options), ((0, 0), (0, 0), *extension)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}; x.shape={xs}, w.shape={ws}") from None


def _seen(window: Window) -> Pairs:
    """How many positions before and after the argument of a transposed convolution its output can see:

        y[o] = sum over r and all integers i with i*stride + r*dilation - lo = o of x[i] w[r]

    reads i from (lo - dilation*(R - 1))/stride, rounded up, to (O - 1 + lo)/stride, rounded down.
    """
    pairs = []
    sizes = zip(window.output, window.input, window.kernel, window.stride, window.dilation, window.padding, strict=True)
    for i, o, r, s, d, (low, _) in sizes:
        pairs.append((max(0, (d * (r - 1) - low) // s), max(0, (o - 1 + low) // s - (i - 1))))
    return tuple(pairs)


def _rest(size: Sizes, output: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes, pairs: Pairs) -> Sizes:
    """By how much ``output`` is longer than (I - 1)*stride - lo - hi + dilation*(R - 1) + 1: the output_padding."""
    sizes = zip(size, output, kernel, stride, dilation, pairs, strict=True)
    return tuple(o - ((i - 1) * s - low - high + d * (r - 1) + 1) for i, o, r, s, d, (low, high) in sizes)


def _target_padding(size: Sizes, target: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Pairs:
    """As MXNet's InferPad, which says it as pad = (total + 1)//2 on both sides and adj = total % 2 positions more."""
    pairs = []
    for axis, (i, o, r, s, d) in enumerate(zip(size, target, kernel, stride, dilation, strict=True)):
        total = (i - 1) * s + d * (r - 1) + 1 - o
        if total < 0:
            raise ValueError(
                f"target_shape={target} is too large on axis {axis}: the most is (I - 1)*stride + dilation*(R - 1) + 1 "
                f"= ({i} - 1)*{s} + {d}*({r} - 1) + 1 = {total + o}"
            )
        pairs.append(((total + 1) // 2, total // 2))
    return tuple(pairs)


def check_alone(ndim: int, padding: Padding, extra: Sizes, output_size: Sizes | None = None) -> None:
    """Refuse what contradicts a target_shape.

    Raises:
        ValueError: there is another one of what decides the extents of the output.
    """
    others = {"output_size": output_size is not None, "output_padding or adj": any(extra)}
    others["padding"] = isinstance(padding, str) or any(map(any, as_pairs(padding, ndim)))
    for other, given in others.items():
        if given:
            raise ValueError(f"target_shape is given, which decides {other}, too; leave one of them out")


def check_word(padding: str, extra: Sizes) -> None:
    """Refuse an output_padding beside a word for the padding, but "valid".

    Raises:
        ValueError: output_padding is not 0.
    """
    if any(extra):
        raise ValueError(
            f"output_padding={extra} and padding={padding!r} contradict each other: the word means O = I*stride; "
            f"leave output_padding out, or give output_size"
        )


def one_name(output_padding: int | Sequence[int], adj: int | Sequence[int] | None, ndim: int) -> Sizes:
    """output_padding, under PyTorch's name or MXNet's.

    Raises:
        TypeError: it is no integer.
        ValueError: both are given, or it is negative.
    """
    extra = as_tuple(output_padding, ndim, "output_padding", 0)
    if adj is None:
        return extra
    if any(extra):
        raise ValueError(f"adj={adj} and output_padding={output_padding} are two names of one number; give one")
    return as_tuple(adj, ndim, "adj", 0)


def _chosen(output_size: Sizes, xs: Sizes, least: Sizes, most: Sizes) -> Sizes:
    """The extents of an output_size, which may be the whole shape of the output, if they are possible."""
    ndim = len(least)
    wanted = output_size[-ndim:] if isinstance(output_size, tuple) and len(output_size) == len(xs) else output_size
    if not isinstance(wanted, tuple) or len(wanted) != ndim:
        raise ValueError(f"output_size={output_size} needs {ndim} extents, or {len(xs)} for the whole shape")
    extents = as_tuple(wanted, ndim, "output_size")
    if any(not low <= o <= high for o, low, high in zip(extents, least, most, strict=True)):
        raise ValueError(
            f"output_size={extents} is impossible; for an input of extents {xs[-ndim:]} it may be {least} to {most}"
        )
    return extents


def _check_extension(mode: str, size: Sizes, pairs: Pairs) -> None:
    """What ``ops.padding.Extend`` can take from x: no more than is there."""
    for axis, (i, pair) in enumerate(zip(size, pairs, strict=True)):
        most = {"reflect": i - 1, "replicate": max(pair), "circular": i}[mode]
        if max(pair) > most:
            raise ValueError(
                f"padding_mode={mode!r} must add {pair} positions to axis {axis} of {i}, and can add at most {most} "
                f"on a side; take a larger input or a smaller padding or kernel, or padding_mode='zeros'"
            )


def check_choices(name: str, padding_mode: Any, algorithm: Any) -> None:
    """Refuse a padding mode or an algorithm that is not known.

    Raises:
        ValueError: it is not.
    """
    if padding_mode not in PADDING_MODES:
        raise ValueError(f"{name}: padding_mode={padding_mode!r} must be one of {', '.join(PADDING_MODES)}")
    if algorithm not in ALGORITHMS:
        raise ValueError(f"{name}: algorithm={algorithm!r} must be one of {', '.join(ALGORITHMS)}")


def _check_needs(window: Window, inputs: int, outputs: int, transposed: bool = False) -> None:
    """``inputs`` and ``outputs``: channels of the convolution, of which a transposed one is the input gradient."""
    algorithm = window.algorithm
    if algorithm in NEEDS and not suits(algorithm, window, inputs, outputs, transposed):
        raise ValueError(
            f"algorithm={algorithm!r} needs {NEEDS[algorithm]}; here kernel={window.kernel}, stride={window.stride}, "
            f"dilation={window.dilation}, groups={window.groups}, channels {inputs} and {outputs}, positions "
            f"{window.input} and {window.output}; algorithm='auto' takes what suits"
        )


def as_algorithm(algorithm: Any) -> Any:
    """An algorithm as it was asked for, or what the calling thread has for "auto", see ``exact_convolution``."""
    return thread.mode.algorithm if algorithm == "auto" else freeze(algorithm)


def as_bytes(name: str, workspace: Any) -> int:
    """MB, as MXNet counts them, of 1024*1024 bytes.

    Raises:
        TypeError: workspace is no number.
        ValueError: it is negative, or not finite.
    """
    if isinstance(workspace, bool) or not isinstance(workspace, int | float | np.number):
        raise TypeError(f"{name}: workspace={workspace!r} must be a number of MB, or None for no limit")
    if not 0 <= workspace < float("inf"):
        raise ValueError(f"{name}: workspace={workspace!r} must be at least 0 MB; None is no limit")
    return int(workspace * 2**20)


def _check_ranks(name: str, ndim: int, xs: Sizes, ws: Sizes, groups: int) -> None:
    if len(ws) != ndim + 2:
        raise ValueError(
            f"{name}: w has {len(ws)} axes, needs {ndim + 2} (two of channels, {ndim} of taps); w.shape={ws}"
        )
    if len(xs) not in (ndim + 1, ndim + 2):
        raise ValueError(
            f"{name}: x has {len(xs)} axes, needs {ndim + 2} (batch, channels, {ndim} of positions) or {ndim + 1} "
            f"(without batch); x.shape={xs}"
        )
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise ValueError(f"{name}: groups={groups!r} must be an int of at least 1")


def _check_bias(name: str, bs: Sizes | None, channels: int, ws: tuple[int, ...]) -> None:
    if bs is not None and bs != (channels,):
        raise ValueError(f"{name}: b.shape={bs}, needs ({channels},), one per channel made; w.shape={ws}")


def freeze(value: Any) -> Any:
    """An argument as a key of the cached plans: ints, tuples of them, words and None as they are, lists as tuples.

    2.0 and True are equal to ints and would find their plans; they are wrapped, equal to nothing, and then refused.
    """
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    if kind is tuple:
        for entry in value:
            if type(entry) is not int:
                break
        else:
            return value
    if isinstance(value, Sequence):
        return tuple(map(freeze, value))
    if kind is not bool and hasattr(kind, "__index__"):  # NumPy's integers
        return operator.index(value)
    return _NoInteger(value)


class _NoInteger:
    """Something that is no int, shown in messages as it was given."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)
