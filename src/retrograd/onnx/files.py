"""Import of the optional onnx package, and reading and checking of model files."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from .._files.formats import other_format
from .errors import OnnxError

# ---- The optional package onnx, which reads and checks models -------------------------------------------------------


@lru_cache(maxsize=1)
def onnx() -> Any:
    """Import the package.

    Raises:
        ImportError: the package is not installed.
    """
    try:
        import onnx
        import onnx.numpy_helper
        import onnx.version_converter
    except ImportError as error:
        raise ImportError(f"retrograd.onnx needs the package onnx ({error}): pip install 'retrograd[onnx]'") from error
    return onnx


# ---- Reading of an untrusted model file into a checked ModelProto of a known opset ----------------------------------

_MOST_BYTES = 2**31 - 1  # the limit of a protobuf
_MODERN = 13  # from this opset on, axes and limits are inputs


def read(path: Any) -> Any:
    """Return the checked ModelProto of a file; external weights are read from the file's folder.

    Raises:
        OnnxError: the model is invalid. TypeError: path is not a path. OSError: the file cannot be read.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"onnx.load: path={path!r} must be a path")
    file = Path(path)
    size = file.stat().st_size
    if size > _MOST_BYTES:
        raise OnnxError(f"{file}: {size} bytes; an ONNX file has at most {_MOST_BYTES}, not counting external weights")
    package = onnx()
    try:
        model = package.load(file, load_external_data=False)
        if not model.HasField("graph"):
            raise OnnxError(f"{file} contains no ONNX model" + (": it is empty" if size == 0 else ""))
        # given the path, the checker refuses external data outside the folder
        package.checker.check_model(str(file))
        package.load_external_data_for_model(model, str(file.parent))
    except OnnxError:
        raise
    except OSError:
        raise
    except Exception as error:  # from protobuf or the checker
        with file.open("rb") as opened:
            why = other_format(opened, "onnx")
        if not why:
            broken = type(error).__name__ == "DecodeError"
            why = "it has another format, or was cut off or damaged" if broken else str(error)
        raise OnnxError(f"{file} is not a valid ONNX model: {why}") from error
    return model


def checked(model: Any) -> Any:
    """Check a ModelProto in memory and return it.

    Raises:
        OnnxError: the model is invalid.
    """
    try:
        onnx().checker.check_model(model)
    except Exception as error:
        raise OnnxError(f"the model is not valid: {error}") from error
    return model


def modern(model: Any) -> Any:
    """Convert a model of an old opset to a newer one with ONNX's converter; return it unchanged if that fails."""
    version = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), _MODERN)
    if version >= _MODERN or (version < 9 and any(node.op_type == "Scan" for node in model.graph.node)):
        return model  # the converter does not know Scan of opset 8
    try:
        return onnx().version_converter.convert_version(model, _MODERN)
    except Exception:  # there is no converter for an operator: the model keeps its own opset
        return model
