"""Fusion of steps: a sum and what follows it, or a chain of pointwise steps, as one step.

``fused(steps, ...)`` returns fewer steps with the same results to the bit. A convolution, a transposed one or a matrix
product takes over the addition of another array, as in a residual network, and a ReLU or clamp: they run while the sums
are in registers. Another function of the result, such as GELU, runs while it is in the cache. Adjacent pointwise steps
become one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ..formulas.optimizers import rectified
from ..kernel_set import kernels
from .chains import estimated_gain, function_of_one, runs
from .memory_planning import root
from .steps import Step, Steps, left_before
from .uses import Uses, is_own_kernel

__all__ = ["fused"]

LEAST_GAIN = 20.0  # microseconds that a chain must save in each replay: its kernel takes 0.2 s to compile

FAR = 1 << 24  # bytes beyond the caches: below, an exponential takes longer than the pass over memory that is saved


class _Epilogue(NamedTuple):
    """The steps that follow a sum, and the array that holds the result in the end.

    residual: an array that is added, and the step that does so. bounds: those of a clamp after that. formula: one that
    is computed last, with these numbers. pool: the windows over whose positions the maximum is taken in the end.
    """

    result: np.ndarray
    steps: tuple[int, ...]
    residual: tuple[np.ndarray, int] | None = None
    bounds: tuple[float, float] | None = None
    formula: Callable[..., Any] | None = None
    numbers: tuple[float, ...] = ()
    pool: Any = None


def fused(steps: Steps, forward: int, outside: Iterable[np.ndarray]) -> tuple[Steps, int]:
    """Return the steps with epilogues and chains, and how many of them belong to the forward pass.

    forward: the number of steps of the forward pass; it and the rest are fused separately. outside: arrays that are
    read after the steps, such as the results.
    """
    kept = [*outside]
    steps, forward = _with_epilogues(steps, forward, Uses(steps, kept))
    steps, forward = _in_chains(steps, forward, Uses(steps, kept))
    return _with_epilogues(steps, forward, Uses(steps, kept))  # a chain of one array may be one


def _in_chains(steps: Steps, forward: int, uses: Uses) -> tuple[Steps, int]:
    """Adjacent pointwise steps as one; see chains.py."""
    found: list[tuple[int, int, Step]] = []
    gain: dict[str, float] = {}  # by kernel, which is compiled once
    for begin, chain in runs(steps, {forward, *(place for place, _ in steps.decisions)}):
        last = begin + len(chain.parts) - 1
        if (step := chain.step(partial(uses.is_read_after, last))) is not None:
            found.append((begin, last, step))
            gain[step.kernel] = gain.get(step.kernel, 0.0) + chain.gain
    made: dict[int, Step] = {}
    dropped: set[int] = set()
    for begin, last, step in found:
        if gain[step.kernel] >= LEAST_GAIN:
            made[last] = step
            dropped.update(range(begin, last))
    return steps.replaced(made, dropped), left_before(forward, dropped)


def _with_epilogues(steps: Steps, forward: int, uses: Uses) -> tuple[Steps, int]:
    made: dict[int, Step] = {}
    dropped: set[int] = set()
    for at, step in enumerate(steps):
        if at in dropped or not is_own_kernel(step) or _parts(step) is None:
            continue
        found = _epilogue(steps, uses, at, forward if at < forward else len(steps))
        if found.steps:
            *others, last = found.steps
            made[last] = _with_epilogue(step, found)
            dropped.update((at, *others))
            uses.taken.update(found.steps)
    return steps.replaced(made, dropped), left_before(forward, dropped)


class _Sum(NamedTuple):
    """A convolution or product that may have an epilogue: its operands and options, and the epilogue that it has."""

    kernel: str
    operands: tuple[np.ndarray, np.ndarray, np.ndarray | None]  # the factors and the bias
    options: tuple[Any, ...]
    epilogue: _Epilogue


def _parts(step: Step) -> _Sum | None:
    kernel, args, result = step.kernel.removesuffix("_clamp"), step.args, step.result
    if kernel not in ("conv", "conv_input_grad", "matmul") or not isinstance(result, np.ndarray):
        return None
    if kernel == step.kernel:
        first, second, *others = args
        bias, *options = others or [None]
        if len(options) != (0 if kernel == "matmul" else 2):  # the options are there, too
            return None
        return _Sum(kernel, (first, second, bias), (*options,), _Epilogue(result, ()))
    first, second, bias, residual, low, high, *others = args
    if len(others) > (0 if kernel == "matmul" else 2):  # it ends with a formula
        return None
    added = None if residual is None else (residual, -1)
    bounds = None if (low, high) == (-inf, inf) else (low, high)
    return _Sum(kernel, (first, second, bias), (*others,), _Epilogue(result, (), added, bounds))


def _epilogue(steps: Steps, uses: Uses, at: int, end: int) -> _Epilogue:
    """The longest epilogue of a step, before the step ``end``."""
    one = _parts(steps[at])
    assert one is not None
    found = one.epilogue
    read = [(array, at) for array in one.operands if array is not None]
    read += [(found.residual[0], at)] if found.residual else []
    while (longer := _longer(steps, uses, found, at, end)) is not None:
        needed = [*read, longer.residual] if longer.residual and not found.residual else read
        if any(uses.is_written(array, since, longer.steps[-1], longer.steps) for array, since in needed):
            break
        found, read = longer, needed
    return found


def _longer(steps: Steps, uses: Uses, found: _Epilogue, at: int, end: int) -> _Epilogue | None:
    """The epilogue with the next step that uses its result, if that can be part of it and nothing else needs both."""
    y, later = found.result, uses.after(found.result, max(found.steps, default=at))
    if not later or later[0] >= end or uses.is_decided_by(y) or found.formula is not None or found.pool is not None:
        return None
    place, step = later[0], steps[later[0]]
    if place in uses.taken or not is_own_kernel(step):
        return None
    longer = found._replace(steps=(*found.steps, place))
    if step.kernel == "max_pool_values":
        fits = steps[at].kernel in ("conv", "conv_clamp") and step.args[0] is y and found.residual is None
        alone = len(later) == 1 and not uses.is_outside(y)
        return longer._replace(pool=step.args[1], result=step.result) if fits and alone else None
    if step.kernel == "update" and step.args[0] is rectified and _fits(step.args[1][0], y):  # ReLU in place
        return longer._replace(bounds=(0.0, inf)) if found.bounds is None else None
    if step.kernel == "relu" and found.bounds is None and _fits(step.args[0], y):
        longer = longer._replace(bounds=(0.0, inf))
    elif step.kernel == "clamp" and found.bounds is None and _fits(step.args[0], y):
        longer = longer._replace(bounds=step.args[1:])
    elif step.kernel == "add" and found.residual is None and found.bounds is None:
        other = _other(step.args, y)
        if other is None:
            return None
        longer = longer._replace(residual=(other, place))
    elif (one := function_of_one(step)) is not None and _fits(step.args[0], y):
        if not one.is_cheap and y.nbytes < FAR or not one.is_common and estimated_gain(1, y.size) < LEAST_GAIN:
            return None
        longer = longer._replace(formula=one.formula, numbers=one.numbers)
    else:
        return None
    result = step.result
    if not _fits_layout(result, y):
        return None
    if len(later) == 1:
        return None if uses.is_outside(y) else longer._replace(result=result)
    write = steps[later[1]]  # another operation in place: the result is copied to where it was computed from
    if (
        later[1] < end
        and write.kernel == "copy"
        and write.args[1] is result
        and _fits(write.args[0], y)
        and uses.after(result, place) == [later[1]]
        and not uses.is_outside(result)
    ):
        return longer._replace(steps=(*found.steps, *later[:2]))
    return None


def _other(summands: tuple[Any, ...], y: np.ndarray) -> np.ndarray | None:
    """Return the array that is added to y, if it has the layout of y."""
    for one, other in (summands, summands[::-1]):
        if _fits(one, y):
            return other if _fits_layout(other, y) and root(other) is not root(y) else None
    return None


def _fits(x: Any, y: np.ndarray) -> bool:
    """Whether x is y, or the same memory in another shape."""
    return _fits_layout(x, y) and root(x) is root(y)


def _fits_layout(x: Any, y: np.ndarray) -> bool:
    """Whether x is an array with the memory order of y, perhaps with other axes."""
    if not isinstance(x, np.ndarray) or x.dtype != y.dtype or x.size != y.size:
        return False
    return (x.shape, x.strides) == (y.shape, y.strides) or (x.flags.c_contiguous and y.flags.c_contiguous)


def _with_epilogue(step: Step, found: _Epilogue) -> Step:
    def in_shape(x: np.ndarray) -> np.ndarray:
        return x if x.shape == step.result.shape else x.reshape(step.result.shape)

    one = _parts(step)
    assert one is not None
    if found.pool is not None:
        window, options = one.options
        given = (*one.operands, *(found.bounds or (-inf, inf)), window, found.pool, options)
        return Step("conv_max_pool", kernels.found("conv_max_pool"), given, {}, found.result)
    residual = None if found.residual is None else in_shape(found.residual[0])
    name = f"{one.kernel}_clamp"
    args = (*one.operands, residual, *(found.bounds or (-inf, inf)), *one.options)
    if found.formula is not None:
        args = (*args, found.formula, found.numbers)
    return Step(name, kernels.found(name), args, {}, in_shape(found.result))
