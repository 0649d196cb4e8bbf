"""The network of these tests: convolution, batch norm, dropout, an LSTM, and an unused layer."""

import numpy as np

import retrograd as rg
from retrograd import nn


class Network(nn.Module):
    def __init__(self, dropout=0.3):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.drop = nn.Dropout(dropout)
        self.lstm = nn.LSTM(6, 10, batch_first=True)
        self.last = nn.Linear(10, 5)
        self.unused = nn.Linear(3, 3)

    def forward(self, x):
        h = self.drop(rg.relu(self.norm(self.conv(x))))
        h = h.flatten(2).permute(0, 2, 1).reshape(x.shape[0], -1, 6)
        return self.last(self.lstm(h)[0][:, -1])


def batches(steps, samples=16):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((64, 1, 7, 6)).astype(np.float32)
    y = rng.integers(0, 5, 64)
    for _ in range(steps):
        chosen = rng.permutation(64)[:samples]
        yield x[chosen], y[chosen]
