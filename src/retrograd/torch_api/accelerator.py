"""``torch.accelerator``: reports that no accelerator is available."""

from __future__ import annotations

from typing import Any, Final, NoReturn

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "device_count",
    "is_available",
    "set_device_idx",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None."""
    return None


def current_device_index() -> int:
    """Raise: there is no current device.

    Raises:
        RuntimeError: always.
    """
    refuse("accelerator.current_device_index")


def set_device_index(device: Any) -> None:
    """Raise: there is no device to choose.

    Raises:
        RuntimeError: always.
    """
    refuse("accelerator.set_device_index")


def synchronize(device: Any = None) -> None:
    """Raise: there is no device to wait for.

    Raises:
        RuntimeError: always.
    """
    refuse("accelerator.synchronize")


def refuse(name: str) -> NoReturn:
    """Raise the RuntimeError for a function that needs an accelerator."""
    raise RuntimeError(
        f"{name}: there is no accelerator; there is one device, the CPU, and every tensor is on it. Call this only if "
        "is_available()"
    )


current_device_idx: Final = current_device_index
set_device_idx: Final = set_device_index
