"""The networks that are measured, from the layers of either library: ``nn`` is retrograd.nn or torch.nn."""

from __future__ import annotations

from typing import Any


def lenet(nn: Any) -> Any:
    """LeNet-5 for (N, 1, 28, 28) with ReLU and max pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def mnist(nn: Any) -> Any:
    """The network of ``retrograd train mnist5k``, for (N, 1, 28, 28)."""

    def block(inside: int, out: int, pool: bool = False) -> list[Any]:
        pooling = [nn.MaxPool2d(2)] if pool else []
        return [nn.Conv2d(inside, out, 3, padding=1, bias=False), *pooling, nn.BatchNorm2d(out), nn.ReLU()]

    return nn.Sequential(
        *block(1, 16, pool=True), *block(16, 32), *block(32, 32, pool=True), *block(32, 64),
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * 7 * 7, 10),
    )  # fmt: skip


def two_convolutions(nn: Any) -> Any:
    """Two 3×3 convolutions of 64 channels with a ReLU between them."""
    return nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1))
