"""Products, convolutions, attention, recurrent networks, normalization, softmax and pooling."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...specs.array_spec import Array, Spec
from ...specs.convolution_options import AUTO, Options
from ...specs.geometry import AdaptiveWindow, Window
from ...specs.recurrence import Recurrence, Weights
from .kernel import BOOL, INT64, Axes, Pair, Three, declare, only

NeedsGrad = tuple[bool, bool, bool]
Padding = tuple[tuple[int, int], ...]


def _windows(x: Spec, window: Window | AdaptiveWindow, count_include_pad: bool = False) -> Spec:
    return x._replace(shape=(*x.shape[:2], *window.output))


def _of_windows(g: Spec, window: Window | AdaptiveWindow, count_include_pad: bool = False) -> Spec:
    return g._replace(shape=(*g.shape[:2], *window.input))


def _channels(x: Spec) -> Spec:
    return x._replace(shape=x.shape[1:2])


def _product(a: Spec, b: Spec, bias: Spec | None = None) -> Spec:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a._replace(shape=(*batch, a.shape[-2], b.shape[-1]))


def _leading(x: Spec, weight: Spec) -> Spec:
    """The leading axes of x that weight does not have."""
    return x._replace(shape=x.shape[: len(x.shape) - len(weight.shape)])


def _groups_of(x: Spec, groups: int) -> Spec:
    return x._replace(shape=(x.shape[0], groups))


class Layers:
    """Products, convolutions, attention, recurrent networks, normalization, softmax and pooling."""

    # ---- products and convolutions

    @declare(_product)
    def matmul(self, a: Array, b: Array, bias: Array | None = None) -> Array:
        """c[..., m, n] = bias[n] + sum over k of a[..., m, k] b[..., k, n]."""

    @declare(lambda a, b, bias, residual, low, high, formula=None, numbers=(): _product(a, b))
    def matmul_clamp(
        self,
        a: Array,
        b: Array,
        bias: Array | None,
        residual: Array | None,
        low: float,
        high: float,
        formula: Callable[..., Any] | None = None,
        numbers: tuple[float, ...] = (),
    ) -> Array:
        """min(max(matmul + residual, low), high): a product with what follows it; NaN stays NaN.

        Last comes a formula of one operand, if given, with these numbers.
        """

    @declare(lambda x, w, bias, window, options=AUTO: Spec((x.shape[0], w.shape[0], *window.output), x.dtype))
    def conv(self, x: Array, w: Array, bias: Array | None, window: Window, options: Options = AUTO) -> Array:
        """y[n, co, o] = bias[co] + sum over ci, r of x[n, ci, i] w[co, ci, r], i = o stride + r dilation - padding."""

    @declare(
        lambda x, w, bias, residual, low, high, window, options=AUTO, formula=None, numbers=(): Spec(
            (x.shape[0], w.shape[0], *window.output), x.dtype
        )
    )
    def conv_clamp(
        self,
        x: Array,
        w: Array,
        bias: Array | None,
        residual: Array | None,
        low: float,
        high: float,
        window: Window,
        options: Options = AUTO,
        formula: Callable[..., Any] | None = None,
        numbers: tuple[float, ...] = (),
    ) -> Array:
        """min(max(conv + residual, low), high): a convolution with what follows it, as ``matmul_clamp``."""

    @declare(
        lambda x, w, bias, low, high, window, pool, options=AUTO: Spec((x.shape[0], w.shape[0], *pool.output), x.dtype)
    )
    def conv_max_pool(
        self,
        x: Array,
        w: Array,
        bias: Array | None,
        low: float,
        high: float,
        window: Window,
        pool: Window,
        options: Options = AUTO,
    ) -> Array:
        """The largest element of each window ``pool`` of min(max(conv, low), high)."""

    @declare(
        lambda g, w, bias, window, options=AUTO: Spec((g.shape[0], w.shape[1] * window.groups, *window.input), g.dtype)
    )
    def conv_input_grad(self, g: Array, w: Array, bias: Array | None, window: Window, options: Options = AUTO) -> Array:
        """gx[n, ci, i] = bias[ci] + sum over co, r of g[n, co, o] w[co, ci, r]: a transposed convolution."""

    @declare(
        lambda g, w, bias, residual, low, high, window, options=AUTO, formula=None, numbers=(): Spec(
            (g.shape[0], w.shape[1] * window.groups, *window.input), g.dtype
        )
    )
    def conv_input_grad_clamp(
        self,
        g: Array,
        w: Array,
        bias: Array | None,
        residual: Array | None,
        low: float,
        high: float,
        window: Window,
        options: Options = AUTO,
        formula: Callable[..., Any] | None = None,
        numbers: tuple[float, ...] = (),
    ) -> Array:
        """min(max(conv_input_grad + residual, low), high), and what follows it, as ``matmul_clamp``."""

    @declare(
        lambda x, g, window, options=AUTO: Spec((g.shape[1], x.shape[1] // window.groups, *window.kernel), x.dtype)
    )
    def conv_weight_grad(self, x: Array, g: Array, window: Window, options: Options = AUTO) -> Array:
        """gw[co, ci, r] = sum over n, o of x[n, ci, i] g[n, co, o]."""

    @declare(
        lambda x, offset, mask, w, bias, window, workspace=None: Spec((x.shape[0], w.shape[0], *window.output), x.dtype)
    )
    def deform_conv(
        self,
        x: Array,
        offset: Array,
        mask: Array | None,
        w: Array,
        bias: Array | None,
        window: Window,
        workspace: int | None = None,
    ) -> Array:
        """A convolution that reads x at offsets between its positions, times a mask."""

    @declare(lambda g, x, offset, mask, w, window, needs_grad, workspace=None: only(needs_grad, x, offset, mask))
    def deform_conv_grad(
        self,
        g: Array,
        x: Array,
        offset: Array,
        mask: Array | None,
        w: Array,
        window: Window,
        needs_grad: NeedsGrad,
        workspace: int | None = None,
    ) -> tuple[Array | None, Array | None, Array | None]:
        """The gradients of ``deform_conv`` to x, the offsets and the mask."""

    @declare(
        lambda x, offset, mask, g, window, workspace=None: Spec(
            (g.shape[1], x.shape[1] // window.groups, *window.kernel), x.dtype
        )
    )
    def deform_conv_weight_grad(
        self, x: Array, offset: Array, mask: Array | None, g: Array, window: Window, workspace: int | None = None
    ) -> Array:
        """The gradient of ``deform_conv`` to w."""

    @declare(lambda offset, window, axis: (*[offset._replace(dtype=INT64)] * 2, offset))
    def deform_points(self, offset: Array, window: Window, axis: int) -> Three:
        """The integer positions below and above each point p of ``deform_conv``, and (p - below) - offset."""

    @declare(lambda x, y: (x._replace(shape=x.shape[:1]),) * 3)
    def row_products(self, x: Array, y: Array) -> Three:
        """The sums of x y, x x and y y over the last axis."""

    @declare(lambda x, y, eps: x._replace(shape=x.shape[:1]))
    def row_squares(self, x: Array, y: Array, eps: float) -> Array:
        """The sum of (x - y + eps)**2 over the last axis."""

    @declare(lambda a, x, b, y, c: x)
    def row_combination(self, a: Array, x: Array, b: Array, y: Array, c: Array) -> Array:
        """a[n] x[n] + b[n] y[n] + c[n]."""

    # ---- attention and recurrent networks

    @declare(
        lambda q, k, v, bias, scale, causal: (
            q._replace(shape=(*q.shape[:3], v.shape[3])),
            q._replace(shape=q.shape[:3]),
        )
    )
    def attention(self, q: Array, k: Array, v: Array, bias: Array | None, scale: float, causal: bool) -> Pair:
        """y = softmax(scale q kT + bias) v; and the logarithm of the sum of exponentials of each query."""

    @declare(lambda g, q, k, v, y, log_sum, bias, scale, causal, needs_grad: only(needs_grad, q, k, v))
    def attention_grad(
        self,
        g: Array,
        q: Array,
        k: Array,
        v: Array,
        y: Array,
        log_sum: Array,
        bias: Array | None,
        scale: float,
        causal: bool,
        needs_grad: NeedsGrad,
    ) -> tuple[Array | None, Array | None, Array | None]:
        """The gradients of ``attention`` to q, k and v."""

    @declare(None, host="what it saves for the gradient differs between kernel sets")
    def recurrent(
        self,
        x: Array,
        h0: Array | None,
        c0: Array | None,
        weights: Sequence[Weights],
        lengths: Array | None,
        spec: Recurrence,
        save: bool,
        cells: bool,
    ) -> tuple[Array, Array, Array | None, Array | None, Any]:
        """One layer of an RNN, LSTM or GRU: y, the last h and c, all cell states, and what the gradient needs."""

    @declare(
        lambda gy, ghn, gcn, gcells, x, h0, c0, weights, lengths, spec, saved, needs_grad, last=False: (
            x if needs_grad[0] else None,
            Spec((spec.directions, x.shape[1], spec.output), x.dtype) if needs_grad[1] else None,
            Spec((spec.directions, x.shape[1], spec.hidden), x.dtype) if needs_grad[2] and spec.cells else None,
            [*weights] if needs_grad[3] else None,
        )
    )
    def recurrent_grad(
        self,
        gy: Array | None,
        ghn: Array | None,
        gcn: Array | None,
        gcells: Array | None,
        x: Array,
        h0: Array | None,
        c0: Array | None,
        weights: Sequence[Weights],
        lengths: Array | None,
        spec: Recurrence,
        saved: Any,
        needs_grad: tuple[bool, bool, bool, bool],
        last: bool = False,
    ) -> tuple[Array | None, Array | None, Array | None, list[Weights] | None]:
        """The gradients of ``recurrent`` to x, h0, c0 and the weights."""

    @declare(lambda lengths, steps: Spec((steps, *lengths.shape, 1), BOOL))
    def steps_after(self, lengths: Array, steps: int) -> Array:
        """True where a step is past the end of its sequence."""

    @declare(lambda lengths, first, last: lengths)
    def lengths_within(self, lengths: Array, first: int, last: int) -> Array:
        """The lengths of the parts of sequences between two steps."""

    # ---- normalization and softmax

    @declare(lambda x, axis: x)
    def softmax(self, x: Array, axis: int) -> Array:
        """exp(x) / sum exp(x) along an axis."""

    @declare(lambda g, y, axis: y)
    def softmax_grad(self, g: Array, y: Array, axis: int) -> Array:
        """y (g - sum g y)."""

    @declare(lambda x, axis: x)
    def log_softmax(self, x: Array, axis: int) -> Array:
        """x - log sum exp(x) along an axis."""

    @declare(lambda g, y, axis: y)
    def log_softmax_grad(self, g: Array, y: Array, axis: int) -> Array:
        """g - exp(y) sum g."""

    @declare(lambda x, weight, bias, eps: (x, *(_channels(x),) * 3))
    def batch_norm(self, x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array, Array]:
        """(x - mean) / sqrt(variance + eps) weight + bias by channel; mean, variance and 1 / deviation."""

    @declare(lambda running, mean, variance, momentum, factor: None, changes="running")
    def running_statistics(self, running: Pair, mean: Array, variance: Array, momentum: float, factor: float) -> None:
        """Move the running mean and variance towards mean and variance times factor, by the share momentum."""

    @declare(lambda g, x, weight, mean, inverse: (x, *(_channels(x),) * 2))
    def batch_norm_grad(self, g: Array, x: Array, weight: Array, mean: Array, inverse: Array) -> Three:
        """The gradients of ``batch_norm`` to x, weight and bias."""

    @declare(
        lambda x, other, weight, bias, eps, low, high: (
            x,
            *(_channels(x),) * 3,
            x._replace(shape=(2, x.shape[1])),
        )
    )
    def batch_norm_clamp(
        self, x: Array, other: Array | None, weight: Array, bias: Array, eps: float, low: float, high: float
    ) -> tuple[Array, Array, Array, Array, Array]:
        """``batch_norm`` of x plus ``other``, clamped; a limit of NaN is none. Coefficients: weight / deviation, bias.

        Returns the result, mean, variance, 1 / deviation and the coefficients (2, C), for the gradient.
        """

    @declare(lambda g, x, weight, mean, inverse, coefficients, low, high: (x, *(_channels(x),) * 2))
    def batch_norm_clamp_grad(
        self,
        g: Array,
        x: Array,
        weight: Array,
        mean: Array,
        inverse: Array,
        coefficients: Array,
        low: float,
        high: float,
    ) -> Three:
        """The gradients of ``batch_norm_clamp`` without ``other`` to x, weight and bias; 0 at the limits."""

    @declare(lambda g, x, mean, inverse: (_channels(x),) * 2)
    def batch_norm_sums(self, g: Array, x: Array, mean: Array, inverse: Array) -> Pair:
        """sum g and sum g (x - mean) inverse of each channel."""

    @declare(lambda g, x, mean, factor, slope, level: x)
    def batch_norm_input_grad(
        self, g: Array, x: Array, mean: Array, factor: Array, slope: Array, level: Array
    ) -> Array:
        """g factor + (x - mean) slope + level by channel."""

    @declare(lambda x, scale, shift, mean=None: x)
    def channel_affine(self, x: Array, scale: Array, shift: Array, mean: Array | None = None) -> Array:
        """(x - mean) scale + shift by channel."""

    @declare(lambda x, other, scale, shift, low, high: x)
    def channel_affine_clamp(
        self, x: Array, other: Array | None, scale: Array, shift: Array, low: float, high: float
    ) -> Array:
        """``channel_affine`` of x plus ``other``, clamped; a limit of NaN is none."""

    @declare(lambda mean, variance, weight, bias, eps: (weight, bias))
    def fixed_scale(self, mean: Array, variance: Array, weight: Array, bias: Array, eps: float) -> Pair:
        """scale = weight / sqrt(variance + eps), and bias - mean scale."""

    @declare(lambda mean, inverse, eps: (_channels(mean),) * 2)
    def instance_statistics(self, mean: Array, inverse: Array, eps: float) -> Pair:
        """The means over samples of mean and variance = 1 / inverse**2 - eps."""

    @declare(lambda x, size, number: x._replace(shape=(x.shape[1], x.shape[1])))
    def channel_band(self, x: Array, size: int, number: float) -> Array:
        """A band matrix: ``number`` where two channels are neighbors, else 0."""

    @declare(lambda x, weight, bias, eps, centered: (x, *(_leading(x, weight),) * 2))
    def layer_norm(self, x: Array, weight: Array, bias: Array, eps: float, centered: bool) -> Three:
        """(x - mean) / sqrt(variance + eps) weight + bias over the last axes; mean and 1 / deviation."""

    @declare(lambda g, x, weight, mean, inverse, centered, affine: (x, weight, weight))
    def layer_norm_grad(
        self, g: Array, x: Array, weight: Array, mean: Array, inverse: Array, centered: bool, affine: bool
    ) -> Three:
        """The gradients of ``layer_norm`` to x, weight and bias."""

    @declare(lambda x, groups, weight, bias, eps: (x, *(_groups_of(x, groups),) * 2))
    def group_norm(self, x: Array, groups: int, weight: Array, bias: Array, eps: float) -> Three:
        """(x - mean) / sqrt(variance + eps) weight + bias by group of channels; mean and 1 / deviation."""

    @declare(lambda g, x, groups, weight, mean, inverse: (x, weight, weight))
    def group_norm_grad(self, g: Array, x: Array, groups: int, weight: Array, mean: Array, inverse: Array) -> Three:
        """The gradients of ``group_norm`` to x, weight and bias."""

    # ---- pooling

    @declare(lambda x, window: (_windows(x, window), _windows(x, window)._replace(dtype=INT64)))
    def max_pool(self, x: Array, window: Window) -> Pair:
        """The largest element of each window, and its flat index."""

    @declare(_windows)
    def max_pool_values(self, x: Array, window: Window) -> Array:
        """The largest element of each window, as of ``max_pool``, without the indices."""

    @declare(lambda g, indices, window: _of_windows(g, window))
    def max_pool_grad(self, g: Array, indices: Array, window: Window | AdaptiveWindow) -> Array:
        """The sum of g over the windows whose maximum was at a position."""

    @declare(lambda x, indices: x._replace(shape=indices.shape))
    def max_pool_gather(self, x: Array, indices: Array) -> Array:
        """x at flat indices."""

    @declare(lambda x, indices, size: x._replace(shape=(*x.shape[:2], *size)))
    def max_unpool(self, x: Array, indices: Array, size: tuple[int, ...]) -> Array:
        """Zeros, with x at flat indices."""

    @declare(_windows)
    def avg_pool(self, x: Array, window: Window, count_include_pad: bool) -> Array:
        """The mean of each window."""

    @declare(_of_windows)
    def avg_pool_grad(self, g: Array, window: Window, count_include_pad: bool) -> Array:
        """g divided among the positions of its window."""

    @declare(lambda window, padding: Spec(window.output, INT64))
    def window_counts(self, window: Window, padding: Padding) -> Array:
        """The number of taps of each window that are inside the input or a padding."""

    @declare(lambda window, padding, dtype: Spec(window.output, dtype))
    def window_factors(self, window: Window, padding: Padding, dtype: np.dtype[Any]) -> Array:
        """The number of taps of the window divided by ``window_counts``."""

    @declare(lambda x, kernel, output, samples: Spec((*x.shape[:2], *output), INT64))
    def fractional_max_pool_indices(self, x: Array, kernel: Axes, output: Axes, samples: Array) -> Array:
        """The flat index of the largest element of windows whose positions are given by random samples."""

    @declare(lambda x, window: (_windows(x, window), _windows(x, window)._replace(dtype=INT64)))
    def adaptive_max_pool(self, x: Array, window: AdaptiveWindow) -> Pair:
        """``max_pool`` over windows that divide the input evenly."""

    @declare(_windows)
    def adaptive_avg_pool(self, x: Array, window: AdaptiveWindow) -> Array:
        """The mean of windows that divide the input evenly."""

    @declare(_of_windows)
    def adaptive_avg_pool_grad(self, g: Array, window: AdaptiveWindow) -> Array:
        """The gradient of ``adaptive_avg_pool``."""

    # ---- resampling and grids

    @declare(lambda extent, target, step, centered: Spec((target,), INT64))
    def nearest_indices(self, extent: int, target: int, step: float, centered: bool) -> Array:
        """The element below, or nearest to, each position of an axis of ``target`` elements."""

    @declare(None, host="weights of 0 are left out")
    def interpolation_matrix(
        self, mode: str, extent: int, target: int, step: float, align_corners: bool, antialias: bool
    ) -> Three:
        """The CSR matrix that resamples an axis from one extent to another: starts, indices, weights."""

    @declare(lambda theta, extents, align_corners: theta._replace(shape=(prod(extents), len(extents) + 1)))
    def affine_points(self, theta: Array, extents: Axes, align_corners: bool) -> Array:
        """The homogeneous coordinates of the points of an image, from -1 to 1."""

    @declare(lambda x, extent, padding, align_corners: (x, x))
    def fold_points(self, x: Array, extent: int, padding: str, align_corners: bool) -> Pair:
        """The sign and the offset that move a coordinate into an image: by clipping, or by reflection."""

    @declare(lambda x, shift, extent, padding, align_corners: x._replace(dtype=INT64))
    def neighbor_indices(self, x: Array, shift: int, extent: int, padding: str, align_corners: bool) -> Array:
        """The integer coordinates x + shift, moved into an image, from -1 to the extent."""

    @declare(lambda places, extents: (places[0], places[0]._replace(dtype=BOOL)))
    def grid_corner(self, places: Sequence[Array], extents: Sequence[int]) -> Pair:
        """The flat index of the element at integer coordinates, and whether it is inside the image."""
