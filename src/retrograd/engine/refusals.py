"""The checks of a sweep: its roots and upstream gradients, and what a backward returns."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, NoReturn

from ..arrays import from_host, ones
from .arguments import as_list
from .node import Node
from .tensor import Tensor, alias, wrap


def as_tuple(tensors: Any, caller: str, name: str) -> tuple[Tensor, ...]:
    result = (tensors,) if isinstance(tensors, Tensor) else tuple(as_list(caller, name, tensors, "Tensors"))
    if not result:
        raise ValueError(f"{caller}: {name} is empty; pass at least one Tensor")
    for position, tensor in enumerate(result):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{caller}: {name}[{position}] is {type(tensor).__name__}, expected a Tensor")
    return result


def check_upstream(roots: tuple[Tensor, ...], upstream: Any, caller: str, create_graph: bool) -> list[Tensor]:
    """The checked upstream gradient of each root."""
    argument = "grad_outputs" if caller == "grad" else "gradient"
    if upstream is None:
        gradients: tuple[Any, ...] = (None,) * len(roots)
    else:
        several = [upstream] if isinstance(upstream, Tensor) else as_list(caller, argument, upstream, "Tensors")
        gradients = tuple(several)
        if len(gradients) != len(roots):
            raise RuntimeError(
                f"{caller}: {len(gradients)} upstream gradients for {len(roots)} tensors; pass one (or None) for each"
            )
    result = []
    for position, (root, gradient) in enumerate(zip(roots, gradients, strict=True)):
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
                    f"where there is one element; pass {argument}, a Tensor of this shape, or reduce it "
                    "first, for example with sum()"
                )
            like = root.array  # ones takes longer than a number
            result.append(wrap(ones(shape, dtype, like=like) if shape else from_host(1, dtype, like=like)))
            continue
        if not isinstance(gradient, Tensor):
            raise TypeError(
                f"{caller}: {argument} of tensor {position} is {type(gradient).__name__}, expected a Tensor; "
                "wrap it: Tensor(array)"
            )
        if gradient.array.shape != shape or gradient.array.dtype != dtype:
            raise RuntimeError(
                f"{caller}: {argument} of tensor {position} is {gradient.array.dtype} of shape "
                f"{gradient.array.shape}, expected {dtype} of shape {shape} like the tensor itself"
            )
        result.append(alias(gradient) if create_graph else wrap(gradient.array))
    return result


def check_count(node: Node, grads: Sequence[Any]) -> None:
    """Refuse a wrong number of gradients: one per argument of forward; further ones at the end must be None."""
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


def check_places(node: Node, grads: Sequence[Any]) -> None:
    """Refuse what a user's backward returned in the wrong place: a gradient of something other than a Tensor.

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
    """The names of the arguments with which the forward of a Function was called."""
    count = len(node.edges)
    forward = getattr(node.function, "forward", None)
    plain = getattr(forward, "without_ctx", None)
    names: list[str] = []
    try:
        parameters = [*inspect.signature(plain or forward).parameters.values()]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        parameters = []
    for parameter in parameters if plain else parameters[1:]:
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
