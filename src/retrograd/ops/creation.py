"""New Tensors: from data, filled with one number, counting, or random (from ``random.default_generator``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.tensor import Tensor, wrap
from .dtype import as_dtype, float32, int64
from .random import default_generator
from .shape import sizes

__all__ = [
    "arange",
    "from_numpy",
    "full",
    "ones",
    "ones_like",
    "rand",
    "randint",
    "randn",
    "randperm",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A Tensor with a copy of ``data``: a number, nested sequences of numbers, an ndarray or a Tensor.

    Python floats become float32 and ints int64; an ndarray keeps its type.

    Raises:
        TypeError: the elements are not of a type that a Tensor can hold.
        RuntimeError: a gradient is asked for integers or truth values.
    """
    kind = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        data = data.data
    return Tensor(np.array(data) if isinstance(data, np.ndarray) else data, requires_grad, kind)


def from_numpy(array: np.ndarray) -> Tensor:
    """A Tensor that shares the memory of ``array``.

    Raises:
        TypeError: this is no ndarray, or not of float32, float64, int64 or bool.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"from_numpy: array is {type(array).__name__}, needs an ndarray; retrograd.tensor(x) takes other data"
        )
    return Tensor(array)


def full(size: int | tuple[int, ...], value: float, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A Tensor of shape ``size`` filled with ``value``, whose type decides where ``dtype`` does not."""
    array = np.full(sizes((size,)), value)
    return Tensor(array, requires_grad, as_dtype(dtype or type(value)))


def zeros(*size: Any, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """A Tensor of shape ``size`` filled with 0."""
    return Tensor(np.zeros(sizes(size), as_dtype(dtype)), requires_grad)


def ones(*size: Any, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """A Tensor of shape ``size`` filled with 1."""
    return Tensor(np.ones(sizes(size), as_dtype(dtype)), requires_grad)


def zeros_like(input: Tensor, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of input's shape, and of its type where ``dtype`` is None."""
    return Tensor(np.zeros_like(input.data, as_dtype(dtype or input.data.dtype)), requires_grad)


def ones_like(input: Tensor, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of input's shape, and of its type where ``dtype`` is None."""
    return Tensor(np.ones_like(input.data, as_dtype(dtype or input.data.dtype)), requires_grad)


def arange(start: float, end: float | None = None, step: float = 1, dtype: Any = None) -> Tensor:
    """start, start + step, ... up to but not including ``end``; ``arange(n)`` counts from 0.

    int64 if all three are ints, otherwise float32.

    Raises:
        ValueError: the step is 0 or leads away from ``end``.
    """
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) * step < 0:
        raise ValueError(f"arange: step={step} does not lead from start={start} to end={end}")
    array = np.arange(start, end, step)
    return Tensor(array, dtype=as_dtype(dtype or (int64 if array.dtype.kind == "i" else float32)))


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = int64) -> Tensor:
    """The places (2, K), row by row, of the lower triangle of a matrix (row, col) up to the diagonal ``offset``."""
    return wrap(np.array(np.tril_indices(row, offset, col), as_dtype(dtype)))


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = int64) -> Tensor:
    """The places (2, K), row by row, of the upper triangle of a matrix (row, col) from the diagonal ``offset`` on."""
    return wrap(np.array(np.triu_indices(row, offset, col), as_dtype(dtype)))


def rand(*size: Any, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """Uniform random numbers in [0, 1)."""
    return Tensor(np.asarray(default_generator.random(sizes(size), _float("rand", dtype))), requires_grad)


def randn(*size: Any, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """Random numbers of the standard normal distribution."""
    return Tensor(np.asarray(default_generator.standard_normal(sizes(size), _float("randn", dtype))), requires_grad)


def randint(low: int, high: int, size: int | tuple[int, ...]) -> Tensor:
    """Uniform random int64 numbers in [low, high).

    Raises:
        ValueError: the range is empty.
    """
    if low >= high:
        raise ValueError(f"randint: low={low} must be smaller than high={high}")
    return Tensor(np.asarray(default_generator.integers(low, high, sizes((size,)), np.int64)))


def randperm(n: int) -> Tensor:
    """The numbers 0 to n - 1 in random order, int64.

    Raises:
        ValueError: n is negative.
    """
    if n < 0:
        raise ValueError(f"randperm: n={n} must be at least 0")
    return Tensor(default_generator.permutation(np.arange(n, dtype=np.int64)))


def _float(name: str, dtype: Any) -> Any:
    kind = as_dtype(dtype)
    if kind.kind != "f":
        raise TypeError(f"{name}: dtype={kind} must be float32 or float64")
    return kind
