"""Convolution and transposed convolution in 1, 2 and 3 dimensions: values, gradients, second gradients."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours
from peers.compare import assert_agree, normal
from retrograd.ops.kernel_set import ALGORITHMS

COUNT = {1: 12, 2: 12, 3: 6}  # generated cases by number of dimensions


@dataclass(frozen=True)
class Case:
    n: int
    ci: int
    co: int
    groups: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]
    bias: bool

    def __str__(self) -> str:
        def join(values: tuple[int, ...]) -> str:
            return "x".join(map(str, values))

        return (f"{self.n}-{self.ci}-{join(self.size)}-{self.co}-k{join(self.kernel)}-s{join(self.stride)}"
                f"-p{join(self.padding)}-d{join(self.dilation)}-g{self.groups}{'-b' * self.bias}")  # fmt: skip


def _generate(ndim: int, seed: int) -> Case:
    draw = random.Random(seed * 10 + ndim)
    groups = draw.choice((1, 1, 2, 3, 4))
    ci = groups * draw.choice((1, 1, 2, 3))
    co = groups * draw.choice((1, 2, 5))
    kernel = tuple(draw.choice((1, 2, 3, 4)) for _ in range(ndim))
    stride = tuple(draw.choice((1, 1, 2, 3)) for _ in range(ndim))
    dilation = tuple(draw.choice((1, 1, 2)) for _ in range(ndim))
    padding = tuple(draw.choice((0, 1, 2)) for _ in range(ndim))
    least = [d * (r - 1) + 1 - 2 * p for r, d, p in zip(kernel, dilation, padding, strict=True)]
    size = tuple(max(1, low) + draw.randrange({1: 9, 2: 6, 3: 3}[ndim]) for low in least)
    extra = tuple(draw.randrange(max(s, d)) for s, d in zip(stride, dilation, strict=True))
    return Case(
        draw.choice((1, 2, 3)), ci, co, groups, size, kernel, stride, padding, dilation, extra, draw.random() < 0.6
    )


def _cases(ndim: int) -> list[Case]:
    return [_generate(ndim, seed) for seed in range(COUNT[ndim])]


CASES = [case for ndim in COUNT for case in _cases(ndim)]


def _arrays(case: Case, weight: tuple[int, ...], dtype: Any = np.float64) -> list[np.ndarray]:
    x, w = normal(case.n, case.ci, *case.size, dtype=dtype), normal(*weight, *case.kernel, seed=1, dtype=dtype)
    return [x, w, normal(case.co, seed=2, dtype=dtype)][: 3 if case.bias else 2]


def _conv(library: Any, case: Case) -> Any:
    function = getattr(library, f"conv{len(case.size)}d")

    def call(x: Any, w: Any, b: Any = None) -> Any:
        return function(x, w, b, case.stride, case.padding, case.dilation, case.groups)

    return call


def _conv_transpose(library: Any, case: Case) -> Any:
    function = getattr(library, f"conv_transpose{len(case.size)}d")

    def call(x: Any, w: Any, b: Any = None) -> Any:
        return function(x, w, b, case.stride, case.padding, case.output_padding, case.groups, case.dilation)

    return call


@pytest.mark.parametrize("case", CASES, ids=str)
def test_conv(case: Case) -> None:
    assert_agree(_conv(ours, case), _conv(peer, case), *_arrays(case, (case.co, case.ci // case.groups)))


@pytest.mark.parametrize("case", CASES[::5], ids=str)
def test_conv_float32(case: Case) -> None:
    arrays = _arrays(case, (case.co, case.ci // case.groups), np.float32)
    assert_agree(_conv(ours, case), _conv(peer, case), *arrays, second=False)


@pytest.mark.parametrize("kernel_set", ["textbook"], indirect=True)
@pytest.mark.parametrize("case", CASES[::4], ids=str)
def test_conv_as_others_compute_it(case: Case) -> None:
    """The algorithms of SINGA, MXNet, PyTorch and numpy-ml, to second order."""
    for algorithm in ALGORITHMS:
        with retrograd.use_kernels("textbook", convolution=algorithm):
            assert_agree(_conv(ours, case), _conv(peer, case), *_arrays(case, (case.co, case.ci // case.groups)))


def _fits(case: Case) -> bool:
    extents = zip(case.size, case.kernel, case.stride, case.padding, case.dilation, case.output_padding, strict=True)
    return all((i - 1) * s - 2 * p + d * (r - 1) + e + 1 >= 1 for i, r, s, p, d, e in extents)


@pytest.mark.parametrize("case", [case for case in CASES if _fits(case)], ids=str)
def test_conv_transpose(case: Case) -> None:
    arrays = _arrays(case, (case.ci, case.co // case.groups))
    assert_agree(_conv_transpose(ours, case), _conv_transpose(peer, case), *arrays)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")  # PyTorch's, of itself
@pytest.mark.parametrize("kernel", [(1, 2), (3, 4), (2, 5)], ids=str)
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_named_padding(kernel: tuple[int, int], padding: str) -> None:
    arrays = normal(2, 3, 7, 6), normal(4, 3, *kernel, seed=1)
    assert_agree(
        lambda x, w: ours.conv2d(x, w, padding=padding), lambda x, w: peer.conv2d(x, w, padding=padding), *arrays
    )


def test_asymmetric_padding_is_padding_before() -> None:
    arrays = normal(2, 3, 7, 6), normal(4, 3, 3, 2, seed=1)

    def padded(x: Any, w: Any) -> Any:
        return peer.conv2d(peer.pad(x, (3, 0, 1, 2)), w, stride=2)

    assert_agree(lambda x, w: ours.conv2d(x, w, stride=2, padding=((1, 2), (3, 0))), padded, *arrays)


def test_without_batch_axis() -> None:
    assert_agree(ours.conv2d, peer.conv2d, normal(3, 7, 6), normal(4, 3, 3, 2, seed=1), normal(4, seed=2))


def test_empty_batch() -> None:
    assert_agree(
        ours.conv2d, peer.conv2d, normal(0, 3, 7, 6), normal(4, 3, 3, 2, seed=1), normal(4, seed=2), second=False
    )


@pytest.mark.parametrize("channels", [(16, 16), (64, 64), (3, 40), (33, 17)], ids=str)
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_channels_of_real_networks(channels: tuple[int, int], kernel: int) -> None:
    ci, co = channels
    arrays = normal(2, ci, 13, 15, dtype=np.float32), normal(co, ci, kernel, kernel, seed=1, dtype=np.float32)
    assert_agree(
        lambda x, w: ours.conv2d(x, w, padding=kernel // 2),
        lambda x, w: peer.conv2d(x, w, padding=kernel // 2),
        *arrays,
    )


def test_depthwise_of_real_networks() -> None:
    arrays = normal(2, 40, 13, 15, dtype=np.float32), normal(40, 1, 3, 3, seed=1, dtype=np.float32)
    assert_agree(
        lambda x, w: ours.conv2d(x, w, padding=1, groups=40),
        lambda x, w: peer.conv2d(x, w, padding=1, groups=40),
        *arrays,
    )
