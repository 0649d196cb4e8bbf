"""The memory of a tensor: storages, strides, addresses, and views by strides and of bytes.

The storage of a tensor is all the memory of the NumPy array that owns it. A view shares the storage of its base, and a
tensor made by ``from_numpy`` from a slice has the storage of the whole array. Positions are counted in elements, in
memory order from the lowest address. For a channels-last tensor that is not the order of its indices, and the first
element of a tensor with negative strides is not the first of the storage.

The gradient of ``as_strided`` sums the gradients of each position and passes the sum to the element of input there. If
several elements of input share a position, each gets an equal part.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from .. import arrays
from ..arrays import address, all_true, any_true, empty, from_host, of_bytes, ones, shared, to_host
from ..engine.aliasing import Untracked, memory_owner
from ..engine.arguments import kind_name
from ..engine.function import Function
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor, wrap
from ..engine.views import View, replay
from ..kernel_set import exact, kernels
from .argument_checks import as_element, as_int, is_number, require_tensor
from .device import CPU, as_memory_format, channels_last, channels_last_3d, contiguous_format, memory_format
from .dtypes.dtype import int64
from .pointwise.piecewise import where
from .reduce.reduction import sum as total
from .shape import shape as shapes
from .shape.broadcasting import broadcast_shape, broadcasts_to, sum_to
from .shape.rearrange import flip
from .shape.shape import Sizes, axis, sizes

__all__ = ["as_strided", "as_strided_scatter", "view_as"]


# ---- Storage: the memory that a tensor shares with its views --------------------------------------------------------


class Storage:
    """The memory that a tensor and its views share: its elements, or its bytes if it is untyped.

    It is for comparisons and sizes; elements are changed through tensors.
    """

    def __init__(self, tensor: Tensor, typed: bool) -> None:
        self._owner = memory_owner(tensor.array)
        self._element = self._owner.itemsize if typed else 1
        self.dtype: np.dtype[Any] = self._owner.dtype if typed else np.dtype(np.uint8)
        self.device = CPU

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return lowest(self._owner)

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._owner.nbytes

    def size(self) -> int:
        """Return the number of elements."""
        return self._owner.nbytes // self._element

    __len__ = size

    def element_size(self) -> int:
        """Return the number of bytes per element."""
        return self._element

    def tolist(self) -> list[Any]:
        """Return the elements as a list, in memory order."""
        found: list[Any] = to_host(self._owner, "the elements of a storage").ravel("K").view(self.dtype).tolist()
        return found

    def __getitem__(self, index: Any) -> Any:
        return self.tolist()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and (self.data_ptr(), self.dtype) == (other.data_ptr(), other.dtype)

    def __hash__(self) -> int:
        return hash(self.data_ptr())


def lowest(array: np.ndarray) -> int:
    """Return the lowest address of an element: that of the first one if no stride is negative."""
    back = [step * (extent - 1) for step, extent in zip(array.strides, array.shape, strict=True) if step < 0 < extent]
    return address(array) + sum(back)


def offset_of(array: np.ndarray) -> tuple[int, int]:
    """Return the position of the first element in the storage: in elements, and the remaining bytes."""
    return divmod(address(array) - lowest(memory_owner(array)), array.itemsize)


def bytes_of(array: np.ndarray) -> np.ndarray | None:
    """Return all bytes of an array's storage as a vector that shares the memory; None if it has gaps."""
    owner = memory_owner(array)
    order = sorted(range(owner.ndim), key=lambda axis: -abs(owner.strides[axis]))
    ahead = tuple([slice(None, None, -1 if owner.strides[axis] < 0 else 1) for axis in order])
    dense = owner.transpose(order)[ahead]
    return dense.reshape(-1).view(np.uint8) if dense.flags.c_contiguous else None


# ---- Methods for strides, addresses, storages, copies, and views of bytes --------------------------------------------


def stride(input: Tensor, dim: int | None = None) -> Any:
    """Return the strides in elements: the distance in memory between neighbors along each axis, or along ``dim``.

    Raises:
        IndexError: input has no such axis.
    """
    steps = tuple([step // input.array.itemsize for step in input.array.strides])
    return steps if dim is None else steps[axis("stride", "dim", dim, len(steps))]


def storage_offset(input: Tensor) -> int:
    """Return the position of input's first element in the storage, counted in elements from the lowest address."""
    return offset_of(input.array)[0]


def data_ptr(input: Tensor) -> int:
    """Return the address of the first element."""
    return address(shared(input.array, "the address of a tensor"))


def element_size(input: Tensor) -> int:
    """Return the number of bytes per element."""
    return input.array.itemsize


def untyped_storage(input: Tensor) -> Storage:
    """Return the memory that input shares with its views, as bytes."""
    return Storage(input, False)


def storage(input: Tensor) -> Storage:
    """Return the memory that input shares with its views, as elements; deprecated in PyTorch."""
    warnings.warn(
        "TypedStorage is deprecated, use tensor.untyped_storage() instead of tensor.storage()",
        UserWarning,
        stacklevel=2,
    )
    return Storage(input, True)


def is_set_to(input: Tensor, tensor: Tensor) -> bool:
    """Return True if both refer to the same elements of the same memory, in the same shape."""
    require_tensor("is_set_to", tensor, "tensor")
    a, b = input.array, tensor.array
    return (address(a), a.shape, a.strides, a.dtype) == (address(b), b.shape, b.strides, b.dtype)


def is_shared(input: Tensor) -> bool:
    """Return False: processes share no memory, and the workers of a DataLoader copy tensors to this process."""
    return False


@operator(methods="share_memory_", dtypes="bihf")
def share_memory_(input: Tensor) -> Tensor:
    """Return input itself: processes share no memory."""
    if interpreters and (seen := interpreted(share_memory_, locals())) is not None:
        return seen
    return input


def dim_order(input: Tensor) -> tuple[int, ...]:
    """Return the axes from the largest to the smallest stride."""
    steps = input.array.strides
    return tuple(sorted(range(len(steps)), key=lambda axis: -abs(steps[axis])))


_LAST: dict[memory_format | None, int] = {
    channels_last: 4,
    channels_last_3d: 5,
}  # channels-last memory formats -> number of axes


def is_contiguous(input: Tensor, memory_format: memory_format | None = None) -> bool:
    """Return True if the elements are in C order in memory, or in the order of a ``memory_format``.

    Raises:
        TypeError: it is not a memory format.
    """
    if as_memory_format("is_contiguous", memory_format) in _LAST:
        ndim = input.array.ndim
        return ndim == _LAST[memory_format] and bool(arrays.moveaxis(input.array, 1, -1).flags.c_contiguous)
    return shapes.is_contiguous(input)


@operator(methods="contiguous", dtypes="bihf")
def contiguous(input: Tensor, memory_format: memory_format | None = None) -> Tensor:
    """Return input itself if it is in C order, or in the order of a ``memory_format``, otherwise a copy.

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
def clone(input: Tensor, memory_format: memory_format | None = None) -> Tensor:
    """Copy input, in its own memory order or in that of a ``memory_format``.

    Raises: as ``contiguous``.
    """
    if interpreters and (seen := interpreted(clone, locals())) is not None:
        return seen
    copied = shapes.clone(input)
    return copied if memory_format is None else contiguous(copied, memory_format)


@operator(methods="view", dtypes="bihf")
def view(input: Tensor, *shape: Sizes | np.dtype[Any] | type) -> Tensor:
    """View input in another shape, or its bytes as elements of another type: ``x.view(dtype)``.

    As in ``reshape``, one extent may be -1. The result shares the memory of input. The exceptions are results in an
    order of memory that PyTorch does not use, such as images, which are channels-last: where PyTorch's tensor, in C
    order, could be viewed, the result is a copy. ``x.is_contiguous()`` tells.

    The bytes have no gradient.

    Raises:
        ValueError: the number of elements differs, or the bytes cannot be viewed as that type.
        RuntimeError: no view in that shape exists, as after ``permute``: use ``reshape``, which copies. Or the bytes
            are requested, and input requires a gradient.
    """
    if interpreters and (seen := interpreted(view, locals())) is not None:
        return seen
    if len(shape) != 1 or not isinstance(shape[0], (np.dtype, type)):
        return _viewed("view", input, shapes.reshape(input, *shape))  # type: ignore[arg-type]
    if input.requires_grad:
        raise RuntimeError(f"view: bytes as {shape[0]} have no gradient; use x.detach().view(dtype)")
    return wrap(input.array.view(shape[0]))


@operator(methods="view_as", dtypes="bihf")
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """View input in the shape of ``other``, see ``view``.

    Raises:
        ValueError: the number of elements differs.
        RuntimeError: no view in that shape exists.
    """
    if interpreters and (seen := interpreted(view_as, locals())) is not None:
        return seen
    require_tensor("view_as", input)
    require_tensor("view_as", other, "other")
    return _viewed("view_as", input, shapes.reshape(input, other.array.shape))


def _viewed(name: str, x: Tensor, y: Tensor) -> Tensor:
    """Return y, which is x in another shape, if that is a view of x or would be one of PyTorch's tensor."""
    a, b = x.array, y.array
    if not b.size or memory_owner(b) is memory_owner(a):
        return y
    link = getattr(x, "_view", None)
    shape: Any = None
    path: Any = None
    if type(link) is tuple:
        shape, path = link[0].array.shape, link[1]
    elif isinstance(link, Untracked):
        shape, path = link.shape, link.path
    if path is None:
        possible = bool(a.transpose(dim_order(x)).flags.c_contiguous)
    else:  # PyTorch's base is in C order
        in_order: np.ndarray = replay(path, wrap(empty(shape, a.dtype))).array
        possible = in_order.shape == a.shape and shapes.can_view(a.shape, in_order.strides, b.shape)
    if not possible:
        raise RuntimeError(
            f"{name}: the elements of input, of shape {a.shape} and strides {stride(x)}, do not lie in memory so that "
            f"they can be viewed in shape {b.shape}; use reshape, which copies them: x.reshape{b.shape}"
        )
    return y


@operator(methods="__contains__", dtypes="bihf")
def contains(input: Tensor, element: Tensor | float) -> bool:
    """Return True if an element of input equals ``element``, a number or a tensor.

    Raises:
        TypeError: it is neither.
    """
    if interpreters and (seen := interpreted(contains, locals())) is not None:
        return seen
    if not (is_number(element) or isinstance(element, Tensor)):
        raise TypeError(f"in: element is {kind_name(element)}, needs a number or a Tensor")
    other = element.array if isinstance(element, Tensor) else element
    if isinstance(other, int) and other.bit_length() > 64:  # larger than any element
        return False
    if isinstance(element, Tensor):
        broadcast_shape("in", input.array.shape, element.array.shape)
    if not isinstance(element, Tensor):  # Python numbers are converted to the type of input
        plain = input.array.dtype.kind == "f" and type(element) in (bool, int, float)
        other = as_element("in", "element", element, input.array.dtype) if plain else from_host(element)
    return any_true(exact("eq")(input.array, other), "whether an element occurs in a tensor")


def _reversed(input: Tensor) -> Tensor:
    """input with its first axis reversed."""
    return flip(input, (0,)) if input.array.ndim else input


@operator(methods="sum_to_size", dtypes="bihf")
def sum_to_size(input: Tensor, *size: Sizes) -> Tensor:
    """Sum input to a shape that broadcasts to it; sums of integers and bool are int64.

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
    """Return a DLPack capsule: ``numpy.from_dlpack(x)`` shares the memory.

    Raises:
        RuntimeError: input requires a gradient.
        BufferError: an axis has a negative stride, which crashes PyTorch; or NumPy's array raises it.
    """
    if interpreters and (seen := interpreted(dlpack, locals())) is not None:
        return seen
    array = input.numpy()
    if options.get("copy"):
        array = kernels.reshaped(array, array.shape)
    elif array.size and min(array.strides, default=0) < 0:
        raise BufferError(
            f"__dlpack__: an axis of the tensor, of shape {array.shape}, is read backwards in memory, which not every "
            "library supports; use tensor.clone()"
        )
    return shared(array, "an array of DLPack").__dlpack__(**options)


def dlpack_device(input: Tensor) -> tuple[int, int]:
    """Return (1, 0), the CPU in the DLPack protocol."""
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
    "itemsize": _doc("itemsize", element_size, "The number of bytes per element."),
    "nbytes": _doc("nbytes", lambda input: input.array.nbytes, "The number of bytes of all elements."),
    "output_nr": _doc(
        "output_nr",
        lambda input: 0 if input._edge is None else input._edge[1],
        "The index of this tensor among the outputs of ``grad_fn``.",
    ),
}


# ---- Strided views of a storage --------------------------------------------------------------------------------------

Shape = tuple[int, ...]
_MOST = 2**60  # more elements than any memory has


class Layout(NamedTuple):
    """The layout of a view: element (i, j, ...) is at position ``start`` + i stride[0] + j stride[1] + ..."""

    shape: Shape
    stride: Shape
    start: int

    def bounds(self) -> tuple[int, int]:
        """Return the lowest and the highest position; both are ``start`` if there are no elements."""
        if 0 in self.shape:
            return self.start, self.start
        ends = [(extent - 1) * step for extent, step in zip(self.shape, self.stride, strict=True)]
        return self.start + sum(end for end in ends if end < 0), self.start + sum(end for end in ends if end > 0)

    def covers(self, other: Layout) -> bool:
        """Return True if self has each position between its bounds once, and ``other`` lies within them."""
        count = 1
        for step, extent in sorted((abs(step), n) for step, n in zip(self.stride, self.shape, strict=True) if n > 1):
            if step != count:
                return False
            count *= extent
        (low, high), (first, last) = self.bounds(), other.bounds()
        return 0 not in self.shape and low <= first and last <= high

    def includes(self, other: Layout) -> bool:
        """Return True if all positions of ``other`` are among those of self."""
        if self.covers(other):
            return True
        included = kernels.rearranged(ones(self.shape, np.bool_), self, other, False, None)
        return all_true(included, "whether a view shows all elements of another one")


class AsStrided(View):
    """The elements of x's storage at the positions of ``layout``, counted from the first element of x.

    stride, place: the strides and the address of x. For another tensor, such as a gradient, the result has the
    elements with the same indices, and 0 where the layout leads outside x.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, layout: Layout, stride: Shape, place: int) -> Tensor:
        a, own = x.array, Layout(x.array.shape, stride, 0)
        ctx.layout, ctx.own = layout, own
        if _strides(a) == stride and (address(a) == place or own.covers(layout)):
            return wrap(_window(a, layout))
        return wrap(kernels.rearranged(a, own, layout, False, None))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Rearranged.apply(g, ctx.layout, ctx.own, ctx.own), None, None, None


class Rearranged(Function):
    """Sum the elements of x at each position of ``source``, and read the sums at the positions of ``target``, or 0.

    divisors: divide each sum by the number of elements that this layout has at its position.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, source: Layout, target: Layout, divisors: Layout | None) -> Tensor:
        ctx.call = target, source, divisors
        return wrap(kernels.rearranged(x.array, source, target, True, divisors))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Rearranged.apply(g, *ctx.call), None, None, None


@operator(methods="as_strided", dtypes="bihf")
def as_strided(input: Tensor, size: Sizes, stride: Sizes, storage_offset: int | None = None) -> Tensor:
    """A view: element (i, j, ...) is the element storage_offset + i stride[0] + j stride[1] + ... of input's storage.

    The storage is all the memory that input shares with its views, counted in memory order. Input may have any strides,
    and elements may repeat. storage_offset: by default ``input.storage_offset()``.

    The gradient of an element of input is the sum over its occurrences. If input is a view and the result contains
    elements that input does not, the gradient goes to the base of input; elements outside the base get none.

    Raises:
        TypeError: input is not a Tensor, or a number is not an int.
        ValueError: the lengths differ, a number is negative, or elements are outside the storage.
    """
    if interpreters and (seen := interpreted(as_strided, locals())) is not None:
        return seen
    layout, array = _checked("as_strided", input, size, stride, storage_offset), input.array
    link = getattr(input, "_view", None)
    if type(link) is not tuple:
        return _view_of(input, layout)
    base = link[0]
    of_base = layout._replace(start=layout.start + (address(array) - address(base.array)) // array.itemsize)
    own = Layout(array.shape, _strides(array), 0)
    if base._requires_grad and input._edge is not None and not own.includes(layout):
        return _view_of(base, of_base)
    view = _view_of(input, layout)
    if type(getattr(view, "_view", None)) is tuple:  # an in-place change may reach elements outside input
        view._view = base, (AsStrided, (None, of_base, _strides(base.array), address(base.array)), 0, None)
    return view


def _view_of(x: Tensor, layout: Layout) -> Tensor:
    view: Tensor = AsStrided.apply(x, layout, _strides(x.array), address(x.array))
    return view


@operator(records=Rearranged, methods="as_strided_scatter", dtypes="bihf")
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sizes, stride: Sizes, storage_offset: int | None = None
) -> Tensor:
    """Copy input with ``as_strided(input, size, stride, storage_offset)`` replaced by src.

    Raises:
        TypeError: input or src is not a Tensor, or their types differ.
        ValueError: src does not have the shape ``size``, or several of its elements have the same position.
            Also as ``as_strided``.
    """
    if interpreters and (seen := interpreted(as_strided_scatter, locals())) is not None:
        return seen
    name = "as_strided_scatter"
    require_tensor(name, src, "src")
    layout = _checked(name, input, size, stride, storage_offset)
    if src.array.shape != layout.shape:
        raise ValueError(f"{name}: src.shape={src.array.shape} must be size={layout.shape}")
    if src.array.dtype != input.array.dtype:
        raise TypeError(f"{name}: src is {src.array.dtype}, input is {input.array.dtype}; use src.to(input.dtype)")
    counts = kernels.rearranged(ones(layout.shape, int64, like=src.array), layout, layout, True, None)
    if any_true(exact("ne")(counts, ones((), int64, like=counts)), "whether elements share a place"):
        raise ValueError(
            f"{name}: size={layout.shape} and stride={layout.stride} map several elements of src to one position; use "
            "other strides, or index_add for sums"
        )
    own = Layout(input.array.shape, _strides(input.array), 0)
    on = kernels.rearranged(ones(layout.shape, np.bool_, like=src.array), layout, own, False, None)
    return where(wrap(on), Rearranged.apply(src, layout, own, None), input)


def _checked(name: str, x: Tensor, size: Sizes, stride: Sizes, storage_offset: int | None) -> Layout:
    """Return the layout, counted from the first element of x, checked to be within the storage."""
    require_tensor(name, x)
    a = x.array
    shape, steps = sizes(name, "size", (size,)), sizes(name, "stride", (stride,))
    own, rest = offset_of(a)
    start = own if storage_offset is None else as_int(name, "storage_offset", storage_offset)
    if len(shape) != len(steps) or min((*shape, *steps, start), default=0) < 0:
        raise ValueError(
            f"{name}: size={shape} and stride={steps} must have the same length, and they and storage_offset={start} "
            "must be at least 0"
        )
    storage = bytes_of(a)
    if storage is None or (rest and start != own) or any(step % a.itemsize for step in a.strides):
        raise ValueError(f"{name}: the memory of input is not a row of {a.dtype} elements; use input.clone()")
    count = (storage.size - rest) // a.itemsize
    last = start + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    if 0 not in shape and last >= count:
        raise ValueError(
            f"{name}: size={shape}, stride={steps}, storage_offset={start} lead to element {last}, but the storage "
            f"of input has {count}; use a smaller size, stride or offset"
        )
    if math.prod(shape) > _MOST or max((*shape, *steps), default=0) > _MOST:
        raise ValueError(f"{name}: size={shape} and stride={steps} are too large for any memory")
    return Layout(shape, steps, start - own)


def _strides(a: np.ndarray) -> Shape:
    """Return the strides in elements; 0 along axes of extent 1, where they do not matter."""
    return tuple([step // a.itemsize if n > 1 else 0 for step, n in zip(a.strides, a.shape, strict=True)])


def _window(a: np.ndarray, layout: Layout) -> np.ndarray:
    """Return the elements of the storage of ``a`` at the layout, counted from the first element of ``a``."""
    storage, (own, rest) = bytes_of(a), offset_of(a)
    start = 0 if 0 in layout.shape else rest + (own + layout.start) * a.itemsize
    assert storage is not None
    return of_bytes(storage, layout.shape, a.dtype, start, [step * a.itemsize for step in layout.stride])
