"""Checks of a backward pass: its roots and upstream gradients, and the results of each backward."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, NoReturn

from ..arrays import from_host, ones
from .arguments import as_list, kind_name
from .node import Node
from .tensor import Tensor, alias, wrap


def as_tuple(tensors: Any, caller: str, name: str) -> tuple[Tensor, ...]:
    if type(tensors) is tuple and len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return tensors
    if isinstance(tensors, Tensor):
        return (tensors,)
    result: tuple[Any, ...] = tensors if type(tensors) is tuple else tuple(as_list(caller, name, tensors, "Tensors"))
    if not result:
        raise ValueError(f"{caller}: {name} is empty; pass at least one Tensor")
    for tensor in result:
        if not isinstance(tensor, Tensor):
            position = next(place for place, each in enumerate(result) if each is tensor)
            raise TypeError(f"{caller}: {name}[{position}] is {kind_name(tensor)}, expected a Tensor")
    return result


def check_upstream(roots: tuple[Tensor, ...], upstream: Any, caller: str, create_graph: bool) -> list[Tensor]:
    """Return the checked upstream gradient of each root."""
    gradients: Sequence[Any]
    if type(upstream) is tuple:
        gradients = upstream
        if len(gradients) == 1 and len(roots) == 1:
            gradient, edge = gradients[0], roots[0]._edge
            if edge is not None and not create_graph and type(gradient) is Tensor:  # the usual case
                array = gradient.array
                if array.shape == edge[2] and array.dtype is edge[3]:
                    return [wrap(array)]
    elif upstream is None:
        gradients = (None,) * len(roots)
    elif isinstance(upstream, Tensor):
        gradients = (upstream,)
    else:
        gradients = as_list(caller, _argument(caller), upstream, "Tensors")
    if len(gradients) != len(roots):
        raise RuntimeError(
            f"{caller}: {len(gradients)} upstream gradients for {len(roots)} tensors; pass one (or None) for each"
        )
    if len(roots) == 1:
        return [_upstream_of(roots[0], gradients[0], 0, caller, create_graph)]
    return [
        _upstream_of(root, gradient, position, caller, create_graph)
        for position, (root, gradient) in enumerate(zip(roots, gradients, strict=True))
    ]


def _argument(caller: str) -> str:
    return "grad_outputs" if caller == "grad" else "gradient"


def _upstream_of(root: Tensor, gradient: Any, position: int, caller: str, create_graph: bool) -> Tensor:
    """Return the upstream gradient of one root: 1 if none is given."""
    if not root._requires_grad:
        raise RuntimeError(
            f"{caller}: tensor {position} does not require grad and has no grad_fn; "
            "no input required a gradient, or it was computed under no_grad"
        )
    shape, dtype = (root.array.shape, root.array.dtype) if root._edge is None else root._edge[2:]
    if gradient is None:
        if math.prod(shape) != 1:
            raise RuntimeError(
                f"{caller}: tensor {position} has shape {shape}, and a gradient is implied only "
                f"where there is one element; pass {_argument(caller)}, a Tensor of this shape, or reduce it "
                "first, for example with sum()"
            )
        like = root.array  # for a scalar, from_host(1) is faster than ones(())
        return wrap(ones(shape, dtype, like=like) if shape else from_host(1, dtype, like=like))
    if not isinstance(gradient, Tensor):
        raise TypeError(
            f"{caller}: {_argument(caller)} of tensor {position} is {kind_name(gradient)}, expected a Tensor; "
            "wrap it: Tensor(array)"
        )
    if gradient.array.shape != shape or gradient.array.dtype != dtype:
        raise RuntimeError(
            f"{caller}: {_argument(caller)} of tensor {position} is {gradient.array.dtype} of shape "
            f"{gradient.array.shape}, expected {dtype} of shape {shape} like the tensor itself"
        )
    return alias(gradient) if create_graph else wrap(gradient.array)


def check_count(node: Node, grads: Sequence[Any]) -> None:
    """Reject a wrong number of gradients: one per argument of forward; any further ones at the end must be None."""
    count = len(node.edges)
    if len(grads) == count or (len(grads) > count and all(item is None for item in grads[count:])):
        return
    names = argument_names(node)
    missing = f"; missing: {', '.join(names[len(grads) :])}" if len(grads) < count else ""
    raise RuntimeError(
        f"{node.function.__name__}: backward returned {len(grads)} gradient{'s' * (len(grads) != 1)}, expected "
        f"{count}: one for each argument of forward ({', '.join(names)}), in this order, None for one that has no "
        f"gradient{missing}"
    )


def check_gradient_types(node: Node, grads: Sequence[Any]) -> None:
    """Reject a gradient that a user's backward returned for an argument that is not a Tensor.

    Raises:
        RuntimeError: the number of gradients is wrong, or there is one for an argument that is not a Tensor.
        TypeError: a gradient is neither a Tensor nor None.
    """
    check_count(node, grads)
    for position, (gradient, kind) in enumerate(zip(grads, node.kinds or ())):  # noqa: B905, extra ones are None
        if gradient is None:
            continue
        if not issubclass(kind, Tensor):
            names = argument_names(node)
            raise RuntimeError(
                f"{node.function.__name__}: backward returned a {type(gradient).__name__} as gradient {position}, "
                f"but the argument in this place, {names[position]}, is of type {kind.__name__} and has no gradient; "
                f"return None there. The gradients are in the order of the arguments: {', '.join(names)}"
            )
        if not isinstance(gradient, Tensor):
            _refuse_type(node, gradient, position)


def argument_names(node: Node) -> list[str]:
    """Return the names of the arguments with which the forward of a Function was called."""
    count = len(node.edges)
    names: list[str] = []
    try:
        parameters = [*inspect.signature(node.function.forward).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    for parameter in parameters[node.function._takes_ctx :]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{index}]" for index in range(count - len(names))]
            break
        names.append(parameter.name)
    return [*names, *[f"argument {position}" for position in range(len(names), count)]][:count]


def _refuse_type(node: Node, gradient: Any, position: int) -> NoReturn:
    raise TypeError(
        f"{node.function.__name__}: backward returned {type(gradient).__name__} as gradient {position}, expected a "
        "Tensor or None; wrap an array: Tensor(array)"
    )


def refuse_gradient(node: Node, grads: Any, gradient: Any, edge: Any) -> NoReturn:
    """Raise the error for a gradient of the wrong type, shape or dtype that the backward of `node` returned."""
    name = node.function.__name__
    position = next(index for index, item in enumerate(grads) if item is gradient and node.edges[index] is edge)
    if not isinstance(gradient, Tensor):
        _refuse_type(node, gradient, position)
    shape, dtype = (edge[2], edge[3]) if type(edge) is tuple else (edge.array.shape, edge.array.dtype)
    rule = "shape" if gradient.array.shape != shape else "dtype"
    raise RuntimeError(
        f"{name}: backward returned a gradient of the wrong {rule} for argument {position}: got "
        f"{gradient.array.dtype} of shape {gradient.array.shape}, expected {dtype} of shape {shape} like the "
        "argument itself"
        + ("" if type(edge) is tuple else "; if another array was assigned to it after forward, run forward again")
    )
