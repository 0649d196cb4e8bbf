from __future__ import annotations

import ast
import inspect

import numpy as np

from retrograd.engine import attached
from retrograd.engine.tensor import Tensor
from retrograd.ops.methods import METHODS


def test_type_checkers_see_what_is_attached() -> None:
    declared = {n.name: n for n in ast.walk(ast.parse(inspect.getsource(attached))) if isinstance(n, ast.FunctionDef)}
    assert set(declared) == set(METHODS)
    for name, node in declared.items():
        method = METHODS[name]
        if not isinstance(method, property):
            found = list(inspect.signature(method).parameters.values())[1:]
            arguments = node.args.args[1:] or ([node.args.vararg] if node.args.vararg else [])
            assert [p.name for p in found] == [a.arg for a in arguments], name


def test_everything_attached_is_documented() -> None:
    for name, method in METHODS.items():
        assert inspect.getdoc(method.fget if isinstance(method, property) else method), name


def test_comparison_leaves_tensors_hashable() -> None:
    x, y = Tensor(np.ones(2)), Tensor(np.ones(2))
    assert len({x, y}) == 2
