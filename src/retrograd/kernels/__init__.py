"""Lazy access to the compiled kernels: ``kernels.conv`` is ``kernels.compiled.conv``, imported on first use.

``interface`` declares all kernels and their signatures; ``textbook`` implements them in plain NumPy.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("compiled", "interface", "textbook"):
        return import_module(f".{name}", __name__)
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    return getattr(import_module(".compiled", __name__), name)
