"""Merging of the graphs of two examples of different sizes into one graph with dynamic axes.

The nodes of both graphs must be the same. A constant that differs depends on a variable extent. Whole numbers become
products and sums of extents, an array is expanded along the axes on which it repeats itself, 0, 1, 2, ... becomes a
range, and triangular matrices are cut to size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..files import onnx
from .writer import NodeText, Writer


@dataclass(frozen=True)
class Extent:
    """A variable extent: axis ``axis`` of an input, with its sizes in the two examples."""

    name: str
    input: str
    axis: int
    sizes: tuple[int, int]


def merge(first: Writer, second: Writer, extents: Mapping[str, Extent]) -> None:
    """Change the first graph so that it is valid for both examples.

    Raises:
        UnsupportedError: the graphs differ in more than sizes; the message names the node.
    """
    for one, other in zip(first.nodes, second.nodes, strict=False):
        if one.key() != other.key():
            raise UnsupportedError(
                f"onnx.export: {_place(one.name)} differs between two examples: {one.operator} with {one.attributes} "
                f"and {len(one.outputs)} outputs for one, {other.operator} with {other.attributes} and "
                f"{len(other.outputs)} outputs for the other. The operations of a model must not depend on the values "
                "of its inputs, nor the attributes of a node on their sizes; declare fewer axes in dynamic_axes"
            )
    if len(first.nodes) != len(second.nodes):
        raise UnsupportedError(
            f"onnx.export: the model does {len(first.nodes)} operations for one example and {len(second.nodes)} for "
            "another; its operations must not depend on the values or the sizes of its inputs; declare fewer axes in "
            "dynamic_axes"
        )
    sizes = _Sizes(first, extents)
    for name, array in list(first.constants.items()):
        other_array = second.constants[name]
        if _same(array, other_array):
            continue
        sizes.write(name, array, other_array)
    first.nodes[:0] = sizes.nodes


def _place(name: str) -> str:
    return f"the node {name!r}"


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


class _Sizes:
    """Writes values that depend on extents, before all other nodes."""

    def __init__(self, writer: Writer, extents: Mapping[str, Extent]) -> None:
        self._writer, self._extents = writer, extents
        self.nodes: list[NodeText] = []
        self._known: dict[Any, str] = {}  # nodes by what they compute

    def write(self, name: str, one: np.ndarray, other: np.ndarray) -> None:
        """Compute the value ``name``, a constant that differs between the examples."""
        users = [node for node in self._writer.nodes if name in node.inputs]
        whole = one.dtype == np.int64
        if whole and one.shape == other.shape and one.ndim <= 1:
            differing = np.flatnonzero(one != other)
            if all(node.operator == "Reshape" for node in users) and len(differing) == 1 and 0 not in one:
                one[differing[0]] = -1
                return
            made = self._vector(name, one.reshape(-1), other.reshape(-1))
            if one.ndim == 0:
                made = self._node("Squeeze", [made, self._constant([0])])
        elif one.shape == other.shape == () and one.dtype.kind == "f" and one % 1 == 0 and other % 1 == 0:
            made = self._vector(name, one.reshape(1).astype(np.int64), other.reshape(1).astype(np.int64))
            made = self._node("Squeeze", [made, self._constant([0])])
            made = self._node("Cast", [made], to=int(onnx().helper.np_dtype_to_tensor_dtype(one.dtype)))
        elif (repeated := _repeated(one, other)) is not None:
            shape = self._vector(name, np.array(one.shape), np.array(other.shape))
            made = self._node("Expand", [self._kept(repeated), shape])
        elif (triangle := _triangle(one)) is not None and triangle == _triangle(other):
            diagonal, below, above = triangle
            shape = self._vector(name, np.array(one.shape), np.array(other.shape))
            ones = self._node("Expand", [self._kept(np.int64(1)), shape])
            lower = self._node("Trilu", [ones, self._kept(np.int64(diagonal))], upper=0)
            lower = self._node("Cast", [lower], to=int(onnx().TensorProto.BOOL))
            if one.dtype.kind == "b":
                made = lower if below else self._node("Not", [lower])
            else:
                made = self._node("Where", [lower, self._kept(below), self._kept(above)])
        elif one.ndim == other.ndim and one.dtype.kind in "if" and (steps := _counts(one)) and steps == _counts(other):
            size = self._vector(name, np.array([one.size]), np.array([other.size]))
            limit = self._node("Squeeze", [size, self._constant([0])])
            made = self._node("Range", [self._kept(np.int64(0)), limit, self._kept(np.int64(1))])
            start, step = steps
            made = made if step == 1 else self._node("Mul", [made, self._kept(np.int64(step))])
            made = made if start == 0 else self._node("Add", [made, self._kept(np.int64(start))])
            if not whole:
                made = self._node("Cast", [made], to=int(onnx().helper.np_dtype_to_tensor_dtype(one.dtype)))
            if one.ndim != 1:
                shape = self._vector(name, np.array(one.shape), np.array(other.shape))
                made = self._node("Reshape", [made, shape])
        else:
            self._refuse(name, users)
        del self._writer.constants[name]
        for node in users:
            node.inputs = [made if each == name else each for each in node.inputs]

    def _refuse(self, name: str, users: list[NodeText]) -> Any:
        where = _place(users[0].name) if users else name
        raise UnsupportedError(
            f"onnx.export: {where} takes an array that differs between two examples and was not made by a recorded "
            "operation: by NumPy, by an operator without a gradient, or by Python from the sizes. "
            "Compute it with operators of retrograd, keep it as a buffer, or declare fewer axes in dynamic_axes"
        )

    def _vector(self, name: str, one: np.ndarray, other: np.ndarray) -> str:
        """Write whole numbers on one axis, some of which differ."""
        pieces: list[str] = []
        fixed: list[int] = []
        for a, b in zip(one.tolist(), other.tolist(), strict=True):
            if a == b:
                fixed.append(a)
                continue
            if fixed:
                pieces.append(self._constant(fixed))
                fixed = []
            pieces.append(self._number(name, a, b))
        if fixed:
            pieces.append(self._constant(fixed))
        return pieces[0] if len(pieces) == 1 else self._node("Concat", pieces, axis=0)

    def _number(self, name: str, a: int, b: int) -> str:
        """Write a number that is a in the first example and b in the second, on an axis of extent 1."""
        found = formula_of(a, b, list(self._extents.values()))
        if found is None:
            users = [node.name for node in self._writer.nodes if name in node.inputs]
            raise UnsupportedError(
                f"onnx.export: {_place((users or [name])[0])} takes the number {a}, which is {b} for another example: "
                f"it is not a product or sum of the dynamic extents {sorted(self._extents)}; declare fewer axes in "
                "dynamic_axes"
            )
        factors, scale, shift = found
        value = ""
        for extent in factors:
            size = self._node("Shape", [extent.input], start=extent.axis, end=extent.axis + 1)
            value = self._node("Mul", [value, size]) if value else size
        if scale != 1:
            value = self._node("Mul", [value, self._constant([scale])])
        return self._node("Add", [value, self._constant([shift])]) if shift else value

    def _constant(self, numbers: list[int]) -> str:
        return self._kept(np.array(numbers, np.int64))

    def _kept(self, array: Any) -> str:
        key = "constant", str(np.asarray(array).dtype), np.asarray(array).tobytes(), np.shape(array)
        if key not in self._known:
            self._known[key] = self._writer.constant(array, name="size").name
        return self._known[key]

    def _node(self, operator: str, inputs: list[str], **attributes: Any) -> str:
        key = operator, tuple(inputs), tuple(attributes.items())
        if key not in self._known:
            name = self._writer.new_name(f"size/{operator}")
            self.nodes.append(NodeText(operator, name, inputs, [name], attributes))
            self._known[key] = name
        return self._known[key]


def _repeated(one: np.ndarray, other: np.ndarray) -> np.ndarray | None:
    """Return the array that both arrays repeat along the axes of different extents, or None; it has extent 1 there."""
    if one.ndim != other.ndim or not one.size or not other.size:
        return None
    cut = tuple(slice(1) if a != b else slice(None) for a, b in zip(one.shape, other.shape, strict=True))
    part = one[cut]
    same = one.shape != other.shape and _same(part, other[cut])
    same = same and all(_same(array, np.broadcast_to(part, array.shape)) for array in (one, other))
    if not same:
        return None
    first = part.reshape(-1)[:1]
    return first[0] if _same(part, np.broadcast_to(first, part.shape)) else part  # a single number is enough


def _triangle(array: np.ndarray) -> tuple[int, Any, Any] | None:
    """Return (k, value up to the diagonal k, value above it) of matrices that are all such triangles."""
    if array.ndim < 2 or min(array.shape) < 1 or array.shape[-1] < 2 or array.shape[-2] < 2:
        return None
    below, above = array[..., -1, 0].reshape(-1)[0], array[..., 0, -1].reshape(-1)[0]
    diagonal = int(np.argmax(array.reshape(-1, *array.shape[-2:])[0, 0] == above)) - 1
    lower = np.tri(array.shape[-2], array.shape[-1], diagonal, bool)
    found = np.broadcast_to(np.where(lower, below, above), array.shape)
    return (diagonal, below, above) if _same(array, found) else None


def _counts(array: np.ndarray) -> tuple[int, int] | None:
    """Return (start, step) of evenly spaced whole numbers."""
    line = array.reshape(-1)
    if line.size < 2 or not np.isfinite(line[:2]).all() or line[0] % 1 or line[1] % 1 or abs(line[:2]).max() > 2**31:
        return None
    start, step = int(line[0]), int(line[1]) - int(line[0])
    return (start, step) if np.array_equal(line, start + step * np.arange(line.size)) else None


def formula_of(a: int, b: int, extents: list[Extent]) -> tuple[list[Extent], int, int] | None:
    """Return (factors, scale, shift) with a, b = product of the factors' sizes * scale + shift in the two examples.

    Tried in this order: a multiple of one extent, of two, an extent plus a number, a multiple plus a number.
    """
    groups = [list(pair) for count in (1, 2) for pair in combinations_with_replacement(extents, count)]
    for factors in groups:
        n, m = (int(np.prod([each.sizes[k] for each in factors])) for k in (0, 1))
        if n and a * m == b * n and a % n == 0:
            return factors, a // n, 0
    for slope in (1, -1):
        for each in extents:
            n, m = each.sizes
            if a - slope * n == b - slope * m:
                return [each], slope, a - slope * n
    for each in extents:
        n, m = each.sizes
        if (b - a) % (m - n) == 0:
            scale = (b - a) // (m - n)
            return [each], scale, a - scale * n
    return None
