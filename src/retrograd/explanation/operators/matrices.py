"""A convolution as products of matrices: im2col's columns, the weights' rows, and col2im, for each group.

    Y = W_row X_col        dW_row = G_row X_col^T        dX_col = W_row^T G_row        gx = col2im(dX_col)

X_col has a column for each output of each sample, with everything that this output reads; u counts channels and taps,
o samples and outputs. All but dX_col hold copies of entries of x, w, y, gy and gw. col2im adds each entry of dX_col to
the entry of x that the same entry of X_col was copied from.
"""

from __future__ import annotations

import math

import numpy as np

from ...geometry import Window
from ..explanation import Array
from ..measure import Arrays
from ..sums import Products, along, convolution, einsum

__all__ = ["NAMES", "matrices", "sums_of_matrices"]

NAMES = "W_row", "X_col", "Y_row", "G_row", "dW_row", "dX_col", "col2im"
_ABOUT = {
    "W_row": "the weights, one row for each channel of the result",
    "X_col": "im2col(x): one column for each output, with all that it reads",
    "Y_row": "the result: W_row X_col",
    "G_row": "the upstream gradient, in the order of Y",
    "dW_row": "the gradient to the weights: G_row X_colᵀ",
    "dX_col": "the gradient to the columns: W_rowᵀ G_row",
    "col2im": "the gradient to x: each entry of dX_col is added to the entry of x that it was copied from",
}


def matrices(window: Window, arrays: Arrays) -> dict[str, Array]:
    """The matrices of a run, from its x, w, y, gy and, where they were computed, gx and gw."""
    reads, taps, outputs = _indices(window, arrays)
    where = {
        "W_row": ("w", "inner", "gku", taps),
        "X_col": ("x", "inner", "guo", reads),
        "Y_row": ("y", "inner", "gko", outputs),
        "G_row": ("gy", "upstream", "gko", outputs),
        "dW_row": ("gw", "inner", "gku", taps),
    }
    found = {}
    for name, (source, role, axes, index) in where.items():
        flat = arrays[source].ravel()
        values = np.where(index < 0, 0, flat[np.maximum(index, 0)]).astype(flat.dtype)
        found[name] = Array(values, axes, role, _ABOUT[name], view="matrices", copies=(source, index))
    columns = np.swapaxes(found["W_row"].values, 1, 2) @ found["G_row"].values
    found["dX_col"] = Array(columns, "guo", "inner", _ABOUT["dX_col"], view="matrices")
    x = arrays["x"]
    axes = "nc" + "dhw"[3 - window.ndim :]
    found["col2im"] = Array(arrays["gx"], axes, "inner", _ABOUT["col2im"], window.padding, "matrices", ("gx", _all(x)))
    return {name: found[name] for name in NAMES}


def sums_of_matrices(window: Window, arrays: Arrays) -> dict[str, list[Products]]:
    """The products of Y_row, dW_row, dX_col and col2im."""
    reads, _, _ = _indices(window, arrays)
    shapes = {name: arrays[name].shape for name in ("W_row", "X_col", "G_row")}
    inside = reads.ravel() >= 0
    columns = np.arange(reads.size)
    found = {
        "Y_row": [einsum("gku,guo->gko", (shapes["W_row"], shapes["X_col"]), ("W_row", "X_col"))],
        "dW_row": [einsum("gko,guo->gku", (shapes["G_row"], shapes["X_col"]), ("G_row", "X_col"))],
        "dX_col": [einsum("gku,gko->guo", (shapes["W_row"], shapes["G_row"]), ("W_row", "G_row"))],
        "col2im": [along(reads.ravel()[inside], ("dX_col",), (columns[inside],))],
    }
    if "b" in arrays:
        groups, filters, outputs = arrays["Y_row"].shape
        channel = np.arange(groups * filters).repeat(outputs)
        found["Y_row"].append(along(np.arange(channel.size), ("b",), (channel,)))
    return found


def _indices(window: Window, arrays: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Flat indices of x (G, C*R, N*O), of w (G, K, C*R) and of y (G, K, N*O)."""
    x, w, y = arrays["x"], arrays["w"], arrays["y"]
    G, N, C = window.groups, len(x), w.shape[1]
    K, R, places = len(w) // G, window.taps, math.prod(window.output)
    table = convolution(window, N, x.shape[1], w.shape)["x"].reshape(N, G, K, places, C, R)
    reads = table[:, :, 0].transpose(1, 3, 4, 0, 2).reshape(G, C * R, N * places)  # (N, G, O, C, R) -> (G, C*R, N*O)
    outputs = _all(y).reshape(N, G, K, places).transpose(1, 2, 0, 3).reshape(G, K, N * places)
    return reads, _all(w).reshape(G, K, C * R), outputs


def _all(array: np.ndarray) -> np.ndarray:
    return np.arange(array.size).reshape(array.shape)
