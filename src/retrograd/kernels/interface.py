# mypy: disable-error-code="empty-body"
"""Every kernel by name: its signature, the shapes and types of its results, and what it computes, in one line.

``kernels.softmax(x, axis)`` (see ``retrograd.kernel_set``) calls the kernel of this name in the set that runs. The
textbook set has its mathematics in plain NumPy, the compiled set the fast form; both have the signature below.

A specification is a function of the same arguments, in which a ``Spec`` stands for each array. It computes the ``Spec``
of each result without data. An array that a kernel changes in place is named in ``writes`` or ``changes``.

Models: shape rules of JAX, meta functions of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..codes import Filters, Requantized, Scaled, Thresholded, code_dtype, codes_of, words_of
from ..formulas import FUSED, POINTWISE, form
from ..geometry import AdaptiveWindow, Window
from ..options import AUTO, Options
from ..recurrence import Recurrence, Weights

__all__ = ["KERNELS", "Interface", "Kernel", "Spec", "spec_of"]

Array = np.ndarray
Pair = tuple[Array, Array]
Three = tuple[Array, Array, Array]
Axes = tuple[int, ...]
Wanted = tuple[bool, bool, bool]
Csr = tuple[Array, Array, Array]  # starts, indices, weights
_F = TypeVar("_F", bound=Callable[..., Any])
_INT64, _UINT8 = np.dtype(np.int64), np.dtype(np.uint8)


class Spec(NamedTuple):
    """What is known of an array before it exists."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def spec_of(value: Any) -> Any:
    """The ``Spec`` of an array; of tuples and lists, those of the arrays in them."""
    if isinstance(value, np.ndarray):
        return Spec(value.shape, value.dtype)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(spec_of, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(spec_of, value))
    return value


class Kernel:
    """A kernel of the interface. As an attribute of ``kernels`` it is the function of the set that runs.

    text: declares the signature, and says what the kernel computes. spec: the results from the arguments, both as
    ``Spec``; None if they depend on values. writes: the parameter that it overwrites. changes: one that it reads and
    overwrites; ``*columns`` stands for all that follow. host: why the results depend on values, if they do.
    """

    def __init__(
        self, name: str, text: Callable[..., Any], spec: Callable[..., Any] | None, writes: str = "", changes: str = "",
        host: str = "",
    ) -> None:  # fmt: skip
        self.name, self.text, self.spec, self.host = name, text, spec, host
        self.writes, self.changes = writes, changes
        self.__doc__ = text.__doc__ or f"The gradients of ``{name.removesuffix('_grad')}``, those that are wanted."

    def __get__(self, kernels: Any, owner: Any) -> Any:
        return self if kernels is None else kernels.load(self.name)

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


KERNELS: dict[str, Kernel] = {}


def _kernel(spec: Callable[..., Any] | None, **about: str) -> Callable[[_F], _F]:
    def declare(text: Any) -> Any:
        found = KERNELS[text.__name__] = Kernel(text.__name__, text, spec, **about)
        return found

    return declare


# ---- rules that several kernels share ----------------------------------------------------------------------------


def _over(x: Spec, axes: Axes, keepdims: bool) -> Spec:
    """A reduction over axes."""
    sizes = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdims or axis not in axes]
    return x._replace(shape=(*sizes,))


def _along(x: Spec, axis: int, size: int) -> Spec:
    """x with another extent along an axis."""
    return x._replace(shape=(*x.shape[:axis], size, *x.shape[axis + 1 :]))


def _windows(x: Spec, window: Window | AdaptiveWindow, count_include_pad: bool = False) -> Spec:
    return x._replace(shape=(*x.shape[:2], *window.output))


def _of_windows(g: Spec, window: Window | AdaptiveWindow, count_include_pad: bool = False) -> Spec:
    return g._replace(shape=(*g.shape[:2], *window.input))


def _channels(x: Spec) -> Spec:
    return x._replace(shape=x.shape[1:2])


def _only(wanted: Sequence[bool], *specs: Spec) -> tuple[Spec | None, ...]:
    return tuple([spec if want else None for spec, want in zip(specs, wanted, strict=True)])


def _product(a: Spec, b: Spec, bias: Spec | None = None) -> Spec:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a._replace(shape=(*batch, a.shape[-2], b.shape[-1]))


def _broadcast(x: Spec, y: Spec) -> Spec:
    return Spec(np.broadcast_shapes(x.shape, y.shape), y.dtype)


def _losses(x: Spec, labels: Spec, ignored: int = -1, weight: Spec | None = None) -> tuple[Spec, Spec]:
    return x._replace(shape=labels.shape), x._replace(shape=(3,))


def _leading(x: Spec, weight: Spec) -> Spec:
    """The axes of x that weight has not."""
    return x._replace(shape=x.shape[: len(x.shape) - len(weight.shape)])


def _groups_of(x: Spec, groups: int) -> Spec:
    return x._replace(shape=(x.shape[0], groups))


def _packed(x: Spec, element: str, groups: int, low: int = 0) -> Spec:
    codes = words_of(element, x.shape[1] // groups) if element == "binary" else codes_of(element, x.shape[1] // groups)
    return Spec((x.shape[0], *x.shape[2:], groups * codes), code_dtype(element, low))


def _elementwise(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The results of a formula: broadcast operands, in the type of the last one."""
    one = form(formula)
    count = len(one.operands)

    def spec(*values: Any) -> Any:
        operands = values[:count]
        found = Spec(
            np.broadcast_shapes(*[each.shape for each in operands]),
            np.dtype(np.bool_) if one.truth else operands[-1].dtype,
        )
        return found if one.results == 1 else _only(values[-one.results :], *[found] * one.results)

    return spec


class Interface:
    """The kernels. x is the input, w a weight, g the gradient to the result; gx, gw, ... are gradients."""

    # ---- products and convolutions

    @_kernel(_product)
    def matmul(self, a: Array, b: Array, bias: Array | None = None) -> Array:
        """c[..., m, n] = bias[n] + sum over k of a[..., m, k] b[..., k, n]."""

    @_kernel(lambda x, w, bias, window, options=AUTO: Spec((x.shape[0], w.shape[0], *window.output), x.dtype))
    def conv(self, x: Array, w: Array, bias: Array | None, window: Window, options: Options = AUTO) -> Array:
        """y[n, co, o] = bias[co] + sum over ci, r of x[n, ci, i] w[co, ci, r], i = o stride + r dilation - padding."""

    @_kernel(
        lambda g, w, bias, window, options=AUTO: Spec(
            (g.shape[0], w.shape[1] * window.groups, *window.input), g.dtype
        )
    )
    def conv_input_grad(self, g: Array, w: Array, bias: Array | None, window: Window, options: Options = AUTO) -> Array:
        """gx[n, ci, i] = bias[ci] + sum over co, r of g[n, co, o] w[co, ci, r]: a transposed convolution."""

    @_kernel(
        lambda x, g, window, options=AUTO: Spec(
            (g.shape[1], x.shape[1] // window.groups, *window.kernel), x.dtype
        )
    )
    def conv_weight_grad(self, x: Array, g: Array, window: Window, options: Options = AUTO) -> Array:
        """gw[co, ci, r] = sum over n, o of x[n, ci, i] g[n, co, o]."""

    @_kernel(
        lambda x, offset, mask, w, bias, window, workspace=None: Spec(
            (x.shape[0], w.shape[0], *window.output), x.dtype
        )
    )
    def deform_conv(
        self, x: Array, offset: Array, mask: Array | None, w: Array, bias: Array | None, window: Window,
        workspace: int | None = None,
    ) -> Array:  # fmt: skip
        """A convolution that reads x at offsets between its positions, times a mask."""

    @_kernel(lambda g, x, offset, mask, w, window, wanted, workspace=None: _only(wanted, x, offset, mask))
    def deform_conv_grad(
        self, g: Array, x: Array, offset: Array, mask: Array | None, w: Array, window: Window, wanted: Wanted,
        workspace: int | None = None,
    ) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
        """The gradients of ``deform_conv`` to x, the offsets and the mask."""

    @_kernel(
        lambda x, offset, mask, g, window, workspace=None: Spec(
            (g.shape[1], x.shape[1] // window.groups, *window.kernel), x.dtype
        )
    )
    def deform_conv_weight_grad(
        self, x: Array, offset: Array, mask: Array | None, g: Array, window: Window, workspace: int | None = None
    ) -> Array:
        """The gradient of ``deform_conv`` to w."""

    @_kernel(lambda x, y: (x._replace(shape=x.shape[:1]),) * 3)
    def row_products(self, x: Array, y: Array) -> Three:
        """The sums of x y, x x and y y over the last axis."""

    @_kernel(lambda x, y, eps: x._replace(shape=x.shape[:1]))
    def row_squares(self, x: Array, y: Array, eps: float) -> Array:
        """The sum of (x - y + eps)**2 over the last axis."""

    @_kernel(lambda a, x, b, y, c: x)
    def row_combination(self, a: Array, x: Array, b: Array, y: Array, c: Array) -> Array:
        """a[n] x[n] + b[n] y[n] + c[n]."""

    # ---- attention and recurrent networks

    @_kernel(
        lambda q, k, v, bias, scale, causal: (
            q._replace(shape=(*q.shape[:3], v.shape[3])), q._replace(shape=q.shape[:3])
        )
    )
    def attention(self, q: Array, k: Array, v: Array, bias: Array | None, scale: float, causal: bool) -> Pair:
        """y = softmax(scale q kT + bias) v; and the logarithm of the sum of exponentials of each query."""

    @_kernel(lambda g, q, k, v, y, log_sum, bias, scale, causal, wanted: _only(wanted, q, k, v))
    def attention_grad(
        self, g: Array, q: Array, k: Array, v: Array, y: Array, log_sum: Array, bias: Array | None, scale: float,
        causal: bool, wanted: Wanted,
    ) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
        """The gradients of ``attention`` to q, k and v."""

    @_kernel(None, host="what it saves for the gradient has a form of its own in each kernel set")
    def recurrent(
        self, x: Array, h0: Array | None, c0: Array | None, weights: Sequence[Weights], lengths: Array | None,
        spec: Recurrence, save: bool, cells: bool,
    ) -> tuple[Array, Array, Array | None, Array | None, Any]:  # fmt: skip
        """One layer of an RNN, LSTM or GRU: y, the last h and c, all cell states, and what the gradient needs."""

    @_kernel(
        lambda gy, ghn, gcn, gcells, x, h0, c0, weights, lengths, spec, saved, wanted, last=False: (
            x if wanted[0] else None,
            Spec((spec.directions, x.shape[1], spec.output), x.dtype) if wanted[1] else None,
            Spec((spec.directions, x.shape[1], spec.hidden), x.dtype) if wanted[2] and spec.cells else None,
            [*weights] if wanted[3] else None,
        )
    )
    def recurrent_grad(
        self, gy: Array | None, ghn: Array | None, gcn: Array | None, gcells: Array | None, x: Array,
        h0: Array | None, c0: Array | None, weights: Sequence[Weights], lengths: Array | None, spec: Recurrence,
        saved: Any, wanted: tuple[bool, bool, bool, bool], last: bool = False,
    ) -> tuple[Array | None, Array | None, Array | None, list[Weights] | None]:  # fmt: skip
        """The gradients of ``recurrent`` to x, h0, c0 and the weights."""

    # ---- normalization and softmax

    @_kernel(lambda x, axis: x)
    def softmax(self, x: Array, axis: int) -> Array:
        """exp(x) / sum exp(x) along an axis."""

    @_kernel(lambda g, y, axis: y)
    def softmax_grad(self, g: Array, y: Array, axis: int) -> Array:
        """y (g - sum g y)."""

    @_kernel(lambda x, axis: x)
    def log_softmax(self, x: Array, axis: int) -> Array:
        """x - log sum exp(x) along an axis."""

    @_kernel(lambda g, y, axis: y)
    def log_softmax_grad(self, g: Array, y: Array, axis: int) -> Array:
        """g - exp(y) sum g."""

    @_kernel(lambda x, weight, bias, eps: (x, *(_channels(x),) * 3))
    def batch_norm(self, x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array, Array]:
        """(x - mean) / sqrt(variance + eps) weight + bias by channel; mean, variance and 1 / deviation."""

    @_kernel(lambda g, x, weight, mean, inverse: (x, *(_channels(x),) * 2))
    def batch_norm_grad(self, g: Array, x: Array, weight: Array, mean: Array, inverse: Array) -> Three:
        """The gradients of ``batch_norm`` to x, weight and bias."""

    @_kernel(lambda g, x, mean, inverse: (_channels(x),) * 2)
    def batch_norm_sums(self, g: Array, x: Array, mean: Array, inverse: Array) -> Pair:
        """sum g and sum g (x - mean) inverse of each channel."""

    @_kernel(lambda g, x, mean, factor, slope, level: x)
    def batch_norm_input_grad(
        self, g: Array, x: Array, mean: Array, factor: Array, slope: Array, level: Array
    ) -> Array:
        """g factor + (x - mean) slope + level by channel."""

    @_kernel(lambda x, scale, shift, mean=None: x)
    def channel_affine(self, x: Array, scale: Array, shift: Array, mean: Array | None = None) -> Array:
        """(x - mean) scale + shift by channel."""

    @_kernel(lambda x, weight, bias, eps, centred: (x, *(_leading(x, weight),) * 2))
    def layer_norm(self, x: Array, weight: Array, bias: Array, eps: float, centred: bool) -> Three:
        """(x - mean) / sqrt(variance + eps) weight + bias over the last axes; mean and 1 / deviation."""

    @_kernel(lambda g, x, weight, mean, inverse, centred, affine: (x, weight, weight))
    def layer_norm_grad(
        self, g: Array, x: Array, weight: Array, mean: Array, inverse: Array, centred: bool, affine: bool
    ) -> Three:
        """The gradients of ``layer_norm`` to x, weight and bias."""

    @_kernel(lambda x, groups, weight, bias, eps: (x, *(_groups_of(x, groups),) * 2))
    def group_norm(self, x: Array, groups: int, weight: Array, bias: Array, eps: float) -> Three:
        """(x - mean) / sqrt(variance + eps) weight + bias by group of channels; mean and 1 / deviation."""

    @_kernel(lambda g, x, groups, weight, mean, inverse: (x, weight, weight))
    def group_norm_grad(
        self, g: Array, x: Array, groups: int, weight: Array, mean: Array, inverse: Array
    ) -> Three:
        """The gradients of ``group_norm`` to x, weight and bias."""

    # ---- pooling

    @_kernel(lambda x, window: (_windows(x, window), _windows(x, window)._replace(dtype=_INT64)))
    def max_pool(self, x: Array, window: Window) -> Pair:
        """The largest element of each window, and its flat index."""

    @_kernel(lambda g, indices, window: _of_windows(g, window))
    def max_pool_grad(self, g: Array, indices: Array, window: Window | AdaptiveWindow) -> Array:
        """The sum of g over the windows whose maximum was at a position."""

    @_kernel(lambda x, indices: x._replace(shape=indices.shape))
    def max_pool_gather(self, x: Array, indices: Array) -> Array:
        """x at flat indices."""

    @_kernel(lambda x, indices, size: x._replace(shape=(*x.shape[:2], *size)))
    def max_unpool(self, x: Array, indices: Array, size: tuple[int, ...]) -> Array:
        """Zeros, with x at flat indices."""

    @_kernel(_windows)
    def avg_pool(self, x: Array, window: Window, count_include_pad: bool) -> Array:
        """The mean of each window."""

    @_kernel(_of_windows)
    def avg_pool_grad(self, g: Array, window: Window, count_include_pad: bool) -> Array:
        """g divided among the positions of its window."""

    @_kernel(lambda x, window: (_windows(x, window), _windows(x, window)._replace(dtype=_INT64)))
    def adaptive_max_pool(self, x: Array, window: AdaptiveWindow) -> Pair:
        """``max_pool`` over windows that divide the input evenly."""

    @_kernel(_windows)
    def adaptive_avg_pool(self, x: Array, window: AdaptiveWindow) -> Array:
        """The mean of windows that divide the input evenly."""

    @_kernel(_of_windows)
    def adaptive_avg_pool_grad(self, g: Array, window: AdaptiveWindow) -> Array:
        """The gradient of ``adaptive_avg_pool``."""

    # ---- reductions and scans

    @_kernel(_over)
    def sum(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The sum over axes."""

    @_kernel(_over)
    def mean(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The mean over axes."""

    @_kernel(_over)
    def prod(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The product over axes."""

    @_kernel(_over)
    def amax(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The largest number over axes."""

    @_kernel(_over)
    def amin(self, x: Array, axes: Axes, keepdims: bool) -> Array:
        """The smallest number over axes."""

    @_kernel(lambda x, order, axes, keepdims: _over(x, axes, keepdims))
    def norm(self, x: Array, order: int, axes: Axes, keepdims: bool) -> Array:
        """sum |x| (order 1) or sqrt(sum x**2) (order 2) over axes."""

    @_kernel(lambda x, axis: (_over(x, (axis,), False), _over(x, (axis,), False)._replace(dtype=_INT64)))
    def max(self, x: Array, axis: int) -> Pair:
        """The maximum along an axis, and its index."""

    @_kernel(lambda x, axis: (_over(x, (axis,), False), _over(x, (axis,), False)._replace(dtype=_INT64)))
    def min(self, x: Array, axis: int) -> Pair:
        """The minimum along an axis, and its index."""

    @_kernel(lambda x, axes, factor=1.0: (_over(x, axes, True),) * 2)
    def moments(self, x: Array, axes: Axes, factor: float = 1.0) -> Pair:
        """The mean over axes, and the sum of squares about it times a factor."""

    @_kernel(lambda g, x, mean: x)
    def moments_grad(self, g: Array, x: Array, mean: Array) -> Array:
        """g (x - mean)."""

    @_kernel(lambda x, axes: _over(x, axes, True))
    def logsumexp(self, x: Array, axes: Axes) -> Array:
        """log sum exp(x) over axes."""

    @_kernel(lambda g, x, y: x)
    def logsumexp_grad(self, g: Array, x: Array, y: Array) -> Array:
        """g exp(x - y)."""

    @_kernel(lambda g, x: x)
    def signed(self, g: Array, x: Array) -> Array:
        """g times the sign of x."""

    @_kernel(lambda x, shape: x._replace(shape=shape))
    def spread(self, x: Array, shape: tuple[int, ...]) -> Array:
        """x repeated along the axes of extent 1."""

    @_kernel(lambda g, x, y: x)
    def ties(self, g: Array, x: Array, y: Array) -> Array:
        """g where x equals y, else 0."""

    @_kernel(lambda x, axis, reverse: x)
    def cumsum(self, x: Array, axis: int, reverse: bool) -> Array:
        """Running sums along an axis."""

    @_kernel(lambda x, axis: x)
    def cumprod(self, x: Array, axis: int) -> Array:
        """Running products along an axis."""

    @_kernel(lambda x, factor, axis, reverse: x)
    def linear_scan(self, x: Array, factor: Array, axis: int, reverse: bool) -> Array:
        """y[i] = x[i] + factor[i] y[i - 1] along an axis."""

    # ---- indices

    @_kernel(lambda x, indices, axis: x._replace(shape=indices.shape))
    def pick(self, x: Array, indices: Array, axis: int) -> Array:
        """x at indices along an axis, element by element."""

    @_kernel(lambda g, indices, axis, extent, order: _along(g, axis, extent))
    def place(self, g: Array, indices: Array, axis: int, extent: int, order: Axes) -> Array:
        """Zeros, with g at indices along an axis; order is that of the axes in memory."""

    @_kernel(lambda x, k, axis, largest: _along(x, axis, k)._replace(dtype=_INT64))
    def topk(self, x: Array, k: int, axis: int, largest: bool) -> Array:
        """The indices of the k largest or smallest elements along an axis, in order."""

    @_kernel(lambda x, k, axis: _along(x, axis, 1)._replace(dtype=_INT64))
    def kth(self, x: Array, k: int, axis: int) -> Array:
        """The index of the k-th smallest element along an axis."""

    @_kernel(lambda x, indices, axis, filling=0.0: _along(x, axis, indices.shape[0]))
    def lines(self, x: Array, indices: Array, axis: int, filling: float = 0.0) -> Array:
        """The lines of x at indices along an axis; a filling for the index -1."""

    @_kernel(lambda x, axis, starts, indices, weights: _along(x, axis, starts.shape[0] - 1))
    def csr_product(self, x: Array, axis: int, starts: Array, indices: Array, weights: Array) -> Array:
        """The product of a sparse matrix and x along an axis."""

    @_kernel(
        lambda x, axis, matrix, next_matrix: _along(
            _along(x, axis, matrix[0].shape[0] - 1), axis + 1, next_matrix[0].shape[0] - 1
        )
    )
    def csr_product_pair(self, x: Array, axis: int, matrix: Csr, next_matrix: Csr) -> Array:
        """The products of two sparse matrices and x, along an axis and the next one."""

    @_kernel(
        lambda indices, columns, starts, weights: (
            Spec((columns + 1,), _INT64), indices._replace(dtype=_INT64), weights
        )
    )
    def csr_transpose(
        self, indices: Array, columns: int, starts: Array | None, weights: Array | None
    ) -> tuple[Array, Array, Array | None]:
        """The transpose of a sparse matrix."""

    # ---- losses and dropout

    @_kernel(
        lambda x, labels, smoothing, ignored=-1, weight=None: (
            *[x._replace(shape=labels.shape)] * 3, x._replace(shape=(3,))
        )
    )
    def cross_entropy(
        self, x: Array, labels: Array, smoothing: float, ignored: int = -1, weight: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """The loss of each position, the largest logit and the logarithm that the gradient needs, and sums over all."""

    @_kernel(lambda g, x, labels, smoothing, tops, logs, ignored=-1, weight=None, factor=1.0: x)
    def cross_entropy_grad(
        self, g: Array, x: Array, labels: Array, smoothing: float, tops: Array, logs: Array, ignored: int = -1,
        weight: Array | None = None, factor: float = 1.0,
    ) -> Array:  # fmt: skip
        """factor g w[label] (softmax(x) - smoothed label)."""

    @_kernel(_losses)
    def nll_loss(self, x: Array, labels: Array, ignored: int = -1, weight: Array | None = None) -> Pair:
        """-w[label] x[label] of each position, and sums over all."""

    @_kernel(lambda g, x, labels, ignored=-1, weight=None, factor=1.0: x)
    def nll_loss_grad(
        self, g: Array, x: Array, labels: Array, ignored: int = -1, weight: Array | None = None, factor: float = 1.0
    ) -> Array:
        """-factor g w[label] at the label, else 0."""

    @_kernel(
        lambda name, operands, numbers, factor: operands[0] if factor is None else operands[0]._replace(shape=())
    )
    def element_loss(
        self, name: str, operands: tuple[Array, ...], numbers: tuple[float, ...], factor: float | None
    ) -> Array:
        """The loss ``name`` of each element, or its sum times a factor."""

    @_kernel(lambda name, of, g, operands, numbers, factor: operands[0])
    def element_loss_grad(
        self, name: str, of: int, g: Array, operands: tuple[Array, ...], numbers: tuple[float, ...],
        factor: float | None,
    ) -> Array:  # fmt: skip
        """The gradient of ``element_loss`` to its operand ``of``."""

    @_kernel(lambda x, labels, p, margin: x._replace(shape=x.shape[:1]))
    def multi_margin_loss(self, x: Array, labels: Array, p: int, margin: float) -> Array:
        """sum over other classes of max(0, margin - x[label] + x[c])**p / C."""

    @_kernel(lambda x, labels, margin: x)
    def multi_margin_loss_slopes(self, x: Array, labels: Array, margin: float) -> Array:
        """The gradient of the sum of ``multi_margin_loss`` for p = 1."""

    @_kernel(lambda x, targets: x._replace(shape=x.shape[:1]))
    def multilabel_margin_loss(self, x: Array, targets: Array) -> Array:
        """sum over targets j and other classes i of max(0, 1 - x[j] + x[i]) / C."""

    @_kernel(lambda x, targets: x)
    def multilabel_margin_loss_slopes(self, x: Array, targets: Array) -> Array:
        """The gradient of the sum of ``multilabel_margin_loss``."""

    @_kernel(None, host="the longest target decides how much it saves")
    def ctc_loss(
        self, log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int
    ) -> Pair:
        """The negative logarithm of the probability of each target, and what the gradient needs."""

    @_kernel(
        lambda g, log_probs, targets, input_lengths, target_lengths, blank, loss, alpha, zero_infinity: log_probs
    )
    def ctc_loss_grad(
        self, g: Array, log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int,
        loss: Array, alpha: Array, zero_infinity: bool,
    ) -> Array:  # fmt: skip
        """The gradient of ``ctc_loss``."""

    @_kernel(lambda x, axis: _along(x, axis, x.shape[axis] // 2))
    def glu(self, x: Array, axis: int) -> Array:
        """a sigmoid(b) of the halves a and b of x along an axis."""

    @_kernel(lambda g, x, axis: x)
    def glu_grad(self, g: Array, x: Array, axis: int) -> Array:
        """The gradient of ``glu``."""

    @_kernel(None, host="how many elements it keeps as bits depends on the kernel set")
    def dropout(self, x: Array, p: float, key: int, stream: int) -> Pair:
        """x / (1 - p) where a generator of this key keeps it, else 0; and what was kept."""

    @_kernel(lambda g, kept, p: g)
    def dropout_grad(self, g: Array, kept: Array, p: float) -> Array:
        """g / (1 - p) where ``dropout`` kept an element, else 0."""

    # ---- special functions of single elements

    @_kernel(lambda x: x)
    def log_gamma(self, x: Array) -> Array:
        """log |gamma(x)|."""

    @_kernel(lambda x, n: x)
    def polygamma(self, x: Array, n: int) -> Array:
        """The derivative of order n + 1 of the logarithm of the gamma function."""

    @_kernel(lambda a, x, upper: _broadcast(a, x))
    def igamma(self, a: Array, x: Array, upper: bool) -> Array:
        """The regularized lower, or upper, incomplete gamma function."""

    @_kernel(lambda a, x: _broadcast(a, x))
    def gamma_density(self, a: Array, x: Array) -> Array:
        """x**(a - 1) exp(-x) / gamma(a)."""

    @_kernel(lambda s, q: _broadcast(s, q))
    def zeta(self, s: Array, q: Array) -> Array:
        """The sum of (q + k)**-s over k from 0 on."""

    @_kernel(lambda x: x)
    def i0(self, x: Array) -> Array:
        """The modified Bessel function of order 0."""

    @_kernel(lambda x: x)
    def i0e(self, x: Array) -> Array:
        """exp(-|x|) i0(x)."""

    @_kernel(lambda x: x)
    def i1(self, x: Array) -> Array:
        """The modified Bessel function of order 1."""

    @_kernel(lambda x: x)
    def i1e(self, x: Array) -> Array:
        """exp(-|x|) i1(x)."""

    @_kernel(lambda x: x)
    def bessel_gap(self, x: Array) -> Array:
        """i0e(x) - i1e(|x|)."""

    @_kernel(lambda x: x)
    def erfinv(self, x: Array) -> Array:
        """The inverse of the error function."""

    @_kernel(lambda x: x)
    def ndtri(self, x: Array) -> Array:
        """The x-quantile of the standard normal distribution."""

    @_kernel(lambda x: x)
    def log_ndtr(self, x: Array) -> Array:
        """The logarithm of the standard normal distribution function."""

    @_kernel(lambda x: x)
    def hazard(self, x: Array) -> Array:
        """The derivative of ``log_ndtr``."""

    @_kernel(lambda x: x)
    def hazard_excess(self, x: Array) -> Array:
        """x + hazard(x)."""

    @_kernel(lambda x: x)
    def entr(self, x: Array) -> Array:
        """-x log(x)."""

    # ---- memory, optimizers, low bits

    @_kernel(lambda y, x: None, writes="y")
    def copy(self, y: Array, x: Array) -> None:
        """y[...] = x."""

    @_kernel(lambda y, x: None, changes="y")
    def accumulate(self, y: Array, x: Array) -> None:
        """y[...] += x."""

    @_kernel(lambda x: x)
    def duplicate(self, x: Array) -> Array:
        """A copy of x, with its order of axes in memory."""

    @_kernel(lambda x, shape: x._replace(shape=shape))
    def reshaped(self, x: Array, shape: tuple[int, ...]) -> Array:
        """A copy of x in another shape, the elements in C order."""

    @_kernel(lambda x, dtype: x._replace(dtype=dtype))
    def cast(self, x: Array, dtype: np.dtype[Any]) -> Array:
        """x in another type."""

    @_kernel(lambda arrays, axis: _along(arrays[0], axis, sum([each.shape[axis] for each in arrays])))
    def concatenate(self, arrays: Sequence[Array], axis: int) -> Array:
        """Arrays one after the other along an axis."""

    @_kernel(lambda g, shape, index: g._replace(shape=shape))
    def pad_slice(self, g: Array, shape: tuple[int, ...], index: Any) -> Array:
        """Zeros, with g at ``[index]``: ints, slices, None and Ellipsis."""

    @_kernel(lambda formula, *columns, keep=None, **numbers: None, changes="*columns")
    def update(
        self, formula: Callable[..., Any], *columns: Sequence[Array], keep: dict[str, Any] | None = None,
        **numbers: float,
    ) -> None:  # fmt: skip
        """An optimizer's formula over lists of parameters, gradients and states, which it overwrites."""

    @_kernel(None, host="it is a number")
    def norm_of_all(self, arrays: Sequence[Array], *, largest: bool) -> float:
        """The Euclidean norm, or the largest absolute value, of all elements of all arrays."""

    @_kernel(None, host="it makes a kernel of a formula")
    def formula_kernel(self, formula: Callable[..., Any]) -> Callable[..., Any]:
        """The kernel of a formula that a user wrote."""

    @_kernel(lambda x, groups=1: _packed(x, "binary", groups))
    def sign_bits(self, x: Array, groups: int = 1) -> Array:
        """The signs of x as bits in words of 32."""

    @_kernel(
        lambda x, scale, zero_point=0, low=0, high=255, element="int8", groups=1: _packed(x, element, groups, low)
    )
    def quantize_codes(
        self, x: Array, scale: float, zero_point: int = 0, low: int = 0, high: int = 255, element: str = "int8",
        groups: int = 1,
    ) -> Array:  # fmt: skip
        """clip(round(x / scale) + zero_point, low, high) in words of 32 bits."""

    @_kernel(None, host="filters have a form of their own in each kernel set")
    def lowbit_filters(
        self, element: str, w: Array, groups: int, transposed: bool = False, most: int | None = None
    ) -> Filters:
        """The weights of a layer as ``lowbit_conv`` reads them."""

    @_kernel(None, host="what becomes of the sums decides their type")
    def lowbit_conv(
        self, x: Array, filters: Filters, window: Window, then: Scaled | Thresholded | Requantized | None = None,
        zero_point: int = 0,
    ) -> Array:  # fmt: skip
        """The convolution of codes with filters."""


KERNELS.update(
    {name: Kernel(name, formula, _elementwise(formula)) for name, formula in (POINTWISE | FUSED).items()}
)
