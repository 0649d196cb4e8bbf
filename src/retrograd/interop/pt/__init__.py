"""Reading and writing of torch.save files; the reader executes nothing."""

from .objects import PTFileError
from .read import load
from .write import save

__all__ = ["PTFileError", "load", "save"]
