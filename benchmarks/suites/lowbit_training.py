"""Training a low-bit layer compared with our float layer: Conv2d 64 -> 64 on (8, 64, 28, 28), forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import lowbit, nn

from .. import libraries as lib
from ..harness import Row, Rows

SHAPE = (8, 64, 28, 28)
TARGET = 0.87  # at most 1.15 times the float layer
FLOAT = "retrograd's float layer"

# XNOR's factor is as large as the output, so this row has no target
METHODS: dict[str, tuple[Any, Any, float | None]] = {
    "BinaryConnect": (lowbit.BinaryConnect(), None, TARGET),
    "BNN": (lowbit.BinaryConnect(), lowbit.Sign(), TARGET),
    "BWN": (lowbit.BWN(), None, TARGET),
    "BWN and sign": (lowbit.BWN(), lowbit.Sign(), TARGET),
    "XNOR with K": (lowbit.XNOR(), lowbit.XNOR(), None),
    "Bi-Real": (lowbit.BiReal(), lowbit.BiReal(), TARGET),
    "TWN": (lowbit.TWN(), None, TARGET),
    "DeepShift-Q": (lowbit.DeepShiftQ(), lowbit.Fixed(), TARGET),
    "DeepShift-PS": (lowbit.DeepShiftPS(), lowbit.Fixed(), TARGET),
    "DoReFa, 4 bits": (lowbit.DoReFa(4), lowbit.DoReFa(4), TARGET),
    "LSQ, 4 bits": (lowbit.LSQ(4), lowbit.LSQ(4), TARGET),
    "int8": (lowbit.Int8(), lowbit.Int8(), TARGET),
}


def rows(quick: bool, compile: bool) -> Rows:
    x, g = lib.random(*SHAPE), lib.ours(lib.random(*SHAPE, seed=9))
    plain = _step(nn.Conv2d(64, 64, 3, padding=1), x, g)
    for name, (weight, activation, target) in METHODS.items():
        layer = lowbit.Conv2d(64, 64, 3, padding=1, weight=weight, activation=activation)
        yield Row("low-bit training", f"{name} forward and backward", _step(layer, x, g), {FLOAT: plain}, target)


def _step(layer: nn.Module, x: Any, g: Any) -> Callable[[], None]:
    leaf = lib.ours(x, requires_grad=True)

    def step() -> None:
        leaf.grad = None
        layer.zero_grad()
        layer(leaf).backward(g)

    return step
