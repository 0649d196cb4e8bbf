"""``retrograd warmup`` and ``retrograd info``: the compiled kernels and their target."""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

from .output import say

__all__ = ["add_commands"]


def add_commands(commands: Any) -> None:
    warmup = commands.add_parser("warmup", help="compile all kernels now instead of at first use")
    warmup.add_argument("--dtype", choices=("float32", "float64"), help="only the kernels of this type (both)")
    warmup.set_defaults(run=_warmup)

    info = commands.add_parser("info", help="show versions, CPU, threads and the compile cache")
    info.set_defaults(run=_info)


def _warmup(arguments: argparse.Namespace) -> int:
    from ..kernels import warmup
    from ..kernels.compiled.machine import cache
    from ..train.progress import CompilationLine

    start = perf_counter()
    count = warmup({"float32": "f", "float64": "d"}.get(arguments.dtype, "fd"), CompilationLine())
    say(f"{count} kernels ready after {perf_counter() - start:.1f} s, in {cache.folder()}")
    return 0


def _info(arguments: argparse.Namespace) -> int:
    import textwrap

    from ..kernels.compiled.machine import cache
    from ..kernels.compiled.machine.target import cpu
    from ..train.environment import machine, versions

    features = " ".join(name[1:] for name in cpu()[1].split(",") if name.startswith("+"))
    rows = {
        **versions(),
        **machine(),
        "CPU features": features or f"those of {cpu()[0]}",
        "Cache folder": str(cache.folder()),
        "Cache size": f"{cache.size() / 1e6:.1f} MB",
    }
    width = max(map(len, rows)) + 2
    for name, value in rows.items():
        say(textwrap.fill(value, 100, initial_indent=name.ljust(width), subsequent_indent=" " * width) or name)
    return 0
