"""Devices, memory layouts and memory formats, and the factory options that name them.

PyTorch's other devices can be named, so that a script that requests one gets a clear error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict

from ..arrays import to_host
from ..engine.arguments import kind_name
from ..kernel_set import DEVICES
from ..kernel_set import device_of as name_of
from .argument_checks import as_flag

if TYPE_CHECKING:
    from ..engine.tensor import Tensor

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "device",
    "get_default_device",
    "layout",
    "memory_format",
    "preserve_format",
    "set_default_device",
    "strided",
]


# ---- Devices: the CPU, and those registered with `kernel_set.add_device` ---------------------------------------------

# the device types of PyTorch
_TYPES = (
    "cpu",
    "cuda",
    "ipu",
    "xpu",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "ve",
    "fpga",
    "maia",
    "xla",
    "lazy",
    "vulkan",
    "mps",
    "meta",
    "hpu",
    "mtia",
    "privateuseone",
)


class device:  # noqa: N801  PyTorch's name
    """The name of a device: ``device("cpu")``, ``device("cuda:1")``, ``device("cuda", 0)``.

    Tensors are on ``device("cpu")``, or on a device registered with ``kernel_set.add_device``. PyTorch's other devices
    can be named, but placing a tensor on one raises a RuntimeError. In a ``with``, it is the device of new tensors.

    Raises:
        RuntimeError: PyTorch has no device of this type, or the str is not of the form "type" or "type:index".
        TypeError: ``type`` is neither a str nor a device, or ``index`` is not an int.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: Any, index: int | None = None) -> None:
        if isinstance(type, int) and not isinstance(type, bool) and index is None:
            raise RuntimeError(f"device: {type} is the index of an accelerator, and there is none; use device('cpu')")
        name, place = _parts(type)
        if index is not None:
            if not isinstance(index, int) or isinstance(index, bool):
                raise TypeError(f"device: index={index!r} must be an int of at least 0")
            if place is not None:
                raise RuntimeError(f"device: type={type!r} already has an index; leave out index={index}")
            if index < 0:
                raise RuntimeError(f"device: index={index} must be at least 0")
            place = index
        object.__setattr__(self, "type", name)
        object.__setattr__(self, "index", place)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"device: {name} cannot be changed; make another device")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> Any:
        return device, (self.type, self.index)

    def __enter__(self) -> device:
        return as_device("with device", self)

    def __exit__(self, *error: object) -> None:
        pass


def _parts(name: Any) -> tuple[str, int | None]:
    """Return the type and index of ``name``, a str or a device."""
    if isinstance(name, device):
        return name.type, name.index
    if not isinstance(name, str):
        raise TypeError(f"device: type={name!r} is {kind_name(name)}, needs a str such as 'cpu', or a device")
    kind, colon, index = name.partition(":")
    if kind not in _TYPES and kind not in DEVICES:
        raise RuntimeError(
            f"device: type={name!r} is not a device; the only one here is 'cpu' (known names: "
            f"{', '.join((*DEVICES, *_TYPES))})"
        )
    if colon and not (index.isascii() and index.isdigit()):
        raise RuntimeError(f"device: type={name!r} must end with an index of at least 0, as in 'cuda:0'")
    return kind, int(index) if colon else None


CPU = device("cpu")


class _OtherDevice(Protocol):
    """A device of another library, whose ``str()`` names it."""

    @property
    def type(self) -> str: ...

    @property
    def index(self) -> int | None: ...


DeviceLike = device | str | _OtherDevice | None


def as_device(name: str, device: DeviceLike) -> device:
    """Check that ``device`` is the CPU: None, "cpu", a device, or another library's object whose ``str()`` names one.

    name: the caller, for messages.

    Raises:
        RuntimeError: it is not the CPU.
        TypeError: it is none of these.
    """
    if device is None or device is CPU or (isinstance(device, str) and device == "cpu"):
        return CPU
    if not isinstance(device, (str, int, type(CPU))) and not (hasattr(device, "type") and hasattr(device, "index")):
        raise TypeError(f"{name}: device={device!r} is {kind_name(device)}, needs a device; write device='cpu'")
    text = str(device)
    if text in DEVICES:
        raise RuntimeError(
            f"{name}: device={text!r} is not accepted here, only the CPU; pass device={text!r} for each tensor"
        )
    if text.partition(":")[0] != "cpu":
        raise RuntimeError(
            f"{name}: device={text!r}, but there is one device, the CPU; leave device out, or write device='cpu'"
        )
    _parts(text)
    return CPU


def as_any_device(name: str, device: DeviceLike) -> str:
    """Return the name of the CPU or of another registered device; raises like ``as_device``."""
    found = str(device)
    return found if found in DEVICES else str(as_device(name, device))


def device_of(x: Tensor) -> device:
    """Return the device that holds the elements of a tensor."""
    found = name_of(x.array)
    return CPU if found == "cpu" else device(found)


def moved(array: Any, name: str) -> Any:
    """Return the array on the device of this name: itself if it is already there, otherwise a copy."""
    if name_of(array) == name:
        return array
    on_host = to_host(array, "the elements for another device")
    return on_host if name == "cpu" else DEVICES[name].from_host(on_host)


def array_on_device(name: str, array: Any, device: DeviceLike) -> Any:
    """Return the array on a device given in any form; raises like ``as_device``."""
    return moved(array, as_any_device(name, device))


def get_default_device() -> device:
    """Return the device of new tensors: the CPU."""
    return CPU


def set_default_device(device: DeviceLike) -> None:
    """Accept the CPU or None, without effect: new tensors are always on the CPU.

    Raises:
        RuntimeError: it is another device.
        TypeError: it is not a device.
    """
    as_device("set_default_device", device)


def is_device(value: Any) -> bool:
    """Return True if ``value`` names a device rather than an element type."""
    if isinstance(value, str):
        return value.partition(":")[0] in _TYPES or value in DEVICES
    return isinstance(value, device) or (type(value).__name__ == "device" and hasattr(value, "index"))


# ---- Factory options for the memory layout: `layout`, `memory_format` ------------------------------------------------


class _Named:
    """A named constant of the package, printed and pickled as ``retrograd.NAME``."""

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


strided: Final = layout("strided")
contiguous_format: Final = memory_format("contiguous_format")
channels_last: Final = memory_format("channels_last")  # (N, C, H, W) in the order N, H, W, C
channels_last_3d: Final = memory_format("channels_last_3d")
preserve_format: Final = memory_format("preserve_format")


_Layout = layout  # for options that have the names of these classes
_MemoryFormat = memory_format


class Like(TypedDict, total=False):
    """Options of a factory that takes shape and type from a tensor.

    device: the CPU, or one registered with ``kernel_set.add_device``. layout: strided. pin_memory: no effect.
    memory_format: contiguous_format or preserve_format.
    """

    device: DeviceLike
    layout: _Layout | None
    pin_memory: bool
    memory_format: _MemoryFormat | None


class Options(Like, total=False):
    """Options of a factory: those of Like, and ``out``, a Tensor that receives the result."""

    out: Tensor | None


def check_options(name: str, options: Any) -> None:
    """Check the factory options that have no effect.

    Raises:
        TypeError: an unknown option, or a value of the wrong kind.
        RuntimeError: an unknown device, or a layout other than strided.
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
                    f"{name}: memory_format={value!r} is not supported here; "
                    f"write {name}(...).contiguous(memory_format={value!r})"
                )
        elif option != "out" or value is not None or name.endswith("_like"):
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}")


def as_memory_format(name: str, value: memory_format | None) -> memory_format | None:
    """Return ``value``, a memory format or None; TypeError otherwise."""
    if value is not None and not isinstance(value, memory_format):
        raise TypeError(f"{name}: memory_format={value!r} must be a memory format such as retrograd.contiguous_format")
    return value
