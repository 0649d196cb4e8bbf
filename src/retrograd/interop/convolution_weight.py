"""Weights of convolutions in the layouts of MXNet, SINGA and numpy-ml, to and from that of PyTorch, which is ours.

    Conv           (Co, Ci/groups, *R)      y[o] = sum x[o*stride + r*dilation - padding] w[r]
    ConvTranspose  (Ci, Co/groups, *R)      y[i*stride + r*dilation - padding] += x[i] w[r]

None of them turns the kernel round: numpy-ml's Deconv2D turns its own when it computes. Values are copied; what comes
out is an array, which ``load_state_dict({"weight": ...})`` takes. A bias is (Co,) everywhere, but in numpy-ml, where it
has the axes of y: ``b.reshape(-1)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..engine.tensor import Tensor
from ..geometry import as_tuple

__all__ = [
    "conv_weight_from_mxnet", "conv_weight_from_numpy_ml", "conv_weight_from_singa", "conv_weight_to_mxnet",
    "conv_weight_to_numpy_ml", "conv_weight_to_singa",
]  # fmt: skip

# MXNet's layouts: whether channels come last
_LAYOUTS = {"NCW": False, "NCHW": False, "NCDHW": False, "NWC": True, "NHWC": True, "NDHWC": True}


def conv_weight_from_mxnet(weight: Tensor | np.ndarray, layout: str | None = None) -> np.ndarray:
    """A weight of MXNet's Convolution or Deconvolution as (Co, Ci/groups, *R) or (Ci, Co/groups, *R).

    layout: the operator's: "NCW", "NCHW" or "NCDHW" (the default), where the weight is as ours; or "NWC", "NHWC" or
        "NDHWC", where it is (Co, *R, Ci/groups), of a Deconvolution (Ci, *R, Co/groups).

    Raises:
        TypeError: weight is neither a Tensor nor an array.
        ValueError: weight has not 3, 4 or 5 axes, or the layout is not one for it.
    """
    array = _array("conv_weight_from_mxnet", weight)
    last = _channels_last("conv_weight_from_mxnet", array, layout)
    return np.array(np.moveaxis(array, -1, 1) if last else array, order="C")


def conv_weight_to_mxnet(weight: Tensor | np.ndarray, layout: str | None = None) -> np.ndarray:
    """(Co, Ci/groups, *R) or (Ci, Co/groups, *R) as a weight of MXNet's Convolution or Deconvolution.

    layout: see ``conv_weight_from_mxnet``.

    Raises:
        TypeError: weight is neither a Tensor nor an array.
        ValueError: weight has not 3, 4 or 5 axes, or the layout is not one for it.
    """
    array = _array("conv_weight_to_mxnet", weight)
    last = _channels_last("conv_weight_to_mxnet", array, layout)
    return np.array(np.moveaxis(array, 1, -1) if last else array, order="C")


def conv_weight_from_singa(weight: Tensor | np.ndarray, kernel_size: int | Sequence[int]) -> np.ndarray:
    """A matrix (Co, Ci * product of R), as SINGA's Convolution layer keeps its weight, as (Co, Ci, *R).

    With the matrix (Ci, Co * product of R) of the convolution that it is the gradient of, a transposed one has
    (Ci, Co, *R).

    kernel_size: R, (height, width); an int is both of them.

    Raises:
        TypeError: weight is neither a Tensor nor an array, or kernel_size has other things than ints.
        ValueError: weight has not 2 axes, kernel_size not 1 to 3 positive entries, or its product does not divide the
            columns.
    """
    array = _array("conv_weight_from_singa", weight, (2,))
    ndim = len(kernel_size) if isinstance(kernel_size, Sequence) else 2
    kernel = as_tuple(kernel_size, ndim, "conv_weight_from_singa: kernel_size", 1)
    if not 1 <= len(kernel) <= 3:
        raise ValueError(f"conv_weight_from_singa: kernel_size={kernel_size!r} must have 1 to 3 entries")
    rows, columns = array.shape
    taps = math.prod(kernel)
    if columns % taps:
        raise ValueError(
            f"conv_weight_from_singa: weight.shape={array.shape} has {columns} columns, which kernel_size={kernel}, "
            f"{taps} taps, does not divide"
        )
    return np.array(array, order="C").reshape(rows, columns // taps, *kernel)


def conv_weight_to_singa(weight: Tensor | np.ndarray) -> np.ndarray:
    """(Co, Ci, *R) as a matrix (Co, Ci * product of R); of a transposed convolution (Ci, Co * product of R).

    Raises:
        TypeError: weight is neither a Tensor nor an array.
        ValueError: weight has not 3, 4 or 5 axes.
    """
    array = _array("conv_weight_to_singa", weight)
    return np.array(array, order="C").reshape(len(array), -1)


def conv_weight_from_numpy_ml(weight: Tensor | np.ndarray, transposed: bool = False) -> np.ndarray:
    """W (*R, Ci, Co) of numpy-ml's Conv1D or Conv2D as (Co, Ci, *R).

    transposed: W is that of a Deconv2D; then as (Ci, Co, *R), for a ConvTranspose.

    Raises:
        TypeError: weight is neither a Tensor nor an array.
        ValueError: weight has not 3, 4 or 5 axes.
    """
    array = _array("conv_weight_from_numpy_ml", weight)
    ends = (-2, -1) if transposed else (-1, -2)
    return np.array(np.moveaxis(array, ends, (0, 1)), order="C")


def conv_weight_to_numpy_ml(weight: Tensor | np.ndarray, transposed: bool = False) -> np.ndarray:
    """(Co, Ci, *R) as W (*R, Ci, Co) of numpy-ml's Conv1D or Conv2D.

    transposed: the weight is (Ci, Co, *R), of a ConvTranspose; then as W of a Deconv2D.

    Raises:
        TypeError: weight is neither a Tensor nor an array.
        ValueError: weight has not 3, 4 or 5 axes.
    """
    array = _array("conv_weight_to_numpy_ml", weight)
    ends = (-2, -1) if transposed else (-1, -2)
    return np.array(np.moveaxis(array, (0, 1), ends), order="C")


def _array(name: str, weight: Tensor | np.ndarray, axes: tuple[int, ...] = (3, 4, 5)) -> np.ndarray:
    array = weight.array if isinstance(weight, Tensor) else weight
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name}: weight is {type(weight).__name__}, needs a Tensor or an array")
    if array.ndim not in axes:
        wanted = " or ".join(map(str, axes))
        raise ValueError(f"{name}: weight has {array.ndim} axes, needs {wanted}; weight.shape={array.shape}")
    return array


def _channels_last(name: str, array: np.ndarray, layout: str | None) -> bool:
    if layout is None:
        return False
    if len(str(layout)) != array.ndim or layout not in _LAYOUTS:
        known = " or ".join(repr(some) for some in _LAYOUTS if len(some) == array.ndim)
        raise ValueError(f"{name}: layout={layout!r} must be {known} for weight.shape={array.shape}")
    return _LAYOUTS[layout]
