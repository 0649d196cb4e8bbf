"""Hooks of state_dict and load_state_dict, and extra state."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.engine.tensor import Tensor


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1)))


def test_hooks_of_state_dict() -> None:
    net, seen = network(), []
    handles = [
        net[1].register_state_dict_pre_hook(lambda module, prefix, keep: seen.append(("pre", prefix, keep))),
        net[1].register_state_dict_post_hook(lambda module, state, prefix, meta: seen.append((list(state), prefix))),
        net.register_state_dict_post_hook(lambda module, state, prefix, meta: state.__delitem__("0.bias")),
    ]
    twin = copy.deepcopy(net)
    assert list(net.state_dict(keep_vars=True)) == ["0.weight", "1.0.weight", "1.0.bias"]
    assert seen == [("pre", "1.", True), (["0.weight", "0.bias", "1.0.weight", "1.0.bias"], "1.")]
    assert "0.bias" not in twin.state_dict()
    for handle in handles:
        handle.remove()
    assert "0.bias" in net.state_dict() and len(seen) == 4
    net.register_state_dict_post_hook(lambda *args: {})
    with pytest.raises(RuntimeError, match="state_dict post-hook must return None"):
        net.state_dict()


def test_a_private_hook_replaces_the_state() -> None:
    net = network()
    net._register_state_dict_hook(lambda module, state, prefix, meta: {prefix + "only": state[prefix + "0.bias"]})
    assert list(net.state_dict(prefix="x.")) == ["x.only"]


def test_hooks_before_loading_change_a_copy() -> None:
    net, other, seen = network(), network(), []

    def rename(module: Any, state: Any, prefix: str, meta: Any, strict: bool, *lists: Any) -> None:
        seen.append((module, prefix, strict, lists))
        for key in [key for key in state if key.startswith("old.")]:
            state[key.replace("old.", prefix)] = state.pop(key)

    net[1].register_load_state_dict_pre_hook(rename)
    net[0]._register_load_state_dict_pre_hook(lambda state, prefix, *rest: seen.append((prefix, len(rest))))
    state = {key.replace("1.0.", "old.0."): value for key, value in other.state_dict().items()}
    keys = list(state)
    assert net.load_state_dict(state) == ([], []) and list(state) == keys
    np.testing.assert_array_equal(net[1][0].weight.array, other[1][0].weight.array)
    assert seen == [("0.", 5), (net[1], "1.", True, ([], [], []))]
    net.register_load_state_dict_pre_hook(lambda *args: args[-1].append("nothing fits today"))
    before = net[0].bias.array.copy()
    with pytest.raises(RuntimeError, match="nothing was changed:\n\tnothing fits today"):
        net.load_state_dict(network().state_dict())
    np.testing.assert_array_equal(net[0].bias.array, before)


def test_hooks_after_loading_may_excuse_keys() -> None:
    net, seen = network(), []
    inner = net[1].register_load_state_dict_post_hook(lambda module, keys: seen.append(module))
    outer = net.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    state = network().state_dict()
    state.pop("0.bias")
    assert net.load_state_dict(state) == ([], []) and seen == [net[1]]
    outer.remove()
    before = net[0].weight.array.copy()
    state["0.weight"] = Tensor(before + 1)
    with pytest.raises(RuntimeError, match='nothing was changed:\n\tMissing key\\(s\\) in state_dict: "0.bias"'):
        net.load_state_dict(state)
    assert len(seen) == 2 and np.array_equal(net[0].weight.array, before)
    inner.remove()
    net.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(RuntimeError, match="must return None"):
        net.load_state_dict(network().state_dict())


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.layer = nn.Linear(1, 1)

    def get_extra_state(self) -> Any:
        return {"calls": self.calls}

    def set_extra_state(self, state: Any) -> None:
        self.calls = state["calls"]


def test_extra_state() -> None:
    first, second = nn.Sequential(Counting()), nn.Sequential(Counting())
    first[0].calls = 3
    state = first.state_dict()
    assert list(state) == ["0._extra_state", "0.layer.weight", "0.layer.bias"]
    assert second.load_state_dict(state) == ([], []) and second[0].calls == 3
    state.pop("0._extra_state")
    with pytest.raises(RuntimeError, match='Missing key.*"0._extra_state"'):
        second.load_state_dict(state)
    with pytest.raises(RuntimeError, match='Unexpected key.*"_extra_state"'):
        nn.Linear(1, 1).load_state_dict({**nn.Linear(1, 1).state_dict(), "_extra_state": 1})
    for call in (nn.ReLU().get_extra_state, lambda: nn.ReLU().set_extra_state(1)):
        with pytest.raises(RuntimeError, match="ReLU has no extra state; override get_extra_state and set_extra_state"):
            call()


class Own(nn.Linear):
    """Overrides the private methods, as PyTorch users do."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "w"] = destination.pop(prefix + "weight")

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")
        super()._load_from_state_dict(state_dict, prefix, *args)


def test_overridden_steps() -> None:
    first, second = nn.Sequential(Own(2, 3)), nn.Sequential(Own(2, 3))
    assert list(first.state_dict()) == ["0.bias", "0.w"]
    second.load_state_dict(first.state_dict())
    np.testing.assert_array_equal(first[0].weight.array, second[0].weight.array)


@pytest.mark.parametrize("kind", ["state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"])
def test_a_hook_must_be_callable(kind: str) -> None:
    with pytest.raises(TypeError, match=f"register_{kind}_hook: hook must be a function, got int"):
        getattr(nn.ReLU(), f"register_{kind}_hook")(3)


@pytest.mark.parametrize("assign", [False, True])
def test_values_come_back_if_a_later_step_fails(assign: bool) -> None:
    class Picky(Counting):
        def set_extra_state(self, state: Any) -> None:
            raise ValueError("an unknown state")

    net = nn.Sequential(Picky(), nn.BatchNorm1d(1))
    state = nn.Sequential(Counting(), nn.BatchNorm1d(1)).state_dict()
    state["1.running_mean"] = Tensor(np.array([3.0], np.float32))
    before = {
        key: (value, value.array, value.array.copy())
        for key, value in net.state_dict(keep_vars=True).items()
        if isinstance(value, Tensor)
    }
    with pytest.raises(ValueError, match="an unknown state"):
        net.load_state_dict(state, assign=assign)
    for tensor, array, values in before.values():
        assert tensor.array is array and np.array_equal(array, values)


# ---- versions --------------------------------------------------------------------------------------------------------


class Versioned(nn.Linear):
    """Its weight had the opposite sign in version 1."""

    _version = 2

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any) -> None:
        self.seen = dict(local_metadata)
        if local_metadata.get("version", 1) < 2:
            state_dict[prefix + "weight"] = -state_dict[prefix + "weight"]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)


def test_a_state_has_the_versions_of_its_modules(tmp_path: Any) -> None:
    net = nn.Sequential(Versioned(2, 3), nn.BatchNorm1d(3))
    state: Any = net.state_dict()
    assert state._metadata == {"": {"version": 1}, "0": {"version": 2}, "1": {"version": 2}}
    rg.save(state, tmp_path / "net.pt")
    for kept in (state, copy.deepcopy(state), pickle.loads(pickle.dumps(state)), rg.load(tmp_path / "net.pt")):
        again = nn.Sequential(Versioned(2, 3), nn.BatchNorm1d(3))
        assert again.load_state_dict(kept) == ([], [])
        assert again[0].seen == {"version": 2}
        np.testing.assert_array_equal(again[0].weight.array, net[0].weight.array)
    again.load_state_dict(dict(state), assign=True)  # without versions: it is taken for an old one
    assert again[0].seen == {"assign_to_params_buffers": True}
    np.testing.assert_array_equal(again[0].weight.array, -net[0].weight.array)


def test_hooks_get_the_versions() -> None:
    net, seen = nn.Sequential(Versioned(2, 3)), []

    def note(module: Any, state: Any, prefix: str, local: Any) -> None:
        local["made by"] = "a test"

    net[0].register_state_dict_post_hook(note)
    net[0].register_load_state_dict_pre_hook(lambda module, state, prefix, local, *rest: seen.append(local))
    state: Any = net.state_dict(prefix="net.")
    assert state._metadata == {"net": {"version": 1}, "net.0": {"version": 2, "made by": "a test"}}
    net.load_state_dict(net.state_dict())
    state = net.state_dict()
    state._metadata["0"] = "damaged"
    net.load_state_dict(state)
    assert seen == [{"version": 2, "made by": "a test"}, {}]
