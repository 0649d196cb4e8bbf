"""``retrograd.explain``: explain the gradients of an operator or a model for the user's own arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from ..engine.arguments import kind_name
from ..engine.function import Function
from ..engine.tensor import Tensor
from ..nn.module import Module
from ..ops.signatures import advised, require_bound
from .explanation import Case, Explanation
from .measurements import gradients
from .model import ModelExplanation
from .operators import find, names
from .operators.function import of_function
from .operators.operator import Operator

__all__ = ["explain"]


@overload
def explain(operator: Module, *tensors: Any, **options: Any) -> ModelExplanation: ...
@overload
def explain(operator: str | Callable[..., Any], *tensors: Any, **options: Any) -> Explanation: ...
@advised
def explain(
    operator: str | Module | Callable[..., Any], *tensors: Any, **options: Any
) -> Explanation | ModelExplanation:
    """Run an operator or a model forward and backward on these arrays and explain its gradients entry by entry.

    Args:
        operator: a name such as "conv2d", a function of ``nn.functional``, or any function of Tensors: a `formula`, a
            Function's ``apply``, your own function. Or a model, which gives a `ModelExplanation`.
        tensors: its inputs, Tensors or arrays, optionally followed by the upstream gradient gy, an array with the shape
            of the result; without it gy is random. Without tensors, an example is used. For a model: its batch (or
            a pair of batch and target), and the loss, a function of the output (and target).
        options: other arguments of the operator, such as stride=2; optional tensors by name, such as b=...

    Returns:
        The `Explanation`, or the `ModelExplanation` with its layers, such as ``layer("features.3")``. In a notebook it
        shows the page; ``save("page.html")`` writes it, and ``print(entry("gw", index))`` lists one entry's products.

    Raises:
        ValueError: there is no operator of this name, or the shapes do not fit.
        TypeError: too many or too few tensors, or an argument that is not an array.

    >>> import numpy as np
    >>> from retrograd import explain
    >>> x, w = np.arange(4.0).reshape(1, 1, 4), np.array([[[1.0, 10.0]]])
    >>> print(explain("conv1d", x, w, np.array([[[1.0, 2.0, 3.0]]])).entry("gw", (0, 0, 1)))
    gw[0, 0, 1] = 14
      +1 = gy[0, 0, 0] 1 * x[0, 0, 1] 1
      +4 = gy[0, 0, 1] 2 * x[0, 0, 2] 2
      +9 = gy[0, 0, 2] 3 * x[0, 0, 3] 3
      sum 14
      numerical 14, difference 0
    """
    if isinstance(operator, Module):
        try:
            return ModelExplanation(operator, *tensors, **options)
        except TypeError:
            if not options.keys() <= {"batch", "loss"}:
                require_bound("explain", inspect.signature(ModelExplanation), (operator, *tensors), options)
            if len(tensors) + ("loss" in options) < 2:
                raise TypeError(
                    f"explain: the model {type(operator).__name__} needs a batch and a loss: "
                    "explain(model, (x, target), nn.functional.cross_entropy)"
                ) from None
            raise
    known = _known(operator)
    if known is None:
        assert callable(operator)
        return _of_function(operator, tensors, options)
    if not tensors:
        return known.with_settings(options)
    given = {name: options.pop(name) for name in known.optional if name in options}
    gy = options.pop("gy", None)
    least = len(known.tensors)
    if len(tensors) == least + 1 and gy is None:
        *tensors_only, gy = tensors
    else:
        tensors_only = [*tensors]
    if len(tensors_only) != least:
        raise TypeError(
            f"explain: {known.name} takes {least} tensors ({', '.join(known.tensors)}), optionally followed by gy; "
            f"got {len(tensors)}"
        )
    inputs = {name: _array(name, value) for name, value in zip(known.tensors, tensors_only, strict=True)}
    inputs |= {name: _array(name, value) for name, value in given.items() if value is not None}
    return _explained(known.case(inputs, options), gy, options)


def _known(operator: str | Callable[..., Any]) -> Operator | None:
    """Return the operator with a name, or that of a function of nn.functional; None for another function."""
    if isinstance(operator, str):
        return find(operator)
    if not callable(operator):
        raise TypeError(f"explain: operator is {kind_name(operator)}, expected a name or a function of Tensors")
    name = getattr(operator, "__name__", "")
    if name in names() and getattr(operator, "__module__", "").partition(".")[0] == "retrograd":
        return find(name)
    return None


def _takes(function: Callable[..., Any], count: int, options: Mapping[str, Any]) -> bool:
    """Return whether a function can be called with this number of tensors."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, Function):  # apply accepts anything; forward also takes ctx
        function, count = owner.forward, count + 1
    try:
        inspect.signature(function).bind(*range(count), **options)
    except (TypeError, ValueError):
        return False
    return True


def _of_function(function: Callable[..., Any], tensors: Sequence[Any], options: dict[str, Any]) -> Explanation:
    gy = options.pop("gy", None)
    if not tensors:
        name = getattr(function, "__name__", type(function).__name__)
        if isinstance(function, type):
            raise TypeError(
                f"explain: operator is the class {name}; pass an operator's name, such as 'conv2d', a function, or "
                "a model with its batch and its loss"
            )
        raise TypeError(f"explain: pass the Tensors or arrays that the function is called with: explain({name}, x)")
    if gy is None and not _takes(function, len(tensors), options) and _takes(function, len(tensors) - 1, options):
        *tensors, gy = tensors

    @functools.wraps(function)
    def call(*values: Tensor) -> Tensor:
        result: Tensor = function(*values, **options)
        return result

    case = of_function(call, [_array(f"tensors[{j}]", each) for j, each in enumerate(tensors)])
    return _explained(case, gy, {})


def _explained(case: Case, gy: Any, options: Mapping[str, Any]) -> Explanation:
    y = gradients(case.call, {name: array.values for name, array in case.inputs.items()}, None, "compiled")["y"]
    return Explanation(case, _upstream(gy, y), (), options)


def _array(name: str, value: Any) -> np.ndarray:
    array = value.numpy(force=True) if isinstance(value, Tensor) else np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"explain: {name} has the dtype {array.dtype}, expected numbers")
    return array


def _upstream(gy: Any, y: np.ndarray) -> np.ndarray:
    if gy is None:
        return np.random.default_rng(4).integers(-2, 4, y.shape).astype(y.dtype)
    array = _array("gy", gy)
    if array.shape != y.shape:
        raise ValueError(f"explain: gy has the shape {array.shape}, the result {y.shape}; they must be equal")
    return array.astype(y.dtype)
