"""Deformable convolution beyond tests/conformance, which checks first and second derivatives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ops.battery import check_adjoint, kernels_of_backward, numbers
from retrograd.autograd import grad
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.ops.convolution.deformable import DeformConv, deform_conv_grad
from retrograd.specs.geometry import Window, conv_window

Arrays = list[np.ndarray]


def operands(groups: int = 1, deformable: int = 2, batch: int = 1) -> tuple[Arrays, Window]:
    """Return x, offset (no integer positions, so there are no kinks), mask, w, b and the window."""
    window = conv_window((3, 4), 2, (1, 2), ((1, 0), (0, 1)), (1, 2), groups)
    rng = np.random.default_rng(0)
    shape = (batch, 2 * deformable * 4, *window.output)
    offset = rng.integers(-2, 2, shape) + rng.uniform(0.2, 0.8, shape)
    mask = numbers(batch, deformable * 4, *window.output, low=0.3)
    return [numbers(batch, 4, 3, 4), offset, mask, numbers(2, 4 // groups, 2, 2), numbers(2)], window


def apply(arrays: Any, window: Window) -> Tensor:
    x, offset, mask, w, b = arrays
    return DeformConv.apply(x, offset, mask, w, b, window, None)


@pytest.mark.parametrize(("groups", "deformable"), [(1, 1), (2, 2), (1, 4), (2, 1)])
@pytest.mark.parametrize("masked", [True, False])
def test_the_fused_gradients_equal_the_composed_ones(groups: int, deformable: int, masked: bool) -> None:
    arrays, window = operands(groups, deformable, 2)
    tensors = [Tensor(a, requires_grad=True) for a in arrays]
    if not masked:
        tensors[2] = None
    y = apply(tensors, window)
    g = Tensor(numbers(*y.shape, seed=3))
    inputs = [t for t in tensors if t is not None]
    fused = grad(y, inputs, g, retain_graph=True)
    composed = grad(y, inputs, g, create_graph=True)
    for one, other in zip(fused, composed, strict=True):
        assert not one.requires_grad and one.shape == other.shape
        np.testing.assert_allclose(one.array, other.array, rtol=1e-11, atol=1e-12)
    again = deform_conv_grad(g, *tensors[:4], window, (True,) * 4)
    for one, other in zip((t for t in again if t is not None), composed, strict=False):
        np.testing.assert_array_equal(one.array, other.array)


def test_linear_in_the_input_the_mask_and_the_weight() -> None:
    arrays, window = operands(2)
    for k in (0, 2, 3):
        others = [Tensor(a) for a in arrays[:4]]
        check_adjoint(lambda t, k=k, o=others: apply((*o[:k], t, *o[k + 1 :], None), window), arrays[k])


def test_gradients_nobody_asked_for_are_not_computed() -> None:
    arrays, window = operands()
    function = lambda *tensors: apply(tensors, window)  # noqa: E731
    for wanted in (0, 1, 2):
        assert kernels_of_backward(function, tuple(arrays), {wanted}) == ["deform_conv_grad"]
    assert kernels_of_backward(function, tuple(arrays), {0, 1, 2}) == ["deform_conv_grad"]
    assert kernels_of_backward(function, tuple(arrays), {3}) == ["deform_conv_weight_grad"]
    assert kernels_of_backward(function, tuple(arrays), {4}) == ["sum"]


def test_options_and_words() -> None:
    x, w, b = Tensor(numbers(2, 4, 5, 6)), Tensor(numbers(6, 2, 3, 2)), Tensor(numbers(6))
    for options in (
        {"stride": 2, "padding": 1},
        {"stride": (2, 1), "padding": ((2, 0), (0, 1)), "dilation": (1, 2)},
        {"padding": "same", "dilation": 2},
        {"padding": "valid"},
        {"padding": "causal"},
    ):
        y = F.conv2d(x, w, b, groups=2, **options)
        zeros, ones = Tensor(np.zeros((2, 24, *y.shape[2:]))), Tensor(np.ones((2, 12, *y.shape[2:])))
        np.testing.assert_allclose(F.deform_conv2d(x, zeros, w, b, **options).array, y.array, atol=1e-13)
        np.testing.assert_allclose(F.deform_conv2d(x, zeros, w, b, mask=ones, **options).array, y.array, atol=1e-13)


def test_a_workspace_changes_nothing() -> None:
    (x, offset, mask, w, b), window = operands(batch=2)
    results = []
    for workspace in (None, 0, 0.001, 16):
        tensors = [Tensor(a, requires_grad=True) for a in (x, offset, w, b)]
        geometry = window.stride, window.padding, window.dilation
        y = F.deform_conv2d(*tensors, *geometry, Tensor(mask), workspace=workspace)
        y.backward(Tensor(numbers(*y.shape)))
        results.append([y.array, *(tensor.grad.array for tensor in tensors)])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("masked", [True, False])
def test_without_batch(masked: bool) -> None:
    (x, offset, mask, w, b), _ = operands(batch=2)
    both = [Tensor(a, requires_grad=True) for a in (x, offset, mask)]
    one = [Tensor(a[1], requires_grad=True) for a in (x, offset, mask)]
    w, b, geometry = Tensor(w), Tensor(b), ((1, 2), ((1, 0), (0, 1)), (1, 2))
    y = F.deform_conv2d(*both[:2], w, b, *geometry, both[2] if masked else None)
    z = F.deform_conv2d(*one[:2], w, b, *geometry, one[2] if masked else None)
    np.testing.assert_array_equal(z.array, y.array[1])
    y.backward(Tensor(g := numbers(*y.shape)))
    z.backward(Tensor(g[1]))
    for whole, part in zip(both[: 2 + masked], one, strict=False):
        np.testing.assert_allclose(part.grad.array, whole.grad.array[1], rtol=1e-12, atol=1e-14)


X, P, W = (2, 6, 9, 9), (2, 18, 7, 7), (4, 3, 3, 3)


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ((X, P, (4, 4, 3, 3)), {}, "input has 6 channels, which must be a multiple of the 4 per group"),
        ((X, P, (4, 0, 3, 3)), {}, "input has 6 channels, which must be a multiple of the 0 per group"),
        ((X, P, (3, 3, 3, 3)), {}, "weight.shape=(3, 3, 3, 3) makes 3 channels, which groups=2 does not divide"),
        ((X, P, (4, 3, 3)), {}, "weight has 3 axes, needs 4 (two for channels, 2 for taps); weight.shape=(4, 3, 3)"),
        (((9, 9), P, W), {}, "input has 2 axes, needs 4"),
        ((X, (2, 18, 9, 9), W), {}, "offset.shape=(2, 18, 9, 9) must be (2, 2*D*9, 7, 7): rows and columns for each"),
        ((X, (1, 18, 7, 7), W), {}, "offset.shape=(1, 18, 7, 7) must be (2, 2*D*9, 7, 7)"),
        ((X, (18, 7, 7), W), {}, "offset.shape=(18, 7, 7) must be (2, 2*D*9, 7, 7)"),
        ((X, (2, 17, 7, 7), W), {}, "offset.shape=(2, 17, 7, 7) must be (2, 2*D*9, 7, 7)"),
        ((X, (2, 72, 7, 7), W), {}, "where D divides the 6 channels of input; input.shape=(2, 6, 9, 9)"),
        ((X[1:], P, W), {}, "offset.shape=(2, 18, 7, 7) must be (2*D*9, 7, 7)"),
        ((X, P, W), {"mask": (2, 18, 7, 7)}, "mask.shape=(2, 18, 7, 7) must be (2, 9, 7, 7): one number for each of"),
        ((X, P, W), {"bias": (6,)}, "bias.shape=(6,), needs (4,), one per output channel"),
        ((X, P, W), {"stride": 0}, "stride=0 must be at least 1"),
        ((X, P, W), {"dilation": 5}, "(9 + 0 + 0 - 5*(3 - 1) - 1)//1 + 1 = -1 must be at least 1"),
        ((X, P, W), {"padding": "full"}, "padding='full'"),
        ((X, P, W), {"workspace": -1}, "workspace=-1 must be at least 0 MB"),
    ],
)
def test_messages(shapes: Any, options: dict[str, Any], message: str) -> None:
    options = {key: Tensor(np.zeros(v)) if key in ("mask", "bias") else v for key, v in options.items()}
    for _ in range(2):  # a cached plan must not hide an error
        with pytest.raises(ValueError, match="deform_conv2d: .*" + re.escape(message)):
            F.deform_conv2d(*[Tensor(np.zeros(shape)) for shape in shapes], **options)


def test_messages_about_types() -> None:
    x, offset, w = (Tensor(np.zeros(shape, np.float32)) for shape in (X, P, W))
    mask = Tensor(np.zeros((2, 9, 7, 7)))
    for call, message in (
        (lambda: F.deform_conv2d(x, offset.double(), w), "deform_conv2d: input is float32, offset is float64; both"),
        (lambda: F.deform_conv2d(x, offset, w, mask=mask), "deform_conv2d: input is float32, mask is float64; both"),
        (lambda: F.deform_conv2d(x, offset.array, w), "deform_conv2d: offset is ndarray, needs a Tensor"),
        (lambda: F.deform_conv2d(x, offset, w, None, 1.5), "deform_conv2d: stride=1.5 must be an int"),
    ):
        with pytest.raises(TypeError, match=re.escape(message)):
            call()
