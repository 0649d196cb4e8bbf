"""Window functions of signal processing.

Source: A. Oppenheim, R. Schafer, "Discrete-Time Signal Processing"; NumPy computes the symmetric ones.
"""

from __future__ import annotations

from typing import Any, Unpack

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ...kernel_set import kernels
from ..arguments.checks import as_flag, as_int, as_real
from ..dtypes.dtype import as_dtype, converted
from ..memory.layout import Options, check_options

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


@operator(by_shape=True, dtypes="")
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """A triangle (window_length,): 1 - |2 n / N - 1|, N = window_length if ``periodic``, else window_length - 1

    Raises:
        ValueError: window_length is negative.
    """
    if interpreters and (seen := interpreted(bartlett_window, locals())) is not None:
        return seen
    return _made("bartlett_window", window_length, periodic, (), dtype, requires_grad, options)


@operator(by_shape=True, dtypes="")
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N), N = window_length if ``periodic``, else window_length - 1

    Raises:
        ValueError: window_length is negative.
    """
    if interpreters and (seen := interpreted(blackman_window, locals())) is not None:
        return seen
    return _made("blackman_window", window_length, periodic, (), dtype, requires_grad, options)


@operator(by_shape=True, dtypes="")
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """alpha - beta cos(2 pi n / N), N = window_length if ``periodic``, else window_length - 1

    Raises:
        ValueError: window_length is negative.
    """
    if interpreters and (seen := interpreted(hamming_window, locals())) is not None:
        return seen
    return _made("hamming_window", window_length, periodic, (alpha, beta), dtype, requires_grad, options)


@operator(by_shape=True, dtypes="")
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """sin(pi n / N)**2, N = window_length if ``periodic``, else window_length - 1

    Raises:
        ValueError: window_length is negative.
    """
    if interpreters and (seen := interpreted(hann_window, locals())) is not None:
        return seen
    return _made("hann_window", window_length, periodic, (), dtype, requires_grad, options)


@operator(by_shape=True, dtypes="")
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """i0(beta sqrt(1 - (2 n / N - 1)**2)) / i0(beta), N = window_length if ``periodic``, else window_length - 1

    Raises:
        ValueError: window_length is negative.
    """
    if interpreters and (seen := interpreted(kaiser_window, locals())) is not None:
        return seen
    width = as_real("kaiser_window", "beta", beta)
    return _made("kaiser_window", window_length, periodic, (width,), dtype, requires_grad, options)


def _made(
    name: str,
    length: Any,
    periodic: Any,
    numbers: tuple[float, ...],
    dtype: Any,
    requires_grad: bool,
    options: Options,
) -> Tensor:
    """A symmetric window, or of a periodic one the first part of the next longer one."""
    check_options(name, options)
    count = as_int(name, "window_length", length)
    if count < 0:
        raise ValueError(f"{name}: window_length={length} must be at least 0")
    more = as_flag(name, "periodic", periodic) and count > 1
    found = kernels.window_function(name.removesuffix("_window"), count + more, numbers)[:count]
    kind = as_dtype(dtype, default=True)
    if kind.kind != "f":
        raise ValueError(f"{name}: dtype={kind} must be a floating-point type")
    return Tensor(converted(found, kind), requires_grad, device=options.get("device"))
