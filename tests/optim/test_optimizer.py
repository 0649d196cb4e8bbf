"""The Optimizer base class: parameter groups, state_dict, and errors."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import no_grad, optim
from retrograd.engine.tensor import Tensor
from retrograd.nn.parameter import Parameter, empty_weight
from retrograd.optim.optimizer import Optimizer, required

Make = Callable[[Any], optim.Optimizer]
MAKERS: list[Make] = [
    lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    lambda p: optim.Adam(p, lr=0.1, weight_decay=0.01),
    lambda p: optim.AdamW(p, lr=0.1, amsgrad=True),
    lambda p: optim.Adamax(p, lr=0.1),
    lambda p: optim.NAdam(p, lr=0.1),
    lambda p: optim.RAdam(p, lr=0.1, betas=(0.8, 0.9)),
    lambda p: optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True),
    lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.2),
    lambda p: optim.Adadelta(p, lr=0.1),
    lambda p: optim.ASGD(p, lr=0.1, lambd=0.1, t0=1),
    lambda p: optim.Rprop(p, lr=0.1),
    lambda p: optim.Adafactor(p, lr=0.1, weight_decay=0.1),
]


def parameters(seed: int = 0) -> list[Parameter]:
    rng = np.random.default_rng(seed)
    weight = empty_weight((4, 3, 2))
    weight.array[...] = rng.normal(size=(4, 3, 2))
    return [weight, Parameter(rng.normal(size=3)), Parameter(np.ones(1, np.float32))]


def train(optimizer: optim.Optimizer, seed: int, steps: int = 3) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = Tensor(rng.normal(size=parameter.shape).astype(parameter.dtype))
        optimizer.step()


# ---------------------------------------------------------------- groups


def test_groups_and_defaults() -> None:
    a, b, c = parameters()
    optimizer = optim.SGD([{"params": [a]}, {"params": [b], "momentum": 0.5}], lr=0.2)
    optimizer.add_param_group({"params": c, "lr": 0.3})
    assert [group["lr"] for group in optimizer.param_groups] == [0.2, 0.2, 0.3]
    assert [group["momentum"] for group in optimizer.param_groups] == [0.0, 0.5, 0.0]
    assert optimizer.param_groups[2]["params"] == [c]
    assert optim.SGD(iter([a, b])).param_groups[0]["params"] == [a, b]


def numpy_options() -> list[tuple[str, str]]:
    """Every option of every optimizer whose default is a number or a tuple of numbers."""
    found = []
    for name in optim.__all__:
        if isinstance(getattr(optim, name), type) and name != "Optimizer":
            for option, parameter in inspect.signature(getattr(optim, name)).parameters.items():
                if isinstance(parameter.default, (float, tuple)):
                    found.append((name, option))
    return found


@pytest.mark.parametrize(("name", "option"), numpy_options())
def test_numpy_scalars_are_python_numbers_in_a_group(name: str, option: str) -> None:
    for kind in (np.float32, np.float64, np.longdouble):
        check_numpy_scalar(name, option, kind)


def check_numpy_scalar(name: str, option: str, kind: type[Any]) -> None:
    make = getattr(optim, name)
    default = inspect.signature(make).parameters[option].default
    given = tuple(None if v is None else kind(v) for v in default) if isinstance(default, tuple) else kind(default)
    wanted = tuple(v if v is None else float(v) for v in given) if isinstance(default, tuple) else float(given)
    optimizer = make([Parameter([1.0])], **{option: given})  # a warning is an error
    found = optimizer.param_groups[0][option]
    assert found == wanted
    assert all(type(v) in (float, type(None)) for v in (found if isinstance(found, tuple) else (found,)))
    state = optimizer.state_dict()
    state["param_groups"][0][option] = given
    optimizer.load_state_dict(state)
    assert repr(optimizer.param_groups[0][option]) == repr(wanted)


@pytest.mark.parametrize(
    ("params", "kind", "message"),
    [
        (Parameter([1.0]), TypeError, r"params is one Tensor; pass an iterable such as \[tensor\]"),
        ([], ValueError, r"SGD: params is empty; pass model.parameters\(\)"),
        ({Parameter([1.0])}, TypeError, "SGD: params is a set, whose order changes"),
        ([{"params": {Parameter([1.0])}}], TypeError, "SGD: params is a set"),
        ([3], TypeError, r"SGD: params\[0\] must be a Tensor, got int"),
        ([Tensor(np.array([1]))], TypeError, r"SGD: params\[0\] has dtype int64"),
        ([Parameter([1.0]), Parameter([[1.0]]).reshape(1)], ValueError, r"SGD: params\[1\] is not a leaf but .*detach"),
        ([{"lr": 1.0}], TypeError, 'SGD: a param group must be a dict with "params"'),
        ([{"params": [Parameter([1.0])], 7: 1.0}], TypeError, "SGD: a param group has the key 7; keys must be str"),
        ([{"params": [Parameter([1.0])], "differentiable": True}], ValueError, "SGD: differentiable=True is not"),
        ([{"params": [Parameter([1.0])], "lr": -1.0}], ValueError, "SGD: lr=-1.0 is invalid"),
    ],
)
def test_params_are_checked(params: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        optim.SGD(params)


# ---------------------------------------------------------------- a user's own entries

OWN = {"name": "head", "lr_scale": 0.1, "layers": [1, 2], "decay": None, "scale": np.float32(0.5), "tag": Tensor([3.0])}


def own(group: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of OWN in a group, after checking that they have their types."""
    found = {name: group[name] for name in OWN}
    assert [type(value) for value in found.values()] == [type(value) for value in OWN.values()]
    assert found["tag"].tolist() == [3.0] and {**found, "tag": 0} == {**OWN, "tag": 0}
    return found


@pytest.mark.parametrize("make", [*MAKERS, lambda p: optim.LBFGS(p, lr=0.1)])
def test_own_entries_are_kept(make: Make) -> None:
    def made(entries: dict[str, Any], more: dict[str, Any]) -> optim.Optimizer:
        a, b, c = parameters()
        optimizer = make([{"params": [b], **entries}])
        if not isinstance(optimizer, optim.LBFGS):  # LBFGS has one group
            optimizer.add_param_group({"params": [a, c], **more})
        return optimizer

    def values(optimizer: optim.Optimizer) -> list[np.ndarray]:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = Tensor(np.full_like(parameter.array, 0.5))
        for _ in range(3):
            optimizer.step(lambda: Tensor(0.0))
        return [parameter.array for group in optimizer.param_groups for parameter in group["params"]]

    first, plain = made(OWN, {"name": "tail"}), made({}, {})
    schedule = optim.lr_scheduler.StepLR(first, 10)
    for ours, theirs in zip(values(first), values(plain), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    schedule.step()
    for other in (first, copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        own(other.param_groups[0])
        assert "name: head" in repr(other)
        assert "name" not in other.defaults
    state = first.state_dict()
    own(state["param_groups"][0])
    second = made({"name": "old", "kept": 7}, {"name": "old"})
    second.load_state_dict(state)
    assert own(second.param_groups[0])["layers"] is not OWN["layers"]
    assert second.param_groups[0]["kept"] == 7  # it is not in the state_dict
    assert [group["name"] for group in second.param_groups[1:]] == ["tail"] * (len(second.param_groups) - 1)
    values(second)


def test_own_entries_are_saved_in_files(tmp_path: Any) -> None:
    entries = {"name": "head", "lr_scale": 0.1, "layers": [1, 2], "decay": None}
    first = optim.AdamW([{"params": parameters(), **entries}])
    train(first, 1)
    rg.save(first.state_dict(), tmp_path / "state.pt")
    second = optim.AdamW(parameters())
    second.load_state_dict(rg.load(tmp_path / "state.pt"))
    assert {name: second.param_groups[0][name] for name in entries} == entries


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("weight_deacy", "Adam: a param group has the entry 'weight_deacy', which .*; did you mean 'weight_decay'"),
        ("momentum", r"Adam: a param group has the entry 'momentum', which is kept but .*; its options are \['lr', "),
    ],
)
def test_entries_that_look_like_options_are_told(entry: str, message: str) -> None:
    with pytest.warns(UserWarning, match=message) as caught:
        optimizer = optim.Adam([{"params": parameters(), entry: 0.5}])
    assert caught[0].filename == __file__
    assert optimizer.param_groups[0][entry] == 0.5
    again = optim.Adam(parameters())
    state = optimizer.state_dict()
    if entry == "momentum":
        with pytest.raises(ValueError, match=r"group 0 has the options .*'momentum'.*, Adam has \['amsgrad', "):
            again.load_state_dict(state)
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0][entry] == 0.5


class Halving(Optimizer):
    """An optimizer as users write it for PyTorch."""

    def __init__(self, params: Any, lr: Any = required, foreach: bool = False) -> None:
        if lr is not required and lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        super().__init__(params, {"lr": lr, "foreach": foreach})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)

    @no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                state["step"] += 1
                p.add_(p.grad, alpha=-group["lr"] * group.get("lr_scale", 1.0) / 2 ** state["step"])
        return loss


def test_a_required_option() -> None:
    assert repr(required) == "<required parameter>"
    assert copy.deepcopy(required) is required and pickle.loads(pickle.dumps(required)) is required
    a, b, _ = parameters()
    with pytest.raises(ValueError, match=r"Halving: lr is required, and param group 0 has none; pass lr=\.\.\. to"):
        Halving([a])
    with pytest.raises(ValueError, match="lr is required, and param group 1 has none"):
        Halving([{"params": [a], "lr": 0.5}, {"params": [b]}])
    optimizer = Halving([{"params": [a], "lr": 0.5, "lr_scale": 0.5}])
    with pytest.raises(ValueError, match=r'write \{"params": \.\.\., "lr": \.\.\.\}'):
        optimizer.add_param_group({"params": [b]})
    optimizer.add_param_group({"params": [b], "lr": 2.0})
    before = [a.array.copy(), b.array.copy()]
    for each in (a, b):
        each.grad = Tensor(np.full_like(each.array, 3.0))
    optimizer.step()
    optimizer.step()
    for each, old, rate in ((a, before[0], 0.25), (b, before[1], 2.0)):
        np.testing.assert_allclose(each.array, old - 3.0 * rate * 0.75, rtol=1e-6)
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert [group["lr"] for group in other.param_groups] == [0.5, 2.0] and other.defaults["lr"] is required
        assert other.param_groups[0]["nesterov"] is False
        assert [each["step"] for each in other.state.values()] == [2, 2]
    again = Halving(parameters()[:2], lr=1.0)
    with pytest.raises(ValueError, match="it has 2 parameter groups, this optimizer has 1"):
        again.load_state_dict(optimizer.state_dict())
    again = Halving([{"params": [each]} for each in parameters()[:2]], lr=1.0, foreach=True)
    again.load_state_dict(optimizer.state_dict())
    assert [(group["lr"], group["foreach"]) for group in again.param_groups] == [(0.5, False), (2.0, False)]
    assert again.param_groups[0]["lr_scale"] == 0.5 and again.param_groups[1]["nesterov"] is False
    assert [each["step"] for each in again.state.values()] == [2, 2]


def test_a_parameter_belongs_to_one_group_once() -> None:
    a, b, _ = parameters()
    with pytest.raises(ValueError, match=r"params\[1\] of shape \(4, 3, 2\) is listed more than once"):
        optim.SGD([a, a])
    optimizer = optim.SGD([a])
    with pytest.raises(ValueError, match="listed more than once"):
        optimizer.add_param_group({"params": [b, a]})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: optim.SGD(p, lr=-0.1), "SGD: lr=-0.1 is invalid; it must be .* at least 0.0 and finite"),
        (lambda p: optim.SGD(p, lr=float("nan")), "SGD: lr=nan is invalid"),
        (lambda p: optim.SGD(p, lr=float("inf")), "SGD: lr=inf is invalid"),
        (lambda p: optim.SGD(p, lr="0.1"), "SGD: lr='0.1' is invalid"),
        (lambda p: optim.SGD(p, momentum=-1), "SGD: momentum=-1 is invalid"),
        (lambda p: optim.SGD(p, weight_decay=-1), "SGD: weight_decay=-1 is invalid"),
        (lambda p: optim.SGD(p, dampening=float("nan")), "SGD: dampening=nan is invalid"),
        (lambda p: optim.SGD(p, nesterov=True), "SGD: nesterov=True with momentum=0.0 and .* needs momentum"),
        (lambda p: optim.SGD(p, momentum=0.9, dampening=0.1, nesterov=True), "nesterov needs .* no dampening"),
        (lambda p: optim.SGD(p, maximize="yes"), "SGD: maximize='yes' is invalid; it must be True or False"),
        (lambda p: optim.Adam(p, lr=-1), "Adam: lr=-1 is invalid"),
        (lambda p: optim.Adam(p, eps=-1), "Adam: eps=-1 is invalid"),
        (lambda p: optim.Adam(p, betas=(1.0, 0.9)), r"Adam: betas\[0\]=1.0 is invalid; .* below 1.0"),
        (lambda p: optim.Adam(p, betas=(0.9, -0.1)), r"Adam: betas\[1\]=-0.1 is invalid"),
        (lambda p: optim.Adam(p, betas=0.9), "Adam: betas=0.9 is invalid; it must be two numbers"),
        (lambda p: optim.Adam(p, weight_decay=-1), "Adam: weight_decay=-1 is invalid"),
        (lambda p: optim.Adam(p, amsgrad=2), "Adam: amsgrad=2 is invalid; it must be True or False"),
        (lambda p: optim.AdamW(p, lr=-1), "AdamW: lr=-1 is invalid"),
        (lambda p: optim.AdamW([{"params": p, "decoupled_weight_decay": False}]), "AdamW: .*False is Adam; use Adam"),
        (lambda p: optim.Adamax(p, eps=-1), "Adamax: eps=-1 is invalid"),
        (lambda p: optim.Adamax(p, betas=(0.9, 1.5)), r"Adamax: betas\[1\]=1.5 is invalid"),
        (lambda p: optim.NAdam(p, momentum_decay=-1), "NAdam: momentum_decay=-1 is invalid"),
        (lambda p: optim.NAdam(p, betas=(0.9,)), r"NAdam: betas=\(0.9,\) is invalid"),
        (lambda p: optim.RAdam(p, weight_decay=-1), "RAdam: weight_decay=-1 is invalid"),
        (lambda p: optim.RAdam(p, betas=(-1, 0)), r"RAdam: betas\[0\]=-1 is invalid"),
        (lambda p: optim.RMSprop(p, alpha=1.1), "RMSprop: alpha=1.1 is invalid; .* at most 1.0"),
        (lambda p: optim.RMSprop(p, momentum=-1), "RMSprop: momentum=-1 is invalid"),
        (lambda p: optim.RMSprop(p, centered=None), "RMSprop: centered=None is invalid"),
        (lambda p: optim.Adagrad(p, lr_decay=-1), "Adagrad: lr_decay=-1 is invalid"),
        (lambda p: optim.Adagrad(p, initial_accumulator_value=-1), "Adagrad: initial_accumulator_value=-1 is invalid"),
        (lambda p: optim.Adadelta(p, rho=1.5), "Adadelta: rho=1.5 is invalid; .* at most 1.0"),
        (lambda p: optim.Adadelta(p, lr=None), "Adadelta: lr=None is invalid"),
        (lambda p: optim.ASGD(p, lambd=-1), "ASGD: lambd=-1 is invalid"),
        (lambda p: optim.Rprop(p, etas=(0.5, 0.9)), r"Rprop: etas=\(0.5, 0.9\) is invalid; .* and one above 1"),
        (lambda p: optim.Rprop(p, etas=0.5), "Rprop: etas=0.5 is invalid; it must be two numbers"),
        (lambda p: optim.Rprop(p, step_sizes=(2, 1)), r"Rprop: step_sizes=\(2, 1\) is invalid; the smallest step"),
        (lambda p: optim.Adafactor(p, eps=1e-3), "Adafactor: eps=0.001 is invalid; it must be a pair"),
        (lambda p: optim.Adafactor(p, eps=(None, None)), r"Adafactor: eps\[1\]=None is invalid"),
        (lambda p: optim.Adafactor(p, beta2_decay=0.5), "Adafactor: beta2_decay=0.5 is invalid"),
        (lambda p: optim.Adafactor(p, d=0), "Adafactor: d=0 is invalid; it must be a number of at least 1.0"),
        (lambda p: optim.Adam(p, differentiable=True), "Adam: differentiable=True is not supported: a step changes"),
        (lambda p: optim.SGD(p, foreach="yes"), "SGD: foreach='yes' is invalid; it must be True or False"),
    ],
)
def test_options_are_checked(make: Make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(parameters())


def test_a_gradient_that_no_longer_fits_stops_the_step_before_any_update() -> None:
    a, b, c = parameters()
    before = [p.array.copy() for p in (a, b, c)]
    optimizer = optim.SGD([{"params": [a]}, {"params": [b, c]}])
    for p in (a, b, c):
        p.grad = Tensor(np.ones(p.shape, p.dtype))
    b.array = np.zeros(4)
    before[1] = b.array.copy()
    with pytest.raises(RuntimeError, match=r"SGD: a parameter has shape \(4,\) .* its grad has \(3,\)"):
        optimizer.step()
    for p, values in zip((a, b, c), before, strict=True):
        np.testing.assert_array_equal(p.array, values)


def test_an_optimizer_without_a_step_says_so() -> None:
    a = Parameter([1.0])
    a.grad = Tensor([1.0])
    with pytest.raises(NotImplementedError, match="Optimizer has no formulas; set them, or override step"):
        optim.Optimizer([a], {}).step()


def test_a_formula_without_a_kernel_is_refused() -> None:
    with pytest.raises(TypeError, match="Own: .* has no kernel; override step instead of setting formulas"):
        type("Own", (optim.Optimizer,), {"formulas": (lambda param, grad: param,)})


def test_an_optimizer_with_a_step_of_its_own_saves_its_buffers() -> None:
    class Own(optim.Optimizer):
        buffer_names = ("age",)

        def step(self, closure: Any = None) -> None:
            for parameter in self.param_groups[0]["params"]:
                self.state[parameter] = {"step": 1, "age": Tensor(np.ones_like(parameter.array))}

    first, second = (Own(parameters(), {"lr": 0.1}) for _ in range(2))
    first.step()
    second.load_state_dict(first.state_dict())
    assert all((entries["age"].array == 1).all() for entries in second.state.values()) and len(second.state) == 3


def test_an_optimizer_as_written_for_pytorch() -> None:
    class Own(optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        def step(self, closure: Any = None) -> None:
            for parameter in self.param_groups[0]["params"]:
                state = self.state[parameter]
                if len(state) == 0:
                    state["age"], state["sum"] = 0, Tensor(np.zeros_like(parameter.array))
                state["age"] += 1
                state["sum"].array[...] += parameter.array

    first, second = (Own(parameters(), lr=0.1) for _ in range(2))
    first.step()
    second.load_state_dict(first.state_dict())
    second.step()
    assert {entries["age"] for entries in first.state.values()} == {1}
    for (parameter, one), two in zip(first.state.items(), second.state.values(), strict=True):
        assert two["age"] == 2 and (one["sum"].array == parameter.array).all()
        np.testing.assert_allclose(two["sum"].array, 2 * parameter.array)


@pytest.mark.parametrize("make", MAKERS)
def test_looking_at_a_state_changes_nothing(make: Make) -> None:
    looked, plain = make(parameters()), make(parameters())
    for parameter in looked.param_groups[0]["params"]:
        looked.state[parameter]
    assert looked.state_dict()["state"].keys() == plain.state_dict()["state"].keys()
    for optimizer in (looked, plain):
        train(optimizer, 3)
    for a, b in zip(looked.param_groups[0]["params"], plain.param_groups[0]["params"], strict=True):
        assert a.array.tobytes() == b.array.tobytes()


def test_repr() -> None:
    a, b, _ = parameters()
    assert repr(optim.SGD([{"params": [a]}, {"params": [b], "lr": 1.0}], lr=0.1)) == (
        "SGD (\n"
        "Parameter Group 0\n    dampening: 0.0\n    lr: 0.1\n    maximize: False\n    momentum: 0.0\n"
        "    nesterov: False\n    weight_decay: 0.0\n"
        "Parameter Group 1\n    dampening: 0.0\n    lr: 1.0\n    maximize: False\n    momentum: 0.0\n"
        "    nesterov: False\n    weight_decay: 0.0\n)"
    )


# ---------------------------------------------------------------- state


@pytest.mark.parametrize("make", MAKERS)
def test_training_goes_on_bit_for_bit_after_a_round_trip(make: Make) -> None:
    straight = parameters()
    optimizer = make([{"params": straight[:1]}, {"params": straight[1:], "lr": 0.05}])
    train(optimizer, 1)
    saved = copy.deepcopy(optimizer.state_dict())
    values = [p.array.copy() for p in straight]
    train(optimizer, 2)

    resumed = parameters(seed=9)
    for p, value in zip(resumed, values, strict=True):
        p.array[...] = value
    other = make([{"params": resumed[:1]}, {"params": resumed[1:]}])
    other.load_state_dict(saved)
    assert other.param_groups[1]["lr"] == 0.05
    train(other, 2)
    for ours, theirs in zip(straight, resumed, strict=True):
        np.testing.assert_array_equal(ours.array, theirs.array)
        for name, entry in other.state[theirs].items():
            if isinstance(entry, Tensor):
                if entry.array.shape == theirs.array.shape:  # Adafactor has rows and columns
                    assert entry.array.strides == theirs.array.strides
                np.testing.assert_array_equal(entry.array, optimizer.state[ours][name].array)


def test_layout_of_the_state_dict() -> None:
    a, b, c = parameters()
    optimizer = optim.Adam([{"params": [a, b]}, {"params": [c], "lr": 1.0}])
    c.grad = Tensor(np.ones(1, np.float32))
    optimizer.step()
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert list(state["state"]) == [2]
    assert state["state"][2].keys() == {"step", "exp_avg", "exp_avg_sq"}
    assert state["state"][2]["step"] == 1
    assert [group["params"] for group in state["param_groups"]] == [[0, 1], [2]]
    assert state["param_groups"][1]["lr"] == 1.0


def test_loaded_buffers_are_copies_and_arrays_are_taken() -> None:
    (a, *_), (b, *_) = parameters(), parameters()
    first, second = optim.SGD([a], momentum=0.9), optim.SGD([b])
    train(first, 1)
    state = first.state_dict()
    state["state"][0]["momentum_buffer"] = state["state"][0]["momentum_buffer"].array
    second.load_state_dict(state)
    ours, theirs = first.state[a]["momentum_buffer"].array, second.state[b]["momentum_buffer"].array
    np.testing.assert_array_equal(ours, theirs)
    assert not np.shares_memory(ours, theirs)
    assert second.param_groups[0]["momentum"] == 0.9


def broken(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], Any]:
    def apply(state: dict[str, Any]) -> dict[str, Any]:
        change(state)
        return state

    return apply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: [1], 'expected a dict with "state" and "param_groups"'),
        (lambda s: {"state": {}}, 'expected a dict with "state" and "param_groups"'),
        (broken(lambda s: s["param_groups"].pop()), "it has 1 parameter groups, this optimizer has 2"),
        (broken(lambda s: s["param_groups"][1]["params"].pop()), "group 1 holds 1 parameters, .* holds 2"),
        (broken(lambda s: s["param_groups"][0].pop("eps")), "group 0 has the options .* Adam has"),
        (broken(lambda s: s["param_groups"][0].update(lr=-1.0)), "Adam: lr=-1.0 is invalid"),
        (broken(lambda s: s["state"].update({7: {}})), "state of parameter 7, which is in no group"),
        (broken(lambda s: s["state"][1].pop("step")), r"parameter 1 has the entries .* Adam needs"),
        (broken(lambda s: s["state"][1].update(step=-1)), "step=-1 is not a count"),
        (broken(lambda s: s["state"][1].update(step=1.5)), "step=1.5 is not a count"),
        (broken(lambda s: s["state"][1].update(exp_avg=np.zeros(2))), r"exp_avg has shape \(2,\)"),
        (broken(lambda s: s["state"][1].update(exp_avg=np.zeros(3, int))), "exp_avg has .* dtype int64"),
    ],
)
def test_a_state_dict_that_does_not_fit_changes_nothing(change: Callable[[Any], Any], message: str) -> None:
    ours = parameters()
    optimizer = optim.Adam([{"params": ours[:1]}, {"params": ours[1:]}])
    train(optimizer, 1)
    before = copy.deepcopy(optimizer.state_dict())
    saved = change(copy.deepcopy(before))
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(saved)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert after["state"].keys() == before["state"].keys()
    for number, entries in before["state"].items():
        assert after["state"][number]["step"] == entries["step"]
        for name in ("exp_avg", "exp_avg_sq"):
            np.testing.assert_array_equal(after["state"][number][name].array, entries[name].array)


def test_another_kind_of_optimizer_is_refused() -> None:
    ours = parameters()
    first = optim.SGD(ours, momentum=0.9)
    train(first, 1)
    with pytest.raises(ValueError, match=r"has the options \['dampening', .* Adam has \['amsgrad'"):
        optim.Adam(ours).load_state_dict(first.state_dict())


def test_forms_of_pytorch_change_nothing() -> None:
    """foreach, fused and capturable choose how PyTorch computes a step."""
    results = []
    for forms in ({}, {"foreach": True, "capturable": False}, {"fused": True}, {"foreach": None}):
        mine = parameters()
        optimizer = optim.AdamW(mine, lr=0.1, **forms)
        train(optimizer, seed=3)
        assert forms.keys().isdisjoint(optimizer.param_groups[0])
        results.append([p.array.copy() for p in mine])
    for other in results[1:]:
        for array, same in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(array, same)
    with pytest.raises(TypeError, match=r"AdamW\(\) got an unexpected keyword argument 'fusedd'; did you mean 'fused'"):
        optim.AdamW(mine, fusedd=True)  # type: ignore[call-arg]
