"""Importing Pillow, an optional dependency."""

from __future__ import annotations

from types import ModuleType

__all__ = ["pillow"]


def pillow(purpose: str) -> ModuleType:
    """The package PIL with its module Image.

    Raises:
        ImportError: it is not installed; the message says that ``purpose`` needs it.
    """
    try:
        import PIL
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise ImportError(f'{purpose} needs Pillow, which is not installed: pip install "retrograd[images]"') from None
    return PIL
