"""Creation of Tensors: from data, filled with a constant, evenly spaced numbers, triangle indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from .. import arrays
from ..arrays import copied_from_host, from_host, is_array, overlap
from ..engine.arguments import kind_name
from ..engine.dtype import as_allowed_array
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor
from ..kernel_set import exact, kernels
from .argument_checks import as_count, as_element, as_flag, as_int64, as_real, is_number, require_tensor
from .device import DeviceLike, Like, Options, array_on_device, as_any_device, check_options
from .dtypes.dtype import DTypeLike, as_dtype, converted, default_dtype, int64
from .shape.diagonal import nearest_offset
from .shape.shape import TOO_LONG, Sizes, sizes

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_numpy",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]


@operator(by_shape=True, dtypes="")
def tensor(
    data: Any, dtype: DTypeLike = None, requires_grad: bool = False, device: DeviceLike = None, pin_memory: bool = False
) -> Tensor:
    """Create a Tensor with a copy of ``data``: a number, nested sequences of numbers, an ndarray or a Tensor.

    Python floats become the default type and ints int64; an ndarray keeps its type, and a Tensor its device.
    ``pin_memory`` has no effect.

    Raises:
        TypeError: a Tensor cannot hold elements of this type.
        RuntimeError: requires_grad is True for integers or bool, or the device is unknown.
    """
    if interpreters and (seen := interpreted(tensor, locals())) is not None:
        return seen
    check_options("tensor", {"device": device, "pin_memory": pin_memory})
    kind = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        same = kind is None or kind == data.array.dtype
        array = kernels.duplicate(data.array) if same else exact("cast")(data.array, kind)
    else:
        array = copied_from_host(data) if is_array(data) else as_allowed_array(data, kind)
    return Tensor(array, requires_grad, kind, device=device)


@operator(by_shape=True, dtypes="")
def as_tensor(data: Any, dtype: DTypeLike = None, device: DeviceLike = None) -> Tensor:
    """Convert ``data`` to a Tensor that shares its memory and history if possible; see ``tensor``.

    Raises:
        TypeError: a Tensor cannot hold elements of this type.
    """
    if interpreters and (seen := interpreted(as_tensor, locals())) is not None:
        return seen
    kind = None if dtype is None else as_dtype(dtype)
    found = data if isinstance(data, Tensor) else Tensor(as_allowed_array(data, kind))
    place = None if device is None else as_any_device("as_tensor", device)
    if place is None:
        return found if kind is None else found.to(kind)
    return found.to(place, kind)


@operator(by_shape=True, dtypes="")
def asarray(
    obj: Any,
    *,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Convert ``obj`` to a Tensor; copy always if ``copy`` is True, by default only if necessary.

    Raises:
        TypeError: a Tensor cannot hold elements of this type.
        ValueError: ``copy`` is False, and a copy is necessary.
        RuntimeError: requires_grad is True for integers or bool.
    """
    if interpreters and (seen := interpreted(asarray, locals())) is not None:
        return seen
    copy = None if copy is None else as_flag("asarray", "copy", copy)
    place = None if device is None else as_any_device("asarray", device)
    found = tensor(obj, dtype, device=place) if copy else as_tensor(obj, dtype, place)
    array = obj.array if isinstance(obj, Tensor) else obj
    if copy is False and not (is_array(array) and overlap(array, found.array)):
        raise ValueError(f"asarray: copy=False, but {type(obj).__name__} cannot become a Tensor without a copy")
    if as_flag("asarray", "requires_grad", requires_grad) and not found.requires_grad:
        found = found.detach().requires_grad_()
    return found


@operator(by_shape=True, dtypes="")
def from_numpy(array: np.ndarray) -> Tensor:
    """Create a Tensor that shares the memory of ``array``.

    Raises:
        TypeError: array is not an ndarray, or not of float32, float64, int64 or bool.
    """
    if interpreters and (seen := interpreted(from_numpy, locals())) is not None:
        return seen
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"from_numpy: array is {kind_name(array)}, needs an ndarray; retrograd.tensor(x) takes other data"
        )
    return Tensor(array)


@operator(by_shape=True, dtypes="")
def full(
    size: int | Sequence[int],
    fill_value: float,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """A Tensor of shape ``size`` filled with one number, in the number's type if ``dtype`` is None.

    Raises:
        ValueError: the number does not fit the type.
    """
    if interpreters and (seen := interpreted(full, locals())) is not None:
        return seen
    check_options("full", options)
    shape = extents_of("full", (size,))
    value: Any = fill_value
    kind = as_dtype(dtype or (value.array.dtype if isinstance(value, Tensor) else type(value)))
    is_element = isinstance(value, Tensor) or is_number(value)
    number = as_element("full", "fill_value", value, kind) if is_element else value
    return Tensor(arrays.full(shape, number), requires_grad, kind, device=options.get("device"))


def on_device_of(new: Tensor, like: Tensor, device: DeviceLike = None) -> Tensor:
    """Move a new Tensor to ``device``, or to the device of ``like``."""
    if device is not None:
        new.array = array_on_device("device", new.array, device)
    elif type(like.array) is not np.ndarray:
        new.array = from_host(new.array, like=like.array)
    return new


def extents_of(name: str, given: tuple[Any, ...], named: Any = None) -> tuple[int, ...]:
    """Return the shape of a new Tensor from the arguments of f(2, 3), f((2, 3)) or f(size=(2, 3)).

    Raises:
        TypeError: an extent is not an int, or the shape is given twice.
        ValueError: an extent is negative, or there are too many elements for any memory.
    """
    shape = sizes(name, "size", given, named)
    if shape and min(shape) < 0:
        raise ValueError(f"{name}: size={shape} has a negative extent; each must be at least 0")
    if math.prod(shape) >= TOO_LONG or max(shape, default=0) >= TOO_LONG:
        raise ValueError(f"{name}: size={tuple(shape)} is too large for any memory")
    return shape


@operator(by_shape=True, dtypes="")
def zeros(
    *extents: Sizes,
    size: Sizes | None = None,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """A Tensor of zeros with shape ``extents``, also accepted as ``size=``."""
    if interpreters and (seen := interpreted(zeros, locals())) is not None:
        return seen
    if options:
        check_options("zeros", options)
    return Tensor(
        arrays.zeros(extents_of("zeros", extents, size), as_dtype(dtype, default=True)),
        requires_grad,
        device=options.get("device"),
    )


@operator(by_shape=True, dtypes="")
def ones(
    *extents: Sizes,
    size: Sizes | None = None,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """A Tensor of ones with shape ``extents``, also accepted as ``size=``."""
    if interpreters and (seen := interpreted(ones, locals())) is not None:
        return seen
    if options:
        check_options("ones", options)
    return Tensor(
        arrays.ones(extents_of("ones", extents, size), as_dtype(dtype, default=True)),
        requires_grad,
        device=options.get("device"),
    )


@operator(by_shape=True, dtypes="")
def empty(
    *extents: Sizes,
    size: Sizes | None = None,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """An uninitialized Tensor with shape ``extents``, also accepted as ``size=``."""
    if interpreters and (seen := interpreted(empty, locals())) is not None:
        return seen
    if options:
        check_options("empty", options)
    return Tensor(
        arrays.empty(extents_of("empty", extents, size), as_dtype(dtype, default=True)),
        requires_grad,
        device=options.get("device"),
    )


@operator(by_shape=True, dtypes="bihf")
def zeros_like(input: Tensor, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Like]) -> Tensor:
    """A Tensor of zeros with input's shape, and its type if ``dtype`` is None."""
    if interpreters and (seen := interpreted(zeros_like, locals())) is not None:
        return seen
    if options:
        check_options("zeros_like", options)
    require_tensor("zeros_like", input)
    return Tensor(
        arrays.zeros_like(input.array, as_dtype(dtype or input.array.dtype)),
        requires_grad,
        device=options.get("device"),
    )


@operator(by_shape=True, dtypes="bihf")
def ones_like(input: Tensor, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Like]) -> Tensor:
    """A Tensor of ones with input's shape, and its type if ``dtype`` is None."""
    if interpreters and (seen := interpreted(ones_like, locals())) is not None:
        return seen
    if options:
        check_options("ones_like", options)
    require_tensor("ones_like", input)
    return Tensor(
        arrays.ones_like(input.array, as_dtype(dtype or input.array.dtype)), requires_grad, device=options.get("device")
    )


@operator(by_shape=True, dtypes="bihf")
def empty_like(input: Tensor, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Like]) -> Tensor:
    """An uninitialized Tensor with input's shape, and its type if ``dtype`` is None."""
    if interpreters and (seen := interpreted(empty_like, locals())) is not None:
        return seen
    if options:
        check_options("empty_like", options)
    require_tensor("empty_like", input)
    return Tensor(
        arrays.empty_like(input.array, as_dtype(dtype or input.array.dtype)),
        requires_grad,
        device=options.get("device"),
    )


@operator(by_shape=True, dtypes="bihf")
def full_like(
    input: Tensor, fill_value: float, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Like]
) -> Tensor:
    """A Tensor filled with one number, with input's shape, and its type if ``dtype`` is None.

    Raises:
        ValueError: the number does not fit the type.
    """
    if interpreters and (seen := interpreted(full_like, locals())) is not None:
        return seen
    check_options("full_like", options)
    require_tensor("full_like", input)
    kind = as_dtype(dtype or input.array.dtype)
    number = as_element("full_like", "fill_value", fill_value, kind)
    return Tensor(arrays.full_like(input.array, number, kind), requires_grad, device=options.get("device"))


@operator(by_shape=True, dtypes="")
def eye(
    n: int, m: int | None = None, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """A matrix (n, m), square by default, with ones on the diagonal and zeros elsewhere.

    Raises:
        TypeError: an extent is not an int.
        ValueError: an extent is negative.
    """
    if interpreters and (seen := interpreted(eye, locals())) is not None:
        return seen
    check_options("eye", options)
    n = as_count("eye", "n", n, 0)
    n, m = extents_of("eye", (n, n if m is None else as_count("eye", "m", m, 0)))
    return Tensor(arrays.eye(n, m, as_dtype(dtype, default=True)), requires_grad, device=options.get("device"))


@operator(by_shape=True, dtypes="")
def arange(
    start: float,
    end: float | None = None,
    step: float = 1,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """The numbers start, start + step, ... up to but not including ``end``; ``arange(n)`` starts at 0.

    The result is int64 if all three are ints, otherwise of the default type. For an integer ``dtype``, the arguments
    are truncated first.

    Raises:
        ValueError: the step is 0 or leads away from ``end``, the result does not fit into memory, or an int
            exceeds int64.
    """
    if interpreters and (seen := interpreted(arange, locals())) is not None:
        return seen
    check_options("arange", options)
    start, end, step = (
        as_number("arange", label, number) for label, number in (("start", start), ("end", end), ("step", step))
    )
    if end is None:
        start, end = 0, start
    if _is_integer(dtype) or (dtype is None and all(isinstance(n, (int, np.integer)) for n in (start, end, step))):
        if (end - start) * step < 0:
            raise ValueError(f"arange: step={step} does not lead from start={start} to end={end}")
        start, end = as_int64("arange", "start", start), as_int64("arange", "end", end)
        step = as_int64("arange", "step", step)
    if step == 0 or (end - start) * step < 0:
        raise ValueError(f"arange: step={step} does not lead from start={start} to end={end}")
    if not (end - start) // step < TOO_LONG:  # NumPy may return an empty array
        raise ValueError(f"arange: from start={start} to end={end} by step={step} is too long for any memory")
    array = arrays.arange(start, end, step)
    kind = as_dtype(dtype or (int64 if array.dtype.kind == "i" else default_dtype()))
    return Tensor(array, requires_grad, kind, device=options.get("device"))


@operator(by_shape=True, dtypes="")
def linspace(
    start: float,
    end: float,
    steps: int,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included.

    For an integer ``dtype``, the ends are truncated first, then the results.

    Raises:
        TypeError: ``steps`` is not an int.
        ValueError: ``steps`` is negative.
    """
    if interpreters and (seen := interpreted(linspace, locals())) is not None:
        return seen
    check_options("linspace", options)
    kind = as_dtype(dtype, default=True)
    return Tensor(
        _evenly_spaced("linspace", start, end, steps, kind), requires_grad, kind, device=options.get("device")
    )


@operator(by_shape=True, dtypes="")
def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """The numbers base ** ``linspace(start, end, steps)``.

    For an integer ``dtype``, the ends are truncated first, then the results.

    Raises: as ``linspace``.
    """
    if interpreters and (seen := interpreted(logspace, locals())) is not None:
        return seen
    check_options("logspace", options)
    kind, base = as_dtype(dtype, default=True), as_real("logspace", "base", base)
    exponents = _evenly_spaced("logspace", start, end, steps, kind)
    return Tensor(kernels.powers_of_number(exponents, base, kind), requires_grad, device=options.get("device"))


@operator(by_shape=True, dtypes="")
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DTypeLike = int64, device: DeviceLike = None, layout: Any = None
) -> Tensor:
    """The indices (2, K), row by row, of the lower triangle of a matrix (row, col) up to the diagonal ``offset``."""
    if interpreters and (seen := interpreted(tril_indices, locals())) is not None:
        return seen
    check_options("tril_indices", {"device": device, "layout": layout})
    offset = nearest_offset("tril_indices", "offset", offset, row, col)
    return _indices(row, col, offset, True, dtype, device)


@operator(by_shape=True, dtypes="")
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DTypeLike = int64, device: DeviceLike = None, layout: Any = None
) -> Tensor:
    """The indices (2, K), row by row, of the upper triangle of a matrix (row, col) from the diagonal ``offset`` on."""
    if interpreters and (seen := interpreted(triu_indices, locals())) is not None:
        return seen
    check_options("triu_indices", {"device": device, "layout": layout})
    offset = nearest_offset("triu_indices", "offset", offset, row, col)
    return _indices(row, col, offset, False, dtype, device)


def _indices(row: int, col: int, offset: int, lower: bool, dtype: Any, device: Any) -> Tensor:
    found = converted(kernels.triangle_indices(row, col, offset, lower), as_dtype(dtype))
    return Tensor(found, device=device)


def _is_integer(dtype: Any) -> bool:
    return dtype is not None and as_dtype(dtype).kind in "iu"


def as_number(name: str, label: str, number: Any) -> Any:
    """Convert a Tensor with one element to a number; numbers and None are unchanged. Raises like ``as_real``."""
    if isinstance(number, Tensor) and number.array.size == 1:
        return number.item()
    if number is not None and not (is_number(number) and isinstance(number, (int, np.integer))):
        as_real(name, label, number)
    return number


def _evenly_spaced(name: str, start: float, end: float, steps: int, dtype: Any) -> np.ndarray:
    steps = as_count(name, "steps", steps, 0)
    if _is_integer(dtype):
        start, end = as_int64(name, "start", start), as_int64(name, "end", end)
    return arrays.linspace(as_real(name, "start", start), as_real(name, "end", end), steps)
