"""ONNX's operator Gradient: derivatives of values of the graph, of first and second order."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from retrograd.onnx.backend import prepare  # noqa: E402

TRAINING = "ai.onnx.preview.training"
RNG = np.random.default_rng(11)


def gradient(given, made, xs, y, zs=()):
    more = {"zs": list(zs)} if zs else {}
    return helper.make_node("Gradient", given, made, domain=TRAINING, xs=list(xs), y=y, **more)


def model(nodes, inputs, outputs, kind=TensorProto.DOUBLE):
    infos = [
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in some.items()] for some in (inputs, outputs)
    ]
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid(TRAINING, 1)]
    return helper.make_model(helper.make_graph(nodes, "g", *infos), opset_imports=opsets, ir_version=10)


LINEAR = [
    helper.make_node("Gemm", ["X", "W"], ["H"]),
    helper.make_node("Sub", ["H", "L"], ["d"]),
    helper.make_node("Mul", ["d", "d"], ["square"]),
    helper.make_node("Mul", ["square", "d"], ["cube"]),
    helper.make_node("ReduceSum", ["cube"], ["O"], keepdims=0),
]
SHAPES = {"X": [2, 3], "W": [3, 2], "L": [2, 2]}
X, W, L = (RNG.standard_normal(shape) for shape in SHAPES.values())
D = X @ W - L


def test_second_order() -> None:
    """The example in the schema: a gradient of a gradient, with a Gradient node between."""
    nodes = [
        *LINEAR,
        gradient(["X", "W", "L"], ["dX", "dW"], ["X", "W"], "O", ["L"]),
        gradient(["X", "W", "L"], ["dXdW", "ddW"], ["X", "W"], "dW", ["L"]),
    ]
    out = prepare(model(nodes, SHAPES, {"dX": [2, 3], "dW": [3, 2], "dXdW": [2, 3], "ddW": [3, 2]})).run([X, W, L])
    np.testing.assert_allclose(out[0], 3 * D**2 @ W.T, rtol=1e-12)
    np.testing.assert_allclose(out[1], X.T @ (3 * D**2), rtol=1e-12)
    # the sum of dW's entries is that of 3 D^2 times the sums of X's rows
    rows = X.sum(1)[:, None]
    np.testing.assert_allclose(out[2], (3 * D**2).sum(1)[:, None] + (6 * D * rows) @ W.T, rtol=1e-12)
    np.testing.assert_allclose(out[3], X.T @ (6 * D * rows), rtol=1e-12)


def test_the_values_are_those_that_the_node_is_given() -> None:
    nodes = [*LINEAR, gradient(["other", "L"], ["dH"], ["H"], "O", ["L"])]
    other = RNG.standard_normal((2, 2))
    (found,) = prepare(model(nodes, SHAPES | {"other": [2, 2]}, {"dH": [2, 2]})).run([X, W, L, other])
    np.testing.assert_allclose(found, 3 * (other - L) ** 2, rtol=1e-12)


def test_an_output_that_is_left_out_and_an_x_that_y_does_not_need() -> None:
    nodes = [*LINEAR, gradient(["X", "W", "L", "H"], ["", "dW", "", "dH"], ["X", "W", "L", "H"], "H")]
    dw, dh = prepare(model(nodes, SHAPES, {"dW": [3, 2], "dH": [2, 2]})).run([X, W, L])
    assert not dw.any() and (dh == 1).all()  # y is H, whose value is given: it depends on H only
    nodes = [*LINEAR, gradient(["X", "W", "L"], ["", "dW"], ["X", "W"], "O", ["L"])]
    (dw,) = prepare(model(nodes, SHAPES, {"dW": [3, 2]})).run([X, W, L])
    np.testing.assert_allclose(dw, X.T @ (3 * D**2), rtol=1e-12)


def test_independent_values_that_are_computed_from_each_other() -> None:
    """y = x * z where z = 2 x: to x alone the derivative is z."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["z"]),
        helper.make_node("Mul", ["x", "z"], ["y"]),
        gradient(["x", "z"], ["g"], ["x"], "y", ["z"]),
    ]
    path = model(nodes, {"x": [3]}, {"g": [3]})
    x = RNG.standard_normal(3)
    np.testing.assert_allclose(prepare(path).run([x])[0], 2 * x)
    given = rg.tensor(x, requires_grad=True)
    prepare(path).graph(given).sum().backward()  # and its own derivative goes through z
    np.testing.assert_allclose(given.grad.numpy(), 2)


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (gradient(["X", "W"], ["g"], ["X"], "O"), "2 inputs, needs a value for each of 1 xs and 0 zs"),
        (gradient(["X"], ["g"], ["X"], "nowhere"), "nowhere"),
    ],
)
def test_nodes_that_do_not_fit(node, text: str) -> None:
    with pytest.raises(rg.onnx.OnnxError, match=text):
        prepare(model([*LINEAR, node], SHAPES, {"g": [2, 3]})).run([X, W, L])


def test_whole_numbers_have_no_gradient() -> None:
    nodes = [helper.make_node("Add", ["x", "x"], ["y"]), gradient(["x"], ["g"], ["x"], "y")]
    with pytest.raises(rg.onnx.OnnxError, match="not supported: operands of int64, where float32 or float64 is needed"):
        prepare(model(nodes, {"x": [2]}, {"g": [2]}, TensorProto.INT64)).run([np.arange(2)])


# ---- Bugs found by the gradient vectors -----------------------------------------------------------------------------


def test_an_output_that_is_left_out_is_no_input_of_later_nodes() -> None:
    w, r = RNG.standard_normal((1, 8, 3)), RNG.standard_normal((1, 8, 2))
    x = RNG.standard_normal((4, 2, 3))
    one = helper.make_node("LSTM", ["x", "w", "r"], ["", "h"], hidden_size=2)
    two = helper.make_node("LSTM", ["x", "w", "r", "", "", "h"], ["", "", "c"], hidden_size=2)
    shapes = {"x": [4, 2, 3], "w": [1, 8, 3], "r": [1, 8, 2]}
    (c,) = prepare(model([one, two], shapes, {"c": [1, 2, 2]})).run([x, w, r])
    (h,) = prepare(model([one], shapes, {"h": [1, 2, 2]})).run([x, w, r])
    last = helper.make_node("LSTM", ["x", "w", "r", "", "", "h"], ["", "", "c"], hidden_size=2)
    (expected,) = prepare(model([last], shapes | {"h": [1, 2, 2]}, {"c": [1, 2, 2]})).run([x, w, r, h])
    assert np.array_equal(c, expected)


@pytest.mark.parametrize("operator", ["L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod", "Sum", "SumSquare"])
def test_a_reduction_along_no_axis_has_a_gradient(operator: str) -> None:
    nodes = [helper.make_node(f"Reduce{operator}", ["x"], ["y"], keepdims=0)]
    x = rg.tensor(1.5, dtype=rg.float64, requires_grad=True)
    graph = prepare(model(nodes, {"x": []}, {"y": []})).graph
    assert rg.autograd.gradcheck(graph, (x,))


def test_a_mask_that_is_computed_has_a_gradient() -> None:
    nodes = [helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"], is_causal=1)]
    shapes = {"q": [1, 2, 3, 4], "k": [1, 2, 3, 4], "v": [1, 2, 3, 4], "mask": [3, 3]}
    opset23 = model(nodes, shapes, {"y": [1, 2, 3, 4]})
    opset23.opset_import[0].version = 23
    inputs = [rg.tensor(RNG.standard_normal(shape), requires_grad=True) for shape in shapes.values()]
    assert rg.autograd.gradcheck(prepare(opset23).graph, tuple(inputs))
