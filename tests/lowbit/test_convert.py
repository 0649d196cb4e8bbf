"""Model conversion: changed and unchanged layers, the reasons, and undo."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import Tensor, lowbit, nn, optim


class Own(nn.Linear):
    """A subclass with its own forward, which a low-bit layer would lose."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 2.0


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, activation="relu"), nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3, groups=2), nn.ReLU()
        )
        self.up = nn.ConvTranspose2d(6, 2, 2)
        self.own, self.rnn = Own(5, 5), nn.GRU(5, 5, batch_first=True)
        self.head = nn.Linear(50, 3)
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(self.features(x)).flatten(1, 2)
        return self.head(self.rnn(self.own(y))[0].flatten(1))


def made() -> tuple[Model, Tensor]:
    retrograd.manual_seed(2)
    model = Model().eval()
    return model, retrograd.randn(7, 1, 8, 8)


def state(model: nn.Module) -> dict[str, np.ndarray]:
    return {key: value.array.copy() for key, value in model.state_dict().items()}


def assert_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert list(one) == list(other)
    for key, value in one.items():
        np.testing.assert_array_equal(value, other[key])


CONVERSIONS: dict[str, Any] = {
    "shift": lowbit.convert_to_shift,
    "shift, PS": lambda m, **o: lowbit.convert_to_shift(m, weight=lowbit.DeepShiftPS(), recurrent=True, **o),
    "binary": lowbit.convert_to_binary,
    "XNOR, all layers": lambda m, **o: lowbit.convert_to_binary(
        m, weight=lowbit.XNOR(), activation=lowbit.XNOR(), keep_first_and_last=False, **o
    ),
    "ternary": lambda m, **o: lowbit.convert(m, weight=lowbit.TWN(), recurrent=True, **o),
    "activations": lambda m, **o: lowbit.convert(m, activation=lowbit.DoReFa(4), **o),
    "int8": lambda m, **o: lowbit.convert_to_int8(m, [made()[1]], recurrent=True, **o),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_are_undone(name: str) -> None:
    """Conversion keeps the modules and float parameters; ``undo`` restores everything, and repr shows both."""
    model, x = made()
    modules, parameters = dict(model.named_modules()), dict(model.named_parameters())
    before, y, text = state(model), model(x).array, repr(model)
    report = CONVERSIONS[name](model, skip=["features.2"])
    assert dict(model.named_modules()) == modules and not model.training
    assert not np.array_equal(model(x).array, y) and repr(model) != text
    paths = [change.path for change in (*report.changed, *report.left)]
    assert sorted(paths) == sorted(path for path, module in modules.items() if module._parameter_names)
    for change in report.changed:
        assert isinstance(modules[change.path], lowbit.LowBit)
        assert change.after == modules[change.path].describe() != change.before
    now = dict(model.named_parameters())
    if name == "shift, PS":
        assert report.new_parameters and "new parameters" in str(report) and "up.weight_shift" in now
    else:
        assert not report.new_parameters and now.keys() == parameters.keys()
    assert all(now[path] is parameters[path] for path in now.keys() & parameters.keys())
    twin = copy.deepcopy(model)
    np.testing.assert_array_equal(twin(x).array, model(x).array)

    report.undo()
    assert str(report).partition("\n")[0].endswith("left, undone") and repr(model) == text
    assert_same(state(model), before)
    assert all(one is parameters[path] and one.limits is None for path, one in model.named_parameters())
    np.testing.assert_array_equal(model(x).array, y)
    with pytest.raises(RuntimeError, match="this conversion was already undone; convert the model again"):
        report.undo()


def test_reasons() -> None:
    model, _ = made()
    model.tied = nn.Linear(50, 3, bias=False)
    model.tied.weight = model.head.weight
    model.lazy, model.done = nn.LazyLinear(3), lowbit.Linear(2, 2, weight=lowbit.TWN())
    model.again = model.up  # one module with two paths is no obstacle
    report = lowbit.convert_to_binary(model, skip=["features"], keep_first_and_last=False)
    assert {left.path: left.reason for left in report.left} == {
        "features.0": "it is in skip",
        "features.1": "it is in skip",
        "features.2": "it is in skip",
        "own": "it is a subclass of Linear, with custom code",
        "rnn": "recurrent layers stay float without recurrent=True",
        "head": "a parameter is shared: head.weight, tied.weight",
        "tied": "a parameter is shared: head.weight, tied.weight",
        "lazy": "its shape is not known yet; run a batch first",
        "done": "it is low-bit already",
    }
    assert [change.path for change in report.changed] == ["up", "unused"]
    model, _ = made()
    report = lowbit.convert_to_binary(model)
    reasons = {left.path: left.reason for left in report.left}
    assert reasons["features.0"] == "it is the first layer" and reasons["unused"] == "it is the last layer"
    assert reasons["features.1"] == "it has no low-bit form"
    text = str(report)
    assert text.startswith("convert_to_binary: 3 changed, 5 left\n  changed  features.2: Conv2d(4, 6, ")
    assert "\n        to Conv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), groups=2, weight=BinaryConnect(), " in text
    assert "\n  left     own: Own(in_features=5, out_features=5, bias=True): it is a subclass of Linear" in text
    one = nn.Linear(3, 3)
    assert str(lowbit.convert_to_shift(one)).splitlines()[1].startswith("  changed  (model): Linear(")


def test_output_activations_stay() -> None:
    model, _ = made()
    lowbit.convert_to_shift(model)
    layer = model.features[0]
    assert "output_activation=relu, weight=DeepShiftQ(bits=5), activation=Fixed()" in repr(layer)
    assert layer(retrograd.randn(2, 1, 5, 5)).array.min() == 0


def test_an_optimizer_goes_on() -> None:
    """The optimizer keeps training the float weights after the conversion, within limits; undo keeps the new values."""
    model, x = nn.Linear(6, 4), retrograd.randn(5, 6)
    optimizer = optim.SGD(model.parameters(), lr=50.0)
    report = lowbit.convert_to_binary(model, keep_first_and_last=False)
    (model(x) ** 2.0).sum().backward()
    optimizer.step()
    assert abs(model.weight.array).max() == 1
    trained = model.weight.array.copy()
    report.undo()
    np.testing.assert_array_equal(model.weight.array, trained)


def test_undoing_shift_and_sign_after_training() -> None:
    """Weights with an unchanged power of two get their float values back."""
    model = nn.Linear(6, 4)
    before = model.weight.array.copy()
    report = lowbit.convert_to_shift(model, weight=lowbit.DeepShiftPS())
    then = model.quantized().array.copy()
    model.weight_shift.array[0] = -3.0
    model.weight_sign.array[0] = -1.0
    report.undo()
    expected = np.where(then == -0.125, before, -0.125)[0]
    np.testing.assert_array_equal(model.weight.array, np.concatenate([expected[None], before[1:]]))
    assert list(model.state_dict()) == ["weight", "bias"]


def test_int8() -> None:
    """Ranges are those of the float model's activations; layers that the batches do not reach stay float."""
    model, x = made()
    y, seen = model(x).array, {}
    for path in ("features.0", "features.2", "up", "head"):
        model.get_submodule(path).register_forward_pre_hook(
            lambda module, args, path=path: seen.setdefault(path, []).append(args[0].array.copy())
        )
    model.train()
    before = state(model)
    report = lowbit.convert_to_int8(model, [(x[:3], "labels"), [x[3:], 0]])
    assert model.training and "num_batches_tracked" in str(list(before))  # eval mode in between: no statistics
    for key in before:
        np.testing.assert_array_equal(state(model)[key], before[key])
    assert [change.path for change in report.changed] == ["features.0", "features.2", "up", "head"]
    assert {left.path: left.reason for left in report.left}["unused"] == "the batches did not reach it"
    assert type(model.unused) is nn.Linear
    for path, arrays in seen.items():
        values, layer = np.concatenate([a.reshape(-1) for a in arrays]), model.get_submodule(path)
        np.testing.assert_allclose(layer.activation_low.array, min(values.min(), 0), 0.02, 1e-6)
        np.testing.assert_allclose(layer.activation_high.array, max(values.max(), 0), 0.02, 1e-6)
    np.testing.assert_allclose(model.eval()(x).array, y, atol=0.02)
    low = model.head.activation_low.array.copy()
    model(x * 100.0)
    np.testing.assert_array_equal(model.head.activation_low.array, low)  # eval mode observes nothing
    calls = []
    lowbit.calibrate(model, [x, x], run=lambda model, batch: calls.append(model(batch * 100.0)))
    assert len(calls) == 2 and (model.head.activation_low.array, model.head.activation_high.array) != (low, 0)


def test_a_failed_conversion_changes_nothing() -> None:
    model, x = made()
    before, text = state(model), repr(model)
    with pytest.raises(ValueError, match="calibrate: there are no batches"):
        lowbit.convert_to_int8(model, [])
    with pytest.raises(Exception, match="Conv2d"):
        lowbit.convert_to_int8(model, [x, "no batch"])
    with pytest.raises(
        ValueError, match=r"convert_to_shift: skip has 'feature', the model has no module with that path"
    ):
        lowbit.convert_to_shift(model, skip=["feature"])
    with pytest.raises(ValueError, match="convert: weight and activation are both None"):
        lowbit.convert(model)
    with pytest.raises(TypeError, match=r"convert_to_binary: weight=Sign\(\) quantizes activations only"):
        lowbit.convert_to_binary(model, weight=lowbit.Sign())
    with pytest.raises(TypeError, match="convert_to_shift: model is list, expected a Module"):
        lowbit.convert_to_shift([model])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="calibrate: model is int"):
        lowbit.calibrate(3, [])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="convert: recurrent"):
        lowbit.convert(model, weight=lowbit.TWN(), recurrent=2)  # type: ignore[arg-type]
    assert repr(model) == text and not model.training
    assert_same(state(model), before)
