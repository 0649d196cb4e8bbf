"""Boolean options: every layer refuses other values, for every parameter annotated as bool."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as np
import pytest

from retrograd import inference_mode, is_inference_mode_enabled, lowbit, nn, optim
from retrograd.data import BatchSampler, DataLoader, Digits, RandomSampler, WeightedRandomSampler
from retrograd.engine.tensor import Tensor

LAYERS = [
    (layer, name)
    for layer in vars(nn).values()
    if inspect.isclass(layer) and issubclass(layer, nn.Module)
    for name, parameter in inspect.signature(layer).parameters.items()
    if parameter.annotation == "bool"
]
WRONG = ["False", 2, -1, 1.0, None, Tensor(np.array(True))]


def test_no_truth_value() -> None:
    for layer, name in LAYERS:
        parameters = inspect.signature(layer).parameters.values()
        needed = [3 for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        for value in WRONG:
            if value is None and name == "bias":
                continue
            with pytest.raises(TypeError, match=rf"^{layer.__name__}: {name}=.* must be True or False, not"):
                layer(*needed, **{name: value})


@pytest.mark.parametrize("layer", [nn.Linear, nn.Bilinear, nn.Conv2d, nn.ConvTranspose1d, nn.LSTM, nn.GRUCell])
def test_bias_none_is_no_bias(layer: type) -> None:
    """``bias=None`` means no bias, and ``layer.bias`` is None, as in PyTorch."""
    parameters = inspect.signature(layer).parameters.values()
    needed = [3 for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    names = [{n for n, _ in layer(*needed, bias=bias).named_parameters()} for bias in (None, False, True)]
    assert names[0] == names[1] < names[2]


def test_there_are_many() -> None:
    assert len(LAYERS) > 200


def test_by_position_and_from_numpy() -> None:
    with pytest.raises(TypeError, match="Linear: bias='no' must be True or False, not str"):
        nn.Linear(2, 3, "no")  # type: ignore[arg-type]
    layer = nn.LSTM(2, 3, bias=np.False_, batch_first=np.True_)  # type: ignore[arg-type]
    assert layer.batch_first is True and "bias=False" in repr(layer)
    assert nn.Linear(2, 3, np.False_).bias is None  # type: ignore[arg-type]


def test_a_layer_of_ones_own_says_for_itself() -> None:
    class Own(nn.Module):
        def __init__(self, loud: bool = False) -> None:
            super().__init__()
            self.loud = loud

    assert Own("very").loud == "very"  # type: ignore[arg-type]


def test_loaders() -> None:
    data = list(range(4))
    for call, message in (
        (lambda: DataLoader(data, shuffle="False"), "DataLoader: shuffle='False' must be True or False"),
        (lambda: DataLoader(data, drop_last=2), "DataLoader: drop_last=2"),
        (lambda: DataLoader(data, persistent_workers=None), "DataLoader: persistent_workers=None"),
        (lambda: RandomSampler(data, "yes"), "RandomSampler: replacement='yes'"),
        (lambda: WeightedRandomSampler([1], 1, 1), "WeightedRandomSampler: replacement=1"),
        (lambda: BatchSampler(data, 2, None), "BatchSampler: drop_last=None"),
        (lambda: Digits("no"), "Digits: train='no'"),
    ):
        with pytest.raises(TypeError, match=message):
            call()


@pytest.mark.parametrize("value", [0, 1, np.bool_(False), np.bool_(True)])
def test_numbers_in_loaders_and_optimizers(value: Any) -> None:
    """Loaders and optimizers accept numbers as bools, as in PyTorch; samplers refuse them, as in PyTorch."""
    orders = []
    for flag in (value, bool(value)):
        loader = DataLoader(list(range(7)), 2, shuffle=flag, drop_last=flag, pin_memory=flag, in_order=1, seed=3)
        orders.append([batch.tolist() for batch in loader])
    assert orders[0] == orders[1] and len(orders[0]) == (3 if value else 4)
    forms = {"foreach": value, "fused": value, "capturable": value}
    for name, option in OPTIMIZER_FLAGS:
        ends = []
        for flag in (value, bool(value)):
            x = Tensor(np.linspace(1, 2, 5), requires_grad=True)
            optimizer = getattr(optim, name)(
                [{"params": [x], option: flag}], 0.1, **({"momentum": 0.9} if option == "nesterov" else {}), **forms
            )
            assert optimizer.param_groups[0][option] is bool(value)
            for _ in range(3):
                x.grad = Tensor(x.array**2)
                optimizer.step()
            optimizer.load_state_dict(optimizer.state_dict())
            ends.append(x.array)
        np.testing.assert_array_equal(*ends)
    with pytest.raises(ValueError, match="SGD: nesterov=2 is invalid; it must be True or False"):
        optim.SGD([x], 0.1, momentum=0.9, nesterov=2)
    optimizer = optim.SGD([x], 0.1, momentum=0.9)
    cycle = optim.lr_scheduler.OneCycleLR(optimizer, 1.0, 5, cycle_momentum=value, three_phase=value)
    assert cycle.cycle_momentum is bool(value) and len(cycle._schedule_phases) == (3 if value else 2)
    assert optim.lr_scheduler.CyclicLR(optimizer, 0.1, 1.0, cycle_momentum=value).cycle_momentum is bool(value)


OPTIMIZER_FLAGS = [
    (name, option)
    for name, layer in vars(optim).items()
    if inspect.isclass(layer) and issubclass(layer, optim.Optimizer)
    for option, parameter in inspect.signature(layer).parameters.items()
    if parameter.annotation == "bool"
]


@pytest.mark.parametrize("value", [0, 1, np.bool_(False), np.bool_(True)])
def test_numbers_in_modules_and_contexts(value: Any) -> None:
    """``train`` and ``requires_grad_`` refuse them, as in PyTorch."""
    layer = nn.Linear(2, 2)
    layer.load_state_dict({**layer.state_dict(), **({} if value else {"more": Tensor(np.ones(1))})}, strict=value)
    layer.register_buffer("seen", Tensor(np.ones(1)), persistent=value)
    assert ("seen" in layer.state_dict()) is bool(value)
    layer(Tensor(np.ones((1, 2), np.float32))).sum().backward(retain_graph=value)
    layer.zero_grad(value)
    assert (layer.weight.grad is None) is bool(value)
    assert len(list(nn.Sequential(layer).parameters(recurse=value))) == 2 * bool(value)
    low = lowbit.Linear(2, 2, weight=lowbit.XNOR(), activation=lowbit.Sign())
    with inference_mode(value):
        assert is_inference_mode_enabled() is bool(value)
    assert lowbit.pack(nn.Sequential(low), fuse=value).packing.joined == []


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam"])
def test_numbers_of_optimizers_in_tensors(name: str) -> None:
    """A Tensor with one element works like the number."""
    make = getattr(optim, name)
    parameters = inspect.signature(make).parameters
    options = {option: p.default for option, p in parameters.items() if isinstance(p.default, (float, tuple))}
    tensors = {
        option: tuple(map(wrapped, value)) if isinstance(value, tuple) else wrapped(value)
        for option, value in options.items()
    }
    ends = []
    for given in (options, tensors):
        x = Tensor(np.linspace(1, 2, 5), requires_grad=True)
        optimizer = make([{"params": [x], "lr": given["lr"]}], **given)
        for _ in range(3):
            x.grad = Tensor(x.array**2)
            optimizer.step()
        ends.append(x.array)
        assert type(optimizer.param_groups[0]["lr"]) is float
    np.testing.assert_array_equal(*ends)
    with pytest.raises(ValueError, match="lr"):
        make([x], lr=Tensor(np.ones(2)))


def wrapped(value: float) -> Tensor:
    return Tensor(np.array(value, np.float64))


def test_a_user_s_constructor_need_not_be_a_function() -> None:
    class Wide(nn.Linear):
        __init__ = functools.partialmethod(nn.Linear.__init__, out_features=7)

    assert Wide(3).weight.shape == (7, 3)
    with pytest.raises(TypeError, match="bias='no' must be True or False"):
        Wide(3, bias="no")


@pytest.mark.parametrize("value", [0, 1, np.bool_(False), np.bool_(True)])
def test_numbers_that_are_truth_values(value: object) -> None:
    assert (nn.Linear(2, 3, bias=value).bias is not None) is bool(value)
    assert nn.Linear(2, 3, value).describe() == nn.Linear(2, 3, bool(value)).describe()
    lstm = nn.LSTM(2, 3, 1, 1, value, bidirectional=value)
    assert lstm.batch_first is bool(value) and lstm.bidirectional is bool(value)
    assert (
        nn.BatchNorm2d(2, affine=value, track_running_stats=value).describe()
        == nn.BatchNorm2d(2, affine=bool(value), track_running_stats=bool(value)).describe()
    )
    assert nn.MaxPool2d(2, ceil_mode=value).ceil_mode is bool(value)
