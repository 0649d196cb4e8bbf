"""Time per layer, and inspecting a model without changing it."""

import numpy as np
import pytest

from retrograd import nn
from retrograd.engine.tensor import Tensor
from retrograd.ops.random.random import get_rng_state
from retrograd.train import profile
from retrograd.train.diagnostics import first_not_finite, leaves
from train.small import bits, small_task


def test_every_layer_has_its_operators(make_trainer):
    trainer = make_trainer()
    images, labels = trainer.task.train.take(range(6))
    rows = profile(trainer.model, images, labels, repeats=3)
    assert [row.path for row in rows] == ["0", "1", "2", "3", "4", "5", ""]
    assert [row.output for row in rows[:2]] == [(6, 3, 2, 2), (6, 3, 2, 2)]
    assert [row.parameters for row in rows] == [30, 6, 0, 0, 0, 26, 0]
    names = [set(row.operators) for row in rows]
    assert names[0] == {"Conv"} and names[2] == {"Relu"} and "CrossEntropy" in names[-1]
    for row in rows[:-1]:
        assert row.forward > 0 and row.backward >= max(row.operators.values()) > 0
    with pytest.raises(ValueError, match="repeats=0"):
        profile(trainer.model, images, labels, repeats=0)


def test_profiling_leaves_no_trace(make_trainer):
    trainer = make_trainer()
    trainer.model.eval()
    before = bits(trainer), get_rng_state()
    images, labels = trainer.task.train.take(range(6))
    functions = {type(module): module.forward for _, module in leaves(trainer.model)}
    profile(trainer.model, images, labels, repeats=1)
    assert (bits(trainer), get_rng_state()) == before
    assert not trainer.model.training and all(p.grad is None for p in trainer.model.parameters())
    assert all("forward" not in module.__dict__ for module in trainer.model.modules())
    assert functions.keys() == {type(module) for _, module in leaves(trainer.model)}
    from retrograd.ops.convolution.convolution import Conv

    assert isinstance(Conv.__dict__["backward"], staticmethod) and Conv.backward.__name__ == "backward"


def test_operators_outside_of_layers_belong_to_the_rest(make_trainer):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 2)

        def forward(self, x):
            return (self.linear(x.reshape(x.shape[0], 16)) * 2.0).exp()

    make_trainer()
    images, labels = small_task().train.take(range(4))
    rows = profile(Twice(), images, labels, repeats=1)
    assert [row.path for row in rows] == ["linear", ""] and "Exp" in rows[1].operators


def test_where_numbers_stop_being_finite(make_trainer):
    model = make_trainer().model
    images = Tensor(np.ones((2, 1, 4, 4), np.float32))
    assert "only the loss" in first_not_finite(model, images)
    before = {name: tensor.array.copy() for name, tensor in model.state_dict().items()}
    model[1].weight.array[:] = 3e38
    model[1].bias.array[:] = 3e38
    assert "that of '4', Dropout" in first_not_finite(model, images)  # 3e38 / (1 - 0.2) is too large
    model[1].running_var.array[1] = np.nan
    assert "1.running_var holds NaN" in first_not_finite(model, images)
    assert "batch itself" in first_not_finite(model, Tensor(images.array * np.nan))
    assert (model.state_dict()["1.running_mean"].array == before["1.running_mean"]).all()
