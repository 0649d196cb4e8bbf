"""Import of the optional onnx package, and reading and checking of model files."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from .errors import OnnxError

# ---- The package onnx, which reads and checks models: an extra ------------------------------------------------------


@lru_cache(maxsize=1)
def onnx() -> Any:
    """The package.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import onnx
        import onnx.numpy_helper
        import onnx.version_converter
    except ImportError as error:
        raise ImportError(f"retrograd.onnx needs the package onnx ({error}): pip install 'retrograd[onnx]'") from error
    return onnx


# ---- Reading a model: from a file that may come from anywhere, to a checked ModelProto of a known opset -------------

_MOST_BYTES = 2**31 - 1  # of a protobuf
_MODERN = 13  # from this opset on axes and limits are inputs


def read(path: Any) -> Any:
    """The ModelProto in a file, checked; weights beside it are read from its folder.

    Raises:
        OnnxError: it is not valid. TypeError: path is no path. OSError: the file cannot be read.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"onnx.load: path={path!r} must be a path")
    file = Path(path)
    size = file.stat().st_size
    if size > _MOST_BYTES:
        raise OnnxError(f"{file}: {size} bytes; a file of ONNX has at most {_MOST_BYTES}, without weights beside it")
    package = onnx()
    try:
        model = package.load(file, load_external_data=False)
        if not model.HasField("graph"):
            raise OnnxError(f"{file} holds no model of ONNX")
        # the path lets the checker refuse data outside of the folder
        package.checker.check_model(str(file))
        package.load_external_data_for_model(model, str(file.parent))
    except OnnxError:
        raise
    except Exception as error:  # of protobuf, or of the checker
        raise OnnxError(f"{file} is no valid model of ONNX: {error}") from error
    return model


def checked(model: Any) -> Any:
    """A ModelProto that is in memory, checked.

    Raises:
        OnnxError: it is not valid.
    """
    try:
        onnx().checker.check_model(model)
    except Exception as error:
        raise OnnxError(f"the model is not valid: {error}") from error
    return model


def modern(model: Any) -> Any:
    """A model of an old opset in a newer one, by ONNX's converter; as it is where that cannot convert it."""
    version = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), _MODERN)
    if version >= _MODERN or (version < 9 and any(node.op_type == "Scan" for node in model.graph.node)):
        return model  # the converter does not know what Scan was in opset 8
    try:
        return onnx().version_converter.convert_version(model, _MODERN)
    except Exception:  # an operator without an adapter: its own opset decides what it does
        return model
