"""Peak memory of one convolution, including its result, with each library in its own process.

A process measures all shapes and passes. For each it creates the arrays and makes one call, so that code and tables are
loaded. Then it frees the library's caches and the allocator's free memory, records the resident memory, resets the
kernel's peak mark, makes another call, and reports the peak above the recorded value.

Winograd's algorithm is chosen for its time, and keeps transformed filters and tiles: it may need twice the memory of
PyTorch's larger layout. The other algorithms may not need more than PyTorch's smaller one.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from retrograd.ops.convolution.plan import passes_of
from retrograd.specs.convolution_options import AUTO

from .. import libraries as lib
from ..harness import Result
from .convolution import PASSES, SHAPES, Shape, ours, peer
from .memory import ROOT, give_back, status

LAYOUTS = ("contiguous", "channels-last")
_NO_HUGE_PAGES = 41  # PR_SET_THP_DISABLE
_EXACT = 0.5  # MiB up to which the kernel's marks can be trusted


def results(threads: int, quick: bool) -> Iterator[Result]:
    mine = _probe("retrograd", threads, quick, "channels-last")
    peers = {layout: _probe("torch", threads, quick, layout) for layout in LAYOUTS}
    for name, shape, kind in _cases(quick):
        peak, theirs = mine[name], {layout: peaks[name] for layout, peaks in peers.items()}
        best = min(theirs, key=theirs.__getitem__)
        limit, target = theirs[best] + _EXACT, f"at most {_EXACT} MiB more"
        if _is_winograd(shape, kind):
            limit, target = max(limit, 2 * max(theirs.values())), "Winograd: at most twice the larger layout"
        yield Result(
            group="peak memory of a convolution",
            name=name,
            threads=threads,
            unit="MiB",
            ours=peak,
            theirs=theirs,
            best=best,
            ratio=theirs[best] / peak,
            target=target,
            passed=peak <= limit,
        )


def _cases(quick: bool) -> Iterator[tuple[str, Shape, str]]:
    """Yield the name, shape and pass of each row."""
    for shapes in SHAPES.values():
        for shape in shapes[:1] if quick else shapes:
            for kind in PASSES:
                yield f"{shape}{' transposed' if shape.transposed else ''} {kind}", shape, kind


def _is_winograd(shape: Shape, kind: str) -> bool:
    channels = (shape.co, shape.ci) if shape.transposed else (shape.ci, shape.co)
    found = passes_of(shape.window, AUTO, shape.n, *channels, "f")
    forward, gradient = ("conv_input_grad", "conv") if shape.transposed else ("conv", "conv_input_grad")
    kernel = {"forward": forward, "input gradient": gradient, "weight gradient": "conv_weight_grad"}[kind]
    return found[kernel].algorithm == "winograd"


def _probe(library: str, threads: int, quick: bool, layout: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.suites.convolution_memory", library, str(threads), layout]
    run = subprocess.run(
        [*command, *(["quick"] if quick else [])], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    peaks: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return peaks


def _peak(library: str, call: Any) -> float:
    call()
    give_back(library)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM becomes VmRSS
    result = call()
    peak = status("VmHWM")
    del result
    return max(peak - before, 1 / 256)


def _measure(library: str, threads: int, layout: str, quick: bool) -> dict[str, float]:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_NO_HUGE_PAGES, 1, 0, 0, 0)  # they count as 2 MiB each
    lib.set_threads(threads)
    peaks = {}
    for name, shape, kind in _cases(quick):
        if kind == PASSES[0]:
            arrays = shape.arrays()
            tensors = [lib.theirs(array, layout) for array in arrays]
        call = ours(shape, kind, arrays) if library == "retrograd" else peer(shape, kind, *tensors)
        peaks[name] = _peak(library, call)
    return peaks


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]), sys.argv[3], "quick" in sys.argv[4:])))
