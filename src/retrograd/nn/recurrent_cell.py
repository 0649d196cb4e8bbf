"""RNNCell, LSTMCell and GRUCell: one step of a recurrent layer, with PyTorch's names, arguments and parameters.

A cell runs the operator of the layers on a sequence of one step.

N sequences, I inputs, H units, O outputs: H, or the width of the projection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

from ..arrays import empty, from_host
from ..engine.arguments import kind_name
from ..engine.tensor import Tensor
from ..kernel_set import kernels
from ..ops.device import DeviceLike
from ..ops.dtypes.dtype import DTypeLike
from ..ops.recurrent.arguments import weight_shapes
from ..ops.recurrent.composed import Masks, draw_masks
from ..ops.recurrent.fused import of_stack, stacked
from ..ops.recurrent.recurrent import recurrent_step
from ..specs.recurrence import Recurrence, Weights, recurrence
from . import init
from .arguments import check_ints, check_probabilities
from .functional.recurrent import parameter_name
from .layer import changed
from .module import Module
from .parameter import Parameter, as_float_dtype
from .utils.truncated_bptt import masks_of, start_sequence

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]


class RNNCellBase(Module):
    """Base of the cells: the parameters of one direction of one layer, and the step.

    mode: "rnn_tanh", "rnn_relu", "lstm" or "gru". The other arguments are those of the cells; ``equations`` are
    options of the equations: projection, clip, clip_nan, peephole, coupled, reset_after.

    The mask of recurrent dropout is drawn at the first step of a sequence: when the states are None, after ``reset()``,
    and when Unroll or Bidirectional start one. ``nn.utils.rnn.truncated`` uses one mask for all pieces.
    """

    bias: bool
    forget_bias: float | None
    hidden_size: int
    input_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        layer_norm: bool = False,
        zoneout: float | tuple[float, float] = 0.0,
        recurrent_dropout: float = 0.0,
        forget_bias: float | None = None,
        **equations: Any,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        check_ints(name, input_size=input_size, hidden_size=hidden_size)
        check_probabilities(name, recurrent_dropout=recurrent_dropout)
        check_forget_bias(name, forget_bias, bias)
        self.spec: Recurrence = recurrence(
            name,
            mode,
            input_size,
            hidden_size,
            bias=bias,
            norm=1e-5 if layer_norm else 0.0,
            zoneout=pair_of_zoneout(name, mode, zoneout),
            recurrent_dropout=recurrent_dropout,
            **equations,
        )
        self.__dict__["_masks"] = {}
        self.input_size, self.hidden_size, self.bias, self.forget_bias = input_size, hidden_size, bias, forget_bias
        self._names = register_weights(self, self.spec, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values from U(-b, b), b = 1 / sqrt(H), as PyTorch does; set norm gains to 1 and shifts to 0."""
        init_weights(self, self._names, self.spec, self.forget_bias)

    def reset(self) -> None:
        """Draw a new mask of recurrent dropout at the next step."""
        if not start_sequence(self):
            self.__dict__["_masks"] = {}

    def _drawn(self, x: Tensor, first: bool) -> Masks | None:
        """Return the masks of zoneout and recurrent dropout for a step (N, I)."""
        if not self.training or not self.spec.draws:
            return None
        if first:
            self.reset()
        stored = masks_of(self, self._masks) if self.spec.recurrent_dropout else {}
        previous = stored.get("recurrent")
        if previous is not None and previous.array.shape[1] != x.array.shape[0]:
            raise ValueError(
                f"{type(self).__name__}: the mask of recurrent dropout was drawn for {previous.array.shape[1]} "
                f"sequences, but this step has {x.shape[0]}; call reset() at the start of a sequence"
            )
        masks = draw_masks(stacked(x), self.spec, previous)
        if masks is not None and masks.recurrent is not None:
            stored["recurrent"] = masks.recurrent
        return masks

    def _weights(self, names: Weights) -> Weights:
        """Return the weights as a step uses them."""
        return weights_of(self, names)

    def _step(self, input: Tensor, states: list[Tensor | None]) -> tuple[Tensor, Tensor | None]:
        """Return h and c for input (N, I) or (I,), without the axes of time and direction."""
        name, spec = type(self).__name__, self.spec
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}: input must be a Tensor, got {kind_name(input)}")
        shape = input.array.shape
        if len(shape) not in (1, 2) or shape[-1] != self.input_size:
            raise ValueError(
                f"{name}: input.shape={shape}, needs (N, {self.input_size}), or without a batch ({self.input_size},)"
            )
        given: list[Tensor | None] = []
        for label, state, width in zip(("h", "c"), states, (spec.output, spec.hidden), strict=False):
            expected = (*shape[:-1], width)
            if state is not None:
                if not isinstance(state, Tensor):
                    raise TypeError(f"{name}: {label} must be a Tensor of shape {expected}, got {kind_name(state)}")
                if state.array.shape != expected:
                    raise ValueError(
                        f"{name}: {label}.shape={state.array.shape}, needs {expected}; input.shape={shape}"
                    )
            given.append(state)
        if len(shape) == 1:
            input, *given = [None if t is None else stacked(t) for t in (input, *given)]  # type: ignore[assignment]
        weights = self._weights(self._names)
        masks = self._drawn(input, states[0] is None)
        h, c = recurrent_step(input, given[0], given[1] if spec.cells else None, weights, spec, masks, name)
        if len(shape) == 1:
            return of_stack(h), None if c is None else of_stack(c)
        return h, c

    def extra_repr(self) -> str:
        words = [str(self.input_size), str(self.hidden_size), *changed(self, bias=True, nonlinearity="tanh")]
        return ", ".join([*words, *words_of_equations(self.spec)])


class RNNCell(RNNCellBase):
    """h' = f(W_ih x + b_ih + W_hh h + b_hh).

    x (N, I) or (I,), h (N, H) or (H,), by default 0 -> h' like h
    weight_ih (H, I), weight_hh (H, H), bias_ih and bias_hh (H,), all drawn from U(-1/sqrt(H), 1/sqrt(H))

    input_size, hidden_size: I and H.
    nonlinearity: f, "tanh" or "relu".
    layer_norm: W_ih x and W_hh h are normalized over the units and multiplied by norm_ih and norm_hh before the biases
        are added.
    zoneout, recurrent_dropout: as in the layer RNN; see RNNCellBase for its mask.

    Raises:
        ValueError: an argument is out of range, or a shape does not fit.
        TypeError: the inputs and the weights have different dtypes.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f'RNNCell: nonlinearity={nonlinearity!r} must be "tanh" or "relu"')
        super().__init__(
            f"rnn_{nonlinearity}",
            input_size,
            hidden_size,
            bias,
            layer_norm=layer_norm,
            zoneout=zoneout,
            recurrent_dropout=recurrent_dropout,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(input, [hx])[0]


class LSTMCell(RNNCellBase):
    """c' = f * c + i * g, h' = o * tanh(c'); i, f, o = sigmoid and g = tanh of W_ih x + b_ih + W_hh h + b_hh.

    x (N, I) or (I,), h (N, O) or (O,), c (N, H) or (H,), by default 0 -> (h', c') like these
    weight_ih (4*H, I), weight_hh (4*H, O), bias_ih and bias_hh (4*H,), all drawn from U(-1/sqrt(H), 1/sqrt(H))

    input_size, hidden_size: I and H.
    proj_size: O, below H: h' = weight_hr (o * tanh(c')).
    clip, clip_nan, peephole, coupled, forget_bias, layer_norm, zoneout, recurrent_dropout: as in the layer LSTM; see
        RNNCellBase for the mask of recurrent dropout.

    Raises: as RNNCell.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        proj_size: int = 0,
        clip: tuple[float, float] | None = None,
        clip_nan: bool = False,
        peephole: bool = False,
        coupled: bool = False,
        forget_bias: float | None = None,
        layer_norm: bool = False,
        zoneout: float | tuple[float, float] = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        check_ints("LSTMCell", 0, proj_size=proj_size)
        super().__init__(
            "lstm",
            input_size,
            hidden_size,
            bias,
            projection=proj_size,
            clip=pair_of_clip("LSTMCell", clip),
            clip_nan=clip_nan,
            peephole=peephole,
            coupled=coupled,
            forget_bias=forget_bias,
            layer_norm=layer_norm,
            zoneout=zoneout,
            recurrent_dropout=recurrent_dropout,
            dtype=dtype,
        )

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        if hx is not None and (not isinstance(hx, (tuple, list)) or len(hx) != 2):
            raise ValueError(f"LSTMCell: hx must be a pair (h, c), got {kind_name(hx)}")
        h, c = self._step(input, [None, None] if hx is None else [*hx])
        assert c is not None
        return h, c


class GRUCell(RNNCellBase):
    """h' = (1 - z) * n + z * h, with r, z = sigmoid and n = tanh(W_in x + b_in + r * (W_hn h + b_hn)).

    x (N, I) or (I,), h (N, H) or (H,), by default 0 -> h' like h
    weight_ih (3*H, I), weight_hh (3*H, H), bias_ih and bias_hh (3*H,), all drawn from U(-1/sqrt(H), 1/sqrt(H))

    input_size, hidden_size: I and H.
    reset_after: False puts the reset gate before the product: n = tanh(W_in x + b_in + W_hn (r * h) + b_hn).
    layer_norm, zoneout, recurrent_dropout: as in the layer GRU; see RNNCellBase for its mask.

    Raises: as RNNCell.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        reset_after: bool = True,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__(
            "gru",
            input_size,
            hidden_size,
            bias,
            reset_after=reset_after,
            layer_norm=layer_norm,
            zoneout=zoneout,
            recurrent_dropout=recurrent_dropout,
            dtype=dtype,
        )

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(input, [hx])[0]


def register_weights(module: Module, spec: Recurrence, dtype: DTypeLike, *place: Any) -> Weights:
    """Register the parameters of one direction and return their names.

    place: the layer, and whether the direction is the reverse one; nothing for a cell.
    """
    kind, shapes = as_float_dtype(dtype), weight_shapes(spec)._asdict()
    names = {field: parameter_name(field, *place) for field, shape in shapes.items() if shape}
    for field, name in names.items():
        module.register_parameter(name, Parameter(empty(shapes[field], kind)))
    return Weights(*[names.get(field) for field in Weights._fields])


def weights_of(module: Module, names: Weights) -> Weights:
    """Return the parameters with these names."""
    return Weights(*[None if name is None else getattr(module, name) for name in names])


def init_weights(module: Module, names: Weights, spec: Recurrence, forget_bias: float | None) -> None:
    """Draw the parameters of one direction of a layer."""
    bound = 1 / math.sqrt(spec.hidden)
    for field, name in names._asdict().items():
        if name is None:
            continue
        parameter = getattr(module, name)
        if not field.startswith("norm"):
            init.uniform_(parameter, -bound, bound)
            continue
        init.ones_(parameter)
        if field == "norm_c":
            _fill(parameter.array[1, ...], 0)
    if forget_bias is not None:
        gate = slice(spec.hidden) if spec.coupled else slice(spec.hidden, 2 * spec.hidden)
        _fill(getattr(module, names.b_ih).array[gate], forget_bias)
        _fill(getattr(module, names.b_hh).array[gate], 0)


def _fill(part: Any, number: float) -> None:
    kernels.copy(part, from_host(number, part.dtype))


def pair_of_clip(name: str, clip: Any) -> tuple[float, float] | None:
    """Return the range to which the cell state is clipped, or None.

    Raises:
        ValueError: clip is not a pair of numbers.
    """
    if clip is None:
        return None
    if not isinstance(clip, Sequence) or len(clip) != 2 or not all(isinstance(end, Real) for end in clip):
        raise ValueError(f"{name}: clip={clip!r} must be a pair of numbers, (low, high), or None")
    return clip[0], clip[1]


def check_forget_bias(name: str, forget_bias: Any, bias: bool) -> None:
    """Raise unless forget_bias is None, or a number and the layer has a bias."""
    if forget_bias is None:
        return
    if isinstance(forget_bias, bool) or not isinstance(forget_bias, Real) or not math.isfinite(forget_bias):
        raise ValueError(f"{name}: forget_bias={forget_bias!r} must be a number, or None")
    if not bias:
        raise ValueError(f"{name}: forget_bias={forget_bias} needs bias=True; leave it out")


def pair_of_zoneout(name: str, mode: str, zoneout: Any) -> tuple[float, float]:
    """Return the probabilities for c and h.

    Raises:
        ValueError: zoneout is neither a number nor a pair of them.
    """
    if isinstance(zoneout, Real):
        return (float(zoneout) if mode == "lstm" else 0.0, float(zoneout))
    if not isinstance(zoneout, Sequence) or len(zoneout) != 2:
        raise ValueError(f"{name}: zoneout={zoneout!r} must be a probability, or for an LSTM a pair, for c and h")
    return zoneout[0], zoneout[1]


def words_of_equations(spec: Recurrence, algorithm: str = "auto") -> list[str]:
    """Return the options of the equations that differ from the defaults, for a repr."""
    defaults = {
        "clip": None,
        "clip_nan": False,
        "peephole": False,
        "coupled": False,
        "reset_after": True,
        "zoneout": (0.0, 0.0),
        "recurrent_dropout": 0,
    }
    words = [f"{key}={getattr(spec, key)!r}" for key, default in defaults.items() if getattr(spec, key) != default]
    words += [f"algorithm={algorithm!r}"] if algorithm != "auto" else []
    return [*words, "layer_norm=True"] if spec.norm else words
