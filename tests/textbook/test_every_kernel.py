"""Properties that all textbook kernels share: dtype, fresh results, strides, no warnings, empty batches."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from retrograd import textbook
from retrograd.geometry import conv_window, pool_window

CONV, POOL = conv_window((5, 4), 3, stride=(2, 1), padding=1, groups=2), pool_window((5, 4), 2, 1, 1)
LABELS, INDICES = np.array([2, 0, 1]), np.random.default_rng(1).integers(0, 20, (3, 4, *POOL.output))


def calls(dtype: type) -> dict[str, tuple[Any, ...]]:
    """Arguments for every kernel but the optimiser steps."""
    random = np.random.default_rng(0)

    def a(*shape: int) -> np.ndarray:
        return random.uniform(0.5, 2, shape).astype(dtype)

    x, w, y, p, v = a(3, 4, 5, 4), a(6, 2, 3, 3), a(3, 6, *CONV.output), a(3, 4, *POOL.output), a(4)
    two, one = (a(3, 4), a(2, 1, 4)), (a(3, 4),)
    return {
        "conv": (x, w, a(6), CONV),
        "conv_input_grad": (y, w, a(4), CONV),
        "conv_weight_grad": (x, y, CONV),
        "matmul": (a(2, 1, 3, 4), a(3, 4, 5), a(5)),
        **dict.fromkeys(("add", "sub", "mul", "div"), two),
        **dict.fromkeys(("neg", "exp", "log", "relu", "sigmoid", "tanh", "sqrt"), one),
        **dict.fromkeys(("relu_grad", "sigmoid_grad", "tanh_grad"), (a(3, 4), a(3, 4))),
        "power": (a(3, 4), -1.5),
        "scale": (a(3, 4), 0.3),
        **dict.fromkeys(("sum", "prod", "amax", "amin"), (x, (0, 2), False)),
        "norm": (x, 2, (0, 2), False),
        **dict.fromkeys(("max", "min"), (x, 2)),
        **dict.fromkeys(("moments", "logsumexp"), (x, (1, 3))),
        "moments_grad": (a(3, 1, 5, 1), x, a(3, 1, 5, 1)),
        "logsumexp_grad": (a(3, 1, 5, 1), x, a(3, 1, 5, 1)),
        "ties": (a(3, 1, 5, 1), x, a(3, 1, 5, 1)),
        "spread": (a(3, 1, 5, 1), (3, 4, 5, 2)),
        "signed": (a(3, 1, 5, 1), x),
        "pick": (x, np.broadcast_to(LABELS[:, None, None, None], (3, 1, 5, 4)), 1),
        "place": (a(3, 1, 5, 4), np.broadcast_to(LABELS[:, None, None, None], (3, 1, 5, 4)), 1, 7),
        "topk": (x, 2, 3, True),
        "cumsum": (x, 2, True),
        "cumprod": (x, 1),
        "linear_scan": (x, a(3, 4, 5, 4), 2, False),
        "layer_norm": (x, a(5, 4), a(5, 4), 1e-5, True),
        "layer_norm_grad": (x, a(3, 4, 5, 4), a(5, 4), a(3, 4), a(3, 4), True, True),
        "group_norm": (x, 2, v, a(4), 1e-5),
        "group_norm_grad": (x, a(3, 4, 5, 4), 2, v, a(3, 2), a(3, 2)),
        "max_pool": (x, POOL),
        "max_pool_grad": (p, INDICES, POOL),
        "max_pool_gather": (x, INDICES),
        "avg_pool": (x, POOL, False),
        "avg_pool_grad": (p, POOL, False),
        "batch_norm": (x, v, a(4), 1e-5),
        "batch_norm_grad": (a(3, 4, 5, 4), x, v, a(4), a(4), 1e-5),
        "channel_affine": (x, v, a(4)),
        "softmax": (x, 1),
        "log_softmax": (x, 1),
        "softmax_grad": (a(3, 4), a(3, 4), 1),
        "log_softmax_grad": (a(3, 4), a(3, 4), 1),
        "cross_entropy": (a(3, 4), LABELS),
        "cross_entropy_grad": (a(3), a(3, 4), LABELS),
    }


def run(name: str, arguments: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    results = getattr(textbook, name)(*arguments)
    return results if isinstance(results, tuple) else (results,)


def with_arrays(arguments: tuple[Any, ...], change: Callable[[np.ndarray], np.ndarray]) -> tuple[Any, ...]:
    return tuple(change(value) if isinstance(value, np.ndarray) else value for value in arguments)


def test_every_kernel_is_exported_and_covered_here() -> None:
    public = {name for name in vars(textbook) if inspect.isfunction(getattr(textbook, name))}
    in_place = {name for name in public if name.endswith("_step")}  # tests/kernels/test_optimizer.py
    assert public == set(textbook.__all__) == {*calls(np.float64), *in_place, "norm_of_all"}


@pytest.mark.parametrize("name", calls(np.float64))
class TestEveryKernel:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_keeps_the_dtype(self, name: str, dtype: type) -> None:
        for result in run(name, calls(dtype)[name]):
            assert type(result) is np.ndarray
            assert result.dtype == (np.int64 if result.dtype.kind == "i" else dtype)

    def test_leaves_inputs_alone_and_returns_fresh_arrays(self, name: str) -> None:
        arguments = calls(np.float64)[name]
        before = with_arrays(arguments, np.copy)
        results = run(name, arguments)
        for value, copy in zip(arguments, before, strict=True):
            if isinstance(value, np.ndarray):
                assert_array_equal(value, copy)
                assert not any(np.shares_memory(value, result) for result in results)

    def test_takes_any_strides(self, name: str) -> None:
        def channels_last(value: np.ndarray) -> np.ndarray:
            wide = np.repeat(np.moveaxis(value, 0, -1), 2, axis=0)  # same values, twice as far apart
            return np.moveaxis(wide, -1, 0)[(slice(None),) * min(1, value.ndim - 1) + (slice(None, None, 2),)]

        arguments = calls(np.float64)[name]
        strided = with_arrays(arguments, channels_last)
        for value, other in zip(run(name, arguments), run(name, strided), strict=True):
            assert_allclose(other, value, rtol=1e-12)

    def test_makes_no_warning_of_inf_and_nan(self, name: str) -> None:
        def spoiled(value: np.ndarray) -> np.ndarray:
            bad = np.array([np.inf, np.nan, -np.inf, 0], np.float32)
            return np.resize(bad, value.shape) if value.dtype.kind == "f" else value

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(name, with_arrays(calls(np.float32)[name], spoiled))


@pytest.mark.parametrize(
    "name", [name for name in calls(np.float32) if getattr(textbook, name).__module__.endswith("elementwise")]
)
def test_result_without_axes_is_an_array(name: str) -> None:
    number = np.array(1.0, np.float32)
    (result,) = run(name, with_arrays(calls(np.float32)[name], lambda _: number))
    assert type(result) is np.ndarray and result.shape == () and result.dtype == np.float32


# Kernels whose result has the batch in front, by how many of their arguments have it.
BATCHED = {
    1: [
        "layer_norm", "group_norm", "conv", "conv_input_grad", "max_pool", "avg_pool", "avg_pool_grad", "softmax",
        "log_softmax",
    ],  # fmt: skip
    2: ["max_pool_grad", "max_pool_gather", "softmax_grad", "log_softmax_grad", "cross_entropy"],
    3: ["cross_entropy_grad"],
}


@pytest.mark.parametrize(("batched", "name"), [(n, name) for n, names in BATCHED.items() for name in names])
def test_empty_batch(batched: int, name: str) -> None:
    arguments = calls(np.float32)[name]
    empty = (*(value[:0] for value in arguments[:batched]), *arguments[batched:])
    for result, full in zip(run(name, empty), run(name, arguments), strict=True):
        assert result.shape == (0, *full.shape[1:]) and result.dtype == full.dtype
