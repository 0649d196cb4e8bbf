"""Discrete Fourier transforms, as products with matrices of cosines and sines. Source: ONNX Operators.html.

The last axis contains the real part, or the real and the imaginary part.
"""

from __future__ import annotations

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...nn import functional
from ..errors import OnnxError
from ..node import Node, Value, array_of, extents, floating, scalar
from .registry import operator


@operator("DFT", constants=(1, 2))
def dft(node: Node, x: Value, length: Value = None, axis: Value = None) -> Tensor:
    """Transform along an axis, by default the last but one; up to opset 19 it is an attribute, 1 by default."""
    x = floating(x)
    along = scalar(axis) if axis is not None else -2 if node["axis"] is None else node["axis"]
    along %= x.ndim
    if along == x.ndim - 1:
        raise OnnxError(f"axis={along} is the axis of the real and the imaginary part")
    if node["inverse"] and node["onesided"]:
        return _real_inverse(x, along, 2 * (x.shape[along] - 1) if length is None else scalar(length))
    count = x.shape[along] if length is None else scalar(length)
    return _transformed(x, along, count, bool(node["inverse"]), bool(node["onesided"]))


@operator("STFT", constants=(1, 2, 3))
def stft(node: Node, x: Value, step: Value, window: Value = None, length: Value = None) -> Tensor:
    """Compute the transform of each frame times the window."""
    x = floating(x)
    count = scalar(length) if length is not None else array_of(window).size if window is not None else x.shape[1]
    every = scalar(step)
    if every < 1 or not 1 <= count <= x.shape[1]:
        raise OnnxError(f"frames of {count} samples, every {every}, do not fit a signal of {x.shape[1]}")
    frames = [ops.narrow(x, 1, begin, count) for begin in range(0, x.shape[1] - count + 1, every)]
    whole = ops.stack(frames, 1)  # (N, frames, count, parts)
    if window is not None:
        whole = whole * window.reshape(-1, 1)
    return _transformed(whole, 2, count, False, bool(node["onesided"]))


def _real_inverse(x: Tensor, axis: int, length: int) -> Tensor:
    """Return the real signal of a one-sided transform: each frequency but the first and the middle one counts twice."""
    if x.shape[-1] != 2 or length < 1:
        raise OnnxError(f"a one-sided transform of shape {x.shape} to {length} samples; it must be complex")
    kept = length // 2 + 1
    extents([length, kept])
    x = ops.movedim(x, axis, -1)
    x = functional.pad(x, [0, kept - x.shape[-1]])
    k = np.arange(kept)
    angle = 2 * np.pi / length * (np.outer(k, np.arange(length)) % length)
    times = np.where((k == 0) | (2 * k == length), 1, 2)[:, None] / length
    cosine, sine = (wrap((times * wave(angle)).astype(x.array.dtype)) for wave in (np.cos, np.sin))
    y = ops.matmul(x[..., 0, :], cosine) - ops.matmul(x[..., 1, :], sine)
    return ops.movedim(ops.unsqueeze(y, -2), -1, axis)


def _transformed(x: Tensor, axis: int, length: int, inverse: bool, onesided: bool) -> Tensor:
    if x.shape[-1] not in (1, 2):
        raise OnnxError(f"the last axis has {x.shape[-1]} entries, needs 1 (real) or 2 (complex)")
    extents([length, length])
    x = ops.movedim(x, axis, -1)  # (..., parts, n)
    x = functional.pad(x, [0, length - x.shape[-1]])
    kept = length // 2 + 1 if onesided else length
    # reduced modulo whole turns first, to keep precision
    angle = 2 * np.pi / length * (np.outer(np.arange(length), np.arange(kept)) % length)
    scale = 1 / length if inverse else 1.0
    cosine = wrap((scale * np.cos(angle)).astype(x.array.dtype))
    sine = wrap(((scale if inverse else -scale) * np.sin(angle)).astype(x.array.dtype))
    real = x[..., 0, :]
    parts = [ops.matmul(real, cosine), ops.matmul(real, sine)]
    if x.shape[-2] == 2:
        imaginary = x[..., 1, :]
        parts = [parts[0] - ops.matmul(imaginary, sine), parts[1] + ops.matmul(imaginary, cosine)]
    return ops.movedim(ops.stack(parts, -2), -1, axis)
