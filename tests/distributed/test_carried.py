"""ShardedTrainer(carried=...): states that a model carries from batch to batch are split into shards."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.distributed import ShardedTrainer
from retrograd.distributed.batch_shards import bounds
from retrograd.distributed.process_group import ProcessGroup
from retrograd.distributed.sharded_training import ShardedBatch


class Recurrent(nn.Module):
    """h = tanh(x W + h); the state of stream n is h[:, n]."""

    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(0)
        self.weight = nn.Parameter(rg.tensor(rng.standard_normal((3, 4))))
        self.register_buffer("h", rg.zeros(2, 7, 4, dtype=rg.float64))
        self.register_buffer("count", rg.zeros(1, dtype=rg.float64))

    def forward(self, x):
        first = rg.tanh(x @ self.weight + rg.tensor(self.h.array[0, : len(x)].copy()))
        second = rg.tanh(first + rg.tensor(self.h.array[1, : len(x)].copy()))
        self.h.array[:, : len(x)] = np.stack([first.array, second.array])
        return second


def states(weight, batches):
    """The result by definition, computed for all streams at once."""
    h = np.zeros((2, 7, 4))
    for x in batches:
        h[0, : len(x)] = np.tanh(x @ weight + h[0, : len(x)])
        h[1, : len(x)] = np.tanh(h[0, : len(x)] + h[1, : len(x)])
    return h


def sharded(x, shards):
    cuts = bounds(len(x), shards)
    return ShardedBatch(np.diff(cuts), lambda shard: rg.tensor(x[cuts[shard] : cuts[shard + 1]]))


def alone():
    return ProcessGroup(None, [0], 1.0)


@pytest.mark.parametrize("shards", [1, 3, 7, 16])
def test_each_shard_has_the_states_of_its_samples(shards):
    model = Recurrent()
    optimizer = rg.optim.SGD(model.parameters(), lr=0.0)
    trainer = ShardedTrainer(model, optimizer, shards=shards, process_group=alone(), seed=0, carried={"h": 1})
    rng = np.random.default_rng(1)
    batches = [rng.standard_normal((count, 3)) for count in (7, 7, 5, 7, 2)]
    for x in batches:
        trainer.step(sharded(x, shards), lambda part: (model(part) ** 2).mean())
    expected = states(model.weight.array, batches)
    np.testing.assert_allclose(model.h.numpy(), expected, rtol=0, atol=1e-14)
    assert np.abs(expected).min() > 0


def test_a_step_that_fails_leaves_the_states():
    model = Recurrent()
    before = model.h.array
    trainer = ShardedTrainer(
        model, rg.optim.SGD(model.parameters()), shards=2, process_group=alone(), seed=0, carried={"h": 1}
    )

    def fails(part):
        model(part)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        trainer.step(sharded(np.ones((4, 3)), 2), fails)
    assert model.h.array is before and not before.any()


@pytest.mark.parametrize(
    ("carried", "message"),
    [
        ({"c": 1}, r"axis 1 of 'c' must be one of a buffer; the model has \{'h': \(2, 7, 4\), 'count': \(1,\)\}"),
        ({"h": 3}, "axis 3 of 'h' must be"),
        ({"h": -1}, "axis -1 of 'h' must be"),
    ],
)
def test_messages(carried, message):
    model = Recurrent()
    with pytest.raises(ValueError, match=message):
        ShardedTrainer(model, rg.optim.SGD(model.parameters()), process_group=alone(), seed=0, carried=carried)


def test_more_samples_than_entries():
    model = Recurrent()
    trainer = ShardedTrainer(
        model, rg.optim.SGD(model.parameters()), shards=2, process_group=alone(), seed=0, carried={"h": 1}
    )
    with pytest.raises(ValueError, match="carried buffer h has 7 entries along axis 1, and the batch 8 samples"):
        trainer.step(sharded(np.ones((8, 3)), 2), model)
