"""Values and nodes of an ONNX graph, with attribute defaults from the operator schema."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..arrays.host import shared
from ..engine.tensor import Tensor, wrap
from .errors import OnnxError, UnsupportedError
from .files import onnx

# ---- Values of a graph: Tensors where a Tensor has the dtype, otherwise NumPy arrays; None if omitted ---------------

Value = Any

MOST_ENTRIES = 2**30  # in an operator's result
_OURS = frozenset(np.dtype(name) for name in ("bool", "u1", "i1", "i2", "i4", "i8", "f4", "f8"))


def value_of(array: Any) -> Value:
    """Return the value of an array."""
    array = np.asarray(array)
    return wrap(array) if array.dtype in _OURS else array


def array_of(value: Value) -> np.ndarray:
    """Return the array of a value."""
    return value.array if isinstance(value, Tensor) else np.asarray(value)


def floating(value: Value) -> Tensor:
    """Return a value that must be float32 or float64.

    Raises:
        UnsupportedError: it has another type.
    """
    if isinstance(value, Tensor) and value.array.dtype.kind == "f":
        return value
    raise UnsupportedError(f"operands of {array_of(value).dtype}, where float32 or float64 is needed")


class Varying(threading.local):
    """The values that depend on what a call got, of the node that is computed, by id; None unless it is recorded."""

    values: dict[int, Value] | None = None


varying = Varying()


def elements_of(value: Value) -> np.ndarray:
    """Return the array of a value whose elements decide what a node does, which a recording must not repeat."""
    array = array_of(value)
    return shared(array, "a number of an ONNX node") if varying.values and id(value) in varying.values else array


def ints(value: Value) -> list[int]:
    """Return the numbers of a value with one axis or none."""
    array = elements_of(value)
    if array.dtype.kind not in "iu":
        raise OnnxError(f"an array of {array.dtype}, where whole numbers are needed")
    return [int(number) for number in array.reshape(-1)]


def extents(sizes: Iterable[Any]) -> list[int]:
    """Check the extents of a new array and return them.

    Raises:
        OnnxError: one is negative, or the array would have more entries than a file may request.
    """
    found = [int(size) for size in sizes]
    if any(size < 0 for size in found) or prod(found) > MOST_ENTRIES:
        raise OnnxError(f"an array of shape {found}; extents must be at least 0, and entries at most {MOST_ENTRIES}")
    return found


def scalar(value: Value) -> Any:
    """Return the number in a value of one element."""
    array = elements_of(value)
    if array.size != 1:
        raise OnnxError(f"an array of shape {array.shape}, where one number is needed")
    return array.reshape(-1)[0].item()


def dtype_of(code: int) -> np.dtype[Any]:
    """Return NumPy's dtype for an ONNX type number."""
    try:
        return np.dtype(onnx().helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, ValueError) as error:
        raise UnsupportedError(f"the type {code} of ONNX") from error


# ---- Nodes: an operator and its attributes, with the schema's values for omitted ones -------------------------------

DOMAIN = "ai.onnx"


@dataclass(frozen=True, eq=False)
class Node:
    """A node. ``inputs`` and ``outputs`` are names of values, "" for an omitted one. ``version``: of the opset.

    ``node["strides"]`` is an attribute; None if neither the file nor the schema has it.
    """

    name: str
    operator: str
    domain: str
    version: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.attributes.get(name)

    def __str__(self) -> str:
        label = f" {self.name!r}" if self.name else f" that computes {self.outputs[0]!r}" if self.outputs else ""
        return f"node{label} ({self.operator})"

    @classmethod
    def of(cls, proto: Any, versions: dict[str, int]) -> Node:
        """Return the node of a NodeProto. versions: domain -> opset.

        Raises:
            OnnxError: its domain has no opset, or has no such operator.
        """
        domain = proto.domain or DOMAIN
        version = versions.get(domain)
        label = f"node {proto.name!r} ({proto.op_type})"
        if version is None:
            raise OnnxError(f"{label}: the model declares no opset for the domain {domain!r}")
        try:
            schema = onnx().defs.get_schema(proto.op_type, version, "" if domain == DOMAIN else domain)
        except Exception as error:
            raise UnsupportedError(
                f"{label}: the package onnx has no such operator in version {version} of {domain}"
            ) from error
        attributes = {
            name: _plain(onnx().helper.get_attribute_value(each.default_value))
            for name, each in schema.attributes.items()
            if each.default_value.name
        }
        attributes |= {each.name: _plain(onnx().helper.get_attribute_value(each)) for each in proto.attribute}
        return cls(proto.name, proto.op_type, domain, version, tuple(proto.input), tuple(proto.output), attributes)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx().TensorProto):
        return onnx().numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)) or type(value).__name__.startswith("Repeated"):
        return [_plain(item) for item in value]
    return value
