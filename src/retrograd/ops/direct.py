"""Direct forms of operators: built-in functions that run without Python code for layouts and options seen before.

A form of an operator (see signatures.py) calls its direct form first, and the operator itself if that returns
NotImplemented. Unusual settings and unknown layouts are such cases; see ``machine.operation``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import CellType
from typing import Any

from ..arrays import host
from ..engine.aliasing import clock, next_order
from ..engine.backward_pass import direct_backwards
from ..engine.call_site import user_call_site
from ..engine.grad_mode import thread
from ..engine.node import Node, SavedOutput
from ..engine.node_template import Template, is_same_graph, node_like, template_of
from ..engine.operator import interpreters
from ..engine.tensor import Tensor, wrap
from ..kernel_set import prepared_operator

_FIRST = 6  # the call at which the direct form is made: that takes longer than a few calls save
_MODULES = frozenset(  # their operators draw no random numbers, but for the exceptions
    {
        *("nn.functional.convolution", "nn.functional.pooling", "ops.index.embedding"),
        *("ops.index.gather", "ops.index.pick", "ops.index.search", "ops.index.selection", "ops.index.sorting"),
        *("ops.loss.classification", "ops.loss.margin", "ops.loss.regression", "ops.normalization.batch_norm"),
        *("ops.normalization.layer_norm", "ops.normalization.softmax", "ops.pointwise.activation"),
        *("ops.pointwise.arithmetic", "ops.pointwise.comparison", "ops.pointwise.exponential"),
        *("ops.pointwise.floating_point", "ops.pointwise.gating", "ops.pointwise.piecewise", "ops.pointwise.rounding"),
        *("ops.pointwise.trigonometry", "ops.pooling", "ops.product.distance", "ops.product.matmul"),
        *("ops.product.products", "ops.reduce.calculus", "ops.reduce.correlation", "ops.reduce.norms"),
        *("ops.reduce.reduction", "ops.reduce.scan", "ops.reduce.statistics", "ops.resampling", "ops.shape.diagonal"),
        *("ops.shape.join", "ops.shape.padding", "ops.shape.rearrange", "ops.special"),
    }
)
# softmin warns, and counts frames to its caller
_EXCEPTIONS = frozenset({"fractional_max_pool2d", "fractional_max_pool3d", "gumbel_softmax", "rrelu", "softmin"})
parameter: list[type] = [Tensor]  # its class, once there is one


class _Waiting:
    """Stands for a direct form in the first calls."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0
        self.cells: list[CellType] = []  # of the functions that call it

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls == _FIRST:
            made = prepared_operator(self.function, _engine()) or _never
            for cell in self.cells:
                cell.cell_contents = made
        return NotImplemented


def _engine() -> tuple[Any, ...]:
    flags = dict.fromkeys(("interpreter", "rules", "watch"))
    fields = {**dict.fromkeys(("_edge", "_grad", "_view", "_views")), "_grad_req": "add", "_requires_grad": False}
    recording = Node, SavedOutput, next_order, user_call_site, _template, is_same_graph, node_like
    engine = interpreters, thread, {**flags, "exact": False, "inference": False}, Tensor, parameter[-1], fields
    return *engine, wrap, host.listeners, clock, recording


def _template(results: Sequence[Tensor], given: Sequence[Tensor]) -> Template | None:
    """Return the template of some nodes, whose backwards get direct forms as well."""
    found = template_of(results, given)
    for node in () if found is None else found.nodes:
        backward = node.slots["function"].backward
        if node.saved and backward not in direct_backwards and node.slots["outputs"] is None:
            direct_backwards[backward] = prepared_operator(backward, _engine()) or _never
    return found


def _never(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented


@functools.cache
def direct_of(function: Any) -> _Waiting | None:
    """Return the direct form of an operator; None if it has none: it draws random numbers, or changes its arguments."""
    operator = getattr(function, "operator", None)
    if operator is None or function.__name__.endswith("_") or operator.name in _EXCEPTIONS:
        return None
    return _Waiting(function) if function.__module__.removeprefix("retrograd.") in _MODULES else None


def calls_direct(form: Any, direct: _Waiting | None) -> None:
    """Let a function whose closure has the direct form call the built-in function as soon as there is one."""
    if direct is not None:
        direct.cells += [cell for cell in form.__closure__ or () if cell.cell_contents is direct]
