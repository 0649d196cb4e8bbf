"""PyTorch's import paths below a package: several names of one module."""

from __future__ import annotations

import sys
from collections.abc import Iterable

__all__ = ["alias_modules"]


def alias_modules(package: str, names: Iterable[str], module: str) -> None:
    """Make ``package.name`` another name of ``module``, for ``import package.name`` and as an attribute."""
    target = sys.modules[module]
    for name in names:
        sys.modules[f"{package}.{name}"] = target
        setattr(sys.modules[package], name, target)
