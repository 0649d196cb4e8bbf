"""Views of a storage by strides: any arrangement of its elements, as PyTorch's ``as_strided`` makes them.

Positions are counted in elements of the storage, see memory/storage.py. The gradient of ``as_strided`` adds up what
reaches each position, and gives it to the element of input there; where several elements of input share a position,
each gets an equal part.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...arrays import address, all_true, any_true, of_bytes, ones
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...engine.views import View
from ...kernel_set import exact, kernels
from ..arguments.checks import as_int, require_tensor
from ..dtypes.dtype import int64
from ..memory.storage import bytes_of, offset_of
from ..pointwise.piecewise import where
from .shape import sizes

__all__ = ["as_strided", "as_strided_scatter"]

Shape = tuple[int, ...]
_MOST = 2**60  # elements: more than any memory has


class Layout(NamedTuple):
    """The layout of a view: element (i, j, ...) is at position ``start`` + i stride[0] + j stride[1] + ..."""

    shape: Shape
    stride: Shape
    start: int

    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest position; of no elements, twice the first."""
        if 0 in self.shape:
            return self.start, self.start
        ends = [(extent - 1) * step for extent, step in zip(self.shape, self.stride, strict=True)]
        return self.start + sum(end for end in ends if end < 0), self.start + sum(end for end in ends if end > 0)

    def covers(self, other: Layout) -> bool:
        """Whether this one has each position between its bounds once, and the other lies between them."""
        count = 1
        for step, extent in sorted((abs(step), n) for step, n in zip(self.stride, self.shape, strict=True) if n > 1):
            if step != count:
                return False
            count *= extent
        (low, high), (first, last) = self.bounds(), other.bounds()
        return 0 not in self.shape and low <= first and last <= high

    def shows(self, other: Layout) -> bool:
        """Whether all positions of the other one are among those of this one."""
        if self.covers(other):
            return True
        shown = kernels.rearranged(ones(self.shape, np.bool_), self, other, False, None)
        return all_true(shown, "whether a view shows all elements of another one")


class AsStrided(View):
    """The elements of the storage of x where ``layout`` says, counted from the first element of x.

    stride, place: the strides and the address of x. Of another tensor, such as a gradient, it shows the elements of the
    same indices, and 0 where the layout leads outside of x.
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
    """The sums of the elements of x at each position of ``source``, read at those of ``target``; 0 where there is none.

    shared: divide each sum by how many elements of this layout have the position.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, source: Layout, target: Layout, shared: Layout | None) -> Tensor:
        ctx.call = target, source, shared
        return wrap(kernels.rearranged(x.array, source, target, True, shared))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Rearranged.apply(g, *ctx.call), None, None, None


@operator(methods="as_strided", dtypes="bihf")
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A view: element (i, j, ...) is the element storage_offset + i stride[0] + j stride[1] + ... of input's storage.

    The storage is all the memory that input shares with its views, counted in the order of memory; input may have any
    strides, and elements may come several times. storage_offset: by default ``input.storage_offset()``.

    The gradient to an element of input is the sum over its appearances. If input is a view and the result shows
    elements that input does not, the gradient goes to the base of input; elements that the base does not show get none.

    Raises:
        TypeError: input is not a Tensor, or a number is not an int.
        ValueError: the lengths differ, a number is negative, or elements lie outside of the storage.
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
    if base._requires_grad and input._edge is not None and not own.shows(layout):
        return _view_of(base, of_base)
    view = _view_of(input, layout)
    if type(getattr(view, "_view", None)) is tuple:  # a change in place may reach elements that input does not show
        view._view = base, (AsStrided, (None, of_base, _strides(base.array), address(base.array)), 0, None)
    return view


def _view_of(x: Tensor, layout: Layout) -> Tensor:
    view: Tensor = AsStrided.apply(x, layout, _strides(x.array), address(x.array))
    return view


@operator(records=Rearranged, methods="as_strided_scatter", dtypes="bihf")
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """A copy of input with src as ``as_strided(input, size, stride, storage_offset)``.

    Raises:
        TypeError: input or src is not a Tensor, or their types differ.
        ValueError: src does not have the shape ``size``, or several of its elements have one place. And as
            ``as_strided``.
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
            f"{name}: size={layout.shape} and stride={layout.stride} give several elements of src one place; use other "
            "strides, or index_add for sums"
        )
    own = Layout(input.array.shape, _strides(input.array), 0)
    on = kernels.rearranged(ones(layout.shape, np.bool_, like=src.array), layout, own, False, None)
    return where(wrap(on), Rearranged.apply(src, layout, own, None), input)


def _checked(name: str, x: Tensor, size: Any, stride: Any, storage_offset: int | None) -> Layout:
    """The layout, counted from the first element of x; all of it lies in the storage."""
    require_tensor(name, x)
    a = x.array
    shape, steps = sizes(name, "size", (size,)), sizes(name, "stride", (stride,))
    own, rest = offset_of(a)
    start = own if storage_offset is None else as_int(name, "storage_offset", storage_offset)
    if len(shape) != len(steps) or min((*shape, *steps, start), default=0) < 0:
        raise ValueError(
            f"{name}: size={shape} and stride={steps} must have one length, and they and storage_offset={start} be at "
            "least 0"
        )
    storage = bytes_of(a)
    if storage is None or (rest and start != own) or any(step % a.itemsize for step in a.strides):
        raise ValueError(f"{name}: the memory of input is not a row of {a.dtype} elements; use input.clone()")
    count = (storage.size - rest) // a.itemsize
    last = start + sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    if 0 not in shape and last >= count:
        raise ValueError(
            f"{name}: size={shape}, stride={steps}, storage_offset={start} lead to element {last}, the storage of "
            f"input has {count}; use a smaller size, stride or offset"
        )
    if math.prod(shape) > _MOST or max((*shape, *steps), default=0) > _MOST:
        raise ValueError(f"{name}: size={shape} and stride={steps} are too large for any memory")
    return Layout(shape, steps, start - own)


def _strides(a: np.ndarray) -> Shape:
    """The strides in elements; 0 along axes that have only one, which do not matter."""
    return tuple([step // a.itemsize if n > 1 else 0 for step, n in zip(a.strides, a.shape, strict=True)])


def _window(a: np.ndarray, layout: Layout) -> np.ndarray:
    """The elements of the storage of ``a`` at the layout, counted from the first of ``a``."""
    storage, (own, rest) = bytes_of(a), offset_of(a)
    start = 0 if 0 in layout.shape else rest + (own + layout.start) * a.itemsize
    assert storage is not None
    return of_bytes(storage, layout.shape, a.dtype, start, [step * a.itemsize for step in layout.stride])
