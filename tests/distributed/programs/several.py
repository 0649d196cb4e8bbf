"""Runs programs of this folder one after the other in the same processes: several.py "FILE ARGUMENTS" ..."""

import runpy
import sys
from pathlib import Path

import retrograd.distributed as dist

for line in sys.argv[1:]:
    name, *arguments = line.split()
    file = str(Path(__file__).with_name(name))
    sys.argv = [file, *arguments]
    print(f"== {line}", flush=True)
    runpy.run_path(file, run_name="__main__")
    if dist.is_initialized():
        dist.destroy_process_group()
    print(f"{line} ended", flush=True)
