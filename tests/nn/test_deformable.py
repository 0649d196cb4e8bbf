"""Deformable convolution layers, beyond what tests/conformance checks of every layer."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

OWN = [nn.DeformableConvolution, nn.ModulatedDeformableConvolution]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def test_what_it_is_made_of() -> None:
    layer = nn.DeformConv2d(4, 6, (3, 2), 2, 1, (1, 2), 2, False)
    assert layer.weight.shape == (6, 2, 3, 2) and layer.bias is None
    options = "stride=(2, 2), padding=(1, 1), dilation=(1, 2), groups=2, bias=False"
    assert repr(layer) == f"DeformConv2d(4, 6, kernel_size=(3, 2), {options})"
    assert dict(nn.DeformConv2d(4, 6, 3).state_dict()).keys() == {"weight", "bias"}
    retrograd.manual_seed(3)
    first = nn.DeformConv2d(4, 6, 3)
    retrograd.manual_seed(3)
    np.testing.assert_array_equal(first.weight.array, nn.Conv2d(4, 6, 3).weight.array)  # the same initial values


@pytest.mark.parametrize("kind", OWN)
def test_it_begins_as_an_ordinary_convolution(kind: Any) -> None:
    layer = kind(4, 6, 3, 2, 1, num_deformable_group=2, groups=2)
    x = Tensor(random(2, 4, 7, 6))
    y = F.conv2d(x, layer.weight, layer.bias, 2, 1, groups=2)
    np.testing.assert_allclose(layer(x).array, y.array, rtol=1e-5, atol=1e-6)
    assert layer.offset.weight.shape == ((2 if kind is OWN[0] else 3) * 18, 2, 3, 3)
    assert not layer.offset.weight.array.any() and not layer.offset.bias.array.any()
    layer(x).sum().backward()
    assert all(np.any(parameter.grad.array) for parameter in layer.parameters())
    layer.offset.weight.array[...] = 1
    layer.reset_parameters()
    assert not layer.offset.weight.array.any()
    assert kind(4, 6, 3, offset_bias=False).offset.bias is None
    assert set(layer.state_dict()) == {"weight", "bias", "offset.weight", "offset.bias"}


def test_the_mask_is_twice_a_sigmoid() -> None:
    layer = nn.ModulatedDeformableConvolution(1, 1, 1, bias=False)
    layer.weight.array[...] = 1
    layer.offset.bias.array[...] = [0, 1, np.log(3)]  # one column to the right; 2 * 3/4
    x = random(1, 1, 2, 3)
    expected = np.zeros_like(x)
    expected[..., :2] = 1.5 * x[..., 1:]
    np.testing.assert_allclose(layer(Tensor(x)).array, expected, rtol=1e-6)


def test_an_activation_and_a_workspace() -> None:
    x, offset = Tensor(random(1, 4, 5, 5)), Tensor(random(1, 18, 5, 5))
    layer = nn.DeformConv2d(4, 6, 3, padding="same", activation="relu", workspace=0.01)
    y = F.deform_conv2d(x, offset, layer.weight, layer.bias, padding=1)
    np.testing.assert_array_equal(layer(x, offset).array, np.maximum(y.array, 0))
    assert "activation=relu, workspace=0.01" in repr(layer)
    own = nn.DeformableConvolution(4, 6, 3, activation="tanh", workspace=0.01)
    np.testing.assert_allclose(own(x).array, np.tanh(F.conv2d(x, own.weight, own.bias).array), rtol=1e-5, atol=1e-6)
    assert own.offset.workspace == 0.01 and own.offset.activation is None
    with pytest.raises(ValueError, match="DeformConv2d: activation='most' must be a function, or one of"):
        nn.DeformConv2d(4, 6, 3, activation="most")


def test_repr_of_a_layer_with_its_own_offsets() -> None:
    text = repr(nn.ModulatedDeformableConvolution(4, 6, 3, padding=1, num_deformable_group=2))
    assert "4, 6, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), num_deformable_group=2" in text
    assert "(offset): Conv2d(4, 54, kernel_size=(3, 3)" in text


@pytest.mark.parametrize("kind", OWN)
def test_it_learns_where_to_look(kind: Any) -> None:
    """A single tap must find the pixel that the target shows."""
    retrograd.manual_seed(0)
    layer = kind(1, 1, 1)
    optimizer = retrograd.optim.Adam(layer.parameters(), lr=0.05)
    rows, columns = np.meshgrid(np.arange(9.0), np.arange(9.0), indexing="ij")
    x = np.sin(rows / 3 + columns / 2)[None, None].astype(np.float32)
    inner = (slice(None), slice(None), slice(1, 8), slice(1, 8))
    target = Tensor(x[:, :, 2:9, 1:8].copy())
    losses = []
    for _ in range(100):
        loss = ((layer(Tensor(x))[inner] - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.array))
    assert losses[-1] < losses[0] / 20


@pytest.mark.pairwise
@pytest.mark.parametrize("activation", [None, "tanh"])
@pytest.mark.parametrize("kind", [nn.DeformConv2d, *OWN])
def test_gradients_of_every_sample(kind: Any, activation: Any) -> None:
    own = {} if kind is nn.DeformConv2d else {"num_deformable_group": 2}
    layer = kind(4, 6, 3, padding=1, groups=2, activation=activation, **own)
    more = (random(3, 18, 5, 5), random(3, 9, 5, 5)) if kind is nn.DeformConv2d else ()
    arrays = (random(3, 4, 5, 5), *more)
    for parameter in layer.parameters():
        parameter.array[...] = 0.3 * random(*parameter.shape)
    with retrograd.per_sample_gradients(layer):
        (layer(*map(Tensor, arrays)) ** 2).sum().backward()
    rows = {name: parameter.grad_sample.array for name, parameter in layer.named_parameters()}
    for n in range(3):
        layer.zero_grad()
        (layer(*(Tensor(array[n : n + 1]) for array in arrays)) ** 2).sum().backward()
        for name, parameter in layer.named_parameters():
            size = np.abs(parameter.grad.array).max()
            np.testing.assert_allclose(rows[name][n], parameter.grad.array, rtol=1e-4, atol=1e-5 * size)


@pytest.mark.parametrize("kind", [nn.DeformConv2d, *OWN])
def test_arguments_are_checked(kind: Any) -> None:
    name = kind.__name__
    for arguments, options, message in (
        ((4, 6, 0), {}, "kernel_size=0 must be at least 1"),
        ((4, 6, 3), {"groups": 4}, "out_channels=6 must be divisible by groups=4"),
        ((4, 6, 3), {"padding": "most"}, "padding='most'"),
    ):
        with pytest.raises(ValueError, match=f"{name}: {message}"):
            kind(*arguments, **options)
    if kind is nn.DeformConv2d:
        message = re.escape("deform_conv2d: offset.shape=(1, 9, 5, 5) must be (1, 2*D*9, 5, 5)")
        with pytest.raises(ValueError, match=rf"in DeformConv2d.*: {message}"):
            kind(1, 1, 3, padding=1)(Tensor(random(1, 1, 5, 5)), Tensor(random(1, 9, 5, 5)))
        return
    for many in (3, 0, 1.0, True):
        with pytest.raises(ValueError, match=f"{name}: num_deformable_group={many} must be an int of at least 1 that"):
            kind(4, 6, 3, num_deformable_group=many)
    with pytest.raises(ValueError, match=f"{name}: groups=4 must divide the .* channels of the offsets too"):
        kind(4, 8, 3, groups=4)
