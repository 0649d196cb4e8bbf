"""Processes with different numbers of batches, within ``join``, against one process with all batches."""

import copy
import sys

import numpy as np
import pytest

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn
from retrograd.distributed.algorithms.join import Join
from retrograd.nn.parallel import DistributedDataParallel
from retrograd.optim import SGD

dist.init_process_group(timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
kind = {"shards": {}, "whole": {"reproducible": False}}[sys.argv[1]]
counts = [2 + 2 * ((each + 1) % size) for each in range(size)]  # the first process does not have the most
generator = np.random.default_rng(5)
inputs = [[rg.tensor(generator.normal(size=(16, 4)).astype("f")) for _ in range(count)] for count in counts]


def loss(module, x):
    return module(x).square().mean()


def network(norm=None):
    rg.manual_seed(7)
    return nn.Sequential(nn.Linear(4, 3), norm or nn.Tanh(), nn.Linear(3, 2))


def arrays(module):
    return [each.detach().numpy().copy() for each in (*module.parameters(), *module.buffers())]


def alone(epochs, by_all):
    """Return the weights after one process has trained on the batches of all."""
    module = network()
    optimizer = SGD(module.parameters(), lr=0.1)
    for _ in range(epochs):
        for step in range(max(counts)):
            batches = [each[step] for each in inputs if step < len(each)]
            optimizer.zero_grad()
            for x in batches:
                (loss(module, x) / (size if by_all else len(batches))).backward()
            optimizer.step()
    return arrays(module)


def together(module, epochs=1, **options):
    """Train the module on this process's batches."""
    model = DistributedDataParallel(module, **kind)
    optimizer = SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        with model.join(**options):
            for x in inputs[rank]:
                optimizer.zero_grad()
                loss(model, x).backward()
                optimizer.step()
    return arrays(module)


def assert_alike(found):
    everyone = [None] * size
    dist.all_gather_object(everyone, [rg.tensor(each) for each in found])
    for other in everyone:
        for own, theirs in zip(found, other, strict=True):
            assert own.tobytes() == theirs.numpy().tobytes()


# the gradients of processes with a batch, and zeros from the others
for by_all in (True, False):
    found = together(network(), 2, divide_by_initial_world_size=by_all)
    assert_alike(found)
    for own, expected in zip(found, alone(2, by_all), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-6)

# buffers change by the mean over the processes with a batch, and are equal in all processes at the end
assert_alike(together(network(nn.BatchNorm1d(3))))
quiet = network(nn.BatchNorm1d(3, momentum=1.0))
model = DistributedDataParallel(quiet, **kind)
with model.join():
    for _ in range(counts[rank]):
        model(rg.ones(16, 4))
np.testing.assert_allclose(quiet[1].running_mean.numpy(), quiet[0](rg.ones(1, 4))[0].detach().numpy(), rtol=1e-5)
assert quiet[1].num_batches_tracked.item() >= max(counts)

# no_sync, forwards without a backward, and eval mode
module = network()
model = DistributedDataParallel(module, **kind)
with model.join():
    for x in inputs[rank]:
        with model.no_sync():
            loss(model, x).backward()
        with rg.no_grad():
            model(x)
        two = loss(model, x), loss(model, x)
        (two[0] + two[1]).backward()
        model.eval()
        with rg.no_grad():
            model(x)
        model.train()
assert_alike(arrays(module))

# the same under another name
with Join([model]):
    for x in inputs[rank]:
        loss(model, x).backward()
assert_alike(arrays(module))
with pytest.raises(TypeError, match=r"Join: joinables\[1\] is SGD, expected a DistributedDataParallel; give all"):
    Join([model, SGD(model.parameters(), lr=0.1)])
with pytest.raises(ValueError, match="Join: joinables has 2 models, expected one"):
    Join([model, model])

# throw_on_early_termination
with model.join(enable=False):
    pass
with pytest.raises(ZeroDivisionError), model.join():
    1 / 0  # noqa: B018
assert model.uneven is None

# refused
with pytest.raises(ValueError, match="join: the module has SyncBatchNorm, which needs a part of every batch"):
    together(nn.SyncBatchNorm.convert_sync_batchnorm(network(nn.BatchNorm1d(3))))
with pytest.raises(TypeError, match="join: divide_by_initial_world_size"):
    together(network(), divide_by_initial_world_size=2)
if size > 1:
    with pytest.raises(RuntimeError, match=r"join: ranks? [0-9, to]+ has no batch left, and throw_on_early_term"):
        together(network(), throw_on_early_termination=True)

    # another collective, in which processes without a batch do not take part
    model = DistributedDataParallel(copy.deepcopy(network()), **kind)
    with pytest.raises(dist.DistError) as caught, model.join():
        for x in inputs[rank][: 1 + (rank == 0)]:
            value = loss(model, x)
            value.backward()
            if rank == 0 and x is inputs[0][1]:
                dist.all_reduce(value.detach())
    text = str(caught.value)
    assert "all_reduce(float32 (), SUM)" in text and "DistributedDataParallel.join: no batch is left" in text
print(f"rank {rank} of {size} passed")
