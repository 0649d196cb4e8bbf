"""The recurrent networks that the command line trains: one for text, one for series."""

from __future__ import annotations

import numpy as np

from .. import nn
from ..engine.tensor import Tensor

__all__ = ["RECURRENT_KERNELS", "SeriesNetwork", "TextNetwork"]

# what both run in training
RECURRENT_KERNELS = (
    "recurrent.forward",
    "recurrent.backward",
    "recurrent_products.by_x",
    "recurrent_products.pack_columns",
    "recurrent_products.pack_rows",
    "recurrent_products.bias_grad",
    "recurrent_products.weight_grads",
    "matmul.multiply",
    "optimizer.adam",
    "reduction.sum_columns",
)
States = tuple[Tensor, Tensor]


class TextNetwork(nn.Module):
    """Characters -> scores of the character that comes after each; an LSTM that reads on from batch to batch.

    characters: how many different ones there are.
    streams: how many texts are read beside each other in training.
    width, hidden, layers, dropout: of the embedding and the LSTM.

    In training the states that a batch ended with are kept in the buffers ``h`` and ``c``, so that a checkpoint holds
    them; in eval mode they are kept apart from those. No gradient flows from one batch into the one before:
    backpropagation through time is truncated there.
    """

    h: Tensor
    c: Tensor

    def __init__(
        self, characters: int, streams: int, width: int = 64, hidden: int = 256, layers: int = 2, dropout: float = 0.3
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.lstm = nn.LSTM(width, hidden, layers, dropout=dropout if layers > 1 else 0.0)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(hidden, characters)
        for name in ("h", "c"):
            self.register_buffer(name, Tensor(np.zeros((layers, streams, hidden), np.float32)))
        self._read: tuple[np.ndarray, np.ndarray] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """x int64 (N, 1 + T): in front whether the row goes on where row n of the batch before ended (1) or begins anew
        (0), then the codes of T characters -> scores (T * N, characters), step by step."""
        kept = (self.h.array, self.c.array) if self.training else self._read
        goes_on = x.array[:, :1].astype(np.float32)
        if kept is None or kept[0].shape[1] < len(goes_on):
            kept = (np.zeros((self.h.shape[0], len(goes_on), self.h.shape[2]), np.float32),) * 2
        h, c = (Tensor(state[:, : len(goes_on)] * goes_on) for state in kept)
        scores, (h, c) = self.step(Tensor(x.array[:, 1:].T), (h, c))
        if self.training:
            for buffer, state in ((self.h, h), (self.c, c)):
                buffer.array[:, : len(goes_on)] = state.array
        else:
            self._read = h.array, c.array
        return scores

    def step(self, codes: Tensor, states: States | None) -> tuple[Tensor, States]:
        """codes int64 (T, N) -> scores (T * N, characters), and the states behind them."""
        y, states = self.lstm(self.embedding(codes), states)
        return self.head(self.dropout(y.reshape(-1, y.shape[2]))), states


class SeriesNetwork(nn.Module):
    """The last values of a series -> the next ones; a GRU reads the former one by one.

    horizon: how many it says.
    hidden: units of the GRU.

    What the network adds up to the last value is learned, so that it begins with the forecast that nothing changes.
    """

    def __init__(self, horizon: int, hidden: int = 32) -> None:
        super().__init__()
        self.gru = nn.GRU(1, hidden)
        self.head = nn.Linear(hidden, horizon)

    def forward(self, x: Tensor) -> Tensor:
        """x (N, T) -> (N, horizon)."""
        _, h = self.gru(Tensor(x.array.T[:, :, np.newaxis]))
        return self.head(h[0]) + x[:, -1:]
