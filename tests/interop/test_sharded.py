"""Weights in several safetensors files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from retrograd import nn
from retrograd.interop import SafetensorsError, load_sharded, load_sharded_model, save_safetensors

INDEX = "model.safetensors.index.json"


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


@pytest.fixture
def folder(tmp_path):
    """Write a model in two files; return the folder and the arrays."""
    state = model().state_dict()
    keys = list(state)
    parts = {"a-1-of-2.safetensors": keys[::2], "a-2-of-2.safetensors": keys[1::2]}
    for name, own in parts.items():
        save_safetensors({key: state[key] for key in own}, tmp_path / name)
    files = {key: name for key in keys for name, own in parts.items() if key in own}
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))
    return tmp_path, state, files


def test_a_model_in_two_files(folder):
    path, state, _ = folder
    for place in (path, path / INDEX, str(path)):
        assert list(load_sharded(place)) == list(state)
        second = model()
        assert load_sharded_model(second, place) == ([], [])
        for key, value in second.state_dict().items():
            np.testing.assert_array_equal(value.array, state[key].array)


def test_in_part(folder):
    path, _, files = folder
    files.pop("0.bias")
    (path / INDEX).write_text(json.dumps({"weight_map": files}))
    with pytest.raises(SafetensorsError, match='does not fit the model.*\n\tMissing key.*"0.bias"'):
        load_sharded_model(model(), path)
    assert load_sharded_model(model(), path, strict=False) == (["0.bias"], [])
    with pytest.raises(SafetensorsError, match="size mismatch for 0.weight"):
        load_sharded_model(nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(3)), path, strict=False)
    with pytest.raises(TypeError, match="load_sharded_model: model is int, expected a Module"):
        load_sharded_model(3, path)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", ".", "", "a\\b", "C:x", "a\0", 3, None, "a\n"])
def test_a_file_outside_of_the_folder(name, folder):
    path, _, files = folder
    (path / INDEX).write_text(json.dumps({"weight_map": {**files, "0.bias": name}}))
    with pytest.raises(SafetensorsError, match="the file of '0.bias', .* is not the name of a file in the folder"):
        load_sharded(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nonsense", "is not an index, or was damaged"),
        ("[]", "it has no weight_map"),
        ('{"weight_map": {}}', "it has no weight_map"),
        ("[" * 100000, "is not an index, or was damaged"),
        ('{"weight_map": {"x": "a-1-of-2.safetensors"}}', "'x' is not in a-1-of-2.safetensors, where it should be"),
        ('{"weight_map": {"x": "none.safetensors"}}', "none.safetensors cannot be read"),
    ],
)
def test_what_is_refused(content, message, folder):
    (folder[0] / INDEX).write_text(content)
    with pytest.raises(SafetensorsError, match=message):
        load_sharded(folder[0])
