"""The operators that can be explained, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module

from .operator import Operator

__all__ = ["find", "names"]

_AXES = (1, 2, 3)
# file -> its operators; a file is imported on the first request for one of them
_TABLE = {
    "convolution": tuple(f"{name}{n}d" for name in ("conv", "conv_transpose") for n in _AXES),
    "linear": ("linear",),
    "pooling": tuple(
        f"{name}{n}d" for name in ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool") for n in _AXES
    ),
    "normalization": ("batch_norm", "instance_norm", "group_norm", "layer_norm", "rms_norm"),
    "softmax": ("softmax", "log_softmax"),
    "attention": ("scaled_dot_product_attention",),
    "losses": ("cross_entropy", "mse_loss", "l1_loss", "binary_cross_entropy_with_logits"),
    "embedding": ("embedding",),
    "prelu": ("prelu",),
    "recurrent": ("rnn_tanh", "rnn_relu", "lstm", "gru"),
}
_DISCOVERED = ("pointwise", "quantizers", "binary")  # files whose operators are discovered in the library
_ALIASES = {
    "conv": "conv2d",
    "convolution": "conv2d",
    "conv_transpose": "conv_transpose2d",
    "deconv": "conv_transpose2d",
    "convtranspose": "conv_transpose2d",
    "dense": "linear",
    "fully_connected": "linear",
    "matmul": "linear",
    "max_pool": "max_pool2d",
    "avg_pool": "avg_pool2d",
    "maxpool": "max_pool2d",
    "avgpool": "avg_pool2d",
    "adaptive_avg_pool": "adaptive_avg_pool2d",
    "adaptive_max_pool": "adaptive_max_pool2d",
    "batchnorm": "batch_norm",
    "instancenorm": "instance_norm",
    "rnn": "rnn_tanh",
    "attention": "scaled_dot_product_attention",
    "softmax_cross_entropy": "cross_entropy",
    "crossentropyloss": "cross_entropy",
    "swish": "silu",
    "bcewithlogitsloss": "binary_cross_entropy_with_logits",
}
_ON_THE_PAGE_OF = dict.fromkeys(("col2im", "db", "dw", "dx", "gb", "gw", "gx", "im2col"), "conv2d")


@cache
def _all() -> Mapping[str, str]:
    """Return every operator's name, and its file."""
    found = {name: file for file, operators in _TABLE.items() for name in operators}
    return found | {name: file for file in _DISCOVERED for name in _operators(file)}


def _operators(file: str) -> dict[str, Operator]:
    found: dict[str, Operator] = import_module(f".{file}", __package__).OPERATORS
    return found


def names() -> list[str]:
    """Return the names of all operators that ``find`` knows."""
    return sorted(_all())


def find(name: str) -> Operator:
    """Return the operator with a name: PyTorch's, that of its layer ("Conv2d", "nn.LSTM") or a quantizer's ("LSQ").

    Raises:
        ValueError: there is none.
    """
    word = name.rpartition(".")[2]
    for file, operators in _TABLE.items():
        if word in operators:
            return _operators(file)[word]
    known = _all()
    if word in known:
        return _operators(known[word])[word]
    lowercase = {each.lower().replace("_", ""): each for each in reversed([*known])}  # for duplicates, the first
    plain = word.lower()
    found = _ALIASES.get(plain) or lowercase.get(plain.replace("_", "")) or _ALIASES.get(re.sub("[123]d$", "", plain))
    if found is None:
        if plain in _ON_THE_PAGE_OF:
            raise ValueError(f"explain: {name!r} is not an operator; the page of {_ON_THE_PAGE_OF[plain]} explains it")
        near = get_close_matches(plain, [*known, *_ALIASES], 3)
        listed = "`retrograd explain --list` prints all, such as conv2d, lstm, relu"
        hint = f"near: {', '.join(near)}" if near else listed
        raise ValueError(f"explain: there is no operator {name!r} here; {hint}")
    return _operators(known[found])[found]
