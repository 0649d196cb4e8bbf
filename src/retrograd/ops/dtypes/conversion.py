"""Conversions of a tensor's type and device: Tensor methods such as ``to``, ``type``, ``cpu`` and ``float``."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import device_of as name_of
from ..argument_checks import as_flag, require_tensor
from ..device import (
    DeviceLike,
    as_any_device,
    as_device,
    as_memory_format,
    channels_last,
    channels_last_3d,
    device_of,
    is_device,
    memory_format,
    moved,
    strided,
)
from ..shape.shape import clone
from .dtype import (
    DTypeLike,
    as_dtype,
    bool_,
    cast,
    default_dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)

# the names of PyTorch's legacy constructors, which Tensor.type returns and accepts
TENSOR_TYPES: dict[str, np.dtype[Any]] = {
    "FloatTensor": float32,
    "DoubleTensor": float64,
    "HalfTensor": float16,
    "LongTensor": int64,
    "IntTensor": int32,
    "ShortTensor": int16,
    "CharTensor": int8,
    "ByteTensor": uint8,
    "BoolTensor": bool_,
}
_TYPE_NAMES = {dtype: f"torch.{name}" for name, dtype in TENSOR_TYPES.items()}


class Destination(NamedTuple):
    """The parsed arguments of ``to``."""

    dtype: np.dtype[Any] | None
    copy: bool
    memory_format: Any
    device: str | None


def destination(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Destination:
    """Parse the arguments of ``to``: (dtype, ...), (device, dtype, ...) or (other, ...), then non_blocking and copy.

    Raises:
        TypeError: they are none of these.
        RuntimeError: the device is unknown.
    """
    left = list(args)
    dtype, device = None, None
    if left and isinstance(left[0], Tensor):
        other = left.pop(0).array
        dtype, device = other.dtype, name_of(other)
    elif left and (left[0] is None or is_device(left[0]) or type(left[0]) is int):
        place = left.pop(0)
        device = None if place is None else as_any_device(name, place)
        if left and not isinstance(left[0], bool):
            dtype = left.pop(0)
    elif left:
        dtype = left.pop(0)
    given = {}
    for option, value in zip(("non_blocking", "copy"), left, strict=False):
        given[option] = value
    if len(left) > 2 or given.keys() & options.keys():
        raise TypeError(
            f"{name}: got {len(args)} arguments; the forms are {name}(dtype), {name}(device, dtype) and {name}(other)"
        )
    for option, value in options.items():
        if option == "device":
            device = None if value is None else as_any_device(name, value)
        elif option == "dtype" and dtype is None:
            dtype = value
        elif option == "other" and dtype is None and isinstance(value, Tensor):
            dtype, device = value.array.dtype, name_of(value.array)
        elif option in ("non_blocking", "copy", "memory_format"):
            given[option] = value
        else:
            raise TypeError(f"{name}() got an unexpected argument {option}={value!r}")
    as_flag(name, "non_blocking", given.get("non_blocking", False))
    copied = as_flag(name, "copy", given.get("copy", False))
    memory_format = as_memory_format(name, given.get("memory_format"))
    return Destination(None if dtype is None else as_dtype(dtype), copied, memory_format, device)


class Move(Function):
    """The same elements on another device; the gradient is moved back."""

    moves = True
    gradient = "input: g"

    @staticmethod
    def forward(ctx: Any, input: Tensor, device: str) -> Tensor:
        ctx.source = name_of(input.array)
        return wrap(moved(input.array, device))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return on_device(g, ctx.source), None


def on_device(input: Tensor, device: str) -> Tensor:
    """Return input on the device of this name: itself if it is already there, otherwise a copy."""
    found: Tensor = input if name_of(input.array) == device else Move.apply(input, device)
    return found


@operator(methods="to", dtypes="bihf")
def to(input: Tensor, *args: Any, **options: Any) -> Tensor:
    """Convert input: ``x.to(dtype)``, ``x.to(device)``, ``x.to(device, dtype)`` or ``x.to(other)``.

    device: the CPU, or one registered with ``kernel_set.add_device``. copy: always return a new tensor.
    memory_format: the order of the result's axes in memory. non_blocking: no effect.

    Raises:
        TypeError: the arguments are none of these, or dtype is not an element type.
        RuntimeError: the device is unknown.
    """
    if interpreters and (seen := interpreted(to, locals())) is not None:
        return seen
    if len(args) == 1 and not options and isinstance(args[0], (np.dtype, type)):
        return cast(input, args[0])
    dtype, copied, order, device = destination("to", args, options)
    result = input if dtype is None else cast(input, dtype)
    if device is not None:
        result = on_device(result, device)
    if order in (channels_last, channels_last_3d):
        result = result.contiguous(memory_format=order)
    return clone(result) if copied and result is input else result


@operator(methods="cpu", dtypes="bihf")
def cpu(input: Tensor, memory_format: memory_format | None = None) -> Tensor:
    """Return input on the CPU: itself, unless it is on a device registered with ``kernel_set.add_device``."""
    if interpreters and (seen := interpreted(cpu, locals())) is not None:
        return seen
    as_memory_format("cpu", memory_format)
    return on_device(input, "cpu")


def cuda(
    input: Tensor, device: DeviceLike = None, non_blocking: Any = False, memory_format: memory_format | None = None
) -> NoReturn:
    """Raise a RuntimeError: there is one device, the CPU."""
    raise RuntimeError("cuda: there is one device, the CPU; leave the call out, or write x.to(device) with 'cpu'")


@operator(methods="pin_memory", dtypes="bihf")
def pin_memory(input: Tensor, device: DeviceLike = None) -> Tensor:
    """Return input itself: pinned memory speeds up copies to an accelerator, and there is none."""
    if interpreters and (seen := interpreted(pin_memory, locals())) is not None:
        return seen
    as_device("pin_memory", device)
    return input


def is_pinned(input: Tensor, device: DeviceLike = None) -> bool:
    """Return False: pinned memory speeds up copies to an accelerator, and there is none."""
    as_device("is_pinned", device)
    return False


def get_device(input: Tensor) -> int:
    """Return -1, the index of the CPU."""
    require_tensor("get_device", input)
    return -1


def type_(input: Tensor, dtype: DTypeLike | type[Tensor] = None, non_blocking: bool = False) -> Any:
    """Return the name of input's type, such as "torch.FloatTensor", or with ``dtype``, input in that type.

    dtype: an element type, a class such as retrograd.FloatTensor, or the name of one.

    Raises:
        TypeError, ValueError: ``dtype`` is none of these.
        RuntimeError: it is the name of a type on another device.
    """
    as_flag("type", "non_blocking", non_blocking)
    if dtype is None:
        return _TYPE_NAMES[input.array.dtype]
    return cast(input, named_type("type", dtype))


def named_type(name: str, dtype: Any) -> np.dtype[Any]:
    """Return the element type of a dtype, of a class such as FloatTensor, or of the name of one."""
    if isinstance(dtype, str) and dtype.endswith("Tensor"):
        place, _, kind = dtype.rpartition(".")
        if place == "torch.cuda":
            raise RuntimeError(f"{name}: {dtype!r} is on a GPU, but there is one device, the CPU; use 'torch.{kind}'")
        if place not in ("torch", "retrograd") or kind not in (*TENSOR_TYPES, "Tensor"):
            raise ValueError(f"{name}: {dtype!r} is not the name of a type; use one such as 'torch.FloatTensor'")
        return TENSOR_TYPES[kind] if kind in TENSOR_TYPES else default_dtype()
    if dtype is Tensor:
        return default_dtype()
    return as_dtype(getattr(dtype, "dtype", dtype) if isinstance(dtype, type) else dtype)  # of FloatTensor or int


def _converted(name: str, dtype: np.dtype[Any], doc: str) -> Any:
    def convert(input: Tensor, memory_format: memory_format | None = None) -> Tensor:
        as_memory_format(name, memory_format)
        return cast(input, dtype)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = doc
    return convert


@operator(methods="type_as", dtypes="bihf")
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """Convert input to the element type of ``other``."""
    if interpreters and (seen := interpreted(type_as, locals())) is not None:
        return seen
    require_tensor("type_as", other, "other")
    return cast(input, other.array.dtype)


def bfloat16(input: Tensor, memory_format: memory_format | None = None) -> NoReturn:
    """Raise a TypeError: tensors cannot hold bfloat16."""
    raise TypeError("bfloat16: tensors cannot hold bfloat16; use x.float(), or x.half() for storage")


METHODS: dict[str, Any] = {
    "cuda": cuda,
    "get_device": get_device,
    "type": type_,
    "float": _converted("float", float32, "Convert input to float32."),
    "double": _converted("double", float64, "Convert input to float64."),
    "half": _converted("half", float16, "Convert input to float16, a storage type without arithmetic."),
    "long": _converted("long", int64, "Convert input to int64, truncated."),
    "int": _converted("int", int32, "Convert input to int32, truncated."),
    "short": _converted("short", int16, "Convert input to int16, truncated; larger integers wrap."),
    "char": _converted("char", int8, "Convert input to int8, truncated; larger integers wrap."),
    "byte": _converted("byte", uint8, "Convert input to uint8, truncated; larger integers wrap."),
    "bool": _converted("bool", bool_, "Convert input to bool: True where it is not 0."),
    "bfloat16": bfloat16,
    "device": property(device_of, doc="The device of the elements."),
    "layout": property(lambda input: strided, doc="retrograd.strided"),
    "is_cpu": property(lambda input: name_of(input.array) == "cpu", doc="True if the elements are on the CPU."),
    **{
        name: property(lambda input: False, doc="False: there are only ordinary dense tensors.")
        for name in (
            "is_cuda",
            "is_mps",
            "is_meta",
            "is_sparse",
            "is_quantized",
            "is_mkldnn",
            "is_xpu",
            "is_nested",
            "is_ipu",
            "is_xla",
            "is_vulkan",
            "is_mtia",
            "is_maia",
            "is_sparse_csr",
        )
    },
    "is_pinned": is_pinned,
}
