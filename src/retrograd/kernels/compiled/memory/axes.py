"""A dense array seen as groups of adjacent axes, in memory order, that are reduced or kept."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..machine.launch import Kernel, kernel
from .arrays import CHUNK, Shape, is_dense, memory_axes, transposition

Groups = list[tuple[bool, int]]  # whether it is reduced, and its elements
FEW, MANY = 64, 1024  # rows that one task combines, at least and at most; also: columns, a multiple of the first


def rows_and_columns(name: str) -> tuple[Kernel, Kernel]:
    """The kernels of this name over an axis that is innermost in memory, and over one that is not."""
    return kernel(f"{name}_rows"), kernel(f"{name}_columns")


class View(NamedTuple):
    """A dense array as groups, and its reduced shape."""

    groups: tuple[tuple[bool, int], ...]
    memory: Shape  # the shape of the result in the order of memory
    back: Shape  # its transposition to the result; empty if there is none


def append(groups: Groups, reduced: bool, extent: int) -> None:
    """Add an axis inside the others; adjacent axes of one kind form one group."""
    if extent != 1:
        outer = groups.pop()[1] if groups and groups[-1][0] == reduced else 1
        groups.append((reduced, outer * extent))


@lru_cache(maxsize=4096)
def view(shape: Shape, strides: Shape, size: int, axes: tuple[int, ...], keepdims: bool) -> View | None:
    """The view of an array of elements of ``size`` bytes; None if it is not dense."""
    if not is_dense(shape, strides, size):
        return None
    order = memory_axes(shape, strides)
    left = [axis for axis in order if keepdims or axis not in axes]
    groups: Groups = []
    for axis in order:
        append(groups, axis in axes, shape[axis])
    return View(tuple(groups), tuple(1 if axis in axes else shape[axis] for axis in left), transposition(left))


def row_numbers(rows: int, length: int) -> tuple[int, int, tuple[int, int, int, int]]:
    """Tasks, pieces per row and the integer arguments of a kernel over rows."""
    pieces = -(-length // CHUNK)
    per_task = CHUNK // length or 1
    return -(-rows * pieces // per_task), pieces, (rows, length, pieces, per_task)


def column_numbers(outer: int, length: int, inner: int) -> tuple[int, int, tuple[int, int, int, int, int]]:
    """As ``row_numbers`` for a kernel over columns."""
    piece = min(length, sorted((FEW, CHUNK // inner, MANY))[1])
    pieces = -(-length // piece)
    width = min(inner, -(-CHUNK // piece // FEW) * FEW)
    return outer * pieces * -(-inner // width), pieces, (length, inner, pieces, piece, width)
