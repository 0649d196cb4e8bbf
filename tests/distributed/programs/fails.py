"""Process 1 fails while the others wait for it: fails.py raise | exit."""

import sys

import retrograd as rg
import retrograd.distributed as dist

dist.init_process_group(timeout=60)
if dist.get_rank() == 1:
    if sys.argv[1] == "exit":
        sys.exit(3)
    raise ValueError("a fault of its own")
dist.all_reduce(rg.ones(3))
