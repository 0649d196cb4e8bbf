"""Options of factories that say how a tensor lies in memory, such as ``layout`` and ``memory_format``."""

from __future__ import annotations

from typing import Any, TypedDict

from ..arguments.checks import as_flag
from .device import as_any_device

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "layout",
    "memory_format",
    "preserve_format",
    "strided",
]


class _Named:
    """A named constant of the package, written and pickled as ``retrograd.NAME``."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"retrograd.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class layout(_Named):  # noqa: N801  PyTorch's name
    """The layout of a tensor's elements in memory; every Tensor is ``strided``."""

    __slots__ = ()


class memory_format(_Named):  # noqa: N801  PyTorch's name
    """An order of axes in memory, such as ``contiguous_format`` and ``channels_last``."""

    __slots__ = ()


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
channels_last = memory_format("channels_last")  # (N, C, H, W) in the order N, H, W, C
channels_last_3d = memory_format("channels_last_3d")
preserve_format = memory_format("preserve_format")


class Like(TypedDict, total=False):
    """Options of a factory that takes shape and type from a tensor.

    device: the CPU, or one that ``kernel_set.add_device`` has made known. layout: strided. pin_memory: without meaning.
    memory_format: contiguous_format or preserve_format.
    """

    device: Any
    layout: Any
    pin_memory: bool
    memory_format: Any


class Options(Like, total=False):
    """Options of a factory: those of Like, and ``out``, a Tensor that becomes the result."""

    out: Any


def check_options(name: str, options: Any) -> None:
    """Check the options of a factory that change nothing here.

    Raises:
        TypeError: an unknown option, or a value of a wrong kind.
        RuntimeError: a device that is not known, or a layout other than strided.
        ValueError: a memory format that the new tensor does not have.
    """
    for option, value in options.items():
        if option == "device":
            as_any_device(name, value)
        elif option == "layout":
            if value is not None and value is not strided:
                if not isinstance(value, layout):
                    raise TypeError(f"{name}: layout={value!r} must be retrograd.strided")
                raise RuntimeError(f"{name}: layout={value!r}, but tensors are strided; leave layout out")
        elif option == "pin_memory":
            as_flag(name, "pin_memory", value)
        elif option == "memory_format":
            as_memory_format(name, value)
            if value in (channels_last, channels_last_3d):
                raise ValueError(
                    f"{name}: memory_format={value!r} is not made here; "
                    f"write {name}(...).contiguous(memory_format={value!r})"
                )
        elif option != "out" or value is not None or name.endswith("_like"):
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}")


def as_memory_format(name: str, value: Any) -> Any:
    """``value``, a memory format or None; TypeError otherwise."""
    if value is not None and not isinstance(value, memory_format):
        raise TypeError(f"{name}: memory_format={value!r} must be a memory format such as retrograd.contiguous_format")
    return value
