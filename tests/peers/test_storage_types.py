"""uint8, int8, int16, int32 and float16: computed, moved and converted as in PyTorch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours
from conformance.test_types import CASES, TYPES, Case, as_function, converted
from peers.compare import assert_close
from peers.test_integers import OPERATORS, _compare

NUMBERS = np.random.default_rng(5).integers(-100, 101, (3, 4))
SMALL: dict[str, Any] = {
    **{kind: NUMBERS.astype(kind) for kind in ("uint8", "int8", "int16", "int32")},
    "0-d uint8": np.array(200, np.uint8),
    "0-d int8": np.array(-100, np.int8),
}
OTHERS: dict[str, Any] = {
    **SMALL,
    "int64": NUMBERS[::-1] // 8,
    "bool": NUMBERS > 0,
    "float32": NUMBERS.astype(np.float32) / 7,
    "int": 2,
    "float": 1.5,
    "truth value": True,
}
PAIRS = [(a, b) for a, b in itertools.product(OTHERS, OTHERS) if (a in SMALL or b in SMALL) and (a + b).count("-d") < 2]


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator(name: str) -> None:
    function, theirs = getattr(retrograd, name), getattr(torch, name)
    for label, x in SMALL.items():
        _compare(name, function, theirs, (x,), f"{name} of {label}")
    for labels in PAIRS if name not in ("logit", "nan_to_num") else ():  # whose second argument is no operand
        x, y = (OTHERS[label] for label in labels)
        if name == "pow":
            if y is True:
                continue
            y = y if isinstance(y, (int, float)) else np.asarray(np.abs(y))
        if name in ("fmod", "remainder", "floor_divide", "floor_div", "div", "divide") and isinstance(y, np.ndarray):
            y = np.where(y == 0, 3, y).astype(y.dtype)
        _compare(name, function, theirs, (x, y), f"{name} of {labels}")


INT, BYTE = np.array([0, 2, 2], np.int32), np.array([1, 0, 1], np.uint8)
X8, X32 = SMALL["uint8"], SMALL["int32"]
HALF = (NUMBERS / 8).astype(np.float16)
FLOATS = np.random.default_rng(6).standard_normal((3, 4)).astype(np.float32)
# of (library, its functional) and the arrays
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "index": (lambda lib, f, x, i: x[i], (X8, INT)),
    "rows by bytes": (lambda lib, f, x, i: x[i], (X8, BYTE)),
    "slices": (lambda lib, f, x: x[1:, ::2].t(), (HALF,)),
    "cat": (lambda lib, f, x, y: lib.cat([x, y]), (X8, SMALL["int8"])),
    "cat with floats": (lambda lib, f, x, y: lib.cat([x, y]), (X8, FLOATS)),
    "stack": (lambda lib, f, x: lib.stack([x, x], 1), (HALF,)),
    "sum": (lambda lib, f, x: x.sum(0), (SMALL["int8"],)),
    "sum in a type": (lambda lib, f, x: x.sum(dtype=lib.uint8), (X8,)),
    "prod": (lambda lib, f, x: x.prod(1), (SMALL["int16"],)),
    "cumsum": (lambda lib, f, x: x.cumsum(1), (X8,)),
    "cumprod": (lambda lib, f, x: x.cumprod(1), (X8,)),
    "cumsum in a type": (lambda lib, f, x: x.cumsum(1, dtype=lib.int8), (X8,)),
    "cumsum of a number in a type": (lambda lib, f, x: x[0, 0].cumsum(0, dtype=lib.int16), (X8,)),
    "cumprod in a type": (lambda lib, f, x: x.cumprod(1, dtype=lib.uint8), (FLOATS,)),
    "cumprod in int32": (lambda lib, f, x: x.cumprod(0, dtype=lib.int32), (INT,)),
    "tensordot with an axis to repeat": (lambda lib, f, x: lib.tensordot(x, x[:1], ([0], [0])), (X32,)),
    "tensordot, the other way": (lambda lib, f, x: lib.tensordot(x[:1], x, ([0], [0])), (X8,)),
    "scatter_reduce, mean": (
        lambda lib, f, x, i: x.scatter_reduce(0, i[None], x, "mean"),
        (X32, np.array([0, 2, 2, 1], np.int64)),
    ),
    "max": (lambda lib, f, x: x.max(1)[0], (X8,)),
    "min": (lambda lib, f, x: x.min(), (SMALL["int8"],)),
    "amax": (lambda lib, f, x: x.amax(0), (X8,)),
    "argmax": (lambda lib, f, x: x.argmax(0), (X8,)),
    "sort": (lambda lib, f, x: x.sort(1)[0], (X8,)),
    "topk": (lambda lib, f, x: x.topk(2)[0], (X8,)),
    "unique": (lambda lib, f, x: x.unique(), (X8,)),
    "median": (lambda lib, f, x: x.median(), (X32,)),
    "nonzero": (lambda lib, f, x: x.nonzero(), (X8,)),
    "bincount": (lambda lib, f, x: lib.bincount(x.ravel()), (X8,)),
    "diff": (lambda lib, f, x: x.diff(), (X8,)),
    "flip": (lambda lib, f, x: x.flip(0), (X8,)),
    "roll": (lambda lib, f, x: x.roll(1, 0), (HALF,)),
    "masked_fill": (lambda lib, f, x: x.masked_fill(x > 50, 3), (X8,)),
    "masked_select": (lambda lib, f, x: x[x > 50], (X8,)),
    "where": (lambda lib, f, x, y: lib.where(x > 50, x, y), (X8, SMALL["int8"])),
    "where by bytes": (lambda lib, f, x, y: lib.where(x, y, 0), (BYTE, INT)),
    "gather": (lambda lib, f, x, i: x.gather(0, i[None]), (X8, np.array([0, 2, 2, 1], np.int32))),
    "scatter": (lambda lib, f, x, i: x.scatter(0, i[None], x), (X8, np.array([0, 2, 2, 1], np.int32))),
    "index_select": (lambda lib, f, x, i: x.index_select(1, i), (X8, INT)),
    "embedding": (lambda lib, f, x, i: f.embedding(i, x), (FLOATS, INT)),
    "cross_entropy": (lambda lib, f, x, i: f.cross_entropy(x, i), (FLOATS, BYTE)),
    "nll_loss": (lambda lib, f, x, i: f.nll_loss(x, i), (FLOATS, BYTE)),
    "matmul": (lambda lib, f, x: x @ x.t(), (X8,)),
    "dot": (lambda lib, f, x: lib.dot(x, x), (INT,)),
    "in place": (lambda lib, f, x: x.add_(100).mul_(3).sub_(x), (X8,)),
    "in place by another type": (lambda lib, f, x, y: x.mul_(y), (X8, SMALL["int8"])),
    "shifts": (lambda lib, f, x: x + x - 1 - x * 300, (X8,)),
    "to bytes": (lambda lib, f, x: (x * 1000).to(lib.uint8), (FLOATS,)),
    "to int32": (lambda lib, f, x: (x * 1000).int(), (FLOATS,)),
    "to float16": (lambda lib, f, x: (x * 1e5).half(), (FLOATS,)),
    "from float16": (lambda lib, f, x: x.float() + x.double(), (HALF,)),
    "compared": (lambda lib, f, x: (x > 1) & (x == x) | (x <= x.t()[:1, :1]), (HALF,)),
    "byte images": (lambda lib, f, x: x.float().div(255).sub(0.5).mean(0), (X8,)),
    "mixed with floats": (lambda lib, f, x, y: x / 255 + y * x, (X8, FLOATS)),
    "type of a product": (lambda lib, f, x, y: (x * y).type(x.type()), (X8, INT[[0]])),
    "repeat_interleave": (lambda lib, f, x, i: x.repeat_interleave(i, 0), (X8, INT)),
    "clamp": (lambda lib, f, x: x.clamp(10, 100), (X8,)),
    "abs": (lambda lib, f, x: abs(x) - (-x), (SMALL["int8"],)),
    "arange": (lambda lib, f: lib.arange(2, 9, 3, dtype=lib.uint8), ()),
    "full": (lambda lib, f: lib.full((2,), -1, dtype=lib.uint8), ()),
    "eye": (lambda lib, f: lib.eye(2, dtype=lib.int32), ()),
    "tensor": (lambda lib, f: lib.tensor([[1, 2], [3, 4]], dtype=lib.int16), ()),
    "any": (lambda lib, f, x: x.bool().any(1), (X8,)),
}


@pytest.mark.filterwarnings("ignore:.*uint8:UserWarning")  # masks of bytes, by both libraries
@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    call, arrays = CALLS[name]
    wanted = call(torch, peer, *[torch.tensor(x) for x in arrays])
    assert_close(call(retrograd, ours, *[retrograd.tensor(x) for x in arrays]), wanted, name, 2e-6)


@pytest.mark.parametrize("first", TYPES)
def test_promotion(first: str) -> None:
    for second in TYPES:
        one, two = ([getattr(library, name) for name in (first, second)] for library in (retrograd, torch))
        assert retrograd.promote_types(*one).name == str(torch.promote_types(*two)).removeprefix("torch.")
        assert retrograd.can_cast(*one) == torch.can_cast(*two)
        operands = [
            [library.zeros(shape, dtype=kind) for shape in ((), (2,)) for kind in kinds] + [True, 2, 1.5]
            for library, kinds in ((retrograd, one), (torch, two))
        ]
        for ours_, theirs in zip(*[itertools.product(values, values) for values in operands], strict=True):
            found = retrograd.result_type(*ours_)
            assert found.name == str(torch.result_type(*theirs)).removeprefix("torch."), (first, second, theirs)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64"])
def test_limits(name: str) -> None:
    query = "finfo" if "float" in name else "iinfo"
    mine, theirs = (getattr(library, query)(getattr(library, name)) for library in (retrograd, torch))
    for what in ("bits", "max", "min", "dtype", *(("eps", "tiny", "smallest_normal") if query == "finfo" else ())):
        assert getattr(mine, what) == getattr(theirs, what) and type(getattr(mine, what)) is type(getattr(theirs, what))
    if query == "finfo":
        assert repr(mine) == repr(theirs) and mine.resolution == pytest.approx(theirs.resolution)


# what differs on purpose: any and all of bytes are truth values here, soft_margin_loss does not overflow; and positions
# among equal elements are not defined
OURS = {"all", "any", "topk", "kthvalue", "soft_margin_loss"}


def _function_of(name: str) -> Any:
    """PyTorch's function, ``linalg.inv`` or ``relu``; None if it has none or one of another form."""
    for found in (torch, peer):
        for part in name.split("."):
            found = getattr(found, part, None)
        if callable(found):
            return found
    return None


def _tensor_of(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.tensor(value)
    return type(value)(map(_tensor_of, value)) if type(value) in (list, tuple) else value


def _difference(case: Case, kind: str) -> str | None:
    """How the result of a call differs from PyTorch's in type or value, where both libraries compute it."""
    call = case.call
    arrays = [
        converted(a, kind) if k in case.arrays else a.astype(np.float32) if a.dtype.kind == "f" else a
        for k, a in enumerate(call.arrays)
    ]
    base = case.name.partition(":")[0]
    theirs = _function_of(base)
    if call.random or base in OURS or theirs is None or call.function.__name__ != base.rpartition(".")[2]:
        return None
    try:
        wanted = call.with_values(arrays, lambda *args, **options: theirs(*_tensor_of(args), **options))
        found = call.outputs([retrograd.Tensor(a.copy()) for a in arrays])
    except (TypeError, ValueError, RuntimeError, IndexError, ZeroDivisionError, NotImplementedError):
        return None
    results = wanted if isinstance(wanted, (tuple, list)) else (wanted,)
    for y, z in zip(found, [y for y in results if isinstance(y, torch.Tensor)], strict=False):
        if y.shape != tuple(z.shape) or z.is_complex():  # an argument means something else there
            continue
        if y.array.dtype != z.numpy(force=True).dtype:
            return f"{y.dtype}, PyTorch {z.dtype}"
        tolerance = 5e-3 if "float16" in (kind, str(y.dtype)) else 2e-4
        try:
            assert_close(y, z, "value", tolerance if y.array.dtype.kind == "f" else None)
        except AssertionError as error:
            return str(error)
    return None


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["drawn", "all"])
def test_every_operator_of_the_tables(kind: str, many: bool) -> None:
    cases = [case for case in CASES if case.form is as_function]
    chosen = cases if many else random.Random(kind).sample(cases, 150)
    with np.errstate(all="ignore"):
        outcomes = [(case.label, _difference(case, kind)) for case in chosen]
    assert not [outcome for outcome in outcomes if outcome[1]]
