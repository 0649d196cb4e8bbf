"""A search with scikit-learn's GridSearchCV in two processes compared with one.

It makes 8 fits of a convolutional network on the digits; whole commands are timed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from ..harness import Effort, Result

_ROOT = Path(__file__).resolve().parents[2]
_TARGET = 1.7
_SEARCH = """
from sklearn.model_selection import GridSearchCV
from retrograd import nn
from retrograd.data import load_digits
from retrograd.interop.sklearn import RetrogradClassifier

def network(n_outputs, width=16):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(width * 16, n_outputs),
    )

if __name__ == "__main__":
    images, labels = load_digits()
    net = RetrogradClassifier(network, epochs={epochs}, random_state=0)
    grid = {{"module__width": [16, 32], "lr": [0.001, 0.003]}}
    GridSearchCV(net, grid, cv=2, n_jobs={jobs}, refit=False).fit(images[:, None] / 16, labels)
"""


def results(effort: Effort, quick: bool) -> Iterator[Result]:
    epochs, turns = (2, 1) if quick else (300, 3)
    variants = {"two": (2, {}), "one": (1, {}), "one, of one thread": (1, {"RETROGRAD_NUM_THREADS": "1"})}
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(turns):
        for name, (jobs, threads) in variants.items():
            times[name].append(_seconds(_SEARCH.format(epochs=epochs, jobs=jobs), threads))
    for name in ("one", "one, of one thread"):
        rounds = sorted(b / a for a, b in zip(times["two"], times[name], strict=True))
        ratio = median(rounds)
        yield Result(
            group="search",
            name=f"GridSearchCV in two processes beside {name}",
            threads=None,
            unit="s",
            ours=median(times["two"]),
            theirs={f"retrograd, {name}": median(times[name])},
            best=f"retrograd, {name}",
            ratio=ratio,
            spread=(rounds[0], rounds[-1]),
            target=f">= {_TARGET}",
            passed=ratio >= _TARGET,
        )


def _seconds(program: str, threads: dict[str, str]) -> float:
    own = {key: value for key, value in os.environ.items() if key not in ("RETROGRAD_NUM_THREADS", "OMP_NUM_THREADS")}
    start = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=_ROOT, env=own | threads, capture_output=True, check=False, text=True
    )
    if run.returncode:
        raise RuntimeError(f"the search ended with {run.returncode}:\n{run.stderr[-2000:]}")
    return time.perf_counter() - start
