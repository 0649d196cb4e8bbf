"""LDL factorization of symmetric matrices with diagonal pivoting, and solving with its factors.

With the rows and columns in the order P, A is L D LT: D has blocks of 1 and 2 rows on its diagonal, L is a lower
triangle with ones on its diagonal and zeros in these blocks. The gradient takes the order and the blocks as constant.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...arrays import any_true, integers
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import as_flag, kind_of, require_same
from ..index.gather import take_along_dim
from ..shape.broadcasting import broadcast_shape
from ..shape.shape import reshaped
from .lu import first_position, rows_in_order
from .matrices import LinAlgError, matrix_at, require_matrices, require_square, transposed, unit_matrix
from .solving import Solve

__all__: list[str] = []


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
    """Arrays that follow from the pivots."""

    order: np.ndarray  # (..., N): row i of L belongs to row order[i] of A
    rows: np.ndarray  # (..., N, N): L[i, j] is stored at [rows[i, j], j]
    blocks: np.ndarray  # (..., N, N) bool: the elements of D in the lower triangle


class Ldl(Function):
    """Symmetric x (..., N, N) as L and D in one lower triangle, pivots and info, as LAPACK's sytrf gives them.

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
        """In the order P: L^-T (gD + the part of LT gL D^-1 below the blocks) L^-1, made symmetric"""
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
    """(LD, pivots) of symmetric matrices A (..., N, N), for ``linalg.ldl_solve``; they need not be definite.

    LD (..., N, N) holds D on the diagonal, and directly below it in a block of two rows, and L below these blocks.
    pivots (..., N), int32: in step i, counted from 1, row and column i were exchanged with pivots[i]; in a block of
    two, whose pivots are negative, those of the second row with -pivots[i]. Only the lower triangle of A is read; its
    gradient is symmetric.

    hermitian: changes nothing, as real symmetric matrices are Hermitian

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: the last two extents differ.
        LinAlgError: D has a 0 on its diagonal, in a block of one row.
    """
    if interpreters and (seen := interpreted(ldl_factor, locals())) is not None:
        return seen
    return LDLFactors(*_factored("ldl_factor", A, hermitian, True)[:2])


@operator(records=Ldl)
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorsAndInfo:
    """(LD, pivots, info): ``ldl_factor``, and info (...,), int32: the position, from 1, of the first block of D that is
    0; 0 if there is none.

    hermitian: changes nothing, as real symmetric matrices are Hermitian
    check_errors: raise LinAlgError where info is not 0

    Raises: as ``ldl_factor``, but LinAlgError only with ``check_errors``.
    """
    if interpreters and (seen := interpreted(ldl_factor_ex, locals())) is not None:
        return seen
    check = as_flag("ldl_factor_ex", "check_errors", check_errors)
    return LDLFactorsAndInfo(*_factored("ldl_factor_ex", A, hermitian, check))


@operator(records=Solve)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A X = B, from ``linalg.ldl_factor(A)``; LD (..., N, N), pivots (..., N), B (..., N, K).

    Leading axes broadcast.

    hermitian: changes nothing, as real symmetric matrices are Hermitian

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
    structure = _structure(_checked(LD, pivots))
    n = LD.array.shape[-1]
    if B.array.shape[-2] != n:
        raise ValueError(f"ldl_solve: B.shape={B.array.shape} must be (..., {n}, K), for LD.shape={LD.array.shape}")
    broadcast_shape("ldl_solve", LD.array.shape[:-2], B.array.shape[:-2])
    lower, diagonal = _unpacked(LD, structure)
    y = Solve.apply(lower, rows_in_order(B, structure.order), "ldl_solve")
    y = Solve.apply(transposed(lower), Solve.apply(diagonal, y, "ldl_solve"), "ldl_solve")
    return rows_in_order(y, kernels.inverse_permutation(structure.order))


def _factored(name: str, x: Tensor, hermitian: Any, check: bool) -> tuple[Tensor, Tensor, Tensor]:
    require_square(name, x)
    as_flag(name, "hermitian", hermitian)
    factors, pivots, info = Ldl.apply(x)
    if check and any_true(info.array, "whether a block of D is 0"):
        index, position = first_position(info.array)
        raise LinAlgError(
            f"{name}: element {position} of D is 0, so {matrix_at(index, x.array.shape)} is singular; "
            "linalg.ldl_factor_ex returns the factors nevertheless"
        )
    return factors, pivots, info


def _structure(pivots: np.ndarray) -> _Structure:
    return _Structure(*kernels.ldl_structure(pivots))


def _checked(ld: Tensor, pivots: Any) -> np.ndarray:
    """The array of pivots that a user gives."""
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
    """x below the blocks of D, 0 elsewhere."""
    return x.tril(-1).masked_fill(wrap(structure.blocks), 0.0)


def _unpacked(factors: Tensor, structure: _Structure) -> tuple[Tensor, Tensor]:
    """L and D."""
    unit = unit_matrix(factors, factors.array.shape[-1])
    lower = take_along_dim(_below(factors, structure), wrap(structure.rows), -2) + unit
    half = factors.masked_fill(~wrap(structure.blocks), 0.0)
    return lower, half + transposed(half.tril(-1))
