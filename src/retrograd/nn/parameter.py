"""Parameters and buffers, including the uninitialized ones of lazy layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np

from ..arrays import empty
from ..engine.arguments import kind_name
from ..engine.tensor import Size, Tensor
from ..ops import direct
from ..ops.argument_checks import as_truth
from ..ops.dtypes.dtype import DTypeLike, as_dtype

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "as_float_dtype", "empty_weight"]


# ---- Parameter, a Tensor that a Module owns and an optimizer updates, and the memory order of weights ---------------


class Parameter(Tensor):
    """A leaf Tensor that a Module registers when it is assigned to an attribute.

    data: array or Tensor of any shape, float32 or float64, kept without a copy; its memory order is kept too.
    ``grad_req`` says what a backward pass does with ``grad``: "add" (the default) adds to it, "write"
    replaces it, "null" neither computes nor touches it. ``limits`` is None, or two numbers (low, high) to which every
    optimizer clips the values after each of its steps. ``grad_sample`` is the gradient of each sample, (N, \\*shape),
    computed inside ``per_sample_gradients``; otherwise None.

    Raises:
        TypeError: data is not a floating-point array, or is missing.
        ValueError: data is read-only, grad_req is set to anything else, or limits are not two numbers low <= high.
    """

    __slots__ = ("_grad_sample", "_limits")  # None, or missing, which takes longer to find out

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        if data is None:
            raise TypeError("Parameter: data is missing; pass an array, of shape (0,) for an empty parameter")
        super().__init__(data.array if isinstance(data, Tensor) else data)
        if self.array.dtype not in (np.float32, np.float64):
            raise TypeError(
                f"Parameter: data has dtype {self.array.dtype}, but only float32 and float64 can be trained; "
                "convert it, or register it with register_buffer"
            )
        if not self.array.flags.writeable:
            raise ValueError("Parameter: data is read-only memory, which no optimizer can update; pass data.copy()")
        self.requires_grad = requires_grad
        self._grad_sample: Tensor | None = None
        self._limits: tuple[float, float] | None = None

    @property
    def limits(self) -> tuple[float, float] | None:
        """The range (low, high) to which an optimizer clips the values after each of its steps; None for no clipping.

        Setting it raises:
            ValueError: it is neither None nor two numbers low <= high.
        """
        return getattr(self, "_limits", None)

    @limits.setter
    def limits(self, value: tuple[float, float] | None) -> None:
        if value is not None:
            pair = isinstance(value, (tuple, list)) and len(value) == 2
            if not pair or not all(isinstance(end, (int, float)) for end in value) or not value[0] <= value[1]:
                raise ValueError(f"limits={value!r} must be two numbers, (low, high) with low <= high, or None")
            value = float(value[0]), float(value[1])
        self._limits = value

    @property
    def grad_sample(self) -> Tensor | None:
        """The gradient of each sample, (N, \\*shape), or None; see ``per_sample_gradients``.

        Setting it raises:
            TypeError, ValueError: not a Tensor or None, or the shape after axis 0 or the dtype is not the parameter's.
        """
        return getattr(self, "_grad_sample", None)

    @grad_sample.setter
    def grad_sample(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad_sample: expected a Tensor or None, got {kind_name(value)}")
            if value.shape[1:] != self.shape or not value.ndim or value.dtype != self.dtype:
                raise ValueError(
                    f"grad_sample: expected {self.dtype} of shape (N, *{self.shape}), got {value.dtype} "
                    f"of shape {value.array.shape}"
                )
        self._grad_sample = value

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # As in PyTorch, the copy starts without a gradient and without attributes. Those of a subclass may be part of
        # its state, which PyTorch recreates by calling the constructor.
        plain = type(self) is Parameter
        result = self._deepcopy_without_attributes(memo) if plain else super().__deepcopy__(memo)
        result.limits, result._grad = self.limits, None
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        # NumPy pickles arrays of other memory orders in C order, so the order is pickled separately.
        axes = _memory_axes(self.array)
        options = self.requires_grad, self.grad_req, self.limits
        arguments = type(self), self.array.transpose(axes), axes, *options
        # The attributes are passed as state, not as an argument, so that they may refer to the parameter itself.
        return (_rebuild, arguments, (self.__dict__, {})) if self.__dict__ else (_rebuild, arguments)


direct.parameter.append(Parameter)


class Buffer(Tensor):
    """A Tensor that a Module registers as a buffer when it is assigned to an attribute.

    data: array or Tensor, kept without a copy. persistent: whether the state_dict contains it.
    """

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        super().__init__(empty(0, np.float32) if data is None else getattr(data, "array", data))
        self.persistent: bool = as_truth("Buffer", "persistent", persistent)
        if isinstance(data, Tensor) and data.requires_grad:
            self.requires_grad = True


def _memory_axes(array: np.ndarray) -> tuple[int, ...]:
    """Return the axes of array from the slowest to the fastest in memory."""
    return tuple(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))


def _rebuild(
    kind: type[Parameter],
    memory: np.ndarray,
    axes: tuple[int, ...],
    requires_grad: bool,
    grad_req: str,
    limits: tuple[float, float] | None = None,
) -> Parameter:
    memory = memory if memory.flags.writeable else memory.copy()  # read-only if joblib has memory-mapped it
    parameter = kind(memory.transpose([axes.index(place) for place in range(len(axes))]), requires_grad)
    parameter.grad_req, parameter.limits = grad_req, limits
    return parameter


def as_float_dtype(dtype: DTypeLike) -> np.dtype:
    """Return np.dtype(dtype); None means the default dtype.

    Raises:
        TypeError: dtype is neither float32 nor float64.
    """
    converted = as_dtype(dtype, default=True)
    if converted not in (np.float32, np.float64):
        raise TypeError(f"dtype={converted}, but layers compute in float32 or float64; use one of these")
    return converted


def empty_weight(shape: Sequence[int], dtype: DTypeLike = None) -> Parameter:
    """Return an uninitialized weight of logical shape (A, B, \\*R), stored as (\\*R, B, A).

    The matrix kernels read a weight in this order, so they need not pack it: every tap is a contiguous (B, A) matrix.
    A is out_features or the channels of the convolution's output.
    """
    memory = empty((*shape[2:], shape[1], shape[0]), as_float_dtype(dtype))
    ndim = memory.ndim
    return Parameter(memory.transpose(ndim - 1, ndim - 2, *range(ndim - 2)))


# ---- Uninitialized parameters and buffers: those of lazy layers before the first call -------------------------------

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
    """Base of uninitialized parameters and buffers: a dtype, but neither shape nor values.

    Raises:
        RuntimeError: its shape is read.
        ValueError: its values are read.
    """

    __slots__ = ()
    becomes: ClassVar[type[Tensor]]

    def __init__(self, requires_grad: bool, dtype: DTypeLike) -> None:
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

    def materialize(self, shape: Sequence[int], dtype: DTypeLike = None) -> None:
        """Become an ordinary parameter or buffer of this shape, with undefined values.

        Raises:
            TypeError: dtype is neither float32 nor float64.
        """
        kind = as_float_dtype(self.dtype if dtype is None else dtype)
        array = empty_weight(shape, kind).array if len(shape) > 1 else empty(tuple(shape), kind)
        self.__class__ = self.becomes  # type: ignore[assignment]  # from here on it has values
        self.array = array

    def set_dtype(self, dtype: DTypeLike) -> None:
        """Set the dtype to materialize with."""
        self.array = empty(0, as_float_dtype(dtype))

    def detach(self) -> Self:
        """Return the tensor itself: it has no graph."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        kind, arguments = self.__reduce__()
        result = memo[id(self)] = kind(*arguments)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_uninitialized, (type(self), self._requires_grad, self.dtype.str, self._grad_req)


def _rebuild_uninitialized(kind: Any, requires_grad: bool, dtype: str, grad_req: str) -> Any:
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
    becomes: ClassVar[type[Tensor]] = Parameter

    def __init__(self, requires_grad: bool = True, dtype: DTypeLike = None) -> None:
        super().__init__(requires_grad, dtype)


class UninitializedBuffer(Uninitialized):
    """A buffer whose shape is not known yet; ``materialize`` turns it into an ordinary Tensor.

    It raises the same errors as an ``UninitializedParameter``.
    """

    __slots__ = ()
    becomes: ClassVar[type[Tensor]] = Tensor

    def __init__(self, requires_grad: bool = False, dtype: DTypeLike = None) -> None:
        super().__init__(requires_grad, dtype)


def unmaterialize(tensor: Tensor) -> None:
    """Undo ``materialize``."""
    dtype = tensor.dtype
    tensor.__class__ = UninitializedParameter if isinstance(tensor, Parameter) else UninitializedBuffer
    tensor.array = empty(0, dtype)


def is_lazy(value: Any) -> TypeGuard[Uninitialized]:
    """Return whether value is a parameter or buffer without a shape."""
    return isinstance(value, Uninitialized)
