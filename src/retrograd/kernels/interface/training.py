"""Losses, dropout, sampling, distributions, optimizers, initialization, and low-bit arithmetic."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...specs.array_spec import Array, Spec
from ...specs.geometry import Window
from ...specs.low_bit import Filters, Requantized, Scaled, Thresholded, code_dtype, codes_of, words_of
from .kernel import BOOL, INT64, UINT8, Pair, Three, along, declare

Bound = Array | float | None
UINT16, UINT32, FLOAT64 = np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.float64)


def _losses(x: Spec, labels: Spec, ignored: int = -1, weight: Spec | None = None) -> tuple[Spec, Spec]:
    return x._replace(shape=labels.shape), x._replace(shape=(3,))


def _packed(x: Spec, element: str, groups: int, low: int = 0) -> Spec:
    codes = words_of(element, x.shape[1] // groups) if element == "binary" else codes_of(element, x.shape[1] // groups)
    return Spec((x.shape[0], *x.shape[2:], groups * codes), code_dtype(element, low))


def _together(*values: Any) -> tuple[int, ...]:
    """The shape to which the arrays among values broadcast."""
    return np.broadcast_shapes(*[each.shape for each in values if isinstance(each, Spec)])


def _of_shifts(x: Spec, shifts: int) -> Spec:
    return x if shifts == 1 else x._replace(shape=(shifts, *x.shape))


class Training:
    """Losses, dropout, sampling, distributions, optimizers, initialization, and low-bit arithmetic."""

    # ---- losses and dropout

    @declare(
        lambda x, labels, smoothing, ignored=-1, weight=None: (
            *[x._replace(shape=labels.shape)] * 3,
            x._replace(shape=(3,)),
        )
    )
    def cross_entropy(
        self, x: Array, labels: Array, smoothing: float, ignored: int = -1, weight: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """The loss of each position, the largest logit and the logarithm that the gradient needs, and sums over all."""

    @declare(lambda g, x, labels, smoothing, tops, logs, ignored=-1, weight=None, factor=1.0: x)
    def cross_entropy_grad(
        self,
        g: Array,
        x: Array,
        labels: Array,
        smoothing: float,
        tops: Array,
        logs: Array,
        ignored: int = -1,
        weight: Array | None = None,
        factor: float = 1.0,
    ) -> Array:
        """factor g w[label] (softmax(x) - smoothed label)."""

    @declare(_losses)
    def nll_loss(self, x: Array, labels: Array, ignored: int = -1, weight: Array | None = None) -> Pair:
        """-w[label] x[label] of each position, and sums over all."""

    @declare(lambda g, x, labels, ignored=-1, weight=None, factor=1.0: x)
    def nll_loss_grad(
        self, g: Array, x: Array, labels: Array, ignored: int = -1, weight: Array | None = None, factor: float = 1.0
    ) -> Array:
        """-factor g w[label] at the label, else 0."""

    @declare(lambda name, operands, numbers, factor: operands[0] if factor is None else operands[0]._replace(shape=()))
    def element_loss(
        self, name: str, operands: tuple[Array, ...], numbers: tuple[float, ...], factor: float | None
    ) -> Array:
        """The loss ``name`` of each element, or its sum times a factor."""

    @declare(lambda name, of, g, operands, numbers, factor: operands[0])
    def element_loss_grad(
        self,
        name: str,
        of: int,
        g: Array,
        operands: tuple[Array, ...],
        numbers: tuple[float, ...],
        factor: float | None,
    ) -> Array:
        """The gradient of ``element_loss`` to its operand ``of``."""

    @declare(lambda x, labels, p, margin: x._replace(shape=x.shape[:1]))
    def multi_margin_loss(self, x: Array, labels: Array, p: int, margin: float) -> Array:
        """sum over other classes of max(0, margin - x[label] + x[c])**p / C."""

    @declare(lambda x, labels, margin: x)
    def multi_margin_loss_slopes(self, x: Array, labels: Array, margin: float) -> Array:
        """The gradient of the sum of ``multi_margin_loss`` for p = 1."""

    @declare(lambda x, targets: x._replace(shape=x.shape[:1]))
    def multilabel_margin_loss(self, x: Array, targets: Array) -> Array:
        """sum over targets j and other classes i of max(0, 1 - x[j] + x[i]) / C."""

    @declare(lambda x, targets: x)
    def multilabel_margin_loss_slopes(self, x: Array, targets: Array) -> Array:
        """The gradient of the sum of ``multilabel_margin_loss``."""

    @declare(None, host="the longest target decides how much it saves")
    def ctc_loss(
        self, log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int
    ) -> Pair:
        """The negative logarithm of the probability of each target, and what the gradient needs."""

    @declare(lambda g, log_probs, targets, input_lengths, target_lengths, blank, loss, alpha, zero_infinity: log_probs)
    def ctc_loss_grad(
        self,
        g: Array,
        log_probs: Array,
        targets: Array,
        input_lengths: Array,
        target_lengths: Array,
        blank: int,
        loss: Array,
        alpha: Array,
        zero_infinity: bool,
    ) -> Array:
        """The gradient of ``ctc_loss``."""

    @declare(lambda x, axis: along(x, axis, x.shape[axis] // 2))
    def glu(self, x: Array, axis: int) -> Array:
        """a sigmoid(b) of the halves a and b of x along an axis."""

    @declare(lambda g, x, axis: x)
    def glu_grad(self, g: Array, x: Array, axis: int) -> Array:
        """The gradient of ``glu``."""

    @declare(None, host="how many elements it keeps as bits depends on the kernel set")
    def dropout(self, x: Array, p: float, key: int, stream: int) -> Pair:
        """x / (1 - p) where the random generator with this key keeps it, else 0; and the mask of what is kept."""

    @declare(lambda g, kept, p: g)
    def dropout_grad(self, g: Array, kept: Array, p: float) -> Array:
        """g / (1 - p) where ``dropout`` kept an element, else 0."""

    # ---- parts of losses: labels, lengths, conditions

    @declare(lambda labels, classes, ignored: labels._replace(dtype=BOOL))
    def labels_count(self, labels: Array, classes: int, ignored: int) -> Array:
        """True where a label is a class and not ``ignored``."""

    @declare(lambda labels, classes, ignored: labels._replace(dtype=BOOL))
    def labels_outside(self, labels: Array, classes: int, ignored: int | None) -> Array:
        """True where a label is neither a class nor ``ignored``."""

    @declare(lambda labels, weight, ignored, classes, factor, dtype: labels._replace(dtype=dtype))
    def label_weights(
        self, labels: Array, weight: Array | None, ignored: int, classes: int, factor: float, dtype: np.dtype[Any]
    ) -> Array:
        """factor weight[label], 0 where a label does not count."""

    @declare(lambda labels, classes, smoothing, dtype: Spec((*labels.shape[:1], classes, *labels.shape[1:]), dtype))
    def label_goals(self, labels: Array, classes: int, smoothing: float, dtype: np.dtype[Any]) -> Array:
        """(1 - e) [class == label] + e / C, with the smoothing e."""

    @declare(lambda rows, lengths, classes: rows._replace(dtype=BOOL))
    def row_labels_outside(self, rows: Array, lengths: Array, classes: int) -> Array:
        """True where a label, within the length of its row, is not a class."""

    @declare(lambda values, lengths, longest: values._replace(shape=(*lengths.shape, longest)))
    def pad_rows(self, values: Array, lengths: Array, longest: int) -> Array:
        """Concatenated rows as a matrix, padded with zeros."""

    @declare(lambda lengths, dtype: lengths._replace(dtype=dtype))
    def inverse_lengths(self, lengths: Array, dtype: np.dtype[Any]) -> Array:
        """1 / max(length, 1)."""

    @declare(lambda loss: loss)
    def zero_infinite(self, loss: Array) -> Array:
        """The losses, with 0 instead of inf."""

    @declare(lambda slopes, labels: (slopes._replace(dtype=BOOL),) * 2)
    def multi_margin_masks(self, slopes: Array, labels: Array) -> Pair:
        """Masks of the label's entries, and of the others with a slope above 0."""

    @declare(
        lambda cosine, targets, margin, dtype: (Spec(np.broadcast_shapes(cosine.shape, targets.shape), dtype),) * 2
    )
    def cosine_embedding_slopes(self, cosine: Array, targets: Array, margin: float, dtype: np.dtype[Any]) -> Pair:
        """The slope and the intercept of the loss, which is piecewise linear in the cosine."""

    @declare(lambda mask, yes, no, dtype: mask._replace(dtype=dtype))
    def choose(self, mask: Array, yes: float, no: float, dtype: np.dtype[Any]) -> Array:
        """``yes`` where the mask is not 0, else ``no``."""

    @declare(lambda x, low: (x, x))
    def clamp_parts(self, x: Array, low: float) -> Pair:
        """kept and added with x kept + added = max(x, low)."""

    @declare(lambda x, low: x)
    def shortfall(self, x: Array, low: float) -> Array:
        """low - x where x is below low, else 0."""

    # ---- sampling

    @declare(lambda noise, mean, std, dtype: Spec(np.broadcast_shapes(noise.shape, mean.shape, std.shape), dtype))
    def scaled_noise(self, noise: Array, mean: Array, std: Array, dtype: np.dtype[Any]) -> Array:
        """noise std + mean."""

    @declare(lambda uniform, probability, dtype: Spec(np.broadcast_shapes(uniform.shape, probability.shape), dtype))
    def bernoulli(self, uniform: Array, probability: Array, dtype: np.dtype[Any]) -> Array:
        """1 where uniform numbers are below a probability, else 0."""

    @declare(lambda x: Spec(x.shape[:1], INT64))
    def count_positive(self, x: Array) -> Array:
        """The number of elements above 0 in each row."""

    @declare(lambda weights, drawn: drawn._replace(dtype=INT64))
    def multinomial_repeated(self, weights: Array, drawn: Array) -> Array:
        """The index at which running sums of weights exceed uniform numbers."""

    @declare(lambda weights, times, count: Spec((weights.shape[0], count), INT64))
    def multinomial_distinct(self, weights: Array, times: Array, count: int) -> Array:
        """The first indices in the order of exponential times divided by weights."""

    @declare(lambda seed, shape, fan, dtype: Spec(shape, np.dtype(dtype)))
    def seeded_normal(self, seed: int, shape: tuple[int, ...], fan: int, dtype: np.dtype[Any]) -> Array:
        """Normal numbers of the variance 1 / fan, the same for a seed and a shape."""

    # ---- distributions

    @declare(lambda a, x: (a, a))
    def gamma_slope_arguments(self, a: Array, x: Array) -> Pair:
        """The numbers whose digamma functions ``gamma_slope`` needs."""

    @declare(lambda a, x, of_series, of_integral: x)
    def gamma_slope(self, a: Array, x: Array, of_series: Array, of_integral: Array) -> Array:
        """The gradient of a gamma variable x to its concentration a."""

    @declare(lambda mask, count: Spec(mask.shape[: len(mask.shape) - count], BOOL))
    def all_of_event(self, mask: Array, count: int) -> Array:
        """Logical AND of a mask over its last ``count`` axes."""

    @declare(lambda x, low, high, with_low, with_high, whole: Spec(_together(x, low, high), BOOL))
    def within_bounds(self, x: Array, low: Bound, high: Bound, with_low: bool, with_high: bool, whole: bool) -> Array:
        """True where x is between two bounds and, with ``whole``, an integer."""

    @declare(lambda x: x._replace(dtype=BOOL))
    def is_real(self, x: Array) -> Array:
        """True where x is not NaN."""

    @declare(lambda x: x._replace(dtype=BOOL))
    def is_boolean(self, x: Array) -> Array:
        """True where x is 0 or 1."""

    @declare(lambda x: Spec(x.shape[:-1], BOOL))
    def is_one_hot(self, x: Array) -> Array:
        """True where a vector is one-hot: a single 1, all other elements 0."""

    @declare(lambda x: Spec(x.shape[:-1], BOOL))
    def is_simplex(self, x: Array) -> Array:
        """True where a vector has no negative elements and its sum is 1, up to rounding."""

    @declare(lambda x, most: Spec(x.shape[:-1], BOOL))
    def is_multinomial(self, x: Array, most: int) -> Array:
        """True where a vector has no negative elements and its sum is at most ``most``."""

    @declare(lambda x: Spec(x.shape[:-2], BOOL))
    def is_lower_cholesky(self, x: Array) -> Array:
        """True where a matrix is lower triangular with a positive diagonal."""

    @declare(lambda x: Spec(x.shape[:-2], BOOL))
    def is_symmetric(self, x: Array) -> Array:
        """True where a square matrix equals its transpose, up to rounding."""

    # ---- optimizers
    @declare(lambda formula, *columns, keep=None, **numbers: None, changes="*columns")
    def update(
        self,
        formula: Callable[..., Any],
        *columns: Sequence[Array],
        keep: dict[str, Any] | None = None,
        **numbers: float,
    ) -> None:
        """An optimizer's formula over lists of parameters, gradients and states, which it overwrites."""

    @declare(lambda columns, step, lr, beta2_decay, least, floor, d, weight_decay, maximize: None, changes="columns")
    def adafactor_update(
        self,
        columns: Sequence[Array],
        step: int,
        lr: float,
        beta2_decay: float,
        least: float,
        floor: float,
        d: float,
        weight_decay: float,
        maximize: bool,
    ) -> None:
        """Adafactor's update of a parameter and its mean squares."""

    @declare(lambda g, previous, direction, step: (g, g))
    def curvature_pair(self, g: Array, previous: Array, direction: Array, step: float) -> Pair:
        """The curvature pair of L-BFGS: g - previous, and step * direction."""

    @declare(lambda y, x, factor: None, changes="y")
    def add_scaled(self, y: Array, x: Array, factor: float) -> None:
        """y += factor x."""

    @declare(lambda y, factor: None, changes="y")
    def scale_in_place(self, y: Array, factor: float) -> None:
        """y *= factor."""

    @declare(lambda y, x, weight: None, changes="y")
    def weighted_average(self, y: Array, x: Array, weight: float) -> None:
        """y = (1 - weight) y + weight x, truncated for integers."""

    @declare(lambda y, low, high: None, changes="y")
    def clip_in_place(self, y: Array, low: float, high: float) -> None:
        """y = min(max(y, low), high)."""

    @declare(lambda arrays, norm, most: None, changes="arrays")
    def limit_norm(self, arrays: Sequence[Array], norm: Array, most: float) -> None:
        """Multiply the arrays by min(1, most / (norm + 1e-6)); a NaN propagates."""

    @declare(lambda arrays, *, largest: Spec((), np.dtype(np.float64)))
    def norm_of_all(self, arrays: Sequence[Array], *, largest: bool) -> Array:
        """The Euclidean norm, or the largest absolute value, of all elements of all arrays."""

    @declare(None, host="it is a number")
    def power_norm_of_all(self, arrays: Sequence[Array], order: float) -> float:
        """The p-norm, p = ``order``, of all elements of all arrays."""

    @declare(None, host="it is a number")
    def combined_norm(self, norms: Array, order: float) -> float:
        """The p-norm of a vector, computed from the p-norms of its parts."""

    # ---- gradients of each sample

    @declare(lambda g, indices, shape, padding: g._replace(shape=(indices.shape[0], *shape)))
    def embedding_sample_grad(self, g: Array, indices: Array, shape: tuple[int, ...], padding: int | None) -> Array:
        """The gradient to an embedding's weight of each sample."""

    @declare(None, host="the result is a Python bool")
    def agrees(self, x: Array, expected: Array, tolerance: float) -> bool:
        """Whether x equals ``expected`` up to rounding."""

    # ---- initialization of weights

    @declare(lambda draw, shape, dtype, mean, std, low, high: Spec(shape, np.dtype(dtype)))
    def truncated_normal(
        self,
        draw: np.random.Generator,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        mean: float,
        std: float,
        low: float,
        high: float,
    ) -> Array:
        """Draws from a normal distribution between two numbers."""

    @declare(lambda y, groups: None, writes="y")
    def fill_dirac(self, y: Array, groups: int) -> None:
        """Fill the weight of a convolution so that it copies its input (Dirac initialization)."""

    @declare(lambda y, rows: None, changes="y")
    def clear_entries(self, y: Array, rows: Array) -> None:
        """y[rows[c, k], c] = 0."""

    @declare(lambda x, gain: x._replace(shape=(*x.shape[:-1], min(x.shape[-2:]))))
    def orthogonal_factor(self, x: Array, gain: float) -> Array:
        """gain times the Q of a QR factorization whose R has a positive diagonal."""

    @declare(lambda a, tau: a)
    def with_signs(self, a: Array, tau: Array) -> Array:
        """Householder vectors with the signs of R's diagonal stored on their diagonal."""

    @declare(lambda original, weight, matrix, u: matrix._replace(shape=matrix.shape[1:]))
    def spectral_start(self, original: Array, weight: Array, matrix: Array, u: Array) -> Array:
        """The right vector v of a spectral norm, given the left vector u."""

    # ---- sequences

    @declare(lambda count, dtype: Spec((count, count), np.dtype(dtype)))
    def causal_mask(self, count: int, dtype: np.dtype[Any]) -> Array:
        """-inf, or True, for the keys after a query, else 0."""

    @declare(None, host="the first count is the length of the result")
    def counts_above(self, counts: Array) -> Array:
        """The number of counts above each of 0, 1, ..., counts[0] - 1; the counts never increase."""

    @declare(None, host="the sizes decide how many rows there are")
    def packed_rows(self, sizes: Array) -> Three:
        """The step and the sequence of each row of a packed batch, and the length of each sequence."""

    @declare(lambda step, place, order, steps, count, batch_first: place)
    def packed_places(
        self, step: Array, place: Array, order: Array | None, steps: int, count: int, batch_first: bool
    ) -> Array:
        """The flat position of each row of a packed batch in a padded one."""

    @declare(lambda lengths, steps, on_left, batch_first: Spec((sum(lengths),), INT64))
    def sequence_places(self, lengths: Sequence[int], steps: int, on_left: bool, batch_first: bool) -> Array:
        """The flat position of each step of sequences in a padded batch."""

    # ---- low bits
    @declare(lambda x, groups=1: _packed(x, "binary", groups))
    def sign_bits(self, x: Array, groups: int = 1) -> Array:
        """The signs of x as bits, packed into 32-bit words."""

    @declare(lambda x, scale, zero_point=0, low=0, high=255, element="int8", groups=1: _packed(x, element, groups, low))
    def quantize_codes(
        self,
        x: Array,
        scale: float,
        zero_point: int = 0,
        low: int = 0,
        high: int = 255,
        element: str = "int8",
        groups: int = 1,
    ) -> Array:
        """clip(round(x / scale) + zero_point, low, high) in words of 32 bits."""

    @declare(None, host="the layout of filters differs between kernel sets")
    def lowbit_filters(
        self, element: str, w: Array, groups: int, transposed: bool = False, most: int | None = None
    ) -> Filters:
        """The weights of a layer as ``lowbit_conv`` reads them."""

    @declare(None, host="the conversion of the sums decides their dtype")
    def lowbit_conv(
        self,
        x: Array,
        filters: Filters,
        window: Window,
        then: Scaled | Thresholded | Requantized | None = None,
        zero_point: int = 0,
    ) -> Array:
        """The convolution of codes with filters."""

    @declare(lambda channels, element: Spec((codes_of(element, channels.shape[0]),), code_dtype(element)))
    def channel_words(self, channels: Array, element: str) -> Array:
        """Codes with all bits set in some channels."""

    @declare(lambda x, words, window: x._replace(shape=(x.shape[0], *window.output, x.shape[-1])))
    def max_pool_codes(self, x: Array, words: Array, window: Window) -> Array:
        """The largest code of each window, or the least one in the channels of ``words``."""

    # ---- quantizers

    @declare(lambda x: x)
    def round_to_bfloat16(self, x: Array) -> Array:
        """x rounded to 8 significant bits."""

    @declare(lambda x, bits: x)
    def round_to_grid(self, x: Array, bits: int) -> Array:
        """x rounded to multiples of max |x| / (2**(bits - 1) - 1)."""

    @declare(lambda x: Spec((), FLOAT64))
    def mean_absolute(self, x: Array) -> Array:
        """The mean of |x| over all elements, in float64."""

    @declare(lambda x, shifts, low, high: (_of_shifts(x, shifts),) * 2)
    def shift_parameters(self, x: Array, shifts: int, low: int, high: int) -> Pair:
        """Exponents and signs of the powers of two whose sum is near to x."""

    # ---- codes of a few bits

    @declare(lambda codes, bits: Spec((-(-prod(codes.shape) * bits // 8),), UINT8))
    def pack_bits(self, codes: Array, bits: int) -> Array:
        """Codes packed into a stream of bytes."""

    @declare(lambda stream, count, bits: Spec((count,), UINT8 if bits <= 8 else UINT16))
    def unpack_bits(self, stream: Array, count: int, bits: int) -> Array:
        """The codes of ``pack_bits``."""

    @declare(lambda integers, low, stride: integers._replace(dtype=UINT32))
    def uniform_codes(self, integers: Array, low: int, stride: int) -> Array:
        """(integers - low) / stride."""

    @declare(lambda codes, low, stride: codes._replace(dtype=INT64))
    def uniform_values(self, codes: Array, low: int, stride: int) -> Array:
        """low + stride codes."""

    @declare(lambda terms, bits, has_zero: terms._replace(dtype=UINT32))
    def shift_codes(self, terms: Array, bits: int, has_zero: bool) -> Array:
        """The exponents and signs of powers of two, as codes."""

    @declare(lambda codes, bits, has_zero: codes._replace(dtype=INT64))
    def shift_values(self, codes: Array, bits: int, has_zero: bool) -> Array:
        """The integers of ``shift_codes``."""

    @declare(lambda filters: Spec(filters.shape[:1], INT64))
    def trailing_zeros(self, filters: Array) -> Array:
        """The number of binary zeros that all integers of a row end with."""

    @declare(lambda x, step, high: Spec(np.broadcast_shapes(x.shape, step.shape), INT64))
    def integer_levels(self, x: Array, step: Array, high: int) -> Array:
        """x / step rounded to integers."""

    @declare(lambda integers, step: Spec(np.broadcast_shapes(integers.shape, step.shape), step.dtype))
    def scaled_integers(self, integers: Array, step: Array) -> Array:
        """integers times step."""

    @declare(None, host="the values decide how many different numbers there are")
    def distinct_numbers(self, x: Array) -> Three:
        """The distinct numbers of each row, how many there are, and the index of each element among them."""
