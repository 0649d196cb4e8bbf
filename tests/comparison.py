"""Helpers that call a kernel and check its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest


def memory(arguments: Iterable[Any]) -> list[np.ndarray]:
    """Return the memory blocks that contain the arrays in ``arguments``, including guard bytes."""
    blocks = []
    for x in arguments:
        if isinstance(x, np.ndarray):
            while isinstance(x.base, np.ndarray):
                x = x.base
            blocks.append(x)
    return blocks


def run(kernel: Callable[..., Any], *arguments: Any) -> Any:
    """Run a kernel, check the properties common to all kernels, and return its result.

    The inputs must be unchanged, and the results writable arrays in new memory, of the inputs' dtype, int64 or bool.
    """
    __tracebackhide__ = True
    blocks = memory(arguments)
    before = [block.copy() for block in blocks]
    result = kernel(*arguments)
    for n, (block, copy) in enumerate(zip(blocks, before, strict=True)):
        if block.tobytes() != copy.tobytes():
            pytest.fail(f"{kernel.__name__} changed its array argument {n}")
    arrays = result if isinstance(result, tuple) else (result,)
    dtype = next(x.dtype for x in arguments if isinstance(x, np.ndarray) and x.dtype != np.int64)
    for n, array in enumerate(arrays):
        if not isinstance(array, np.ndarray):
            pytest.fail(f"{kernel.__name__} returned a {type(array).__name__}, not an array")
        if array.dtype not in (dtype, np.int64, np.bool_):
            pytest.fail(f"{kernel.__name__}: result {n} has dtype {array.dtype}, the inputs have {dtype}")
        if not array.flags.writeable:
            pytest.fail(f"{kernel.__name__}: result {n} cannot be written to")
        others = [*blocks, *arrays[:n]]
        if any(np.may_share_memory(array, other) for other in others):
            pytest.fail(f"{kernel.__name__}: result {n} shares memory with an argument or another result")
    return result


def assert_close(actual: np.ndarray, expected: np.ndarray, tolerance: np.ndarray | float) -> None:
    """Assert equal shapes, NaN and inf in the same positions, and differences of at most ``tolerance``."""
    __tracebackhide__ = True
    if actual.shape != expected.shape:
        pytest.fail(f"shape {actual.shape} instead of {expected.shape}")
    wide = actual.astype(np.float64)
    finite = np.isfinite(expected)
    with np.errstate(all="ignore"):
        wrong = np.where(finite, ~(np.abs(wide - expected) <= tolerance), ~_same(wide, expected))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        bound = np.broadcast_to(tolerance, expected.shape)[at]
        pytest.fail(
            f"{np.count_nonzero(wrong)} of {wrong.size} entries are wrong; the first at {at}: "
            f"{wide[at]!r} instead of {expected[at]!r}, off by {wide[at] - expected[at]:.3g}, allowed {bound:.3g}"
        )


def assert_equal(actual: np.ndarray, expected: np.ndarray) -> None:
    """Assert equal shapes and values; NaN equals NaN."""
    __tracebackhide__ = True
    assert_close(actual, expected, 0.0)


# formulas of one operand, with their numbers, that may follow a sum
FORMULAS: tuple[tuple[str, tuple[float, ...]], ...] = (
    *(("gelu", ()), ("gelu_tanh", ()), ("hardsigmoid", ()), ("hardswish", ()), ("mish", ()), ("sigmoid", ())),
    *(("silu", ()), ("tanh", ()), ("leaky_relu", (0.1,)), ("softplus", (1.5, 20.0)), ("elu", (1.0, 0.5, 2.0))),
)


def clamped(y: np.ndarray, residual: np.ndarray | None, low: float, high: float) -> np.ndarray:
    """min(max(y + residual, low), high); NaN stays NaN."""
    with np.errstate(all="ignore"):
        y = y if residual is None else y + residual
        y = np.where(y < low, y.dtype.type(low), y)
        return np.where(y > high, y.dtype.type(high), y)


def assert_sums(actual: np.ndarray, expected: np.ndarray, terms: int, transformed: bool = False) -> None:
    """Assert equality up to rounding, for sums of ``terms`` products of numbers below 1 in magnitude, in any order.

    The tolerance grows with the number of terms and with the size of the result. That of a ``transformed`` convolution
    is 500 eps times the root mean square of the results: four times the usual 1.5e-5 in float32, because the tests
    include arrays of equal numbers, whose rounding errors are equal and add up.
    """
    __tracebackhide__ = True
    eps = np.finfo(actual.dtype).eps
    with np.errstate(all="ignore"):
        tolerance = eps * (8 + terms + terms**0.5 * np.abs(expected))
        if transformed:
            tolerance = np.maximum(tolerance, 500 * eps * np.sqrt(np.sum(expected**2) / max(1, expected.size)))
    assert_close(actual, expected, np.where(np.isfinite(tolerance), tolerance, 0))


def assert_ulps(actual: np.ndarray, expected: np.ndarray, ulps: np.ndarray | float) -> None:
    """Assert that each entry is within ``ulps`` units in the last place; subnormal numbers may be flushed to 0.

    Where the expected value overflows the dtype, inf is expected.
    """
    __tracebackhide__ = True
    info = np.finfo(actual.dtype)
    with np.errstate(all="ignore"):
        expected = np.where(np.isinf(expected.astype(actual.dtype)), np.copysign(np.inf, expected), expected)
        tolerance = ulps * info.eps * np.abs(expected) + info.tiny
    assert_close(actual, expected, np.where(np.isfinite(expected), tolerance, 0))


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | (np.isnan(a) & np.isnan(b))


def bits(result: Any) -> list[bytes]:
    """Return the bytes of each result."""
    return [array.tobytes() for array in (result if isinstance(result, tuple) else (result,))]


def bits_but_nan(result: Any) -> list[bytes]:
    """``bits`` with one NaN for all: its sign depends on the order of operands, which compilers choose."""
    arrays = result if isinstance(result, tuple) else (result,)
    return [np.where(np.isnan(array), np.nan, array).astype(array.dtype).tobytes() for array in arrays]
