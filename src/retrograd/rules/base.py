"""The base class of rules with options: checks of the options, and names."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

__all__: list[str] = []


class Options:
    """Base of rules with options. Subclasses are frozen dataclasses, shown as ``Clipped(limit=2.0)``."""

    @property
    def __name__(self) -> str:  # like a function's name
        changed = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)  # type: ignore[arg-type]  # every rule is a dataclass
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __repr__(self) -> str:
        return self.__name__

    def __getstate__(self) -> dict[str, Any]:
        """Return the options for copies and pickle; state kept between backwards is reset."""
        own = {each.name: each.default for each in fields(self) if not each.init}  # type: ignore[arg-type]
        return self.__dict__ | own

    def _positive(self, *names: str) -> None:
        """Raise a ValueError unless each option is a number above 0."""
        for name in names:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
                raise ValueError(f"{type(self).__name__}: {name}={value!r} must be a number above 0")

    def _integer(self, name: str, low: int, high: int) -> None:
        """Raise a ValueError unless the option is an int from low to high."""
        value: Any = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{type(self).__name__}: {name}={value!r} must be an int from {low} to {high}")
