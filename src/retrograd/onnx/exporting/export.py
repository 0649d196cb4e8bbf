"""Export of a model to an ONNX file: argument checks, tracing, writing, verification."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ..._files.atomic import write_atomically
from ...engine.arguments import kind_name
from ...engine.call_site import warn_user
from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor
from ...lowbit import Packed, PackedModel
from ...nn.module import Module
from ..errors import OnnxError, UnsupportedError
from ..files import onnx
from ..graph import Graph
from .converters.registry import converters
from .dynamic_axes import Extent, merge
from .formulas import write_pointwise
from .tracing import Recorder, required
from .writer import Value, Writer

# ---- Arguments of `export`, and the examples made from them ---------------------------------------------------------

Axes = Mapping[str, Mapping[int, str]]
Places = dict[str, list[tuple[str, int]]]  # the name of a variable extent -> the (input, axis) that have it


def inputs_of(model: Module, example: Any, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Return the arrays of the example by input name.

    Raises:
        TypeError, ValueError: the example contains no tensors, or the names do not fit.
    """
    given = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    arrays = []
    for place, each in enumerate(given):
        if not isinstance(each, (Tensor, np.ndarray)):
            raise TypeError(
                f"onnx.export: example has a {type(each).__name__} at position {place}, expected a Tensor, or a "
                "tuple of them: the arguments of the model"
            )
        arrays.append(Tensor(each).array if isinstance(each, np.ndarray) else each.array)
    if not arrays:
        raise ValueError("onnx.export: example is empty, expected the arguments of the model")
    if names is None:
        parameters = [
            each.name
            for each in signature(model.forward).parameters.values()
            if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        ]
        named = len(parameters) >= len(arrays)
        names = parameters[: len(arrays)] if named else [f"input_{k}" for k in range(len(arrays))]
    if isinstance(names, str):
        raise TypeError(f"onnx.export: input_names={names!r} is one string, needs a list: [{names!r}]")
    if len(names) != len(arrays) or len(set(names)) != len(names) or not all(isinstance(n, str) and n for n in names):
        raise ValueError(f"onnx.export: input_names={list(names)!r} must be {len(arrays)} different names")
    return dict(zip(names, arrays, strict=True))


def places_of(inputs: dict[str, np.ndarray], axes: Axes | None) -> Places:
    """Return the variable extents.

    Raises:
        ValueError: an axis does not exist, or an extent differs between its places.
    """
    if axes is None:
        axes = {name: {0: "batch"} for name, array in inputs.items() if array.ndim}
        sizes = {inputs[name].shape[0] for name in axes}
        if len(sizes) > 1:
            raise ValueError(
                f"onnx.export: the first axes of the inputs have the extents {sorted(sizes)}, but are the same "
                'batch axis by default; declare which axes vary: dynamic_axes={"x": {0: "batch"}}'
            )
    if not isinstance(axes, Mapping) or not all(isinstance(of, Mapping) for of in axes.values()):
        raise TypeError(f'onnx.export: dynamic_axes={axes!r} must be like {{"x": {{0: "batch"}}}}')
    found: Places = {}
    for name, of in axes.items():
        if name not in inputs:
            raise ValueError(f"onnx.export: dynamic_axes names {name!r}, which is not one of the inputs {list(inputs)}")
        for axis, label in of.items():
            if not isinstance(label, str) or not label.isidentifier():
                raise ValueError(f"onnx.export: dynamic_axes={axes!r}: {label!r} must be a name for the extent")
            if isinstance(axis, bool) or not isinstance(axis, int) or not 0 <= axis < inputs[name].ndim:
                raise ValueError(f"onnx.export: dynamic_axes: {name} has no axis {axis!r}; shape={inputs[name].shape}")
            found.setdefault(label, []).append((name, axis))
    for label, places in found.items():
        sizes = {inputs[name].shape[axis] for name, axis in places}
        if len(sizes) > 1 or 0 in sizes:
            raise ValueError(
                f"onnx.export: the extent {label!r} is {sorted(sizes)} in the example; it must be one number above 0"
            )
    return found


def another_example(inputs: dict[str, np.ndarray], dynamic_places: Places, turn: int) -> dict[str, np.ndarray]:
    """Make another example, with other values and with other sizes of the variable extents.

    turn: examples 1 and 2 are slightly larger, 3 much larger. Values are those of the first example in another order.
        From turn 2 on, some whole numbers are repeated, so that indices and lengths stay valid. Floating-point numbers
        are scaled down, so that signs and domains stay the same.
    """
    found = dict(inputs)
    ratios: list[Fraction] = []
    steps: list[int] = []
    for (name, axis), *rest in dynamic_places.values():
        size = inputs[name].shape[axis]
        more = turn if turn < 3 else size + 3
        # distinct ratios and differences, so that a function of one extent cannot match another one
        while more in steps or _is_known(Fraction(size + more, size), ratios):
            more += 1
        ratios.append(Fraction(size + more, size))
        steps.append(more)
        for of, along in ((name, axis), *rest):
            found[of] = np.take(found[of], np.arange(size + more) % size, along)
    for name, array in found.items():
        line = array.reshape(-1)
        places = (np.arange(line.size) + turn) % max(line.size, 1)
        if turn > 1 and array.dtype.kind != "f":  # the order of equal elements in a sort is not defined
            places[:: turn + 1] = places[:1]
        array = line[places].reshape(array.shape)
        found[name] = array * array.dtype.type(1 - turn / 8) if array.dtype.kind == "f" else array
    return found


def _is_known(ratio: Fraction, known: list[Fraction]) -> bool:
    products = [a * b for a in (*known, ratio) for b in known]
    return ratio in (*known, *products) or any(one in products for one in known)


# ---- Export of a model and an example to an ONNX file ---------------------------------------------------------------

_MOST_BYTES = 2**31 - 1  # the limit of a protobuf
_DEFAULT = re.compile(r"output(_\d+)?")  # default output names
_CLOSE = 1e-4  # relative to the largest output: single-precision error after many layers in another order


def export(
    model: Module,
    example: Any,
    path: Any,
    *,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    dynamic_axes: Axes | None,
    opset: int | None,
    metadata: Mapping[str, str],
) -> None:
    """Export a model; see ``retrograd.onnx.export``."""
    if not isinstance(model, Module):
        raise TypeError(f"onnx.export: model is {kind_name(model)}, needs a Module")
    packed = next((name for name, module in model.named_modules() if isinstance(module, (Packed, PackedModel))), None)
    if packed is not None:
        where = f" at {packed!r}" if packed else ""
        raise UnsupportedError(
            f"onnx.export: the model is packed{where}: its weights are bits, for which ONNX has no operators; export "
            "the model before packing"
        )
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"onnx.export: path={path!r} must be a path")
    if not isinstance(metadata, Mapping):
        raise TypeError(
            f"onnx.export: metadata is {kind_name(metadata)}, needs a dict of strings, such as "
            '{"classes": "cat, dog"}'
        )
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"onnx.export: metadata[{key!r}] is {kind_name(value)}; keys and values must be str")
    package = onnx()
    newest = package.defs.onnx_opset_version()
    if opset is not None and (isinstance(opset, bool) or not isinstance(opset, int) or not 7 <= opset <= newest):
        raise ValueError(f"onnx.export: opset={opset!r} must be an int from 7 to {newest}, the newest that onnx knows")
    inputs = inputs_of(model, example, input_names)
    places = places_of(inputs, dynamic_axes)
    states = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        proto, read = _written(model, inputs, places, output_names)
        if opset is not None:
            proto = _converted(proto, opset)
        _check(model, proto, inputs, places)
    finally:
        for module, training in states:
            module.training = training
    package.helper.set_model_props(proto, dict(metadata))
    data = proto.SerializeToString()
    if len(data) > _MOST_BYTES:
        raise OnnxError(f"onnx.export: the file would have {len(data)} bytes; at most {_MOST_BYTES} fit into one")
    write_atomically(Path(path), lambda file: file.write(data))
    if read:
        calls = ", ".join(f"Tensor.{name}{f' in the module {place!r}' if place else ''}" for name, place in read)
        warn_user(
            f"onnx.export: Python read values that depend on an input ({calls}); the file contains what it "
            "decided for the example"
        )


def _written(
    model: Module, inputs: dict[str, np.ndarray], dynamic_places: Places, output_names: Sequence[str] | None
) -> tuple[Any, list[tuple[str, str]]]:
    """Return the ModelProto, and the places where Python read values, see ``Recorder``."""
    writer, outputs, read = _graph(model, inputs, output_names)
    other = another_example(inputs, dynamic_places, 1)
    try:
        second, others, _ = _graph(model, other, output_names)
    except OnnxError:
        raise
    except Exception as error:
        sizes = {name: array.shape for name, array in other.items()}
        error.add_note(
            "onnx.export: the model ran with the example, but not with its values in another order and the sizes "
            f'{sizes}; declare which axes vary: dynamic_axes={{"x": {{0: "batch"}}}}, or {{}} for none'
        )
        raise
    extents = {}
    for label, ((name, axis), *_) in dynamic_places.items():
        extents[label] = Extent(label, name, axis, (inputs[name].shape[axis], other[name].shape[axis]))
    merge(writer, second, extents)
    if isinstance(output_names, str):
        raise TypeError(f"onnx.export: output_names={output_names!r} is one string, needs a list: [{output_names!r}]")
    names = list(output_names or (["output"] if len(outputs) == 1 else [f"output_{k}" for k in range(len(outputs))]))
    if len(names) != len(outputs) or len(set(names)) != len(names) or set(names) & set(inputs):
        raise ValueError(
            f"onnx.export: output_names={names!r} must be {len(outputs)} different names, none of them that of an input"
        )
    writer.finish(outputs, names)
    labels = {place: label for label, places in dynamic_places.items() for place in places}
    triples = list(zip(names, outputs, others, strict=True))
    return _proto(writer, inputs, labels, extents, triples, type(model).__name__), list(dict.fromkeys(read))


def _graph(
    model: Module, inputs: dict[str, np.ndarray], output_names: Sequence[str] | None
) -> tuple[Writer, list[Value], list[tuple[str, str]]]:
    """Return the graph of a call of the model, its outputs, and the places where Python read values."""
    table, functions = converters()
    tensors = {name: Tensor(array.copy()) for name, array in inputs.items()}  # a model may change its input
    named: dict[str, Tensor] = dict(model.named_parameters()) | dict(model.named_buffers())
    parameters = {id(each) for each in model.parameters()}
    reserved = {*tensors, *(output_names or ())}
    named = {(f"{name}_" if name in reserved or _DEFAULT.fullmatch(name) else name): t for name, t in named.items()}
    paths = {id(module): name for name, module in model.named_modules()}
    recorder = Recorder({**named, **tensors}, tensors, paths, functions)
    with recorder.running():
        result = model(*tensors.values())
    found = [recorder.resolve(each) for each in _tensors_in(result)]
    arrays = {name: tensor.array for name, tensor in {**named, **tensors}.items()}
    writer = Writer(recorder.calls, arrays, inputs=frozenset(tensors))
    writer.trained |= {name for name, tensor in named.items() if id(tensor) in parameters}
    writer.reserve({*arrays, *(output_names or ["output", *(f"output_{k}" for k in range(len(found)))])})
    for number in required(recorder.calls, found):
        call = recorder.calls[number]
        convert = table.get(call.operator)
        label = f"{call.operator.__name__}{f' in the module {call.path!r}' if call.path else ''}"
        try:
            if convert is None:
                writer.require(getattr(call.operator, "formula", None), "the operator")
                convert = partial(write_pointwise, operator=call.operator)
            writer.write(number, convert)
        except UnsupportedError as error:
            raise UnsupportedError(f"onnx.export: {label}: {error} cannot be written as an ONNX graph") from error
    try:
        return writer, [writer.value(each) for each in found], recorder.values_read
    except UnsupportedError as error:
        raise UnsupportedError(f"onnx.export: an output: {error} cannot be written as an ONNX graph") from error


def _tensors_in(result: Any) -> list[Tensor]:
    """Return the tensors among the outputs of a model, in order."""
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        return [each for item in result for each in _tensors_in(item)]
    if result is None:
        return []
    raise OnnxError(f"onnx.export: the model returns a {type(result).__name__}, needs Tensors, or tuples of them")


def _proto(
    writer: Writer, inputs: Any, labels: Any, extents: Mapping[str, Extent], outputs: list[Any], name: str
) -> Any:
    """Return the file's content."""
    helper, package = onnx().helper, onnx()
    nodes = [helper.make_node(n.operator, n.inputs, n.outputs, n.name, **n.attributes) for n in writer.nodes]
    used = {given for each in writer.nodes for given in each.inputs}
    weights = {key: array for key, array in writer.named.items() if key not in inputs} | writer.constants
    tensors = {key: package.numpy_helper.from_array(array, key) for key, array in weights.items() if key in used}
    fixed = [key for key in tensors if weights[key].dtype.kind == "f" and not writer.is_weight(key)]
    # importers train the floating-point initializers
    nodes[:0] = [helper.make_node("Constant", [], [key], key, value=tensors.pop(key)) for key in fixed]
    initializers = list(tensors.values())

    def info(label: str, array: np.ndarray, shape: list[Any]) -> Any:
        return helper.make_tensor_value_info(label, helper.np_dtype_to_tensor_dtype(array.dtype), shape)

    givens = [
        info(key, array, [labels.get((key, axis), extent) for axis, extent in enumerate(array.shape)])
        for key, array in inputs.items()
    ]
    open_sizes = {each.sizes: each.name for each in extents.values()}
    found = []
    for label, value, other in outputs:
        sizes = zip(value.shape, other.shape, strict=True)
        found.append(info(label, value.array, [a if a == b else open_sizes.get((a, b)) for a, b in sizes]))
    graph = helper.make_graph(nodes, name, givens, found, initializers)
    opset = helper.make_opsetid("", writer.opset)
    model = helper.make_model(
        graph,
        opset_imports=[opset],
        producer_name="retrograd",
        producer_version=__version__,
        ir_version=helper.find_min_ir_version_for([opset]),
    )
    package.checker.check_model(model, full_check=True)
    return model


def _converted(proto: Any, opset: int) -> Any:
    """Convert to another opset by ONNX's converter; if that fails, return unchanged if all nodes are valid there too.

    Raises:
        UnsupportedError: neither is possible.
    """
    package = onnx()
    if proto.opset_import[0].version == opset:
        return proto
    try:
        found = package.version_converter.convert_version(proto, opset)
        package.checker.check_model(found, full_check=True)
    except Exception as error:
        found = package.ModelProto()
        found.CopyFrom(proto)
        found.opset_import[0].version = opset
        try:
            package.checker.check_model(found, full_check=True)
        except Exception:
            raise UnsupportedError(
                f"onnx.export: opset={opset}: ONNX's converter cannot convert the model to it from opset "
                f"{proto.opset_import[0].version}, in which it was written: {error}"
            ) from error
    return found


def _check(model: Module, proto: Any, inputs: dict[str, np.ndarray], dynamic_places: Places) -> None:
    """Compare the file with the model for a third example.

    Raises:
        OnnxError: the outputs differ: the model does something that its operator calls do not show.
    """
    third, expected = _third_example(model, inputs, dynamic_places)
    sizes = {name: array.shape for name, array in third.items()}
    try:
        with no_grad():
            found = _tensors_in(Graph(proto).eval()(*map(Tensor, third.values())))
    except (ValueError, IndexError, RuntimeError, TypeError) as error:
        raise OnnxError(
            f"onnx.export: the file cannot process inputs of the shapes {sizes}, which the model accepts: {error}. "
            "Python code of the model depends on the sizes of its inputs; declare fewer axes in dynamic_axes"
        ) from error
    for name, one, other in zip((each.name for each in proto.graph.output), expected, found, strict=True):
        away = _difference(one.array, other.array)
        if away:
            raise OnnxError(
                f"onnx.export: the output {name!r} of the file differs from the model's for inputs of the shapes "
                f"{sizes} ({away}): the model computes something without operators of retrograd, or its Python code "
                "depends on the values or sizes of its inputs"
            )


def _third_example(
    model: Module, inputs: dict[str, np.ndarray], dynamic_places: Places
) -> tuple[dict[str, np.ndarray], list[Tensor]]:
    """Return another example and the model's outputs for it; its extents are much larger if the model accepts them."""
    for turn in (3, 2):
        third = another_example(inputs, dynamic_places, turn)
        try:
            with no_grad():
                return third, _tensors_in(model(*(Tensor(array.copy()) for array in third.values())))
        except Exception as error:
            if turn == 2:
                error.add_note("onnx.export: the model ran with the example, but not with others of its kind")
                raise
    raise AssertionError("one of two returns or raises")


def _difference(one: np.ndarray, other: np.ndarray) -> str:
    """Describe the difference between two outputs; empty if they agree."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{other.dtype}{list(other.shape)}, not {one.dtype}{list(one.shape)}"
    if one.dtype.kind != "f":
        return "" if np.array_equal(one, other) else f"{np.count_nonzero(one != other)} of {one.size} elements"
    if np.allclose(one, other, 0, _CLOSE * _scale(one), equal_nan=True):
        return ""
    with np.errstate(invalid="ignore"):
        return f"by {np.nanmax(np.abs(one - other), initial=0)}"


def _scale(array: np.ndarray) -> float:
    """Return the magnitude of the largest finite element."""
    finite = np.abs(array[np.isfinite(array)])
    return max(1e-3, float(finite.max(initial=0)))
