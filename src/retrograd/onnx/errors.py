"""The error of everything that is read from a file of ONNX."""

from __future__ import annotations


class OnnxError(ValueError):
    """A model of ONNX is not valid, or uses what is not here."""


class UnsupportedError(OnnxError):
    """An operator, or a type or an option of one, that is not here."""
