"""PyTorch's paths to the data tools, ``retrograd.utils.data``, and to recomputation, ``retrograd.utils.checkpoint``."""

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
