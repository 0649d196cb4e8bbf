"""Linear equations and matrix inversion, with helpers shared by the matrix operators.

The gradient of a solution is again a solution, with the transposed matrix. Source: M. Giles, "Collected matrix
derivative results for forward and reverse mode algorithmic differentiation", 2008.
"""

from __future__ import annotations

from math import nan, prod
from typing import Any, NamedTuple

import numpy as np

from ...arrays import any_true, empty, eye, from_host, integers, number, zeros
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_flag, as_list, require_float, require_same
from ..pointwise.piecewise import where
from ..product.matmul import MatMul, swap_last
from ..shape.broadcasting import broadcast_shape, broadcasts_to, expand, sum_to
from ..shape.shape import reshape, unsqueeze

__all__: list[str] = []


# ---- Helpers shared by the matrix operators --------------------------------------------------------------------------


class LinAlgError(RuntimeError):
    """A matrix lacks a required property: it is singular, not positive definite, or not finite."""


def require_matrices(name: str, x: Any, label: str = "A") -> None:
    """Raise TypeError or ValueError unless x is a floating-point Tensor (..., M, N)."""
    require_float(name, x, label)
    if x.array.dtype.itemsize < 4:  # float16, which LAPACK does not support
        raise TypeError(f"{name}: {label} is {x.dtype}, needs float32 or float64; convert it with {label}.float()")
    if x.array.ndim < 2:
        raise ValueError(f"{name}: {label}.shape={x.array.shape} must have at least 2 axes: (..., M, N)")


def require_square(name: str, x: Any, label: str = "A") -> None:
    """Raise TypeError or ValueError unless x is a floating-point Tensor (..., N, N)."""
    require_matrices(name, x, label)
    rows, columns = x.array.shape[-2:]
    if rows != columns:
        raise ValueError(f"{name}: {label}.shape={x.array.shape} must end in equal extents: (..., N, N)")


def refuse(name: str, rule: str, first: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise LinAlgError for the matrix at the flat index ``first``, which breaks ``rule``; -1 means that none does."""
    index = number(first, "whether a matrix is refused")
    if index >= 0:
        where = f"{matrix_at(index, shape)} " if shape[:-2] else ""
        raise LinAlgError(f"{name}: the matrix {where}{rule}")


def matrix_at(index: int, shape: tuple[int, ...]) -> str:
    """Return the name of the matrix at a flat index over the leading axes of A: "A[1, 0]", or "A" without such axes."""
    place = [index // prod(shape[i + 1 : -2]) % extent for i, extent in enumerate(shape[:-2])]
    return f"A[{', '.join(map(str, place))}]" if place else "A"


def unit_matrix(x: Tensor, rows: int, columns: int | None = None) -> Tensor:
    """Return an identity matrix in the type of x; square by default."""
    return wrap(eye(rows, columns, x.array.dtype, like=x.array))


def transposed(x: Tensor) -> Tensor:
    """Return x (..., M, N) with its last two axes swapped."""
    return swap_last(x)


def symmetric(x: Tensor, upper: bool = False) -> Tensor:
    """Return the symmetric matrices with the lower (upper) triangles of x (..., N, N)."""
    half = x.triu() if upper else x.tril()
    rest = x.triu(1) if upper else x.tril(-1)
    return half + transposed(rest)


# ---- Linear equations and matrix inversion ---------------------------------------------------------------------------

_SINGULAR = "is singular and has no inverse; use linalg.pinv or linalg.lstsq"


class InverseAndInfo(NamedTuple):
    """The result of ``linalg.inv_ex``."""

    inverse: Tensor
    info: Tensor


class SolutionAndInfo(NamedTuple):
    """The result of ``linalg.solve_ex``."""

    result: Tensor
    info: Tensor


class LeastSquares(NamedTuple):
    """The result of ``linalg.lstsq``."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class TriangularSolution(NamedTuple):
    """The result of ``triangular_solve``: the solution and the matrix."""

    solution: Tensor
    cloned_coefficient: Tensor


class Inverse(Function):
    """The inverse y of x (..., N, N): the gradient is -yT g yT"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str) -> Tensor:
        found, first = kernels.inverse(x.array)
        refuse(name, _SINGULAR, first, x.array.shape)
        y = wrap(found)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        y = transposed(ctx.saved_tensors[0])
        return -(y @ g @ y), None


class Solve(Function):
    """The solution y of a y = b; a (..., N, N), b (..., N, K), whose leading axes broadcast"""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, name: str) -> Tensor:
        found, first = kernels.solve(a.array, b.array)
        refuse(name, _SINGULAR, first, a.array.shape)
        y = wrap(found)
        ctx.save_for_backward(a, y)
        ctx.shapes, ctx.operator = (a.array.shape, b.array.shape), name
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        a, y = ctx.saved_tensors
        gb = Solve.apply(transposed(a), g, ctx.operator)
        ga = sum_to(-MatMul.apply(gb, transposed(y)), ctx.shapes[0]) if ctx.needs_input_grad[0] else None
        return ga, sum_to(gb, ctx.shapes[1]), None


class PseudoInverse(Function):
    """The Moore-Penrose inverse y of x (..., M, N); singular values up to the limits count as 0.

    Source of the gradient, for a constant rank: G. Golub, V. Pereyra, "The differentiation of pseudo-inverses", 1973.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, atol: np.ndarray, rtol: np.ndarray) -> Tensor:
        y = wrap(kernels.pseudo_inverse(x.array, atol, rtol))
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        gt, yt = transposed(g), transposed(y)
        inner, outer = yt @ y, y @ yt  # (M, M), (N, N)
        gx = -(yt @ g @ yt) + inner @ gt - inner @ gt @ y @ x + gt @ outer - x @ (y @ (gt @ outer))
        return gx, None, None


@operator(records=Inverse)
def inv(A: Tensor) -> Tensor:
    """The inverses of the matrices A (..., N, N).

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: the last two extents differ.
        LinAlgError: a matrix is singular.
    """
    if interpreters and (seen := interpreted(inv, locals())) is not None:
        return seen
    require_square("inv", A)
    return Inverse.apply(A, "inv")


@operator(records=Inverse)
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InverseAndInfo:
    """Return (inverse, info): the inverses, NaN where a matrix is singular, and info (...,), int32, nonzero there.

    check_errors: raise LinAlgError instead

    Raises: as ``inv``.
    """
    if interpreters and (seen := interpreted(inv_ex, locals())) is not None:
        return seen
    require_square("inv_ex", A)
    if as_flag("inv_ex", "check_errors", check_errors):
        return InverseAndInfo(Inverse.apply(A, "inv_ex"), _no_info(A))
    regular, singular, any_singular = with_regular(A)
    found = Inverse.apply(regular, "inv_ex")
    return InverseAndInfo(_nan_where(singular, found) if any_singular else found, _info(singular))


@operator(records=Solve)
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """Solve A X = B, or X A = B if not ``left``; A (..., N, N), B (..., N, K) or (N,) or (..., N).

    Leading axes broadcast. B is read as vectors if it has one axis, or if its shape is A's without the last axis.

    Raises:
        TypeError: A and B are not floating-point Tensors of one type.
        ValueError: the shapes do not fit.
        LinAlgError: a matrix is singular.
    """
    if interpreters and (seen := interpreted(solve, locals())) is not None:
        return seen
    require_square("solve", A)
    return _solved("solve", A, B, as_flag("solve", "left", left), True)


@operator(records=Solve)
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolutionAndInfo:
    """Return (result, info): ``solve``, NaN where a matrix is singular, and info (...,), int32, nonzero there.

    check_errors: raise LinAlgError instead

    Raises: as ``solve``.
    """
    if interpreters and (seen := interpreted(solve_ex, locals())) is not None:
        return seen
    require_square("solve_ex", A)
    left = as_flag("solve_ex", "left", left)
    if as_flag("solve_ex", "check_errors", check_errors):
        return SolutionAndInfo(_solved("solve_ex", A, B, left, True), _no_info(A))
    regular, singular, any_singular = with_regular(A)
    found = _solved("solve_ex", regular, B, left, True)
    if any_singular and found.array.ndim < max(A.array.ndim, 2):  # B holds vectors
        found = _nan_where(singular, unsqueeze(found, -1)).squeeze(-1)
    elif any_singular:
        found = _nan_where(singular, found)
    return SolutionAndInfo(found, _info(singular))


@operator(records=Solve)
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Solve A X = B, or X A = B if not ``left``, with the upper (lower) triangle of A (..., N, N); B (..., N, K).

    unitriangular: assume ones on the diagonal of A

    Raises:
        TypeError: A and B are not floating-point Tensors of one type.
        ValueError: the shapes do not fit.
        LinAlgError: a diagonal element is 0.
    """
    if interpreters and (seen := interpreted(solve_triangular, locals())) is not None:
        return seen
    require_square("solve_triangular", A)
    require_matrices("solve_triangular", B, "B")
    triangle = _triangle("solve_triangular", A, upper, unitriangular)
    return _solved("solve_triangular", triangle, B, as_flag("solve_triangular", "left", left), False)


@operator(records=Solve, methods="triangular_solve")
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolution:
    """Return (solution, cloned_coefficient): X with A X = b, or AT X = b if ``transpose``, and a copy of A.

    The copy has X's batch shape. See ``linalg.solve_triangular``.

    Raises: as ``linalg.solve_triangular``.
    """
    if interpreters and (seen := interpreted(triangular_solve, locals())) is not None:
        return seen
    require_square("triangular_solve", A)
    require_matrices("triangular_solve", b, "b")
    triangle = _triangle("triangular_solve", A, upper, unitriangular)
    if as_flag("triangular_solve", "transpose", transpose):
        triangle = transposed(triangle)
    solution = _solved("triangular_solve", triangle, b, True)
    return TriangularSolution(solution, expand(A, solution.array.shape[:-2] + A.array.shape[-2:]).clone())


@operator(records=Solve, methods="cholesky_solve")
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """Solve L LT X = B, or LT L X = B for an ``upper`` triangle L (..., N, N); B (..., N, K).

    Raises: as ``linalg.solve_triangular``.
    """
    if interpreters and (seen := interpreted(cholesky_solve, locals())) is not None:
        return seen
    require_square("cholesky_solve", L, "L")
    require_matrices("cholesky_solve", B, "B")
    return _of_cholesky("cholesky_solve", L, B, upper)


@operator(records=Solve, methods="cholesky_inverse")
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of L LT, or of LT L for an ``upper`` triangle L (..., N, N).

    Raises: as ``linalg.solve_triangular``.
    """
    if interpreters and (seen := interpreted(cholesky_inverse, locals())) is not None:
        return seen
    require_square("cholesky_inverse", L, "L")
    return _of_cholesky("cholesky_inverse", L, unit_matrix(L, L.array.shape[-1]), upper)


@operator(records=PseudoInverse)
def pinv(A: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverses (..., N, M) of the matrices A (..., M, N).

    Singular values up to max(atol, rtol times the largest) count as 0.

    atol, rtol: numbers, or Tensors (...,). Without both, rtol is max(M, N) times the type's precision.
    rcond: the former name of rtol
    hermitian: A is symmetric; only its lower triangle is read and gets a gradient

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: the shapes do not fit, or limits do not broadcast to A's leading axes.
    """
    if interpreters and (seen := interpreted(pinv, locals())) is not None:
        return seen
    require_matrices("pinv", A)
    if as_flag("pinv", "hermitian", hermitian):
        require_square("pinv", A)
        A = symmetric(A)
    return PseudoInverse.apply(A, *tolerances("pinv", A, atol, rtol if rcond is None else rcond))


@operator(records=PseudoInverse, methods="pinverse")
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Compute ``linalg.pinv`` with the relative limit ``rcond``.

    Raises: as ``linalg.pinv``.
    """
    if interpreters and (seen := interpreted(pinverse, locals())) is not None:
        return seen
    require_matrices("pinverse", input, "input")
    return PseudoInverse.apply(input, *tolerances("pinverse", input, None, rcond))


@operator(records=PseudoInverse)
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """Return (solution, residuals, rank, singular_values), where X minimizes the norm of A X - B.

    A (..., M, N), B (..., M, K). B is read as vectors if it has one axis, or if its shape is A's without the last axis.
    residuals are the sums of squares of A X - B (..., K), empty unless M > N, the rank is N, and a driver other than
    "gelsy" is given. If the rank is lower, X is the solution with the smallest norm.

    rcond: singular values up to rcond times the largest count as 0; max(M, N) times the type's precision by default
    driver: "gelsy", "gelsd", "gelss" or "gels"; the method is the same, but singular_values is empty unless it is
        "gelsd" or "gelss", and rank is empty if it is "gels"

    Raises:
        TypeError: A and B are not floating-point Tensors of one type.
        ValueError: the shapes do not fit, or the driver is unknown.
    """
    if interpreters and (seen := interpreted(lstsq, locals())) is not None:
        return seen
    require_matrices("lstsq", A)
    require_same("lstsq", "A", A, "B", B)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise ValueError(f"lstsq: driver={driver!r} must be None, 'gels', 'gelsy', 'gelsd' or 'gelss'")
    (m, n), of_vectors = A.array.shape[-2:], _is_vectors(A, B)
    right = unsqueeze(B, -1) if of_vectors else B
    if right.array.ndim < 2 or right.array.shape[-2] != m:
        raise ValueError(f"lstsq: B.shape={B.array.shape} must be (..., {m}, K) or (..., {m}), for A.shape={A.shape}")
    atol, rtol = tolerances("lstsq", A, None, rcond)
    solution = PseudoInverse.apply(A, atol, rtol) @ right
    s = kernels.svd(A.array)[1]
    rank = kernels.singular_rank(s, atol, rtol)
    if m > n and driver not in (None, "gelsy") and _all_equal(rank, n):
        rest = A @ solution - right
        residuals = (rest * rest).sum(-2)
    else:
        residuals = reshape(solution, -1)[:0]  # empty, and requires a gradient if the solution does
    return LeastSquares(
        solution.squeeze(-1) if of_vectors else solution,
        residuals,
        wrap(empty(0, np.int64, like=s) if driver == "gels" else rank),
        wrap(s if driver in ("gelsd", "gelss") else empty(0, s.dtype, like=s)),
    )


@operator(records=Inverse)
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a linear map from its last axes to its first ``ind`` axes, for ``tensordot``.

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: ``ind`` is not a positive int, or the products of the extents differ.
        LinAlgError: A is singular.
    """
    if interpreters and (seen := interpreted(tensorinv, locals())) is not None:
        return seen
    require_float("tensorinv", A, "A")
    shape = A.array.shape
    if isinstance(ind, bool) or not isinstance(ind, int) or ind < 1:
        raise ValueError(f"tensorinv: ind={ind!r} must be an int of at least 1")
    rows, columns = prod(shape[:ind]), prod(shape[ind:])
    if rows != columns:
        raise ValueError(
            f"tensorinv: the first ind={ind} extents of A.shape={shape} multiply to {rows}, the others to "
            f"{columns}; they must be equal"
        )
    return reshape(Inverse.apply(reshape(A, rows, columns), "tensorinv"), shape[ind:] + shape[:ind])


@operator(records=Solve)
def tensorsolve(A: Tensor, B: Tensor, dims: tuple[int, ...] | None = None) -> Tensor:
    """Solve tensordot(A, X, X.ndim) = B.

    dims: axes of A to move to the end first

    Raises:
        TypeError: A and B are not floating-point Tensors of one type.
        ValueError: the shapes do not fit.
        LinAlgError: A is singular.
    """
    if interpreters and (seen := interpreted(tensorsolve, locals())) is not None:
        return seen
    require_same("tensorsolve", "A", A, "B", B)
    if dims is not None:
        dims = tuple(as_list("tensorsolve", "dims", dims, "a tuple of axes"))
        A = A.movedim(dims, tuple(range(A.array.ndim - len(dims), A.array.ndim)))
    size, rest = B.array.size, A.array.shape[B.array.ndim :]
    if A.array.size != size * size or prod(rest) != size:
        raise ValueError(
            f"tensorsolve: A.shape={A.array.shape} must be B.shape={B.array.shape} followed by extents "
            f"that multiply to {size}"
        )
    found = Solve.apply(reshape(A, size, size), reshape(B, size, 1), "tensorsolve")
    return reshape(found, rest)


def tolerances(name: str, A: Tensor, atol: Any, rtol: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the absolute and relative limits below which singular values count as 0, as arrays that broadcast."""
    given = []
    for label, value in (("atol", atol), ("rtol", rtol)):
        if value is None:
            given.append(zeros((), A.array.dtype, like=A.array))
            continue
        found = value.array if isinstance(value, Tensor) else from_host(value, like=A.array)
        if found.dtype.kind not in "fiu":
            raise TypeError(f"{name}: {label}={value!r} must be a number or a Tensor of numbers")
        if not broadcasts_to(found.shape, A.array.shape[:-2]):
            raise ValueError(
                f"{name}: {label}.shape={found.shape} must broadcast to {A.array.shape[:-2]}, one for "
                f"each matrix of A.shape={A.array.shape}"
            )
        given.append(kernels.cast(found, A.array.dtype))
    if rtol is None and (atol is None or not any_true(given[0], "whether atol is 0")):
        precision = max(A.array.shape[-2:]) * np.finfo(A.array.dtype).eps
        given[1] = from_host(precision, A.array.dtype, like=A.array)
    return given[0], given[1]


def _is_vectors(a: Tensor, b: Tensor) -> bool:
    return b.array.ndim == 1 or (b.array.ndim == a.array.ndim - 1 and b.array.shape == a.array.shape[:-1])


def _solved(name: str, a: Tensor, b: Tensor, left: bool, vectors: bool = False) -> Tensor:
    """Check the operands and solve; ``vectors``: b may hold vectors instead of matrices, see ``solve``."""
    require_same(name, "A", a, "B", b)
    n, shape = a.array.shape[-1], b.array.shape
    of_vectors = left and vectors and _is_vectors(a, b)
    right = unsqueeze(b, -1) if of_vectors else b if left or len(shape) < 2 else transposed(b)
    if right.array.ndim < 2 or right.array.shape[-2] != n:
        expected = f"(..., {n}, K)" + f" or (..., {n})" * vectors if left else f"(..., K, {n})"
        raise ValueError(f"{name}: B.shape={shape} must be {expected}, for A.shape={a.array.shape}")
    broadcast_shape(name, a.array.shape[:-2], right.array.shape[:-2])
    y = Solve.apply(a if left else transposed(a), right, name)
    return y.squeeze(-1) if of_vectors else y if left else transposed(y)


def _triangle(name: str, a: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    upper, one = as_flag(name, "upper", upper), as_flag(name, "unitriangular", unitriangular)
    if not one:
        return a.triu() if upper else a.tril()
    return (a.triu(1) if upper else a.tril(-1)) + unit_matrix(a, a.array.shape[-1])


def _of_cholesky(name: str, factor: Tensor, right: Tensor, upper: bool) -> Tensor:
    triangle = _triangle(name, factor, upper, False)
    first, second = (transposed(triangle), triangle) if upper else (triangle, transposed(triangle))
    return _solved(name, second, _solved(name, first, right, True, False), True, False)


def with_regular(a: Tensor) -> tuple[Tensor, np.ndarray, bool]:
    """Replace singular matrices in a by identities; also return their mask, and whether there are any."""
    singular = kernels.singular_matrices(a.array)
    if not any_true(singular, "whether a matrix is singular"):
        return a, singular, False
    regular = where(wrap(singular[..., np.newaxis, np.newaxis]), unit_matrix(a, a.array.shape[-1]), a)
    return regular, singular, True


def _nan_where(singular: np.ndarray, y: Tensor) -> Tensor:
    return y.masked_fill(wrap(singular[..., np.newaxis, np.newaxis]), nan)


def _info(singular: np.ndarray) -> Tensor:
    """Return int32: 1 for singular matrices, 0 for others."""
    return wrap(kernels.cast(singular, np.dtype(np.int32)))


def _no_info(a: Tensor) -> Tensor:
    return wrap(zeros(a.array.shape[:-2], np.int32, like=a.array))


def _all_equal(rank: np.ndarray, n: int) -> bool:
    return all(found == n for found in integers(rank.reshape(-1), "whether all matrices have full rank"))
