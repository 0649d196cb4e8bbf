"""Peak memory of one convolution, including its result, with each library in its own process.

A process measures all shapes and passes. For each it creates the arrays and makes one call, so that code and tables are
loaded. Then it frees the library's caches and the allocator's free memory, records the resident memory, resets the
kernel's peak mark, makes another call, and reports the peak above the recorded value.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import libraries as lib
from ..harness import Result
from .convolution import PASSES, SHAPES, ours, peer
from .memory import _ROOT, _status

LAYOUTS = ("contiguous", "channels-last")
_NO_HUGE_PAGES = 41  # PR_SET_THP_DISABLE
_EXACT = 0.5  # MiB up to which the kernel's marks can be trusted


def results(threads: int, quick: bool) -> Iterator[Result]:
    mine = _probe("retrograd", threads, quick, "channels-last")
    peers = {layout: _probe("torch", threads, quick, layout) for layout in LAYOUTS}
    for name, peak in mine.items():
        theirs = {layout: peaks[name] for layout, peaks in peers.items()}
        best = min(theirs, key=theirs.__getitem__)
        yield Result(
            group="peak memory of a convolution",
            name=name,
            threads=threads,
            unit="MiB",
            ours=peak,
            theirs=theirs,
            best=best,
            ratio=theirs[best] / peak,
            target=f"at most {_EXACT} MiB more",
            passed=peak <= theirs[best] + _EXACT,
        )


def _probe(library: str, threads: int, quick: bool, layout: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.suites.convolution_memory", library, str(threads), layout]
    run = subprocess.run(
        [*command, *(["quick"] if quick else [])], cwd=_ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    peaks: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return peaks


def _give_back() -> None:
    """Return all unused memory to the system."""
    from retrograd.kernels.compiled.machine import scratch

    scratch.forget()
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)


def _peak(call: Any) -> float:
    call()
    _give_back()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM becomes VmRSS
    result = call()
    peak = _status("VmHWM")
    del result
    return max(peak - before, 1 / 256)


def _measure(library: str, threads: int, layout: str, quick: bool) -> dict[str, float]:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_NO_HUGE_PAGES, 1, 0, 0, 0)  # they count as 2 MiB each
    lib.set_threads(threads)
    peaks = {}
    for shapes in SHAPES.values():
        for shape in shapes[:1] if quick else shapes:
            arrays = shape.arrays()
            tensors = [lib.theirs(array, layout) for array in arrays]
            for kind in PASSES:
                call = ours(shape, kind, arrays) if library == "retrograd" else peer(shape, kind, *tensors)
                peaks[f"{shape}{' transposed' if shape.transposed else ''} {kind}"] = _peak(call)
    return peaks


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]), sys.argv[3], "quick" in sys.argv[4:])))
