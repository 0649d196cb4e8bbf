"""Datasets that worker processes can import."""

import os
import random
import signal
import time
from dataclasses import dataclass

import numpy as np

from retrograd import nn
from retrograd.data import Dataset, IterableDataset, get_worker_info
from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import kernel_setting
from retrograd.ops.random.random import default_generator, initial_seed


@dataclass
class Noisy(Dataset):
    """Samples (index, random number, an array); fails at a given index."""

    length: int = 10
    fail_at: int = -1
    how: str = ""
    folder: str = ""

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index == self.fail_at:
            act(self.how)
        return index, float(default_generator.random()), np.full((2, 3), index, np.float32)


class OwnError(Exception):
    def __init__(self, one, two):
        super().__init__(one)
        self.two = two


def act(how: str) -> None:
    if how == "raise":
        raise KeyError("no such sample")
    if how == "own":
        raise OwnError("bad", "luck")  # cannot be unpickled
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(3)
    if how == "wait":
        time.sleep(60)


class Who(Dataset):
    """Samples (process id, worker, number of workers, whether this is the worker's dataset, kernel threads)."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        info = get_worker_info()
        if info is None:
            return os.getpid(), -1, 0, True, ""
        return os.getpid(), info.id, info.num_workers, info.dataset is self, os.environ["RETROGRAD_NUM_THREADS"]


class Convolving(Dataset):
    """Runs compiled kernels in the worker."""

    def __init__(self):
        self.layer = nn.Conv2d(3, 8, 3, padding=1)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.layer(Tensor(np.full((1, 3, 16, 16), index, np.float32))).detach()


class Chosen(Dataset):
    """Samples (the worker's kernel set, its convolution algorithm)."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return kernel_setting()


class Shared(IterableDataset):
    """Each worker has its share of the numbers."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.count, step))


def seeds_and_draws():
    """(worker, its seed by get_worker_info, its seed by initial_seed, a number from NumPy, one from Python)"""
    info = get_worker_info()
    return info.id, info.seed, initial_seed(), int(np.random.randint(10**9)), random.random()


class Seeds(Dataset):
    """Two samples for each of two workers."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return seeds_and_draws()


class SeedStream(IterableDataset):
    """Two samples from each worker."""

    def __iter__(self):
        return (seeds_and_draws() for _ in range(2))


class Shuffled(IterableDataset):
    """Numbers in an order that is drawn before the first sample."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self):
        return iter(default_generator.permutation(self.count).tolist())


def seed_numpy(worker: int) -> None:
    np.random.seed(initial_seed() % 2**32)


def seed_numpy_and_draw(worker: int) -> None:
    np.random.seed(worker)
    random.seed(default_generator.random())


def leave_a_mark(worker: int) -> None:
    mark = os.environ["RETROGRAD_TEST_FOLDER"]
    with open(os.path.join(mark, f"{worker}-{os.getpid()}"), "w"):
        pass


def fail(worker: int) -> None:
    raise ValueError(f"worker {worker} does not want to")


def unpicklable_batch(items):
    return lambda: items
