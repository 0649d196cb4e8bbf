"""Recurrent weights of MXNet, ONNX, Keras and numpy-ml: each library's equations agree with our layers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from retrograd import interop, nn
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

rng = np.random.default_rng(5)
T, N, FEATURES, H = 4, 3, 2, 5
X = rng.normal(size=(T, N, FEATURES))
LAYERS: dict[str, Any] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn_tanh": nn.RNN,
    "rnn_relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
}
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


def layer_of(mode: str, state: dict[str, np.ndarray], **options: Any) -> Any:
    layer = LAYERS[mode](FEATURES, H, dtype=np.float64, **options)
    layer.load_state_dict(state)
    return layer


def onnx(mode: str, w: Any, r: Any, b: Any, p: Any, before: bool, x: np.ndarray) -> np.ndarray:
    """The equations of ONNX's operators, for one direction."""
    h = c = np.zeros((x.shape[1], H))
    wb, rb = np.split(b, 2)
    ys = []
    for one in x:
        ax, ah = one @ w.T + wb, h @ r.T + rb
        if mode == "lstm":
            i, o, f, g = np.split(ax + ah, 4, 1)
            pi, po, pf = np.split(p, 3)
            i, f = sigmoid(i + pi * c), sigmoid(f + pf * c)
            c = f * c + i * np.tanh(g)
            h = sigmoid(o + po * c) * np.tanh(c)
        elif mode == "gru":
            z, r_ = sigmoid(ax + ah)[:, :H], sigmoid(ax + ah)[:, H : 2 * H]
            if before:
                n = np.tanh(ax[:, 2 * H :] + r_ * ah[:, 2 * H :])
            else:
                n = np.tanh(ax[:, 2 * H :] + (r_ * h) @ r[2 * H :].T + rb[2 * H :])
            h = (1 - z) * n + z * h
        else:
            h = np.tanh(ax + ah) if mode == "rnn_tanh" else np.maximum(ax + ah, 0)
        ys.append(h)
    return np.array(ys)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("mode", GATES)
def test_onnx(mode: str, before: bool, directions: int) -> None:
    rows = GATES[mode] * H
    w, r = rng.normal(size=(directions, rows, FEATURES)), rng.normal(size=(directions, rows, H))
    b = rng.normal(size=(directions, 2 * rows))
    p = rng.normal(size=(directions, 3 * H)) if mode == "lstm" else None
    state = interop.rnn_from_onnx(w, r, b, p, mode=mode)
    options = {"gru": {"reset_after": before}, "lstm": {"peephole": True}}.get(mode, {})
    layer = layer_of(mode, state, bidirectional=directions == 2, **options)
    expected = [onnx(mode, w[0], r[0], b[0], None if p is None else p[0], before, X)]
    if directions == 2:
        expected.append(onnx(mode, w[1], r[1], b[1], None if p is None else p[1], before, X[::-1])[::-1])
    np.testing.assert_allclose(layer(Tensor(X))[0].array, np.concatenate(expected, -1), rtol=1e-10, atol=1e-12)
    back = interop.rnn_to_onnx(layer.state_dict(), mode)
    for key, value in {"W": w, "R": r, "B": b, "P": p}.items():
        if value is not None:
            np.testing.assert_array_equal(back[key], value)
    assert set(interop.rnn_from_onnx(w, r, mode=mode, layer=3)) >= {"weight_ih_l3", "weight_hh_l3"}
    assert set(interop.rnn_to_onnx(interop.rnn_from_onnx(w, r, mode=mode), mode)) == {"W", "R"}


def keras(mode: str, w: Any, r: Any, b: Any, x: np.ndarray) -> np.ndarray:
    h = c = np.zeros((x.shape[1], H))
    both = b if b.ndim == 2 else np.stack([b, np.zeros_like(b)])
    ys = []
    for one in x:
        ax, ah = one @ w + both[0], h @ r + both[1]
        if mode == "lstm":
            i, f, g, o = np.split(ax + ah, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        elif mode == "gru":
            z, reset = sigmoid(ax + ah)[:, :H], sigmoid(ax + ah)[:, H : 2 * H]
            of_h = reset * ah[:, 2 * H :] if b.ndim == 2 else (reset * h) @ r[:, 2 * H :]
            h = z * h + (1 - z) * np.tanh(ax[:, 2 * H :] + of_h)
        else:
            h = np.tanh(ax + ah) if mode == "rnn_tanh" else np.maximum(ax + ah, 0)
        ys.append(h)
    return np.array(ys)


@pytest.mark.parametrize(("mode", "after"), [(mode, False) for mode in GATES] + [("gru", True)])
def test_keras(mode: str, after: bool) -> None:
    columns = GATES[mode] * H
    w, r = rng.normal(size=(FEATURES, columns)), rng.normal(size=(H, columns))
    b = rng.normal(size=(2, columns) if after else columns)
    state = interop.rnn_from_keras(w, r, b, mode=mode)
    layer = layer_of(mode, state, **({"reset_after": after} if mode == "gru" else {}))
    np.testing.assert_allclose(layer(Tensor(X))[0].array, keras(mode, w, r, b, X), rtol=1e-10, atol=1e-12)
    options = {"reset_after": after} if mode == "gru" else {}
    back = interop.rnn_to_keras(layer.state_dict(), mode, **options)
    for key, value in {"kernel": w, "recurrent_kernel": r, "bias": b}.items():
        np.testing.assert_array_equal(back[key], value)
    assert set(interop.rnn_from_keras(w, r, mode=mode, layer=1, reverse=True)) == {
        "weight_ih_l1_reverse",
        "weight_hh_l1_reverse",
    }


def test_numpy_ml() -> None:
    """Our layers give At and Ct of LSTMCell, and At of RNNCell, as their forward computes them."""
    parameters = {f"W{letter}": rng.normal(size=(H + FEATURES, H)) for letter in "fuco"}
    parameters |= {f"b{letter}": rng.normal(size=(1, H)) for letter in "fuco"}
    state = interop.rnn_from_numpy_ml(parameters)
    h, c, ys = np.zeros((N, H)), np.zeros((N, H)), []
    for one in X:
        z = np.hstack([h, one])
        f, u, o = (sigmoid(z @ parameters[f"W{k}"] + parameters[f"b{k}"]) for k in "fuo")
        c = f * c + u * np.tanh(z @ parameters["Wc"] + parameters["bc"])
        h = o * np.tanh(c)
        ys.append(h)
    layer = layer_of("lstm", state)
    np.testing.assert_allclose(layer(Tensor(X))[0].array, ys, rtol=1e-10, atol=1e-12)
    back = interop.rnn_to_numpy_ml(layer.state_dict())
    assert set(back) == set(parameters)
    for key, value in parameters.items():
        np.testing.assert_array_equal(back[key], value)

    parameters = {"Waa": rng.normal(size=(H, H)), "Wax": rng.normal(size=(FEATURES, H))}
    parameters |= {"ba": rng.normal(size=(H, 1)), "bx": rng.normal(size=(H, 1))}
    h, ys = np.zeros((N, H)), []
    for one in X:
        h = np.tanh(h @ parameters["Waa"] + parameters["ba"].T + one @ parameters["Wax"] + parameters["bx"].T)
        ys.append(h)
    layer = layer_of("rnn_tanh", interop.rnn_from_numpy_ml(parameters))
    np.testing.assert_allclose(layer(Tensor(X))[0].array, ys, rtol=1e-10, atol=1e-12)
    for key, value in interop.rnn_to_numpy_ml(layer.state_dict()).items():
        np.testing.assert_array_equal(value, parameters[key])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("mode", "projection"), [(mode, None) for mode in GATES] + [("lstm", 3)])
def test_mxnet(mode: str, projection: int | None, bidirectional: bool) -> None:
    """The vector has the weights of all layers first, then all biases; the operator agrees with the layer."""
    layers, directions, width = 2, 1 + bidirectional, projection or H
    rows = GATES[mode] * H
    pieces, names = [], []
    for number in range(layers):
        for end in ("", "_reverse")[:directions]:
            shapes = {"weight_ih": (rows, FEATURES if number == 0 else directions * width), "weight_hh": (rows, width)}
            if projection:
                shapes["weight_hr"] = (projection, H)
            for name, shape in shapes.items():
                pieces.append(rng.normal(size=shape))
                names.append(f"{name}_l{number}{end}")
    for number in range(layers):
        for end in ("", "_reverse")[:directions]:
            for name in ("bias_ih", "bias_hh"):
                pieces.append(rng.normal(size=rows))
                names.append(f"{name}_l{number}{end}")
    vector = np.concatenate([piece.ravel() for piece in pieces])
    size = (FEATURES + width + 2) * rows * directions + (directions * width + width + 2) * rows * directions
    assert vector.size == size + (projection * H * layers * directions if projection else 0)
    state = interop.rnn_from_mxnet(vector, mode, FEATURES, H, layers, bidirectional, projection)
    for name, piece in zip(names, pieces, strict=True):
        np.testing.assert_array_equal(state[name], piece)
    np.testing.assert_array_equal(interop.rnn_to_mxnet(state, mode), vector)

    options: dict[str, Any] = {"num_layers": layers, "bidirectional": bidirectional}
    layer = layer_of(mode, state, **options, **({"proj_size": projection} if projection else {}))
    h0 = Tensor(rng.normal(size=(layers * directions, N, width)))
    c0 = Tensor(rng.normal(size=(layers * directions, N, H)))
    lengths = [4, 1, 3]
    y, states = layer(Tensor(X), (h0, c0) if mode == "lstm" else h0, lengths)
    results = F.rnn(
        Tensor(X),
        Tensor(vector),
        h0,
        c0 if mode == "lstm" else None,
        Tensor(np.array(lengths, float)),
        mode=mode,
        state_size=H,
        state_outputs=True,
        projection_size=projection,
        **options,
    )
    for mine, theirs in zip(results, [y, *states] if mode == "lstm" else [y, states], strict=True):
        np.testing.assert_allclose(mine.array, theirs.array, rtol=1e-12)


def test_mxnet_without_bias_has_zeros() -> None:
    layer = nn.GRU(FEATURES, H, bias=False)
    vector = interop.rnn_to_mxnet(layer.state_dict(), "gru")
    assert vector.size == 3 * H * (FEATURES + H + 2) and not vector[-6 * H :].any()


Z = np.zeros


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: interop.rnn_from_mxnet(Z(7), "lstm", 2, 5), ValueError, "parameters.shape=(7,), needs (180,)"),
        (lambda: interop.rnn_from_mxnet([1.0], "lstm", 2, 5), TypeError, "parameters must be a Tensor or an array"),
        (lambda: interop.rnn_from_mxnet(Z(7), "lsm", 2, 5), ValueError, "mode='lsm' is unknown"),
        (lambda: interop.rnn_to_mxnet({}, "gru"), ValueError, "weight_ih_l0 is missing; found no others"),
        (
            lambda: interop.rnn_to_mxnet({**nn.GRU(2, 5).state_dict(), "norm_ih_l0": Z(15)}, "gru"),
            ValueError,
            "rnn_to_mxnet: that format does not support norm_ih_l0",
        ),
        (lambda: interop.rnn_to_mxnet(nn.RNN(2, 5).state_dict(), "gru"), ValueError, "has 5 rows, not a multiple"),
        (lambda: interop.rnn_to_mxnet(nn.GRU(2, 4).state_dict(), "tru"), ValueError, "mode='tru' is unknown"),
        (lambda: interop.rnn_from_onnx(Z((1, 20, 2)), Z((1, 20, 4)), mode="lstm"), ValueError, "R.shape=(1, 20, 4)"),
        (lambda: interop.rnn_from_onnx(Z((1, 4, 2)), Z((1, 20, 5)), mode="lstm"), ValueError, "W.shape=(1, 4, 2)"),
        (
            lambda: interop.rnn_from_onnx(Z((1, 15, 2)), Z((1, 15, 5)), Z((1, 30)), Z((1, 15)), mode="gru"),
            ValueError,
            "P, the peepholes of an LSTM, cannot be used with mode='gru'",
        ),
        (lambda: interop.rnn_from_onnx(Z(1), Z(1), mode="RNN"), ValueError, "mode='RNN' is unknown; choose one"),
        (
            lambda: interop.rnn_to_onnx(nn.LSTM(2, 5, proj_size=3).state_dict(), "lstm"),
            ValueError,
            "that format does not support weight_hr_l0",
        ),
        (lambda: interop.rnn_from_keras(Z((2, 5)), Z((5, 6)), mode="gru"), ValueError, "needs (H, 3*H)"),
        (lambda: interop.rnn_from_keras(Z((2, 5)), Z((2, 6)), mode="gru"), ValueError, "kernel.shape=(2, 5), needs"),
        (
            lambda: interop.rnn_to_keras(nn.LSTM(2, 5).state_dict(), "lstm", reset_after=False),
            ValueError,
            "reset_after=False is an option of GRU",
        ),
        (
            lambda: interop.rnn_from_numpy_ml({"Wf": Z((2, 1))}),
            ValueError,
            "rnn_from_numpy_ml: Wu is missing; found Wf",
        ),
        (lambda: interop.rnn_from_numpy_ml({"parameters": {}}), TypeError, 'pass its entry "parameters"'),
        (
            lambda: interop.rnn_to_numpy_ml(nn.GRU(2, 5).state_dict()),
            ValueError,
            "numpy-ml only has LSTM, (4*H, H), and RNN, (H, H)",
        ),
    ],
)
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()
