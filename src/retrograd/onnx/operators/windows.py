"""Windows of convolutions and poolings: their paddings, as ONNX has them."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import OnnxError
from ..node import Node
from ..values import extents

Pairs = tuple[tuple[int, int], ...]


def steps(node: Node, name: str, axes: int) -> tuple[int, ...]:
    """An attribute with a number for each axis, 1 where it is left out.

    Raises:
        OnnxError: it has another length.
    """
    values = tuple(node[name] or (1,) * axes)
    if len(values) != axes:
        raise OnnxError(f"{name}={list(values)} must have {axes} numbers, one for each axis of the window")
    return values


def paddings(
    node: Node, size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Pairs:
    """Zeros before and after each axis of the input, by ``pads`` or ``auto_pad``."""
    mode = node["auto_pad"] or "NOTSET"
    if mode == "VALID":
        return ((0, 0),) * len(size)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        found = []
        for i, k, s, d in zip(size, kernel, stride, dilation, strict=True):
            total = max(0, (-(-i // s) - 1) * s + (k - 1) * d + 1 - i)
            found.append(split(total, mode == "SAME_UPPER"))
        return tuple(found)
    return pairs(node["pads"], len(size))


def check_outputs(
    first: Sequence[int],
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Pairs,
) -> None:
    """Check that the outputs of all windows are not more than a file should ask for.

    Raises:
        OnnxError: they are, or a stride, a dilation or a kernel is below 1.
    """
    if min(*kernel, *stride, *dilation) < 1:
        raise OnnxError(f"kernel {list(kernel)}, strides {list(stride)}, dilations {list(dilation)}: 1 is the least")
    found = []
    for i, k, s, d, (low, high) in zip(size, kernel, stride, dilation, padding, strict=True):
        found.append(max(0, (i + low + high - (k - 1) * d - 1) // s + 1))
    extents([*first, *found])


def pairs(pads: Sequence[int] | None, axes: int) -> Pairs:
    """``pads`` as (before, after) for each axis.

    Raises:
        OnnxError: it has another length.
    """
    values = list(pads or (0,) * (2 * axes))
    if len(values) != 2 * axes:
        raise OnnxError(f"pads={values} must have {2 * axes} numbers, all those before and all those after")
    return tuple(zip(values[:axes], values[axes:], strict=True))


def split(total: int, upper: bool) -> tuple[int, int]:
    """A padding in two, the larger half after (upper) or before."""
    less = total // 2
    return (less, total - less) if upper else (total - less, less)
