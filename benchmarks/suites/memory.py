"""Peak memory of networks, with each library in its own process.

A training step: the process builds the network and takes steps on a single sample; code, tables and optimizer state
are then loaded. It returns what is free to the system, notes its resident memory, takes steps on the whole batch, and
reports the peak of further steps above that. Steps of a compiled network are recorded before the peak is measured; what
the recording holds counts.
Inference is measured in the same way.
"""

from __future__ import annotations

import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from ..harness import Effort, Result
from ..models import NETWORKS, Workload, two_convolutions

TRAINING, INFERENCE = "training step", "inference"
REPLAYED = {TRAINING: "compiled", INFERENCE: "frozen"}
LAYOUTS = ("contiguous", "channels-last")
PAIR = "3×3"  # two convolutions
NAMES = [*NETWORKS, PAIR]
ROOT = Path(__file__).resolve().parents[2]


def results(threads: int, effort: Effort) -> Iterator[Result]:
    turns = range(min(3, effort.repeats))
    for name in NAMES:
        for job in (TRAINING, INFERENCE):
            layouts = LAYOUTS if name == PAIR or len(NETWORKS[name].shape) == 3 else LAYOUTS[:1]
            theirs = {layout: [_probe("torch", name, threads, job, layout) for _ in turns] for layout in layouts}
            for how in ("", REPLAYED[job]):
                _probe("retrograd", name, threads, job, how)  # compile kernels now, not during the measurement
                ours = [_probe("retrograd", name, threads, job, how) for _ in turns]
                yield _row(name, threads, f"{how} {job}".strip(), "above the state before", ours, theirs)
                if not how and job == TRAINING and name in ("LeNet, batch 64", PAIR):
                    yield _row(name, threads, job, "whole process", ours, theirs)


def _row(
    name: str,
    threads: int,
    job: str,
    kind: str,
    ours: list[dict[str, float]],
    theirs: dict[str, list[dict[str, float]]],
) -> Result:
    mine = median(peak[kind] for peak in ours)
    peers = {layout: median(peak[kind] for peak in peaks) for layout, peaks in theirs.items()}
    best = min(peers, key=peers.__getitem__)
    counts = kind != "whole process"
    return Result(
        group="peak memory",
        name=f"{name} {job}" if counts else f"{name} {job}, {kind}",
        threads=threads,
        unit="MiB",
        ours=mine,
        theirs=peers,
        best=best,
        ratio=peers[best] / mine,
        target=">= 1" if counts else "",
        passed=peers[best] >= mine if counts else None,
    )


def _probe(library: str, name: str, threads: int, job: str, how: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.suites.memory", library, name, str(threads), job, how]
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    peak: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return peak


def status(field: str) -> float:
    """Return a field of /proc/self/status in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}: peak memory is measured on Linux only")


def _measure(library: str, name: str, threads: int, job: str, how: str) -> dict[str, float]:
    framework: Any = __import__(library)
    framework.set_num_threads(threads)
    framework.manual_seed(0)
    work = NETWORKS.get(name) or Workload(two_convolutions, 8, (64, 56, 56), 64, NETWORKS["LeNet, batch 64"].optimizer)
    data, labels = work.batch(1)
    net, x, y = work.make(framework.nn), framework.tensor(data), framework.tensor(labels)
    if library == "torch" and how == "channels-last":
        net, x = net.to(memory_format=framework.channels_last), x.to(memory_format=framework.channels_last)
    make, forget = (_training if job == TRAINING else _inference)(framework, work, name, net, how)
    one = [each[:1].clone() if len(work.shape) == 3 else each[:, :1].clone() for each in (x, y)]
    run = make()
    for _ in range(3):  # also a recording of its own, which is dropped
        run(*one)
    run = make()
    forget()
    give_back(library)
    before = status("VmRSS")
    for _ in range(2):  # a recording is made and replayed
        run(x, y)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM becomes VmRSS
    for _ in range(3):
        run(x, y)
    peak = status("VmHWM")
    return {"above the state before": max(peak - before, 1 / 256), "whole process": peak}


def give_back(library: str) -> None:
    """Return the library's unused memory, and the allocator's, to the system."""
    if library == "retrograd":
        from retrograd.kernels.compiled.machine import scratch

        scratch.forget()
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)


# what makes a step, and what drops the gradients that it leaves
_Run = tuple[Callable[[], Callable[[Any, Any], Any]], Callable[[], None]]


def _training(framework: Any, work: Workload, name: str, net: Any, how: str) -> _Run:
    optimizer, functional = work.optimizer(framework.optim, net.parameters()), framework.nn.functional

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x), x) if name == PAIR else work.loss(functional, net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return lambda: framework.compile(step) if how == "compiled" else step, optimizer.zero_grad


def _inference(framework: Any, work: Workload, name: str, net: Any, how: str) -> _Run:
    def make() -> Callable[[Any, Any], Any]:
        forward = net.eval().freeze() if how == "frozen" else net.eval()

        def read(x: Any, y: Any) -> None:
            with framework.inference_mode():
                forward(x)

        return read

    return make, lambda: None


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])))
