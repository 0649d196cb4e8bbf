"""Test vectors for gradients: operators with inputs, upstream gradients, and the resulting gradients.

The files have the layout of ONNX's backend tests; the page "Gradient vectors" describes it.
"""

from __future__ import annotations

from .case import Case
from .catalog import cases, chosen
from .files import write

__all__ = ["Case", "cases", "chosen", "write"]
