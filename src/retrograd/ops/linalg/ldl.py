"""LDL factorization of symmetric matrices with diagonal pivoting, and solving with its factors.

With the rows and columns in the order P, A is L D LT: D has blocks of 1 and 2 rows on its diagonal, L is a lower
triangle with ones on its diagonal and zeros in these blocks. The gradient takes the order and the blocks as constant.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Any, NamedTuple

import numpy as np

from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ..arguments.checks import as_flag, kind_of, require_same
from ..index.gather import take_along_dim
from ..shape.broadcasting import broadcast_shape
from .lu import rows_in_order
from .matrices import LinAlgError, require_matrices, require_square, transposed
from .solving import Solve

__all__: list[str] = []

_ALPHA = (1 + sqrt(17)) / 8  # it bounds the growth of elements of both kinds of blocks alike


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
        a = np.tril(x.array)
        pivots, info = np.empty(x.array.shape[:-1], np.int32), np.zeros(x.array.shape[:-2], np.int32)
        with np.errstate(all="ignore"):  # elements that are not finite
            for place in np.ndindex(info.shape):
                info[place] = _eliminate(a[place], pivots[place])
        factors, places, first = wrap(np.tril(a)), wrap(pivots), wrap(info)
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
        inner = inner + g.masked_fill(wrap(~structure.blocks), 0.0)
        left = Solve.apply(lt, inner, "ldl_factor")
        gx = Solve.apply(lt, transposed(left), "ldl_factor")
        back = np.argsort(structure.order, -1)
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
    return rows_in_order(y, np.argsort(structure.order, -1))


def _factored(name: str, x: Tensor, hermitian: Any, check: bool) -> tuple[Tensor, Tensor, Tensor]:
    require_square(name, x)
    as_flag(name, "hermitian", hermitian)
    factors, pivots, info = Ldl.apply(x)
    if check and info.array.any():
        place = tuple(map(int, np.argwhere(info.array)[0]))
        which = f"A[{', '.join(map(str, place))}]" if place else "A"
        raise LinAlgError(
            f"{name}: element {int(info.array[place])} of D is 0, so {which} is singular; linalg.ldl_factor_ex returns "
            "the factors nevertheless"
        )
    return factors, pivots, info


def _eliminate(a: np.ndarray, pivots: np.ndarray) -> int:
    """Replace the lower triangle of a (N, N) by L and D, and set the pivots; the first zero block, from 1, or 0."""
    n, k, info = len(a), 0, 0
    while k < n:
        row, pair = _pivot(a, k)
        if row < 0:  # a column of zeros
            info, row = info or k + 1, k
        else:
            _exchange(a, k, k + pair, row)
            end = k + 1 + pair
            block = a[k:end, k:end]
            whole = np.tril(block) + np.tril(block, -1).T
            below = a[end:, k:end]
            scaled = np.linalg.solve(whole, below.T).T if pair else below / whole
            a[end:, end:] -= scaled @ below.T
            a[end:, k:end] = scaled
        pivots[k : k + 1 + pair] = -row - 1 if pair else row + 1
        k += 1 + pair
    return info


def _pivot(a: np.ndarray, k: int) -> tuple[int, bool]:
    """The row for step k, and whether it is the second of a block of two; -1 if the column is 0 or NaN."""
    own = abs(a[k, k])
    column = np.abs(a[k + 1 :, k])
    largest = column.max(initial=0)
    if np.isnan(own) or max(own, largest) == 0:
        return -1, False
    if own >= _ALPHA * largest:
        return k, False
    row = k + 1 + int(column.argmax())
    other = max(np.abs(a[row, k:row]).max(initial=0), np.abs(a[row + 1 :, row]).max(initial=0))
    if own >= _ALPHA * largest * (largest / other):
        return k, False
    return row, not abs(a[row, row]) >= _ALPHA * other


def _exchange(a: np.ndarray, k: int, first: int, second: int) -> None:
    """Swap rows and columns of the symmetric matrix whose lower triangle is a[k:, k:]."""
    if first == second:
        return
    whole = np.tril(a[k:, k:]) + np.tril(a[k:, k:], -1).T
    order = np.arange(len(whole))
    order[first - k], order[second - k] = second - k, first - k
    a[k:, k:] = np.tril(whole[order][:, order])


def _structure(pivots: np.ndarray) -> _Structure:
    *lead, n = pivots.shape
    count = prod(lead)
    order = np.broadcast_to(np.arange(n), (count, n)).copy()
    rows = np.broadcast_to(np.arange(n)[:, np.newaxis], (count, n, n)).copy()
    blocks = np.broadcast_to(np.eye(n, dtype=bool), (count, n, n)).copy()
    for own, order_of, rows_of, blocks_of in zip(pivots.reshape(count, n), order, rows, blocks, strict=True):
        k = 0
        while k < n:
            pair = bool(own[k] < 0)
            first, second = k + pair, abs(int(own[k])) - 1
            order_of[[first, second]] = order_of[[second, first]]
            rows_of[[first, second], :k] = rows_of[[second, first], :k]
            if pair:
                blocks_of[k + 1, k] = True
            k += 1 + pair
    return _Structure(order.reshape(*lead, n), rows.reshape(*lead, n, n), blocks.reshape(*lead, n, n))


def _checked(ld: Tensor, pivots: Any) -> np.ndarray:
    """The array of pivots that a user gives."""
    if not isinstance(pivots, Tensor) or pivots.array.dtype.kind not in "iu":
        raise TypeError(
            f"ldl_solve: pivots is {kind_of(pivots)}, needs integers: the pivots of retrograd.linalg.ldl_factor"
        )
    found = pivots.array.astype(np.int64)
    if found.shape != ld.array.shape[:-1]:
        raise ValueError(
            f"ldl_solve: pivots.shape={found.shape} must be {ld.array.shape[:-1]}, for LD.shape={ld.array.shape}"
        )
    n = found.shape[-1]
    for own in found.reshape(prod(found.shape[:-1]), n).tolist():
        k = 0
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
    unit = wrap(np.eye(factors.array.shape[-1], dtype=factors.array.dtype))
    lower = take_along_dim(_below(factors, structure), wrap(structure.rows), -2) + unit
    half = factors.masked_fill(wrap(~structure.blocks), 0.0)
    return lower, half + transposed(half.tril(-1))
