"""DistributedDataParallel in unusual orders of calls, in several processes. Prints digests that do not depend on their
number, and checks the rest against one process that has the whole batch."""

import copy
import hashlib

import numpy as np
import pytest

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn
from retrograd.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from retrograd.nn.parallel import DistributedDataParallel
from retrograd.rules import Noise

dist.init_process_group(timeout=20)
rank, size = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(3)
x, x2, g = (rng.standard_normal((16, n)).astype(np.float32) for n in (4, 4, 3))
PLAIN = {"reproducible": False}


def part(array):
    return rg.tensor(array[rank * len(array) // size : (rank + 1) * len(array) // size])


def network():
    rg.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, affine=False, momentum=0.3), nn.Tanh(), nn.Linear(6, 3))


def same_everywhere(what, *arrays):
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()
    digests = [None] * size
    dist.all_gather_object(digests, digest)
    assert len(set(digests)) == 1, what
    if rank == 0:
        print(what, digest)


def assert_same_grads(plain, parallel, what):
    for a, b in zip(plain.parameters(), parallel.module.parameters(), strict=True):
        np.testing.assert_allclose(b.grad.numpy(), a.grad.numpy(), rtol=2e-4, atol=2e-6, err_msg=what)


# two forwards before one backward, of small parameters that share a bucket, exchanged by the tree, whole, by a hook
plain = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
((plain(rg.tensor(x)) * rg.tensor(g)).mean() + (plain(rg.tensor(x2)) * rg.tensor(g)).mean()).backward()
for options, hook in (({}, None), (PLAIN, None), (PLAIN, allreduce_hook)):
    model = DistributedDataParallel(copy.deepcopy(plain), **options)
    model.zero_grad()
    if hook is not None:
        model.register_comm_hook(None, hook)
    ((model(part(x)) * part(g)).mean() + (model(part(x2)) * part(g)).mean()).backward()
    assert_same_grads(plain, model, f"two forwards {options} {hook}")


# buffers that forward assigns
class Averages(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("average", rg.zeros(4))

    def forward(self, x):
        self.average = 0.5 * self.average + 0.5 * x.detach().mean(0)
        return self.layer(x + self.average)


def trained(model, steps=2):
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(part(x)) * part(g)).mean().backward()
        optimizer.step()
    return [value.numpy() for value in model.state_dict().values()]


rg.manual_seed(0)
same_everywhere("assigned", *trained(DistributedDataParallel(Averages())))


# a backward that draws random numbers, and is not linear in its gradient
class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x):
        with rg.override_backward(rg.tanh, Noise(0.1)):
            return rg.tanh(self.net(x))


same_everywhere("noise", *trained(DistributedDataParallel(Noisy())))

# a gradient with stride 0, in its own bucket
for options in ({}, PLAIN):
    gain = nn.Module()
    gain.weight = nn.Parameter(rg.tensor(rng.standard_normal((400, 900)).astype(np.float32)))
    gain.forward = lambda x, gain=gain: x[:, :1] * gain.weight.mean()
    model = DistributedDataParallel(gain, **options)
    (model(part(x)) * part(g)[:, :1]).mean().backward()
    expected = (x[:, :1] * g[:, :1]).mean() / gain.weight.numel()
    np.testing.assert_allclose(gain.weight.grad.numpy(), expected, rtol=1e-3, atol=1e-9)


# a backward that fails in all processes after a bucket was sent
class Fails(rg.autograd.Function):
    on = False

    @staticmethod
    def forward(ctx, x):
        return rg.tensor(x.array.copy())

    @staticmethod
    def backward(ctx, g):
        if Fails.on:
            raise ArithmeticError("planted")
        return g


class Fragile(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 60), nn.Linear(60, 3)

    def forward(self, x):
        return self.last(Fails.apply(rg.tanh(self.first(x))))


for options in ({}, PLAIN):
    plain = Fragile()
    model = DistributedDataParallel(plain, bucket_cap_mb=1e-4, **options)
    plain = copy.deepcopy(plain)
    (plain(rg.tensor(x)) * rg.tensor(g)).mean().backward()
    for _ in range(3):
        Fails.on = True
        with pytest.raises(ArithmeticError, match="planted"):
            (model(part(x2)) * part(g)).mean().backward()
        Fails.on = False
        model.zero_grad()
        (model(part(x)) * part(g)).mean().backward()
        assert_same_grads(plain, model, "after a backward that failed")

# one process saves after a forward without a backward
model = DistributedDataParallel(network())
model(part(x))
if rank == 0:
    model.eval()
    assert not model.state_dict()["module.1.running_mean"].numpy().any()
    model.train()
dist.barrier()
(model(part(x)) * part(g)).mean().backward()
same_everywhere("skipped", *(value.numpy() for value in model.state_dict().values()))

# parameters that are frozen between a backward and the step of a ZeroRedundancyOptimizer
model = DistributedDataParallel(network())
optimizer = dist.optim.ZeroRedundancyOptimizer(model.parameters(), rg.optim.SGD, lr=0.1)
(model(part(x)) * part(g)).mean().backward()
for parameter in model.parameters():
    parameter.requires_grad_(False)
optimizer.step()
same_everywhere("frozen", *(value.numpy() for value in model.state_dict().values()))

# a process that skips a backward
model = DistributedDataParallel(network(), broadcast_buffers=False)
if size > 1:
    y = model(part(x))
    if rank == size - 1:
        y = model(part(x))
    with pytest.raises(dist.DistError, match=rf"not at the same step: .*rank {size - 1} at number 1, exchange 1"):
        y.backward(part(g))
print(f"rank {rank} of {size} passed")
