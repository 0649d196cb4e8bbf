"""Element-wise operators and activations, forward and backward, on the three shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as functional

from ..harness import Rows
from .jobs import Job, on_all_shapes, rows_of

# name -> the range of its arguments, None for normal numbers
UNARY: dict[str, tuple[float, float] | None] = {
    **dict.fromkeys(("abs", "sign", "ceil", "floor", "round", "trunc", "frac", "neg", "square")),
    **dict.fromkeys(("exp", "exp2", "expm1", "sigmoid", "tanh", "erf", "erfc", "relu", "nan_to_num")),
    **dict.fromkeys(("sin", "cos", "tan", "atan", "sinh", "cosh", "asinh")),
    **dict.fromkeys(("sqrt", "rsqrt", "reciprocal", "log", "log2", "log10", "log1p"), (0.1, 3.0)),
    **dict.fromkeys(("asin", "acos", "atanh"), (-0.95, 0.95)),
    "acosh": (1.1, 5.0),
    "logit": (0.05, 0.95),
}
BINARY: dict[str, tuple[float, float] | None] = {
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "logaddexp")),
    **dict.fromkeys(("div", "pow", "xlogy", "fmod", "remainder"), (0.5, 3.0)),
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ACTIVATIONS = (
    *("silu", "mish", "gelu", "softplus", "logsigmoid", "softsign", "tanhshrink", "elu", "selu", "celu", "glu"),
    *("relu6", "hardtanh", "hardsigmoid", "hardswish", "hardshrink", "softshrink", "leaky_relu"),
)


def _jobs() -> Iterator[Job]:
    for name, limits in {**UNARY, **BINARY}.items():
        operands = 2 if name in BINARY else 1
        yield from _on_all("pointwise", name, getattr(retrograd, name), getattr(torch, name), operands, limits)
    for name in ("isnan", "isinf", "isfinite", *COMPARISONS):
        operands = 2 if name in COMPARISONS else 1
        ours, theirs = getattr(retrograd, name), getattr(torch, name)
        yield from on_all_shapes("pointwise", name, ours, theirs, operands, backward=False)
    for name, ours, theirs in (
        ("x > 0", lambda x: x > 0, lambda x: x > 0),
        ("clamp", lambda x: x.clamp(-1, 1), lambda x: x.clamp(-1, 1)),
        ("x ** 1.7", lambda x: x.abs() ** 1.7, lambda x: x.abs() ** 1.7),
        ("2 ** x", lambda x: 2**x, lambda x: 2**x),
    ):
        yield from on_all_shapes("pointwise", name, ours, theirs, backward=name != "x > 0")
    for name in ("addcmul", "addcdiv", "lerp"):
        yield from _on_all("pointwise", name, getattr(retrograd, name), getattr(torch, name), 3, (0.5, 2.0))
    yield from on_all_shapes("pointwise", "lerp 0.3", lambda x, y: retrograd.lerp(x, y, 0.3), _lerp, 2)
    yield from on_all_shapes("pointwise", "where", _Where(retrograd), _Where(torch), 2)
    for name in ACTIVATIONS:
        yield from on_all_shapes("activation", name, getattr(functional, name), getattr(peer, name))
    tanh = {"approximate": "tanh"}
    yield from on_all_shapes(
        "activation", "gelu, tanh", lambda x: functional.gelu(x, **tanh), lambda x: peer.gelu(x, **tanh)
    )
    yield from on_all_shapes(
        "activation", "threshold", lambda x: functional.threshold(x, 0.1, 2), lambda x: peer.threshold(x, 0.1, 2)
    )
    shape = (8, 64, 56, 56)
    yield Job("activation", f"prelu {shape}", functional.prelu, peer.prelu, (shape, (64,)))


def _on_all(group: str, name: str, ours: Any, theirs: Any, operands: int, limits: Any) -> Iterator[Job]:
    options = {} if limits is None else {"low": limits[0], "high": limits[1]}
    yield from on_all_shapes(group, name, ours, theirs, operands, **options)


def _lerp(x: Any, y: Any) -> Any:
    return torch.lerp(x, y, 0.3)


class _Where:
    """where(mask, x, y) with a mask that is created once for each shape."""

    def __init__(self, source: Any) -> None:
        self.source, self.masks = source, dict[tuple[int, ...], Any]()

    def __call__(self, x: Any, y: Any) -> Any:
        shape = tuple(x.shape)
        if shape not in self.masks:
            self.masks[shape] = self.source.tensor(np.random.default_rng(0).random(shape) > 0.5)
        return self.source.where(self.masks[shape], x, y)


def rows(quick: bool, compile: bool) -> Rows:
    return rows_of(_jobs(), quick, compile)
