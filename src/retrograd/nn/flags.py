"""Arguments that are checked alike in all layers: bools, and the device.

0 and 1 are taken for bools, as in PyTorch's layers; a string or another number is refused. ``bias=None`` means no
bias: ``layer.bias`` is None then. A layer is made on the CPU, then moved to its ``device``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..ops.arguments.binding import require_bound
from ..ops.arguments.checks import as_truth
from ..ops.memory.device import as_any_device

__all__ = ["checked"]


def checked(init: Callable[..., None]) -> Callable[..., None]:
    """``init``, which refuses anything but bools for parameters annotated as bool, and moves the layer to its device.

    Arguments that do not fit its signature give a TypeError that names the layer and suggests a keyword.
    """
    parameters = list(inspect.signature(init).parameters.values())[1:]
    flags = [(place, p.name) for place, p in enumerate(parameters) if p.annotation in (bool, "bool")]
    placed = next((place for place, p in enumerate(parameters) if p.name == "device"), -1)
    signature = inspect.Signature(parameters)

    @functools.wraps(init)
    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        for place, name in flags:
            if place < len(args):
                if type(args[place]) is not bool:
                    args = (*args[:place], _flag(self, name, args[place]), *args[place + 1 :])
            elif name in kwargs:
                kwargs[name] = _flag(self, name, kwargs[name])
        on: str | None = None
        if placed >= 0:
            device = args[placed] if placed < len(args) else kwargs.get("device")
            on = None if device is None else as_any_device(type(self).__name__, device)
        try:
            init(self, *args, **kwargs)
        except TypeError:
            require_bound(type(self).__name__, signature, args, kwargs)
            raise
        if on is not None:
            self.to(on)

    return initialise


def _flag(layer: Any, name: str, value: Any) -> bool:
    if value is None and name == "bias":
        return False
    return as_truth(type(layer).__name__, name, value)
