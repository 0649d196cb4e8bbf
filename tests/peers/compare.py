"""Compares one computation in both libraries: values, gradients and second gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import retrograd

TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 2e-4}


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def uniform(low: float, high: float, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


def distinct(*shape: int, seed: int = 0) -> np.ndarray:
    """Values that differ by far more than rounding: a maximum is then the same everywhere."""
    count = int(np.prod(shape))
    return (np.random.default_rng([seed, *shape]).permutation(count) - count / 2).reshape(shape) / 8


def _array(value: Any) -> np.ndarray:
    # force: PyTorch may keep what is known to be 0 without its elements
    return np.asarray(value.numpy(force=True) if isinstance(value, torch.Tensor) else value.detach().numpy())


def assert_close(ours: Any, theirs: Any, what: str, tolerance: float | None = None) -> None:
    """The two differ by less than the tolerance of their type, relative to the size of the whole array."""
    a, b = _array(ours), _array(theirs)
    assert a.shape == b.shape, f"{what}: shape {a.shape}, PyTorch {b.shape}"
    assert a.dtype == b.dtype, f"{what}: dtype {a.dtype}, PyTorch {b.dtype}"
    if b.dtype.kind != "f":
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    tolerance = TOLERANCE[b.dtype] if tolerance is None else tolerance
    size = float(np.abs(b[np.isfinite(b)]).max(initial=1e-3))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * size, err_msg=what)


def assert_agree(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    *arrays: np.ndarray,
    second: bool = True,
    tolerance: float | None = None,
) -> None:
    """Both functions of the arrays have the same value, the same gradients and the same second gradients.

    The second gradients are those of a random combination of the first, to the inputs and to the upstream gradient.
    """
    before = [array.copy() for array in arrays]
    xs = [retrograd.tensor(array, requires_grad=True) for array in arrays]
    ps = [torch.tensor(array, requires_grad=True) for array in arrays]
    y, p = ours(*xs), theirs(*ps)
    assert_close(y, p, "value", tolerance)
    upstream = normal(*y.shape, seed=77, dtype=p.detach().numpy().dtype)
    g = retrograd.tensor(upstream, requires_grad=True)
    q = torch.tensor(upstream, requires_grad=True)
    first = retrograd.autograd.grad(y, xs, g, create_graph=second)
    peer_first = torch.autograd.grad(p, ps, q, create_graph=second)
    for index, (gx, px) in enumerate(zip(first, peer_first, strict=True)):
        assert_close(gx, px, f"gradient to input {index}", tolerance)
    if second:
        _compare_second([*xs, g], [*ps, q], first, peer_first, tolerance)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy, err_msg="an input was changed")


def _compare_second(
    xs: list[Any], ps: list[Any], first: Sequence[Any], peers: Sequence[Any], tolerance: float | None
) -> None:
    directions = [normal(*px.shape, seed=78 + index, dtype=_array(px).dtype) for index, px in enumerate(peers)]
    kept = [index for index, px in enumerate(peers) if px.requires_grad]
    if not kept:  # the gradients are constant
        return
    total = sum((first[index] * retrograd.tensor(directions[index])).sum() for index in kept)
    peer_total = sum((peers[index] * torch.tensor(directions[index])).sum() for index in kept)
    seconds = retrograd.autograd.grad(total, xs, allow_unused=True)
    peer_seconds = torch.autograd.grad(peer_total, ps, allow_unused=True)
    for index, (gx, px) in enumerate(zip(seconds, peer_seconds, strict=True)):
        if px is None:  # what is 0 may be said to be unused
            assert gx is None or not np.any(_array(gx)), f"second gradient to input {index}"
            continue
        assert gx is not None, f"there is no second gradient to input {index}"
        assert_close(gx, px, f"second gradient to input {index}", tolerance)
