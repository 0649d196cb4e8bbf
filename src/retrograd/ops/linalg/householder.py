"""Orthogonal matrices as products of Householder reflections.

The reflections are H_i = 1 - tau_i v_i v_iT, where column v_i of V (..., M, K) is 0 above the diagonal and 1 on it.
Their product is H_1 H_2 ... H_K = 1 - V T VT with an upper triangle T. Source: R. Schreiber, C. Van Loan, "A
storage-efficient WY representation for products of Householder transformations", 1989.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...arrays import zeros
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import as_flag, require_same
from ..shape.join import cat
from .matrices import require_matrices, transposed, unit_matrix
from .solving import Solve

__all__: list[str] = []


class Reflections(NamedTuple):
    """The result of ``geqrf``."""

    a: Tensor
    tau: Tensor


class Geqrf(Function):
    """x (..., M, N) = Q R as LAPACK holds it: R and the vectors of the reflections in one matrix, and tau (..., K).

    The gradient goes through Q: 1 - Q = V (T VT) is an LU factorization, and tau the diagonal of its second factor.
    Sources: G. Ballard et al., "Reconstructing Householder vectors from tall-skinny QR", 2014; that of Q and R is
    S. Walter, L. Lehmann, "Algorithmic differentiation of linear algebra functions", 2010.
    """

    gradient = "x: (gQ + Q M) R**-T with M of gR and QT gQ, as for the factors Q and R"

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
        k, j = min(m, n), max(0, min(m - 1, n))  # reflection M of a square or wide matrix is 1
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
    """The first N columns (..., M, N) of the product of the reflections that ``geqrf`` gives.

    A (..., M, N) with M >= N, whose columns hold the vectors below the diagonal; tau (..., K), K <= N

    Raises:
        TypeError: A and tau are not floating-point Tensors of one type.
        ValueError: the shapes do not fit.
    """
    if interpreters and (seen := interpreted(householder_product, locals())) is not None:
        return seen
    return columns_of_product("householder_product", "A", A, tau)


def columns_of_product(name: str, label: str, A: Tensor, tau: Tensor) -> Tensor:
    """See ``householder_product``; ``label`` is the name of A in the caller."""
    _check(name, label, A, tau)
    m, n = A.array.shape[-2:]
    if m < n:
        raise ValueError(f"{name}: {label}.shape={A.array.shape} must not have more columns than rows")
    return _product(A, tau, unit_matrix(A, m, n), False)


def multiplied(name: str, input: Tensor, tau: Tensor, other: Tensor, left: bool, transpose: bool) -> Tensor:
    """See ``ormqr``."""
    _check(name, "input", input, tau)
    require_matrices(name, other, "other")
    require_same(name, "input", input, "other", other)
    left, transpose = as_flag(name, "left", left), as_flag(name, "transpose", transpose)
    rows, have = input.array.shape[-2], other.array.shape
    lead = input.array.shape[:-2]
    if have[-2 if left else -1] != rows or have[:-2] != lead:
        axes = f"{rows}, N" if left else f"M, {rows}"
        wanted = f"({', '.join(map(str, lead))}{', ' if lead else ''}{axes})"
        raise ValueError(
            f"{name}: other.shape={have} must be {wanted} for left={left} and input.shape={input.array.shape}"
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
        wanted = f"({''.join(f'{extent}, ' for extent in lead)}K)"
        raise ValueError(
            f"{name}: tau.shape={have} must be {wanted} with K at most {min(m, n)}, for {label}.shape={a.array.shape}"
        )


def _product(a: Tensor, tau: Tensor, c: Tensor, transpose: bool) -> Tensor:
    """Q c, or QT c, with Q = 1 - V T VT"""
    v, t = _factors(a, tau)
    right, scales = transposed(v) @ c, tau.unsqueeze(-1)
    if transpose:
        return c - v @ (scales * Solve.apply(transposed(t), right, "householder_product"))
    return c - v @ Solve.apply(t, scales * right, "householder_product")


def _factors(a: Tensor, tau: Tensor) -> tuple[Tensor, Tensor]:
    """V (..., M, K), and the triangle (..., K, K), 1 + diag(tau) triu(VT V, 1), with T = triangle^-1 diag(tau)."""
    m, k = a.array.shape[-2], tau.array.shape[-1]
    v = a[..., :k].tril(-1) + unit_matrix(a, m, k)
    unit = unit_matrix(a, k)
    return v, unit + tau.unsqueeze(-1) * (transposed(v) @ v).triu(1)


def _over(x: Tensor, u: Tensor) -> Tensor:
    """x u^-T"""
    return transposed(Solve.apply(u, transposed(x), "geqrf"))
