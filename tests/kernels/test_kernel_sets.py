"""Properties of whole kernel sets: the same names and signatures, the same bits every time, on all threads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from comparison import bits
from formula_arguments import KERNELS, arguments
from kernels.garbage import fill_memory_with_garbage
from kernels.sets import textbook_at_night
from retrograd.formulas import UPDATES, Form, form
from retrograd.formulas.losses import LOSSES, minus_first
from retrograd.kernels import compiled, textbook
from retrograd.kernels.compiled.machine.launch import get_num_threads, set_num_threads
from retrograd.specs.geometry import AdaptiveWindow, conv_window, pool_window
from retrograd.specs.low_bit import Requantized, Scaled, Thresholded
from retrograd.specs.recurrence import Weights, recurrence
from strategies import DTYPES, LAYOUTS, numbers

# the other kernels are not compiled: both sets run the textbook kernels
NAMES = sorted({*textbook.__all__} & {*compiled.__all__})


def test_same_names() -> None:
    only_compiled = {"get_num_threads", "set_num_threads", "warmup"}
    assert set(compiled.__all__) == {*NAMES, *only_compiled}
    assert len(NAMES) > 280 and {*NAMES} <= {*textbook.__all__}
    for name in NAMES:
        assert callable(getattr(compiled, name)) and callable(getattr(textbook, name))


def test_same_signatures() -> None:
    """Names of parameters, their kinds and defaults; a caller by keyword cannot tell the sets apart."""

    def parameters(kernel: FunctionType) -> list[tuple[Any, ...]]:
        return [(p.name, p.kind, p.default) for p in inspect.signature(kernel).parameters.values()]

    for name in NAMES:
        assert parameters(getattr(compiled, name)) == parameters(getattr(textbook, name))


# ---------------------------------------------------------------- the same bits


def _x(rng: np.random.Generator, dtype: type, layout: str, *shape: int) -> np.ndarray:
    return LAYOUTS[layout](numbers(rng, shape, dtype))


def _trio(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, np.ndarray]]:
    window = conv_window((23, 22), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    x, w = _x(rng, dtype, layout, 8, 35, 23, 22), _x(rng, dtype, "contiguous", 40, 35, 3, 3)
    g = _x(rng, dtype, layout, 8, 40, 23, 22)
    yield "conv", k.conv(x, w, w[:, 0, 0, 0].copy(), window)
    yield "conv_clamp", k.conv_clamp(x, w, w[:, 0, 0, 0].copy(), g, -0.5, 0.75, window)
    pool = pool_window((23, 22), 2)
    yield "conv_max_pool", k.conv_max_pool(x, w[:5], w[:5, 0, 0, 0].copy(), -0.5, 0.75, window, pool)
    yield "conv_input_grad", k.conv_input_grad(g, w, None, window)
    yield "conv_input_grad_clamp", k.conv_input_grad_clamp(g, w, w[0, :, 0, 0].copy(), x, -0.5, 0.75, window)
    yield "conv_weight_grad", k.conv_weight_grad(x, g, window)


def _depthwise(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, np.ndarray]]:
    window = conv_window((23, 22), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 33)
    x, w = _x(rng, dtype, layout, 8, 33, 23, 22), _x(rng, dtype, "contiguous", 33, 1, 3, 3)
    g = _x(rng, dtype, layout, 8, 33, *window.output)
    yield "conv", k.conv(x, w, None, window)
    yield "conv_input_grad", k.conv_input_grad(g, w, None, window)
    yield "conv_weight_grad", k.conv_weight_grad(x, g, window)


def _deformable(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    window = conv_window((12, 11), 3, 1, 1, 1)
    x, offset = _x(rng, dtype, layout, 2, 32, 12, 11), _x(rng, dtype, layout, 2, 18, 12, 11) * dtype(2)
    mask, w, g = (_x(rng, dtype, layout, *shape) for shape in ((2, 9, 12, 11), (34, 32, 3, 3), (2, 34, 12, 11)))
    yield "deform_conv", k.deform_conv(x, offset, mask, w, w[:, 0, 0, 0].copy(), window)
    yield "deform_conv_grad", k.deform_conv_grad(g, x, offset, mask, w, window, (True, True, True))
    yield "deform_conv_weight_grad", k.deform_conv_weight_grad(x, offset, mask, g, window)


def _pooling(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    window = pool_window((41, 40), 3, 2, 1)
    x, g = _x(rng, dtype, layout, 6, 17, 41, 40), _x(rng, dtype, layout, 6, 17, *window.output)
    y, indices = k.max_pool(x, window)
    yield "max_pool", (y, indices)
    yield "max_pool_values", k.max_pool_values(x, window)
    yield "max_pool_grad", k.max_pool_grad(g, indices, window)
    yield "max_pool_gather", k.max_pool_gather(x, indices)
    yield "max_unpool", k.max_unpool(y[:1], indices[:1], (41, 40))
    yield "avg_pool", k.avg_pool(x, window, False)
    yield "avg_pool_grad", k.avg_pool_grad(g, window, True)
    uneven = AdaptiveWindow((41, 40), (12, 9))
    g = _x(rng, dtype, layout, 6, 17, 12, 9)
    yield "adaptive_max_pool", k.adaptive_max_pool(x, uneven)
    yield "adaptive_avg_pool", k.adaptive_avg_pool(x, uneven)
    yield "adaptive_avg_pool_grad", k.adaptive_avg_pool_grad(g, uneven)


def _batch_norm(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, g = _x(rng, dtype, layout, 8, 17, 41, 40), _x(rng, dtype, layout, 8, 17, 41, 40)
    weight, bias = _x(rng, dtype, "contiguous", 17), _x(rng, dtype, "contiguous", 17)
    y, mean, variance, inverse = k.batch_norm(x, weight, bias, 1e-5)
    yield "batch_norm", (y, mean, variance, inverse)
    yield "batch_norm_grad", k.batch_norm_grad(g, x, weight, mean, inverse)
    yield "batch_norm_clamp", k.batch_norm_clamp(x, g, weight, bias, 1e-5, 0.0, 6.0)
    given = g, x, weight, mean, inverse, np.stack((weight * inverse, bias)), 0.0, float("nan")
    yield "batch_norm_clamp_grad", k.batch_norm_clamp_grad(*given)
    yield "batch_norm_sums", k.batch_norm_sums(g, x, mean, inverse)
    yield "batch_norm_input_grad", k.batch_norm_input_grad(g, x, mean, inverse, weight, bias)
    yield "channel_affine", k.channel_affine(x, weight, bias, mean)
    yield "channel_affine_clamp", k.channel_affine_clamp(x, g, weight, bias, 0.0, 6.0)
    yield "fixed_scale", k.fixed_scale(mean, variance, weight, bias, 1e-5)
    running = weight.copy(), bias.copy()
    k.running_statistics(running, mean, variance, 0.1, 1.25)
    yield "running_statistics", running


def _softmax(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, g = _x(rng, dtype, layout, 8, 17, 41, 20), _x(rng, dtype, layout, 8, 17, 41, 20)
    for axis in range(4):
        yield "softmax", k.softmax(x, axis)
        yield "log_softmax", k.log_softmax(x, axis)
        yield "softmax_grad", k.softmax_grad(g, x, axis)
        yield "log_softmax_grad", k.log_softmax_grad(g, x, axis)


def _cross_entropy(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    for shape in ((9000, 10), (4, 17, 41, 20)):
        x, labels = _x(rng, dtype, layout, *shape), rng.integers(-1, 10, shape[:1] + shape[2:])
        for smoothing in (0.0, 0.1):
            loss, tops, logs, sums = k.cross_entropy(x, labels, smoothing)
            yield "cross_entropy", (loss, tops, logs, sums)
            yield "cross_entropy_grad", k.cross_entropy_grad(loss, x, labels, smoothing, tops, logs)
        yield "nll_loss", k.nll_loss(x, labels)
        yield "nll_loss_grad", k.nll_loss_grad(loss, x, labels)


def _losses(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, t = (np.abs(_x(rng, dtype, layout, 4, 17, 41, 40)) / 2 for _ in range(2))
    g = _x(rng, dtype, "contiguous", 4, 17, 41, 40)
    one = np.asarray(0.7, dtype)
    numbers = dict.fromkeys(("smooth_absolute_error", "huber", "poisson", "hinge", "ranking"), (0.2,))
    for name, (term, gradients) in LOSSES.items():
        operands, more = (x, t, x)[: len(form(term).operands)], numbers.get(name, ())
        for factor, upstream in ((None, g), (0.1, one)):
            yield "element_loss", k.element_loss(name, operands, more, factor)
            yield "element_loss_grad", k.element_loss_grad(name, 0, upstream, operands, more, factor)
        for of in [of for of, gradient in enumerate(gradients) if of and gradient is not minus_first]:
            yield "element_loss_grad", k.element_loss_grad(name, of, g, operands, more, None)


def _margins(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, labels = _x(rng, dtype, layout, 700, 50), rng.integers(0, 50, 700)
    targets = np.where(np.arange(50) < 4, rng.integers(0, 50, (700, 50)), -1)
    yield "multi_margin_loss", k.multi_margin_loss(x, labels, 2, 0.5)
    yield "multi_margin_loss_slopes", k.multi_margin_loss_slopes(x, labels, 0.5)
    yield "multilabel_margin_loss", k.multilabel_margin_loss(x, targets)
    yield "multilabel_margin_loss_slopes", k.multilabel_margin_loss_slopes(x, targets)


def _distances(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, y = _x(rng, dtype, layout, 700, 50), _x(rng, dtype, layout, 700, 50)
    yield "row_products", k.row_products(x, y)
    yield "row_squares", (z := k.row_squares(x, y, 0.1))
    yield "row_combination", k.row_combination(z, x, -z, y, z)


def _ctc(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, targets = _x(rng, dtype, layout, 30, 9, 20), rng.integers(1, 20, (9, 7))
    inputs, lengths = rng.integers(14, 31, 9), rng.integers(0, 8, 9)
    loss, alpha = k.ctc_loss(x, targets, inputs, lengths, 0)
    yield "ctc_loss", (loss, alpha)
    yield "ctc_loss_grad", k.ctc_loss_grad(loss, x, targets, inputs, lengths, 0, loss, alpha, False)


def _attention(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    q, g = _x(rng, dtype, layout, 2, 4, 90, 24), _x(rng, dtype, layout, 2, 4, 90, 24)
    key, value = _x(rng, dtype, layout, 2, 2, 110, 24), _x(rng, dtype, layout, 2, 2, 110, 24)
    y, log_sum = k.attention(q, key, value, None, 0.2, True)
    yield "attention", (y, log_sum)
    yield "attention_grad", k.attention_grad(g, q, key, value, y, log_sum, None, 0.2, True, (True, True, True))


def _recurrent(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    for mode, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1)):
        for batch, hidden in ((20, 40), (16, 200)):  # cut into rows, and into columns
            what = recurrence("test", mode, 30, hidden, reverse=(False, True))
            x, gy = numbers(rng, (3, batch, 30), dtype), numbers(rng, (3, batch, 2 * hidden), dtype)
            w_ih, w_hh = (numbers(rng, (gates * hidden, width), dtype) * dtype(0.1) for width in (30, hidden))
            b = numbers(rng, (gates * hidden,), dtype)
            for lengths in (None, np.sort(rng.integers(0, 4, batch))[::-1].copy(), rng.integers(1, 4, batch)):
                given = x, None, None, [Weights(w_ih, w_hh, b, b)] * 2, lengths
                y, hn, cn, _, saved = k.recurrent(*given, what, True, False)
                yield "recurrent", tuple(array for array in (y, hn, cn) if array is not None)
                gx, gh0, _, found = k.recurrent_grad(gy, hn, cn, None, *given, what, saved, (True,) * 4)
                yield "recurrent_grad", (gx, gh0, *(array for w in found for array in w if array is not None))


def _reductions(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x = _x(rng, dtype, layout, 8, 17, 41, 40)
    for axes in ((0,), (1,), (3,), (0, 2, 3), (1, 3), (0, 1, 2, 3)):
        for name in ("sum", "mean", "prod", "amax", "amin"):
            yield name, getattr(k, name)(x, axes, False)
        for order in (1, 2):
            yield "norm", k.norm(x, order, axes, True)
    for axis in range(4):
        yield "max", k.max(x, axis)
        yield "min", k.min(x, axis)
    line = _x(rng, dtype, "contiguous", 70001)
    yield "max", k.max(line, 0)


def _moments(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x = _x(rng, dtype, layout, 8, 17, 41, 40)
    for axes in ((0,), (1,), (3,), (0, 2, 3), (1, 3), (0, 1, 2, 3)):
        mean, squares = k.moments(x, axes)
        yield "moments", (mean, squares)
        yield "moments_grad", k.moments_grad(squares, x, mean)
        y = k.logsumexp(x, axes)
        yield "logsumexp", y
        yield "logsumexp_grad", k.logsumexp_grad(mean, x, y)
        yield "ties", k.ties(mean, x, x.max(axes, keepdims=True))
        yield "signed", k.signed(mean, x)
        yield "spread", k.spread(mean, x.shape)


def _picks(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x = _x(rng, dtype, layout, 8, 17, 41, 40)
    for axis in range(4):
        for largest in (True, False):
            indices = k.topk(x, 5, axis, largest)
            yield "topk", indices
            y = k.pick(x, indices, axis)
            yield "pick", y
            yield "gather", k.gather(x, indices[:5, :9], axis)
            yield "place", k.place(y, indices, axis, x.shape[axis], (0, 1, 2, 3))
        yield "kth", k.kth(x, 3, axis)


def _scans(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, y = _x(rng, dtype, layout, 8, 17, 41, 20), _x(rng, dtype, layout, 8, 17, 41, 20)
    for axis in range(4):
        for reverse in (False, True):
            yield "cumsum", k.cumsum(x, axis, reverse)
            yield "linear_scan", k.linear_scan(x, y, axis, reverse)
        yield "cumprod", k.cumprod(x, axis)


def _group_norm(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, g = _x(rng, dtype, layout, 8, 18, 41, 40), _x(rng, dtype, layout, 8, 18, 41, 40)
    w, b = _x(rng, dtype, "contiguous", 18), _x(rng, dtype, "contiguous", 18)
    for groups in (1, 6, 18):
        y, mean, inverse = k.group_norm(x, groups, w, b, 1e-5)
        yield "group_norm", (y, mean, inverse)
        yield "group_norm_grad", k.group_norm_grad(g, x, groups, w, mean, inverse)
    w, b = _x(rng, dtype, "contiguous", 41, 40), _x(rng, dtype, "contiguous", 41, 40)
    for centered in (True, False):
        y, mean, inverse = k.layer_norm(x, w, b, 1e-5, centered)
        yield "layer_norm", (y, mean, inverse)
        yield "layer_norm_grad", k.layer_norm_grad(g, x, w, mean, inverse, centered, True)


def _products(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    for M, K, N in ((150, 700, 130), (1, 3000, 100), (1000, 20, 8), (8, 5000, 8)):
        yield "matmul", k.matmul(_x(rng, dtype, layout, M, K), _x(rng, dtype, "contiguous", K, N))
    a, b = _x(rng, dtype, layout, 40, 33, 20), _x(rng, dtype, "contiguous", 40, 20, 17)
    yield "matmul", k.matmul(a, b)
    yield "matmul_clamp", k.matmul_clamp(a, b, b[0, 0], _x(rng, dtype, layout, 40, 33, 17), -0.5, 0.75)


def _broadcasts(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, y = _x(rng, dtype, layout, 4, 17, 41, 40), _x(rng, dtype, "contiguous", 17, 1, 1)
    for name in ("add", "sub", "mul", "div"):
        yield name, getattr(k, name)(x, y)


def _by_position(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x = _x(rng, dtype, layout, 8, 17, 41, 40)
    y, kept = k.dropout(x, 0.3, 12345, 678)
    yield "dropout", (y, kept)
    yield "dropout_grad", k.dropout_grad(x, kept, 0.3)


def _sparse(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x = _x(rng, dtype, layout, 8, 17, 41, 20)
    for axis in range(4):
        ends = np.sort(rng.integers(0, 200, 60))
        starts = np.concatenate([[0], ends])
        indices = rng.integers(0, x.shape[axis], int(ends[-1]))
        yield "lines", k.lines(x, indices, axis)
        yield "lines", k.lines(x, rng.integers(-1, x.shape[axis], 60), axis, 0.5)
        matrix = starts, indices, numbers(rng, (indices.size,), dtype)
        yield "csr_product", k.csr_product(x, axis, *matrix)
        if axis < 3:
            indices = rng.integers(0, x.shape[axis + 1], 120)
            other = np.arange(61) * 2, indices, numbers(rng, (120,), dtype)
            yield "csr_product_pair", k.csr_product_pair(x, axis, matrix, other)


def _moves(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x = _x(rng, dtype, layout, 8, 17, 41, 20)
    for y in (np.zeros(x.shape, dtype), np.zeros(x.shape[::-1], dtype).T):
        k.copy(y, x)
        yield "copy", y.copy()
        yield "duplicate", k.duplicate(x)
        yield "reshaped", k.reshaped(x.T, (x.size,))
        k.accumulate(y, x)
        yield "accumulate", y.copy()
        k.assign(y, x[:, :1].astype(np.float64))
        yield "assign", y


def _steps(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    shapes = [(300, 301), (64, 17, 3, 3), (7,), (1,)]
    p, g, m = ([_x(rng, dtype, "contiguous", *shape) for shape in shapes] for _ in range(3))
    states = {"m": m, "v": [np.abs(x) for x in m], "w": [np.abs(x) for x in m]}
    numbers = {
        "lr": 0.1,
        "momentum": 0.9,
        "dampening": 0.1,
        "weight_decay": 0.01,
        "nesterov": False,
        "maximize": False,
        "decoupled": True,
        "step": 2,
        "beta1": 0.9,
        "beta2": 0.999,
        "eps": 1e-3,
        "mu_product": 0.7,
        "eta": 0.1,
        "mu": 0.4,
        "lambd": 0.2,
        "shrink": 0.5,
        "grow": 1.2,
        "smallest": 1e-3,
        "largest": 9.0,
        "momentum_decay": 0.004,
        "rectification": 0.5,
        "alpha": 0.9,
        "rho": 0.9,
        "lr_decay": 0.1,
        "weight": 0.3,
        "factor": 1.7,
        "most": 1.0,
    }
    columns = dict.fromkeys(("sum", "square_avg", "exp_avg_sq", "exp_inf"), "v")
    columns |= {"max_exp_avg_sq": "w", "acc_delta": "w"}
    for formula in UPDATES.values():
        (_, *operands), names, *_ = form(formula)
        used = [g, *(states[columns.get(name, "m")] for name in operands[1:])][: len(operands)]
        k.update(formula, p, *used, **{name: numbers[name] for name in names})
        yield "update", tuple(array for column in (p, *used[1:]) for array in column)
    norms = [k.norm_of_all(p, largest=False), k.norm_of_all(p, largest=True)]
    yield "norm_of_all", (np.array(norms),)
    k.limit_norm(p, norms[0], 0.5)
    yield "limit_norm", tuple(p)


def _formulas(of: Callable[[Form], bool]) -> Callable[..., Iterator[tuple[str, Any]]]:
    """The kernels of the formulas that a condition selects."""

    def run(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
        for name, formula in KERNELS.items():
            one = form(formula)
            if of(one):
                signed = len(one.operands) == 2 and not one.numbers

                def draw(place: int, signed: bool = signed) -> np.ndarray:
                    x = _x(rng, dtype, "contiguous" if place else layout, 3, 17, 41, 16)
                    return x if signed else np.abs(x)

                results = getattr(k, name)(*arguments(name, draw))
                yield name, results

    return run


def _in_place(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x = _x(rng, dtype, layout, 3, 17, 41, 16)
    other = np.abs(_x(rng, dtype, "contiguous", 17, 1, 1)) + 1
    for name in ("add", "sub", "mul", "div"):
        for part in (x, x[:1, :, 3:9, ::2]):
            k.arithmetic(part, other.astype(dtype), name)
            k.arithmetic(part, 0.75, name)
        yield "arithmetic", x.copy()


def _channels(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    x, z = (np.abs(_x(rng, dtype, layout, 3, 17, 41, 16)) for _ in range(2))
    yield "prelu", k.prelu(x, _x(rng, dtype, "contiguous", 17, 1, 1))
    yield "glu", k.glu(x, 3)
    yield "glu_grad", k.glu_grad(z[..., :8], x, 3)


def _lowbit(k: Any, rng: np.random.Generator, dtype: type, layout: str) -> Iterator[tuple[str, Any]]:
    window, scale = conv_window((23, 22), 3, 1, 1, 1, 2), _x(rng, dtype, "contiguous", 70)
    codes_like = Requantized(scale.astype(np.float32))
    x, w = _x(rng, dtype, layout, 3, 2 * 35, 23, 22), rng.choice([-1, 1], (70, 35, 3, 3))
    flip = rng.random(70) < 0.5
    codes = {"binary": k.sign_bits(x, 2), "int8": k.quantize_codes(x, 0.01, 128, groups=2)}
    yield "sign_bits", codes["binary"]
    yield "quantize_codes", codes["int8"]
    for element in codes:
        filters = k.lowbit_filters(element, w, 2)
        yield "lowbit_filters", filters.codes
        for then in (None, Scaled(scale), Thresholded(np.zeros(70, np.int32), flip), codes_like):
            yield "lowbit_conv", k.lowbit_conv(codes[element], filters, window, then)


FAMILIES = {
    "convolution": _trio,
    "lowbit": _lowbit,
    "depthwise": _depthwise,
    "deformable": _deformable,
    "matmul": _products,
    "elementwise": _formulas(lambda one: len(one.operands) == 1),
    "elementwise of two": _formulas(lambda one: len(one.operands) == 2),
    "elementwise of more": _formulas(lambda one: len(one.operands) > 2),
    "channels": _channels,
    "broadcasting": _broadcasts,
    "random": _by_position,
    "reduction": _reductions,
    "sparse": _sparse,
    "moves": _moves,
    "moments": _moments,
    "in_place": _in_place,
    "pick": _picks,
    "scan": _scans,
    "group_norm": _group_norm,
    "pooling": _pooling,
    "normalization": _batch_norm,
    "softmax": _softmax,
    "attention": _attention,
    "recurrent": _recurrent,
    "cross_entropy": _cross_entropy,
    "loss": _losses,
    "margin": _margins,
    "ctc": _ctc,
    "distance": _distances,
    "optimizer": _steps,
}


def outcome(kernels: Any, family: str, dtype: type, layout: str) -> list[tuple[str, list[bytes]]]:
    return [(name, bits(result)) for name, result in FAMILIES[family](kernels, np.random.default_rng(0), dtype, layout)]


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = get_num_threads()
    yield set_num_threads
    set_num_threads(before)


def differing(first: list[tuple[str, list[bytes]]], second: list[tuple[str, list[bytes]]]) -> list[str]:
    return [name for (name, a), (_, b) in zip(first, second, strict=True) if a != b]


@pytest.mark.pairwise
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_same_bits_on_every_number_of_threads(
    threads: Callable[[int], None], family: str, dtype: type, layout: str
) -> None:
    """The number of threads decides which thread runs a task, never how work is divided. (NumPy has no threads.)"""
    threads(1)
    alone = outcome(compiled, family, dtype, layout)
    for count in (2, 3):
        threads(count)
        assert not differing(alone, outcome(compiled, family, dtype, layout)), f"with {count} threads"


@textbook_at_night
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_same_bits_again(kernel_set: Any, family: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old contents of memory have no effect: an element that is read before it is written would show here."""
    first = outcome(kernel_set, family, dtype, "contiguous")
    fill_memory_with_garbage(monkeypatch)
    assert not differing(first, outcome(kernel_set, family, dtype, "contiguous"))


def test_the_families_hold_every_kernel() -> None:
    called = {
        name
        for family in FAMILIES.values()
        for name, _ in family(textbook, np.random.default_rng(0), np.float32, "contiguous")
    }
    assert called == set(NAMES) - {"formula_kernel"}  # test_user_formula.py
