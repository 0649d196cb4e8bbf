"""RNN, LSTM and GRU layers over whole sequences, with PyTorch's names and defaults.

A PackedSequence becomes a padded batch with lengths, in its own order (longest sequence first), so that the active rows
of every step come first.

T steps, N sequences, I inputs, H units, O outputs (H, or with a projection its width), L layers, D directions, G gates.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import integers
from ..engine.arguments import kind_name
from ..engine.tensor import Tensor
from ..ops.device import DeviceLike
from ..ops.dtypes.dtype import DTypeLike
from ..ops.index.pick import PickRows, PlaceRows
from ..ops.recurrent.arguments import checked_interval, runs_fused
from ..ops.shape.join import cat
from ..ops.shape.shape import reshape, transpose
from ..specs.recurrence import Recurrence, Weights
from .arguments import check_ints, check_probabilities
from .functional.recurrent import Run, run, stack
from .layer import changed
from .module import Module
from .parameter import Parameter
from .recurrent_cell import (
    check_forget_bias,
    init_weights,
    pair_of_clip,
    pair_of_zoneout,
    register_weights,
    weights_of,
    words_of_equations,
)
from .utils.rnn import PackedSequence
from .utils.truncated_bptt import masks_of, start_sequence

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]


# ---- Conversion of the input to (T, N, ...), and of the result back to the layout of the input ----------------------


class Layout(NamedTuple):
    """The layout of the input. packed: the PackedSequence; batch_first: (N, T, ...); unbatched: (T, ...).

    rows: the position of each row of the packed data in the padded batch, its first two axes flattened.
    """

    packed: PackedSequence | None = None
    batch_first: bool = False
    unbatched: bool = False
    rows: np.ndarray | None = None

    def to_input_layout(self, y: Tensor) -> Any:
        """Return y (T, N, ...) in the layout of the input."""
        if self.packed is not None:
            joined = reshape(y, y.array.shape[0] * y.array.shape[1], *y.array.shape[2:])
            return self.packed.with_data(PickRows.apply(joined, self.rows))
        if self.unbatched:
            return reshape(y, y.array.shape[0], *y.array.shape[2:])
        return transpose(y, 0, 1) if self.batch_first else y

    def sorted_states(self, states: list[Any]) -> list[Any]:
        """Return the states (D, N, H) or None of all layers, in the order of the packed sequences."""
        if self.packed is None or self.packed.sorted_indices is None:
            return states
        return [state if state is None else state[:, self.packed.sorted_indices] for state in states]

    def unsorted_states(self, states: list[Tensor]) -> list[Tensor]:
        """Return the states in the order of the original batch."""
        if self.packed is None or self.packed.unsorted_indices is None:
            return states
        return [state[:, self.packed.unsorted_indices] for state in states]


def time_first(name: str, input: Any, features: int, batch_first: bool, lengths: Any) -> tuple[Layout, Tensor, Any]:
    """Return the layout of input, input as a batch (T, N, features), and its lengths or None.

    Raises:
        TypeError: input is neither a Tensor nor a PackedSequence.
        ValueError: its shape does not fit, or lengths are passed for a PackedSequence or an input without a batch.
    """
    if isinstance(input, PackedSequence):
        if lengths is not None:
            raise ValueError(f"{name}: lengths must be None for a PackedSequence, which has its own")
        shape = input.data.array.shape
        if len(shape) != 2 or shape[1] != features:
            raise ValueError(f"{name}: data of the PackedSequence has shape {shape}, needs (*, {features})")
        parts = input.rows()
        ends = parts.lengths
        known = integers(ends, "the steps of a packed batch")
        steps, count = known[0], len(known)
        rows = parts.padded(None, steps, False)
        x = reshape(PlaceRows.apply(input.data, rows, steps * count, 0.0), steps, count, features)
        return Layout(input, rows=rows), x, None if known[-1] == steps else ends
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: input must be a Tensor or a PackedSequence, got {kind_name(input)}")
    shape = input.array.shape
    if len(shape) not in (2, 3) or shape[-1] != features:
        expected = f"(N, T, {features})" if batch_first else f"(T, N, {features})"
        raise ValueError(f"{name}: input.shape={shape}, needs {expected}, or without a batch (T, {features})")
    if len(shape) == 3:
        return Layout(None, batch_first), transpose(input, 0, 1) if batch_first else input, lengths
    if lengths is not None:
        raise ValueError(f"{name}: lengths need a batch axis, but input.shape={shape} has none; leave them out")
    return Layout(None, False, True), reshape(input, shape[0], 1, shape[1]), None


# ---- RNN, LSTM and GRU ----------------------------------------------------------------------------------------------

Widths = int | Sequence[int]
_MODES = ("RNN_TANH", "RNN_RELU", "LSTM", "GRU")

_DOC = """{equations}

    x (T, N, I), with batch_first (N, T, I), without a batch (T, I), or a PackedSequence -> y like x, with D*O features.
    States are (L*D, N, O), without a batch (L*D, O): layer by layer, the forward direction first; an LSTM's c has H
    instead of O. Initial states default to 0 and get gradients as x does.

    input_size, hidden_size: I and H; hidden_size may be a list with the width of every layer; the states are then
        tuples with one Tensor (D, N, O) per layer.
    num_layers: L; each layer reads the output of the one below.
    bias: whether to have b_ih and b_hh.
    batch_first: the batch is the first axis of x and y; the layout of the states does not change.
    dropout: probability of dropping an output in training, in every layer but the last.
    bidirectional: a second direction reads the sequence from its end; its outputs are concatenated to the first's.
    {own}
    variational_dropout: dropout of each layer's input with one mask for all steps (Gal & Ghahramani, 2016); in the
        pieces of ``nn.utils.rnn.truncated``, one mask for the whole sequence.
    recurrent_dropout: dropout of h' before W_hh, with one mask for all steps as above.
    zoneout: probability that a unit keeps its value in training (Krueger et al., 2016); in eval mode, the old and the
        new value are mixed in that proportion. For an LSTM, one number for c and h, or a pair.
    layer_norm: W_ih x and W_hh h' are normalized over the gates and multiplied by norm_ih and norm_hh before the biases
        are added; so is an LSTM's cell state, by norm_c, where h is computed from it (Ba et al., 2016).
    residual: every layer adds its input to its output; I must be D*O.
    return_states: False returns y without the states.
    checkpoint: k, to keep only every k-th state and recompute the steps between in backward; "auto": the square root
        of T, so that memory besides x and y grows with sqrt(T) (and a byte per unit and step for zoneout's draws).
    algorithm: "fused", one kernel for all steps; "composed", operators step by step; or "auto", fused where possible.
        layer_norm, zoneout, recurrent_dropout, reset_after=False and second-order derivatives are composed.

    Weights are drawn from U(-1/sqrt(H), 1/sqrt(H)); normalization gains start at 1.

    Raises:
        ValueError: an argument is out of range or contradicts another, or input, hx or lengths do not fit.
        TypeError: input and weights have different dtypes, or input is neither a Tensor nor a PackedSequence.
    """


class RNNBase(Module):
    """Base of RNN, LSTM and GRU: the parameters, and the run through all layers and directions.

    mode: "RNN_TANH", "RNN_RELU", "LSTM" or "GRU". The other arguments are those of these layers; ``equations`` are
    options of the equations: clip, clip_nan, peephole, coupled, reset_after.
    """

    input_size: int
    num_layers: int
    batch_first: bool
    bias: bool
    bidirectional: bool
    dropout: float
    residual: bool
    variational_dropout: float
    forget_bias: float | None
    return_cells: bool
    return_states: bool
    algorithm: str
    checkpoint: int | str | None
    hidden_size: Widths
    proj_size: Widths

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: Widths,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: Widths = 0,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        variational_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        zoneout: float | tuple[float, float] = 0.0,
        layer_norm: bool = False,
        residual: bool = False,
        return_states: bool = True,
        return_cells: bool = False,
        forget_bias: float | None = None,
        checkpoint: int | str | None = None,
        algorithm: str = "auto",
        **equations: Any,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if mode not in _MODES:
            raise ValueError(f"{name}: mode={mode!r} must be one of {', '.join(map(repr, _MODES))}")
        check_ints(name, input_size=input_size, num_layers=num_layers)
        hidden = _widths(name, "hidden_size", hidden_size, num_layers)
        projected = _widths(name, "proj_size", proj_size, num_layers, 0)
        for units, width in zip(hidden, projected, strict=True):
            if width >= units:
                raise ValueError(f"{name}: proj_size={proj_size} must be below hidden_size={hidden_size}; 0: none")
        check_probabilities(
            name, dropout=dropout, variational_dropout=variational_dropout, recurrent_dropout=recurrent_dropout
        )
        if dropout and variational_dropout:
            raise ValueError(
                f"{name}: dropout={dropout} and variational_dropout={variational_dropout} drop the same outputs twice; "
                "choose one of them"
            )
        if dropout and num_layers == 1:
            warnings.warn(
                f"{name}: dropout={dropout} acts between layers; with num_layers=1 nothing is dropped",
                stacklevel=3,
            )
        if return_cells and mode != "LSTM":
            raise ValueError(f"{name}: return_cells=True needs cell states, which {mode} does not have; use LSTM")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        self.proj_size, self.variational_dropout, self.residual = proj_size, variational_dropout, residual
        self.return_states, self.return_cells, self.forget_bias = return_states, return_cells, forget_bias
        self.checkpoint, self.algorithm = checkpoint, algorithm
        self.layers: tuple[Recurrence, ...] = stack(
            name,
            mode.lower(),
            input_size,
            hidden,
            projected,
            bidirectional,
            bias=bias,
            norm=1e-5 if layer_norm else 0.0,
            zoneout=pair_of_zoneout(name, mode.lower(), zoneout),
            recurrent_dropout=recurrent_dropout,
            **equations,
        )
        for spec in self.layers:
            runs_fused(name, spec, algorithm)
        # whether all states have the same width and are returned as one Tensor
        self.has_even_states: bool = len({(spec.hidden, spec.output) for spec in self.layers}) == 1
        check_forget_bias(name, forget_bias, bias)
        if checkpoint is not None:
            checked_interval(name, checkpoint, 1)
        if residual:
            for number, spec in enumerate(self.layers):
                if spec.input != spec.directions * spec.output:
                    raise ValueError(
                        f"{name}: residual=True adds the input of a layer to its output, but layer {number} has "
                        f"{spec.input} input and {spec.directions * spec.output} output features; make them equal, for "
                        "example with a Linear before the layer"
                    )
        self._names = [  # of the parameters, by layer and direction
            [register_weights(self, spec, dtype, number, reverse) for reverse in spec.reverse]
            for number, spec in enumerate(self.layers)
        ]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values from U(-b, b), b = 1 / sqrt(H), as PyTorch does; set norm gains to 1 and shifts to 0."""
        for spec, directions in zip(self.layers, self._names, strict=True):
            for names in directions:
                init_weights(self, names, spec, self.forget_bias)

    def _weights(self, names: Weights) -> Weights:
        """Return the weights of one direction of a layer as forward uses them."""
        return weights_of(self, names)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        flat = [names for directions in self._names for names in directions]
        return [[getattr(self, name) for name in names if name is not None] for names in flat]

    def flatten_parameters(self) -> None:
        """Do nothing; for compatibility with PyTorch, where this method packs the weights in GPU memory."""

    def forward(self, input: Tensor | PackedSequence, hx: Any = None, lengths: Any = None) -> Any:
        """Return (y, h), or (y, (h, c)) for an LSTM; with return_cells also c of every step; see the class.

        input: (T, N, I), (N, T, I) or (T, I), or a PackedSequence, and then y is one too.
        hx: the initial states: h, or (h, c) for an LSTM.
        lengths: N ints from 1 to T, the steps of each sequence, in any order. Later steps of input are ignored; y is 0
            there, and the states are those of a sequence's last step. If the sequences are sorted, longest first, the
            later steps are not even computed.
        """
        name = type(self).__name__
        layout, x, ends = time_first(name, input, self.input_size, self.batch_first, lengths)
        h0, c0 = self._states(hx, x.array.shape[1], layout.unbatched)
        weights = [[self._weights(names) for names in directions] for directions in self._names]
        masks = None
        if self.training and (self.variational_dropout or self.layers[0].recurrent_dropout) and start_sequence(self):
            masks = masks_of(self, {})
        options = Run(
            name,
            self.training,
            self.dropout,
            self.variational_dropout,
            self.residual,
            self.checkpoint,
            self.algorithm,
            masks,
        )
        y, hn, cn, cells = run(
            options,
            self.layers,
            weights,
            x,
            layout.sorted_states(h0),
            layout.sorted_states(c0),
            ends,
            self.return_cells,
        )
        result = [layout.to_input_layout(y)]
        if self.return_states:
            last = self._joined(layout.unsorted_states(hn), layout.unbatched)
            if self.mode == "LSTM":
                last = last, self._joined(layout.unsorted_states(cn), layout.unbatched)
            result.append(last)
        if self.return_cells:
            assert cells is not None
            result.append(layout.to_input_layout(cells))
        return result[0] if len(result) == 1 else tuple(result)

    def _states(self, hx: Any, batch: int, unbatched: bool) -> tuple[list[Any], list[Any]]:
        """Return h0 and c0 of each layer, (D, N, O) and (D, N, H)."""
        none: list[Any] = [None] * self.num_layers
        if hx is None:
            return none, none
        outputs, units = [spec.output for spec in self.layers], [spec.hidden for spec in self.layers]
        if self.mode != "LSTM":
            return self._cut("hx", hx, outputs, batch, unbatched), none
        if not isinstance(hx, (tuple, list)) or len(hx) != 2:
            raise ValueError(f"{type(self).__name__}: hx must be a pair (h, c), got {kind_name(hx)}")
        return self._cut("hx[0]", hx[0], outputs, batch, unbatched), self._cut("hx[1]", hx[1], units, batch, unbatched)

    def _cut(self, label: str, state: Any, widths: list[int], batch: int, unbatched: bool) -> list[Any]:
        """Split a state into (D, N, width) per layer."""
        name, directions = type(self).__name__, len(self.layers[0].reverse)
        if state is None:
            raise ValueError(f"{name}: {label} is None; pass both states, or no hx")
        if self.has_even_states:
            _check_state(name, label, state, (directions * self.num_layers, batch, widths[0]), unbatched)
            parts = [state]
            if self.num_layers > 1:
                parts = [state[n * directions : (n + 1) * directions] for n in range(self.num_layers)]
        else:
            if not isinstance(state, (tuple, list)) or len(state) != self.num_layers:
                raise ValueError(
                    f"{name}: {label} must be a tuple of {self.num_layers} Tensors, one per layer, because their "
                    f"widths differ: {widths}; got {kind_name(state)}"
                )
            parts = list(state)
            for number, (part, width) in enumerate(zip(parts, widths, strict=True)):
                _check_state(name, f"{label}[{number}]", part, (directions, batch, width), unbatched)
        return [reshape(part, directions, 1, -1) for part in parts] if unbatched else parts

    def _joined(self, states: list[Tensor], unbatched: bool) -> Any:
        """Return the states of all layers in one Tensor, or in a tuple if their widths differ."""
        if unbatched:
            states = [reshape(state, state.array.shape[0], state.array.shape[2]) for state in states]
        if not self.has_even_states:
            return tuple(states)
        return states[0] if len(states) == 1 else cat(states, 0)

    def extra_repr(self) -> str:
        words = [str(self.input_size), str(self.hidden_size)]
        words += changed(
            self,
            proj_size=0,
            num_layers=1,
            bias=True,
            batch_first=False,
            dropout=0,
            bidirectional=False,
            variational_dropout=0,
            residual=False,
            return_states=True,
            return_cells=False,
            forget_bias=None,
            checkpoint=None,
        )
        return ", ".join([*words, *words_of_equations(self.layers[0], self.algorithm)])


class RNN(RNNBase):
    __doc__ = _DOC.format(
        equations="""h = f(W_ih x + b_ih + W_hh h' + b_hh) in every step; h' is the previous h.

    (y, h) = layer(x, h0, lengths); y holds h of every step.""",
        own="""nonlinearity: f, "tanh" or "relu".""",
    )

    def __init__(
        self,
        input_size: int,
        hidden_size: Widths,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        variational_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        zoneout: float = 0.0,
        layer_norm: bool = False,
        residual: bool = False,
        return_states: bool = True,
        checkpoint: int | str | None = None,
        algorithm: str = "auto",
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f'RNN: nonlinearity={nonlinearity!r} must be "tanh" or "relu"')
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            variational_dropout=variational_dropout,
            recurrent_dropout=recurrent_dropout,
            zoneout=zoneout,
            layer_norm=layer_norm,
            residual=residual,
            return_states=return_states,
            checkpoint=checkpoint,
            algorithm=algorithm,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    __doc__ = _DOC.format(
        equations="""c = f * c' + i * g and h = o * tanh(c), with i, f, o = sigmoid and g = tanh of
    W_ih x + b_ih + W_hh h' + b_hh.

    (y, (h, c)) = layer(x, (h0, c0), lengths); y holds h of every step, h' and c' are the previous ones.""",
        own="""proj_size: O, below H: h = W_hr (o * tanh(c)); may be a list like hidden_size.
    clip: (low, high), to which the cell state is clipped after each step; clipped elements pass no gradient.
    clip_nan: a NaN in the cell state becomes high.
    peephole: i and f see c', and o sees c, unit by unit, through weight_ch (3, H); with coupled (2, H).
    coupled: i = 1 - f; then the gates are f, g, o.
    forget_bias: initial value of the forget gate's bias.
    return_cells: also return c of every step of the last layer, shaped like y.""",
    )

    def __init__(
        self,
        input_size: int,
        hidden_size: Widths,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: Widths = 0,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        clip: tuple[float, float] | None = None,
        clip_nan: bool = False,
        peephole: bool = False,
        coupled: bool = False,
        forget_bias: float | None = None,
        variational_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        zoneout: float | tuple[float, float] = 0.0,
        layer_norm: bool = False,
        residual: bool = False,
        return_states: bool = True,
        return_cells: bool = False,
        checkpoint: int | str | None = None,
        algorithm: str = "auto",
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            clip=pair_of_clip("LSTM", clip),
            clip_nan=clip_nan,
            peephole=peephole,
            coupled=coupled,
            forget_bias=forget_bias,
            variational_dropout=variational_dropout,
            recurrent_dropout=recurrent_dropout,
            zoneout=zoneout,
            layer_norm=layer_norm,
            residual=residual,
            return_states=return_states,
            return_cells=return_cells,
            checkpoint=checkpoint,
            algorithm=algorithm,
            dtype=dtype,
        )


class GRU(RNNBase):
    __doc__ = _DOC.format(
        equations="""h = (1 - z) * n + z * h', with r, z = sigmoid of W_ih x + b_ih + W_hh h' + b_hh and
    n = tanh(W_in x + b_in + r * (W_hn h' + b_hn)).

    (y, h) = layer(x, h0, lengths); y holds h of every step, h' is the previous one.""",
        own="""reset_after: False puts the reset gate before the product, n = tanh(W_in x + b_in + W_hn (r h') + b_hn),
        as in the paper (Cho et al., 2014).""",
    )

    def __init__(
        self,
        input_size: int,
        hidden_size: Widths,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        reset_after: bool = True,
        variational_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        zoneout: float = 0.0,
        layer_norm: bool = False,
        residual: bool = False,
        return_states: bool = True,
        checkpoint: int | str | None = None,
        algorithm: str = "auto",
    ) -> None:
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            reset_after=reset_after,
            variational_dropout=variational_dropout,
            recurrent_dropout=recurrent_dropout,
            zoneout=zoneout,
            layer_norm=layer_norm,
            residual=residual,
            return_states=return_states,
            checkpoint=checkpoint,
            algorithm=algorithm,
            dtype=dtype,
        )


def _widths(name: str, argument: str, value: Widths, layers: int, least: int = 1) -> tuple[int, ...]:
    """Return one width per layer."""
    widths = tuple(value) if isinstance(value, Sequence) else (value,) * layers
    if len(widths) != layers or any(isinstance(v, bool) or not isinstance(v, int) or v < least for v in widths):
        raise ValueError(
            f"{name}: {argument}={value!r} must be an int of at least {least}, or a list of {layers}, one per layer"
        )
    return widths


def _check_state(name: str, label: str, state: Any, expected: tuple[int, int, int], unbatched: bool) -> None:
    shape = (expected[0], expected[2]) if unbatched else expected
    if not isinstance(state, Tensor):
        raise TypeError(f"{name}: {label} must be a Tensor of shape {shape}, got {kind_name(state)}")
    if state.array.shape != shape:
        raise ValueError(f"{name}: {label}.shape={state.array.shape}, needs {shape}")
