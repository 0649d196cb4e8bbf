"""Pillow, where it is needed."""

from __future__ import annotations

from types import ModuleType

__all__ = ["pillow"]


def pillow(what: str) -> ModuleType:
    """The package PIL with its module Image.

    Raises:
        ImportError: it is not installed; says that ``what`` needs it.
    """
    try:
        import PIL
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        raise ImportError(f'{what} needs Pillow, which is not installed: pip install "retrograd[images]"') from None
    return PIL
