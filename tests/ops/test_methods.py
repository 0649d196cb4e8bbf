from __future__ import annotations

import inspect

import numpy as np

from ops.attached import FILE, text
from retrograd.engine.tensor import Tensor
from retrograd.ops.methods import METHODS


def test_type_checkers_see_what_is_attached() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "run: python tests/ops/attached.py"


def test_everything_attached_is_documented() -> None:
    for name, method in METHODS.items():
        assert inspect.getdoc(method), name


def test_comparison_leaves_tensors_hashable() -> None:
    x, y = Tensor(np.ones(2)), Tensor(np.ones(2))
    assert len({x, y}) == 2
