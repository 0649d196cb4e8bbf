"""Recurrent layers whose products are convolutions: ConvRNN, ConvLSTM and ConvGRU in 1, 2 and 3 dimensions.

One convolution covers the inputs of all steps; the state is convolved step by step. Equations and parameters are those
of ``conv_recurrent_cell``: a cell's state_dict loads into a layer.

T steps, N sequences, Ci input channels, C hidden channels, I and O extents of input and state, G gates.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import numpy as np

from ..arrays import from_host
from ..engine.grad_mode import is_grad_enabled
from ..engine.recompute import Region
from ..engine.tensor import Tensor
from ..kernel_set import exact
from ..ops.arguments.checks import require_tensor
from ..ops.random.random import fork_rng, get_rng_state, set_rng_state
from ..ops.recurrent.arguments import checked_interval
from ..ops.shape.join import cat
from ..ops.shape.shape import reshape, transpose
from ..ops.shape.splitting import unbind
from .conv_recurrent_cell import ConvCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from .layer import layer
from .recurrent_wrapper import over_time, sequence

__all__ = [
    "ConvGRU1d",
    "ConvGRU2d",
    "ConvGRU3d",
    "ConvLSTM1d",
    "ConvLSTM2d",
    "ConvLSTM3d",
    "ConvRNN1d",
    "ConvRNN2d",
    "ConvRNN3d",
]


@layer
class _OverTime(ConvCell):
    """A cell run over a whole sequence."""

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
        """(y, state); hx: the initial state; lengths: (N,), from 1 to T; y is 0 past a sequence's length."""
        name = type(self).__name__
        require_tensor(name, input)
        if input.array.ndim != self.ndim + 3:
            first = "N, T" if self.batch_first else "T, N"
            wanted = f"({first}, {self.in_channels}, {self.ndim} extents)"
            raise ValueError(f"{name}: input.shape={input.array.shape} must be {wanted}")
        x, counts = sequence(name, input, self.batch_first, lengths)
        if self.checkpoint is None or not is_grad_enabled():
            y, state = self._steps(x, hx, counts)
        else:
            y, state = self._segments(x, hx, counts, checked_interval(name, self.checkpoint, len(x.array)))
        return transpose(y, 0, 1) if self.batch_first else y, state

    def _steps(self, x: Tensor, state: Any, counts: np.ndarray | None) -> tuple[Tensor, Any]:
        """y and the last state of x (T, N, Ci, *I)."""
        steps, batch, *rest = x.array.shape
        ax = self._of_input(reshape(x, steps * batch, *rest))  # one convolution for all steps
        parts = unbind(reshape(ax, steps, batch, *ax.array.shape[1:]), 0)
        return over_time(self._step, parts, state, counts, self.reverse)

    def _segment(self, x: Tensor, counts: np.ndarray | None, pair: bool, *states: Any) -> tuple[Tensor, Any]:
        """_steps with each state as a separate argument: Region watches Tensor arguments for changes."""
        return self._steps(x, states if pair else states[0], counts)

    def _segments(self, x: Tensor, state: Any, counts: np.ndarray | None, every: int) -> tuple[Tensor, Any]:
        """_steps in segments of ``every`` steps, keeping only the states between them."""
        starts, ys = range(0, len(x.array), every), []
        for start in reversed(starts) if self.reverse else starts:
            left = None if counts is None else exact("sub")(counts, from_host(start, counts.dtype, like=counts))
            pair = isinstance(state, (tuple, list))
            args = (x[start : start + every], left, pair, *(state if pair else [state]))
            y, state = Region(self._segment, args, {}, partial(_drawing, get_rng_state())).run()
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
