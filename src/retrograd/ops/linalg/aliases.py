"""Linear algebra under the names that PyTorch has outside ``linalg``, which are methods of Tensor, too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...engine.tensor import Tensor, wrap
from ..arguments.checks import as_flag
from ..reduce.matrix_norms import Svd
from .decompositions import QR, lower_or_upper, orthogonal, singular_vectors
from .functions import det, logdet, matrix_exp, matrix_power, slogdet
from .matrices import require_matrices, require_square
from .solving import Inverse, cholesky_inverse, cholesky_solve, pinverse, triangular_solve

__all__ = [
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "inverse",
    "logdet",
    "matrix_exp",
    "matrix_power",
    "pinverse",
    "qr",
    "slogdet",
    "svd",
    "triangular_solve",
]


class SVDWithV(NamedTuple):
    """The result of ``svd``: input = U diag(S) VT."""

    U: Tensor
    S: Tensor
    V: Tensor


def inverse(input: Tensor) -> Tensor:
    """``linalg.inv``

    Raises: as ``linalg.inv``.
    """
    require_square("inverse", input, "input")
    return Inverse.apply(input, "inverse")


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """``linalg.cholesky``; ``upper`` may be given by position.

    Raises: as ``linalg.cholesky``.
    """
    require_square("cholesky", input, "input")
    return lower_or_upper("cholesky", input, upper)


def qr(input: Tensor, some: bool = True) -> QR:
    """``linalg.qr`` in mode "reduced", or "complete" if not ``some``.

    Raises: as ``linalg.qr``.
    """
    require_matrices("qr", input, "input")
    return orthogonal("qr", input, "reduced" if as_flag("qr", "some", some) else "complete")


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> SVDWithV:
    """(U, S, V) with input = U diag(S) VT; U (..., M, K) and V (..., N, K), or all their columns if not ``some``.

    compute_uv: False gives zeros (..., M, M) and (..., N, N) for U and V

    Raises: as ``linalg.svd``.
    """
    require_matrices("svd", input, "input")
    some = as_flag("svd", "some", some)
    if as_flag("svd", "compute_uv", compute_uv):
        return SVDWithV(*singular_vectors(input, not some))
    *lead, m, n = input.array.shape
    u, v = (wrap(np.zeros((*lead, extent, extent), input.array.dtype)) for extent in (m, n))
    return SVDWithV(u, Svd.apply(input)[1], v)
