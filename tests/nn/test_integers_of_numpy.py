"""NumPy integers as counts: ``nn.Linear(4, array.max() + 1)`` means the same as with a Python int."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd
from retrograd import nn

X = retrograd.tensor(np.random.default_rng(0).standard_normal((2, 4, 6)).astype(np.float32))
CASES = {
    "Linear": lambda i: nn.Linear(i(6), i(2))(X),
    "Conv1d": lambda i: nn.Conv1d(i(4), i(2), i(3), groups=i(2))(X),
    "Embedding": lambda i: nn.Embedding(i(5), i(3))(retrograd.tensor([1, 2])),
    "LayerNorm": lambda i: nn.LayerNorm((i(4), i(6)))(X),
    "LayerNorm, one axis": lambda i: nn.LayerNorm(i(6))(X),
    "GroupNorm": lambda i: nn.GroupNorm(i(2), i(4))(X),
    "topk": lambda i: X.topk(i(2))[0],
    "kthvalue": lambda i: X.kthvalue(i(2))[0],
    "roll": lambda i: retrograd.roll(X, i(1), i(1)),
    "diff": lambda i: retrograd.diff(X, i(1)),
    "histc": lambda i: retrograd.histc(X, i(3)),
    "bincount": lambda i: retrograd.bincount(retrograd.tensor([1, 2]), minlength=i(4)),
}


@pytest.mark.parametrize("name", CASES)
def test_counts_of_numpy(name):
    results = []
    for kind in (int, np.int64, np.int32):
        retrograd.manual_seed(0)
        results.append(CASES[name](kind).detach().numpy())
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_period_of_numpy():
    optimizer = retrograd.optim.SGD([nn.Parameter(X.clone())], lr=0.5)
    scheduler = retrograd.optim.lr_scheduler.StepLR(optimizer, np.int64(1))
    optimizer.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.05]


def test_a_truth_value_is_no_count():
    with pytest.raises(ValueError, match="out_features=True must be an int of at least 0"):
        nn.Linear(4, True)


@pytest.mark.parametrize("shape", [(3, 40), (2, 3, 4, 5, 6)])
def test_dropout2d_of_other_inputs(shape):
    """(N, C) and (N, C, *I) beyond images, as in PyTorch: whole channels, with a warning."""
    x = retrograd.ones(shape)
    with pytest.warns(UserWarning, match="is read as .N, C, .I., which is deprecated; write dropout"):
        y = nn.functional.dropout2d(x, 0.5).numpy().reshape(shape[0] * shape[1], -1)
    assert {0.0, 2.0} == set(np.unique(y)) and (y == y[:, :1]).all()
