"""The shape of a tensor."""

from __future__ import annotations

from math import prod
from typing import Any


class Size(tuple[int, ...]):
    """A tuple of extents that knows their product; slices of it do, too."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return prod(self)

    def __getitem__(self, place: Any) -> Any:
        found = tuple.__getitem__(self, place)
        return Size(found) if type(place) is slice else found

    def __add__(self, other: Any) -> Any:
        found = tuple.__add__(self, other)
        return found if found is NotImplemented else Size(found)
