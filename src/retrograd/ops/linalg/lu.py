"""LU and LDL factorizations, and linear solvers that use their factors.

LU: A = P L U, with the permutation P constant in the gradient. Source: S. Walter, L. Lehmann, "Algorithmic
differentiation of linear algebra functions", 2010.

LDL: with the rows and columns in the order P, A is L D LT. D is block diagonal with 1x1 and 2x2 blocks; L is unit
lower triangular, with zeros inside the blocks. The order and the blocks are constant in the gradient.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...arrays import any_true, empty, extremes, integers
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_flag, as_truth, kind_of, require_same
from ..index.gather import take_along_dim
from ..shape.broadcasting import broadcast_shape
from ..shape.join import cat
from ..shape.shape import reshape, reshaped
from .solving import LinAlgError, Solve, matrix_at, require_matrices, require_square, transposed, unit_matrix

__all__: list[str] = []


# ---- LU factorization with partial pivoting --------------------------------------------------------------------------


class LU(NamedTuple):
    """The result of ``linalg.lu`` and ``lu_unpack``: A = P L U."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactors(NamedTuple):
    """The result of ``linalg.lu_factor``."""

    LU: Tensor
    pivots: Tensor


class LUFactorsAndInfo(NamedTuple):
    """The result of ``linalg.lu_factor_ex``."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class Lu(Function):
    """L (below the diagonal) and U of x (..., M, N) in one matrix, and the row exchanges (..., K), K = min(M, N)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pivot: bool) -> tuple[Tensor, Tensor]:
        factors, exchanges = kernels.lu_factor(x.array, pivot)
        lu, pivots = wrap(factors), wrap(exchanges)
        ctx.save_for_backward(lu)
        ctx.inverse_order = kernels.inverse_permutation(kernels.lu_order(exchanges, x.array.shape[-2]))
        ctx.mark_non_differentiable(pivots)
        return lu, pivots

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        """Return L^-T (tril(LT gL, -1) + triu(gU UT)) U^-T, for P = 1 and square factors."""
        (lu,) = ctx.saved_tensors
        m, n = lu.array.shape[-2:]
        k = min(m, n)
        lower, upper, gl, gu = _lower(lu), _upper(lu), g[..., :k].tril(-1), g[..., :k, :].triu()
        lt, u = transposed(lower[..., :k, :]), upper[..., :k]
        below = lt @ gl[..., :k, :]
        above = gu[..., :k] @ transposed(u)
        if m > k:
            above = above - transposed(lower[..., k:, :]) @ gl[..., k:, :]
        if n > k:
            below = below - gu[..., k:] @ transposed(upper[..., k:])
        gx = _over(Solve.apply(lt, below.tril(-1) + above.triu(), "lu"), u)
        if m > k:
            gx = cat((gx, _over(gl[..., k:, :], u)), -2)
        if n > k:
            gx = cat((gx, Solve.apply(lt, gu[..., k:], "lu")), -1)
        return rows_in_order(gx, ctx.inverse_order), None


@operator(records=Lu)
def lu(A: Tensor, *, pivot: bool = True) -> LU:
    """Return (P, L, U) with A = P L U: a permutation, a unit lower triangular and an upper triangular matrix.

    A (..., M, N), K = min(M, N); P (..., M, M), L (..., M, K), U (..., K, N). P has no gradient. Gradients need a
    nonsingular leading block (K, K) of PT A.

    pivot: if False, no rows are exchanged and P is empty. The factors are infinite or NaN where a pivot is 0.

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: A has fewer than 2 axes.
    """
    if interpreters and (seen := interpreted(lu, locals())) is not None:
        return seen
    require_matrices("lu", A)
    pivot = as_flag("lu", "pivot", pivot)
    found, pivots = Lu.apply(A, pivot)
    permutation = _permutation(pivots.array, A) if pivot else _empty(A)
    return LU(permutation, _lower(found), _upper(found))


@operator(records=Lu)
def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactors:
    """Return (LU, pivots): the factors of ``lu`` in one matrix, for ``linalg.lu_solve``.

    A (..., M, N), K = min(M, N); LU (..., M, N) contains U, and L without its diagonal; pivots (..., K), int32: in step
    i, counted from 1, row i was exchanged with row pivots[i].

    pivot: if False, no rows are exchanged

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: A has fewer than 2 axes.
        LinAlgError: the diagonal of U has a 0.
    """
    if interpreters and (seen := interpreted(lu_factor, locals())) is not None:
        return seen
    require_matrices("lu_factor", A)
    return LUFactors(*_factored("lu_factor", A, pivot, True)[:2])


@operator(records=Lu)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorsAndInfo:
    """Return (LU, pivots, info): ``lu_factor`` without exceptions, and the position of a failure.

    info (...,), int32: the position, from 1, of the first 0 on the diagonal of U; 0 if there is none
    check_errors: raise LinAlgError where info is not 0
    pivot: if False, no rows are exchanged

    Raises: as ``lu_factor``, but LinAlgError only with ``check_errors``.
    """
    if interpreters and (seen := interpreted(lu_factor_ex, locals())) is not None:
        return seen
    require_matrices("lu_factor_ex", A)
    return LUFactorsAndInfo(*_factored("lu_factor_ex", A, pivot, as_flag("lu_factor_ex", "check_errors", check_errors)))


@operator
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Solve A X = B, or X A = B if not ``left``, given ``linalg.lu_factor(A)``; leading axes broadcast.

    LU (..., N, N), pivots (..., N), B (..., N, K), or (..., K, N) if not ``left``

    adjoint: solve with AT instead of A

    Raises:
        TypeError: LU and B are not floating-point Tensors of one type, or pivots are not integers.
        ValueError: the shapes do not fit, or a pivot is not a valid row.
        LinAlgError: the diagonal of U has a 0.
    """
    if interpreters and (seen := interpreted(lu_solve, locals())) is not None:
        return seen
    left, adjoint = as_flag("lu_solve", "left", left), as_flag("lu_solve", "adjoint", adjoint)
    return lu_solution("lu_solve", {"LU": LU, "pivots": pivots, "B": B}, left, adjoint)


@operator
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> LU:
    """Return (P, L, U) from the result of ``linalg.lu_factor``; see ``linalg.lu``.

    unpack_data: if False, L and U are empty
    unpack_pivots: if False, P is empty

    Raises:
        TypeError: LU_data is not a floating-point Tensor, or LU_pivots are not integers.
        ValueError: the shapes do not fit, or a pivot is not a valid row.
    """
    if interpreters and (seen := interpreted(lu_unpack, locals())) is not None:
        return seen
    require_matrices("lu_unpack", LU_data, "LU_data")
    exchanges = _checked("lu_unpack", "LU_data", LU_data, "LU_pivots", LU_pivots)
    data = as_flag("lu_unpack", "unpack_data", unpack_data)
    unpacked = as_flag("lu_unpack", "unpack_pivots", unpack_pivots)
    permutation = _permutation(exchanges, LU_data) if unpacked else _empty(LU_data)
    lower, upper = (_lower(LU_data), _upper(LU_data)) if data else (_empty(LU_data), _empty(LU_data))
    return LU(permutation, lower, upper)


def factors_with_info(name: str, A: Tensor, pivot: Any, get_infos: Any) -> tuple[Tensor, ...]:
    """Return (LU, pivots), or (LU, pivots, info) without exceptions, as ``torch.lu`` does."""
    infos = as_truth(name, "get_infos", get_infos)
    return _factored(name, A, pivot, not infos)[: 3 if infos else 2]


def lu_solution(name: str, operands: dict[str, Tensor], left: bool, adjoint: bool) -> Tensor:
    """Solve A X = B; ``operands`` are LU, pivots and B under the names of the caller's arguments."""
    (lu_name, lu), (pivot_name, pivots), (b_name, b) = operands.items()
    require_square(name, lu, lu_name)
    require_matrices(name, b, b_name)
    require_same(name, lu_name, lu, b_name, b)
    exchanges = _checked(name, lu_name, lu, pivot_name, pivots)
    n, right = lu.array.shape[-1], b if left else transposed(b)
    if right.array.shape[-2] != n:
        expected = f"(..., {n}, K)" if left else f"(..., K, {n})"
        raise ValueError(
            f"{name}: {b_name}.shape={b.array.shape} must be {expected}, for {lu_name}.shape={lu.array.shape}"
        )
    broadcast_shape(name, lu.array.shape[:-2], right.array.shape[:-2])
    order, lower, upper = kernels.lu_order(exchanges, n), _lower(lu), _upper(lu)
    if adjoint == left:  # solve with the transposed matrix: X A = B is AT XT = BT
        y = Solve.apply(transposed(lower), Solve.apply(transposed(upper), right, name), name)
        y = rows_in_order(y, kernels.inverse_permutation(order))
    else:
        y = Solve.apply(upper, Solve.apply(lower, rows_in_order(right, order), name), name)
    return y if left else transposed(y)


def _factored(name: str, x: Tensor, pivot: Any, check: bool) -> tuple[Tensor, Tensor, Tensor]:
    found, pivots = Lu.apply(x, as_flag(name, "pivot", pivot))
    info = kernels.zero_pivot(found.array)
    if check and any_true(info, "whether a pivot is 0"):
        index, position = first_position(info)
        raise LinAlgError(
            f"{name}: element {position} of the diagonal of U is 0, so the factors of "
            f"{matrix_at(index, x.array.shape)} cannot solve equations; use linalg.lu or linalg.lu_factor_ex, which "
            "return them anyway"
        )
    return found, pivots, wrap(info)


def first_position(info: np.ndarray) -> tuple[int, int]:
    """Return the flat index, over all leading axes, of the first matrix whose info is not 0, and its info."""
    found = integers(info.reshape(-1), "where a factorization found a 0")
    return next((index, position) for index, position in enumerate(found) if position)


def _permutation(pivots: np.ndarray, x: Tensor) -> Tensor:
    """Return P (..., M, M) with A = P L U."""
    return wrap(kernels.permutation_matrix(kernels.lu_order(pivots, x.array.shape[-2]), x.array.dtype))


def _empty(x: Tensor) -> Tensor:
    return wrap(empty(0, x.array.dtype, like=x.array))


def _checked(name: str, lu_name: str, lu: Tensor, pivot_name: str, pivots: Any) -> np.ndarray:
    """Check the pivots passed by a user and return their array."""
    if not isinstance(pivots, Tensor) or pivots.array.dtype.kind not in "iu":
        raise TypeError(
            f"{name}: {pivot_name} is {kind_of(pivots)}, needs integers: the pivots of retrograd.linalg.lu_factor"
        )
    found: np.ndarray = pivots.array
    m, n = lu.array.shape[-2:]
    expected = (*lu.array.shape[:-2], min(m, n))
    if found.shape != expected:
        raise ValueError(
            f"{name}: {pivot_name}.shape={found.shape} must be {expected}, for {lu_name}.shape={lu.array.shape}"
        )
    if found.size:
        least, most = extremes(found, "whether pivots are rows")
        if not 1 <= least <= most <= m:
            raise ValueError(f"{name}: {pivot_name} lie between {least} and {most}, but must be rows from 1 to {m}")
    return kernels.cast(found, np.dtype(np.int64))


def _lower(lu: Tensor) -> Tensor:
    m, n = lu.array.shape[-2:]
    k = min(m, n)
    return lu[..., :k].tril(-1) + unit_matrix(lu, m, k)


def _upper(lu: Tensor) -> Tensor:
    return lu[..., : min(lu.array.shape[-2:]), :].triu()


def _over(x: Tensor, u: Tensor) -> Tensor:
    """x u^-T"""
    return transposed(Solve.apply(u, transposed(x), "lu"))


def rows_in_order(x: Tensor, order: np.ndarray) -> Tensor:
    """Return the rows of x (..., M, N) in an order (..., M); leading axes broadcast."""
    missing = order.ndim + 1 - x.array.ndim
    if missing > 0:
        x = reshape(x, (1,) * missing + x.array.shape)
    index = order.reshape((1,) * -missing + order.shape + (1,)) if missing < 0 else order[..., np.newaxis]
    return take_along_dim(x, wrap(index), -2)


# ---- LDL factorization of symmetric matrices with diagonal pivoting --------------------------------------------------


class LDLFactors(NamedTuple):
    """The result of ``linalg.ldl_factor``."""

    LD: Tensor
    pivots: Tensor


class LDLFactorsAndInfo(NamedTuple):
    """The result of ``linalg.ldl_factor_ex``."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


class _Structure(NamedTuple):
    """Arrays derived from the pivots."""

    order: np.ndarray  # (..., N): row i of L belongs to row order[i] of A
    rows: np.ndarray  # (..., N, N): L[i, j] is stored at [rows[i, j], j]
    blocks: np.ndarray  # (..., N, N) bool: the elements of D in the lower triangle


class Ldl(Function):
    """Symmetric x (..., N, N) as L and D in one lower triangle, pivots and info, as LAPACK's sytrf returns them.

    Source of the factorization: J. Bunch, L. Kaufman, "Some stable methods for calculating inertia and solving
    symmetric linear systems", 1977.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found, pivots, info = kernels.ldl_factor(x.array)
        factors, places, first = wrap(found), wrap(pivots), wrap(info)
        ctx.save_for_backward(factors)
        ctx.structure = _structure(pivots)
        ctx.mark_non_differentiable(places, first)
        return factors, places, first

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> Tensor:
        """Return L^-T (gD + the part of LT gL D^-1 below the blocks) L^-1, symmetrized, in the order P."""
        (factors,) = ctx.saved_tensors
        structure: _Structure = ctx.structure
        lower, diagonal = _unpacked(factors, structure)
        lt = transposed(lower)
        gl = take_along_dim(_below(g, structure), wrap(structure.rows), -2)
        inner = _below(transposed(Solve.apply(diagonal, transposed(lt @ gl), "ldl_factor")), structure)
        inner = inner + g.masked_fill(~wrap(structure.blocks), 0.0)
        left = Solve.apply(lt, inner, "ldl_factor")
        gx = Solve.apply(lt, transposed(left), "ldl_factor")
        back = kernels.inverse_permutation(structure.order)
        return rows_in_order(transposed(rows_in_order((gx + transposed(gx)) * 0.5, back)), back)


@operator(records=Ldl)
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> LDLFactors:
    """Return (LD, pivots) of symmetric, possibly indefinite matrices A (..., N, N), for ``linalg.ldl_solve``.

    LD (..., N, N) contains the 1x1 and 2x2 blocks of D (their lower triangles), and L below them.
    pivots (..., N), int32: in step i, counted from 1, row and column i were exchanged with pivots[i]. The pivots of a
    2x2 block are negative, and its second row and column i were exchanged with -pivots[i]. Only the lower triangle of
    A is read; its gradient is symmetric.

    hermitian: no effect, since real symmetric matrices are Hermitian

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: the last two extents differ.
        LinAlgError: a 1x1 block of D is 0.
    """
    if interpreters and (seen := interpreted(ldl_factor, locals())) is not None:
        return seen
    return LDLFactors(*_ldl_factored("ldl_factor", A, hermitian, True)[:2])


@operator(records=Ldl)
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorsAndInfo:
    """Return (LD, pivots, info): ``ldl_factor`` without exceptions, and the position of a failure.

    info (...,), int32: the position, from 1, of the first block of D that is 0; 0 if there is none
    hermitian: no effect, since real symmetric matrices are Hermitian
    check_errors: raise LinAlgError where info is not 0

    Raises: as ``ldl_factor``, but LinAlgError only with ``check_errors``.
    """
    if interpreters and (seen := interpreted(ldl_factor_ex, locals())) is not None:
        return seen
    check = as_flag("ldl_factor_ex", "check_errors", check_errors)
    return LDLFactorsAndInfo(*_ldl_factored("ldl_factor_ex", A, hermitian, check))


@operator(records=Solve)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """Solve A X = B, given ``linalg.ldl_factor(A)``; LD (..., N, N), pivots (..., N), B (..., N, K).

    Leading axes broadcast.

    hermitian: no effect, since real symmetric matrices are Hermitian

    Raises:
        TypeError: LD and B are not floating-point Tensors of one type, or pivots are not integers.
        ValueError: the shapes do not fit, or pivots are not those of an LDL factorization.
        LinAlgError: D is singular.
    """
    if interpreters and (seen := interpreted(ldl_solve, locals())) is not None:
        return seen
    as_flag("ldl_solve", "hermitian", hermitian)
    require_square("ldl_solve", LD, "LD")
    require_matrices("ldl_solve", B, "B")
    require_same("ldl_solve", "LD", LD, "B", B)
    structure = _structure(_checked_ldl(LD, pivots))
    n = LD.array.shape[-1]
    if B.array.shape[-2] != n:
        raise ValueError(f"ldl_solve: B.shape={B.array.shape} must be (..., {n}, K), for LD.shape={LD.array.shape}")
    broadcast_shape("ldl_solve", LD.array.shape[:-2], B.array.shape[:-2])
    lower, diagonal = _unpacked(LD, structure)
    y = Solve.apply(lower, rows_in_order(B, structure.order), "ldl_solve")
    y = Solve.apply(transposed(lower), Solve.apply(diagonal, y, "ldl_solve"), "ldl_solve")
    return rows_in_order(y, kernels.inverse_permutation(structure.order))


def _ldl_factored(name: str, x: Tensor, hermitian: Any, check: bool) -> tuple[Tensor, Tensor, Tensor]:
    require_square(name, x)
    as_flag(name, "hermitian", hermitian)
    factors, pivots, info = Ldl.apply(x)
    if check and any_true(info.array, "whether a block of D is 0"):
        index, position = first_position(info.array)
        raise LinAlgError(
            f"{name}: element {position} of D is 0, so {matrix_at(index, x.array.shape)} is singular; "
            "linalg.ldl_factor_ex returns the factors anyway"
        )
    return factors, pivots, info


def _structure(pivots: np.ndarray) -> _Structure:
    return _Structure(*kernels.ldl_structure(pivots))


def _checked_ldl(ld: Tensor, pivots: Any) -> np.ndarray:
    """Check the pivots passed by a user and return their array."""
    if not isinstance(pivots, Tensor) or pivots.array.dtype.kind not in "iu":
        raise TypeError(
            f"ldl_solve: pivots is {kind_of(pivots)}, needs integers: the pivots of retrograd.linalg.ldl_factor"
        )
    found: np.ndarray = kernels.cast(pivots.array, np.dtype(np.int64))
    if found.shape != ld.array.shape[:-1]:
        raise ValueError(
            f"ldl_solve: pivots.shape={found.shape} must be {ld.array.shape[:-1]}, for LD.shape={ld.array.shape}"
        )
    n = found.shape[-1]
    every = integers(reshaped(found, (-1,)), "whether pivots are those of a factorization")
    for begin in range(0, len(every), max(n, 1)):
        own, k = every[begin : begin + n], 0
        while k < n:
            pair = own[k] < 0
            if not k + pair < abs(own[k]) <= n or (pair and own[k : k + 2] != [own[k]] * 2):
                raise ValueError(
                    f"ldl_solve: pivots={own} cannot be those of an LDL factorization of {n} rows: entry {k} must be "
                    f"from {k + 1} to {n}, or negative and equal to its successor; take LD and pivots from "
                    "retrograd.linalg.ldl_factor"
                )
            k += 1 + pair
    return found


def _below(x: Tensor, structure: _Structure) -> Tensor:
    """Return x below the blocks of D, 0 elsewhere."""
    return x.tril(-1).masked_fill(wrap(structure.blocks), 0.0)


def _unpacked(factors: Tensor, structure: _Structure) -> tuple[Tensor, Tensor]:
    """Return L and D."""
    unit = unit_matrix(factors, factors.array.shape[-1])
    lower = take_along_dim(_below(factors, structure), wrap(structure.rows), -2) + unit
    half = factors.masked_fill(~wrap(structure.blocks), 0.0)
    return lower, half + transposed(half.tril(-1))
