"""Job: one operator in both libraries, forward and backward; the building block of the layer and operator suites.

Forward records the graph, as in training. Backward is one pass over this graph, which is kept for the next call.
PyTorch runs with contiguous arrays, with channels-last arrays, and with torch.compile if there is a C++ compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import retrograd

from .. import libraries as lib
from ..harness import Call, Row, Rows

TARGET = 1.0
SHAPES = ((8, 64, 56, 56), (64, 1024), (16, 512, 256))  # images, features, sequences
Operator = Callable[..., Any]


@dataclass(frozen=True)
class Job:
    """One operator in both libraries. inputs: the shapes of its inputs, all of which get gradients."""

    group: str
    name: str
    ours: Operator
    theirs: Operator
    inputs: tuple[tuple[int, ...], ...] = (SHAPES[0],)
    forward: bool = True
    backward: bool = True
    low: float | None = None  # inputs are uniform between low and high instead of normal
    high: float = 2.0
    tolerance: float = 1e-3  # relative to the root mean square of the result
    # whether our arrays are in C order, as linear layers produce them, instead of channels-last order
    rows: bool = False
    parameters: int = 0  # how many of the last inputs are parameters, in the memory order of our layers

    def arrays(self) -> list[np.ndarray]:
        arrays = [lib.random(*shape, seed=seed) for seed, shape in enumerate(self.inputs)]
        if self.low is None:
            return arrays
        # any distribution between the two will do
        return [(self.low + (self.high - self.low) * (0.5 + 0.5 * np.sin(9 * a))).astype(a.dtype) for a in arrays]

    def tensor(self, array: np.ndarray, requires_grad: bool = False) -> Any:
        """Return the array as a retrograd tensor."""
        return retrograd.Tensor(array.copy(), requires_grad) if self.rows else lib.ours(array, requires_grad)

    def tensors(self, arrays: list[np.ndarray]) -> list[Any]:
        """Return the inputs as retrograd tensors."""
        first = len(arrays) - self.parameters
        parameters = [lib.parameter(array) for array in arrays[first:]]
        return [self.tensor(array, requires_grad=True) for array in arrays[:first]] + parameters


def on_all_shapes(
    group: str, name: str, ours: Operator, theirs: Operator, operands: int = 1, **options: Any
) -> Iterator[Job]:
    """Return the operator on each of SHAPES; all its operands have that shape."""
    for shape in SHAPES:
        yield Job(group, f"{name} {shape}", ours, theirs, (shape,) * operands, **options)


def rows_of(jobs: Iterable[Job], quick: bool, compile: bool) -> Rows:
    compile = compile and lib.can_compile() and not quick
    for job in jobs:
        if job.forward:
            yield _forward(job, compile)
        if job.backward:
            yield _backward(job, compile)


def _candidates(job: Job, arrays: list[np.ndarray], compile: bool) -> dict[str, tuple[Operator, list[Any]]]:
    """Return PyTorch's variants: name -> the operator and its inputs."""
    inputs = lib.layouts(arrays, requires_grad=True)
    variants = {layout: (job.theirs, tensors) for layout, tensors in inputs.items()}
    if compile:
        variants[lib.COMPILED] = (lib.compiled(job.theirs), inputs[lib.CONTIGUOUS])
    return variants


def _forward(job: Job, compile: bool) -> Row:
    arrays = job.arrays()
    inputs = job.tensors(arrays)
    theirs = {
        variant: _bind(operator, tensors) for variant, (operator, tensors) in _candidates(job, arrays, compile).items()
    }

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(job.ours(*inputs).detach().numpy(), theirs[lib.CONTIGUOUS]().detach().numpy())]

    ours = _bind(job.ours, inputs)
    return Row(job.group, f"{job.name} forward", ours, theirs, TARGET, values, tolerance=job.tolerance)


def _bind(operator: Operator, tensors: list[Any]) -> Call:
    return lambda: operator(*tensors)


def _backward(job: Job, compile: bool) -> Row:
    arrays = job.arrays()
    inputs = job.tensors(arrays)
    y = job.ours(*inputs)
    upstream = lib.random(*y.shape, seed=9)
    g = job.tensor(upstream)

    def ours() -> Any:
        return retrograd.autograd.grad(y, inputs, g, retain_graph=True)

    theirs = {}
    for variant, (operator, tensors) in _candidates(job, arrays, compile).items():
        theirs[variant] = _peer_sweep(operator(*tensors), tensors, upstream, variant)

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(gx.numpy(), px.numpy()) for gx, px in zip(ours(), theirs[lib.CONTIGUOUS](), strict=True)]

    return Row(job.group, f"{job.name} backward", ours, theirs, TARGET, values, tolerance=job.tolerance)


def _peer_sweep(y: Any, inputs: list[Any], upstream: np.ndarray, variant: str) -> Call:
    g = lib.theirs(upstream, lib.CHANNELS_LAST if variant == lib.CHANNELS_LAST else lib.CONTIGUOUS)
    return lambda: torch.autograd.grad(y, inputs, g, retain_graph=True)
