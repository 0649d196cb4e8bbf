"""Recurrent layers whose products are convolutions: ConvRNN, ConvLSTM and ConvGRU in 1, 2 and 3 dimensions.

The input's convolution is one for all steps; the state's follows step by step. The equations are those of
``conv_recurrent_cell``, and so are the parameters: a cell's state_dict loads into a layer.

T steps, N sequences, Ci input channels, C hidden channels, I and O extents of input and state, G gates.
"""

from __future__ import annotations

from typing import Any

from ..engine.tensor import Tensor
from ..ops.dtype import require_tensor
from ..ops.shape import reshape, transpose
from ..ops.splitting import unbind
from .conv_recurrent_cell import ConvCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell, described
from .convolution import Extents, Padding
from .folded_activation import Activation
from .recurrent_wrapper import over_time, sequence

__all__ = [
    "ConvGRU1d", "ConvGRU2d", "ConvGRU3d", "ConvLSTM1d", "ConvLSTM2d", "ConvLSTM3d", "ConvRNN1d", "ConvRNN2d",
    "ConvRNN3d",
]  # fmt: skip


class _OverTime(ConvCell):
    """A cell over a whole sequence."""

    batch_first: bool
    reverse: bool

    def forward(self, input: Tensor, hx: Any = None, lengths: Any = None) -> tuple[Tensor, Any]:
        """(y, state); hx: the state before the first step; lengths: (N,), 1 to T, beyond which y is 0."""
        name = type(self).__name__
        require_tensor(name, input)
        if input.data.ndim != self.ndim + 3:
            first = "N, T" if self.batch_first else "T, N"
            wanted = f"({first}, {self.in_channels}, {self.ndim} extents)"
            raise ValueError(f"{name}: input.shape={input.data.shape}, needs {wanted}")
        x, counts = sequence(name, input, self.batch_first, lengths)
        steps, batch, *rest = x.data.shape
        ax = self._of_input(reshape(x, steps * batch, *rest))  # one convolution for all steps
        parts = unbind(reshape(ax, steps, batch, *ax.data.shape[1:]), 0)
        y, state = over_time(self._step, parts, hx, counts, self.reverse)
        return transpose(y, 0, 1) if self.batch_first else y, state


_OF_LAYER = """
    batch_first: the batch is the first axis of x and y.
    reverse: the sequence is read from its end; y stays in the order of time."""


def _of_layer(cls: type[ConvCell], axes: str) -> str:
    state = "(h, c)" if cls.gates == 4 else "h"
    shapes = f"x (T, N, Ci, *I), with batch_first (N, T, Ci, *I) -> (y, {state}): y (T, N, C, *O), the state (N, C, *O)"
    return described(cls, f"A convolutional {cls.__name__[5:]} over {axes}", shapes, _OF_LAYER)


class _ConvRNN(_OverTime, ConvRNNCell):
    def __init__(
        self, in_channels: int, hidden_channels: int, kernel_size: Extents, state_kernel_size: Extents | None = None,
        padding: Padding = "same", dilation: Extents = 1, state_dilation: Extents = 1, bias: bool = True, *,
        activation: Activation = "tanh", batch_first: bool = False,
        reverse: bool = False, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, hidden_channels, kernel_size, state_kernel_size, padding, dilation, state_dilation, bias,
            activation=activation, dtype=dtype,
        )  # fmt: skip
        self.batch_first, self.reverse = batch_first, reverse


class _ConvLSTM(_OverTime, ConvLSTMCell):
    def __init__(
        self, in_channels: int, hidden_channels: int, kernel_size: Extents, state_kernel_size: Extents | None = None,
        padding: Padding = "same", dilation: Extents = 1, state_dilation: Extents = 1, bias: bool = True, *,
        peephole: bool | Extents = False, activation: Activation = "tanh", batch_first: bool = False,
        reverse: bool = False, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, hidden_channels, kernel_size, state_kernel_size, padding, dilation, state_dilation, bias,
            peephole=peephole, activation=activation, dtype=dtype,
        )  # fmt: skip
        self.batch_first, self.reverse = batch_first, reverse


class _ConvGRU(_OverTime, ConvGRUCell):
    def __init__(
        self, in_channels: int, hidden_channels: int, kernel_size: Extents, state_kernel_size: Extents | None = None,
        padding: Padding = "same", dilation: Extents = 1, state_dilation: Extents = 1, bias: bool = True, *,
        reset_after: bool = True, activation: Activation = "tanh", batch_first: bool = False,
        reverse: bool = False, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, hidden_channels, kernel_size, state_kernel_size, padding, dilation, state_dilation, bias,
            reset_after=reset_after, activation=activation, dtype=dtype,
        )  # fmt: skip
        self.batch_first, self.reverse = batch_first, reverse


class ConvRNN1d(_ConvRNN):
    __doc__ = _of_layer(_ConvRNN, "one axis")
    ndim = 1


class ConvRNN2d(_ConvRNN):
    __doc__ = _of_layer(_ConvRNN, "two axes")
    ndim = 2


class ConvRNN3d(_ConvRNN):
    __doc__ = _of_layer(_ConvRNN, "three axes")
    ndim = 3


class ConvLSTM1d(_ConvLSTM):
    __doc__ = _of_layer(_ConvLSTM, "one axis")
    ndim = 1


class ConvLSTM2d(_ConvLSTM):
    __doc__ = _of_layer(_ConvLSTM, "two axes")
    ndim = 2


class ConvLSTM3d(_ConvLSTM):
    __doc__ = _of_layer(_ConvLSTM, "three axes")
    ndim = 3


class ConvGRU1d(_ConvGRU):
    __doc__ = _of_layer(_ConvGRU, "one axis")
    ndim = 1


class ConvGRU2d(_ConvGRU):
    __doc__ = _of_layer(_ConvGRU, "two axes")
    ndim = 2


class ConvGRU3d(_ConvGRU):
    __doc__ = _of_layer(_ConvGRU, "three axes")
    ndim = 3
