"""Optimizer steps over the parameters of ResNet-18: 11.7 million float32 numbers in 62 tensors.

PyTorch runs its fused form if the optimizer has one, and its foreach form; the faster one counts. A step reads
parameters, gradients and buffers from memory and writes all but the gradients back, so memory bandwidth limits it: the
name of a row states the number of bytes per parameter. The gradients do not change in either library.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import retrograd
from retrograd.nn.parameter import empty_weight

from .. import libraries as lib
from ..harness import Call, Row, Rows

TARGET = 1.3


@dataclass(frozen=True)
class Job:
    """An optimizer with its options, its number of buffers, and whether PyTorch has a fused form of it."""

    name: str
    buffers: int
    fused: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        options = ", ".join(f"{key} {value}" for key, value in self.options.items())
        return f"{self.name}{' ' if options else ''}{options} ({4 * (3 + 2 * self.buffers)} B)"


JOBS = (
    Job("SGD", 0, True),
    Job("SGD", 1, True, {"momentum": 0.9}),
    Job("SGD", 1, True, {"momentum": 0.9, "nesterov": True}),
    Job("Adam", 2, True),
    Job("AdamW", 2, True),
    Job("AdamW", 3, True, {"amsgrad": True}),
    Job("Adamax", 2),
    Job("NAdam", 2),
    Job("RAdam", 2),
    Job("RMSprop", 1),
    Job("Adagrad", 1, True),
    Job("Adadelta", 2),
    Job("ASGD", 1),
    Job("Rprop", 2),
)


def shapes() -> Iterator[tuple[int, ...]]:
    """Return the shapes of the parameters of ResNet-18."""
    yield from ((64, 3, 7, 7), (64,), (64,))
    inputs = 64
    for outputs in (64, 128, 256, 512):
        for first in (True, False):
            yield from ((outputs, inputs, 3, 3), (outputs,), (outputs,))
            yield from ((outputs, outputs, 3, 3), (outputs,), (outputs,))
            if first and inputs != outputs:
                yield from ((outputs, inputs, 1, 1), (outputs,), (outputs,))
            inputs = outputs
    yield from ((1000, 512), (1000,))


def rows(quick: bool, compile: bool) -> Rows:
    for job in (JOBS[0], JOBS[3], JOBS[6]) if quick else JOBS:
        yield _row(job)


def _row(job: Job) -> Row:
    all_shapes = list(shapes())

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        few = all_shapes[:9]
        mine, ours = _ours(job, few)
        yours, theirs = _theirs(job, few, "fused" if job.fused else "foreach")
        for _ in range(3):
            ours()
            theirs()
        return [(p.detach().numpy(), q.detach().numpy()) for p, q in zip(mine, yours, strict=True)]

    forms = ("fused", "foreach") if job.fused else ("foreach",)
    return Row(
        "optimizer step",
        job.title,
        _ours(job, all_shapes)[1],
        {form: _theirs(job, all_shapes, form)[1] for form in forms},
        TARGET,
        values,
        tolerance=1e-5,
    )


def _ours(job: Job, of: list[tuple[int, ...]]) -> tuple[list[Any], Call]:
    parameters = []
    for place, shape in enumerate(of):
        parameter = retrograd.nn.Parameter(_value(shape))
        if len(shape) > 1:
            parameter = empty_weight(shape)  # in memory as layers have it
        parameter.array[...] = _value(shape, place)
        parameter.grad = retrograd.Tensor(np.empty_like(parameter.array))
        parameter.grad.array[...] = _value(shape, 100 + place)
        parameters.append(parameter)
    return parameters, getattr(retrograd.optim, job.name)(parameters, lr=1e-4, **job.options).step


def _theirs(job: Job, of: list[tuple[int, ...]], form: str) -> tuple[list[Any], Call]:
    parameters = []
    for place, shape in enumerate(of):
        parameters.append(torch.nn.Parameter(torch.tensor(_value(shape, place))))
        parameters[-1].grad = torch.tensor(_value(shape, 100 + place))
    optimizer = getattr(torch.optim, job.name)(parameters, lr=1e-4, **job.options, **{form: True})
    return parameters, optimizer.step


def _value(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return lib.random(*shape, seed=seed)
