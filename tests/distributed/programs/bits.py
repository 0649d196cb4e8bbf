"""Trains with this process's part of each batch, and prints a digest of all weights and buffers after all steps.

bits.py STEPS KIND: "batch" by the statistics of each shard, "sync" by those of the whole batch, "accumulate" with
gradients that wait in no_sync.
"""

import hashlib
import sys

from network import Network, batches

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn
from retrograd.nn.parallel import DistributedDataParallel

steps, kinds = int(sys.argv[1]), sys.argv[2:] or ["batch"]
dist.init_process_group(timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
for kind in kinds:
    rg.manual_seed(rank)  # the processes start with different weights; those of the first one are used
    net = Network()
    if kind == "sync":
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    model = DistributedDataParallel(net, bucket_cap_mb=0.002)
    optimizer = rg.optim.Adam(model.parameters(), lr=0.01)

    def backward(x, y, model=model):
        part = slice(rank * len(x) // size, (rank + 1) * len(x) // size)
        nn.functional.cross_entropy(model(rg.tensor(x[part])), rg.tensor(y[part])).backward()

    digest = hashlib.sha256()
    for x, y in batches(steps, 32 if kind == "accumulate" else 16):
        optimizer.zero_grad()
        if kind == "accumulate":
            with model.no_sync():
                backward(x[:16], y[:16])
            x, y = x[16:], y[16:]
        backward(x, y)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        for value in model.state_dict().values():
            digest.update(value.numpy().tobytes())
    digests = [None] * size
    dist.all_gather_object(digests, digest.hexdigest())
    assert len(set(digests)) == 1, digests
    if rank == 0:
        print(f"{kind} digest", digests[0])
