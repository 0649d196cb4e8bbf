"""A model whose first layer is too large to be shown completely; run as a program, it serves its page."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import nn


def explanation() -> Any:
    rg.manual_seed(1)
    model = nn.Sequential(
        OrderedDict(
            wide=nn.Conv2d(8, 40, 3, padding=1),
            relu=nn.ReLU(),
            pool=nn.MaxPool2d(3),
            flat=nn.Flatten(),
            head=nn.Linear(640, 3),
        )
    )
    x = rg.tensor(np.random.default_rng(0).standard_normal((3, 8, 12, 12)).astype(np.float32))
    return rg.explain(model, x, lambda y: (y * y).sum())


if __name__ == "__main__":
    explanation().show(browser=False)
