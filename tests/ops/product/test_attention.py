from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ops.battery import kernels_of_backward, numbers
from retrograd.autograd import grad
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.ops.product.attention import attention_grad

Q, K, V = numbers(2, 4, 5, 6), numbers(2, 2, 7, 6, seed=1), numbers(2, 2, 7, 3, seed=2)
SEES = np.random.default_rng(0).random((5, 7)) < 0.6


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_the_composed_gradient_equals_the_kernel(causal: bool, masked: bool) -> None:
    if causal and masked:
        return
    mask = Tensor(SEES) if masked else None
    inputs = [Tensor(x, requires_grad=True) for x in (Q, K, V)]
    y = F.scaled_dot_product_attention(*inputs, mask, is_causal=causal, scale=0.3, enable_gqa=True)
    g = Tensor(numbers(*y.shape, seed=4))
    bias = np.broadcast_to(np.where(SEES, 0.0, -np.inf), (2, 4, 5, 7)) if masked else None
    fused = grad(y, inputs, g)
    composed = attention_grad(g, *inputs, bias, 0.3, causal)
    for one, other in zip(fused, composed, strict=True):
        np.testing.assert_allclose(one.array, other.array, rtol=1e-11, atol=1e-13)


def test_the_composed_form_equals_the_kernel() -> None:
    """A mask that requires a gradient selects the composed form."""
    inputs = [Tensor(x, requires_grad=True) for x in (Q, Q, Q)]
    mask = Tensor(np.where(SEES[:, :5], 0.0, -np.inf), requires_grad=True)
    long = F.scaled_dot_product_attention(*inputs, mask)
    short = F.scaled_dot_product_attention(*inputs, mask.detach())
    np.testing.assert_allclose(long.array, short.array, rtol=1e-12)
    g = Tensor(numbers(*long.shape, seed=4))
    *first, of_mask = grad(long, [*inputs, mask], g)
    for one, other in zip(first, grad(short, inputs, g), strict=True):
        np.testing.assert_allclose(one.array, other.array, rtol=1e-11, atol=1e-13)
    assert not of_mask.array[~SEES[:, :5]].any() and np.isfinite(of_mask.array).all()


@pytest.mark.parametrize("wanted", [{0}, {1, 2}, {0, 1, 2}], ids=str)
def test_one_kernel_per_backward(wanted: set[int]) -> None:
    def function(*x: Any) -> Tensor:
        return F.scaled_dot_product_attention(*x, enable_gqa=True)

    assert kernels_of_backward(function, (Q, K, V), wanted) == ["attention_grad"]
