"""``launch`` of threads_jit.py through ctypes, using only NumPy's public interface.

It costs ten microseconds or more per kernel and is used where the layout of NumPy's arrays is unknown. Threads and
results are the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

from ..memory.layout import like_in_memory, tasks
from .launch import planned_launch
from .plan_tracing import Planned

_NUMBERS = ("int", "float")
_as_float = ctypes.pythonapi.PyFloat_AsDouble  # float() would accept strings as well
_as_float.argtypes, _as_float.restype = (ctypes.py_object,), ctypes.c_double


def launcher(
    name: str,
    kinds: Sequence[str],
    dtypes: dict[str, np.dtype[Any]],
    messages: tuple[str, str, str],
    run: Callable[..., None],
) -> Callable[..., Any]:
    """``launch(tasks, ...)`` of a kernel with these parameters; ``run(tasks, record)`` runs the tasks.

    ``messages``: for a wrong number of arguments, for an object that is not an array, and for a wrong dtype.
    """
    wrong_count, no_array, wrong_dtype = messages

    def packed(values: Sequence[Any]) -> Any:
        """The record: for each parameter an integer, the bits of a float, or the address of an array's elements."""
        record = (ctypes.c_int64 * len(values))()
        for slot, (kind, value) in enumerate(zip(kinds, values, strict=True)):
            if kind == "int":
                record[slot] = index(value)
            elif kind == "float":
                ctypes.c_double.from_buffer(record, 8 * slot).value = _as_float(value)
            elif type(value) is not np.ndarray:
                raise TypeError(no_array)
            elif value.dtype != dtypes[kind]:
                raise TypeError(wrong_dtype)
            else:
                record[slot] = value.ctypes.data
        return record

    def map_to_result(values: Sequence[Any]) -> np.ndarray | None:
        """An element-wise kernel of (arrays..., result, n, numbers...), called with (arrays..., numbers...)."""
        arrays = next((slot for slot, kind in enumerate(kinds) if kind in _NUMBERS), 0) - 1
        if len(values) + 2 != len(kinds) or arrays < 1:
            raise TypeError(wrong_count)
        first = values[0]
        result = np.empty_like(first)
        record = packed([*values[:arrays], result, first.size, *values[arrays:]])
        if not all(like_in_memory(first, other) for other in (*values[1:arrays], result)):
            return None
        run(tasks(first.size), record)
        return result

    def launch(*values: Any) -> Any:
        if any(isinstance(value, Planned) for value in values):
            return planned_launch(name, launch, kinds, dtypes, messages, values)
        if values and type(values[0]) is np.ndarray:
            return map_to_result(values)
        if len(values) != len(kinds) + 1:
            raise TypeError(wrong_count)
        run(index(values[0]), packed(values[1:]))
        return None

    return launch
