"""The checks that every operator must pass; a test names the operator, its inputs and the expected value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import Listener, use_kernels

EXACT = {"eps": 1.0, "atol": 1e-11, "rtol": 1e-11}  # a difference of a linear function has no error but rounding


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
    """Values, types, layouts, first and second derivatives, requests; ``linear`` in each input: exact differences."""
    arrays = tuple(np.asarray(a, np.float64) for a in arrays)
    wanted = np.asarray(expected(*arrays))
    for layout in (_as_it_is, _fortran, _reversed, _strided):
        inputs = [Tensor(layout(a)) for a in arrays]
        before = [a.array.copy() for a in inputs]
        y = function(*inputs)
        assert y.shape == wanted.shape and y.dtype == np.float64
        np.testing.assert_allclose(y.array, wanted, rtol=rtol, atol=rtol)
        for tensor, copy in zip(inputs, before, strict=True):
            np.testing.assert_array_equal(tensor.array, copy)
    single = function(*[Tensor(a.astype(np.float32)) for a in arrays])
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.array, wanted, rtol=2e-4, atol=2e-4)

    tolerances: dict[str, Any] = EXACT if linear else {}
    inputs = [Tensor(a, requires_grad=True) for a in arrays]
    assert gradcheck(function, inputs, **tolerances)
    if second:
        assert gradgradcheck(function, inputs, **tolerances)
    check_requests(function, arrays, rounding)
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


def _as_it_is(a: np.ndarray) -> np.ndarray:
    return a.copy()


def _fortran(a: np.ndarray) -> np.ndarray:
    return a.copy(order="F")


def _reversed(a: np.ndarray) -> np.ndarray:
    return a[(slice(None, None, -1),) * a.ndim].copy()[(slice(None, None, -1),) * a.ndim]


def _strided(a: np.ndarray) -> np.ndarray:
    """Every second element of a larger array, the axis of channels last in memory."""
    if a.ndim < 2:
        return np.repeat(a, 2)[::2].reshape(a.shape)
    moved = np.moveaxis(a, 1, -1)
    return np.moveaxis(np.repeat(moved, 2, axis=-1)[..., ::2], -1, 1)


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
