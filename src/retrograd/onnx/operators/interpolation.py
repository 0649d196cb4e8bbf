"""Resize and grid sampling. Source: ONNX Operators.html, sections of these names.

Along each axis the output is a matrix times the input. A row has the weights of the input positions: 1 for nearest,
2 for linear and 4 for cubic interpolation, more with antialiasing.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...nn import functional
from ..errors import OnnxError, UnsupportedError
from ..node import Node, Value, array_of, elements_of, extents, floating, ints
from .registry import operator


@operator("Resize", constants=(1, 2, 3))
def resize(node: Node, x: Value, roi: Value = None, scales: Value = None, sizes: Value = None) -> Value:
    kind = array_of(x).dtype
    whole = kind.kind in "iu"
    x = wrap(elements_of(x).astype(np.float64)) if whole else floating(x)
    axes = [axis % x.ndim for axis in node["axes"] or range(x.ndim)]
    inputs = [x.shape[axis] for axis in axes]
    if scales is not None and array_of(scales).size:
        given = elements_of(scales).astype(np.float32)
        # multiplied in float32 as in ONNX's shape inference: 10 * 0.7 is 7, although float32(0.7) is below 0.7
        outputs = [int(np.float32(extent) * scale) for extent, scale in zip(inputs, given, strict=True)]
        factors = [_fraction(float(scale), *sizes) for scale, *sizes in zip(given, outputs, inputs, strict=True)]
    elif sizes is not None:
        outputs = ints(sizes)
        factors = [Fraction(o, max(i, 1)) for o, i in zip(outputs, inputs, strict=True)]
        policy = node["keep_aspect_ratio_policy"] or "stretch"
        if policy != "stretch":
            factor = (min if policy == "not_larger" else max)(factors)
            factors = [factor] * len(axes)
            outputs = [int(factor * i + Fraction(1, 2)) for i in inputs]
    else:
        raise OnnxError("Resize needs scales or sizes")
    shape = [outputs[axes.index(axis)] if axis in axes else x.shape[axis] for axis in range(x.ndim)]
    extents(shape)
    for size, extent in zip(outputs, inputs, strict=True):
        extents([size, extent])  # checks the size of the matrix for this axis
    region = elements_of(roi).astype(np.float64) if roi is not None and array_of(roi).size else np.zeros(2 * len(axes))
    for place, axis in enumerate(axes):
        part = float(region[place]), float(region[place + len(axes)])
        at = _positions(node, outputs[place], inputs[place], factors[place], part)
        if outputs[place] == inputs[place] and np.array_equal(at, np.arange(inputs[place])):
            continue
        matrix = _weights(node, at, inputs[place], float(factors[place]))
        x = _along(x, matrix, axis)
        if node["coordinate_transformation_mode"] == "tf_crop_and_resize":
            lost = (at < 0) | (at > inputs[place] - 1)
            mask = np.expand_dims(lost, tuple(k for k in range(x.ndim) if k != axis))
            x = ops.where(wrap(np.broadcast_to(mask, x.shape).copy()), ops.full_like(x, node["extrapolation_value"]), x)
    return wrap(np.rint(x.array).astype(kind)) if whole else x


@operator("Upsample", constants=(1,))
def upsample(node: Node, x: Value, scales: Value = None) -> Value:
    """Resize as in opset 9, with asymmetric positions."""
    factors = np.array(node["scales"], np.float64) if scales is None else elements_of(scales)
    attributes = {"mode": node["mode"], "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    same = Node(node.name, "Resize", node.domain, node.version, node.inputs, node.outputs, attributes)
    return resize(same, x, None, wrap(np.asarray(factors, np.float64)))


def _fraction(scale: float, outputs: int, inputs: int) -> Fraction:
    """Return the fraction that a float32 approximates: 1/5 for float32(0.2), whose value is 13421773/67108864."""
    for fraction in (Fraction(outputs, max(inputs, 1)), Fraction(scale).limit_denominator(1000)):
        if np.float32(float(fraction)) == np.float32(scale):
            return fraction
    return Fraction(scale)


def _positions(node: Node, outputs: int, inputs: int, factor: Fraction, part: tuple[float, float]) -> np.ndarray:
    """Return the position of each output among the inputs.

    Each is one quotient of whole numbers, so that rounding moves none across the boundary between two inputs.
    """
    mode = node["coordinate_transformation_mode"] or "half_pixel"
    if mode == "tf_crop_and_resize":
        first, last = part
        if outputs == 1:
            return np.full(1, 0.5 * (first + last) * (inputs - 1))
        return first * (inputs - 1) + np.arange(outputs) * (last - first) * (inputs - 1) / (outputs - 1)
    above, below = map(float, factor.as_integer_ratio())
    o = np.arange(outputs, dtype=np.float64)
    if outputs == 1 and mode in ("align_corners", "pytorch_half_pixel"):
        return o
    if mode == "asymmetric":
        return o * below / above
    if mode == "align_corners":
        return o * ((inputs - 1) * below) / (inputs * above - below)
    cut = inputs * above - outputs * below if mode == "half_pixel_symmetric" else 0.0
    return ((2 * o + 1) * below - above + cut) / (2 * above)


def _weights(node: Node, at: np.ndarray, inputs: int, factor: float) -> np.ndarray:
    """Return the interpolation matrix (outputs, inputs)."""
    mode, stretch = node["mode"] or "nearest", min(1.0, factor) if node["antialias"] else 1.0
    if mode == "nearest":
        found = np.zeros((len(at), inputs))
        found[np.arange(len(at)), np.clip(_nearest(node["nearest_mode"], at), 0, inputs - 1)] = 1
        return found
    reach = (1 if mode == "linear" else 2) / stretch
    first = np.floor(at - reach).astype(int) + 1
    places = first[:, None] + np.arange(int(np.ceil(2 * reach)) + 1)
    distance = np.abs(places - at[:, None]) * stretch
    if mode == "linear":
        weights = np.maximum(0, 1 - distance)
    else:
        weights = _cubic(distance, -0.75 if node["cubic_coeff_a"] is None else node["cubic_coeff_a"])
    if node["exclude_outside"]:
        weights = np.where((places >= 0) & (places < inputs), weights, 0)
    if node["exclude_outside"] or stretch < 1:
        weights = weights / weights.sum(1, keepdims=True)
    found = np.zeros((len(at), inputs))
    np.add.at(found, (np.arange(len(at))[:, None], np.clip(places, 0, inputs - 1)), weights)
    return found


def _nearest(mode: str | None, at: np.ndarray) -> np.ndarray:
    rule: Any = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_ceil": lambda p: np.floor(p + 0.5),
    }.get(mode or "", lambda p: np.ceil(p - 0.5))
    return np.asarray(rule(at)).astype(int)


def _cubic(d: np.ndarray, a: float) -> np.ndarray:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _along(x: Tensor, matrix: np.ndarray, axis: int) -> Tensor:
    """Multiply by a matrix along an axis."""
    w = wrap(matrix.astype(x.array.dtype))
    return ops.movedim(ops.matmul(ops.movedim(x, axis, -1), w.T), -1, axis)


@operator("DepthToSpace")
def depth_to_space(node: Node, x: Value) -> Value:
    x, b = floating(x), node["blocksize"]
    n, c, h, w = x.shape
    if node["mode"] == "CRD":
        return ops.permute(x.reshape(n, c // b**2, b, b, h, w), (0, 1, 4, 2, 5, 3)).reshape(n, c // b**2, h * b, w * b)
    return ops.permute(x.reshape(n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2)).reshape(n, c // b**2, h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(node: Node, x: Value) -> Value:
    x, b = floating(x), node["blocksize"]
    n, c, h, w = x.shape
    order = (0, 1, 3, 5, 2, 4) if node["mode"] == "CRD" else (0, 3, 5, 1, 2, 4)
    return ops.permute(x.reshape(n, c, h // b, b, w // b, b), order).reshape(n, c * b**2, h // b, w // b)


@operator("GridSample")
def grid_sample(node: Node, x: Value, grid: Value) -> Tensor:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(node["mode"], node["mode"])
    x = floating(x)
    if x.ndim == 5 and mode == "bicubic":
        raise UnsupportedError("cubic samples of volumes")
    return functional.grid_sample(x, floating(grid), mode, node["padding_mode"], bool(node["align_corners"]))


@operator("AffineGrid", constants=(1,))
def affine_grid(node: Node, theta: Value, size: Value) -> Tensor:
    return functional.affine_grid(floating(theta), ints(size), bool(node["align_corners"]))
