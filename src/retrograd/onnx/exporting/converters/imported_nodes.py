"""Converter for nodes of a model loaded from ONNX, which are written unchanged."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...files import onnx
from ...graph import compute_node
from ...node import DOMAIN, Node
from ...operators.registry import Operator
from ..writer import OPSET, Value, Writer
from .registry import converter_of

_CHANGED = ("Split", "Resize")  # operators whose meaning has changed in later opsets, with the same attributes


def _is_unchanged(given: dict[str, Any]) -> bool:
    """Return whether a node does the same for every input and has the same meaning in the target opset.

    All other nodes are written as the operators that compute them.
    """
    node, operator = given["node"], given["operator"]
    plain = node.domain == DOMAIN and not (operator.stateful or operator.branches or operator.differentiates)
    return plain and _means_the_same(node.operator, node.version)


@lru_cache(maxsize=1024)
def _means_the_same(name: str, version: int) -> bool:
    old = onnx().defs.get_schema(name, version)
    if version >= OPSET:
        return True
    new = onnx().defs.get_schema(name, OPSET)
    if old.since_version == new.since_version:
        return True
    inputs = [each.name for each in old.inputs]
    kept = all(key in new.attributes and new.attributes[key].type == each.type for key, each in old.attributes.items())
    return kept and name not in _CHANGED and inputs == [each.name for each in new.inputs][: len(inputs)]


@converter_of(compute_node, when=_is_unchanged)
def loaded(w: Writer, node: Node, operator: Operator, inputs: list[Any], more: dict[str, Any]) -> Any:
    since = onnx().defs.get_schema(node.operator, node.version).since_version
    given = [None if each is None else each if isinstance(each, Value) else w.constant(each) for each in inputs]
    attributes = {
        key: onnx().numpy_helper.from_array(each) if isinstance(each, np.ndarray) else each
        for key, each in node.attributes.items()
        if not (isinstance(each, list) and not each)
    }
    count = max(len(node.outputs), 1)
    return w.node(
        node.operator, *given, outputs=count, opset=max(since, OPSET), dtype=w.results[0].dtype, more=attributes
    )
