"""Module: registration, walking the model, modes, dtypes, copies."""

from __future__ import annotations

import copy
import pickle
from typing import Self

import numpy as np
import pytest

from ops.sets import textbook_at_night
from retrograd import nn
from retrograd.engine import no_grad
from retrograd.engine.tensor import Tensor
from retrograd.nn.parameter import Parameter
from retrograd.optim import SGD


class Scale(nn.Module):
    """y = x * weight, with a counter as buffer."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self.weight = Parameter(np.arange(1, size + 1, dtype=np.float32))
        self.register_buffer("calls", Tensor(np.zeros((), np.int64)))
        self.register_buffer("cache", Tensor(np.zeros(2, np.float32)), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Scale()
        self.second = nn.Sequential(Scale(2), Scale(4))
        self.bias = Parameter(np.zeros(3, np.float32))


def paths(pairs: object) -> list[str]:
    return [name for name, _ in pairs]  # type: ignore[attr-defined]


# ---------------------------------------------------------------- registration


def test_members_are_plain_attributes() -> None:
    net = Net()
    assert net.__dict__["first"] is net.first
    assert net.first.__dict__["weight"] is net.first.weight


def test_names_and_order_of_members() -> None:
    net = Net()
    assert paths(net.named_parameters()) == ["bias", "first.weight", "second.0.weight", "second.1.weight"]
    assert paths(net.named_buffers()) == [
        *("first.calls", "first.cache", "second.0.calls"),
        *("second.0.cache", "second.1.calls", "second.1.cache"),
    ]
    assert paths(net.named_modules()) == ["", "first", "second", "second.0", "second.1"]
    assert paths(net.named_children()) == ["first", "second"]
    assert paths(net.named_parameters(prefix="net", recurse=False)) == ["net.bias"]
    assert list(net.children()) == [net.first, net.second]
    assert list(net.modules())[0] is net
    assert len(list(net.parameters())) == 4
    assert len(list(net.buffers(recurse=False))) == 0


def test_shared_parameters_and_modules_come_once() -> None:
    net = Net()
    net.again = net.first
    net.tied = net.first.weight
    assert paths(net.named_parameters()) == ["bias", "tied", "second.0.weight", "second.1.weight"]
    assert "again.weight" in paths(net.named_parameters(remove_duplicate=False))
    assert paths(net.named_children()) == ["first", "second"]
    assert paths(net.named_modules(remove_duplicate=False))[-1] == "again"
    assert {"tied", "first.weight", "again.weight"} <= net.state_dict().keys()


def test_attribute_takes_over_the_name_of_another_kind() -> None:
    net = Net()
    net.plain = 3
    net.plain = Parameter(np.ones(2, np.float32))
    assert "plain" in paths(net.named_parameters())
    net.plain = Scale()
    assert "plain" not in paths(net.named_parameters())
    assert "plain" in paths(net.named_children())
    del net.plain
    assert "plain" not in paths(net.named_children())
    assert not hasattr(net, "plain")
    net.plain = "text"
    assert net.plain == "text"


def test_none_keeps_a_parameter_name_free() -> None:
    net = nn.Module()
    net.register_parameter("bias", None)
    net.register_buffer("state", None)
    net.register_module("child", None)
    assert net.bias is None
    assert not list(net.parameters()) and not list(net.children()) and not net.state_dict()
    net.bias = Parameter(np.zeros(1, np.float32))
    net.state = Tensor(np.zeros(1, np.float32))
    net.child = Scale()
    assert list(net.state_dict()) == ["bias", "state", "child.weight", "child.calls"]
    net.bias = None
    assert not list(net.parameters(recurse=False))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("bias", Tensor([1.0]), r"assign Tensor as parameter 'bias' of Net \(Parameter or None expected\)"),
        ("first", 3, r"assign int as child module 'first' of Net \(Module or None expected\)"),
        ("buffer", 3, r"assign int as buffer 'buffer' of Net \(Tensor or None expected\)"),
    ],
)
def test_assigning_another_kind_is_refused(name: str, value: object, message: str) -> None:
    net = Net()
    net.register_buffer("buffer", Tensor([0.0]))
    before = getattr(net, name)
    with pytest.raises(TypeError, match=message):
        setattr(net, name, value)
    assert getattr(net, name) is before


def test_registration_errors() -> None:
    net = Net()
    with pytest.raises(TypeError, match="parameter name should be a str, got int"):
        net.register_parameter(3, None)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="must not be empty"):
        net.register_parameter("", None)
    with pytest.raises(KeyError, match="must not contain"):
        net.register_buffer("a.b", None)
    with pytest.raises(KeyError, match="attribute 'first' of Net already exists"):
        net.register_parameter("first", None)
    with pytest.raises(KeyError, match="attribute 'forward' of Net already exists"):
        net.register_module("forward", Scale())
    with pytest.raises(TypeError, match=r"register_parameter\('w'\): got Tensor, expected Parameter or None"):
        net.register_parameter("w", Tensor([1.0]))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"register_buffer\('w'\): got int, expected Tensor or None"):
        net.register_buffer("w", 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"register_module\('w'\): got int, expected Module or None"):
        net.add_module("w", 1)  # type: ignore[arg-type]
    assert not hasattr(net, "w")


def test_members_before_init_are_refused() -> None:
    class Hasty(nn.Module):
        def __init__(self) -> None:
            self.weight = Parameter(np.zeros(1, np.float32))

    with pytest.raises(AttributeError, match=r"has run; call super\(\).__init__\(\) first in Hasty.__init__"):
        Hasty()


def test_unknown_attribute_is_named() -> None:
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'wieght'"):
        _ = Net().wieght


# ---------------------------------------------------------------- calling, modes, types


def test_call_runs_forward_and_missing_forward_is_named() -> None:
    y = Scale()(Tensor([2.0, 2.0, 2.0]))
    np.testing.assert_array_equal(y.array, [2, 4, 6])
    with pytest.raises(NotImplementedError, match='Net has no "forward"'):
        Net()(Tensor([1.0]))


def test_train_and_eval_reach_every_module() -> None:
    net = Net()
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    net.train()
    assert all(module.training for module in net.modules())
    with pytest.raises(ValueError, match="mode=1 is not a bool"):
        net.train(1)  # type: ignore[arg-type]


def test_a_child_with_a_train_of_its_own_has_it_called() -> None:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.drop = nn.BatchNorm1d(3), nn.Dropout()

        def train(self, mode: bool = True) -> Self:
            super().train(mode)
            self.norm.eval()
            return self

    net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(Frozen()))
    frozen = net[1][0]
    for mode in (True, False, True):
        net.train(mode)
        assert [m.training for m in (net, net[1], frozen, frozen.drop, net[0])] == [mode] * 5
        assert not frozen.norm.training


def test_apply_visits_children_first() -> None:
    net = Net()
    seen: list[nn.Module] = []
    assert net.apply(seen.append) is net
    assert seen == [net.first, net.second[0], net.second[1], net.second, net]


def test_requires_grad_and_zero_grad() -> None:
    net = Net()
    net.requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in net.parameters())
    net.requires_grad_()
    kept = np.ones(3, np.float32)
    net.bias.grad = Tensor(kept)
    net.zero_grad(set_to_none=False)
    assert net.bias.grad is not None
    np.testing.assert_array_equal(net.bias.grad.array, np.zeros(3))
    np.testing.assert_array_equal(kept, np.ones(3))  # the old array belongs to whoever gave it
    assert net.first.weight.grad is None
    net.zero_grad()
    assert net.bias.grad is None


def test_to_converts_floats_in_place() -> None:
    net = Net()
    weight = net.first.weight
    net.bias.grad = Tensor(np.ones(3, np.float32))
    assert net.double() is net
    assert net.first.weight is weight
    assert weight.dtype == np.float64
    assert net.first.calls.dtype == np.int64
    assert net.first.cache.dtype == np.float64
    assert net.bias.grad is not None and net.bias.grad.dtype == np.float64
    net.to(np.float32)
    assert weight.dtype == np.float32 and net.bias.grad.dtype == np.float32
    array = weight.array
    assert net.float() is net
    assert weight.array is array
    assert net.to("cpu") is net
    for dtype in (np.int64, "int8", np.float16):
        with pytest.raises(TypeError, match="float32 or float64"):
            net.to(dtype)
    assert weight.dtype == np.float32


def test_to_keeps_the_memory_order() -> None:
    layer = nn.Conv2d(2, 3, (4, 5))
    strides = layer.weight.array.strides
    layer.double()
    assert layer.weight.array.strides == tuple(2 * stride for stride in strides)


# ---------------------------------------------------------------- copies


def test_deepcopy_is_independent_and_keeps_everything() -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))
    net[0].weight.grad_req = "write"
    net[0].bias.requires_grad = False
    twin = copy.deepcopy(net)
    for (name, ours), (other_name, theirs) in zip(net.state_dict().items(), twin.state_dict().items(), strict=True):
        assert name == other_name
        np.testing.assert_array_equal(ours.array, theirs.array)
        assert ours.array.strides == theirs.array.strides
        assert not np.shares_memory(ours.array, theirs.array)
    assert twin[0].weight.grad_req == "write"
    assert not twin[0].bias.requires_grad
    assert isinstance(twin[0].weight, Parameter)
    assert list(twin.named_parameters())[0][0] == "0.weight"


def test_deepcopy_keeps_tied_parameters_tied() -> None:
    net = nn.Sequential(Scale(), Scale())
    net[1].weight = net[0].weight
    twin = copy.deepcopy(net)
    assert twin[1].weight is twin[0].weight
    assert twin[0].weight is not net[0].weight


def test_pickle_keeps_memory_order_and_requests() -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, (2, 5)), nn.Linear(4, 6))
    net[0].weight.grad_req = "null"
    net[1].weight.requires_grad = False
    twin = pickle.loads(pickle.dumps(net))
    for ours, theirs in zip(net.parameters(), twin.parameters(), strict=True):
        np.testing.assert_array_equal(ours.array, theirs.array)
        assert ours.array.strides == theirs.array.strides
        assert (ours.grad_req, ours.requires_grad) == (theirs.grad_req, theirs.requires_grad)
    twin[0].weight.array[...] = 0
    assert net[0].weight.array.any()


# ---------------------------------------------------------------- Parameter


def test_parameter_keeps_the_array_and_asks_for_a_gradient() -> None:
    array = np.ones((2, 3), np.float64)
    parameter = Parameter(array)
    assert parameter.array is array
    assert parameter.requires_grad and parameter.is_leaf and parameter.grad_req == "add"
    assert Parameter(Tensor(array)).array is array
    assert not Parameter(array, requires_grad=False).requires_grad
    text = "Parameter containing:\ntensor([1.], requires_grad=True)"
    assert repr(Parameter(np.ones(1, np.float32))) == text


def test_parameter_errors() -> None:
    with pytest.raises(TypeError, match="data is missing"):
        Parameter()
    with pytest.raises(TypeError, match="dtype int64, but only float32 and float64 can be trained"):
        Parameter(np.arange(3))
    with pytest.raises(ValueError, match="data is read-only memory"):
        Parameter(np.broadcast_to(np.ones(1, np.float32), (3,)))
    parameter = Parameter(np.ones(1, np.float32))
    for value in ("ADD", None, "none"):
        with pytest.raises(ValueError, match='expected "add", "write" or "null"'):
            parameter.grad_req = value  # type: ignore[assignment]
    with pytest.raises(ValueError, match='; kWriteTo is "write" here$'):
        parameter.grad_req = "kWriteTo"  # type: ignore[assignment]
    assert parameter.grad_req == "add"


DEPTH = 5000


def nested(depth: int = DEPTH) -> nn.Module:
    net: nn.Module = nn.Linear(2, 3)
    for _ in range(depth):
        net = nn.Sequential(net)
    return net


@textbook_at_night
def test_modules_nested_deeper_than_functions_may_be() -> None:
    net = nested()
    path = "0." * DEPTH
    assert list(net.state_dict()) == [path + "weight", path + "bias"]
    assert len(list(net.modules())) == DEPTH + 1
    assert len(list(net.parameters())) == 2 and not list(net.buffers())
    order: list[str] = []
    net.apply(lambda module: order.append(type(module).__name__))
    assert order == ["Linear", *["Sequential"] * DEPTH]
    assert not any(module.training for module in net.eval().modules())
    net.double().zero_grad()
    inner = net.get_submodule(path[:-1])
    assert inner.weight.array.dtype == np.float64
    net.load_state_dict({path + "weight": np.ones((3, 2)), path + "bias": np.zeros(3)})
    copied = copy.deepcopy(net)
    twin = copied.get_submodule(path[:-1])
    assert twin is not inner and twin.weight is not inner.weight and twin.weight.array.tolist() == [[1, 1]] * 3


def test_text_of_nested_modules() -> None:
    lines = repr(nested(900)).splitlines()
    assert len(lines) == 2 * 900 + 1
    assert lines[900] == "  " * 900 + "(0): Linear(in_features=2, out_features=3, bias=True)"
    assert lines[901] == "  " * 899 + ")"


@pytest.mark.parametrize(
    "walk",
    [
        repr,
        lambda net: net.state_dict(),
        lambda net: net.apply(print),
        lambda net: list(net.named_modules(remove_duplicate=False)),
    ],
)
def test_a_module_that_lies_in_itself(walk: object) -> None:
    net = nn.Sequential(nn.Sequential())
    net[0].register_module("back", net)
    assert len(list(net.modules())) == 2
    with pytest.raises(RecursionError, match="Sequential: the module at '0.back' contains itself; remove it"):
        walk(net)  # type: ignore[operator]
    twin = copy.deepcopy(net)
    assert twin[0].back is twin is not net


def test_methods_of_a_class_of_ones_own_are_called_on_the_way() -> None:
    class Own(nn.Linear):
        def apply(self, fn: object) -> Own:
            self.applied = True
            return self

        def state_dict(self, **options: object) -> dict[str, object]:
            return {f"{options['prefix']}other": 1} if options["destination"] is not None else {}

        def __deepcopy__(self, memo: dict[int, object]) -> str:
            memo[id(self)] = "copy"
            return "copy"

        def __repr__(self) -> str:
            return "own\nwords"

    net = nn.Sequential(Own(1, 1), nn.ModuleList([Own(1, 1), Own(2, 2), nn.ReLU()]))
    names: list[str] = []
    net.apply(lambda module: names.append(type(module).__name__))
    assert names == ["ReLU", "ModuleList", "Sequential"] and net[0].applied
    assert copy.deepcopy(net)[0] == "copy"
    assert repr(net) == (
        "Sequential(\n  (0): own\n  words\n  (1): ModuleList(\n    (0-1): 2 x own\n    words\n    (2): ReLU()\n  )\n)"
    )


# ---------------------------------------------------------------- attributes of parameters


def test_attributes_of_parameters_follow_pytorch() -> None:
    layer = nn.Linear(2, 3)
    weight = layer.weight
    weight.org = weight.data.clone()
    weight.notes = ["latent"]
    weight.owner = layer
    with no_grad():
        weight.add_(1)
        layer.double()
        layer.load_state_dict(nn.Linear(2, 3).state_dict())
    assert layer.weight is weight and weight.notes == ["latent"]

    twin = copy.copy(weight)
    assert type(twin) is Parameter and twin.notes is weight.notes and np.shares_memory(twin.array, weight.array)
    other = pickle.loads(pickle.dumps(layer))
    assert other.weight.notes == ["latent"] and other.weight.owner is other and type(other.weight) is Parameter
    np.testing.assert_array_equal(other.weight.org.array, weight.org.array)

    made = [copy.deepcopy(weight), copy.deepcopy(layer).weight, Parameter(weight), *layer.state_dict().values()]
    made += [weight.data, weight.detach(), weight.clone(), weight.float(), weight * 1]
    assert [vars(tensor) for tensor in made] == [{}] * len(made)
    assert layer.state_dict(keep_vars=True)["weight"] is weight


def test_a_parameter_may_hold_itself() -> None:
    parameter = Parameter(np.ones(2, np.float32))
    parameter.limits = (-1, 1)
    parameter.me = [parameter]
    for twin in (pickle.loads(pickle.dumps(parameter)), pickle.loads(pickle.dumps(parameter, 2))):
        assert twin.me[0] is twin and twin.limits == (-1, 1) and twin.requires_grad


class Scaled(Parameter):
    """A subclass with state of its own."""

    scale = 1.0


def test_a_subclass_of_parameter_keeps_its_state() -> None:
    parameter = Scaled(np.ones(2, np.float32))
    parameter.scale = 3.0
    for twin in (copy.copy(parameter), copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert type(twin) is Scaled and twin.scale == 3.0


def test_attributes_of_lazy_parameters_and_buffers() -> None:
    lazy = nn.LazyLinear(2)
    lazy.weight.tag = "kept"
    assert vars(copy.deepcopy(lazy.weight)) == vars(pickle.loads(pickle.dumps(lazy.weight))) == {}  # as in PyTorch
    lazy(Tensor(np.ones((1, 3), np.float32)))
    assert type(lazy.weight) is Parameter and lazy.weight.tag == "kept"
    scale = Scale()
    scale.calls.tag = ["counter"]
    for twin in (copy.deepcopy(scale), pickle.loads(pickle.dumps(scale))):
        assert twin.calls.tag == ["counter"] and twin.calls.tag is not scale.calls.tag


def test_training_of_latent_weights() -> None:
    """The loop of binarized networks: ``p.org`` is trained, and forward and backward see its signs."""
    random = np.random.default_rng(0)
    x = random.standard_normal((8, 5)).astype(np.float32)
    target = x @ random.choice([-1, 1], (5, 3)).astype(np.float32)

    class Binary(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            if not hasattr(self.weight, "org"):
                self.weight.org = self.weight.data.clone()
            self.weight.data = self.weight.org.sign()
            return super().forward(input)

    layer = Binary(5, 3, bias=False)
    latent = layer.weight.array.astype(np.float64)
    optimizer = SGD(layer.parameters(), lr=0.3)
    losses = []
    for _ in range(12):
        loss = ((layer(Tensor(x)) - Tensor(target)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        for p in layer.parameters():
            if hasattr(p, "org"):
                p.data.copy_(p.org)
        optimizer.step()
        for p in layer.parameters():
            if hasattr(p, "org"):
                p.org.copy_(p.data.clamp_(-1, 1))
        losses.append(loss.item())

        error = x @ np.sign(latent).T - target
        assert losses[-1] == pytest.approx((error**2).mean(), rel=1e-5)
        latent = np.clip(latent - 0.3 * (2 * error.T @ x / error.size), -1, 1)
        np.testing.assert_allclose(layer.weight.org.array, latent, rtol=1e-4, atol=1e-5)
    assert losses[-1] < 0.1 * losses[0] and layer.weight.org._edge is None
