"""Convolutions and linear layers as matrix products: im2col's columns, the weights' rows, and col2im, per group.

A convolution:

    Y = W_row X_col        dW_row = G_row X_col^T        dX_col = W_row^T G_row        gx = col2im(dX_col)

A transposed convolution, where x and y change places:

    Y_col = W_row^T X_row        y = col2im(Y_col)        dW_row = X_row G_col^T        dX_row = W_row G_col

A linear layer:

    Y = X W^T        dW = G^T X        dX = G W

X_col has a column for each output of each sample, with everything that this output reads; u counts channels and taps, o
samples and outputs. All matrices but dX_col and Y_col contain copies of entries of x, w, y, gy, gx and gw. col2im adds
each entry of dX_col to the entry of x that the same entry of X_col was copied from, and each entry of Y_col to the
entry of y that it is a part of.
"""

from __future__ import annotations

import math

import numpy as np

from ...specs.geometry import Window
from ..explanation import Array
from ..measurements import Arrays
from ..products import Products, along, convolution, einsum

__all__ = [
    "NAMES",
    "linear_matrices",
    "matrices",
    "sums_of_linear",
    "sums_of_matrices",
    "sums_of_transposed",
    "transposed_matrices",
]

NAMES = "W_row", "X_col", "Y_row", "G_row", "dW_row", "dX_col", "col2im"
_TRANSPOSED = "W_row", "X_row", "Y_col", "col2im", "G_col", "dW_row", "dX_row"
_ABOUT = {
    "W_row": "the weights, one row for each channel of the result",
    "X_col": "im2col(x): one column for each output, with all that it reads",
    "Y_row": "the result: W_row X_col",
    "G_row": "the upstream gradient, in the order of Y",
    "dW_row": "the gradient of the weights: G_row X_colᵀ",
    "dX_col": "the gradient of the columns: W_rowᵀ G_row",
    "col2im": "the gradient of x: each entry of dX_col is added to the entry of x that it was copied from",
}
_ABOUT_TRANSPOSED = {
    "W_row": "the weights, one row for each channel of the input",
    "X_row": "the input, one row for each channel",
    "Y_col": "what each entry of x adds to the result: W_rowᵀ X_row",
    "col2im": "the result: each entry of Y_col is added to the entry of y where its tap lies",
    "G_col": "im2col(gy): one column for each entry of x, with all that it was added to",
    "dW_row": "the gradient of the weights: X_row G_colᵀ",
    "dX_row": "the gradient of x, an ordinary convolution of gy: W_row G_col",
}
_LINEAR = {
    "X": ("x", "nc", "the input, one row for each sample"),
    "W": ("w", "kc", "the weights, one row for each output"),
    "Y": ("y", "nk", "the result: X Wᵀ"),
    "G": ("gy", "nk", "the upstream gradient, one row for each sample"),
    "dW": ("gw", "kc", "the gradient of the weights: Gᵀ X"),
    "dX": ("gx", "nc", "the gradient of the input: G W"),
}


def matrices(window: Window, arrays: Arrays) -> dict[str, Array]:
    """Return the matrices of a convolution that ran, from its x, w, y, gy and, if computed, gx and gw."""
    reads, taps, outputs = _indices(window, arrays["x"], arrays["w"], arrays["y"])
    found = {
        "W_row": _copied(arrays, "w", taps, "gku", _ABOUT["W_row"]),
        "X_col": _copied(arrays, "x", reads, "guo", _ABOUT["X_col"]),
        "Y_row": _copied(arrays, "y", outputs, "gko", _ABOUT["Y_row"]),
        "G_row": _copied(arrays, "gy", outputs, "gko", _ABOUT["G_row"]),
        "dW_row": _copied(arrays, "gw", taps, "gku", _ABOUT["dW_row"]),
    }
    columns = np.swapaxes(found["W_row"].values, 1, 2) @ found["G_row"].values
    found["dX_col"] = Array(columns, "guo", "inner", _ABOUT["dX_col"], view="matrices")
    found["col2im"] = _image(arrays["gx"], "gx", "nc", _ABOUT["col2im"], window.padding)
    return {name: found[name] for name in NAMES}


def transposed_matrices(window: Window, arrays: Arrays) -> dict[str, Array]:
    """Return the matrices of a transposed convolution; ``window``: of the convolution whose input gradient it is."""
    reads, taps, inputs = _indices(window, arrays["y"], arrays["w"], arrays["x"])
    found = {
        "W_row": _copied(arrays, "w", taps, "gcu", _ABOUT_TRANSPOSED["W_row"]),
        "X_row": _copied(arrays, "x", inputs, "gco", _ABOUT_TRANSPOSED["X_row"]),
        "G_col": _copied(arrays, "gy", reads, "guo", _ABOUT_TRANSPOSED["G_col"]),
        "dW_row": _copied(arrays, "gw", taps, "gcu", _ABOUT_TRANSPOSED["dW_row"]),
        "dX_row": _copied(arrays, "gx", inputs, "gco", _ABOUT_TRANSPOSED["dX_row"]),
    }
    columns = np.swapaxes(found["W_row"].values, 1, 2) @ found["X_row"].values
    found["Y_col"] = Array(columns, "guo", "inner", _ABOUT_TRANSPOSED["Y_col"], view="matrices")
    found["col2im"] = _image(arrays["y"], "y", "nk", _ABOUT_TRANSPOSED["col2im"])
    return {name: found[name] for name in _TRANSPOSED}


def linear_matrices(arrays: Arrays) -> dict[str, Array]:
    """Return the matrices of a linear layer, whose arrays are matrices except for leading axes."""
    found = {}
    for name, (source, axes, about) in _LINEAR.items():
        index = _all(arrays[source])
        found[name] = _copied(arrays, source, index.reshape(-1, index.shape[-1]), axes, about)
    return found


def sums_of_matrices(window: Window, arrays: Arrays) -> dict[str, list[Products]]:
    """Return the products of Y_row, dW_row, dX_col and col2im."""
    reads, _, _ = _indices(window, arrays["x"], arrays["w"], arrays["y"])
    shapes = {name: arrays[name].shape for name in ("W_row", "X_col", "G_row")}
    found = {
        "Y_row": [einsum("gku,guo->gko", (shapes["W_row"], shapes["X_col"]), ("W_row", "X_col"))],
        "dW_row": [einsum("gko,guo->gku", (shapes["G_row"], shapes["X_col"]), ("G_row", "X_col"))],
        "dX_col": [einsum("gku,gko->guo", (shapes["W_row"], shapes["G_row"]), ("W_row", "G_row"))],
        "col2im": [_scattered(reads, "dX_col")],
    }
    if "b" in arrays:
        groups, filters, outputs = arrays["Y_row"].shape
        found["Y_row"].append(_bias(np.arange(groups * filters).repeat(outputs)))
    return found


def sums_of_transposed(window: Window, arrays: Arrays) -> dict[str, list[Products]]:
    """Return the products of Y_col, col2im, dW_row and dX_row."""
    reads, _, _ = _indices(window, arrays["y"], arrays["w"], arrays["x"])
    shapes = {name: arrays[name].shape for name in ("W_row", "X_row", "G_col")}
    found = {
        "Y_col": [einsum("gcu,gco->guo", (shapes["W_row"], shapes["X_row"]), ("W_row", "X_row"))],
        "col2im": [_scattered(reads, "Y_col")],
        "dW_row": [einsum("gco,guo->gcu", (shapes["X_row"], shapes["G_col"]), ("X_row", "G_col"))],
        "dX_row": [einsum("gcu,guo->gco", (shapes["W_row"], shapes["G_col"]), ("W_row", "G_col"))],
    }
    if "b" in arrays:
        samples, filters, *space = arrays["y"].shape
        found["col2im"].append(_bias(np.tile(np.arange(filters).repeat(int(np.prod(space))), samples)))
    return found


def sums_of_linear(arrays: Arrays) -> dict[str, list[Products]]:
    """Return the products of Y, dW and dX."""
    shapes = {name: arrays[name].shape for name in ("X", "W", "G")}
    found = {
        "Y": [einsum("nc,kc->nk", (shapes["X"], shapes["W"]), ("X", "W"))],
        "dW": [einsum("nk,nc->kc", (shapes["G"], shapes["X"]), ("G", "X"))],
        "dX": [einsum("nk,kc->nc", (shapes["G"], shapes["W"]), ("G", "W"))],
    }
    if "b" in arrays:
        samples, outputs = arrays["Y"].shape
        found["Y"].append(_bias(np.tile(np.arange(outputs), samples)))
    return found


def _copied(arrays: Arrays, source: str, index: np.ndarray, axes: str, about: str) -> Array:
    """Return a matrix of entries of an array; a negative index is padding."""
    flat = arrays[source].ravel()
    values = np.where(index < 0, 0, flat[np.maximum(index, 0)]).astype(flat.dtype)
    role = "upstream" if source == "gy" else "inner"
    return Array(values, axes, role, about, view="matrices", copies=(source, index))


def _image(values: np.ndarray, source: str, lead: str, about: str, padding: tuple[tuple[int, int], ...] = ()) -> Array:
    axes = lead + "dhw"[5 - values.ndim :]
    return Array(values, axes, "inner", about, padding, "matrices", (source, _all(values)))


def _scattered(reads: np.ndarray, columns: str) -> Products:
    """Return products that add each entry of the columns to the entry given by ``reads``; none for the padding."""
    inside = reads.ravel() >= 0
    return along(reads.ravel()[inside], (columns,), (np.arange(reads.size)[inside],))


def _bias(channel: np.ndarray) -> Products:
    return along(np.arange(channel.size), ("b",), (channel,))


def _indices(
    window: Window, wide: np.ndarray, w: np.ndarray, narrow: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return flat indices of the array of window.input (G, C*R, N*O), of w (G, K, C*R), of the output's (G, K, N*O)."""
    G, N, C = window.groups, len(wide), w.shape[1]
    K, R, places = len(w) // G, window.taps, math.prod(window.output)
    table = convolution(window, N, wide.shape[1], w.shape)["x"].reshape(N, G, K, places, C, R)
    reads = table[:, :, 0].transpose(1, 3, 4, 0, 2).reshape(G, C * R, N * places)  # (N, G, O, C, R) -> (G, C*R, N*O)
    outputs = _all(narrow).reshape(N, G, K, places).transpose(1, 2, 0, 3).reshape(G, K, N * places)
    return reads, _all(w).reshape(G, K, C * R), outputs


def _all(array: np.ndarray) -> np.ndarray:
    return np.arange(array.size).reshape(array.shape)
