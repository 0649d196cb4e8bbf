"""Files as torch.save writes them: read by our own rules, which execute nothing, and written in PyTorch's container."""

from .read import load
from .refusal import PTFileError
from .write import save

__all__ = ["PTFileError", "load", "save"]
