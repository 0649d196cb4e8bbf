"""Every collective against NumPy's result on the inputs of all processes, which every process knows."""

import numpy as np
import pytest

import retrograd as rg
import retrograd.distributed as dist
from retrograd.distributed import ReduceOp

dist.init_process_group("gloo", timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
assert dist.is_initialized() and dist.get_backend() == "mpi"
assert dist.get_process_group_ranks() == list(range(size))


def values(owner, shape=(3, 5), dtype=np.float32):
    """Return the data of process `owner`."""
    drawn = np.random.default_rng(owner).integers(1, 9, shape)
    return (drawn / 4).astype(dtype) if np.dtype(dtype).kind == "f" else drawn.astype(dtype)


def own(shape=(3, 5), dtype=np.float32):
    return rg.tensor(values(rank, shape, dtype))


COMBINED = {
    "SUM": sum,
    "PRODUCT": lambda all_: np.prod(list(all_), axis=0),
    "MIN": lambda all_: np.min(list(all_), axis=0),
    "MAX": lambda all_: np.max(list(all_), axis=0),
    "AVG": lambda all_: np.mean(list(all_), axis=0),
}

for dtype in (np.float32, np.float64, np.int64):
    for op, combine in COMBINED.items():
        if op == "AVG" and dtype is np.int64:
            continue
        expected = combine([values(k, dtype=dtype) for k in range(size)]).astype(dtype)
        x = own(dtype=dtype)
        assert dist.all_reduce(x, getattr(ReduceOp, op)) is None
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6)
        x = own(dtype=dtype)
        dist.reduce(x, size - 1, op)
        np.testing.assert_allclose(x.numpy(), expected if rank == size - 1 else values(rank, dtype=dtype), rtol=1e-6)
bits = rg.tensor([1 << rank, 6])
dist.all_reduce(bits, ReduceOp.BOR)
assert bits.tolist() == [2**size - 1, 6]

# a tensor that is not contiguous, and the record of the in-place change
x = rg.zeros(4, 6)
x[:, ::2] = own((4, 3))
part = x[:, ::2]
dist.all_reduce(part)
np.testing.assert_array_equal(x.numpy()[:, ::2], sum(values(k, (4, 3)) for k in range(size)))
assert not x.numpy()[:, 1::2].any()
p = own().requires_grad_()
y = (p * p).sum()
dist.broadcast(p.data, 0)
with pytest.raises(RuntimeError, match="broadcast"):
    y.backward()

for src in range(size):
    x = own()
    work = dist.broadcast(x, src, async_op=True)
    assert work.wait() and work.is_completed()
    np.testing.assert_array_equal(x.numpy(), values(src))

found = [rg.zeros(3, 5) for _ in range(size)]
dist.all_gather(found, own())
for k, each in enumerate(found):
    np.testing.assert_array_equal(each.numpy(), values(k))
stacked = np.stack([values(k) for k in range(size)])
for shape in ((size * 3, 5), (size, 3, 5)):
    whole = rg.zeros(*shape)
    dist.all_gather_into_tensor(whole, own())
    np.testing.assert_array_equal(whole.numpy(), stacked.reshape(shape))

root = size - 1
found = [rg.zeros(3, 5) for _ in range(size)] if rank == root else None
dist.gather(own(), found, root)
if found is not None:
    np.testing.assert_array_equal(np.stack([each.numpy() for each in found]), stacked)
x = rg.zeros(3, 5)
dist.scatter(x, [rg.tensor(values(10 + k)) for k in range(size)] if rank == root else None, root)
np.testing.assert_array_equal(x.numpy(), values(10 + rank))

x = rg.zeros(3, 5)
dist.reduce_scatter(x, [rg.tensor(values(rank + 100 * k)) for k in range(size)])
np.testing.assert_array_equal(x.numpy(), sum(values(k + 100 * rank) for k in range(size)))
whole = rg.tensor(np.concatenate([values(rank + 100 * k) for k in range(size)]))
dist.reduce_scatter_tensor(x, whole, ReduceOp.AVG)
np.testing.assert_allclose(x.numpy(), np.mean([values(k + 100 * rank) for k in range(size)], axis=0), rtol=1e-6)

found = [rg.zeros(3, 5) for _ in range(size)]
dist.all_to_all(found, [rg.tensor(values(rank + 100 * k)) for k in range(size)])
for k, each in enumerate(found):
    np.testing.assert_array_equal(each.numpy(), values(k + 100 * rank))
# process r sends k + 1 rows to process k
sent = np.concatenate([np.full((k + 1, 2), 10 * rank + k) for k in range(size)]).astype(np.float32)
x = rg.zeros(size * (rank + 1), 2)
dist.all_to_all_single(x, rg.tensor(sent), [rank + 1] * size, [k + 1 for k in range(size)])
np.testing.assert_array_equal(x.numpy(), np.repeat(10 * np.arange(size) + rank, rank + 1)[:, None] * np.ones(2))

# messages in a ring, with the send first or the receive first
after, before = (rank + 1) % size, (rank - 1) % size
if size > 1:
    for shape in ((3, 5), (300, 500)):
        x, y = own(shape), rg.zeros(*shape)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, y, before, tag=0)])
        for work in works:
            work.wait()
        np.testing.assert_array_equal(y.numpy(), values(before, shape))
    if rank == 0:
        seen = {dist.recv(y, tag=3) for _ in range(size - 1)}
        assert seen == set(range(1, size))
    else:
        dist.send(own((300, 500)), 0, tag=3)

objects = [None] * size
mine = {"rank": rank, "text": "é" * rank, "numbers": [1, 2.5, None, True], "tensor": own(), 3: (rank, [])}
dist.all_gather_object(objects, mine)
for k, each in enumerate(objects):
    assert (each["rank"], each["text"], each["numbers"], each[3]) == (k, "é" * k, [1, 2.5, None, True], (k, []))
    np.testing.assert_array_equal(each["tensor"].numpy(), values(k))
listed = [rank, {"a": rank}] if rank == root else [None, None]
dist.broadcast_object_list(listed, root)
assert listed == [root, {"a": root}]
out = [None]
dist.scatter_object_list(out, [f"for {k}" for k in range(size)] if rank == root else None, root)
assert out == [f"for {rank}"]
found = [None] * size if rank == 0 else None
dist.gather_object(rank * 2, found, 0)
assert found == ([2 * k for k in range(size)] if rank == 0 else None)


class Stranger:
    """An object whose pickle could execute code."""


with pytest.raises(TypeError, match="Stranger"):
    dist.all_gather_object([None] * size, Stranger())

# groups: the even ranks, in reverse order
even = list(range(0, size, 2))[::-1]
group = dist.new_group(even)
if rank in even:
    assert dist.get_rank(group) == even.index(rank) == dist.get_group_rank(group, rank)
    assert [dist.get_global_rank(group, k) for k in range(len(even))] == even
    x = own()
    dist.all_reduce(x, group=group)
    np.testing.assert_allclose(x.numpy(), sum(values(k) for k in even), rtol=1e-6)
    x = own()
    dist.broadcast(x, even[0], group)
    np.testing.assert_array_equal(x.numpy(), values(even[0]))
else:
    assert group is dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(group) == -1
    with pytest.raises(RuntimeError, match="not in the group"):
        dist.all_reduce(own(), group=group)

# argument errors, which every process finds before it communicates
with pytest.raises(ValueError, match="op='sum' must be one of ReduceOp"):
    dist.all_reduce(own(), "sum")
with pytest.raises(ValueError, match="AVG divides"):
    dist.all_reduce(rg.tensor([1]), ReduceOp.AVG)
with pytest.raises(ValueError, match="combines the bits of integers"):
    dist.all_reduce(own(), ReduceOp.BXOR)
with pytest.raises(TypeError, match="tensor must be a Tensor, got ndarray"):
    dist.all_reduce(np.zeros(3))
with pytest.raises(ValueError, match=f"tensor_list has 1 tensors, expected {size}" if size > 1 else "float32"):
    dist.all_gather([rg.zeros(2)], own())
with pytest.raises(ValueError, match=r"src=77 is not in the group"):
    dist.broadcast(own(), 77)
with pytest.raises(ValueError, match="expected float32"):
    dist.all_gather_into_tensor(rg.zeros(7), own())
with pytest.raises(ValueError, match="this process|not in the group"):
    dist.send(own(), rank)
with pytest.raises(ValueError, match="must be different numbers from 0"):
    dist.new_group([0, 0])
with pytest.raises(RuntimeError, match="called twice"):
    dist.init_process_group()

dist.monitored_barrier()
dist.barrier()
dist.destroy_process_group()
with pytest.raises(RuntimeError, match=r"init_process_group\(\) first"):
    dist.get_rank()
print(f"rank {rank} of {size} passed")
