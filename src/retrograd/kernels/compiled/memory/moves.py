"""Strided copies and the plan of their loops.

``layout.py`` imports this module, which therefore imports none of the wrappers.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from ..machine.launch import kernel
from ..machine.plan_tracing import call, is_planned
from ..machine.prepared import prepared
from ..machine.record import record
from ..machine.target import vector_bytes

__all__ = ["accumulate", "assign", "copy", "duplicate", "reshaped"]


# ---- The plan of a strided copy: one record of int64 ----------------------------------------------------------------

OUTER = 5  # outer axes
MOVE = record(
    kind=1,  # one of the kinds below
    rows=1,
    per_task=1,  # the outer axes are walked row by row, some rows a task
    pieces=1,
    piece=1,  # or a row is cut into pieces along the inner axis, each a task
    inner=1,
    y_inner=1,
    x_inner=1,  # the inner axis: extent, steps in elements
    cross=1,
    y_cross=1,
    x_cross=1,  # the other axis of a tile; or the number of interleaved elements
    y_start=1,
    x_start=1,
    extent=OUTER,
    y_step=OUTER,
    x_step=OUTER,  # the outer axes
    places=0,  # the target, or source, of each of the interleaved elements
)

# kinds: contiguous to contiguous, one element to contiguous, any steps, transposed tiles, one interleaved row to
# several rows, and back
RUN, FILL, STEPS, TILES, DEINTERLEAVE, INTERLEAVE = range(6)

_WORK = 16384  # elements per task
_SHORT = 64  # with fewer elements, a row costs little more than its start
_FEW = 8  # the shortest run, and side of a tile, for which loads of whole registers pay

Shape = tuple[int, ...]
Axis = tuple[int, int, int]  # extent, step of y, step of x


class Plan(NamedTuple):
    kind: int
    tasks: int
    words: np.ndarray


def move_plan(shape: Shape, y_strides: Shape, x_shape: Shape, x_strides: Shape, size: int, tiles: bool) -> Plan | None:
    """The plan for y[...] = x, x broadcast; None if it needs too many axes, or steps are not whole elements.

    With ``tiles`` all kinds are possible, else the first three.
    """
    missing = len(shape) - len(x_shape)
    x_strides = (0,) * missing + tuple(
        0 if extent == 1 else stride for extent, stride in zip(x_shape, x_strides, strict=True)
    )
    if any(stride % size for stride in (*y_strides, *x_strides)):
        return None
    y_start = x_start = 0
    axes: list[Axis] = []
    for extent, y_stride, x_stride in zip(shape, y_strides, x_strides, strict=True):
        q, p = y_stride // size, x_stride // size
        if q < 0:  # reverse the axis, so that y is written forward
            y_start, x_start, q, p = y_start + (extent - 1) * q, x_start + (extent - 1) * p, -q, -p
        if extent != 1:
            axes.append((extent, q, p))
    axes = _merged(sorted(axes, key=lambda axis: (-axis[1], -abs(axis[2]))))
    if not axes:
        axes = [(1, 1, 1)]
    inner, cross, kind = _inner(axes, tiles)
    axes.remove(inner)
    places: list[int] = []
    if cross:
        axes.remove(cross)
    elif kind == STEPS and tiles:
        kind, places, axes = _interleaved(inner, axes, vector_bytes() // size // 2)
        cross = (len(places), 0, 0) if places else None
    extent = inner[0]
    width = extent * (cross[0] if cross else 1)
    if len(axes) > OUTER:
        return None
    if width < _SHORT and len(axes) > 1 and axes[-1][0] < _FEW < axes[-2][0]:  # the last axis has the cheapest step
        axes[-2:] = axes[:-3:-1]
    per_task, pieces, piece = max(1, _WORK // width), 1, extent
    if width > _WORK:
        whole = 64  # pieces are whole tiles
        piece = max(whole, _WORK * extent // width // whole * whole)
        pieces = -(-extent // piece)
    rows = prod(axis[0] for axis in axes)
    outer = [(1, 0, 0)] * (OUTER - len(axes)) + axes
    (_, y_inner, x_inner), (side, y_cross, x_cross) = inner, cross or (1, 0, 0)
    extents, y_steps, x_steps = zip(*outer, strict=True)
    words = MOVE.pack(
        kind=kind,
        rows=rows,
        per_task=per_task,
        pieces=pieces,
        piece=piece,
        inner=extent,
        y_inner=y_inner,
        x_inner=x_inner,
        cross=side,
        y_cross=y_cross,
        x_cross=x_cross,
        y_start=y_start,
        x_start=x_start,
        extent=extents,
        y_step=y_steps,
        x_step=x_steps,
        places=places,
    )
    return Plan(kind, -(-rows // per_task) * pieces, words)


def _interleaved(inner: Axis, axes: list[Axis], most: int) -> tuple[int, list[int], list[Axis]]:
    """The kind, the offsets of the elements interleaved between two steps of ``inner``, and the remaining axes.

    The inner step is 1 in y or x; in the other it is the product of short axes that fill the gap.
    """
    extent, q, p = inner
    near, far = (2, 1) if q == 1 else (1, 2)  # index, in an axis, of the step in the interleaved array
    width, places, left = 1, [0], list(axes)
    if inner[far] == 1 and extent >= _FEW // 2:
        for axis in sorted(axes, key=lambda axis: axis[near]):
            if axis[near] == width and width * axis[0] <= min(most, inner[near]):
                places = [place + i * axis[far] for i in range(axis[0]) for place in places]
                width *= axis[0]
                left.remove(axis)
    if width == 1 or width != inner[near]:
        return STEPS, [], axes
    return DEINTERLEAVE if near == 2 else INTERLEAVE, places, left


def _merged(axes: list[Axis]) -> list[Axis]:
    """Merge axes that are contiguous in both arrays."""
    merged: list[Axis] = []
    for extent, q, p in axes:
        if merged and merged[-1][1:] == (q * extent, p * extent):
            merged[-1] = (merged[-1][0] * extent, q, p)
        else:
            merged.append((extent, q, p))
    return merged


def _inner(axes: list[Axis], tiles: bool) -> tuple[Axis, Axis | None, int]:
    """The axis of the inner loop, the other one of a tile, and the kind of that loop."""
    last = axes[-1]
    if last[1:] == (1, 1):
        return last, None, RUN
    if last[1:] == (1, 0):
        return last, None, FILL
    source = min(axes, key=lambda axis: (abs(axis[2]) or 1 << 62, -axis[0]))
    if tiles and last[1] == 1 and source[2] == 1 and min(last[0], source[0]) >= _FEW:
        longer, shorter = (last, source) if last[0] > source[0] else (source, last)
        return longer, shorter, TILES
    # few contiguous elements in y, but many in x: make these the inner loop
    return (source if last[0] < _FEW < source[0] else last), None, STEPS


# ---- Strided copies: joining, padding, transposing and repeating arrays are copies between views --------------------

_ACCUMULATE, _COUNT = kernel("memory.moves.accumulate"), kernel("memory.moves.count")
_INTEGER = np.dtype(np.int64).char
_COPY = dict.fromkeys((RUN, FILL, STEPS), kernel("memory.moves.copy"))
_COPY |= {
    TILES: kernel("memory.moves.tiles"),
    DEINTERLEAVE: kernel("memory.moves.apart"),
    INTERLEAVE: kernel("memory.moves.together"),
}
_FORM = {4: "f", 8: "d"}  # bits are moved, so only the size of elements matters
_SMALL = 1024  # elements: below, NumPy finishes before a plan is looked up
_plan = lru_cache(maxsize=4096)(move_plan)


def copy(y: np.ndarray, x: np.ndarray) -> None:
    plans = type(y) is not np.ndarray and is_planned(y)
    if y.size >= (1 if plans else _SMALL) and (form := _FORM.get(y.itemsize)):
        plan = _plan(y.shape, y.strides, x.shape, x.strides, y.itemsize, True)
        if plan is not None:
            if y.dtype.char != form:  # integers
                x, y = x.view(form), y.view(form)
            _COPY[plan.kind][form](plan.tasks, x, y, plan.words)
            return
    if not plans:
        np.copyto(y, x)
    elif y.size:
        call(np.copyto, y, x)


@prepared
def accumulate(y: np.ndarray, x: np.ndarray) -> None:
    plans = type(y) is not np.ndarray and is_planned(y)
    if y.size and (y.ndim or plans) and (form := y.dtype.char) in "fd":  # errstate takes longer than a plan
        plan = _plan(y.shape, y.strides, x.shape, x.strides, y.itemsize, False)
        if plan is not None:
            _ACCUMULATE[form](plan.tasks, x, y, plan.words)
            return
    if y.size == x.size == 1 and y.dtype.char == x.dtype.char == _INTEGER:  # a counter, as of batches
        _COUNT["f"](1, y, x)
        return
    if not plans:
        _add(y, x)
    elif y.size:
        call(_add, y, x)


def assign(y: np.ndarray, x: np.ndarray) -> None:
    if type(y) is type(x) is np.ndarray and y.dtype is x.dtype:  # nothing can overflow
        np.copyto(y, x)
        return
    with np.errstate(over="ignore"):
        np.copyto(y, x, casting="unsafe")


def _add(y: np.ndarray, x: np.ndarray) -> None:
    if y.dtype.kind not in "fc":  # NumPy warns about floating-point numbers only, and errstate takes a microsecond
        np.add(y, x, out=y)
        return
    with np.errstate(all="ignore"):
        np.add(y, x, out=y)


def duplicate(x: np.ndarray) -> np.ndarray:
    """A dense copy of x in its own order of axes."""
    if x.size < _SMALL:
        return x.copy(order="K")
    broadcast = 0 in x.strides  # like the gradient of a sum
    y = np.empty(x.shape, x.dtype, like=x) if broadcast else np.empty_like(x)
    copy(y, x)
    return y


def reshaped(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    y = np.empty(x.shape, x.dtype, like=x)
    copy(y, x)
    return y.reshape(shape)
