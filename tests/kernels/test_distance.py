"""Rows against rows, against sums in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from comparison import assert_close, run
from strategies import DTYPES, LAYOUTS


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (3, 33), (0, 4), (4, 0), (600, 50)], ids=str)
def test_rows(kernel_set: Any, shape: tuple[int, int], layout: str, dtype: type) -> None:
    if shape[0] == 600 and layout != "contiguous":
        return
    random = np.random.default_rng(0)
    x, y = (LAYOUTS[layout](random.standard_normal(shape).astype(dtype)) for _ in range(2))
    a, b, c = (LAYOUTS[layout](random.standard_normal(shape[:1]).astype(dtype)) for _ in range(3))
    tolerance = 8 * (1 + shape[1]) * float(np.finfo(dtype).eps)
    wide = [[list(map(float, row)) for row in array] for array in (x, y)]
    pairs = list(zip(*wide, strict=True))
    found = run(kernel_set.row_products, x, y)
    for result, which in zip(found, ((0, 1), (0, 0), (1, 1)), strict=True):
        wanted = [sum(p * q for p, q in zip(rows[which[0]], rows[which[1]], strict=True)) for rows in pairs]
        assert_close(result, np.array(wanted, np.float64), tolerance * 4)
    wanted = [sum((p - q + 0.1) ** 2 for p, q in zip(*rows, strict=True)) for rows in pairs]
    assert_close(run(kernel_set.row_squares, x, y, 0.1), np.array(wanted, np.float64), tolerance * 8)
    z = run(kernel_set.row_combination, a, x, b, y, c)
    expected = np.zeros(shape)
    for n, d in np.ndindex(shape):
        expected[n, d] = float(a[n]) * wide[0][n][d] + float(b[n]) * wide[1][n][d] + float(c[n])
    assert_close(z, expected, tolerance * 4)
