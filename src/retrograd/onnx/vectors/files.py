"""Expected outputs and gradients of a case, and the files that store them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..._files.atomic import writing
from ...engine.backward_pass import grad
from ...engine.tensor import wrap
from ...kernel_set import use_kernels
from ..files import onnx
from ..graph import Graph
from ..node import array_of
from .case import Case

# ---- The model of a case, and the expected outputs and gradients, computed by our kernels in float64 ----------------

TRAINING = "ai.onnx.preview.training"  # the domain of Gradient


@dataclass(frozen=True, eq=False)
class Vector:
    """A model with matching inputs and outputs, by name, in the model's order."""

    model: Any
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]


def vector(case: Case) -> Vector:
    """Return the model of a case, with its inputs and outputs.

    Its inputs are those of the operator, plus grad_Y for each output Y. Its outputs are those of the operator, plus
    grad_X for each input X.

    The gradients are those of the sum of all entries of Y * grad_Y over all such outputs. They are computed by the
    plain NumPy kernels, which need no compilation.
    """
    with use_kernels("textbook"):
        given = {name: wrap(array.copy()) for name, array in case.arrays.items()}
        xs = [given[name].requires_grad_() for name in case.differentiated]
        results = Graph(forward(case)).eval()(*given.values())
        results = dict(zip(case.output_names, results if case.outputs > 1 else (results,), strict=True))
        upstream = case.upstream({name: each.shape for name, each in results.items()})
        gradients = grad([results[name] for name in upstream], xs, list(map(wrap, upstream.values())))
    inputs = case.arrays | {f"grad_{name}": array for name, array in upstream.items()}
    outputs = {name: array_of(each) for name, each in results.items()}
    outputs |= {f"grad_{name}": array_of(g) for name, g in zip(case.differentiated, gradients, strict=True)}
    return Vector(_with_gradient(case, inputs, outputs), inputs, outputs)


def forward(case: Case) -> Any:
    """Return a model of the operator alone."""
    outputs = [onnx().helper.make_empty_tensor_value_info(name) for name in case.output_names]
    return _model(case, [_operator(case)], _infos(case.arrays), outputs)


def _with_gradient(case: Case, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> Any:
    """Return a model of the operator, total = the sum of Y * grad_Y, and ONNX's Gradient of total."""
    helper = onnx().helper
    nodes, sums = [_operator(case)], []
    for name in case.weighted_names:
        sums.append(f"sum_{name}")
        nodes.append(helper.make_node("Mul", [name, f"grad_{name}"], [f"weighted_{name}"]))
        nodes.append(helper.make_node("ReduceSum", [f"weighted_{name}"], [sums[-1]], keepdims=0))
    nodes.append(helper.make_node("Sum", sums, ["total"]))
    xs = case.differentiated
    zs = [name for name in inputs if name not in xs]
    gradients = [f"grad_{name}" for name in xs]
    nodes.append(helper.make_node("Gradient", [*xs, *zs], gradients, domain=TRAINING, xs=xs, zs=zs, y="total"))
    return _model(case, nodes, _infos(inputs), _infos(outputs))


def _operator(case: Case) -> Any:
    return onnx().helper.make_node(case.operator, case.input_names, case.output_names, **case.attributes)


def _infos(arrays: dict[str, np.ndarray]) -> list[Any]:
    helper = onnx().helper
    return [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in arrays.items()
    ]


def _model(case: Case, nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Any:
    helper = onnx().helper
    opsets = [helper.make_opsetid("", case.opset), helper.make_opsetid(TRAINING, 1)]
    graph = helper.make_graph(nodes, f"gradient_of_{case.name}", inputs, outputs)
    version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
    return helper.make_model(graph, opset_imports=opsets, ir_version=version, producer_name="retrograd")


# ---- Case folders: model.onnx, data.json, and test_data_set_0 with the inputs and the outputs -----------------------

_TOLERANCE = {"rtol": 1e-7, "atol": 1e-9}  # of a float64 computation; ONNX's runner reads it


def write(folder: str | os.PathLike[str], cases: Iterable[Case]) -> int:
    """Write a folder for each case into a new or empty folder; return the total bytes of all files.

    A case folder is renamed into place once its files are complete, so it never exists partially.

    Raises:
        FileExistsError: the folder is not empty, or is a file. OSError: it cannot be written. ImportError: the package
            onnx is not installed.
    """
    onnx()
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FileExistsError(f"{folder} is {'not empty' if folder.is_dir() else 'not a folder'}; name a new folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    size = 0
    for case in cases:
        files = contents(case)
        unfinished = folder / f".{case.folder}.tmp"
        try:
            with writing(folder / case.folder):
                for name, content in files.items():
                    path = unfinished / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                os.replace(unfinished, folder / case.folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        size += sum(map(len, files.values()))
    return size


def contents(case: Case) -> dict[str, bytes]:
    """Return the files of a case, by their paths in its folder."""
    found = vector(case)
    files = {"model.onnx": _bytes(found.model), "data.json": f"{json.dumps(_TOLERANCE)}\n".encode()}
    for kind, arrays in (("input", found.inputs), ("output", found.outputs)):
        for place, (name, array) in enumerate(arrays.items()):
            files[f"test_data_set_0/{kind}_{place}.pb"] = _bytes(_tensor(array, name))
    return files


def _tensor(array: np.ndarray, name: str) -> Any:
    return onnx().numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def _bytes(proto: Any) -> bytes:
    return bytes(proto.SerializeToString(deterministic=True))
