"""Convolutions and transposed convolutions: products, and algorithms to step through.

Every product of a convolution joins one entry each of x, w and y. The forward pass multiplies x and w and adds to y,
the gradient to w multiplies gy and x, and that to x multiplies gy and w. In a transposed convolution the input and the
result are exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ...kernels.textbook import convolution as textbook
from ...kernels.textbook.algorithms import ALGORITHMS, cost
from ...nn import functional as F  # noqa: N812  PyTorch's name
from ...specs.convolution_options import Options
from ...specs.geometry import Window, as_tuple, conv_padding, conv_transpose_window, conv_window
from .. import address_table_convolution, winograd_convolution
from ..explanation import Array, Case, Padding, Setting
from ..measurements import Arrays
from ..products import Products, convolved
from ..tracing import Algorithm
from .convolution_stories import stories
from .gradient_bugs import CONV_TRANSPOSE, CONVOLUTION
from .im2col import matrices, sums_of_matrices, sums_of_transposed, transposed_matrices
from .operator import VALUES, Operator, arguments, call_text, draw, frozen

__all__ = ["OPERATORS", "algorithms_of"]


# ---- Algorithms for a convolution and its gradients, each to be stepped through -------------------------------------

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
    """Return every algorithm that can compute this convolution, with y, gx and gw."""
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
    others: tuple[tuple[str, Any], ...] = (
        ("address table", address_table_convolution),
        ("winograd", winograd_convolution),
    )
    for group, module in others if winograd_convolution.fits(window) else others[:1]:
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


# ---- Convolutions and transposed convolutions, whose products are the same for y, gx and gw -------------------------

_MOST_AS_MATRICES = 20_000  # products of a convolution that is shown as matrices
_SPACE = {1: "w", 2: "hw", 3: "dhw"}
_TAPS = {1: "s", 2: "rs", 3: "qrs"}
_EXAMPLE_SIZE, _EXAMPLE_KERNEL = {1: 8, 2: 4, 3: 4}, {1: 3, 2: 3, 3: 2}


def _settings(ndim: int, transposed: bool) -> tuple[Setting, ...]:
    size, kernel = _EXAMPLE_SIZE[ndim], _EXAMPLE_KERNEL[ndim]
    if transposed:
        size = {1: 5, 2: 3, 3: 2}[ndim]
    return (
        Setting("stride", 2 if transposed else 1, (1, 2, 3), "how far the window moves from one output to the next"),
        Setting("padding", 1 if ndim < 3 and not transposed else 0, (0, 1, 2), "zeros around the input"),
        Setting("dilation", 1, (1, 2), "how far apart the taps of the kernel are"),
        Setting("groups", 1, (1, 2), "into how many groups the channels are split, each with its own kernels"),
        Setting("batch", 1 if transposed else 2, (1, 2, 3), "samples"),
        Setting("channels", 2 if ndim < 3 else 1, (1, 2, 4), "channels of the input"),
        Setting("filters", 2 if ndim < 3 else 1, (1, 2, 4), "channels of the result"),
        Setting("size", size, tuple(range(2, {1: 13, 2: 9, 3: 6}[ndim])), "positions of the input on each axis"),
        Setting("kernel", kernel, (1, 2, 3, 4)[: 4 if ndim < 3 else 3], "positions of the kernel on each axis"),
        VALUES,
    )


def _example(ndim: int, transposed: bool, options: Mapping[str, Any]) -> Arrays:
    groups, values = options["groups"], options["values"]
    ci, co = options["channels"], options["filters"]
    channels = (ci, co // groups) if transposed else (co, ci // groups)
    if ci % groups or co % groups:
        raise ValueError(f"channels={ci} and filters={co} must be multiples of groups={groups}")
    return {
        "x": draw((options["batch"], ci, *(options["size"],) * ndim), values, 1, 0, 4),
        "w": draw((*channels, *(options["kernel"],) * ndim), values, 2, -1, 2),
        "b": draw((co,), values, 3),
    }


_ARGUMENTS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}


def _case(name: str, ndim: int, transposed: bool, inputs: Arrays, options: Mapping[str, Any]) -> Case:
    more = {"output_padding": 0} if transposed else {}
    given = arguments(name, options, _ARGUMENTS | more, _settings(ndim, transposed))
    extra = {key: value for key in more if (value := given.pop(key))}
    function = getattr(F, name)
    x, w = inputs["x"], inputs["w"]
    if transposed:
        window = conv_transpose_window(
            x.shape[2:],
            w.shape[2:],
            frozen(given["stride"]),
            frozen(given["padding"]),
            frozen(extra.get("output_padding", 0)),
            frozen(given["dilation"]),
            given["groups"],
        )
    else:
        window = _window(x.shape[2:], w.shape[2:], **{key: frozen(value) for key, value in given.items()})
    space, taps = _SPACE[ndim], _TAPS[ndim]
    x_axes, y_axes = f"nc{space}", f"nk{space}"
    w_axes = f"ck{taps}" if transposed else f"kc{taps}"
    padding: Padding = () if transposed else window.padding
    shown = {
        "x": Array(x, x_axes, "input", "the input", padding),
        "w": Array(w, w_axes, "weight", "the kernels: one for each channel of the result and of the input"),
    }
    if "b" in inputs:
        shown["b"] = Array(inputs["b"], "k", "weight", "the bias: one number for each channel of the result")

    def call(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        return function(x, w, b, **given, **extra)

    as_matrices = len(x) * w.size * math.prod(window.output) <= _MOST_AS_MATRICES
    make, multiply = (transposed_matrices, sums_of_transposed) if transposed else (matrices, sums_of_matrices)

    def sums(arrays: Arrays) -> dict[str, list[Products]]:
        found = _sums(window, transposed, arrays)
        return found | multiply(window, arrays) if as_matrices else found

    return Case(
        name=name,
        call=call,
        inputs=shown,
        output=(y_axes, "the result"),
        sums=sums,
        formulas=_formulas(ndim, transposed, "b" in inputs),
        source=call_text(f"F.{name}", inputs, {k: v for k, v in given.items() if v != _ARGUMENTS[k]} | extra),
        inner=lambda arrays: make(window, arrays) if as_matrices else {},
        algorithms=lambda arrays: [] if transposed else algorithms_of(window, arrays),
        bugs=CONV_TRANSPOSE if transposed else CONVOLUTION,
        stories=lambda arrays, sums: stories(window, transposed, arrays, sums),
        step=1.0,
    )


def _window(
    size: tuple[int, ...], kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: int
) -> Window:
    """Return the window of a convolution, whose padding may be a string."""
    if isinstance(padding, str):
        steps, apart = (as_tuple(each, len(size), "stride or dilation", at_least=1) for each in (stride, dilation))
        padding = conv_padding(padding, size, kernel, steps, apart)
    return conv_window(size, kernel, stride, padding, dilation, groups)


def _sums(window: Window, transposed: bool, arrays: Arrays) -> dict[str, list[Products]]:
    """Return the products of y, gx, gw and gb; for a transposed convolution with x and y exchanged."""
    wide, narrow = ("y", "x") if transposed else ("x", "y")  # the arrays of window.input and of window.output
    batch, channels = arrays[wide].shape[:2]
    sizes = window, batch, channels, arrays["w"].shape
    if transposed:  # products in the padding are cropped: they are not part of the result
        found = {
            "y": [convolved(*sizes, "x", {"y": "x", "w": "w"})],
            "gx": [convolved(*sizes, "y", {"x": "gy", "w": "w"}, False)],
            "gw": [convolved(*sizes, "w", {"x": "gy", "y": "x"}, False)],
        }
    else:
        found = {
            "y": [convolved(*sizes, "y", {"x": "x", "w": "w"})],
            "gx": [convolved(*sizes, "x", {"y": "gy", "w": "w"})],
            "gw": [convolved(*sizes, "w", {"y": "gy", "x": "x"})],
        }
    if "b" in arrays:
        shape = arrays["y"].shape  # (N, Co, *O)
        found["y"].append(Products(("b",), partial(_bias_of_result, shape)))
        found["gb"] = [Products(("gy",), partial(_results_of_bias, shape))]
    return found


def _bias_of_result(shape: tuple[int, ...], entry: int | None) -> np.ndarray:
    """Return rows (entry of y, its channel)."""
    outputs = np.arange(math.prod(shape)) if entry is None else np.array([entry])
    return np.stack([outputs, outputs // math.prod(shape[2:]) % shape[1]], 1)


def _results_of_bias(shape: tuple[int, ...], entry: int | None) -> np.ndarray:
    """Return rows (channel, entry of y)."""
    channels = np.arange(shape[1]) if entry is None else np.array([entry])
    places = math.prod(shape[2:])
    n, o = np.arange(shape[0])[:, None, None] * shape[1], np.arange(places)
    outputs = (n + channels[:, None]) * places + o  # (N, channels, places)
    return np.stack([np.broadcast_to(channels[:, None], outputs.shape).ravel(), outputs.ravel()], 1)


def _formulas(ndim: int, transposed: bool, bias: bool) -> dict[str, str]:
    space, taps = ", ".join(_SPACE[ndim]), ", ".join(_TAPS[ndim])
    outputs = ", ".join({1: "o", 2: "po", 3: "mpo"}[ndim])
    reads = ", ".join(
        f"{o}·stride + {r}·dilation − padding" for o, r in zip(outputs.split(", "), _TAPS[ndim], strict=True)
    )
    plus = " + b[k]" if bias else ""
    if transposed:
        return {
            "y": f"y[n, k, {reads}] += x[n, c, {outputs}] · w[c, k, {taps}]{plus}",
            "gx": f"gx[n, c, {outputs}] = Σ gy[n, k, {reads}] · w[c, k, {taps}]   over k, {taps}",
            "gw": f"gw[c, k, {taps}] = Σ gy[n, k, {reads}] · x[n, c, {outputs}]   over n, {outputs}",
            "gb": f"gb[k] = Σ gy[n, k, {space}]   over n, {space}",
        }
    return {
        "y": f"y[n, k, {outputs}] = Σ x[n, c, {reads}] · w[k, c, {taps}]{plus}   over c, {taps}",
        "gx": f"gx[n, c, {space}] = Σ gy[n, k, {outputs}] · w[k, c, {taps}]   over k, {taps}, where {reads} = {space}",
        "gw": f"gw[k, c, {taps}] = Σ gy[n, k, {outputs}] · x[n, c, {reads}]   over n, {outputs}",
        "gb": f"gb[k] = Σ gy[n, k, {outputs}]   over n, {outputs}",
    }


def _operator(ndim: int, transposed: bool) -> Operator:
    name = f"conv_transpose{ndim}d" if transposed else f"conv{ndim}d"
    return Operator(
        name,
        ("x", "w"),
        ("b",),
        _settings(ndim, transposed),
        lambda options: _example(ndim, transposed, options),
        lambda inputs, options: _case(name, ndim, transposed, inputs, options),
    )


OPERATORS = {each.name: each for each in (_operator(n, t) for t in (False, True) for n in (1, 2, 3))}
