"""The exponential of matrices.

Source: N. Higham, "The scaling and squaring method for the matrix exponential revisited", 2005.
"""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["matrix_exp"]

# of the Pade approximant of degree 13, and the norm up to which it is exact to 2**-53
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_LARGEST = 5.371920351148152


@ieee
def matrix_exp(x: np.ndarray) -> np.ndarray:
    """1 + x + x x / 2 + ... of x (..., N, N), computed in float64; NaN where x is not finite."""
    return _exponential(x.astype(np.float64)).astype(x.dtype)


def _exponential(x: np.ndarray) -> np.ndarray:
    if not x.size:
        return x
    norms = np.abs(x).sum(-2).max(-1)
    if not np.isfinite(norms).all():
        finite = np.isfinite(norms)[..., np.newaxis, np.newaxis]
        return np.where(finite, _exponential(np.where(finite, x, 0)), np.nan)
    times = np.maximum(0, np.ceil(np.log2(np.maximum(norms, 1e-300) / _LARGEST))).astype(np.int64)
    x = x / (2.0**times)[..., np.newaxis, np.newaxis]
    unit, b = np.eye(x.shape[-1], like=x), _PADE
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    odd = x @ (x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * unit)
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * unit
    y: np.ndarray = np.linalg.solve(even - odd, even + odd)
    for step in range(int(times.max(initial=0))):
        y = np.where((times > step)[..., np.newaxis, np.newaxis], y @ y, y)
    return y
