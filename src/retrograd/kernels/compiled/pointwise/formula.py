"""The kernels of users' formulas: compiled when first used, and kept under a digest of their text."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ....formulas import form
from ..machine.launch import Kernel
from .maps import broadcast, same_shape

__all__ = ["formula_kernel"]

_kernels: dict[str, Callable[..., Any]] = {}  # by digest: equal texts have one kernel


class _Own(Kernel):
    """The handle on a formula's kernel."""

    def __init__(self, formula: Callable[..., Any]) -> None:
        super().__init__(f"formula.{formula.digest}")  # type: ignore[attr-defined]
        self._formula = formula

    def body(self) -> Callable[..., None]:
        from .pointwise_jit import loop

        return loop(self._formula, form(self._formula).results > 1)


def formula_kernel(formula: Callable[..., Any]) -> Callable[..., Any]:
    digest: str = formula.digest  # type: ignore[attr-defined]
    run = _kernels.get(digest)
    if run is None:
        handle, one = _Own(formula), form(formula)
        made = broadcast(handle, one) if one.results > 1 else same_shape(handle, len(one.operands))
        run = _kernels.setdefault(digest, wraps(formula)(made))
    return run
