"""Models in the format of ONNX (extra ``onnx``).

``load`` reads one, as a module that runs and trains, and ``export`` writes one. ``backend`` is what ONNX's own tests
drive.

Source: https://onnx.ai/onnx/repo-docs/IR.html, and Operators.html for what each operator computes.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..torch_api.missing import attach_to_module

if TYPE_CHECKING:
    from ..nn.module import Module
    from .graph import Graph

__all__ = ["export", "load"]


def load(path: Any) -> Graph:
    """The model in a file of ONNX, as a module.

    It is called with the model's inputs, in their order or by their names, and returns its output, or a tuple of
    several. Its floating-point weights are parameters; statistics of batch norm, and constants, are buffers. In
    training mode batch norm and dropout are those of training.

    Raises:
        OnnxError: the file is none of ONNX's, is not valid, or uses an operator that is not here; the message names the
            node and the operator.
        ImportError: the package onnx is not installed.
    """
    from .files import read
    from .graph import Graph

    return Graph(read(path))


def export(
    model: Module,
    example: Any,
    path: Any,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str]] | None = None,
    opset: int | None = None,
) -> None:
    """Write a model, as it is in eval mode, into a file of ONNX.

    model: a Module. example: its argument, a Tensor, or a tuple of them.
    input_names, output_names: by default the parameters of the model's ``forward``, and "output", or "output_0" and on.
    dynamic_axes: for each input the axes whose extents the file leaves open, with a name for each, such as
        {"x": {0: "batch", 1: "time"}}; by default the first axis of every input, as "batch"; {} for none.
    opset: the version of ONNX's operators; by default 18, or the least above it that has all of them. ONNX's own
        converter makes others.

    The model is run with the example and with one of other values and sizes, and its calls of operators are written:
    what Python decides by values or sizes must be the same for both. Parameters keep their names. Before the file is
    written it is checked by ONNX's checker, loaded again, and compared with the model for a third, larger example.
    Where Python reads numbers that depend on an input, as by ``item()``, there is a UserWarning: the file has what it
    decided for the example.

    Raises:
        OnnxError: an operator has no counterpart in ONNX, or the model does something that its operators do not show;
            the message names the operator and the module.
        TypeError, ValueError: an argument is not as described.
        ImportError: the package onnx is not installed.
    """
    from .exporting.export import export as write

    write(
        model, example, path, input_names=input_names, output_names=output_names, dynamic_axes=dynamic_axes, opset=opset
    )


def _submodule(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}")


def _error() -> Any:
    return _submodule("errors").OnnxError


attach_to_module(__name__, {"backend": lambda: _submodule("backend"), "OnnxError": _error})
