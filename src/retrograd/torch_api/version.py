"""``torch.version``: the version of the library, and of what it is not built on."""

from .. import __version__

__all__ = ["__version__", "cuda", "hip"]

cuda: str | None = None
hip: str | None = None
