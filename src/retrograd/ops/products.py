"""Products of vectors and matrices, and sums with them: each is ``matmul`` seen from another side."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from .broadcasting import broadcast_shape, expand
from .dtype import cast, is_number, meeting, require_factor, require_same, require_tensor, whole
from .matmul import Linear, MatMul, matmul
from .reduction import sum
from .shape import Permute, axis, reshape, unsqueeze

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
    "mm",
    "mv",
    "outer",
    "tensordot",
]


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices: input (M, K), mat2 (K, N) -> (M, N)

    Raises:
        TypeError: the types differ or are bool.
        ValueError: an operand is no matrix, or K differs.
    """
    _require("mm", "input", input, 2, "mat2", mat2, 2)
    _meet("mm", input.array.shape[1], mat2.array.shape[0], input, "mat2", mat2)
    return MatMul.apply(input, mat2)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of matrices, one by one: input (B, M, K), mat2 (B, K, N) -> (B, M, N)

    Raises:
        TypeError: the types differ or are bool.
        ValueError: an operand has not three axes, or B or K differ.
    """
    _require("bmm", "input", input, 3, "mat2", mat2, 3)
    _meet("bmm", input.array.shape[0], mat2.array.shape[0], input, "mat2", mat2)
    _meet("bmm", input.array.shape[2], mat2.array.shape[1], input, "mat2", mat2)
    return MatMul.apply(input, mat2)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector: input (M, K), vec (K,) -> (M,)

    Raises:
        TypeError: the types differ or are bool.
        ValueError: the operands are no matrix and vector, or K differs.
    """
    _require("mv", "input", input, 2, "vec", vec, 1)
    _meet("mv", input.array.shape[1], vec.array.shape[0], input, "vec", vec)
    return matmul(input, vec)


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Sum of the products of two vectors' elements: input (K,), tensor (K,) -> ()

    Raises:
        TypeError: the types differ or are bool.
        ValueError: an operand is no vector, or K differs.
    """
    _require("dot", "input", input, 1, "tensor", tensor, 1)
    _meet("dot", input.array.size, tensor.array.size, input, "tensor", tensor)
    return matmul(input, tensor)


def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last axis of both: input (*A, K), other (*B, K) -> (*A, *B); a number scales.

    Raises:
        TypeError: the types differ or are bool.
        ValueError: K differs.
    """
    require_tensor("inner", input)
    require_tensor("inner", other, "other")
    sx, sy = input.array.shape, other.array.shape
    if not sx or not sy:
        return input * other
    require_same("inner", "input", input, "other", other, True)
    _meet("inner", sx[-1], sy[-1], input, "other", other)
    rows = reshape(input, _size(sx[:-1]), sx[-1])
    return reshape(Linear.apply(rows, reshape(other, _size(sy[:-1]), sy[-1]), None), sx[:-1] + sy[:-1])


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of two vectors' elements: input (M,), vec2 (N,) -> (M, N); types promote.

    Raises:
        TypeError: an operand is no Tensor.
        ValueError: an operand is no vector.
    """
    _require_axes("outer", "input", input, 1, "vec2", vec2, 1)
    return unsqueeze(input, 1) * vec2


def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """The same as ``outer``.

    Raises:
        TypeError: an operand is no Tensor.
        ValueError: an operand is no vector.
    """
    _require_axes("ger", "input", input, 1, "vec2", vec2, 1)
    return unsqueeze(input, 1) * vec2


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha mat1 mat2; mat1 (M, K), mat2 (K, N), input broadcast to (M, N). With beta 0 input is ignored.

    Raises:
        TypeError: the types differ or are bool, or a factor is no number.
        ValueError: the shapes do not fit.
    """
    _require("addmm", "mat1", mat1, 2, "mat2", mat2, 2)
    _meet("addmm", mat1.array.shape[1], mat2.array.shape[0], mat1, "mat2", mat2, "mat1")
    return _sum("addmm", input, MatMul.apply(mat1, mat2), beta, alpha)


def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha mat vec; mat (M, K), vec (K,), input broadcast to (M,). With beta 0 input is ignored.

    Raises:
        TypeError: the types differ or are bool, or a factor is no number.
        ValueError: the shapes do not fit.
    """
    _require("addmv", "mat", mat, 2, "vec", vec, 1)
    _meet("addmv", mat.array.shape[1], vec.array.shape[0], mat, "vec", vec, "mat")
    return _sum("addmv", input, matmul(mat, vec), beta, alpha)


def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha times the sum over b of batch1[b] batch2[b]; (B, M, K) and (B, K, N), input to (M, N).

    With beta 0 input is ignored.

    Raises:
        TypeError: the types differ or are bool, or a factor is no number.
        ValueError: the shapes do not fit.
    """
    _require("addbmm", "batch1", batch1, 3, "batch2", batch2, 3)
    (b, m, k), (c, depth, n) = batch1.array.shape, batch2.array.shape
    _meet("addbmm", b, c, batch1, "batch2", batch2, "batch1")
    _meet("addbmm", k, depth, batch1, "batch2", batch2, "batch1")
    # the batch joins the inner axis: (M, B*K) (B*K, N)
    together = MatMul.apply(reshape(Permute.apply(batch1, (1, 0, 2)), m, b * k), reshape(batch2, b * k, n))
    return _sum("addbmm", input, together, beta, alpha)


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha batch1[b] batch2[b] for each b; (B, M, K) and (B, K, N), input broadcast to (B, M, N).

    With beta 0 input is ignored.

    Raises:
        TypeError: the types differ or are bool, or a factor is no number.
        ValueError: the shapes do not fit.
    """
    _require("baddbmm", "batch1", batch1, 3, "batch2", batch2, 3)
    _meet("baddbmm", batch1.array.shape[0], batch2.array.shape[0], batch1, "batch2", batch2, "batch1")
    _meet("baddbmm", batch1.array.shape[2], batch2.array.shape[1], batch1, "batch2", batch2, "batch1")
    return _sum("baddbmm", input, MatMul.apply(batch1, batch2), beta, alpha)


def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta input + alpha times the outer product of vec1 (M,) and vec2 (N,), input broadcast to (M, N).

    With beta 0 input is ignored. Types promote.

    Raises:
        TypeError: an operand is no Tensor, a factor no number, or no integer among integers.
        ValueError: the shapes do not fit.
    """
    _require_axes("addr", "vec1", vec1, 1, "vec2", vec2, 1)
    require_tensor("addr", input)
    product = unsqueeze(vec1, 1) * vec2
    _require_fitting("addr", input, product)
    dtype = meeting(input.array, product.array)
    for label, value in (("beta", beta), ("alpha", alpha)):
        require_factor("addr", label, value, dtype)
    if dtype.kind == "b":
        beta, alpha = bool(beta), bool(alpha)
    return cast(_added(input, product, beta, alpha), dtype)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sum over pairs of axes: the last ``dims`` of a with the first of b, or the axes dims[0] of a with dims[1] of b.

    The axes left of a, then those of b. An extent of 1 is repeated to the one that it meets.

    Raises:
        TypeError: the types differ or are bool.
        IndexError: an operand has no such axis.
        ValueError: ``dims`` is negative, names unequally many axes or one twice, or extents that meet differ.
    """
    require_same("tensordot", "a", a, "b", b, True)
    sa, sb = a.array.shape, b.array.shape
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, (tuple, list)):
        over = tuple(tuple(d) if isinstance(d, (tuple, list)) else (d,) for d in dims)
    else:
        count = operator.index(dims)
        if not 0 <= count <= min(len(sa), len(sb)):
            raise ValueError(f"tensordot: dims={count} must be from 0 to the axes of both: a.shape={sa}, b.shape={sb}")
        over = tuple(range(len(sa) - count, len(sa))), tuple(range(count))
    if len(over) != 2 or len(over[0]) != len(over[1]):
        raise ValueError(f"tensordot: dims={dims} must be an int or two lists with equally many axes")
    of_a = [axis("tensordot", "dims", d, len(sa)) for d in over[0]]
    of_b = [axis("tensordot", "dims", d, len(sb)) for d in over[1]]
    if len({*of_a}) != len(of_a) or len({*of_b}) != len(of_b):
        raise ValueError(f"tensordot: dims={dims} names an axis twice")
    for i, j in zip(of_a, of_b, strict=True):
        if sa[i] == 1 != sb[j]:
            b = sum(b, j, True)
        elif sb[j] == 1 != sa[i]:
            a = sum(a, i, True)
        elif sa[i] != sb[j]:
            raise ValueError(
                f"tensordot: axis {i} of a has {sa[i]}, axis {j} of b has {sb[j]}; a.shape={sa}, b.shape={sb}"
            )
    sa, sb = a.array.shape, b.array.shape
    left, right = [i for i in range(len(sa)) if i not in of_a], [j for j in range(len(sb)) if j not in of_b]
    depth = _size(tuple(sa[i] for i in of_a))
    rows, columns = tuple(sa[i] for i in left), tuple(sb[j] for j in right)
    x = reshape(Permute.apply(a, (*left, *of_a)), _size(rows), depth)
    y = reshape(Permute.apply(b, (*of_b, *right)), depth, _size(columns))
    return reshape(MatMul.apply(x, y), rows + columns)


def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The vector products of vectors of three elements along ``dim`` (the first axis of extent 3 if None).

    Raises:
        TypeError: an operand is no Tensor.
        IndexError: there is no such axis.
        ValueError: the axis has not extent 3, or the shapes do not broadcast.
    """
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
    if shape[position] != 3:
        raise ValueError(f"cross: axis dim={dim} of shape {shape} has extent {shape[position]}, needs 3")
    before = (slice(None),) * position
    turned = [(*before, list(order)) for order in ((1, 2, 0), (2, 0, 1))]
    return x[turned[0]] * y[turned[1]] - x[turned[1]] * y[turned[0]]


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape)) if shape else 1


def _sum(name: str, x: Any, product: Tensor, beta: float, alpha: float) -> Tensor:
    """beta x + alpha product, x broadcast to the product; for integers the factors lose their fractions."""
    require_same(name, "input", x, "the product", product, True)
    for label, value in (("beta", beta), ("alpha", alpha)):
        if not is_number(value):
            raise TypeError(f"{name}: {label} is {type(value).__name__}, needs a number")
    if product.array.dtype.kind == "i":
        beta, alpha = whole(name, "beta", beta), whole(name, "alpha", alpha)
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


def _require(name: str, first: str, x: Any, x_axes: int, second: str, y: Any, y_axes: int) -> None:
    require_same(name, first, x, second, y, True)
    if x.array.ndim != x_axes or y.array.ndim != y_axes:
        _require_axes(name, first, x, x_axes, second, y, y_axes)


def _require_axes(name: str, first: str, x: Any, x_axes: int, second: str, y: Any, y_axes: int) -> None:
    for label, value, count in ((first, x, x_axes), (second, y, y_axes)):
        require_tensor(name, value, label)
        if value.array.ndim != count:
            raise ValueError(
                f"{name}: {label}.shape={value.shape} has {value.ndim} axes, needs {count}; matmul broadcasts"
            )


def _meet(name: str, m: int, n: int, x: Tensor, second: str, y: Tensor, first: str = "input") -> None:
    if m != n:
        raise ValueError(
            f"{name}: {m} and {n} must be equal; {first}.shape={x.array.shape}, {second}.shape={y.array.shape}"
        )
