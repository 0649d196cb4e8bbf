"""The recorded graph of a model's call in TensorFlow's form of a graph, which TensorBoard draws.

Source: tensorflow/core/framework/graph.proto and node_def.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...engine.grad_mode import enable_grad
from ...engine.tensor import Tensor
from ...nn.module import Module
from ..graph.walk import Operator, Walk, walk

__all__ = ["graph_def"]

_MOST = 100_000  # operators


def graph_def(model: Module, inputs: Any) -> Any:
    """A GraphDef of what model(*inputs) records: a node for each operator, parameter and input.

    Raises:
        ValueError: nothing in the call takes a gradient.
    """
    args = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    names = {id(parameter): path for path, parameter in model.named_parameters()}
    given = []
    for number, value in enumerate(args):
        if isinstance(value, Tensor) and value.array.dtype.kind == "f":
            value = Tensor(value.array, requires_grad=True)  # so that it is in the graph
            names[id(value)] = f"input_{number}"
        given.append(value)
    with _evaluating(model), enable_grad():
        result = _first(model(*given))
    if result is None:
        raise ValueError(
            "add_graph: no result of the model takes a gradient, so no graph is recorded; unfreeze a "
            "parameter, or pass a floating-point input"
        )
    return _converted(walk(result, names, _MOST))


@contextmanager
def _evaluating(model: Module) -> Iterator[None]:
    """Eval mode; then each module has its own mode again."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _first(result: Any) -> Tensor | None:
    """The first Tensor with a history in a result."""
    if isinstance(result, Tensor):
        return None if result.is_leaf else result
    items = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else ()
    return next((found for found in map(_first, items) if found is not None), None)


def _converted(found: Walk) -> Any:
    from tensorboardX.proto import attr_value_pb2, graph_pb2, node_def_pb2, tensor_shape_pb2, versions_pb2

    def node(name: str, kind: str, sources: list[str], shape: tuple[int, ...], dtype: str) -> Any:
        extents = [tensor_shape_pb2.TensorShapeProto.Dim(size=extent) for extent in shape]
        shapes = attr_value_pb2.AttrValue.ListValue(shape=[tensor_shape_pb2.TensorShapeProto(dim=extents)])
        attributes = {
            "_output_shapes": attr_value_pb2.AttrValue(list=shapes),
            "dtype": attr_value_pb2.AttrValue(s=dtype.encode()),
        }
        return node_def_pb2.NodeDef(name=name, op=kind, input=sources, attr=attributes)

    nodes = []
    for leaf in found.leaves:
        kind = "Parameter" if not leaf.name.startswith("input_") else "Input"
        nodes.append(node(_scoped(leaf.name), kind, [], leaf.shape, leaf.dtype))
    called = [_called(operator, found) for operator in found.operators]
    first = found.operators[0].number if found.operators else 1
    for name, operator in zip(called, found.operators, strict=True):
        sources = []
        for source in operator.sources:
            if source.leaf is not None:
                sources.append(_scoped(found.leaves[source.leaf].name))
            elif source.operator >= first:
                sources.append(called[source.operator - first])
        output = operator.outputs[0]
        nodes.append(node(name, operator.name, sources, output.shape, output.dtype))
    return graph_pb2.GraphDef(node=nodes, versions=versions_pb2.VersionDef(producer=22))


def _called(operator: Operator, found: Walk) -> str:
    """The name of an operator's node, in the scope of the module whose parameters it uses."""
    leaves = (found.leaves[source.leaf].name for source in operator.sources if source.leaf is not None)
    modules = {name.rpartition(".")[0] for name in leaves if not name.startswith("input_")}
    module = modules.pop() if len(modules) == 1 else operator.module
    return _scoped(f"{module}.{operator.name}_{operator.number}".lstrip("."))


def _scoped(path: str) -> str:
    return path.replace(".", "/").replace(" ", "_")
