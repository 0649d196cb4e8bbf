"""Convolutional recurrent cells and layers: ConvRNN, ConvLSTM and ConvGRU in 1, 2 and 3 dimensions.

The equations are those of RNN, LSTM and GRU, with W_ih * x and W_hh * h as convolutions over the last axes. A unit is
one channel at one position. A layer has the equations and parameters of its cell, so a cell's state_dict loads into a
layer. One convolution covers the inputs of all steps; the state is convolved step by step.

T steps, N sequences, Ci input channels, C hidden channels, I and O extents of input and state, G gates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..arrays import empty, from_host, zeros
from ..engine.arguments import kind_name
from ..engine.grad_mode import is_grad_enabled
from ..engine.recompute import CheckpointedCall
from ..engine.tensor import Tensor, wrap
from ..formulas.gates import gru_cell, lstm, mixture_cell, reset, unchanged
from ..kernel_set import exact
from ..ops.argument_checks import require_tensor
from ..ops.convolution.convolution import conv_nd
from ..ops.device import DeviceLike
from ..ops.dtypes.dtype import DTypeLike
from ..ops.random.random import fork_rng, get_rng_state, set_rng_state
from ..ops.recurrent.arguments import checked_interval
from ..ops.shape.join import Split, cat
from ..ops.shape.shape import reshape, transpose
from ..ops.shape.splitting import unbind
from ..specs.geometry import as_tuple
from . import init
from .arguments import check_ints
from .convolution import Activation, Extents, Padding, activation_function
from .layer import OverAxes, layer
from .module import Module
from .parameter import Parameter, as_float_dtype, empty_weight
from .recurrent_wrapper import over_time, sequence

__all__ = [
    "ConvGRU1d",
    "ConvGRU2d",
    "ConvGRU3d",
    "ConvGRUCell1d",
    "ConvGRUCell2d",
    "ConvGRUCell3d",
    "ConvLSTM1d",
    "ConvLSTM2d",
    "ConvLSTM3d",
    "ConvLSTMCell1d",
    "ConvLSTMCell2d",
    "ConvLSTMCell3d",
    "ConvRNN1d",
    "ConvRNN2d",
    "ConvRNN3d",
    "ConvRNNCell1d",
    "ConvRNNCell2d",
    "ConvRNNCell3d",
]


# ---- Cells: ConvRNNCell, ConvLSTMCell and ConvGRUCell in 1, 2 and 3 dimensions --------------------------------------


@layer
class ConvCell(OverAxes, Module):
    """{first} {kind} over {axes}: {equations}.

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

    in_channels: int
    hidden_channels: int
    kernel_size: Extents
    state_kernel_size: Extents | None = None
    padding: Padding = "same"
    dilation: Extents = 1
    state_dilation: Extents = 1
    bias: bool = True
    _: KW_ONLY
    activation: Activation = "tanh"
    device: DeviceLike = None
    dtype: DTypeLike = None

    _place = {  # the parts of the docstring that differ between cells and layers
        "first": "One step of a convolutional",
        "shapes": "x (N, Ci, *I), {state} of (N, C, *O), by default 0 -> {state}, the new state",
        "of_layer": "",
    }
    _words: ClassVar[dict[str, str]]  # the parts that differ between kinds of cell

    gates: ClassVar[int]

    @classmethod
    def _general(cls) -> str:
        text = ConvCell.__doc__ or ""
        for name, words in (cls._place | cls._words | {"gates": str(cls.gates)}).items():
            text = text.replace(f"{{{name}}}", words)
        return text

    def _set_up(self) -> None:
        name, dtype = type(self).__name__, self.__dict__.pop("dtype")
        del self.__dict__["device"]  # the constructor's wrapper has checked it, see module.checked
        check_ints(name, in_channels=self.in_channels, hidden_channels=self.hidden_channels)
        self.kernel_size = as_tuple(self.kernel_size, self.ndim, f"{name}: kernel_size", 1)
        size = self.kernel_size if self.state_kernel_size is None else self.state_kernel_size
        self.state_kernel_size = as_tuple(size, self.ndim, f"{name}: state_kernel_size", 1)
        if any(extent % 2 == 0 for extent in self.state_kernel_size):
            raise ValueError(
                f"{name}: state_kernel_size={self.state_kernel_size} must be odd, so that the state keeps its extents; "
                "it defaults to kernel_size"
            )
        self.dilation = as_tuple(self.dilation, self.ndim, f"{name}: dilation", 1)
        self.state_dilation = as_tuple(self.state_dilation, self.ndim, f"{name}: state_dilation", 1)
        activation_function(name, self.activation)
        rows, kind = self.gates * self.hidden_channels, as_float_dtype(dtype)
        self.weight_ih: Parameter = empty_weight((rows, self.in_channels, *self.kernel_size), dtype)
        self.weight_hh: Parameter = empty_weight((rows, self.hidden_channels, *self.state_kernel_size), dtype)
        for key in ("bias_ih", "bias_hh"):
            self.register_parameter(key, Parameter(empty(rows, kind)) if self.bias else None)
        self._more_parameters(kind)
        self.reset_parameters()

    def _more_parameters(self, dtype: np.dtype) -> None:
        """Create the parameters that only this kind of cell has."""

    def reset_parameters(self) -> None:
        """Draw all values from U(-b, b), b = 1 / sqrt(fan_in) of the state's convolution."""
        taps = math.prod(self.state_kernel_size)  # type: ignore[arg-type]  # a tuple by now, like the other extents
        bound = 1 / math.sqrt(self.hidden_channels * taps)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _act(self, a: Tensor) -> Tensor:
        return activation_function(type(self).__name__, self.activation)(a)

    def _of_input(self, x: Tensor) -> Tensor:
        """Return W_ih * x + b_ih for x (N, Ci, *I)."""
        name = type(self).__name__
        options: Any = 1, self.padding, self.dilation, 1
        return conv_nd(name, self.ndim, x, self.weight_ih, self.bias_ih, *options)

    def _of_state(self, h: Tensor, rows: slice = slice(None)) -> Tensor:
        """Return W_hh * h + b_hh, or only its channels ``rows``."""
        w: Tensor = self.weight_hh
        b: Tensor | None = self.bias_hh
        if rows != slice(None):
            w, b = w[rows], None if b is None else b[rows]
        options: Any = 1, "same", self.state_dilation, 1
        return conv_nd(type(self).__name__, self.ndim, h, w, b, *options)

    def _cut(self, a: Tensor, count: int) -> list[Tensor]:
        return list(Split.apply(a, (self.hidden_channels,) * count, 1))

    def _step(self, ax: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return (h, new state) from the input's part of the gates (N, G*C, *O) and the old state."""
        raise NotImplementedError

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """hx: the previous state, zeros by default."""
        require_tensor(type(self).__name__, input)
        if input.array.ndim != self.ndim + 2:
            expected = f"(N, {self.in_channels}, {self.ndim} extents)"
            raise ValueError(f"{type(self).__name__}: input.shape={input.array.shape} must be {expected}")
        return self._step(self._of_input(input), hx)[1]

    def _state(self, ax: Tensor, state: Any, label: str = "hx") -> Tensor:
        """Return the state (N, C, *O), checked; zeros for None."""
        name, shape = type(self).__name__, (ax.array.shape[0], self.hidden_channels, *ax.array.shape[2:])
        if state is None:
            return wrap(zeros(shape, ax.array.dtype, like=ax.array))
        if not isinstance(state, Tensor):
            raise TypeError(f"{name}: {label} must be a Tensor of shape {shape}, got {kind_name(state)}")
        if state.array.shape != shape:
            raise ValueError(f"{name}: {label}.shape={state.array.shape} must be {shape}")
        return state

    def extra_repr(self) -> str:
        words = [str(self.in_channels), str(self.hidden_channels), f"kernel_size={self.kernel_size}"]
        ones = (1,) * self.ndim
        defaults = {
            "state_kernel_size": self.kernel_size,
            "padding": "same",
            "dilation": ones,
            "state_dilation": ones,
            "activation": "tanh",
            "peephole": False,
            "reset_after": True,
            "batch_first": False,
            "reverse": False,
            "checkpoint": None,
            "bias": True,
        }
        for key, value in defaults.items():
            own = getattr(self, key, value)
            if own != value and not isinstance(own, Module):
                words.append(f"{key}={getattr(own, '__name__', repr(own))}")
        return ", ".join(words)


class ConvRNNCell(ConvCell):
    gates = 1
    _words = {
        "kind": "RNN",
        "state": "h",
        "equations": "h' = tanh(W_ih * x + b_ih + W_hh * h + b_hh)",
        "own": "",
        "source": "Gluon's ConvRNNCell, MXNet 1.9.1.",
    }

    def _step(self, ax: Tensor, state: Any) -> tuple[Tensor, Any]:
        h = self._act(ax + self._of_state(self._state(ax, state)))
        return h, h


@layer
class ConvLSTMCell(ConvCell):
    _: KW_ONLY
    peephole: bool | Extents = False

    gates = 4
    _words = {
        "kind": "LSTM",
        "state": "(h, c)",
        "equations": "c' = f c + i g, h' = o tanh(c')",
        "own": """
    peephole: i and f see c, and o sees c', through weight_ch. True: one weight per channel, (3, C, 1, ..); the state's
        extents: one per channel and position, (3, C, *O), as in the paper.""",
        "source": 'X. Shi et al., "Convolutional LSTM Network", 2015, arXiv:1506.04214.',
    }

    def _more_parameters(self, dtype: np.dtype) -> None:
        if not isinstance(self.peephole, bool):
            self.peephole = as_tuple(self.peephole, self.ndim, f"{type(self).__name__}: peephole", 1)
        if self.peephole:
            extents: Any = (1,) * self.ndim if self.peephole is True else self.peephole
            self.weight_ch: Parameter = Parameter(empty((3, self.hidden_channels, *extents), dtype))

    def _step(self, ax: Tensor, state: Any) -> tuple[Tensor, Any]:
        if state is not None and (not isinstance(state, (tuple, list)) or len(state) != 2):
            raise ValueError(f"{type(self).__name__}: hx must be a pair (h, c), got {kind_name(state)}")
        h, c = (None, None) if state is None else state
        h, c = self._state(ax, h, "hx[0]"), self._state(ax, c, "hx[1]")
        if self.peephole not in (False, True) and c.array.shape[2:] != self.peephole:
            raise ValueError(
                f"{type(self).__name__}: peephole={self.peephole} must be the state's extents {c.array.shape[2:]}, or "
                "True for one weight per channel"
            )
        peephole = unbind(self.weight_ch, 0) if self.peephole else ()
        _, c, h = lstm(self._cut(ax + self._of_state(h), 4), c, peephole, unchanged, unchanged, self._act)
        return h, (h, c)


@layer
class ConvGRUCell(ConvCell):
    _: KW_ONLY
    reset_after: bool = True

    gates = 3
    _words = {
        "kind": "GRU",
        "state": "h",
        "equations": "h' = (1 - z) n + z h",
        "own": "\n    reset_after: False puts the reset gate before the convolution of the state, r h, not after it.",
        "source": 'N. Ballas et al., "Delving Deeper into Convolutional Networks for Learning Video Representations", '
        "2016.",
    }

    def _step(self, ax: Tensor, state: Any) -> tuple[Tensor, Any]:
        h, cut = self._state(ax, state), 2 * self.hidden_channels
        ar, az, an = self._cut(ax, 3)
        if self.reset_after:
            hr, hz, hn = self._cut(self._of_state(h), 3)
            h = gru_cell(an, ar + hr, az + hz, hn, h, self._act)[-1]
        else:
            hr, hz = self._cut(self._of_state(h, slice(cut)), 2)
            an = an + self._of_state(reset(ar + hr, h), slice(cut, None))
            h = mixture_cell(an, az + hz, h, self._act)[-1]
        return h, h


class ConvRNNCell1d(ConvRNNCell, ndim=1):
    """One step of a convolutional RNN over one axis: h' = tanh(W_ih * x + b_ih + W_hh * h + b_hh)."""


class ConvRNNCell2d(ConvRNNCell, ndim=2):
    """One step of a convolutional RNN over two axes: h' = tanh(W_ih * x + b_ih + W_hh * h + b_hh)."""


class ConvRNNCell3d(ConvRNNCell, ndim=3):
    """One step of a convolutional RNN over three axes: h' = tanh(W_ih * x + b_ih + W_hh * h + b_hh)."""


class ConvLSTMCell1d(ConvLSTMCell, ndim=1):
    """One step of a convolutional LSTM over one axis: c' = f c + i g, h' = o tanh(c')."""


class ConvLSTMCell2d(ConvLSTMCell, ndim=2):
    """One step of a convolutional LSTM over two axes: c' = f c + i g, h' = o tanh(c')."""


class ConvLSTMCell3d(ConvLSTMCell, ndim=3):
    """One step of a convolutional LSTM over three axes: c' = f c + i g, h' = o tanh(c')."""


class ConvGRUCell1d(ConvGRUCell, ndim=1):
    """One step of a convolutional GRU over one axis: h' = (1 - z) n + z h."""


class ConvGRUCell2d(ConvGRUCell, ndim=2):
    """One step of a convolutional GRU over two axes: h' = (1 - z) n + z h."""


class ConvGRUCell3d(ConvGRUCell, ndim=3):
    """One step of a convolutional GRU over three axes: h' = (1 - z) n + z h."""


# ---- Layers: ConvRNN, ConvLSTM and ConvGRU in 1, 2 and 3 dimensions -------------------------------------------------


@layer
class _OverTime(ConvCell):
    """Base of layers that run a cell over a whole sequence."""

    _: KW_ONLY
    batch_first: bool = False
    reverse: bool = False
    checkpoint: int | str | None = None

    _place = {
        "first": "A convolutional",
        "shapes": "x (T, N, Ci, *I), with batch_first (N, T, Ci, *I) -> (y, {state}): y (T, N, C, *O), the state "
        "(N, C, *O)",
        "of_layer": """
    batch_first: the batch is the first axis of x and y.
    reverse: the sequence is read from its end; y stays in time order.
    checkpoint: k, to keep only every k-th state and recompute the steps between in backward; "auto": the square root
        of T, so that memory besides x and y grows with sqrt(T).""",
    }

    def _set_up(self) -> None:
        super()._set_up()
        if self.checkpoint is not None:
            checked_interval(type(self).__name__, self.checkpoint, 1)

    def forward(self, input: Tensor, hx: Any = None, lengths: Any = None) -> tuple[Tensor, Any]:
        """Return (y, state). hx: the initial state. lengths: (N,), from 1 to T; y is 0 past a sequence's length."""
        name = type(self).__name__
        require_tensor(name, input)
        if input.array.ndim != self.ndim + 3:
            first = "N, T" if self.batch_first else "T, N"
            expected = f"({first}, {self.in_channels}, {self.ndim} extents)"
            raise ValueError(f"{name}: input.shape={input.array.shape} must be {expected}")
        x, counts = sequence(name, input, self.batch_first, lengths)
        if self.checkpoint is None or not is_grad_enabled():
            y, state = self._steps(x, hx, counts)
        else:
            y, state = self._segments(x, hx, counts, checked_interval(name, self.checkpoint, len(x.array)))
        return transpose(y, 0, 1) if self.batch_first else y, state

    def _steps(self, x: Tensor, state: Any, counts: np.ndarray | None) -> tuple[Tensor, Any]:
        """Return y and the last state for x (T, N, Ci, *I)."""
        steps, batch, *rest = x.array.shape
        ax = self._of_input(reshape(x, steps * batch, *rest))  # one convolution for all steps
        parts = unbind(reshape(ax, steps, batch, *ax.array.shape[1:]), 0)
        return over_time(self._step, parts, state, counts, self.reverse)

    def _segment(self, x: Tensor, counts: np.ndarray | None, pair: bool, *states: Any) -> tuple[Tensor, Any]:
        """Run ``_steps`` with each state as a separate argument, since Region watches Tensor arguments for changes."""
        return self._steps(x, states if pair else states[0], counts)

    def _segments(self, x: Tensor, state: Any, counts: np.ndarray | None, every: int) -> tuple[Tensor, Any]:
        """Run ``_steps`` in segments of ``every`` steps, keeping only the states between them."""
        starts, ys = range(0, len(x.array), every), []
        for start in reversed(starts) if self.reverse else starts:
            left = None if counts is None else exact("sub")(counts, from_host(start, counts.dtype, like=counts))
            pair = isinstance(state, (tuple, list))
            args = (x[start : start + every], left, pair, *(state if pair else [state]))
            y, state = CheckpointedCall(self._segment, args, {}, partial(_drawing, get_rng_state())).run()
            ys.append(y)
        return cat(ys[::-1] if self.reverse else ys, 0), state


@contextmanager
def _drawing(state: dict[str, Any]) -> Iterator[None]:
    """Restore the generator's state within the block: an activation may draw random numbers."""
    with fork_rng():
        set_rng_state(state)
        yield


@layer
class _ConvRNN(_OverTime, ConvRNNCell): ...


@layer
class _ConvLSTM(_OverTime, ConvLSTMCell): ...


@layer
class _ConvGRU(_OverTime, ConvGRUCell): ...


class ConvRNN1d(_ConvRNN, ndim=1):
    """A convolutional RNN over one axis: h' = tanh(W_ih * x + b_ih + W_hh * h + b_hh)."""


class ConvRNN2d(_ConvRNN, ndim=2):
    """A convolutional RNN over two axes: h' = tanh(W_ih * x + b_ih + W_hh * h + b_hh)."""


class ConvRNN3d(_ConvRNN, ndim=3):
    """A convolutional RNN over three axes: h' = tanh(W_ih * x + b_ih + W_hh * h + b_hh)."""


class ConvLSTM1d(_ConvLSTM, ndim=1):
    """A convolutional LSTM over one axis: c' = f c + i g, h' = o tanh(c')."""


class ConvLSTM2d(_ConvLSTM, ndim=2):
    """A convolutional LSTM over two axes: c' = f c + i g, h' = o tanh(c')."""


class ConvLSTM3d(_ConvLSTM, ndim=3):
    """A convolutional LSTM over three axes: c' = f c + i g, h' = o tanh(c')."""


class ConvGRU1d(_ConvGRU, ndim=1):
    """A convolutional GRU over one axis: h' = (1 - z) n + z h."""


class ConvGRU2d(_ConvGRU, ndim=2):
    """A convolutional GRU over two axes: h' = (1 - z) n + z h."""


class ConvGRU3d(_ConvGRU, ndim=3):
    """A convolutional GRU over three axes: h' = (1 - z) n + z h."""
