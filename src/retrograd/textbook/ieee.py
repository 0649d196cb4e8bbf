"""Arithmetic as in the compiled kernels: overflow gives inf and 0/0 gives NaN, without a warning."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def ieee(kernel: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """``kernel``, run with NumPy's floating-point warnings off."""

    @wraps(kernel)
    def quiet(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with np.errstate(all="ignore"):
            return kernel(*args, **kwargs)

    return quiet
