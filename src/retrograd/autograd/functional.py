"""Jacobians, Hessians and products with them, as in ``torch.autograd.functional``.

For f from x (n numbers) to y (m numbers) the Jacobian J is (m, n): vjp computes vT J in one sweep, jvp computes J v in
two, since vT J is linear in v and its gradient is J. For a scalar f the Hessian H is symmetric: vhp and hvp compute
vT H and H v.

func takes and returns one or several Tensors; ``inputs``, ``v`` and the results are structured like func's inputs and
outputs: a Tensor for one Tensor, a tuple for a tuple. Gradients of inputs that func does not depend on are zeros; with
``strict`` they raise an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.arguments import as_callable, as_truth
from ..engine.backward_pass import grad
from ..engine.grad_mode import enable_grad, is_grad_enabled, set_grad_enabled
from ..engine.tensor import Tensor, wrap
from ..ops.shape.join import stack
from ..ops.shape.shape import clone, reshape

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = Tensor | Sequence[Tensor]
Many = tuple[Tensor, ...]


def vjp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return (func(*inputs), vT J).

    Args:
        v: with the structure and shapes of func's output; optional if that has one element.
        create_graph: record the graph, so that both results can be differentiated.
        strict: raise if an output does not depend on an input, instead of returning zeros.

    Raises:
        TypeError: inputs, v or func's outputs are not Tensors, or a flag is not a bool.
        ValueError: v is missing or has the wrong number or shapes.
        RuntimeError: with strict, an output or the product is independent of an input.
    """
    with enable_grad():
        many, xs, ys, is_tuple, result = _run("vjp", func, inputs, create_graph, strict)
        vs = _vectors("vjp", v, ys, is_tuple, "func's output")
    with set_grad_enabled(bool(create_graph) and is_grad_enabled()):
        gradients = _grad(ys, xs, vs, create_graph)
    _finish_strict("vjp", gradients, create_graph, strict)
    return _plain(result, create_graph), _like(many, _zeros(gradients, xs), create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return (func(*inputs), J v), computed as the gradient of vT J with respect to v.

    Args:
        v: with the structure and shapes of inputs; optional if there is one element.
        create_graph: record the graph, so that both results can be differentiated.
        strict: raise if an output does not depend on an input, instead of returning zeros.

    Raises: as ``vjp``.
    """
    with enable_grad():
        many, xs, ys, is_tuple, result = _run("jvp", func, inputs, create_graph, strict)
        vs = _vectors("jvp", v, xs, many, "inputs")
        # J does not depend on v: zeros suffice
        us = tuple([Tensor(np.zeros_like(y.array), requires_grad=True) for y in ys])
        products = _grad(ys, xs, us, True)
        used = [(p, w) for p, w in zip(products, vs, strict=True) if p is not None and p._requires_grad]
        gradients = _grad(tuple([p for p, _ in used]), us, tuple([w for _, w in used]), create_graph)
    _finish_strict("jvp", gradients, create_graph, strict)
    return _plain(result, create_graph), _like(is_tuple, _zeros(gradients, ys), create_graph)


def vhp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return (func(*inputs), vT H) for a scalar func.

    Args:
        v: with the structure and shapes of inputs; optional if there is one element.
        create_graph: record the graph, so that both results can be differentiated.
        strict: raise if the output or its gradient does not depend on an input, instead of returning zeros.

    Raises: as ``vjp``; and RuntimeError if func does not return one Tensor with one element.
    """
    with enable_grad():
        many, xs, ys, is_tuple, result = _run("vhp", func, inputs, create_graph, strict)
        if is_tuple or ys[0].array.size != 1:
            raise RuntimeError(
                f"vhp: func must return one Tensor with one element, got {_shapes(result)}; "
                "jacobian takes functions of several outputs"
            )
        vs = _vectors("vhp", v, xs, many, "inputs")
        slopes = _grad(ys, xs, (wrap(np.ones_like(ys[0].array)),), True)
        if strict:
            _require_all("vhp", slopes, "the output does not depend on inputs[{}]")
        used = [(s, w) for s, w in zip(slopes, vs, strict=True) if s is not None and s._requires_grad]
        gradients = _grad(tuple([s for s, _ in used]), xs, tuple([w for _, w in used]), create_graph)
    _finish_strict("vhp", gradients, create_graph, strict)
    return _plain(result, create_graph), _like(many, _zeros(gradients, xs), create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return (func(*inputs), H v); computed by ``vhp``, since H is symmetric.

    Args:
        v: with the structure and shapes of inputs; optional if there is one element.

    Raises: as ``vhp``.
    """
    _check_flags("hvp", create_graph, strict)
    as_callable("hvp", "func", func)
    return vhp(func, inputs, v, create_graph, strict)


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
) -> Any:
    """Compute the Jacobian row by row: a Tensor of shape (\\*Y, \\*X) for an output of shape Y and an input of shape X.

    The result is one Tensor for one output and one input, a tuple if one of them is a tuple, and a tuple (outputs) of
    tuples (inputs) if both are.

    Args:
        create_graph: record the graph, so that the result can be differentiated.
        strict: raise if an output does not depend on an input, instead of returning zeros.
        vectorize: only False is supported.

    Raises:
        ValueError: vectorize is True.
        And as ``vjp``.
    """
    if as_truth("jacobian", "vectorize", vectorize):
        raise ValueError("jacobian: vectorize=True is not supported; leave it out, the result is the same")
    with enable_grad():
        many, xs, ys, is_tuple, _ = _run("jacobian", func, inputs, create_graph, strict)
        rows = [_jacobian_of(index, y, xs, create_graph, strict) for index, y in enumerate(ys)]
    results = [_like(many, row, create_graph) for row in rows]
    return tuple(results) if is_tuple else results[0]


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
) -> Any:
    """Compute the Hessian of a scalar func: a Tensor of shape (\\*X, \\*Z) for inputs of shapes X and Z.

    The result is one Tensor for one input, otherwise a tuple of tuples.

    Args:
        create_graph: record the graph, so that the result can be differentiated.
        strict: raise if the output or its gradient does not depend on an input, instead of returning zeros.
        vectorize: only False is supported.

    Raises:
        ValueError: vectorize is True.
        RuntimeError: func does not return one Tensor with one element. And as ``vjp``.
    """
    if as_truth("hessian", "vectorize", vectorize):
        raise ValueError("hessian: vectorize=True is not supported; leave it out, the result is the same")
    _check_flags("hessian", create_graph, strict)
    as_callable("hessian", "func", func)

    def slope(*xs: Tensor) -> Any:
        y = func(*xs)
        if not isinstance(y, Tensor) or y.array.size != 1:
            raise RuntimeError(f"hessian: func must return one Tensor with one element, got {_shapes(y)}")
        gradients = _grad((reshape(y, ()),), xs, (wrap(np.ones((), y.array.dtype)),), True)
        if strict:
            _require_all("hessian", gradients, "the output does not depend on inputs[{}]")
        result = _zeros(gradients, xs)
        return result if many else result[0]

    many = not isinstance(inputs, Tensor)
    return jacobian(slope, inputs, create_graph, strict)


# ---- Shared helpers ------------------------------------------------------------------------------------------


def _jacobian_of(index: int, y: Tensor, xs: Many, create_graph: bool, strict: bool) -> Many:
    """Return the Jacobian of one output with respect to each input."""
    columns: list[list[Tensor]] = [[] for _ in xs]
    for place in range(y.array.size):
        unit = np.zeros(y.array.shape, y.array.dtype)
        unit.flat[place] = 1
        gradients = _grad((y,), xs, (wrap(unit),), create_graph)
        if strict:
            _require_all("jacobian", gradients, f"output {index} does not depend on inputs[{{}}]")
        for column, gradient in zip(columns, _zeros(gradients, xs), strict=True):
            column.append(gradient)
    return tuple(
        [
            reshape(stack(column), y.array.shape + x.array.shape)
            if column
            else wrap(np.zeros(y.array.shape + x.array.shape, x.array.dtype))
            for column, x in zip(columns, xs, strict=True)
        ]
    )


def _check_flags(name: str, create_graph: Any, strict: Any) -> None:
    as_truth(name, "create_graph", create_graph)
    as_truth(name, "strict", strict)


def _run(
    name: str, func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool
) -> tuple[bool, Many, Many, bool, Any]:
    """Return (whether inputs are a tuple, the inputs as used, outputs, whether those are a tuple, func's result)."""
    _check_flags(name, create_graph, strict)
    as_callable(name, "func", func)
    many, originals = _as_tuple(name, "inputs", inputs)
    xs = []
    for x in originals:
        if x.array.dtype.kind != "f":
            raise TypeError(f"{name}: inputs must be float32 or float64, got {x.array.dtype}")
        if create_graph and x._requires_grad:
            xs.append(clone(x))  # a new node, so that only the use by func counts
        else:
            xs.append(x.detach().requires_grad_() if not x.is_inference() else clone(x).requires_grad_())
    result = func(*xs)
    is_tuple, ys = _as_tuple(name, "the result of func", result)
    if strict:
        for index, y in enumerate(ys):
            if not y._requires_grad:
                raise RuntimeError(f"{name}: output {index} of func does not depend on the inputs, and strict=True")
    return many, tuple(xs), ys, is_tuple, result


def _as_tuple(name: str, label: str, value: Any) -> tuple[bool, Many]:
    if isinstance(value, Tensor):
        return False, (value,)
    items = tuple(value) if isinstance(value, tuple | list) else None
    if not items or not all(isinstance(item, Tensor) for item in items):
        raise TypeError(f"{name}: {label} must be a Tensor or a tuple of Tensors, got {_shapes(value)}")
    return True, items


def _shapes(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a Tensor of shape {value.array.shape}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} of {[type(item).__name__ for item in value]}"
    return type(value).__name__


def _vectors(name: str, v: Any, like: Many, several: bool, label: str) -> Many:
    """Return v, checked against the tensors whose shapes it must have."""
    if v is None:
        if len(like) != 1 or like[0].array.size != 1:
            raise ValueError(f"{name}: v may be left out only if {label} is one Tensor with one element; pass v")
        return (wrap(np.ones_like(like[0].array)),)
    _, vs = _as_tuple(name, "v", v)
    if [w.array.shape for w in vs] != [t.array.shape for t in like]:
        raise ValueError(
            f"{name}: v has shapes {[w.array.shape for w in vs]}, {label} has {[t.array.shape for t in like]}; "
            "they must be equal"
        )
    return vs


def _grad(ys: Many, xs: Many, vs: Many, create_graph: bool) -> tuple[Tensor | None, ...]:
    """Return the gradients; None for inputs that ys do not depend on."""
    pairs = [(y, v) for y, v in zip(ys, vs, strict=True) if y._requires_grad]
    if not pairs:
        return (None,) * len(xs)
    outputs, weights = zip(*pairs, strict=True)
    return grad(outputs, xs, weights, retain_graph=True, create_graph=create_graph, allow_unused=True)


def _zeros(gradients: Sequence[Tensor | None], like: Many) -> Many:
    return tuple([wrap(np.zeros_like(t.array)) if g is None else g for g, t in zip(gradients, like, strict=True)])


def _require_all(name: str, gradients: Sequence[Tensor | None], words: str) -> None:
    for index, gradient in enumerate(gradients):
        if gradient is None:
            raise RuntimeError(f"{name}: {words.format(index)}, and strict=True")


def _finish_strict(name: str, gradients: Sequence[Tensor | None], create_graph: bool, strict: bool) -> None:
    if strict:
        _require_all(name, gradients, "entry {} of the product does not depend on the inputs")
        if create_graph and not all(g is not None and g._requires_grad for g in gradients):
            raise RuntimeError(f"{name}: the product does not depend on the inputs, and strict=True with create_graph")


def _plain(result: Any, create_graph: bool) -> Any:
    if create_graph:
        return result
    return result.detach() if isinstance(result, Tensor) else tuple([y.detach() for y in result])


def _like(several: bool, tensors: Many, create_graph: bool) -> Any:
    if not create_graph:
        tensors = tuple([t.detach() for t in tensors])
    return tensors if several else tensors[0]
