"""Files as torch.save writes them: read by our own rules, which execute nothing, and written in PyTorch's container."""

from .objects import PTFileError
from .read import load
from .write import save

__all__ = ["PTFileError", "load", "save"]
