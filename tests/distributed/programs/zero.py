"""ZeroRedundancyOptimizer against the plain optimizer: zero.py FILE, which it loads if it exists, or writes."""

import copy
import os
import sys

import numpy as np
import pytest

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn
from retrograd.distributed.optim import ZeroRedundancyOptimizer

file = sys.argv[1]
dist.init_process_group(timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(2)
SIZES = (40, 7, 30, 19, 1, 25, 33, 12)


def network():
    rg.manual_seed(1)
    layers = [nn.Linear(a, b) for a, b in zip(SIZES, SIZES[1:], strict=False)]
    layers[2].double()
    return nn.Sequential(*layers)


def groups(model):
    parameters = [*model.parameters()]
    return [{"params": parameters[:9], "lr": 0.02}, {"params": parameters[9:]}]


def step(*pairs):
    """Give the models the same random gradients, and call each optimizer's step."""
    for rows in zip(*(model.parameters() for model, _ in pairs), strict=True):
        g = rng.standard_normal(rows[0].shape)
        for parameter in rows:
            parameter.grad = rg.tensor(g.astype(parameter.array.dtype))
    for _, optimizer in pairs:
        optimizer.step()


def same(a, b):
    for x, y in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_array_equal(x.array, y.array)


def memory(optimizer):
    return sum(
        value.array.nbytes
        for entries in optimizer.state.values()
        for value in entries.values()
        if isinstance(value, rg.Tensor)
    )


CASES = {
    "sgd": (rg.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "adam": (rg.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    "adamw": (rg.optim.AdamW, {"lr": 0.01, "amsgrad": True}),
}
saved = rg.load(file) if os.path.exists(file) else {}
dist.barrier()
for name, (kind, options) in CASES.items():
    model, plain = network(), network()
    optimizer = ZeroRedundancyOptimizer(groups(model), kind, **options)
    other = kind(groups(plain), **options)
    scheduled = rg.optim.lr_scheduler.StepLR(optimizer, 3), rg.optim.lr_scheduler.StepLR(other, 3)
    if saved:  # by another number of processes
        for each, its in ((model, optimizer), (plain, other)):
            each.load_state_dict(saved[name]["model"])
            its.load_state_dict(saved[name]["optimizer"])
        assert optimizer.param_groups[0]["lr"] == other.param_groups[0]["lr"] < 0.02
    for _ in range(20):
        step((model, optimizer), (plain, other))
        for each in scheduled:
            each.step()
        same(model, plain)
    # each process has about 1/n of the state, and each part exists once
    shares = [None] * size
    dist.all_gather_object(shares, memory(optimizer))
    largest = max(parameter.array.nbytes for parameter in model.parameters())
    copies = memory(other) / sum(parameter.array.nbytes for parameter in model.parameters())
    assert sum(shares) == memory(other) and max(shares) - min(shares) <= 2 * copies * largest, shares
    with pytest.raises(RuntimeError, match="call consolidate_state_dict"):
        optimizer.state_dict()
    optimizer.consolidate_state_dict(to=size - 1)
    if rank == size - 1:
        state, expected = optimizer.state_dict(), other.state_dict()
        assert [*state["state"]] == [*expected["state"]] and state["param_groups"] == expected["param_groups"]
        for number, entries in expected["state"].items():
            assert [*state["state"][number]] == [*entries]
            for entry, value in entries.items():
                np.testing.assert_array_equal(np.asarray(state["state"][number][entry]), np.asarray(value))
        if not saved:
            kind(groups(copy.deepcopy(plain)), **options).load_state_dict(state)  # a plain optimizer can load it, too
    else:
        with pytest.raises(RuntimeError, match="the state is in pieces"):
            optimizer.state_dict()
    optimizer.consolidate_state_dict()
    if rank == 0 and not saved:
        saved_now = {"model": dict(model.state_dict()), "optimizer": optimizer.state_dict()}
        so_far = rg.load(file + ".part") if os.path.exists(file + ".part") else {}
        rg.save({**so_far, name: saved_now}, file + ".part")
if rank == 0 and not saved:
    os.rename(file + ".part", file)

# a parameter group added later, a closure, parameters without a gradient, options
model, plain = network(), network()
parameters, others = [*model.parameters()], [*plain.parameters()]
optimizer, other = ZeroRedundancyOptimizer(parameters[:3], rg.optim.SGD, lr=0.5), rg.optim.SGD(others[:3], lr=0.5)
optimizer.add_param_group({"params": parameters[3:7], "lr": 0.25, "name": "later"})
assert optimizer.param_groups[1]["name"] == optimizer.optim.param_groups[1]["name"] == "later"
other.add_param_group({"params": others[3:7], "lr": 0.25})
step((model, optimizer), (plain, other))
same(model, plain)
optimizer.zero_grad(), other.zero_grad()
assert parameters[0].grad is None and parameters[8].grad is not None
parameters[1].grad, others[1].grad = rg.ones(7), rg.ones(7)
optimizer.param_groups[0]["lr"] = other.param_groups[0]["lr"] = 0.125
assert optimizer.step(lambda: 3.5) == other.step(lambda: 3.5) == 3.5
same(model, plain)
assert "lr: 0.125" in repr(optimizer)

with pytest.raises(ValueError, match=r"overlap_with_ddp=True: the step comes after backward"):
    ZeroRedundancyOptimizer(parameters, rg.optim.SGD, overlap_with_ddp=True)
with pytest.raises(TypeError, match="parameters_as_bucket_view"):
    ZeroRedundancyOptimizer(parameters, rg.optim.SGD, parameters_as_bucket_view=2)
with pytest.raises(ValueError, match="LBFGS cannot be partitioned"):
    ZeroRedundancyOptimizer(parameters, rg.optim.LBFGS)
with pytest.raises(TypeError, match="optimizer_class must be a class of optimizers"):
    ZeroRedundancyOptimizer(parameters, "SGD")
with pytest.raises(ValueError, match="SGD: lr=-1 is invalid"):
    ZeroRedundancyOptimizer(parameters, rg.optim.SGD, lr=-1)
with pytest.raises(ValueError, match="listed more than once"):
    optimizer.add_param_group({"params": parameters[0]})
with pytest.raises(ValueError, match="holds 7 parameters, this optimizer's holds 3|has 1 parameter groups"):
    optimizer.load_state_dict(rg.optim.SGD(parameters[:7], lr=1).state_dict())
with pytest.raises(ValueError, match="to=77 is not in the group"):
    optimizer.consolidate_state_dict(77)
if size > 1:
    with pytest.raises(dist.DistError, match=r"ZeroRedundancyOptimizer\(\d parameters"):
        ZeroRedundancyOptimizer(parameters[: 2 + (rank == 0)], rg.optim.SGD, lr=1)
print(f"rank {rank} of {size} passed")
