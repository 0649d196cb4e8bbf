"""arange with integer types truncates its arguments first, as PyTorch does; windows and histograms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((0.5, 5.7), [0, 1, 2, 3, 4]),
        ((0.9, 3.2, 1.7), [0, 1, 2]),
        ((-0.5, 2.5), [0, 1]),
        ((2.7, -1.2, -1.5), [2, 1, 0]),
        ((5.9,), [0, 1, 2, 3, 4]),
        ((1.5, 1.9), []),
    ],
)
def test_arange(ends: Any, expected: list[int]) -> None:
    x = rg.arange(*ends, dtype=np.int64)
    assert x.dtype == np.int64 and x.tolist() == expected


def test_arange_refuses_steps_that_do_not_lead_there() -> None:
    with pytest.raises(ValueError, match="arange: step=0 does not lead from start=0 to end=1"):
        rg.arange(0, 1.5, 0.5, dtype=np.int64)
    with pytest.raises(ValueError, match=r"arange: step=1 does not lead from start=2.7 to end=2.5"):
        rg.arange(2.7, 2.5, dtype=np.int64)


@pytest.mark.parametrize(
    ("ends", "line", "powers"),
    [
        ((0.5, 5.7, 4), [0, 1, 3, 5], [1, 3, 10, 32]),
        ((-0.9, 2.9, 5), [0, 0, 1, 1, 2], [1, 1, 2, 2, 4]),
        ((2.7, -1.2, 7), [2, 1, 1, 0, 0, 0, -1], [4, 2, 2, 1, 1, 0, 0]),
        ((0, 3.9, 1), [0], [1]),
    ],
)
def test_lines(ends: Any, line: list[int], powers: list[int]) -> None:
    assert rg.linspace(*ends, dtype=np.int64).tolist() == line
    assert rg.logspace(*ends, base=2, dtype=np.int64).tolist() == powers
    assert rg.linspace(*ends).tolist() == pytest.approx(np.linspace(*ends).tolist())


@pytest.mark.parametrize("kind", [np.bool_, np.int64, np.float32])
def test_scatter_reduce_without_self(kind: Any) -> None:
    x, index = np.array([1, 0, 1, 0]).astype(kind), np.array([0, 0, 1, 1, 3])
    src = np.array([0, 0, 0, 1, 1]).astype(kind)
    for reduce, expected in (("amax", [0, 1, 1, 1]), ("amin", [0, 0, 1, 1])):
        y = rg.scatter_reduce(rg.tensor(x), 0, rg.tensor(index), rg.tensor(src), reduce, include_self=False)
        assert y.dtype == kind and y.tolist() == expected


@pytest.mark.parametrize("make", [rg.linspace, rg.logspace])
def test_steps_are_an_int(make: Any) -> None:
    assert make(0, 3, np.int64(2)).shape == (2,)
    with pytest.raises(TypeError, match=rf"{make.__name__}: steps=2.0 must be an int"):
        make(0, 3, 2.0)


def test_extents_of_eye_are_ints() -> None:
    for extents, message in (((2.0,), "n=2.0"), ((2, "3"), "m='3'")):
        with pytest.raises(TypeError, match=f"eye: {message} must be an int"):
            rg.eye(*extents)


WINDOWS: dict[str, tuple[dict[str, Any], Any]] = {  # n and N -> the formula, written out
    "bartlett": ({}, lambda n, N: 1 - abs(2 * n / N - 1)),
    "blackman": ({}, lambda n, N: 0.42 - 0.5 * np.cos(2 * np.pi * n / N) + 0.08 * np.cos(4 * np.pi * n / N)),
    "cosine": ({}, lambda n, N: np.sin(np.pi * (n + 0.5) / (N + 1))),
    "exponential": ({"tau": 2.5}, lambda n, N: np.exp(-abs(n - N / 2) / 2.5)),
    "gaussian": ({"std": 1.5}, lambda n, N: np.exp(-0.5 * ((n - N / 2) / 1.5) ** 2)),
    "general_cosine": ({"a": [0.5, 0.25]}, lambda n, N: 0.5 - 0.25 * np.cos(2 * np.pi * n / N)),
    "general_hamming": ({"alpha": 0.7}, lambda n, N: 0.7 - 0.3 * np.cos(2 * np.pi * n / N)),
    "hamming": ({}, lambda n, N: 0.54 - 0.46 * np.cos(2 * np.pi * n / N)),
    "hann": ({}, lambda n, N: np.sin(np.pi * n / N) ** 2),
    "kaiser": ({"beta": 3.0}, lambda n, N: np.i0(3 * np.sqrt(1 - (2 * n / N - 1) ** 2)) / np.i0(3.0)),
    "nuttall": (
        {},
        lambda n, N: sum(
            a * np.cos(2 * np.pi * k * n / N) for k, a in enumerate((0.3635819, -0.4891775, 0.1365995, -0.0106411))
        ),
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str) -> None:
    options, formula = WINDOWS[name]
    window = getattr(rg.signal.windows, name)
    for length, sym, last in ((8, True, 7), (7, True, 6), (7, False, 7), (2, False, 2)):
        found = window(length, sym=sym, dtype=rg.float64, **options)
        np.testing.assert_allclose(found.numpy(), formula(np.arange(length), last), atol=1e-14)
    assert window(0, **options).shape == (0,) and window(3, **options).dtype == rg.float32
    assert window(2, requires_grad=True, **options).requires_grad
    with pytest.raises(ValueError, match=f"{name}: M=-1 must be at least 0"):
        window(-1, **options)
    with pytest.raises(TypeError, match=f"{name}: M=2.5 must be an int"):
        window(2.5, **options)
    with pytest.raises(ValueError, match=f"{name}: dtype=int64 must be a floating-point type"):
        window(3, dtype=rg.int64, **options)


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("exponential", {"center": 1.0}, ValueError, "center=1.0 does not make a symmetric window; pass sym=False"),
        ("exponential", {"tau": 0}, ValueError, "exponential: tau=0 must be positive and finite"),
        ("gaussian", {"std": -1.0}, ValueError, "gaussian: std=-1.0 must be positive and finite"),
        ("gaussian", {"std": "1"}, TypeError, "gaussian: std is str, needs a number"),
        ("general_cosine", {"a": []}, ValueError, "general_cosine: a is empty, needs at least one coefficient"),
        ("general_cosine", {"a": 0.5}, TypeError, "general_cosine: a=0.5 must be a sequence of numbers"),
        ("kaiser", {"beta": -1}, ValueError, "kaiser: beta=-1 must be at least 0"),
    ],
)
def test_messages_of_windows(name: str, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        getattr(rg.signal.windows, name)(4, **options)


def test_histogram_counts_against_the_edges_that_it_returns() -> None:
    x = np.linspace(0, 1, 11, dtype=np.float32)
    for bins in (10, 20, 30):
        counts, edges = rg.histogram(rg.tensor(x), bins, range=(0.0, 1.0))
        inside = (edges.numpy()[:-1, None] <= x) & (x < edges.numpy()[1:, None])
        inside[-1] |= x == edges.numpy()[-1]
        np.testing.assert_array_equal(counts.numpy(), inside.sum(1))


def test_full_of_a_tensor_with_one_element() -> None:
    for value in (rg.tensor(2.5), rg.tensor(3), rg.tensor(True), rg.tensor(2.5, dtype=rg.float64)):
        found = rg.full((2, 3), value)
        assert found.dtype == value.dtype and found.tolist() == [[value.item()] * 3] * 2
    assert rg.full((2,), rg.tensor(3), dtype=rg.float32).tolist() == [3.0, 3.0]
    with pytest.raises((TypeError, ValueError), match="fill_value"):
        rg.full((2,), rg.ones(2))


def test_a_class_in_place_of_a_type_is_named() -> None:
    with pytest.raises(TypeError, match="dtype=Tensor is not an element type"):
        rg.ones(2, dtype=rg.Tensor)
