"""Matrix decompositions: Cholesky, QR, Householder products, singular values, symmetric eigenvalues.

The Householder reflections are H_i = 1 - tau_i v_i v_iT, where column v_i of V (..., M, K) is 0 above the diagonal and
1 on it. Their product is H_1 H_2 ... H_K = 1 - V T VT with an upper triangular T. Source: R. Schreiber, C. Van Loan, "A
storage-efficient WY representation for products of Householder transformations", 1989.
"""

from __future__ import annotations

from math import nan
from typing import Any, NamedTuple

import numpy as np

from ...arrays import any_true, empty, zeros
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_flag, require_same
from ..pointwise.piecewise import where
from ..reduce.norms import Svd
from ..shape.join import cat
from .solving import Solve, refuse, require_matrices, require_square, tolerances, transposed, unit_matrix

__all__: list[str] = []


# ---- Orthogonal matrices as products of Householder reflections -----------------------------------------------------


class Reflections(NamedTuple):
    """The result of ``geqrf``."""

    a: Tensor
    tau: Tensor


class Geqrf(Function):
    """x (..., M, N) = Q R in LAPACK's format: R and the vectors of the reflections in one matrix, and tau (..., K).

    The gradient goes through Q: 1 - Q = V (T VT) is an LU factorization, and tau is the diagonal of its second factor.
    Sources: G. Ballard et al., "Reconstructing Householder vectors from tall-skinny QR", 2014; for the gradient of Q
    and R, S. Walter, L. Lehmann, "Algorithmic differentiation of linear algebra functions", 2010.
    """

    gradient = "x: (gQ + Q M) R**-T with M from gR and QT gQ, as for the factors Q and R"

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        found, scales = kernels.geqrf(x.array)
        a, tau = wrap(found), wrap(scales)
        ctx.save_for_backward(a, tau)
        return a, tau

    @staticmethod
    def backward(ctx: Any, g: Tensor, gtau: Tensor) -> Tensor:
        a, tau = ctx.saved_tensors
        *lead, m, n = a.array.shape
        k, j = min(m, n), max(0, min(m - 1, n))  # the last reflection of a square or wide matrix is 1
        q = _product(a, tau, unit_matrix(a, m, k), False)
        v, t = _factors(a, tau[..., :j])
        v1, u = v[..., :j, :], Solve.apply(t, tau[..., :j].unsqueeze(-1) * transposed(v[..., :j, :]), "geqrf")
        gl, gu = g[..., :j].tril(-1), gtau[..., :j].diag_embed()
        below = (transposed(v1) @ gl[..., :j, :]).tril(-1)
        above = (gu @ transposed(u) - transposed(v[..., j:, :]) @ gl[..., j:, :]).triu()
        first = Solve.apply(transposed(v1), below + above, "geqrf")
        gq = -_over(cat((first, gl[..., j:, :]), -2), u)
        if k > j:
            gq = cat((gq, wrap(zeros((*lead, m, 1), a.array.dtype, like=a.array))), -1)
        r, gr = a[..., :k, :].triu(), g[..., :k, :].triu()
        if n > k:
            gq = gq + q @ r[..., k:] @ transposed(gr[..., k:])
        inner = r[..., :k] @ transposed(gr[..., :k]) - transposed(gq) @ q
        gx = _over(gq + q @ (inner.tril() + transposed(inner.tril(-1))), r[..., :k])
        return cat((gx, q @ gr[..., k:]), -1) if n > k else gx


@operator
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """Compute the first N columns (..., M, N) of the product of the reflections from ``geqrf``.

    A (..., M, N) with M >= N, whose columns contain the vectors below the diagonal; tau (..., K), K <= N

    Raises:
        TypeError: A and tau are not floating-point Tensors of one type.
        ValueError: the shapes do not fit.
    """
    if interpreters and (seen := interpreted(householder_product, locals())) is not None:
        return seen
    return householder_columns("householder_product", "A", A, tau)


def householder_columns(name: str, label: str, A: Tensor, tau: Tensor) -> Tensor:
    """Compute ``householder_product``; ``label`` is the name of A in the caller."""
    _check(name, label, A, tau)
    m, n = A.array.shape[-2:]
    if m < n:
        raise ValueError(f"{name}: {label}.shape={A.array.shape} must not have more columns than rows")
    return _product(A, tau, unit_matrix(A, m, n), False)


def multiplied_by_q(name: str, input: Tensor, tau: Tensor, other: Tensor, left: bool, transpose: bool) -> Tensor:
    """Compute ``ormqr``."""
    _check(name, "input", input, tau)
    require_matrices(name, other, "other")
    require_same(name, "input", input, "other", other)
    left, transpose = as_flag(name, "left", left), as_flag(name, "transpose", transpose)
    rows, have = input.array.shape[-2], other.array.shape
    lead = input.array.shape[:-2]
    if have[-2 if left else -1] != rows or have[:-2] != lead:
        axes = f"{rows}, N" if left else f"M, {rows}"
        expected = f"({', '.join(map(str, lead))}{', ' if lead else ''}{axes})"
        raise ValueError(
            f"{name}: other.shape={have} must be {expected} for left={left} and input.shape={input.array.shape}"
        )
    if left:
        return _product(input, tau, other, transpose)
    return transposed(_product(input, tau, transposed(other), not transpose))


def _check(name: str, label: str, a: Tensor, tau: Tensor) -> None:
    require_matrices(name, a, label)
    require_same(name, label, a, "tau", tau)
    *lead, m, n = a.array.shape
    have = tau.array.shape
    if not have or list(have[:-1]) != lead or have[-1] > min(m, n):
        expected = f"({''.join(f'{extent}, ' for extent in lead)}K)"
        raise ValueError(
            f"{name}: tau.shape={have} must be {expected} with K at most {min(m, n)}, for {label}.shape={a.array.shape}"
        )


def _product(a: Tensor, tau: Tensor, c: Tensor, transpose: bool) -> Tensor:
    """Return Q c, or QT c, with Q = 1 - V T VT."""
    v, t = _factors(a, tau)
    right, scales = transposed(v) @ c, tau.unsqueeze(-1)
    if transpose:
        return c - v @ (scales * Solve.apply(transposed(t), right, "householder_product"))
    return c - v @ Solve.apply(t, scales * right, "householder_product")


def _factors(a: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """Return V (..., M, K) and R = 1 + diag(tau) triu(VT V, 1), (..., K, K), with T = R^-1 diag(tau)."""
    m, k = a.array.shape[-2], tau.array.shape[-1]
    v = a[..., :k].tril(-1) + unit_matrix(a, m, k)
    unit = unit_matrix(a, k)
    return v, unit + tau.unsqueeze(-1) * (transposed(v) @ v).triu(1)


def _over(x: Tensor, u: Tensor) -> Tensor:
    """x u^-T"""
    return transposed(Solve.apply(u, transposed(x), "geqrf"))


# ---- Cholesky, QR, singular values, eigenvalues of symmetric matrices ------------------------------------------------


class SVD(NamedTuple):
    """The result of ``linalg.svd``: A = U diag(S) Vh."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class QR(NamedTuple):
    """The result of ``linalg.qr``: A = Q R."""

    Q: Tensor
    R: Tensor


class Eigen(NamedTuple):
    """The result of ``linalg.eigh``: A = V diag(eigenvalues) VT with the eigenvectors as the columns of V."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class CholeskyAndInfo(NamedTuple):
    """The result of ``linalg.cholesky_ex``."""

    L: Tensor
    info: Tensor


class Cholesky(Function):
    """The lower triangular y with y yT = x, for symmetric positive definite x (..., N, N).

    Source: I. Murray, "Differentiation of the Cholesky decomposition", 2016.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str) -> Tensor:
        rule = "is not positive definite; make it symmetric, or add a small multiple of the identity matrix"
        found, first = kernels.cholesky(x.array)
        refuse(name, rule, first, x.array.shape)
        y = wrap(found)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        """Return y^-T p y^-1, symmetrized; p is the lower triangle of yT g with half its diagonal."""
        yt = transposed(ctx.saved_tensors[0])
        product = (yt @ g).tril()
        half = product - (product.diagonal(0, -2, -1) * 0.5).diag_embed()
        left = Solve.apply(yt, half, "cholesky")
        gx = Solve.apply(yt, transposed(left), "cholesky")
        return (gx + transposed(gx)) * 0.5, None


class Qr(Function):
    """x (..., M, N) = q r with M >= N: q (..., M, N) has orthonormal columns, r (..., N, N) is upper triangular.

    Source: S. Walter, L. Lehmann, "Algorithmic differentiation of linear algebra functions", 2010.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        q, r = (wrap(part) for part in kernels.qr(x.array, False))
        ctx.save_for_backward(q, r)
        return q, r

    @staticmethod
    def backward(ctx: Any, gq: Tensor, gr: Tensor) -> Tensor:
        q, r = ctx.saved_tensors
        m = r @ transposed(gr) - transposed(gq) @ q
        sides = m.tril() + transposed(m.tril(-1))
        return transposed(Solve.apply(r, transposed(gq + q @ sides), "qr"))


class Eigh(Function):
    """The eigenvalues (..., N), in ascending order, and eigenvectors (..., N, N) of symmetric matrices.

    Eigenvectors of equal eigenvalues are not unique, and their gradient is not finite. Source: M. Giles, 2008.
    """

    gradient = "x: v (glambda + F (vT gv)) vT, F = 1 / (lambda_j - lambda_i), symmetrized"

    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str, upper: bool) -> tuple[Tensor, Tensor]:
        found = kernels.eigh(x.array, upper)
        refuse(name, "is not finite", found[2], x.array.shape)
        values, vectors = wrap(found[0]), wrap(found[1])
        ctx.save_for_backward(values, vectors)
        ctx.set_materialize_grads(False)
        return values, vectors

    @staticmethod
    def backward(ctx: Any, gvalues: Tensor | None, gvectors: Tensor | None) -> tuple[Tensor | None, ...]:
        values, vectors = ctx.saved_tensors
        inner: Any = 0.0 if gvalues is None else gvalues.diag_embed()
        if gvectors is not None:  # the vectors may have no gradient
            unit = unit_matrix(values, values.array.shape[-1])
            apart = values.unsqueeze(-2) - values.unsqueeze(-1)
            inner = inner + (transposed(vectors) @ gvectors) * (1.0 - unit) / (apart + unit)
        return vectors @ inner @ transposed(vectors), None, None


@operator
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """Compute lower triangular L with A = L LT, or upper U with A = UT U, of positive definite A (..., N, N).

    Only the lower (upper) triangle of A is read; its gradient is symmetric.

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: the last two extents differ.
        LinAlgError: a matrix is not positive definite.
    """
    if interpreters and (seen := interpreted(cholesky, locals())) is not None:
        return seen
    require_square("cholesky", A)
    return cholesky_factor("cholesky", A, upper)


@operator
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyAndInfo:
    """Return (L, info): ``cholesky``, with NaN where a matrix is not positive definite.

    info (...,), int32: the order of the first leading minor that is not positive definite, else 0
    check_errors: raise LinAlgError instead

    Raises: as ``cholesky``.
    """
    if interpreters and (seen := interpreted(cholesky_ex, locals())) is not None:
        return seen
    require_square("cholesky_ex", A)
    if as_flag("cholesky_ex", "check_errors", check_errors):
        found = cholesky_factor("cholesky_ex", A, upper)
        return CholeskyAndInfo(found, wrap(zeros(A.array.shape[:-2], np.int32, like=A.array)))
    info = wrap(kernels.bad_minor(A.array))
    if not any_true(info.array, "whether a matrix is not positive definite"):
        return CholeskyAndInfo(cholesky_factor("cholesky_ex", A, upper), info)
    bad = (info != 0).unsqueeze(-1).unsqueeze(-1)
    unit = unit_matrix(A, A.array.shape[-1])
    found = cholesky_factor("cholesky_ex", where(bad, unit, A), upper)
    return CholeskyAndInfo(found.masked_fill(bad, nan), info)


@operator
def qr(A: Tensor, mode: str = "reduced") -> QR:
    """Return (Q, R) with A = Q R, Q with orthonormal columns, R upper triangular; A (..., M, N), K = min(M, N).

    mode: "reduced", Q (..., M, K) and R (..., K, N); "complete", Q (..., M, M) and R (..., M, N), with gradients if
        M <= N; "r", an empty Q, and R (..., K, N)

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: A has fewer than 2 axes, or the mode is unknown.
    """
    if interpreters and (seen := interpreted(qr, locals())) is not None:
        return seen
    require_matrices("qr", A)
    return qr_factors("qr", A, mode)


@operator
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """Return (U, S, Vh) with A = U diag(S) Vh, S (..., K) in descending order, U and VhT with orthonormal columns.

    A (..., M, N), K = min(M, N); U (..., M, M) and Vh (..., N, N), or without ``full_matrices`` (..., M, K) and
    (..., K, N). The gradient of U and Vh is not finite where singular values are equal, and 0 for the columns
    beyond K. For a matrix that is not finite, all results are NaN.

    driver: must be None, since PyTorch's drivers are for GPUs

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: A has fewer than 2 axes, or a driver is given.
    """
    if interpreters and (seen := interpreted(svd, locals())) is not None:
        return seen
    require_matrices("svd", A)
    _refuse_driver("svd", driver)
    u, s, v = singular_vectors(A, as_flag("svd", "full_matrices", full_matrices))
    return SVD(u, s, transposed(v))


@operator(records=Svd)
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values (..., min(M, N)) of A (..., M, N), in descending order.

    driver: must be None, since PyTorch's drivers are for GPUs

    Raises: as ``svd``.
    """
    if interpreters and (seen := interpreted(svdvals, locals())) is not None:
        return seen
    require_matrices("svdvals", A)
    _refuse_driver("svdvals", driver)
    values: Tensor = Svd.apply(A)[1]
    return values


@operator(records=Eigh)
def eigh(A: Tensor, UPLO: str = "L") -> Eigen:
    """Return (eigenvalues, eigenvectors) of symmetric A (..., N, N): (..., N), ascending, and (..., N, N), as columns.

    UPLO: "L" reads the lower triangle of A, "U" the upper one

    The gradient of the eigenvectors is not finite where eigenvalues are equal.

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: the last two extents differ, or UPLO is neither "L" nor "U".
        LinAlgError: a matrix is not finite.
    """
    if interpreters and (seen := interpreted(eigh, locals())) is not None:
        return seen
    require_square("eigh", A)
    return Eigen(*Eigh.apply(A, "eigh", _upper("eigh", UPLO)))


@operator(records=Eigh)
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues (..., N) of symmetric matrices A (..., N, N), in ascending order.

    UPLO: "L" reads the lower triangle of A, "U" the upper one

    Raises: as ``eigh``.
    """
    if interpreters and (seen := interpreted(eigvalsh, locals())) is not None:
        return seen
    require_square("eigvalsh", A)
    values: Tensor = Eigh.apply(A, "eigvalsh", _upper("eigvalsh", UPLO))[0]
    return values


@operator
def matrix_rank(A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The rank (...,), int64: the number of singular values of A (..., M, N) above max(atol, rtol times the largest).

    atol, rtol: numbers, or Tensors (...,). Without both, rtol is max(M, N) times the type's precision.

    tol: the former name of atol; sets rtol to 0
    hermitian: A is symmetric, and only its lower triangle is read

    Raises: as ``linalg.pinv``.
    """
    if interpreters and (seen := interpreted(matrix_rank, locals())) is not None:
        return seen
    require_matrices("matrix_rank", A)
    hermitian = as_flag("matrix_rank", "hermitian", hermitian)
    if hermitian:
        require_square("matrix_rank", A)
    sizes = kernels.singular_values(A.array, hermitian)
    absolute, relative = tolerances("matrix_rank", A, *((atol, rtol) if tol is None else (tol, 0.0)))
    return wrap(kernels.singular_rank(sizes, absolute, relative))


def cholesky_factor(name: str, x: Tensor, upper: bool) -> Tensor:
    """Compute the Cholesky factor, see ``cholesky``."""
    if as_flag(name, "upper", upper):
        return transposed(Cholesky.apply(transposed(x), name))
    return Cholesky.apply(x, name)


def qr_factors(name: str, x: Tensor, mode: str) -> QR:
    """Compute ``qr``."""
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"{name}: mode={mode!r} must be 'reduced', 'complete' or 'r'")
    m, n = x.array.shape[-2:]
    if mode == "complete" and m > n:
        if x.requires_grad:
            raise ValueError(
                f"{name}: mode='complete' has no gradient for A.shape={x.array.shape} with M > N; use 'reduced', or "
                "A.detach()"
            )
        q, r = kernels.qr(x.array, True)
        return QR(wrap(q), wrap(r))
    if m < n:  # the first M columns determine Q
        first, rest = x[..., :m], x[..., m:]
        q, r = Qr.apply(first)
        found = QR(q, cat((r, transposed(q) @ rest), -1))
    else:
        found = QR(*Qr.apply(x))
    return found if mode != "r" else QR(wrap(empty(0, x.array.dtype, like=x.array)), found.R)


def singular_vectors(x: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return u, s and v, with all columns if ``full``."""
    u, s, v = Svd.apply(x)
    m, n = x.array.shape[-2:]
    if full and m != n:
        rest = wrap(kernels.svd_complement(x.array))
        u, v = (cat((u, rest), -1), v) if m > n else (u, cat((v, rest), -1))
    return u, s, v


def _upper(name: str, triangle: str) -> bool:
    if triangle not in ("L", "U", "l", "u"):
        raise ValueError(f"{name}: UPLO={triangle!r} must be 'L' or 'U'")
    return triangle in "Uu"


def _refuse_driver(name: str, driver: Any) -> None:
    if driver is not None:
        raise ValueError(f"{name}: driver={driver!r} is for GPUs; there is one device, the CPU: leave it out")
