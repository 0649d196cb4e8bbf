"""Convolution as a trilinear form, from the definition, in any number of dimensions.

Tap r of output o reads input position i = o*stride + r*dilation - lo. In the padded input, with P = lo + I + hi
positions, that is o*stride + r*dilation. For one tap and all outputs it is a strided slice, so every kernel of a window
is a loop over its taps with whole-array statements inside. (An infinite weight or gradient times a zero of the padding
is NaN here; the compiled kernels leave such products out.)

    T(x, w, g) = sum over n, k, c, r, o of x[n, c, i] w[k, c, r] g[n, k, o],    i = o*stride + r*dilation - lo

where c and k are channels of the same group, and an i outside the input is padding and adds nothing. Leave
one of the three out, and its factor remains:

    conv              y[n, k, o] = sum over c, r of x[n, c, i] w[k, c, r]      T = <y, g>
    conv_input_grad   x[n, c, i] = sum over k, o, r of w[k, c, r] g[n, k, o]   T = <x, gx>
    conv_weight_grad  w[k, c, r] = sum over n, o of g[n, k, o] x[n, c, i]      T = <w, gw>

so the gradients of each are the other two. At one tap r, each is a product of matrices per image and group,
of w (K, C), the part of x that the outputs read (C, O), and g (K, O):

    y += w @ x              x += w^T @ g              w = g @ x^T

Other algorithms are in algorithms/; one is used if the options name it or limit the temporary memory.

Axes: N batch, G groups, C = Ci//G and K = Co//G channels of a group; I, R, O, P positions of input, kernel, output and
padded input. *I is one axis per dimension, I all of them flattened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from ...formulas.piecewise import clamp
from ...specs.convolution_options import AUTO, Options
from ...specs.geometry import Window
from .algorithms import kernel_of
from .ieee import ieee
from .pointwise import on_arrays

__all__ = ["conv", "conv_clamp", "conv_input_grad", "conv_input_grad_clamp", "conv_weight_grad"]


# ---- The positions that the taps of a window read: for convolution and pooling --------------------------------------


def taps(window: Window) -> Iterator[tuple[Any, ...]]:
    """For every tap of the kernel, in row-major order: the index ``at`` of the positions that the outputs read.

    padded (..., *P)  ->  padded[at] (..., *O), a view whose element o is read by output o at this tap
    """
    for r in np.ndindex(window.kernel):
        yield (..., *map(_reads, r, window.dilation, window.stride, window.output))


def _reads(r: int, dilation: int, stride: int, output: int) -> slice:
    """The positions o*stride + r*dilation for o = 0, ..., O - 1 on one axis."""
    first, last = r * dilation, r * dilation + (output - 1) * stride
    return slice(first, last + 1, stride)


def pad(x: np.ndarray, window: Window, value: float = 0) -> np.ndarray:
    """x (N, C, *I) -> (N, C, *P), with ``value`` in the padding."""
    return np.pad(x, [(0, 0), (0, 0), *window.padding], constant_values=value)


def crop(padded: np.ndarray, window: Window) -> np.ndarray:
    """The transpose of pad: padded (N, C, *P) -> (N, C, *I), without the padding."""
    inside = (slice(lo, lo + i) for (lo, _), i in zip(window.padding, window.input, strict=True))
    return padded[:, :, *inside]


def padded_extents(window: Window) -> tuple[int, ...]:
    """P = lo + I + hi on every axis."""
    return tuple(lo + i + hi for i, (lo, hi) in zip(window.input, window.padding, strict=True))


# ---- Convolution as a trilinear form, from the definition, in any number of dimensions ------------------------------


@ieee
def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options = AUTO) -> np.ndarray:
    """y[n, k, o] = bias[k] + sum over c, r of x[n, c, o*stride + r*dilation - lo] w[k, c, r]

    x (N, Ci, *I), w (Co, Ci//groups, *R), bias (Co,) or None  ->  (N, Co, *O)
    """
    if other := kernel_of("conv", options):
        return other(x, w, bias, window, options)
    N, G, outputs = len(x), window.groups, prod(window.output)
    C, K = w.shape[1], len(w) // G
    padded = pad(x, window)  # (N, Ci, *P)
    w = _by_tap(w, window)  # (Co, C, *R) -> (R, G, K, C)
    y = np.zeros((N, G, K, outputs), x.dtype, like=x)
    for r, at in enumerate(taps(window)):
        x_r = padded[at].reshape(N, G, C, outputs)  # (N, Ci, *O) -> (N, G, C, O)
        y += _matmul(w[r], x_r)  # (G, K, C) @ (N, G, C, O) -> (N, G, K, O)
    y = y.reshape(N, G * K, *window.output)  # (N, G, K, O) -> (N, Co, *O)
    return y if bias is None else y + _per_channel(bias, window)


@ieee
def conv_clamp(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    residual: np.ndarray | None,
    low: float,
    high: float,
    window: Window,
    options: Options = AUTO,
    formula: Callable[..., Any] | None = None,
    numbers: tuple[float, ...] = (),
) -> np.ndarray:
    """formula(min(max(conv + residual, low), high), numbers...): residual (N, Co, *O) or None  ->  (N, Co, *O)"""
    return _finished(conv(x, w, bias, window, options), residual, low, high, formula, numbers)


@ieee
def conv_input_grad(
    g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options = AUTO
) -> np.ndarray:
    """gx[n, c, i] = bias[c] + sum over k, o, r with o*stride + r*dilation - lo = i of w[k, c, r] g[n, k, o]

    g (N, Co, *O), w (Co, Ci//groups, *R), bias (Ci,) or None  ->  (N, Ci, *I)

    The gradient of conv to x; with a bias, the forward pass of the transposed convolution.
    """
    if other := kernel_of("conv_input_grad", options):
        return other(g, w, bias, window, options)
    N, G, outputs = len(g), window.groups, prod(window.output)
    C, K = w.shape[1], len(w) // G
    g = g.reshape(N, G, K, outputs)  # (N, Co, *O) -> (N, G, K, O)
    w = _by_tap(w, window)  # (Co, C, *R) -> (R, G, K, C)
    padded = np.zeros((N, G * C, *padded_extents(window)), g.dtype, like=g)  # (N, Ci, *P)
    for r, at in enumerate(taps(window)):
        back = _matmul(w[r].swapaxes(1, 2), g)  # (G, C, K) @ (N, G, K, O) -> (N, G, C, O)
        padded[at] += back.reshape(N, G * C, *window.output)  # (N, G, C, O) -> (N, Ci, *O)
    gx = crop(padded, window)
    return gx if bias is None else gx + _per_channel(bias, window)


@ieee
def conv_input_grad_clamp(
    g: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    residual: np.ndarray | None,
    low: float,
    high: float,
    window: Window,
    options: Options = AUTO,
    formula: Callable[..., Any] | None = None,
    numbers: tuple[float, ...] = (),
) -> np.ndarray:
    """formula(min(max(conv_input_grad + residual, low), high), numbers...): residual (N, Ci, *I)  ->  (N, Ci, *I)"""
    return _finished(conv_input_grad(g, w, bias, window, options), residual, low, high, formula, numbers)


@ieee
def conv_weight_grad(x: np.ndarray, g: np.ndarray, window: Window, options: Options = AUTO) -> np.ndarray:
    """gw[k, c, r] = sum over n, o of g[n, k, o] x[n, c, o*stride + r*dilation - lo]

    x (N, Ci, *I), g (N, Co, *O)  ->  (Co, Ci//groups, *R)

    The gradient of conv to w.
    """
    if other := kernel_of("conv_weight_grad", options):
        return other(x, g, window, options)
    N, G, outputs = len(x), window.groups, prod(window.output)
    C, K = x.shape[1] // G, g.shape[1] // G
    padded = pad(x, window)  # (N, Ci, *P)
    g = g.reshape(N, G, K, outputs)  # (N, Co, *O) -> (N, G, K, O)
    gw = np.empty((window.taps, G, K, C), x.dtype, like=x)
    for r, at in enumerate(taps(window)):
        x_r = padded[at].reshape(N, G, C, outputs)  # (N, Ci, *O) -> (N, G, C, O)
        # (N, G, K, O) @ (N, G, O, C) -> (N, G, K, C), then the sum over the batch
        gw[r] = (g @ x_r.swapaxes(2, 3)).sum(axis=0)
    # (R, G, K, C) -> (G, K, C, R) -> (Co, C, *R)
    return np.moveaxis(gw, 0, -1).reshape(G * K, C, *window.kernel)


def _finished(
    y: np.ndarray,
    residual: np.ndarray | None,
    low: float,
    high: float,
    formula: Callable[..., Any] | None,
    numbers: tuple[float, ...],
) -> np.ndarray:
    y = clamp(y if residual is None else y + residual, low, high)
    return y if formula is None else on_arrays(formula)(y, *numbers)


def _by_tap(w: np.ndarray, window: Window) -> np.ndarray:
    """w with its taps first, contiguous: matrix products of strided arrays are slow."""
    G, C = window.groups, w.shape[1]
    w = w.reshape(G, len(w) // G, C, window.taps)  # (Co, C, *R) -> (G, K, C, R)
    return np.ascontiguousarray(np.moveaxis(w, -1, 0), like=w)  # (G, K, C, R) -> (R, G, K, C)


def _matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b; with one term per sum (one channel in a group), NumPy is faster at the plain product."""
    product: np.ndarray = a * b if a.shape[-1] == 1 else a @ b
    return product


def _per_channel(bias: np.ndarray, window: Window) -> np.ndarray:
    return bias.reshape(-1, *(1,) * window.ndim)  # (C,) -> (C, 1, ..., 1): the same at every position
