"""One trial of the sweeps: a small network learns to read digits with ``retrograd.train.fit``."""

from __future__ import annotations

from collections.abc import Iterable

import retrograd as rg
from data import digits
from retrograd import nn
from retrograd.train import Callback, fit


def trial(lr: float, channels: int, dropout: float, epochs: int, callbacks: Iterable[Callback] = ()) -> float:
    """Train on one core, calling ``callbacks`` after each epoch, and return the accuracy on the held-out digits."""
    rg.set_num_threads(1)
    rg.manual_seed(0)
    x, y, x_held_out, y_held_out = digits()
    model = nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(channels * 16, 10),
    )
    history = fit(
        model,
        (x, y),
        epochs=epochs,
        batch_size=64,
        optimizer=rg.optim.Adam(model.parameters(), lr=lr),
        held_out=(x_held_out, y_held_out),
        callbacks=callbacks,
        progress=False,
    )
    return history[-1]["held_out_accuracy"]
