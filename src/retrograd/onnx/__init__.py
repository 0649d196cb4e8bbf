"""Import and export of ONNX models (extra ``onnx``).

``load`` reads a model as a module that runs and trains, and ``export`` writes one. ``backend`` implements the
interface that ONNX's own tests use.

Source: https://onnx.ai/onnx/repo-docs/IR.html, and Operators.html for what each operator computes.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..ops.signatures import advised
from ..torch_api.missing import attach_to_module

if TYPE_CHECKING:
    from ..nn.module import Module
    from .graph import Graph

__all__ = ["export", "load"]


@advised
def load(path: Any) -> Graph:
    """Load an ONNX file as a module.

    The module is called with the model's inputs, in order or by name, and returns its output, or a tuple of several.
    Its floating-point weights are parameters; batch norm statistics and constants are buffers. In training mode, batch
    norm and dropout behave as in training.

    Raises:
        OnnxError: the file is not an ONNX file, is invalid, or uses an unsupported operator; the message names the node
            and the operator.
        ImportError: the package onnx is not installed.
    """
    from .files import read
    from .graph import Graph

    return Graph(read(path))


@advised
def export(
    model: Module,
    example: Any,
    path: Any,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
    opset: int | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Export a model, in eval mode, to an ONNX file.

    model: a Module. example: its argument, a Tensor, or a tuple of them.
    input_names, output_names: by default the parameter names of ``forward``, and "output", or "output_0" and so on.
    dynamic_axes: for each input the axes whose extents remain variable, with a name for each, such as
        {"x": {0: "batch", 1: "time"}}; by default the first axis of every input, as "batch"; {} for none.
    opset: the version of ONNX's operators; by default 18, or the lowest later version that has all of them. Models in
        other versions are converted by ONNX's own converter.
    metadata: strings by name, such as {"classes": "cat, dog"}, written as the file's metadata_props.

    The model is run with the example and with a second one of other values and sizes, and the recorded operator calls
    are written. Python decisions that depend on values or sizes must be the same for both. Parameters keep their names.
    Before the file is written it is checked by ONNX's checker, loaded again, and compared with the model for a third,
    larger example. Where Python reads numbers that depend on an input, as by ``item()``, there is a UserWarning: the
    file contains the decision made for the example.

    Raises:
        OnnxError: an operator has no counterpart in ONNX, or the model does something that its operator calls do not
            show; the message names the operator and the module.
        TypeError, ValueError: an argument is not as described.
        ImportError: the package onnx is not installed.
    """
    from .exporting.export import export as write

    write(
        model,
        example,
        path,
        input_names=input_names,
        output_names=output_names,
        dynamic_axes=dynamic_axes,
        opset=opset,
        metadata={} if metadata is None else metadata,
    )


def _submodule(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}")


def _error() -> Any:
    return _submodule("errors").OnnxError


attach_to_module(__name__, {"backend": lambda: _submodule("backend"), "OnnxError": _error})
