"""The compiled kernels: ``kernels.conv(...)`` is that of ``kernels.compiled``, which is loaded on first use."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    from . import compiled

    return getattr(compiled, name)
