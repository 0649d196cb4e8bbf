"""Setting the state of a random generator from untrusted data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._files.state import brief, check_table, choice, count, names
from ...arrays import from_host, same

__all__ = ["set_state_of"]

# The largest numbers in states. With a larger pos, NumPy reads beyond its arrays.
_LARGEST = {"state": 2**128 - 1, "inc": 2**128 - 1, "pos": 624, "buffer_pos": 4, "has_uint32": 1, "uinteger": 2**32 - 1}


def set_state_of(generator: np.random.BitGenerator, state: Any) -> None:
    """Set the state of a NumPy generator; ValueError, without any change, if it is invalid."""
    checked = _checked("state", state, generator.state)
    inner = checked.get("state")
    if isinstance(inner, dict):
        if inner.get("inc", 1) % 2 == 0:
            raise ValueError(f"state['inc'] is {inner['inc']}; it must be odd, or the numbers repeat")
        if "pos" in inner and not inner["key"].any():
            raise ValueError("state['key'] is all zeros, which generates only zeros")
    generator.state = checked


def _checked(name: str, value: Any, own: Any) -> Any:
    """``value``, checked to have the form of ``own``."""
    if isinstance(own, Mapping):
        table = check_table(name, value)
        if table.keys() != own.keys():
            raise ValueError(f"{name} has the entries {names(table)}, expected {list(own)}")
        return {key: _checked(f"{name}[{key!r}]", table[key], own[key]) for key in own}
    if isinstance(own, np.ndarray):
        array = from_host(value)
        if array.shape == own.shape and array.dtype.kind in "iu":
            found = array.astype(own.dtype)
            if same(found, array, "whether a state fits"):
                return found
        raise ValueError(f"{name} is {brief(value)}; it must be an array of {own.dtype}, shape {own.shape}")
    if isinstance(own, str):
        return choice(own)(name, value)
    return count(0, _LARGEST.get(name.rpartition("['")[2].removesuffix("']"), 2**63 - 1))(name, value)
