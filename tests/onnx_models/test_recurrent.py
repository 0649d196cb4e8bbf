"""LSTM, GRU and RNN nodes with clip, input_forget and every activation, against the equations of ONNX in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
NEEDED = {"LSTM": 3, "GRU": 2, "RNN": 1}  # activations of a direction
STEPS, BATCH, INPUTS, UNITS = 4, 3, 2, 3

# the parameters of each activation, and their defaults
TAKES = {
    "Affine": {"alpha": 1.0, "beta": 0.0},
    "LeakyRelu": {"alpha": 0.01},
    "ThresholdedRelu": {"alpha": 1.0},
    "ScaledTanh": {"alpha": 1.0, "beta": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "Elu": {"alpha": 1.0},
}


def activation(name: str, x: np.ndarray, alpha: float = 0.0, beta: float = 0.0) -> np.ndarray:
    found: dict[str, Callable[[], np.ndarray]] = {
        "Relu": lambda: np.maximum(x, 0),
        "Tanh": lambda: np.tanh(x),
        "Sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "Affine": lambda: alpha * x + beta,
        "LeakyRelu": lambda: np.where(x >= 0, x, alpha * x),
        "ThresholdedRelu": lambda: np.where(x >= alpha, x, 0),
        "ScaledTanh": lambda: alpha * np.tanh(beta * x),
        "HardSigmoid": lambda: np.minimum(np.maximum(alpha * x + beta, 0), 1),
        "Elu": lambda: np.where(x >= 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1)),
        "Softsign": lambda: x / (1 + np.abs(x)),
        "Softplus": lambda: np.log(1 + np.exp(x)),
    }
    return found[name]()


ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", *TAKES, "Softsign", "Softplus")


def expected(operator: str, options: dict[str, Any], a: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return Y, Y_h and, for an LSTM, Y_c, computed sequence by sequence."""
    directions, count = len(a["W"]), NEEDED[operator]
    names = options.get("activations", {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}.get(operator))
    names = (names or ["Tanh"]) * (1 if "activations" in options else directions)
    left = {key: iter(options.get(f"activation_{key}", ())) for key in ("alpha", "beta")}
    values = [{key: next(left[key], value) for key, value in TAKES.get(name, {}).items()} for name in names]
    limit = options.get("clip", np.inf)
    y = np.zeros((STEPS, directions, BATCH, UNITS))
    last_h, last_c = np.zeros((2, directions, BATCH, UNITS))
    for d in range(directions):

        def act(k: int, x: np.ndarray, cut: bool = True, d: int = d) -> np.ndarray:
            at = d * count + k
            return activation(names[at], np.clip(x, -limit, limit) if cut else x, **values[at])

        w, r, half = a["W"][d], a["R"][d], GATES[operator] * UNITS
        wb, rb = np.split(w, GATES[operator]), np.split(r, GATES[operator])
        bw, br = (np.split(part, GATES[operator]) for part in (a["B"][d, :half], a["B"][d, half:]))
        p = np.split(a["P"][d], 3) if "P" in a else np.zeros((3, UNITS))
        for n in range(BATCH):
            length = a["lengths"][n] if "lengths" in a else STEPS
            h, c = a["h"][d, n], a["c"][d, n] if "c" in a else None
            times = range(length)
            for t in reversed(times) if options["direction"] == "reverse" or d == 1 else times:
                x = a["X"][t, n]
                s = [w_k @ x + b_k for w_k, b_k in zip(wb, bw, strict=True)]
                q = [r_k @ h + b_k for r_k, b_k in zip(rb, br, strict=True)]
                if operator == "RNN":
                    h = act(0, s[0] + q[0])
                elif operator == "GRU":
                    z, reset = act(0, s[0] + q[0]), act(0, s[1] + q[1])
                    inner = reset * q[2] if options.get("linear_before_reset") else rb[2] @ (reset * h) + br[2]
                    h = (1 - z) * act(1, s[2] + inner) + z * h
                else:
                    i = act(0, s[0] + q[0] + p[0] * c)
                    f = 1 - i if options.get("input_forget") else act(0, s[2] + q[2] + p[2] * c)
                    c = f * c + i * act(1, s[3] + q[3])
                    h = act(0, s[1] + q[1] + p[1] * c) * act(2, c, cut=False)
                y[t, d, n] = h
            last_h[d, n] = h
            last_c[d, n] = 0 if c is None else c
    return [y, last_h, last_c][: 3 if operator == "LSTM" else 2]


def drawn(random: np.random.Generator) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """Draw an operator, its attributes and its inputs."""
    operator = str(random.choice([*GATES]))
    direction = str(random.choice(["forward", "reverse", "bidirectional"]))
    directions = 1 + (direction == "bidirectional")
    options: dict[str, Any] = {"hidden_size": UNITS, "direction": direction}
    if random.integers(4):
        names = [str(name) for name in random.choice(ACTIVATIONS, NEEDED[operator] * directions)]
        options["activations"] = names
        for key in ("alpha", "beta") if random.integers(3) else ():
            takers = [name for name in names if key in TAKES.get(name, ())]
            options[f"activation_{key}"] = [float(value) for value in random.uniform(0.1, 0.9, len(takers))]
        options = {key: value for key, value in options.items() if value != []}
    elif operator == "RNN":
        options["activations"] = ["Tanh"] * directions
    if random.integers(2):
        options["clip"] = float(np.float32(random.uniform(0.2, 1)))
    if operator == "LSTM":
        options["input_forget"] = int(random.integers(2))
    if operator == "GRU":
        options["linear_before_reset"] = int(random.integers(2))
    rows = GATES[operator] * UNITS
    shapes = {
        "X": (STEPS, BATCH, INPUTS),
        "W": (directions, rows, INPUTS),
        "R": (directions, rows, UNITS),
        "B": (directions, 2 * rows),
        "h": (directions, BATCH, UNITS),
    }
    if operator == "LSTM":
        shapes |= {"c": shapes["h"]} | ({"P": (directions, 3 * UNITS)} if random.integers(2) else {})
    arrays = {name: random.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    if random.integers(2):
        arrays["lengths"] = np.array([4, 2, 3], np.int32)
    for key in ("activation_alpha", "activation_beta"):
        if key in options:
            options[key] = [float(np.float32(value)) for value in options[key]]
    return operator, options, arrays


def model(operator: str, options: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Return a model of the node, in which all inputs but X are stored in the file."""
    order = ("X", "W", "R", "B", "lengths", "h", "c", "P")[: 8 if operator == "LSTM" else 6]
    outputs = ("Y", "Y_h", "Y_c")[: 3 if operator == "LSTM" else 2]
    node = helper.make_node(operator, [name if name in arrays else "" for name in order], outputs, **options)
    given = helper.make_tensor_value_info("X", TensorProto.FLOAT, arrays["X"].shape)
    made = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["a", "b", "c", "d"][: 4 - (name != "Y")])
        for name in outputs
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items() if name != "X"]
    graph = helper.make_graph([node], "net", [given], made, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def loaded(path: Path, operator: str, options: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    onnx.save(model(operator, options, arrays), path / "net.onnx")
    return rg.onnx.load(path / "net.onnx")


def every_activation() -> Iterator[tuple[str, dict[str, Any], dict[str, np.ndarray]]]:
    random = np.random.default_rng(0)
    cases = iter(lambda: drawn(random), None)
    _, _, arrays = next(case for case in cases if case[0] == "RNN" and len(case[2]["W"]) == 1)
    for name in ACTIVATIONS:
        yield "RNN", {"hidden_size": UNITS, "direction": "forward", "activations": [name]}, arrays


@pytest.mark.parametrize("seed", range(60))
def test_drawn_nodes(seed: int, tmp_path: Path) -> None:
    operator, options, arrays = drawn(np.random.default_rng(seed))
    found = loaded(tmp_path, operator, options, arrays)(rg.tensor(arrays["X"]))
    for one, other in zip(found, expected(operator, options, arrays), strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-4, atol=1e-5, err_msg=f"{operator} {options}")


def test_each_activation_by_default(tmp_path: Path) -> None:
    for operator, options, arrays in every_activation():
        found = loaded(tmp_path, operator, options, arrays)(rg.tensor(arrays["X"]))
        y = expected(operator, options, arrays)[0]
        np.testing.assert_allclose(found[0].detach().numpy(), y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_gradients_of_drawn_nodes(seed: int, tmp_path: Path) -> None:
    operator, options, arrays = drawn(np.random.default_rng(seed))
    net = loaded(tmp_path, operator, options, arrays).double()
    x = rg.tensor(arrays["X"].astype(np.float64), requires_grad=True)
    assert rg.autograd.gradcheck(lambda x, *weights: net(x), (x, *net.parameters()))


def test_layout_and_what_lies_beyond_a_sequence(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    cases = iter(lambda: drawn(random), None)
    operator, options, arrays = next(case for case in cases if case[0] == "GRU" and "lengths" in case[2])
    options["clip"] = 0.5
    y, h = loaded(tmp_path, operator, options, arrays)(rg.tensor(arrays["X"]))
    turned = arrays | {"X": arrays["X"].swapaxes(0, 1).copy(), "h": arrays["h"].swapaxes(0, 1).copy()}
    turned["X"][1, 2:], turned["X"][2, 3:] = np.nan, np.inf
    y_turned, h_turned = loaded(tmp_path, operator, options | {"layout": 1}, turned)(rg.tensor(turned["X"]))
    np.testing.assert_array_equal(y_turned.permute(1, 2, 0, 3).detach().numpy(), y.detach().numpy())
    np.testing.assert_array_equal(h_turned.transpose(0, 1).detach().numpy(), h.detach().numpy())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip": 0.0}, r"clip=0\.0 must be above 0"),
        ({"clip": -1.0}, r"clip=-1\.0 must be above 0"),
        ({"activations": ["Exp"]}, r"\(RNN\): not supported: the activation 'exp'"),
        (
            {"activations": ["Tanh"], "direction": "bidirectional"},
            r"activations=\['Tanh'\] must have 2 names, 1 for each direction",
        ),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    rows = 1 + (options.get("direction") == "bidirectional")
    arrays = {"X": (STEPS, BATCH, INPUTS), "W": (rows, UNITS, INPUTS), "R": (rows, UNITS, UNITS)}
    made = {name: np.ones(shape, np.float32) for name, shape in arrays.items()}
    net = loaded(tmp_path, "RNN", {"hidden_size": UNITS, "activations": ["Tanh"], **options}, made)
    with pytest.raises(rg.onnx.OnnxError, match=message):
        net(rg.tensor(made["X"]))


def test_it_goes_out_as_it_came_in(tmp_path: Path) -> None:
    options = {
        "hidden_size": UNITS,
        "direction": "forward",
        "clip": 0.5,
        "input_forget": 1,
        "activations": ["HardSigmoid", "Elu", "Softsign"],
        "activation_beta": [0.25],
    }
    random = np.random.default_rng(2)
    _, _, arrays = next(c for c in iter(lambda: drawn(random), None) if c[0] == "LSTM" and c[2]["W"].shape[0] == 1)
    net, x = loaded(tmp_path, "LSTM", options, arrays), rg.tensor(arrays["X"])
    rg.onnx.export(net, x, tmp_path / "again.onnx", dynamic_axes={})
    nodes = onnx.load(tmp_path / "again.onnx").graph.node
    assert [node.op_type for node in nodes if node.op_type != "Constant"] == ["LSTM"]
    for one, other in zip(rg.onnx.load(tmp_path / "again.onnx")(x), net(x), strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), other.detach().numpy())
