"""The recurrent networks of the command line: one for text, one for series."""

from __future__ import annotations

import numpy as np

from .. import nn
from ..engine.tensor import Tensor

__all__ = ["RECURRENT_KERNELS", "SeriesNetwork", "TextNetwork"]

# the kernels both run in training
RECURRENT_KERNELS = (
    "recurrent.recurrent.forward",
    "recurrent.recurrent.backward",
    "recurrent.products.from_x",
    "recurrent.products.pack_columns",
    "recurrent.products.pack_rows",
    "recurrent.products.bias_grad",
    "recurrent.products.weight_grads",
    "matmul.matmul.multiply",
    "optimizer.optimizer.adam",
    "reduction.reduction.sum_columns",
)
States = tuple[Tensor, Tensor]


class TextNetwork(nn.Module):
    """Characters -> scores of the next character after each; an LSTM whose state carries over between batches.

    characters: number of different characters.
    streams: number of texts read in parallel in training.
    width, hidden, layers, dropout: of the embedding and the LSTM.

    In training, the final states of a batch are stored in the buffers ``h`` and ``c``, so that a checkpoint holds them;
    in eval mode they are stored separately. Backpropagation through time is truncated at batch boundaries.
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
        self._eval_states: tuple[np.ndarray, np.ndarray] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """x int64 (N, 1 + T): first 1 if the row continues row n of the previous batch and 0 if it starts anew, then
        the codes of T characters -> scores (T * N, characters), step by step."""
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
        """codes int64 (T, N) -> scores (T * N, characters), and the states after them."""
        y, states = self.lstm(self.embedding(codes), states)
        return self.head(self.dropout(y.reshape(-1, y.shape[2]))), states


class SeriesNetwork(nn.Module):
    """The last values of a series -> the next ones, by a GRU.

    horizon: number of values to predict.
    hidden: units of the GRU.

    The network predicts changes from the last value, so it starts near the forecast that nothing changes.
    """

    def __init__(self, horizon: int, hidden: int = 32) -> None:
        super().__init__()
        self.gru = nn.GRU(1, hidden)
        self.head = nn.Linear(hidden, horizon)

    def forward(self, x: Tensor) -> Tensor:
        """x (N, T) -> (N, horizon)."""
        _, h = self.gru(Tensor(x.array.T[:, :, np.newaxis]))
        return self.head(h[0]) + x[:, -1:]
