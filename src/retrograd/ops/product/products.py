"""Products of vectors and matrices, alone or added to a tensor: special cases of ``matmul``."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from operator import index as exact_int
from typing import Any

from ...arrays import to_host
from ...engine.arguments import kind_name
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..argument_checks import as_int64, is_number, require_factor, require_same, require_tensor
from ..dtypes.dtype import cast
from ..dtypes.promotion import promoted_type
from ..reduce.reduction import sum
from ..shape.broadcasting import broadcast_shape, expand
from ..shape.shape import Permute, axis, reshape, unsqueeze
from ..signatures import factors_and_operands
from ..sparse import SparseTensor, spmm
from .matmul import Linear, MatMul, matmul

__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "cross",
    "dot",
    "ger",
    "inner",
    "kron",
    "mm",
    "mv",
    "outer",
    "tensordot",
    "vdot",
]


@operator(records=MatMul, methods="mm", dtypes="if")
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices: input (M, K), mat2 (K, N) -> (M, N); either may be sparse.

    Raises:
        TypeError: the types differ or are bool.
        ValueError: an operand is not a matrix, or K differs.
    """
    if interpreters and (seen := interpreted(mm, locals())) is not None:
        return seen
    if isinstance(input, SparseTensor) or isinstance(mat2, SparseTensor):
        return spmm(input, mat2)
    _fit("mm", "MK KN", input=input, mat2=mat2)
    return MatMul.apply(input, mat2)


@operator(records=MatMul, methods="bmm", dtypes="if")
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of B pairs of matrices: input (B, M, K), mat2 (B, K, N) -> (B, M, N)

    Raises:
        TypeError: the types differ or are bool.
        ValueError: an operand does not have three axes, or B or K differ.
    """
    if interpreters and (seen := interpreted(bmm, locals())) is not None:
        return seen
    _fit("bmm", "BMK BKN", input=input, mat2=mat2)
    return MatMul.apply(input, mat2)


@operator(methods="mv", dtypes="if")
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector: input (M, K), vec (K,) -> (M,)

    Raises:
        TypeError: the types differ or are bool.
        ValueError: the operands are not a matrix and a vector, or K differs.
    """
    if interpreters and (seen := interpreted(mv, locals())) is not None:
        return seen
    _fit("mv", "MK K", input=input, vec=vec)
    return matmul(input, vec)


@operator(methods="dot", dtypes="if")
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Sum of the products of two vectors' elements: input (K,), tensor (K,) -> ()

    Raises:
        TypeError: the types differ or are bool.
        ValueError: an operand is not a vector, or K differs.
    """
    if interpreters and (seen := interpreted(dot, locals())) is not None:
        return seen
    _fit("dot", "K K", input=input, tensor=tensor)
    return matmul(input, tensor)


@operator(records=Linear, methods="inner", dtypes="if")
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over both last axes: input (*A, K), other (*B, K) -> (*A, *B); a 0-d operand scales the other.

    Raises:
        TypeError: the types differ or are bool.
        ValueError: K differs.
    """
    if interpreters and (seen := interpreted(inner, locals())) is not None:
        return seen
    require_tensor("inner", input)
    require_tensor("inner", other, "other")
    sx, sy = input.array.shape, other.array.shape
    if not sx or not sy:
        return input * other
    require_same("inner", "input", input, "other", other, True)
    _require_equal("inner", sx[-1], sy[-1], input=input, other=other)
    rows = reshape(input, prod(sx[:-1]), sx[-1])
    return reshape(Linear.apply(rows, reshape(other, prod(sy[:-1]), sy[-1]), None), sx[:-1] + sy[:-1])


@operator(methods="vdot", dtypes="if")
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Alias of ``dot``: input (K,), other (K,) -> ()

    Raises: as ``dot``.
    """
    if interpreters and (seen := interpreted(vdot, locals())) is not None:
        return seen
    _fit("vdot", "K K", input=input, other=other)
    return matmul(input, other)


@operator(methods="kron", dtypes="bihf")
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: other times each element of input, as blocks; extents multiply, types promote.

    Of tensors with different numbers of axes, the one with fewer gets axes of extent 1 in front.

    Raises:
        TypeError: an operand is not a Tensor.
    """
    if interpreters and (seen := interpreted(kron, locals())) is not None:
        return seen
    require_tensor("kron", input)
    require_tensor("kron", other, "other")
    sx, sy = input.array.shape, other.array.shape
    ndim = max(len(sx), len(sy))
    sx, sy = (1,) * (ndim - len(sx)) + sx, (1,) * (ndim - len(sy)) + sy
    x = reshape(input, tuple(n for m in sx for n in (m, 1)))
    y = reshape(other, tuple(n for m in sy for n in (1, m)))
    return reshape(x * y, tuple(m * n for m, n in zip(sx, sy, strict=True)))


@operator(methods="outer", dtypes="bihf")
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of two vectors' elements: input (M,), vec2 (N,) -> (M, N); types promote.

    Raises:
        TypeError: an operand is not a Tensor.
        ValueError: an operand is not a vector.
    """
    if interpreters and (seen := interpreted(outer, locals())) is not None:
        return seen
    _require_axes("outer", "M N", input=input, vec2=vec2)
    return unsqueeze(input, 1) * vec2


@operator(methods="ger", dtypes="bihf")
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """Alias of ``outer``."""
    if interpreters and (seen := interpreted(ger, locals())) is not None:
        return seen
    _require_axes("ger", "M N", input=input, vec2=vec2)
    return unsqueeze(input, 1) * vec2


@operator(records=MatMul, methods="addmm", in_place=True, dtypes="if")
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *older: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha mat1 mat2; mat1 (M, K), mat2 (K, N), input broadcast to (M, N). With beta 0, input is ignored.

    Raises:
        TypeError: the types differ or are bool, or a factor is not a number.
        ValueError: the shapes do not fit.
    """
    if interpreters and (seen := interpreted(addmm, locals())) is not None:
        return seen
    if older:
        given = (input, mat1, mat2, *older)
        input, mat1, mat2, beta, alpha = factors_and_operands("addmm", given, beta, alpha)
    _fit("addmm", "MK KN", mat1=mat1, mat2=mat2)
    return _sum("addmm", input, MatMul.apply(mat1, mat2), beta, alpha)


@operator(methods="addmv", in_place=True, dtypes="if")
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *older: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha mat vec; mat (M, K), vec (K,), input broadcast to (M,). With beta 0, input is ignored.

    Raises: as ``addmm``.
    """
    if interpreters and (seen := interpreted(addmv, locals())) is not None:
        return seen
    if older:
        given = (input, mat, vec, *older)
        input, mat, vec, beta, alpha = factors_and_operands("addmv", given, beta, alpha)
    _fit("addmv", "MK K", mat=mat, vec=vec)
    return _sum("addmv", input, matmul(mat, vec), beta, alpha)


@operator(records=MatMul, methods="addbmm", in_place=True, dtypes="if")
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *older: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha times the sum over b of batch1[b] batch2[b].

    batch1 (B, M, K), batch2 (B, K, N), input broadcast to (M, N). With beta 0, input is ignored.

    Raises: as ``addmm``.
    """
    if interpreters and (seen := interpreted(addbmm, locals())) is not None:
        return seen
    if older:
        given = (input, batch1, batch2, *older)
        input, batch1, batch2, beta, alpha = factors_and_operands("addbmm", given, beta, alpha)
    _fit("addbmm", "BMK BKN", batch1=batch1, batch2=batch2)
    (b, m, k), n = batch1.array.shape, batch2.array.shape[2]
    # the sum over b as part of the inner axis: (M, B*K) (B*K, N)
    together = MatMul.apply(reshape(Permute.apply(batch1, (1, 0, 2)), m, b * k), reshape(batch2, b * k, n))
    return _sum("addbmm", input, together, beta, alpha)


@operator(records=MatMul, methods="baddbmm", in_place=True, dtypes="if")
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *older: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha batch1[b] batch2[b] for each b; (B, M, K) and (B, K, N), input broadcast to (B, M, N).

    With beta 0, input is ignored.

    Raises: as ``addmm``.
    """
    if interpreters and (seen := interpreted(baddbmm, locals())) is not None:
        return seen
    if older:
        given = (input, batch1, batch2, *older)
        input, batch1, batch2, beta, alpha = factors_and_operands("baddbmm", given, beta, alpha)
    _fit("baddbmm", "BMK BKN", batch1=batch1, batch2=batch2)
    return _sum("baddbmm", input, MatMul.apply(batch1, batch2), beta, alpha)


@operator(methods="addr", in_place=True, dtypes="hf")
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *older: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha times the outer product of vec1 (M,) and vec2 (N,), input broadcast to (M, N).

    With beta 0, input is ignored. Types promote.

    Raises:
        TypeError: an operand is not a Tensor, a factor is not a number, or a factor is a float and the operands are
            integers.
        ValueError: the shapes do not fit.
    """
    if interpreters and (seen := interpreted(addr, locals())) is not None:
        return seen
    if older:
        given = (input, vec1, vec2, *older)
        input, vec1, vec2, beta, alpha = factors_and_operands("addr", given, beta, alpha)
    _require_axes("addr", "M N", vec1=vec1, vec2=vec2)
    require_tensor("addr", input)
    product = unsqueeze(vec1, 1) * vec2
    _require_fitting("addr", input, product)
    dtype = promoted_type(input.array, product.array)
    for label, value in (("beta", beta), ("alpha", alpha)):
        require_factor("addr", label, value, dtype)
    if dtype.kind == "b":
        beta, alpha = bool(beta), bool(alpha)
    return cast(_added(input, product, beta, alpha), dtype)


@operator(records=MatMul, methods="tensordot", dtypes="if")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """The sum of products over pairs of axes: the last ``dims`` of a, the first of b; or dims[0] of a, dims[1] of b.

    The result has the other axes of a, then those of b. An extent of 1 broadcasts.

    Raises:
        TypeError: the types differ or are bool.
        IndexError: an operand has no such axis.
        ValueError: ``dims`` is negative, has lists of different lengths or repeats an axis, or paired extents differ.
    """
    if interpreters and (seen := interpreted(tensordot, locals())) is not None:
        return seen
    require_same("tensordot", "a", a, "b", b, True)
    sa, sb = a.array.shape, b.array.shape
    if isinstance(dims, Tensor):
        dims = to_host(dims.array, "the axes of tensordot").tolist()
    if isinstance(dims, (tuple, list)):
        over = tuple(tuple(d) if isinstance(d, (tuple, list)) else (d,) for d in dims)
    else:
        count = exact_int(dims)
        most = min(len(sa), len(sb))
        if not 0 <= count <= most:
            raise ValueError(f"tensordot: dims={count} must be from 0 to {most}: a.shape={sa}, b.shape={sb}")
        over = tuple(range(len(sa) - count, len(sa))), tuple(range(count))
    if len(over) != 2 or len(over[0]) != len(over[1]):
        raise ValueError(f"tensordot: dims={dims} must be an int or two lists with equally many axes")
    of_a = [axis("tensordot", "dims", d, len(sa)) for d in over[0]]
    of_b = [axis("tensordot", "dims", d, len(sb)) for d in over[1]]
    if len({*of_a}) != len(of_a) or len({*of_b}) != len(of_b):
        raise ValueError(f"tensordot: dims={dims} names an axis twice")
    for i, j in zip(of_a, of_b, strict=True):
        if sa[i] == 1 != sb[j]:
            b = sum(b, j, True, dtype=b.array.dtype)  # small integers would give int64 otherwise
        elif sb[j] == 1 != sa[i]:
            a = sum(a, i, True, dtype=a.array.dtype)
        elif sa[i] != sb[j]:
            raise ValueError(
                f"tensordot: axis {i} of a has {sa[i]}, axis {j} of b has {sb[j]}; a.shape={sa}, b.shape={sb}"
            )
    sa, sb = a.array.shape, b.array.shape
    left, right = [i for i in range(len(sa)) if i not in of_a], [j for j in range(len(sb)) if j not in of_b]
    depth = prod(sa[i] for i in of_a)
    rows, columns = tuple(sa[i] for i in left), tuple(sb[j] for j in right)
    x = reshape(Permute.apply(a, (*left, *of_a)), prod(rows), depth)
    y = reshape(Permute.apply(b, (*of_b, *right)), depth, prod(columns))
    return reshape(MatMul.apply(x, y), rows + columns)


@operator(methods="cross", dtypes="ihf")
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross products of vectors of three elements along ``dim`` (the first axis of extent 3 if None).

    The other axes broadcast.

    Raises:
        TypeError: an operand is not a Tensor.
        IndexError: the operands have no such axis.
        ValueError: the extent of the axis is not 3, or the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(cross, locals())) is not None:
        return seen
    require_tensor("cross", input)
    require_tensor("cross", other, "other")
    shape = broadcast_shape("cross", input.array.shape, other.array.shape)
    if dim is None:
        position = next((i for i, n in enumerate(shape) if n == 3), -1)
        if position < 0:
            raise ValueError(f"cross: no axis of shape {shape} has extent 3")
    else:
        position = axis("cross", "dim", dim, len(shape))
    x, y = expand(input, shape), expand(other, shape)
    for label, given in (("input", input), ("other", other)):
        extents = (1,) * (len(shape) - given.array.ndim) + given.array.shape
        if extents[position] != 3:
            raise ValueError(
                f"cross: {label}.shape={given.array.shape} has extent {extents[position]} along dim={dim}, needs 3; "
                "name the axis of three elements with dim"
            )
    before = (slice(None),) * position
    turned = [(*before, list(order)) for order in ((1, 2, 0), (2, 0, 1))]
    return x[turned[0]] * y[turned[1]] - x[turned[1]] * y[turned[0]]


def _sum(name: str, x: Any, product: Tensor, beta: float, alpha: float) -> Tensor:
    """Return beta x + alpha product, with x broadcast to the product. For integers the factors are truncated."""
    require_same(name, "input", x, "the product", product, True)
    for label, value in (("beta", beta), ("alpha", alpha)):
        if not is_number(value):
            raise TypeError(f"{name}: {label} is {kind_name(value)}, needs a number")
    if product.array.dtype.kind in "iu":
        beta, alpha = as_int64(name, "beta", beta), as_int64(name, "alpha", alpha)
    _require_fitting(name, x, product)
    return _added(x, product, beta, alpha)


def _require_fitting(name: str, x: Tensor, product: Tensor) -> None:
    shape = product.array.shape
    if len(x.array.shape) > len(shape) or broadcast_shape(name, x.array.shape, shape) != shape:
        raise ValueError(f"{name}: input.shape={x.array.shape} does not broadcast to the product's shape {shape}")


def _added(x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    scaled = product if alpha == 1 else product * alpha
    if beta == 0:
        return scaled
    return (x if beta == 1 else x * beta) + scaled


def _fit(name: str, axes: str, **operands: Any) -> None:
    """Check types and axes of two operands: "MK KN" has a letter for each axis; equal letters mean equal extents."""
    (first, x), (second, y) = operands.items()
    require_same(name, first, x, second, y, True)
    if _have_axes(axes, x.array.shape, y.array.shape):
        return
    _require_axes(name, axes, **operands)
    of_x, of_y = axes.split()
    for i, letter in enumerate(of_x):
        if letter in of_y:
            _require_equal(name, x.array.shape[i], y.array.shape[of_y.index(letter)], **operands)


@lru_cache(maxsize=4096)
def _have_axes(axes: str, *shapes: tuple[int, ...]) -> bool:
    """Return whether operands of these shapes have these axes."""
    letters = axes.split()
    if any(len(own) != len(shape) for own, shape in zip(letters, shapes, strict=True)):
        return False
    found = [pair for own, shape in zip(letters, shapes, strict=True) for pair in zip(own, shape, strict=True)]
    return len({*found}) == len({letter for letter, _ in found})


def _require_axes(name: str, axes: str, **operands: Any) -> None:
    for (label, value), letters in zip(operands.items(), axes.split(), strict=True):
        require_tensor(name, value, label)
        if value.array.ndim != len(letters):
            raise ValueError(
                f"{name}: {label}.shape={value.shape} has {value.ndim} axes, needs {len(letters)}; matmul broadcasts"
            )


def _require_equal(name: str, m: int, n: int, **operands: Tensor) -> None:
    if m != n:
        shapes = ", ".join(f"{label}.shape={value.array.shape}" for label, value in operands.items())
        raise ValueError(f"{name}: {m} and {n} must be equal; {shapes}")
