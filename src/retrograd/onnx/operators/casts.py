"""Casts, quantization and dequantization. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.tensor import Tensor, wrap
from ...ops.dtypes.dtype import cast as cast_tensor
from ..errors import UnsupportedError
from ..files import onnx
from ..node import Node, Value, array_of, dtype_of, value_of
from .registry import operator

_SATURATED = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")


@operator("Cast", typed=True)
def cast(node: Node, x: Value) -> Value:
    return _cast(node, x, dtype_of(node["to"]))


@operator("CastLike", constants=(1,), typed=True)
def cast_like(node: Node, x: Value, like: Value) -> Value:
    return _cast(node, x, array_of(like).dtype)


def _cast(node: Node, x: Value, dtype: np.dtype[Any]) -> Value:
    array = array_of(x)
    if "O" in (dtype.kind, array.dtype.kind) or dtype.kind in "US" or array.dtype.kind in "US":
        raise UnsupportedError("a cast of text")
    if isinstance(x, Tensor) and array.dtype.char in "fd?l" and dtype.char in "fd":
        return x if array.dtype == dtype else cast_tensor(x, dtype)
    helper = onnx().numpy_helper
    with np.errstate(all="ignore"):
        if dtype.name in _SATURATED and node["saturate"]:
            return value_of(helper.saturate_cast(array, dtype))
        if dtype.name == "float8_e8m0fnu":
            return value_of(helper.to_float8e8m0(array, bool(node["saturate"]), node["round_mode"]).astype(dtype))
        return value_of(array.astype(dtype))


@operator("BitCast", typed=True)
def bit_cast(node: Node, x: Value) -> Value:
    array = array_of(x)
    return value_of(array.reshape(-1).view(dtype_of(node["to"])).reshape(array.shape))


@operator("QuantizeLinear", constants=(1, 2), typed=True)
def quantize_linear(node: Node, x: Value, scale: Value, zero: Value = None) -> Value:
    """Return round(x / scale) + zero point, with ties to even, saturated to the type."""
    array = array_of(x)
    scales = _spread(node, array_of(scale), array.shape)
    if zero is not None:
        dtype = array_of(zero).dtype
    else:
        dtype = np.dtype(np.uint8) if not node["output_dtype"] else dtype_of(node["output_dtype"])
    numbers = array.astype(np.float32) / scales.astype(np.float32)
    if dtype.kind not in "iu" and not dtype.name.startswith(("int", "uint")):
        shifted = numbers if zero is None else numbers + _spread(node, array_of(zero), array.shape).astype(np.float32)
        saturate = onnx().numpy_helper.saturate_cast
        return value_of(saturate(shifted, dtype) if node["saturate"] else shifted.astype(dtype))
    numbers = np.rint(numbers)
    if zero is not None:
        numbers = numbers + _spread(node, array_of(zero), array.shape).astype(np.float32)
    low, high = _limits(dtype)
    return value_of(np.clip(numbers, low, high).astype(dtype))


@operator("DequantizeLinear", constants=(1, 2), typed=True)
def dequantize_linear(node: Node, x: Value, scale: Value, zero: Value = None) -> Value:
    """Return (x - zero point) * scale."""
    array = array_of(x).astype(np.float32)
    if zero is not None:
        array = array - _spread(node, array_of(zero), array.shape).astype(np.float32)
    scales = array_of(scale)
    dtype = dtype_of(node["output_dtype"]) if node["output_dtype"] else scales.dtype
    return value_of((array * _spread(node, scales, array.shape).astype(np.float32)).astype(dtype))


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: Node, x: Value) -> tuple[Value, ...]:
    array = array_of(x).astype(np.float32)
    low, high = min(np.float32(0), array.min()), max(np.float32(0), array.max())
    scale = np.float32((high - low) / np.float32(255)) if high > low else np.float32(1)
    zero = np.uint8(np.clip(np.rint(-low / scale), 0, 255))
    y = np.clip(np.rint(array / scale) + zero, 0, 255).astype(np.uint8)
    return wrap(y), wrap(np.asarray(scale)), wrap(np.asarray(zero))


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    bits = int(dtype.name.lstrip("uint"))
    return (0, 2**bits - 1) if dtype.name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _spread(node: Node, numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Reshape per-tensor, per-axis or blocked quantization parameters so that they broadcast."""
    if numbers.size == 1:
        return numbers.reshape(())
    axis = node["axis"] % len(shape)
    if numbers.ndim == 1 and not node["block_size"]:
        return numbers.reshape(-1, *(1,) * (len(shape) - 1 - axis))
    block = node["block_size"] or -(-shape[axis] // numbers.shape[axis])
    repeated = np.repeat(numbers, block, axis)
    return repeated[tuple(slice(extent) for extent in shape)]
