"""Checks of operators, with ``check_op`` at the center, and numbers for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import Listener, use_kernels
from retrograd.testing import check_op


def numbers(*shape: int, seed: int = 0, low: float | None = None, high: float = 2.0) -> np.ndarray:
    """float64, normal or uniform in [low, high)."""
    rng = np.random.default_rng((seed, *shape))
    return rng.standard_normal(shape) if low is None else rng.uniform(low, high, shape)


def away_from_kinks(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers no two of which lie closer than 0.1, none closer to 0 than 0.05, in random order."""
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
    """``check_op`` for a function that takes tensors only; for a linear one, also the adjoint."""
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
    """add(previous) = previous + write; null neither computes nor touches, and changes no other gradient.

    ``rounding``: how much the others may change where a fused kernel for all gradients is replaced.
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
    """The arrays in ``grad`` after a sweep with a random upstream gradient."""
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
    """Names of the kernels that run when only the inputs in ``wanted`` ask for a gradient."""
    inputs = [Tensor(a, requires_grad=k in wanted) for k, a in enumerate(arrays)]
    y = function(*inputs)
    g = Tensor(numbers(*y.shape, seed=5))
    with recorded_kernels() as names:
        y.backward(g)
    return sorted(names)


@contextmanager
def recorded_kernels() -> Iterator[list[str]]:
    """The names of the kernels that compute in the block."""
    with _Spy() as spy:
        yield spy.names


MOVES = {"cast", "concatenate", "csr_transpose", "duplicate", "pad_slice", "reshaped"}  # they compute nothing


class _Spy(Listener):
    def __init__(self) -> None:
        self.names: list[str] = []

    def call(self, name: str, kernel: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if name not in MOVES:
            self.names.append(name)
        return kernel(*args, **kwargs)


__all__ = [
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
