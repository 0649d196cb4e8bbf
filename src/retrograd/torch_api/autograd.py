"""PyTorch's import paths below ``torch.autograd``, such as ``autograd.grad_mode``: each is an alias of this module.

It has everything that ``autograd`` has, and the names that scripts import only from those paths.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from .. import autograd
from ..engine.function import Function
from ..engine.node import Node as FunctionCtx

__all__ = ["FunctionCtx", "InplaceFunction", "emit_nvtx", "profile", "record_function"]


class InplaceFunction(Function):
    """A Function with instances, which PyTorch allows but does not need; they have the attribute ``inplace``."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class record_function(ContextDecorator):  # noqa: N801  the names are PyTorch's
    """Label a block or function for a profiler. There is no such profiler here, so the block just runs.

    Raises:
        TypeError: name is not a str.
    """

    args: str | None
    name: str

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function: name={name!r} must be a str, the label of the block")
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class _Disabled:
    """A profiler that can only be used with ``enabled=False``, for scripts that make profiling an option."""

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
    """Raises unless ``enabled`` is False; ``train.profile`` measures the layers of a model instead.

    Raises:
        RuntimeError: ``enabled`` is True.
    """

    _reason = (
        "operators are not recorded on a timeline; write retrograd.train.profile(model, x, target) for the time of "
        "each layer, forward and backward"
    )


class emit_nvtx(_Disabled):  # noqa: N801
    """Raises unless ``enabled`` is False: it marks ranges for a GPU profiler, and there is no GPU.

    Raises:
        RuntimeError: ``enabled`` is True.
    """

    _reason = "there is no GPU whose profiler could show the ranges; leave it out"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # such as __path__, which marks a package
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(autograd, name)
