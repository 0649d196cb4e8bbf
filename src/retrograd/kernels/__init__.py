"""The compiled kernels: ``kernels.conv(...)`` is that of ``kernels.compiled``, which is loaded on first use.

``interface`` lists all kernels, with their signatures; ``textbook`` has them in plain NumPy.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("compiled", "interface", "textbook"):
        return import_module(f".{name}", __name__)
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    return getattr(import_module(".compiled", __name__), name)
