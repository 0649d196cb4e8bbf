"""PReLU: relu with a learned slope below 0, one for all channels or one per channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...nn import functional as F  # noqa: N812  PyTorch's name
from ..explanation import Array, Case, Setting
from ..measurements import Arrays
from ..products import Equations
from .operator import Operator, arguments, call_text, leading
from .pointwise import between

__all__ = ["OPERATORS"]

_SETTINGS = (
    Setting("batch", 3, (1, 2, 3, 4), "samples"),
    Setting("channels", 3, (1, 2, 3, 4), "channels of the input"),
    Setting("slopes", "one", ("one", "of each channel"), "one learned slope, or one of each channel"),
)


def _example(options: Mapping[str, Any]) -> Arrays:
    N, C = options["batch"], options["channels"]
    count = 1 if options["slopes"] == "one" else C
    return {"x": between(-2.0, 2.0, (N, C)), "w": between(0.0, 1.0, (count,), 2)}


def _case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
    arguments("prelu", options, {}, _SETTINGS)
    x, w = inputs["x"], inputs["w"]
    axes = leading(x.ndim) if x.ndim < 2 else f"nc{'hwdopq'[: x.ndim - 2]}"
    of_w = axes[min(1, x.ndim - 1) :][:1] if w.size > 1 else "z" * w.ndim
    letters = dict.fromkeys(("x", "y", "gx", "gy", "slope", "below"), axes) | dict.fromkeys(("w", "gw"), of_w)
    extents = dict(zip(axes, x.shape, strict=True)) | {"z": 1}
    equations = Equations(("y = slope * x", "gx = gy * slope", "gw = gy * below"), letters, extents)

    def inner(arrays: Arrays) -> dict[str, Array]:
        x, w = arrays["x"], arrays["w"].ravel()
        if x.ndim > 2:
            w = w.reshape(-1, *(1,) * (x.ndim - 2))
        return {
            "slope": Array(np.where(x > 0, x.dtype.type(1), w), axes, "inner", "1 where x > 0, w elsewhere"),
            "below": Array(
                np.where(x > 0, x.dtype.type(0), x), axes, "inner", "x where it is multiplied by w, 0 elsewhere"
            ),
        }

    return Case(
        name="prelu",
        call=F.prelu,
        inputs={
            "x": Array(x, axes, "input", "the input"),
            "w": Array(w, "c" * w.ndim, "weight", "the slope where x is not above 0"),
        },
        output=(axes, "the result"),
        sums=lambda arrays: equations.sums,
        formulas=equations.formulas,
        source=call_text("F.prelu", inputs, {}),
        inner=inner,
    )


OPERATORS = {"prelu": Operator("prelu", ("x", "w"), (), _SETTINGS, _example, _case)}
