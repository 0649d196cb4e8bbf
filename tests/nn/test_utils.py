"""nn.utils except parametrizations and clipping: batch norm fusion, skip_init; also DataParallel and Buffer."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.engine.tensor import Tensor
from retrograd.nn.parallel import DistributedDataParallel


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng((seed, *shape)).standard_normal(shape))


def _norm(kind: Any, channels: int, **options: Any) -> Any:
    norm = kind(channels, dtype=np.float64, **options).eval()
    rng = np.random.default_rng(1)
    norm.running_mean.array[...] = rng.normal(size=channels)
    norm.running_var.array[...] = rng.uniform(0.5, 2, channels)
    if norm.weight is not None:
        norm.weight.array[...], norm.bias.array[...] = rng.normal(size=(2, channels))
    return norm


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("transposed", [False, True])
def test_fused_convolution(transposed: bool, affine: bool, bias: bool) -> None:
    kind = nn.ConvTranspose2d if transposed else nn.Conv2d
    layer = kind(3, 4, (3, 2), bias=bias, dtype=np.float64).eval()
    norm = _norm(nn.BatchNorm2d, 4, affine=affine)
    before = layer.weight.array.copy()
    fused = nn.utils.fuse_conv_bn_eval(layer, norm, transpose=transposed)
    x = normal(2, 3, 5, 6)
    np.testing.assert_allclose(fused(x).array, norm(layer(x)).array, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(layer.weight.array, before)
    assert isinstance(fused.weight, nn.Parameter) and fused.weight.array.strides == layer.weight.array.strides


def test_fused_linear() -> None:
    layer, norm = nn.Linear(5, 3, dtype=np.float64).eval(), _norm(nn.BatchNorm1d, 3)
    x = normal(4, 5)
    fused = nn.utils.fuse_linear_bn_eval(layer, norm)
    np.testing.assert_allclose(fused(x).array, norm(layer(x)).array, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="bn.num_features=2 must be linear.out_features=3, or 1"):
        nn.utils.fuse_linear_bn_eval(layer, _norm(nn.BatchNorm1d, 2))
    with pytest.raises(ValueError, match="must be in evaluation mode"):
        nn.utils.fuse_linear_bn_eval(layer, norm.train())
    with pytest.raises(ValueError, match="bn has no running statistics"):
        nn.utils.fuse_linear_bn_eval(layer, nn.BatchNorm1d(3, track_running_stats=False).eval())


def test_skip_init_draws_nothing() -> None:
    retrograd.manual_seed(0)
    wanted = nn.Linear(3, 2).weight.array
    retrograd.manual_seed(0)
    skipped = nn.utils.skip_init(nn.Linear, 3, out_features=2)
    assert skipped.weight.shape == (2, 3)
    np.testing.assert_array_equal(nn.Linear(3, 2).weight.array, wanted)
    with pytest.raises(RuntimeError, match="skip_init: expected a subclass of Module"):
        nn.utils.skip_init(len)
    with pytest.raises(ValueError, match="embed_dim=5 must be divisible"):
        nn.utils.skip_init(nn.MultiheadAttention, 5, 2)
    retrograd.manual_seed(0)
    np.testing.assert_array_equal(nn.Linear(3, 2).weight.array, wanted)  # an error does not switch it off for good


def test_removed_spectral_norm_leaves_the_weight() -> None:
    layer = nn.utils.spectral_norm(nn.Linear(5, 3, dtype=np.float64))
    for seed in range(30):
        layer(normal(2, 5, seed=seed))
    layer.eval()
    y = layer(normal(2, 5)).array
    nn.utils.remove_spectral_norm(layer)
    np.testing.assert_allclose(layer(normal(2, 5)).array, y)
    assert list(layer.state_dict()) == ["bias", "weight"] and type(layer) is nn.Linear
    assert abs(np.linalg.norm(layer.weight.array, 2) - 1) < 1e-3
    with pytest.raises(ValueError, match="remove_spectral_norm: Linear has no spectral norm of 'weight'"):
        nn.utils.remove_spectral_norm(layer)
    with pytest.raises(ValueError, match="spectral_norm: Linear has no parameter 'w'"):
        nn.utils.spectral_norm(layer, "w")


def test_data_parallel() -> None:
    inner = nn.Linear(3, 2, dtype=np.float64)
    model = nn.DataParallel(inner)
    assert list(model.state_dict()) == ["module.weight", "module.bias"] and model.module is inner
    np.testing.assert_array_equal(model(normal(4, 3)).array, inner(input=normal(4, 3)).array)
    with pytest.raises(RuntimeError, match=r"device_ids=\[0, 1\], output_device=None: there is one device, the CPU"):
        nn.DataParallel(inner, device_ids=[0, 1])
    with pytest.raises(TypeError, match="module must be a Module, got Tensor"):
        nn.DataParallel(normal(2))
    with pytest.raises(RuntimeError, match=r"there is no process group; call distributed.init_process_group"):
        DistributedDataParallel(inner)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = nn.Buffer(retrograd.zeros(2))
        self.scratch = nn.Buffer(retrograd.ones(3), persistent=False)


def test_buffer() -> None:
    model = Counter()
    assert list(model.state_dict()) == ["count"] and [name for name, _ in model.named_buffers()] == ["count", "scratch"]
    assert not list(model.parameters())
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert isinstance(copied.count, nn.Buffer) and not copied.scratch.persistent
        np.testing.assert_array_equal(copied.scratch.array, np.ones(3))
    model.count = nn.Parameter(retrograd.zeros(2))
    assert [name for name, _ in model.named_buffers()] == ["scratch"]
