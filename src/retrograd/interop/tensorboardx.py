"""Support for Tensors in tensorboardX, installed once a script has imported that library."""

from __future__ import annotations

import sys
from typing import Any

from ..engine.tensor import Tensor

_CONVERTER = "make_np"  # its function that converts logged values to arrays


def _accept_tensors() -> None:
    loaded = sys.modules.get("tensorboardX.x2num")
    if loaded is None:
        return
    convert = getattr(loaded, _CONVERTER)

    def make_np(x: Any) -> Any:
        return convert(x.array if isinstance(x, Tensor) else x)

    for name, module in list(sys.modules.items()):
        if name.startswith("tensorboardX") and getattr(module, _CONVERTER, None) is convert:
            setattr(module, _CONVERTER, make_np)


_accept_tensors()
