"""Variable, the name of a tensor with a gradient before PyTorch 0.4; today every Tensor is a Variable."""

from __future__ import annotations

import warnings
from typing import Any

from ..engine.arguments import kind_name
from ..engine.tensor import Tensor

__all__ = ["Variable"]


class _Kind(type):
    """Metaclass: every Tensor is an instance of Variable."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: bool | None = None) -> Tensor:
        if volatile is not None:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with retrograd.no_grad():` instead.",
                UserWarning,
                stacklevel=2,
            )
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Variable: data has to be a Tensor, but got {kind_name(data)}; write retrograd.tensor(data)"
            )
        return data.detach().requires_grad_(requires_grad)


class Variable(metaclass=_Kind):
    """A Tensor without history that shares the memory of ``data`` and requires a gradient if ``requires_grad`` is True.

    Every Tensor is an instance of this class.

    Raises:
        TypeError: data is not a Tensor.
        RuntimeError: ``requires_grad`` is True for integers or bools.
    """
