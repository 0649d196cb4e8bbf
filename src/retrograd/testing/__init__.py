"""Conformance checks for your own operators and layers, as for ours: ``check_op`` and ``check_layer``."""

from .layer import check_layer
from .operator import Refusal, check_op
from .report import ConformanceError, ConformanceReport

__all__ = ["ConformanceError", "ConformanceReport", "Refusal", "check_layer", "check_op"]
