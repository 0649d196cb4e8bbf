"""Optimizer updates on Tensors: the same numbers as the kernels, and a step that can be differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from retrograd.engine.gradcheck import gradcheck
from retrograd.engine.tensor import Tensor
from retrograd.formulas import UPDATES, form
from retrograd.kernels import textbook

NUMBERS = {
    "lr": 0.1,
    "momentum": 0.9,
    "dampening": 0.1,
    "weight_decay": 0.01,
    "nesterov": True,
    "maximize": True,
    "decoupled": True,
    "step": 7,
    "beta1": 0.9,
    "beta2": 0.99,
    "eps": 1e-3,
    "mu_product": 0.7,
    "momentum_decay": 0.004,
    "rectification": 0.5,
    "alpha": 0.9,
    "rho": 0.9,
    "lr_decay": 0.1,
    "weight": 0.3,
    "factor": 1.7,
    "most": 1.0,
    "eta": 0.1,
    "mu": 0.4,
    "lambd": 0.2,
    "shrink": 0.5,
    "grow": 1.2,
    "smallest": 1e-3,
    "largest": 9.0,
}


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_on_tensors(update: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    operands, names, *_ = form(update)
    numbers = {name: NUMBERS[name] for name in names}
    arrays = [rng.uniform(0.5, 1.5, (3, 4)) for _ in operands]
    if "centered" in update.__name__:
        arrays[2] += 4  # a variance above 0
    tensors = [Tensor(array.copy(), requires_grad=True) for array in arrays]
    results = update(*tensors, **numbers)
    results = results if isinstance(results, tuple) else (results,)
    textbook.update(update, *([array] for array in arrays), **numbers)
    for result, array in zip(results, arrays[:1] + arrays[2:], strict=True):
        np.testing.assert_allclose(result.array, array, rtol=1e-15)
    assert gradcheck(lambda *values: update(*values, **numbers), tensors)
