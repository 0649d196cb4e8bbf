"""Convolutions and transposed convolutions: products, algorithms to step through, and stories.

Each story follows one entry of w or of x. It shows the products that use it, what one of these uses adds to its
gradient, and the sum of all of them.

Every product of a convolution joins one entry each of x, w and y. The forward pass multiplies x and w and adds to y,
the gradient to w multiplies gy and x, and that to x multiplies gy and w. In a transposed convolution the input and the
result are exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor
from ...kernels.textbook import convolution as textbook
from ...kernels.textbook.algorithms import ALGORITHMS, cost
from ...nn import functional as F  # noqa: N812  PyTorch's name
from ...specs.convolution_options import Options
from ...specs.geometry import Window, as_tuple, conv_padding, conv_transpose_window, conv_window
from .. import address_table_convolution, winograd_convolution
from ..explanation import Array, Case, Padding, Picture, Setting, Step, Story, fmt, label
from ..measurements import Arrays
from ..products import Products, convolved
from ..tracing import Algorithm
from .gradient_bugs import CONV_TRANSPOSE, CONVOLUTION
from .im2col import matrices, sums_of_matrices, sums_of_transposed, transposed_matrices
from .operator import VALUES, Operator, arguments, call_text, draw, frozen

__all__ = ["OPERATORS", "algorithms_of", "stories"]


# ---- Algorithms for a convolution and its gradients, each to be stepped through -------------------------------------

Cost = dict[str, int]  # "multiplications", "bytes"

_ABOUT = {
    "textbook": "one product of matrices for each tap of the kernel; no copies of the input",
    "singa": "SINGA: unfold one sample and multiply, dW += G Xᵀ, dX = col2im(Wᵀ G)",
    "mxnet": "MXNet: unfold as many samples as the workspace holds",
    "pytorch": "PyTorch: the gradients are convolutions themselves",
    "numpy_ml": "numpy-ml: dilate, pad, flip, and unfold the whole batch",
    "address table": "retrograd's compiled kernels: a table says which rows of x are multiplied; nothing is copied",
    "winograd": "retrograd's compiled kernels, 3×3 taps: 36 multiplications for a tile of 4×4 outputs, not 144",
}
_RESULTS = {"conv": "y", "conv_input_grad": "gx", "conv_weight_grad": "gw"}


def algorithms_of(window: Window, arrays: Arrays) -> list[Algorithm]:
    """Return every algorithm that can compute this convolution, with y, gx and gw."""
    x, w, gy, bias = arrays["x"], arrays["w"], arrays["gy"], arrays.get("b")
    found = []
    for group in ("textbook", *ALGORITHMS):
        options = Options() if group == "textbook" else Options(group)
        calls: dict[str, Callable[[], Any]] = {
            "conv": partial(textbook.conv, x, w, bias, window, options),
            "conv_input_grad": partial(textbook.conv_input_grad, gy, w, None, window, options),
            "conv_weight_grad": partial(textbook.conv_weight_grad, x, gy, window, options),
        }
        found += _algorithms(group, calls, None if group == "textbook" else _cost(group, window, x, w))
    others: tuple[tuple[str, Any], ...] = (
        ("address table", address_table_convolution),
        ("winograd", winograd_convolution),
    )
    for group, module in others if winograd_convolution.fits(window) else others[:1]:
        calls = {
            "conv": partial(module.conv, x, w, bias, window),
            "conv_input_grad": partial(module.conv_input_grad, gy, w, window),
            "conv_weight_grad": partial(module.conv_weight_grad, x, gy, window),
        }
        each = module.cost(window, len(x), (x.shape[1], len(w)))
        found += _algorithms(group, calls, dict.fromkeys(calls, each))
    return found


def _algorithms(group: str, calls: dict[str, Callable[[], Any]], costs: dict[str, Cost] | None) -> list[Algorithm]:
    return [
        Algorithm(name, group, _ABOUT[group], _RESULTS[name], call, costs[name] if costs else None)
        for name, call in calls.items()
    ]


def _cost(group: str, window: Window, x: np.ndarray, w: np.ndarray) -> dict[str, Cost]:
    found = cost(group, window, len(x), (x.shape[1], len(w)), x.dtype)
    passes = {name: getattr(found, name) for name in _RESULTS}
    return {name: {"multiplications": each.multiplications, "bytes": each.memory} for name, each in passes.items()}


# ---- Stories: the gradients of a convolution and of a transposed convolution, with the numbers of the run -----------

Sums = Mapping[str, Sequence[Products]]

_TURNED = {1: "read backwards", 2: "turned by 180°", 3: "reversed on every axis"}


def stories(window: Window, transposed: bool, arrays: Arrays, sums: Sums) -> list[Story]:
    """Return the stories of a run that has any entries."""
    if not arrays["gw"].size or not arrays["gx"].size or not arrays["y"].size:
        return []
    found_stories = [_of_weight(transposed, arrays, sums), _of_input(window, transposed, arrays, sums)]
    return [each for each in found_stories if each is not None]


def _of_weight(transposed: bool, arrays: Arrays, sums: Sums) -> Story | None:
    at = int(np.abs(arrays["gw"]).argmax())
    use = _use(arrays, sums["gw"][0], at)
    if use is None:
        return None
    number, rows, (gy, x) = use
    w = label("w", at, arrays["w"].shape)
    padded = int((rows[:, 1] < 0).sum())
    of_them = f" In {padded} of them, x is padding, which is 0." if padded else ""
    steps = [
        Step(
            f"gw, dW or ∂L/∂w in textbooks, says how much the loss grows with each weight. Take one: {w} = "
            f"{fmt(arrays['w'].flat[at])}. The forward pass uses it {_times(len(rows))}: it is multiplied by an "
            f"entry of x, and the product is added to an entry of y. These light up.{of_them}",
            "entries",
            "w",
            at,
            into="y",
        ),
        Step(f"One of these uses. {_one_use(arrays, 'w', at, 'x', x, gy)}", "entries", "gw", at, product=number),
        Step(
            f"Every use counts, so they are added up: Σ gy · x = {fmt(arrays['gw'].flat[at])}. This is the gradient "
            f"of {w}. The last line of the list checks it independently: w is made larger and smaller, and the "
            "forward pass runs again.",
            "entries",
            "gw",
            at,
        ),
    ]
    if "dW_row" not in arrays:
        return Story("Why is dW a sum of gy · x?", tuple(steps))
    _, filters, entries = arrays["dW_row"].shape
    row, column = at // entries % filters, at % entries
    product = "dW = X · G_colᵀ" if transposed else "dW = G · X_colᵀ"
    other = "X_row" if transposed else "G_row"
    columns, reads, rest = (
        ("G_col", "the gy of every output that one x contributes to", "the x of this channel")
        if transposed
        else ("X_col", "every entry that one output reads", "the gy of this filter")
    )
    meets = (
        "the gy of every output that one weight contributes to"
        if transposed
        else "every entry that one weight multiplies"
    )
    brief = other[0]
    steps += [
        Step(
            f"Now as matrices. Each column of {columns} has {reads}, so each row of it has {meets}. Row {column}, the "
            f"row of {w}, lights up ({columns} is drawn transposed, ᵀ, so the row is a column there). Row {row} of "
            f"{other} lights up too: {rest}, in the same order. Multiplied entry by entry and added up: "
            f"{fmt(arrays['gw'].flat[at])} again.",
            "matrices",
            "dW_row",
            at,
        ),
        Step(
            f"Every other entry of dW is also a row of {brief} times a row of {columns}. A matrix product multiplies "
            f"rows by columns, so {columns} is transposed: {product}."
            + ("" if transposed else " In C++ this reads `dw += Mult(grad_b, col_data.T())`."),
            "matrices",
            "dW_row",
            at,
        ),
    ]
    return Story(f"Why is {product}?", tuple(steps))


def _of_input(window: Window, transposed: bool, arrays: Arrays, sums: Sums) -> Story | None:
    products = sums["gx"][0]
    uses = np.bincount(products.index[:, 0], minlength=arrays["gx"].size)
    at = int(np.where(uses == uses.max(), np.abs(arrays["gx"]).ravel(), -1.0).argmax())
    use = _use(arrays, products, at)
    if use is None:
        return None
    number, rows, (gy, w) = use
    x = label("x", at, arrays["x"].shape)
    total = fmt(arrays["gx"].flat[at])
    first = (
        f"{x} = {fmt(arrays['x'].flat[at])} is multiplied by every tap of its kernels, and the products are added to "
        f"{len(rows)} entries of y, which light up: like a stamp that moves by the stride for the next x."
        if transposed
        else f"gx, dX or ∂L/∂x in textbooks, says how much the loss grows with each entry of x. Take one: {x} = "
        f"{fmt(arrays['x'].flat[at])}. While the kernels slide over x, they cover it {_times(len(rows))}, once for "
        "each entry of y that uses it. These light up."
    )
    steps = [
        Step(first, "entries", "x", at, into="y"),
        Step(
            f"One of these uses. {_one_use(arrays, 'x', at, 'w', w, gy)} All {len(rows)} together: {total}.",
            "entries",
            "gx",
            at,
            product=number,
        ),
        _met(window, transposed, arrays, at, gy, w, number),
    ]
    same = _by_the_other(window, transposed, arrays)
    if same:
        steps.append(Step(same, "entries", "gx", at))
    if "dX_col" in arrays:
        entry = int(sums["col2im"][0].of(at)[0, 0])
        steps.append(
            Step(
                "Why “transposed”? As matrices the forward pass is Y_row = W_row · X_col. Backward, each column of "
                "G_row is multiplied by the transpose of the same matrix: dX_col = W_rowᵀ · G_row. It has what each "
                "output sends back to each x that it read; col2im adds up what arrives at the same x.",
                "matrices",
                "dX_col",
                entry,
            )
        )
    elif "dX_row" in arrays:
        groups, channels, _ = arrays["dX_row"].shape
        places = np.arange(arrays["x"].size).reshape(len(arrays["x"]), groups, channels, -1).transpose(1, 2, 0, 3)
        steps.append(
            Step(
                "As matrices: a column of G_col is the window of gy that belongs to one x, for all filters. dX_row = "
                "W_row · G_col multiplies it by the kernels, as the forward pass of an ordinary convolution does.",
                "matrices",
                "dX_row",
                int((places.ravel() == at).argmax()),
            )
        )
    question = "Why is dX a plain convolution of gy?" if transposed else "Why is dX a transposed convolution?"
    return Story(question, tuple(steps))


def _use(arrays: Arrays, products: Products, at: int) -> tuple[int, np.ndarray, tuple[int, int]] | None:
    """Return a gradient entry's largest product outside the padding: its number, all rows, its two factors."""
    rows = products.of(at)
    size = np.abs(products.values(rows, arrays))
    number = int(np.where((rows >= 0).all(1), size, -1.0).argmax()) if len(rows) else 0
    if not len(rows) or not size[number] > 0:
        return None
    return number, rows, (int(rows[number, 0]), int(rows[number, 1]))


def _one_use(arrays: Arrays, name: str, at: int, other: str, place: int, gy: int) -> str:
    """Return text on one use of an entry: its factor, the entry of y, and the contribution to the gradient."""
    y, upstream = (label(each, gy, arrays["y"].shape) for each in ("y", "gy"))
    factor, slope = arrays[other].flat[place], arrays["gy"].flat[gy]
    return (
        f"{y} contains {label(name, at, arrays[name].shape)} · {label(other, place, arrays[other].shape)}, whose "
        f"second factor is {fmt(factor)}: were {name} larger by 1, this y would be larger by {fmt(factor)}. "
        f"{upstream} = {fmt(slope)}, which comes from the layers after this one, says that the loss grows "
        f"{_by(slope)} this y. So this use adds {fmt(slope)} · {fmt(factor)} = {fmt(slope * factor)}."
    )


def _met(window: Window, transposed: bool, arrays: Arrays, at: int, gy: int, w: int, number: int) -> Step:
    """Return a step with the window of gy and the kernel that are multiplied elementwise for one filter."""
    n, _, *place = (int(i) for i in np.unravel_index(at, arrays["x"].shape))
    channel = int(np.unravel_index(gy, arrays["y"].shape)[1])
    kernel = arrays["w"][np.unravel_index(w, arrays["w"].shape)[:2]]
    upstream = arrays["gy"][n, channel]
    patch = np.zeros_like(kernel)
    for taps in np.ndindex(*window.kernel):
        if transposed:  # x is at an output of the window, and gy along its input
            found = [
                o * s + r * d - low
                for o, r, s, d, (low, _) in zip(
                    place, taps, window.stride, window.dilation, window.padding, strict=True
                )
            ]
            steps = (1,) * window.ndim
        else:
            found = [
                i - r * d + low for i, r, d, (low, _) in zip(place, taps, window.dilation, window.padding, strict=True)
            ]
            steps = window.stride
        o = [i // s for i, s in zip(found, steps, strict=True)]
        exact = all(i % s == 0 for i, s in zip(found, steps, strict=True))
        if exact and all(0 <= i < extent for i, extent in zip(o, upstream.shape, strict=True)):
            patch[taps] = upstream[tuple(o)]
    part = fmt(float((patch.astype(np.float64) * kernel).sum()))
    if transposed:
        text = (
            "The stamp fell on a window of y, tap by tap. So gx reads this window of gy and multiplies it by the "
            f"kernel entry by entry, without a flip: that is what a convolution does. Filter {channel} gives {part}."
        )
        pictures = Picture("gy there", patch, "upstream"), Picture("w", kernel, "weight")
        return Step(text, "entries", "gx", at, product=number, pictures=pictures)
    axes = tuple(range(window.ndim))
    gaps = " Where the stride leaves gaps between the windows, gy has zeros." if max(window.stride) > 1 else ""
    text = (
        "Look at the order. An output further to the right has this x further to the left in its window, where it "
        f"meets a tap further left. So gy around this x meets the flipped kernel, {_TURNED[window.ndim]}.{gaps} "
        f"Multiplied entry by entry and added up, filter {channel} gives {part}; the other filters add theirs."
    )
    pictures = (
        Picture("gy around it", np.flip(patch, axes), "upstream"),
        Picture("w, flipped", np.flip(kernel, axes), "weight"),
    )
    return Step(text, "entries", "gx", at, product=number, pictures=pictures)


def _by_the_other(window: Window, transposed: bool, arrays: Arrays) -> str:
    """Return a sentence that the other operator, run on gy and w, gives gx; "" if it cannot be called so."""
    if any(low != high for low, high in window.padding):
        return ""
    name = f"conv{window.ndim}d" if transposed else f"conv_transpose{window.ndim}d"
    options = {
        "stride": (window.stride, 1),
        "padding": (tuple(low for low, _ in window.padding), 0),
        "dilation": (window.dilation, 1),
        "groups": (window.groups, 1),
    }
    given = {key: value for key, (value, usual) in options.items() if value not in (usual, (usual,) * window.ndim)}
    if not transposed:
        rest = tuple(
            i + 2 * low - d * (r - 1) - 1 - (o - 1) * s
            for i, (low, _), d, r, o, s in zip(
                window.input, window.padding, window.dilation, window.kernel, window.output, window.stride, strict=True
            )
        )
        given |= {"output_padding": rest} if any(rest) else {}
    with no_grad():
        found = getattr(F, name)(Tensor(arrays["gy"]), Tensor(arrays["w"]), **given).numpy()
    if found.shape != arrays["gx"].shape:
        return ""
    difference = float(np.abs(found.astype(np.float64) - arrays["gx"]).max(initial=0))
    words = ", ".join(["gy", "w", *(f"{key}={_brief(value)}" for key, value in given.items())])
    outcome = "the same numbers" if difference == 0 else f"the same numbers up to {difference:.1g}"
    ran = f"`F.{name}({words})` was run: its {found.size} entries are those of gx, {outcome}."
    if transposed:
        return (
            "The same holds everywhere: gx is the convolution of gy with the same kernels, the same stride, and "
            f"channels and filters exchanged. {ran}"
        )
    full = "; zeros around gy let them reach beyond the border: a full convolution"
    spread = f", with {max(window.stride) - 1} between its entries for the stride" if max(window.stride) > 1 else ""
    return (
        "The same holds for every x: gx is gy convolved with flipped kernels, filters and channels "
        f"exchanged{full}{spread}. This is called the transposed convolution. {ran}"
    )


def _brief(value: object) -> object:
    """Return 2 for (2, 2)."""
    return value[0] if isinstance(value, tuple) and len(set(value)) == 1 else value


def _by(slope: float) -> str:
    """Return the phrase that says how fast the loss grows with y."""
    return f"{fmt(slope)} times as fast as"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


# ---- Convolutions and transposed convolutions, whose products are the same for y, gx and gw -------------------------

_MOST_AS_MATRICES = 20_000  # products of a convolution that is shown as matrices
_SPACE = {1: "w", 2: "hw", 3: "dhw"}
_TAPS = {1: "s", 2: "rs", 3: "qrs"}
_EXAMPLE_SIZE, _EXAMPLE_KERNEL = {1: 8, 2: 5, 3: 4}, {1: 3, 2: 3, 3: 2}


def _settings(ndim: int, transposed: bool) -> tuple[Setting, ...]:
    size, kernel = _EXAMPLE_SIZE[ndim], _EXAMPLE_KERNEL[ndim]
    if transposed:
        size = {1: 5, 2: 3, 3: 2}[ndim]
    return (
        Setting("stride", 2 if transposed else 1, (1, 2, 3), "how far the window moves from one output to the next"),
        Setting("padding", 1 if ndim < 3 and not transposed else 0, (0, 1, 2), "zeros around the input"),
        Setting("dilation", 1, (1, 2), "how far apart the taps of the kernel are"),
        Setting("groups", 1, (1, 2), "into how many groups the channels are split, each with its own kernels"),
        Setting("batch", 1, (1, 2, 3), "samples"),
        Setting("channels", 2 if ndim < 3 else 1, (1, 2, 4), "channels of the input"),
        Setting("filters", 2 if ndim < 3 else 1, (1, 2, 4), "channels of the result"),
        Setting("size", size, tuple(range(2, {1: 13, 2: 9, 3: 6}[ndim])), "positions of the input on each axis"),
        Setting("kernel", kernel, (1, 2, 3, 4)[: 4 if ndim < 3 else 3], "positions of the kernel on each axis"),
        VALUES,
    )


def _example(ndim: int, transposed: bool, options: Mapping[str, Any]) -> Arrays:
    groups, values = options["groups"], options["values"]
    ci, co = options["channels"], options["filters"]
    channels = (ci, co // groups) if transposed else (co, ci // groups)
    if ci % groups or co % groups:
        raise ValueError(f"channels={ci} and filters={co} must be multiples of groups={groups}")
    return {
        "x": draw((options["batch"], ci, *(options["size"],) * ndim), values, 1, 0, 4),
        "w": draw((*channels, *(options["kernel"],) * ndim), values, 2, -1, 2),
        "b": draw((co,), values, 3),
    }


_ARGUMENTS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}


def _case(name: str, ndim: int, transposed: bool, inputs: Arrays, options: Mapping[str, Any]) -> Case:
    more = {"output_padding": 0} if transposed else {}
    given = arguments(name, options, _ARGUMENTS | more, _settings(ndim, transposed))
    extra = {key: value for key in more if (value := given.pop(key))}
    function = getattr(F, name)
    x, w = inputs["x"], inputs["w"]
    if transposed:
        window = conv_transpose_window(
            x.shape[2:],
            w.shape[2:],
            frozen(given["stride"]),
            frozen(given["padding"]),
            frozen(extra.get("output_padding", 0)),
            frozen(given["dilation"]),
            given["groups"],
        )
    else:
        window = _window(x.shape[2:], w.shape[2:], **{key: frozen(value) for key, value in given.items()})
    space, taps = _SPACE[ndim], _TAPS[ndim]
    x_axes, y_axes = f"nc{space}", f"nk{space}"
    w_axes = f"ck{taps}" if transposed else f"kc{taps}"
    padding: Padding = () if transposed else window.padding
    shown = {
        "x": Array(x, x_axes, "input", "the input", padding),
        "w": Array(w, w_axes, "weight", "the kernels: one for each channel of the result and of the input"),
    }
    if "b" in inputs:
        shown["b"] = Array(inputs["b"], "k", "weight", "the bias: one number for each channel of the result")

    def call(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        return function(x, w, b, **given, **extra)

    as_matrices = len(x) * w.size * math.prod(window.output) <= _MOST_AS_MATRICES
    make, multiply = (transposed_matrices, sums_of_transposed) if transposed else (matrices, sums_of_matrices)

    def sums(arrays: Arrays) -> dict[str, list[Products]]:
        found = _sums(window, transposed, arrays)
        return found | multiply(window, arrays) if as_matrices else found

    return Case(
        name=name,
        call=call,
        inputs=shown,
        output=(y_axes, "the result"),
        sums=sums,
        formulas=_formulas(ndim, transposed, "b" in inputs),
        source=call_text(f"F.{name}", inputs, {k: v for k, v in given.items() if v != _ARGUMENTS[k]} | extra),
        inner=lambda arrays: make(window, arrays) if as_matrices else {},
        algorithms=lambda arrays: [] if transposed else algorithms_of(window, arrays),
        bugs=CONV_TRANSPOSE if transposed else CONVOLUTION,
        stories=lambda arrays, sums: stories(window, transposed, arrays, sums),
        step=1.0,
    )


def _window(
    size: tuple[int, ...], kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: int
) -> Window:
    """Return the window of a convolution, whose padding may be a string."""
    if isinstance(padding, str):
        steps, apart = (as_tuple(each, len(size), "stride or dilation", at_least=1) for each in (stride, dilation))
        padding = conv_padding(padding, size, kernel, steps, apart)
    return conv_window(size, kernel, stride, padding, dilation, groups)


def _sums(window: Window, transposed: bool, arrays: Arrays) -> dict[str, list[Products]]:
    """Return the products of y, gx, gw and gb; for a transposed convolution with x and y exchanged."""
    wide, narrow = ("y", "x") if transposed else ("x", "y")  # the arrays of window.input and of window.output
    batch, channels = arrays[wide].shape[:2]
    sizes = window, batch, channels, arrays["w"].shape
    if transposed:  # products in the padding are cropped: they are not part of the result
        found = {
            "y": [convolved(*sizes, "x", {"y": "x", "w": "w"})],
            "gx": [convolved(*sizes, "y", {"x": "gy", "w": "w"}, False)],
            "gw": [convolved(*sizes, "w", {"x": "gy", "y": "x"}, False)],
        }
    else:
        found = {
            "y": [convolved(*sizes, "y", {"x": "x", "w": "w"})],
            "gx": [convolved(*sizes, "x", {"y": "gy", "w": "w"})],
            "gw": [convolved(*sizes, "w", {"y": "gy", "x": "x"})],
        }
    if "b" in arrays:
        shape = arrays["y"].shape  # (N, Co, *O)
        found["y"].append(Products(("b",), partial(_bias_of_result, shape)))
        found["gb"] = [Products(("gy",), partial(_results_of_bias, shape))]
    return found


def _bias_of_result(shape: tuple[int, ...], entry: int | None) -> np.ndarray:
    """Return rows (entry of y, its channel)."""
    outputs = np.arange(math.prod(shape)) if entry is None else np.array([entry])
    return np.stack([outputs, outputs // math.prod(shape[2:]) % shape[1]], 1)


def _results_of_bias(shape: tuple[int, ...], entry: int | None) -> np.ndarray:
    """Return rows (channel, entry of y)."""
    channels = np.arange(shape[1]) if entry is None else np.array([entry])
    places = math.prod(shape[2:])
    n, o = np.arange(shape[0])[:, None, None] * shape[1], np.arange(places)
    outputs = (n + channels[:, None]) * places + o  # (N, channels, places)
    return np.stack([np.broadcast_to(channels[:, None], outputs.shape).ravel(), outputs.ravel()], 1)


def _formulas(ndim: int, transposed: bool, bias: bool) -> dict[str, str]:
    space, taps = ", ".join(_SPACE[ndim]), ", ".join(_TAPS[ndim])
    outputs = ", ".join({1: "o", 2: "po", 3: "mpo"}[ndim])
    reads = ", ".join(
        f"{o}·stride + {r}·dilation − padding" for o, r in zip(outputs.split(", "), _TAPS[ndim], strict=True)
    )
    plus = " + b[k]" if bias else ""
    if transposed:
        return {
            "y": f"y[n, k, {reads}] += x[n, c, {outputs}] · w[c, k, {taps}]{plus}",
            "gx": f"gx[n, c, {outputs}] = Σ gy[n, k, {reads}] · w[c, k, {taps}]   over k, {taps}",
            "gw": f"gw[c, k, {taps}] = Σ gy[n, k, {reads}] · x[n, c, {outputs}]   over n, {outputs}",
            "gb": f"gb[k] = Σ gy[n, k, {space}]   over n, {space}",
        }
    return {
        "y": f"y[n, k, {outputs}] = Σ x[n, c, {reads}] · w[k, c, {taps}]{plus}   over c, {taps}",
        "gx": f"gx[n, c, {space}] = Σ gy[n, k, {outputs}] · w[k, c, {taps}]   over k, {taps}, where {reads} = {space}",
        "gw": f"gw[k, c, {taps}] = Σ gy[n, k, {outputs}] · x[n, c, {reads}]   over n, {outputs}",
        "gb": f"gb[k] = Σ gy[n, k, {outputs}]   over n, {outputs}",
    }


def _operator(ndim: int, transposed: bool) -> Operator:
    name = f"conv_transpose{ndim}d" if transposed else f"conv{ndim}d"
    return Operator(
        name,
        ("x", "w"),
        ("b",),
        _settings(ndim, transposed),
        lambda options: _example(ndim, transposed, options),
        lambda inputs, options: _case(name, ndim, transposed, inputs, options),
    )


OPERATORS = {each.name: each for each in (_operator(n, t) for t in (False, True) for n in (1, 2, 3))}
