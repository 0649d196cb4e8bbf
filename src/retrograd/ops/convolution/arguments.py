"""Convolution arguments: checks, and conversion to a Window and Options.

The window depends only on shapes and arguments, so it is cached.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...engine.grad_mode import thread
from ...engine.tensor import Tensor
from ...specs.convolution_options import ALGORITHMS, AUTO, NEEDS, Options, suits
from ...specs.geometry import (
    Window,
    as_pairs,
    as_tuple,
    conv_padding,
    conv_transpose_window,
    conv_window,
    shared_padding,
)
from ..argument_checks import require_same
from ..shape.padding import Pairs

Extent = int | tuple[int, ...]
Padding = int | str | tuple[int, ...] | tuple[tuple[int, int], ...]
Sizes = tuple[int, ...]

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def check_operands(name: str, x: Tensor, w: Tensor, b: Tensor | None) -> tuple[Sizes, Any]:
    """Return the shapes of x and b; all operands must be Tensors of one type, floating-point or int64."""
    try:
        dtype = x.array.dtype
        fits = dtype is w.array.dtype and dtype.char in "fd" and (b is None or b.array.dtype is dtype)
    except AttributeError:
        fits = False
    if not fits:
        require_same(name, "input", x, "weight", w, True)
        if b is not None:
            require_same(name, "weight", w, "bias", b, True)
    return x.array.shape, None if b is None else b.array.shape


class Call(NamedTuple):
    """The arguments of a convolution in hashable form: with the operands' shapes, the cache key of ``window_of``.

    Error messages begin with ``name``.
    """

    name: str
    ndim: int
    stride: Extent
    padding: Padding
    dilation: Extent
    groups: int
    transposed: bool = False
    output_padding: Extent = 0
    options: Options = AUTO
    padding_mode: str = "zeros"
    output_size: Sequence[int] | None = None


def frozen(
    name: str,
    ndim: int,
    stride: Extent,
    padding: Padding,
    dilation: Extent,
    groups: int,
    transposed: bool = False,
    output_padding: Extent = 0,
    algorithm: str = "auto",
    workspace: float | None = None,
    padding_mode: str = "zeros",
    output_size: Sequence[int] | None = None,
) -> Call:
    """Return the arguments of a convolution as a Call, which is hashable.

    Its options hold the workspace in bytes, not in MB, and "auto" becomes "exact" in the thread's exact mode.
    """
    if algorithm == "auto" and thread.mode.exact:
        algorithm = "exact"
    if algorithm == "auto" and workspace is None:
        options = AUTO
    else:
        options = Options(freeze(algorithm), None if workspace is None else as_bytes(name, workspace))
    return Call(
        name,
        ndim,
        freeze(stride),
        freeze(padding),
        freeze(dilation),
        freeze(groups),
        transposed,
        freeze(output_padding),
        options,
        padding_mode if padding_mode == "zeros" else freeze(padding_mode),
        None if output_size is None else freeze(output_size),
    )


def _channels_hint(xs: Sizes, expected: int, ndim: int) -> str:
    """Suggest what to do about an input whose channels are last, or that has one channel; otherwise empty."""
    if xs[-1] == expected:
        axes = range(len(xs))
        order = ", ".join(map(str, (*axes[: -ndim - 1], len(xs) - 1, *axes[-ndim - 1 : -1])))
        return f". Channels come before positions; if they are last in this input, pass x.permute({order})"
    if xs[-ndim - 1] == 1:
        repeated = ", ".join(str(expected) if axis == len(xs) - ndim - 1 else "-1" for axis in range(len(xs)))
        return f". For one channel, make the layer with in_channels=1, or repeat it: x.expand({repeated})"
    if len(xs) == ndim + 1 and expected == 1:
        return ". If the first axis is the batch, add the one of channels: x.unsqueeze(1)"
    return f". A layer for this input has in_channels={xs[1]}" if len(xs) == ndim + 2 and expected <= 4 else ""


@lru_cache(maxsize=4096)
def window_of(call: Call, xs: Sizes, ws: Sizes, bs: Sizes | None) -> tuple[Window, Pairs | None]:
    """Return the window of a call, and for a padding_mode other than "zeros" the pairs by which to extend x first.

    The window of a transposed convolution is that of the convolution whose input gradient it is.
    """
    name, ndim, groups = call.name, call.ndim, call.groups
    check_ranks(name, ndim, xs, ws, groups)
    check_choices(name, call.padding_mode, call.options.algorithm)
    channels = xs[-ndim - 1]
    if call.transposed:
        if channels != ws[0]:
            raise ValueError(
                f"{name}: input has {channels} channels, weight expects {ws[0]}; {_shapes(xs, ws)}"
                f"{_channels_hint(xs, ws[0], ndim)}"
            )
        if channels % groups:
            raise ValueError(
                f"{name}: input has {channels} channels, which groups={groups} does not divide; input.shape={xs}"
            )
    else:
        if channels != ws[1] * groups:
            raise ValueError(
                f"{name}: input has {channels} channels, weight expects {ws[1] * groups}"
                f"{f' = {groups} groups of {ws[1]}' if groups > 1 else ''}; {_shapes(xs, ws)}"
                f"{_channels_hint(xs, ws[1] * groups, ndim)}"
            )
        if ws[0] % groups:
            raise ValueError(f"{name}: weight.shape={ws} makes {ws[0]} channels, which groups={groups} does not divide")
    outputs = ws[1] * groups if call.transposed else ws[0]
    if bs is not None and bs != (outputs,):
        raise ValueError(f"{name}: bias.shape={bs}, needs ({outputs},), one per output channel; weight.shape={ws}")
    try:
        return (_transposed_window if call.transposed else _window)(call, xs, ws)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}; {_shapes(xs, ws)}") from None


def _window(call: Call, xs: Sizes, ws: Sizes) -> tuple[Window, Pairs | None]:
    ndim, padding, size, kernel = call.ndim, call.padding, xs[-call.ndim :], ws[2:]
    steps, spread = as_tuple(call.stride, ndim, "stride", 1), as_tuple(call.dilation, ndim, "dilation", 1)
    pairs = conv_padding(padding, size, kernel, steps, spread) if isinstance(padding, str) else as_pairs(padding, ndim)
    window = conv_window(size, kernel, steps, pairs, spread, call.groups)
    _check_needs(call.options.algorithm, window, xs[-ndim - 1], ws[0])
    if call.padding_mode == "zeros" or not any(map(any, pairs)):
        return window, None
    _check_extension(call.padding_mode, size, pairs)
    longer = tuple(i + low + high for i, (low, high) in zip(size, pairs, strict=True))
    return conv_window(longer, kernel, steps, 0, spread, call.groups), ((0, 0), (0, 0), *pairs)


def _transposed_window(call: Call, xs: Sizes, ws: Sizes) -> tuple[Window, Pairs | None]:
    """Return the window of a transposed convolution, which follows from the extents O of its output:

    numbers, "valid"               O = (I - 1)*stride - lo - hi + dilation*(R - 1) + output_padding + 1
    "same", "same_upper",          O = I*stride, as in TensorFlow and ONNX; ``geometry.shared_padding`` splits the
    "same_lower", "causal"         excess lo + hi: with "causal", y[o] does not depend on x[i] with i*stride > o
    output_size                    O as given, one of those that padding and stride allow
    """
    ndim, output_size, size, kernel = call.ndim, call.output_size, xs[-call.ndim :], ws[2:]
    steps, spread = as_tuple(call.stride, ndim, "stride", 1), as_tuple(call.dilation, ndim, "dilation", 1)
    extra = as_tuple(call.output_padding, ndim, "output_padding", 0)
    padding = 0 if call.padding == "valid" else call.padding
    if isinstance(padding, str):
        check_no_output_padding(padding, extra)
        most = tuple(i * s for i, s in zip(size, steps, strict=True))
        least = tuple((i - 1) * s + 1 for i, s in zip(size, steps, strict=True))
        output = most if output_size is None else _requested_extents(output_size, xs, least, most)
        pairs = shared_padding(padding, output, size, kernel, steps, spread)
        extra = _output_padding(size, output, kernel, steps, spread, pairs)
    else:
        pairs = as_pairs(padding, ndim)
        if output_size is not None:
            if any(extra):
                raise ValueError(f"output_size={output_size} and output_padding={extra} are both given; leave one out")
            least = tuple(-rest for rest in _output_padding(size, (0,) * ndim, kernel, steps, spread, pairs))
            most = tuple(o + s - 1 for o, s in zip(least, steps, strict=True))
            extra = _output_padding(
                size, _requested_extents(output_size, xs, least, most), kernel, steps, spread, pairs
            )
    window = conv_transpose_window(size, kernel, steps, pairs, extra, spread, call.groups)
    extension = () if call.padding_mode == "zeros" else _reach(window)
    _check_needs(call.options.algorithm, window, ws[1] * call.groups, ws[0], transposed=True)
    if not any(map(any, extension)):
        return window, None
    _check_extension(call.padding_mode, size, extension)
    size = tuple(before + i + after for i, (before, after) in zip(size, extension, strict=True))
    lows = tuple(low + before * s for (low, _), (before, _), s in zip(pairs, extension, steps, strict=True))
    rests = _output_padding(size, window.input, kernel, steps, spread, tuple((low, 0) for low in lows))
    pairs = tuple((low, max(0, -rest)) for low, rest in zip(lows, rests, strict=True))
    extra = tuple(max(0, rest) for rest in rests)
    window = conv_transpose_window(size, kernel, steps, pairs, extra, spread, call.groups)
    return window, ((0, 0), (0, 0), *extension)


def _shapes(xs: Sizes, ws: Sizes) -> str:
    return f"input.shape={xs}, weight.shape={ws}"


def _reach(window: Window) -> Pairs:
    """Return the number of positions before and after x, per axis, that the output of a transposed convolution reads.

        y[o] = sum of x[i] w[r] over r and all integers i with i*stride + r*dilation - lo = o

    reads i from ceil((lo - dilation*(R - 1))/stride) to floor((O - 1 + lo)/stride).
    """
    pairs = []
    sizes = zip(window.output, window.input, window.kernel, window.stride, window.dilation, window.padding, strict=True)
    for i, o, r, s, d, (low, _) in sizes:
        pairs.append((max(0, (d * (r - 1) - low) // s), max(0, (o - 1 + low) // s - (i - 1))))
    return tuple(pairs)


def _output_padding(size: Sizes, output: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes, pairs: Pairs) -> Sizes:
    """Return the output_padding: output - ((I - 1)*stride - lo - hi + dilation*(R - 1) + 1)."""
    sizes = zip(size, output, kernel, stride, dilation, pairs, strict=True)
    return tuple(o - ((i - 1) * s - low - high + d * (r - 1) + 1) for i, o, r, s, d, (low, high) in sizes)


def check_no_output_padding(padding: str, extra: Sizes) -> None:
    """Raise ValueError if ``extra``, an output_padding, is given with a padding such as "same"."""
    if any(extra):
        raise ValueError(
            f"output_padding={extra} and padding={padding!r} contradict each other: this padding means O = I*stride; "
            f"leave output_padding out, or pass output_size"
        )


def _requested_extents(output_size: Sequence[int], xs: Sizes, least: Sizes, most: Sizes) -> Sizes:
    """Return the extents in ``output_size``, which may be the whole output shape; ValueError if out of range."""
    ndim = len(least)
    spatial = output_size[-ndim:] if isinstance(output_size, tuple) and len(output_size) == len(xs) else output_size
    if not isinstance(spatial, tuple) or len(spatial) != ndim:
        raise ValueError(f"output_size={output_size} needs {ndim} extents, or {len(xs)} for the whole shape")
    extents = as_tuple(spatial, ndim, "output_size")
    if any(not low <= o <= high for o, low, high in zip(extents, least, most, strict=True)):
        raise ValueError(
            f"output_size={extents} is impossible; for an input with extents {xs[-ndim:]} it can be {least} to {most}"
        )
    return extents


def _check_extension(mode: str, size: Sizes, pairs: Pairs) -> None:
    """Raise ValueError if the extension needs more elements than x has."""
    for axis, (i, pair) in enumerate(zip(size, pairs, strict=True)):
        most = {"reflect": i - 1, "replicate": max(pair), "circular": i}[mode]
        if max(pair) > most:
            raise ValueError(
                f"padding_mode={mode!r} adds {pair} positions to axis {axis} of extent {i}, but can add at most {most} "
                f"per side; use a larger input or a smaller padding or kernel, or padding_mode='zeros'"
            )


def check_choices(name: str, padding_mode: Any, algorithm: Any) -> None:
    """Raise ValueError if the padding mode or the algorithm is unknown."""
    if not isinstance(padding_mode, str) or padding_mode not in PADDING_MODES:
        raise ValueError(f"{name}: padding_mode={padding_mode!r} must be one of {', '.join(PADDING_MODES)}")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise ValueError(f"{name}: algorithm={algorithm!r} must be one of {', '.join(ALGORITHMS)}")


def _check_needs(algorithm: str, window: Window, inputs: int, outputs: int, transposed: bool = False) -> None:
    """Raise ValueError if the algorithm does not support the window.

    inputs, outputs: channels of the forward convolution.
    """
    if algorithm in NEEDS and not suits(algorithm, window, inputs, outputs, transposed):
        raise ValueError(
            f"algorithm={algorithm!r} needs {NEEDS[algorithm]}; here kernel={window.kernel}, stride={window.stride}, "
            f"dilation={window.dilation}, groups={window.groups}, channels {inputs} and {outputs}, positions "
            f"{window.input} and {window.output}; algorithm='auto' chooses a suitable one"
        )


def as_bytes(name: str, workspace: Any) -> int:
    """Convert ``workspace`` from MB of 1024*1024 bytes to bytes; TypeError or ValueError unless finite and >= 0."""
    if isinstance(workspace, bool) or not isinstance(workspace, int | float | np.number):
        raise TypeError(f"{name}: workspace={workspace!r} must be a number of MB, or None for no limit")
    if not 0 <= workspace < float("inf"):
        raise ValueError(f"{name}: workspace={workspace!r} must be at least 0 MB; None means no limit")
    return int(min(workspace, 2.0**40) * 2**20)  # larger than any memory


def check_ranks(name: str, ndim: int, xs: Sizes, ws: Sizes, groups: int) -> None:
    """Raise ValueError if an operand has the wrong number of axes, or groups is not a positive int."""
    if len(ws) != ndim + 2:
        raise ValueError(
            f"{name}: weight has {len(ws)} axes, needs {ndim + 2} (two for channels, {ndim} for taps); "
            f"weight.shape={ws}"
        )
    check_axes(name, ndim, xs)
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise ValueError(f"{name}: groups={groups!r} must be an int of at least 1")


def check_axes(name: str, ndim: int, xs: Sizes) -> None:
    """Raise ValueError unless the input has ndim + 2 axes, or ndim + 1 without a batch."""
    if len(xs) not in (ndim + 1, ndim + 2):
        raise ValueError(
            f"{name}: input has {len(xs)} axes, needs {ndim + 2} (batch, channels, {ndim} for positions) or {ndim + 1} "
            f"(without batch); input.shape={xs}"
        )


def freeze(value: Any) -> Any:
    """Return an argument in hashable form: ints, strings, None and tuples unchanged, lists as tuples.

    2.0 and True compare equal to ints and would hit the same cache entries, so they are wrapped and rejected later.
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
        try:
            return operator.index(value)
        except TypeError:  # an array with several elements
            pass
    return _NotAnInt(value)


class _NotAnInt:
    """A value that is not an int; messages show it unchanged."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)
