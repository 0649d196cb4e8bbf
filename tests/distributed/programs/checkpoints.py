"""Checkpoints of several processes: checkpoints.py FOLDER SIZES ...

Writes FOLDER/(number of processes) and reads what SIZES processes have written; then what goes wrong.
"""

import errno
import sys
from pathlib import Path

import numpy as np
import pytest
from state import assert_equal, make_state

import retrograd as rg
import retrograd.distributed as dist
from retrograd.distributed import checkpoint

dist.init_process_group(timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
root = Path(sys.argv[1])
own = root / str(size)
checkpoint.save(make_state(1, rank, size), checkpoint_id=own)
for count in map(int, [*sys.argv[2:], size]):
    state = make_state(2)
    weight = state["model"]["large.weight"]
    state["parts"] = {}
    checkpoint.load(state, checkpoint_id=root / str(count))
    expected = make_state(1)
    expected["parts"] = {}
    for k in range(count):
        expected["parts"] |= make_state(1, k, count)["parts"]
    assert_equal(state, expected)
    assert state["model"]["large.weight"] is weight
    dist.barrier()

# objects with a state_dict, and no_dist
model = rg.nn.Sequential(rg.nn.Linear(3, 4), rg.nn.BatchNorm1d(4))
optimizer = rg.optim.Adam(model.parameters(), lr=0.5)
model(rg.tensor(np.ones((2, 3), np.float32)).add(rank)).sum().backward()
optimizer.step()
checkpoint.save({"model": model, "optimizer": optimizer}, storage_writer=checkpoint.FileSystemWriter(root / "objects"))
fresh = rg.nn.Sequential(rg.nn.Linear(3, 4), rg.nn.BatchNorm1d(4))
other = rg.optim.Adam(fresh.parameters())
checkpoint.load({"model": fresh, "optimizer": other}, storage_reader=checkpoint.FileSystemReader(root / "objects"))
parts = [None] * size
dist.all_gather_object(parts, [fresh.state_dict(), other.state_dict()])
assert_equal(parts[0], parts[-1])
assert other.param_groups[0]["lr"] == 0.5 and other.state_dict()["state"][0]["step"] == 1
if rank == 0:
    checkpoint.save({"alone": rg.ones(3)}, checkpoint_id=root / "alone", no_dist=True)
    checkpoint.load(found := {}, checkpoint_id=root / "alone", no_dist=True)
    assert found["alone"].tolist() == [1, 1, 1]

# a failure in one process is an error in all, and the folder does not change
files = sorted(path.name for path in own.iterdir())
Refused = checkpoint.CheckpointException
if size > 1:
    with pytest.raises(Refused, match=rf"w is float32 \(2,\) in rank 0 and float32 \(3,\) in rank {size - 1}"):
        checkpoint.save({"w": rg.zeros(2 + (rank == size - 1))}, checkpoint_id=own)
    with pytest.raises(Refused, match=r"state_dict\['w'\] is a list of 1 in rank 0 and a dict in"):
        checkpoint.save({"w": {} if rank == size - 1 else [1]}, checkpoint_id=own)
dist.barrier()


def full(*arguments):
    raise OSError(errno.ENOSPC, "No space left on device")


before = checkpoint.write_pieces, checkpoint.write_metadata
if rank == size - 1:
    checkpoint.write_pieces = full
with pytest.raises(Refused, match=r"\.pt was not written.*no space is left on the disk") as caught:
    checkpoint.save(make_state(3, rank, size), checkpoint_id=own)
assert list(caught.value.failures) == [size - 1]
dist.barrier()
assert sorted(path.name for path in own.iterdir()) == files
checkpoint.write_pieces, checkpoint.write_metadata = before[0], full
with pytest.raises(Refused, match=r"metadata\.json was not written.*earlier one is unchanged"):
    checkpoint.save(make_state(3, rank, size), checkpoint_id=own)
dist.barrier()
checkpoint.write_metadata = before[1]
checkpoint.load(state := {}, checkpoint_id=own)
assert state["words"][2] == 1
dist.barrier()
with pytest.raises(Refused, match=r"state_dict\['nothing'\] is not in the checkpoint") as caught:
    checkpoint.load({"nothing" if rank == size - 1 else "words": []}, checkpoint_id=own)
assert list(caught.value.failures) == [size - 1]

# a second checkpoint replaces the first, and no files of that one and of the failed ones are left
checkpoint.save(make_state(4, rank, size), checkpoint_id=own)
dist.barrier()
names = [path.name for path in own.iterdir()]
assert len(names) == size + 1 and not set(names) & set(files) - {"metadata.json"}
dist.barrier()
checkpoint.save(make_state(1, rank, size), checkpoint_id=own)
print(f"rank {rank} of {size} passed")
