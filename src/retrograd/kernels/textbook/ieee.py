"""Arithmetic as in the compiled kernels: overflow gives inf and 0/0 gives NaN, without warnings; results are arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def ieee(kernel: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """``kernel``, run with NumPy's floating-point warnings off; NumPy's scalars among its results become arrays."""

    @wraps(kernel)
    def quiet(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with np.errstate(all="ignore"):
            found: Result = _arrays(kernel(*args, **kwargs))
            return found

    return quiet


def _arrays(found: Any) -> Any:
    if type(found) is tuple:
        return tuple([_arrays(each) for each in found])
    return np.asarray(found) if isinstance(found, np.generic) else found
