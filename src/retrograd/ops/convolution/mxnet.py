"""adj and target_shape, MXNet's arguments of a transposed convolution, as output_padding and padding."""

from __future__ import annotations

from collections.abc import Sequence

from ...engine.tensor import Tensor
from ...specs.geometry import as_pairs, as_tuple
from ..shape.padding import Pairs
from . import convolution
from .arguments import Extent, Padding, Sizes, check_operands, check_ranks


def conv_transpose_nd(
    name: str,
    ndim: int,
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    stride: Extent,
    padding: Padding,
    output_padding: Extent,
    groups: int,
    dilation: Extent,
    padding_mode: str = "zeros",
    output_size: Sequence[int] | None = None,
    adj: Extent | None = None,
    target_shape: Extent | None = None,
    algorithm: str = "auto",
    workspace: float | None = None,
) -> Tensor:
    """``convolution.conv_transpose_nd`` with adj and target_shape."""
    if adj is not None or target_shape is not None:
        shapes = check_operands(name, x, w, b)[0], w.array.shape
        padding, output_padding = paddings(
            name, ndim, *shapes, stride, padding, output_padding, dilation, output_size, adj, target_shape
        )
    return convolution.conv_transpose_nd(
        name,
        ndim,
        x,
        w,
        b,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        padding_mode,
        output_size,
        algorithm,
        workspace,
    )


def paddings(
    name: str,
    ndim: int,
    xs: Sizes,
    ws: Sizes,
    stride: Extent,
    padding: Padding,
    output_padding: Extent,
    dilation: Extent,
    output_size: Sequence[int] | None,
    adj: Extent | None,
    target_shape: Extent | None,
) -> tuple[Padding, Extent]:
    """The padding and output_padding that adj and target_shape amount to, by MXNet's InferPad."""
    if adj is None and target_shape is None:
        return padding, output_padding
    check_ranks(name, ndim, xs, ws, 1)
    try:
        extra = one_name(output_padding, adj, ndim)
        if target_shape is None:
            return padding, extra
        check_alone(ndim, 0 if padding == "valid" else padding, extra, output_size)
        steps, spread = as_tuple(stride, ndim, "stride", 1), as_tuple(dilation, ndim, "dilation", 1)
        target = as_tuple(target_shape, ndim, "target_shape", 1)
        return _target_padding(xs[-ndim:], target, ws[2:], steps, spread), extra
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}; input.shape={xs}, weight.shape={ws}") from None


def _target_padding(size: Sizes, target: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Pairs:
    """The padding that leaves ``target`` positions; an odd excess goes to the low side."""
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


def check_alone(ndim: int, padding: Padding, extra: Sizes, output_size: Sequence[int] | None = None) -> None:
    """ValueError if target_shape is given with another argument that decides the extents of the output."""
    others = {"output_size": output_size is not None, "output_padding or adj": any(extra)}
    others["padding"] = isinstance(padding, str) or any(map(any, as_pairs(padding, ndim)))
    for other, given in others.items():
        if given:
            raise ValueError(f"target_shape is given, which decides {other}, too; leave one of them out")


def one_name(output_padding: int | Sequence[int], adj: int | Sequence[int] | None, ndim: int) -> Sizes:
    """output_padding, under PyTorch's name or MXNet's; ValueError if both are given."""
    extra = as_tuple(output_padding, ndim, "output_padding", 0)
    if adj is None:
        return extra
    if any(extra):
        raise ValueError(f"adj={adj} and output_padding={output_padding} are two names of one argument; give one")
    return as_tuple(adj, ndim, "adj", 0)
