"""Peak memory of a training step of an LSTM, and of one that keeps few states, each in a process of its own.

A process takes a step, so that code and tables are there; what the library keeps for its next call and what the
allocator holds is given back; the resident memory is noted, the kernel's peak mark set back, and the peak of another
step above the note reported.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from .. import libraries as lib
from ..harness import Result
from .convolution_memory import _NO_HUGE_PAGES, _peak
from .memory import _ROOT

SHAPES = ((50, 64, 256, 256), (20, 16, 1024, 1024))  # T, N, I, H; the loss is on y
LONG = (4096, 16, 64, 64)  # the loss is on the last states: y alone would be most of a tenth


def results(threads: int, quick: bool) -> Iterator[Result]:
    for shape in SHAPES[:1] if quick else SHAPES:
        ours, theirs = (_probe(library, threads, shape, "y") for library in ("retrograd", "torch"))
        yield _result(f"LSTM {shape}", threads, ours, theirs, 1.0)
    if not quick:
        ours, theirs = _probe("retrograd", threads, LONG, "checkpoint"), _probe("torch", threads, LONG, "h")
        yield _result(f"LSTM {LONG}, loss on h, checkpoint='auto'", threads, ours, theirs, 0.1)
        ours = _probe("retrograd", threads, LONG, "h")
        yield _result(f"LSTM {LONG}, loss on h", threads, ours, theirs, 1.0)


def _result(name: str, threads: int, ours: float, theirs: float, share: float) -> Result:
    return Result(
        group="peak memory of a recurrent layer",
        name=name,
        threads=threads,
        unit="MiB",
        ours=ours,
        theirs={"PyTorch": theirs},
        best="PyTorch",
        ratio=theirs / ours,
        target=f">= {1 / share:g}",
        passed=ours <= share * theirs,
    )


def _probe(library: str, threads: int, shape: tuple[int, ...], loss: str) -> float:
    words = [library, str(threads), loss, *map(str, shape)]
    command = [sys.executable, "-m", "benchmarks.suites.recurrent_memory", *words]
    run = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return float(json.loads(run.stdout.splitlines()[-1]))


def _measure(library: str, threads: int, loss: str, shape: tuple[int, ...]) -> float:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_NO_HUGE_PAGES, 1, 0, 0, 0)  # they count as 2 MiB each
    lib.set_threads(threads)
    framework: Any = __import__(library)
    options = {"checkpoint": "auto"} if loss == "checkpoint" else {}
    layer = framework.nn.LSTM(shape[2], shape[3], **options)
    x = framework.tensor(lib.random(*shape[:3]))
    x.requires_grad = True
    g = framework.tensor(lib.random(*((*shape[:2], shape[3]) if loss == "y" else (1, shape[1], shape[3])), seed=9))
    inputs = [x, *layer.parameters()]

    def step() -> Any:
        y, (h, _) = layer(x)
        of = y if loss == "y" else h
        del y, h, _
        return framework.autograd.grad(of, inputs, g)

    return _peak(step)


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]), sys.argv[3], tuple(map(int, sys.argv[4:])))))
