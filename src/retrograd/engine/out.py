"""Results in tensors that are given: ``out=``.

One function serves all operators: it runs the operator without a gradient, and writes the results into the tensors. An
operator of large arrays ends in a kernel that writes there itself, if the kernel has a plan: a plan names the memory of
its results, so the memory can be a given one. Model: the out variants of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import empty, overlap
from ..kernel_set import Listener, call_into, kernels
from .changes import check_changeable, mark
from .convert import CATEGORY
from .family import part
from .grad_mode import thread
from .inplace import overwrite
from .line import warn_user
from .operator import interpreters
from .region import tensors_in
from .tensor import Tensor

_LARGE = 1 << 21  # bytes of a result from which new memory costs more than finding the kernel that makes it
_makers: dict[Callable[..., Any], int] = {}  # which of the kernels that an operator calls made its result last time


def into(function: Callable[..., Any], out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``function(*args, **kwargs)`` with its results in ``out``, which is returned.

    out: a Tensor, or one for each result. One of another shape gets memory of its own, with a warning if it has
    elements. After an error the elements of ``out`` are undefined.

    Raises:
        TypeError: ``out`` is no Tensor, or not one for each result.
        RuntimeError: a gradient would be recorded, ``out`` cannot change, or its type cannot hold the result.
    """
    name = function.__name__
    given = (out,) if isinstance(out, Tensor) else out
    if not isinstance(given, (tuple, list)) or not all(isinstance(each, Tensor) for each in given):
        raise TypeError(f"{name}: out={type(out).__name__} must be a Tensor, or a tuple with one for each result")
    operands = tensors_in((args, kwargs))
    if thread.mode.enabled and any(each._requires_grad for each in (*operands, *given)):
        raise RuntimeError(
            f"{name}: out= records no gradient, and an argument requires one; leave out= away, or write the line into "
            "'with retrograd.no_grad():'"
        )
    for each in given:
        check_changeable(each, name, False)
    enabled, thread.mode.enabled = thread.mode.enabled, False
    try:
        results = _run(function, given, operands, args, kwargs)
    finally:
        thread.mode.enabled = enabled
    values = (results,) if isinstance(results, Tensor) else results
    count = len(values) if isinstance(values, (tuple, list)) else 0
    if count != len(given):
        raise TypeError(f"{name}: out= holds one Tensor for each result, so {count} here, and {len(given)} were given")
    for value, target in zip(values, given, strict=True):
        if CATEGORY[value.array.dtype.kind] > CATEGORY[target.array.dtype.kind]:
            raise RuntimeError(
                f"{name}: the result is {value.array.dtype}, which cannot become {target.array.dtype}, the type of "
                f"out; make out with dtype={value.array.dtype}"
            )
    for value, target in zip(values, given, strict=True):
        _write(name, target, value)
    if isinstance(out, Tensor):
        return out
    return type(results)(*given) if hasattr(results, "_fields") else type(results)(given)


def _write(name: str, target: Tensor, value: Tensor) -> None:
    array, found = target.array, value.array
    if array.shape != found.shape:
        if array.size:
            warn_user(
                f"{name}: out.shape={array.shape} is not that of the result, {found.shape}, so out gets new memory; "
                "make it in this shape, or empty"
            )
        array = empty(found.shape, array.dtype, like=array)
        part(target, array)
        target.array = array
    if array is found:
        mark((array,), name)
    elif array.dtype == found.dtype and interpreters:
        overwrite(target, value, name, None)
    else:
        kernels.assign(array, found)
        mark((array,), name)


def _run(
    function: Callable[..., Any],
    given: Sequence[Tensor],
    operands: list[Tensor],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    y = given[0].array
    if len(given) > 1 or y.nbytes < _LARGE or any(overlap(y, each.array) for each in operands):
        return function(*args, **kwargs)
    with _Into(y, _makers.get(function, -1)) as calls:
        result = function(*args, **kwargs)
    if isinstance(result, Tensor):
        _makers[function] = calls.made.get(id(result.array), -1)
    return result


class _Into(Listener):
    """Lets one kernel of those that an operator calls write into an array.

    at: which one, counted from 0. If it is not the one that makes the result, nothing is lost but time: nothing that
    the operator reads is in the array, and the result is copied there in the end.
    """

    def __init__(self, y: np.ndarray, at: int) -> None:
        self.y, self.at, self.count = y, at, 0
        self.made: dict[int, int] = {}  # by the id of a result, the latest call that made it

    def call(self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        at, self.count = self.count, self.count + 1
        result = call_into(self.y, kernel, args, kwargs) if at == self.at else kernel(*args, **kwargs)
        self.made[id(result)] = at
        return result
