"""Common bugs in a backward pass, by operator: one changed expression of a textbook kernel each."""

from __future__ import annotations

from ..mutation_testing import Bug

__all__ = [
    "ATTENTION",
    "CONVOLUTION",
    "CONV_TRANSPOSE",
    "CROSS_ENTROPY",
    "POOLING",
    "SOFTMAX",
    "normalization",
    "of_kernel",
    "recurrent",
]

_TAPS = "for r, at in enumerate(taps(window)):"

_CONVOLUTION = (
    (
        "drop the stride",
        "gw reads x as if the window moved by 1 (no difference at stride 1)",
        "conv_weight_grad",
        _TAPS,
        "for r, at in enumerate(taps(replace(window, stride=(1,) * window.ndim))):",
    ),
    (
        "drop the dilation",
        "gx puts neighboring taps side by side (no difference at dilation 1)",
        "conv_input_grad",
        _TAPS,
        "for r, at in enumerate(taps(replace(window, dilation=(1,) * window.ndim))):",
    ),
    (
        "forget a transpose",
        "gx multiplies by W, not by Wᵀ (fits only where a group has as many filters as channels)",
        "conv_input_grad",
        "w[r].swapaxes(1, 2)",
        "w[r]",
    ),
    (
        "flip the kernel once more",
        "gx has a flipped kernel if it is written as a convolution, but not as a scatter, as here",
        "conv_input_grad",
        "w[r].swapaxes(1, 2)",
        "w[-1 - r].swapaxes(1, 2)",
    ),
    (
        "overwrite, do not add",
        "windows overlap: an entry of x gets a product from each of them",
        "conv_input_grad",
        "padded[at] += back",
        "padded[at] = back",
    ),
    (
        "forget the padding",
        "gx is cut out of the padded array at its corner (no difference without padding)",
        "conv_input_grad",
        "crop(padded, window)",
        "crop(padded, replace(window, padding=((0, 0),) * window.ndim))",
    ),
    (
        "keep one sample",
        "gw is a sum over the batch (no difference with one sample)",
        "conv_weight_grad",
        ".sum(axis=0)",
        "[0]",
    ),
)

_CONV_TRANSPOSE = (
    (
        "drop the stride",
        "gx reads gy as if the window moved by 1 (no difference at stride 1)",
        "conv",
        _TAPS,
        "for r, at in enumerate(taps(replace(window, stride=(1,) * window.ndim))):",
    ),
    (
        "drop the dilation",
        "gw reads gy at neighboring places (no difference at dilation 1)",
        "conv_weight_grad",
        _TAPS,
        "for r, at in enumerate(taps(replace(window, dilation=(1,) * window.ndim))):",
    ),
    (
        "one transpose too many",
        "y was made with Wᵀ, so gx has W (fits only with as many filters as channels)",
        "conv",
        "_matmul(w[r], x_r)",
        "_matmul(w[r].swapaxes(1, 2), x_r)",
    ),
    (
        "flip the kernel",
        "gx is a convolution of gy with the kernel as it is",
        "conv",
        "_matmul(w[r], x_r)",
        "_matmul(w[-1 - r], x_r)",
    ),
    (
        "overwrite, do not add",
        "each tap added an entry of x to y, so each tap contributes to gx",
        "conv",
        "y += _matmul",
        "y = _matmul",
    ),
    (
        "keep one sample",
        "gw is a sum over the batch (no difference with one sample)",
        "conv_weight_grad",
        ".sum(axis=0)",
        "[0]",
    ),
)

_SOFTMAX = (
    (
        "look at one entry alone",
        "this is the derivative of y with respect to its own x; the other y fall when this one rises",
        "softmax_grad",
        "y * (g - (g * y).sum(axis, keepdims=True))",
        "y * (1 - y) * g",
    ),
    (
        "sum over the wrong axis",
        "the sum is over the entries that add up to 1",
        "softmax_grad",
        "(g * y).sum(axis, keepdims=True)",
        "(g * y).sum(0, keepdims=True)",
    ),
    (
        "forget the sum",
        "exp(y) is multiplied by the sum over the row",
        "log_softmax_grad",
        "np.exp(y) * g.sum(axis, keepdims=True)",
        "np.exp(y) * g",
    ),
)
_CROSS_ENTROPY = (
    ("forget the target", "the gradient is p minus the target probabilities", "cross_entropy_grad", "(p - goal)", "p"),
    (
        "forget to divide by N",
        "a mean over N samples gives each 1/N (no difference with one sample, or a sum)",
        "cross_entropy_grad",
        "(factor * g * weights)",
        "(g * weights)",
    ),
)
_POOLING = (
    (
        "overwrite, do not add",
        "windows overlap: an entry may be the largest of two (no difference if they do not)",
        "max_pool_grad",
        "np.add.at(gx, (starts + indices).ravel(), g.ravel())",
        "gx[(starts + indices).ravel()] = g.ravel()",
    ),
    (
        "forget to divide",
        "each entry of a window has a share of the mean",
        "avg_pool_grad",
        "share = g / _counts(window, count_include_pad, g).astype(g.dtype)",
        "share = g",
    ),
    (
        "overwrite, do not add",
        "windows overlap: an entry gets a share of each (no difference if they do not)",
        "avg_pool_grad",
        "padded[at] += share",
        "padded[at] = share",
    ),
)
_NORMALIZATION = (
    (
        "treat the mean as a constant",
        "x changes the mean, and so all other entries (rms_norm has no mean)",
        "h.mean(axes, keepdims=True) if centered else 0.0",
        "0.0",
    ),
    (
        "treat the deviation as a constant",
        "x also changes the deviation, and so all other entries",
        "(h * z).mean(axes, keepdims=True)",
        "0.0",
    ),
    (
        "forget the weight",
        "the gradient flows back through y = xhat w + b (no difference where w is 1)",
        "g * weight",
        "g",
    ),
    ("multiply by x, not by xhat", "the weight was multiplied by xhat", "(g * z).sum(outer)", "(g * x).sum(outer)"),
)
_RECURRENT = (
    (
        "cut the path through the cell state",
        "the second path into gc: from the next cell state, times its forget gate",
        "_backward",
        "gc = np.where(now, gc_before, gc)",
        "gc = np.where(now, 0 * gc_before, gc)",
        ("lstm",),
    ),
    (
        "cut the path through W_hh",
        "the output was also read by the next step",
        "_backward",
        "gah @ w.w_hh + gh_before",
        "0 * (gah @ w.w_hh) + gh_before",
        (),
    ),
    (
        "cut the path past the gates",
        "the next output contains z times this one, besides the terms through the gates",
        "_backward",
        "gah @ w.w_hh + gh_before",
        "gah @ w.w_hh",
        ("gru",),
    ),
    (
        "forget a transpose",
        "the gradient goes back through W_hhᵀ (with gates, the shapes do not fit)",
        "_backward",
        "gah @ w.w_hh",
        "gah @ w.w_hh.T",
        ("rnn_tanh", "rnn_relu"),
    ),
    (
        "forget the reset gate",
        "the product with W_hn is multiplied by r",
        "_backward",
        "np.concatenate((ar, az, am), -1)",
        "np.concatenate((ar, az, an), -1)",
        ("gru",),
    ),
    (
        "take the output of the same step",
        "W_hh was multiplied by the previous output",
        "_weight_grads",
        "saved.h[:-1]",
        "saved.h[1:]",
        (),
    ),
)
_ATTENTION = (
    (
        "softmax, entry by entry",
        "the probabilities of a query add up to 1: what one gains, the others lose",
        "attention_grad",
        "- (g * y).sum(-1, keepdims=True)",
        "",
    ),
    ("forget the scale", "the scores were multiplied by 1/sqrt(E)", "attention_grad", "scale * (d @", "(d @"),
    (
        "forget a transpose",
        "gk adds up over the queries (with as many queries as keys, the shapes fit)",
        "attention_grad",
        "d.swapaxes(-1, -2) @ q",
        "d @ q",
    ),
)

CONVOLUTION = tuple(Bug(name, about, "convolution", *rest) for name, about, *rest in _CONVOLUTION)
CONV_TRANSPOSE = tuple(Bug(name, about, "convolution", *rest) for name, about, *rest in _CONV_TRANSPOSE)
SOFTMAX = tuple(Bug(name, about, "normalization", *rest) for name, about, *rest in _SOFTMAX)
CROSS_ENTROPY = tuple(Bug(name, about, "loss", *rest) for name, about, *rest in _CROSS_ENTROPY)
POOLING = tuple(Bug(name, about, "pooling", *rest) for name, about, *rest in _POOLING)
ATTENTION = tuple(Bug(name, about, "attention", *rest) for name, about, *rest in _ATTENTION)


def of_kernel(bugs: tuple[Bug, ...], kernel: str) -> tuple[Bug, ...]:
    """Return the bugs in one kernel."""
    return tuple(bug for bug in bugs if bug.kernel == kernel)


def normalization(name: str) -> tuple[Bug, ...]:
    """Return the bugs of batch_norm or another normalization."""
    kernel = {
        "batch_norm": "batch_norm_grad",
        "layer_norm": "layer_norm_grad",
        "rms_norm": "layer_norm_grad",
    }.get(name, "group_norm_grad")
    rows = _NORMALIZATION[name == "rms_norm" :]
    return tuple(
        Bug(title, about, "normalization", kernel, before, after, "normalized_grad")
        for title, about, before, after in rows
    )


def recurrent(mode: str) -> tuple[Bug, ...]:
    """Return the bugs of a recurrent layer."""
    return tuple(
        Bug(title, about, "recurrent", "recurrent_grad", before, after, function)
        for title, about, function, before, after, modes in _RECURRENT
        if not modes or mode in modes
    )
