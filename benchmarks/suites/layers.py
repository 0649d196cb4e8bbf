"""Batch norm, pooling, elementwise operators and softmax on (8, 64, 56, 56), forward and backward.

Forward records the graph, as in training; backward is one sweep over that graph, kept for the next call. PyTorch runs
with contiguous arrays, with channels-last arrays, and through torch.compile where a C++ compiler is there.
The backward of a plain sum hands its gradient on; the sum with a bias per channel stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as functional

from .. import libraries as lib
from ..harness import Call, Row, Rows

SHAPE = (8, 64, 56, 56)
TARGET = 1.0
Operator = Callable[..., Any]


@dataclass(frozen=True)
class Job:
    """One operator in both libraries; ``inputs`` are shapes, all of them differentiated."""

    group: str
    name: str
    ours: Operator
    theirs: Operator
    inputs: tuple[tuple[int, ...], ...] = (SHAPE,)
    forward: bool = True
    backward: bool = True


def _jobs() -> list[Job]:
    channels = (SHAPE[1],)
    bias = (SHAPE[1], 1, 1)
    running, peer_running = _statistics(retrograd.tensor), _statistics(torch.tensor)
    # rows that train move theirs
    moving, peer_moving = _statistics(retrograd.tensor), _statistics(torch.tensor)
    jobs = [
        Job(
            "batch norm",
            "training",
            lambda x, w, b: functional.batch_norm(x, *moving, w, b, training=True),
            lambda x, w, b: peer.batch_norm(x, *peer_moving, w, b, training=True),
            (SHAPE, channels, channels),
            backward=False,
        ),
        Job(  # without running statistics: a graph that is kept must not hold what later calls change
            "batch norm",
            "training",
            lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
            lambda x, w, b: peer.batch_norm(x, None, None, w, b, training=True),
            (SHAPE, channels, channels),
            forward=False,
        ),
        Job(
            "batch norm",
            "inference",
            lambda x, w, b: functional.batch_norm(x, *running, w, b, training=False),
            lambda x, w, b: peer.batch_norm(x, *peer_running, w, b, training=False),
            (SHAPE, channels, channels),
            backward=False,
        ),
    ]
    for name, kernel, stride, padding in (("2, stride 2", 2, 2, 0), ("3, stride 2, padding 1", 3, 2, 1)):
        for kind in ("max", "avg"):
            jobs.append(
                Job(
                    "pooling",
                    f"{kind} {name}",
                    _pool(functional, kind, kernel, stride, padding),
                    _pool(peer, kind, kernel, stride, padding),
                )
            )
    for name in ("relu", "exp", "sigmoid", "tanh"):
        jobs.append(Job("elementwise", name, getattr(retrograd, name), getattr(torch, name)))
    jobs += [
        Job("elementwise", "add", _add, _add, (SHAPE, SHAPE), backward=False),
        Job("elementwise", "add bias per channel", _add, _add, (SHAPE, bias)),
        Job("elementwise", "mul", _mul, _mul, (SHAPE, SHAPE)),
        Job("softmax", "dim 1", lambda x: functional.softmax(x, dim=1), lambda x: peer.softmax(x, dim=1)),
        Job("softmax", "log, dim 1", lambda x: functional.log_softmax(x, dim=1), lambda x: peer.log_softmax(x, dim=1)),
    ]
    return jobs


def _statistics(tensor: Any) -> list[Any]:
    return [tensor(np.zeros(SHAPE[1], np.float32)), tensor(np.ones(SHAPE[1], np.float32))]


def _add(x: Any, y: Any) -> Any:
    return x + y


def _mul(x: Any, y: Any) -> Any:
    return x * y


def _pool(library: Any, kind: str, kernel: int, stride: int, padding: int) -> Operator:
    pool = getattr(library, f"{kind}_pool2d")
    return lambda x: pool(x, kernel, stride, padding)


def rows(quick: bool, compile: bool) -> Rows:
    compile = compile and lib.can_compile() and not quick
    for job in _jobs():
        if job.forward:
            yield _forward(job, compile)
        if job.backward:
            yield _backward(job, compile)


def _candidates(job: Job, arrays: list[np.ndarray], compile: bool) -> dict[str, tuple[Operator, list[Any]]]:
    """Way of running PyTorch -> the operator and its inputs."""
    inputs = lib.layouts(arrays, requires_grad=True)
    ways = {layout: (job.theirs, tensors) for layout, tensors in inputs.items()}
    if compile:
        ways[lib.COMPILED] = (lib.compiled(job.theirs), inputs[lib.CONTIGUOUS])
    return ways


def _forward(job: Job, compile: bool) -> Row:
    arrays = [lib.random(*shape, seed=seed) for seed, shape in enumerate(job.inputs)]
    inputs = [lib.ours(array, requires_grad=True) for array in arrays]
    theirs = {way: _bind(operator, tensors) for way, (operator, tensors) in _candidates(job, arrays, compile).items()}

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(job.ours(*inputs).detach().numpy(), theirs[lib.CONTIGUOUS]().detach().numpy())]

    return Row(job.group, f"{job.name} forward", _bind(job.ours, inputs), theirs, TARGET, values)


def _bind(operator: Operator, tensors: list[Any]) -> Call:
    return lambda: operator(*tensors)


def _backward(job: Job, compile: bool) -> Row:
    arrays = [lib.random(*shape, seed=seed) for seed, shape in enumerate(job.inputs)]
    inputs = [lib.ours(array, requires_grad=True) for array in arrays]
    y = job.ours(*inputs)
    upstream = lib.random(*y.shape, seed=9)
    g = lib.ours(upstream)

    def ours() -> Any:
        return retrograd.autograd.grad(y, inputs, g, retain_graph=True)

    theirs = {}
    for way, (operator, tensors) in _candidates(job, arrays, compile).items():
        theirs[way] = _peer_sweep(operator(*tensors), tensors, upstream, way)

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(gx.numpy(), px.numpy()) for gx, px in zip(ours(), theirs[lib.CONTIGUOUS](), strict=True)]

    return Row(job.group, f"{job.name} backward", ours, theirs, TARGET, values)


def _peer_sweep(y: Any, inputs: list[Any], upstream: np.ndarray, way: str) -> Call:
    g = lib.theirs(upstream, lib.CHANNELS_LAST if way == lib.CHANNELS_LAST else lib.CONTIGUOUS)
    return lambda: torch.autograd.grad(y, inputs, g, retain_graph=True)
