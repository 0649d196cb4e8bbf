"""The oracle: every kernel in loops, straight from its definition, in float64.

It imports only NumPy and the standard library, and shares no code with the kernels it checks, not even the window
geometry: sizes are plain integers, one per axis. A sum over channels only is one NumPy statement; every index that
depends on geometry, broadcasting or an axis is a loop. test_naive.py compares it with results computed by hand.

Axes: N batch, Ci/Co channels, I/R/O positions of input, kernel, output; padding is a pair (low, high) per axis.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import numpy as np

Sizes = Sequence[int]
Pairs = Sequence[tuple[int, int]]
Index = tuple[int, ...]

quiet = np.errstate(all="ignore")  # a decorator: inf and NaN are valid results


def double(x: np.ndarray) -> np.ndarray:
    return np.array(x, np.float64)


# ---------------------------------------------------------------- windows


def outputs(inputs: Sizes, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes) -> Index:
    """Return O by counting, on every axis, the starting points whose last tap is inside the padded input."""
    counts = []
    for i, r, s, (low, high), d in zip(inputs, kernel, stride, padding, dilation, strict=True):
        count = 0
        while count * s - low + (r - 1) * d <= i - 1 + high:
            count += 1
        counts.append(count)
    return tuple(counts)


def meetings(
    inputs: Sizes, kernel: Sizes, output: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> list[tuple[Index, Index, Index]]:
    """Return all (o, r, i) with i = o*stride + r*dilation - low inside the input; taps in the padding have none."""
    found = []
    for o in product(*map(range, output)):
        for r in product(*map(range, kernel)):
            i = tuple(
                at * s + tap * d - low for at, tap, s, d, (low, _) in zip(o, r, stride, dilation, padding, strict=True)
            )
            if all(0 <= position < extent for position, extent in zip(i, inputs, strict=True)):
                found.append((o, r, i))
    return found


# ---------------------------------------------------------------- convolution
#
# Channels are split into groups: x (N, G, C, *I), w (G, K, C, *R), g and y (N, G, K, *O). The contribution of one
# output position is one NumPy statement, in which M runs over all channels of a group at all taps inside the input.


def patches(
    inputs: Sizes, kernel: Sizes, output: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> list[tuple[Index, tuple[slice, ...], tuple[slice, ...]]]:
    """Yield (o, r, i): output position o, its taps r and the input positions i that they read, as slices on every axis.

    i = o*stride + r*dilation - low must be inside the input; taps in the padding are left out.
    """
    found = []
    for o in product(*map(range, output)):
        taps, positions = [], []
        for at, i, r, s, (low, _), d in zip(o, inputs, kernel, stride, padding, dilation, strict=True):
            met = [(tap, at * s + tap * d - low) for tap in range(r) if 0 <= at * s + tap * d - low < i]
            if met:
                (first_tap, first), (last_tap, last) = met[0], met[-1]
                taps.append(slice(first_tap, last_tap + 1))
                positions.append(slice(first, last + 1, d))
        if len(taps) == len(o):
            found.append((o, tuple(taps), tuple(positions)))
    return found


@quiet
def conv(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    stride: Sizes,
    padding: Pairs,
    dilation: Sizes,
    groups: int,
) -> np.ndarray:
    """y[n, k, o] = bias[k] + sum over c, r of x[n, c, i] w[k, c, r], where c and k are of the same group."""
    N, Ci, Co = len(x), x.shape[1], len(w)
    output = outputs(x.shape[2:], w.shape[2:], stride, padding, dilation)
    x = double(x).reshape(N, groups, Ci // groups, *x.shape[2:])
    w = double(w).reshape(groups, Co // groups, *w.shape[1:])
    y = np.zeros((N, groups, Co // groups, *output))
    for o, r, i in patches(x.shape[3:], w.shape[3:], output, stride, padding, dilation):
        # (G, K, M) @ (N, G, M, 1) -> (N, G, K, 1)
        y[..., *o] = (merged(w[..., *r]) @ merged(x[..., *i])[..., None])[..., 0]
    y = y.reshape(N, Co, *output)
    if bias is not None:
        for k in range(Co):
            y[:, k] += bias[k]
    return y


@quiet
def conv_input_grad(
    g: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    inputs: Sizes,
    stride: Sizes,
    padding: Pairs,
    dilation: Sizes,
    groups: int,
) -> np.ndarray:
    """gx[n, c, i] = bias[c] + sum over k and all (o, r) that read i of w[k, c, r] g[n, k, o]"""
    N, Co, C = len(g), len(w), w.shape[1]
    g = double(g).reshape(N, groups, Co // groups, *g.shape[2:])
    w = double(w).reshape(groups, Co // groups, C, *w.shape[2:])
    gx = np.zeros((N, groups, C, *inputs))
    for o, r, i in patches(inputs, w.shape[3:], g.shape[3:], stride, padding, dilation):
        part = g[..., None, :, *o] @ merged(w[..., *r])  # (N, G, 1, K) @ (G, K, M) -> (N, G, 1, M)
        gx[..., *i] += part.reshape(gx[..., *i].shape)
    gx = gx.reshape(N, groups * C, *inputs)
    if bias is not None:
        for c in range(gx.shape[1]):
            gx[:, c] += bias[c]
    return gx


@quiet
def conv_weight_grad(
    x: np.ndarray, g: np.ndarray, kernel: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes, groups: int
) -> np.ndarray:
    """gw[k, c, r] = sum over n and all (o, i) connected by tap r of g[n, k, o] x[n, c, i]"""
    N, Ci, Co = len(x), x.shape[1], g.shape[1]
    x = double(x).reshape(N, groups, Ci // groups, *x.shape[2:])
    g = double(g).reshape(N, groups, Co // groups, *g.shape[2:])
    gw = np.zeros((groups, Co // groups, Ci // groups, *kernel))
    for o, r, i in patches(x.shape[3:], kernel, g.shape[3:], stride, padding, dilation):
        # (G, K, N) @ (G, N, M) -> (G, K, M)
        part = g[..., *o].transpose(1, 2, 0) @ merged(x[..., *i]).swapaxes(0, 1)
        gw[..., *r] += part.reshape(gw[..., *r].shape)
    return gw.reshape(Co, Ci // groups, *kernel)


def merged(x: np.ndarray) -> np.ndarray:
    """Merge all axes after the first two."""
    return x.reshape(*x.shape[:2], math.prod(x.shape[2:]))


# ---------------------------------------------------------------- matmul


@quiet
def matmul(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """c[..., m, n] = bias[n] + sum over k of a[..., m, k] b[..., k, n]"""
    a, b = double(a), double(b)
    lead = broadcast_shape(a.shape[:-2], b.shape[:-2])
    c = np.zeros((*lead, a.shape[-2], b.shape[-1]))
    for at in product(*map(range, lead)):
        left, right = a[seen_at(at, a.shape[:-2])], b[seen_at(at, b.shape[:-2])]
        for m, k in product(range(a.shape[-2]), range(a.shape[-1])):
            c[(*at, m)] += left[m, k] * right[k]
    if bias is not None:
        for n in range(b.shape[-1]):
            c[..., n] += bias[n]
    return c


# ---------------------------------------------------------------- elementwise


def broadcast_shape(a: Sizes, b: Sizes) -> Index:
    """Return the broadcast shape by NumPy's rule: aligned at the right, equal extents or 1 on each axis."""
    shape = []
    for back in range(1, builtins.max(len(a), len(b)) + 1):
        p = a[-back] if back <= len(a) else 1
        q = b[-back] if back <= len(b) else 1
        if p != q and 1 not in (p, q):
            raise ValueError(f"shapes {a} and {b} do not broadcast")
        shape.append(q if p == 1 else p)
    return tuple(reversed(shape))


def seen_at(at: Index, shape: Sizes) -> Index:
    """Return the index of the operand's element, of shape ``shape``, that broadcasting puts at ``at`` of the result."""
    own = at[len(at) - len(shape) :]
    return tuple(0 if extent == 1 else position for position, extent in zip(own, shape, strict=True))


def binary(f: Callable[[float, float], float], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x, y = double(x), double(y)
    z = np.empty(broadcast_shape(x.shape, y.shape))
    for at in product(*map(range, z.shape)):
        z[at] = f(float(x[seen_at(at, x.shape)]), float(y[seen_at(at, y.shape)]))
    return z


def unary(f: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    x = double(x)
    return np.array([f(value) for value in x.ravel().tolist()], np.float64).reshape(x.shape)


def quotient(a: float, b: float) -> float:
    if b != 0:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def exp_of(a: float) -> float:
    try:
        return math.exp(a)
    except OverflowError:
        return math.inf


def log_of(a: float) -> float:
    if a == 0:
        return -math.inf
    return math.log(a) if a > 0 else math.nan


def root_of(a: float) -> float:
    return math.nan if a < 0 else math.sqrt(a)


def power_of(a: float, exponent: float) -> float:
    """Return a**exponent, with IEEE 754's value where Python raises.

    Python raises for 0 to a negative power, for a fractional power of a negative number, and for an overflow.
    For -inf to the power 0.5 IEEE 754 has inf; here it is NaN, the square root, as in NumPy and PyTorch.
    """
    if exponent == 0.5:
        return root_of(a)
    odd = exponent % 2 == 1
    try:
        return math.pow(a, exponent)
    except OverflowError:
        return -math.inf if a < 0 and odd else math.inf
    except ValueError:
        return math.nan if a != 0 else math.copysign(math.inf, a) if odd else math.inf


add = partial(binary, lambda a, b: a + b)
sub = partial(binary, lambda a, b: a - b)
mul = partial(binary, lambda a, b: a * b)
div = partial(binary, quotient)
neg = partial(unary, lambda a: -a)
exp = partial(unary, exp_of)
log = partial(unary, log_of)
sqrt = partial(unary, root_of)
relu = partial(unary, lambda a: 0.0 if a <= 0 else a)
sigmoid = partial(unary, lambda a: quotient(1.0, 1.0 + exp_of(-a)))
tanh = partial(unary, math.tanh)
relu_grad = partial(binary, lambda g, y: 0.0 if y <= 0 else g)
sigmoid_grad = partial(binary, lambda g, y: g * y * (1 - y))
tanh_grad = partial(binary, lambda g, y: g * (1 - y * y))


def power(x: np.ndarray, exponent: float) -> np.ndarray:
    return unary(lambda a: power_of(a, exponent), x)


def scale(x: np.ndarray, factor: float) -> np.ndarray:
    return unary(lambda a: a * factor, x)


# ---------------------------------------------------------------- reductions


def total(values: Sequence[float]) -> float:
    """Return the correctly rounded sum; if it is not finite, the plain sum."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        result = 0.0
        for value in values:
            result += value
        return result


def sum(x: np.ndarray, axes: Sizes, keepdims: bool) -> np.ndarray:
    x = double(x)
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    terms: dict[Index, list[float]] = {at: [] for at in product(*map(range, kept))}
    for at in product(*map(range, x.shape)):
        terms[tuple(0 if axis in axes else position for axis, position in enumerate(at))].append(float(x[at]))
    y = np.zeros(kept)
    for at, values in terms.items():
        y[at] = total(values)
    return y if keepdims else y.reshape([extent for axis, extent in enumerate(x.shape) if axis not in axes])


def first_maximum(values: Sequence[float]) -> int:
    """Return the index of the first maximum; NaN counts as the largest."""
    best = 0
    for index, value in enumerate(values):
        if values[best] == values[best] and (value > values[best] or value != value):
            best = index
    return best


def max(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    x = double(x)
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    values, indices = np.empty(rest), np.empty(rest, np.int64)
    for at in product(*map(range, rest)):
        row = [float(x[(*at[:axis], j, *at[axis:])]) for j in range(x.shape[axis])]
        indices[at] = first_maximum(row)
        values[at] = row[indices[at]]
    return values, indices


# ---------------------------------------------------------------- pooling


def max_pool(
    x: np.ndarray, kernel: Sizes, output: Sizes, stride: Sizes, padding: Pairs, dilation: Sizes
) -> tuple[np.ndarray, np.ndarray]:
    """Return the maximum of the input elements in each window, and its flat index in the input."""
    x = double(x)
    y, indices = np.empty((*x.shape[:2], *output)), np.empty((*x.shape[:2], *output), np.int64)
    seen: dict[Index, list[int]] = {}
    for o, _, i in meetings(x.shape[2:], kernel, output, stride, padding, dilation):
        seen.setdefault(o, []).append(flat(i, x.shape[2:]))
    for o, positions in seen.items():
        values = merged(x)[:, :, positions]
        first = values.argmax(2)  # NaN counts as the largest
        y[:, :, *o] = np.take_along_axis(values, first[..., None], 2)[..., 0]
        indices[:, :, *o] = np.array(positions)[first]
    return y, indices


@quiet
def max_pool_grad(g: np.ndarray, indices: np.ndarray, inputs: Sizes) -> np.ndarray:
    """gx[n, c, i] = the sum of g[n, c, o] over all o whose index is i"""
    gx = np.zeros((*g.shape[:2], *inputs))
    positions = list(product(*map(range, inputs)))
    for n, c, *o in product(*map(range, g.shape)):
        gx[n, c, *positions[int(indices[n, c, *o])]] += g[n, c, *o]
    return gx


def max_pool_gather(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """y[n, c, o] = x[n, c] at the flat position indices[n, c, o]"""
    y = np.empty(indices.shape)
    positions = list(product(*map(range, x.shape[2:])))
    for n, c, *o in product(*map(range, indices.shape)):
        y[n, c, *o] = x[n, c, *positions[int(indices[n, c, *o])]]
    return y


@quiet
def avg_pool(
    x: np.ndarray,
    kernel: Sizes,
    output: Sizes,
    stride: Sizes,
    padding: Pairs,
    dilation: Sizes,
    count_include_pad: bool,
) -> np.ndarray:
    """Return the mean of each window, with padding counted as zeros or left out."""
    x = double(x)
    y = np.zeros((*x.shape[:2], *output))
    met = meetings(x.shape[2:], kernel, output, stride, padding, dilation)
    counts = mean_counts(met, kernel, count_include_pad)
    for n, c, (o, _, i) in product(range(len(x)), range(x.shape[1]), met):
        y[n, c, *o] += x[n, c, *i] / counts[o]
    return y


@quiet
def avg_pool_grad(
    g: np.ndarray,
    inputs: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Pairs,
    dilation: Sizes,
    count_include_pad: bool,
) -> np.ndarray:
    g = double(g)
    gx = np.zeros((*g.shape[:2], *inputs))
    met = meetings(inputs, kernel, g.shape[2:], stride, padding, dilation)
    counts = mean_counts(met, kernel, count_include_pad)
    for n, c, (o, _, i) in product(range(len(g)), range(g.shape[1]), met):
        gx[n, c, *i] += g[n, c, *o] / counts[o]
    return gx


def mean_counts(met: Sequence[tuple[Index, Index, Index]], kernel: Sizes, count_include_pad: bool) -> dict[Index, int]:
    """Return the divisor of each output's mean."""
    counts: dict[Index, int] = {}
    for o, _, _ in met:
        counts[o] = math.prod(kernel) if count_include_pad else counts.get(o, 0) + 1
    return counts


def flat(at: Index, shape: Sizes) -> int:
    """Return the row-major index."""
    position = 0
    for index, extent in zip(at, shape, strict=True):
        position = position * extent + index
    return position


# ---------------------------------------------------------------- batch norm


def channels(x: np.ndarray) -> list[list[float]]:
    """Return the elements of each channel (axis 1)."""
    return [[float(x[(n, c, *i)]) for n, *i in product(*map(range, (len(x), *x.shape[2:])))] for c in range(x.shape[1])]


def from_channels(values: Sequence[Sequence[float]], shape: Sizes) -> np.ndarray:
    """Return the array of ``shape`` whose ``channels`` are ``values``."""
    y = np.empty(shape)
    for c, row in enumerate(values):
        for (n, *i), value in zip(product(*map(range, (shape[0], *shape[2:]))), row, strict=True):
            y[(n, c, *i)] = value
    return y


def batch_norm(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, with the biased variance"""
    rows, means, variances = [], [], []
    for c, values in enumerate(channels(x)):
        mean = total(values) / len(values)
        variance = total([(value - mean) ** 2 for value in values]) / len(values)
        rows.append([(v - mean) / math.sqrt(variance + eps) * float(weight[c]) + float(bias[c]) for v in values])
        means.append(mean)
        variances.append(variance)
    return from_channels(rows, x.shape), np.array(means), np.array(variances)


def batch_norm_grad(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, inverse: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The chain rule of the paper (Ioffe and Szegedy, 2015), line by line, through the variance and the mean."""
    rows, gweight, gbias = [], [], []
    for c, (gs, xs) in enumerate(zip(channels(g), channels(x), strict=True)):
        M, m, v, gamma = len(xs), float(mean[c]), float(inverse[c]) ** -2, float(weight[c])
        gh = [one * gamma for one in gs]
        gv = total([one * (value - m) * -0.5 * v**-1.5 for one, value in zip(gh, xs, strict=True)])
        gm = total([one * -(v**-0.5) for one in gh]) + gv * total([-2 * (value - m) for value in xs]) / M
        rows.append([one * v**-0.5 + gv * 2 * (value - m) / M + gm / M for one, value in zip(gh, xs, strict=True)])
        gweight.append(total([one * (value - m) * v**-0.5 for one, value in zip(gs, xs, strict=True)]))
        gbias.append(total(gs))
    return from_channels(rows, x.shape), np.array(gweight), np.array(gbias)


def channel_affine(x: np.ndarray, scale: np.ndarray, shift: np.ndarray, mean: np.ndarray | None = None) -> np.ndarray:
    about = [0.0] * len(scale) if mean is None else [float(m) for m in mean]
    rows = [
        [(value - about[c]) * float(scale[c]) + float(shift[c]) for value in values]
        for c, values in enumerate(channels(x))
    ]
    return from_channels(rows, x.shape)


# ---------------------------------------------------------------- softmax


def along(f: Callable[..., Sequence[float]], axis: int, *arrays: np.ndarray) -> np.ndarray:
    """Apply f to the rows of the arrays along ``axis``."""
    shape = arrays[0].shape
    y = np.empty(shape)
    for at in product(*map(range, shape[:axis] + shape[axis + 1 :])):
        places = [(*at[:axis], j, *at[axis:]) for j in range(shape[axis])]
        for place, value in zip(places, f(*[[float(x[p]) for p in places] for x in arrays]), strict=True):
            y[place] = value
    return y


def log_softmax_of(row: Sequence[float]) -> list[float]:
    """x - log sum exp(x), with the largest x factored out of the sum to avoid overflow."""
    top = row[first_maximum(row)]
    log_total = log_of(total([exp_of(value - top) for value in row]))
    return [value - top - log_total for value in row]


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    return along(log_softmax_of, axis, x)


def softmax_of(row: Sequence[float]) -> list[float]:
    """exp(x[j]) / sum over k of exp(x[k]), with the largest x factored out of both."""
    top = row[first_maximum(row)]
    all_together = total([exp_of(value - top) for value in row])
    return [exp_of(value - top) / all_together for value in row]


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    return along(softmax_of, axis, x)


def softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """gx[j] = sum over k of g[k] dy[k]/dx[j], with dy[k]/dx[j] = y[k] ([j == k] - y[j])"""

    def row(g: Sequence[float], y: Sequence[float]) -> list[float]:
        return [total([g[k] * y[k] * ((j == k) - y[j]) for k in range(len(y))]) for j in range(len(y))]

    return along(row, axis, g, y)


def log_softmax_grad(g: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    """gx[j] = sum over k of g[k] dy[k]/dx[j], with dy[k]/dx[j] = [j == k] - exp(y[j])"""

    def row(g: Sequence[float], y: Sequence[float]) -> list[float]:
        return [total([g[k] * ((j == k) - exp_of(y[j])) for k in range(len(y))]) for j in range(len(y))]

    return along(row, axis, g, y)


def cross_entropy(x: np.ndarray, labels: np.ndarray, smoothing: float) -> np.ndarray:
    """loss[n] = -(1 - e) log p[label] - e mean(log p); 0 for a label of -1"""
    loss = []
    for row, label in zip(x, labels, strict=True):
        logs = log_softmax_of([float(value) for value in row])
        spread = -smoothing * total(logs) / len(logs) if smoothing else 0.0
        loss.append(-(1 - smoothing) * logs[int(label)] + spread if label >= 0 else 0.0)
    return np.array(loss, np.float64)


def cross_entropy_grad(g: np.ndarray, x: np.ndarray, labels: np.ndarray, smoothing: float) -> np.ndarray:
    gx = np.zeros(x.shape)
    for n, label in enumerate(labels):
        if label >= 0:
            for c, log in enumerate(log_softmax_of([float(value) for value in x[n]])):
                gx[n, c] = float(g[n]) * (exp_of(log) - (1 - smoothing) * (c == label) - smoothing / x.shape[1])
    return gx


# ---------------------------------------------------------------- optimizers


def _downhill(p: float, g: float, decay: float, maximize: bool) -> float:
    return (-g if maximize else g) + decay * p


def sgd_step(
    p: float,
    g: float,
    m: float,
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
    dampening: float = 0.0,
    nesterov: bool = False,
    maximize: bool = False,
) -> tuple[float, float]:
    """Return the new parameter and momentum of one scalar."""
    d = _downhill(p, g, weight_decay, maximize)
    if momentum:
        m = momentum * m + (1 - dampening) * d
        d = d + momentum * m if nesterov else m
    return p - lr * d, m


def adam_step(
    p: float,
    g: float,
    m: float,
    v: float,
    w: float | None = None,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool = False,
    maximize: bool = False,
) -> tuple[float, ...]:
    """Return the new parameter, both averages and the largest v of one scalar (Kingma and Ba, 2015, algorithm 1)."""
    g = _downhill(p, g, 0.0 if decoupled else weight_decay, maximize)
    if decoupled:
        p = p * (1 - lr * weight_decay)
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    corrected_m, corrected_v = m / (1 - beta1**step), v / (1 - beta2**step)
    if w is None:
        return p - lr * corrected_m / (math.sqrt(corrected_v) + eps), m, v
    w = v if v > w else w
    return p - lr * corrected_m / (math.sqrt(w / (1 - beta2**step)) + eps), m, v, w


def adamax_step(
    p: float,
    g: float,
    m: float,
    u: float,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> tuple[float, ...]:
    """Kingma and Ba, 2015, algorithm 2, with eps."""
    g = _downhill(p, g, weight_decay, maximize)
    m = beta1 * m + (1 - beta1) * g
    u = beta2 * u if beta2 * u > abs(g) + eps else abs(g) + eps
    return p - lr * (m / (1 - beta1**step)) / u, m, u


def nadam_step(
    p: float,
    g: float,
    m: float,
    v: float,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    mu: float,
    mu_next: float,
    mu_product: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
) -> tuple[float, ...]:
    """Dozat, 2016, algorithm 2."""
    g = _downhill(p, g, 0.0 if decoupled else weight_decay, maximize)
    if decoupled:
        p = p * (1 - lr * weight_decay)
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    corrected_m = mu_next * m / (1 - mu_product * mu_next) + (1 - mu) * g / (1 - mu_product)
    return p - lr * corrected_m / (math.sqrt(v / (1 - beta2**step)) + eps), m, v


def radam_step(
    p: float,
    g: float,
    m: float,
    v: float,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    rectification: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
) -> tuple[float, ...]:
    """Liu et al., 2020, algorithm 2, for a given rectification."""
    g = _downhill(p, g, 0.0 if decoupled else weight_decay, maximize)
    if decoupled:
        p = p * (1 - lr * weight_decay)
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    update = lr * m / (1 - beta1**step)
    if rectification:
        update = update * rectification * math.sqrt(1 - beta2**step) / (math.sqrt(v) + eps)
    return p - update, m, v


def rmsprop_step(
    p: float,
    g: float,
    v: float,
    a: float | None,
    m: float | None,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    maximize: bool,
) -> tuple[float | None, ...]:
    """Graves, 2013, equations 38 to 40, with eps outside the root."""
    g = _downhill(p, g, weight_decay, maximize)
    v = alpha * v + (1 - alpha) * g**2
    variance = v
    if a is not None:
        a = alpha * a + (1 - alpha) * g
        variance = v - a**2 if v > a**2 else 0.0
    update = g / (math.sqrt(variance) + eps)
    if m is not None:
        update = m = momentum * m + update
    return p - lr * update, v, a, m


def adagrad_step(
    p: float, g: float, s: float, *, lr: float, eps: float, weight_decay: float, maximize: bool
) -> tuple[float, ...]:
    g = _downhill(p, g, weight_decay, maximize)
    s = s + g**2
    return p - lr * g / (math.sqrt(s) + eps), s


def asgd_step(
    p: float, g: float, a: float, *, eta: float, mu: float, lambd: float, weight_decay: float, maximize: bool
) -> tuple[float, ...]:
    """Polyak and Juditsky, 1992: a step with decay, and the running average of the points."""
    g = _downhill(p, g, weight_decay, maximize)
    p = p - eta * (lambd * p + g)
    return p, (1 - mu) * a + mu * p


def rprop_step(
    p: float,
    g: float,
    before: float,
    size: float,
    *,
    shrink: float,
    grow: float,
    smallest: float,
    largest: float,
    maximize: bool,
) -> tuple[float, ...]:
    """Igel and Huesken, 2000: iRprop-."""
    g = _downhill(p, g, 0.0, maximize)
    if g * before > 0:
        size = size * grow
    elif g * before < 0:
        size, g = size * shrink, 0.0
    size = sorted((smallest, size, largest))[1]
    return p - size * ((g > 0) - (g < 0)), g, size


def adafactor_step(
    p: np.ndarray,
    g: np.ndarray,
    row: np.ndarray,
    column: np.ndarray,
    full: np.ndarray,
    *,
    step: int,
    lr: float,
    beta2_decay: float,
    eps: tuple[float, float],
    d: float,
    weight_decay: float,
) -> tuple[np.ndarray, ...]:
    """Shazeer and Stern, 2018, algorithms 4 (matrices) and 5 (vectors), with the limits of PyTorch."""
    rms = math.sqrt((p**2).mean())
    beta, scale = 1 - step**beta2_decay, sorted((eps[1], rms))[1] * sorted((lr, 1 / math.sqrt(step)))[0]
    if p.ndim > 1:
        row = beta * row + (1 - beta) * (g**2).mean(-1)[..., None]
        column = beta * column + (1 - beta) * (g**2).mean(-2)[..., None, :]
        total = row.mean(-2)[..., None]
        variance = np.matmul(row, column) / np.where(total > eps[0], total, eps[0])
    else:
        variance = full = beta * full + (1 - beta) * g**2
    update = g / np.sqrt(np.where(variance > eps[0] ** 2, variance, eps[0] ** 2))
    size = math.sqrt((update**2).mean())
    return p * (1 - lr * weight_decay) - scale * update / sorted((1.0, size / d))[1], row, column, full


def adadelta_step(
    p: float, g: float, v: float, a: float, *, lr: float, rho: float, eps: float, weight_decay: float, maximize: bool
) -> tuple[float, ...]:
    """Zeiler, 2012, algorithm 1."""
    g = _downhill(p, g, weight_decay, maximize)
    v = rho * v + (1 - rho) * g**2
    update = math.sqrt(a + eps) / math.sqrt(v + eps) * g
    return p - lr * update, v, rho * a + (1 - rho) * update**2
