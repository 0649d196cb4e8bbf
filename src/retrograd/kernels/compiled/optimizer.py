"""Optimizers' updates: parameters and states are changed in place; one launch updates all tensors of a call.

``keep`` is a dict of the caller, or None, that caches what is known about the arrays for the next call. A dict that is
not empty asserts that parameters and states are the same objects as in the call that filled it; gradients may differ,
with the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np

from ...formulas import UPDATES, form
from ...formulas.optimizers import limit
from .machine.launch import kernel
from .machine.plan_tracing import Objects, is_planned, objects
from .memory.layout import CHUNK, is_dense, like, same_order, tasks

__all__ = ["limit_norm", "norm_of_all", "update"]

Arrays = Sequence[np.ndarray]

_NORM = kernel("optimizer.norm")
_KERNELS = {formula: kernel(f"optimizer.{name}") for name, formula in UPDATES.items()}
_COLUMNS, _NUMBERS = 7, 10  # of the table, and of a kernel; an update uses the first of them (optimizer_jit.py)
_LARGE, _LONG = 1 << 20, 4 * CHUNK  # with _LARGE elements or more, a task has _LONG: fewer interrupted memory streams


def update(formula: Callable[..., Any], *columns: Arrays, keep: dict[str, Any] | None = None, **numbers: float) -> None:
    parameters = columns[0]
    if not parameters:
        return
    if plans := is_planned(parameters[0]):
        keep = None
    table: _Table | None = keep.get("table") if keep else None
    if table is None or not table.takes(columns[1]):
        table = _Table(columns)
        if keep is not None and table.reads_in_place:
            keep["table"] = table
    if table.elements:
        per_task = CHUNK if table.elements < _LARGE else _LONG
        values = [numbers[name] for name in form(formula).numbers]
        _KERNELS[formula][parameters[0].dtype.char](
            -(-table.elements // per_task),
            parameters[0],
            table.planned(columns) if plans else table.words,
            len(parameters),
            per_task,
            *values,
            *(0.0,) * (_NUMBERS - len(values)),
        )
        for array, copy in table.copies:
            np.copyto(array, copy)


def limit_norm(arrays: Arrays, norm: np.ndarray, most: float) -> None:
    factor = most / (norm.item() + 1e-6)
    if not factor >= 1:
        update(limit, arrays, factor=factor, most=inf)


def norm_of_all(arrays: Arrays, *, largest: bool) -> np.ndarray:
    table = _Table((arrays,))
    if not table.elements:
        return np.array(0.0)
    partials = np.empty(tasks(table.elements), arrays[0].dtype, like=arrays[0])
    _NORM[arrays[0].dtype.char](len(partials), arrays[0], table.words, len(arrays), partials, largest)
    return np.array(partials.max() if largest else np.sqrt(partials.sum(dtype=np.float64)), np.float64)


class _Table:
    """The table of a step: for each tensor its arrays (parameter, gradient, buffers), its first element and its size.

    A kernel needs the arrays of a tensor dense and in one memory order. Others are replaced by copies; ``copies`` lists
    those that the step changes. Only a table without copies can be reused.
    """

    def __init__(self, columns: tuple[Arrays, ...]) -> None:
        entries: list[int] = []
        # the table holds only addresses of objects, and none of gradients, which are new in every step
        self._alive: list[np.ndarray] = [array for column in (*columns[:1], *columns[2:]) for array in column]
        self.copies: list[tuple[np.ndarray, np.ndarray]] = []
        self.reads_in_place = True
        self._strides: list[tuple[int, ...]] = []
        self.elements = 0
        padding = _COLUMNS - 2 - len(columns)
        for arrays in zip(*columns, strict=True):
            parameter = arrays[0]
            strides = parameter.strides
            self._strides.append(arrays[1].strides if len(arrays) > 1 else strides)
            if not is_dense(parameter.shape, strides, parameter.itemsize):
                arrays = self._dense(parameter.copy(order="K"), arrays)
            else:
                for array in arrays:
                    if array.strides != strides and not same_order(array.shape, array.strides, strides):
                        arrays = self._dense(parameter, arrays)
                        break
            entries += map(id, arrays)
            entries += (id(arrays[0]),) * padding
            entries.append(self.elements)
            entries.append(parameter.size)
            self.elements += parameter.size
        self.words = np.array(entries, np.int64)

    def takes(self, gradients: Arrays) -> bool:
        """Put these gradients into the table, unless one of them has another memory order."""
        if [gradient.strides for gradient in gradients] != self._strides:
            return False
        self.words[1::_COLUMNS] = list(map(id, gradients))
        return True

    def planned(self, columns: Sequence[Arrays]) -> Objects:
        """The table for a plan."""
        return objects(self.words, [*(array for column in columns for array in column), *self._alive])

    def _dense(self, model: np.ndarray, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        self.reads_in_place = False
        # one object may occur several times: then so does its copy
        made = {id(arrays[0]): model}
        for array in arrays[1:]:
            if id(array) not in made:
                same = same_order(array.shape, array.strides, model.strides)
                made[id(array)] = array if same else like(array, model)
        copies = tuple(made[id(array)] for array in arrays)
        self._alive += copies
        for place, (array, copy) in enumerate(zip(arrays, copies, strict=True)):
            if copy is not array and place != 1:
                self.copies.append((array, copy))
        return copies
