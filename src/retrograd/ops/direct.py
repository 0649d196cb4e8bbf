"""Direct forms of operators: built-in functions that run without Python code for layouts and options seen before.

A form of an operator (see signatures.py) calls its direct form first, and the operator itself if that returns
NotImplemented. Gradients, unusual settings and unknown layouts are such cases; see ``machine.operation``.
"""

from __future__ import annotations

import functools
from types import CellType
from typing import Any

from ..arrays import host
from ..engine.grad_mode import thread
from ..engine.operator import interpreters
from ..engine.tensor import Tensor, wrap
from ..kernel_set import prepared_operator

_FIRST = 6  # the call at which the direct form is made: that takes longer than a few calls save
_MODULES = (
    frozenset(  # of ops; their operators neither draw random numbers nor change an argument, but for the exceptions
        {
            *("index.gather", "index.pick", "index.search", "index.selection", "index.sorting", "loss.classification"),
            *("loss.margin", "loss.regression", "normalization.layer_norm", "normalization.softmax", "pooling"),
            *("pointwise.activation", "pointwise.arithmetic", "pointwise.comparison", "pointwise.exponential"),
            *("pointwise.floating_point", "pointwise.gating", "pointwise.piecewise", "pointwise.rounding"),
            *("pointwise.trigonometry", "product.distance", "product.matmul", "product.products", "reduce.calculus"),
            *(
                "reduce.correlation",
                "reduce.norms",
                "reduce.reduction",
                "reduce.scan",
                "reduce.statistics",
                "resampling",
            ),
            *("shape.diagonal", "shape.join", "shape.padding", "shape.rearrange", "special"),
        }
    )
)
_EXCEPTIONS = frozenset({"gumbel_softmax", "rrelu", "softmin"})  # the last one warns, and counts frames to its caller
parameter: list[type] = [Tensor]  # its class, once there is one


class _Waiting:
    """Stands for a direct form in the first calls."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0
        self.cells: list[CellType] = []  # of the functions that call it

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls == _FIRST:
            flags = dict.fromkeys(("interpreter", "rules", "watch"))
            fields = {
                **dict.fromkeys(("_edge", "_grad", "_view", "_views")),
                "_grad_req": "add",
                "_requires_grad": False,
            }
            engine = interpreters, thread, {**flags, "exact": False, "inference": False}, Tensor, parameter[-1], fields
            made = prepared_operator(self.function, (*engine, wrap, host.listeners)) or _never
            for cell in self.cells:
                cell.cell_contents = made
        return NotImplemented


def _never(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented


@functools.cache
def direct_of(function: Any) -> _Waiting | None:
    """Return the direct form of an operator; None if it has none: it draws random numbers, or changes its arguments."""
    operator = getattr(function, "operator", None)
    if operator is None or operator.name.endswith("_") or operator.name in _EXCEPTIONS:
        return None
    return _Waiting(function) if function.__module__.removeprefix("retrograd.ops.") in _MODULES else None


def calls_direct(form: Any, direct: _Waiting | None) -> None:
    """Let a function whose closure has the direct form call the built-in function as soon as there is one."""
    if direct is not None:
        direct.cells += [cell for cell in form.__closure__ or () if cell.cell_contents is direct]
