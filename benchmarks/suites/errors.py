"""Rounding errors: float32 results of both libraries against PyTorch's in float64, on the same arrays.

A figure is the root mean square of the errors divided by that of the exact result, over several draws if a result has
few elements. ``normal`` data are standard normal; ``ReLU`` data are clipped at 0, so that sums grow with their length.
retrograd's bits do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import Any

import numpy as np
import torch

import retrograd

from ..harness import Result
from .error_cases import Case, cases

WORST = 1.2  # times PyTorch's error, at most
_HALF = 2.0**-24  # half a unit in the last place: errors that come from rounding the result alone also pass
_ELEMENTS = 256  # elements of a result over all draws; a figure is then accurate to about 5 %
_DRAWN = 20_000_000  # elements of all draws together, about
_QUICK = 1 << 16  # elements of an array


def results(quick: bool) -> Iterator[Result]:
    for case in cases():
        if not quick or max(int(np.prod(shape)) for shape in case.shapes) <= _QUICK:
            for kind in case.kinds:
                yield from measure(case, kind)


def measure(case: Case, kind: str) -> Iterator[Result]:
    """Yield one row for the result and one for each gradient."""
    sums: dict[str, np.ndarray] = {}
    draws, least = 0, _ELEMENTS
    most = min(64, max(1, _DRAWN // sum(int(np.prod(shape)) for shape in case.shapes)))
    while draws == 0 or (least * draws < _ELEMENTS and draws < most):
        random = np.random.default_rng(draws)
        arrays = [_draw(random, case, at, kind) for at in range(len(case.shapes))]
        exact = _run(case, torch, arrays, "float64")
        ours, theirs = (_run(case, library, arrays, "float32") for library in (retrograd, torch))
        least = min(value.size for value in exact.values())
        draws += 1
        for name, right in exact.items():
            if not np.isfinite(right).all():
                raise AssertionError(f"{case.group} {case.name}: {name} is not finite")
            parts = right, ours[name] - right, theirs[name] - right
            sums[name] = sums.get(name, np.zeros(3)) + [np.square(each).sum() for each in parts]
    for name, (size, mine, peer) in sums.items():
        if size == 0 or peer == 0:
            continue
        yield Result(
            group=f"errors: {case.group}",
            name=f"{case.name}, {kind}, {name}",
            threads=None,
            unit="rms",
            ours=sqrt(mine / size),
            theirs={"PyTorch": sqrt(peer / size)},
            best="PyTorch",
            ratio=sqrt(peer / max(mine, 1e-300)),
            target=f">= {1 / WORST:.2f}" if case.judged else "",
            passed=bool(mine <= max(WORST**2 * peer, _HALF**2 * size)) if case.judged else None,
        )


def _draw(random: np.random.Generator, case: Case, at: int, kind: str) -> np.ndarray:
    if at in case.made:
        return case.made[at](random, case.shapes[at])
    value = random.standard_normal(case.shapes[at], dtype=np.float32)
    return np.maximum(value, 0) if kind == "ReLU" and at == 0 else value


def _run(case: Case, library: Any, arrays: Sequence[np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    """Return the result and the gradients for a random upstream gradient, by name."""
    tensors = [_tensor(library, array, dtype) for array in arrays]
    leaves = {}
    for at, tensor in enumerate(tensors):
        if case.gradients and arrays[at].dtype.kind == "f":
            tensor.requires_grad = True
            leaves[at] = tensor
    y = case.job(library, *tensors)
    found = {"forward": y.detach().numpy()}
    if leaves:
        upstream = np.asarray(np.random.default_rng(99).standard_normal(tuple(y.shape), dtype=np.float32))
        y.backward(_tensor(library, upstream, dtype))
        for at, leaf in leaves.items():
            if leaf.grad is not None:
                found[f"{case.names[at]} gradient"] = leaf.grad.numpy()
    return found


def _tensor(library: Any, array: np.ndarray, dtype: str) -> Any:
    array = array.copy() if array.dtype.kind == "i" else array.astype(dtype)
    tensor: Any = library.from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    return tensor
