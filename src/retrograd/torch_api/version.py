"""``torch.version``: the version of the library; ``cuda`` and ``hip`` are None."""

from .. import __version__

__all__ = ["__version__", "cuda", "hip"]

cuda: str | None = None
hip: str | None = None
