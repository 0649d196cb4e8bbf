"""``python -m benchmarks.pool_worker LIBRARY SOCKET``: a process of a pool, started and controlled by process_pool.py.

It stays on one core, with one thread, and waits on its socket between two requests. A request is a line of JSON with
the name of a method of Worker and its arguments.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from .models import WORKLOADS, Workload

CONTIGUOUS, CHANNELS_LAST = "contiguous", "channels-last"
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")


class Worker:
    """The methods that a process answers requests with. A request goes to all processes, or only to the first one.

    The variants of a training step are, for both libraries:

        alone     without communication

    for retrograd:

        in step   alone, followed by a barrier
        plain     DistributedDataParallel with reproducible=False
        tree      DistributedDataParallel with reproducible=True
        whole     one process computes the batch of all processes, with the same bits as tree

    and for PyTorch:

        ddp       DistributedDataParallel

    The names of PyTorch's variants include the memory layout, as in "ddp, contiguous".
    """

    def __init__(self, library: str, rank: int) -> None:
        self.framework: Any = importlib.import_module(library)
        self.distributed: Any = importlib.import_module(f"{library}.distributed")
        self.framework.set_num_threads(1)
        self.distributed.init_process_group("gloo")
        self.rank, self.size = rank, self.distributed.get_world_size()
        self.models: dict[str, Any] = {}
        self._steps: dict[str, Callable[[], Any]] = {}
        self._first: Any = None  # the group of the first process

    def build(self, network: str) -> None:
        """Create one network for each variant, all with the same weights."""
        work = WORKLOADS[network]
        net = work.make(self.framework.nn)
        _fill(self.framework, net)
        self._steps, self.models = {}, {}
        for variant, layout, options in self._variants(work):
            model = deepcopy(net)
            if layout == CHANNELS_LAST:
                model = model.to(memory_format=self.framework.channels_last)
            if options is not None:
                self.framework.manual_seed(0)  # dropout is the same in all variants
                model = self.framework.nn.parallel.DistributedDataParallel(model, **options)
            self.models[variant] = model
            step = self._step(work, model, layout, variant == "whole")
            self._steps[variant] = partial(_then, step, self.distributed.barrier) if variant == "in step" else step

    def _variants(self, work: Workload) -> Iterator[tuple[str, str, dict[str, Any] | None]]:
        """Yield the name and layout of each variant, and its options of DistributedDataParallel, None without it."""
        if self.framework.__name__ == "torch":
            for layout in (CONTIGUOUS, CHANNELS_LAST)[: len(work.shape)]:
                yield f"alone, {layout}", layout, None
                yield f"ddp, {layout}", layout, {}
            return
        yield "alone", "", None
        yield "in step", "", None
        yield "plain", "", {"reproducible": False}
        yield "tree", "", {}
        if self._first is None:
            self._first = self.distributed.new_group([0])
        if self.rank == 0:
            yield "whole", "", {"process_group": self._first}

    def values(self, variant: str, steps: int) -> dict[str, Any]:
        """Return the losses of `steps` steps, and a digest of the weights after them."""
        losses = [float(self._steps[variant]().item()) for _ in range(steps)]
        digest = hashlib.sha256()
        for parameter in self.models[variant].parameters():
            digest.update(parameter.detach().numpy().tobytes())
        return {"losses": losses, "digest": digest.hexdigest()}

    def block(self, variant: str, steps: int) -> tuple[float, float]:
        """Return the wall-clock and CPU seconds of a step: the medians of `steps` steps, after a warm-up step."""
        step, times, works = self._steps[variant], [], []
        for _ in range(steps + 1):
            start, before = time.perf_counter(), time.process_time()
            step()
            works.append(time.process_time() - before)
            times.append(time.perf_counter() - start)
        return median(times[1:]), median(works[1:])

    def waits(self, variant: str, steps: int) -> float:
        """Return the fraction of a step that this process waits for others: the median of `steps` steps."""
        model, shares = self.models[variant], []
        for _ in range(steps + 1):
            start, before = time.perf_counter(), model.waited
            self._steps[variant]()
            shares.append((model.waited - before) / (time.perf_counter() - start))
        return median(shares[1:])

    def exchange(self, numbers: int, times: int) -> float:
        """Return the CPU seconds of the exchange of one bucket of float32 numbers.

        The result is the first quartile of `times` exchanges, because interruptions only make an exchange longer.
        """
        reducers = importlib.import_module("retrograd.distributed.reducer")
        world = importlib.import_module("retrograd.distributed.world")
        data = np.ones(numbers, np.float32)
        group = world.member(None, "exchange")
        reducer = reducers.Reducer(reducers.Channel(group, "exchange"), [data], self.size, data.nbytes)
        found = []
        for number in range(times):
            self.distributed.barrier()
            start = time.process_time()
            reducer.start(1.0, number)
            reducer.add(self.rank, 0, data)
            reducer.finish()
            found.append(time.process_time() - start)
        return float(np.quantile(found, 0.25))

    def addition(self, numbers: int, times: int) -> float:
        """Return the seconds of an addition of two arrays of float32 numbers."""
        a, b = np.ones(numbers, np.float32), np.ones(numbers, np.float32)
        found = []
        for _ in range(times):
            start = time.perf_counter()
            a += b
            found.append(time.perf_counter() - start)
        return median(found)

    def arithmetic(self, times: int) -> float:
        """Return the seconds of a product of matrices that fit into the core's cache."""
        a = self.framework.tensor(np.random.default_rng(0).standard_normal((256, 256), np.float32))
        found = []
        for _ in range(times):
            start = time.perf_counter()
            self.framework.matmul(a, a)
            found.append(time.perf_counter() - start)
        return median(found)

    def death(self, network: str, steps: int) -> list[float]:
        """Return the seconds of 2 × steps + 1 steps; the last process is killed in the middle one."""
        work = WORKLOADS[network]
        net = work.make(self.framework.nn)
        _fill(self.framework, net)
        optimizer = work.optimizer(self.framework.optim, net.parameters())
        trainer = self.distributed.ShardedTrainer(net, optimizer, seed=0)
        x, y = work.batch(self.size)
        loader = importlib.import_module("retrograd.distributed.sharded_training")
        cuts = [shard * len(x) // trainer.shards for shard in range(trainer.shards + 1)]
        parts = [slice(low, high) for low, high in zip(cuts, cuts[1:], strict=False)]
        batch = loader.ShardedBatch(
            np.diff(cuts).tolist(), lambda k: (self.framework.tensor(x[parts[k]]), self.framework.tensor(y[parts[k]]))
        )
        calls = 0

        def loss(a: Any, b: Any) -> Any:
            nonlocal calls
            calls += 1
            # in the forward of the second shard in the middle step, when a bucket may be in transit
            if self.rank == self.size - 1 and trainer.steps == steps and calls % 2 == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return work.loss(self.framework.nn.functional, net(a), b)

        times = []
        for _ in range(2 * steps + 1):
            start = time.perf_counter()
            trainer.step(batch, loss)
            times.append(time.perf_counter() - start)
        if trainer.lost != 1:
            raise RuntimeError(f"{trainer.lost} processes were lost, not one")
        return times

    def _step(self, work: Workload, model: Any, layout: str, whole: bool) -> Callable[[], Any]:
        images, labels = work.batch(self.size)
        if not whole:
            part = slice(self.rank * work.samples, (self.rank + 1) * work.samples)
            images, labels = images[part], labels[part]
        x, y = self.framework.tensor(images), self.framework.tensor(labels)
        if layout == CHANNELS_LAST:
            x = x.to(memory_format=self.framework.channels_last)
        optimizer = work.optimizer(self.framework.optim, model.parameters())
        return partial(_training_step, work, self.framework.nn.functional, model, optimizer, x, y)


def _training_step(work: Workload, functional: Any, model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    optimizer.zero_grad()
    loss = work.loss(functional, model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def _then(step: Callable[[], Any], further: Callable[[], Any]) -> Any:
    result = step()
    further()
    return result


def _fill(library: Any, net: Any) -> None:
    """Set the parameters to numbers that depend only on their positions and shapes."""
    with library.no_grad():
        for place, parameter in enumerate(net.parameters()):
            shape = tuple(parameter.shape)
            bound = (2 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else 0.05
            numbers = np.random.default_rng([7, place]).uniform(-bound, bound, shape)
            parameter.copy_(library.tensor(numbers.astype(np.float32)))


def main() -> None:
    library, address = sys.argv[1:]
    rank = next((int(os.environ[name]) for name in _RANKS if name in os.environ), 0)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        stream = connection.makefile("rw", encoding="utf-8")
        _answer(stream, rank)
        worker = Worker(library, rank)
        gc.disable()  # garbage is collected between two requests instead
        for line in stream:
            name, arguments = json.loads(line)
            gc.collect()
            try:
                answer: dict[str, Any] = {"value": getattr(worker, name)(*arguments)}
            except Exception:
                answer = {"error": traceback.format_exc()}
            _answer(stream, answer)
        worker.distributed.destroy_process_group()


def _answer(stream: Any, answer: Any) -> None:
    stream.write(json.dumps(answer) + "\n")
    stream.flush()


if __name__ == "__main__":
    main()
