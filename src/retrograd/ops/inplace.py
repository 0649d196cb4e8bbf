"""In-place methods of tensors: arithmetic, filling, copying, resizing.

Each method computes the operator without the underscore, with its gradient; ``engine.inplace.modify`` writes the result
into memory and updates the graph. See there for leaves that require gradients, and for backward passes that need the
old values.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from ..arrays import broadcast_to, empty, from_host, full_like, to_host
from ..engine.aliasing import become_view, is_linked, mark_changed, unlink_views
from ..engine.grad_mode import enable_grad, thread
from ..engine.inplace import Replaced, modify
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor, alias, wrap
from ..formulas import optimizers
from ..kernel_set import kernels
from . import storage
from .argument_checks import as_callable, as_element, as_flag, is_number, require_tensor
from .device import as_memory_format, memory_format
from .dtypes.dtype import cast, float16
from .dtypes.promotion import CATEGORY, as_operand
from .index.pick import memory_order
from .pointwise import piecewise
from .shape import shape
from .shape.broadcasting import broadcasts_to, expand
from .shape.shape import Sizes
from .signatures import require_bound

# ---- In-place methods: `x.add_(y)`, `x += y`, `x.relu_()`, `x.copy_(y)` ---------------------------------------------


def in_place(function: Callable[..., Tensor], name: str = "", arithmetic: str = "") -> Callable[..., Tensor]:
    """Return the in-place form of an operator whose result has the shape of its first argument.

    name: for messages; by default the operator's name and an underscore
    arithmetic: the name of a binary operator in ``kernels.arithmetic``, used for changes that are not recorded
    """
    name = name or f"{function.__name__}_"
    of_python = not name.isidentifier()  # x += array; functions accept only Tensors

    @functools.wraps(function)
    def change(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if interpreters and (seen := interpreted(change, locals())) is not None:
            return seen
        if type(input) is not Tensor:
            require_tensor(name, input)
        if of_python and args and type(args[0]) is np.ndarray:
            args = (as_operand(args[0], (input,)),)

        def compute(old: Tensor) -> Tensor:
            try:
                result = function(old, *args, **kwargs)
            except TypeError:
                require_bound(name, inspect.signature(function), (old, *args), kwargs)
                raise
            return _as(name, result, old.array.dtype)

        write = None
        if arithmetic and len(args) == 1 and not kwargs and _fits(input.array, args[0]):
            given = args[0]
            other = given.array if isinstance(given, Tensor) else as_element(name, "other", given, input.array.dtype)
            write = lambda array: kernels.arithmetic(array, other, arithmetic)  # noqa: E731
        return modify(input, name, compute, (*args, *kwargs.values()), write)

    change.__name__ = change.__qualname__ = name
    change.__doc__ = f"The in-place form of ``{function.__name__}``; returns input.\n\nRaises: as ``engine.modify``."
    of = getattr(function, "operator", None)
    made: Callable[..., Tensor] = operator(change)
    if of is not None:
        made.operator.dtypes = of.dtypes  # type: ignore[attr-defined]
    return made


class _RectifiedInPlace(piecewise.Relu):
    """relu written into the array of x; recorded as an ordinary Relu with the same result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.function = piecewise.Relu
        _rectify(x.array)
        y = wrap(x.array)
        ctx.save_for_backward(y)
        return y


def _rectify(array: np.ndarray) -> None:
    kernels.update(optimizers.rectified, [array])


@operator(records=_RectifiedInPlace, methods="relu_", dtypes="bif")
def relu_(input: Tensor) -> Tensor:
    """The in-place form of ``relu``; returns input.

    Raises:
        TypeError: input is not a floating-point Tensor. Also as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(relu_, locals())) is not None:
        return seen
    require_tensor("relu_", input)
    if input.array.dtype.char not in "fd":
        return _relu_(input)
    return modify(input, "relu_", piecewise.relu, (), _rectify, _RectifiedInPlace.apply)


_relu_ = in_place(piecewise.relu)


@operator(records=Replaced, methods="zero_")
def zero_(input: Tensor) -> Tensor:
    """Set every element to 0; the gradient with respect to the old values is 0.

    Raises: as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(zero_, locals())) is not None:
        return seen
    return _fill("zero_", input, 0)


@operator(records=Replaced, methods="fill_")
def fill_(input: Tensor, value: Tensor | float) -> Tensor:
    """Set every element to ``value``, a number or a tensor with one element.

    The gradient with respect to the old values is 0.

    Raises:
        TypeError: ``value`` is neither of these. Also as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(fill_, locals())) is not None:
        return seen
    if isinstance(value, Tensor) and value.array.size == 1:
        return _copy("fill_", input, value if not value.array.ndim else value.reshape(()))
    if not is_number(value):
        kind = f"a tensor of shape {value.array.shape}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"fill_: value is {kind}, needs a number or a tensor with one element; use copy_ for others")
    return _fill("fill_", input, value)


@operator(records=Replaced, methods="copy_")
def copy_(input: Tensor, src: Tensor) -> Tensor:
    """Set the elements to those of ``src``, broadcast and converted; the gradient goes to ``src``.

    Raises:
        TypeError: ``src`` is not a Tensor.
        ValueError: ``src`` does not broadcast to the shape of input. Also as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(copy_, locals())) is not None:
        return seen
    require_tensor("copy_", src, "src")
    return _copy("copy_", input, src)


def _fill(operator: str, input: Tensor, value: Tensor | float) -> Tensor:
    require_tensor(operator, input)
    number = as_element(operator, "value", value, input.array.dtype)
    return modify(
        input,
        operator,
        lambda old: Replaced.apply(old, wrap(full_like(old.array, number))),
        write=lambda array: kernels.fill(array, number),
    )


def _copy(operator: str, input: Tensor, src: Tensor) -> Tensor:
    require_tensor(operator, input)
    shape, dtype = input.array.shape, input.array.dtype
    if not broadcasts_to(src.array.shape, shape):
        raise ValueError(f"{operator}: src.shape={src.array.shape} does not broadcast to input.shape={shape}")
    return modify(
        input,
        operator,
        lambda old: Replaced.apply(old, expand(cast(src, dtype), shape)),
        (src,),
        lambda array: kernels.assign(array, src.array),
    )


def _as(operator: str, value: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Convert ``value`` to ``dtype``; TypeError if that is of a lower category."""
    if value.array.dtype == dtype:
        return value
    if CATEGORY[value.array.dtype.kind] > CATEGORY[dtype.kind]:
        raise TypeError(
            f"{operator}: the result is {value.array.dtype}, which input of {dtype} cannot hold; convert input first, "
            "for example with input.float()"
        )
    return cast(value, dtype)


def _fits(array: np.ndarray, other: Any) -> bool:
    """Return True if ``array op other`` can be computed in place: it has the type and shape of array."""
    if array.dtype.kind != "f" or array.dtype is float16:
        return False
    if isinstance(other, Tensor):
        return other.array.dtype == array.dtype and broadcasts_to(other.array.shape, array.shape)
    return is_number(other) and not isinstance(other, (bool, np.bool_))  # sub rejects bool


# ---- In-place methods that change the shape or the memory of a tensor: `x.t_()`, `x.resize_(2, 3)` ------------------


def _in_place_view(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the in-place form of a view operator: input itself becomes that view of its elements."""
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
        source = alias(input)
        linked = is_linked(input) and source is not input and not thread.mode.inference
        try:
            with enable_grad() if linked else nullcontext():  # so that the path of the view is known
                value = function(source, *args, **options)
        except TypeError:
            require_bound(name, inspect.signature(function), (input, *args), options)
            raise
        if recorded:
            mark_changed((input.array,), name)
        if linked and value is not source:
            become_view(input, source, value)
        elif not linked and type(getattr(input, "_view", None)) in (type(None), tuple):
            unlink_views(input, value.array)
        input.array = value.array
        if recorded:
            input._edge = value._edge
        return input

    change.__name__ = change.__qualname__ = name
    change.__doc__ = (
        f"The in-place form of ``{function.__name__}``; returns input.\n\nRaises:\n    RuntimeError: gradients are "
        "recorded and input is a leaf that requires one."
    )
    return operator(change)


@operator(methods="resize_", dtypes="bihf")
def resize_(input: Tensor, *size: Sizes, memory_format: memory_format | None = None) -> Tensor:
    """Change the shape of input; elements keep their order in memory, and additional ones are uninitialized.

    Raises:
        RuntimeError: input requires a gradient.
    """
    if interpreters and (seen := interpreted(resize_, locals())) is not None:
        return seen
    as_memory_format("resize_", memory_format)
    return _resized("resize_", input, shape.sizes("resize_", "size", size))


@operator(methods="resize_as_", dtypes="bihf")
def resize_as_(input: Tensor, other: Tensor, memory_format: memory_format | None = None) -> Tensor:
    """Change the shape of input to that of ``other``, as ``resize_`` does.

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
        flat = dense = shape.reshaped(old.transpose(memory_order(old)), (-1,))  # shares memory if it is dense
        if count > flat.size:
            flat = empty(count, old.dtype, like=old)
            kernels.copy(flat[: old.size], dense)
        _set(x, flat[:count].reshape(size))
    return x


@operator(methods="set_", dtypes="bihf")
def set_(input: Tensor, source: Tensor | None = None) -> Tensor:
    """Make input share the memory and shape of ``source``; without it, input becomes empty.

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
    unlink_views(x, array)
    x.array = array


def _require_no_gradient(name: str, x: Any) -> None:
    require_tensor(name, x)
    if x.requires_grad:
        raise RuntimeError(f"{name}: input requires a gradient, which this method does not support; use x.detach()")


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
        ValueError: the tensor does not broadcast to input. Also as ``apply_``.
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
    why = "elements for a Python function"
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
    mark_changed((x.array,), name)
    return x


@operator(methods="fill_diagonal_", dtypes="bihf")
def fill_diagonal_(input: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """Set the diagonal, the elements with equal indices, to ``fill_value``; the gradient of the old values is 0.

    Input has two axes, or more with equal extents. wrap: in a tall matrix, start a new diagonal after every N + 1 rows.

    Raises:
        RuntimeError: input has fewer axes, or its extents differ. Also as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(fill_diagonal_, locals())) is not None:
        return seen
    require_tensor("fill_diagonal_", input)
    wrap = as_flag("fill_diagonal_", "wrap", wrap)
    extents = input.array.shape
    if len(extents) < 2 or (len(extents) > 2 and len(set(extents)) > 1):
        raise RuntimeError(f"fill_diagonal_: input.shape={extents}, needs two axes, or more with equal extents")
    end = input.array.size if wrap or len(extents) > 2 else min(extents[1] ** 2, input.array.size)
    input[kernels.diagonal_places(extents, end)] = fill_value
    return input


METHODS: dict[str, Any] = {
    "as_strided_": _in_place_view(storage.as_strided),
    **{
        f"{name}_": _in_place_view(getattr(shape, name))
        for name in ("t", "transpose", "swapaxes", "swapdims", "squeeze", "unsqueeze")
    },
}
