"""Diagnosing, in one sentence, what is wrong with data or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..nn.module import Module
from .leaves import Forward, tensors_in, unchanged, wrapped_forwards

__all__ = ["TrainingError", "bad_parameter", "first_not_finite"]


class TrainingError(RuntimeError):
    """Training cannot continue; the message says where and why, and what is on disk."""


def first_not_finite(model: Module, x: Tensor) -> str:
    """Find the first NaN or infinity in ``model(x)``; return a clause for a message that names its place."""
    if not np.isfinite(x.array).all():
        return "the batch itself holds NaN or infinity"
    if clause := bad_parameter(model):
        return clause
    clauses: list[str] = []

    def wrap(path: str, module: Module, forward: Forward) -> Forward:
        def checked(*args: Any, **kwargs: Any) -> Any:
            output = forward(*args, **kwargs)
            if not all(np.isfinite(tensor.array).all() for tensor in tensors_in(output)):
                clauses.append(f"the first output that holds NaN or infinity is that of {path!r}, {module.describe()}")
            return output

        return checked

    with unchanged(model), wrapped_forwards(model, wrap), no_grad(), np.errstate(all="ignore"):
        model(x)
    return clauses[0] if clauses else "all layers' outputs are finite, only the loss is not"


def bad_parameter(model: Module) -> str | None:
    """The parameter or buffer that holds NaN or infinity, as a clause for a message; None if none does."""
    for name, tensor in model.state_dict().items():
        if tensor.array.dtype.kind == "f" and not np.isfinite(tensor.array).all():
            return f"{name} holds NaN or infinity since the previous step"
    return None
