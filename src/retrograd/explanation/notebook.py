"""The HTML of a Tensor in a notebook: its shape, type and range, and a small picture."""

from __future__ import annotations

import math
from html import escape

import numpy as np

from .._files.terminal import bytes_text, display_name
from ..engine.tensor import Tensor
from ..nn.parameter import is_lazy
from .thumbnail import thumbnail

__all__ = ["as_html"]

_MOST = 1_000_000  # elements that are looked at
_SHOWN = 8  # elements whose values stand in the text


def as_html(tensor: Tensor) -> str:
    """A Tensor as HTML, without scripts: what it is, and beside it a picture of its values.

    Of more than a million elements, a sample of every n-th is looked at, which the text says.
    """
    kind = escape(display_name(type(tensor).__name__))
    if is_lazy(tensor):
        return _page(f"<b>{kind}</b> not initialised", [], "")
    array = tensor.array
    sample = _sample(array)
    lines = [f"{array.size:,} element{'s' * (array.size != 1)}, {bytes_text(array.nbytes)}"]
    if array.size:
        lines += _statistics(sample)
    if sample.size < array.size:
        lines.append(f"of a sample of {sample.size:,} elements")
    if tensor._edge is not None:
        lines.append(f"grad_fn={display_name(repr(tensor._edge[0]))}")
    elif tensor.requires_grad:
        lines.append("requires_grad=True")
    title = f"<b>{kind}</b> {tuple(array.shape)} {array.dtype}"
    return _page(title, lines, thumbnail(sample) if array.ndim and array.size > 1 else "")


def _page(title: str, lines: list[str], picture: str) -> str:
    rows = "".join(f'<div style="opacity:.75">{escape(line)}</div>' for line in lines)
    text = f'<div style="font-family:monospace;font-size:12px;line-height:1.5"><div>{title}</div>{rows}</div>'
    return f'<div style="display:flex;gap:14px;align-items:flex-start;text-align:left">{text}{picture}</div>'


def _sample(array: np.ndarray) -> np.ndarray:
    """Every n-th element along the axes, a view with at most a million elements."""
    steps = [1] * array.ndim
    while math.prod(-(-extent // step) for extent, step in zip(array.shape, steps, strict=True)) > _MOST:
        left = [-(-extent // step) for extent, step in zip(array.shape, steps, strict=True)]
        steps[left.index(max(left))] *= 2
    return array[tuple(slice(None, None, step) for step in steps)]


def _statistics(sample: np.ndarray) -> list[str]:
    """Range, mean and what is not finite."""
    if sample.size <= _SHOWN:
        shown = ", ".join(map(_number, sample.ravel().tolist()))
        lines = [f"value {shown}" if sample.ndim == 0 else f"values {shown}"]
    else:
        lines = []
    if sample.dtype == np.bool_:
        return [*lines, f"{np.count_nonzero(sample):,} True, {np.count_nonzero(~sample):,} False"]
    finite = sample[np.isfinite(sample)]
    if finite.size and sample.size > 1:
        with np.errstate(all="ignore"):
            mean = float(finite.mean(dtype=np.float64))
        lines.append(f"from {_number(finite.min().item())} to {_number(finite.max().item())}, mean {_number(mean)}")
    if finite.size < sample.size:
        nans = int(np.count_nonzero(np.isnan(sample)))
        rest = sample.size - finite.size - nans
        lines.append(", ".join([f"{nans:,} NaN"] * bool(nans) + [f"{rest:,} infinite"] * bool(rest)))
    return lines


def _number(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"
