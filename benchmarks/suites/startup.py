"""Startup time: the import, the first LeNet forward, and ``retrograd train digits`` from command to report.

The compile cache of these processes is a folder created for this run; it is empty or warm, as the row states.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from ..harness import Effort, Result, below

GROUP = "start"
_ROOT = Path(__file__).resolve().parents[2]
_IMPORT = "import time; start = time.perf_counter(); import {0}; print(time.perf_counter() - start)"
_FORWARD = """
import {0}
from benchmarks.models import lenet
net, x = lenet({0}.nn), {0}.zeros(1, 1, 28, 28)
with {0}.no_grad():
    print(float(net(x).sum()))
"""


def results(effort: Effort) -> Iterator[Result]:
    turns = range(effort.repeats)
    times = {name: [float(_python(_IMPORT.format(name))[1]) for _ in turns] for name in ("retrograd", "torch")}
    yield below(GROUP, "import", "s", median(times["retrograd"]), {"PyTorch": median(times["torch"])}, 0.3)
    with tempfile.TemporaryDirectory() as folder:
        cache = {"RETROGRAD_CACHE_DIR": folder}
        cold = _python(_FORWARD.format("retrograd"), cache)[0]
        warm = median(_python(_FORWARD.format("retrograd"), cache)[0] for _ in turns)
        peer = {"PyTorch": median(_python(_FORWARD.format("torch"))[0] for _ in turns)}
        yield below(GROUP, "process with one LeNet forward, warm cache", "s", warm, peer, 1.0)
        yield below(GROUP, "process with one LeNet forward, empty cache", "s", cold, peer, None)
    yield from _digits(effort)


def _digits(effort: Effort) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        cache = {"RETROGRAD_CACHE_DIR": str(Path(folder) / "cache")}
        cold, accuracy = _train(Path(folder) / "cold", cache)
        warm = [_train(Path(folder) / f"warm{turn}", cache)[0] for turn in range(effort.repeats)]
    yield below("digits", "retrograd train digits, empty cache", "s", cold, {}, 25.0)
    yield below("digits", "retrograd train digits, warm cache", "s", median(warm), {}, 8.0)
    yield Result(
        group="digits",
        name="accuracy on the held-out fifth",
        threads=None,
        unit="%",
        ours=accuracy,
        target=">= 98.5 %",
        passed=accuracy >= 98.5,
    )


def _python(code: str, extra: dict[str, str] | None = None) -> tuple[float, str]:
    """Return the seconds from start to end of a new process, and its output."""
    return _run([sys.executable, "-c", code], extra)


def _run(command: list[str], extra: dict[str, str] | None) -> tuple[float, str]:
    start = time.perf_counter()
    run = subprocess.run(
        command, cwd=_ROOT, env={**os.environ, **(extra or {})}, capture_output=True, check=False, text=True
    )
    seconds = time.perf_counter() - start
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {run.returncode}:\n{run.stderr[-2000:]}")
    return seconds, run.stdout


def _train(output: Path, cache: dict[str, str]) -> tuple[float, float]:
    """Return wall-clock seconds, including the report, and held-out accuracy in percent, of ``train digits``."""
    seconds, text = _run([sys.executable, "-m", "retrograd", "train", "digits", "--output", str(output)], cache)
    found = re.search(r"held-out accuracy ([0-9.]+)%", text)
    if not found:
        raise RuntimeError(f"retrograd train digits printed no accuracy:\n{text[-2000:]}")
    return seconds, float(found[1])
