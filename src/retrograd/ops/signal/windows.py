"""Window functions under PyTorch's names: ``torch.signal.windows``.

All take the length M, give (M,), and are symmetric; with ``sym=False`` they are periodic: the first M elements of the
symmetric window of length M + 1. M = 1 gives 1. Below, n counts from 0 to N, where N = M - 1, or M if periodic.

Source: A. Oppenheim, R. Schafer, "Discrete-Time Signal Processing".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Unpack

import numpy as np

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..arguments.checks import as_flag, as_int, as_real, is_number
from ..dtypes.dtype import as_dtype
from ..memory.layout import Options, check_options

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
    M: int, *, sym: bool = True, dtype: Any = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """A triangle: 1 - |2 n / N - 1|

    Raises:
        TypeError: M is not an int, or an option is of the wrong kind.
        ValueError: M is negative, or dtype is not a floating-point type.
    """
    if interpreters and (seen := interpreted(bartlett, locals())) is not None:
        return seen
    n, last = _positions("bartlett", M, sym)
    values = 1 - np.abs(2 * n / last - 1) if last else np.ones_like(n)
    return _made("bartlett", values, dtype, requires_grad, options)


@operator(dtypes="")
def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)

    Raises: as ``bartlett``.
    """
    if interpreters and (seen := interpreted(blackman, locals())) is not None:
        return seen
    return _made("blackman", _cosines("blackman", M, sym, (0.42, 0.5, 0.08)), dtype, requires_grad, options)


@operator(dtypes="")
def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """sin(pi (n + 1/2) / (N + 1))

    Raises: as ``bartlett``.
    """
    if interpreters and (seen := interpreted(cosine, locals())) is not None:
        return seen
    n, last = _positions("cosine", M, sym)
    return _made("cosine", np.sin(np.pi * (n + 0.5) / (last + 1)), dtype, requires_grad, options)


@operator(dtypes="")
def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None,
    requires_grad: bool = False, **options: Unpack[Options],
) -> Tensor:  # fmt: skip
    """exp(-|n - center| / tau), where center is N / 2 by default

    Raises:
        TypeError: M is not an int, center or tau is not a number, or an option is of the wrong kind.
        ValueError: M is negative, tau is not positive, center is given although ``sym``, or dtype is not a
            floating-point type.
    """
    if interpreters and (seen := interpreted(exponential, locals())) is not None:
        return seen
    n, last = _positions("exponential", M, sym)
    if center is not None and sym:
        raise ValueError(
            f"exponential: center={center!r} makes no symmetric window; pass sym=False, or leave center out"
        )
    middle = last / 2 if center is None else _number("exponential", "center", center)
    values = np.exp(-np.abs(n - middle) / _positive("exponential", "tau", tau))
    return _made("exponential", values, dtype, requires_grad, options)


@operator(dtypes="")
def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:  # fmt: skip
    """exp(-((n - N / 2) / std)**2 / 2)

    Raises:
        TypeError: M is not an int, std is not a number, or an option is of the wrong kind.
        ValueError: M is negative, std is not positive, or dtype is not a floating-point type.
    """
    if interpreters and (seen := interpreted(gaussian, locals())) is not None:
        return seen
    n, last = _positions("gaussian", M, sym)
    values = np.exp(-(((n - last / 2) / _positive("gaussian", "std", std)) ** 2) / 2)
    return _made("gaussian", values, dtype, requires_grad, options)


@operator(dtypes="")
def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None, requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:  # fmt: skip
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
    return _made("general_cosine", _cosines("general_cosine", M, sym, weights), dtype, requires_grad, options)


@operator(dtypes="")
def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:  # fmt: skip
    """alpha - (1 - alpha) cos(2 pi n / N)

    Raises:
        TypeError: M is not an int, alpha is not a number, or an option is of the wrong kind.
        ValueError: M is negative, or dtype is not a floating-point type.
    """
    if interpreters and (seen := interpreted(general_hamming, locals())) is not None:
        return seen
    weight = _number("general_hamming", "alpha", alpha)
    values = _cosines("general_hamming", M, sym, (weight, 1 - weight))
    return _made("general_hamming", values, dtype, requires_grad, options)


@operator(dtypes="")
def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """0.54 - 0.46 cos(2 pi n / N)

    Raises: as ``bartlett``.
    """
    if interpreters and (seen := interpreted(hamming, locals())) is not None:
        return seen
    return _made("hamming", _cosines("hamming", M, sym, (0.54, 0.46)), dtype, requires_grad, options)


@operator(dtypes="")
def hann(
    M: int, *, sym: bool = True, dtype: Any = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """0.5 - 0.5 cos(2 pi n / N)

    Raises: as ``bartlett``.
    """
    if interpreters and (seen := interpreted(hann, locals())) is not None:
        return seen
    return _made("hann", _cosines("hann", M, sym, (0.5, 0.5)), dtype, requires_grad, options)


@operator(dtypes="")
def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:  # fmt: skip
    """i0(beta sqrt(1 - (2 n / N - 1)**2)) / i0(beta), with the modified Bessel function i0

    Raises:
        TypeError: M is not an int, beta is not a number, or an option is of the wrong kind.
        ValueError: M or beta is negative, or dtype is not a floating-point type.
    """
    if interpreters and (seen := interpreted(kaiser, locals())) is not None:
        return seen
    n, last = _positions("kaiser", M, sym)
    width = _number("kaiser", "beta", beta)
    if width < 0:
        raise ValueError(f"kaiser: beta={beta!r} must be at least 0")
    inside = np.clip(1 - (2 * n / last - 1) ** 2, 0, None) if last else np.ones_like(n)
    return _made("kaiser", np.i0(width * np.sqrt(inside)) / np.i0(width), dtype, requires_grad, options)


@operator(dtypes="")
def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, requires_grad: bool = False, **options: Unpack[Options]
) -> Tensor:
    """0.3635819 - 0.4891775 cos(2 pi n / N) + 0.1365995 cos(4 pi n / N) - 0.0106411 cos(6 pi n / N)

    Source: A. Nuttall, "Some windows with very good sidelobe behavior", 1981.

    Raises: as ``bartlett``.
    """
    if interpreters and (seen := interpreted(nuttall, locals())) is not None:
        return seen
    values = _cosines("nuttall", M, sym, (0.3635819, 0.4891775, 0.1365995, 0.0106411))
    return _made("nuttall", values, dtype, requires_grad, options)


def _positions(name: str, M: Any, sym: Any) -> tuple[np.ndarray, int]:
    """n (M,) and N, which is 0 for M = 1."""
    symmetric, count = as_flag(name, "sym", sym), as_int(name, "M", M)
    if count < 0:
        raise ValueError(f"{name}: M={M} must be at least 0")
    return np.arange(count, dtype=np.float64), count if count > 1 and not symmetric else max(count - 1, 0)


def _cosines(name: str, M: Any, sym: Any, weights: Iterable[float]) -> np.ndarray:
    """The sum of (-1)**k weights[k] cos(2 pi k n / N), or 1 for M = 1."""
    n, last = _positions(name, M, sym)
    if not last:
        return np.ones_like(n)
    return np.asarray(sum((-1) ** k * a * np.cos(2 * np.pi * k * n / last) for k, a in enumerate(weights)))


def _number(name: str, label: str, value: Any) -> float:
    if not is_number(value):
        raise TypeError(f"{name}: {label} is {type(value).__name__}, needs a number")
    return as_real(name, label, value)


def _positive(name: str, label: str, value: Any) -> float:
    number = _number(name, label, value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name}: {label}={value!r} must be positive and finite")
    return number


def _made(name: str, values: np.ndarray, dtype: Any, requires_grad: bool, options: Any) -> Tensor:
    check_options(name, options)
    kind = as_dtype(dtype, default=True)
    if kind.kind != "f":
        raise ValueError(f"{name}: dtype={kind} must be a floating-point type")
    return Tensor(values.astype(kind), requires_grad)
