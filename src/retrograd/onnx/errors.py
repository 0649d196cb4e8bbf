"""Errors raised for ONNX models."""

from __future__ import annotations


class OnnxError(ValueError):
    """An ONNX model is invalid or uses something unsupported."""


class UnsupportedError(OnnxError):
    """An operator, or a type or option of one, is not supported."""
