"""Entries of the tables in this folder: the arguments of check_op and check_layer, under a name."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd import Tensor
from retrograd.testing import Refusal, check_layer, check_op

__all__ = ["Layer", "Op", "Refusal", "distinct", "normal", "uniform"]

# "make nightly" draws other numbers every time; the daily run has always the same ones
DRAW = tuple(map(int, os.environ.get("RETROGRAD_DRAW", "").split()))


class Op:
    """``Op("sum", retrograd.sum, x, kwargs={"dim": 1}, oracle=...)``; another case is ``Op("sum: no axis", ...)``.

    What stands before the colon is the public name, which the test of completeness looks for.
    """

    check = staticmethod(check_op)

    def __init__(self, name: str, function: Callable[..., Any], *args: Any, **options: Any) -> None:
        self.name, self.function, self.args, self.options = name, function, args, options

    def run(self, full: bool) -> None:
        try:
            self.check(self.function, *self.args, name=self.name, full=full, **self.options)
        except Exception as error:
            error.add_note(f"with RETROGRAD_DRAW={' '.join(map(str, DRAW))!r}")
            raise


class Layer(Op):
    """``Layer("Linear", lambda: nn.Linear(3, 2), x, oracle=...)``"""

    check = staticmethod(check_layer)


def beside(x: Any, values: Any, dtype: Any = None) -> Tensor:
    """A Tensor of values in x's type, or ``dtype``, next to x; on the host if x is no Tensor, which will be refused."""
    return (x if isinstance(x, Tensor) else Tensor(x)).new_tensor(values, dtype=dtype)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng((seed, *shape, *DRAW)).standard_normal(shape))


def uniform(low: float, high: float, *shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng((seed, *shape, *DRAW)).uniform(low, high, shape))


def distinct(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers no two of which lie closer than 0.1, none closer to 0 than 0.05: away from kinks and ties."""
    size = int(np.prod(shape))
    values = (np.arange(size) - size // 2) * 0.1 + 0.05
    return np.random.default_rng((seed, size, *DRAW)).permutation(values).reshape(shape)
