"""An element's bits depend neither on its neighbors in a register nor on the position of the array in memory."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd.formulas import POINTWISE, form
from retrograd.kernels import compiled

SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e30, 1e-40, 300.0, -300.0, 1e5)
COUNT = 64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name, formula in POINTWISE.items() if form(formula).results == 1])
def test_bits_do_not_depend_on_neighbors(name: str, dtype: type) -> None:
    one, kernel = form(POINTWISE[name]), getattr(compiled, name)
    rng = np.random.default_rng(1)
    numbers = [0.75 - 0.25 * at for at in range(len(one.numbers))]
    operands = [
        rng.random(COUNT) < 0.5 if condition else rng.uniform(0.05, 0.95, COUNT).astype(dtype)
        for condition in one.conditions
    ]
    with np.errstate(all="ignore"):
        expected = kernel(*operands, *numbers)
        for special in SPECIAL:
            for at, condition in enumerate(one.conditions):
                if condition:
                    continue
                others = [operand.copy() for operand in operands]
                others[at][::5] = special
                found = kernel(*others, *numbers)
                same = np.arange(COUNT) % 5 != 0
                np.testing.assert_array_equal(found[same], expected[same], f"{name}: {special} beside")
    for start in (1, 3, 6):  # registers begin elsewhere
        later = kernel(*[operand[start:].copy() for operand in operands], *numbers)
        np.testing.assert_array_equal(later, expected[start:])
