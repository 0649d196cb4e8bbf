"""Checks of operators, built on ``check_op``, and numbers for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import Listener, use_kernels
from retrograd.testing import check_op

EXACT = {"eps": 1.0, "atol": 1e-11, "rtol": 1e-11}  # for gradcheck of linear functions: only rounding errors


def numbers(*shape: int, seed: int = 0, low: float | None = None, high: float = 2.0) -> np.ndarray:
    """Return random float64 numbers, normal or uniform in [low, high)."""
    rng = np.random.default_rng((seed, *shape))
    return rng.standard_normal(shape) if low is None else rng.uniform(low, high, shape)


def away_from_kinks(*shape: int, seed: int = 0) -> np.ndarray:
    """Return numbers in random order that differ by at least 0.1 from each other and by 0.05 from 0."""
    size = int(np.prod(shape))
    values = (np.arange(size) - size // 2) * 0.1 + 0.05
    return np.random.default_rng(seed).permutation(values).reshape(shape)


def check(
    function: Callable[..., Any],
    arrays: tuple[np.ndarray, ...],
    expected: Callable[..., Any],
    linear: bool = False,
    second: bool = True,
    rtol: float = 1e-12,
    rounding: float = 0.0,
) -> None:
    """Run ``check_op`` on a function that takes only tensors; for a linear one, also check the adjoint."""
    arrays = tuple(np.asarray(a, np.float64) for a in arrays)
    options: dict[str, Any] = {"oracle": expected, "linear": linear, "rtol": rtol, "rounding": rounding}
    check_op(function, *arrays, order=2 if second else 1, batch=(), arrays=True, integers=True, **options)
    if linear and len(arrays) == 1:
        check_adjoint(function, arrays[0])


def check_adjoint(function: Callable[[Tensor], Tensor], array: np.ndarray) -> None:
    """<f(x), g> = <x, gradient> for a linear f and any x, g."""
    x = Tensor(array, requires_grad=True)
    y = function(x)
    g = numbers(*y.shape, seed=7)
    y.backward(Tensor(g))
    np.testing.assert_allclose((y.array * g).sum(), (x.array * x.grad.array).sum(), rtol=1e-11, atol=1e-11)


def check_requests(function: Callable[..., Tensor], arrays: tuple[np.ndarray, ...], rounding: float = 0.0) -> None:
    """Check ``grad_req``: "add" adds to the old gradient, "null" leaves it unchanged, and the others do not change.

    rounding: how much the others may differ where "null" replaces a fused kernel for all gradients.
    """
    written = gradients(function, arrays, ["write"] * len(arrays))
    previous = [numbers(*a.shape, seed=11) for a in arrays]
    added = gradients(function, arrays, ["add"] * len(arrays), previous)
    for w, p, a in zip(written, previous, added, strict=True):
        np.testing.assert_array_equal(a, p + w)
    for null in range(len(arrays)):
        wishes = ["write"] * len(arrays)
        wishes[null] = "null"
        found = gradients(function, arrays, wishes, previous)
        for k, (f, w) in enumerate(zip(found, written, strict=True)):
            np.testing.assert_allclose(f, previous[k] if k == null else w, rtol=0 if k == null else rounding, atol=0)


def gradients(
    function: Callable[..., Tensor],
    arrays: tuple[np.ndarray, ...],
    wishes: list[str],
    previous: list[np.ndarray] | None = None,
) -> list[Any]:
    """Return the arrays in ``grad`` after a backward pass with a random upstream gradient."""
    inputs = [Tensor(a.copy(), requires_grad=True) for a in arrays]
    for k, (tensor, wish) in enumerate(zip(inputs, wishes, strict=True)):
        tensor.grad_req = wish
        if previous is not None:
            tensor.grad = Tensor(previous[k].copy())
    y = function(*inputs)
    if y.requires_grad:
        y.backward(Tensor(numbers(*y.shape, seed=5)))
    return [None if t.grad is None else t.grad.array for t in inputs]


def kernels_of_backward(function: Callable[..., Tensor], arrays: tuple[np.ndarray, ...], wanted: set[int]) -> list[str]:
    """Return the names of the kernels that run in backward if only the inputs in ``wanted`` require gradients."""
    inputs = [Tensor(a, requires_grad=k in wanted) for k, a in enumerate(arrays)]
    y = function(*inputs)
    g = Tensor(numbers(*y.shape, seed=5))
    with recorded_kernels() as names:
        y.backward(g)
    return sorted(names)


@contextmanager
def recorded_kernels() -> Iterator[list[str]]:
    """Record the names of the computing kernels that run in the block."""
    with _Spy() as spy:
        yield spy.names


MOVES = {"cast", "concatenate", "csr_transpose", "duplicate", "pad_slice", "reshaped"}  # kernels that only move data


class _Spy(Listener):
    def __init__(self) -> None:
        self.names: list[str] = []

    def call(self, name: str, kernel: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if name not in MOVES:
            self.names.append(name)
        return kernel(*args, **kwargs)


__all__ = [
    "EXACT",
    "away_from_kinks",
    "check",
    "check_adjoint",
    "check_requests",
    "gradients",
    "kernels_of_backward",
    "numbers",
    "recorded_kernels",
    "use_kernels",
]
