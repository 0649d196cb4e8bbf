"""NumPy's protocols: `__array_ufunc__` and `__array_function__` on tensors, and the functions they call.

NumPy calls ``__array_ufunc__`` or ``__array_function__`` in place of its own function if an argument is a Tensor. If an
operator supports the function and the given options (``FUNCTIONS``), the result is a Tensor computed by the operator.
Otherwise NumPy computes the result from the arrays, unless a Tensor requires a gradient, which is an error.

Each function in ``FUNCTIONS`` has the signature of NumPy's function, without the options that no operator supports.
Array arguments are converted to Tensors before it is called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..arrays import from_host, shared
from ..engine.dtype import ALLOWED
from ..engine.operator import OPERATORS
from ..engine.subgraph import replace_tensors, tensors_in
from ..engine.tensor import Tensor
from . import creation
from .dtypes.dtype import cast, float64
from .dtypes.promotion import as_operand, promoted_type
from .linalg import decompositions, matrix_functions, solving
from .pointwise import piecewise
from .product.einsum import einsum
from .product.matmul import matmul
from .reduce import calculus
from .reduce.norms import matrix_norm_of, vector_norm_of
from .shape import join

__all__ = ["FUNCTIONS", "REDUCTIONS", "RUNNING", "product"]


# ---- NumPy functions in terms of operators, with NumPy's arguments ---------------------------------------------------


def _promoted(*operands: Any) -> list[Tensor]:
    """Convert the operands to one type, as matrix operators require."""
    dtype = promoted_type(*[x.array for x in operands])
    return [cast(x, dtype) for x in operands]


def product(a: Tensor, b: Tensor) -> Tensor:
    """numpy.matmul"""
    return matmul(*_promoted(a, b))


def _floating(a: Tensor) -> Tensor:
    """Convert integers to float64, as NumPy does for means."""
    return a if a.array.dtype.kind == "f" else cast(a, float64)


def _reduction(name: str, with_dtype: bool = False) -> Callable[..., Tensor]:
    """A reduction method of Tensor with NumPy's arguments, over one axis, several, or all."""

    def reduced(a: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        axes = range(a.array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        if not isinstance(axis, int) and name in ("prod", "any", "all"):  # these reduce one axis at a time
            for each in sorted((each % a.array.ndim for each in axes), reverse=True):
                a = getattr(a, name)(each, keepdims)
            return getattr(a, name)() if axis is None and not a.array.ndim else a
        return getattr(a, name)() if axis is None and not keepdims else getattr(a, name)(tuple(axes), keepdims)

    if not with_dtype:
        return reduced

    def reduced_as(a: Tensor, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Tensor:
        return reduced(a if dtype is None else a.to(np.dtype(dtype)), axis, keepdims=keepdims)

    return reduced_as


def _statistic(name: str) -> Callable[..., Tensor]:
    def statistic(a: Tensor, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Tensor:
        return getattr(_floating(a), name)(axis, correction=ddof, keepdim=keepdims)

    return statistic


def _mean(a: Tensor, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Tensor:
    return _MEAN(_floating(a), axis, dtype, keepdims=keepdims)


_MEAN = _reduction("mean", True)
SUM, PROD = _reduction("sum", True), _reduction("prod", True)
# the functions behind methods of a ufunc: numpy.add.reduce, numpy.add.accumulate
REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "add": SUM,
    "multiply": PROD,
    **{name: _reduction(method) for name, method in (("maximum", "amax"), ("minimum", "amin"))},
    **{name: _reduction(method) for name, method in (("logical_and", "all"), ("logical_or", "any"))},
}


def _running(name: str) -> Callable[..., Tensor]:
    def running(a: Tensor, axis: Any = None, dtype: Any = None) -> Tensor:
        a = a if dtype is None else a.to(np.dtype(dtype))
        return getattr(a.ravel(), name)(0) if axis is None else getattr(a, name)(axis)

    return running


RUNNING: dict[str, Callable[..., Tensor]] = {"add": _running("cumsum"), "multiply": _running("cumprod")}


def _position(name: str) -> Callable[..., Tensor]:
    def position(a: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        return getattr(a, name)(axis, keepdims)

    return position


def _quantile(a: Tensor, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    a = _floating(a)
    if isinstance(q, Tensor):
        q = cast(q, a.dtype).detach()
    elif not isinstance(q, float | int):
        q = Tensor(from_host(q, a.dtype))
    return a.quantile(q, axis, keepdims, interpolation=method)


def _percentile(a: Tensor, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    parts: Any = from_host(q) if not isinstance(q, Tensor) else q if q.array.dtype.kind == "f" else cast(q, float64)
    return _quantile(a, parts / 100, axis, method=method, keepdims=keepdims)


def _median(a: Tensor, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return _quantile(a, 0.5, axis, keepdims=keepdims)


def _sort(a: Tensor, axis: Any = -1) -> Tensor:
    return a.ravel().sort()[0] if axis is None else a.sort(axis)[0]


def _argsort(a: Tensor, axis: Any = -1) -> Tensor:
    return a.ravel().argsort() if axis is None else a.argsort(axis)


def _flip(m: Tensor, axis: Any = None) -> Tensor:
    return m.flip(tuple(range(m.array.ndim)) if axis is None else axis)


def _rot90(m: Tensor, k: int = 1, axes: Any = (0, 1)) -> Tensor:
    return m.rot90(k, axes)


def _roll(a: Tensor, shift: Any, axis: Any = None) -> Tensor:
    return a.roll(shift, axis)


def _transpose(a: Tensor, axes: Any = None) -> Tensor:
    return a.permute(tuple(range(a.array.ndim))[::-1] if axes is None else tuple(axes))


def _expand_dims(a: Tensor, axis: Any) -> Tensor:
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    for each in sorted(each % (a.array.ndim + len(axes)) for each in axes):
        a = a.unsqueeze(each)
    return a


def _concatenate(arrays: Sequence[Tensor], axis: Any = 0) -> Tensor:
    arrays = _promoted(*arrays)
    return join.cat([a.ravel() for a in arrays]) if axis is None else join.cat(arrays, axis)


def _stack(arrays: Sequence[Tensor], axis: int = 0) -> Tensor:
    return join.stack(_promoted(*arrays), axis)


def _stacked(operator: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda tup: operator(_promoted(*tup))


def _split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    if isinstance(indices_or_sections, int) and ary.array.shape[axis] % indices_or_sections:
        raise ValueError(
            f"split: axis {axis} has {ary.array.shape[axis]} elements, not a multiple of {indices_or_sections} "
            "sections; use array_split"
        )
    return _array_split(ary, indices_or_sections, axis)


def _array_split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return [*ary.tensor_split(indices_or_sections, axis)]


def _repeat(a: Tensor, repeats: Any, axis: Any = None) -> Tensor:
    return a.repeat_interleave(repeats, axis)


def _take(a: Tensor, indices: Any, axis: Any = None) -> Tensor:
    return a.ravel()[indices] if axis is None else a[(slice(None),) * (axis % a.array.ndim) + (indices,)]


def _take_along_axis(arr: Tensor, indices: Tensor, axis: Any = -1) -> Tensor:
    return arr.take_along_dim(indices, axis)


def _where(condition: Tensor, *branches: Any) -> Any:
    return piecewise.where(condition, *branches)


def _clip(a: Tensor, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Tensor:
    return a.clip(min if a_min is None else a_min, max if a_max is None else a_max)


def _round(a: Tensor, decimals: int = 0) -> Tensor:
    return a.round(decimals=decimals)


def _dot(a: Any, b: Any) -> Tensor:
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or not (a.array.ndim and b.array.ndim):
        return a * b
    return product(a, b) if b.array.ndim <= 2 else _tensordot(a, b, ([-1], [-2]))


def _of_two(name: str, flat: bool = False) -> Callable[..., Tensor]:
    """A Tensor method applied to two operands promoted to one type."""

    def of_two(a: Tensor, b: Tensor) -> Tensor:
        a, b = _promoted(a, b)
        return getattr(a.ravel(), name)(b.ravel()) if flat else getattr(a, name)(b)

    return of_two


def _cross(a: Tensor, b: Tensor, *, axis: int = -1) -> Tensor:
    a, b = _promoted(a, b)
    return a.cross(b, axis)


def _tensordot(a: Tensor, b: Tensor, axes: Any = 2) -> Tensor:
    a, b = _promoted(a, b)
    pair = axes if isinstance(axes, int) else [[axis] if isinstance(axis, int) else axis for axis in axes]
    return a.tensordot(b, pair)


def _einsum(subscripts: str, *operands: Tensor) -> Tensor:
    return einsum(subscripts, *_promoted(*operands))


def _norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    x = _floating(x)
    axes = x.array.ndim if axis is None else len(axis) if isinstance(axis, tuple) else 1
    if ord is None or axes == 1:
        return vector_norm_of("norm", x, 2 if ord is None else ord, axis, keepdims, None)
    return matrix_norm_of("norm", x, ord, (-2, -1) if axis is None and axes == 2 else axis, keepdims, None)


def _trapezoid(y: Tensor, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    return calculus.trapezoid(y, dim=axis, dx=dx) if x is None else calculus.trapezoid(y, x, dim=axis)


def _nan_to_num(x: Tensor, *, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    return x.nan_to_num(nan, posinf, neginf)


def _like(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda a, dtype=None: function(a, dtype=dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": SUM,
    "prod": PROD,
    "mean": _mean,
    "average": lambda a, axis=None: _mean(a, axis),
    "max": _reduction("amax"),
    "min": _reduction("amin"),
    "amax": _reduction("amax"),
    "amin": _reduction("amin"),
    "any": _reduction("any"),
    "all": _reduction("all"),
    "nansum": _reduction("nansum", True),
    "nanmean": _reduction("nanmean"),
    "std": _statistic("std"),
    "var": _statistic("var"),
    "ptp": lambda a, axis=None: FUNCTIONS["max"](a, axis) - FUNCTIONS["min"](a, axis),
    "argmax": _position("argmax"),
    "argmin": _position("argmin"),
    "median": _median,
    "quantile": _quantile,
    "percentile": _percentile,
    "cumsum": RUNNING["add"],
    "cumprod": RUNNING["multiply"],
    "diff": lambda a, n=1, axis=-1: a.diff(n, axis),
    "count_nonzero": lambda a, axis=None: a.count_nonzero(axis),
    "sort": _sort,
    "argsort": _argsort,
    "nonzero": lambda a: a.nonzero(as_tuple=True),
    "argwhere": lambda a: a.argwhere(),
    "fliplr": lambda m: m.fliplr(),
    "flipud": lambda m: m.flipud(),
    "ravel": lambda a: a.ravel(),
    "swapaxes": lambda a, axis1, axis2: a.swapaxes(axis1, axis2),
    "moveaxis": lambda a, source, destination: a.movedim(source, destination),
    "diagonal": lambda a, offset=0, axis1=0, axis2=1: a.diagonal(offset, axis1, axis2),
    "flip": _flip,
    "rot90": _rot90,
    "roll": _roll,
    "transpose": _transpose,
    "matrix_transpose": lambda x: x.mT,
    "squeeze": lambda a, axis=None: a.squeeze() if axis is None else a.squeeze(axis),
    "expand_dims": _expand_dims,
    "reshape": lambda a, shape: a.reshape(shape),
    "broadcast_to": lambda array, shape: array.broadcast_to(shape),
    "concatenate": _concatenate,
    "stack": _stack,
    "vstack": _stacked(join.vstack),
    "hstack": _stacked(join.hstack),
    "dstack": _stacked(join.dstack),
    "column_stack": _stacked(join.column_stack),
    "split": _split,
    "array_split": _array_split,
    "tile": lambda A, reps: A.tile(reps),
    "repeat": _repeat,
    "hsplit": lambda ary, sections: [*ary.hsplit(sections)],
    "vsplit": lambda ary, sections: [*ary.vsplit(sections)],
    "take": _take,
    "take_along_axis": _take_along_axis,
    "where": _where,
    "clip": _clip,
    "round": _round,
    "around": _round,
    "nan_to_num": _nan_to_num,
    "copy": lambda a: a.clone(),
    "diag": lambda v, k=0: v.diag(k),
    "triu": lambda m, k=0: m.triu(k),
    "tril": lambda m, k=0: m.tril(k),
    "trace": lambda a: a.trace(),
    "dot": _dot,
    "inner": _of_two("inner"),
    "vdot": _of_two("dot", True),
    "outer": _of_two("outer", True),
    "kron": _of_two("kron"),
    "cross": _cross,
    "tensordot": _tensordot,
    "einsum": _einsum,
    "trapezoid": _trapezoid,
    "real": lambda val: val,
    **{name: getattr(join, name) for name in ("atleast_1d", "atleast_2d", "atleast_3d")},
    "isclose": lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: a.isclose(b, rtol, atol, equal_nan),
    "allclose": lambda a, b, rtol=1e-5, atol=1e-8, equal_nan=False: a.allclose(b, rtol, atol, equal_nan),
    **{f"{name}_like": _like(getattr(creation, f"{name}_like")) for name in ("zeros", "ones", "empty")},
    "full_like": lambda a, fill_value, dtype=None: creation.full_like(a, fill_value, dtype),
    "linalg.norm": _norm,
    "linalg.det": matrix_functions.det,
    "linalg.slogdet": matrix_functions.slogdet,
    "linalg.inv": solving.inv,
    "linalg.solve": lambda a, b: solving.solve(*_promoted(a, b)),
    "linalg.pinv": lambda a: solving.pinv(a),
    "linalg.cholesky": lambda a: decompositions.cholesky(a),
    "linalg.matrix_power": lambda a, n: matrix_functions.matrix_power(a, n),
    "linalg.multi_dot": lambda arrays: matrix_functions.multi_dot(_promoted(*arrays)),
}


# ---- The protocols ---------------------------------------------------------------------------------------------------

_WITHOUT_ELEMENTS = {  # functions that read no elements
    *("can_cast", "iscomplexobj", "isrealobj", "may_share_memory", "ndim", "result_type", "shape", "shares_memory"),
    "size",
}
_WITHOUT_GRADIENT = {"array_equal", "array_equiv", "array_repr", "array_str", "array2string"}  # their results have none
_WRITERS = {
    "copyto": "tensor.copy_(src)",
    "fill_diagonal": "tensor.fill_diagonal_(value)",
    "place": "tensor[mask] = values",
    "put": "tensor.put_(index, source)",
    "put_along_axis": "tensor.scatter_(dim, index, src)",
    "putmask": "tensor.masked_scatter_(mask, source)",
    "at": "tensor.index_add_(dim, index, source)",
}


def array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """Run a NumPy ufunc on Tensors, such as ``numpy.sin(tensor)`` or ``array * tensor``.

    Raises:
        TypeError: a Tensor requires a gradient, and no operator supports the call, or ``out`` is an array.
    """
    operator = _OPERATORS.get(ufunc)
    if method == "__call__" and operator is not None and not options:
        for x in inputs:
            if type(x) not in _PLAIN:
                break
        else:
            return operator(*inputs)
    name = ufunc.__name__
    if method == "__call__":
        inputs = tuple([from_host(x) if isinstance(x, (list, tuple)) else x for x in inputs])
        if operator is not None and not options and not _unsupported(inputs):
            return operator(*[as_operand(x, inputs) for x in inputs])
        return _run(name, operator, ufunc, inputs, options)
    function: Callable[..., Any] | None = None
    if method == "outer" and len(inputs) == 2 and operator is not None:
        function = _outer(operator)
    elif method in ("reduce", "accumulate"):
        along = (REDUCTIONS if method == "reduce" else RUNNING).get(name)
        function = None if along is None else _along(along, method)
    return _run(f"{name}.{method}", function, getattr(ufunc, method), inputs, options)


def array_function(self: Tensor, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    """Run any other NumPy function on Tensors, such as ``numpy.mean(tensor, axis=0)``.

    Raises: as ``array_ufunc``.
    """
    name = f"{func.__module__}.{func.__name__}".removeprefix("numpy.")
    if name in _WITHOUT_ELEMENTS:
        return func(*_arrays(args, is_read=False), **_arrays(kwargs, is_read=False))
    if name in _WITHOUT_GRADIENT:
        return func(*_arrays(args), **_arrays(kwargs))
    return _run(name, FUNCTIONS.get(name), func, args, kwargs)


def _run(
    name: str, function: Callable[..., Any] | None, numpy_function: Any, args: Any, options: dict[str, Any]
) -> Any:
    """Call our function if it supports these options, otherwise NumPy's."""
    out = options.get("out")
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    given = {option: value for option, value in options.items() if option != "out"}
    last = name.rpartition(".")[2]
    if last in _WRITERS and isinstance(next(iter((*args, *given.values())), None), Tensor):
        raise TypeError(f"numpy.{name} would change a tensor behind retrograd's back; use {_WRITERS[last]}")
    unsupported = _unsupported(tensors_in((args, given), np.ndarray))
    if out is None or isinstance(out, Tensor):
        if function is not None and not unsupported and _accepts(function, args, given):
            operands = tensors_in((args, given))
            result = function(*_tensors(args, operands), **_tensors(given, operands))
            return result if out is None else out.copy_(result)
        if out is not None:
            raise TypeError(f"numpy.{name}: out is a Tensor, and there is no operator for it; leave it out")
    if any(tensor._requires_grad for tensor in tensors_in((args, given))):
        if out is not None:
            why = "the array given as out (or changed in place) would leave the graph unnoticed; leave it out"
        elif unsupported:
            why = f"an array is {unsupported[0].dtype}, which no operator accepts; convert it"
        elif function is None:
            why = (
                "there is no operator for it, and the result would leave the graph unnoticed; compute it with operators"
            )
        else:
            why = f"its operator does not accept {_options(function, args, given)}"
        raise TypeError(f"numpy.{name}: a tensor requires grad; {why}, or use tensor.detach()")
    return numpy_function(*_arrays(args), **_arrays(options))


def _unsupported(values: Iterable[Any]) -> list[np.ndarray]:
    """Return the arrays whose element type a Tensor cannot hold."""
    return [x for x in values if isinstance(x, np.ndarray) and x.dtype not in ALLOWED]


def _accepts(function: Callable[..., Any], args: Any, options: dict[str, Any]) -> bool:
    try:
        _signature(function).bind(*args, **options)
    except TypeError:
        return False
    return True


@functools.cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _options(function: Callable[..., Any], args: Any, options: dict[str, Any]) -> str:
    """Describe the options of a call that a function does not accept, for a message."""
    unknown = [option for option in options if option not in _signature(function).parameters]
    return f"the option {', '.join(unknown)}; leave it out" if unknown else f"{len(args)} arguments; leave one out"


def _tensors(value: Any, operands: list[Tensor]) -> Any:
    """Replace the arrays in a value by Tensors."""
    arrays = tensors_in((value,), np.ndarray)
    return replace_tensors(value, {id(array): as_operand(array, operands) for array in arrays}, np.ndarray)


def _arrays(value: Any, is_read: bool = True) -> Any:
    """Replace the Tensors in a value by their arrays."""
    found = {id(tensor): tensor.array for tensor in tensors_in((value,))}
    for array in found.values() if is_read else ():
        shared(array, "an array of NumPy")
    return replace_tensors(value, found)


def _along(function: Callable[..., Tensor], method: str) -> Callable[..., Tensor]:
    """A reduction or cumulative function, over the first axis by default."""
    if method == "reduce":
        return lambda array, axis=0, *, keepdims=False: function(array, axis, keepdims=keepdims)
    return lambda array, axis=0: function(array, axis)


def _outer(operator: Callable[..., Any]) -> Callable[..., Any]:
    """The outer form of an operator: each element of the first operand with each of the second."""

    def outer(a: Any, b: Any) -> Any:
        axes = b.array.ndim if isinstance(b, Tensor) else np.ndim(b)
        return operator(a.reshape(*a.array.shape, *[1] * axes) if isinstance(a, Tensor) and axes else a, b)

    return outer


_PLAIN = {Tensor, float, int, np.float32, np.float64, np.int64}  # operands that operators accept unchanged
_OPERATORS: dict[np.ufunc, Callable[..., Any]] = {np.matmul: product}


def fill_operators() -> None:
    """Look up the methods of Tensor, once they are attached."""
    for operator in OPERATORS:
        for name in operator.numpy:
            _OPERATORS[getattr(np, name)] = getattr(Tensor, operator.methods[0])


METHODS: dict[str, Any] = {"__array_ufunc__": array_ufunc, "__array_function__": array_function}
