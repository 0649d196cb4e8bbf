"""PyTorch's path to the data tools: ``retrograd.utils.data``."""

from . import data

__all__ = ["data"]
