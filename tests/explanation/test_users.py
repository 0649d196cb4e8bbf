"""The user's own function by module:name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from retrograd.explanation.operators.function import from_module

TEXT = """
from retrograd.autograd import Function

def weighted(a, b, scale=3.0):
    return a * b * scale

class Through(Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, g):
        return g * 2.0

def fails(x):
    raise KeyError("lost")

def number(x):
    return 3

def nothing():
    return 3

some = 3
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_functions.py").write_text(TEXT, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


def test_a_function_and_a_function_class() -> None:
    explanation = from_module("own_functions:weighted").with_settings({"rows": 3, "values": "decimals"})
    arrays = {name: array.values for name, array in explanation.arrays.items()}
    np.testing.assert_allclose(arrays["ga"], 3 * arrays["b"] * arrays["gy"], rtol=1e-6)
    assert arrays["a"].shape == (3, 3)
    through = from_module("own_functions:Through").with_settings({})
    assert np.array_equal(through.arrays["gx"].values, 2 * through.gy)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("own_functions:fails", "own_functions:fails raised KeyError: 'lost'"),
        ("own_functions:number", "own_functions:number returns int, needs one Tensor"),
        ("own_functions:nothing", "must be a function of one or more Tensors"),
        ("own_functions:some", "must be a function of one or more Tensors"),
        ("own_functions:missing", "'own_functions:missing' cannot be found: module 'own_functions' has no"),
        ("no_such_module:f", "cannot be found: No module named 'no_such_module'"),
        (":f", "cannot be found"),
    ],
)
def test_what_is_refused(place: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_module(place).with_settings({})
