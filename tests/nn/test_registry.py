"""``_modules``, ``_parameters`` and ``_buffers``, which scripts for PyTorch read and change."""

from __future__ import annotations

import pytest

import retrograd as rg
from retrograd import nn


def test_members_are_read_and_changed() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
    assert list(model._modules) == ["0", "1", "2"] and model._modules["0"] is model[0]
    assert list(model[0]._parameters) == ["weight", "bias"] and len(model[1]._buffers) == 3
    model._modules["2"] = nn.Tanh()
    assert isinstance(model[2], nn.Tanh) and model(rg.zeros(1, 1, 4, 4)).shape == (1, 2, 2, 2)
    del model._modules["2"]
    assert len(model) == 2 and "2" not in model._modules
    layer = nn.Linear(2, 2)
    weight = layer._parameters.pop("weight")
    assert list(layer.state_dict()) == ["bias"] and isinstance(weight, nn.Parameter)
    layer._parameters["weight"] = weight
    assert layer.weight is weight and repr(layer._parameters) == repr({"bias": layer.bias, "weight": weight})
    layer._buffers["scale"] = rg.ones(1)
    assert "scale" in layer.state_dict()
    with pytest.raises(KeyError, match="missing"):
        layer._modules["missing"]
    with pytest.raises(TypeError, match="expected Module or None"):
        model._modules["0"] = 3
