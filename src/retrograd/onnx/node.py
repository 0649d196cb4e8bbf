"""A node of a graph: an operator with its attributes, those that the file leaves out with the schema's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import OnnxError, UnsupportedError
from .package import onnx

DOMAIN = "ai.onnx"


@dataclass(frozen=True, eq=False)
class Node:
    """``inputs`` and ``outputs`` are names of values, "" for one that is left out. ``version``: of the opset.

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
        label = f" {self.name!r}" if self.name else f" that makes {self.outputs[0]!r}" if self.outputs else ""
        return f"node{label} ({self.operator})"

    @classmethod
    def of(cls, proto: Any, versions: dict[str, int]) -> Node:
        """The node of a NodeProto. versions: domain -> opset.

        Raises:
            OnnxError: its domain has no opset, or it is no operator of it.
        """
        domain = proto.domain or DOMAIN
        version = versions.get(domain)
        label = f"node {proto.name!r} ({proto.op_type})"
        if version is None:
            raise OnnxError(f"{label}: the model names no opset of the domain {domain!r}")
        try:
            schema = onnx().defs.get_schema(proto.op_type, version, "" if domain == DOMAIN else domain)
        except Exception as error:
            raise UnsupportedError(f"{label}: the package onnx knows no such operator of {domain} {version}") from error
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
