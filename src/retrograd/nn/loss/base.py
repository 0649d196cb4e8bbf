"""Base class of losses."""

from __future__ import annotations

from ..module import Module


class Loss(Module):
    """Stores the reduction: "mean", "sum" or "none"."""

    def __init__(self, reduction: str, *more: str) -> None:
        super().__init__()
        allowed = (*more, "mean", "sum", "none")
        if reduction not in allowed:
            text = ", ".join(map(repr, allowed[:-1]))
            raise ValueError(f"{type(self).__name__}: reduction={reduction!r} must be {text} or 'none'")
        self.reduction = reduction
