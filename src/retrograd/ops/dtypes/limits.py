"""The largest, the smallest and the nearest numbers of element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dtype import as_dtype

__all__ = ["finfo", "iinfo"]


class _Limits:
    """Numbers about an element type."""

    _names: tuple[str, ...]

    def __init__(self, kinds: str, name: str, found: np.dtype[Any]) -> None:
        if found.kind not in kinds:
            raise TypeError(f"{name}: type={found} is not {'floating-point' if 'f' in kinds else 'an integer type'}")
        self.dtype = found.name
        self.bits = 8 * found.itemsize

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name):g}" for name in self._names]
        return f"{type(self).__name__}({', '.join(parts)}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.dtype == getattr(other, "dtype", None)

    def __hash__(self) -> int:
        return hash(self.dtype)


class finfo(_Limits):  # noqa: N801  PyTorch's name
    """Numbers about a floating-point type: bits, eps, max, min, tiny, smallest_normal, resolution.

    Raises:
        TypeError: ``type`` is not a floating-point type.
    """

    _names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type: Any = None) -> None:
        super().__init__("f", "finfo", as_dtype(type, default=True))
        found = np.finfo(self.dtype)
        self.eps, self.max, self.min = float(found.eps), float(found.max), float(found.min)
        self.tiny = self.smallest_normal = float(found.smallest_normal)
        self.resolution = 10.0**-found.precision


class iinfo(_Limits):  # noqa: N801  PyTorch's name
    """Numbers about an integer type: bits, max, min.

    Raises:
        TypeError: ``type`` is not an integer type.
    """

    _names = ("min", "max")

    def __init__(self, type: Any) -> None:
        super().__init__("iu", "iinfo", as_dtype(type))
        found = np.iinfo(self.dtype)
        self.max, self.min = int(found.max), int(found.min)
