"""Window functions under PyTorch's names: ``torch.signal.windows``.

All take the length M, return shape (M,), and are symmetric. With ``sym=False`` they are periodic: the first M elements
of the symmetric window of length M + 1. M = 1 gives 1. Below, n counts from 0 to N, where N = M - 1, or M if periodic.

Source: A. Oppenheim, R. Schafer, "Discrete-Time Signal Processing".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Unpack

from ...engine.arguments import kind_name
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ...kernel_set import kernels
from ..argument_checks import as_flag, as_int, as_real, is_number
from ..device import Options, check_options
from ..dtypes.dtype import DTypeLike, as_dtype

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


@operator(dtypes="")
def bartlett(
    M: int, *, sym: bool = True, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """A triangle: 1 - |2 n / N - 1|

    Raises:
        TypeError: M is not an int, or an option is of the wrong kind.
        ValueError: M is negative, or dtype is not a floating-point type.
    """
    if interpreters and (seen := interpreted(bartlett, locals())) is not None:
        return seen
    count, last = _extent("bartlett", M, sym)
    return Tensor(
        kernels.triangular_window(count, last, _kind("bartlett", dtype, options)),
        requires_grad,
        device=options.get("device"),
    )


@operator(dtypes="")
def blackman(
    M: int, *, sym: bool = True, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)

    Raises: as ``bartlett``.
    """
    if interpreters and (seen := interpreted(blackman, locals())) is not None:
        return seen
    return _cosines("blackman", M, sym, (0.42, 0.5, 0.08), dtype, requires_grad, options)


@operator(dtypes="")
def cosine(
    M: int, *, sym: bool = True, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """sin(pi (n + 1/2) / (N + 1))

    Raises: as ``bartlett``.
    """
    if interpreters and (seen := interpreted(cosine, locals())) is not None:
        return seen
    count, last = _extent("cosine", M, sym)
    return Tensor(
        kernels.sine_window(count, last, _kind("cosine", dtype, options)), requires_grad, device=options.get("device")
    )


@operator(dtypes="")
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """exp(-|n - center| / tau), where center is N / 2 by default

    Raises:
        TypeError: M is not an int, center or tau is not a number, or an option is of the wrong kind.
        ValueError: M is negative, tau is not positive, center is given with ``sym``, or dtype is not a
            floating-point type.
    """
    if interpreters and (seen := interpreted(exponential, locals())) is not None:
        return seen
    count, last = _extent("exponential", M, sym)
    if center is not None and sym:
        raise ValueError(
            f"exponential: center={center!r} does not make a symmetric window; pass sym=False, or leave center out"
        )
    middle = last / 2 if center is None else _number("exponential", "center", center)
    scale = _positive("exponential", "tau", tau)
    kind = _kind("exponential", dtype, options)
    return Tensor(kernels.exponential_window(count, middle, scale, kind), requires_grad, device=options.get("device"))


@operator(dtypes="")
def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """exp(-((n - N / 2) / std)**2 / 2)

    Raises:
        TypeError: M is not an int, std is not a number, or an option is of the wrong kind.
        ValueError: M is negative, std is not positive, or dtype is not a floating-point type.
    """
    if interpreters and (seen := interpreted(gaussian, locals())) is not None:
        return seen
    count, last = _extent("gaussian", M, sym)
    scale = _positive("gaussian", "std", std)
    kind = _kind("gaussian", dtype, options)
    return Tensor(kernels.gaussian_window(count, last / 2, scale, kind), requires_grad, device=options.get("device"))


@operator(dtypes="")
def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """a[0] - a[1] cos(2 pi n / N) + a[2] cos(4 pi n / N) - ...

    Raises:
        TypeError: M is not an int, a does not consist of numbers, or an option is of the wrong kind.
        ValueError: M is negative, a is empty, or dtype is not a floating-point type.
    """
    if interpreters and (seen := interpreted(general_cosine, locals())) is not None:
        return seen
    try:
        given = tuple(a)
    except TypeError:
        raise TypeError(f"general_cosine: a={a!r} must be a sequence of numbers, the coefficients") from None
    weights = [_number("general_cosine", "a", weight) for weight in given]
    if not weights:
        raise ValueError("general_cosine: a is empty, needs at least one coefficient")
    return _cosines("general_cosine", M, sym, weights, dtype, requires_grad, options)


@operator(dtypes="")
def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi n / N)

    Raises:
        TypeError: M is not an int, alpha is not a number, or an option is of the wrong kind.
        ValueError: M is negative, or dtype is not a floating-point type.
    """
    if interpreters and (seen := interpreted(general_hamming, locals())) is not None:
        return seen
    weight = _number("general_hamming", "alpha", alpha)
    return _cosines("general_hamming", M, sym, (weight, 1 - weight), dtype, requires_grad, options)


@operator(dtypes="")
def hamming(
    M: int, *, sym: bool = True, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """0.54 - 0.46 cos(2 pi n / N)

    Raises: as ``bartlett``.
    """
    if interpreters and (seen := interpreted(hamming, locals())) is not None:
        return seen
    return _cosines("hamming", M, sym, (0.54, 0.46), dtype, requires_grad, options)


@operator(dtypes="")
def hann(
    M: int, *, sym: bool = True, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """0.5 - 0.5 cos(2 pi n / N)

    Raises: as ``bartlett``.
    """
    if interpreters and (seen := interpreted(hann, locals())) is not None:
        return seen
    return _cosines("hann", M, sym, (0.5, 0.5), dtype, requires_grad, options)


@operator(dtypes="")
def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """i0(beta sqrt(1 - (2 n / N - 1)**2)) / i0(beta), with the modified Bessel function i0

    Raises:
        TypeError: M is not an int, beta is not a number, or an option is of the wrong kind.
        ValueError: M or beta is negative, or dtype is not a floating-point type.
    """
    if interpreters and (seen := interpreted(kaiser, locals())) is not None:
        return seen
    count, last = _extent("kaiser", M, sym)
    width = _number("kaiser", "beta", beta)
    if width < 0:
        raise ValueError(f"kaiser: beta={beta!r} must be at least 0")
    return Tensor(
        kernels.kaiser_window(count, last, width, _kind("kaiser", dtype, options)),
        requires_grad,
        device=options.get("device"),
    )


@operator(dtypes="")
def nuttall(
    M: int, *, sym: bool = True, dtype: DTypeLike = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """0.3635819 - 0.4891775 cos(2 pi n / N) + 0.1365995 cos(4 pi n / N) - 0.0106411 cos(6 pi n / N)

    Source: A. Nuttall, "Some windows with very good sidelobe behavior", 1981.

    Raises: as ``bartlett``.
    """
    if interpreters and (seen := interpreted(nuttall, locals())) is not None:
        return seen
    weights = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return _cosines("nuttall", M, sym, weights, dtype, requires_grad, options)


def _extent(name: str, M: Any, sym: Any) -> tuple[int, int]:
    """Return M and N; N is 0 for M = 1."""
    symmetric, count = as_flag(name, "sym", sym), as_int(name, "M", M)
    if count < 0:
        raise ValueError(f"{name}: M={M} must be at least 0")
    return count, count if count > 1 and not symmetric else max(count - 1, 0)


def _cosines(
    name: str, M: Any, sym: Any, weights: Iterable[float], dtype: Any, requires_grad: bool, options: Any
) -> Tensor:
    """Compute the sum of (-1)**k weights[k] cos(2 pi k n / N), or 1 for M = 1."""
    count, last = _extent(name, M, sym)
    return Tensor(
        kernels.cosine_window(count, last, (*weights,), _kind(name, dtype, options)),
        requires_grad,
        device=options.get("device"),
    )


def _number(name: str, label: str, value: Any) -> float:
    if not is_number(value):
        raise TypeError(f"{name}: {label} is {kind_name(value)}, needs a number")
    return as_real(name, label, value)


def _positive(name: str, label: str, value: Any) -> float:
    number = _number(name, label, value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name}: {label}={value!r} must be positive and finite")
    return number


def _kind(name: str, dtype: Any, options: Any) -> Any:
    """Check the options and return the element type."""
    check_options(name, options)
    kind = as_dtype(dtype, default=True)
    if kind.kind != "f":
        raise ValueError(f"{name}: dtype={kind} must be a floating-point type")
    return kind
