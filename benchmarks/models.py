"""The measured networks, built from the layers of either library: ``nn`` is retrograd.nn or torch.nn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np


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

    def block(in_channels: int, out: int, pool: bool = False) -> list[Any]:
        pooling = [nn.MaxPool2d(2)] if pool else []
        return [nn.Conv2d(in_channels, out, 3, padding=1, bias=False), *pooling, nn.BatchNorm2d(out), nn.ReLU()]

    return nn.Sequential(
        *block(1, 16, pool=True),
        *block(16, 32),
        *block(32, 32, pool=True),
        *block(32, 64),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64 * 7 * 7, 10),
    )


def two_convolutions(nn: Any) -> Any:
    """Two 3×3 convolutions of 64 channels with a ReLU between them."""
    return nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1))


def vgg11(nn: Any) -> Any:
    """VGG-11 for (N, 3, 32, 32) with one linear layer of 1000 classes: 9.7 million parameters."""
    layers, in_channels = [], 3
    for out in (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"):
        if out == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(in_channels, out, 3, padding=1), nn.ReLU()]
            in_channels = out
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 1000))


def resnet18(nn: Any, classes: int = 1000) -> Any:
    """ResNet-18 for (N, 3, H, W): K. He et al., "Deep Residual Learning for Image Recognition", 2016."""

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, in_channels: int, out: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(in_channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
            self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
            self.relu = nn.ReLU()
            short = [nn.Conv2d(in_channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)]
            self.downsample = nn.Sequential(*(short if stride > 1 else []))

        def forward(self, x: Any) -> Any:
            y = self.relu(self.bn1(self.conv1(x)))
            return self.relu(self.bn2(self.conv2(y)) + self.downsample(x))

    widths = 64, 64, 64, 128, 128, 256, 256, 512, 512
    sizes = [(in_channels, out, 2 if out > in_channels else 1) for in_channels, out in pairwise(widths)]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *(Block(*size) for size in sizes),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(512, classes),
    )


def mobilenet_v2(nn: Any, classes: int = 1000) -> Any:
    """MobileNetV2 for (N, 3, H, W): M. Sandler et al., "MobileNetV2: Inverted Residuals", 2018."""

    def convolved(in_channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        conv = nn.Conv2d(in_channels, out, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(out), nn.ReLU6()]

    class Inverted(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, in_channels: int, out: int, stride: int, factor: int) -> None:
            super().__init__()
            wide = in_channels * factor
            wider = convolved(in_channels, wide, 1) if factor > 1 else []
            self.adds = stride == 1 and in_channels == out
            self.layers = nn.Sequential(
                *wider,
                *convolved(wide, wide, 3, stride, wide),
                nn.Conv2d(wide, out, 1, bias=False),
                nn.BatchNorm2d(out),
            )

        def forward(self, x: Any) -> Any:
            return x + self.layers(x) if self.adds else self.layers(x)

    layers, in_channels = convolved(3, 32, 3, 2), 32
    stages = (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    for factor, out, count, stride in stages:
        for place in range(count):
            layers.append(Inverted(in_channels, out, 1 if place else stride, factor))
            in_channels = out
    return nn.Sequential(
        *layers,
        *convolved(320, 1280, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(1280, classes),
    )


def cifar(nn: Any) -> Any:
    """Six 3×3 convolutions with batch norm for (N, 3, 32, 32): 0.3 million parameters."""
    layers: list[Any] = []
    for in_channels, out in ((3, 32), (32, 32), (32, 64), (64, 64), (64, 128), (128, 128)):
        layers += [nn.Conv2d(in_channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        if in_channels == out and out < 128:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def unet(nn: Any, classes: int = 3, width: int = 32) -> Any:
    """U-Net of three levels for (N, 3, H, W): O. Ronneberger et al., "U-Net", 2015."""
    cat = _library_of(nn).cat

    def double(in_channels: int, out: int) -> Any:
        first = [nn.Conv2d(in_channels, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        second = [nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        return nn.Sequential(*first, *second)

    class UNet(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.pool = nn.MaxPool2d(2)
            self.down = nn.ModuleList([double(3, width), double(width, 2 * width), double(2 * width, 4 * width)])
            self.up = nn.ModuleList([nn.ConvTranspose2d(size * width, size * width // 2, 2, 2) for size in (4, 2)])
            self.join = nn.ModuleList([double(4 * width, 2 * width), double(2 * width, width)])
            self.head = nn.Conv2d(width, classes, 1)

        def forward(self, x: Any) -> Any:
            first = self.down[0](x)
            second = self.down[1](self.pool(first))
            y = self.down[2](self.pool(second))
            for up, join, seen in zip(self.up, self.join, (second, first), strict=True):
                y = join(cat([seen, up(y)], 1))
            return self.head(y)

    return UNet()


def gpt(nn: Any, vocabulary: int = 65, width: int = 192, heads: int = 6, layers: int = 4, context: int = 128) -> Any:
    """A small GPT from codes (N, T) to scores (N, T, vocabulary): A. Radford et al., 2018."""
    functional, arange = nn.functional, _library_of(nn).arange

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            n, t, c = x.shape
            q, k, v = (a.view(n, t, heads, c // heads).transpose(1, 2) for a in self.qkv(self.ln_1(x)).split(c, 2))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(n, t, c))
            return x + self.mlp(self.ln_2(x))

    class GPT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.codes, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, x: Any) -> Any:
            return self.head(self.ln(self.blocks(self.codes(x) + self.places(arange(x.shape[1])))))

    return GPT()


def language_model(nn: Any, words: int = 10_000, width: int = 200) -> Any:
    """A two-layer LSTM from codes (N, T) to scores (N, T, words): W. Zaremba et al., 2014, the small network."""

    class LanguageModel(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            self.lstm = nn.LSTM(width, width, 2, batch_first=True)
            self.head = nn.Linear(width, words)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.embedding(x))[0])

    return LanguageModel()


def _library_of(nn: Any) -> Any:
    return import_module(nn.__name__.partition(".")[0])


CHARACTERS = 103


def squeezenet(nn: Any, classes: int = 1000) -> Any:
    """SqueezeNet 1.1 for (N, 3, H, W): F. Iandola et al., 2016."""

    class Fire(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, in_channels: int, squeezed: int, expanded: int) -> None:
            super().__init__()
            self.squeeze = nn.Sequential(nn.Conv2d(in_channels, squeezed, 1), nn.ReLU())
            self.narrow = nn.Sequential(nn.Conv2d(squeezed, expanded, 1), nn.ReLU())
            self.wide = nn.Sequential(nn.Conv2d(squeezed, expanded, 3, padding=1), nn.ReLU())

        def forward(self, x: Any) -> Any:
            y = self.squeeze(x)
            return _library_of(nn).cat([self.narrow(y), self.wide(y)], 1)

    return nn.Sequential(
        *(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(Fire(64, 16, 64), Fire(128, 16, 64), nn.MaxPool2d(3, 2)),
        *(Fire(128, 32, 128), Fire(256, 32, 128), nn.MaxPool2d(3, 2)),
        *(Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256)),
        *(nn.Conv2d(512, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


def characters(nn: Any, batch_first: bool = False) -> Any:
    """The network of ``retrograd train text``: from codes (T, N) to scores (T, N, 103), or batch first."""

    class Characters(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(CHARACTERS, 64)
            self.lstm = nn.LSTM(64, 256, 2, batch_first=batch_first)
            self.head = nn.Linear(256, CHARACTERS)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.embedding(x))[0])

    return Characters()


def spiking(nn: Any, neurons: Callable[[Any], Any]) -> Any:
    """784-128-10 for (T, N, 784); ``neurons`` returns the spikes (T, N, C) of currents, the network their counts."""

    class Spiking(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.output = nn.Linear(784, 128), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return neurons(self.output(neurons(self.hidden(x)))).sum(0)

    return Spiking()


# ---- networks with their data ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workload:
    """A network and the batch of each process: `samples` images of a shape, or rows of codes.

    same: whether both libraries give the same losses, as they do without dropout and batch norm. dense: whether each
    position of an image has a label.
    """

    make: Callable[[Any], Any]
    samples: int
    shape: tuple[int, ...]  # of a sample
    classes: int
    optimizer: Callable[[Any, Any], Any]
    same: bool = True
    dense: bool = False

    def batch(self, processes: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the samples of all processes, and their labels."""
        rng = np.random.default_rng(0)
        count = processes * self.samples
        if len(self.shape) == 1:
            codes = rng.integers(0, self.classes, (2, count, *self.shape))
            return codes[0], codes[1]
        places = self.shape[1:] if self.dense else ()
        return rng.standard_normal((count, *self.shape), np.float32), rng.integers(0, self.classes, (count, *places))

    def loss(self, functional: Any, scores: Any, labels: Any) -> Any:
        if self.dense:
            return functional.cross_entropy(scores, labels)
        return functional.cross_entropy(scores.reshape(-1, self.classes), labels.reshape(-1))


def _momentum(optim: Any, parameters: Any) -> Any:
    return optim.SGD(parameters, lr=0.01, momentum=0.9)


def _adam(optim: Any, parameters: Any) -> Any:
    return optim.Adam(parameters, lr=1e-4)


# in several processes
WORKLOADS = {
    "LeNet": Workload(lenet, 256, (1, 28, 28), 10, _momentum),
    "mnist5k": Workload(mnist, 256, (1, 28, 28), 10, _adam, same=False),
    "characters": Workload(lambda nn: characters(nn, batch_first=True), 64, (64,), CHARACTERS, _adam),
    "VGG-11": Workload(vgg11, 32, (3, 32, 32), 1000, _momentum),
}

# in one process
NETWORKS = {
    "LeNet, batch 1": Workload(lenet, 1, (1, 28, 28), 10, _momentum),
    "LeNet, batch 16": Workload(lenet, 16, (1, 28, 28), 10, _momentum),
    "LeNet, batch 64": Workload(lenet, 64, (1, 28, 28), 10, _momentum),
    "CIFAR network, batch 32": Workload(cifar, 32, (3, 32, 32), 10, _adam),
    "U-Net, batch 4, 64×64": Workload(unet, 4, (3, 64, 64), 3, _adam, dense=True),
    "GPT, batch 8, 128 codes": Workload(gpt, 8, (128,), 65, _adam),
    "LSTM language model, batch 20, 35 words": Workload(language_model, 20, (35,), 10_000, _momentum),
    "MobileNetV2, batch 1, 96×96": Workload(mobilenet_v2, 1, (3, 96, 96), 1000, _momentum, same=False),
    "MobileNetV2, batch 8, 224×224": Workload(mobilenet_v2, 8, (3, 224, 224), 1000, _momentum, same=False),
    "ResNet-18, batch 8, 224×224": Workload(resnet18, 8, (3, 224, 224), 1000, _momentum),
}
