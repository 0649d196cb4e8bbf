"""Index kernels against definitions written element by element, and against their specifications."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from ops.battery import numbers
from retrograd.kernels import textbook
from retrograd.kernels.interface import KERNELS, spec_of
from retrograd.kernels.interface.indexing import Indexing

X, SRC = numbers(3, 4, 2), numbers(2, 2, 2, seed=1)
PLACES = np.array([[[2, 0], [1, 1]], [[0, 0], [2, 1]]])  # (2, 2, 2), some twice along axis 0
TIES = np.array([[3.0, 1, 3, np.nan, 1], [2, 2, 0, 5, 5], [np.nan, np.nan, 1, 0, 4]])
BETWEEN = ((0, slice(None), None), (0, 1), (np.array([[3, 1], [3, 1]]), np.array([[0, 0], [0, 0]])))
APART = ((slice(None), slice(1, 3), slice(None)), (0, 2), (np.array([2, 0, 2]), np.array([1, 1, 1])))
INDEX = {"between": (None, (0, 1), (np.array([2, 0, 2]), np.array([1, 3, 1]))), "apart": APART}
FLAT, STARTS = np.array([4, 0, 4, 2, 1, 4]), np.array([0, 2, 2, 6])
F32 = np.dtype(np.float32)


def target(place: tuple[int, ...], index: np.ndarray, axis: int) -> tuple[int, ...]:
    return (*place[:axis], int(index[place]), *place[axis + 1 :])


def gathered(x: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    return np.array([x[target(at, index, axis)] for at in np.ndindex(*index.shape)]).reshape(index.shape)


def scattered(g: np.ndarray, index: np.ndarray, axis: int, shape: tuple[int, ...]) -> np.ndarray:
    y = np.zeros(shape, g.dtype)
    for at in np.ndindex(*index.shape):
        y[target(at, index, axis)] += g[at]
    return y


def extremes(x: np.ndarray, src: np.ndarray, index: np.ndarray, axis: int, sign: int, include: bool) -> np.ndarray:
    y = x.copy()
    values: dict[tuple[int, ...], list[float]] = {}
    for at in np.ndindex(*index.shape):
        values.setdefault(target(at, index, axis), []).append(src[at])
    for place, found in values.items():
        y[place] = (max if sign > 0 else min)([x[place], *found] if include else found)
    return y


def counted(index: np.ndarray, axis: int, shape: tuple[int, ...], include: bool) -> np.ndarray:
    count = Counter(target(at, index, axis) for at in np.ndindex(*index.shape))
    found = [count[at] + 1 if include else max(count[at], 1) for at in np.ndindex(*shape)]
    return np.array(found).reshape(shape)


def turns(index: np.ndarray, axis: int, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
    numbered = dict(zip(np.ndindex(*shape), itertools.count()))
    flat = [numbered[target(at, index, axis)] for at in np.ndindex(*index.shape)]
    return flat, [flat[:k].count(place) for k, place in enumerate(flat)]


def middle(line: list[float], skip: bool) -> float:
    kept = sorted(value for value in line if value == value)
    return kept[(len(kept) - 1) // 2] if kept and (skip or len(kept) == len(line)) else np.nan


def most_frequent(line: list[float]) -> int:
    count = Counter(line)  # each NaN differs from the others
    best = min((value for value in line if value == value), key=lambda value: (-count[value], value))
    return len(line) - 1 - line[::-1].index(best)


def ordered(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    def of_line(line: np.ndarray) -> list[int]:
        keys = [(value != value, value if value == value else 0.0) for value in line.tolist()]
        return sorted(range(len(line)), key=keys.__getitem__, reverse=descending)

    return np.apply_along_axis(of_line, axis, x)


def medians(x: np.ndarray, skip: bool) -> list[list[int]]:
    found = []
    for line, order in zip(x, ordered(x, 1, False), strict=True):
        count = int((line == line).sum())
        found.append([int(order[(count - 1) // 2 if skip or count == len(line) else count])])
    return found


def joined(x: list[int]) -> tuple[list[int], list[int], list[int]]:
    runs = [(value, len([*run])) for value, run in itertools.groupby(x)]
    return [v for v, _ in runs], [k for k, (_, n) in enumerate(runs) for _ in range(n)], [n for _, n in runs]


def norms(w: np.ndarray, rows: np.ndarray, most: float) -> tuple[list[int], list[float]]:
    long = {int(r): float(np.sqrt((w[r] ** 2).sum())) for r in sorted(set(rows.tolist()))}
    kept = {r: n for r, n in long.items() if n > most}
    return [*kept], [most / (n + 1e-7) for n in kept.values()]


ONE_AXIS, AGAIN = PLACES[:1], np.array([[0, 1], [0, 1], [2, 1]])  # no index repeats; some do
W = numbers(5, 3, seed=2)
EDGES = np.array([-1.0, 0, 0.5, 1])
ROWS_OF = np.array([[1, 2, 2, 4], [0, 3, 3, 9]])
VALUES = np.array([[2, 0, 5], [3, 9, 10]])
# kernel, arguments, what it returns
CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    *[("gather", (X, PLACES % 2, axis), gathered(X, PLACES % 2, axis)) for axis in range(3)],
    ("scatter_add", (SRC, PLACES, 0, (3, 4, 2)), scattered(SRC, PLACES, 0, (3, 4, 2))),
    ("scatter_add", (SRC[:1], ONE_AXIS, 0, (3, 2, 2)), scattered(SRC[:1], ONE_AXIS, 0, (3, 2, 2))),
    *[
        ("scatter_count", (PLACES, 0, (3, 4, 2), include), counted(PLACES, 0, (3, 4, 2), include))
        for include in (True, False)
    ],
    ("scatter_turns", (AGAIN, 0, (3, 2)), turns(AGAIN, 0, (3, 2))),
    ("scatter_turns", (PLACES[:0], 0, (3, 4, 2)), ([], [])),
    ("floor_mean", (np.array([7, -7, 8], np.int32), np.array([2, 2, 4])), [3, -4, 2]),
    ("coordinates", (PLACES, 0), [PLACES, *np.indices(PLACES.shape)[1:]]),
    ("take", (X.transpose(2, 0, 1), np.array([2, 0, 2]), 1), X.transpose(2, 0, 1)[:, [2, 0, 2]]),
    ("normalize_index", (np.array([-1, 0, -4, 3]), 4), [3, 0, 0, 3]),
    ("ravel_multi_index", ((np.array([[1], [2]]), np.array([[3], [0]])), (3, 4)), [7, 8]),
    ("ravel_multi_index", ((FLAT[:0], FLAT[:0]), (3, 4)), []),
    ("unravel_index", (np.array([[7], [8]]), (3, 4)), ([[1], [2]], [[3], [0]])),
    ("last_writes", (APART, (3, 4, 2), F32), [[0, 0], [1, 1], [1, 1]]),
    ("nonzero", (np.array([[0, 2], [3, 0]]),), ([0, 1], [1, 0])),
    ("nonzero", (np.array(5),), ([0],)),
    ("argwhere", (np.array([[0, 2], [3, 0]]),), [[0, 1], [1, 0]]),
    ("nonzero_static", (np.array([[0, 2], [3, 0]]), 3, -7), [[0, 1], [1, 0], [-7, -7]]),
    ("nonzero_static", (np.array([[0, 2], [3, 0]]), 1, -7), [[0, 1]]),
    ("masked_fill", (np.array([1, 2]), np.array(9), np.array([True, False])), [9, 2]),
    ("masked_fill", (np.array([1, 2]), np.array(9), np.array([[True, False], [False, False]])), [[9, 2], [1, 2]]),
    *[("argsort", (TIES, axis, False, True), ordered(TIES, axis, False)) for axis in (0, 1)],
    *[("argsort", (TIES, axis, True, True), ordered(TIES, axis, True)) for axis in (0, 1)],
    *[("median", (TIES, skip), [[middle(TIES.ravel().tolist(), skip)]]) for skip in (True, False)],
    ("median", (TIES[1].astype(int), False), [2]),
    *[("median_index", (TIES, 1, skip), medians(TIES, skip)) for skip in (True, False)],
    ("mode", (TIES, 1), [[most_frequent(line)] for line in TIES.tolist()]),
    ("unique", (np.array([[3, 1], [3, 2]]), None), ([1, 2, 3], [[2, 0], [2, 1]], [1, 1, 2])),
    ("unique", (np.array([[3, 1], [3, 2], [3, 1]]), 0), ([[3, 1], [3, 2]], [0, 1, 0], [2, 1])),
    ("unique_consecutive", (np.array([3, 3, 1, 3]), 0, True, True), joined([3, 3, 1, 3])),
    ("unique_consecutive", (np.array([[3, 3, 1], [2, 2, 2]]), 1, False, False), ([[3, 1], [2, 2]], None, None)),
    ("searchsorted", (ROWS_OF[0], VALUES, False, np.int32), [[1, 0, 4], [3, 4, 4]]),
    ("searchsorted", (ROWS_OF, VALUES, True, np.int64), [[3, 0, 4], [3, 4, 4]]),
    ("isin", (FLAT, np.array([4, 2]), False), [True, False, True, True, False, True]),
    ("isin", (FLAT, np.array([4, 2]), True), [False, True, False, False, True, False]),
    ("bincount", (FLAT, None, 6), [1, 1, 1, 0, 3, 0]),
    ("bincount", (FLAT, np.arange(6), 5), [1, 4, 3, 0, 7]),
    ("bincount", (FLAT, np.arange(6, dtype=np.float32), 5), [1, 4, 3, 0, 7]),
    ("histc", (np.array([0.0, 0.5, np.nan, 1, 2]), 2, 0.0, 1.0), [1, 2]),
    ("histogram", (np.array([[-1, 0.2], [1, 3]]), EDGES, None, False), [1, 1, 1]),
    ("histogram", (np.array([[-1, 0.2], [1, 3]]), EDGES, np.array([[1, 2], [3.0, 4]]), False), [1, 2, 3]),
    ("histogram", (np.array([-1, 0.2, 1, 3]), EDGES, None, True), [1 / 3, 2 / 3, 2 / 3]),
    ("histogram", (np.array([9.0]), EDGES, None, True), [np.nan] * 3),
    ("histogramdd", (np.array([[0, 0.5], [1, 1], [5, 5]]), [EDGES, EDGES[1:]], None, False), [[0, 0], [0, 1], [0, 1]]),
    ("histogramdd", (np.array([[0.2], [0.7], [5]]), [EDGES], np.array([2.0, 3, 4]), True), [0, 0.8, 1.2]),
    (
        "bag_max",
        (W, np.array([0, 2, 2, 5])),
        ([W[:2].max(0), [0] * 3, W[2:].max(0)], [W[:2].argmax(0), [-1] * 3, 2 + W[2:].argmax(0)]),
    ),
    ("bag_max_grad", (np.array([[7.0, 8], [9, 6]]), np.array([[1, 0], [-1, -1]]), (3, 2)), [[0, 8], [7, 0], [0, 0]]),
    ("bag_shares", (STARTS, 6, F32), [1 / 2, 1 / 2, 1 / 4, 1 / 4, 1 / 4, 1 / 4]),
    ("embedding_factors", (FLAT, 5, 0, True, F32), np.float32([1 / 3, 0, 1 / 3, 1, 1, 1 / 3])),
    ("embedding_factors", (FLAT, 5, None, False, F32), [1] * 6),
    ("without_padding", (FLAT, STARTS, 4), ([0, 2, 1], [0, 1, 1, 3], [1, 3, 4])),
    ("long_rows", (W, np.array([3, 0, 3, 1]), 1.0, 2.0), norms(W, np.array([3, 0, 3, 1]), 1.0)),
    ("one_hot", (np.array([[1], [0]]), 3), [[[0, 1, 0]], [[1, 0, 0]]]),
    ("inverse_rows", (np.array([2, 0]), 4), [1, -1, 0, -1]),
]


@pytest.mark.parametrize(("name", "args", "expected"), CASES, ids=[f"{case[0]} {k}" for k, case in enumerate(CASES)])
def test_results(name: str, args: tuple[Any, ...], expected: Any) -> None:
    before = copy.deepcopy(args)
    result = getattr(textbook, name)(*args)
    for one, wanted in zip(result, expected, strict=True) if isinstance(result, tuple) else [(result, expected)]:
        if wanted is None:
            assert one is None
            continue
        assert type(one) is np.ndarray and one.shape == np.shape(wanted)
        np.testing.assert_allclose(one, np.asarray(wanted), rtol=1e-6)
    for given, kept in zip(args, before, strict=True):
        np.testing.assert_equal(given, kept)
    spec = KERNELS[name].spec
    if spec is not None:
        assert spec(*spec_of(args)) == spec_of(result)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("include", [True, False])
def test_extremes(sign: int, include: bool) -> None:
    args = X, SRC, PLACES, 0, sign, include
    y, from_x, from_src, count = results = textbook.scatter_extreme(*args)
    np.testing.assert_array_equal(y, extremes(*args))
    np.testing.assert_array_equal(from_src, gathered(y, PLACES, 0) == SRC)
    written = scattered(np.ones(PLACES.shape, int), PLACES, 0, X.shape) > 0
    np.testing.assert_array_equal(from_x, (y == X) & (include | ~written))
    np.testing.assert_array_equal(count, np.maximum(from_x + scattered(from_src.astype(int), PLACES, 0, X.shape), 1))
    assert KERNELS["scatter_extreme"].spec(*spec_of(args)) == spec_of(results)  # type: ignore[misc]


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("accumulate", [True, False])
def test_put(index: str, accumulate: bool) -> None:
    basic, axes, arrays = places = INDEX[index]
    parts: list[Any] = [*(basic or (slice(None),) * 3)]
    for axis, array in zip(axes, arrays, strict=True):
        parts[axis] = array
    v = numbers(*X[tuple(parts)].shape, seed=3)
    expected = X.copy()
    for k in range(3):  # one index after the other
        one = tuple(part[k] if isinstance(part, np.ndarray) else part for part in parts)
        expected[one] = expected[one] * accumulate + v[k]
    y = textbook.put(X, v, places, accumulate)
    np.testing.assert_allclose(y, expected)
    in_place = X.copy()
    textbook.put_into(in_place, v, places, accumulate)
    np.testing.assert_array_equal(in_place, y)


def test_put_of_slices() -> None:
    places = (0, slice(1, 3)), (), ()
    assert textbook.put(X, np.float64(2), places, True)[0, 1:3].tolist() == (X[0, 1:3] + 2).tolist()
    assert textbook.put(X, X[1, :2], places, False)[0, 1:3].tolist() == X[1, :2].tolist()


@pytest.mark.parametrize("places", [BETWEEN, APART], ids=["between", "apart"])
def test_which_value_is_the_last_one(places: Any) -> None:
    basic, axes, arrays = places
    x = np.zeros((5, 4, 7, 2), np.int64)
    view = x[basic]
    index: list[Any] = [slice(None)] * view.ndim
    for axis, array in zip(axes, arrays, strict=True):
        index[axis] = array
    values = np.arange(view[tuple(index)].size).reshape(view[tuple(index)].shape)
    view[tuple(index)] = values
    last = textbook.last_writes(places, x.shape, F32)
    np.testing.assert_array_equal(last, view[tuple(index)] == values)
    spec: Any = KERNELS["last_writes"].spec
    assert spec(spec_of(places), x.shape, F32) == spec_of(last)


def test_scaled_rows() -> None:
    w = W.copy()
    textbook.scale_rows(w, np.array([3, 0]), np.array([2.0, 0.5]))
    np.testing.assert_array_equal(w, W * np.array([[0.5], [1], [1], [2], [1]]))


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "nearest"])
def test_quantiles(interpolation: str, skip: bool) -> None:
    q = np.array([0.0, 0.3, 1])
    args = TIES, q, 1, interpolation, skip
    lower, upper, between, share, steps = results = textbook.quantile_index(*args)
    for i, line in enumerate(TIES):
        numbers_of_line = np.sort(line[line == line])
        for k, part in enumerate(q):
            low, high = line[lower[i, k]], line[upper[i, k]]
            if not skip and numbers_of_line.size < line.size:
                assert low != low and not between[i, k]
                continue
            value = low + share[i, k] * (high - low) if between[i, k] else low
            np.testing.assert_allclose(value, np.quantile(numbers_of_line, part, method=interpolation))
    assert KERNELS["quantile_index"].spec(*spec_of(args)) == spec_of(results)  # type: ignore[misc]
    assert steps.tolist() == ([[4 - 1], [5 - 1], [3 - 1]] if skip else 4)


def test_every_kernel_of_indices_is_tested_here() -> None:
    elsewhere = {"pick", "place", "topk", "kth", "lines", "csr_product", "csr_product_pair", "csr_transpose"}
    own = {"scatter_extreme", "put", "put_into", "scale_rows", "quantile_index"}
    tested = {case[0] for case in CASES} | own
    assert {name for name in vars(Indexing) if name in KERNELS} == tested | elsewhere
