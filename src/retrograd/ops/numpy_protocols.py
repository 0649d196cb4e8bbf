"""NumPy's functions of Tensors: by our operators, which record them, or by NumPy where no gradient is lost.

``__array_ufunc__`` and ``__array_function__`` are what NumPy calls instead of its own functions when an argument is a
Tensor. If there is an operator for the function and its options (``numpy_table``), the result is the operator's, a
Tensor. Otherwise it is NumPy's, of the arrays, unless a Tensor requires a gradient: then there is an error.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..arrays import from_host
from ..engine.dtype import ALLOWED
from ..engine.operator import OPERATORS
from ..engine.subgraph import replace_tensors, tensors_in
from ..engine.tensor import Tensor
from .dtypes.promotion import as_operand
from .numpy_table import FUNCTIONS, REDUCTIONS, RUNNING, product

__all__: list[str] = []

# what reads no elements, or whose result has no gradient
_WITHOUT_GRADIENT = {
    *("array_equal", "array_equiv", "array_repr", "array_str", "array2string", "can_cast", "iscomplexobj", "isrealobj"),
    *("may_share_memory", "ndim", "result_type", "shape", "shares_memory", "size"),
}
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
    """Run a NumPy function of single elements on Tensors, such as ``numpy.sin(tensor)`` or ``array * tensor``.

    Raises:
        TypeError: a Tensor requires a gradient, and there is no operator for it, or the result is to go into an array.
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
        if operator is not None and not options and not _strange(inputs):
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
    if name in _WITHOUT_GRADIENT:
        return func(*_arrays(args), **_arrays(kwargs))
    return _run(name, FUNCTIONS.get(name), func, args, kwargs)


def _run(name: str, function: Callable[..., Any] | None, theirs: Any, args: Any, options: dict[str, Any]) -> Any:
    """The result of our function, where there is one for these options, or of NumPy's."""
    out = options.get("out")
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    given = {option: value for option, value in options.items() if option != "out"}
    last = name.rpartition(".")[2]
    if last in _WRITERS and isinstance(next(iter((*args, *given.values())), None), Tensor):
        raise TypeError(f"numpy.{name} would change a tensor behind retrograd's back; use {_WRITERS[last]}")
    strange = _strange(tensors_in((args, given), np.ndarray))
    if out is None or isinstance(out, Tensor):
        if function is not None and not strange and _takes(function, args, given):
            operands = tensors_in((args, given))
            result = function(*_tensors(args, operands), **_tensors(given, operands))
            return result if out is None else out.copy_(result)
        if out is not None:
            raise TypeError(f"numpy.{name}: out is a Tensor, and there is no operator for it; leave it out")
    if any(tensor._requires_grad for tensor in tensors_in((args, given))):
        if out is not None:
            why = "the array given as out (or changed in place) would leave the graph unnoticed; leave it out"
        elif strange:
            why = f"an array is {strange[0].dtype}, which no operator takes; convert it"
        elif function is None:
            why = "there is no operator for it, and the result would leave the graph unnoticed; write it in operators"
        else:
            why = f"its operator takes no such {_options(function, args, given)}; leave it out"
        raise TypeError(f"numpy.{name}: a tensor requires grad; {why}, or use tensor.detach()")
    return theirs(*_arrays(args), **_arrays(options))


def _strange(values: Iterable[Any]) -> list[np.ndarray]:
    """The arrays among the values whose elements no Tensor can hold."""
    return [x for x in values if isinstance(x, np.ndarray) and x.dtype not in ALLOWED]


def _takes(function: Callable[..., Any], args: Any, options: dict[str, Any]) -> bool:
    try:
        _signature(function).bind(*args, **options)
    except TypeError:
        return False
    return True


@functools.cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _options(function: Callable[..., Any], args: Any, options: dict[str, Any]) -> str:
    """The options of a call that a function does not take."""
    unknown = [option for option in options if option not in _signature(function).parameters]
    return f"option as {', '.join(unknown)}" if unknown else f"{len(args)} arguments"


def _tensors(value: Any, operands: list[Tensor]) -> Any:
    """The value with Tensors in the place of arrays."""
    arrays = tensors_in((value,), np.ndarray)
    return replace_tensors(value, {id(array): as_operand(array, operands) for array in arrays}, np.ndarray)


def _arrays(value: Any) -> Any:
    """The value with arrays in the place of Tensors."""
    return replace_tensors(value, {id(tensor): tensor.array for tensor in tensors_in((value,))})


def _along(function: Callable[..., Tensor], method: str) -> Callable[..., Tensor]:
    """A reduction or a running one, over the first axis by default."""
    if method == "reduce":
        return lambda array, axis=0, *, keepdims=False: function(array, axis, keepdims=keepdims)
    return lambda array, axis=0: function(array, axis)


def _outer(operator: Callable[..., Any]) -> Callable[..., Any]:
    """The operator of each element of the first with each of the second."""

    def outer(a: Any, b: Any) -> Any:
        axes = b.array.ndim if isinstance(b, Tensor) else np.ndim(b)
        return operator(a.reshape(*a.array.shape, *[1] * axes) if isinstance(a, Tensor) and axes else a, b)

    return outer


_PLAIN = {Tensor, float, int, np.float32, np.float64, np.int64}  # operands that operators take as they are
_OPERATORS: dict[np.ufunc, Callable[..., Any]] = {np.matmul: product}


def fill_operators() -> None:
    """Look the methods of Tensor up, once they are attached."""
    for operator in OPERATORS:
        for name in operator.numpy:
            _OPERATORS[getattr(np, name)] = getattr(Tensor, operator.methods[0])


METHODS: dict[str, Any] = {"__array_ufunc__": array_ufunc, "__array_function__": array_function}
