"""The networks that the command line trains, by name, so that a checkpoint can say how to build its own again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .. import nn
from .sequence_networks import SeriesNetwork, TextNetwork

__all__ = ["build_network", "digits_network", "image_network", "mnist_network"]


def digits_network() -> nn.Sequential:
    """Images (N, 1, 8, 8) -> scores (N, 10); 9,978 parameters, drawn from ``retrograd``'s generator.

    The convolutions have no bias: the batch norm behind each has one.
    """
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(32 * 4 * 4, 10),
    )


def mnist_network() -> nn.Sequential:
    """Images (N, 1, 28, 28) -> scores (N, 10); 64,058 parameters, drawn from ``retrograd``'s generator.

    Pooling comes before batch norm and ReLU, which then have a quarter of the work.
    """
    return nn.Sequential(
        *_block(1, 16, pool=True),
        *_block(16, 32),
        *_block(32, 32, pool=True),
        *_block(32, 64),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64 * 7 * 7, 10),
    )


def image_network(channels: int, size: int, classes: int) -> nn.Sequential:
    """Images (N, channels, size, size) -> scores (N, classes), drawn from ``retrograd``'s generator.

    Convolutions with a batch norm, each followed by a pooling that halves the image, until it is at most 7 pixels wide.

    Raises:
        ValueError: channels is neither 1 nor 3, size is not from 8 to 256, or there are fewer than two classes or more
            than 10,000.
    """
    if channels not in (1, 3):
        raise ValueError(f"channels={channels!r} must be 1 or 3")
    for name, value, low, high in (("size", size, 8, 256), ("classes", classes, 2, 10000)):
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{name}={value!r} must be an int from {low} to {high}")
    layers: list[nn.Module] = []
    width, side = 32, size
    while side > 7:
        layers += _block(channels, width, pool=True)
        channels, width, side = width, min(width + 32, 128), side // 2
    return nn.Sequential(
        *layers, *_block(channels, width), nn.Flatten(), nn.Dropout(0.3), nn.Linear(width * side * side, classes)
    )


def _block(inside: int, out: int, pool: bool = False) -> list[nn.Module]:
    convolution = nn.Conv2d(inside, out, kernel_size=3, padding=1, bias=False)
    return [convolution, *([nn.MaxPool2d(2)] if pool else []), nn.BatchNorm2d(out), nn.ReLU()]


_NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "digits": digits_network,
    "mnist": mnist_network,
    "images": image_network,
    "text": TextNetwork,
    "series": SeriesNetwork,
}


def build_network(description: Any) -> nn.Module:
    """The network that {"name": ..., "arguments": {...}} describes.

    Raises:
        ValueError: there is no such network, or it has no such arguments.
    """
    if not isinstance(description, Mapping) or not {"name", "arguments"} <= description.keys():
        raise ValueError(f"it does not say how to build its network: {description!r}")
    name, arguments = description["name"], description["arguments"]
    if name not in _NETWORKS or not isinstance(arguments, Mapping):
        raise ValueError(f"there is no network {name!r} here; the networks are {', '.join(_NETWORKS)}")
    try:
        return _NETWORKS[name](**arguments)
    except TypeError as error:
        raise ValueError(f"the network {name!r} cannot be built from {dict(arguments)!r}: {error}") from None
