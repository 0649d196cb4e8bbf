"""Networks and checks for tests of recorded calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import retrograd as rg
from comparison import bits
from retrograd import nn
from retrograd.nn.compilation import explain_recording


def image(seed: int = 0, *shape: int) -> rg.Tensor:
    return rg.Tensor(np.random.default_rng(seed).standard_normal(shape or (2, 3, 9, 9), dtype=np.float32))


def network() -> nn.Module:
    rg.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(3), nn.Flatten(), nn.Linear(72, 5)
    ).eval()


def launches(compiled: Any) -> int:
    """The number of recordings."""
    return explain_recording(compiled).count("launches")


def same(compiled: Callable[..., Any], plain: Callable[..., Any], *args: Any) -> bool:
    """Whether both give the same bits, in the call that records and in one that replays other numbers."""
    other = [rg.Tensor(arg.numpy()[..., ::-1].copy()) if isinstance(arg, rg.Tensor) else arg for arg in args]
    return all(bits(compiled(*given).numpy()) == bits(plain(*given).numpy()) for given in (args, args, other, args))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.GELU())
        self.up = nn.ConvTranspose2d(3, 4, 2, 2)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        y = self.up(x + self.inside(x))
        return rg.cat([self.norm(y), nn.functional.pad(y, (0, 0))], 1)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolutions": (network, (2, 3, 9, 9)),
    "residual": (Residual, (2, 3, 8, 7)),
    "attention": (lambda: nn.TransformerEncoderLayer(16, 4, 24, batch_first=True), (2, 5, 16)),
    "gru": (lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 9), nn.Softmax(-1)), (3, 4, 6)),
    "depthwise": (
        lambda: nn.Sequential(nn.Conv2d(6, 6, 3, 2, 1, groups=6), nn.Hardswish(), nn.Conv2d(6, 4, 1)),
        (1, 6, 9, 8),
    ),
    "lines": (lambda: nn.Sequential(nn.Conv1d(4, 6, 5, padding=2), nn.Tanh(), nn.AdaptiveAvgPool1d(3)), (2, 4, 21)),
}


def gradients(net: nn.Module) -> list[list[bytes] | None]:
    return [None if p.grad is None else bits(p.grad.numpy()) for p in net.parameters()]
