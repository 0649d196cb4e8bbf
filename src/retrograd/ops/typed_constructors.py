"""Constructors of tensors of a given type: `FloatTensor`, `x.new_zeros`; tensors that share other libraries' memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np

from .. import arrays
from ..engine.arguments import kind_name
from ..engine.call_site import warn_user
from ..engine.dtype import as_allowed_array
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Size, Tensor, wrap
from ..kernel_set import kernels
from .argument_checks import TOO_LONG, as_count, as_counts
from .creation import as_number, empty, from_numpy, full, on_device_of, ones, tensor, zeros
from .device import DeviceLike, Options, as_any_device, check_options
from .dtypes.conversion import TENSOR_TYPES, on_device
from .dtypes.dtype import DTypeLike, as_dtype, converted
from .shape.shape import Sizes

__all__ = [
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "empty_strided",
    "from_dlpack",
    "frombuffer",
    "range",
    "scalar_tensor",
]


# ---- PyTorch's legacy constructors: `FloatTensor(2, 3)`, `LongTensor([1, 2])` ----------------------------------------


class _Kind(type):
    """Metaclass of the typed constructors: calling one creates a Tensor, and its instances are Tensors of its type."""

    dtype: np.dtype[Any]

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> _Kind:
        kind = super().__new__(cls, name, bases, members)
        if name in TENSOR_TYPES:
            kind.dtype = TENSOR_TYPES[name]
            kind.__doc__ = _DOC.format(kind.dtype)
        return kind

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.array.dtype is cls.dtype

    def __call__(cls, *data: Any, device: DeviceLike = None) -> Tensor:
        return make_tensor(cls.__name__, cls.dtype, data, device)


def make_tensor(name: str, dtype: np.dtype[Any], data: tuple[Any, ...], device: Any) -> Tensor:
    """Create a Tensor of ``dtype`` from extents, or one sequence, array or Tensor; messages begin with ``name``."""
    found = _from(name, dtype, data)
    return found if device is None else on_device(found, as_any_device(name, device))


def _from(name: str, dtype: np.dtype[Any], data: tuple[Any, ...]) -> Tensor:
    if not data:
        return wrap(arrays.empty(0, dtype))
    if len(data) > 1 or isinstance(data[0], (int, np.integer, Size)):
        return zeros(*data, dtype=dtype)
    if isinstance(data[0], Tensor):
        if data[0].array.dtype is not dtype:
            raise TypeError(f"{name}: data is {data[0].array.dtype}; convert it with .to(retrograd.{dtype})")
        return data[0].view_as(data[0])
    if isinstance(data[0], np.ndarray):
        return wrap(converted(as_allowed_array(data[0], None), dtype))
    if isinstance(data[0], str) or not hasattr(data[0], "__len__"):
        raise TypeError(f"{name}: data is {kind_name(data[0])}, needs ints, a sequence, an array or a Tensor")
    return wrap(as_allowed_array(data[0], dtype))


_DOC = """A Tensor of {}: zeros with the given extents, or a copy of a sequence or an array.

For a Tensor of this type, the result is a new Tensor with the same memory and history.

    Raises:
        TypeError: data is none of these, or a Tensor of another type.
        ValueError: an extent is negative, or a number does not fit.
"""

if TYPE_CHECKING:

    class _Typed(Tensor):
        dtype: ClassVar[np.dtype[Any]]

        def __init__(self, *data: Any, device: DeviceLike = None) -> None: ...

else:

    class _Typed(metaclass=_Kind):
        pass


class BoolTensor(_Typed): ...


class ByteTensor(_Typed): ...


class CharTensor(_Typed): ...


class DoubleTensor(_Typed): ...


class FloatTensor(_Typed): ...


class HalfTensor(_Typed): ...


class IntTensor(_Typed): ...


class LongTensor(_Typed): ...


class ShortTensor(_Typed): ...


# ---- Methods for new tensors of the same type: `x.new_zeros(2, 3)`, `x.new_tensor([1, 2])` ---------------------------


@operator(by_shape=True, methods="new", dtypes="bihf")
def new(input: Tensor, *data: Any, device: DeviceLike = None) -> Tensor:
    """A tensor of input's type from extents, a sequence, an array or a Tensor, as in ``retrograd.FloatTensor``."""
    if interpreters and (seen := interpreted(new, locals())) is not None:
        return seen
    return on_device_of(make_tensor("new", input.array.dtype, data, device), input, device)


@operator(by_shape=True, methods="new_tensor", dtypes="bihf")
def new_tensor(
    input: Tensor, data: Any, *, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """A copy of ``data`` in input's type, or ``dtype``; see ``retrograd.tensor``."""
    if interpreters and (seen := interpreted(new_tensor, locals())) is not None:
        return seen
    check_options("new_tensor", options)
    return on_device_of(tensor(data, dtype or input.array.dtype, requires_grad), input, options.get("device"))


@operator(by_shape=True, methods="new_zeros", dtypes="bihf")
def new_zeros(
    input: Tensor, *size: Sizes, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """A tensor of zeros with shape ``size`` in input's type, or ``dtype``."""
    if interpreters and (seen := interpreted(new_zeros, locals())) is not None:
        return seen
    found = zeros(*size, dtype=dtype or input.array.dtype, requires_grad=requires_grad, **options)
    return on_device_of(found, input, options.get("device"))


@operator(by_shape=True, methods="new_ones", dtypes="bihf")
def new_ones(
    input: Tensor, *size: Sizes, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """A tensor of ones with shape ``size`` in input's type, or ``dtype``."""
    if interpreters and (seen := interpreted(new_ones, locals())) is not None:
        return seen
    found = ones(*size, dtype=dtype or input.array.dtype, requires_grad=requires_grad, **options)
    return on_device_of(found, input, options.get("device"))


@operator(by_shape=True, methods="new_empty", dtypes="bihf")
def new_empty(
    input: Tensor, *size: Sizes, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """An uninitialized tensor with shape ``size`` in input's type, or ``dtype``."""
    if interpreters and (seen := interpreted(new_empty, locals())) is not None:
        return seen
    found = empty(*size, dtype=dtype or input.array.dtype, requires_grad=requires_grad, **options)
    return on_device_of(found, input, options.get("device"))


@operator(by_shape=True, methods="new_full", dtypes="bihf")
def new_full(
    input: Tensor,
    size: int | Sequence[int],
    fill_value: float,
    *,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """A tensor filled with one number, with shape ``size`` in input's type, or ``dtype``."""
    if interpreters and (seen := interpreted(new_full, locals())) is not None:
        return seen
    return on_device_of(
        full(size, fill_value, dtype or input.array.dtype, requires_grad, **options), input, options.get("device")
    )


@operator(by_shape=True, methods="new_empty_strided", dtypes="bihf")
def new_empty_strided(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """An uninitialized tensor in input's type, or ``dtype``; see ``retrograd.empty_strided``."""
    if interpreters and (seen := interpreted(new_empty_strided, locals())) is not None:
        return seen
    kind = dtype or input.array.dtype
    return on_device_of(
        empty_strided(size, stride, dtype=kind, requires_grad=requires_grad, **options), input, options.get("device")
    )


@operator(by_shape=True, dtypes="")
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """An uninitialized tensor of shape ``size`` with ``stride[i]`` elements between neighbors along axis i.

    Raises:
        ValueError: a number is negative, or there are not as many strides as extents.
    """
    if interpreters and (seen := interpreted(empty_strided, locals())) is not None:
        return seen
    check_options("empty_strided", options)
    extents = as_counts("empty_strided", "size", size).tolist()
    steps = as_counts("empty_strided", "stride", stride).tolist()
    if len(steps) != len(extents) or min((*extents, *steps), default=0) < 0:
        raise ValueError(
            f"empty_strided: size={size} and stride={stride} must have the same length, with numbers of at least 0"
        )
    kind = as_dtype(dtype, default=True)
    count = 1 + sum((extent - 1) * step for extent, step in zip(extents, steps, strict=True)) if all(extents) else 0
    if count >= TOO_LONG:
        raise ValueError(f"empty_strided: size={size} and stride={stride} exceed any memory")
    array = arrays.as_strided(arrays.empty(count, kind), extents, [step * kind.itemsize for step in steps])
    return Tensor(array, requires_grad, device=options.get("device"))


@operator(by_shape=True, dtypes="")
def scalar_tensor(
    s: float, *, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """A 0-d tensor of one number, of the default type if ``dtype`` is None."""
    if interpreters and (seen := interpreted(scalar_tensor, locals())) is not None:
        return seen
    return full((), s, as_dtype(dtype, default=True), requires_grad, **options)


@operator(by_shape=True, dtypes="")
def range(
    start: float = 0,
    end: Any = None,
    step: float = 1,
    *,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """The numbers start, start + step, ... up to and including ``end``.

    The result is of the default type if ``dtype`` is None. PyTorch recommends ``arange``, which excludes ``end``.

    Raises:
        ValueError: as ``arange``.
    """
    if interpreters and (seen := interpreted(range, locals())) is not None:
        return seen
    warn_user(
        "range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use arange, which produces values in [start, end)."
    )
    start, end = (0, start) if end is None else (start, end)
    check_options("range", options)
    start, end, step = (
        as_number("range", label, number) for label, number in (("start", start), ("end", end), ("step", step))
    )
    if step == 0 or (end - start) * step < 0:
        raise ValueError(f"range: step={step} does not lead from start={start} to end={end}")
    if not (end - start) / step < TOO_LONG:
        raise ValueError(f"range: from start={start} to end={end} by step={step} is too long for any memory")
    count = int((end - start) / step) + 1
    kind = as_dtype(dtype, default=True)
    return tensor(kernels.progression(start, step, count), kind, requires_grad, options.get("device"))


@operator(by_shape=True, dtypes="")
def from_dlpack(ext_tensor: Any) -> Tensor:
    """Create a tensor that shares the memory of another library's array, through the DLPack protocol.

    Raises:
        TypeError: it does not support the protocol, a Tensor cannot hold its elements, or they are not on the CPU.
        BufferError: the other library refuses, as PyTorch does for a tensor that requires a gradient.
    """
    if interpreters and (seen := interpreted(from_dlpack, locals())) is not None:
        return seen
    if not hasattr(ext_tensor, "__dlpack__"):
        raise TypeError(
            f"from_dlpack: ext_tensor is {kind_name(ext_tensor)}, which does not support DLPack (__dlpack__); "
            "retrograd.tensor(x) takes other data"
        )
    if isinstance(ext_tensor, Tensor):
        return from_numpy(ext_tensor.numpy())
    try:
        array = arrays.from_dlpack(ext_tensor)
    except BufferError as error:
        raise BufferError(f"from_dlpack: the array cannot be shared: {error}; copy it with tensor()") from None
    except RuntimeError as error:
        raise TypeError(
            f"from_dlpack: NumPy cannot read the elements of ext_tensor, a {type(ext_tensor).__name__}: {error} It "
            "reads only its own number types on the CPU; convert ext_tensor first"
        ) from None
    return from_numpy(array)


@operator(by_shape=True, dtypes="")
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Create a vector of ``dtype`` from an object such as bytes or a bytearray, whose memory it shares.

    count: the number of elements; -1 means all. offset: the number of bytes to skip at the start.

    Raises:
        TypeError: ``buffer`` is not such an object.
        ValueError: the buffer is too short, or its length is not a multiple of the element size.
    """
    if interpreters and (seen := interpreted(frombuffer, locals())) is not None:
        return seen
    kind = as_dtype(dtype)
    try:
        with memoryview(buffer) as view:
            length = view.nbytes
    except TypeError:
        raise TypeError(
            f"frombuffer: buffer is {kind_name(buffer)}, needs bytes, a bytearray or another object with a buffer"
        ) from None
    offset, count = as_count("frombuffer", "offset", offset, 0), as_count("frombuffer", "count", count, -1)
    if not length:
        raise ValueError("frombuffer: buffer is empty; pass at least one byte")
    rest = length - offset
    if rest < 0 or (rest % kind.itemsize if count == -1 else count * kind.itemsize > rest):
        raise ValueError(
            f"frombuffer: buffer has {length} bytes, of which offset={offset} are skipped and count={count} elements "
            f"of {kind.itemsize} bytes are to be read (-1: all); they must fit exactly, or count must be smaller"
        )
    array = arrays.from_buffer(buffer, kind, count, offset)
    return Tensor(array, requires_grad)
