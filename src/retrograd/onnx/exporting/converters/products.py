"""Linear layers and products of matrices."""

from __future__ import annotations

from ....ops.product.matmul import Linear, MatMul
from ..writer import Value, Writer
from .registry import converter


@converter(Linear)
def linear(w: Writer, x: Value, weight: Value, bias: Value | None) -> Value:
    if len(x.shape) == 2:
        return w.node("Gemm", x, weight, bias, transB=1)
    y = w.node("MatMul", x, w.node("Transpose", weight, perm=[1, 0]))
    return y if bias is None else w.node("Add", y, bias)


@converter(MatMul)
def matmul(w: Writer, x: Value, y: Value) -> Value:
    return w.node("MatMul", x, y)
