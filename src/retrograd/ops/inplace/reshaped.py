"""In-place methods that change the shape or the memory of a tensor: ``x.t_()``, ``x.resize_(2, 3)``."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import broadcast_to, empty, from_host, to_host
from ...engine.aliasing import mark, part, views_of
from ...engine.grad_mode import thread
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, alias
from ...kernel_set import kernels
from ..arguments.binding import require_bound
from ..arguments.checks import as_callable, as_flag, require_tensor
from ..index.pick import memory_order
from ..memory.layout import as_memory_format
from ..shape import shape, strides
from ..shape.broadcasting import broadcasts_to


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The form of an operator without copying that makes input itself show its elements so."""
    name = f"{function.__name__}_"

    @functools.wraps(function)
    def change(input: Tensor, *args: Any, **options: Any) -> Tensor:
        if interpreters and (seen := interpreted(change, locals())) is not None:
            return seen
        require_tensor(name, input)
        recorded = input.requires_grad and thread.mode.enabled
        if recorded and input.is_leaf:
            raise RuntimeError(
                f"{name}: a leaf that requires a gradient cannot change in place; use x.{function.__name__}(...), or "
                "no_grad"
            )
        if recorded and (getattr(input, "_view", None) is not None or views_of(input)):
            raise RuntimeError(f"{name}: input is a view, or has views; use x = x.{function.__name__}(...)")
        try:
            value = function(alias(input), *args, **options)
        except TypeError:
            require_bound(name, inspect.signature(function), (input, *args), options)
            raise
        if recorded:
            mark((input.array,), name)
        part(input, value.array)
        input.array = value.array
        if recorded:
            input._edge = value._edge
        return input

    change.__name__ = change.__qualname__ = name
    change.__doc__ = (
        f"``{function.__name__}`` of input itself, which is returned.\n\nRaises:\n    RuntimeError: gradients are "
        "recorded and input is a leaf that requires one, a view or has views."
    )
    return operator(change)


@operator(methods="resize_", dtypes="bihf")
def resize_(input: Tensor, *size: Any, memory_format: Any = None) -> Tensor:
    """Change the shape of input; elements are kept in the order of memory, more of them are uninitialized.

    Raises:
        RuntimeError: input requires a gradient.
    """
    if interpreters and (seen := interpreted(resize_, locals())) is not None:
        return seen
    as_memory_format("resize_", memory_format)
    return _resized("resize_", input, shape.sizes("resize_", "size", size))


@operator(methods="resize_as_", dtypes="bihf")
def resize_as_(input: Tensor, other: Tensor, memory_format: Any = None) -> Tensor:
    """``resize_`` to the shape of ``other``.

    Raises: as ``resize_``.
    """
    if interpreters and (seen := interpreted(resize_as_, locals())) is not None:
        return seen
    as_memory_format("resize_as_", memory_format)
    require_tensor("resize_as_", other, "other")
    return _resized("resize_as_", input, other.array.shape)


def _resized(name: str, x: Tensor, size: tuple[int, ...]) -> Tensor:
    _require_no_gradient(name, x)
    old, count = x.array, math.prod(size)
    if size != old.shape:
        flat = dense = shape.reshaped(old.transpose(memory_order(old)), (-1,))  # shares the memory where it is dense
        if count > flat.size:
            flat = empty(count, old.dtype, like=old)
            kernels.copy(flat[: old.size], dense)
        _set(x, flat[:count].reshape(size))
    return x


@operator(methods="set_", dtypes="bihf")
def set_(input: Tensor, source: Tensor | None = None) -> Tensor:
    """Make input show the memory of ``source``, in its shape; without it, no elements.

    Raises:
        TypeError: ``source`` is not a Tensor of input's type.
        RuntimeError: input requires a gradient.
    """
    if interpreters and (seen := interpreted(set_, locals())) is not None:
        return seen
    _require_no_gradient("set_", input)
    if source is None:
        _set(input, empty(0, input.array.dtype, like=input.array))
        return input
    require_tensor("set_", source, "source")
    if source.array.dtype != input.array.dtype:
        raise TypeError(f"set_: source is {source.array.dtype}, input is {input.array.dtype}; use x.data = source")
    _set(input, source.array)
    return input


def _set(x: Tensor, array: np.ndarray) -> None:
    part(x, array)
    x.array = array


def _require_no_gradient(name: str, x: Any) -> None:
    require_tensor(name, x)
    if x.requires_grad:
        raise RuntimeError(f"{name}: input requires a gradient, which this cannot follow; use x.detach()")


@operator(methods="apply_", dtypes="bihf")
def apply_(input: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by ``callable(element)``, a Python function: slow, and without a gradient.

    Raises:
        RuntimeError: input requires a gradient.
    """
    if interpreters and (seen := interpreted(apply_, locals())) is not None:
        return seen
    return _mapped("apply_", input, (), callable)


@operator(methods="map_", dtypes="bihf")
def map_(input: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by ``callable(element, element of tensor)``; see ``apply_``.

    Raises:
        ValueError: the tensor does not broadcast to input. And as ``apply_``.
    """
    if interpreters and (seen := interpreted(map_, locals())) is not None:
        return seen
    return _mapped("map_", input, (tensor,), callable)


@operator(methods="map2_", dtypes="bihf")
def map2_(input: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Replace each element by ``callable`` of it and those of x and y; see ``apply_``.

    Raises: as ``map_``.
    """
    if interpreters and (seen := interpreted(map2_, locals())) is not None:
        return seen
    return _mapped("map2_", input, (x, y), callable)


def _mapped(name: str, x: Tensor, others: tuple[Tensor, ...], function: Callable[..., Any]) -> Tensor:
    _require_no_gradient(name, x)
    as_callable(name, "callable", function)
    why = "elements for a function of Python"
    rows = [to_host(x.array, why).ravel().tolist()]
    for other in others:
        require_tensor(name, other, "tensor")
        if not broadcasts_to(other.array.shape, x.array.shape):
            raise ValueError(
                f"{name}: tensor.shape={other.array.shape} does not broadcast to input.shape={x.array.shape}"
            )
        rows.append(to_host(broadcast_to(other.array, x.array.shape), why).ravel().tolist())
    values = [function(*row) for row in zip(*rows, strict=True)]
    kernels.copy(x.array, from_host(values, x.array.dtype, like=x.array).reshape(x.array.shape))
    mark((x.array,), name)
    return x


@operator(methods="fill_diagonal_", dtypes="bihf")
def fill_diagonal_(input: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Set the elements whose indices are equal to ``fill_value``; the gradient to the old ones is 0.

    wrap: in a tall matrix, a new diagonal begins after each N + 1 rows. Input has two axes, or more of one extent.

    Raises:
        RuntimeError: input has fewer axes, or its extents differ. And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(fill_diagonal_, locals())) is not None:
        return seen
    require_tensor("fill_diagonal_", input)
    wrap = as_flag("fill_diagonal_", "wrap", wrap)
    extents = input.array.shape
    if len(extents) < 2 or (len(extents) > 2 and len(set(extents)) > 1):
        raise RuntimeError(f"fill_diagonal_: input.shape={extents}, needs two axes, or more of one extent")
    end = input.array.size if wrap or len(extents) > 2 else min(extents[1] ** 2, input.array.size)
    input[kernels.diagonal_places(extents, end)] = fill_value
    return input


METHODS: dict[str, Any] = {
    "as_strided_": _in_place(strides.as_strided),
    **{
        f"{name}_": _in_place(getattr(shape, name))
        for name in ("t", "transpose", "swapaxes", "swapdims", "squeeze", "unsqueeze")
    },
}
