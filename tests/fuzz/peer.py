"""Compares the result of a generated line with PyTorch's: value, type, shape, requires_grad and gradients."""

from __future__ import annotations

import contextlib
import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np

import retrograd as rg

from .values import namespace_of

# what they return is random, or memory that was never written
_UNEQUAL = (
    "rand",
    "normal",
    "dropout",
    "bernoulli",
    "multinomial",
    "poisson",
    "empty",
    "uniform",
    "exponential",
    "cauchy",
    "geometric",
    "resize",
    "kaiming",
    "xavier",
    "orthogonal",
    "sparse_",
    "trunc",
    "seed",
    "Generator",
    "rrelu",
    "RReLU",
    "fractional",
    "gumbel",
    "sample",
    "new(",
    "nn.",
    "optim.",
    "data.",
    "distributions.",
    "svd",
    "eig",
    "qr",
    "lobpcg",
)


def difference(code: str, result: Any, leaves: list[Any]) -> tuple[str, str] | None:
    """(what differs, both values), or None if all is equal or there is nothing to compare with."""
    functional = "nn.functional." in code
    if find_spec("torch") is None or any(word in code.replace("nn.functional.", "") for word in _UNEQUAL):
        return None
    if functional and not any(isinstance(part, rg.Tensor) for part in _parts(result)):
        return None
    import torch

    theirs_leaves: list[Any] = []
    names = namespace_of(torch, lambda x: x.requires_grad_(), theirs_leaves)
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = eval(compile(code, "<drawn>", "eval"), names)
    except Exception:
        return None
    for place, (mine, other) in enumerate(zip(_parts(result), _parts(theirs), strict=False)):
        found = _compared(mine, other)
        if found:
            return found[0], f"result {place}: {found[1]}"
    return _gradients(result, theirs, leaves, theirs_leaves)


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _compared(mine: Any, other: Any) -> tuple[str, str] | None:
    import torch

    if not isinstance(mine, rg.Tensor) or not isinstance(other, torch.Tensor) or other.is_complex():
        return None
    if tuple(mine.shape) != tuple(other.shape):
        return "SHAPE", f"{tuple(mine.shape)}, PyTorch {tuple(other.shape)}"
    if str(mine.dtype) != str(other.dtype).removeprefix("torch."):
        return "DTYPE", f"{mine.dtype}, PyTorch {other.dtype}"
    if mine.requires_grad != other.requires_grad:
        return "REQUIRES_GRAD", f"{mine.requires_grad}, PyTorch {other.requires_grad}"
    return _unequal("VALUE", mine.array, other.detach().numpy())


def _unequal(kind: str, mine: np.ndarray, other: np.ndarray) -> tuple[str, str] | None:
    tolerance = 1e-3 if mine.dtype != np.float64 else 1e-7
    with np.errstate(all="ignore"):
        near = np.isclose(mine, other, tolerance, tolerance, equal_nan=True)
    if near.all():
        return None
    place = tuple(int(k) for k in np.argwhere(~near)[0])
    return kind, f"{list(place)}: {mine[place]!r}, PyTorch {other[place]!r}"


def _gradients(result: Any, theirs: Any, leaves: list[Any], others: list[Any]) -> tuple[str, str] | None:
    pairs = [(a, b) for a, b in zip(_parts(result), _parts(theirs), strict=False) if isinstance(a, rg.Tensor)]
    pairs = [(a, b) for a, b in pairs if a.requires_grad and a.grad_fn is not None and np.isfinite(a.array).all()]
    if not pairs:
        return None
    import torch

    draw = np.random.default_rng(0)
    with contextlib.suppress(Exception):
        for mine, other in pairs:
            upstream = draw.normal(size=mine.shape).astype(mine.array.dtype)
            other.backward(torch.tensor(upstream), retain_graph=True)
            mine.backward(rg.tensor(upstream), retain_graph=True)
        for place, (mine, other) in enumerate(zip(leaves, others, strict=True)):
            if (mine.grad is None) != (other.grad is None):
                return "GRADIENT", f"{place}: {mine.grad}, PyTorch {other.grad}"
            if mine.grad is not None:
                found = _unequal("GRADIENT", mine.grad.array, other.grad.numpy())
                if found:
                    return "GRADIENT", f"{place}{found[1]}"
    return None
