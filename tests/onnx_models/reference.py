"""The oracle of the gradient vectors: outputs of ONNX's reference implementation in float64, and differences of them.

It shares no code with the library. Operators that the reference implementation of onnx 1.23.2 lacks, gets wrong or
computes in float32 are written out here, from their definitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import (
    op_attention,
    op_deform_conv,
    op_grid_sample,
    op_layer_normalization,
    op_resize,
    op_rms_normalization,
)

from retrograd.onnx.vectors.case import Case
from retrograd.onnx.vectors.files import Vector, forward

Arrays = dict[str, np.ndarray]
_erf = np.vectorize(math.erf, otypes=[float])


# ---- computed in float32 by the reference ------------------------------------------------------------------------


class Erf(OpRun):
    def _run(self, x: Any) -> Any:
        return (_erf(x),)


class Gelu(OpRun):
    def _run(self, x: Any, approximate: Any = None) -> Any:
        if approximate == "tanh":
            return (x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),)
        return (x / 2 * (1 + _erf(x / math.sqrt(2))),)


class HardSwish(OpRun):
    def _run(self, x: Any) -> Any:
        return (x * np.clip(x / 6 + 0.5, 0, 1),)


class Attention(op_attention.Attention):
    def _run(self, *inputs: Any, scale: Any = None, **attributes: Any) -> Any:
        return super()._run(*inputs, scale=None if scale is None else float(scale), **attributes)


class Resize(op_resize.Resize):
    def _run(self, *inputs: Any, cubic_coeff_a: Any = None, **attributes: Any) -> Any:
        return super()._run(*inputs, cubic_coeff_a=float(cubic_coeff_a), **attributes)


class GridSample(op_grid_sample.GridSample):
    def _gs_denormalize_coordinates(self, n: Any, dims: Any, align_corners: bool) -> Any:
        return np.array([self._gs_denormalize(n=v, length=d, align_corners=align_corners) for v, d in zip(n, dims)])  # noqa: B905


class DeformConv(op_deform_conv.DeformConv):
    def _run(self, *inputs: Any, **attributes: Any) -> Any:
        usual = op_grid_sample.GridSample
        op_grid_sample.GridSample = GridSample
        try:
            return super()._run(*inputs, **attributes)
        finally:
            op_grid_sample.GridSample = usual


class LayerNormalization(op_layer_normalization.LayerNormalization):
    """The reference accepts only stash_type=1, for which it computes in the type of x."""

    def _run(self, *inputs: Any, stash_type: Any = None, **attributes: Any) -> Any:
        return super()._run(*inputs, stash_type=1, **attributes)


class RMSNormalization(op_rms_normalization.RMSNormalization):
    def _run(self, *inputs: Any, stash_type: Any = None, **attributes: Any) -> Any:
        return super()._run(*inputs, stash_type=1, **attributes)


# ---- wrong or missing in the reference -----------------------------------------------------------------------------


class ConvTranspose(OpRun):
    """The reference is wrong with groups of several channels."""

    def _run(
        self,
        x: Any,
        w: Any,
        b: Any = None,
        auto_pad: Any = None,
        dilations: Any = None,
        group: Any = None,
        kernel_shape: Any = None,
        output_padding: Any = None,
        output_shape: Any = None,
        pads: Any = None,
        strides: Any = None,
    ) -> Any:
        axes = x.ndim - 2
        one, none = [1] * axes, [0] * axes
        strides, dilations, extra = strides or one, dilations or one, output_padding or none
        reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
        full = [(i - 1) * s + r + e for i, s, r, e in zip(x.shape[2:], strides, reach, extra, strict=True)]
        if output_shape:  # the excess is cropped, the larger half at the beginning
            totals = [f - o for f, o in zip(full, output_shape, strict=True)]
            pads = [t - t // 2 for t in totals] + [t // 2 for t in totals]
        pads = pads or none * 2
        inside, out = w.shape[0] // group, w.shape[1]
        y = np.zeros((x.shape[0], out * group, *full))
        for g in range(group):
            channels = slice(g * inside, (g + 1) * inside)
            for at in product(*map(range, w.shape[2:])):
                spread = np.einsum("nc...,co->no...", x[:, channels], w[(channels, slice(None), *at)])
                places = tuple(
                    slice(k * d, k * d + (i - 1) * s + 1, s)
                    for k, d, i, s in zip(at, dilations, x.shape[2:], strides, strict=True)
                )
                y[(slice(None), slice(g * out, (g + 1) * out), *places)] += spread
        kept = tuple(slice(low, f - high) for low, high, f in zip(pads[:axes], pads[axes:], full, strict=True))
        y = y[(slice(None), slice(None), *kept)]
        return (y if b is None else y + b.reshape(-1, *one),)


class LRN(OpRun):
    """The reference computes as many channels as there are samples."""

    def _run(self, x: Any, alpha: Any, beta: Any, bias: Any, size: Any) -> Any:
        squares = np.stack(
            [(x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1) for c in range(x.shape[1])],
            1,
        )
        return (x / (float(bias) + float(alpha) / size * squares) ** float(beta),)


class LpNormalization(OpRun):
    """The reference omits the absolute values."""

    def _run(self, x: Any, axis: Any, p: Any) -> Any:
        return (x / (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p),)


class GlobalLpPool(OpRun):
    def _run(self, x: Any, p: Any) -> Any:
        return ((np.abs(x) ** p).sum(tuple(range(2, x.ndim)), keepdims=True) ** (1 / p),)


class RNN(OpRun):
    """The reference lacks the activation Relu."""

    def _run(
        self,
        x: Any,
        w: Any,
        r: Any,
        b: Any = None,
        lengths: Any = None,
        h0: Any = None,
        activations: Any = None,
        direction: Any = None,
        hidden_size: Any = None,
        **others: Any,
    ) -> Any:
        outputs, states = [], []
        for d, name in enumerate(activations):
            f = {"Tanh": np.tanh, "Relu": lambda a: np.maximum(a, 0)}[name]
            bias = 0 if b is None else b[d, :hidden_size] + b[d, hidden_size:]
            h = np.zeros((x.shape[1], hidden_size)) if h0 is None else h0[d]
            found = []
            backward = direction == "reverse" or d == 1
            for step in x[::-1] if backward else x:
                h = f(step @ w[d].T + h @ r[d].T + bias)
                found.append(h)
            outputs.append(np.stack(found[::-1] if backward else found))
            states.append(h)
        return np.stack(outputs, 1), np.stack(states)


class Pad(OpRun):
    """The reference lacks negative padding."""

    def _run(self, x: Any, pads: Any, value: Any = None, axes: Any = None, mode: Any = None) -> Any:
        sides = list(zip(pads[: x.ndim].tolist(), pads[x.ndim :].tolist(), strict=True))
        kept = tuple(slice(max(0, -low), i - max(0, -high)) for i, (low, high) in zip(x.shape, sides, strict=True))
        more = [(max(0, low), max(0, high)) for low, high in sides]
        options = {"constant_values": 0 if value is None else value} if mode == "constant" else {}
        return (np.pad(x[kept], more, mode=mode, **options),)


_OPERATORS: list[Any] = [
    Erf,
    Gelu,
    HardSwish,
    Attention,
    Resize,
    GridSample,
    DeformConv,
    LayerNormalization,
    RMSNormalization,
    ConvTranspose,
    LRN,
    LpNormalization,
    GlobalLpPool,
    RNN,
    Pad,
]


# ---- Outputs and slopes ------------------------------------------------------------------------------------------


def evaluator(case: Case) -> Callable[[Arrays], Arrays]:
    """Return a function from inputs to the outputs of the operator, by name."""
    session = ReferenceEvaluator(forward(case), new_ops=_OPERATORS)

    def run(arrays: Arrays) -> Arrays:
        return dict(zip(case.output_names, session.run(None, arrays), strict=True))

    return (lambda arrays: _by_sequence(run, arrays)) if "sequence_lens" in case.arrays else run


def _by_sequence(run: Callable[[Arrays], Arrays], arrays: Arrays) -> Arrays:
    """The reference ignores lengths: each sequence is computed alone, cut to its length."""
    axis_of_batch = {"X": 1, "initial_h": 1, "initial_c": 1, "Y": 2, "Y_h": 1, "Y_c": 1}
    found = []
    for n, length in enumerate(arrays["sequence_lens"]):
        own = {name: np.take(a, [n], axis_of_batch[name]) if name in axis_of_batch else a for name, a in arrays.items()}
        own["sequence_lens"], own["X"] = np.array([length], np.int32), own["X"][:length]
        outputs = run(own)
        behind = [(0, len(arrays["X"]) - length), *[(0, 0)] * 3]
        found.append(outputs | {"Y": np.pad(outputs["Y"], behind)})
    return {name: np.concatenate([each[name] for each in found], axis_of_batch[name]) for name in found[0]}


def slope(f: Callable[[float], float], step: float = 2.0**-8) -> float:
    """f'(0) from central differences with the steps h, h/2 and h/4, by Richardson: without the powers h^2 and h^4."""
    first, second, third = ((f(h) - f(-h)) / (2 * h) for h in (step, step / 2, step / 4))
    once, twice = (4 * second - first) / 3, (4 * third - second) / 3
    return (16 * twice - once) / 15


def differences(case: Case, found: Vector, entries: int) -> Iterator[tuple[str, float]]:
    """How far each gradient is from its slope, in a random direction and at some entries; 1 is the scale of both."""
    run, rng = evaluator(case), np.random.default_rng(3)
    for name in case.differentiated:
        x, g = found.inputs[name], found.outputs[f"grad_{name}"]
        directions = [rng.uniform(-1, 1, x.shape)]
        for entry in rng.choice(x.size, min(entries, x.size), replace=False):
            directions.append((np.arange(x.size) == entry).astype(float).reshape(x.shape))
        for direction in directions:
            expected = slope(lambda h: _total(case, found, run(case.arrays | {name: x + h * direction})))  # noqa: B023
            yield name, abs(float((g * direction).sum()) - expected) / (1 + abs(g * direction).sum())


def _total(case: Case, found: Vector, outputs: Arrays) -> float:
    return sum(float((outputs[name] * found.inputs[f"grad_{name}"]).sum()) for name in case.weighted_names)
