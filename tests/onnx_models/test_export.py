"""``retrograd.onnx.export``: ONNX's reference implementation computes the model's results from the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd import lowbit, nn

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402

from onnx_models.exported import CASES, Of, convolutional, export, floats, ints  # noqa: E402

# cases that the reference of onnx 1.23 does not compute; tests/peers runs them on another runtime
NOT_IN_REFERENCE = {
    "lstm": "two directions",
    "gru": "two directions",
    "rnn": "Relu",
    "transposed": "groups",
    "lengths": "lengths",
    "masked": "warns of -inf - -inf",
    "a query without keys": "warns of -inf - -inf",
}


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_IN_REFERENCE])
def test_outputs(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    _, inputs, expected = export(name, path)
    found = ReferenceEvaluator(str(path)).run(None, inputs)
    assert len(found) == len(expected)
    for ours, theirs in zip(expected, found, strict=True):
        assert theirs.dtype == ours.dtype
        np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_it_loads_again(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    _, inputs, expected = export(name, path)
    again = rg.onnx.load(path).eval()
    rg.onnx.export(again, tuple(map(rg.tensor, inputs.values())), path, dynamic_axes={})  # and goes out once more
    found = rg.onnx.load(path).eval()(*map(rg.tensor, inputs.values()))
    for ours, theirs in zip(expected, found if isinstance(found, tuple) else [found], strict=True):
        np.testing.assert_allclose(theirs.detach().numpy(), ours, rtol=1e-4, atol=1e-5)


def test_what_stands_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 3)).train()
    rg.onnx.export(net, floats(4, 1, 5, 5), path, input_names=["image"], output_names=["scores"])
    assert all(module.training for module in net.modules())  # as it was
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Conv", "BatchNormalization", "Relu", "Reshape", "Gemm"]
    assert model.graph.node[0].name == "0/Conv"
    assert {each.name for each in model.graph.initializer} >= {"0.weight", "0.bias", "1.running_mean", "4.weight"}
    (x,), (y,) = model.graph.input, model.graph.output
    assert (x.name, y.name) == ("image", "scores")
    assert [each.dim_param or each.dim_value for each in x.type.tensor_type.shape.dim] == ["batch", 1, 5, 5]
    assert [each.dim_param or each.dim_value for each in y.type.tensor_type.shape.dim] == ["batch", 3]
    assert (model.producer_name, model.opset_import[0].version) == ("retrograd", 18)


def test_it_trains_after_it_was_loaded(tmp_path: Path) -> None:
    net, x, wanted = convolutional(), floats(8, 3, 15, 17), ints(8, high=5)
    rg.onnx.export(net, x, tmp_path / "net.onnx")
    again = rg.onnx.load(tmp_path / "net.onnx")
    assert sum(p.numel() for p in again.parameters()) == sum(p.numel() for p in net.parameters())
    optimizer = rg.optim.Adam(again.parameters(), lr=0.05)
    losses = []
    for _ in range(20):
        loss = nn.functional.cross_entropy(again(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("opset", [15, 17, 21, onnx.defs.onnx_opset_version()])
def test_opsets_by_the_converter_of_onnx(opset: int, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    _, inputs, (expected,) = export("convolutional", path, opset=opset)
    assert onnx.load(path).opset_import[0].version == opset
    (found,) = ReferenceEvaluator(str(path)).run(None, inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_an_operator_may_need_a_newer_opset(tmp_path: Path) -> None:
    export("images", tmp_path / "net.onnx")  # circular padding
    assert onnx.load(tmp_path / "net.onnx").opset_import[0].version == 19


class Straight(rg.autograd.Function):
    """A sign with a straight-through gradient; its forward is exported."""

    @staticmethod
    def forward(ctx, x):
        return rg.where(x >= 0, rg.ones_like(x), -rg.ones_like(x))

    @staticmethod
    def backward(ctx, g):
        return g


def test_own_functions_and_backward_rules(tmp_path: Path) -> None:
    path, x = tmp_path / "net.onnx", floats(3, 5)
    rg.onnx.export(Of(Straight.apply), x, path)
    (found,) = ReferenceEvaluator(str(path)).run(None, {"input_0": x.numpy()})
    np.testing.assert_array_equal(found, np.where(x.numpy() >= 0, 1, -1))

    def half(true, g):
        return tuple(each if each is None else each * 0.5 for each in true(g))

    layer = nn.Linear(5, 2)
    layer.backward_rule = half
    rg.onnx.export(layer, x, path)
    (found,) = ReferenceEvaluator(str(path)).run(None, {"input": x.numpy()})
    np.testing.assert_allclose(found, layer(x).detach().numpy(), rtol=1e-5)


def by_value(x):
    return x * 2 if x.sum().item() > 1e9 else x if x.array[0, 0] == 1.0 else -x


ONE = rg.ones(2, 3)
REFUSED = {
    "by NumPy": (lambda x: rg.tensor(np.sin(x.numpy())) + x, "the node 'Add' takes an array that differs"),
    "by an operator without a counterpart": (
        lambda x: x + rg.histc(x.detach(), 3),
        "Add: the result of histc for an input cannot be written",
    ),
    "only by that": (lambda x: rg.unique(x.detach()), "an output: the result of unique for an input"),
    "every other element in place": (lambda x: _every_other(x * 1), "a change in place of every other element"),
    "longer by a division": (lambda x: x.flatten()[: x.shape[0] * 3 // 4], "for inputs of the shapes|takes the number"),
    "only by NumPy": (lambda x: rg.tensor(np.sin(x.numpy())), "output 0 of the model depends neither"),
    "another operator": (lambda x: rg.linalg.inv(x @ x.T), "Inverse: the operator cannot be written"),
    "a size in Python": (lambda x: x / float(x.shape[0]) ** 0.5, "takes an array that differs"),
    "a power of a size": (lambda x: x * float(x.shape[0] ** 3), r"for inputs of the shapes \{'input_0': \(7, 3\)\}"),
    "a loop over the batch": (lambda x: rg.stack([row * 2 for row in x], 0), "differs between two examples"),
    "a part in place": (lambda x: _with_a_part(x + 1), "a part of a tensor was changed in place"),
    "no tensor": (lambda x: (x, 3), "the model returns a int, needs Tensors"),
}


def _with_a_part(y):
    y.T[0] = 0.0
    return y * 2


def _every_other(y):
    y[:, ::2] = 0.0
    return y


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written(name: str, tmp_path: Path) -> None:
    function, message = REFUSED[name]
    with pytest.raises(rg.onnx.OnnxError, match=message):
        rg.onnx.export(Of(function), floats(2, 3), tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())


def test_a_model_that_decides_by_values(tmp_path: Path) -> None:
    message = "operations for one example|differs between two examples|differs from the model"
    with pytest.raises(rg.onnx.OnnxError, match=message):
        rg.onnx.export(Of(by_value), ONE, tmp_path / "net.onnx")


def test_what_fits_nearby_sizes_alone(tmp_path: Path) -> None:
    net = Of(lambda x: x[:, : x.shape[1] // 8])  # 2 of 17, 18 and 19
    with pytest.raises(rg.onnx.OnnxError, match=r"float32\[2, 2\], not float32\[2, 4\]"):
        rg.onnx.export(net, floats(2, 17), tmp_path / "net.onnx", input_names=["x"], dynamic_axes={"x": {1: "T"}})


def test_two_extents_that_grow_alike(tmp_path: Path) -> None:
    """T + 1 is not confused with N + 3, though both are 5 in the example."""
    net = Of(lambda x: x.repeat(1, 2)[:, : x.shape[1] + 1] + rg.zeros(x.shape[1] + 1))
    axes = {"x": {0: "N", 1: "T"}}
    rg.onnx.export(net, floats(2, 4), tmp_path / "net.onnx", input_names=["x"], dynamic_axes=axes)
    x = floats(7, 5)
    (found,) = ReferenceEvaluator(str(tmp_path / "net.onnx")).run(None, {"x": x.numpy()})
    np.testing.assert_array_equal(found, net(x).numpy())


def test_values_that_python_reads(tmp_path: Path) -> None:
    net = Of(lambda x: x if bool(x.abs().sum() > 0) else -x)
    with pytest.warns(UserWarning, match=r"read values that depend on an input \(Tensor.__bool__\)"):
        rg.onnx.export(net, floats(2, 3), tmp_path / "net.onnx")


def test_a_model_that_counts_its_calls(tmp_path: Path) -> None:
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", rg.zeros(1))

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    with pytest.raises(rg.onnx.OnnxError, match="the model changes 'calls' in place in each call"):
        rg.onnx.export(Counter(), floats(2, 3), tmp_path / "net.onnx")


def test_the_example_is_not_changed(tmp_path: Path) -> None:
    x = floats(3, 5)
    rg.onnx.export(Of(lambda x: x.add_(1)), x, tmp_path / "net.onnx")
    np.testing.assert_array_equal(x.numpy(), floats(3, 5).numpy())


def test_constants_are_there_once_and_are_no_parameters(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    net = nn.Sequential(nn.RMSNorm(4), nn.RMSNorm(4), nn.GroupNorm(2, 4, affine=False), nn.LSTM(4, 3, 2))
    net[0].register_buffer("table", floats(4))
    net[0].register_forward_hook(lambda module, inputs, y: y + module.table)
    rg.onnx.export(net, floats(5, 4), path, dynamic_axes={})
    graph, again = onnx.load(path).graph, rg.onnx.load(path)
    assert sum(p.numel() for p in again.parameters()) == sum(p.numel() for p in net.parameters())
    tensors = [*graph.initializer, *(node.attribute[0].t for node in graph.node if node.op_type == "Constant")]
    contents = [(t.data_type, tuple(t.dims), t.raw_data) for t in tensors if "weight" not in t.name]
    assert len(contents) == len(set(contents))


@pytest.mark.parametrize("name", ["lstm", "transformer", "decoder", "norms", "steps"])
def test_as_many_parameters_after_it_was_loaded(name: str, tmp_path: Path) -> None:
    net, _, _ = export(name, tmp_path / "net.onnx")
    again = rg.onnx.load(tmp_path / "net.onnx")
    assert sum(p.numel() for p in again.parameters()) == sum(p.numel() for p in net.parameters())


def test_the_module_is_named(tmp_path: Path) -> None:
    class Inverse(nn.Module):
        def forward(self, x):
            return rg.linalg.inv(x)

    net = nn.Sequential(nn.Linear(3, 3), Inverse())
    with pytest.raises(rg.onnx.OnnxError, match="Inverse in the module '1'"):
        rg.onnx.export(net, floats(3, 3), tmp_path / "net.onnx", dynamic_axes={})


def test_a_size_that_the_model_does_not_take(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        rg.onnx.export(nn.Linear(4, 2), floats(3, 4), tmp_path / "net.onnx", dynamic_axes={"input": {1: "width"}})
    assert any("declare which axes vary" in note for note in caught.value.__notes__)


WRONG = {
    "model": ((lambda x: x, floats(2)), {}, TypeError, "model is the function <lambda>, needs a Module"),
    "path": ((nn.ReLU(), floats(2)), {"path": 3}, TypeError, "path=3 must be a path"),
    "example": ((nn.ReLU(), 3.0), {}, TypeError, "example has a float at position 0"),
    "empty": ((nn.ReLU(), ()), {}, ValueError, "example is empty"),
    "metadata": (
        (nn.ReLU(), floats(2)),
        {"metadata": ["a"]},
        TypeError,
        "onnx.export: metadata is list, needs a dict of strings",
    ),
    "opset": ((nn.ReLU(), floats(2)), {"opset": 3}, ValueError, "opset=3 must be an int from 7 to"),
    "opset that cannot be": ((nn.Mish(), floats(2)), {"opset": 9}, ValueError, "ONNX's converter cannot convert"),
    "input_names": ((nn.ReLU(), floats(2)), {"input_names": ["a", "b"]}, ValueError, "must be 1 different names"),
    "one input name": ((nn.ReLU(), floats(2)), {"input_names": "x"}, TypeError, r"needs a list: \['x'\]"),
    "one output name": ((nn.ReLU(), floats(2)), {"output_names": "y"}, TypeError, r"needs a list: \['y'\]"),
    "folder": ((nn.ReLU(), floats(2)), {"path": "."}, IsADirectoryError, "it is a folder; give the name of a file"),
    "output_names": ((nn.ReLU(), floats(2)), {"output_names": ["input"]}, ValueError, "none of them that of an input"),
    "dynamic_axes": ((nn.ReLU(), floats(2)), {"dynamic_axes": {"y": {0: "N"}}}, ValueError, "is not one of the inputs"),
    "axis": ((nn.ReLU(), floats(2)), {"dynamic_axes": {"input": {1: "N"}}}, ValueError, "input has no axis 1"),
    "label": ((nn.ReLU(), floats(2)), {"dynamic_axes": {"input": {0: 3}}}, ValueError, "must be a name"),
    "no extent": ((nn.ReLU(), floats(0, 2)), {}, ValueError, "it must be one number above 0"),
    "two batches": ((nn.Bilinear(2, 2, 2), (floats(2, 2), floats(3, 2))), {}, ValueError, r"extents \[2, 3\]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_messages(name: str, tmp_path: Path) -> None:
    given, options, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        rg.onnx.export(*given, **{"path": tmp_path / "net.onnx", **options})


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_packed_model_is_not_exported(wrapped: bool, tmp_path: Path) -> None:
    packed = nn.Sequential(lowbit.Linear(3, 2, weight=lowbit.BWN())).pack()
    model = nn.Sequential(nn.ReLU(), packed.model) if wrapped else packed
    where = " at '1.0'" if wrapped else ""
    with pytest.raises(rg.onnx.OnnxError, match=f"the model is packed{where}: .*; export the model before packing"):
        rg.onnx.export(model, rg.zeros(1, 3), tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())
