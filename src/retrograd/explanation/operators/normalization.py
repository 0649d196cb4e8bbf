"""Normalization by statistics of the input: batch, layer, group, instance and root mean square norm.

They differ only in the axes over which mean and deviation are computed. With m elements in each mean:

    xhat = (x - mean) * rstd        y = xhat * w + b        gxhat = gy * w
    gx = rstd * (gxhat - the mean of gxhat - xhat * the mean of gxhat * xhat)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ...nn import functional as F  # noqa: N812  PyTorch's name
from ..explanation import Array, Case, Setting
from ..measurements import Arrays
from ..products import Equations
from . import gradient_bugs
from .operator import VALUES, Operator, arguments, draw, leading, switch

__all__ = ["OPERATORS"]

_TEXTS = (  # with statistics of the input
    "y = xhat * w + b",
    "xhat = x * rstd - mean * rstd",
    "mean = 1/m * x",
    "var = 1/m * x * x - mean * mean",
    "gb = gy",
    "gw = gy * xhat",
    "gxhat = gy * w",
    "mean_g = 1/m * gxhat",
    "mean_gx = 1/m * gxhat * xhat",
    "gx = rstd * gxhat - rstd * mean_g - rstd * xhat * mean_gx",
)
_FIXED = (  # with given statistics
    "y = xhat * w + b",
    "xhat = x * rstd - mean * rstd",
    "gb = gy",
    "gw = gy * xhat",
    "gxhat = gy * w",
    "gx = rstd * gxhat",
)
_SPACE = "hwdopq"


@dataclass(frozen=True)
class _Layout:
    """The axes of a normalization: those of x, those with separate statistics, and those of w and b.

    axes: of x, as its entries are indexed: a channel may be two letters, the group and the channel in it
    shown: the letters shown on the page
    shape: an extent for each letter of ``axes``
    statistics: the letters with separate statistics
    weight: the letters of w and b
    """

    axes: str
    shown: str
    shape: tuple[int, ...]
    statistics: str
    weight: str

    @property
    def extents(self) -> dict[str, int]:
        return dict(zip(self.axes, self.shape, strict=True))

    @property
    def over(self) -> tuple[int, ...]:
        return tuple(place for place, letter in enumerate(self.axes) if letter not in self.statistics)


def _channels(x: np.ndarray, groups: int | None, whole_batch: bool) -> _Layout:
    N, C, *positions = x.shape
    space = _SPACE[: len(positions)]
    if groups is None:
        return _Layout(f"nc{space}", f"nc{space}", x.shape, "c" if whole_batch else "nc", "c")
    return _Layout(f"ngc{space}", f"nc{space}", (N, groups, C // groups, *positions), "ng", "gc")


def _last(x: np.ndarray, normalized_shape: Any) -> _Layout:
    count = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    axes = leading(x.ndim - count) + "ijkl"[:count]
    return _Layout(axes, axes, x.shape, axes[: x.ndim - count], axes[x.ndim - count :])


def _inner(layout: _Layout, eps: float, centered: bool, arrays: Arrays) -> dict[str, Array]:
    x, gy = (arrays[name].astype(np.float64).reshape(layout.shape) for name in ("x", "gy"))
    mean = x.mean(layout.over, keepdims=True) if centered else np.zeros(())
    var = ((x - mean) ** 2).mean(layout.over, keepdims=True)
    rstd = 1 / np.sqrt(var + eps)
    xhat = (x - mean) * rstd
    gxhat = gy * _with_axes_of_x(arrays["w"], layout) if "w" in arrays else gy
    mean_g, mean_gx = gxhat.mean(layout.over, keepdims=True), (gxhat * xhat).mean(layout.over, keepdims=True)
    count = math.prod(layout.shape[place] for place in layout.over)
    like_x = {
        "xhat": (xhat, "x with the mean 0 and the deviation 1"),
        "gxhat": (gxhat, "how much the loss grows with each entry of xhat"),
    }
    of_statistics = {
        "mean": (mean, f"the mean of m = {count} entries of x"),
        "var": (
            var,
            f"the mean of m = {count} squares of x - mean" if centered else f"the mean of m = {count} squares",
        ),
        "rstd": (rstd, f"1 / sqrt(var + {eps:g})"),
        "mean_g": (mean_g, "the mean of gxhat: what the gradient loses because the mean of x is subtracted"),
        "mean_gx": (mean_gx, "the mean of gxhat * xhat: what it loses because x is divided by its deviation"),
    }
    if not centered:
        del of_statistics["mean"], of_statistics["mean_g"]
    shape = arrays["x"].shape
    found = {
        name: Array(values.reshape(shape), layout.shown, "inner", about) for name, (values, about) in like_x.items()
    }
    for name, (values, about) in of_statistics.items():
        kept = tuple(layout.extents[letter] for letter in layout.statistics)
        found[name] = Array(values.reshape(kept), layout.statistics, "inner", about)
    return found


def _with_axes_of_x(w: np.ndarray, layout: _Layout) -> np.ndarray:
    """Return w in the axes of x."""
    return w.astype(np.float64).reshape(
        [layout.extents[letter] if letter in layout.weight else 1 for letter in layout.axes]
    )


def _case(
    name: str,
    layout: _Layout,
    call: Callable[..., Tensor],
    source: str,
    inputs: Arrays,
    eps: float,
    texts: Sequence[str] = _TEXTS,
    inner: Callable[[Arrays], dict[str, Array]] | None = None,
) -> Case:
    centered = name != "rms_norm"
    weight = "c" if layout.weight == "gc" else layout.weight
    axes = dict.fromkeys(("x", "y", "gx", "gy", "xhat", "gxhat"), layout.axes)
    axes |= dict.fromkeys(("var", "rstd", "mean_gx", *(("mean", "mean_g") if centered else ())), layout.statistics)
    for each in inputs.keys() - {"x"}:
        axes |= dict.fromkeys((each, f"g{each}"), layout.weight)
    texts = texts if "w" in inputs else [text.replace(" * w", "") for text in texts]
    numbers = {"1/m": 1 / math.prod(layout.shape[place] for place in layout.over)}
    equations = Equations(texts, axes, layout.extents, numbers)
    about = {"w": "the weight that xhat is multiplied by", "b": "the bias"}
    shown = {"x": Array(inputs["x"], layout.shown, "input", "the input")}
    shown |= {each: Array(inputs[each], weight, "weight", about[each]) for each in inputs if each != "x"}
    return Case(
        name=name,
        call=call,
        inputs=shown,
        output=(layout.shown, "the result"),
        sums=lambda arrays: equations.sums,
        formulas=equations.formulas,
        source=source,
        inner=inner or (lambda arrays: _inner(layout, eps, centered, arrays)),
        bugs=() if inner else gradient_bugs.normalization(name),
    )


_CHANNELS = (
    Setting("batch", 3, (1, 2, 3, 4), "samples"),
    Setting("channels", 2, (1, 2, 4), "channels of the input"),
    Setting("size", 2, (1, 2, 3, 4), "positions of the input on each axis"),
)
_GROUPS = Setting("num_groups", 2, (1, 2, 4), "groups of channels, each normalized separately")
_ROWS = (
    Setting("batch", 2, (1, 2, 3, 4), "samples"),
    Setting("features", 4, (2, 3, 4, 6), "numbers of each sample, which are normalized together"),
)
_TRAINING = switch(
    "training", True, "normalize by the statistics of the input, or else by running statistics, which are constants"
)
_EPS = {"eps": 1e-5}
_RUNNING = ("running_mean", "running_var")


def _example_of_channels(options: Mapping[str, Any]) -> Arrays:
    N, C, size, values = options["batch"], options["channels"], options["size"], options["values"]
    groups = options.get("num_groups", 1)
    if C % groups:
        raise ValueError(f"channels={C} must be a multiple of num_groups={groups}")
    found = {"x": draw((N, C, size, size), values, 1), "w": draw((C,), values, 2, 1, 3), "b": draw((C,), values, 3)}
    if options.get("training") == "False":
        found |= {"running_mean": draw((C,), values, 5), "running_var": draw((C,), values, 6, 1, 4)}
    return found


def _example_of_rows(options: Mapping[str, Any]) -> Arrays:
    shape, values = (options["batch"], options["features"]), options["values"]
    return {"x": draw(shape, values, 1), "w": draw(shape[1:], values, 2, 1, 3), "b": draw(shape[1:], values, 3)}


def _batch_norm(inputs: Arrays, options: Mapping[str, Any]) -> Case:
    given = arguments("batch_norm", options, {"training": True} | _EPS, (*_CHANNELS, VALUES))
    statistics = [inputs[name] for name in _RUNNING if name in inputs]
    inputs = {name: array for name, array in inputs.items() if name not in _RUNNING}
    if not given["training"] and len(statistics) == 2:
        return _fixed_batch_norm(inputs, statistics, given["eps"])
    call = _call(F.batch_norm, inputs, None, None, training=True, eps=given["eps"])
    source = f"F.batch_norm(x, None, None, {_named(inputs)}training=True)"
    return _case("batch_norm", _channels(inputs["x"], None, True), call, source, inputs, given["eps"])


def _fixed_batch_norm(inputs: Arrays, statistics: list[np.ndarray], eps: float) -> Case:
    """Return the case with running statistics, which are constants: each channel is scaled and shifted."""
    mean, var = (each.astype(np.float64) for each in statistics)

    def call(x: Tensor, *affine: Tensor) -> Tensor:
        constants = (Tensor(each.astype(x.array.dtype)) for each in statistics)
        return _call(F.batch_norm, inputs, *constants, eps=eps)(x, *affine)

    def inner(arrays: Arrays) -> dict[str, Array]:
        shape, at = arrays["x"].shape, (slice(None), *(None,) * (arrays["x"].ndim - 2))
        rstd = 1 / np.sqrt(var + eps)
        gxhat = arrays["gy"] * (arrays["w"].astype(np.float64)[at] if "w" in arrays else 1.0)
        found = {
            "mean": (mean, "c", "the running mean, a constant"),
            "rstd": (rstd, "c", f"1 / sqrt(running variance + {eps:g}), a constant"),
            "xhat": ((arrays["x"] - mean[at]) * rstd[at], layout.shown, "x without the mean, divided by the deviation"),
            "gxhat": (gxhat.reshape(shape), layout.shown, "how much the loss grows with each entry of xhat"),
        }
        return {name: Array(values, axes, "inner", about) for name, (values, axes, about) in found.items()}

    layout = _channels(inputs["x"], None, True)
    texts = ", ".join(f"rg.tensor({each.tolist()}, dtype=x.dtype)" for each in statistics)
    case = _case(
        "batch_norm",
        layout,
        call,
        f"F.batch_norm(x, mean, var, {_named(inputs)}".rstrip(", ") + ")",
        inputs,
        eps,
        _FIXED,
        inner,
    )
    return replace(case, program=f"F.batch_norm(x, {texts}, {_named(inputs)}".rstrip(", ") + ")")


def _instance_norm(inputs: Arrays, options: Mapping[str, Any]) -> Case:
    eps = arguments("instance_norm", options, _EPS, (*_CHANNELS, VALUES))["eps"]

    call = _call(F.instance_norm, inputs, eps=eps)
    source = f"F.instance_norm(x, {_named(inputs)}".rstrip(", ") + ")"
    return _case("instance_norm", _channels(inputs["x"], None, False), call, source, inputs, eps)


def _group_norm(inputs: Arrays, options: Mapping[str, Any]) -> Case:
    given = arguments("group_norm", options, {"num_groups": 1} | _EPS, (*_CHANNELS, VALUES))

    call = _call(F.group_norm, inputs, given["num_groups"], eps=given["eps"])
    source = f"F.group_norm(x, {given['num_groups']}, {_named(inputs)}".rstrip(", ") + ")"
    layout = _channels(inputs["x"], given["num_groups"], False)
    return _case("group_norm", layout, call, source, inputs, given["eps"])


def _of_last_axes(name: str, eps: float, centered: bool) -> Operator:
    function = getattr(F, name)

    def case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
        x = inputs["x"]
        defaults = {"normalized_shape": inputs["w"].shape if "w" in inputs else x.shape[-1:], "eps": eps}
        given = arguments(name, options, defaults, (*_ROWS, VALUES))
        extents = given["normalized_shape"]

        call = _call(function, inputs, extents, eps=given["eps"])
        source = f"F.{name}(x, {extents}, {_named(inputs)}".rstrip(", ") + ")"
        return _case(name, _last(x, extents), call, source, inputs, given["eps"])

    def example(options: Mapping[str, Any]) -> Arrays:
        found = _example_of_rows(options)
        return found if centered else {each: found[each] for each in ("x", "w")}

    return Operator(name, ("x",), ("w", "b") if centered else ("w",), (*_ROWS, VALUES), example, case)


_KEYWORDS = {"w": "weight", "b": "bias"}


def _call(function: Callable[..., Tensor], inputs: Arrays, *args: Any, **options: Any) -> Callable[..., Tensor]:
    """Return the operator as a function of x and of w and b, if present."""
    affine = [_KEYWORDS[name] for name in inputs if name != "x"]
    return lambda x, *given: function(x, *args, **dict(zip(affine, given, strict=True)), **options)


def _named(inputs: Arrays) -> str:
    """Return the arguments w and b, if present, as call text."""
    return "".join(f"{_KEYWORDS[name]}={name}, " for name in inputs if name != "x")


def _of_channels(
    name: str, settings: tuple[Setting, ...], case: Callable[[Arrays, Mapping[str, Any]], Case], *optional: str
) -> Operator:
    return Operator(name, ("x",), ("w", "b", *optional), (*settings, VALUES), _example_of_channels, case)


OPERATORS = {
    each.name: each
    for each in (
        _of_channels("batch_norm", (*_CHANNELS, _TRAINING), _batch_norm, *_RUNNING),
        _of_channels("instance_norm", _CHANNELS, _instance_norm),
        _of_channels("group_norm", (*_CHANNELS, _GROUPS), _group_norm),
        _of_last_axes("layer_norm", 1e-5, True),
        _of_last_axes("rms_norm", float(np.finfo(np.float32).eps), False),
    )
}
