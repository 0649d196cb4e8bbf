"""Guided stories about the gradients of convolutions and transposed convolutions, with the numbers of the run.

Each story follows one entry of w or of x. It shows the products that use it, what one of these uses adds to its
gradient, and the sum of all of them. For the weights of a convolution, it ends with the terms of the samples, which
SINGA adds up one by one: dw += Mult(grad_b, col_data.T()).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor
from ...nn import functional as F  # noqa: N812  PyTorch's name
from ...specs.geometry import Window
from ..explanation import Picture, Step, Story, fmt, label
from ..measurements import Arrays
from ..products import Products

__all__ = ["stories"]

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
            f"rows by columns, so {columns} is transposed: {product}.",
            "matrices",
            "dW_row",
            at,
        ),
    ]
    if not transposed:
        steps += _by_sample(arrays, sums["gw"][0], at)
    return Story(f"Why is {product}?", tuple(steps))


def _by_sample(arrays: Arrays, products: Products, at: int) -> list[Step]:
    """Return the steps about SINGA's loop over the samples: what grad_b is, and why its terms are added to dw."""
    samples, outputs = len(arrays["gy"]), math.prod(arrays["gy"].shape[2:])
    terms = _terms(arrays, products, at)
    shown = _shown(terms)
    entry, total = label("gw", at, arrays["gw"].shape), fmt(arrays["gw"].flat[at])
    if samples == 1:
        columns, parts = "all columns of G_row, because this run has one sample", total
    else:
        columns = " and ".join(f"columns {b * outputs}–{(b + 1) * outputs - 1} for b = {b}" for b in (0, 1))
        columns = f"in G_row, {columns}"
        parts = " and ".join(f"{fmt(term)} for b = {b}" for b, term in enumerate(terms[:2]))
    first = (
        "In SINGA's C++ this is a loop over the samples b of the batch: `dw += Mult(grad_b, col_data.T())`. `grad_b` "
        f"is gy[b], the output gradient of sample b, with a row for each filter ({columns}). `col_data` is im2col of "
        f"x[b], the same columns of X_col. Their product is what sample b alone adds to dW. To {entry} it adds {parts}."
    )
    why = (
        "`+=` adds one such term for each sample to dw, which starts at 0. All samples share the same w. If a weight "
        "changes, the y of every sample changes, so the gradient is the sum of the terms"
    )
    if samples == 1:
        second = f"{why}. In this run there is only one, {total}; with a larger batch there are more."
        return [Step(text, "matrices", "dW_row", at) for text in (first, second)]
    added = " + ".join(fmt(term) if term >= 0 else f"({fmt(term)})" for term in shown)
    second = (
        f"{why}: {added} = {total}. The product G · X_colᵀ has the columns of all samples, and so it adds them up too. "
        f"With `=` in place of `+=`, only the last sample would count: {fmt(terms[-1])} in place of {total}."
    )
    return [
        Step(first, "matrices", "dW_row", at),
        Step(second, "matrices", "dW_row", at, pictures=_pictures_of_terms(arrays, products, at)),
    ]


def _terms(arrays: Arrays, products: Products, at: int) -> np.ndarray:
    """Return what each sample adds to an entry of gw."""
    rows, samples = products.of(at), len(arrays["gy"])
    return np.bincount(rows[:, 0] // (arrays["gy"].size // samples), products.values(rows, arrays), samples)


def _shown(terms: np.ndarray) -> np.ndarray:
    """Return the terms of up to three samples; of more, those of the first two and the sum of all others."""
    return terms if len(terms) <= 3 else np.append(terms[:2], terms[2:].sum())


def _pictures_of_terms(arrays: Arrays, products: Products, at: int) -> tuple[Picture, ...]:
    """Return the terms of all taps of the kernel that an entry belongs to, and their sum."""
    shape, samples = arrays["gw"].shape, len(arrays["gy"])
    taps = math.prod(shape[2:])
    k, c = (int(i) for i in np.unravel_index(at, shape)[:2])
    kernel = range(at // taps * taps, (at // taps + 1) * taps)
    terms = np.array([_shown(_terms(arrays, products, tap)) for tap in kernel]).T
    titles = [f"b = {b}" for b in range(len(terms))]
    if samples > len(terms):
        titles[-1] = f"b = 2 to {samples - 1}"
    signs = ["", *["+"] * len(terms)]
    found = [
        Picture(title, term.reshape(shape[2:]), "gradient", sign)
        for title, term, sign in zip(titles, terms, signs, strict=False)
    ]
    return (*found, Picture(f"gw[{k}, {c}]", arrays["gw"][k, c], "gradient", "="))


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
        pictures = Picture("gy there", patch, "upstream"), Picture("w", kernel, "weight", "×")
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
        Picture("w, flipped", np.flip(kernel, axes), "weight", "×"),
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
