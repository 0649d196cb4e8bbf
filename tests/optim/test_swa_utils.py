"""Weight averages: SWA, EMA, their state, and recomputed batch norm statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrograd import nn, optim
from retrograd.engine.tensor import Tensor
from retrograd.optim import swa_utils


def network() -> Any:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def update(model: Any, averaged: Any, times: int) -> list[list[np.ndarray]]:
    """Change the model and update the average ``times`` times; return the parameters after each change."""
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(times):
        for parameter in model.parameters():
            parameter.array[...] += rng.normal(size=parameter.shape)
        seen.append([parameter.array.astype(np.float64) for parameter in model.parameters()])
        averaged.update_parameters(model)
    return seen


def assert_parameters(averaged: Any, expected: list[np.ndarray]) -> None:
    for parameter, value in zip(averaged.module.parameters(), expected, strict=True):
        np.testing.assert_allclose(parameter.array, value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"avg_fn": swa_utils.get_swa_avg_fn()}], ids=["default", "avg_fn"])
def test_equal_weights(options: dict[str, Any]) -> None:
    model = network()
    averaged = swa_utils.AveragedModel(model, **options)
    seen = update(model, averaged, 5)
    assert_parameters(averaged, [np.mean(values, axis=0) for values in zip(*seen, strict=True)])
    assert averaged.n_averaged.item() == 5


@pytest.mark.parametrize("name", ["avg_fn", "multi_avg_fn"])
def test_exponential_weights(name: str) -> None:
    model = network()
    function = {"avg_fn": swa_utils.get_ema_avg_fn, "multi_avg_fn": swa_utils.get_ema_multi_avg_fn}[name](0.75)
    averaged = swa_utils.AveragedModel(model, **{name: function})
    seen = update(model, averaged, 4)
    expected = seen[0]
    for values in seen[1:]:
        expected = [0.75 * old + 0.25 * new for old, new in zip(expected, values, strict=True)]
    assert_parameters(averaged, expected)


def test_buffers_are_copied_or_averaged() -> None:
    for use_buffers, mean, count in ((False, 4.0, 8), (True, 3.0, 6)):
        model = network()
        averaged = swa_utils.AveragedModel(model, use_buffers=use_buffers)
        for value in (2.0, 4.0):
            model[1].running_mean.array[...] = value
            model[1].num_batches_tracked.array[...] = 2 * value
            averaged.update_parameters(model)
        assert (averaged.module[1].running_mean.array == mean).all()
        assert averaged.module[1].num_batches_tracked.item() == count


def test_the_average_has_memory_of_its_own_and_a_state_to_resume_from() -> None:
    model = network()
    averaged = swa_utils.AveragedModel(model)
    update(model, averaged, 3)
    for ours, theirs in zip(averaged.module.parameters(), model.parameters(), strict=True):
        assert not np.shares_memory(ours.array, theirs.array) and ours.array.strides == theirs.array.strides
    state = averaged.state_dict()
    assert list(state)[:2] == ["n_averaged", "module.0.weight"]
    other = swa_utils.AveragedModel(network())
    other.load_state_dict({key: value.array.copy() for key, value in state.items()})
    for one in (averaged, other):
        one.update_parameters(model)
    for key, value in averaged.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[key].array, value.array)
    x = Tensor(np.ones((2, 3), np.float32))
    averaged.eval()
    np.testing.assert_array_equal(averaged(x).array, averaged.module(x).array)


def test_update_bn_measures_the_whole_data() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.BatchNorm1d(4, momentum=0.3)).double()
    model.train()
    model[0].eval()
    rng = np.random.default_rng(0)
    batches = [rng.normal(size=(8, 3)) for _ in range(4)]
    swa_utils.update_bn([[Tensor(batch), "label"] for batch in batches], model)
    outputs = [model[0](Tensor(batch)).array for batch in batches]
    np.testing.assert_allclose(model[1].running_mean.array, np.mean([y.mean(0) for y in outputs], 0))
    np.testing.assert_allclose(model[1].running_var.array, np.mean([y.var(0, ddof=1) for y in outputs], 0))
    assert (model[1].momentum, model[3].momentum) == (0.1, 0.3)
    assert model.training and not model[0].training
    assert model[0].weight.grad is None

    def breaks() -> Any:
        yield Tensor(batches[0])
        raise OSError("gone")

    model.eval()
    with pytest.raises(OSError, match="gone"):
        swa_utils.update_bn(breaks(), model)
    assert not model.training and model[3].momentum == 0.3
    swa_utils.update_bn(None, nn.Linear(2, 2))  # type: ignore[arg-type]  # nothing to measure


def test_refusals() -> None:
    model = network()
    function = swa_utils.get_ema_avg_fn()
    with pytest.raises(ValueError, match="pass either avg_fn or multi_avg_fn"):
        swa_utils.AveragedModel(model, avg_fn=function, multi_avg_fn=function)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="AveragedModel: model must be a Module, got int"):
        swa_utils.AveragedModel(3)  # type: ignore[arg-type]
    for make in (swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn):
        with pytest.raises(ValueError, match=rf"{make.__name__}: decay=1.5 is invalid; .* at most 1.0"):
            make(1.5)
    averaged = swa_utils.AveragedModel(model)
    before = {key: value.array.copy() for key, value in averaged.state_dict().items()}
    with pytest.raises(ValueError, match="update_parameters: the parameters of the model have the shapes"):
        averaged.update_parameters(nn.Linear(3, 4))
    for key, value in averaged.state_dict().items():
        np.testing.assert_array_equal(value.array, before[key])


def test_swalr_keeps_its_goal_in_the_groups() -> None:
    optimizer = optim.SGD(network().parameters(), lr=0.4)
    scheduler = swa_utils.SWALR(optimizer, 0.1, anneal_epochs=2)
    found = []
    for _ in range(4):
        found.append(scheduler.get_last_lr()[0])
        scheduler.step()
    np.testing.assert_allclose(found, [0.4, 0.25, 0.1, 0.1])
    assert optimizer.state_dict()["param_groups"][0]["swa_lr"] == 0.1
