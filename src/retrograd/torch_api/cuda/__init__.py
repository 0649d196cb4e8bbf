"""``torch.cuda`` for scripts that query it: reports that no GPU is available.

Functions that need a GPU raise. Those that PyTorch allows without a GPU, such as seeding or emptying the cache, do
nothing.
"""

from __future__ import annotations

from typing import Any, Final

from ...ops.random.random import Generator
from ..accelerator import refuse

__all__ = [
    "OutOfMemoryError",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
]


class OutOfMemoryError(RuntimeError):
    """The error for a GPU without free memory; nothing in this package raises it."""


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def manual_seed(seed: int) -> None:
    """Check the seed; there is no GPU generator to seed.

    Raises:
        TypeError, ValueError: as ``retrograd.manual_seed``.
    """
    Generator().manual_seed(seed)


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Do nothing: there is no cache."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: there are no statistics."""


def memory_allocated(device: Any = None) -> int:
    """0"""
    return 0


memory_reserved: Final = memory_allocated
max_memory_allocated: Final = memory_allocated
max_memory_reserved: Final = memory_allocated


class _NeedsGpu:
    """Placeholder for a function or class that needs a GPU: it can be imported, but calling it raises RuntimeError."""

    def __init__(self, name: str) -> None:
        self._name = f"cuda.{name}"

    def __repr__(self) -> str:
        return f"<retrograd.{self._name}, which needs a GPU>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        refuse(self._name)


current_device: Final = _NeedsGpu("current_device")
set_device: Final = _NeedsGpu("set_device")
synchronize: Final = _NeedsGpu("synchronize")
device: Final = _NeedsGpu("device")
Stream: Final = _NeedsGpu("Stream")
Event: Final = _NeedsGpu("Event")
stream: Final = _NeedsGpu("stream")
current_stream: Final = _NeedsGpu("current_stream")
mem_get_info: Final = _NeedsGpu("mem_get_info")
get_device_name: Final = _NeedsGpu("get_device_name")
get_device_properties: Final = _NeedsGpu("get_device_properties")
get_device_capability: Final = _NeedsGpu("get_device_capability")


class _GpuTensor:
    """Base of GPU tensor types: ``isinstance(x, cuda.FloatTensor)`` is False, and making one raises a RuntimeError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        refuse(f"cuda.{type(self).__name__}")


# fmt: off
class FloatTensor(_GpuTensor): ...
class DoubleTensor(_GpuTensor): ...
class HalfTensor(_GpuTensor): ...
class LongTensor(_GpuTensor): ...
class IntTensor(_GpuTensor): ...
class ShortTensor(_GpuTensor): ...
class ByteTensor(_GpuTensor): ...
class CharTensor(_GpuTensor): ...
class BoolTensor(_GpuTensor): ...
# fmt: on


def __getattr__(name: str) -> Any:
    if name == "amp":
        from importlib import import_module

        return import_module(".amp", __name__)
    from ..missing import find_module

    return find_module(__name__, name)
