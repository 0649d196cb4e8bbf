"""ModuleDict, ParameterList, ParameterDict, and Sequential's list methods."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

from retrograd import nn
from retrograd.engine.tensor import Tensor


def test_sequentials_add_and_repeat() -> None:
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    net = nn.Sequential(a, b)
    assert list(net + nn.Sequential(c)) == [a, b, c] and len(net) == 2
    assert list(net * 2) == [a, b, a, b] and list(2 * net) == [a, b, a, b]
    net *= 2
    assert list(net) == [a, b, a, b] and [name for name, _ in net.named_modules(remove_duplicate=False)][1:] == list(
        "0123"
    )
    net += nn.Sequential(c)
    assert net.pop(-1) is c and net.pop(0) is a and list(net) == [b, a, b]
    with pytest.raises(TypeError):
        net + [a]  # type: ignore[operator]
    with pytest.raises(TypeError):
        net * 2.0  # type: ignore[operator]
    with pytest.raises(ValueError, match="Sequential: times=0 must be at least 1"):
        net * 0
    with pytest.raises(IndexError, match="index 3 is out of range"):
        net.pop(3)
    modules = nn.ModuleList([a, b])
    assert modules.pop(0) is a and list(modules) == [b]


def test_module_dict() -> None:
    a, b = nn.Linear(1, 2), nn.ReLU()
    modules = nn.ModuleDict({"a": a})
    modules["b"] = b
    assert list(modules) == ["a", "b"] == list(modules.keys()) and list(modules.values()) == [a, b]
    assert list(modules.items()) == [("a", a), ("b", b)] and "a" in modules and "c" not in modules
    assert len(modules) == 2 and modules["a"] is a and list(modules.state_dict()) == ["a.weight", "a.bias"]
    modules.update([("c", nn.Tanh())])
    modules.update(nn.ModuleDict({"a": b}))
    assert modules["a"] is b and list(modules) == ["a", "b", "c"]
    assert modules.pop("a") is b and list(modules) == ["b", "c"]
    del modules["b"]
    modules.clear()
    assert len(modules) == 0 and repr(modules) == "ModuleDict()"


def test_module_dict_refuses() -> None:
    modules = nn.ModuleDict({"a": nn.ReLU()})
    for call in (lambda: modules["b"], lambda: modules.pop("b"), lambda: modules.__delitem__("b")):
        with pytest.raises(KeyError, match="ModuleDict: no module 'b'; it holds"):
            call()
    with pytest.raises(TypeError, match="ModuleDict: 3 is not a Module but int"):
        modules.update({"b": nn.ReLU(), "c": 3})
    with pytest.raises(KeyError, match="must not contain"):
        modules["a.b"] = nn.ReLU()
    with pytest.raises(KeyError, match="'keys' of ModuleDict already exists"):
        modules["keys"] = nn.ReLU()
    assert list(modules) == ["a"]


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(np.ones(shape, np.float32))


def test_parameter_list() -> None:
    a, b = parameter(3, 4), parameter(2)
    weights = nn.ParameterList([a, b])
    assert list(weights) == [a, b] == list(weights.parameters()) and len(weights) == 2 and weights[-1] is b
    assert isinstance(weights[:1], nn.ParameterList) and list(weights[:1]) == [a]
    weights += [Tensor(np.zeros(1))]
    assert isinstance(weights[2], nn.Parameter) and list(weights.state_dict()) == ["0", "1", "2"]
    weights[0] = b
    assert weights.append(a) is weights and weights.extend([b]) is weights and len(weights) == 5 and weights[0] is b
    text = "ParameterList(\n    (0): Parameter containing: [float32 of size 3x4]\n)"
    assert repr(nn.ParameterList([a])) == text and repr(nn.ParameterList()) == "ParameterList()"
    with pytest.raises(IndexError, match="ParameterList: index 5 is out of range; it holds 5 parameters"):
        weights[5]
    with pytest.raises(TypeError, match="ParameterList: 3 is int, needs a Parameter or a Tensor"):
        weights.extend([a, 3])
    assert len(weights) == 5


def test_parameter_dict() -> None:
    a, b = parameter(3), parameter(2, 2)
    weights = nn.ParameterDict({"a": a})
    weights["b"] = b
    assert list(weights.items()) == [("a", a), ("b", b)] and list(reversed(weights)) == ["b", "a"]
    assert list(weights.keys()) == ["a", "b"] and list(weights.values()) == [a, b] and len(weights) == 2
    assert weights.get("c") is None and weights.get("a") is a and weights.setdefault("a", b) is a
    assert weights.setdefault("c", Tensor(np.zeros(2))) is weights["c"]
    joined = weights | nn.ParameterDict({"d": a})
    assert list(joined) == ["a", "b", "c", "d"] and list(weights.copy()) == ["a", "b", "c"]
    weights |= {"a": b}
    assert weights["a"] is b and weights.popitem()[0] == "c" and weights.pop("a") is b
    del weights["b"]
    assert "b" not in weights
    assert list(nn.ParameterDict({"b": a, "a": b})) == ["a", "b"]
    assert list(nn.ParameterDict([("b", a), ("a", b)])) == ["b", "a"]
    weights.update([("e", a)])
    weights.clear()
    assert not len(weights)
    with pytest.raises(KeyError, match="popitem of an empty dict"):
        weights.popitem()
    for call in (lambda: weights["x"], lambda: weights.pop("x"), lambda: weights.__delitem__("x")):
        with pytest.raises(KeyError, match="ParameterDict: no parameter 'x'"):
            call()
    with pytest.raises(TypeError, match="ParameterDict: 'w' is str, needs a Parameter"):
        weights.update({"v": a, "w": "w"})
    assert "v" not in weights


NET = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), nn.ModuleDict({"a": nn.Linear(3, 1)}))


def test_members_by_path() -> None:
    assert NET.get_submodule("") is NET and NET.get_submodule("0.1") is NET[0][1]
    assert NET.get_parameter("1.a.weight") is NET[1]["a"].weight
    assert NET.get_buffer("0.1.running_mean") is NET[0][1].running_mean
    net, new = copy.deepcopy(NET), nn.ReLU()
    net.set_submodule("1.a", new)
    assert net[1]["a"] is new


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: NET.get_submodule("0.2"),
            AttributeError,
            "get_module('0.2'): Sequential.0 has no module '2'; it has 0, 1",
        ),
        (lambda: NET.get_submodule("0.0.weight"), AttributeError, "Sequential.0.0 has no module 'weight'; it has none"),
        (
            lambda: NET.get_parameter("0.1.running_mean"),
            AttributeError,
            "has no parameter 'running_mean'; it has weight",
        ),
        (lambda: NET.get_parameter("5.x"), AttributeError, "get_module('5'): Sequential has no module '5'"),
        (lambda: NET.get_buffer("0.0.weight"), AttributeError, "has no buffer 'weight'; it has none"),
        (lambda: NET.set_submodule("", NET), ValueError, "set_submodule: target is empty"),
        (lambda: NET.set_submodule("0.7", NET), AttributeError, "has no module '7'"),
        (lambda: NET.set_submodule("0.0", 3), TypeError, "got int, expected Module or None"),
    ],
)
def test_paths_that_lead_nowhere(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_half_a_model_is_frozen() -> None:
    """Frozen layers get no gradient and cost no backward; their batch norm in eval mode does not change."""
    net = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), nn.Linear(3, 1))
    net[0].requires_grad_(False).eval()
    mean = net[0][1].running_mean.numpy().copy()
    y = net(Tensor(np.ones((4, 2), np.float32)))
    assert not net[0](Tensor(np.ones((4, 2), np.float32))).requires_grad
    y.backward(Tensor(np.ones((4, 1), np.float32)))
    assert [name for name, p in net.named_parameters() if p.grad is not None] == ["1.weight", "1.bias"]
    np.testing.assert_array_equal(net[0][1].running_mean.numpy(), mean)
    net.zero_grad(set_to_none=False)
    assert not net[1].weight.grad.array.any()
    net.zero_grad()
    assert net[1].weight.grad is None


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copy", "pickle"])
def test_copies_are_whole_and_apart(clone: Any) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.MultiheadAttention(4, 2))
    net[0].shared = net[0].weight
    net[0].bias.requires_grad = False
    twin = clone(net)
    assert repr(twin) == repr(net) and list(twin.state_dict()) == list(net.state_dict())
    assert twin[0].shared is twin[0].weight and not twin[0].bias.requires_grad and twin[0].weight.requires_grad
    for (key, mine), yours in zip(net.state_dict().items(), twin.state_dict().values(), strict=True):
        np.testing.assert_array_equal(mine.numpy(), yours.numpy(), err_msg=key)
        assert not np.shares_memory(mine.array, yours.array) and mine.array.strides == yours.array.strides


def test_assigned_values_keep_their_memory() -> None:
    net = nn.Linear(2, 3)
    weight, bias = net.weight, np.zeros(3)
    values = {"weight": Tensor(np.ones((3, 2))), "bias": bias}
    net.weight.grad = Tensor(np.ones((3, 2), np.float32))
    net.load_state_dict(values, assign=True)
    assert net.weight is weight and net.weight.array is values["weight"].array and net.bias.array is bias
    assert net.weight.dtype == np.float64 and net.weight.grad is None and net.weight.requires_grad
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    for wrong in (fixed, np.zeros(3, np.int64)):
        with pytest.raises(RuntimeError, match="bias: assign=True needs a writable array of kind float64"):
            net.load_state_dict({**values, "bias": wrong}, assign=True)
    assert net.bias.array is bias
