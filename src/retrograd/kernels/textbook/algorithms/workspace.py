"""The temporary arrays of an algorithm: their size, the part of a batch that fits a limit, the cost.

Only arrays of numbers are counted, not some kilobytes of Python objects and NumPy's buffers for sums of strided arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from ....specs.geometry import Window
from .unfold import Box, im2col

Item = TypeVar("Item")
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
Channels = tuple[int, int]  # Ci, Co

KERNELS = ("conv", "conv_input_grad", "conv_weight_grad")


class Need(NamedTuple):
    """Elements of the temporary arrays of one kernel.

    Always ``fixed``, plus ``sample`` for each sample of a chunk or, if the units of a sample are processed one by one,
    ``unit``.
    """

    fixed: int
    sample: int
    unit: int


class Plan(NamedTuple):
    """The number of samples in a chunk (0: the units of a sample one by one), and the number of temporary elements."""

    samples: int
    elements: int


class Pass(NamedTuple):
    """The cost of one kernel: bytes of temporary arrays, multiplications, samples in a chunk (0: one unit by unit)."""

    memory: int
    multiplications: int
    samples: int


HEADING = f"{'algorithm':<10} {'kernel':<16} {'bytes':>15} {'multiplications':>17} {'samples at once':>16}"


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a convolution and its two gradients; str() of it is a table."""

    algorithm: str
    conv: Pass
    conv_input_grad: Pass
    conv_weight_grad: Pass

    def lines(self) -> list[str]:
        """A line of the table for each kernel."""
        return [self._line(kernel, getattr(self, kernel)) for kernel in KERNELS]

    def _line(self, kernel: str, cost: Pass) -> str:
        samples = cost.samples or "part of one"
        return f"{self.algorithm:<10} {kernel:<16} {cost.memory:>15,} {cost.multiplications:>17,} {samples:>16}"

    def __str__(self) -> str:
        return "\n".join([HEADING, *self.lines()])


def _per_output(window: Window, channels: Channels) -> tuple[int, int, int]:
    """Co*C*R*O multiplications in each kernel, those with padding included."""
    return (math.prod(channels) // window.groups * window.taps * math.prod(window.output),) * 3


@dataclass(frozen=True)
class Demand:
    """The memory and the multiplications that an algorithm needs, as functions of shapes.

    needs: of the three kernels, for a window and channels
    most: the largest number of samples in a chunk
    preferred: bytes to stay within where there is no limit; a single sample may exceed them
    products: multiplications of the three kernels for one sample, for a window and channels
    """

    name: str
    needs: Callable[[Window, Channels], tuple[Need, Need, Need]]
    most: int | None = None
    preferred: int | None = None
    products: Callable[[Window, Channels], tuple[int, int, int]] = _per_output

    def plan(
        self,
        kernel: str,
        window: Window,
        limit: int | None,
        batch: int,
        channels: Channels,
        itemsize: int,
        copied: int = 0,
    ) -> Plan:
        """The largest chunk that ``limit`` bytes allow, in addition to ``copied`` elements.

        ValueError if any of the three kernels cannot stay within the limit: one that suffices for the forward pass must
        suffice for the gradients, too.
        """
        needs = [need._replace(fixed=need.fixed + copied) for need in self.needs(window, channels)]
        fixed, sample, unit = needs[KERNELS.index(kernel)]
        samples = batch if self.most is None else min(batch, self.most)
        if limit is not None:
            least = max(need.fixed + min(need.unit, need.sample) for need in needs) * itemsize
            if limit < least:
                megabytes = math.ceil(least / 2**20 * 1e4) / 1e4
                raise ValueError(
                    f"{kernel}: workspace={limit} bytes is too little for algorithm={self.name!r}: the smallest piece "
                    f"of this convolution and its gradients takes {least} bytes ({megabytes:.4f} MB); give at least "
                    f"that, or None for no limit"
                )
            samples = min(samples, (limit // itemsize - fixed) // max(1, sample))
        elif self.preferred is not None:
            samples = min(samples, max(1, (self.preferred // itemsize - fixed) // max(1, sample)))
        return Plan(samples, fixed + (samples * sample or unit) if batch else fixed)

    def workspace(
        self,
        kernel: str,
        window: Window,
        limit: int | None,
        batch: int,
        channels: Channels,
        dtype: np.dtype[Any],
        copied: int = 0,
    ) -> Workspace:
        """The workspace of one call of a kernel, of at most ``limit`` bytes."""
        return Workspace(self.plan(kernel, window, limit, batch, channels, dtype.itemsize, copied), batch, dtype)

    def cost(self, window: Window, limit: int | None, batch: int, channels: Channels, dtype: Any) -> Cost:
        """The cost of the three kernels, each in at most ``limit`` bytes."""
        itemsize = np.dtype(dtype).itemsize
        found = []
        for kernel, products in zip(KERNELS, self.products(window, channels), strict=True):
            samples, elements = self.plan(kernel, window, limit, batch, channels, itemsize)
            found.append(Pass(elements * itemsize, batch * products, samples))
        return Cost(self.name, *found)


class Workspace:
    """One allocation for all temporary arrays of a call."""

    def __init__(self, plan: Plan, batch: int, dtype: np.dtype[Any]) -> None:
        self._array, self._used = np.empty(plan.elements, dtype), 0
        self._step, self._batch = plan.samples, batch

    def take(self, *shape: int) -> np.ndarray:
        """An uninitialized array of this shape."""
        start, self._used = self._used, self._used + math.prod(shape)
        return self._array[start : self._used].reshape(shape)

    def each(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items; the arrays allocated for one are released before the next."""
        used = self._used
        for item in items:
            self._used = used
            yield item

    def samples(self) -> Iterator[slice]:
        """The batch, in chunks."""
        step = self._step or 1
        return self.each(slice(n, min(n + step, self._batch)) for n in range(0, self._batch, step))

    def parts(self, units: tuple[Box, ...]) -> Iterator[tuple[Box, ...]]:
        """The units to process together: all of a sample, or one by one."""
        return self.each([units] if self._step else [(unit,) for unit in units])


def frugal(kernel: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """``kernel``, with NumPy's own buffers at 1024 numbers instead of 8192, as the workspace does not include them."""

    @wraps(kernel)
    def with_small_buffers(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        before = np.setbufsize(1024)
        try:
            return kernel(*args, **kwargs)
        finally:
            np.setbufsize(before)

    return with_small_buffers


# ---------------------------------------------------------------- arrays in a workspace


def copied(w: np.ndarray) -> int:
    """Elements of the copy that makes w a matrix: none if it is C-contiguous."""
    return 0 if w.flags.c_contiguous else w.size


def as_matrix(w: np.ndarray, groups: int, work: Workspace) -> np.ndarray:
    """w (Co, C, *R) -> (G, K, C*R), copied if necessary."""
    if not w.flags.c_contiguous:
        strided, w = w, work.take(*w.shape)
        w[...] = strided
    return w.reshape(groups, len(w) // groups, math.prod(w.shape[1:]))


def unfolded(x: np.ndarray, window: Window, unit: Box, work: Workspace) -> np.ndarray:
    """im2col of one unit: x (N, Ci, *I) -> (N, G, C*R, U)."""
    columns = work.take(*x.shape[:2], window.taps, *unit.extents)
    im2col(x, window, unit, columns)
    return columns.reshape(len(x), window.groups, x.shape[1] // window.groups * window.taps, unit.size)


def part(g: np.ndarray, groups: int, unit: Box, work: Workspace) -> np.ndarray:
    """A copy of one unit: g (N, Co, *O) -> (N, G, K, U)."""
    copy = work.take(*g.shape[:2], *unit.extents)
    copy[...] = g[:, :, *unit.slices]
    return copy.reshape(len(g), groups, g.shape[1] // groups, unit.size)


def add_bias(y: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """y (N, C, *O) plus bias (C,), in place."""
    if bias is not None:
        y += bias.reshape(-1, *(1,) * (y.ndim - 2))
    return y
