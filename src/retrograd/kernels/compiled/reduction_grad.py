"""Arrays combined with the results of a reduction, in one pass over memory: gradients of reductions, normalization.

The reduced operands have as many axes as x, with extent 1 along the reduced ones.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from .machine.launch import Kernel, get_num_threads, kernel
from .machine.plan_tracing import may_overwrite
from .machine.prepared import prepared
from .memory.layout import CHUNK, Groups, Shape, append, dense, like, memory_axes

__all__ = ["logsumexp_grad", "moments_grad", "signed", "spread", "ties"]

NORMALIZE, NORMALIZE_GRAD = kernel("reduction_grad.normalize"), kernel("reduction_grad.normalize_grad")
_TIES, _LOGSUMEXP_GRAD = kernel("reduction_grad.ties"), kernel("reduction_grad.logsumexp_grad")
_SIGNED, _SPREAD = kernel("reduction_grad.signed"), kernel("reduction_grad.spread")
_SHORT, _LONG, _MANY = 64, 256, 8192  # as in pointwise.py: short rows are repeated


class _Plan(NamedTuple):
    order: Shape  # the axes in the order of memory
    repeat: int  # copies of the small operands side by side
    tasks: int
    numbers: tuple[int, ...]


@prepared
def moments_grad(g: np.ndarray, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    return normalize(x, mean, g, np.zeros_like(mean))


@prepared
def logsumexp_grad(g: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _spread(_LOGSUMEXP_GRAD, x, x, y, g)


@prepared
def ties(g: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _spread(_TIES, x, x, y, g)


@prepared
def signed(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    return _spread(_SIGNED, x, x, g)


@prepared
def spread(x: np.ndarray, shape: Shape) -> np.ndarray:
    z = np.empty(shape, x.dtype, like=x)
    plan = _plan(shape, z.strides, x.shape, get_num_threads()) if z.size else None
    if plan is None:
        z[...] = x
        return z
    row = np.ascontiguousarray(x, like=x)
    if plan.repeat > 1:
        row = np.concatenate((row.reshape(-1),) * plan.repeat)
    _SPREAD[z.dtype.char](plan.tasks, z, z, row, row, row, row, z, *plan.numbers)
    return z


def normalize(x: np.ndarray, mean: np.ndarray, factor: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """(x - mean) factor + shift"""
    return _spread(NORMALIZE, x, x, mean, factor, shift)


def _spread(function: Kernel, g: np.ndarray, x: np.ndarray, *reduced: np.ndarray) -> np.ndarray:
    """Run a kernel on g and x, of full size, and up to four reduced operands."""
    same, x = g is x, dense(x)
    z = np.empty_like(x)
    if not x.size:
        return z
    plan = _plan(x.shape, x.strides, reduced[0].shape, get_num_threads())
    if plan is None:  # reduced and kept axes alternate too often
        reduced = tuple(np.broadcast_to(array, x.shape) for array in reduced)
        plan = _plan(x.shape, x.strides, x.shape, get_num_threads())
        assert plan is not None
    order, repeat, tasks, numbers = plan
    rows = [np.ascontiguousarray(array.transpose(order), like=array) for array in reduced]
    if repeat > 1:
        rows = [np.concatenate((row.reshape(-1),) * repeat) for row in rows]
    rows += rows[:1] * (4 - len(rows))  # unused operands
    g = x if same else like(g, x)
    function[x.dtype.char](tasks, g, x, *rows, may_overwrite(z, g, x), *numbers)
    return z


@lru_cache(maxsize=4096)
def _plan(shape: Shape, strides: Shape, reduced: Shape, threads: int) -> _Plan | None:
    """A dense x of this shape seen as (outer, middle, inner); None if it needs more axes."""
    order = memory_axes(shape, strides)
    groups: Groups = []
    for axis in order:
        append(groups, reduced[axis] != shape[axis], shape[axis])
    n = prod(shape)
    repeat = 1
    if len(groups) == 2 and groups[0][0] and groups[1][1] < _SHORT and n >= _MANY:
        repeat = _LONG // groups[1][1]
        groups = [(True, -(-groups[0][1] // repeat)), (False, groups[1][1] * repeat)]
    if len(groups) < 2:
        kept = not (groups and groups[0][0])
        groups = [(not kept, -(-n // CHUNK)), (not kept, min(n, CHUNK))]
    if len(groups) > 3:
        return None
    steps: list[int] = []
    size = 1
    for is_reduced, extent in reversed(groups):
        steps.insert(0, 0 if is_reduced else size)
        size *= 1 if is_reduced else extent
    groups, steps = [(True, 1)] * (3 - len(groups)) + groups, [0] * (3 - len(groups)) + steps
    (_, _), (_, middle), (_, inner) = groups
    rows_per_task = CHUNK // inner or 1
    return _Plan(order, repeat, -(-n // (inner * rows_per_task)), (n, inner, middle, rows_per_task, *steps, threads))
