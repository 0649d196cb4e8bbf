"""The ways to compute a convolution and its gradients, each to be stepped through: all end in the same arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...kernels.textbook import convolution as textbook
from ...kernels.textbook.algorithms import ALGORITHMS, cost
from ...specs.convolution_options import Options
from ...specs.geometry import Window
from ..algorithms import address_table, winograd
from ..measure import Arrays
from ..running import Algorithm

__all__ = ["algorithms_of"]

Cost = dict[str, int]  # "multiplications", "bytes"

_ABOUT = {
    "textbook": "one product of matrices for each tap of the kernel; no copies of the input",
    "singa": "SINGA: unfold one sample and multiply, dW += G Xᵀ, dX = col2im(Wᵀ G)",
    "mxnet": "MXNet: unfold as many samples as the workspace holds",
    "pytorch": "PyTorch: the gradients are convolutions themselves",
    "numpy_ml": "numpy-ml: dilate, pad, flip, and unfold the whole batch",
    "address table": "retrograd's compiled kernels: a table says which rows of x are multiplied; nothing is copied",
    "winograd": "retrograd's compiled kernels, 3×3 taps: 36 multiplications for a tile of 4×4 outputs, not 144",
}
_RESULTS = {"conv": "y", "conv_input_grad": "gx", "conv_weight_grad": "gw"}


def algorithms_of(window: Window, arrays: Arrays) -> list[Algorithm]:
    """Every algorithm that can compute this convolution, with y, gx and gw."""
    x, w, gy, bias = arrays["x"], arrays["w"], arrays["gy"], arrays.get("b")
    found = []
    for group in ("textbook", *ALGORITHMS):
        options = Options() if group == "textbook" else Options(group)
        calls: dict[str, Callable[[], Any]] = {
            "conv": partial(textbook.conv, x, w, bias, window, options),
            "conv_input_grad": partial(textbook.conv_input_grad, gy, w, None, window, options),
            "conv_weight_grad": partial(textbook.conv_weight_grad, x, gy, window, options),
        }
        found += _algorithms(group, calls, None if group == "textbook" else _cost(group, window, x, w))
    others: tuple[tuple[str, Any], ...] = (("address table", address_table), ("winograd", winograd))
    for group, module in others if winograd.fits(window) else others[:1]:
        calls = {
            "conv": partial(module.conv, x, w, bias, window),
            "conv_input_grad": partial(module.conv_input_grad, gy, w, window),
            "conv_weight_grad": partial(module.conv_weight_grad, x, gy, window),
        }
        each = module.cost(window, len(x), (x.shape[1], len(w)))
        found += _algorithms(group, calls, dict.fromkeys(calls, each))
    return found


def _algorithms(group: str, calls: dict[str, Callable[[], Any]], costs: dict[str, Cost] | None) -> list[Algorithm]:
    return [
        Algorithm(name, group, _ABOUT[group], _RESULTS[name], call, costs[name] if costs else None)
        for name, call in calls.items()
    ]


def _cost(group: str, window: Window, x: np.ndarray, w: np.ndarray) -> dict[str, Cost]:
    found = cost(group, window, len(x), (x.shape[1], len(w)), x.dtype)
    passes = {name: getattr(found, name) for name in _RESULTS}
    return {name: {"multiplications": each.multiplications, "bytes": each.memory} for name, each in passes.items()}
