"""Recurrent cells whose products are convolutions: ConvRNN, ConvLSTM and ConvGRU in 1, 2 and 3 dimensions.

The equations are those of RNN, LSTM and GRU with W_ih * x and W_hh * h as convolutions over the last axes; a unit is
one channel at one position.

N sequences, Ci input channels, C hidden channels, I and O extents of input and state, G gates.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ..engine.tensor import Tensor, wrap
from ..geometry import as_tuple
from ..ops.convolution import conv_nd
from ..ops.dtype import require_tensor
from ..ops.join import Split
from ..ops.splitting import unbind
from ..ops.transcendental import sigmoid
from . import init
from .convolution import Extents, Padding
from .folded_activation import Activation, folded
from .module import Module
from .parameter import Parameter, as_float_dtype, empty_weight
from .recurrent_stack import check_number

__all__ = [
    "ConvGRUCell1d", "ConvGRUCell2d", "ConvGRUCell3d", "ConvLSTMCell1d", "ConvLSTMCell2d", "ConvLSTMCell3d",
    "ConvRNNCell1d", "ConvRNNCell2d", "ConvRNNCell3d",
]  # fmt: skip


class ConvCell(Module):
    """The parameters and the step that cells and layers share."""

    ndim: ClassVar[int]
    gates: ClassVar[int]
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, in_channels: int, hidden_channels: int, kernel_size: Extents, state_kernel_size: Extents | None,
        padding: Padding, dilation: Extents, state_dilation: Extents, bias: bool, activation: Activation,
        peephole: bool | Extents, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        self.in_channels = check_number(name, "in_channels", in_channels)
        self.hidden_channels = check_number(name, "hidden_channels", hidden_channels)
        self.kernel_size = as_tuple(kernel_size, self.ndim, f"{name}: kernel_size", 1)
        size = self.kernel_size if state_kernel_size is None else state_kernel_size
        self.state_kernel_size = as_tuple(size, self.ndim, f"{name}: state_kernel_size", 1)
        if any(extent % 2 == 0 for extent in self.state_kernel_size):
            raise ValueError(
                f"{name}: state_kernel_size={self.state_kernel_size} must be odd, so that the state keeps its extents; "
                "it defaults to kernel_size"
            )
        self.padding: Any = padding
        self.dilation = as_tuple(dilation, self.ndim, f"{name}: dilation", 1)
        self.state_dilation = as_tuple(state_dilation, self.ndim, f"{name}: state_dilation", 1)
        self.activation: Any = activation
        self.peephole: Any = peephole
        if not isinstance(peephole, bool):
            self.peephole = as_tuple(peephole, self.ndim, f"{name}: peephole", 1)
        folded(name, activation)
        rows = self.gates * hidden_channels
        self.weight_ih = empty_weight((rows, in_channels, *self.kernel_size), dtype)
        self.weight_hh = empty_weight((rows, hidden_channels, *self.state_kernel_size), dtype)
        kind = as_float_dtype(dtype)
        for key in ("bias_ih", "bias_hh"):
            self.register_parameter(key, Parameter(np.empty(rows, kind)) if bias else None)
        if peephole:
            extents = (1,) * self.ndim if self.peephole is True else self.peephole
            self.weight_ch = Parameter(np.empty((3, hidden_channels, *extents), kind))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all values from U(-b, b), b = 1 / sqrt(fan_in) of the state's convolution."""
        bound = 1 / math.sqrt(self.hidden_channels * math.prod(self.state_kernel_size))
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _act(self, a: Tensor) -> Tensor:
        return folded(type(self).__name__, self.activation)(a)

    def _of_input(self, x: Tensor) -> Tensor:
        """W_ih * x + b_ih for x (N, Ci, *I)."""
        name = type(self).__name__
        return conv_nd(name, self.ndim, x, self.weight_ih, self.bias_ih, 1, self.padding, self.dilation, 1)

    def _of_state(self, h: Tensor, rows: slice = slice(None)) -> Tensor:
        """W_hh * h + b_hh, or only its channels ``rows``."""
        w: Tensor = self.weight_hh
        b: Tensor | None = self.bias_hh
        if rows != slice(None):
            w, b = w[rows], None if b is None else b[rows]
        return conv_nd(type(self).__name__, self.ndim, h, w, b, 1, "same", self.state_dilation, 1)

    def _cut(self, a: Tensor, count: int) -> list[Tensor]:
        return list(Split.apply(a, [self.hidden_channels] * count, 1))

    def _step(self, ax: Tensor, state: Any) -> tuple[Tensor, Any]:
        """(h, new state), from the input's part of the gates (N, G*C, *O) and the old state."""
        raise NotImplementedError

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """hx: the previous state, zeros by default."""
        require_tensor(type(self).__name__, input)
        if input.array.ndim != self.ndim + 2:
            wanted = f"(N, {self.in_channels}, {self.ndim} extents)"
            raise ValueError(f"{type(self).__name__}: input.shape={input.array.shape} must be {wanted}")
        return self._step(self._of_input(input), hx)[1]

    def _state(self, ax: Tensor, state: Any, label: str = "hx") -> Tensor:
        """A checked state (N, C, *O), zeros for None."""
        name, shape = type(self).__name__, (ax.array.shape[0], self.hidden_channels, *ax.array.shape[2:])
        if state is None:
            return wrap(np.zeros(shape, ax.array.dtype))
        if not isinstance(state, Tensor):
            raise TypeError(f"{name}: {label} must be a Tensor of shape {shape}, got {type(state).__name__}")
        if state.array.shape != shape:
            raise ValueError(f"{name}: {label}.shape={state.array.shape} must be {shape}")
        return state

    def extra_repr(self) -> str:
        words = [str(self.in_channels), str(self.hidden_channels), f"kernel_size={self.kernel_size}"]
        ones = (1,) * self.ndim
        defaults = {
            "state_kernel_size": self.kernel_size, "padding": "same", "dilation": ones, "state_dilation": ones,
            "activation": "tanh", "peephole": False, "reset_after": True, "batch_first": False, "reverse": False,
            "checkpoint": None,
        }  # fmt: skip
        for key, value in defaults.items():
            own = getattr(self, key, value)
            if own != value and not isinstance(own, Module):
                words.append(f"{key}={getattr(own, '__name__', repr(own))}")
        if self.bias_ih is None:
            words.append("bias=False")
        return ", ".join(words)


class ConvRNNCell(ConvCell):
    gates = 1

    def __init__(
        self, in_channels: int, hidden_channels: int, kernel_size: Extents, state_kernel_size: Extents | None = None,
        padding: Padding = "same", dilation: Extents = 1, state_dilation: Extents = 1, bias: bool = True, *,
        activation: Activation = "tanh", dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, hidden_channels, kernel_size, state_kernel_size, padding, dilation, state_dilation, bias,
            activation, False, dtype,
        )  # fmt: skip

    def _step(self, ax: Tensor, state: Any) -> tuple[Tensor, Any]:
        h = self._act(ax + self._of_state(self._state(ax, state)))
        return h, h


class ConvLSTMCell(ConvCell):
    gates = 4

    def __init__(
        self, in_channels: int, hidden_channels: int, kernel_size: Extents, state_kernel_size: Extents | None = None,
        padding: Padding = "same", dilation: Extents = 1, state_dilation: Extents = 1, bias: bool = True, *,
        peephole: bool | Extents = False, activation: Activation = "tanh", dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, hidden_channels, kernel_size, state_kernel_size, padding, dilation, state_dilation, bias,
            activation, peephole, dtype,
        )  # fmt: skip

    def _step(self, ax: Tensor, state: Any) -> tuple[Tensor, Any]:
        if state is not None and (not isinstance(state, (tuple, list)) or len(state) != 2):
            raise ValueError(f"{type(self).__name__}: hx must be a pair (h, c), got {type(state).__name__}")
        h, c = (None, None) if state is None else state
        h, c = self._state(ax, h, "hx[0]"), self._state(ax, c, "hx[1]")
        i, f, g, o = self._cut(ax + self._of_state(h), 4)
        if self.peephole not in (False, True) and c.array.shape[2:] != self.peephole:
            raise ValueError(
                f"{type(self).__name__}: peephole={self.peephole} must be the state's extents {c.array.shape[2:]}, or "
                "True for one weight per channel"
            )
        of_i, of_f, of_o = unbind(self.weight_ch, 0) if self.peephole else (None, None, None)
        if of_i is not None:
            i, f = i + of_i * c, f + of_f * c
        c = sigmoid(f) * c + sigmoid(i) * self._act(g)
        if of_o is not None:
            o = o + of_o * c
        h = sigmoid(o) * self._act(c)
        return h, (h, c)


class ConvGRUCell(ConvCell):
    gates = 3

    def __init__(
        self, in_channels: int, hidden_channels: int, kernel_size: Extents, state_kernel_size: Extents | None = None,
        padding: Padding = "same", dilation: Extents = 1, state_dilation: Extents = 1, bias: bool = True, *,
        reset_after: bool = True, activation: Activation = "tanh", dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, hidden_channels, kernel_size, state_kernel_size, padding, dilation, state_dilation, bias,
            activation, False, dtype,
        )  # fmt: skip
        self.reset_after = reset_after

    def _step(self, ax: Tensor, state: Any) -> tuple[Tensor, Any]:
        h, cut = self._state(ax, state), 2 * self.hidden_channels
        ar, az, an = self._cut(ax, 3)
        if self.reset_after:
            hr, hz, hn = self._cut(self._of_state(h), 3)
            r = sigmoid(ar + hr)
            an = an + r * hn
        else:
            hr, hz = self._cut(self._of_state(h, slice(cut)), 2)
            r = sigmoid(ar + hr)
            an = an + self._of_state(r * h, slice(cut, None))
        z, n = sigmoid(az + hz), self._act(an)
        h = n + z * (h - n)
        return h, h


_DOC = """{kind}: {equations}.

    {shapes}
    weight_ih (G*C, Ci, *R), weight_hh (G*C, C, *K), bias_ih and bias_hh (G*C,); G = {gates}, O as in a convolution

    in_channels, hidden_channels: Ci and C.
    kernel_size: R, an int or one per axis.
    state_kernel_size: K, odd, by default R; the convolution of the state keeps its extents.
    padding: of the input: an int, one per axis, pairs, or a word of ``nn.functional.conv2d`` such as "valid"; by
        default "same", and then O = I.
    dilation, state_dilation: dilation of the two convolutions.
    bias: whether to have bias_ih and bias_hh.
    activation: replaces tanh: a name or a function.{own}{of_layer}

    All parameters are drawn from U(-b, b), b = 1 / sqrt(C * product of K).

    Source: {source}

    Raises:
        ValueError: an argument is out of range, or a shape does not fit.
        TypeError: an input and the weights have different dtypes.
    """
_RNN = {"gates": "1", "equations": "h' = tanh(W_ih * x + b_ih + W_hh * h + b_hh)", "own": ""}
_LSTM = {
    "gates": "4",
    "equations": "c' = f c + i g, h' = o tanh(c')",
    "own": "\n    peephole: i and f see c, and o sees c', through weight_ch. True: one weight per channel, (3, C, 1,"
    "\n        ..); the state's extents: one per channel and position, (3, C, *O), as in the paper.",
}
_GRU = {
    "gates": "3",
    "equations": "h' = (1 - z) n + z h",
    "own": "\n    reset_after: False puts the reset gate before the convolution of the state, r h, not after it.",
}
_SOURCES = {
    "1": "Gluon's ConvRNNCell, MXNet 1.9.1.",
    "4": 'X. Shi et al., "Convolutional LSTM Network", 2015, arXiv:1506.04214.',
    "3": 'N. Ballas et al., "Delving Deeper into Convolutional Networks for Learning Video Representations", 2016.',
}


def described(cls: type[ConvCell], first: str, shapes: str, of_layer: str = "") -> str:
    """The docstring of a class, starting with ``first``."""
    words = {1: _RNN, 4: _LSTM, 3: _GRU}[cls.gates]
    return _DOC.format(kind=first, shapes=shapes, of_layer=of_layer, source=_SOURCES[words["gates"]], **words)


def _of_cell(cls: type[ConvCell], axes: str) -> str:
    state = "(h, c)" if cls.gates == 4 else "h"
    shapes = f"x (N, Ci, *I), {state} of (N, C, *O), by default 0 -> {state}, the new state"
    return described(cls, f"One step of a convolutional {cls.__name__[4:].removesuffix('Cell')} over {axes}", shapes)


class ConvRNNCell1d(ConvRNNCell):
    __doc__ = _of_cell(ConvRNNCell, "one axis")
    ndim = 1


class ConvRNNCell2d(ConvRNNCell):
    __doc__ = _of_cell(ConvRNNCell, "two axes")
    ndim = 2


class ConvRNNCell3d(ConvRNNCell):
    __doc__ = _of_cell(ConvRNNCell, "three axes")
    ndim = 3


class ConvLSTMCell1d(ConvLSTMCell):
    __doc__ = _of_cell(ConvLSTMCell, "one axis")
    ndim = 1


class ConvLSTMCell2d(ConvLSTMCell):
    __doc__ = _of_cell(ConvLSTMCell, "two axes")
    ndim = 2


class ConvLSTMCell3d(ConvLSTMCell):
    __doc__ = _of_cell(ConvLSTMCell, "three axes")
    ndim = 3


class ConvGRUCell1d(ConvGRUCell):
    __doc__ = _of_cell(ConvGRUCell, "one axis")
    ndim = 1


class ConvGRUCell2d(ConvGRUCell):
    __doc__ = _of_cell(ConvGRUCell, "two axes")
    ndim = 2


class ConvGRUCell3d(ConvGRUCell):
    __doc__ = _of_cell(ConvGRUCell, "three axes")
    ndim = 3
