"""Modules whose initial values are not drawn."""

from __future__ import annotations

from typing import Any, TypeVar

from ..init import values_left_alone
from ..module import Module

__all__ = ["skip_init"]

AnyModule = TypeVar("AnyModule", bound=Module)


def skip_init(module_cls: type[AnyModule], *args: Any, **kwargs: Any) -> AnyModule:
    """module_cls(*args, **kwargs) with undefined values in its parameters: nothing of ``nn.init`` is run.

    Raises:
        RuntimeError: module_cls is not a class of Modules.
    """
    if not isinstance(module_cls, type) or not issubclass(module_cls, Module):
        raise RuntimeError(f"skip_init: expected a class of Modules, got {module_cls!r}")
    with values_left_alone():
        return module_cls(*args, **kwargs)
