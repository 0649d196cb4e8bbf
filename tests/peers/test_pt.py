"""Files that PyTorch wrote, and files that PyTorch reads with weights_only=True."""

from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_close, normal


def networks(nn: Any) -> dict[str, Any]:
    return {
        "cnn": nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.ConvTranspose2d(4, 3, 2),
            nn.Flatten(),
            nn.Linear(48, 5),
        ),
        "lstm": nn.LSTM(3, 4, num_layers=2, bidirectional=True),
        "gru": nn.GRU(3, 4, batch_first=True),
        "embedding": nn.Embedding(7, 3),
        "attention": nn.MultiheadAttention(8, 2),
    }


INPUTS = {
    "cnn": [normal(3, 2, 7, 7)],
    "lstm": [normal(5, 2, 3)],
    "gru": [normal(2, 5, 3)],
    "embedding": [np.array([[1, 2], [0, 6]])],
    "attention": [normal(4, 2, 8)] * 3,
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("there", [False, True], ids=["comes", "goes"])
def test_weights_come_and_go(name: str, legacy: bool, there: bool) -> None:
    theirs, ours = networks(torch.nn)[name], networks(retrograd.nn)[name]
    stream = io.BytesIO()
    if there:
        retrograd.save(ours.state_dict(), stream)
        stream.seek(0)
        theirs.load_state_dict(torch.load(stream, weights_only=True))
    else:
        torch.save(theirs.state_dict(), stream, _use_new_zipfile_serialization=not legacy)
        stream.seek(0)
        ours.load_state_dict(retrograd.load(stream))
    inputs = [x.astype(np.float32) if x.dtype == np.float64 else x for x in INPUTS[name]]
    found, expected = ours(*map(retrograd.tensor, inputs)), theirs(*map(torch.tensor, inputs))
    first = found[0] if isinstance(found, tuple) else found
    assert_close(first, expected[0] if isinstance(expected, tuple) else expected, "output")


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad"])
@pytest.mark.parametrize("there", [False, True], ids=["comes", "goes"])
def test_training_goes_on(name: str, there: bool) -> None:
    x = normal(6, 3)

    def parts(library: Any) -> tuple[Any, Any]:
        model = library.nn.Linear(3, 2, dtype=library.float64)
        options = {"momentum": 0.9} if name == "SGD" else {}
        return model, getattr(library.optim, name)(model.parameters(), lr=0.1, **options)

    def step(library: Any, model: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        model(library.tensor(x)).square().sum().backward()
        optimizer.step()
        return model.weight

    libraries = (retrograd, torch) if there else (torch, retrograd)
    (first, its), (second, others) = map(parts, libraries)
    step(libraries[0], first, its)
    stream = io.BytesIO()
    libraries[0].save({"model": first.state_dict(), "optimizer": its.state_dict()}, stream)
    stream.seek(0)
    saved = libraries[1].load(stream)
    second.load_state_dict(saved["model"])
    others.load_state_dict(saved["optimizer"])
    one, two = step(libraries[0], first, its), step(libraries[1], second, others)
    assert_close(*((one, two) if there else (two, one)), "weight")


def test_plain_values_and_views_go() -> None:
    x = retrograd.tensor(normal(3, 4))
    plain = [1, -(2**63), 2**100, 2.5, None, True, "ü", b"\xff", (1,)]
    value = {
        "x": x,
        "T": retrograd.Tensor(x.array.T),
        "plain": plain,
        "o": OrderedDict(a={1, 2}),
        "p": retrograd.nn.Parameter(x.array),
        "wide": retrograd.ones(1).expand(3),
        "none": retrograd.zeros(0, 2),
        "many": list(range(3000)),
        "c": 1 + 2j,
    }
    stream = io.BytesIO()
    retrograd.save(value, stream)
    stream.seek(0)
    found = torch.load(stream, weights_only=True)
    assert found["plain"] == value["plain"] and found["o"] == value["o"] and found["many"] == value["many"]
    assert type(found["p"]) is torch.nn.Parameter and found["wide"].stride() == (0,) and found["none"].shape == (0, 2)
    found["x"][1, 2] = 9
    assert found["T"][2, 1] == 9 and found["p"][1, 2] == 9


@pytest.mark.parametrize("there", [False, True], ids=["comes", "goes"])
@pytest.mark.parametrize("legacy", [False, True])
def test_attributes_come_and_go(there: bool, legacy: bool) -> None:
    one, other = (retrograd, torch) if there else (torch, retrograd)
    p, x = one.nn.Parameter(one.ones(2, 3), requires_grad=False), one.arange(4)
    p.org, p.name_of, p.sizes = one.zeros(2, 3) - 1, "first", [1, (2.5, None)]
    x.parameter = p
    stream = io.BytesIO()
    one.save({"p": p, "x": x}, stream, **({} if there else {"_use_new_zipfile_serialization": not legacy}))
    stream.seek(0)
    found = other.load(stream, weights_only=True)
    assert type(found["p"]) is other.nn.Parameter and not found["p"].requires_grad
    assert vars(found["p"]).keys() - {"_backward_hooks"} == {"org", "name_of", "sizes"}
    assert found["p"].org.tolist() == [[-1, -1, -1]] * 2 and found["p"].sizes == [1, (2.5, None)]
    assert found["x"].parameter is found["p"] and found["x"].tolist() == [0, 1, 2, 3]


def test_code_is_refused_by_its_name() -> None:
    for value, name in (
        (torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear, a whole model"),
        ({"a": [0, torch.optim.SGD]}, r"torch.optim.sgd.SGD.* it is in obj\['a'\]\[1\]"),
        ([torch.ones(2).to(torch.complex64)], "torch.ComplexFloatStorage, complex numbers; save torch.view_as_real"),
        ([torch.ones(2, 2).to_sparse()], "torch._utils._rebuild_sparse_tensor, a sparse tensor"),
        ([torch.ones(2, device="meta")], "torch._utils._rebuild_meta_tensor_no_storage"),
        ([print], "builtins.print; restoring it would run code"),
    ):
        for new in (True, False):
            stream = io.BytesIO()
            torch.save(value, stream, _use_new_zipfile_serialization=new)
            stream.seek(0)
            with pytest.raises(retrograd.interop.PTFileError, match=name):
                retrograd.load(stream)
