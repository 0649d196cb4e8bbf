"""state_dict and load_state_dict: keys, round trips, and errors that change nothing."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd import nn
from retrograd.engine.tensor import Tensor


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 2, (2, 3), bias=False),
        nn.BatchNorm2d(2),
        nn.ConvTranspose1d(4, 6, 3, groups=2),
        nn.Linear(5, 4),
    )


SHAPES = {
    "0.weight": (2, 1, 2, 3),
    "1.weight": (2,),
    "1.bias": (2,),
    "1.running_mean": (2,),
    "1.running_var": (2,),
    "1.num_batches_tracked": (),
    "2.weight": (4, 3, 3),
    "2.bias": (6,),
    "3.weight": (4, 5),
    "3.bias": (4,),
}


def values(net: nn.Module) -> dict[str, np.ndarray]:
    return {key: tensor.array.copy() for key, tensor in net.state_dict().items()}


def random_state(rng: np.random.Generator) -> dict[str, Tensor]:
    state = {key: Tensor(rng.normal(size=shape).astype(np.float32)) for key, shape in SHAPES.items()}
    state["1.num_batches_tracked"] = Tensor(np.array(7))
    return state


def test_keys_and_logical_shapes() -> None:
    state = network().state_dict()
    assert {key: tensor.shape for key, tensor in state.items()} == SHAPES
    assert list(state) == list(SHAPES)
    assert not any(tensor.requires_grad for tensor in state.values())


def test_state_shares_memory_and_keep_vars_hands_out_parameters() -> None:
    net = network()
    net.state_dict()["3.bias"].array[...] = 9
    np.testing.assert_array_equal(net[3].bias.array, [9, 9, 9, 9])
    assert net.state_dict(keep_vars=True)["3.bias"] is net[3].bias
    assert "model.3.bias" in net.state_dict(prefix="model.")


def test_round_trip_into_the_existing_memory() -> None:
    net = network()
    before = {name: parameter.array for name, parameter in net.named_parameters()}
    strides = {name: array.strides for name, array in before.items()}
    state = random_state(np.random.default_rng(1))
    result = net.load_state_dict(state)
    assert result == ([], [])
    assert result.missing_keys == []
    for key, array in values(net).items():
        np.testing.assert_array_equal(array, state[key].array)
    for name, parameter in net.named_parameters():
        assert parameter.array is before[name]
        assert parameter.array.strides == strides[name]
    twin = network()
    twin.load_state_dict(net.state_dict())
    for key, array in values(twin).items():
        np.testing.assert_array_equal(array, state[key].array)


def test_arrays_and_other_float_widths_are_converted() -> None:
    net = network()
    drawn = random_state(np.random.default_rng(2))
    state = {key: tensor.array.astype(np.float64) for key, tensor in drawn.items()}
    state["1.num_batches_tracked"] = np.array(3)
    net.load_state_dict(state)
    assert net[0].weight.dtype == np.float32
    np.testing.assert_array_equal(net[0].weight.array, state["0.weight"].astype(np.float32))


def test_missing_and_unexpected_keys() -> None:
    net = network()
    before = values(net)
    state: dict[str, Tensor] = random_state(np.random.default_rng(3))
    del state["0.weight"], state["3.bias"]
    state["4.weight"] = Tensor([1.0])
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Sequential, nothing was changed:\n"
        '\tMissing key(s) in state_dict: "0.weight", "3.bias".\n'
        '\tUnexpected key(s) in state_dict: "4.weight".\n'
        "\t(strict=False ignores missing and unexpected keys.)"
    )
    for key, array in values(net).items():
        np.testing.assert_array_equal(array, before[key])
    result = net.load_state_dict(state, strict=False)
    assert result == (["0.weight", "3.bias"], ["4.weight"])
    np.testing.assert_array_equal(net[0].weight.array, before["0.weight"])
    np.testing.assert_array_equal(net[3].weight.array, state["3.weight"].array)


@pytest.mark.parametrize("strict", [True, False])
def test_values_that_do_not_fit_change_nothing(strict: bool) -> None:
    net = network()
    before = values(net)
    state: dict[str, object] = dict(random_state(np.random.default_rng(4)))
    state["1.num_batches_tracked"] = Tensor([1.5])
    state["2.bias"] = [1.0] * 6
    state["3.weight"] = Tensor(np.zeros((5, 4), np.float32))
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state, strict=strict)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Sequential, nothing was changed:\n"
        "\tsize mismatch for 1.num_batches_tracked: copying a param with shape (1,) from checkpoint, "
        "the shape in current model is ().\n"
        '\t"2.bias": expected a Tensor or an array, got list.\n'
        "\tsize mismatch for 3.weight: copying a param with shape (5, 4) from checkpoint, "
        "the shape in current model is (4, 5)."
    )
    state = dict(random_state(np.random.default_rng(4)))
    state["1.num_batches_tracked"] = np.array(1.5)
    with pytest.raises(RuntimeError, match="float64 in checkpoint cannot be copied to int64"):
        net.load_state_dict(state, strict=strict)
    for key, array in values(net).items():
        np.testing.assert_array_equal(array, before[key])


def test_no_mapping_is_refused() -> None:
    with pytest.raises(TypeError, match="state_dict must be a dict of tensors, got list"):
        network().load_state_dict([1])  # type: ignore[arg-type]
