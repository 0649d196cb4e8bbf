"""Matrix functions: determinants, exponentials, powers, condition numbers, chain products."""

from __future__ import annotations

from math import inf, nan
from typing import Any, NamedTuple

from ...arrays import any_true, broadcast_to, eye, ones, zeros, zeros_like
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_int, as_list, require_same, require_tensor
from ..dtypes.dtype import cast, int64
from ..pointwise.piecewise import where
from ..pointwise.pointwise import Constant
from ..product.matmul import matmul
from ..product.products import cross as cross_of
from ..reduce.norms import ORDERS, Svd, matrix_norm_of
from ..reduce.reduction import amax, amin
from ..shape.broadcasting import broadcast_shape
from ..shape.join import cat
from ..shape.shape import axis
from .solving import Inverse, require_matrices, require_square, transposed, with_regular

__all__: list[str] = []


class SignAndLogarithm(NamedTuple):
    """The result of ``linalg.slogdet``: the determinant is sign * exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


class Determinant(Function):
    """The determinants of x (..., N, N); the gradient is g times the cofactor matrix."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.determinant(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g.unsqueeze(-1).unsqueeze(-1) * Cofactors.apply(ctx.saved_tensors[0])


class Cofactors(Function):
    """The cofactor matrices of x (..., N, N): det(x) x^-T, or its limit where x is singular."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.cofactors(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        """Return <g, t> c - c gT t with t = x^-T and c = det(x) t, for nonsingular x."""
        (x,) = ctx.saved_tensors
        t = transposed(Inverse.apply(x, "det, second derivative"))
        c = Determinant.apply(x).unsqueeze(-1).unsqueeze(-1) * t
        return (g * t).sum((-2, -1), True) * c - c @ transposed(g) @ t


class LogDeterminant(Function):
    """The signs and log absolute values of the determinants of x (..., N, N).

    The gradient of the logarithm is g x^-T; that of the sign is 0.
    """

    gradient = "x: g x**-T"

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        sign, logarithm = kernels.log_determinant(x.array)
        return wrap(sign), wrap(logarithm)

    @staticmethod
    def backward(ctx: Any, _: Any, g: Tensor | None) -> Tensor:
        (x,) = ctx.saved_tensors
        if g is None:
            return wrap(zeros_like(x.array))
        return g.unsqueeze(-1).unsqueeze(-1) * transposed(Inverse.apply(x, "slogdet, its gradient"))


class MatrixExp(Function):
    """The exponential of x (..., N, N), by scaling and squaring.

    The gradient is the upper right block of exp([[xT, g], [0, xT]]). Source: R. Mathias, "A chain rule for matrix
    functions and applications", 1996.
    """

    gradient = "x: the upper right block of exp([[xT, g], [0, xT]])"

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(kernels.matrix_exp(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        xt = transposed(ctx.saved_tensors[0])
        n = xt.array.shape[-1]
        upper = cat((xt, g), -1)
        lower = cat((wrap(zeros_like(xt.array)), xt), -1)
        block: Tensor = MatrixExp.apply(cat((upper, lower), -2))
        return block[..., :n, n:]


@operator(records=Determinant, methods="det")
def det(A: Tensor) -> Tensor:
    """The determinants (...,) of A (..., N, N); the gradient is also correct for singular matrices.

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: the last two extents differ.
    """
    if interpreters and (seen := interpreted(det, locals())) is not None:
        return seen
    require_square("det", A)
    return Determinant.apply(A)


@operator(records=LogDeterminant, methods="slogdet")
def slogdet(A: Tensor) -> SignAndLogarithm:
    """Return (sign, logabsdet): the signs of the determinants of A (..., N, N), and log |det(A)|.

    They are 0 and -inf for a singular matrix, whose gradient raises LinAlgError.

    Raises: as ``det``.
    """
    if interpreters and (seen := interpreted(slogdet, locals())) is not None:
        return seen
    require_square("slogdet", A)
    return SignAndLogarithm(*LogDeterminant.apply(A))


@operator(records=LogDeterminant, methods="logdet")
def logdet(input: Tensor) -> Tensor:
    """Compute log(det(input)) of matrices (..., N, N): -inf if det is 0, NaN if it is negative.

    Raises: as ``linalg.det``.
    """
    if interpreters and (seen := interpreted(logdet, locals())) is not None:
        return seen
    require_square("logdet", input, "input")
    sign, logarithm = LogDeterminant.apply(input)
    negative = kernels.lt(sign.array, zeros((), sign.array.dtype, like=sign.array))
    if any_true(negative, "whether a determinant is negative"):
        return where(wrap(negative), nan, logarithm)
    found: Tensor = logarithm
    return found


@operator(records=MatrixExp, methods="matrix_exp")
def matrix_exp(A: Tensor) -> Tensor:
    """The exponentials of the matrices A (..., N, N): 1 + A + A A / 2 + ...

    Source: N. Higham, "The scaling and squaring method for the matrix exponential revisited", 2005.

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: the last two extents differ.
    """
    if interpreters and (seen := interpreted(matrix_exp, locals())) is not None:
        return seen
    require_square("matrix_exp", A)
    return MatrixExp.apply(A)


@operator(records=(Constant, Inverse), methods="matrix_power")
def matrix_power(A: Tensor, n: int) -> Tensor:
    """The n-th powers of A (..., N, N), of its inverse if n is negative; the identity matrix for n = 0.

    Raises:
        TypeError: A is not a floating-point Tensor, or n is not an int.
        ValueError: the last two extents differ.
        LinAlgError: n is negative and a matrix is singular.
    """
    if interpreters and (seen := interpreted(matrix_power, locals())) is not None:
        return seen
    require_square("matrix_power", A)
    n = as_int("matrix_power", "n", n)
    if n == 0:
        unit = eye(A.array.shape[-1], dtype=A.array.dtype, like=A.array)
        return Constant.apply(A, kernels.reshaped(broadcast_to(unit, A.array.shape), A.array.shape))
    factor, n = (Inverse.apply(A, "matrix_power"), -n) if n < 0 else (A, n)
    found = None
    while True:  # over the binary digits of n
        if n & 1:
            found = factor if found is None else matmul(found, factor)
        n >>= 1
        if not n:
            return found.clone() if found is A else found  # type: ignore[return-value]
        factor = matmul(factor, factor)


@operator(dtypes="if")
def multi_dot(tensors: Any) -> Tensor:
    """The product of two or more matrices, computed in the order with the fewest multiplications.

    The first and the last operand may be vectors.

    Source: T. Cormen et al., "Introduction to Algorithms", matrix-chain multiplication.

    Raises:
        TypeError: the types differ.
        ValueError: there are fewer than two operands, an inner one is not a matrix, or the extents do not fit.
    """
    if interpreters and (seen := interpreted(multi_dot, locals())) is not None:
        return seen
    return _chain("multi_dot", as_list("multi_dot", "tensors", tensors, "a list of matrices"))


@operator(dtypes="if")
def chain_matmul(*matrices: Any) -> Tensor:
    """The product of matrices, see ``linalg.multi_dot``.

    Raises: as ``linalg.multi_dot``, but a single matrix is its own product.
    """
    if interpreters and (seen := interpreted(chain_matmul, locals())) is not None:
        return seen
    given = list(matrices[0]) if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)) else list(matrices)
    if len(given) == 1:
        require_tensor("chain_matmul", given[0], "matrices[0]")
        return given[0]
    return _chain("chain_matmul", given)


@operator(records=(Constant, Svd, Inverse))
def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition numbers (...,) of A (..., M, N): norm(A, p) norm(inverse of A, p), inf where A is singular.

    The result is 0 for matrices without elements.

    p: None or 2: the ratio of the largest to the smallest singular value; -2: its inverse; for square matrices also
        "fro", "nuc", 1, -1, inf and -inf, see ``matrix_norm``

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: p is none of these, or the last two extents differ and p is not None, 2 or -2.
    """
    if interpreters and (seen := interpreted(cond, locals())) is not None:
        return seen
    require_matrices("cond", A)
    if p is not None and (not isinstance(p, (str, int, float)) or p not in ORDERS):
        raise ValueError(f"cond: p={p!r} must be None or one of {', '.join(map(repr, ORDERS))}")
    if not (p is None or p in (2, -2)):
        require_square("cond", A)
    if 0 in A.array.shape[-2:]:
        return Constant.apply(A, zeros(A.array.shape[:-2], A.array.dtype, like=A.array))
    if p is None or p in (2, -2):
        s = Svd.apply(A)[1]
        largest, smallest = amax(s, -1), amin(s, -1)
        return smallest / largest if p == -2 else largest / smallest
    regular, singular, any_singular = with_regular(A)
    inverse = Inverse.apply(regular, "cond")
    norms = [matrix_norm_of("cond", x, p, (-2, -1), False, None) for x in (regular, inverse)]
    found = norms[0] * norms[1]
    return found.masked_fill(wrap(singular), inf) if any_singular else found


@operator(dtypes="if")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The dot products of x and y along ``dim``; the other axes broadcast.

    Raises:
        TypeError: the types differ or are bool.
        ValueError: the shapes do not broadcast.
        IndexError: there is no such axis.
    """
    if interpreters and (seen := interpreted(vecdot, locals())) is not None:
        return seen
    require_same("vecdot", "x", x, "y", y, True)
    shape = broadcast_shape("vecdot", x.array.shape, y.array.shape)
    return (x * y).sum(axis("vecdot", "dim", dim, len(shape) or 1))


@operator(dtypes="ihf")
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross products of three-element vectors along ``dim``; the other axes broadcast.

    Raises:
        TypeError: an operand is not a Tensor.
        IndexError: there is no such axis.
        ValueError: the extent of the axis is not 3, or the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(cross, locals())) is not None:
        return seen
    return cross_of(input, other, dim)


@operator(dtypes="bihf")
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of the matrices in axes ``dim1`` and ``dim2``, as the last axis: a view.

    See ``retrograd.diagonal``.

    Raises: as ``retrograd.diagonal``.
    """
    if interpreters and (seen := interpreted(diagonal, locals())) is not None:
        return seen
    require_tensor("diagonal", A, "A")
    return A.diagonal(offset, dim1, dim2)


@operator(dtypes="bihf")
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The Vandermonde matrices (..., M, N): the powers 0 to N - 1 of x (..., M), with N = M by default.

    Booleans count as integers, a 0-d tensor as a vector of one element.

    Raises:
        TypeError: x is not a Tensor.
        ValueError: N is below 1.
    """
    if interpreters and (seen := interpreted(vander, locals())) is not None:
        return seen
    require_tensor("vander", x, "x")
    x = x if x.array.ndim else x.reshape(1)
    count = x.array.shape[-1] if N is None else as_int("vander", "N", N)
    if count < 1 and N is not None:
        raise ValueError(f"vander: N={N} must be at least 1")
    return powers(x, count)


def powers(x: Tensor, count: int) -> Tensor:
    """Return x**0, ... x**(count - 1) as a new last axis."""
    x = cast(x, int64) if x.array.dtype.kind == "b" else x
    factors = x.unsqueeze(-1).expand(*x.array.shape, max(count - 1, 0))
    first = wrap(ones((*x.array.shape, min(count, 1)), x.array.dtype, like=x.array))
    return cat((first, factors.cumprod(-1)), -1)


def _chain(name: str, tensors: list[Any]) -> Tensor:
    if len(tensors) < 2:
        raise ValueError(f"{name}: got {len(tensors)} tensors, needs at least 2")
    for i, x in enumerate(tensors):
        require_same(name, "tensors[0]", tensors[0], f"tensors[{i}]", x, True)
        least = 1 if i in (0, len(tensors) - 1) else 2
        if not least <= x.array.ndim <= 2:
            raise ValueError(f"{name}: tensors[{i}].shape={x.array.shape} must be a matrix, or a vector at an end")
    of_row, of_column = tensors[0].array.ndim == 1, tensors[-1].array.ndim == 1
    if of_row:
        tensors[0] = tensors[0].unsqueeze(0)
    if of_column:
        tensors[-1] = tensors[-1].unsqueeze(1)
    for i, (x, y) in enumerate(zip(tensors[:-1], tensors[1:], strict=True)):
        if x.array.shape[1] != y.array.shape[0]:
            raise ValueError(
                f"{name}: tensors[{i}].shape={x.array.shape} and tensors[{i + 1}].shape={y.array.shape} do not fit: "
                f"{x.array.shape[1]} and {y.array.shape[0]} must be equal"
            )
    found = _chain_product(tensors)
    if of_row:
        found = found.squeeze(0)
    return found.squeeze(-1) if of_column else found


def _chain_product(factors: list[Tensor]) -> Tensor:
    """Multiply a chain of matrices, split for the fewest multiplications."""
    extents = [factors[0].array.shape[0], *(x.array.shape[1] for x in factors)]
    count = len(factors)
    cost: dict[tuple[int, int], float] = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + extents[i] * extents[k + 1] * extents[j + 1], k) for k in range(i, j)
            )

    def product(i: int, j: int) -> Tensor:
        if i == j:
            return factors[i]
        return matmul(product(i, split[i, j]), product(split[i, j] + 1, j))

    return product(0, count - 1)
