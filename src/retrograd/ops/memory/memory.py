"""The memory of a tensor: strides, addresses, storages, and views of its bytes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ... import arrays
from ...arrays import address, any_true, from_host
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..arguments.checks import as_element, is_number, require_tensor
from ..reduce.reduction import sum as total
from ..shape import shape as shapes
from ..shape.broadcasting import broadcast_shape, broadcasts_to, sum_to
from ..shape.rearrange import flip
from ..shape.shape import axis
from .layout import as_memory_format, channels_last, channels_last_3d, contiguous_format
from .storage import Storage, offset_of


def stride(input: Tensor, dim: int | None = None) -> Any:
    """Return the strides in elements: the distance in memory between neighbors along each axis, or along ``dim``.

    Raises:
        IndexError: input has no such axis.
    """
    steps = tuple([step // input.array.itemsize for step in input.array.strides])
    return steps if dim is None else steps[axis("stride", "dim", dim, len(steps))]


def storage_offset(input: Tensor) -> int:
    """The position of input's first element in the storage, counted in elements from its lowest address."""
    return offset_of(input.array)[0]


def data_ptr(input: Tensor) -> int:
    """The address of the first element."""
    return address(input.array)


def element_size(input: Tensor) -> int:
    """Bytes of an element."""
    return input.array.itemsize


def untyped_storage(input: Tensor) -> Storage:
    """The memory that input shares with its views, as bytes."""
    return Storage(input, False)


def storage(input: Tensor) -> Storage:
    """The memory that input shares with its views, as elements; PyTorch no longer recommends it."""
    warnings.warn(
        "TypedStorage is deprecated, use tensor.untyped_storage() instead of tensor.storage()",
        UserWarning,
        stacklevel=2,
    )
    return Storage(input, True)


def is_set_to(input: Tensor, tensor: Tensor) -> bool:
    """Whether both show the same elements of the same memory, in the same shape."""
    require_tensor("is_set_to", tensor, "tensor")
    a, b = input.array, tensor.array
    return (address(a), a.shape, a.strides, a.dtype) == (address(b), b.shape, b.strides, b.dtype)


def is_shared(input: Tensor) -> bool:
    """False: a DataLoader's workers copy tensors to this process, no memory is shared between processes."""
    return False


@operator(methods="share_memory_", dtypes="bihf")
def share_memory_(input: Tensor) -> Tensor:
    """input itself: no memory is shared between processes."""
    if interpreters and (seen := interpreted(share_memory_, locals())) is not None:
        return seen
    return input


def dim_order(input: Tensor) -> tuple[int, ...]:
    """The axes from the slowest to the fastest in memory."""
    steps = input.array.strides
    return tuple(sorted(range(len(steps)), key=lambda axis: -abs(steps[axis])))


_LAST = {channels_last: 4, channels_last_3d: 5}  # memory formats with the channels last -> the axes they are for


def is_contiguous(input: Tensor, memory_format: Any = None) -> bool:
    """Whether the elements lie in memory in C order, or in that of a ``memory_format``.

    Raises:
        TypeError: it is not a memory format.
    """
    if as_memory_format("is_contiguous", memory_format) in _LAST:
        ndim = input.array.ndim
        return ndim == _LAST[memory_format] and bool(arrays.moveaxis(input.array, 1, -1).flags.c_contiguous)
    return shapes.is_contiguous(input)


@operator(methods="contiguous", dtypes="bihf")
def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """input itself if its elements lie in memory in C order, or in that of a ``memory_format``; else a copy.

    No operator needs this: all accept any strides.

    Raises:
        TypeError: it is not a memory format.
        RuntimeError: it is for another number of axes.
    """
    if interpreters and (seen := interpreted(contiguous, locals())) is not None:
        return seen
    if memory_format in (None, contiguous_format) or is_contiguous(input, memory_format):
        return shapes.contiguous(input)
    if memory_format not in _LAST:
        return input  # preserve_format
    ndim = _LAST[memory_format]
    if input.array.ndim != ndim:
        raise RuntimeError(f"contiguous: {memory_format} is for {ndim} axes; input.shape={input.array.shape}")
    last = shapes.contiguous(shapes.permute(input, (0, *range(2, ndim), 1)))
    return shapes.permute(last, (0, ndim - 1, *range(1, ndim - 1)))


@operator(methods="clone", dtypes="bihf")
def clone(input: Tensor, memory_format: Any = None) -> Tensor:
    """A copy of input, whose elements lie in memory as those of input or in the order of a ``memory_format``.

    Raises: as ``contiguous``.
    """
    if interpreters and (seen := interpreted(clone, locals())) is not None:
        return seen
    copied = shapes.clone(input)
    return copied if memory_format is None else contiguous(copied, memory_format)


@operator(methods="view", dtypes="bihf")
def view(input: Tensor, *shape: Any) -> Tensor:
    """input in another shape, see ``reshape``; or its bytes as elements of another type: ``x.view(dtype)``.

    The latter has no gradient. Raises:
        ValueError: the bytes cannot be shown so.
        RuntimeError: input requires a gradient.
    """
    if interpreters and (seen := interpreted(view, locals())) is not None:
        return seen
    try:
        return shapes.reshape(input, *shape)
    except TypeError:
        if len(shape) != 1 or not isinstance(shape[0], (np.dtype, type)):
            raise
    if input.requires_grad:
        raise RuntimeError(f"view: bytes as {shape[0]} have no gradient; use x.detach().view(dtype)")
    return wrap(input.array.view(shape[0]))


@operator(methods="__contains__", dtypes="bihf")
def contains(input: Tensor, element: Any) -> bool:
    """Whether an element of input equals ``element``, a number or a tensor.

    Raises:
        TypeError: it is neither.
    """
    if interpreters and (seen := interpreted(contains, locals())) is not None:
        return seen
    if not (is_number(element) or isinstance(element, Tensor)):
        raise TypeError(f"in: element is {type(element).__name__}, needs a number or a Tensor")
    other = element.array if isinstance(element, Tensor) else element
    if isinstance(other, int) and other.bit_length() > 64:  # larger than any element
        return False
    if isinstance(element, Tensor):
        broadcast_shape("in", input.array.shape, element.array.shape)
    if not isinstance(element, Tensor):  # Python's numbers take the type of input
        plain = input.array.dtype.kind == "f" and type(element) in (bool, int, float)
        other = as_element("in", "element", element, input.array.dtype) if plain else from_host(element)
    return any_true(exact("eq")(input.array, other), "whether an element occurs in a tensor")


def _reversed(input: Tensor) -> Tensor:
    """input with its first axis turned round."""
    return flip(input, (0,)) if input.array.ndim else input


@operator(methods="sum_to_size", dtypes="bihf")
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """input summed to a shape that broadcasts to it; integers and truth values sum to int64.

    Raises:
        ValueError: ``size`` does not broadcast to the shape of input.
    """
    if interpreters and (seen := interpreted(sum_to_size, locals())) is not None:
        return seen
    require_tensor("sum_to_size", input)
    target, source = shapes.sizes("sum_to_size", "size", size), input.array.shape
    if not broadcasts_to(tuple(target), source):
        raise ValueError(
            f"sum_to_size: size={target} does not broadcast to input.shape={source}; each extent, counted from the "
            "end, must be equal or 1"
        )
    if input.array.dtype.kind == "f":
        return sum_to(input, target)
    missing = len(source) - len(target)
    axes = [axis for axis in range(len(source)) if axis < missing or target[axis - missing] != source[axis]]
    return total(input, axes).reshape(target) if axes else input


@operator(methods="__dlpack__", dtypes="bihf")
def dlpack(input: Tensor, **options: Any) -> Any:
    """The capsule of the DLPack protocol: ``numpy.from_dlpack(x)`` shares the memory.

    Raises:
        RuntimeError: input requires a gradient.
        BufferError: an axis is read backwards, which ends a process of PyTorch; or as NumPy's arrays raise.
    """
    if interpreters and (seen := interpreted(dlpack, locals())) is not None:
        return seen
    array = input.numpy()
    if options.get("copy"):
        array = kernels.reshaped(array, array.shape)
    elif array.size and min(array.strides, default=0) < 0:
        raise BufferError(
            f"__dlpack__: an axis of the tensor, of shape {array.shape}, is read backwards in memory, which not every "
            "library can show; use tensor.clone()"
        )
    return array.__dlpack__(**options)


def dlpack_device(input: Tensor) -> tuple[int, int]:
    """(1, 0), the CPU in the DLPack protocol."""
    return 1, 0


def _doc(name: str, value: Any, doc: str) -> Any:
    def read(input: Tensor) -> Any:
        return value(input)

    read.__name__ = name
    return property(read, doc=doc)


METHODS: dict[str, Any] = {
    **{
        function.__name__: function
        for function in (
            *(stride, storage_offset, data_ptr, element_size, untyped_storage, storage, is_set_to, is_shared),
            *(dim_order, is_contiguous),
        )
    },
    "nelement": Tensor.numel,
    "ndimension": Tensor.dim,
    "__dlpack_device__": dlpack_device,
    "__reversed__": _reversed,
    "itemsize": _doc("itemsize", element_size, "Bytes of an element."),
    "nbytes": _doc("nbytes", lambda input: input.array.nbytes, "Bytes of all elements."),
    "output_nr": _doc(
        "output_nr", lambda input: 0 if input._edge is None else input._edge[1], "Which output of ``grad_fn`` it is."
    ),
}
