"""Gradients within a graph, and optimizer updates: ai.onnx.preview.training.

Source: ONNX Operators.html, sections of these names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...engine.backward_pass import grad
from ...engine.grad_mode import enable_grad, is_grad_enabled
from ...engine.tensor import Tensor
from ..errors import OnnxError
from ..node import Node, Value, floating, scalar
from .registry import operator

_DOMAIN = "ai.onnx.preview.training"


def _groups(values: tuple[Value, ...], kinds: int) -> list[tuple[Tensor, ...]]:
    """Return the tensors of each parameter: the inputs are all parameters, then all gradients, and so on.

    Raises:
        OnnxError: their number does not fit.
    """
    if not values or len(values) % kinds:
        raise OnnxError(f"{len(values)} tensors, needs {kinds} for each parameter")
    count = len(values) // kinds
    return [tuple(floating(values[kind * count + k]) for kind in range(kinds)) for k in range(count)]


def _in_order(results: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(each for kind in zip(*results, strict=True) for each in kind)


@operator("Gradient", domain=_DOMAIN, branches=True, differentiates=True)
def gradient(node: Node, *values: Value, run: Callable[..., tuple[Value, ...]]) -> tuple[Tensor, ...]:
    """Compute the gradient of y, or of its sum, with respect to each of xs.

    y is recomputed from the values that the node receives for xs and zs.
    """
    count, others = len(node["xs"]), len(node["zs"] or ())
    if len(values) != count + others:
        raise OnnxError(f"{len(values)} inputs, needs a value for each of {count} xs and {others} zs")
    higher = is_grad_enabled()
    with enable_grad():
        # each is a new node of the graph: y does not depend on it through other xs and zs
        xs = [
            ops.clone(x) if higher and x.requires_grad else x.detach().requires_grad_()
            for x in map(floating, values[:count])
        ]
        y = floating(run("y", *xs, *values[count:])[0])
        if not y.requires_grad:
            return tuple(map(ops.zeros_like, xs))
        return grad(ops.sum(y), xs, create_graph=higher, materialize_grads=True)


@operator("Adagrad", domain=_DOMAIN, constants=(0, 1))
def adagrad(node: Node, rate: Value, count: Value, *values: Value) -> tuple[Tensor, ...]:
    step = scalar(rate) / (1 + scalar(count) * node["decay_factor"])
    results = []
    for x, g, squares in _groups(values, 3):
        g = g + x * node["norm_coefficient"]
        squares = squares + g * g
        results.append((x - step * g / (ops.sqrt(squares) + node["epsilon"]), squares))
    return _in_order(results)


@operator("Adam", domain=_DOMAIN, constants=(0, 1))
def adam(node: Node, rate: Value, count: Value, *values: Value) -> tuple[Tensor, ...]:
    first, second, steps, step = node["alpha"], node["beta"], scalar(count), scalar(rate)
    if steps > 0:
        step = step * (1 - second**steps) ** 0.5 / (1 - first**steps)
    results = []
    for x, g, mean, squares in _groups(values, 4):
        g = g + x * node["norm_coefficient"]
        mean, squares = mean * first + g * (1 - first), squares * second + g * g * (1 - second)
        x = x - step * mean / (ops.sqrt(squares) + node["epsilon"])
        results.append((x * (1 - node["norm_coefficient_post"]), mean, squares))
    return _in_order(results)


@operator("Momentum", domain=_DOMAIN, constants=(0, 1))
def momentum(node: Node, rate: Value, count: Value, *values: Value) -> Any:
    step, alpha = scalar(rate), node["alpha"]
    beta = node["beta"] if scalar(count) > 0 else 1.0
    results = []
    for x, g, velocity in _groups(values, 3):
        g = g + x * node["norm_coefficient"]
        velocity = velocity * alpha + g * beta
        change = velocity if node["mode"] == "standard" else g + velocity * alpha
        results.append((x - step * change, velocity))
    return _in_order(results)
