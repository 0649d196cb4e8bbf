"""Strided copies: joining, padding, transposing and repeating arrays are copies between views.

``arrays.py`` imports this module, which therefore imports none of the wrappers.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..machine.launch import kernel
from ..machine.planning import call, is_planned
from .move_plan import APART, FILL, RUN, STEPS, TILES, TOGETHER, move_plan

__all__ = ["accumulate", "assign", "copy", "duplicate", "reshaped"]

_ACCUMULATE = kernel("memory.moves.accumulate")
_COPY = dict.fromkeys((RUN, FILL, STEPS), kernel("memory.moves.copy"))
_COPY |= {
    TILES: kernel("memory.moves.tiles"),
    APART: kernel("memory.moves.apart"),
    TOGETHER: kernel("memory.moves.together"),
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


def accumulate(y: np.ndarray, x: np.ndarray) -> None:
    plans = type(y) is not np.ndarray and is_planned(y)
    if y.size >= (1 if plans else _SMALL) and (form := y.dtype.char) in "fd":
        plan = _plan(y.shape, y.strides, x.shape, x.strides, y.itemsize, False)
        if plan is not None:
            _ACCUMULATE[form](plan.tasks, x, y, plan.words)
            return
    if not plans:
        _add(y, x)
    elif y.size:
        call(_add, y, x)


def assign(y: np.ndarray, x: np.ndarray) -> None:
    with np.errstate(over="ignore"):
        np.copyto(y, x, casting="unsafe")


def _add(y: np.ndarray, x: np.ndarray) -> None:
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
