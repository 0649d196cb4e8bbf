"""Peak memory of one training step, with each library in its own process.

The process builds the network and takes one step on a single image: code, tables and optimizer state are then loaded.
It records its resident memory, resets the kernel's peak mark, takes steps on the whole batch and reports the peak above
the recorded value.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ..harness import Effort, Result
from ..models import lenet, two_convolutions

SHAPES = {"LeNet": (64, 1, 28, 28), "3×3": (8, 64, 56, 56)}
LAYOUTS = ("contiguous", "channels-last")
_ROOT = Path(__file__).resolve().parents[2]


def results(threads: int, effort: Effort) -> Iterator[Result]:
    turns = range(min(3, effort.repeats))
    for name, shape in SHAPES.items():
        _probe("retrograd", name, threads, "channels-last")  # compile now, not during the measurement
        ours = [_probe("retrograd", name, threads, "channels-last") for _ in turns]
        theirs = {layout: [_probe("torch", name, threads, layout) for _ in turns] for layout in LAYOUTS}
        for kind, label in (("step", "above the state before it"), ("process", "whole process")):
            mine = median(peak[kind] for peak in ours)
            peers = {layout: median(peak[kind] for peak in peaks) for layout, peaks in theirs.items()}
            best = min(peers, key=peers.__getitem__)
            counts = kind == "step"
            yield Result(
                group="peak memory",
                name=f"{name} training step {shape}, {label}",
                threads=threads,
                unit="MiB",
                ours=mine,
                theirs=peers,
                best=best,
                ratio=peers[best] / mine,
                target=">= 1" if counts else "",
                passed=peers[best] >= mine if counts else None,
            )


def _probe(library: str, name: str, threads: int, layout: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.suites.memory", library, name, str(threads), layout]
    run = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, check=True, text=True)
    peak: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return peak


def _status(field: str) -> float:
    """Return a field of /proc/self/status in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/self/status has no {field}: peak memory is measured on Linux only")


def _measure(library: str, name: str, threads: int, layout: str) -> dict[str, float]:
    framework: Any = __import__(library)
    framework.set_num_threads(threads)
    framework.manual_seed(0)
    images = np.random.default_rng(0).standard_normal(SHAPES[name], dtype=np.float32)
    labels = np.arange(len(images), dtype=np.int64) % 10
    net = lenet(framework.nn) if name == "LeNet" else two_convolutions(framework.nn)
    loss_of = framework.nn.CrossEntropyLoss() if name == "LeNet" else framework.nn.MSELoss()
    x = framework.tensor(images)
    if library == "torch" and layout == "channels-last":
        net, x = net.to(memory_format=framework.channels_last), x.to(memory_format=framework.channels_last)
    y = framework.tensor(labels) if name == "LeNet" else x
    optimizer = framework.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def step(x: Any, y: Any) -> None:
        optimizer.zero_grad()
        loss_of(net(x), y).backward()
        optimizer.step()

    step(x[:1], y[:1])
    optimizer.zero_grad()
    gc.collect()
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM becomes VmRSS
    for _ in range(3):
        step(x, y)
    peak = _status("VmHWM")
    return {"step": max(peak - before, 1 / 256), "process": peak}


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])))
