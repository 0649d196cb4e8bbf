"""The command line's networks, by name, so that a checkpoint can describe how to rebuild its network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import nn
from .._files.state import Check, brief, check_table, choice, count, number, table
from ..engine.tensor import Tensor

__all__ = [
    "RECURRENT_KERNELS",
    "SeriesNetwork",
    "TextNetwork",
    "build_network",
    "digits_network",
    "image_network",
    "image_of",
    "mnist_network",
    "saved_network",
]


# ---- Recurrent networks: one for text, one for series ---------------------------------------------------------------

# kernels that both networks use in training
RECURRENT_KERNELS = (
    "recurrent.recurrent.forward",
    "recurrent.recurrent.backward",
    "recurrent.products.from_x",
    "recurrent.products.pack_columns",
    "recurrent.products.pack_rows",
    "recurrent.products.bias_grad",
    "recurrent.products.weight_grads",
    "matmul.multiply",
    "thin_product.strips",
    "optimizer.adam",
    "reduction.sum_columns",
)
States = tuple[Tensor, Tensor]


class TextNetwork(nn.Module):
    """An LSTM that scores the next character after each character; its state carries over between batches.

    characters: number of different characters.
    streams: number of texts read in parallel in training.
    width, hidden, layers, dropout: of the embedding and the LSTM.

    In training, the final states of a batch are stored in the buffers ``h`` and ``c``, so that a checkpoint contains
    them. In eval mode they are stored separately. Backpropagation through time is truncated at batch boundaries.
    """

    h: Tensor
    c: Tensor

    def __init__(
        self, characters: int, streams: int, width: int = 64, hidden: int = 256, layers: int = 2, dropout: float = 0.3
    ) -> None:
        super().__init__()
        self.embedding: nn.Embedding = nn.Embedding(characters, width)
        self.lstm: nn.LSTM = nn.LSTM(width, hidden, layers, dropout=dropout if layers > 1 else 0.0)
        self.dropout: nn.Dropout = nn.Dropout(dropout)
        self.head: nn.Linear = nn.Linear(hidden, characters)
        for name in ("h", "c"):
            self.register_buffer(name, Tensor(np.zeros((layers, streams, hidden), np.float32)))
        self._eval_states: tuple[np.ndarray, np.ndarray] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Score the next character after each, step by step: (T * N, characters).

        x: int64 (N, 1 + T). The first entry is 1 if the row continues row n of the previous batch and 0 if it starts
            anew; then come the codes of T characters.
        """
        previous = (self.h.array, self.c.array) if self.training else self._eval_states
        continues = x.array[:, :1].astype(np.float32)
        if previous is None or previous[0].shape[1] < len(continues):
            previous = (np.zeros((self.h.shape[0], len(continues), self.h.shape[2]), np.float32),) * 2
        h, c = (Tensor(state[:, : len(continues)] * continues) for state in previous)
        scores, (h, c) = self.step(Tensor(x.array[:, 1:].T), (h, c))
        if self.training:
            for buffer, state in ((self.h, h), (self.c, c)):
                buffer.array[:, : len(continues)] = state.array
        else:
            self._eval_states = h.array, c.array
        return scores

    def step(self, codes: Tensor, states: States | None) -> tuple[Tensor, States]:
        """Return the scores (T * N, characters) for codes int64 (T, N), and the final states."""
        y, states = self.lstm(self.embedding(codes), states)
        return self.head(self.dropout(y.reshape(-1, y.shape[2]))), states


class SeriesNetwork(nn.Module):
    """A GRU that predicts the next values of a series from the last ones, averaged with an autoregression.

    horizon: number of values to predict.
    hidden: units of the GRU.
    lags: order of the autoregression, whose coefficients are the buffers ``regression_weight`` (lags, horizon) and
        ``regression_bias`` (horizon,); 0 for none.

    The GRU sees the window minus its mean, so that a trend does not take it beyond the values it was trained on. It
    predicts changes from the last value, so it starts near the forecast of no change. While training, the output is the
    GRU's forecast alone; in eval mode, it is the mean of both, whose errors partly cancel.

    Source: J. M. Bates and C. W. J. Granger, "The Combination of Forecasts", 1969.
    """

    regression_weight: Tensor
    regression_bias: Tensor

    def __init__(self, horizon: int, hidden: int = 32, lags: int = 0) -> None:
        super().__init__()
        self.gru: nn.GRU = nn.GRU(1, hidden)
        self.head: nn.Linear = nn.Linear(hidden, horizon)
        self.lags = lags
        if lags:
            self.register_buffer("regression_weight", Tensor(np.zeros((lags, horizon), np.float32)))
            self.register_buffer("regression_bias", Tensor(np.zeros(horizon, np.float32)))

    def forward(self, x: Tensor) -> Tensor:
        """Map x (N, T) to predictions (N, horizon)."""
        window = x - x.mean(1, keepdim=True) if self.lags else x
        _, h = self.gru(window.T.unsqueeze(2))
        forecast = self.head(h[0]) + x[:, -1:]
        if self.training or not self.lags:
            return forecast
        return 0.5 * (forecast + x[:, -self.lags :] @ self.regression_weight + self.regression_bias)


# ---- Image networks, and the registry of all networks by name -------------------------------------------------------


def digits_network() -> nn.Sequential:
    """Build a network from images (N, 1, 8, 8) to scores (N, 10): 9,978 parameters, drawn from retrograd's generator.

    The convolutions have no bias: the batch norm after each has one.
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
    """Build a network from images (N, 1, 28, 28) to scores (N, 10); 64,058 parameters from retrograd's generator.

    Pooling comes before batch norm and ReLU, to quarter their work.
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


def image_network(channels: int, size: int, classes: int, grid: int = 0) -> nn.Sequential:
    """Build a network from images (N, channels, size, size) to scores (N, classes), from retrograd's generator.

    It has convolutions with batch norm, each followed by pooling that halves the image, until it is at most 7 pixels
    wide.

    grid: average the last feature maps to grid x grid cells, which leaves the last layer fewer weights; 0 does not.

    Raises:
        ValueError: channels is neither 1 nor 3, size is not from 8 to 256, there are fewer than two classes or more
            than 10,000, or grid is not from 0 to 4.
    """
    if channels not in (1, 3):
        raise ValueError(f"channels={channels!r} must be 1 or 3")
    for name, value, low, high in (("size", size, 8, 256), ("classes", classes, 2, 10000), ("grid", grid, 0, 4)):
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{name}={value!r} must be an int from {low} to {high}")
    layers: list[nn.Module] = []
    width, side = 32, size
    while side > 7:
        layers += _block(channels, width, pool=True)
        channels, width, side = width, min(width + 32, 128), side // 2
    layers += _block(channels, width)
    if grid:
        layers.append(nn.AdaptiveAvgPool2d(grid))
        side = grid
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.3), nn.Linear(width * side * side, classes))


def _block(channels: int, out: int, pool: bool = False) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, out, kernel_size=3, padding=1, bias=False)
    return [convolution, *([nn.MaxPool2d(2)] if pool else []), nn.BatchNorm2d(out), nn.ReLU()]


def _min_text_elements(
    characters: int, streams: int, width: int = 64, hidden: int = 256, layers: int = 2, dropout: float = 0.3
) -> int:
    products = width * hidden + (2 * layers - 1) * hidden * hidden
    return characters * (width + hidden) + 4 * products + 2 * layers * streams * hidden


@dataclass(frozen=True)
class _Network:
    """The description of a network: how to build it, and its input and arguments.

    input_kind: "images", "text" or "series".
    arguments: a check for each argument.
    min_elements: computes a lower bound of the number of elements of all its arrays from the arguments.
    optional: arguments that may be missing.
    """

    build: Callable[..., nn.Module]
    input_kind: str
    arguments: Mapping[str, Check] = field(default_factory=dict)
    min_elements: Callable[..., int] = lambda: 0
    optional: tuple[str, ...] = ()


_NETWORKS = {
    "digits": _Network(digits_network, "images"),
    "mnist": _Network(mnist_network, "images"),
    "images": _Network(
        image_network,
        "images",
        {"channels": choice(1, 3), "size": count(8, 256), "classes": count(2, 10000), "grid": count(0, 4)},
        lambda channels, size, classes, grid=0: 64 * (grid or 4) ** 2 * classes,
        ("grid",),
    ),
    "text": _Network(
        TextNetwork,
        "text",
        {
            **dict.fromkeys(("characters", "streams", "width", "hidden"), count(1)),
            "layers": count(1, 64),
            "dropout": number(0, 1),
        },
        _min_text_elements,
        ("width", "hidden", "layers", "dropout"),
    ),
    "series": _Network(
        SeriesNetwork,
        "series",
        {"horizon": count(1), "hidden": count(1), "lags": count(0)},
        lambda horizon, hidden=32, lags=0: hidden * (3 * hidden + horizon) + lags * horizon,
        ("hidden", "lags"),
    ),
}


def build_network(description: Any) -> nn.Module:
    """Build the network that {"name": ..., "arguments": {...}} describes.

    Raises:
        ValueError: there is no such network, or its arguments differ.
    """
    network, arguments = _described(description)
    return network.build(**arguments)


def saved_network(state: Mapping[str, Any], takes: str) -> nn.Module:
    """Build the network for ``takes`` that the state of a checkpoint describes, with its weights.

    No memory is allocated for a network larger than the arrays in the state.

    Raises:
        ValueError, RuntimeError: the state has no network, or its description does not fit its arrays; the message says
            why.
    """
    network, arguments = _described(state.get("network"))
    if network.input_kind != takes:
        raise ValueError(f"its network is not for {takes}")
    arrays = check_table("model", state.get("model"))
    for key, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"model[{brief(key)}] is {brief(array)}; it must be an array")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"model[{brief(key)}] holds NaN or infinity")
    stored, needed = sum(array.size for array in arrays.values()), network.min_elements(**arguments)
    if stored < needed:
        raise ValueError(f"its network has at least {brief(needed)} numbers, but only {stored} are stored")
    model = network.build(**arguments)
    model.load_state_dict(arrays)
    return model


def image_of(description: Any) -> dict[str, int]:
    """Return the size and channels of the images that a network takes.

    Raises:
        ValueError: the network does not take images, or there is no such network.
    """
    network, arguments = _described(description)
    if network.input_kind != "images":
        raise ValueError("its network is not for images")
    known = {"digits": {"size": 8, "channels": 1}, "mnist": {"size": 28, "channels": 1}}
    image = known.get(description["name"], arguments)
    return {name: image[name] for name in ("size", "channels")}


def _described(description: Any) -> tuple[_Network, dict[str, Any]]:
    if not isinstance(description, Mapping) or not {"name", "arguments"} <= description.keys():
        raise ValueError(f"it does not say how to build its network: {brief(description)}")
    name, arguments = description["name"], description["arguments"]
    if not isinstance(name, str) or name not in _NETWORKS or not isinstance(arguments, Mapping):
        raise ValueError(f"there is no network {brief(name)}; the networks are {', '.join(_NETWORKS)}")
    network = _NETWORKS[name]
    checks = {key: check for key, check in network.arguments.items() if key in arguments or key not in network.optional}
    try:
        return network, table(checks)("arguments", arguments)
    except ValueError as error:
        raise ValueError(f"the network {name!r} cannot be built from {brief(arguments)}: {error}") from None
