"""Batch normalization in training and eval mode against explicit formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrograd import nn
from retrograd.engine.tensor import Tensor

SHAPES: list[tuple[Any, tuple[int, ...]]] = [
    (nn.BatchNorm1d, (6, 3)),
    (nn.BatchNorm1d, (4, 3, 5)),
    (nn.BatchNorm2d, (4, 3, 2, 5)),
    (nn.BatchNorm3d, (2, 3, 2, 3, 2)),
]
EVERY_SHAPE = pytest.mark.parametrize(("kind", "shape"), SHAPES)
EPS = 1e-3


def axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (0, *range(2, len(shape)))


def column(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return values.reshape(1, -1, *(1,) * (len(shape) - 2))


def batches(shape: tuple[int, ...], count: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(len(shape))
    return [rng.normal(2.0, 3.0, size=shape) for _ in range(count)]


@EVERY_SHAPE
def test_training_normalizes_by_the_batch_and_tracks(kind: Any, shape: tuple[int, ...]) -> None:
    layer = kind(3, eps=EPS, momentum=0.2, dtype=np.float64)
    layer.weight.array[...] = [0.5, 2.0, -1.0]
    layer.bias.array[...] = [1.0, 0.0, -2.0]
    mean, variance = np.zeros(3), np.ones(3)
    for step, x in enumerate(batches(shape), 1):
        m, v = x.mean(axes(shape)), x.var(axes(shape))
        expected = (x - column(m, shape)) / np.sqrt(column(v, shape) + EPS)
        expected = expected * column(layer.weight.array, shape) + column(layer.bias.array, shape)
        np.testing.assert_allclose(layer(Tensor(x)).array, expected, rtol=1e-10, atol=1e-12)
        count = x.size // 3
        mean = 0.8 * mean + 0.2 * m
        variance = 0.8 * variance + 0.2 * v * count / (count - 1)
        np.testing.assert_allclose(layer.running_mean.array, mean, rtol=1e-12)
        np.testing.assert_allclose(layer.running_var.array, variance, rtol=1e-12)
        assert layer.num_batches_tracked.item() == step


@EVERY_SHAPE
def test_eval_normalizes_by_the_running_statistics(kind: Any, shape: tuple[int, ...]) -> None:
    layer = kind(3, eps=EPS, dtype=np.float64)
    first, second, _ = batches(shape)
    layer(Tensor(first))
    layer.weight.array[...] = [0.5, 2.0, -1.0]
    layer.eval()
    before = {key: tensor.array.copy() for key, tensor in layer.state_dict().items()}
    x = Tensor(second, requires_grad=True)
    y = layer(x)
    factor = layer.weight.array / np.sqrt(before["running_var"] + EPS)
    expected = (second - column(before["running_mean"], shape)) * column(factor, shape)
    np.testing.assert_allclose(y.array, expected, rtol=1e-10, atol=1e-12)
    for key, tensor in layer.state_dict().items():
        np.testing.assert_array_equal(tensor.array, before[key])
    g = np.random.default_rng(0).normal(size=shape)
    y.backward(Tensor(g))
    np.testing.assert_allclose(x.grad.array, g * column(factor, shape), rtol=1e-10)
    np.testing.assert_allclose(layer.bias.grad.array, g.sum(axes(shape)), rtol=1e-10)
    z = (second - column(before["running_mean"], shape)) / np.sqrt(column(before["running_var"], shape) + EPS)
    np.testing.assert_allclose(layer.weight.grad.array, (g * z).sum(axes(shape)), rtol=1e-10)


@EVERY_SHAPE
def test_gradient_in_training(kind: Any, shape: tuple[int, ...]) -> None:
    layer = kind(3, eps=EPS, dtype=np.float64)
    layer.weight.array[...] = [0.5, 2.0, -1.0]
    x = Tensor(batches(shape)[0], requires_grad=True)
    g = np.random.default_rng(1).normal(size=shape)
    layer(x).backward(Tensor(g))
    over = axes(shape)
    inverse = 1 / np.sqrt(x.array.var(over) + EPS)
    z = (x.array - column(x.array.mean(over), shape)) * column(inverse, shape)
    h = g * column(layer.weight.array, shape)
    gx = h - column(h.mean(over), shape) - z * column((h * z).mean(over), shape)
    np.testing.assert_allclose(x.grad.array, gx * column(inverse, shape), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(layer.weight.grad.array, (g * z).sum(over), rtol=1e-9)
    np.testing.assert_allclose(layer.bias.grad.array, g.sum(over), rtol=1e-9)


def test_momentum_none_averages_all_batches() -> None:
    layer = nn.BatchNorm1d(3, momentum=None, dtype=np.float64)
    seen = batches((6, 3))
    for x in seen:
        layer(Tensor(x))
    np.testing.assert_allclose(layer.running_mean.array, np.mean([x.mean(0) for x in seen], 0), rtol=1e-12)
    variance = np.mean([x.var(0, ddof=1) for x in seen], 0)
    np.testing.assert_allclose(layer.running_var.array, variance, rtol=1e-12)
    layer.eval()
    layer(Tensor(seen[0]))


def test_without_affine_and_without_tracking() -> None:
    layer = nn.BatchNorm1d(3, affine=False, track_running_stats=False, dtype=np.float64)
    assert not list(layer.state_dict())
    assert layer.weight is None and layer.running_mean is None and layer.num_batches_tracked is None
    x = batches((6, 3))[0]
    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    for mode in (True, False):
        layer.train(mode)
        np.testing.assert_allclose(layer(Tensor(x)).array, expected, rtol=1e-10)
    plain = nn.BatchNorm1d(3, affine=False, dtype=np.float64)
    np.testing.assert_allclose(plain(Tensor(x)).array, expected, rtol=1e-10)
    assert list(plain.state_dict()) == ["running_mean", "running_var", "num_batches_tracked"]
    layer.reset_parameters()
    scaled = nn.BatchNorm1d(3, bias=False, dtype=np.float64)
    assert scaled.bias is None
    scaled.weight.array[...] = 2
    np.testing.assert_allclose(scaled(Tensor(x)).array, 2 * expected, rtol=1e-10)


def test_tracking_can_be_switched_off_later() -> None:
    layer = nn.BatchNorm1d(3, dtype=np.float64)
    layer.track_running_stats = False
    layer(Tensor(batches((6, 3))[0]))
    np.testing.assert_array_equal(layer.running_mean.array, np.zeros(3))
    assert layer.num_batches_tracked.item() == 0


def test_reset() -> None:
    layer = nn.BatchNorm2d(3)
    start = {key: tensor.array.copy() for key, tensor in layer.state_dict().items()}
    np.testing.assert_array_equal(start["running_var"], np.ones(3))
    np.testing.assert_array_equal(start["weight"], np.ones(3))
    layer(Tensor(np.random.default_rng(0).normal(size=(2, 3, 4, 4)).astype(np.float32)))
    layer.weight.array[...] = 7
    layer.reset_parameters()
    for key, tensor in layer.state_dict().items():
        np.testing.assert_array_equal(tensor.array, start[key])


def test_a_call_that_fails_leaves_the_statistics_alone() -> None:
    layer = nn.BatchNorm2d(3)
    before = {key: tensor.array.copy() for key, tensor in layer.state_dict().items()}
    bad = [
        (np.zeros((1, 3, 1, 1), np.float32), ValueError, "1 element to take statistics over"),
        (np.zeros((2, 4, 3, 3), np.float32), ValueError, r"running_mean.shape=\(3,\), needs \(4,\)"),
        (np.zeros((2, 3), np.float32), ValueError, r"input has shape \(2, 3\), needs 4 axes"),
        (np.zeros((2, 3, 2, 2)), TypeError, "float64"),
    ]
    for x, kind, message in bad:
        with pytest.raises(kind, match="^in BatchNorm2d.*" + message):
            layer(Tensor(x))
    for key, tensor in layer.state_dict().items():
        np.testing.assert_array_equal(tensor.array, before[key])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_features": 0}, "BatchNorm1d: num_features=0 must be an int of at least 1"),
        ({"eps": -1.0}, "BatchNorm1d: eps=-1.0 must be a number of at least 0"),
        ({"eps": float("nan")}, "BatchNorm1d: eps=nan"),
        ({"momentum": 1.5}, "BatchNorm1d: momentum=1.5 must be between 0 and 1, or None"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nn.BatchNorm1d(**{"num_features": 3, **arguments})


@pytest.mark.parametrize("layer", [nn.LayerNorm, nn.RMSNorm])
def test_weights_of_images_have_their_order(layer: type) -> None:
    """Weights in channels-last order are saved, loaded and used like any others."""
    images, plain = layer((3, 4, 5), dtype="float64"), layer((4, 5), dtype="float64")
    assert images.weight.array.transpose(1, 2, 0).flags.c_contiguous and plain.weight.array.flags.c_contiguous
    numbers = np.random.default_rng(0).standard_normal((3, 4, 5))
    images.load_state_dict({**images.state_dict(), "weight": Tensor(numbers)})
    np.testing.assert_array_equal(images.weight.array, numbers)
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 5))
    mean = x.mean((1, 2, 3), keepdims=True) if layer is nn.LayerNorm else 0
    size = np.sqrt(np.square(x - mean).mean((1, 2, 3), keepdims=True) + (1e-5 if layer is nn.LayerNorm else 0))
    np.testing.assert_allclose(images(Tensor(x)).array, (x - mean) / size * numbers, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm2d(2), nn.InstanceNorm2d(2, track_running_stats=True), nn.LazyBatchNorm2d(), nn.SyncBatchNorm(2)],
)
def test_a_state_from_before_the_count_of_batches(layer: Any) -> None:
    state = dict(nn.BatchNorm2d(2, affine=layer.affine).state_dict())
    del state["num_batches_tracked"]
    layer.num_batches_tracked.array[...] = 5
    state["running_mean"] = Tensor(np.array([1.0, 2.0], np.float32))
    assert layer.load_state_dict(state) == ([], [])
    assert layer.num_batches_tracked.item() == 5 and layer.running_mean.tolist() == [1.0, 2.0]
    assert "num_batches_tracked" not in state


def test_a_count_that_is_needed_must_be_there() -> None:
    layer = nn.BatchNorm2d(2, momentum=None)
    state = layer.state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match='Missing key.*"num_batches_tracked"'):
        layer.load_state_dict(state)  # of a version that has it
    layer.load_state_dict(dict(state))  # of an unknown version: taken for an old one, as in PyTorch
    del state["running_mean"]
    with pytest.raises(RuntimeError, match='Missing key.*"running_mean"'):
        nn.BatchNorm2d(2).load_state_dict(state)


@pytest.mark.parametrize("name", ["running_mean", "running_var", "num_batches_tracked"])
def test_statistics_in_memory_that_cannot_change_are_refused(name: str) -> None:
    layer = nn.BatchNorm1d(3)
    values = np.array(getattr(layer, name).array)
    values.flags.writeable = False
    setattr(layer, name, Tensor(values))
    with pytest.raises(RuntimeError, match=f"memory of {name} is read-only"):
        layer(Tensor(np.arange(12, dtype=np.float32).reshape(4, 3)))
    assert np.array_equal(values, getattr(nn.BatchNorm1d(3), name).array)
    assert layer.eval()(Tensor(np.zeros((1, 3), np.float32))).shape == (1, 3)  # nothing is written there


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_a_backward_that_needs_statistics_from_before_an_update_is_refused(kind: Any) -> None:
    layer = kind(3, track_running_stats=True)
    x = Tensor(np.ones(3, np.float32), requires_grad=True)
    loss = (x * layer.running_var).sum()
    layer(Tensor(np.arange(24, dtype=np.float32).reshape(2, 3, 4)))
    with pytest.raises(RuntimeError, match="changed by the update of running statistics"):
        loss.backward()
