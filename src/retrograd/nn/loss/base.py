"""Base class of losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, ClassVar

from ..layer import Described, layer
from ..module import Module


@layer
class Loss(Described, Module):
    """A layer with the option ``reduction``: "mean", "sum", "none", or one of those that the class adds."""

    _: KW_ONLY
    reduction: str = "mean"

    _more_reductions: ClassVar[tuple[str, ...]] = ()
    _limits: ClassVar[dict[str, tuple[str, Callable[[Any], bool]]]] = {}  # option -> what it must be, and the check
    _errors = "ValueError: the reduction is unknown."
    _shown = ()  # as in PyTorch

    def __init_subclass__(cls, **kwargs: Any) -> None:
        text = cls.__doc__ or ""
        if "reduction:" not in text and Loss in cls.__bases__:
            cls.__doc__ = f'{text.rstrip()}\n\n    reduction: "mean", "sum" or "none".\n    '
        super().__init_subclass__(**kwargs)

    def _set_up(self) -> None:
        allowed = (*self._more_reductions, "mean", "sum", "none")
        if self.reduction not in allowed:
            text = ", ".join(map(repr, allowed[:-1]))
            raise ValueError(f"{type(self).__name__}: reduction={self.reduction!r} must be {text} or 'none'")
        for name, (limit, fits) in self._limits.items():
            if not fits(value := getattr(self, name)):
                raise ValueError(f"{type(self).__name__}: {name}={value} must be {limit}")
