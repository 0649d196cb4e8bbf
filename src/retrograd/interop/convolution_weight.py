"""Conversion of convolution weights between the layouts of MXNet, SINGA and numpy-ml and ours, which is PyTorch's.

    Conv           (Co, Ci/groups, *R)      y[o] = sum x[o*stride + r*dilation - padding] w[r]
    ConvTranspose  (Ci, Co/groups, *R)      y[i*stride + r*dilation - padding] += x[i] w[r]

None of these functions flips the kernel; numpy-ml's Deconv2D flips its own when it computes. Values are copied.
The result is an array for ``load_state_dict({"weight": ...})``. A bias is (Co,) everywhere except in numpy-ml, where it
has the axes of y: use ``b.reshape(-1)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.arguments import kind_name
from ..engine.tensor import Tensor
from ..specs.geometry import as_tuple

__all__ = [
    "conv_weight_from_mxnet",
    "conv_weight_from_numpy_ml",
    "conv_weight_from_singa",
    "conv_weight_to_mxnet",
    "conv_weight_to_numpy_ml",
    "conv_weight_to_singa",
]

# MXNet's layouts -> whether channels come last
_LAYOUTS = {"NCW": False, "NCHW": False, "NCDHW": False, "NWC": True, "NHWC": True, "NDHWC": True}


def conv_weight_from_mxnet(weight: Tensor | np.ndarray, layout: str | None = None) -> np.ndarray:
    """Convert a weight of MXNet's Convolution or Deconvolution to (Co, Ci/groups, *R) or (Ci, Co/groups, *R).

    layout: the operator's layout. With "NCW", "NCHW" or "NCDHW" (the default), the weight has our axis order. With
        "NWC", "NHWC" or "NDHWC" it is (Co, *R, Ci/groups), or (Ci, *R, Co/groups) for a Deconvolution.

    Raises:
        TypeError: weight is neither a Tensor nor an array.
        ValueError: weight does not have 3, 4 or 5 axes, or layout does not fit it.
    """
    array = _array("conv_weight_from_mxnet", weight)
    last = _channels_last("conv_weight_from_mxnet", array, layout)
    return np.array(np.moveaxis(array, -1, 1) if last else array, order="C")


def conv_weight_to_mxnet(weight: Tensor | np.ndarray, layout: str | None = None) -> np.ndarray:
    """Convert (Co, Ci/groups, *R) or (Ci, Co/groups, *R) to a weight of MXNet's Convolution or Deconvolution.

    layout: see ``conv_weight_from_mxnet``.

    Raises: as ``conv_weight_from_mxnet``.
    """
    array = _array("conv_weight_to_mxnet", weight)
    last = _channels_last("conv_weight_to_mxnet", array, layout)
    return np.array(np.moveaxis(array, 1, -1) if last else array, order="C")


def conv_weight_from_singa(weight: Tensor | np.ndarray, kernel_size: int | Sequence[int]) -> np.ndarray:
    """Convert the weight of SINGA's Convolution layer, a matrix (Co, Ci * product of R), to (Co, Ci, *R).

    A transposed convolution is the gradient of a convolution; the matrix (Ci, Co * product of R) of that convolution
    gives (Ci, Co, *R).

    kernel_size: R, (height, width); an int means both.

    Raises:
        TypeError: weight is neither a Tensor nor an array, or kernel_size holds anything but ints.
        ValueError: weight does not have 2 axes, kernel_size does not have 1 to 3 positive entries, or its product does
            not divide the columns.
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
            f"conv_weight_from_singa: weight.shape={array.shape} has {columns} columns, not a multiple of the {taps} "
            f"taps of kernel_size={kernel}"
        )
    return np.array(array, order="C").reshape(rows, columns // taps, *kernel)


def conv_weight_to_singa(weight: Tensor | np.ndarray) -> np.ndarray:
    """Convert (Co, Ci, *R) to a matrix (Co, Ci * product of R), or (Ci, Co, *R) to (Ci, Co * product of R).

    Raises:
        TypeError: weight is neither a Tensor nor an array.
        ValueError: weight does not have 3, 4 or 5 axes.
    """
    array = _array("conv_weight_to_singa", weight)
    return np.array(array, order="C").reshape(len(array), -1)


def conv_weight_from_numpy_ml(weight: Tensor | np.ndarray, transposed: bool = False) -> np.ndarray:
    """Convert W (*R, Ci, Co) of numpy-ml's Conv1D or Conv2D to (Co, Ci, *R).

    transposed: W belongs to a Deconv2D; the result is then (Ci, Co, *R), for a ConvTranspose.

    Raises: as ``conv_weight_to_singa``.
    """
    array = _array("conv_weight_from_numpy_ml", weight)
    ends = (-2, -1) if transposed else (-1, -2)
    return np.array(np.moveaxis(array, ends, (0, 1)), order="C")


def conv_weight_to_numpy_ml(weight: Tensor | np.ndarray, transposed: bool = False) -> np.ndarray:
    """Convert (Co, Ci, *R) to W (*R, Ci, Co) of numpy-ml's Conv1D or Conv2D.

    transposed: weight is (Ci, Co, *R), from a ConvTranspose; the result is then W of a Deconv2D.

    Raises: as ``conv_weight_to_singa``.
    """
    array = _array("conv_weight_to_numpy_ml", weight)
    ends = (-2, -1) if transposed else (-1, -2)
    return np.array(np.moveaxis(array, (0, 1), ends), order="C")


def array_of(name: str, label: str, value: Any) -> np.ndarray:
    """Return an argument as an array.

    Raises:
        TypeError: the argument is neither a Tensor nor an array.
    """
    array = value.array if isinstance(value, Tensor) else value
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name}: {label} must be a Tensor or an array, got {kind_name(value)}")
    return array


def _array(name: str, weight: Tensor | np.ndarray, axes: tuple[int, ...] = (3, 4, 5)) -> np.ndarray:
    array = array_of(name, "weight", weight)
    if array.ndim not in axes:
        expected = " or ".join(map(str, axes))
        raise ValueError(f"{name}: weight has {array.ndim} axes, needs {expected}; weight.shape={array.shape}")
    return array


def _channels_last(name: str, array: np.ndarray, layout: str | None) -> bool:
    if layout is None:
        return False
    if len(str(layout)) != array.ndim or layout not in _LAYOUTS:
        known = " or ".join(repr(some) for some in _LAYOUTS if len(some) == array.ndim)
        raise ValueError(f"{name}: layout={layout!r} must be {known} for weight.shape={array.shape}")
    return _LAYOUTS[layout]
