"""Conversion of recurrent weights between the layouts of MXNet, ONNX, Keras and numpy-ml and ours, which is PyTorch's.

    PyTorch, ours   weight_ih (G*H, I), weight_hh (G*H, H), bias_ih, bias_hh (G*H,); gates i, f, g, o and r, z, n
    MXNet           the same in one vector: all weights, then all biases
    ONNX            W (D, G*H, I), R (D, G*H, H), B (D, 2*G*H), P (D, 3*H); gates i, o, f, c and z, r, h
    Keras           kernel (I, G*H), recurrent_kernel (H, G*H), bias (G*H,) or (2, G*H); gates i, f, c, o and z, r, h
    numpy-ml        Wf, Wu, Wc, Wo (H + I, H), which multiply [h, x]; bf, bu, bc, bo (1, H)

G gates, H units, I inputs, D directions. Values are copied. The results are dicts of arrays, named as in a layer's
state_dict, for ``load_state_dict``. Arguments may be such dicts, of arrays or Tensors, or ``state_dict()`` itself.
PyTorch's own weights need no conversion: names, shapes and gates are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..engine.arguments import kind_name
from ..engine.tensor import Tensor
from ..nn.functional.recurrent import check_packed, packed_layout, packed_stack, parameter_name
from ..specs.recurrence import GATES, Recurrence
from .convolution_weight import array_of

__all__ = [
    "rnn_from_keras",
    "rnn_from_mxnet",
    "rnn_from_numpy_ml",
    "rnn_from_onnx",
    "rnn_to_keras",
    "rnn_to_mxnet",
    "rnn_to_numpy_ml",
    "rnn_to_onnx",
]

Array = np.ndarray
State = dict[str, np.ndarray]

# the position of each of their gates in our order
_ONNX = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
_KERAS = {"lstm": (0, 1, 2, 3), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
_NUMPY_ML = {"i": "u", "f": "f", "g": "c", "o": "o"}  # our gates, in our order -> their letters
_PEEPHOLE = (0, 2, 1)  # ONNX: i, o, f


def rnn_from_mxnet(
    parameters: Tensor | Array,
    mode: str,
    input_size: int,
    state_size: int,
    num_layers: int = 1,
    bidirectional: bool = False,
    projection_size: int | None = None,
) -> State:
    """Convert the packed vector of MXNet's RNN operator, or of a Gluon layer, to a state_dict.

    mode: "rnn_relu", "rnn_tanh", "lstm" or "gru". The sizes are those of the operator; see ``nn.functional.rnn``.

    Raises:
        TypeError: parameters is neither a Tensor nor an array.
        ValueError: its length does not fit these sizes.
    """
    vector = array_of("rnn_from_mxnet", "parameters", parameters)
    layers = packed_stack("rnn_from_mxnet", mode, input_size, state_size, num_layers, bidirectional, projection_size)
    check_packed("rnn_from_mxnet", "parameters", vector.shape, layers)
    return {
        parameter_name(piece.name, piece.layer, piece.direction == 1): vector[piece.begin : piece.end]
        .reshape(piece.shape)
        .copy()
        for piece in packed_layout(layers)
    }


def rnn_to_mxnet(state: Mapping[str, Any], mode: str) -> Array:
    """Convert a state_dict to the packed vector of MXNet's RNN operator; biases that the layer lacks are 0.

    mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".

    Raises:
        ValueError: mode is unknown, or a weight is missing or not supported by the format.
    """
    layers = _layers("rnn_to_mxnet", state, mode)
    arrays = _arrays("rnn_to_mxnet", "state", state)
    layout = packed_layout(layers)
    vector = np.zeros(layout[-1].end, arrays["weight_ih_l0"].dtype)
    for piece in layout:
        name = parameter_name(piece.name, piece.layer, piece.direction == 1)
        if name not in arrays and piece.name.startswith("b_"):
            continue
        vector[piece.begin : piece.end] = _pop("rnn_to_mxnet", arrays, name, piece.shape).ravel()
    _require_empty("rnn_to_mxnet", arrays)
    return vector


def rnn_from_onnx(
    W: Tensor | Array,
    R: Tensor | Array,
    B: Tensor | Array | None = None,
    P: Tensor | Array | None = None,
    *,
    mode: str,
    layer: int = 0,
) -> State:
    """Convert the inputs W, R, B and P of ONNX's operators RNN, GRU and LSTM to a state_dict.

    mode: "rnn_tanh", "rnn_relu", "gru" or "lstm".
    layer: the layer number in the names. Names of the second direction end in "_reverse".

    A GRU with linear_before_reset=0 corresponds to ``GRU(reset_after=False)``, with 1 to PyTorch's GRU. P corresponds
    to ``LSTM(peephole=True)``.

    Raises:
        TypeError: an argument is neither a Tensor nor an array.
        ValueError: mode is unknown, or a shape does not fit.
    """
    name = "rnn_from_onnx"
    order = _order(name, _ONNX, mode)
    w, r = array_of(name, "W", W), array_of(name, "R", R)
    if r.ndim != 3 or r.shape[0] not in (1, 2) or r.shape[1] != len(order) * r.shape[2]:
        raise ValueError(f"{name}: R.shape={r.shape}, needs (D, {len(order)}*H, H), D 1 or 2")
    directions, rows, units = r.shape
    _fits(name, "W", w, (directions, rows, w.shape[-1] if w.ndim == 3 else "I"))
    b = None if B is None else _fits(name, "B", array_of(name, "B", B), (directions, 2 * rows))
    p = None if P is None else _fits(name, "P", array_of(name, "P", P), (directions, 3 * units))
    if p is not None and mode != "lstm":
        raise ValueError(f"{name}: P, the peepholes of an LSTM, cannot be used with mode={mode!r}; leave it out")
    state: State = {}
    for d in range(directions):
        pieces = {"w_ih": w[d], "w_hh": r[d]}
        if b is not None:
            pieces |= {"b_ih": b[d, :rows], "b_hh": b[d, rows:]}
        state |= {parameter_name(field, layer, d == 1): _ours(piece, order) for field, piece in pieces.items()}
        if p is not None:
            state[parameter_name("peephole", layer, d == 1)] = _ours(p[d], _PEEPHOLE).reshape(3, units)
    return state


def rnn_to_onnx(state: Mapping[str, Any], mode: str, layer: int = 0) -> State:
    """Convert one layer of a state_dict to {"W", "R", "B", "P"} of ONNX's operators; B and P only if the layer has any.

    mode, layer: see ``rnn_from_onnx``.

    Raises:
        ValueError: mode is unknown, or a weight is missing or not supported by the format.
    """
    name = "rnn_to_onnx"
    order, arrays = _order(name, _ONNX, mode), _arrays(name, "state", state)
    blocks: dict[str, list[Array]] = {}
    for reverse in (False, True) if parameter_name("w_ih", layer, True) in arrays else (False,):
        for key, fields in {"W": ["w_ih"], "R": ["w_hh"], "B": ["b_ih", "b_hh"]}.items():
            names = [parameter_name(field, layer, reverse) for field in fields]
            if key != "B" or names[0] in arrays:
                pieces = [_theirs(_pop(name, arrays, one), order) for one in names]
                blocks.setdefault(key, []).append(np.concatenate(pieces))
        peephole = parameter_name("peephole", layer, reverse)
        if peephole in arrays:
            blocks.setdefault("P", []).append(_theirs(_pop(name, arrays, peephole).ravel(), _PEEPHOLE))
    _require_empty(name, {key: value for key, value in arrays.items() if f"_l{layer}" in key})
    return {key: np.stack(pieces) for key, pieces in blocks.items()}


def rnn_from_keras(
    kernel: Tensor | Array,
    recurrent_kernel: Tensor | Array,
    bias: Tensor | Array | None = None,
    *,
    mode: str,
    layer: int = 0,
    reverse: bool = False,
) -> State:
    """Convert the weights of Keras's SimpleRNN, GRU or LSTM to a state_dict.

    kernel is (I, G*H) and recurrent_kernel (H, G*H). bias is (G*H,), which becomes bias_ih with a bias_hh of 0, or
    (2, G*H) for a GRU with reset_after=True. A GRU with reset_after=False corresponds to ``GRU(reset_after=False)``.

    mode: "rnn_tanh", "rnn_relu", "gru" or "lstm".
    layer, reverse: select the names; the second layer of a Bidirectional is the reverse direction.

    Raises:
        TypeError: an argument is neither a Tensor nor an array.
        ValueError: mode is unknown, or a shape does not fit.
    """
    name = "rnn_from_keras"
    order = _order(name, _KERAS, mode)
    w, r = array_of(name, "kernel", kernel), array_of(name, "recurrent_kernel", recurrent_kernel)
    if r.ndim != 2 or r.shape[1] != len(order) * r.shape[0]:
        raise ValueError(f"{name}: recurrent_kernel.shape={r.shape}, needs (H, {len(order)}*H)")
    _fits(name, "kernel", w, (w.shape[0] if w.ndim == 2 else "I", r.shape[1]))
    pieces = {"w_ih": w.T, "w_hh": r.T}
    if bias is not None:
        b = array_of(name, "bias", bias)
        if not (mode == "gru" and b.shape == (2, r.shape[1])):
            b = np.stack([_fits(name, "bias", b, (r.shape[1],)), np.zeros_like(b)])
        pieces |= {"b_ih": b[0], "b_hh": b[1]}
    return {parameter_name(field, layer, reverse): _ours(piece, order) for field, piece in pieces.items()}


def rnn_to_keras(
    state: Mapping[str, Any], mode: str, layer: int = 0, reverse: bool = False, reset_after: bool = True
) -> State:
    """Convert one direction of one layer of a state_dict to {"kernel", "recurrent_kernel", "bias"} of Keras's layers.

    The bias is the sum of our two, except for a GRU with reset_after, where it is (2, 3*H).

    mode, layer, reverse: see ``rnn_from_keras``.
    reset_after: the option of the GRU.

    Raises:
        ValueError: mode is unknown, or a weight is missing or not supported by the format.
    """
    name = "rnn_to_keras"
    order, arrays = _order(name, _KERAS, mode), _arrays(name, "state", state)
    if not reset_after and mode != "gru":
        raise ValueError(f"{name}: reset_after=False is an option of GRU, not of mode={mode!r}; leave it out")
    names = {field: parameter_name(field, layer, reverse) for field in ("w_ih", "w_hh", "b_ih", "b_hh")}
    has_bias = names["b_ih"] in arrays
    theirs = {
        field: _theirs(_pop(name, arrays, one), order)
        for field, one in names.items()
        if has_bias or not field.startswith("b_")
    }
    end = names["w_ih"].removeprefix("weight_ih")
    _require_empty(name, {key: value for key, value in arrays.items() if key.endswith(end)})
    result = {"kernel": theirs["w_ih"].T.copy(), "recurrent_kernel": theirs["w_hh"].T.copy()}
    if has_bias:
        both = np.stack([theirs["b_ih"], theirs["b_hh"]])
        result["bias"] = both if mode == "gru" and reset_after else both.sum(0)
    return result


def rnn_from_numpy_ml(parameters: Mapping[str, Any], layer: int = 0, reverse: bool = False) -> State:
    """Convert the ``parameters`` of numpy-ml's LSTMCell or RNNCell to a state_dict.

    The single bias of an LSTMCell becomes bias_ih with a bias_hh of 0. An RNNCell has Waa (H, H), Wax (I, H), ba and bx
    (H, 1).

    layer, reverse: select the names; the second cell of a BidirectionalLSTM is the reverse direction. The names are
        those of ``nn.LSTM`` and ``nn.RNN``; without their ending "_l0", they are those of ``nn.LSTMCell``.

    Raises:
        TypeError: parameters is not a dict of arrays.
        ValueError: a parameter is missing, or a shape does not fit.
    """
    name = "rnn_from_numpy_ml"
    if isinstance(parameters, Mapping) and isinstance(parameters.get("parameters"), Mapping):
        raise TypeError(f'{name}: this dict describes a whole layer; pass its entry "parameters"')
    arrays = _arrays(name, "parameters", parameters)
    if "Wax" in arrays:
        waa = _pop(name, arrays, "Waa")
        units = waa.shape[0]
        pieces = {
            "w_ih": arrays["Wax"].T,
            "w_hh": _fits(name, "Waa", waa, (units, units)).T,
            "b_ih": _pop(name, arrays, "bx", (units, 1)).ravel(),
            "b_hh": _pop(name, arrays, "ba", (units, 1)).ravel(),
        }
    else:
        letters = list(_NUMPY_ML.values())
        lacking = [key for letter in letters for key in (f"W{letter}", f"b{letter}") if key not in arrays]
        if lacking:
            raise ValueError(f"{name}: {lacking[0]} is missing; found {', '.join(arrays) or 'no others'}")
        weights = [_pop(name, arrays, f"W{letter}") for letter in letters]
        rows, units = weights[0].shape
        for letter, weight in zip(letters, weights, strict=True):
            _fits(name, f"W{letter}", weight, (rows, units))
        joined = np.concatenate(weights, 1)
        bias = np.concatenate([_pop(name, arrays, f"b{letter}", (1, units))[0] for letter in letters])
        pieces = {"w_ih": joined[units:].T, "w_hh": joined[:units].T, "b_ih": bias, "b_hh": np.zeros_like(bias)}
    return {parameter_name(field, layer, reverse): np.array(piece, order="C") for field, piece in pieces.items()}


def rnn_to_numpy_ml(state: Mapping[str, Any], layer: int = 0, reverse: bool = False) -> State:
    """Convert one direction of an LSTM or RNN in a state_dict to the ``parameters`` of numpy-ml's LSTMCell or RNNCell.

    The bias of an LSTMCell is the sum of our two; without a bias it is 0.

    layer, reverse: see ``rnn_from_numpy_ml``.

    Raises:
        ValueError: a weight is missing or not supported by the format.
    """
    name = "rnn_to_numpy_ml"
    arrays = _arrays(name, "state", state)
    names = [parameter_name(field, layer, reverse) for field in ("w_ih", "w_hh", "b_ih", "b_hh")]
    w, r = (_pop(name, arrays, one) for one in names[:2])
    zero = np.zeros(len(w), w.dtype)
    b, c = (_pop(name, arrays, one) if one in arrays else zero for one in names[2:])
    end = names[0].removeprefix("weight_ih")
    _require_empty(name, {key: value for key, value in arrays.items() if key.endswith(end)})
    units = r.shape[1]
    if len(w) == units:
        return {"Waa": r.T.copy(), "Wax": w.T.copy(), "ba": c.reshape(-1, 1).copy(), "bx": b.reshape(-1, 1).copy()}
    if len(w) != 4 * units:
        raise ValueError(f"{name}: {names[1]} has shape {r.shape}; numpy-ml only has LSTM, (4*H, H), and RNN, (H, H)")
    result: State = {}
    for place, letter in enumerate(_NUMPY_ML.values()):
        own = slice(place * units, (place + 1) * units)
        result[f"W{letter}"] = np.concatenate([r[own].T, w[own].T])
        result[f"b{letter}"] = (b[own] + c[own]).reshape(1, -1)
    return result


def _ours(array: Array, order: tuple[int, ...]) -> Array:
    """Reorder blocks of rows from another library's gate order to ours; order: our position of each of their gates."""
    blocks = np.split(np.asarray(array), len(order))
    return np.concatenate([blocks[order.index(place)] for place in range(len(order))])


def _theirs(array: Array, order: tuple[int, ...]) -> Array:
    blocks = np.split(array, len(order))
    return np.concatenate([blocks[place] for place in order])


def _order(name: str, table: dict[str, tuple[int, ...]], mode: str) -> tuple[int, ...]:
    if mode not in table:
        raise ValueError(f"{name}: mode={mode!r} is unknown; choose one of {', '.join(table)}")
    return table[mode]


def _arrays(name: str, label: str, state: Mapping[str, Any]) -> State:
    if not isinstance(state, Mapping):
        raise TypeError(f"{name}: {label} is {kind_name(state)}, needs a dict of arrays by name")
    return {key: array_of(name, str(key), value) for key, value in state.items()}


def _fits(name: str, label: str, array: Array, shape: tuple[Any, ...]) -> Array:
    if array.shape != shape:
        raise ValueError(f"{name}: {label}.shape={array.shape}, needs ({', '.join(map(str, shape))})")
    return array


def _pop(name: str, arrays: State, key: str, shape: tuple[int, ...] | None = None) -> Array:
    """Remove an array from the dict and return it."""
    if key not in arrays:
        raise ValueError(f"{name}: {key} is missing; found {', '.join(arrays) or 'no others'}")
    array = arrays.pop(key)
    return array if shape is None else _fits(name, key, array, shape)


def _require_empty(name: str, arrays: Mapping[str, Any]) -> None:
    if arrays:
        raise ValueError(f"{name}: that format does not support {', '.join(arrays)}")


def _layers(name: str, state: Mapping[str, Any], mode: str) -> tuple[Recurrence, ...]:
    """Infer the sizes of a stack from its weights."""
    arrays = _arrays(name, "state", state)
    count = sum(1 for key in arrays if key.startswith("weight_ih_l") and not key.endswith("_reverse"))
    for key in ("weight_ih_l0", "weight_hh_l0"):
        if key not in arrays:
            raise ValueError(f"{name}: {key} is missing; found {', '.join(arrays) or 'no others'}")
    if mode not in GATES:
        raise ValueError(f"{name}: mode={mode!r} is unknown; choose one of {', '.join(GATES)}")
    projection = arrays["weight_hr_l0"].shape[0] if "weight_hr_l0" in arrays else None
    rows, inputs = arrays["weight_ih_l0"].shape
    if rows % GATES[mode]:
        raise ValueError(f"{name}: weight_ih_l0 has {rows} rows, not a multiple of the {GATES[mode]} gates of {mode!r}")
    return packed_stack(name, mode, inputs, rows // GATES[mode], count, "weight_ih_l0_reverse" in arrays, projection)
