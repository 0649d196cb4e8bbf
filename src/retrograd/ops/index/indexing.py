"""Indexing and index assignment: `x[index]` as a view or a selection, `x[index] = value`.

An index is applied in two steps: its ints, slices and Nones give a view, then its arrays select from that view. (This
is PyTorch's rule; NumPy does both in one step, and the results differ if ints and arrays are mixed.)

For assignments, ``engine.inplace.modify`` updates the graph: overwritten elements get gradient 0, and ``value`` gets
the gradient of the elements it was written to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import prod
from operator import index as exact_int
from typing import Any, NamedTuple

import numpy as np

from ...arrays import broadcast_arrays, broadcast_to, first_outside, from_host, is_array, number, overlap, within, zeros
from ...engine.arguments import kind_name
from ...engine.function import Function
from ...engine.inplace import Replaced, modify
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...engine.views import View
from ...kernel_set import kernels
from ..argument_checks import (
    as_element,
    as_flag,
    as_int,
    as_int64,
    as_mask,
    copy_for_backward,
    is_number,
    require_tensor,
)
from ..dtypes.dtype import cast, uint8
from ..shape.broadcasting import expand, sum_to
from ..shape.shape import Permute, Reshape, axis, reshaped
from ..sparse_products import Matrix, SparseProduct

__all__ = ["argwhere", "index_put", "narrow", "nonzero", "nonzero_static", "select"]


# ---- `x[index]`: basic indices give a view, arrays a selection -------------------------------------------------------

Basic = tuple[Any, ...]


class GetItem(View):
    """``x[index]`` for ints, slices, None and Ellipsis."""

    @staticmethod
    def forward(x: Tensor, index: Basic) -> Tensor:
        return wrap(x.array[index if ... in index else (*index, ...)])  # a view even of a single element

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.input_shape, ctx.index = inputs[0].array.shape, inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return PadSlice.apply(g, ctx.input_shape, ctx.index), None


class PadSlice(Function):
    """Zeros of ``shape`` with g at ``[index]``: the transpose of GetItem."""

    moves = True

    @staticmethod
    def forward(g: Tensor, shape: tuple[int, ...], index: Basic) -> Tensor:
        return wrap(kernels.pad_slice(g.array, shape, index))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.index = inputs[2]

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return GetItem.apply(v, ctx.index), None, None


class Places(NamedTuple):
    """A split index: ``basic`` first, then arrays (int64, broadcast, nonnegative) at ``axes`` of that view."""

    basic: Basic | None
    axes: tuple[int, ...]
    arrays: tuple[np.ndarray, ...]

    def selected(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the selection from a tensor of ``shape``."""
        if self.basic is not None:
            shape = broadcast_to(zeros((), np.int8), shape)[self.basic].shape
        if not self.axes:
            return shape
        first, last = self.axes[0], self.axes[-1]
        if last - first == len(self.axes) - 1:
            return shape[:first] + self.arrays[0].shape + shape[last + 1 :]
        return self.arrays[0].shape + tuple(n for a, n in enumerate(shape) if a not in self.axes)


class Put(Function):
    """x with v written to ``places``, or added there; without addition, the last value of a repeated index is used."""

    gradient = "x: g, with 0 at the places of v, unless accumulate; v: g read from these places"

    @staticmethod
    def forward(x: Tensor, v: Tensor, places: Places, accumulate: bool) -> Tensor:
        return wrap(kernels.put(x.array, v.array, places, accumulate))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, v, ctx.places, ctx.accumulate = inputs
        ctx.value_shape = v.array.shape

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (want_x, want_v, _, _), places = ctx.needs_input_grad, ctx.places
        gx = gv = None
        if want_x:
            gx = g if ctx.accumulate else Put.apply(g, wrap(zeros((), g.array.dtype, like=g.array)), places, False)
        if want_v:
            gv = get(g, places)
            if places.axes and not ctx.accumulate:
                gv = gv * wrap(kernels.last_writes(places, g.array.shape, g.array.dtype))
            gv = sum_to(gv, ctx.value_shape)
        return gx, gv, None, None


def get(x: Tensor, places: Places) -> Tensor:
    """Return the elements of x at ``places``."""
    y = x if places.basic is None else GetItem.apply(x, places.basic)
    if not places.axes:
        return y
    shape, axes = y.array.shape, places.axes
    first = axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0
    if first == 0 and axes[-1] != len(axes) - 1:  # separated: the axes of the arrays come first
        rest = tuple(a for a in range(len(shape)) if a not in axes)
        y = Permute.apply(y, axes + rest)
        shape = y.array.shape
    extents = shape[first : first + len(axes)]
    picked = places.arrays[0].shape
    if len(axes) > 1:
        y = Reshape.apply(y, shape[:first] + (prod(extents),) + shape[first + len(axes) :])
    flat = places.arrays[0]
    if len(axes) > 1:
        flat = kernels.ravel_multi_index(places.arrays, extents)
    elif len(picked) != 1:
        flat = reshaped(flat, (-1,))
    y = SparseProduct.apply(y, Matrix(flat, y.array.shape[first]), first)
    if len(picked) == 1:
        return y
    return Reshape.apply(y, shape[:first] + picked + shape[first + len(axes) :])


@operator(methods="__getitem__", dtypes="bihf")
def getitem(input: Tensor, index: Any) -> Tensor:
    """Return ``input[index]``: ints, slices, None, Ellipsis, integer arrays, lists, Tensors, masks, tuples of them.

    Without arrays the result is a view. Arrays are broadcast to each other. Their axes replace the indexed ones, or
    come first if a slice separates them. A mask selects where it is True.

    Raises:
        TypeError: a part of the index is none of these.
        IndexError: an index is out of range, there are too many, or arrays do not fit together.
    """
    if interpreters and (seen := interpreted(getitem, locals())) is not None:
        return seen
    plain = (index,) if type(index) is int else None if interpreters else _plain(index, input.array.ndim)
    if plain is not None:
        try:
            return GetItem.apply(input, plain)
        except IndexError as error:
            raise IndexError(f"getitem: input.shape={input.array.shape}: {error}") from None
    return get(input, places_of("getitem", input.array.shape, index))


def _plain(index: Any, ndim: int) -> Basic | None:
    """Return an index of Nones and at most ``ndim`` ints and slices of ints as a tuple; None for any other."""
    parts = index if type(index) is tuple else (index,)
    axes = len(parts)
    for part in parts:
        if type(part) is slice:
            for bound in (part.start, part.stop, part.step):
                if bound is not None and type(bound) is not int:
                    return None
        elif part is None:
            axes -= 1
        elif type(part) is not int:
            return None
    return parts if axes <= ndim else None  # any other: see ``places_of``


@operator(methods="__iter__", dtypes="bihf")
def iterate(input: Tensor) -> Iterator[Tensor]:
    """Iterate over the slices of input along its first axis.

    Raises:
        TypeError: input has no axis.
    """
    if interpreters and (seen := interpreted(iterate, locals())) is not None:
        return seen
    if not input.array.ndim:
        raise TypeError("iteration over a tensor without axes; input.item() returns its value")
    return (GetItem.apply(input, (i,)) for i in range(input.array.shape[0]))


@operator(methods="select", dtypes="bihf")
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice ``index`` of input along ``dim``, without that axis: a view.

    Raises:
        IndexError: input has no such axis, or ``index`` is out of range.
    """
    if interpreters and (seen := interpreted(select, locals())) is not None:
        return seen
    require_tensor("select", input)
    shape = input.array.shape
    position = axis("select", "dim", dim, len(shape))
    place = as_int("select", "index", index)
    if not -shape[position] <= place < shape[position]:
        raise IndexError(f"select: index={index} is out of range; axis dim={dim} of input.shape={shape}")
    return GetItem.apply(input, (slice(None),) * position + (place,))


@operator(methods="narrow", dtypes="bihf")
def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``length`` slices of input along ``dim`` from ``start`` (negative: from the end): a view.

    Raises:
        IndexError: input has no such axis, or ``start`` is out of range.
        ValueError: ``length`` is negative or too large.
    """
    if interpreters and (seen := interpreted(narrow, locals())) is not None:
        return seen
    require_tensor("narrow", input)
    shape = input.array.shape
    position = axis("narrow", "dim", dim, len(shape))
    first, length, extent = as_int("narrow", "start", start), as_int("narrow", "length", length), shape[position]
    if not -extent <= first <= extent:
        raise IndexError(f"narrow: start={start} is out of range; axis dim={dim} of input.shape={shape}")
    first = first + extent if first < 0 else first
    if not 0 <= length <= extent - first:
        raise ValueError(
            f"narrow: start={start}, length={length} must lie within axis dim={dim} of input.shape={shape}"
        )
    return GetItem.apply(input, (slice(None),) * position + (slice(first, first + length),))


@operator(records=Put, methods="index_put", in_place=True, dtypes="bihf")
def index_put(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """Copy input with broadcast ``values`` written to ``[indices]``, or added there with ``accumulate``.

    indices: a tuple of integer Tensors or masks. If an index repeats, only the last value is used and has a gradient;
        with ``accumulate`` all are added

    Raises:
        TypeError: ``indices`` is not a tuple of these, or ``values`` is not a Tensor of input's type.
        IndexError: an index is out of range.
        ValueError: ``values`` do not broadcast to ``input[indices]``.
    """
    if interpreters and (seen := interpreted(index_put, locals())) is not None:
        return seen
    require_tensor("index_put", input)
    accumulate = as_flag("index_put", "accumulate", accumulate)
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"index_put: indices is {kind_name(indices)}, needs a tuple of Tensors")
    places = places_of("index_put", input.array.shape, tuple(indices))
    return Put.apply(input, fitting("index_put", input, places, values), places, accumulate)


def fitting(name: str, x: Tensor, places: Places, value: Any) -> Tensor:
    """Convert ``value`` to a Tensor of x's type; TypeError if that fails, ValueError if it does not broadcast."""
    exact = bool(places.axes) or name != "setitem"  # x[0] = value converts, x[[0]] = value does not, as in PyTorch
    return _fitting(name, x, places.selected(x.array.shape), exact, value)


def _fitting(name: str, x: Tensor, expected: tuple[int, ...], exact: bool, value: Any) -> Tensor:
    """Return ``fitting`` for an index that selects ``expected``; exact: a value of another kind is not converted."""
    if not isinstance(value, Tensor):
        if not is_number(value):
            raise TypeError(f"{name}: the value is {kind_name(value)}, needs a Tensor or a number")
        value = wrap(as_element(name, "value", value, x.array.dtype))
    elif value.array.dtype != x.array.dtype:
        if exact and value.array.ndim and value.array.dtype.kind != x.array.dtype.kind:
            raise TypeError(
                f"{name}: the value is {value.array.dtype}, input is {x.array.dtype}; convert it with .to(input.dtype)"
            )
        value = cast(value, x.array.dtype)
    have = value.array.shape
    while len(have) > len(expected) and have[0] == 1:
        have = have[1:]
    if len(have) > len(expected) or any(m not in (1, n) for m, n in zip(have[::-1], expected[::-1], strict=False)):
        raise ValueError(
            f"{name}: a value of shape {value.array.shape} does not broadcast to the shape {expected} of the index"
        )
    return value if have == value.array.shape else Reshape.apply(value, have)


@operator(methods="nonzero", dtypes="bihf")
def nonzero(input: Tensor, as_tuple: bool = False) -> Any:
    """Return the indices of the elements that are neither 0 nor False, in C order: int64 (K, axes of input).

    as_tuple: return one Tensor (K,) per axis instead, for use as an index.
    """
    if interpreters and (seen := interpreted(nonzero, locals())) is not None:
        return seen
    require_tensor("nonzero", input)
    if as_flag("nonzero", "as_tuple", as_tuple):
        return tuple(wrap(places) for places in kernels.nonzero(input.array))
    return wrap(kernels.argwhere(input.array))


@operator(methods="nonzero_static", dtypes="bihf")
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """``nonzero`` with a fixed number of rows: the first ``size``, or all followed by rows of ``fill_value``.

    Raises:
        TypeError: input is not a Tensor, or ``size`` or ``fill_value`` is not an int.
        ValueError: ``size`` is negative, or ``fill_value`` does not fit int64.
    """
    if interpreters and (seen := interpreted(nonzero_static, locals())) is not None:
        return seen
    require_tensor("nonzero_static", input)
    count, filler = as_int("nonzero_static", "size", size), as_int("nonzero_static", "fill_value", fill_value)
    if count < 0:
        raise ValueError(f"nonzero_static: size={size} must be at least 0")
    return wrap(kernels.nonzero_static(input.array, count, as_int64("nonzero_static", "fill_value", filler)))


@operator(methods="argwhere", dtypes="bihf")
def argwhere(input: Tensor) -> Tensor:
    """Alias of ``nonzero`` without ``as_tuple``."""
    if interpreters and (seen := interpreted(argwhere, locals())) is not None:
        return seen
    require_tensor("argwhere", input)
    return wrap(kernels.argwhere(input.array))


@operator
def places_of(name: str, shape: tuple[int, ...], index: Any) -> Places:
    """Split an index; TypeError if a part is not an index, IndexError if it is out of range or does not fit."""
    if interpreters and (seen := interpreted(places_of, locals())) is not None:
        return seen
    parts = [_part(name, part) for part in (index if type(index) is tuple else (index,))]
    used = sum(_consumed(part) for part in parts)
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if used > len(shape) or len(dots) > 1:
        raise IndexError(
            f"{name}: input.shape={shape}: "
            + (
                "more than one ..."
                if len(dots) > 1
                else f"too many indices: it has {len(shape)} axes, the index is for {used}"
            )
        )
    all_axes = [slice(None)] * (len(shape) - used)
    if dots:
        parts[dots[0] : dots[0] + 1] = all_axes
    basic: list[Any] = []
    axes: list[int] = []
    arrays: list[np.ndarray] = []
    source = target = 0  # axis of input, axis of the view
    for part in parts:
        if is_array(part):
            found = kernels.nonzero(part) if part.dtype == np.bool_ and part.ndim else (part,)
            if part.dtype == np.bool_ and part.ndim == 0:
                basic.append(None)
                found = (zeros(int(number(part, "whether an index is True")), np.int64, like=part),)
            elif part.dtype == np.bool_ and part.shape != shape[source : source + part.ndim]:
                raise IndexError(
                    f"{name}: a mask of shape {part.shape} does not fit axes {source} to {source + part.ndim - 1} of "
                    f"input.shape={shape}"
                )
            else:
                basic += [slice(None)] * len(found)
            for array in found:
                if part.dtype != np.bool_:
                    where = f"axis {source} of input.shape={shape}"
                    array = in_range(name, "index", array, shape[source], where)
                arrays.append(array)
                axes.append(target)
                target += 1
                source += part.ndim > 0
            continue
        if isinstance(part, int):
            if not -shape[source] <= part < shape[source]:
                raise IndexError(
                    f"{name}: input.shape={shape}: index {part} is out of bounds for axis {source} with size "
                    f"{shape[source]}"
                )
        else:
            target += 1
        source += part is not None
        basic.append(part)
    if not arrays:
        return Places(tuple(basic), (), ())
    everything = slice(None)
    view = None if basic.count(everything) == len(basic) else tuple(basic)
    try:
        together = arrays if len(arrays) == 1 else broadcast_arrays(*arrays)
        together = [_in_c_order(a) for a in together]  # NumPy follows memory order
    except ValueError:
        raise IndexError(
            f"{name}: the index arrays of shapes {', '.join(str(a.shape) for a in arrays)} do not broadcast together"
        ) from None
    return Places(view, tuple(axes), tuple(together))


@operator
def in_range(name: str, label: str, index: np.ndarray, extent: int, where: str, negative: bool = True) -> np.ndarray:
    """Return a copy of ``index`` without negative indices; IndexError names the first index out of range."""
    if interpreters and (seen := interpreted(in_range, locals())) is not None:
        return seen
    why = "whether indices are in range"
    if within(index, 0, extent - 1, why):
        return copy_for_backward(index)
    low = -extent if negative else 0
    if not within(index, low, extent - 1, why):
        first, value = first_outside(index, low, extent - 1, why)
        raise IndexError(
            f"{name}: {label}{first if first else ''}={value} is out of range; {where} allows "
            + (f"{low} to {extent - 1}" if extent else "none")
        )
    return kernels.normalize_index(index, extent)


def _in_c_order(x: np.ndarray) -> np.ndarray:
    return x if x.flags.c_contiguous else kernels.reshaped(x, x.shape)


def _consumed(part: Any) -> int:
    if is_array(part):
        return part.ndim if part.dtype == np.bool_ else 1
    return int(part is not None and part is not Ellipsis)


def _part(name: str, part: Any) -> Any:
    """Convert a part of an index: None, ..., a slice of ints, an int, or an array of int64 (with axes) or bool."""
    if part is None or part is Ellipsis:
        return part
    if isinstance(part, slice):
        try:
            return slice(*(None if n is None else exact_int(n) for n in (part.start, part.stop, part.step)))
        except TypeError:
            raise TypeError(f"{name}: {part} must consist of ints") from None
    if isinstance(part, (bool, np.bool_)):
        return from_host(part, np.bool_)
    array = part.array if isinstance(part, Tensor) else part
    if isinstance(part, Tensor) and array.dtype is uint8:
        return as_mask(name, array)
    if isinstance(array, (list, range)) or (isinstance(array, tuple) and array):
        try:
            array = from_host([p.array if isinstance(p, Tensor) else p for p in array])
        except ValueError:
            array = None
        if array is not None and not array.size and array.dtype == np.float64:
            array = zeros(array.shape, np.int64)
    if is_array(array) and array.dtype.kind in "iub":
        if array.dtype == np.bool_:
            return array
        if not array.ndim:
            return int(number(array, "an index"))
        return array if array.dtype == np.int64 else kernels.cast(array, np.dtype(np.int64))
    if not is_array(array):
        try:
            return exact_int(part)
        except TypeError:
            pass
    kind = f"{type(part).__name__}" + (f" of {array.dtype}" if is_array(array) else "")
    raise TypeError(
        f"{name}: an index is an int, a slice, None, ..., or an array (list, Tensor) of int64 or bool, got {kind}"
    )


# ---- `x[index] = value` ----------------------------------------------------------------------------------------------


def setitem(input: Tensor, index: Any, value: Any) -> None:
    """Assign a number, or a Tensor broadcast to ``input[index]``, to any index accepted by ``getitem``.

    A tensor of another type is rejected unless it is 0-d. If an index repeats, the last value is used.

    Raises:
        TypeError: a part of the index is not an index, or ``value`` is neither of these.
        IndexError: an index is out of range.
        ValueError: ``value`` does not broadcast to ``input[index]``.
        RuntimeError: as ``engine.modify``.
    """
    shape = input.array.shape
    plain = (index,) if type(index) is int else None if interpreters else _plain(index, len(shape))
    view: Any = None
    if plain is not None:
        with suppress(IndexError):  # ``places_of`` explains it
            view = GetItem.apply(input, plain)
    if view is not None:
        new = _fitting("setitem", input, view.array.shape, False, value)
    else:
        places = places_of("setitem", shape, index)
        new = fitting("setitem", input, places, value)
        if not places.axes:
            view = GetItem.apply(input, places.basic)
    if view is not None:
        shape = view.array.shape
        modify(
            view,
            "[]=",
            lambda old: Replaced.apply(old, expand(new, shape)),
            (new,),
            lambda array: _write(array, new.array),
        )
        return
    modify(
        input,
        "[]=",
        lambda old: Put.apply(old, new, places, False),
        (new,),
        lambda array: kernels.put_into(array, new.array, places, False),
    )


def _write(array: np.ndarray, value: np.ndarray) -> None:
    """Assign array[...] = value; the two may share memory."""
    kernels.copy(array, kernels.duplicate(value) if overlap(array, value) else value)


METHODS: dict[str, Any] = {"__setitem__": setitem}
