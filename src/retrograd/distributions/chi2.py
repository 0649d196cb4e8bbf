"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from ..engine.tensor import Tensor
from . import constraints
from .gamma import Gamma
from .utils import broadcast_all

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The chi-squared distribution with ``df`` degrees of freedom: Gamma(df / 2, 1/2).

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: df is not positive.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (freedom,) = broadcast_all(df)
        super().__init__(freedom * 0.5, 0.5, validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2

    def _expanded(self) -> Any:
        return "concentration", "rate"
