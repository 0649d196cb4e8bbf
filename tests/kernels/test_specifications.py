"""Specifications of kernels that the conformance tables do not call: layers, optimizers, low-bit kernels."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_equal

from retrograd.kernels import textbook
from retrograd.kernels.interface import KERNELS, spec_of
from retrograd.specs.geometry import pool_window

_DRAW = np.random.default_rng(0)
_X = _DRAW.standard_normal((4, 6)).astype(np.float32)
_WIDE, _POSITIVE = _X.astype(np.float64), np.abs(_X.astype(np.float64)) + 0.5
_CUBE = _DRAW.standard_normal((2, 3, 4)).astype(np.float32)
_CODES = np.arange(24, dtype=np.uint32).reshape(4, 6) % 16
_TRUE = _X > 0
_LENGTHS = np.array([5, 3, 3, 1])
_ROWS = textbook.packed_rows(_LENGTHS)

CASES: list[tuple[str, tuple[Any, ...]]] = [
    ("add_scaled", (_X.copy(), _X, 0.5)),
    ("scale_in_place", (_X.copy(), 0.5)),
    ("clip_in_place", (_X.copy(), -0.5, 0.5)),
    ("weighted_average", (np.arange(5), np.arange(5), 0.5)),
    ("assign", (_X.copy(), _WIDE)),
    ("fill_dirac", (_CUBE.copy(), 1)),
    ("clear_entries", (_X.copy(), np.array([[0, 1]] * 6))),
    ("limit_norm", ((_X.copy(), _X[:1].copy()), np.asarray(3.0), 0.5)),
    ("adafactor_update", ((_X.copy(), _X, _X[:, :1] ** 2, _X[:1] ** 2), 1, 0.1, -0.8, 1e-7, 1e-3, 1.0, 0.1, True)),
    ("curvature_pair", (_X[0], _X[1], _X[2], 0.5)),
    ("seeded_normal", (3, (2, 5), 5, np.dtype(np.float32))),
    ("truncated_normal", (np.random.default_rng(1), (3, 2), np.dtype(np.float32), 0.0, 1.0, -1.0, 1.0)),
    ("orthogonal_factor", (_X.T, 2.0)),
    ("orthogonal_factor", (_CUBE, 1.0)),
    ("with_signs", (_X.T.copy(), _X[0, :4])),
    ("spectral_start", (_WIDE, 2 * _WIDE, _WIDE, _WIDE[:, 0])),
    ("embedding_sample_grad", (_CUBE, np.array([[0, 1, 1], [2, 0, 0]]), (5, 4), 1)),
    ("channel_words", (_TRUE[0], "binary")),
    ("channel_words", (_TRUE[0], "int8")),
    ("channel_words", (_TRUE[0], "int16")),
    (
        "max_pool_codes",
        (_CODES.reshape(1, 4, 6, 1), np.array([5], np.uint32), pool_window((4, 6), 2, 2, 0, 1)),
    ),
    ("round_to_bfloat16", (_X,)),
    ("round_to_bfloat16", (_WIDE.T,)),
    ("round_to_grid", (_X, 4)),
    ("mean_absolute", (_X,)),
    ("shift_parameters", (_X, 1, -14, 0)),
    ("shift_parameters", (_X, 3, -14, 0)),
    ("pack_bits", (_CODES, 5)),
    ("pack_bits", (_CODES, 11)),
    ("unpack_bits", (textbook.pack_bits(_CODES, 5), 24, 5)),
    ("unpack_bits", (textbook.pack_bits(_CODES, 11), 24, 11)),
    ("uniform_codes", (np.arange(-6, 6, 2), -6, 2)),
    ("uniform_values", (_CODES, -3, 2)),
    ("shift_codes", (np.array([[0, 1, -4]]), 4, True)),
    ("shift_values", (np.array([[0, 1, 9]], np.uint8), 4, True)),
    ("trailing_zeros", (np.array([[4, -8], [0, 0], [3, 4]]),)),
    ("integer_levels", (_X, _POSITIVE[:, :1].astype(np.float32), 7)),
    ("scaled_integers", (_CODES.astype(np.int64), _X[:, :1])),
    ("causal_mask", (4, np.dtype(np.float32))),
    ("causal_mask", (4, np.dtype(np.bool_))),
    ("packed_places", (_ROWS[0], _ROWS[1], None, 5, 5, True)),
    ("packed_places", (_ROWS[0], _ROWS[1], np.array([1, 0, 2, 4, 3]), 5, 5, False)),
    ("sequence_places", ((3, 1, 2), 4, True, False)),
    ("gamma_slope_arguments", (_POSITIVE, _POSITIVE)),
    ("gamma_slope", (_POSITIVE, _POSITIVE, _WIDE, _WIDE)),
    ("all_of_event", (_TRUE, 1)),
    ("within_bounds", (_X, 0.0, _X[0], True, False, True)),
    ("within_bounds", (_X, None, 1, True, True, False)),
    ("is_boolean", (_X,)),
    ("is_real", (_X,)),
    ("is_one_hot", (_X,)),
    ("is_simplex", (_X,)),
    ("is_multinomial", (_X, 3)),
    ("is_lower_cholesky", (_CUBE,)),
    ("is_symmetric", (_CUBE[..., :3],)),
]


WITHOUT_SPECIFICATION = {
    "agrees",
    "combined_norm",
    "counts_above",
    "distinct_numbers",
    "packed_rows",
    "power_norm_of_all",
}


@pytest.mark.parametrize(("name", "args"), CASES, ids=[name for name, _ in CASES])
def test_results_are_as_specified(name: str, args: tuple[Any, ...]) -> None:
    kernel = KERNELS[name]
    assert kernel.spec is not None
    given = copy.deepcopy(args)
    expected, result = kernel.spec(*spec_of(given)), getattr(textbook, name)(*given)
    assert expected == spec_of(result)
    if kernel.writes or kernel.changes:
        assert result is None
    elif name != "truncated_normal":  # it draws from a generator
        assert_equal(given, args)


_REFUSED = ("orthogonal_factor", "spectral_start")  # LAPACK refuses inf and NaN


@pytest.mark.parametrize(("name", "args"), [case for case in CASES if case[0] not in _REFUSED])
def test_no_warning_of_inf_and_nan(name: str, args: tuple[Any, ...]) -> None:
    def spoiled(value: Any) -> Any:
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return tuple(map(spoiled, value))
        is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
        return np.resize(np.array([np.inf, np.nan, -np.inf, 0], np.float32), value.shape) if is_float else value

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(textbook, name)(*map(spoiled, copy.deepcopy(args)))


def test_codes_come_back() -> None:
    for bits in (4, 5, 8, 11, 16):
        stream = textbook.pack_bits(_CODES, bits)
        assert textbook.unpack_bits(stream, _CODES.size, bits).tolist() == _CODES.reshape(-1).tolist()
    terms = np.array([[0, 1, -4, 16]])
    assert textbook.shift_values(textbook.shift_codes(terms, 4, True), 4, True).tolist() == terms.tolist()


def test_distinct_numbers() -> None:
    lists, counts, places = textbook.distinct_numbers(np.array([[2, 1, 2], [0.0, -0.0, 0]], np.float32))
    assert counts.tolist() == [2, 2] and places.tolist() == [[1, 0, 1], [0, 1, 0]]
    assert lists.tolist() == [[1, 2], [0, 0]] and np.signbit(lists[1]).tolist() == [False, True]
    assert [part.shape for part in textbook.distinct_numbers(np.zeros((0, 3)))] == [(0, 0), (0,), (0, 3)]


def test_norms_of_an_order() -> None:
    arrays = [np.array([1.0, -2.0]), np.array([[2.0]])]
    assert textbook.power_norm_of_all(arrays, 3.0) == pytest.approx(17 ** (1 / 3))
    assert textbook.combined_norm(np.array([3.0, 4.0]), 2.0) == 5
    assert textbook.combined_norm(np.array([3.0, 4.0]), np.inf) == 4


def test_what_agrees_but_for_rounding() -> None:
    x = np.array([1.0, np.nan, np.inf, 0.0])
    assert textbook.agrees(x + [1e-9, 0, 0, 1e-9], x, 1e-7) and not textbook.agrees(x + 1e-3, x, 1e-7)


def test_counts_above() -> None:
    assert textbook.counts_above(_LENGTHS).tolist() == [4, 3, 3, 1, 1]
