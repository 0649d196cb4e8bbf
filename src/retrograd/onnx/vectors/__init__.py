"""Test vectors for gradients: operators with inputs, upstream gradients, and the gradients that come of them.

They are files in the layout of ONNX's backend tests, which the page "Gradient vectors" describes.
"""

from __future__ import annotations

from .case import Case
from .catalog import cases, chosen
from .files import write

__all__ = ["Case", "cases", "chosen", "write"]
