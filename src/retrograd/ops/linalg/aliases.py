"""Linear algebra under PyTorch's names outside `torch.linalg`, such as `inverse` and `geqrf`."""

from __future__ import annotations

from typing import NamedTuple

from ...arrays import zeros
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ..argument_checks import as_flag, as_int, require_tensor
from ..reduce.norms import Svd
from .decompositions import (
    QR,
    Geqrf,
    Reflections,
    cholesky_factor,
    householder_columns,
    multiplied_by_q,
    qr_factors,
    singular_vectors,
)
from .lu import factors_with_info, lu_solution
from .matrix_functions import det, logdet, matrix_exp, matrix_power, powers, slogdet
from .solving import (
    Inverse,
    cholesky_inverse,
    cholesky_solve,
    pinverse,
    require_matrices,
    require_square,
    triangular_solve,
)

__all__ = [
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "geqrf",
    "inverse",
    "logdet",
    "lu",
    "lu_solve",
    "matrix_exp",
    "matrix_power",
    "orgqr",
    "ormqr",
    "pinverse",
    "qr",
    "slogdet",
    "svd",
    "triangular_solve",
    "vander",
]


# ---- Linear algebra under PyTorch's names outside `torch.linalg` -----------------------------------------------------


class SVDWithV(NamedTuple):
    """The result of ``svd``: input = U diag(S) VT."""

    U: Tensor
    S: Tensor
    V: Tensor


@operator(records=Inverse, methods="inverse")
def inverse(input: Tensor) -> Tensor:
    """Alias of ``linalg.inv``.

    Raises: as ``linalg.inv``.
    """
    if interpreters and (seen := interpreted(inverse, locals())) is not None:
        return seen
    require_square("inverse", input, "input")
    return Inverse.apply(input, "inverse")


@operator(methods="cholesky")
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """Compute ``linalg.cholesky``; ``upper`` may be positional.

    Raises: as ``linalg.cholesky``.
    """
    if interpreters and (seen := interpreted(cholesky, locals())) is not None:
        return seen
    require_square("cholesky", input, "input")
    return cholesky_factor("cholesky", input, upper)


@operator(methods="lu")
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """Return (LU, pivots) of ``linalg.lu_factor``; if ``get_infos``, (LU, pivots, info) of ``linalg.lu_factor_ex``.

    pivot: if False, no rows are exchanged

    Raises: as ``linalg.lu_factor`` or ``linalg.lu_factor_ex``.
    """
    if interpreters and (seen := interpreted(lu, locals())) is not None:
        return seen
    require_matrices("lu", A)
    return factors_with_info("lu", A, pivot, get_infos)


@operator(methods="lu_solve")
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """Return ``linalg.lu_solve(LU_data, LU_pivots, b)``.

    Raises: as ``linalg.lu_solve``.
    """
    if interpreters and (seen := interpreted(lu_solve, locals())) is not None:
        return seen
    return lu_solution("lu_solve", {"LU_data": LU_data, "LU_pivots": LU_pivots, "b": b}, True, False)


@operator(records=Geqrf, methods="geqrf")
def geqrf(input: Tensor) -> Reflections:
    """Return (a, tau): the QR factorization in LAPACK's format, input = Q R with R in the upper triangle of a.

    input (..., M, N), K = min(M, N); a (..., M, N), tau (..., K). Q is the product of K reflections 1 - tau_i v_i v_iT,
    whose vectors are the columns of a below the diagonal, with 1 on the diagonal and 0 above.
    ``linalg.householder_product`` builds the matrix, ``ormqr`` multiplies by it. Gradients exist only where no column
    is 0 below the diagonal.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: input has fewer than 2 axes.
    """
    if interpreters and (seen := interpreted(geqrf, locals())) is not None:
        return seen
    require_matrices("geqrf", input, "input")
    return Reflections(*Geqrf.apply(input))


@operator(methods="orgqr")
def orgqr(input: Tensor, tau: Tensor) -> Tensor:
    """Alias of ``linalg.householder_product``.

    Raises: as ``linalg.householder_product``.
    """
    if interpreters and (seen := interpreted(orgqr, locals())) is not None:
        return seen
    return householder_columns("orgqr", "input", input, tau)


@operator(methods="ormqr")
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Multiply other by Q (M, M), the product of the reflections from ``geqrf``: Q other, or other Q if not ``left``.

    input (..., M, N), tau (..., K), K <= min(M, N); other (..., M, L), or (..., L, M) if not ``left``

    transpose: multiply by QT instead of Q

    Raises:
        TypeError: the operands are not floating-point Tensors of one type.
        ValueError: the shapes do not fit.
    """
    if interpreters and (seen := interpreted(ormqr, locals())) is not None:
        return seen
    return multiplied_by_q("ormqr", input, tau, other, left, transpose)


@operator(methods="qr")
def qr(input: Tensor, some: bool = True) -> QR:
    """Compute ``linalg.qr`` in mode "reduced", or "complete" if not ``some``.

    Raises: as ``linalg.qr``.
    """
    if interpreters and (seen := interpreted(qr, locals())) is not None:
        return seen
    require_matrices("qr", input, "input")
    return qr_factors("qr", input, "reduced" if as_flag("qr", "some", some) else "complete")


@operator(records=Svd, methods="svd")
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> SVDWithV:
    """Return (U, S, V) with input = U diag(S) VT; U (..., M, K) and V (..., N, K), or all columns if not ``some``.

    compute_uv: False gives zeros (..., M, M) and (..., N, N) for U and V

    Raises: as ``linalg.svd``.
    """
    if interpreters and (seen := interpreted(svd, locals())) is not None:
        return seen
    require_matrices("svd", input, "input")
    some = as_flag("svd", "some", some)
    if as_flag("svd", "compute_uv", compute_uv):
        return SVDWithV(*singular_vectors(input, not some))
    *lead, m, n = input.array.shape
    u, v = (wrap(zeros((*lead, extent, extent), input.array.dtype, like=input.array)) for extent in (m, n))
    return SVDWithV(u, Svd.apply(input)[1], v)


# ---- Vandermonde matrices --------------------------------------------------------------------------------------------


@operator(dtypes="bihf")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The Vandermonde matrix (M, N): the powers N - 1 to 0 of x (M,), or 0 to N - 1 if ``increasing``.

    N: M by default

    Booleans count as integers.

    Raises:
        TypeError: x is not a Tensor.
        ValueError: x does not have one axis, or N is negative.
    """
    if interpreters and (seen := interpreted(vander, locals())) is not None:
        return seen
    require_tensor("vander", x, "x")
    if x.array.ndim != 1:
        raise ValueError(f"vander: x.shape={x.array.shape} must have one axis")
    count = x.array.size if N is None else as_int("vander", "N", N)
    if count < 0:
        raise ValueError(f"vander: N={N} must be at least 0")
    found = powers(x, count)
    return found if as_flag("vander", "increasing", increasing) else found.flip(-1)
