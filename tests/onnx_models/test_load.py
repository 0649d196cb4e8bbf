"""``retrograd.onnx.load``: models that run and train, and invalid files."""

from __future__ import annotations

import sys
from fractions import Fraction
from math import ceil, floor
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def same_numbers(monkeypatch):
    """Each test draws the same numbers, whichever tests ran before it in its process."""
    monkeypatch.setattr(sys.modules[__name__], "RNG", np.random.default_rng(5))


def weights(**shapes):
    arrays = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def model_of(nodes, initializers, inputs, outputs, opset=21):
    """A model with float32 inputs and outputs of these shapes."""
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
    graph = helper.make_graph(nodes, "net", given, made, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def small_network():
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["a"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "var"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Dropout", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "head", "bias"], ["y"], transB=1),
    ]
    arrays = weights(scale=(4,), shift=(4,), mean=(4,), head=(3, 4), bias=(3,))
    arrays += weights(**{"conv.weight": (4, 2, 3, 3), "conv.bias": (4,)})
    arrays.append(numpy_helper.from_array(np.full(4, 2, np.float32), "var"))
    return model_of(nodes, arrays, {"x": ["N", 2, 5, 6]}, {"y": ["N", 3]})


def fire():
    from retrograd import nn

    class Fire(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.one, self.three = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 6, 1), nn.Conv2d(4, 6, 3, padding=1)

        def forward(self, x):
            x = self.first(x).relu()
            return rg.cat([self.one(x).relu(), self.three(x).relu()], 1).mean((2, 3))

    return Fire()


def lenet():
    from retrograd import nn

    first = nn.Conv2d(3, 4, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 5), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(216, 12), nn.ReLU(), nn.Linear(12, 5))


def by_name(name, *options):
    from retrograd import nn

    models = pytest.importorskip("benchmarks.models")
    return getattr(models, name)(nn, *options)


NETWORKS = {
    "lenet": (lenet, (2, 3, 32, 32)),
    "fire": (fire, (2, 3, 9, 8)),
    "u-net": (lambda: by_name("unet", 3, 4), (1, 3, 16, 16)),
    "mobilenet": (lambda: by_name("mobilenet_v2", 7), (1, 3, 32, 32)),
    "resnet": (lambda: by_name("resnet18", 7), (1, 3, 32, 32)),
    "lstm": (lambda: by_name("characters", True), (2, 9)),
    "gpt": (lambda: by_name("gpt", 11, 12, 2, 2, 16), (2, 7)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_exported_networks_can_be_frozen(name, tmp_path: Path) -> None:
    make, shape = NETWORKS[name]

    def example(seed: int) -> rg.Tensor:
        draw = np.random.default_rng(seed)
        codes = draw.integers(0, 11, shape)
        return rg.tensor(codes) if len(shape) == 2 else rg.Tensor(draw.standard_normal(shape, dtype=np.float32))

    rg.manual_seed(0)
    rg.onnx.export(make().eval(), (example(0),), tmp_path / "model.onnx")
    net = rg.onnx.load(tmp_path / "model.onnx").eval()
    frozen = net.freeze()
    with rg.no_grad():
        for seed in (0, 1, 2):
            found, wanted = frozen(example(seed)).numpy(), net(example(seed)).numpy()
            assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()
    assert "launches" in rg.explain_recording(frozen)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_class_of_a_recorded_classifier(saved, compiled: bool, last: int) -> None:
    """Whether a kernel or NumPy computes the indices, they are those of each call."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["class"], axis=1, keepdims=0, select_last_index=last),
        helper.make_node("Cast", ["class"], ["y"], to=TensorProto.FLOAT),
    ]
    model = model_of(nodes, weights(w=(5, 4)), {"x": ["N", 5]}, {"scores": ["N", 4], "y": ["N"]})
    model.graph.output.append(helper.make_tensor_value_info("class", TensorProto.INT64, ["N"]))
    net = rg.onnx.load(saved(model)).eval()
    call = rg.compile(net) if compiled else net.freeze()
    with rg.no_grad():
        for seed in range(4):
            x = np.random.default_rng(seed).standard_normal((6, 5), dtype=np.float32)
            scores, as_float, found = call(rg.Tensor(x))
            assert found.tolist() == as_float.tolist() == scores.numpy().argmax(1).tolist()
    assert last or "launches" in rg.explain_recording(call)


def branch(name: str, operator: str):
    made = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    return helper.make_graph([helper.make_node(operator, ["x"], [name])], name, [], [made])


def looped():
    """A body that adds 1 to its value until this is above 4."""
    scalar_of = {"turn": TensorProto.INT64, "going": TensorProto.BOOL, "v": TensorProto.FLOAT}
    given = [helper.make_tensor_value_info(name, kind, None) for name, kind in scalar_of.items()]
    made = [helper.make_tensor_value_info("on", TensorProto.BOOL, None)]
    made.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, None))
    nodes = [helper.make_node("Add", ["v", "one"], ["w"]), helper.make_node("ReduceMax", ["w"], ["m"], keepdims=0)]
    return helper.make_graph([*nodes, helper.make_node("Less", ["m", "three"], ["on"])], "body", given, made)


BY_VALUE = {
    "If": [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "three"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("a", "Neg"), else_branch=branch("b", "Exp")),
    ],
    "If of whole numbers": [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT32),
        helper.make_node("ReduceMax", ["i"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("a", "Neg"), else_branch=branch("b", "Exp")),
    ],
    "Loop": [helper.make_node("Loop", ["", "going", "x"], ["y"], body=looped())],
    "PRelu": [helper.make_node("Add", ["x", "three"], ["h"]), helper.make_node("PRelu", ["h", "slope"], ["y"])],
    "NonZero": [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT32),
        helper.make_node("NonZero", ["i"], ["n"]),
        helper.make_node("Shape", ["n"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
    ],
    "Compress": [
        helper.make_node("Greater", ["x", "three"], ["c"]),
        helper.make_node("Reshape", ["c", "all"], ["d"]),
        helper.make_node("Compress", ["x", "d"], ["y"]),
    ],
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", BY_VALUE)
def test_recorded_models_decide_at_each_call(saved, name: str, compiled: bool) -> None:
    """The first calls have small numbers, whose decisions must not be repeated for the large ones of the last."""
    numbers = {"three": np.float32(3), "slope": np.full(4, 0.3, np.float32), "one": np.float32(1)}
    numbers |= {"going": np.array(True), "all": np.array([-1])}
    arrays = [numpy_helper.from_array(np.array(array), key) for key, array in numbers.items()]
    model = model_of(BY_VALUE[name], arrays, {"x": ["N", 4]}, {"y": ["a", "b"]})
    if name in ("NonZero", "Compress"):
        model.graph.output[0].type.tensor_type.shape.dim.pop()
    net = rg.onnx.load(saved(model)).eval()
    call = rg.compile(net) if compiled else net.freeze()
    reference = ReferenceEvaluator(model)
    with rg.no_grad():
        for seed, scale in enumerate([0.1, 0.1, 0.1, 9]):
            x = scale * np.random.default_rng(seed).standard_normal((6, 4)).astype(np.float32)
            (expected,) = reference.run(None, {"x": x.astype(np.float32)})
            np.testing.assert_allclose(call(rg.Tensor(x.astype(np.float32))).numpy(), expected, rtol=1e-5, atol=1e-6)


WRITTEN_IN_PLACE = {
    "Concat": [helper.make_node("Concat", ["x", "x"], ["y"], axis=1)],  # of rows that are copied one by one
    "Split and Concat": [
        helper.make_node("Split", ["x"], ["a", "b"], axis=2, num_outputs=2),
        helper.make_node("Concat", ["b", "a"], ["y"], axis=1),
    ],
    "ScatterND": [helper.make_node("ScatterND", ["x", "place", "rows"], ["y"])],
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", WRITTEN_IN_PLACE)
def test_results_that_kernels_write_in_place_are_recorded(saved, name: str, compiled: bool) -> None:
    rows = RNG.standard_normal((1, 3, 40, 40)).astype(np.float32)
    given = [numpy_helper.from_array(np.array([[1]]), "place"), numpy_helper.from_array(rows, "rows")]
    model = model_of(WRITTEN_IN_PLACE[name], given, {"x": [2, 3, 40, 40]}, {"y": list("abcd")})
    net = rg.onnx.load(saved(model)).eval()
    call = rg.compile(net) if compiled else net.freeze()
    with rg.no_grad():
        for seed in range(3):
            x = np.random.default_rng(seed).standard_normal((2, 3, 40, 40)).astype(np.float32)
            (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
            np.testing.assert_array_equal(call(rg.Tensor(x)).numpy(), expected)
    assert "launches" in rg.explain_recording(call)


def test_instance_normalization_of_one_position(saved) -> None:
    nodes = [helper.make_node("InstanceNormalization", ["x", "scale", "b"], ["y"])]
    model = model_of(nodes, weights(scale=(3,), b=(3,)), {"x": ["N", 3, 1, 1]}, {"y": ["N", 3, 1, 1]})
    x = RNG.standard_normal((2, 3, 1, 1)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(rg.onnx.load(saved(model))(rg.Tensor(x)).detach().numpy(), expected, rtol=1e-5)


@pytest.fixture
def saved(tmp_path: Path):
    def save(model, name="model.onnx"):
        onnx.save(model, tmp_path / name)
        return tmp_path / name

    return save


@pytest.mark.parametrize("batch", [1, 3])  # for any batch size
def test_outputs_are_those_of_the_reference(saved, batch: int) -> None:
    model = small_network()
    net = rg.onnx.load(saved(model)).eval()
    x = RNG.standard_normal((batch, 2, 5, 6)).astype(np.float32)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    with rg.no_grad():
        np.testing.assert_allclose(net(rg.tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(net(x=rg.tensor(x)).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_it_trains(saved) -> None:
    net = rg.onnx.load(str(saved(small_network())))
    names = {name for name, _ in net.named_parameters()}
    assert names == {"conv_weight", "conv_bias", "scale", "shift", "head", "bias"}
    assert {name for name, _ in net.named_buffers()} == {"mean", "var"}
    x, y = rg.tensor(RNG.standard_normal((16, 2, 5, 6)).astype(np.float32)), rg.tensor(np.arange(16) % 3)
    optimizer = rg.optim.Adam(net.parameters(), lr=0.05)
    before, losses = net.mean.numpy().copy(), []
    for _ in range(40):
        optimizer.zero_grad()
        loss = rg.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    assert not np.array_equal(net.mean.numpy(), before)  # batch norm learns its statistics
    net.eval()
    assert rg.equal(net(x), net(x))  # in eval mode, dropout is off


def test_gradients_of_a_loaded_lstm(saved) -> None:
    nodes = [helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=4, direction="bidirectional")]
    model = model_of(nodes, weights(w=(2, 16, 3), r=(2, 16, 4), b=(2, 32)), {"x": [5, 2, 3]}, {"y": [5, 2, 2, 4]})
    net = rg.onnx.load(saved(model)).double()
    x = rg.tensor(RNG.standard_normal((5, 2, 3)), requires_grad=True)
    assert rg.autograd.gradcheck(lambda x, *weights: net(x), (x, *net.parameters()))


def test_a_branch_and_a_loop(saved) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["v", "factor"], ["next"]),
            helper.make_node("Identity", ["again"], ["on"]),
            helper.make_node("Identity", ["next"], ["each"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("each", TensorProto.FLOAT, [2]),
        ],
    )
    nodes = [helper.make_node("Loop", ["count", "", "x"], ["last", "all"], body=body)]
    arrays = [numpy_helper.from_array(np.array(3, np.int64), "count"), *weights(factor=(2,))]
    net = rg.onnx.load(saved(model_of(nodes, arrays, {"x": [2]}, {"last": [2], "all": [3, 2]})))
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    last, every = net(x)
    factor = net.factor.numpy()
    np.testing.assert_allclose(last.detach().numpy(), factor**3 * [1, 2], rtol=1e-5)
    np.testing.assert_allclose(every.detach().numpy(), [factor**k * [1, 2] for k in (1, 2, 3)], rtol=1e-5)
    last.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), factor**3, rtol=1e-5)


# ---- Invalid files, and unsupported operators ------------------------------------------------------------------------


def test_files_that_are_none(saved, tmp_path: Path) -> None:
    whole = saved(small_network()).read_bytes()
    other = tmp_path / "other.onnx"
    for content in (b"", b"no model", whole[: len(whole) // 2], whole[:-3]):
        other.write_bytes(content)
        with pytest.raises(rg.onnx.OnnxError, match=r"other\.onnx"):
            rg.onnx.load(other)
    with pytest.raises(FileNotFoundError):
        rg.onnx.load(tmp_path / "none.onnx")
    with pytest.raises(TypeError, match=r"onnx\.load: path=3 must be a path"):
        rg.onnx.load(3)


def test_operators_and_options_that_are_not_here(saved) -> None:
    nodes = [helper.make_node("RoiAlign", ["x", "r", "i"], ["y"], name="rois")]
    arrays = [*weights(r=(1, 4)), numpy_helper.from_array(np.zeros(1, np.int64), "i")]
    path = saved(model_of(nodes, arrays, {"x": [1, 1, 4, 4]}, {"y": [1, 1, 1, 1]}))
    with pytest.raises(rg.onnx.OnnxError, match=r"node 'rois' \(RoiAlign\): the operator RoiAlign of ai\.onnx is not"):
        rg.onnx.load(path)
    names = ["Sigmoid", "Swish", "Tanh"]
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="cell", hidden_size=4, activations=names)]
    arrays = weights(w=(1, 16, 3), r=(1, 16, 4))
    net = rg.onnx.load(saved(model_of(nodes, arrays, {"x": [5, 2, 3]}, {"y": [5, 1, 2, 4]})))
    with pytest.raises(rg.onnx.OnnxError, match=r"node 'cell' \(LSTM\): not supported: the activation 'swish'"):
        net(rg.zeros(5, 2, 3))


def test_inputs_that_do_not_fit(saved) -> None:
    net = rg.onnx.load(saved(small_network()))
    x = rg.zeros(1, 2, 5, 6)
    for args, named, match in (
        ((), {}, r"the inputs \['x'\] are missing"),
        ((x, x), {}, "2 inputs, the model has 1"),
        ((x,), {"x": x}, "x is given twice"),
        ((x,), {"z": x}, "or is not one of the inputs"),
    ):
        with pytest.raises(TypeError, match=match):
            net(*args, **named)
    with pytest.raises(ValueError, match="channels") as caught:
        net(rg.zeros(1, 3, 5, 6))
    assert any("in the node 'conv' (Conv)" in note for note in caught.value.__notes__)


def test_weights_beside_the_file_stay_in_its_folder(saved, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    model = small_network()
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert rg.onnx.load(folder / "model.onnx").head.shape == (3, 4)
    (tmp_path / "secret.bin").write_bytes((folder / "weights.bin").read_bytes())
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../secret.bin"
    onnx.save(model, folder / "model.onnx")
    with pytest.raises(rg.onnx.OnnxError, match="not a valid ONNX model"):
        rg.onnx.load(folder / "model.onnx")


def test_without_the_package(saved, monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd.onnx.files import onnx as package

    path = saved(small_network())
    package.cache_clear()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'retrograd\[onnx\]'"):
        rg.onnx.load(path)
    monkeypatch.undo()
    package.cache_clear()


def test_it_says_what_it_takes(saved) -> None:
    assert repr(rg.onnx.load(saved(small_network()))) == "Graph(x['N', 2, 5, 6] -> y; 7 nodes)"


# ---- Resize: positions at the border between two inputs --------------------------------------------------------------

ROUNDED = {
    "floor": floor,
    "ceil": ceil,
    "round_prefer_floor": lambda p: ceil(p - Fraction(1, 2)),
    "round_prefer_ceil": lambda p: floor(p + Fraction(1, 2)),
}


def exact_position(o: int, inputs: int, outputs: int, scale: Fraction, mode: str) -> Fraction:
    """The formulas of ONNX in exact arithmetic."""
    if mode == "asymmetric":
        return o / scale
    if outputs == 1 and mode in ("align_corners", "pytorch_half_pixel"):
        return Fraction(0)
    if mode == "align_corners":
        return o * (inputs - 1) / (inputs * scale - 1)
    offset = Fraction(inputs, 2) * (1 - outputs / (inputs * scale)) if mode == "half_pixel_symmetric" else 0
    return offset + (o + Fraction(1, 2)) / scale - Fraction(1, 2)


def resized(saved, extent: int, nearest: str, mode: str, scale: float | None, size: int | None = None) -> list[int]:
    """Return the inputs that a Resize of 0, 1, 2, ... selects."""
    names = ["x", "", "scales"] if size is None else ["x", "", "", "sizes"]
    sizes = numpy_helper.from_array(np.array([1, 1, size or 1], np.int64), "sizes")
    scales = numpy_helper.from_array(np.array([1, 1, scale or 1], np.float32), "scales")
    node = helper.make_node(
        "Resize", names, ["y"], mode="nearest", nearest_mode=nearest, coordinate_transformation_mode=mode
    )
    model = model_of([node], [scales if size is None else sizes], {"x": [1, 1, extent]}, {"y": [1, 1, "O"]})
    found = rg.onnx.load(saved(model))(rg.arange(float(extent)).reshape(1, 1, extent))
    return [int(value) for value in found.flatten().tolist()]


@pytest.mark.parametrize("nearest", ROUNDED)
@pytest.mark.parametrize(
    "mode", ["half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners"]
)
@pytest.mark.parametrize(
    ("extent", "scale"), [(5, "1/5"), (10, "7/10"), (9, "3/5"), (13, "7/13"), (10, "3/5"), (12, "13/5"), (27, "6/5")]
)
def test_resize_picks_the_pixel_that_the_scale_means(saved, extent: int, scale: str, mode: str, nearest: str) -> None:
    exact = Fraction(scale)
    outputs = floor(extent * exact)
    positions = [exact_position(o, extent, outputs, exact, mode) for o in range(outputs)]
    expected = [min(max(ROUNDED[nearest](position), 0), extent - 1) for position in positions]
    assert resized(saved, extent, nearest, mode, float(exact)) == expected
    if (extent * exact).denominator == 1:
        assert resized(saved, extent, nearest, mode, None, outputs) == expected
