"""Packed layers: weights stored as bit codes, and integer arithmetic."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NoReturn

import numpy as np

from ..arrays import (
    all_finite,
    broadcast_to,
    first_outside,
    from_host,
    integers,
    number,
    ones,
    to_host,
    within,
)
from ..engine.arguments import kind_name
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor, wrap
from ..kernel_set import active_kernels, exact, kernels
from ..nn.module import Module
from ..ops.convolution.arguments import frozen, window_of
from ..ops.convolution.convolution import paddings
from ..ops.shape.padding import Extend
from ..ops.shape.shape import reshaped
from ..specs.geometry import Window, conv_window
from ..specs.low_bit import Filters, Requantized, Scaled, Thresholded, code_dtype, codes_of, fits
from .base import LowBit
from .binary_quantizers import changes_sign_at_zero
from .bit_packing import Format, Listed, Shifts, Uniform, Weight, stored
from .quantizer import Levels, is_sign
from .shift_quantizers import DeepShiftPS, DeepShiftQ

__all__ = ["Packed", "PackedSum"]

_INT16_LIMIT = 2**15
_FLOAT64 = np.dtype(np.float64)
MOST_LISTED = 256  # largest number of distinct values of a filter whose values are stored in a list


@dataclass(frozen=True, eq=False)
class Codes:
    """Codes (N, *S, K), which a fused packed layer returns instead of a float Tensor; see ``specs/low_bit.py``."""

    array: np.ndarray
    zero_point: int = 0

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"the output of a fused packed layer is codes, which have no {name!r}; call the whole Sequential, or use "
            "pack(model, fuse=False)"
        )


class Packed(Module):
    """A low-bit layer for inference, whose weights are stored in bits. It computes in float.

    form: the low-bit layer, without its quantized weights. weights: the quantized weights, by name.
    """

    def __init__(self, form: LowBit, weights: dict[str, Weight]) -> None:
        if not isinstance(form, LowBit) or not isinstance(weights, dict):
            raise TypeError(
                f"Packed: form is {kind_name(form)}, weights is {kind_name(weights)}; needs a low-bit layer "
                "and a dict of its weights, which lowbit.pack(model) makes"
            )
        super().__init__()
        # not children: their contents are not state of the packed model
        reason = "its input is float" if form.activation_quantizer is None else ""
        self.__dict__.update(form=form, weights=weights, arithmetic="float", reason=reason, training=False)

    def train(self, mode: bool = True) -> Packed:
        refuse_training(mode)
        return self

    def forward(self, input: Any, *args: Any) -> Any:
        form = self.form
        if not all(name in form.__dict__ for name in self.weights):
            for name, weight in self.weights.items():
                form.__dict__[name] = wrap(self._float(weight))
        with no_grad():
            return form.forward(input, *args)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the codes, steps and biases."""
        return sum(weight.nbytes for weight in self.weights.values()) + sum(
            tensor.array.nbytes for tensor in (*self.form.parameters(), *self.form.buffers())
        )

    def _float(self, weight: Weight) -> np.ndarray:
        if isinstance(weight.format, Listed):
            lists, places = weight.step, weight.integers()
            numbers: np.ndarray
            if len(lists) == 1:
                numbers = kernels.lines(lists[0], places.reshape(-1), 0)
                return numbers.reshape(places.shape)
            return from_filters(kernels.pick(lists, by_filter(places, self.form), 1), weight.shape, self.form)
        numbers = kernels.scaled_integers(weight.integers(), spread(weight.step, self.form, weight.shape))
        return numbers

    def extra_repr(self) -> str:
        bits = {f"{weight.format.shifts * weight.format.bits}" for weight in self.weights.values()}
        why = f" ({self.reason})" if self.reason else ""
        return f"{self.form.describe()}, weight_bits={'/'.join(sorted(bits))}, arithmetic={self.arithmetic}{why}"


class PackedSum(Packed):
    """A low-bit Linear or convolution for inference, with the weight stored in bits and integer sums.

    arithmetic: "binary", "int8", "int16" or "float". For "float", ``reason`` says why, and y equals the output of the
    low-bit layer. Otherwise y = (sum * scale) * factor + bias, where sum is exact and each step is rounded.
    For "binary", y is bitwise equal to the low-bit layer's in eval mode, unless the layer has algorithm="winograd".
    For "int8" and "int16", the error of y is at most 8 * 2**-24 times the sum of all |x w| and |bias| (float32;
    8 * 2**-53 for float64). NaN in the input is treated as the lowest level.

    Raises, when it is called:
        TypeError: input is not a Tensor of the layer's dtype.
        And as the low-bit layer.
    """

    def __init__(self, form: Any, weights: dict[str, Weight]) -> None:
        super().__init__(form, weights)
        weight = weights["weight"]
        members = self.__dict__
        members.update(then=None, _filters={}, shape=weight.shape, ndim=getattr(form, "ndim", 0))
        members["groups"] = form.groups if self.ndim else 1
        quantizer = form.activation_quantizer
        if quantizer is None:
            return
        if isinstance(weight.format, Listed):
            members["reason"] = "its weights are numbers in a list; with weight_levels they could be integers"
            return
        own = form._own("activation")
        if not quantizer.is_ready(own):
            raise ValueError(f"its {quantizer} has seen no input; run lowbit.calibrate(model, batches) first")
        levels = quantizer.activation_levels(own)
        if levels is None:
            members["reason"] = f"the numbers of {quantizer} are not evenly spaced"
            return
        integers, step = self._integers()
        # other weights may happen to be signs, but the low-bit layer then adds them up in float
        is_binary = is_sign(quantizer, own) and weight.format == Uniform(-1, 1, 2)
        kind, most, reason = arithmetic_of(by_filter(integers, form), levels, is_binary)
        members.update(arithmetic=kind, most=most, reason=reason, levels=levels)
        if kind == "float":
            return
        scale = kernels.mul(kernels.cast(step, _FLOAT64), from_host(step.dtype.type(levels.step), _FLOAT64))
        bias = form._bias()
        members["scale"] = kernels.cast(broadcast_to(scale, (self._outputs(),)), step.dtype)
        members["bias"] = None if bias is None else bias.array

    @property
    def nbytes(self) -> int:
        """The number of bytes of the codes, steps, biases, and the arrays that turn sums into codes."""
        return super().nbytes + sum(each.nbytes for each in self.then or () if isinstance(each, np.ndarray))

    def _outputs(self) -> int:
        return int(self.form.out_channels if self.ndim else self.form.out_features)

    def _inputs(self) -> int:
        return int(self.form.in_channels if self.ndim else self.form.in_features)

    def _integers(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the integer weight and the steps. Shift weights lose the trailing zero bits common to a filter."""
        weight = self.weights["weight"]
        integers = weight.integers()
        if isinstance(weight.format, Uniform):
            return integers, weight.step
        zeros = kernels.trailing_zeros(by_filter(integers, self.form))
        powers = exact("exp2")(exact("cast")(zeros, _FLOAT64))
        shifted = kernels.div(exact("cast")(integers, _FLOAT64), spread(powers, self.form, weight.shape))  # exact
        return exact("cast")(shifted, integers.dtype), kernels.mul(weight.step, kernels.cast(powers, weight.step.dtype))

    def limit(self) -> np.ndarray:
        """Return the largest possible absolute value of each sum, int64 (Co,)."""
        most = max(abs(self.levels.low), abs(self.levels.high))
        sums = exact("norm")(by_filter(self._integers()[0], self.form), 1, (1,), False)
        found: np.ndarray = exact("mul")(sums, from_host(most, np.int64))
        return found

    def join(self, then: Thresholded | Requantized) -> None:
        """Make the layer return codes from now on. Its steps and bias become part of ``then``."""
        weight = self.weights["weight"]
        self.weights["weight"] = replace(weight, step=ones(1, weight.step.dtype, like=weight.step))
        self.form.bias = None
        self.__dict__.update(then=then, bias=None)

    # ---- Forward ----------------------------------------------------------------------------------------------------

    def forward(self, input: Any, output_size: Any = None) -> Any:
        size = () if output_size is None else (output_size,)
        if self.arithmetic == "float":
            return super().forward(input, *size)
        with no_grad():
            return self._of_codes(input, *size) if isinstance(input, Codes) else self._of_numbers(input, *size)

    def _of_numbers(self, input: Tensor, *size: Any) -> Any:
        form, ndim = self.form, self.ndim
        if not isinstance(input, Tensor) or input.array.dtype != self.scale.dtype:
            kind = input.array.dtype if isinstance(input, Tensor) else type(input).__name__
            raise TypeError(f"{form.describe()}: input is {kind}, the packed layer needs {self.scale.dtype}")
        shape = input.array.shape
        if self.then is not None and len(shape) != ndim + 2:
            raise ValueError(
                f"{form.describe()}: input.shape={shape} must have {ndim + 2} axes, because the next modules are part "
                "of it; add the batch axis, or use pack(model, fuse=False)"
            )
        if ndim == 0 and (not shape or shape[-1] != form.in_features):
            raise ValueError(
                f"{form.describe()}: input.shape={shape} must have in_features={form.in_features} in its last axis"
            )
        lead, inner = (shape[: -ndim - 1], shape[-ndim - 1 :])
        x = input if len(lead) == 1 else input.reshape(prod(lead), *inner)
        window, extension = self._window(x.array.shape, *size)
        factor = form.activation_quantizer.factor(x, form._window(*size))
        if extension is not None:
            x = Extend.apply(x, extension, form.padding_mode)
        y = self._finished(*self._coded(x), window, factor)
        return y if len(lead) == 1 else y.reshape(*lead, *y.array.shape[1:])

    def _of_codes(self, input: Codes, *size: Any) -> Any:
        array, extents = input.array, input.array.shape[1:-1]
        channels = self._inputs() // (prod(extents) if self.ndim == 0 else 1)
        words = self.groups * codes_of(self.arithmetic, channels // self.groups)
        check_codes(self, input, code_dtype(self.arithmetic), words, self.ndim)
        window, _ = self._window((len(array), self._inputs(), *array.shape[1:-1]), *size)
        return self._finished(array, input.zero_point, window, None)

    def _window(self, shape: tuple[int, ...], *size: Any) -> tuple[Window, Any]:
        """Return the window for an input (N, Ci, *S), and the padding to apply before it.

        After a fused Flatten, the input of a Linear is the codes of an image: a convolution with one output position.
        """
        form: Any = self.form
        extents = shape[2:]
        if self.ndim == 0:
            return conv_window(extents, extents or 1), None
        name, transposed, padding = type(form).__name__, form.transposed, form.padding
        output_size, extra = size[0] if size else None, (0,) * self.ndim
        if transposed:
            extra = extra if size else form.output_padding
            if form.target_shape is not None:
                padding, extra = paddings(
                    name,
                    self.ndim,
                    shape,
                    self.shape,
                    form.stride,
                    padding,
                    extra,
                    form.dilation,
                    output_size,
                    None,
                    form.target_shape,
                )
        call = frozen(
            name,
            self.ndim,
            form.stride,
            padding,
            form.dilation,
            self.groups,
            transposed,
            extra,
            padding_mode=form.padding_mode,
            output_size=output_size,
        )
        return window_of(call, shape, self.shape, None)

    def _coded(self, x: Tensor) -> tuple[np.ndarray, int]:
        """Return the codes of an input and their zero point."""
        if self.arithmetic == "binary":
            quantizer = self.form.activation_quantizer
            if not changes_sign_at_zero(quantizer):
                x = quantizer.activation(x, self.form._own("activation"))
            return kernels.sign_bits(x.array, self.groups), 0
        levels = self.levels
        if not levels.is_nearest:
            x = self.form.activation_quantizer.activation(x, self.form._own("activation"))
        zero = -levels.low if self.arithmetic == "int8" else 0  # codes of 8 bits start at 0
        codes = kernels.quantize_codes(
            x.array, levels.step, zero, levels.low + zero, levels.high + zero, self.arithmetic, self.groups
        )
        return codes, zero

    def _finished(self, codes: np.ndarray, zero: int, window: Window, factor: Tensor | None) -> Any:
        filters, form = self._filters_for(window.kernel), self.form
        if self.then is not None:
            array = kernels.lowbit_conv(codes, filters, window, self.then, zero)
            zero = getattr(self.then, "zero_point", 0)
            return Codes(array if self.ndim else array.reshape(len(array), array.shape[-1]), zero)
        if factor is None or self.groups == 1:
            of_pixels = None if factor is None else _contiguous(factor.array[:, 0])
            y = wrap(kernels.lowbit_conv(codes, filters, window, Scaled(self.scale, self.bias, of_pixels), zero))
        else:  # one for each group
            y = wrap(kernels.lowbit_conv(codes, filters, window, Scaled(self.scale), zero))
            y = form._scaled(y, factor, None)
            y = y if self.bias is None else y + form._per_channel(wrap(self.bias))
        if self.ndim == 0:
            return y.reshape(*y.array.shape[:2]) if y.array.ndim > 2 else y
        return y if form.activation is None else form._activated(y)

    def _filters_for(self, kernel: tuple[int, ...]) -> Filters:
        key = active_kernels(), kernel
        if key not in self._filters:
            integers = self._integers()[0]
            if self.ndim == 0:
                integers = reshaped(integers, (len(integers), -1, *kernel))
            self._filters[key] = kernels.lowbit_filters(
                self.arithmetic, integers, self.groups, self.ndim > 0 and self.form.transposed, self.most
            )
        return self._filters[key]


# ---- Conversion of low-bit layers -----------------------------------------------------------------------------------


def packed_layer(layer: Any) -> Packed:
    """Return the packed form of a low-bit layer. The layer is unchanged.

    Raises:
        ValueError: its weights have too many distinct values, or are not finite.
    """
    names = layer._quantized_names
    memo: dict[int, Any] = {}
    for name in names:
        for tensor in (layer.__dict__.get(name), *layer._own(name).values()):
            memo[id(tensor)] = None
    weights = {name: _weight(layer, name) for name in names}
    form = copy.deepcopy(layer, memo)
    for name in names:
        for key in (name, *(f"{name}_{key}" for key in layer._own_names[name])):
            form.__dict__.pop(key, None)
            form._parameter_names.pop(key, None)
            form._buffer_names.pop(key, None)
        form._own_names.pop(name)
    form.__dict__.update(weight_quantizer=None, _replaced={})
    form.__dict__.pop("_backward_rule", None)
    form.requires_grad_(False).eval()
    return (PackedSum if "weight" in weights else Packed)(form, weights)


def _weight(layer: Any, name: str) -> Weight:
    quantizer = layer.weight_quantizer
    with no_grad():
        was, layer.training = layer.training, False  # rounded as in eval mode
        try:
            quantized = layer.quantized(name).array
        finally:
            layer.training = was
    if not all_finite(quantized, "whether the weights are finite"):
        raise ValueError(f"{name} contains numbers that are not finite")
    summed = int(getattr(layer, "transposed", False) is False)
    weight = layer.__dict__.get(name)
    if isinstance(quantizer, (DeepShiftQ, DeepShiftPS)):
        low = quantizer.exponents[0]
        terms = quantizer.terms(None if weight is None else weight.array, layer._own(name))
        format: Format = Shifts(quantizer.bits, quantizer.shifts, quantizer.has_zero)
        step = from_host([2.0**low], quantized.dtype, like=quantized)
        parts = kernels.integer_levels(terms, step.reshape((1,) * terms.ndim), 0)
        return stored(format, parts, summed, step)
    levels = layer._levels_of(name)
    if levels is None:
        return _listed(layer, name, quantized, summed)
    step = reshaped(from_host(levels.step, quantized.dtype, like=quantized), (-1,))
    of_each = spread(step, layer, quantized.shape)
    parts = kernels.integer_levels(quantized, of_each, levels.high)[np.newaxis]
    uniform = Uniform(levels.low, levels.high, levels.stride)
    codes = uniform.codes(exact("minimum")(parts, from_host(levels.high, np.int64)))
    kept = kernels.scaled_integers(kernels.uniform_values(codes, levels.low, levels.stride)[0], of_each)
    _check_levels(f"{name} of {quantizer}", quantized, kept, levels, of_each)
    return stored(uniform, parts, summed, step)


def _check_levels(name: str, quantized: np.ndarray, kept: np.ndarray, levels: Levels, step: np.ndarray) -> None:
    """Raise a ValueError unless the quantized weight equals ``kept``, made of the declared levels, up to rounding."""
    rounding = 16 * float(np.finfo(quantized.dtype).eps) * max(abs(levels.low), abs(levels.high))
    error = kernels.abs(kernels.sub(quantized, kept))
    excess = kernels.sub(error, kernels.mul(step, from_host(rounding, step.dtype)))
    why = "whether the weights are the declared levels"
    if not within(excess, -np.inf, 0, why):
        index, _ = first_outside(excess, -np.inf, 0, why)
        value = number(quantized[tuple(index)], why)
        raise ValueError(
            f"{name}: the quantized value {value:.6g} at {index} is not one of its weight_levels, step times "
            f"{levels.low} to {levels.high} in steps of {levels.stride}"
        )


def _listed(layer: Any, name: str, quantized: np.ndarray, summed: int) -> Weight:
    """Return the weight with a list of values for each filter, or one list for all if that takes no more bits.

    Values are distinguished by their bits, so 0 and -0 are different.
    """
    lists, counts, places = kernels.distinct_numbers(by_filter(quantized, layer))
    lengths = integers(counts, "whether the numbers of a filter can be listed")
    most = max(lengths, default=0)
    if most > MOST_LISTED:
        filter = next(k for k, length in enumerate(lengths) if length > MOST_LISTED)
        raise ValueError(
            f"filter {filter} of {name} has {lengths[filter]} distinct numbers, and codes of at most 8 bits can "
            f"list {MOST_LISTED}; define weight_levels in {type(layer.weight_quantizer).__name__}, if they are evenly "
            "spaced"
        )
    every, _, of_every = kernels.distinct_numbers(reshaped(quantized, (1, -1)))
    count = every.shape[1]
    if count <= MOST_LISTED and Listed(count).bits <= Listed(most).bits:
        format, lists, places = Listed(count), every, of_every.reshape(quantized.shape)
    else:
        format, places = Listed(most), from_filters(places, quantized.shape, layer)
    return stored(format, places[np.newaxis], summed, lists)


def _contiguous(x: np.ndarray) -> np.ndarray:
    return x if x.flags.c_contiguous else kernels.reshaped(x, x.shape)


def from_filters(rows: np.ndarray, shape: tuple[int, ...], layer: Any) -> np.ndarray:
    """Return the weight of this shape from its rows: the inverse of ``by_filter``."""
    if not getattr(layer, "transposed", False):
        return reshaped(rows, shape)
    split = rows.reshape(layer.groups, shape[1], shape[0] // layer.groups, *shape[2:]).swapaxes(1, 2)
    return reshaped(split, shape)


def spread(values: np.ndarray, layer: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Reshape one number, or one per output channel, to broadcast with a weight of this shape."""
    if values.size == 1:
        return values.reshape((1,) * len(shape))
    if not getattr(layer, "transposed", False):
        return values.reshape(-1, *(1,) * (len(shape) - 1))
    rows = broadcast_to(values.reshape(layer.groups, 1, -1), (layer.groups, shape[0] // layer.groups, shape[1]))
    return reshaped(rows, (*shape[:2], *(1,) * (len(shape) - 2)))  # (Ci, Co/G, 1, ...)


def by_filter(w: np.ndarray, layer: Any) -> np.ndarray:
    """Reshape a weight to one row per filter: (Co, weights of a filter)."""
    if not getattr(layer, "transposed", False):
        return reshaped(w, (len(w), -1))
    split = w.reshape(layer.groups, len(w) // layer.groups, *w.shape[1:]).swapaxes(1, 2)
    return reshaped(split, (layer.groups * w.shape[1], -1))


def arithmetic_of(filters: np.ndarray, levels: Levels, is_binary: bool) -> tuple[str, int, str]:
    """Return a layer's arithmetic, the largest absolute value of an input code, and the reason if it is "float"."""
    low, high = levels.low, levels.high
    if not filters.size:
        return "float", 0, "it has no weights"
    if is_binary:
        return "binary", 1, ""
    ends = [number(exact(name)(filters, (0, 1), False), "the bits of the weights") for name in ("amin", "amax")]
    if ends[0] >= -128 and ends[1] < 128 and high - low <= 255 and low <= 0 <= high:
        element, most = "int8", high - low
    elif max(-ends[0], ends[1]) < _INT16_LIMIT and low >= -_INT16_LIMIT and high < _INT16_LIMIT:
        element, most = "int16", max(-low, high)
    else:
        return "float", 0, "the codes of its input or of a filter exceed 16 bits; Fixed(4, 4) has fewer, for example"
    try:
        fits(to_host(filters, "whether sums of products fit"), most)
    except ValueError as error:
        return "float", 0, f"{error}"
    return element, most, ""


def check_codes(module: Any, input: Any, dtype: np.dtype[Any], words: int, ndim: int = 0) -> None:
    """Raise unless input is Codes of this dtype, with ``words`` in the last axis; ndim: spatial axes, 0 for any."""
    if not isinstance(input, Codes):
        kind = type(input).__name__
        raise TypeError(f"{type(module).__name__}: input is {kind}, expected the codes of a packed layer")
    array = input.array
    if array.dtype != dtype or array.shape[-1] != words or (ndim and array.ndim != ndim + 2):
        raise ValueError(
            f"{type(module).__name__}: input has codes {array.dtype} {array.shape}, needs {dtype} (N, ..., {words})"
        )


def refuse_training(mode: bool) -> None:
    """Raise a RuntimeError if training mode is requested."""
    if mode:
        raise RuntimeError(
            "a packed model is for inference: its weights are bits; train the model that it was packed from, and pack "
            "that again"
        )
