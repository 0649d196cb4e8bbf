"""Fold batch norm, activation and pooling between packed layers into the layers.

If the next layer is binary, the modules between the layers reduce to a comparison of the integer sum with a threshold.
They are monotone in the sum, so bisection over the sums, evaluated with the modules themselves, finds the threshold
exactly. If the next layer takes codes of several bits, batch norm and scale become one factor and one integer, and each
code differs by at most 1 from the result of the float modules. Max pooling operates on codes.

Source: Y. Umuroglu et al., "FINN: A Framework for Fast, Scalable Binarized Neural Network Inference", 2017
(arXiv:1612.07119), section 4.2 (thresholds, pooling of bits).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import nn
from ..arrays import all_finite, all_true, any_true, ones_like, zeros, zeros_like
from ..engine.arguments import kind_name
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..nn.module import Module
from ..ops.argument_checks import as_int
from ..ops.normalization.batch_norm import FixedScale, channel_affine
from ..ops.pointwise.piecewise import where
from ..specs.geometry import as_pairs, pool_window
from ..specs.low_bit import ELEMENTS, Requantized, Thresholded
from .binary_quantizers import changes_sign_at_zero
from .layers import Quantize
from .packed_layers import Codes, Packed, PackedSum, check_codes, refuse_training
from .quantizer import Quantizer, is_sign
from .uniform_quantizers import LSQ, PACT, DoReFa, Int8

__all__ = ["PackedMaxPool", "PackedNorm"]


# ---- Batch norm for inference: a scale and a shift of each channel --------------------------------------------------

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class PackedNorm(Module):
    """y[:, c] = x[:, c] * scale[c] + shift[c]: bitwise equal to a batch norm in eval mode.

    x (N, C, *S) with ``ndim`` axes S; if ndim is 1, also x (N, C). scale, shift (C,).

    Raises, when it is called:
        TypeError: input is not a Tensor with the dtype of scale.
        ValueError: input has the wrong number of axes or channels.
    """

    ndim: int

    scale: Tensor
    shift: Tensor

    def __init__(self, scale: np.ndarray, shift: np.ndarray, ndim: int) -> None:
        for label, value in (("scale", scale), ("shift", shift)):
            if not isinstance(value, np.ndarray):
                raise TypeError(f"PackedNorm: {label} is {kind_name(value)}, needs an array; pack(model) makes one")
        super().__init__()
        self.ndim, self.training = as_int("PackedNorm", "ndim", ndim), False
        self.register_buffer("scale", wrap(scale))
        self.register_buffer("shift", wrap(shift))

    def train(self, mode: bool = True) -> PackedNorm:
        refuse_training(mode)
        return self

    def forward(self, input: Tensor) -> Tensor:
        dtype, channels = self.scale.array.dtype, len(self.scale.array)
        if not isinstance(input, Tensor) or input.array.dtype != dtype:
            kind = input.array.dtype if isinstance(input, Tensor) else type(input).__name__
            raise TypeError(f"PackedNorm: input is {kind}, needs {dtype}")
        shape = input.array.shape
        axes = len(shape) - 2
        if (axes != self.ndim and (axes, self.ndim) != (0, 1)) or shape[1] != channels:
            extents = ", ".join("DHW"[-self.ndim :])
            raise ValueError(f"PackedNorm: input.shape={shape} must be (N, {channels}, {extents})")
        return channel_affine(input, self.scale, self.shift)

    def extra_repr(self) -> str:
        return f"{len(self.scale.array)}, ndim={self.ndim}"


def packed_norm(norm: Any) -> PackedNorm | None:
    """A batch norm for inference; None for another module, or one without running statistics or with hooks."""
    if type(norm) not in _NORMS or norm.running_mean is None or any(norm.__dict__.get("_hooks", {}).values()):
        return None
    mean, variance = norm.running_mean, norm.running_var
    ones = ones_like(mean.array)
    weight = wrap(ones) if norm.weight is None else norm.weight.detach()
    bias = wrap(zeros_like(ones)) if norm.bias is None else norm.bias.detach()
    with no_grad():
        scale, shift = FixedScale.apply(mean, variance, weight, bias, norm.eps)
    return PackedNorm(scale.array, shift.array, norm.ndim)


# ---- Folding of the modules between two packed layers into the first, whose sums become codes -----------------------

_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
_IDENTITIES = (
    nn.Identity,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)
_NEAREST = (Int8, LSQ, DoReFa, PACT)  # quantizers that round to the nearest integer
_MAX_SLOPE = 0.5  # codes per unit of sum: rounding the bias to an integer then moves the result by at most 1/4 code

Place = tuple[nn.Sequential, str, Any]  # a Sequential, a name in it, and the module there


class PackedMaxPool(Module):
    """Max pooling of codes. For bits this is a logical or.

    x (N, *S, K) -> (N, *O, K). ``turned`` (C,) bool: the channels in which the minimum is taken instead of the maximum.

    Raises, when it is called:
        ValueError: the codes of input have the wrong dtype or number of channels, or as max_pool1d.
    """

    element: str
    options: tuple[Any, Any, Any, Any]
    turned: np.ndarray

    def __init__(self, kernel: Any, stride: Any, padding: Any, dilation: Any, turned: np.ndarray, element: str) -> None:
        if not isinstance(turned, np.ndarray) or turned.dtype.kind != "b" or turned.ndim != 1:
            kind = type(turned).__name__
            raise TypeError(f"PackedMaxPool: turned is {kind}, needs an array (C,) of bool, which lowbit.pack makes")
        if element not in ELEMENTS:
            raise ValueError(f"PackedMaxPool: element={element!r} must be one of {', '.join(ELEMENTS)}")
        super().__init__()
        self.options, self.turned, self.element = (kernel, stride, padding, dilation), turned, element
        self.training, self._words = False, kernels.channel_words(turned, element)

    def train(self, mode: bool = True) -> PackedMaxPool:
        refuse_training(mode)
        return self

    def forward(self, input: Codes) -> Codes:
        check_codes(self, input, self._words.dtype, len(self._words))
        kernel, stride, padding, dilation = self.options
        window = pool_window(input.array.shape[1:-1], kernel, stride, padding, dilation)
        return Codes(kernels.max_pool_codes(input.array, self._words, window), input.zero_point)

    def extra_repr(self) -> str:
        kernel, stride, padding, dilation = self.options
        return f"kernel_size={kernel}, stride={stride}, padding={padding}, dilation={dilation}"


def fuse(model: Module) -> list[tuple[str, str]]:
    """Fuse the packed layers in each Sequential of a packed model, in place.

    Returns the paths of the modules that were fused, each with the path of the layer that it became part of.
    """
    paths: dict[int, list[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        paths.setdefault(id(module), []).append(path)
    found: list[tuple[str, str]] = []
    inner = {id(child) for module in model.modules() if type(module) is nn.Sequential for child in module.children()}
    for chain in list(model.modules()):
        if type(chain) is nn.Sequential and id(chain) not in inner:
            places = [place for place in _places(chain) if len(paths[id(place[2])]) == 1]
            if len(places) == len(list(_places(chain))):
                found += [(paths[id(one)][0], paths[id(first)][0]) for one, first in _fused(places)]
    return found


def _places(chain: nn.Sequential) -> Iterator[Place]:
    """Return the modules in the order in which they run."""
    for name in chain._child_names:
        module = chain.__dict__[name]
        if type(module) is nn.Sequential and "_hooks" not in module.__dict__:
            yield from _places(module)
        else:
            yield chain, name, module


def _fused(places: list[Place]) -> Iterator[tuple[Module, Module]]:
    """Fuse what can be fused; yield (fused module, the layer that it became part of)."""
    for at, (_, _, first) in enumerate(places):
        if not _gives_sums(first):
            continue
        last: Any = next((place[2] for place in places[at + 1 :] if isinstance(place[2], Packed)), None)
        between = places[at + 1 : [place[2] for place in places].index(last)] if last is not None else []
        modules = [module for _, _, module in between]
        if not _takes_codes(last) or not _fits(first, modules, last):
            continue
        join: Any = _thresholded if last.arithmetic == "binary" else _requantized
        found = join(first, modules, last)
        if found is not None:
            then, turned = found
            first.join(then)
            _replace(between, turned, last)
            yield from ((module, first) for module in modules if type(module) is not nn.Identity)


def _gives_sums(module: Any) -> bool:
    """Whether a module is a packed layer whose output is a monotone function of its sum."""
    return (
        type(module) is PackedSum
        and module.arithmetic != "float"
        and not _has_factor(module)
        and (module.ndim == 0 or module.form.activation in (None, "relu"))
        and _is_bare(module)
    )


def _takes_codes(module: Any) -> bool:
    return (
        type(module) is PackedSum
        and module.arithmetic != "float"
        and not _has_factor(module)
        and (module.ndim == 0 or module.form.padding_mode == "zeros")
        and (module.groups == 1 or (module._inputs() // module.groups) % ELEMENTS[module.arithmetic] == 0)
        and (module.arithmetic != "binary" or changes_sign_at_zero(module.form.activation_quantizer))
        and _is_bare(module)
    )


def _has_factor(module: PackedSum) -> bool:
    return type(module.form.activation_quantizer).factor is not Quantizer.factor


def _is_bare(module: Module) -> bool:
    """Whether a module has no hooks."""
    return "_hooks" not in module.__dict__


def _fits(first: PackedSum, between: list[Any], last: PackedSum) -> bool:
    """Whether the modules between two layers can work on codes, and the channels of the layers match."""
    ndim, is_flat = first.ndim, False
    for module in between:
        kind = type(module)
        if not _is_bare(module):
            return False
        if kind is PackedNorm:
            fine = module.ndim == max(ndim, 1) and len(module.scale.array) == first._outputs() and not is_flat
        elif kind in _POOLS:
            fine = kind.ndim == ndim and not is_flat and not module.return_indices and not module.ceil_mode
        elif kind is nn.Flatten:
            fine = module.start_dim == 1 and module.end_dim in (-1, ndim + 1)
            is_flat = True
        elif kind is nn.LeakyReLU:
            fine = module.negative_slope >= 0
        elif kind is Quantize:
            quantizer = module.activation_quantizer
            fine = is_sign(quantizer, module._own("activation")) and type(quantizer).factor is Quantizer.factor
        else:
            fine = kind in (*_IDENTITIES, nn.ReLU, nn.ReLU6, nn.Hardtanh)
        if not fine:
            return False
    if last.ndim == 0 and ndim > 0:
        return is_flat and last._inputs() % first._outputs() == 0
    return last.ndim == ndim and not (is_flat and ndim) and last._inputs() == first._outputs()


# ---- Thresholds: sums to bits ---------------------------------------------------------------------------------------


def _thresholded(first: PackedSum, between: list[Any], last: PackedSum) -> tuple[Thresholded, list[np.ndarray]] | None:
    """Return the comparison that yields the same bits as the modules followed by the sign of ``last``, and for each
    pool between the layers the channels in which it must take the minimum. None if a module returns NaN or infinity.
    """
    with no_grad():
        above = wrap(first.limit())
        below = -above
        ends = [_values(first, between, sums) for sums in (below, above)]
        if not all(all_finite(value.array, "whether sums can be compared") for end in ends for value in end):
            return None
        started, ended = (end[-1] >= 0 for end in ends)
        while any_true((above - below > 1).array, "whether a threshold is found"):
            middle = (above + below) // 2
            same = (_values(first, between, middle)[-1] >= 0) == started
            below, above = where(same, middle, below), where(same, above, middle)
        changes = started != ended
        then = Thresholded(where(changes, above, -(2**31)).to(np.int32).array, where(changes, started, ~started).array)
        direction = where(changes, where(started, -1, 1), 0)
        pools = [at for at, module in enumerate(between) if type(module) in _POOLS]
        turned = [(direction * (ends[1][at] - ends[0][at]).sign() < 0).array for at in pools]
        return then, turned


def _values(first: PackedSum, between: list[Any], sums: Tensor) -> list[Tensor]:
    """Return the inputs of the modules, and of the next layer, that result from sums (Co,); each (Co,)."""
    x: Any = sums.to(first.scale.dtype) * wrap(first.scale)
    x = x if first.bias is None else x + wrap(first.bias)
    x = x.reshape(1, -1, *(1,) * first.ndim)
    values = []
    if first.ndim and first.form.activation is not None:
        x = first.form._activated(x)
    for module in between:
        values.append(x.reshape(-1).clone())
        if type(module) not in (*_POOLS, nn.Flatten):
            x = module(x)
    return [*values, x.reshape(-1)]


# ---- Requantization: sums to codes of several bits ------------------------------------------------------------------


def _requantized(first: PackedSum, between: list[Any], last: PackedSum) -> tuple[Requantized, list[np.ndarray]] | None:
    """Like ``_thresholded``, if ``last`` takes codes of several bits. None if it is impossible or too inaccurate."""
    levels, outputs = last.levels, first._outputs()
    if type(last.form.activation_quantizer) not in _NEAREST or first.scale.dtype != np.float32:
        return None
    slope = wrap(first.scale).double()
    shift = wrap(zeros(outputs, np.float64) if first.bias is None else first.bias).double()
    low, high = -np.inf, np.inf
    pools: list[Tensor] = []  # for each pool, the slope before it
    if first.ndim and first.form.activation is not None:
        low = 0.0
    for module in between:
        kind = type(module)
        if kind is PackedNorm:
            if low > -np.inf or high < np.inf:
                return None
            factor = module.scale.detach().double()
            slope, shift = slope * factor, shift * factor + module.shift.detach().double()
        elif kind in _POOLS:
            pools.append(slope)
        elif kind in (nn.ReLU, nn.ReLU6, nn.Hardtanh):
            limits = {nn.ReLU: (0.0, np.inf), nn.ReLU6: (0.0, 6.0)}.get(kind) or (module.min_val, module.max_val)
            low, high = (min(max(end, limits[0]), limits[1]) for end in (low, high))
        elif kind not in (*_IDENTITIES, nn.Flatten):
            return None
    step = float(np.float32(levels.step))
    scale = slope / step
    bias, why = (shift / slope).round(), "whether codes can be made of sums"
    if not all_finite(bias.array, why) or not all_true((bias.abs() + wrap(first.limit()) < 2**31).array, why):
        return None
    steep, tiny = scale.abs() <= _MAX_SLOPE, scale.abs() > float(np.finfo(np.float32).tiny)
    if not all_true(steep.array, why) or not all_true(tiny.array, why):
        return None
    zero = -levels.low if last.arithmetic == "int8" else 0
    least, most = (round(min(max(end / step, levels.low), levels.high)) + zero for end in (low, high))
    then = Requantized(scale.float().array, bias.to(np.int32).array, zero, least, most, last.arithmetic)
    return then, [(slope * before < 0).array for before in pools]


# ---- Replacement of the fused modules -------------------------------------------------------------------------------


def _replace(between: list[Place], turned: list[np.ndarray], last: PackedSum) -> None:
    """Replace pools with pools of codes, and remove the other fused modules."""
    channels = iter(turned)
    for chain, name, module in between:
        if type(module) in _POOLS:
            ndim = module.ndim
            new: Module = PackedMaxPool(
                module.kernel_size,
                module.stride,
                as_pairs(module.padding, ndim),
                module.dilation,
                next(channels),
                last.arithmetic,
            )
        else:
            new = nn.Identity()
        new.training = False
        chain.__dict__[name] = new
