"""Pooling: a result is the largest entry of its window, or their mean; the gradient goes back to the same entries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ...nn import functional as F  # noqa: N812  PyTorch's name
from ...specs.geometry import as_pairs, as_tuple
from ..explanation import Array, Case, Setting
from ..measurements import Arrays
from ..products import Products, along
from .gradient_bugs import POOLING, of_kernel
from .operator import VALUES, Operator, arguments, call_text, differing, distinct, draw, frozen, switch

__all__ = ["OPERATORS"]

_SPACE = {1: "w", 2: "hw", 3: "dhw"}
_SIZE = {1: 8, 2: 5, 3: 3}
_PAIRS = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class _Taps:
    """The positions that the windows of one axis read: (outputs, taps) each.

    at: the positions; inside: whether they are in the input; counted: whether a mean counts them
    """

    at: np.ndarray
    inside: np.ndarray
    counted: np.ndarray


def _windows(inputs: int, outputs: int, kernel: int, stride: int, dilation: int, padding: tuple[int, int]) -> _Taps:
    low, high = padding
    at = np.arange(outputs)[:, None] * stride + np.arange(kernel) * dilation - low
    return _Taps(at, (at >= 0) & (at < inputs), at < inputs + high)  # positions added by ceil_mode are not counted


def _divided(inputs: int, outputs: int) -> _Taps:
    """Return the taps of adaptive pooling: output o of O reads the positions o*I//O <= i < ceil((o + 1)*I/O)."""
    o = np.arange(outputs)
    first, last = o * inputs // outputs, -(-(o + 1) * inputs // outputs)
    at = first[:, None] + np.arange((last - first).max())
    inside = at < last[:, None]
    return _Taps(at, inside, inside)


def _mean_products(
    taps: Sequence[_Taps], shape: Sequence[int], padding: _PAIRS, with_padding: bool, divisor: int | None
) -> dict[str, list[Products]]:
    """Return the products of y and gx for means: each entry of a window times 1 / count. shape: of x."""
    counts = np.ones((), np.int64)  # of each output
    for tap in taps:
        counts = np.multiply.outer(counts, (tap.counted if with_padding else tap.inside).sum(1))
    if divisor:
        counts = np.full_like(counts, divisor)
    found: dict[str, list[Products]] = {"y": [], "gx": []}
    for count in np.unique(counts).tolist():
        for target, factor in (("y", "x"), ("gx", "gy")):
            kind = "counted" if with_padding and target == "y" else "inside"
            rows = partial(_rows, taps, shape, padding, kind, counts == count, target)
            found[target].append(Products((factor,), rows, 1 / count))
    return found


def _rows(
    taps: Sequence[_Taps],
    shape: Sequence[int],
    padding: _PAIRS,
    kind: str,
    chosen: np.ndarray,
    target: str,
    entry: int | None,
) -> np.ndarray:
    """Return the pairs of a chosen output and of an entry of x in its window, for one entry of the target or all.

    kind: whether to include the padding, as in ``_Taps``; chosen: (*outputs)
    """
    ndim = len(taps)
    lead, inputs = math.prod(shape[: len(shape) - ndim]), shape[len(shape) - ndim :]
    place: Sequence[int] = ()
    if entry is not None:
        place = [int(at) for at in np.unravel_index(entry, (lead, *(chosen.shape if target == "y" else inputs)))]
    pairs = []
    for axis, tap in enumerate(taps):
        kept = getattr(tap, kind)
        if entry is not None and target == "y":
            kept = kept & (np.arange(len(tap.at)) == place[1 + axis])[:, None]
        elif entry is not None:
            kept = kept & (tap.at == place[1 + axis])
        pairs.append(np.nonzero(kept))
    ranges = [np.arange(lead) if entry is None else np.array([place[0]]), *(np.arange(len(o)) for o, _ in pairs)]
    n, *which = (each.ravel() for each in np.meshgrid(*ranges, indexing="ij"))
    outputs = tuple(o[at] for (o, _), at in zip(pairs, which, strict=True))
    y, x, padded, inside = n, n, n, np.ones(len(n), bool)
    for tap, (o, r), at, extent, (low, high) in zip(taps, pairs, which, inputs, padding, strict=True):
        read = tap.at[o[at], r[at]]
        y, x = y * len(tap.at) + o[at], x * extent + read
        padded, inside = padded * (low + extent + high) + read + low, inside & tap.inside[o[at], r[at]]
    x = np.where(inside, x, -1 - padded)
    return np.stack((y, x) if target == "y" else (x, y), 1)[chosen[outputs]]


def _largest_products(index: np.ndarray, ndim: int, shape: Sequence[int]) -> dict[str, list[Products]]:
    """Return the products of y and gx for maxima. index: the flat position of each output's maximum; shape: of x."""
    y = np.arange(index.size)
    positions, outputs = (math.prod(each[len(each) - ndim :]) for each in (shape, index.shape))
    x = y // outputs * positions + index.ravel()
    return {"y": [along(y, ("x",), (x,))], "gx": [along(x, ("gy",), (y,))]}


_WINDOW = {"kernel_size": None, "stride": None, "padding": 0, "ceil_mode": False}
_MEAN = _WINDOW | {"count_include_pad": True, "divisor_override": None}
_LARGEST = _WINDOW | {"dilation": 1}


def _case(name: str, ndim: int, settings: tuple[Setting, ...], inputs: Arrays, options: Mapping[str, Any]) -> Case:
    x, adaptive, largest = inputs["x"], name.startswith("adaptive"), "max" in name
    defaults: dict[str, Any] = {"output_size": None} if adaptive else _LARGEST if largest else _MEAN
    if ndim == 1:
        defaults = {key: value for key, value in defaults.items() if key != "divisor_override"}
    given = {key: frozen(value) for key, value in arguments(name, options, defaults, settings).items()}
    function = getattr(F, name)
    axes = f"{'nc'[2 - (x.ndim - ndim) :]}{_SPACE[ndim]}"
    padding = ((0, 0),) * ndim if adaptive else as_pairs(given["padding"], ndim)
    named = differing(given, defaults)

    def call(x: Tensor) -> Tensor:
        return function(x, **named)

    def inner(arrays: Arrays) -> dict[str, Array]:
        if not largest:
            return {}
        _, index = function(Tensor(arrays["x"]), **named, return_indices=True)
        about = "the position of the largest x, counted row by row"
        return {"index": Array(index.numpy(), axes, "inner", about)}

    def sums(arrays: Arrays) -> dict[str, list[Products]]:
        if largest:
            return _largest_products(arrays["index"], ndim, x.shape)
        sizes = zip(x.shape[x.ndim - ndim :], arrays["y"].shape[x.ndim - ndim :], strict=True)
        if adaptive:
            return _mean_products([_divided(*each) for each in sizes], x.shape, padding, False, None)
        kernel = as_tuple(given["kernel_size"], ndim, "kernel_size", at_least=1)
        stride = kernel if given["stride"] is None else as_tuple(given["stride"], ndim, "stride", at_least=1)
        taps = [
            _windows(i, o, r, s, 1, pair) for (i, o), r, s, pair in zip(sizes, kernel, stride, padding, strict=True)
        ]
        return _mean_products(taps, x.shape, padding, given["count_include_pad"], given.get("divisor_override"))

    return Case(
        name=name,
        call=call,
        inputs={"x": Array(x, axes, "input", "the input", padding if any(map(any, padding)) else ())},
        output=(axes, "the result: one number for each window"),
        sums=sums,
        formulas=_formulas(_SPACE[ndim], largest, x.ndim - ndim),
        source=call_text(f"F.{name}", inputs, named),
        inner=inner,
        step=1e-3 if largest else 1.0,
        bugs=() if adaptive else of_kernel(POOLING, "max_pool_grad" if largest else "avg_pool_grad"),
    )


def _formulas(space: str, largest: bool, leads: int) -> dict[str, str]:
    lead = "n, c, " if leads == 2 else "c, "
    at, o = ", ".join(space), ", ".join({1: "o", 2: "po", 3: "mpo"}[len(space)])
    if largest:
        return {
            "y": f"y[{lead}{o}] = the largest x[{lead}{at}] of the window",
            "gx": f"gx[{lead}{at}] = Σ gy[{lead}{o}]   over the windows whose largest entry it is",
        }
    return {
        "y": f"y[{lead}{o}] = Σ x[{lead}{at}] / count   over the window",
        "gx": f"gx[{lead}{at}] = Σ gy[{lead}{o}] / count   over the windows that it is in",
    }


def _settings(ndim: int, adaptive: bool, largest: bool) -> tuple[Setting, ...]:
    sizes = tuple(range(2, {1: 13, 2: 9, 3: 6}[ndim]))
    common = (
        Setting("batch", 1, (1, 2, 3), "samples"),
        Setting("channels", 1, (1, 2, 4), "channels of the input"),
        Setting("size", _SIZE[ndim], sizes, "positions of the input on each axis"),
        VALUES,
    )
    if adaptive:
        return (Setting("output_size", 3 if ndim < 3 else 2, (1, 2, 3, 4), "windows on each axis"), *common)
    own = [
        Setting("kernel_size", 2, (1, 2, 3, 4), "positions of the window on each axis"),
        Setting("stride", 2 if ndim < 3 else 1, (1, 2, 3), "how far the window moves from one output to the next"),
        Setting("padding", 0, (0, 1, 2), "positions added around the input, at most half of the window"),
        switch("ceil_mode", False, "keep windows that extend past the end of the input"),
    ]
    if largest:
        own.append(Setting("dilation", 1, (1, 2), "how far apart the positions of the window are"))
    else:
        own.append(switch("count_include_pad", True, "count padding as zeros in the mean"))
    return (*own, *common)


def _example(ndim: int, largest: bool, options: Mapping[str, Any]) -> Arrays:
    shape, values = (options["batch"], options["channels"], *(options["size"],) * ndim), options["values"]
    return {"x": distinct(shape, values, 1) if largest else draw(shape, values, 1, 0, 9)}


def _operator(name: str, ndim: int) -> Operator:
    settings = _settings(ndim, name.startswith("adaptive"), "max" in name)
    return Operator(
        name,
        ("x",),
        (),
        settings,
        lambda options: _example(ndim, "max" in name, options),
        lambda inputs, options: _case(name, ndim, settings, inputs, options),
    )


_KINDS = ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool")
OPERATORS = {name: _operator(name, n) for kind in _KINDS for n in (1, 2, 3) for name in (f"{kind}{n}d",)}
