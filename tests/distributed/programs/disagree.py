"""Processes that disagree: the last one does something else."""

import sys

import retrograd as rg
import retrograd.distributed as dist
from retrograd import nn

dist.init_process_group(timeout=60 if sys.argv[1] == "absent" else 3)
rank, size = dist.get_rank(), dist.get_world_size()
odd = rank == size - 1
if sys.argv[1] == "shape":
    dist.all_reduce(rg.zeros(3, 4 + odd))
elif sys.argv[1] == "dtype":
    dist.all_reduce(rg.zeros(3, dtype=rg.float64 if odd else rg.float32))
elif sys.argv[1] == "order":
    dist.broadcast(rg.zeros(3), 0) if odd else dist.all_reduce(rg.zeros(3))
elif sys.argv[1] == "root":
    dist.broadcast(rg.zeros(3), int(odd))
elif sys.argv[1] == "parameters":
    nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5 + odd)))
elif sys.argv[1] == "message":
    dist.send(rg.zeros(3, 5), 0) if odd else dist.recv(rg.zeros(4), size - 1)
elif sys.argv[1] == "mode":
    nn.SyncBatchNorm(3).train(not odd)(rg.zeros(2, 3))
    if odd:
        import time

        time.sleep(8)
elif sys.argv[1] == "absent":
    if not odd:
        dist.monitored_barrier(timeout=3)
    import time

    time.sleep(8)
