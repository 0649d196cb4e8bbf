"""PyTorch's import paths: ``retrograd.utils.data`` and ``retrograd.utils.checkpoint``."""

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
