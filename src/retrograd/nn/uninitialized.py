"""Parameters and buffers without a shape yet: those of lazy layers before their first call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np

from ..arrays import empty
from ..engine.tensor import Size, Tensor
from .parameter import Parameter, as_float_dtype, empty_weight

__all__ = ["UninitializedBuffer", "UninitializedParameter"]

NO_SHAPE = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` "
    "when trying to load an uninitialized parameter into an initialized one. Call `forward` to initialize the "
    "parameters before accessing their attributes."
)
_NO_VALUES = (
    "Attempted to use an uninitialized parameter. This error happens when you are using a lazy layer or explicitly "
    "manipulating UninitializedParameter objects. When using lazy layers call `forward` with a dummy batch to "
    "initialize the parameters before using them."
)
_array: Any = vars(Tensor)["array"]  # the slot of Tensor.array


class Uninitialized(Tensor):
    """Base of both kinds: a dtype, but neither shape nor values.

    Raises:
        RuntimeError: its shape is read.
        ValueError: its values are read.
    """

    __slots__ = ()
    becomes: ClassVar[type[Tensor]]

    def __init__(self, requires_grad: bool, dtype: Any) -> None:
        Tensor.__init__(self, empty(0, as_float_dtype(dtype)))  # not Parameter's, which requires values
        self._requires_grad = requires_grad

    @property
    def array(self) -> np.ndarray:
        raise ValueError(_NO_VALUES)

    @array.setter
    def array(self, array: np.ndarray) -> None:
        _array.__set__(self, array)

    @property
    def shape(self) -> Size:
        raise RuntimeError(NO_SHAPE)

    @property
    def dtype(self) -> np.dtype[Any]:
        array: np.ndarray = _array.__get__(self)
        return array.dtype

    def materialize(self, shape: Sequence[int], dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of this shape, with undefined values.

        Raises:
            TypeError: dtype is neither float32 nor float64.
        """
        kind = as_float_dtype(self.dtype if dtype is None else dtype)
        array = empty_weight(shape, kind).array if len(shape) > 1 else empty(tuple(shape), kind)
        self.__class__ = self.becomes  # type: ignore[assignment]  # from here on it has values
        self.array = array

    def set_dtype(self, dtype: Any) -> None:
        """Set the dtype to materialize with."""
        self.array = empty(0, as_float_dtype(dtype))

    def detach(self) -> Self:
        """Itself: it has no graph."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        kind, arguments = self.__reduce__()
        result = memo[id(self)] = kind(*arguments)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._requires_grad, self.dtype.str, self._grad_req)


def _rebuild(kind: Any, requires_grad: bool, dtype: str, grad_req: str) -> Any:
    result = kind(requires_grad, dtype)
    result.grad_req = grad_req
    return result


class UninitializedParameter(Uninitialized, Parameter):
    """A Parameter whose shape is not known yet; ``materialize`` turns it into an ordinary one.

    Raises:
        TypeError: dtype is neither float32 nor float64.
        RuntimeError: its shape is read.
        ValueError: it is used.
    """

    __slots__ = ()
    becomes = Parameter

    def __init__(self, requires_grad: bool = True, dtype: Any = None) -> None:
        super().__init__(requires_grad, dtype)


class UninitializedBuffer(Uninitialized):
    """A buffer whose shape is not known yet; ``materialize`` turns it into an ordinary Tensor.

    It raises the same errors as an ``UninitializedParameter``.
    """

    __slots__ = ()
    becomes = Tensor

    def __init__(self, requires_grad: bool = False, dtype: Any = None) -> None:
        super().__init__(requires_grad, dtype)


def forget(tensor: Tensor) -> None:
    """Undo ``materialize``."""
    dtype = tensor.dtype
    tensor.__class__ = UninitializedParameter if isinstance(tensor, Parameter) else UninitializedBuffer
    tensor.array = empty(0, dtype)


def is_lazy(value: Any) -> TypeGuard[Uninitialized]:
    """Whether value is a parameter or buffer without a shape."""
    return isinstance(value, Uninitialized)
