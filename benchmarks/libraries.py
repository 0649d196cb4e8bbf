"""Setup of both libraries: the same number of threads, and the same arrays in the layouts of each library."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

import retrograd
from retrograd.kernels.compiled.memory import layout

CONTIGUOUS, CHANNELS_LAST, COMPILED = "contiguous", "channels-last", "compiled"
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def set_threads(count: int) -> None:
    retrograd.set_num_threads(count)
    threadpool_limits(count, "blas")  # of NumPy
    torch.set_num_threads(count)
    running = retrograd.get_num_threads(), torch.get_num_threads()
    if running != (count, count):
        raise RuntimeError(f"asked for {count} threads: retrograd runs {running[0]}, PyTorch {running[1]}")


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Return standard normal float32 values, C-contiguous."""
    return np.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32))


def channels_last(array: np.ndarray) -> np.ndarray:
    """Return the array (N, C, *I) stored as (N, *I, C), with the same alignment as the results of our layers."""
    memory = layout.empty(layout.memory_of(array.shape), array.dtype, array)
    memory[...] = array
    return memory


def taps_first(weight: np.ndarray) -> np.ndarray:
    """Return the array (Co, Ci, *R) stored as (*R, Ci, Co), the order in which our layers store weights."""
    order = (*range(2, weight.ndim), 1, 0)
    back = np.argsort(order)
    return np.ascontiguousarray(weight.transpose(order)).transpose(back)


def ours(array: np.ndarray, requires_grad: bool = False) -> Any:
    """Return a retrograd Tensor in the layout that our layers produce."""
    return retrograd.Tensor(channels_last(array) if array.ndim > 2 else array.copy(), requires_grad=requires_grad)


def parameter(array: np.ndarray) -> Any:
    """Return a normalization parameter in our layers' layout: for images (C, H, W), the memory order of images."""
    if array.ndim > 2:
        return retrograd.Tensor(channels_last(array[np.newaxis])[0], requires_grad=True)
    return retrograd.Tensor(array.copy(), requires_grad=True)


def theirs(array: np.ndarray, layout: str = CONTIGUOUS, requires_grad: bool = False) -> Any:
    """Return a PyTorch tensor with separate memory, in the named layout."""
    tensor = torch.tensor(np.array(array, order="C"))  # not ascontiguousarray, which gives a scalar an axis
    if layout == CHANNELS_LAST and array.ndim in _CHANNELS_LAST:
        tensor = tensor.to(memory_format=_CHANNELS_LAST[array.ndim])
    return tensor.requires_grad_(requires_grad)


def layouts(arrays: Sequence[np.ndarray], requires_grad: bool = False) -> dict[str, list[Any]]:
    """Return the arrays as PyTorch tensors, once for each possible layout."""
    names = [CONTIGUOUS, CHANNELS_LAST] if any(array.ndim in _CHANNELS_LAST for array in arrays) else [CONTIGUOUS]
    return {name: [theirs(array, name, requires_grad) for array in arrays] for name in names}


@lru_cache(maxsize=1)
def can_compile() -> bool:
    """Return whether torch.compile can work here; it needs a C++ compiler."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++") if name)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function compiled by torch.compile, for one set of shapes, with a graph for several backward passes.

    Earlier compiled code is discarded: torch.compile counts functions with the same source as one, and
    compiles only a few variants of it.
    """
    import torch._dynamo
    import torch._functorch.config

    torch._dynamo.reset()
    torch._functorch.config.donated_buffer = False
    return torch.compile(function, dynamic=False)
