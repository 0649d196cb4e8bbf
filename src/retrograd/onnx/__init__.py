"""Models in the format of ONNX (extra ``onnx``): ``load`` reads one, as a module that runs and trains; ``backend`` is
what ONNX's own test-suite drives.

Source: https://onnx.ai/onnx/repo-docs/IR.html, and Operators.html for what each operator computes.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NoReturn

from ..absent import attach_to_module

if TYPE_CHECKING:
    from .module import Graph

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
    from .module import Graph

    return Graph(read(path))


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """There is no export to ONNX.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "onnx.export: there is no export to ONNX; save the weights with retrograd.save(model.state_dict(), path), load "
        "them into the same network in PyTorch, and export it there"
    )


def _submodule(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}")


def _error() -> Any:
    return _submodule("errors").OnnxError


attach_to_module(__name__, {"backend": lambda: _submodule("backend"), "OnnxError": _error})
