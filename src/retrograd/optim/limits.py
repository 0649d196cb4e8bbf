"""The limits of parameters, ``nn.Parameter.limits``: every optimiser clips the values to them after each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from ..engine.changes import mark
from ..engine.tensor import Tensor
from ..kernel_set import kernels

__all__ = ["within_limits"]


def within_limits(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step of an optimiser, followed by clipping: built-in optimisers and users' own have it from Optimizer."""

    @wraps(step)
    def step_and_clip(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = step(self, *args, **kwargs)
        for group in self.param_groups:
            _clip(type(self).__name__, group["params"])
        return result

    return step_and_clip


def _clip(name: str, parameters: Iterable[Tensor]) -> None:
    """Clip those parameters that have limits and a gradient."""
    for parameter in parameters:
        limits = getattr(parameter, "_limits", None)  # only a Parameter has them, once they are set
        if limits is not None and parameter._grad is not None and parameter._grad_req != "null":
            kernels.clip_in_place(parameter.array, *limits)
            mark([parameter.array], f"{name}.step")
