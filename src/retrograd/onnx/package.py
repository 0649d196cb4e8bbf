"""The package onnx, which reads and checks models: an extra."""

from __future__ import annotations

from functools import lru_cache
from typing import Any


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
