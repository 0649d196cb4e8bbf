"""Names and printing of a model's parts in containers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import retrograd


def _net(nn: Any) -> Any:
    blocks = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)])
    parts = nn.ModuleDict({"head": nn.Sequential(nn.Linear(2, 1), nn.Tanh()), "none": nn.Identity()})
    return nn.Sequential(
        blocks, parts, nn.Sequential(), nn.Sequential(nn.ReLU(), nn.Flatten()) + nn.Sequential(nn.ReLU())
    )


def _repeated(nn: Any) -> Any:
    block = nn.Sequential(nn.Linear(2, 2), nn.ReLU()) * 3
    block.insert(1, nn.Dropout(0.25))
    block.extend([nn.Sigmoid(), nn.MaxPool2d(2)])
    del block[0]
    return nn.ModuleList([block[:2], block[2:], nn.ModuleList([block])])


@pytest.mark.parametrize("make", [_net, _repeated])
def test_the_same_text_and_names(make: Any) -> None:
    mine, yours = make(retrograd.nn), make(torch.nn)
    assert repr(mine) == repr(yours)
    assert list(mine.state_dict()) == list(yours.state_dict())
    for what in ("named_modules", "named_children", "named_parameters", "named_buffers"):
        assert [name for name, _ in getattr(mine, what)()] == [name for name, _ in getattr(yours, what)()]
        if what != "named_children":
            every = ([name for name, _ in getattr(m, what)(remove_duplicate=False)] for m in (mine, yours))
            assert next(every) == next(every)


def test_parameter_containers() -> None:
    def names(library: Any, zeros: Any) -> list[str]:
        nn = library.nn
        net = nn.Module()
        net.rows = nn.ParameterList([nn.Parameter(zeros(2)), nn.Parameter(zeros(3))])
        net.named = nn.ParameterDict({"b": nn.Parameter(zeros(2)), "a": nn.Parameter(zeros(3))})
        return list(net.state_dict())

    assert names(retrograd, retrograd.zeros) == names(torch, torch.zeros)
