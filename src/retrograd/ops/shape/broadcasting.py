"""Sum and expand, each the transpose of the other, and the gradient of broadcasting."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ...arrays import repeated
from ...engine.function import Function
from ...engine.grad_mode import is_grad_enabled
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...engine.views import View
from ...kernel_set import kernels
from ..argument_checks import require_tensor
from .shape import Reshape, Sizes, reshaped, sizes

__all__ = ["broadcast_to", "expand", "expand_as"]


_NEW_AXES = [(None,) * count for count in range(65)]  # as an index


class Sum(Function):
    """Sum over ``axes`` (sorted, non-negative)."""

    gradient = "x: g, repeated over the axes that were summed"

    @staticmethod
    def forward(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        return wrap(kernels.sum(x.array, axes, keepdims))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, ctx.axes, ctx.keepdims = inputs
        ctx.input_shape = x.array.shape

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return expand_axes(g, ctx.input_shape, ctx.axes, ctx.keepdims), None, None


class Expand(View):
    """x repeated along axes of extent 1 and new leading axes, as a view with stride 0."""

    @staticmethod
    def forward(x: Tensor, shape: tuple[int, ...]) -> Tensor:
        a = x.array
        missing = len(shape) - a.ndim
        if missing:
            a = a[_NEW_AXES[missing]]
        return wrap(reshaped(a, shape) if a.shape == shape else repeated(a, shape))  # where possible, a writable view

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.input_shape = inputs[0].array.shape

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return sum_to(g, ctx.input_shape), None


@operator(methods="expand", dtypes="bihf")
def expand(input: Tensor, *shape: Sizes, size: Sizes | None = None) -> Tensor:
    """input broadcast to ``shape``; -1 keeps an extent.

    size: the shape, by name.

    Raises:
        ValueError: input does not broadcast to ``shape``.
    """
    if interpreters and (seen := interpreted(expand, locals())) is not None:
        return seen
    if type(input) is not Tensor:
        require_tensor("expand", input)
    source = input.array.shape
    full = _expanded(source, sizes("expand", "size", shape, size))
    return Expand.apply(input, full)


@lru_cache(maxsize=4096)
def _expanded(source: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of ``expand``."""
    missing = len(target) - len(source)
    full = tuple(source[i - missing] if n == -1 and i >= missing else n for i, n in enumerate(target))
    if full != source and (
        missing < 0
        or any(have not in (1, want) for have, want in zip(source, full[missing:], strict=True))
        or min(full, default=0) < 0
    ):
        raise ValueError(
            f"expand: input.shape={source} does not broadcast to shape={target}; each extent, counted from the end, "
            f"must be equal, 1 in input, or -1 in shape"
        )
    return full


@operator(methods="broadcast_to", dtypes="bihf")
def broadcast_to(input: Tensor, shape: Sizes) -> Tensor:
    """Alias of ``expand``."""
    if interpreters and (seen := interpreted(broadcast_to, locals())) is not None:
        return seen
    return expand(input, shape)


@operator(methods="expand_as", dtypes="bihf")
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """input broadcast to the shape of ``other``.

    Raises:
        ValueError: input does not broadcast to that shape.
    """
    if interpreters and (seen := interpreted(expand_as, locals())) is not None:
        return seen
    require_tensor("expand_as", other, "other")
    return expand(input, other.array.shape)


def expand_axes(
    g: Tensor, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool, factor: float = 1.0
) -> Tensor:
    """Return ``factor`` times g, broadcast back to ``shape``; g has the shape of a reduction over ``axes``."""
    if not is_grad_enabled():  # the same result in one step
        scaled = g.array if factor == 1.0 else kernels.scale(g.array, factor)
        return wrap(repeated(scaled if keepdims else scaled.reshape(kept_shape(shape, axes)), shape))
    g = g if factor == 1.0 else g * factor
    if not keepdims and g.array.ndim:
        g = Reshape.apply(g, kept_shape(shape, axes))
    return g if g.array.shape == shape else Expand.apply(g, shape)


@lru_cache(maxsize=4096)
def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``shape`` with extent 1 along ``axes``."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def sum_to(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum g over the axes along which ``shape`` was broadcast to g's shape: the gradient of broadcasting."""
    if g.array.shape == shape:
        return g
    axes, keepdims, fewer = _broadcast_axes(g.array.shape, shape)
    y = Sum.apply(g, axes, keepdims)
    return Reshape.apply(y, shape) if fewer else y


@lru_cache(maxsize=4096)
def _broadcast_axes(full: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[int, ...], bool, bool]:
    """Return the axes to sum from ``full`` to ``shape``, whether to keep them, and whether a reshape must follow."""
    leading = len(full) - len(shape)
    inner = tuple(i for i in range(leading, len(full)) if full[i] != shape[i - leading])
    keepdims = bool(inner)
    return tuple(range(leading)) + inner, keepdims, keepdims and leading > 0


@lru_cache(maxsize=4096)
def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return whether an array of this shape broadcasts to ``target``."""
    leading = len(target) - len(shape)
    return leading >= 0 and all(n in (1, m) for n, m in zip(shape, target[leading:], strict=True))


@lru_cache(maxsize=4096)
def broadcast_shape(name: str, x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape of x and y; ValueError if they do not broadcast."""
    ndim = max(len(x), len(y))
    a, b = (1,) * (ndim - len(x)) + x, (1,) * (ndim - len(y)) + y
    for i, (m, n) in enumerate(zip(a, b, strict=True)):
        if m != n and m != 1 and n != 1:
            raise ValueError(
                f"{name}: shapes {x} and {y} do not broadcast: axis {i - ndim} has {m} and {n}; "
                f"extents, counted from the end, must be equal or 1"
            )
    return tuple(n if m == 1 else m for m, n in zip(a, b, strict=True))
