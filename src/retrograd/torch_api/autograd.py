"""PyTorch's paths below ``torch.autograd``, such as ``autograd.grad_mode``: each is another name of this module.

It has everything that ``autograd`` has, and the names that scripts import from those paths only.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from .. import autograd
from ..engine.function import Function
from ..engine.node import Node as FunctionCtx

__all__ = ["FunctionCtx", "InplaceFunction", "emit_nvtx", "profile", "record_function"]


class InplaceFunction(Function):
    """A Function whose instances, which PyTorch allows but does not need, have the attribute ``inplace``."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class record_function(ContextDecorator):  # noqa: N801  the names are PyTorch's
    """Label a block or a function for a running profiler. There is none here, so the block just runs.

    Raises:
        TypeError: name is not a str.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function: name={name!r} must be a str, the label of the block")
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class _Disabled:
    """A profiler that can only be used switched off, as scripts do that have an option for it."""

    _reason: str

    def __init__(self, enabled: bool = True, **options: Any) -> None:
        if enabled:
            raise RuntimeError(f"autograd.profiler.{type(self).__name__}: {self._reason}, or pass enabled=False")
        self.enabled = enabled

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class profile(_Disabled):  # noqa: N801
    """Refused unless ``enabled`` is False: ``train.profile`` measures the layers of a model instead.

    Raises:
        RuntimeError: ``enabled`` is True.
    """

    _reason = (
        "operators are not recorded on a time line; write retrograd.train.profile(model, x, target) for the time of "
        "each layer, forward and backward"
    )


class emit_nvtx(_Disabled):  # noqa: N801
    """Refused unless ``enabled`` is False: it marks ranges for the profiler of a GPU, and there is no GPU.

    Raises:
        RuntimeError: ``enabled`` is True.
    """

    _reason = "there is no GPU whose profiler could show the ranges; leave it out"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # such as __path__, which says that a module has others below it
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(autograd, name)
