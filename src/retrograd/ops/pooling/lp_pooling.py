"""Power-average pooling: the p-norm of each window, from the sum (p = 1) to the maximum (p = infinity)."""

from __future__ import annotations

import math
from typing import Any

from ...arrays import any_true, zeros
from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ...specs.geometry import as_tuple
from ..arguments.checks import as_float, as_real, require_tensor
from ..convolution.arguments import Extent
from ..pointwise.elementwise import Scale
from ..pointwise.piecewise import relu
from ..pointwise.powers import pow
from .pooling import avg_pool_nd, max_pool_nd


class Root(Function):
    """x**(1/p), with gradient 0 where x is 0: at a window of zeros, the norm has its minimum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        y = wrap(kernels.power(x.array, 1.0 / p))
        ctx.save_for_backward(x, y)
        ctx.p = p
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        zero = exact("eq")(x.array, zeros((), x.array.dtype, like=x.array))
        some = any_true(zero, "whether a window holds zeros only")
        divisor = x + wrap(kernels.cast(zero, x.array.dtype)) if some else x
        if ctx.p == 1:
            return g, None
        return g * Scale.apply(y / divisor, 1.0 / ctx.p), None


def lp_pool_nd(
    name: str, ndim: int, x: Tensor, norm_type: float, kernel_size: Extent, stride: Extent | None, ceil_mode: bool
) -> Tensor:
    """``nn.functional.lp_pool2d`` for ``ndim`` axes; for integers and an integer p, the means are integers."""
    require_tensor(name, x)
    p = as_real(name, "norm_type", norm_type)
    if p == 0 or math.isnan(p):
        raise ValueError(f"{name}: norm_type={norm_type} must not be 0; give the exponent p of (sum of x**p)**(1/p)")
    if math.isinf(p):
        size = relu(x) + relu(-x) if x.array.dtype.kind != "u" else x  # |x|
        if p > 0:
            return max_pool_nd(name, ndim, size, kernel_size, stride, 0, 1, ceil_mode, False)
        if x.array.dtype.kind == "u":  # -x would wrap at 0
            return 255 - max_pool_nd(name, ndim, 255 - size, kernel_size, stride, 0, 1, ceil_mode, False)
        return -max_pool_nd(name, ndim, -size, kernel_size, stride, 0, 1, ceil_mode, False)
    powers = x if p == 1 and x.array.dtype.kind == "f" else pow(x, norm_type)
    mean = as_float(name, avg_pool_nd(name, ndim, powers, kernel_size, stride, 0, ceil_mode, True, None))
    taps = math.prod(as_tuple(kernel_size, ndim, "kernel_size", 1))
    return Root.apply(Scale.apply(mean, float(taps)), p)
