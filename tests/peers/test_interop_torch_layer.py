"""retrograd.interop.torch: modules of retrograd as modules of PyTorch, and single tensors."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
import retrograd.interop.torch as interop
from peers.compare import normal
from retrograd.interop.torch import Layer, from_torch, to_torch

ROOT = Path(__file__).resolve().parents[2]
PAGE, README = ROOT / "docs" / "how_to" / "interop_torch.md", ROOT / "README.md"


def network() -> Any:
    rg.manual_seed(0)
    nn = rg.nn
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(64, 3)
    )


def test_training_is_that_of_pytorch() -> None:
    """The same weights, statistics and losses as a network of PyTorch's own layers."""
    module = network()
    module[3].p = 0.0
    layer = Layer(module)
    nn = torch.nn
    theirs = nn.Sequential(
        nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.0), nn.Flatten(), nn.Linear(64, 3)
    )
    theirs.load_state_dict(layer.state_dict())
    images, labels = torch.randn(8, 1, 6, 6), torch.randint(3, (8,))
    for net in (layer, theirs):
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()
    assert list(layer.state_dict()) == list(theirs.state_dict()) == list(module.state_dict())
    for name, tensor in theirs.state_dict().items():
        torch.testing.assert_close(layer.state_dict()[name], tensor, rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(module.state_dict()[name].numpy(), layer.state_dict()[name].numpy())
    torch.testing.assert_close(layer.eval()(images), theirs.eval()(images), rtol=1e-3, atol=1e-3)


def test_modes_and_requests_follow() -> None:
    layer, x = Layer(network()), torch.randn(2, 1, 6, 6)
    assert layer.training and not layer.eval().retrograd[3].training
    layer.get_submodule("3").train()
    assert layer.retrograd[3].training and not layer.retrograd[1].training
    assert not Layer(network().eval()).training
    layer.requires_grad_(False)
    assert not layer(x).requires_grad
    layer.get_submodule("5").requires_grad_(True)
    layer(x).sum().backward()
    assert [name for name, p in layer.named_parameters() if p.grad is not None] == ["5.weight", "5.bias"]
    assert repr(layer).startswith("Layer(Sequential(\n  (0): Conv2d(1, 4, ")


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "torch.save"])
def test_copies(how: str) -> None:
    layer, x = Layer(network()).eval(), torch.randn(2, 1, 6, 6)
    layer(x)
    if how == "torch.save":
        stream = io.BytesIO()
        torch.save(layer, stream)
        stream.seek(0)
        twin = torch.load(stream, weights_only=False)
    else:
        twin = copy.deepcopy(layer) if how == "deepcopy" else pickle.loads(pickle.dumps(layer))
    expected = layer(x)
    assert torch.equal(twin(x), expected)
    with torch.no_grad():
        twin.get_parameter("5.bias").add_(1)
    assert np.shares_memory(twin.retrograd[5].bias.array, twin.get_parameter("5.bias").detach().numpy())
    assert torch.equal(layer(x), expected) and torch.allclose(twin(x), expected + 1)


def test_memory_that_is_replaced() -> None:
    """By either library; the other one gets it at the next call."""
    module = rg.nn.Linear(3, 2)
    layer, x = Layer(module), torch.randn(4, 3)
    layer(x)
    layer.double()
    assert layer(x.double()).dtype == torch.float64 and module.weight.dtype == np.float64
    layer.float()
    layer.load_state_dict({name: torch.ones_like(p) for name, p in layer.state_dict().items()}, assign=True)
    torch.testing.assert_close(layer(x)[:, 0], x.sum(1) + 1)
    assert module.bias.data_ptr() == layer.bias.data_ptr()
    module.weight.data = rg.zeros(2, 3)
    assert torch.equal(layer(x), torch.ones(4, 2)) and torch.equal(layer.weight.detach(), torch.zeros(2, 3))
    swapped = torch.func.functional_call(layer, {"weight": torch.ones(2, 3, requires_grad=True)}, (x,))
    torch.testing.assert_close(swapped[:, 0], x.sum(1) + 1)
    assert torch.equal(layer(x), torch.ones(4, 2))
    layer.half()
    with pytest.raises(TypeError, match="Layer: weight is torch.float16"):
        layer(x)


def test_shared_parameters_and_modules() -> None:
    tied = rg.nn.Sequential(rg.nn.Linear(3, 3), rg.nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    again = rg.nn.Sequential(tied, tied)
    layer, x = Layer(again), torch.randn(2, 3)
    assert len(list(layer.parameters())) == len(list(again.parameters())) == 3
    assert layer.get_submodule("0") is layer.get_submodule("1")
    layer(x).sum().backward()
    expected, first = again(rg.Tensor(x.numpy())), layer.get_parameter("0.0.weight")
    expected.sum().backward()
    np.testing.assert_allclose(first.grad.numpy(), tied[0].weight.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_derivatives(kind: str) -> None:
    layer = Layer(getattr(rg.nn, kind)(2, 3).double())
    x = torch.tensor(normal(3, 2, 2), requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]

    def run(x: torch.Tensor, *weights: torch.Tensor) -> Any:
        y, state = torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x,))
        return y, *(state if type(state) is tuple else (state,))

    assert torch.autograd.gradcheck(run, (x, *layer.parameters()))
    assert torch.autograd.gradgradcheck(run, (x, *layer.parameters()))


def test_a_rule_of_a_layer() -> None:
    module = rg.nn.Linear(3, 2)
    layer, x, w = Layer(module), torch.randn(4, 3, requires_grad=True), module.weight
    layer.backward_rule = doubled_linear
    assert layer.backward_rule == module.backward_rule
    layer(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.ones((4, 2)) @ w.array, rtol=1e-5)


def doubled_linear(true: Any, g: Any) -> Any:
    gx, gw, gb = true(g)
    return gx * 2.0, gw, gb


def test_a_parametrization_of_pytorch_is_refused() -> None:
    layer = Layer(rg.nn.Linear(3, 2))
    torch.nn.utils.parametrizations.weight_norm(layer, "weight")
    with pytest.raises(RuntimeError, match="Layer: weight is no longer there; parametrizations of PyTorch"):
        layer(torch.randn(4, 3))


def test_a_step_of_the_optimizer_between() -> None:
    layer = Layer(rg.nn.Linear(3, 2))
    y = layer(torch.randn(4, 3, requires_grad=True)).sum()
    with torch.no_grad():
        layer.weight.mul_(2)
    with pytest.raises(RuntimeError, match="Linear: a tensor that its backward needs"):
        y.backward()
    y = layer(torch.randn(4, 3, requires_grad=True)).sum()
    with rg.no_grad():
        layer.retrograd.weight.mul_(2)
    with pytest.raises(RuntimeError, match="changed by mul_"):
        y.backward()


@pytest.mark.parametrize(("option", "value"), [("grad_req", "write"), ("limits", (-1.0, 1.0))])
def test_options_that_pytorch_does_not_heed(option: str, value: Any) -> None:
    module = rg.nn.Linear(2, 2)
    setattr(module.weight, option, value)
    with pytest.raises(ValueError, match=rf"Layer: Linear.weight has {option}="):
        Layer(rg.nn.Sequential(module))


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "bool", "int32", "uint8"])
def test_conversions_share_memory(kind: str) -> None:
    theirs = torch.ones(2, 3, dtype=getattr(torch, kind)).T
    ours = from_torch(theirs)
    assert ours.shape == (3, 2) and ours.dtype == np.dtype(kind) and ours.data_ptr() == theirs.data_ptr()
    back = to_torch(ours)
    assert back.data_ptr() == theirs.data_ptr() and back.stride() == theirs.stride() and back.dtype == theirs.dtype
    assert to_torch(rg.zeros(0, 3)).shape == (0, 3)


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "bool", "int32", "uint8", "float16"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 3)])
def test_dlpack(kind: str, shape: Any) -> None:
    ours = rg.Tensor(np.ones((*shape, 2), kind)[..., 0])  # not contiguous
    theirs = torch.from_dlpack(ours)
    back = rg.from_dlpack(theirs)
    assert theirs.dtype == getattr(torch, kind) and theirs.shape == back.shape == shape
    assert back.data_ptr() == theirs.data_ptr() == ours.data_ptr() or 0 in shape


def test_dlpack_refuses() -> None:
    with pytest.raises(BufferError, match="read backwards"):  # PyTorch would end the process
        torch.from_dlpack(rg.Tensor(np.ones(3)[::-1]))
    assert torch.from_dlpack(rg.Tensor(np.arange(3.0)[::-1]).clone()).tolist() == [2.0, 1.0, 0.0]
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.from_dlpack(rg.ones(3, requires_grad=True))
    with pytest.raises(BufferError, match="require gradient"):
        rg.from_dlpack(torch.ones(3, requires_grad=True))
    with pytest.raises(TypeError, match="from_dlpack: NumPy cannot read the elements of ext_tensor, a Tensor"):
        rg.from_dlpack(torch.ones(3, dtype=torch.bfloat16))


# ---- the page ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("page", "count"), [(PAGE, 10), (README, 1)], ids=["page", "README"])
def test_the_page_runs(
    page: Path, count: int, kernel_set: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text, names = page.read_text(encoding="utf-8"), {"__name__": "__main__"}
    blocks = re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == count
    for number, block in enumerate(blocks):
        file = tmp_path / f"block_{number}.py"  # a formula must have a source
        file.write_text(block, encoding="utf-8")
        exec(compile(block, str(file), "exec"), names)
    if page == PAGE:
        readme = " ".join(README.read_text(encoding="utf-8").split())
        ratios = re.search(r"64 images: (\d+) us in PyTorch, (\d+) us here: ([\d.]+) times as fast", text)
        assert ratios is not None and f"{int(ratios[1]) / int(ratios[2]):.1f}" == ratios[3]
        assert (
            "28 times smaller" in readme and f"found it {ratios[3]} times as fast for 64 images on one core" in readme
        )
        assert 28 <= names["sizes"][0] / names["sizes"][1] < 29
        if kernel_set == "compiled":
            assert names["theirs"] / names["mine"] > 2


def test_what_is_public_has_docstrings() -> None:
    assert all(inspect.getdoc(getattr(interop, name)) for name in interop.__all__)
    assert rg.interop.torch is interop
