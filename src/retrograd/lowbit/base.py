"""LowBit: base class of the layers with quantized weights and inputs."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ..engine.arguments import excerpt
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..kernel_set import kernels
from ..nn.module import Module
from ..nn.parameter import Parameter, empty_weight
from .quantizer import Axes, Levels, Quantizer, Window

__all__ = ["LowBit"]

_INPUT_PREFIX = "activation"  # name prefix of the tensors kept for the input quantizer


class LowBit(Module):
    """Base of the low-bit layers. The float weights stay parameters under their names; forward quantizes them.

    weight_quantizer, activation_quantizer: the quantizers of the weights and of the input; None leaves them float.
    """

    weight_quantizer: Quantizer | None
    activation_quantizer: Quantizer | None
    _quantized_names: tuple[str, ...]  # of weights
    _own_names: dict[str, tuple[str, ...]]  # quantized tensor -> names of what its quantizer keeps
    _replaced: dict[str, tuple[int, ...]]  # shapes of the weights that are no longer parameters

    _observes = False  # True during ``calibrate``

    def _weight_names(self) -> list[str]:
        """The names of the parameters that the weight quantizer quantizes."""
        return ["weight"]

    def _quantize(self, weight: Any, activation: Any) -> None:
        """Store the quantizers. Called at the end of the constructor."""
        names = self._weight_names()
        kind = type(self).__name__
        if weight is not None:
            check_quantizer(kind, "weight", weight, "for_weights")
        if activation is not None:
            check_quantizer(kind, "activation", activation, "for_activations")
        self.weight_quantizer, self.activation_quantizer = weight, activation
        self._quantized_names = tuple(names)
        self._own_names, self._replaced = {}, {}
        if activation is not None:
            dtype = next((p.array.dtype for p in self.parameters(recurse=False)), np.dtype(np.float32))
            self._keep(_INPUT_PREFIX, activation.own_of_activation(dtype))
        if weight is None:
            return
        for name in names:
            parameter: Parameter = self.__dict__[name]
            parameter.limits = weight.limits
            self._keep(name, weight.own_of_weight(parameter.array))
            if weight.replaces_weight:
                self._replaced[name] = parameter.array.shape
                delattr(self, name)

    def _keep(self, name: str, own: dict[str, Tensor]) -> None:
        self._own_names[name] = tuple(own)
        for key, tensor in own.items():
            if isinstance(tensor, Parameter):
                self.register_parameter(f"{name}_{key}", tensor)
            else:
                self.register_buffer(f"{name}_{key}", tensor)

    def _filters(self, weight: Tensor) -> tuple[Tensor, Axes]:
        """The weight, with its groups on a separate axis if needed, and the axes of a filter."""
        return weight, tuple(range(1, weight.array.ndim))

    def _own(self, name: str) -> dict[str, Tensor]:
        """Return the tensors that a quantizer keeps for the tensor ``name``; empty if it keeps none."""
        return {key: self.__dict__[f"{name}_{key}"] for key in self._own_names.get(name, ())}

    def quantized(self, name: str = "weight") -> Tensor:
        """Return the weight ``name`` as forward uses it: quantized, and recorded."""
        quantizer = self.weight_quantizer
        if name in self._replaced and quantizer is not None:
            return quantizer.weight(None, (), self._own(name), self.training)
        weight: Tensor = getattr(self, name)  # may be computed by a parametrization
        if quantizer is None or name not in self._quantized_names:
            return weight
        view, axes = self._filters(weight)
        result = quantizer.weight(view, axes, self._own(name), self.training)
        return result if view is weight else result.reshape(weight.array.shape)

    def _levels_of(self, name: str) -> Levels | None:
        """The levels of the weight ``name``, if its quantizer declares them or splits it into signs and a scale."""
        quantizer: Any = self.weight_quantizer
        weight = self.__dict__.get(name)
        view, axes = (None, ()) if weight is None else self._filters(weight)
        levels: Levels | None = quantizer.weight_levels(None if view is None else view.array, axes, self._own(name))
        if levels is None and view is not None:
            with no_grad():
                parts = quantizer.signs(view, axes)
            if parts is not None:
                return Levels(1.0 if parts[1] is None else parts[1].array, -1, 1, stride=2)
        return levels

    def _input(self, x: Any, window: Window) -> tuple[Tensor, Tensor | None]:
        """Return the quantized input and the factor of the output.

        Raises:
            TypeError: x is not a floating-point Tensor.
            RuntimeError: the quantizer needs to see inputs first.
        """
        quantizer = self.activation_quantizer
        if quantizer is None:
            return x, None
        if not isinstance(x, Tensor) or x.array.dtype.kind != "f":
            kind = x.array.dtype if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"{type(self).__name__}: input is {kind}, {quantizer} needs float32 or float64")
        own = self._own(_INPUT_PREFIX)
        for key, tensor in own.items():
            if tensor.array.dtype != x.array.dtype:
                raise TypeError(
                    f"{type(self).__name__}: input is {x.array.dtype}, {_INPUT_PREFIX}_{key} is {tensor.array.dtype}; "
                    "convert the input, or the layer with .to(dtype)"
                )
        if self.training or self._observes:
            quantizer.observe(x.array, own)
        if self._observes and type(quantizer).observe is not Quantizer.observe:
            return x, None
        if x.array.size and not quantizer.is_ready(own):
            raise RuntimeError(
                f"{type(self).__name__}: {quantizer} has seen no input yet; run a batch in training mode, or "
                "lowbit.calibrate(model, batches)"
            )
        return quantizer.activation_and_factor(x, own, window)

    def _bias(self) -> Tensor | None:
        """The bias as forward uses it."""
        bias: Tensor | None = self.bias
        return bias if bias is None or self.activation_quantizer is None else self.activation_quantizer.bias(bias)

    def reset_parameters(self) -> None:
        """Draw new values as the float layer does, and reinitialize the weight quantizer's parameters from them."""
        quantizer = self.__dict__.get("weight_quantizer")
        if quantizer is None:  # also while the float layer's constructor runs
            super().reset_parameters()  # type: ignore[misc]
            return
        dtype = next(self.parameters(recurse=False)).array.dtype
        self.__dict__.update({name: empty_weight(shape, dtype) for name, shape in self._replaced.items()})
        try:
            super().reset_parameters()  # type: ignore[misc]
            for name in self._quantized_names:
                for key, tensor in quantizer.own_of_weight(self.__dict__[name].array).items():
                    kernels.copy(self.__dict__[f"{name}_{key}"].array, tensor.array)
        finally:
            for name in self._replaced:
                self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_replaced", ()):  # a weight that the quantizer replaces
            return self.quantized(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _words(self) -> list[str]:
        """The quantizers, for the repr."""
        pairs = (("weight", self.weight_quantizer), ("activation", self.activation_quantizer))
        return [f"{name}={quantizer}" for name, quantizer in pairs if quantizer is not None]

    def extra_repr(self) -> str:
        text = super().extra_repr().replace("activation=", "output_activation=")  # a function of the output
        return ", ".join(filter(None, [text, *self._words()]))


def with_quantizers(cls: Any) -> Any:
    """Give the constructor a signature: the float layer's parameters, then weight and activation."""
    own = inspect.signature(cls.__init__).parameters
    float_layer = next(kind for kind in cls.__mro__ if kind.__module__.startswith(f"{_NN}."))
    parameters = [*inspect.signature(float_layer).parameters.values()]
    added = [p for p in own.values() if p.kind is p.KEYWORD_ONLY]
    names = {p.name for p in added}
    cls.__signature__ = inspect.Signature([*(p for p in parameters if p.name not in names), *added])
    return cls


_NN = Module.__module__.rpartition(".")[0]


def check_quantizer(kind: str, argument: str, quantizer: Any, role: str) -> None:
    """Raise a TypeError unless it is a quantizer for this role; kind: the layer, for messages."""
    if not isinstance(quantizer, Quantizer):
        example = "BinaryConnect()" if argument == "weight" else "Sign()"
        hint = ""
        if isinstance(quantizer, type):
            package = "lowbit." if quantizer.__module__.startswith(f"{__package__}.") else ""
            hint = f"; make an instance: {package}{quantizer.__name__}()"
        raise TypeError(
            f"{kind}: {argument}={excerpt(quantizer)} must be a quantizer, for example lowbit.{example}{hint}"
        )
    if not (quantizer.for_weights or quantizer.for_activations):
        raise TypeError(f"{kind}: {argument}={quantizer!r} has neither role; set {role} = True in its class")
    if not getattr(quantizer, role):
        other = "activations" if argument == "weight" else "weights"
        raise TypeError(f"{kind}: {argument}={quantizer!r} quantizes {other} only; pass it as {_OTHER[argument]}=")


_OTHER = {"weight": "activation", "activation": "weight"}
