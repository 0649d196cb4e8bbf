"""Peak memory of a training step of a recurrent layer, with and without checkpointing, each library in its own process.

A process measures all rows. For each it takes a step, so that code and tables are loaded. Then it frees the library's
caches and the allocator's free memory, records the resident memory, resets the kernel's peak mark, takes another step,
and reports the peak above the recorded value.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import libraries as lib
from ..harness import Result
from .convolution_memory import _NO_HUGE_PAGES, _peak
from .memory import ROOT
from .recurrent import MODES, SHAPES

LONG = (4096, 16, 64, 64)


class Case(NamedTuple):
    """A mode and (T, N, I, H).

    loss: the input of the loss: y, or the last h, because the gradient of y alone would nearly take a tenth of
        PyTorch's peak.
    checkpoint: whether our layer keeps only the states of some steps.
    share: the fraction of PyTorch's peak that our peak must not exceed.
    """

    mode: str
    shape: tuple[int, ...]
    loss: str = "y"
    checkpoint: bool = False
    share: float = 1.0

    def __str__(self) -> str:
        words = ", loss on h" * (self.loss == "h") + ", checkpoint='auto'" * self.checkpoint
        return f"{self.mode} {self.shape}{words}"


def cases(quick: bool) -> list[Case]:
    shapes = [(shape.steps, shape.batch, shape.inputs, shape.units) for shape in SHAPES if shape.batch > 1]
    if quick:
        return [Case("LSTM", shapes[0])]
    long = [Case(mode, LONG, "h") for mode in MODES]
    # of an RNN the gradient of x alone is a sixth of PyTorch's peak
    long += [Case(mode, LONG, "h", True, 1.0 if mode == "RNN" else 0.1) for mode in MODES]
    return [*(Case(mode, shape) for shape in shapes for mode in MODES), *long]


def results(threads: int, quick: bool) -> Iterator[Result]:
    ours, theirs = (_probe(library, threads, quick) for library in ("retrograd", "torch"))
    for case in cases(quick):
        mine, peer = ours[str(case)], theirs[str(case._replace(checkpoint=False))]
        yield Result(
            group="peak memory of a recurrent layer",
            name=str(case),
            threads=threads,
            unit="MiB",
            ours=mine,
            theirs={"PyTorch": peer},
            best="PyTorch",
            ratio=peer / mine,
            target=f">= {1 / case.share:g}",
            passed=mine <= case.share * peer,
        )


def _probe(library: str, threads: int, quick: bool) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.suites.recurrent_memory", library, str(threads), *["quick"] * quick]
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    peaks: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return peaks


def _measure(library: str, threads: int, quick: bool) -> dict[str, float]:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_NO_HUGE_PAGES, 1, 0, 0, 0)  # they count as 2 MiB each
    lib.set_threads(threads)
    framework: Any = __import__(library)
    own = library == "retrograd"
    return {str(case): _of_step(framework, case) for case in cases(quick) if own or not case.checkpoint}


def _of_step(framework: Any, case: Case) -> float:
    steps, batch, inputs, units = case.shape
    options = {"checkpoint": "auto"} if case.checkpoint else {}
    layer = getattr(framework.nn, case.mode)(inputs, units, **options)
    x = framework.tensor(lib.random(steps, batch, inputs))
    x.requires_grad = True
    g = framework.tensor(lib.random(steps if case.loss == "y" else 1, batch, units, seed=9))
    differentiated = [x, *layer.parameters()]

    def step() -> Any:
        y, states = layer(x)
        of = y if case.loss == "y" else states[0] if case.mode == "LSTM" else states
        del y, states
        return framework.autograd.grad(of, differentiated, g)

    return _peak(framework.__name__, step)


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]), "quick" in sys.argv[3:])))
