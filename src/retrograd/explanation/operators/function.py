"""Any function of Tensors as an operator: its measured Jacobian, and user functions given as module:name.

A backward is linear in the upstream gradient g. One sweep per entry of the result, with g = 1 there and 0 elsewhere,
therefore gives the matrix J[o, i] with gx[i] = sum of g[o] J[o, i]. This is the declared gradient, which may differ
from the derivative. If each entry of the result depends on one entry of x only, J is stored as the slopes on its
diagonal.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...engine.backward_pass import grad
from ...engine.function import Function
from ...engine.tensor import Tensor
from ..explanation import Array, Case, Setting
from ..measurements import Arrays, Curve, jacobians, lines
from ..products import Products, along, elementwise
from .operator import VALUES, Operator, call_text, draw, leading

__all__ = ["from_module", "jacobian_case", "of_function"]


# ---- Any callable of Tensors ----------------------------------------------------------------------------------------


def of_function(
    call: Callable[..., Tensor], inputs: Mapping[str, Any] | Sequence[Any], name: str = "", exact: bool = True
) -> Case:
    """Return the case of a user's function, formula or Function's ``apply`` with these inputs.

    inputs: arrays or Tensors, in the order of the call, by name; without names those of the parameters
    exact: whether the gradient is intended to be the derivative; a straight-through estimator's is not

    Raises:
        TypeError: ``call`` cannot be called, an input is not an array of numbers, or the result is not a Tensor.
        ValueError: there are no inputs, the result does not depend on one, or there are more than 4096 results.
    """
    if not callable(call):
        raise TypeError(f"explain: {call!r} cannot be called; give a function of Tensors")
    if not isinstance(inputs, Mapping):
        inputs = dict(zip(_names(call, len(inputs)), inputs, strict=True))
    if not inputs:
        raise ValueError("explain: inputs is empty; give at least one array")
    arrays = {each: _array(each, value) for each, value in inputs.items()}
    title = name or getattr(call, "__name__", type(call).__name__)
    case = jacobian_case(title, call, arrays, call_text(title, arrays, {}), exact)
    return replace(case, curve=_curve(case, arrays)) if len(arrays) == 1 else case


def _curve(case: Case, inputs: Arrays) -> Curve | None:
    """Return the curve of an elementwise function, around its inputs; None for another function."""
    (x,) = inputs.values()
    if "slope" not in case.inner({}) or not x.size:
        return None
    wide = x.astype(np.float64)
    low, high = float(wide.min()), float(wide.max())
    if not np.isfinite([low, high]).all():
        return None
    margin = (high - low) / 4 or 1.0
    curve = Curve(case.call, low - margin, high + margin)
    try:  # a function that reads a shape may fail
        lines(curve, case.name)
    except Exception:
        return None
    return curve


def _names(call: Callable[..., Any], count: int) -> list[str]:
    """Return names of the inputs: those of the parameters, unless they collide with names of result and gradients."""
    try:
        parameters = [
            each.name
            for each in inspect.signature(call).parameters.values()
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        parameters = []
    plain = ["x", *(f"x{place + 1}" for place in range(1, count))]
    named = parameters[:count] + plain[len(parameters) : count]
    reserved = {"y", *(f"g{each}" for each in (*named, "y"))}
    return [plain[place] if each in reserved else each for place, each in enumerate(named)]


def _array(name: str, value: Any) -> np.ndarray:
    array = np.asarray(value.array if isinstance(value, Tensor) else value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"explain: {name} is {array.dtype}, needs an array of numbers")
    return array


def jacobian_case(
    name: str,
    call: Callable[..., Tensor],
    inputs: Arrays,
    source: str,
    exact: bool,
    about: Mapping[str, str] | None = None,
    curve: Curve | None = None,
    slope: str = "the factor by which the backward multiplies gy",
    program: str = "",
    imports: str = "",
    pointwise: bool = False,
) -> Case:
    """Return a case whose products come from the Jacobians of the backward.

    about: the descriptions of the inputs; slope: the description of the factor of gy, if it is one number per entry
    source, exact, curve, program, imports: as in ``Case``
    pointwise: each entry of the result depends on one entry of x only, so that one backward gives all slopes
    """
    y, matrices = _slopes(call, inputs) if pointwise else jacobians(name, call, inputs)
    shape, words = y.array.shape, _words(y)
    inner: dict[str, Array] = {}
    sums: dict[str, list[Products]] = {}
    formulas: dict[str, str] = {}
    for each, matrix in matrices.items():
        array, end = inputs[each], f"_{each}" if len(matrices) > 1 else ""
        entries = np.arange(matrix.size)
        if pointwise or (array.shape == shape and np.count_nonzero(matrix) == np.count_nonzero(matrix.diagonal())):
            own = f"slope{end}"
            what = f"{slope}; the backward is {words}" if words and len(matrices) == 1 else slope
            inner[own] = Array((matrix if pointwise else matrix.diagonal()).reshape(shape), _axes(shape), "inner", what)
            products = elementwise(array.size, ("gy", own))
            text = f"g{each} = gy · {own}   for each entry"
        elif array.size == 1:
            own = f"slope{end}"
            inner[own] = Array(matrix.reshape(shape), _axes(shape), "inner", f"how much y grows with {each}")
            products = along(np.zeros_like(entries), ("gy", own), (entries, entries))
            text = f"g{each} = Σ gy · {own}   over all entries"
        else:
            own = f"J{end}"
            what = f"how much each entry of y (rows) grows with each of {each} (columns), according to the backward"
            inner[own] = Array(matrix, "oi", "inner", what)
            o, i = np.nonzero(matrix)
            products = along(i, ("gy", own), (o, o * matrix.shape[1] + i))
            text = f"g{each}[i] = Σ gy[o] · {own}[o, i]   over o"
        sums[f"g{each}"], formulas[f"g{each}"] = [products], text
    of_inputs = about or {}
    return Case(
        name=name,
        call=call,
        inputs={
            each: Array(array, _axes(array.shape), "input", of_inputs.get(each, "an input"))
            for each, array in inputs.items()
        },
        output=(_axes(shape), "the result"),
        sums=lambda arrays: sums,
        formulas=formulas,
        source=source,
        program=program,
        imports=imports,
        inner=lambda arrays: inner,
        exact=exact,
        curve=curve,
    )


def _axes(shape: tuple[int, ...]) -> str:
    return leading(len(shape))


def _slopes(call: Callable[..., Tensor], inputs: Arrays) -> tuple[Tensor, Arrays]:
    """Return the diagonals of ``jacobians`` instead of matrices: the gradients for an upstream gradient of ones."""
    tensors = {each: Tensor(array.copy(), requires_grad=True) for each, array in inputs.items()}
    y = call(*tensors.values())
    found = grad(y, [*tensors.values()], Tensor(np.ones_like(y.array)))
    return y, {each: g.array.ravel() for each, g in zip(tensors, found, strict=True)}


def _words(y: Tensor) -> str:
    """Return the first paragraph of the docstring of the gradient's formula or rule; "" unless there is exactly one."""
    node = y.grad_fn
    if node is None:
        return ""
    if node.region is not None:
        written = [node.region.rule.function]
    else:
        written = [each for each in getattr(node.function, "formulas", ()) if "_grad" in each.__name__]
    text = (inspect.getdoc(written[0]) or "") if len(written) == 1 else ""
    return text.partition("\n\n")[0].replace("\n", " ").replace("``", "").rstrip(".")


# ---- The user's own function as an operator with a page: `module:name` ----------------------------------------------

_SETTINGS = (
    Setting("rows", 2, (1, 2, 3, 4), "of each input"),
    Setting("columns", 3, (1, 2, 3, 4, 6), "of each input"),
    VALUES,
)


def from_module(place: str) -> Operator:
    """Return the operator of a function, formula or Function: ``from_module("package.file:name")``, as for ``import``.

    Its inputs are arrays of one shape, one for each parameter without a default.

    Raises:
        ValueError: there is no such module or name, or it is not a function of at least one Tensor.
    """
    module_name, _, name = place.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as python -m does
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"explain: {place!r} cannot be found: {error}") from error
    if isinstance(found, type) and issubclass(found, Function):
        call: Callable[..., Any] = found.apply
        parameters = _parameters(found.forward)[1:]  # the first is ctx
    else:
        call, parameters = found, _parameters(found) if callable(found) else []
    if not parameters:
        raise ValueError(f"explain: {place!r} must be a function of one or more Tensors")

    def checked(*tensors: Tensor) -> Tensor:
        try:
            result = call(*tensors)
        except Exception as error:  # from the user's function: shown on the page
            raise ValueError(f"explain: {place} raised {type(error).__name__}: {error}") from error
        if not isinstance(result, Tensor):
            raise ValueError(f"explain: {place} returns {type(result).__name__}, needs one Tensor")
        return result

    def example(options: Mapping[str, Any]) -> Arrays:
        shape = options["rows"], options["columns"]
        return {each: draw(shape, options["values"], 1 + j) for j, each in enumerate(parameters)}

    def case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
        return jacobian_case(name, checked, inputs, call_text(name, inputs, {}), False)

    return Operator(place, tuple(parameters), (), _SETTINGS, example, case)


def _parameters(function: Any) -> list[str]:
    """Return the names of the positional parameters without a default."""
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in by_position and each.default is each.empty]
