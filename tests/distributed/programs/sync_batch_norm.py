"""SyncBatchNorm over the processes' batches against BatchNorm of one process with the whole batch."""

import copy

import numpy as np
import pytest

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn

dist.init_process_group(timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
rng = np.random.default_rng(11)


def drawn(*shape):
    return rng.standard_normal(shape) * 3 + 1.5


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def parts(array, ends):
    return array[ends[rank] : ends[rank + 1]]


def gathered(array):
    """Concatenate the parts of all processes."""
    found = [None] * size
    dist.all_gather_object(found, rg.tensor(array))
    return np.concatenate([each.numpy() for each in found])


def added(array):
    x = rg.tensor(array)
    dist.all_reduce(x)
    return x.numpy()


# values and gradients; the batches have different sizes, and one is empty
ends = np.cumsum([0, *((k * 5 + 3) % 7 for k in range(size))])
if size > 2:
    ends[2:] -= ends[2] - ends[1]
for shape, plain_class, options in (
    ((4, 5, 3), nn.BatchNorm2d, {}),
    ((6,), nn.BatchNorm1d, {"momentum": None}),
    ((2, 3, 2, 2), nn.BatchNorm3d, {"bias": False}),
    ((3, 7), nn.BatchNorm1d, {"affine": False, "track_running_stats": False}),
):
    plain = plain_class(shape[0], dtype=rg.float64, **options)
    if plain.weight is not None:
        plain.weight.array[...] = drawn(shape[0])
    sync = nn.SyncBatchNorm(shape[0], dtype=rg.float64, shards=5, **options)
    sync.load_state_dict(plain.state_dict())
    for _ in range(2):  # the second batch moves the running statistics on
        whole, g, v = (drawn(ends[-1], *shape) for _ in range(3))
        x, own = rg.tensor(whole).requires_grad_(), rg.tensor(parts(whole, ends)).requires_grad_()
        y, z = plain(x), sync(own)
        close(z.detach().numpy(), parts(y.detach().numpy(), ends))
        # first order, and second order through a product with another random array
        (gx,) = rg.autograd.grad(y, x, rg.tensor(g), create_graph=True)
        (gz,) = rg.autograd.grad(z, own, rg.tensor(parts(g, ends)), create_graph=True)
        close(gz.detach().numpy(), parts(gx.detach().numpy(), ends))
        (gx * rg.tensor(v)).sum().backward()
        (gz * rg.tensor(parts(v, ends))).sum().backward()
        close(own.grad.numpy(), parts(x.grad.numpy(), ends))
        plain.zero_grad(), sync.zero_grad()
        plain(x).backward(rg.tensor(g))
        sync(own).backward(rg.tensor(parts(g, ends)))
        for mine, all_ in zip(sync.parameters(), plain.parameters(), strict=True):
            close(added(mine.grad.numpy()), all_.grad.numpy())
        for mine, all_ in zip(sync.buffers(), plain.buffers(), strict=True):
            close(mine.numpy(), all_.numpy())
    assert [*sync.state_dict()] == [*plain.state_dict()]

    # in eval mode nothing is exchanged, so one process can be alone in it
    plain.eval(), sync.eval()
    if rank == 0 and plain.track_running_stats:
        for mine, all_ in zip(sync.buffers(), plain.buffers(), strict=True):
            mine.array[...] = all_.array
        np.testing.assert_array_equal(sync(own).detach().numpy(), plain(own).detach().numpy())

# the same bits for any distribution of the shards: compare with a group of this process alone that has all shards
alone = dist.ProcessGroup(None, [0], 60)
x, g = rng.standard_normal((2, 24, 8, 3, 5)).astype(np.float32)
found = []
for group, low, high in ((None, rank * 24 // size, (rank + 1) * 24 // size), (alone, 0, 24)):
    layer = nn.SyncBatchNorm(8, process_group=group, shards=12)
    own = rg.tensor(x[low:high]).requires_grad_()
    y = layer(own)
    y.backward(rg.tensor(g[low:high]))
    found.append([y.detach().numpy(), own.grad.numpy(), *(b.numpy() for b in layer.buffers())])
for k, (mine, all_) in enumerate(zip(*found, strict=True)):
    if k < 2:
        all_ = all_[rank * 24 // size : (rank + 1) * 24 // size]
    np.testing.assert_array_equal(mine, all_)

# converting
model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3, eps=1e-3, momentum=0.2), nn.Sequential(nn.BatchNorm1d(4)))
model[1].weight.grad_req = "write"
model[2][0].eval()
shared = nn.BatchNorm1d(2)
model.add_module("first", shared)
model.add_module("again", shared)
before = {**dict(model.named_parameters()), **dict(model.named_buffers())}
names = [*model.state_dict()]
other = copy.deepcopy(model)
converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
assert converted is model and [*model.state_dict()] == names
assert {**dict(model.named_parameters()), **dict(model.named_buffers())} == before
assert all(tensor is before[name] for name, tensor in model.named_parameters())
layer = model[1]
assert type(layer) is nn.SyncBatchNorm and (layer.eps, layer.momentum, layer.num_features) == (1e-3, 0.2, 3)
assert layer.training and not model[2][0].training and model.first is model.again
assert isinstance(layer, nn.modules.batchnorm._BatchNorm)
single = nn.SyncBatchNorm.convert_sync_batchnorm(other[1], dist.new_group())
assert single.weight is other[1].weight and single.process_group.size() == size
assert copy.deepcopy(single).process_group is single.process_group
with pytest.raises(ValueError, match="is lazy; give the module a batch first"):
    nn.SyncBatchNorm.convert_sync_batchnorm(nn.LazyBatchNorm1d())
with pytest.raises(TypeError, match="module must be a Module"):
    nn.SyncBatchNorm.convert_sync_batchnorm(3)

# messages
layer = nn.SyncBatchNorm(3)
with pytest.raises(ValueError, match="input has 4 channels, needs num_features=3"):
    layer(rg.zeros(2, 4))
with pytest.raises(ValueError, match="needs 2 axes or more"):
    layer(rg.zeros(3))
with pytest.raises(ValueError, match="each channel has 1 elements in all processes"):
    layer(rg.zeros(int(rank == 0), 3))
with pytest.raises(ValueError, match="shards=0 must be a positive int, or None"):
    nn.SyncBatchNorm(3, shards=0)
if size > 1:
    with pytest.raises(ValueError, match=f"shards=1 must be at least {size}, the number of processes"):
        nn.SyncBatchNorm(3, shards=1)(rg.zeros(2, 3))
    with pytest.raises(dist.DistError, match=rf"SyncBatchNorm\({2 if rank else 3} channels, float32\)"):
        nn.SyncBatchNorm(3 if rank else 2)(rg.zeros(2, 3 if rank else 2))
print(f"rank {rank} of {size} passed")
