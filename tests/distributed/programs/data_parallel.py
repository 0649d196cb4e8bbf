"""The gradients of DistributedDataParallel against those of one process that has the whole batch."""

import copy
import sys
from collections import OrderedDict
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest
from network import Network, batches

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn
from retrograd.nn.functional import cross_entropy
from retrograd.nn.parallel import DistributedDataParallel

dist.init_process_group(timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
kind = {"shards": {"shards": 4}, "whole": {"reproducible": False}}[sys.argv[1]]


def part(array):
    return rg.tensor(array[rank * len(array) // size : (rank + 1) * len(array) // size])


def grads(module):
    return {name: None if p.grad is None else p.grad.numpy().copy() for name, p in module.named_parameters()}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, each in expected.items():
        if each is None:
            assert found[name] is None, name
        else:
            np.testing.assert_allclose(found[name], each, rtol=2e-4, atol=2e-6, err_msg=name)


class Net(nn.Module):
    """A network without batch norm, whose statistics would be those of a shard."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, groups=1)
        self.gru = nn.GRU(4, 6, batch_first=True)
        self.shared = nn.Linear(6, 6)
        self.last = nn.Linear(6, 5)
        self.unused = nn.Linear(2, 2)

    def forward(self, x):
        h = rg.relu(self.conv(x)).flatten(2).permute(0, 2, 1)
        h = self.shared(rg.tanh(self.shared(self.gru(h)[0][:, -1])))
        return {"scores": self.last(h), "pair": (h, [h.mean()])}


rg.manual_seed(3)
plain = Net()
model = DistributedDataParallel(copy.deepcopy(plain), bucket_cap_mb=0.0005, **kind)
if rank:  # other processes have another memory order of the weights
    model.module.conv.weight.array = np.ascontiguousarray(model.module.conv.weight.array)
    assert model.module.conv.weight.array.strides != plain.conv.weight.array.strides
(x, y), (x2, y2) = batches(2, 12)


def loss_of(module, x, y):
    out = module(x)
    return cross_entropy(out["scores"], y) + 0.1 * (out["pair"][0] ** 2).mean() + 0.3 * out["pair"][1][0]


loss_of(plain, rg.tensor(x), rg.tensor(y)).backward()
loss_of(model, part(x), part(y)).backward()
first = grads(plain)
assert_same(grads(model.module), first)
assert first["unused.weight"] is None and model.waited >= 0

# the gradients of a second batch are added, exchanged or not
loss_of(plain, rg.tensor(x2), rg.tensor(y2)).backward()
loss_of(model, part(x2), part(y2)).backward()
assert_same(grads(model.module), grads(plain))
model.zero_grad()
with model.no_sync():
    loss_of(model, part(x), part(y)).backward()
loss_of(model, part(x2), part(y2)).backward()
assert_same(grads(model.module), grads(plain))

# a penalty outside the module, "write" instead of "add", a hook, a rule, frozen parameters
for module in (plain, model.module):
    module.zero_grad()
    module.last.weight.grad_req = "write"
    module.gru.weight_hh_l0.register_hook(lambda g: 2 * g)
    module.conv.weight.requires_grad = False
for module, a, b in ((plain, rg.tensor(x), rg.tensor(y)), (model, part(x), part(y))):
    inner = getattr(module, "module", module)
    (loss_of(module, a, b) + 0.5 * (inner.last.weight**2).sum()).backward()
assert_same(grads(model.module), grads(plain))
assert model.module.conv.weight.grad is None

# gradients of the input
a, b = rg.tensor(x).requires_grad_(), part(x).requires_grad_()
loss_of(plain, a, rg.tensor(y)).backward()
loss_of(model, b, part(y)).backward()
np.testing.assert_allclose(b.grad.numpy() / size, part(a.grad.numpy()).numpy(), rtol=2e-4, atol=2e-6)

# eval mode calls the module directly, with any number of samples
model.eval()
with rg.no_grad():
    np.testing.assert_array_equal(
        model(rg.tensor(x[:1]))["scores"].numpy(), model.module(rg.tensor(x[:1]))["scores"].numpy()
    )
assert [*model.state_dict()] == [f"module.{name}" for name in plain.state_dict()]

if sys.argv[1] == "shards":
    model.train()
    if size < 3:  # then each process has two shards or more
        with pytest.raises(ValueError, match=r"first axes of \[0\]; each must be the batch, of at least one sample"):
            model(rg.tensor(x[:0]))
    with pytest.raises(ValueError, match=r"shards=0 must be an int of at least"):
        DistributedDataParallel(Net(), shards=0)


# a batch that leaves some shards without samples: one sample in each process
class Small(nn.Module):
    """Returns numbers for each sample, and their mean."""

    def __init__(self, norm):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), norm, nn.Tanh(), nn.Linear(4, 2))

    def forward(self, x):
        y = self.layers(x)
        return y, y.square().mean()


for norm in (nn.LayerNorm(4), nn.BatchNorm1d(4)):
    plain = Small(norm)
    model = DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain)), **kind)
    data = [np.random.default_rng(seed).normal(size=(max(size, 2), 3)).astype("f") for seed in (8, 9)]
    for each in data:
        y, mean = plain(rg.tensor(each))
        (y.abs().mean() + mean).backward()
    for each, around in zip(data, (model.no_sync(), nullcontext()), strict=True):
        given = part(each).requires_grad_()
        with around:
            y, mean = model(given)
            (y.abs().mean() + mean).backward()
        assert len(y) == len(given) and np.abs(given.grad.numpy()).min() > 0
    assert_same(grads(model.module), grads(plain))

# a mean over shards of several sizes
plain = Small(nn.LayerNorm(4))
model = DistributedDataParallel(copy.deepcopy(plain), **kind)
data = np.random.default_rng(8).normal(size=(11 * size, 3)).astype("f")
expected, found = plain(rg.tensor(data))[1], model(part(data))[1]
for each in (expected, found):
    each.backward()
dist.all_reduce(found.detach(), dist.ReduceOp.AVG)
np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-5)
assert_same(grads(model.module), grads(plain))

# error messages of ShardedTrainer and others
x, y = next(batches(1, 64))
states = [None] * size
network = Network(dropout=0.0)
trainer = dist.ShardedTrainer(network, rg.optim.SGD(network.parameters(), lr=0.1), seed=1)
for batch in dist.ShardedLoader(rg.utils.data.TensorDataset(rg.tensor(x[:19]), rg.tensor(y[:19])), 16):
    trainer.step(batch, lambda x, y: cross_entropy(network(x), y))
dist.all_gather_object(states, dict(network.state_dict()))
for state in states:
    assert state["norm.num_batches_tracked"].item() == 2
    for name, value in network.state_dict().items():
        np.testing.assert_array_equal(state[name].numpy(), value.numpy(), err_msg=name)
with pytest.raises(TypeError, match="module must be a Module"):
    DistributedDataParallel(3)
with pytest.raises(RuntimeError, match="one device, the CPU"):
    DistributedDataParallel(Net(), device_ids=[0])
if size > 3:
    network = nn.SyncBatchNorm.convert_sync_batchnorm(network)
    trainer = dist.ShardedTrainer(network, rg.optim.SGD(network.parameters(), lr=0.1), seed=1)
    *_, batch = dist.ShardedLoader(rg.utils.data.TensorDataset(rg.tensor(x[:10]), rg.tensor(y[:10])), 8)
    with pytest.raises(ValueError, match=r"2 samples in 8 shards leaves none to process 0, .*drop_last=True"):
        trainer.step(batch, lambda x, y: cross_entropy(network(x), y))


class Summed(nn.Module):
    """A module with a collective, which would run for each shard."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        y = self.linear(x)
        dist.all_reduce(y.detach())
        return y


summed = DistributedDataParallel(Summed(), **kind)
if sys.argv[1] == "shards" and size < 4:
    with pytest.raises(dist.DistError, match=r"all_reduce\(.*runs once for each shard.*pass reproducible=False"):
        summed(rg.ones(8, 2))
else:
    summed(rg.ones(8, 2)).sum().backward()


@dataclass(frozen=True)
class Both:
    """As Transformers return it."""

    scores: rg.Tensor
    mean: rg.Tensor


class Named(OrderedDict):
    """Likewise."""

    def __getattr__(self, name):
        return self[name]


class Hidden:
    """An object of which nothing is known."""

    def __init__(self, scores, mean):
        self.scores, self.mean = scores, mean


class Returns(nn.Module):
    """A module that takes and returns a container."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.linear = nn.Linear(2, 3)

    def forward(self, x):
        y = self.linear(x.scores)
        return self.kind(scores=y, mean=y.square().mean())


inputs = rg.tensor(np.random.default_rng(3).normal(size=(48, 2)).astype("f"))
for container in (Both, Named):
    rg.manual_seed(1)
    plain = Returns(container)
    model = DistributedDataParallel(copy.deepcopy(plain), **kind)
    plain(Both(inputs, None)).mean.backward()
    found = model(Both(part(inputs.numpy()), None))
    assert type(found) is container and found.scores.shape == (len(part(inputs.numpy())), 3)
    found.mean.backward()
    np.testing.assert_allclose(model.module.linear.weight.grad.numpy(), plain.linear.weight.grad.numpy(), rtol=1e-4)
with pytest.raises(TypeError, match=r"the module returns Hidden, in which the gradients of its tensors would be lost"):
    DistributedDataParallel(Returns(Hidden), **kind)(Both(part(inputs.numpy()), None))
if sys.argv[1] == "shards" and size < 4:
    with pytest.raises(TypeError, match="an input is Hidden, whose tensors would not be cut into shards"):
        DistributedDataParallel(Returns(Both), **kind)((Hidden(inputs, None), inputs))
frozen = Network().requires_grad_(False)
with pytest.raises(ValueError, match="no parameter that requires a gradient"):
    DistributedDataParallel(frozen)
print(f"rank {rank} of {size} passed")
