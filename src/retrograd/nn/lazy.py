"""Lazy layers: they infer the number of input channels or features from the first input or from loaded weights.

Until then their parameters are ``UninitializedParameter``; afterwards the layer has the class it is named after. Names,
arguments and state_dict are PyTorch's: a state saved before the first call loads into a layer that is still lazy, and
the state of an ordinary layer gives a lazy one its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ..engine.tensor import Tensor
from .convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Extents,
    Padding,
)
from .folded_activation import Activation
from .linear import Linear
from .module import Module
from .normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .uninitialized import UninitializedBuffer, UninitializedParameter, forget, is_lazy

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
    "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear",
]  # fmt: skip

Shape = tuple[int, ...]


class _Lazy(Module):
    """Base of lazy layers; the attribute ``size_name`` is 0 until the size is known."""

    cls_to_become: ClassVar[Any]
    size_name: ClassVar[str]

    def _shapes(self, size: int) -> dict[str, Shape]:
        """The shape of every parameter and buffer that depends on the size."""
        raise NotImplementedError

    def _size_of_input(self, shape: Shape) -> int:
        """The size that an input of this shape implies.

        Raises:
            RuntimeError, ValueError: the input does not fit the layer.
        """
        raise NotImplementedError

    def _size_of_member(self, name: str, shape: Shape) -> int:
        """The size that a loaded parameter or buffer implies; 0 if it implies none."""
        raise NotImplementedError

    def _forget(self, dtype: Any) -> None:
        """Replace every parameter and buffer that depends on the size by an uninitialised one."""
        for name in self._shapes(0):
            kind = UninitializedParameter if name in self._parameter_names else UninitializedBuffer
            if self.__dict__[name] is not None:
                self.__dict__[name] = kind(dtype=dtype)

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of the layer has no shape yet."""
        return any(is_lazy(self.__dict__[name]) for name in self._shapes(0))

    def reset_parameters(self) -> None:
        """Draw new values if the parameters are initialised."""
        if getattr(self, self.size_name) and not self.has_uninitialized_params():
            self.cls_to_become.reset_parameters(self)

    def initialize_parameters(self, input: Tensor) -> None:
        """Infer the size from an input and draw the parameters that are still uninitialised.

        Raises:
            RuntimeError, ValueError: the input does not fit the layer or its loaded parameters; nothing is changed.
        """
        size = self._size_of_input(input.shape)
        known = getattr(self, self.size_name)
        if known and known != size:
            name = type(self).__name__
            raise ValueError(f"{name}: the loaded parameters have {self.size_name}={known}, but input has {size}")
        loaded = [self.__dict__[name] for name in (*self._parameter_names, *self._buffer_names)]
        values = [(tensor, tensor.array.copy()) for tensor in loaded if tensor is not None and not is_lazy(tensor)]
        for name, shape in self._shapes(size).items():
            if is_lazy(self.__dict__[name]):
                self.__dict__[name].materialize(shape)
        setattr(self, self.size_name, size)
        self.reset_parameters()
        for tensor, array in values:
            tensor.array[...] = array

    def misfit_of_shapes(self, shapes: Mapping[str, Shape]) -> str | None:
        """Why parameters and buffers of these shapes cannot be loaded, or None."""
        size = self._size_of_members(shapes)
        for name, shape in shapes.items():
            wanted = self._shapes(size)[name]
            if shape != wanted:
                return f"{name}: copying a param with shape {shape} from checkpoint, the shape must be {wanted}."
        return None

    def learn_from_shapes(self, shapes: Mapping[str, Shape]) -> None:
        """Infer the size from the parameters and buffers to be loaded."""
        setattr(self, self.size_name, self._size_of_members(shapes) or getattr(self, self.size_name))

    def _size_of_members(self, shapes: Mapping[str, Shape]) -> int:
        return max((self._size_of_member(name, shape) for name, shape in shapes.items()), default=0)

    def forward(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        kind, size = type(self), getattr(self, self.size_name)
        waiting = [tensor for name in self._shapes(0) if is_lazy(tensor := self.__dict__[name])]
        if waiting or not size:
            self.initialize_parameters(input)
        self.__class__ = self.cls_to_become
        try:
            return self.forward(input, *args, **kwargs)
        except Exception:  # a failed call leaves the layer lazy
            self.__class__ = kind
            setattr(self, self.size_name, size)
            for tensor in waiting:
                forget(tensor)
            raise


class LazyLinear(_Lazy, Linear):
    """A Linear layer that infers in_features from its first input.

    Raises:
        ValueError: out_features is negative, or the first input is 0-d.
    """

    cls_to_become = Linear
    size_name = "in_features"

    def __init__(self, out_features: int, bias: bool = True, *, dtype: Any = None) -> None:
        Linear.__init__(self, 0, out_features, bias, dtype=dtype)
        self._forget(dtype)

    def _shapes(self, size: int) -> dict[str, Shape]:
        return {"weight": (self.out_features, size), "bias": (self.out_features,)}

    def _size_of_input(self, shape: Shape) -> int:
        if not shape:
            raise ValueError("LazyLinear: input is 0-d; its last axis must hold the features")
        return shape[-1]

    def _size_of_member(self, name: str, shape: Shape) -> int:
        return shape[-1] if name == "weight" and shape else 0


class _LazyConvolution(_Lazy):
    """Base of both kinds of convolution."""

    size_name = "in_channels"
    fewest_channels = 0
    ndim: ClassVar[int]

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


class _LazyConv(_LazyConvolution):
    """A convolution that infers in_channels from its first input; the other arguments are those of the layer.

    Raises:
        ValueError: an argument is out of range, or groups does not divide the channels of the first input.
        RuntimeError: the first input has the wrong number of axes.
    """

    def __init__(
        self,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Padding = 0,
        dilation: Extents = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        activation: Activation = None,
        algorithm: str = "auto",
        workspace: float | None = None,
        dtype: Any = None,
    ) -> None:
        self.cls_to_become.__init__(
            self, 0, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode,
            activation=activation, algorithm=algorithm, workspace=workspace, dtype=dtype,
        )  # fmt: skip
        self._forget(dtype)

    def _shapes(self, size: int) -> dict[str, Shape]:
        return {"weight": (self.out_channels, size // self.groups, *self.kernel_size), "bias": (self.out_channels,)}

    def _size_of_member(self, name: str, shape: Shape) -> int:
        return shape[1] * self.groups if name == "weight" and len(shape) > 1 else 0


class LazyConv1d(_LazyConv, Conv1d):
    __doc__ = f"A Conv1d of inputs (N, Ci, I), channels inferred.\n\n    {_LazyConv.__doc__}"
    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    __doc__ = f"A Conv2d of inputs (N, Ci, H, W), channels inferred.\n\n    {_LazyConv.__doc__}"
    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    __doc__ = f"A Conv3d of inputs (N, Ci, D, H, W), channels inferred.\n\n    {_LazyConv.__doc__}"
    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConvolution):
    """A transposed convolution that infers in_channels from its first input; the other arguments are the layer's.

    Raises:
        ValueError: an argument is out of range, or groups does not divide the channels of the first input.
        RuntimeError: the first input has the wrong number of axes.
    """

    def __init__(
        self,
        out_channels: int,
        kernel_size: Extents,
        stride: Extents = 1,
        padding: Padding = 0,
        output_padding: Extents = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Extents = 1,
        padding_mode: str = "zeros",
        *,
        adj: Extents | None = None,
        target_shape: Extents | None = None,
        activation: Activation = None,
        algorithm: str = "auto",
        workspace: float | None = None,
        dtype: Any = None,
    ) -> None:
        self.cls_to_become.__init__(
            self, 0, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode,
            adj=adj, target_shape=target_shape, activation=activation, algorithm=algorithm, workspace=workspace,
            dtype=dtype,
        )  # fmt: skip
        self._forget(dtype)

    def _shapes(self, size: int) -> dict[str, Shape]:
        return {"weight": (size, self.out_channels // self.groups, *self.kernel_size), "bias": (self.out_channels,)}

    def _size_of_member(self, name: str, shape: Shape) -> int:
        divides = name == "weight" and shape and shape[0] % self.groups == 0
        return shape[0] if divides else 0


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    __doc__ = f"A ConvTranspose1d of inputs (N, Ci, I), channels inferred.\n\n    {_LazyConvTranspose.__doc__}"
    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    __doc__ = f"A ConvTranspose2d of inputs (N, Ci, H, W), channels inferred.\n\n    {_LazyConvTranspose.__doc__}"
    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    __doc__ = f"A ConvTranspose3d of inputs (N, Ci, D, H, W), channels inferred.\n\n    {_LazyConvTranspose.__doc__}"
    cls_to_become = ConvTranspose3d


class _LazyNorm(_Lazy):
    """Base of lazy batch and instance norm."""

    size_name = "num_features"
    fewest_features = 0
    unbatched: ClassVar[bool] = False  # True: ndims[0] counts the axes of an unbatched input

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        self.cls_to_become.__init__(self, 0, eps, momentum, affine, track_running_stats, bias=bias, dtype=dtype)
        self._forget(dtype)

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
    """Batch normalisation that infers num_features from its first input; the other arguments are the layer's.

    Raises:
        ValueError: an argument is out of range, or the first input has the wrong number of axes.
    """


class _LazyInstanceNorm(_LazyNorm):
    """Instance normalisation that infers num_features from its first input; the other arguments are the layer's, but
    affine and track_running_stats default to True, as in PyTorch.

    Raises:
        ValueError: an argument is out of range, or the first input has the wrong number of axes.
    """

    unbatched = True


class LazyBatchNorm1d(_LazyBatchNorm, BatchNorm1d):
    __doc__ = f"A BatchNorm1d of inputs (N, C) or (N, C, I), channels inferred.\n\n    {_LazyBatchNorm.__doc__}"
    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyBatchNorm, BatchNorm2d):
    __doc__ = f"A BatchNorm2d of inputs (N, C, H, W), channels inferred.\n\n    {_LazyBatchNorm.__doc__}"
    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyBatchNorm, BatchNorm3d):
    __doc__ = f"A BatchNorm3d of inputs (N, C, D, H, W), channels inferred.\n\n    {_LazyBatchNorm.__doc__}"
    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    __doc__ = f"InstanceNorm1d of (N, C, I) or (C, I), C inferred.\n\n    {_LazyInstanceNorm.__doc__}"
    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    __doc__ = f"InstanceNorm2d of (N, C, H, W) or (C, H, W), C inferred.\n\n    {_LazyInstanceNorm.__doc__}"
    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    __doc__ = f"InstanceNorm3d of (N, C, D, H, W) or (C, D, H, W), C inferred.\n\n    {_LazyInstanceNorm.__doc__}"
    cls_to_become = InstanceNorm3d
