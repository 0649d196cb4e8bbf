"""Frequencies of the elements of a transform, and turning spectra so that 0 is in the middle."""

from __future__ import annotations

from typing import Any

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ...kernel_set import kernels
from ..arguments.checks import as_int, as_real, require_tensor
from ..dtypes.dtype import as_dtype, default_dtype
from ..shape.rearrange import roll
from ..shape.shape import axes

__all__: list[str] = []


@operator
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The frequencies of the elements of ``fft``: 0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1 over (n d)

    Raises:
        ValueError: n is below 1.
        RuntimeError: the device is not known.
    """
    if interpreters and (seen := interpreted(fftfreq, locals())) is not None:
        return seen
    count, spacing = _count("fftfreq", n), as_real("fftfreq", "d", d)
    return Tensor(kernels.fft_frequencies(count, spacing, _kind(dtype)), requires_grad, device=device)


@operator
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The frequencies of the elements of ``rfft``: 0, 1, ..., n // 2 over (n d)

    Raises:
        ValueError: n is below 1.
        RuntimeError: the device is not known.
    """
    if interpreters and (seen := interpreted(rfftfreq, locals())) is not None:
        return seen
    count, spacing = _count("rfftfreq", n), as_real("rfftfreq", "d", d)
    return Tensor(kernels.rfft_frequencies(count, spacing, _kind(dtype)), requires_grad, device=device)


@operator(dtypes="bihf")
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """input turned so that frequency 0 comes to the middle of the axes ``dim``, all by default.

    The axis of the parts of pairs is one of all: name the others.

    Raises:
        TypeError: input is not a Tensor.
        IndexError: there is no such axis.
    """
    if interpreters and (seen := interpreted(fftshift, locals())) is not None:
        return seen
    return _turned("fftshift", input, dim, 1)


@operator(dtypes="bihf")
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of ``fftshift``.

    Raises: as ``fftshift``.
    """
    if interpreters and (seen := interpreted(ifftshift, locals())) is not None:
        return seen
    return _turned("ifftshift", input, dim, -1)


def _count(name: str, n: Any) -> int:
    if as_int(name, "n", n) < 1:
        raise ValueError(f"{name}: n={n} must be at least 1")
    return int(n)


def _kind(dtype: Any) -> Any:
    return default_dtype() if dtype is None else as_dtype(dtype)


def _turned(name: str, x: Tensor, dim: Any, sign: int) -> Tensor:
    require_tensor(name, x)
    over = tuple(range(x.array.ndim)) if dim is None else axes(name, "dim", dim, x.array.ndim)
    extents = [x.array.shape[i] for i in over]
    return roll(x, tuple(n // 2 if sign > 0 else -(n // 2) for n in extents), over) if over else x
