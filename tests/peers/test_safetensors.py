"""Weights written by PyTorch, and weights that PyTorch reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_model as their_load_model
from safetensors.torch import save_file
from safetensors.torch import save_model as their_save_model

import retrograd
from peers.compare import assert_close, normal
from retrograd.interop import load_model, load_safetensors, save_safetensors


def network(nn: Any) -> Any:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.ConvTranspose2d(4, 3, 2),
        nn.Flatten(),
        nn.Linear(48, 5),
    )


def test_a_network_of_pytorch_gives_the_same_outputs_here(tmp_path: Path) -> None:
    theirs, ours = network(torch.nn), network(retrograd.nn)
    theirs(torch.tensor(normal(6, 2, 7, 7, dtype=np.float32)))  # batch norm has seen something
    their_save_model(theirs, str(tmp_path / "x"))
    assert load_model(ours, tmp_path / "x") == ([], [])
    x = normal(3, 2, 7, 7, dtype=np.float32)
    assert_close(ours.eval()(retrograd.tensor(x)), theirs.eval()(torch.tensor(x)), "output")


def test_a_network_of_ours_gives_the_same_outputs_there(tmp_path: Path) -> None:
    theirs, ours = network(torch.nn), network(retrograd.nn)
    ours(retrograd.tensor(normal(6, 2, 7, 7, dtype=np.float32)))
    save_safetensors(ours, tmp_path / "x")
    assert their_load_model(theirs, str(tmp_path / "x")) == (set(), [])
    x = normal(3, 2, 7, 7, dtype=np.float32)
    assert_close(ours.eval()(retrograd.tensor(x)), theirs.eval()(torch.tensor(x)), "output")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool"])
def test_element_types(tmp_path: Path, dtype: str) -> None:
    values = torch.tensor(100 * np.abs(normal(4, 3))).to(getattr(torch, dtype))
    save_file({"t": values}, tmp_path / "x")
    found = load_safetensors(tmp_path / "x")["t"].array
    wide = values.float() if dtype == "bfloat16" else values
    expected = wide.numpy()
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected)
