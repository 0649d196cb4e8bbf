"""Element types, the operator that converts between them, and their numeric limits.

Operators compute in float32, float64, int64 and bool, and also in uint8, int8, int16 and int32, which wrap. float16 is
a storage type: its numbers are moved, compared and converted, but the compiled kernels do not compute in it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...engine.arguments import excerpt
from ...engine.dtype import ALLOWED, BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, STORED, TYPES
from ...engine.dtype import DTypeLike as DTypeLike
from ...engine.dtype import default_dtype as default_dtype  # re-exported for the modules of ops
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels

__all__ = ["finfo", "iinfo"]


# ---- Element types, and the operator that converts between them ------------------------------------------------------

float32: Final = FLOAT32
float64: Final = FLOAT64
int64: Final = INT64
bool_: Final = BOOL
float16: Final = FLOAT16
uint8: Final = STORED[0]
int8: Final = STORED[1]
int16: Final = STORED[2]
int32: Final = STORED[3]


class Cast(Function):
    """x in another floating-point type."""

    moves = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: np.dtype[Any]) -> Tensor:
        ctx.input_dtype = x.array.dtype
        return wrap(converted(x.array, dtype))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return Cast.apply(g, ctx.input_dtype), None


@operator(dtypes="bihf")
def cast(x: Tensor, dtype: Any) -> Tensor:
    """Convert x to another element type; gradients flow between floating-point types.

    dtype: an element type, as a NumPy dtype, its name, or Python's float (the default type), int, bool.

    Raises:
        TypeError: ``dtype`` is none of these.
    """
    if interpreters and (seen := interpreted(cast, locals())) is not None:
        return seen
    if x.array.dtype is dtype:
        return x
    target = as_dtype(dtype)
    if x.array.dtype == target:
        return x
    if target.kind == "f" and x.array.dtype.kind == "f":
        return Cast.apply(x, target)
    return wrap(converted(x.array, target))


def converted(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Convert an array, keeping its memory order; numbers are truncated to integers, which wrap."""
    return kernels.cast(array, dtype)


def as_dtype(dtype: DTypeLike, *, default: bool = False) -> np.dtype[Any]:
    """Return ``dtype`` as one of a Tensor's element types; TypeError otherwise.

    default: accept None for the type of new floating-point tensors, as Python's float always is.
    """
    if dtype is float or (default and dtype is None):
        return default_dtype()
    try:
        found = np.dtype(dtype) if dtype is not None else None
    except TypeError:
        if isinstance(dtype, Unavailable):
            raise TypeError(dtype.reason) from None
        found = None
    if found is None or found not in ALLOWED:  # NumPy reads None as float64
        device = isinstance(dtype, str) and dtype.lower().partition(":")[0] in ("gpu", "tpu", "npu")
        hint = "; nor is it a device: the only one is 'cpu'" if device else ""
        raise TypeError(f"dtype={excerpt(dtype)} is not an element type of a Tensor; choose {TYPES}{hint}")
    return found


class Unavailable:
    """An element type of PyTorch that tensors do not support: it can be named, but using it raises TypeError."""

    name: str

    def __init__(self, name: str, alternative: str) -> None:
        self.name, self._alternative = name, alternative
        self.reason: str = f"dtype=retrograd.{name} is not an element type of a Tensor: {alternative}"

    def __repr__(self) -> str:
        return f"retrograd.{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unavailable) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> Any:
        return Unavailable, (self.name, self._alternative)


# ---- Numeric limits of element types ---------------------------------------------------------------------------------


class _Limits:
    """The numeric limits of an element type."""

    _names: tuple[str, ...]

    def __init__(self, kinds: str, name: str, found: np.dtype[Any]) -> None:
        if found.kind not in kinds:
            raise TypeError(f"{name}: type={found} is not {'floating-point' if 'f' in kinds else 'an integer type'}")
        self.dtype = found.name
        self.bits: int = 8 * found.itemsize

    def __repr__(self) -> str:
        parts = [f"{name}={getattr(self, name):g}" for name in self._names]
        return f"{type(self).__name__}({', '.join(parts)}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.dtype == getattr(other, "dtype", None)

    def __hash__(self) -> int:
        return hash(self.dtype)


class finfo(_Limits):  # noqa: N801  PyTorch's name
    """The numeric limits of a floating-point type: bits, eps, max, min, tiny, smallest_normal, resolution.

    Raises:
        TypeError: ``type`` is not a floating-point type.
    """

    eps: float
    max: float
    min: float
    smallest_normal: float
    tiny: float

    _names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type: Any = None) -> None:
        super().__init__("f", "finfo", as_dtype(type, default=True))
        found = np.finfo(self.dtype)
        self.eps, self.max, self.min = float(found.eps), float(found.max), float(found.min)
        self.tiny = self.smallest_normal = float(found.smallest_normal)
        self.resolution: float = 10.0**-found.precision


class iinfo(_Limits):  # noqa: N801  PyTorch's name
    """The numeric limits of an integer type: bits, max, min.

    Raises:
        TypeError: ``type`` is not an integer type.
    """

    max: int
    min: int

    _names = ("min", "max")

    def __init__(self, type: Any) -> None:
        super().__init__("iu", "iinfo", as_dtype(type))
        found = np.iinfo(self.dtype)
        self.max, self.min = int(found.max), int(found.min)
