"""Unpickled dtypes: NumPy creates instances that equal the usual ones but are not identical to them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn


def other(dtype: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = pickle.loads(pickle.dumps(np.zeros(1, dtype))).dtype
    assert found == np.dtype(dtype) and found is not np.dtype(dtype)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "float16"])
def test_arrays_of_an_equal_type(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(other(dtype))
    for x in (rg.Tensor(array), rg.from_numpy(array), rg.as_tensor(array), rg.tensor(array)):
        assert x.dtype is np.dtype(dtype)
        np.testing.assert_array_equal(x.numpy(), array)
    x = rg.from_numpy(array)
    x[0] = 5
    assert (array[0] == 5).all()  # the same memory
    if dtype != "float16":
        both = rg.from_numpy(array) * rg.ones(2, 3, dtype=getattr(rg, dtype))
        assert both.dtype is np.dtype(dtype)


@pytest.mark.parametrize("kind", [rg.Tensor, nn.Parameter])
def test_tensors_from_a_pickle(kind: type[rg.Tensor]) -> None:
    x = kind(rg.rand(2, 3))
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert type(again) is kind and again.dtype is rg.float32 and again.requires_grad == x.requires_grad
        assert (again * rg.ones(2, 3)).dtype is rg.float32
        np.testing.assert_array_equal(again.detach().numpy(), x.detach().numpy())


def test_promotion_of_equal_types() -> None:
    assert rg.promote_types(other("float32"), np.dtype("float32")) == np.dtype("float32")
    assert rg.promote_types(other("uint8"), np.dtype("int8")) == np.dtype("int16")
