"""Elementwise kernels: dense and broadcast launches, formulas, user formulas, and GLU."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from math import prod
from typing import Any

import numpy as np

from ...formulas import ACTIVATIONS, FUSED, POINTWISE, Form, form
from .machine.launch import Kernel, Launch, Map, Part, kernel
from .machine.plan_tracing import call, is_planned, may_overwrite, model_of
from .machine.prepared import Argument, FromPlans, Result, prepared
from .memory.layout import CHUNK, Shape, around, dense, like, memory_axes, tasks, transposition
from .memory.moves import copy

__all__ = ["arithmetic", "formula_kernel", "glu", "glu_grad"]


# ---- Launching of element-wise kernels: over dense memory, or over rows ---------------------------------------------
# Where all operands fill their memory in the same order of axes, a kernel runs over that memory and the result has that
# order, too. Broadcast operands are read in place where their last step in memory is 1 or 0; other arrays are copied.

Layout = tuple[Shape, Shape, int]  # shape and strides of an operand, bytes of an element

# below _SHORT elements, a row under many is repeated to at most _LONG, if the result has at least _MANY elements
_SHORT, _LONG, _MANY = 192, 512, 8192


def same_shape(function: Kernel, operands: int) -> Callable[..., np.ndarray]:
    """A kernel of operands of one shape, and numbers; the last operand gives the order of the axes."""
    last = operands - 1

    def run(*values: Any) -> np.ndarray:
        launch = function[values[last].dtype.char]
        y: np.ndarray | None = launch(*values)  # None if they are not dense, or in different orders
        return launch(*in_order_of_last(values[:operands]), *values[operands:]) if y is None else y

    run.direct = Map(function, run)  # type: ignore[attr-defined]
    return run


def in_order_of_last(arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """The arrays, of one shape, as dense ones in the order of axes of the last."""
    model = np.empty_like(arrays[-1])
    return [like(array, model) for array in arrays]


def broadcast(rows: Kernel, form: Form) -> Callable[..., Any]:
    """A kernel of operands that broadcast, and numbers.

    If there are several results, the last arguments say which are needed; the others are None.
    """
    operands, results = len(form.operands), form.results
    all_needed = (True,) * results

    def planned_run(*values: Any) -> np.ndarray:
        arrays, shape, back, tasks, steps = _planned(values[:operands])
        dtype = np.bool_ if form.truth else arrays[-1].dtype
        launch, y = _launch(arrays), np.empty(shape, dtype, like=model_of(arrays))
        launch(tasks, *arrays, y, *steps, *values[operands:])
        if not back and len(values) == operands:
            remember(values, arrays, launch, tasks, y, steps)
        return may_overwrite(y.transpose(back) if back else y, *arrays)

    def planned_run_several(*values: Any) -> tuple[np.ndarray | None, ...]:
        needed = values[-results:] if len(values) > operands else all_needed
        arrays, shape, back, tasks, steps = _planned(values[:operands])
        launch = _launch(arrays)
        model = model_of(arrays)
        found = [np.empty(shape, arrays[-1].dtype, like=model) if need else None for need in needed]
        some = found[needed.index(True)]  # results that are not needed are not written: any array will do
        targets = [some if each is None else each for each in found]
        launch(tasks, *arrays, *targets, *steps, *values[operands:], *(() if len(values) > operands else needed))
        if not back and values[operands:] in ((), all_needed):
            remember(values[:operands], arrays, launch, tasks, some, (*steps, *needed))
        if back:
            found = [y if y is None else y.transpose(back) for y in found]
        return tuple([y if y is None else may_overwrite(y, *arrays) for y in found])

    def _launch(arrays: tuple[np.ndarray, ...]) -> Launch:
        return rows[arrays[-1].dtype.char]

    def remember(
        given: tuple[Any, ...], arrays: tuple[Any, ...], launch: Launch, tasks: int, like: Any, numbers: tuple[int, ...]
    ) -> None:
        """Let the next call with arrays of these layouts run without Python code; if it must copy one, the fifth."""
        if all(x is y and type(x) is np.ndarray for x, y in zip(given, arrays, strict=True)):
            places = *map(Argument, range(operands)), *map(Result, range(results))
            prepared.remember(arrays, launch, tasks, like.shape, (*places, *numbers), results, like.dtype)

    if results == 1:
        prepared = FromPlans(planned_run)

        def run(*values: Any) -> Any:
            return prepared.run(*values) if len(values) == operands else planned_run(*values)

    else:
        prepared = FromPlans(planned_run_several, True)

        def run(*values: Any) -> Any:
            if values[operands:] == all_needed:
                return prepared.run(*values[:operands])
            return planned_run_several(*values)

    run.direct = prepared  # type: ignore[attr-defined]
    return run


def same_or_broadcast(dense: Kernel, rows: Kernel, form: Form) -> Callable[..., np.ndarray]:
    """As ``broadcast``, with a separate kernel for operands of one memory layout."""
    last, otherwise = len(form.operands) - 1, broadcast(rows, form)

    def run(*values: Any) -> np.ndarray:
        y: np.ndarray | None = dense[values[last].dtype.char](*values)
        return otherwise(*values) if y is None else y

    run.direct = Map(dense, run, otherwise.direct)  # type: ignore[attr-defined]
    return run


def _planned(arrays: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
    """The operands, copied where they must be, the result's shape in memory and its transposition, tasks, numbers."""
    plan = _rows(*[(array.shape, array.strides, array.itemsize) for array in arrays])
    if plan is None:
        copies = _copies(arrays)
        if _rows(*_layouts(copies)) is None:  # an operand is repeated along axes that are not adjacent
            copies = tuple([array.copy() for array in np.broadcast_arrays(*copies)])
        return _planned(copies)
    shape, back, repeat, tasks, steps = plan
    if repeat is not None:
        arrays = tuple([_repeated(array, count) for array, count in zip(arrays, repeat, strict=True)])
    return arrays, shape, back, tasks, steps


def _layouts(arrays: tuple[np.ndarray, ...]) -> list[Layout]:
    return [(array.shape, array.strides, array.itemsize) for array in arrays]


def _repeated(x: np.ndarray, count: int) -> np.ndarray:
    """The only row of x, so many times; an expanded x has it in all places of the axes with stride 0."""
    if count == 1:
        return x
    row = x[tuple([slice(None) if step else slice(1) for step in x.strides])]
    return np.concatenate((row.ravel(order="K"),) * count)


def _copies(arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Each with its own axes dense in the order of the result's."""
    axes = _result_axes(*_layouts(arrays))
    copies = []
    for x in arrays:
        missing = len(axes) - x.ndim
        own = tuple(axis - missing for axis in axes if axis >= missing)
        copies.append(np.asarray(x.transpose(own), order="C", like=x).transpose(transposition(own) or own))
    return tuple(copies)


def _result_axes(*layouts: Layout) -> Shape:
    """The order of axes in the memory of the result: that of the first operand which has its shape, if there is one.

    A condition, which is copied faster, decides only if no other operand has that shape.
    """
    shape = np.broadcast_shapes(*[shape for shape, *_ in layouts])
    for own, strides, _ in sorted(layouts, key=lambda layout: layout[2] == 1):
        if own == shape:
            return memory_axes(own, strides)
    return tuple(range(len(shape)))


@lru_cache(maxsize=4096)
def _rows(*layouts: Layout) -> tuple[Any, ...] | None:
    """Plan a broadcast kernel; None if it cannot run: inner steps that are not 0 or 1, or too many axes.

    Returns the result's shape in memory, its transposition back, the number of repeats of each operand (None: once),
    tasks and the kernel's numbers.
    """
    axes = _result_axes(*layouts)
    shape = np.broadcast_shapes(*[shape for shape, *_ in layouts])
    if any(step % size for _, strides, size in layouts for step in strides):
        return None
    steps = [_steps(len(shape), *layout) for layout in layouts]
    merged: list[tuple[int, Shape]] = []  # extent, and the step of each operand
    for axis in axes:
        extent, own = shape[axis], tuple([each[axis] for each in steps])
        if merged and merged[-1][1] == tuple([step * extent for step in own]):
            merged[-1] = (merged[-1][0] * extent, own)
        elif extent != 1:
            merged.append((extent, own))
    ones, none = (1,) * len(layouts), (0,) * len(layouts)
    if not merged or 0 in shape:
        merged = [(1, ones)]
    if len(merged) > 3 or merged[-1][1] == none or not {0, 1}.issuperset(merged[-1][1]):
        return None
    n, repeat = prod(shape), None
    if len(merged) == 1 and n > CHUNK:
        own = merged[0][1]
        merged = [(-(-n // CHUNK), tuple([CHUNK * step for step in own])), (CHUNK, own)]
    elif len(merged) == 2 and merged[1][1] == ones and merged[1][0] < _SHORT:
        # a short row under many: repeat it, so that the rows become long enough for registers
        (many, own), (extent, _) = merged
        times = _LONG // extent
        if n >= _MANY and {0, extent}.issuperset(own):
            merged = [(-(-many // times), tuple([step * times for step in own])), (extent * times, ones)]
            repeat = [1 if step else times for step in own]
    merged = [(1, none)] * (3 - len(merged)) + merged
    (_, outer), (middle, between), (inner, inside) = merged
    rows_per_task = CHUNK // inner or 1
    tasks = -(-n // (inner * rows_per_task)) if n else 1
    memory = tuple(shape[axis] for axis in axes)
    numbers = n, inner, middle, rows_per_task, *outer, *between, *inside
    return memory, transposition(axes), repeat, tasks, numbers


def _steps(ndim: int, shape: Shape, strides: Shape, size: int) -> list[int]:
    """Steps in elements along the axes of the broadcast shape; 0 where the operand is repeated."""
    steps = [0 if extent == 1 else stride // size for extent, stride in zip(shape, strides, strict=True)]
    return [0] * (ndim - len(shape)) + steps


# ---- The kernels of all formulas ------------------------------------------------------------------------------------

# kernels that broadcast and run so often that operands of one shape have a separate kernel
OFTEN = ("add", "addcdiv", "addcmul", "div", "lerp", "lerp_number", "mul", "sub")


def _kernel(name: str, formula: Callable[..., Any]) -> Callable[..., Any]:
    handle, one = kernel(f"pointwise.{name}"), form(formula)
    if name in OFTEN:
        run = same_or_broadcast(handle, kernel(f"pointwise.{name}_broadcast"), one)
    elif in_rows(name, formula):
        run = broadcast(handle, one)
    else:
        run = same_shape(handle, len(one.operands))
    return wraps(formula)(run)


def in_rows(name: str, formula: Callable[..., Any]) -> bool:
    """Whether the operands of a formula broadcast, or its result is not one array of numbers."""
    one = form(formula)
    return name in FUSED or one.truth or one.results > 1 or (len(one.operands) > 1 and one.operands[0] != "g")


KERNELS: dict[str, Callable[..., Any]] = {name: _kernel(name, formula) for name, formula in (POINTWISE | FUSED).items()}


# ---- Arithmetic in place ---------------------------------------------------------------------------------------------

_SMALL = 1 << 14  # bytes: below, another pass over them takes less time than NumPy's context of errors
_IN_PLACE = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


@prepared
def arithmetic(y: np.ndarray, x: np.ndarray | float, operation: str) -> None:
    planned = type(y) is not np.ndarray and is_planned(y)
    if y.nbytes <= _SMALL and y.size and y.dtype.char in "fd":  # the two may overlap
        copy(y, KERNELS[operation](y, x if isinstance(x, np.ndarray) else np.full((), x, y.dtype, like=y)))
    elif planned:
        call(_by_numpy, y, x, operation)
    else:
        _by_numpy(y, x, operation)


def _by_numpy(y: np.ndarray, x: np.ndarray | float, operation: str) -> None:
    with np.errstate(all="ignore"):
        _IN_PLACE[operation](y, x, out=y)


# ---- Formulas at the end of convolutions and matrix products ---------------------------------------------------------

_TILES: dict[Callable[..., Any], Kernel] = {
    POINTWISE[name]: kernel(f"pointwise.{name}_tile", Part) for name in ACTIVATIONS
}


def kernel_of(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a formula of the table or of a user."""
    return formula_kernel(formula) if hasattr(formula, "digest") else KERNELS[formula.__name__]


def tile_address(formula: Callable[..., Any], dtype: str) -> int:
    """The address of the machine code that applies a formula of one operand to a tile."""
    if formula not in _TILES:
        digest = getattr(formula, "digest", None)
        made = Part(f"pointwise.{formula.__name__}_tile") if digest is None else _FormulaTile(formula)
        _TILES.setdefault(formula, made)
    return _TILES[formula][dtype]  # type: ignore[return-value]


# ---- The kernels of users' formulas: compiled on first use, and cached by a digest of their source ------------------

_kernels: dict[str, Callable[..., Any]] = {}  # by digest: formulas with equal source share a kernel


class _FormulaKernel(Kernel):
    """The handle on a formula's kernel."""

    def __init__(self, formula: Callable[..., Any]) -> None:
        super().__init__(f"formula.{formula.digest}")  # type: ignore[attr-defined]
        self._formula = formula

    def body(self) -> Callable[..., None]:
        from .pointwise_jit import loop

        return loop(self._formula, _broadcasts(self._formula))


class _FormulaTile(Part):
    """The same for a tile."""

    def __init__(self, formula: Callable[..., Any]) -> None:
        super().__init__(f"formula.{formula.digest}_tile")  # type: ignore[attr-defined]
        self._formula = formula

    def body(self) -> Callable[..., None]:
        from .pointwise_jit import loop_of_tile

        return loop_of_tile(self._formula)


def _broadcasts(formula: Callable[..., Any]) -> bool:
    return form(formula).results > 1 or getattr(formula, "broadcasts", False)


def formula_kernel(formula: Callable[..., Any]) -> Callable[..., Any]:
    digest: str = formula.digest  # type: ignore[attr-defined]
    run = _kernels.get(digest)
    if run is None:
        handle, one = _FormulaKernel(formula), form(formula)
        made = broadcast(handle, one) if _broadcasts(formula) else same_shape(handle, len(one.operands))
        run = _kernels.setdefault(digest, wraps(formula)(made))
    return run


# ---- The gated linear unit and its gradient -------------------------------------------------------------------------

_GLU, _GLU_GRAD = kernel("pointwise.glu"), kernel("pointwise.glu_grad")


@prepared
def glu(x: np.ndarray, axis: int) -> np.ndarray:
    _, extent, inner = around(x.shape, x.strides, axis) if (x := dense(x)).size else (0, 2, 1)
    half = extent // 2 * inner
    shape = tuple(n // 2 if a == axis else n for a, n in enumerate(x.shape))
    order = memory_axes(x.shape, x.strides)
    y = np.empty([shape[a] for a in order], x.dtype, like=x)
    _GLU[x.dtype.char](tasks(y.size), x, y, y.size, half or 1)
    back = transposition(order)
    return y.transpose(back) if back else y


@prepared
def glu_grad(g: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    _, extent, inner = around(x.shape, x.strides, axis) if (x := dense(x)).size else (0, 2, 1)
    half = extent // 2 * inner
    order = memory_axes(x.shape, x.strides)
    y = np.empty_like(x)
    g = np.ascontiguousarray(g.transpose(order), like=g)
    _GLU_GRAD[x.dtype.char](tasks(g.size), g, x, y, g.size, half or 1)
    return y
