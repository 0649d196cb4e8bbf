"""Products of matrices. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ..node import Node
from ..values import Value, array_of, floating
from .convolution import saturated
from .registry import operator


@operator("Gemm")
def gemm(node: Node, a: Value, b: Value, c: Value = None) -> Tensor:
    """alpha * a' b' + beta * c, with a' and b' transposed or not."""
    a, b = floating(a), floating(b)
    a, b = (a.T if node["transA"] else a), (b.T if node["transB"] else b)
    product = ops.matmul(a, b)
    if node["alpha"] != 1:
        product = product * node["alpha"]
    if c is None:
        return product
    return product + (c if node["beta"] == 1 else c * node["beta"])


@operator("MatMul")
def matmul(node: Node, a: Value, b: Value) -> Value:
    if array_of(a).dtype.kind in "iu":
        return wrap(np.matmul(array_of(a), array_of(b)))
    return ops.matmul(floating(a), floating(b))


@operator("MatMulInteger", constants=(0, 1, 2, 3))
def matmul_integer(node: Node, a: Value, b: Value, a_zero: Value = None, b_zero: Value = None) -> Tensor:
    return wrap(np.matmul(_centred(a, a_zero, -1), _centred(b, b_zero, -2)).astype(np.int32))


@operator("QLinearMatMul", constants=tuple(range(8)))
def qlinear_matmul(
    node: Node,
    a: Value,
    a_scale: Value,
    a_zero: Value,
    b: Value,
    b_scale: Value,
    b_zero: Value,
    y_scale: Value,
    y_zero: Value,
) -> Tensor:
    total = np.matmul(_centred(a, a_zero, -1), _centred(b, b_zero, -2))
    scales = array_of(a_scale).astype(np.float64) * array_of(b_scale).astype(np.float64) / array_of(y_scale)
    return wrap(saturated(np.rint(total * scales) + array_of(y_zero), array_of(y_zero).dtype))


def _centred(x: Value, zero: Value, axis: int) -> np.ndarray:
    """x without its zero point, of each row (axis -1) or column; float64 holds the sums of products of bytes."""
    numbers = array_of(x).astype(np.float64)
    if zero is None:
        return numbers
    shift = array_of(zero).astype(np.float64)
    return numbers - (np.expand_dims(shift, axis) if shift.ndim == 1 and shift.size > 1 else shift)


@operator("Einsum")
def einsum(node: Node, *operands: Value) -> Tensor:
    return ops.einsum(node["equation"].replace(" ", ""), *[floating(each) for each in operands])
