"""Products with Jacobians and Hessians, and these themselves. ``torch.autograd.functional``.

For f from x (of n numbers) to y (of m) the Jacobian J is (m, n): vjp gives vT J by one sweep, jvp gives J v by two,
since vT J is linear in v and its gradient is J. For a scalar f the Hessian H is symmetric: vhp and hvp give vT H and
H v.

func takes and returns a Tensor or several; ``inputs``, ``v`` and the results have the form of func's inputs and
outputs: a Tensor where there is one Tensor, a tuple where there is a tuple. What func does not depend on gives zeros,
or with ``strict`` an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.arguments import as_flag
from ..engine.grad_mode import enable_grad, is_grad_enabled, set_grad_enabled
from ..engine.sweep import grad
from ..engine.tensor import Tensor, wrap
from ..ops.join import stack
from ..ops.shape import clone, reshape

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
    """(func(*inputs), vT J).

    Args:
        v: of the form and shapes of func's output; may be left out where that has one element.
        create_graph: record, so that both results can be differentiated.
        strict: raise where an output does not depend on an input, instead of giving zeros.

    Raises:
        TypeError: inputs, v or func's outputs are no Tensors, or a flag is no truth value.
        ValueError: v is missing or has the wrong number or shapes.
        RuntimeError: with strict, an output is independent of an input, or the product of them.
    """
    with enable_grad():
        many, xs, ys, is_tuple, result = _run("vjp", func, inputs, create_graph, strict)
        vs = _vectors("vjp", v, ys, is_tuple, "func's output")
    with set_grad_enabled(bool(create_graph) and is_grad_enabled()):
        found = _grad(ys, xs, vs, create_graph)
    _finish_strict("vjp", found, create_graph, strict)
    return _plain(result, create_graph), _like(many, _zeros(found, xs), create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(func(*inputs), J v), by the gradient of vT J to v.

    Args:
        v: of the form and shapes of inputs; may be left out where there is one element.
        create_graph: record, so that both results can be differentiated.
        strict: raise where an output does not depend on an input, instead of giving zeros.

    Raises: as ``vjp``.
    """
    with enable_grad():
        many, xs, ys, is_tuple, result = _run("jvp", func, inputs, create_graph, strict)
        vs = _vectors("jvp", v, xs, many, "inputs")
        # J is independent of where vT J is taken: zeros will do
        us = tuple([Tensor(np.zeros_like(y.data), requires_grad=True) for y in ys])
        products = _grad(ys, xs, us, True)
        used = [(p, w) for p, w in zip(products, vs, strict=True) if p is not None and p._requires_grad]
        found = _grad(tuple([p for p, _ in used]), us, tuple([w for _, w in used]), create_graph)
    _finish_strict("jvp", found, create_graph, strict)
    return _plain(result, create_graph), _like(is_tuple, _zeros(found, ys), create_graph)


def vhp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(func(*inputs), vT H) for a func that returns one number.

    Args:
        v: of the form and shapes of inputs; may be left out where there is one element.
        create_graph: record, so that both results can be differentiated.
        strict: raise where the output or its gradient does not depend on an input, instead of giving zeros.

    Raises: as ``vjp``; and RuntimeError if func does not return one Tensor with one element.
    """
    with enable_grad():
        many, xs, ys, is_tuple, result = _run("vhp", func, inputs, create_graph, strict)
        if is_tuple or ys[0].data.size != 1:
            raise RuntimeError(
                f"vhp: func must return one Tensor with one element, got {_shapes(result)}; "
                "jacobian takes functions of several outputs"
            )
        vs = _vectors("vhp", v, xs, many, "inputs")
        slopes = _grad(ys, xs, (wrap(np.ones_like(ys[0].data)),), True)
        if strict:
            _require_all("vhp", slopes, "the output does not depend on inputs[{}]")
        used = [(s, w) for s, w in zip(slopes, vs, strict=True) if s is not None and s._requires_grad]
        found = _grad(tuple([s for s, _ in used]), xs, tuple([w for _, w in used]), create_graph)
    _finish_strict("vhp", found, create_graph, strict)
    return _plain(result, create_graph), _like(many, _zeros(found, xs), create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """(func(*inputs), H v): as ``vhp``, since H is symmetric.

    Args:
        v: of the form and shapes of inputs; may be left out where there is one element.

    Raises: as ``vhp``.
    """
    _check_flags("hvp", create_graph, strict)
    return vhp(func, inputs, v, create_graph, strict)


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
) -> Any:
    """The Jacobian: for an output of shape Y and an input of shape X a Tensor of shape (\\*Y, \\*X), row by row.

    One Tensor for one output and one input, a tuple where one of them is a tuple, and a tuple (output) of tuples
    (input) where both are.

    Args:
        create_graph: record, so that the result can be differentiated.
        strict: raise where an output does not depend on an input, instead of giving zeros.
        vectorize: only False exists.

    Raises:
        ValueError: vectorize is True.
        And as ``vjp``.
    """
    if as_flag("jacobian", "vectorize", vectorize):
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
    """The Hessian of a func that returns one number: for inputs of shapes X and Z a Tensor of shape (\\*X, \\*Z).

    One Tensor for one input, else a tuple of tuples.

    Args:
        create_graph: record, so that the result can be differentiated.
        strict: raise where the output or its gradient does not depend on an input, instead of giving zeros.
        vectorize: only False exists.

    Raises:
        ValueError: vectorize is True.
        RuntimeError: func does not return one Tensor with one element. And as ``vjp``.
    """
    if as_flag("hessian", "vectorize", vectorize):
        raise ValueError("hessian: vectorize=True is not supported; leave it out, the result is the same")
    _check_flags("hessian", create_graph, strict)

    def slope(*xs: Tensor) -> Any:
        y = func(*xs)
        if not isinstance(y, Tensor) or y.data.size != 1:
            raise RuntimeError(f"hessian: func must return one Tensor with one element, got {_shapes(y)}")
        found = _grad((reshape(y, ()),), xs, (wrap(np.ones((), y.data.dtype)),), True)
        if strict:
            _require_all("hessian", found, "the output does not depend on inputs[{}]")
        result = _zeros(found, xs)
        return result if many else result[0]

    many = not isinstance(inputs, Tensor)
    return jacobian(slope, inputs, create_graph, strict)


# ---- what they share -----------------------------------------------------------------------------------------


def _jacobian_of(index: int, y: Tensor, xs: Many, create_graph: bool, strict: bool) -> Many:
    """Per input the Jacobian of one output."""
    columns: list[list[Tensor]] = [[] for _ in xs]
    for place in range(y.data.size):
        unit = np.zeros(y.data.shape, y.data.dtype)
        unit.flat[place] = 1
        found = _grad((y,), xs, (wrap(unit),), create_graph)
        if strict:
            _require_all("jacobian", found, f"output {index} does not depend on inputs[{{}}]")
        for column, gradient in zip(columns, _zeros(found, xs), strict=True):
            column.append(gradient)
    return tuple(
        [
            reshape(stack(column), y.data.shape + x.data.shape)
            if column
            else wrap(np.zeros(y.data.shape + x.data.shape, x.data.dtype))
            for column, x in zip(columns, xs, strict=True)
        ]
    )


def _check_flags(name: str, create_graph: Any, strict: Any) -> None:
    as_flag(name, "create_graph", create_graph)
    as_flag(name, "strict", strict)


def _run(
    name: str, func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool
) -> tuple[bool, Many, Many, bool, Any]:
    """(whether there are several inputs, the inputs as used, outputs, whether those are a tuple, func's result)."""
    _check_flags(name, create_graph, strict)
    many, given = _as_tuple(name, "inputs", inputs)
    xs = []
    for x in given:
        if x.data.dtype.kind != "f":
            raise TypeError(f"{name}: inputs hold {x.data.dtype}, a derivative needs float32 or float64")
        if create_graph and x._requires_grad:
            xs.append(clone(x))  # another place in the graph, so that func's use alone counts
        else:
            xs.append(x.detach().requires_grad_() if not x.is_inference() else clone(x).requires_grad_())
    result = func(*xs)
    is_tuple, ys = _as_tuple(name, "the result of func", result)
    if strict:
        for index, y in enumerate(ys):
            if not y._requires_grad:
                raise RuntimeError(f"{name}: output {index} of func does not depend on the inputs, and strict=True")
    return many, tuple(xs), ys, is_tuple, result


def _as_tuple(name: str, what: str, value: Any) -> tuple[bool, Many]:
    if isinstance(value, Tensor):
        return False, (value,)
    items = tuple(value) if isinstance(value, tuple | list) else None
    if not items or not all(isinstance(item, Tensor) for item in items):
        raise TypeError(f"{name}: {what} must be a Tensor or a tuple of Tensors, got {_shapes(value)}")
    return True, items


def _shapes(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a Tensor of shape {value.data.shape}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} of {[type(item).__name__ for item in value]}"
    return type(value).__name__


def _vectors(name: str, v: Any, like: Many, several: bool, what: str) -> Many:
    """v, checked against the tensors whose shapes it must have."""
    if v is None:
        if len(like) != 1 or like[0].data.size != 1:
            raise ValueError(f"{name}: v may be left out only where {what} is one Tensor with one element; pass v")
        return (wrap(np.ones_like(like[0].data)),)
    _, vs = _as_tuple(name, "v", v)
    if [w.data.shape for w in vs] != [t.data.shape for t in like]:
        raise ValueError(
            f"{name}: v has shapes {[w.data.shape for w in vs]}, {what} has {[t.data.shape for t in like]}; "
            "they must be equal"
        )
    return vs


def _grad(ys: Many, xs: Many, vs: Many, create_graph: bool) -> tuple[Tensor | None, ...]:
    """The gradients; None for what does not depend on an input."""
    pairs = [(y, v) for y, v in zip(ys, vs, strict=True) if y._requires_grad]
    if not pairs:
        return (None,) * len(xs)
    outputs, weights = zip(*pairs, strict=True)
    return grad(outputs, xs, weights, retain_graph=True, create_graph=create_graph, allow_unused=True)


def _zeros(found: Sequence[Tensor | None], like: Many) -> Many:
    return tuple([wrap(np.zeros_like(t.data)) if g is None else g for g, t in zip(found, like, strict=True)])


def _require_all(name: str, found: Sequence[Tensor | None], words: str) -> None:
    for index, gradient in enumerate(found):
        if gradient is None:
            raise RuntimeError(f"{name}: {words.format(index)}, and strict=True")


def _finish_strict(name: str, found: Sequence[Tensor | None], create_graph: bool, strict: bool) -> None:
    if strict:
        _require_all(name, found, "the product does not depend on number {} of the tensors that it would belong to")
        if create_graph and not all(g is not None and g._requires_grad for g in found):
            raise RuntimeError(f"{name}: the product does not depend on the inputs, and strict=True with create_graph")


def _plain(result: Any, create_graph: bool) -> Any:
    if create_graph:
        return result
    return result.detach() if isinstance(result, Tensor) else tuple([y.detach() for y in result])


def _like(several: bool, tensors: Many, create_graph: bool) -> Any:
    if not create_graph:
        tensors = tuple([t.detach() for t in tensors])
    return tensors if several else tensors[0]
