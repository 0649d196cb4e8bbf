"""Hooks of DistributedDataParallel against NumPy on the gradients of all processes, and their traffic."""

import numpy as np
import pytest
from traffic import Counting, count_traffic

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn
from retrograd.distributed.algorithms.ddp_comm_hooks import TopK, topk_hook
from retrograd.distributed.algorithms.ddp_comm_hooks import default_hooks as default
from retrograd.nn.parallel import DistributedDataParallel

count_traffic()
dist.init_process_group(timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(8)
STEPS = 4
data = rng.standard_normal((STEPS, size, 5, 60)).astype(np.float32)
upstream = rng.standard_normal((STEPS, size, 5, 9)).astype(np.float32)


def network():
    rg.manual_seed(0)
    return nn.Sequential(nn.Linear(60, 50), nn.Tanh(), nn.Linear(50, 9))


def gradients_of(owner, step):
    """Return the gradients of process `owner` in a step, flat."""
    model = network()
    model(rg.tensor(data[step, owner])).backward(rg.tensor(upstream[step, owner]))
    return np.concatenate([parameter.grad.numpy().reshape(-1) for parameter in model.parameters()])


def trained(state, hook, cap=1.0, steps=STEPS):
    """Return the exchanged gradients of all steps, flat, and the number of bytes sent."""
    model = DistributedDataParallel(network(), reproducible=False, bucket_cap_mb=cap)
    if hook is not None:
        model.register_comm_hook(state, hook)
    found, Counting.sent = [], 0
    for step in range(steps):
        model.zero_grad()
        model(rg.tensor(data[step, rank])).backward(rg.tensor(upstream[step, rank]))
        found.append(np.concatenate([parameter.grad.numpy().reshape(-1) for parameter in model.parameters()]))
    # a flag for each of the four parameters, whether it was used, and four numbers that tell the step
    return np.stack(found), Counting.sent - steps * 2 * (4 * 8 * (size - 1) // size)


every = np.array([[gradients_of(owner, step) for owner in range(size)] for step in range(STEPS)])
mean = every.mean(1, dtype=np.float64)
plain, whole = trained(None, None)
np.testing.assert_allclose(plain, mean, rtol=1e-4, atol=1e-6)
found, sent = trained(None, default.allreduce_hook)
np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-7)  # MPI chooses the order of additions
assert abs(sent / max(whole, 1) - (size > 1)) < 0.01, (sent, whole)
entries = mean.shape[1]
for cap in (1.0, 0.003):  # one bucket, and several
    for hook, precision in ((default.bf16_compress_hook, 2**-8), (default.fp16_compress_hook, 2**-11)):
        found, sent = trained(None, hook, cap)
        # each process's share is rounded, then their sum
        bound = precision * (np.abs(every).mean(1) + np.abs(mean)) + 1e-6
        assert (np.abs(found - mean) <= bound).all()
        if size > 1:
            assert (found != plain).mean() > 0.5
            assert abs(sent / whole - 0.5) < 0.01, (sent, whole)

# top-k: every process keeps what it has not sent
ratio = 0.05
for cap, ends in ((1.0, [0, entries]), (0.003, [0, 3000, 3050, 3500, 3509])):
    memory, expected = np.zeros((size, entries), np.float32), []
    for step in range(STEPS):
        memory += every[step]
        total = np.zeros(entries, np.float32)
        for owner in range(size):
            for low, high in zip(ends, ends[1:], strict=False):
                count = int(np.ceil(ratio * (high - low)))
                chosen = low + np.argsort(-np.abs(memory[owner, low:high]), kind="stable")[:count]
                total[chosen] += memory[owner, chosen]
                memory[owner, chosen] = 0
        expected.append(total / size)
    found, sent = trained(TopK(ratio), topk_hook, cap)
    if cap == 1.0:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        if size > 1:
            assert abs(sent / (STEPS * entries * ratio * 8 * (size - 1)) - 1) < 0.02, sent
state = TopK(1.0)
np.testing.assert_allclose(trained(state, topk_hook)[0], mean, rtol=1e-4, atol=1e-6)  # all gradients have been sent
state = TopK(0.1)
trained(state, topk_hook, steps=2)
resumed = TopK(0.1)
resumed.load_state_dict(state.state_dict())
np.testing.assert_array_equal(trained(resumed, topk_hook)[0], trained(state, topk_hook)[0])
with pytest.raises(ValueError, match=r"state_dict is for ratio=0.1, this one has 0.2"):
    TopK(0.2).load_state_dict(state.state_dict())


# a hook as scripts write it
def doubled(state, bucket):
    assert state == "state" and bucket.buffer().shape == (sum(p.numel() for p in bucket.parameters()),)
    assert [g.shape for g in bucket.gradients()] == [p.shape for p in bucket.parameters()]
    seen.append((bucket.index(), bucket.is_last()))
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda future: future.value()[0] * (2 / dist.get_world_size()))


seen = []
found, _ = trained("state", doubled, 0.003, 1)
np.testing.assert_allclose(found[0], 2 * mean[0], rtol=1e-4, atol=1e-6)
assert seen == [(index, index == len(seen) - 1) for index in range(len(seen))] and len(seen) > 1


def kept(state, bucket):
    future = dist.Future()
    future.set_result(bucket.buffer())
    return future


np.testing.assert_allclose(trained(None, kept)[0], every[:, rank], rtol=1e-5, atol=1e-6)

# nothing is sent in no_sync, with the fixed tree either
x, g = (rg.tensor(each[:2, rank].reshape(10, -1)) for each in (data, upstream))
for options in ({}, {"reproducible": False}):
    model = DistributedDataParallel(network(), **options)
    model(x).backward(g)
    once = [parameter.grad.numpy().copy() for parameter in model.parameters()]
    Counting.sent = 0
    with model.no_sync():
        for _ in range(2):
            model(x).backward(g)
    assert Counting.sent == 0
    own = network()
    own(x).backward(g)
    for parameter, before, local in zip(model.parameters(), once, own.parameters(), strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), before + 2 * local.grad.numpy(), rtol=1e-4, atol=1e-5)
        with pytest.raises(ValueError, match="read-only"):
            parameter.grad.array *= 2
    model(x).backward(g)
    for parameter, before in zip(model.parameters(), once, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), 4 * before, rtol=1e-4, atol=1e-5)
    # other gradients, in the same backward and in one in between, are added once
    model.zero_grad()
    penalty = lambda model: 0.5 * sum((p**2).sum() for p in model.parameters())  # noqa: E731
    with model.no_sync():
        ((model(x) * g).sum() + penalty(model)).backward()
    penalty(model).backward()
    ((model(x) * g).sum() + penalty(model)).backward()
    for parameter, before in zip(model.parameters(), once, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), 2 * before + 3 * parameter.array, rtol=1e-4, atol=1e-5)
    model.zero_grad()
    # what zero_grad has thrown away does not come back, and "write" keeps the last one
    for reset in (lambda model: model.zero_grad(), lambda model: rg.optim.SGD(model.parameters(), 1).zero_grad(False)):
        with model.no_sync():
            model(x).backward(g)
        reset(model)
        model(x).backward(g)
        for parameter, before in zip(model.parameters(), once, strict=True):
            np.testing.assert_allclose(parameter.grad.numpy(), before, rtol=1e-4, atol=1e-5)
    for parameter in model.parameters():
        parameter.grad_req = "write"
    with model.no_sync():
        model(x).backward(g)
    model(x).backward(g)
    for parameter, before in zip(model.parameters(), once, strict=True):
        np.testing.assert_allclose(parameter.grad.numpy(), before, rtol=1e-4, atol=1e-5)

# messages
with pytest.raises(ValueError, match=r"build the model with DistributedDataParallel\(..., reproducible=False\)"):
    DistributedDataParallel(network()).register_comm_hook(None, default.allreduce_hook)
model = DistributedDataParallel(network(), reproducible=False)
with pytest.raises(TypeError, match="hook must be a function"):
    model.register_comm_hook(None, "bf16")
model.register_comm_hook(None, lambda state, bucket: bucket.buffer())
with pytest.raises(RuntimeError, match="call it once, before the first forward"):
    model.register_comm_hook(None, default.allreduce_hook)
with pytest.raises(TypeError, match=r"the hook <lambda> returned Tensor, expected a Future"):
    model(x).backward(g)
model = DistributedDataParallel(network(), reproducible=False)
model.register_comm_hook(None, lambda state, bucket: dist.Future(rg.zeros(2) for _ in ()))
with pytest.raises(TypeError, match="produced NoneType, expected a Tensor of 3509 elements"):
    model(x).backward(g)
with pytest.raises(ValueError, match=r"ratio=0 must be a number above 0"):
    TopK(0)
with pytest.raises(TypeError, match="state must be a TopK, got NoneType"):
    topk_hook(None, None)
print(f"rank {rank} of {size} passed")
