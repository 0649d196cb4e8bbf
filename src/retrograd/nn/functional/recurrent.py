"""Stacks of recurrent layers: parameter names, the run through all layers, and MXNet's RNN operator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from ...arrays import arange, from_host, numbers, ones, to_host
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact
from ...ops.argument_checks import as_flag, require_float
from ...ops.index.selection import masked_fill
from ...ops.random.dropout import dropout
from ...ops.recurrent.arguments import checked_lengths, weight_shapes
from ...ops.recurrent.composed import draw_masks
from ...ops.recurrent.recurrent import recurrent_layer
from ...ops.shape.join import cat
from ...ops.shape.shape import reshape
from ...ops.signatures import advised
from ...specs.recurrence import Recurrence, Weights, recurrence
from ..arguments import check_ints

__all__ = ["rnn"]


# ---- Stacks of recurrent layers: specs, parameter names, and the run through all layers -----------------------------

# names of the fields of Weights in a state_dict, before "_l0" or "_l0_reverse"
_NAMES = Weights(
    "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr", "weight_ch", "norm_ih", "norm_hh", "norm_c"
)


def parameter_name(field: str, layer: int | None = None, reverse: bool = False) -> str:
    """Return PyTorch's name of a parameter; field: a field of Weights; layer: None for a cell."""
    end = "" if layer is None else f"_l{layer}{'_reverse' if reverse else ''}"
    return f"{getattr(_NAMES, field)}{end}"


def stack(
    name: str,
    mode: str,
    input_size: int,
    hidden: Sequence[int],
    projection: Sequence[int],
    bidirectional: bool,
    **options: Any,
) -> tuple[Recurrence, ...]:
    """Return the specs of layers of these widths, each reading the output of the one below.

    options: as for ``recurrence``.

    Raises:
        ValueError: as ``recurrence``.
    """
    layers: list[Recurrence] = []
    reverse = (False, True) if bidirectional else (False,)
    for units, projected in zip(hidden, projection, strict=True):
        width = len(reverse) * layers[-1].output if layers else input_size
        layers.append(recurrence(name, mode, width, units, projection=projected, reverse=reverse, **options))
    return tuple(layers)


class Run(NamedTuple):
    """The options of one run of a stack."""

    name: str  # of the layer or function, for messages
    training: bool = False
    dropout: float = 0.0  # of the output of each layer but the last
    variational: float = 0.0  # of the input of each layer, with one mask for all steps
    residual: bool = False  # each layer adds its input to its output
    checkpoint: int | str | None = None  # as for ``recurrent_layer``
    algorithm: str = "auto"  # as for ``recurrent_layer``
    masks: dict[str, Any] | None = None  # masks drawn for earlier pieces of the sequence; None: the sequence is whole


def run(
    options: Run,
    layers: Sequence[Recurrence],
    weights: Sequence[Sequence[Weights]],
    x: Tensor,
    h0: Sequence[Tensor | None],
    c0: Sequence[Tensor | None],
    lengths: Any = None,
    cells: bool = False,
) -> tuple[Tensor, list[Tensor], list[Tensor], Tensor | None]:
    """Run all layers; return y (T, N, D*O) of the last one, and hn (D, N, O) and cn (D, N, H) of each.

    With ``cells``, also return the cell states of the last layer.

    x (T, N, I); weights: per layer, one for each direction; h0, c0: per layer, a state or None.
    """
    if lengths is not None and options.residual:  # where y is 0, the x added to it must be 0, too
        counts = from_host(checked_lengths(options.name, lengths, *x.array.shape[:2]), like=x.array)
        x = masked_fill(x, wrap(exact("le")(counts[:, None], arange(len(x.array), like=counts)[:, None, None])), 0.0)
    hn, cn, states = [], [], None
    last, drawn = len(layers) - 1, {} if options.masks is None else options.masks
    for number, (spec, own) in enumerate(zip(layers, weights, strict=True)):
        if options.training and options.variational:
            mask = drawn.get(f"variational{number}")
            if mask is None:
                mask = dropout(wrap(ones((1, *x.array.shape[1:]), x.array.dtype, like=x.array)), options.variational)
                drawn[f"variational{number}"] = mask
            x = x * mask
        masks = None
        if options.training and spec.draws:
            masks = draw_masks(x, spec, drawn.get(f"recurrent{number}"))
            drawn[f"recurrent{number}"] = masks and masks.recurrent
        y, h, c, states = recurrent_layer(
            x,
            h0[number],
            c0[number],
            own,
            spec,
            lengths,
            cells and number == last,
            masks,
            options.checkpoint,
            options.algorithm,
            options.name,
        )
        hn.append(h)
        if c is not None:
            cn.append(c)
        if options.residual:
            y = y + x
        x = dropout(y, options.dropout) if options.training and options.dropout and number < last else y
    return x, hn, cn, states


# ---- MXNet's RNN operator: a stack of recurrent layers with all parameters in one vector ----------------------------


@advised
@operator
def rnn(
    data: Tensor,
    parameters: Tensor,
    state: Tensor,
    state_cell: Tensor | None = None,
    sequence_length: Any = None,
    *,
    mode: str,
    state_size: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    p: float = 0.0,
    state_outputs: bool = False,
    projection_size: int | None = None,
    lstm_state_clip_min: float | None = None,
    lstm_state_clip_max: float | None = None,
    lstm_state_clip_nan: bool = False,
    training: bool = True,
) -> Tensor | tuple[Tensor, ...]:
    """MXNet's RNN operator: returns y, or with state_outputs (y, hn), for an LSTM (y, hn, cn).

    T steps, N sequences, I inputs, H state_size, O projection_size or H, L layers, D directions:
    data (T, N, I), state (L*D, N, O), state_cell (L*D, N, H) -> y (T, N, D*O), hn (L*D, N, O), cn (L*D, N, H)

    parameters: one vector: the weights W_ih, W_hh and W_hr of every layer and direction, then their biases b_ih and
        b_hh; its length is (I+O+2)*H*G*D + (L-1)*(D*O+O+2)*H*G*D + O*H*L*D, the last term only with a
        projection. G: 1, LSTM 4 (i, f, g, o), GRU 3 (r, z, n).
    sequence_length: (N,), from 1 to T, as in MXNet with use_sequence_length=True.
    mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
    p: probability of dropping an output, in every layer but the last.
    lstm_state_clip_min, lstm_state_clip_max: the range to which the cell state is clipped after every step.
    lstm_state_clip_nan: a NaN in the cell state becomes lstm_state_clip_max.
    training: whether to apply p; MXNet uses its global mode.

    Source: MXNet 1.9.1, src/operator/rnn-inl.h.

    Raises:
        TypeError: an input is not a floating-point Tensor, or their dtypes differ.
        ValueError: a shape or the length of parameters does not fit, or an option is invalid.
    """
    if interpreters and (seen := interpreted(rnn, locals())) is not None:
        return seen
    require_float("rnn", data, "data")
    if data.array.ndim != 3:
        raise ValueError(f"rnn: data.shape={data.array.shape}, needs (T, N, I)")
    flags = {"bidirectional": bidirectional, "state_outputs": state_outputs, "training": training}
    for label, flag in {**flags, "lstm_state_clip_nan": lstm_state_clip_nan}.items():
        as_flag("rnn", label, flag)
    if not 0 <= p < 1:
        raise ValueError(f"rnn: p={p} must be a probability, 0 <= p < 1")
    clip = (lstm_state_clip_min, lstm_state_clip_max)
    layers = packed_stack(
        "rnn",
        mode,
        data.array.shape[2],
        state_size,
        num_layers,
        bidirectional,
        projection_size,
        clip=None if clip == (None, None) else clip,
        clip_nan=lstm_state_clip_nan,
    )
    weights = _unpacked(parameters, layers)
    lstm = mode == "lstm"
    if state_cell is not None and not lstm:
        raise ValueError(f"rnn: mode {mode!r} has no cell state; leave state_cell out")
    if lstm and state_cell is None:
        raise ValueError("rnn: mode 'lstm' needs state_cell, (L*D, N, H)")
    h0 = _by_layer("state", state, layers, data, layers[0].output)
    c0 = _by_layer("state_cell", state_cell, layers, data, state_size) if lstm else [None] * num_layers
    options = Run("rnn", training, p)
    y, hn, cn, _ = run(options, layers, weights, data, h0, c0, _whole(sequence_length))
    if not state_outputs:
        return y
    return (y, cat(hn, 0), cat(cn, 0)) if lstm else (y, cat(hn, 0))


class Parameter(NamedTuple):
    """A piece of a packed vector of parameters."""

    name: str  # a field of Weights
    layer: int
    direction: int
    begin: int
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.begin + math.prod(self.shape)


def packed_layout(layers: Sequence[Recurrence]) -> list[Parameter]:
    """MXNet's packed vector: the weights of all layers and directions, then all biases in the same order.

    For each direction ``w_ih`` (G*H, I), ``w_hh`` (G*H, P), with a projection ``w_hr`` (P, H); then ``b_ih`` and
    ``b_hh`` (G*H,). Its length, for L layers of equal width in D directions, h = P or H:
    (I + h + 2)*H*G*D + (L - 1)*(D*h + h + 2)*H*G*D + P*H*L*D.

    Source: MXNet 1.9.1, src/operator/rnn-inl.h, GetRnnParamSize.
    """
    pieces: list[Parameter] = []
    for names in (("w_ih", "w_hh", "w_hr"), ("b_ih", "b_hh")):
        for layer, spec in enumerate(layers):
            shapes = weight_shapes(spec)._asdict()
            for direction, name in product(range(spec.directions), names):
                if shapes[name] is not None:
                    pieces.append(Parameter(name, layer, direction, pieces[-1].end if pieces else 0, shapes[name]))
    return pieces


def packed_stack(
    name: str,
    mode: str,
    input_size: int,
    state_size: int,
    num_layers: int,
    bidirectional: bool,
    projection_size: int | None,
    **options: Any,
) -> tuple[Recurrence, ...]:
    """Return the specs of the layers of MXNet's operator.

    Raises:
        ValueError: a size is not an int of at least 1, or the options contradict each other.
    """
    check_ints(name, state_size=state_size, num_layers=num_layers)
    if projection_size is not None:
        check_ints(name, projection_size=projection_size)
    widths = (state_size,) * num_layers, (projection_size or 0,) * num_layers
    return stack(name, mode, input_size, *widths, bidirectional, **options)


def check_packed(name: str, label: str, shape: tuple[int, ...], layers: tuple[Recurrence, ...]) -> int:
    """Check the shape of the packed vector and return its length.

    Raises:
        ValueError: shape is not that of a vector of this length.
    """
    size = packed_layout(layers)[-1].end
    if shape != (size,):
        spec, directions = layers[0], layers[0].directions
        raise ValueError(
            f"{name}: {label}.shape={shape}, needs ({size},): mode {spec.mode!r}, input size {spec.input}, state size "
            f"{spec.hidden}, {len(layers)} layers, {directions} directions, projection {spec.projection or None}"
        )
    return size


def _unpacked(parameters: Tensor, layers: tuple[Recurrence, ...]) -> list[list[Weights]]:
    """Return views of the vector, by layer and direction."""
    require_float("rnn", parameters, "parameters")
    check_packed("rnn", "parameters", parameters.array.shape, layers)
    weights = [[Weights(None, None) for _ in spec.reverse] for spec in layers]
    for piece in packed_layout(layers):
        view = reshape(parameters[piece.begin : piece.end], *piece.shape)
        own = weights[piece.layer]
        own[piece.direction] = own[piece.direction]._replace(**{piece.name: view})
    return weights


def _by_layer(label: str, state: Any, layers: tuple[Recurrence, ...], data: Tensor, width: int) -> list[Any]:
    directions, count = layers[0].directions, len(layers)
    expected = (directions * count, data.array.shape[1], width)
    require_float("rnn", state, label)
    if state.array.shape != expected:
        raise ValueError(
            f"rnn: {label}.shape={state.array.shape}, needs {expected}: layers * directions, sequences, units; "
            f"data.shape={data.array.shape}"
        )
    return [state] if count == 1 else [state[n * directions : (n + 1) * directions] for n in range(count)]


def _whole(lengths: Any) -> Any:
    """Return the lengths as integers; MXNet accepts them in any dtype."""
    if lengths is None:
        return None
    array = lengths.array if isinstance(lengths, Tensor) else from_host(lengths)
    if array.dtype.kind != "f":
        return array
    whole = [math.isfinite(one) and one == int(one) for one in numbers(array.reshape(-1), "whether lengths are whole")]
    if not all(whole):
        raise ValueError(f"rnn: sequence_length={to_host(array, 'a message').tolist()} must be whole numbers")
    found: np.ndarray = exact("cast")(array, np.dtype(np.int64))
    return found
