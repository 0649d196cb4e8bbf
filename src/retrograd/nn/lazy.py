"""Lazy layers: they infer the number of input channels or features from the first input or from loaded weights.

Until then their parameters are ``UninitializedParameter``; then a LazyLinear becomes a Linear, for example. Names,
arguments and state_dict are PyTorch's: a state saved before the first call loads into a layer that is still lazy, and
a lazy layer infers its size from the state of an ordinary layer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Concatenate, ParamSpec

from ..engine.tensor import Tensor
from ..kernel_set import kernels
from ..ops.argument_checks import require_tensor
from ..ops.device import DeviceLike
from ..ops.dtypes.dtype import DTypeLike
from .convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    _Conv,
    _ConvTranspose,
)
from .linear import Linear
from .module import Module
from .normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .parameter import UninitializedBuffer, UninitializedParameter, is_lazy, unmaterialize

__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
]

Shape = tuple[int, ...]
P = ParamSpec("P")


def without_size(init: Callable[Concatenate[Any, int, P], None]) -> Callable[..., Callable[Concatenate[Any, P], None]]:
    """Decorate a lazy layer's constructor: it takes the arguments of ``init``, but not the size."""

    def declared(own: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        signature = inspect.signature(init)
        self, _, *others = signature.parameters.values()
        own.__signature__ = signature.replace(parameters=[self, *others])  # type: ignore[attr-defined]
        return own

    return declared


class _Lazy(Module):
    """Base of lazy layers; the attribute ``size_name`` is 0 until the size is known."""

    cls_to_become: ClassVar[Any]
    size_name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "ndim" in kwargs:
            cls.cls_to_become = cls.__bases__[1]

    def _start(self, *args: Any, **kwargs: Any) -> None:
        """Construct the layer as the class that it becomes, with size 0."""
        self.cls_to_become.__init__(self, 0, *args, **kwargs)
        for name in self._shapes(0):  # members whose shape depends on the size
            kind = UninitializedParameter if name in self._parameter_names else UninitializedBuffer
            if self.__dict__[name] is not None:
                self.__dict__[name] = kind(dtype=self.__dict__[name].dtype)

    def _shapes(self, size: int) -> dict[str, Shape]:
        """Return the shape of every parameter and buffer that depends on the size."""
        raise NotImplementedError

    def _size_of_input(self, shape: Shape) -> int:
        """Return the size that an input of this shape implies; raise if it does not fit the layer."""
        raise NotImplementedError

    def _size_of_member(self, name: str, shape: Shape) -> int:
        """Return the size that a loaded parameter or buffer implies; 0 if it implies none."""
        raise NotImplementedError

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer of the layer has no shape yet."""
        return any(is_lazy(self.__dict__[name]) for name in self._shapes(0))

    def reset_parameters(self) -> None:
        """Draw new values if the parameters are initialized."""
        if getattr(self, self.size_name) and not self.has_uninitialized_params():
            self.cls_to_become.reset_parameters(self)

    def initialize_parameters(self, input: Tensor) -> None:
        """Infer the size from an input and draw the parameters that are still uninitialized.

        Raises:
            RuntimeError, ValueError: the input does not fit the layer or its loaded parameters; nothing is changed.
        """
        require_tensor(type(self).__name__, input)
        size = self._size_of_input(input.shape)
        known = getattr(self, self.size_name)
        if known and known != size:
            name = type(self).__name__
            raise ValueError(f"{name}: the loaded parameters have {self.size_name}={known}, but input has {size}")
        loaded = [self.__dict__[name] for name in (*self._parameter_names, *self._buffer_names)]
        filled = [tensor for tensor in loaded if tensor is not None and not is_lazy(tensor)]
        values = [(tensor, kernels.duplicate(tensor.array)) for tensor in filled]
        for name, shape in self._shapes(size).items():
            if is_lazy(self.__dict__[name]):
                self.__dict__[name].materialize(shape)
        setattr(self, self.size_name, size)
        self.reset_parameters()
        for tensor, array in values:
            kernels.copy(tensor.array, array)

    def misfit_of_shapes(self, shapes: Mapping[str, Shape]) -> str | None:
        """Return the reason why parameters and buffers of these shapes cannot be loaded, or None."""
        size = self._size_of_members(shapes)
        for name, shape in shapes.items():
            expected = self._shapes(size)[name]
            if shape != expected:
                return f"{name}: copying a param with shape {shape} from checkpoint, the shape must be {expected}."
        return None

    def learn_from_shapes(self, shapes: Mapping[str, Shape]) -> None:
        """Infer the size from the parameters and buffers to be loaded."""
        setattr(self, self.size_name, self._size_of_members(shapes) or getattr(self, self.size_name))

    def _size_of_members(self, shapes: Mapping[str, Shape]) -> int:
        return max((self._size_of_member(name, shape) for name, shape in shapes.items()), default=0)

    def forward(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(self, _Lazy):  # a backward rule repeats the first call when the layer is no longer lazy
            return self.forward(input, *args, **kwargs)
        kind, size = type(self), getattr(self, self.size_name)
        uninitialized = [tensor for name in self._shapes(0) if is_lazy(tensor := self.__dict__[name])]
        if uninitialized or not size:
            self.initialize_parameters(input)
        self.__class__ = self.cls_to_become
        try:
            return self.forward(input, *args, **kwargs)
        except Exception:  # a failed call leaves the layer lazy
            self.__class__ = kind
            setattr(self, self.size_name, size)
            for tensor in uninitialized:
                unmaterialize(tensor)
            raise


class LazyLinear(_Lazy, Linear):
    """A Linear layer that infers in_features from its first input.

    Raises:
        ValueError: out_features is negative, or the first input is 0-d.
    """

    cls_to_become = Linear
    size_name = "in_features"

    @without_size(Linear.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._start(*args, **kwargs)

    def _shapes(self, size: int) -> dict[str, Shape]:
        return {"weight": (self.out_features, size), "bias": (self.out_features,)}

    def _size_of_input(self, shape: Shape) -> int:
        if not shape:
            raise ValueError("LazyLinear: input is 0-d; its last axis must hold the features")
        return shape[-1]

    def _size_of_member(self, name: str, shape: Shape) -> int:
        return shape[-1] if name == "weight" and shape else 0


class _LazyConvolution(_Lazy):
    """Base of lazy convolutions and transposed convolutions."""

    size_name = "in_channels"
    fewest_channels = 0
    ndim: ClassVar[int]
    transposed: ClassVar[bool]

    def _size_of_input(self, shape: Shape) -> int:
        name, ndim = type(self).__name__, self.ndim
        if len(shape) not in (ndim + 1, ndim + 2):
            raise RuntimeError(
                f"Expected {ndim + 1}D (unbatched) or {ndim + 2}D (batched) input to {name}, but got input of size: "
                f"{shape}"
            )
        channels = shape[-ndim - 1]
        if channels < 1 or channels % self.groups:
            raise ValueError(f"{name}: in_channels={channels} must be at least 1 and divisible by groups={self.groups}")
        return channels

    def _shapes(self, size: int) -> dict[str, Shape]:
        first, second = (size, self.out_channels) if self.transposed else (self.out_channels, size)
        return {"weight": (first, second // self.groups, *self.kernel_size), "bias": (self.out_channels,)}

    def _size_of_member(self, name: str, shape: Shape) -> int:
        if name != "weight" or len(shape) < (1 if self.transposed else 2):
            return 0
        if self.transposed:
            return 0 if shape[0] % self.groups else shape[0]
        return shape[1] * self.groups


class _LazyConv(_LazyConvolution):
    """A Conv{n}d for inputs (N, Ci, {extents}) that infers in_channels from the first; other arguments are the same.

    Raises:
        ValueError: an argument is out of range, or groups does not divide the channels of the first input.
        RuntimeError: the first input has the wrong number of axes.
    """

    @without_size(_Conv.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._start(*args, **kwargs)


class _LazyConvTranspose(_LazyConvolution):
    """A ConvTranspose{n}d for inputs (N, Ci, {extents}) that infers in_channels; other arguments are the same.

    Raises: as LazyConv{n}d.
    """

    @without_size(_ConvTranspose.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._start(*args, **kwargs)


class _LazyNorm(_Lazy):
    """Base of lazy batch and instance norm."""

    size_name = "num_features"
    fewest_features = 0
    unbatched: ClassVar[bool]

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        self._start(eps, momentum, affine, track_running_stats, bias=bias, dtype=dtype)

    def _shapes(self, size: int) -> dict[str, Shape]:
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (size,))

    def _size_of_input(self, shape: Shape) -> int:
        ndims = self.cls_to_become.ndims
        if len(shape) not in ndims:
            expected = " or ".join(f"{ndim}D" for ndim in ndims)
            raise ValueError(f"expected {expected} input (got {len(shape)}D input)")
        size = shape[0 if self.unbatched and len(shape) == ndims[0] else 1]
        if size < 1:
            raise ValueError(f"{type(self).__name__}: input has no channels; input.shape={shape}")
        return size

    def _size_of_member(self, name: str, shape: Shape) -> int:
        return shape[0] if shape else 0


class _LazyBatchNorm(_LazyNorm):
    """A BatchNorm{n}d that infers num_features from its first input; the other arguments are the same.

    Raises:
        ValueError: an argument is out of range, or the first input has the wrong number of axes.
    """


class _LazyInstanceNorm(_LazyNorm):
    """An InstanceNorm{n}d that infers num_features from its first input; the other arguments are the same, but affine
    and track_running_stats default to True, as in PyTorch.

    Raises:
        ValueError: an argument is out of range, or the first input has the wrong number of axes.
    """


class LazyConv1d(_LazyConv, Conv1d, ndim=1):
    """A Conv1d for inputs (N, Ci, I) that infers in_channels from the first; other arguments are the same."""


class LazyConv2d(_LazyConv, Conv2d, ndim=2):
    """A Conv2d for inputs (N, Ci, H, W) that infers in_channels from the first; other arguments are the same."""


class LazyConv3d(_LazyConv, Conv3d, ndim=3):
    """A Conv3d for inputs (N, Ci, D, H, W) that infers in_channels from the first; other arguments are the same."""


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d, ndim=1):
    """A ConvTranspose1d for inputs (N, Ci, I) that infers in_channels; other arguments are the same."""


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d, ndim=2):
    """A ConvTranspose2d for inputs (N, Ci, H, W) that infers in_channels; other arguments are the same."""


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d, ndim=3):
    """A ConvTranspose3d for inputs (N, Ci, D, H, W) that infers in_channels; other arguments are the same."""


class LazyBatchNorm1d(_LazyBatchNorm, BatchNorm1d, ndim=1):
    """A BatchNorm1d that infers num_features from its first input; the other arguments are the same."""


class LazyBatchNorm2d(_LazyBatchNorm, BatchNorm2d, ndim=2):
    """A BatchNorm2d that infers num_features from its first input; the other arguments are the same."""


class LazyBatchNorm3d(_LazyBatchNorm, BatchNorm3d, ndim=3):
    """A BatchNorm3d that infers num_features from its first input; the other arguments are the same."""


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d, ndim=1):
    """An InstanceNorm1d that infers num_features from its first input; the other arguments are the same, but affine
    and track_running_stats default to True, as in PyTorch.
    """


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d, ndim=2):
    """An InstanceNorm2d that infers num_features from its first input; the other arguments are the same, but affine
    and track_running_stats default to True, as in PyTorch.
    """


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d, ndim=3):
    """An InstanceNorm3d that infers num_features from its first input; the other arguments are the same, but affine
    and track_running_stats default to True, as in PyTorch.
    """
