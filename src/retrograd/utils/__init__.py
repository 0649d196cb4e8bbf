"""PyTorch's import paths: ``retrograd.utils.data`` and ``retrograd.utils.checkpoint``."""

from ..torch_api.missing import attach_to_module
from . import checkpoint, data

__all__ = ["checkpoint", "data"]

attach_to_module(__name__)
