"""Conformance checks for custom and built-in operators and layers: ``check_op`` and ``check_layer``."""

from .layer import check_layer
from .operator import ConformanceError, ConformanceReport, Refusal, check_op

__all__ = ["ConformanceError", "ConformanceReport", "Refusal", "check_layer", "check_op"]
