"""A process killed while a checkpoint is written: killed_writer.py FOLDER RANK PLACE COUNT.

FOLDER holds a checkpoint of seed 1; this writes one of seed 2, and RANK kills itself at its COUNT-th call of PLACE.
"""

import os
import signal
import sys
import zipfile

from state import make_state

import retrograd.distributed as dist
from retrograd.distributed import checkpoint, checkpoint_format

folder, victim, place, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
dist.init_process_group(timeout=60)
rank, size = dist.get_rank(), dist.get_world_size()
owner, name = {
    "record": (zipfile.ZipFile, "open"),
    "fsync": (os, "fsync"),
    "replace": (os, "replace"),
    "unlink": (os, "unlink"),
    "pieces": (checkpoint, "write_pieces"),
    "exchange": (checkpoint, "exchange_objects"),
    "root": (checkpoint, "from_root"),
    "metadata": (checkpoint_format, "write_atomically"),
    "remove": (checkpoint, "remove_others"),
}[place]
original, calls = getattr(owner, name), 0


def counted(*args, **kwargs):
    global calls
    calls += 1
    if calls == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*args, **kwargs)


if rank == victim:
    setattr(owner, name, counted)
try:
    checkpoint.save(make_state(2, rank, size), checkpoint_id=folder)
    print("written")
except dist.WorkerLostError:
    print("lost")
