"""Models exported by PyTorch: the same outputs here, and gradients for further training."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg

torch = pytest.importorskip("torch")
nn = torch.nn


class Residual(nn.Module):  # type: ignore[misc, name-defined]
    """As in ResNet, and with ``groups`` as in MobileNet."""

    def __init__(self, inside: int, out: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, out, 3, stride, 1, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(out)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(inside, out, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        return nn.functional.relu6(self.second(nn.functional.relu(self.norm(self.first(x)))) + self.short(x))


class Characters(nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 20)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(self.embedding(x))[0])


def convolutional() -> Any:
    blocks = [Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 16, 2, groups=4)]
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(16, 20),
    )


CASES = {
    "convolutional": (convolutional, lambda n: torch.randn(n, 3, 33, 40)),
    "recurrent": (Characters, lambda n: torch.randint(0, 20, (n, 11))),
}


def exported(name: str, path: Path) -> tuple[Any, Any, Any]:
    """PyTorch's network, its input, and the network as it is read here."""
    torch.manual_seed(0)
    make, inputs = CASES[name]
    net = make().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.2, 0.2)
            module.running_var.uniform_(0.5, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is the old one, which needs no further package
        torch.onnx.export(
            net,
            (inputs(2),),
            str(path),
            dynamo=False,
            input_names=["x"],
            dynamic_axes={"x": {0: "N"}},
            do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE,
        )
    return net, inputs(5), rg.onnx.load(path).eval()


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients(name: str, tmp_path: Path) -> None:
    net, x, ours = exported(name, tmp_path / "model.onnx")
    expected = net(x)
    scores = ours(rg.tensor(x.numpy()))
    np.testing.assert_allclose(scores.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    g = torch.randn_like(expected)
    expected.backward(g)
    scores.backward(rg.tensor(g.numpy()))
    found = [p.grad.numpy() for p in ours.parameters()]
    wanted = {tuple(p.grad.shape): p.grad.numpy() for p in net.parameters()}
    checked = 0
    for gradient in found:
        if gradient.shape in wanted and list(map(np.shape, found)).count(gradient.shape) == 1:
            np.testing.assert_allclose(gradient, wanted[gradient.shape], rtol=1e-3, atol=1e-4)
            checked += 1
    assert checked >= 2


@pytest.mark.parametrize("name", CASES)
def test_it_can_be_trained_further(name: str, tmp_path: Path) -> None:
    _, x, ours = exported(name, tmp_path / "model.onnx")
    ours.train()
    x = rg.tensor(x.numpy())
    labels = rg.tensor(np.arange(ours(x).array.size // 20) % 20)
    optimizer, losses = rg.optim.Adam(ours.parameters(), lr=0.01), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = rg.nn.functional.cross_entropy(ours(x).reshape(-1, 20), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
