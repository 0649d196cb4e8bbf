"""Rounding errors of float32 beside PyTorch's: at most 1.2 times, on the same arrays. (All of them: benchmarks.)

Errors below half a unit in the last place, which the rounding of a result alone may make, are as good as none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import normal

Shapes = tuple[tuple[int, ...], ...]


def _functional(name: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    return lambda library, *tensors: getattr(library.nn.functional, name)(*tensors, *arguments, **options)


def _batch_norm(library: Any, x: Any, w: Any, b: Any) -> Any:
    return library.nn.functional.batch_norm(x, None, None, w, b, True)


CASES: dict[str, tuple[Callable[..., Any], Shapes]] = {
    "linear, many inputs": (_functional("linear"), ((40, 4096), (30, 4096), (30,))),
    "linear, a large batch": (_functional("linear"), ((20_000, 24), (20, 24), (20,))),
    "matmul": (lambda library, a, b: library.matmul(a, b), ((48, 20_000), (20_000, 40))),
    "convolution": (_functional("conv2d", None, 2, 1), ((1, 512, 14, 14), (40, 512, 3, 3))),
    "pointwise convolution": (_functional("conv2d"), ((1, 2048, 14, 14), (64, 2048, 1, 1))),
    "depthwise convolution": (_functional("conv2d", None, 1, 1, 1, 32), ((4, 32, 56, 56), (32, 1, 3, 3))),
    "batch norm": (_batch_norm, ((8, 64, 28, 28), (64,), (64,))),
    "layer norm": (_functional("layer_norm", (16_384,)), ((16, 16_384),)),
    "variance": (lambda library, x: library.var(x, 1), ((300, 20_000),)),
    "running sum": (lambda library, x: library.cumsum(x, 1), ((60, 20_000),)),
}


@pytest.mark.parametrize("kernel_set", ["compiled"], indirect=True)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("cut", [False, True], ids=["normal", "after a ReLU"])
def test_errors_beside_pytorch(name: str, cut: bool) -> None:
    job, shapes = CASES[name]
    arrays = [normal(*shape, seed=at, dtype=np.float32) for at, shape in enumerate(shapes)]
    if cut:
        arrays[0] = np.maximum(arrays[0], 0)
    exact = _results(torch, job, arrays, "float64")
    ours, theirs = (_results(library, job, arrays, "float32") for library in (retrograd, torch))
    for at, right in enumerate(exact):
        mine, peer = (float(np.sqrt(np.mean(np.square(found[at] - right)))) for found in (ours, theirs))
        half = 2**-24 * float(np.sqrt(np.mean(np.square(right))))
        assert mine <= max(1.2 * peer, half), f"result {at}: {mine / peer:.2f} times PyTorch's error"


def _results(library: Any, job: Callable[..., Any], arrays: list[np.ndarray], dtype: str) -> list[np.ndarray]:
    tensors = [library.from_numpy(array.astype(dtype)) for array in arrays]
    for tensor in tensors:
        tensor.requires_grad = True
    y = job(library, *tensors)
    y.backward(library.from_numpy(normal(*y.shape, seed=9, dtype=np.float32).astype(dtype)))
    return [y.detach().numpy(), *(tensor.grad.numpy() for tensor in tensors)]
