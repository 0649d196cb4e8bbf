"""Entry point of a worker started by a launcher: ``python -m`` this module, the script, its arguments."""

from __future__ import annotations

import os
import runpy
import sys

from . import mpi
from .mpi import set_environment


def main() -> None:
    set_environment()
    try:
        _run()
    except SystemExit as end:
        mpi.record_exit_code(end.code)
        raise


def _run() -> None:
    del sys.argv[0]
    target = sys.argv[0]
    if target == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(target))
        runpy.run_path(target, run_name="__main__")


if __name__ == "__main__":
    main()
