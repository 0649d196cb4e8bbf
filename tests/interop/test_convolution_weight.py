"""Weights in the layouts of MXNet, SINGA and numpy-ml: our layers agree with their formulas."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from retrograd import interop, nn
from retrograd.engine.tensor import Tensor

rng = np.random.default_rng(3)


def _load(layer: Any, weight: np.ndarray) -> Any:
    layer.load_state_dict({"weight": weight})
    return layer


def test_singa_multiplies_a_matrix_with_columns() -> None:
    """Y = W @ X, where a column of X has the channels, rows and columns of one window, in this order (Im2col)."""
    w, x = rng.normal(size=(4, 3 * 2 * 5)), rng.normal(size=(1, 3, 4, 6))
    columns = [x[0, :, i : i + 2, j : j + 5].ravel() for i, j in itertools.product(range(3), range(2))]
    layer = _load(nn.Conv2d(3, 4, (2, 5), bias=False, dtype=np.float64), interop.conv_weight_from_singa(w, (2, 5)))
    np.testing.assert_allclose(layer(Tensor(x)).array.reshape(4, -1), w @ np.array(columns).T, rtol=1e-12)
    np.testing.assert_array_equal(interop.conv_weight_to_singa(layer.weight), w)

    # its gradient to the input, dX = col2im(W^T G), is the transposed convolution with the same matrix
    g, back = rng.normal(size=(1, 4, 3, 2)), np.zeros((1, 3, 4, 6))
    for (i, j), column in zip(itertools.product(range(3), range(2)), (w.T @ g.reshape(4, -1)).T, strict=True):
        back[0, :, i : i + 2, j : j + 5] += column.reshape(3, 2, 5)
    transposed = nn.ConvTranspose2d(4, 3, (2, 5), bias=False, dtype=np.float64)
    _load(transposed, interop.conv_weight_from_singa(w, (2, 5)))
    np.testing.assert_allclose(transposed(Tensor(g)).array, back, rtol=1e-12)
    assert interop.conv_weight_from_singa(w, 1).shape == (4, 30, 1, 1)


def _numpy_ml_conv(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """x (N, H, W, Ci), w (kr, kc, Ci, Co): windows of x times w."""
    kr, kc, _, co = w.shape
    n, rows, columns, _ = x.shape
    y = np.zeros((n, rows - kr + 1, columns - kc + 1, co))
    for i, j in itertools.product(range(y.shape[1]), range(y.shape[2])):
        y[:, i, j] = np.einsum("nrci,rcio->no", x[:, i : i + kr, j : j + kc], w)
    return y


def test_numpy_ml() -> None:
    x, w = rng.normal(size=(2, 5, 4, 3)), rng.normal(size=(2, 3, 3, 4))
    layer = nn.Conv2d(3, 4, (2, 3), bias=False, dtype=np.float64)
    _load(layer, interop.conv_weight_from_numpy_ml(w))
    y = layer(Tensor(x.transpose(0, 3, 1, 2))).array.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(y, _numpy_ml_conv(x, w), rtol=1e-12)
    np.testing.assert_array_equal(interop.conv_weight_to_numpy_ml(layer.weight), w)

    # Deconv2D: rows and columns of zeros between those of x, zeros around them, a convolution with w turned round
    wide = np.zeros((2, 9 + 2, 7 + 4, 3))
    wide[:, 1:-1:2, 2:-2:2] = x
    transposed = nn.ConvTranspose2d(3, 4, (2, 3), stride=2, bias=False, dtype=np.float64)
    _load(transposed, interop.conv_weight_from_numpy_ml(w, transposed=True))
    y = transposed(Tensor(x.transpose(0, 3, 1, 2))).array.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(y, _numpy_ml_conv(wide, np.rot90(w, 2)), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(interop.conv_weight_to_numpy_ml(transposed.weight, transposed=True), w)


@pytest.mark.parametrize(("ndim", "layouts"), [(1, ("NCW", "NWC")), (2, ("NCHW", "NHWC")), (3, ("NCDHW", "NDHWC"))])
def test_mxnet(ndim: int, layouts: tuple[str, str]) -> None:
    first, last = layouts
    w = rng.normal(size=(4, 3, *(2, 5, 6)[:ndim]))
    moved = w.transpose(0, *range(2, ndim + 2), 1)  # (Co, *R, Ci/groups)
    for weight, layout in ((w, None), (w, first), (moved, last)):
        ours = interop.conv_weight_from_mxnet(weight, layout)
        np.testing.assert_array_equal(ours, w)
        assert not np.shares_memory(ours, w)
        np.testing.assert_array_equal(interop.conv_weight_to_mxnet(Tensor(w), layout), weight)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: interop.conv_weight_to_singa([1]), TypeError, "conv_weight_to_singa: weight must be a Tensor or"),
        (
            lambda: interop.conv_weight_from_singa(np.zeros((2, 7)), (2, 2)),
            ValueError,
            "weight.shape=(2, 7) has 7 columns, not a multiple of",
        ),
        (
            lambda: interop.conv_weight_from_singa(np.zeros((2, 2, 2)), 2),
            ValueError,
            "conv_weight_from_singa: weight has 3 axes, needs 2; weight.shape=(2, 2, 2)",
        ),
        (
            lambda: interop.conv_weight_from_singa(np.zeros((2, 2)), (1, 1, 1, 1)),
            ValueError,
            "conv_weight_from_singa: kernel_size=(1, 1, 1, 1) must have 1 to 3 entries",
        ),
        (lambda: interop.conv_weight_from_singa(np.zeros((2, 2)), 1.5), TypeError, "kernel_size=1.5 must be an int"),
        (lambda: interop.conv_weight_to_numpy_ml(np.zeros(3)), ValueError, "weight has 1 axes, needs 3 or 4 or 5"),
        (
            lambda: interop.conv_weight_from_mxnet(np.zeros((1, 1, 1)), "NHWC"),
            ValueError,
            "conv_weight_from_mxnet: layout='NHWC' must be 'NCW' or 'NWC' for weight.shape=(1, 1, 1)",
        ),
    ],
)
def test_messages(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        call()
