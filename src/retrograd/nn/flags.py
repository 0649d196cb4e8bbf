"""Bool arguments of layers: a string or number is refused, not taken for True."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..ops.dtype import as_flag

__all__ = ["checked"]


def checked(init: Callable[..., None]) -> Callable[..., None]:
    """``init``, refusing anything but bools for the parameters annotated as bool."""
    parameters = list(inspect.signature(init).parameters.values())[1:]
    flags = [(place, p.name) for place, p in enumerate(parameters) if p.annotation in (bool, "bool")]
    if not flags:
        return init

    @functools.wraps(init)
    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        for place, name in flags:
            if place < len(args):
                if type(args[place]) is not bool:
                    args = (*args[:place], as_flag(type(self).__name__, name, args[place]), *args[place + 1 :])
            elif name in kwargs:
                kwargs[name] = as_flag(type(self).__name__, name, kwargs[name])
        init(self, *args, **kwargs)

    return initialise
