"""Discrete Fourier transforms along axes, their frequencies, and shifts of spectra.

Complex numbers z = a + b i are stored as pairs (a, b). The gradient of a real loss with respect to the pairs is the
gradient with respect to a plus i times that with respect to b. The transpose of a transform is then the transform
in the opposite direction with the same factor.
"""

from __future__ import annotations

import math
from typing import Any

from ..arrays import from_host
from ..engine.function import Function
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from .argument_checks import as_float, as_int, as_real, require_tensor
from .device import DeviceLike
from .dtypes.dtype import DTypeLike, as_dtype, default_dtype
from .shape.padding import pad
from .shape.rearrange import roll
from .shape.shape import axes
from .shape.shape import axes as axes_of

__all__: list[str] = []


# ---- Fourier transforms along axes, whose gradients are transforms too -----------------------------------------------

_NORMS = ("forward", "backward", "ortho")


class ComplexFft(Function):
    """The transform of pairs x (..., 2) over ``axes`` with exp(-2 pi i ...), or +2 if ``inverse``, times ``factor``"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axes: tuple[int, ...], inverse: bool, factor: float) -> Tensor:
        ctx.call = axes, not inverse, factor
        return wrap(kernels.complex_fft(x.array, axes, inverse, factor))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return ComplexFft.apply(g, *ctx.call), None, None, None


class RealFft(Function):
    """The elements 0 .. n // 2 of the transform of real x (..., n) over ``axis``, as pairs, times ``factor``"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int, inverse: bool, factor: float) -> Tensor:
        ctx.call = axis, x.array.shape[axis], inverse, factor
        return wrap(kernels.real_fft(x.array, axis, inverse, factor))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return HalfSum.apply(g, *ctx.call), None, None, None


class HalfSum(Function):
    """The real part of the sum over k = 0 .. n // 2 of (pairs g) exp(+-2 pi i j k / n): the transpose of RealFft"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, axis: int, n: int, inverse: bool, factor: float) -> Tensor:
        ctx.call = axis, inverse, factor
        return wrap(kernels.half_sum(g.array, axis, n, inverse, factor))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        return RealFft.apply(v, *ctx.call), None, None, None, None


@operator(records=ComplexFft, dtypes="bif")
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The Fourier transform along ``dim``: y[k] is the sum of x[j] exp(-2 pi i j k / n) over j; pairs -> pairs

    n: crop or zero-pad to this extent first. norm: "backward", "forward" or "ortho", see ``retrograd.fft``

    Raises:
        TypeError: input is not a Tensor.
        ValueError: input's last axis does not have extent 2, n is not positive, or norm is unknown.
        IndexError: there is no such axis.
    """
    if interpreters and (seen := interpreted(fft, locals())) is not None:
        return seen
    return _of_pairs("fft", input, (n,), (dim,), norm, False)


@operator(records=ComplexFft, dtypes="bif")
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``fft``; pairs (..., 2) -> pairs (..., 2)

    n: crop or zero-pad to this extent first. norm: see ``retrograd.fft``

    Raises: as ``fft``.
    """
    if interpreters and (seen := interpreted(ifft, locals())) is not None:
        return seen
    return _of_pairs("ifft", input, (n,), (dim,), norm, True)


@operator(records=ComplexFft, dtypes="bif")
def fft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``fftn`` over two axes.

    s: crop or zero-pad to these extents first. norm: see ``retrograd.fft``

    Raises: as ``fft``.
    """
    if interpreters and (seen := interpreted(fft2, locals())) is not None:
        return seen
    return _of_pairs("fft2", input, s, dim, norm, False)


@operator(records=ComplexFft, dtypes="bif")
def ifft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``ifftn`` over two axes.

    s: crop or zero-pad to these extents first. norm: see ``retrograd.fft``

    Raises: as ``fft``.
    """
    if interpreters and (seen := interpreted(ifft2, locals())) is not None:
        return seen
    return _of_pairs("ifft2", input, s, dim, norm, True)


@operator(records=ComplexFft, dtypes="bif")
def fftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """``fft`` over the axes ``dim``, by default all, or the last ``len(s)``; pairs (..., 2) -> pairs.

    s: crop or zero-pad to these extents first. norm: see ``retrograd.fft``

    Raises: as ``fft``.
    """
    if interpreters and (seen := interpreted(fftn, locals())) is not None:
        return seen
    return _of_pairs("fftn", input, s, dim, norm, False)


@operator(records=ComplexFft, dtypes="bif")
def ifftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of ``fftn``; pairs (..., 2) -> pairs (..., 2)

    s: crop or zero-pad to these extents first. norm: see ``retrograd.fft``

    Raises: as ``fft``.
    """
    if interpreters and (seen := interpreted(ifftn, locals())) is not None:
        return seen
    return _of_pairs("ifftn", input, s, dim, norm, True)


@operator(records=(RealFft, ComplexFft), dtypes="bif")
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The ``fft`` of real numbers: the first n // 2 + 1 elements along ``dim``, which determine the others.

    input (..., n, ...) real -> (..., n // 2 + 1, ..., 2) pairs
    n: crop or zero-pad to this extent first. norm: see ``retrograd.fft``

    Raises:
        TypeError: input is not a Tensor.
        ValueError: input has no axis, n is not positive, or norm is unknown.
        IndexError: there is no such axis.
    """
    if interpreters and (seen := interpreted(rfft, locals())) is not None:
        return seen
    return _of_reals("rfft", input, (n,), (dim,), norm)


@operator(records=(ComplexFft, HalfSum), dtypes="bif")
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``rfft``; pairs (..., n // 2 + 1, ..., 2) -> (..., n, ...) real

    n: the extent of the result, 2 (m - 1) by default for m elements of input along ``dim``.
    norm: see ``retrograd.fft``

    Raises: as ``fft``.
    """
    if interpreters and (seen := interpreted(irfft, locals())) is not None:
        return seen
    return _to_reals("irfft", input, (n,), (dim,), norm)


@operator(records=(RealFft, ComplexFft), dtypes="bif")
def rfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``rfftn`` over two axes.

    s: crop or zero-pad to these extents first. norm: see ``retrograd.fft``

    Raises: as ``rfft``.
    """
    if interpreters and (seen := interpreted(rfft2, locals())) is not None:
        return seen
    return _of_reals("rfft2", input, s, dim, norm)


@operator(records=(ComplexFft, HalfSum), dtypes="bif")
def irfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``irfftn`` over two axes.

    s: the extents of the result. norm: see ``retrograd.fft``

    Raises: as ``fft``.
    """
    if interpreters and (seen := interpreted(irfft2, locals())) is not None:
        return seen
    return _to_reals("irfft2", input, s, dim, norm)


@operator(records=(RealFft, ComplexFft), dtypes="bif")
def rfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """``rfft`` along the last of the axes ``dim``, then ``fft`` along the others; real -> pairs

    s: crop or zero-pad to these extents first. norm: see ``retrograd.fft``

    Raises: as ``rfft``.
    """
    if interpreters and (seen := interpreted(rfftn, locals())) is not None:
        return seen
    return _of_reals("rfftn", input, s, dim, norm)


@operator(records=(ComplexFft, HalfSum), dtypes="bif")
def irfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of ``rfftn``; pairs -> real

    s: the extents of the result; the last one is 2 (m - 1) by default. norm: see ``retrograd.fft``

    Raises: as ``fft``.
    """
    if interpreters and (seen := interpreted(irfftn, locals())) is not None:
        return seen
    return _to_reals("irfftn", input, s, dim, norm)


@operator(records=(ComplexFft, HalfSum), dtypes="bif")
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The ``fft`` of a Hermitian-symmetric signal, x[-j] = conj(x[j]), given its first half; pairs -> real

    n: the extent of the result, 2 (m - 1) by default. norm: see ``retrograd.fft``

    Raises: as ``fft``.
    """
    if interpreters and (seen := interpreted(hfft, locals())) is not None:
        return seen
    return _to_reals("hfft", input, (n,), (dim,), norm, True)


@operator(records=(RealFft, ComplexFft), dtypes="bif")
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``hfft``; real -> pairs

    n: crop or zero-pad to this extent first. norm: see ``retrograd.fft``

    Raises: as ``rfft``.
    """
    if interpreters and (seen := interpreted(ihfft, locals())) is not None:
        return seen
    return _of_reals("ihfft", input, (n,), (dim,), norm, True)


@operator(records=(ComplexFft, HalfSum), dtypes="bif")
def hfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``hfftn`` over two axes.

    s: the extents of the result. norm: see ``retrograd.fft``

    Raises: as ``fft``.
    """
    if interpreters and (seen := interpreted(hfft2, locals())) is not None:
        return seen
    return _to_reals("hfft2", input, s, dim, norm, True)


@operator(records=(RealFft, ComplexFft), dtypes="bif")
def ihfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """``ihfftn`` over two axes.

    s: crop or zero-pad to these extents first. norm: see ``retrograd.fft``

    Raises: as ``rfft``.
    """
    if interpreters and (seen := interpreted(ihfft2, locals())) is not None:
        return seen
    return _of_reals("ihfft2", input, s, dim, norm, True)


@operator(records=(ComplexFft, HalfSum), dtypes="bif")
def hfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """``fft`` along all axes ``dim`` but the last, then ``hfft`` along the last one; pairs -> real

    s: the extents of the result; the last one is 2 (m - 1) by default, for m elements of input.
    norm: see ``retrograd.fft``

    Raises: as ``fft``.
    """
    if interpreters and (seen := interpreted(hfftn, locals())) is not None:
        return seen
    return _to_reals("hfftn", input, s, dim, norm, True)


@operator(records=(RealFft, ComplexFft), dtypes="bif")
def ihfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of ``hfftn``; real -> pairs

    s: crop or zero-pad to these extents first. norm: see ``retrograd.fft``

    Raises: as ``rfft``.
    """
    if interpreters and (seen := interpreted(ihfftn, locals())) is not None:
        return seen
    return _of_reals("ihfftn", input, s, dim, norm, True)


def inverse_of_pairs(name: str, x: Tensor, n: int, axis: int, norm: str) -> Tensor:
    """``ifft`` along an axis; messages begin with ``name``."""
    return _of_pairs(name, x, (n,), (axis,), norm, True)


def inverse_of_half(name: str, x: Tensor, n: int, axis: int, norm: str) -> Tensor:
    """``irfft`` to n elements along an axis; messages begin with ``name``."""
    return _to_reals(name, x, (n,), (axis,), norm)


def _checked(
    name: str, x: Tensor, s: Any, dim: Any, norm: Any, of_pairs: bool
) -> tuple[tuple[int, ...], list[int | None], str]:
    """Return the checked axes, the requested extents, and the norm."""
    shape = x.array.shape
    if of_pairs and (not shape or shape[-1] != 2):
        raise ValueError(
            f"{name}: input.shape={shape} must end in 2, the real and the imaginary part; "
            "retrograd.stack((re, im), -1) makes pairs"
        )
    if norm not in (None, *_NORMS):
        raise ValueError(f"{name}: norm={norm!r} must be None, 'forward', 'backward' or 'ortho'")
    count = len(shape) - of_pairs
    if not count:
        raise ValueError(f"{name}: input.shape={shape} has no axis to transform")
    requested = list(s) if isinstance(s, (tuple, list)) else None if s is None else [s]
    if dim is None:
        over = tuple(range(count)) if requested is None else tuple(range(count - len(requested), count))
    else:
        over = axes_of(name, "dim", tuple(dim) if isinstance(dim, (tuple, list)) else dim, count)
    if requested is None:
        requested = [None] * len(over)
    if len(requested) != len(over) or min(over, default=0) < 0:
        raise ValueError(f"{name}: s={s} must name as many extents as there are axes, dim={dim}, input.shape={shape}")
    if not over:
        raise ValueError(f"{name}: dim={dim} must name at least one axis")
    found = [None if n is None or n == -1 else as_int(name, "n", n) for n in requested]
    for n in found:
        if n is not None and n < 1:
            raise ValueError(f"{name}: n={n} must be at least 1")
    for i, n in zip(over, found, strict=True):
        if n is None and not shape[i]:
            raise ValueError(f"{name}: input.shape={shape} has no element along axis {i}")
    return over, found, norm or "backward"


def _resized(x: Tensor, axis: int, n: int | None) -> Tensor:
    """Crop or zero-pad x to n elements along an axis."""
    have = x.array.shape[axis]
    if n is None or n == have:
        return x
    if n < have:
        return x[(slice(None),) * axis + (slice(0, n),)]
    return pad(x, [0, 0] * (x.array.ndim - 1 - axis) + [0, n - have])


def _factor(norm: str, inverse: bool, count: int) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(count)
    return 1 / count if (norm == "backward") == inverse else 1.0


def _of_pairs(name: str, x: Tensor, s: Any, dim: Any, norm: Any, inverse: bool) -> Tensor:
    x = as_float(name, x)
    over, extents, norm = _checked(name, x, s, dim, norm, True)
    for i, n in zip(over, extents, strict=True):
        x = _resized(x, i, n)
    count = math.prod(x.array.shape[i] for i in over)
    return ComplexFft.apply(x, over, inverse, _factor(norm, inverse, count))


def _of_reals(name: str, x: Tensor, s: Any, dim: Any, norm: Any, inverse: bool = False) -> Tensor:
    x = as_float(name, x)
    over, extents, norm = _checked(name, x, s, dim, norm, False)
    for i, n in zip(over, extents, strict=True):
        x = _resized(x, i, n)
    count = math.prod(x.array.shape[i] for i in over)
    y = RealFft.apply(x, over[-1], inverse, _factor(norm, inverse, count))
    return ComplexFft.apply(y, over[:-1], inverse, 1.0) if len(over) > 1 else y


def _to_reals(name: str, x: Tensor, s: Any, dim: Any, norm: Any, forward: bool = False) -> Tensor:
    x = as_float(name, x)
    over, extents, norm = _checked(name, x, s, dim, norm, True)
    last = over[-1]
    n = extents[-1] if extents[-1] is not None else 2 * (x.array.shape[last] - 1)
    if n < 1:
        raise ValueError(f"{name}: input.shape={x.array.shape} gives a result without elements; pass n")
    for i, extent in zip(over, (*extents[:-1], n // 2 + 1), strict=True):
        x = _resized(x, i, extent)
    count = n * math.prod(x.array.shape[i] for i in over[:-1])
    if len(over) > 1:
        x = ComplexFft.apply(x, over[:-1], not forward, 1.0)
    weights = from_host(kernels.half_weights(n, x.array.dtype), like=x.array)  # elements between the ends count twice
    weights = weights.reshape(-1, *(1,) * (x.array.ndim - 1 - last))
    return HalfSum.apply(x * wrap(weights), last, n, forward, _factor(norm, not forward, count))


# ---- Frequencies of a transform, and shifts that center frequency 0 --------------------------------------------------


@operator
def fftfreq(
    n: int, d: float = 1.0, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of the elements of ``fft``: 0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1 over (n d)

    Raises:
        ValueError: n is below 1.
        RuntimeError: the device is unknown.
    """
    if interpreters and (seen := interpreted(fftfreq, locals())) is not None:
        return seen
    count, spacing = _count("fftfreq", n), as_real("fftfreq", "d", d)
    return Tensor(kernels.fft_frequencies(count, spacing, _kind(dtype)), requires_grad, device=device)


@operator
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of the elements of ``rfft``: 0, 1, ..., n // 2 over (n d)

    Raises:
        ValueError: n is below 1.
        RuntimeError: the device is unknown.
    """
    if interpreters and (seen := interpreted(rfftfreq, locals())) is not None:
        return seen
    count, spacing = _count("rfftfreq", n), as_real("rfftfreq", "d", d)
    return Tensor(kernels.rfft_frequencies(count, spacing, _kind(dtype)), requires_grad, device=device)


@operator(dtypes="bihf")
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """Rotate input so that frequency 0 is in the middle of the axes ``dim``, all by default.

    For pairs, pass ``dim`` without the last axis, which holds the real and imaginary parts.

    Raises:
        TypeError: input is not a Tensor.
        IndexError: there is no such axis.
    """
    if interpreters and (seen := interpreted(fftshift, locals())) is not None:
        return seen
    return _shifted("fftshift", input, dim, 1)


@operator(dtypes="bihf")
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of ``fftshift``.

    Raises: as ``fftshift``.
    """
    if interpreters and (seen := interpreted(ifftshift, locals())) is not None:
        return seen
    return _shifted("ifftshift", input, dim, -1)


def _count(name: str, n: Any) -> int:
    if as_int(name, "n", n) < 1:
        raise ValueError(f"{name}: n={n} must be at least 1")
    return int(n)


def _kind(dtype: Any) -> Any:
    return default_dtype() if dtype is None else as_dtype(dtype)


def _shifted(name: str, x: Tensor, dim: Any, sign: int) -> Tensor:
    require_tensor(name, x)
    over = tuple(range(x.array.ndim)) if dim is None else axes(name, "dim", dim, x.array.ndim)
    extents = [x.array.shape[i] for i in over]
    return roll(x, tuple(n // 2 if sign > 0 else -(n // 2) for n in extents), over) if over else x
