"""Signal processing: ``torch.signal``."""

from . import windows as windows

__all__ = ["windows"]
