"""Fusion of batch norms in recorded steps with the sum, ReLU or ReLU6 after them, forward and backward.

The fused kernels read and write memory less often, and compute the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import nan
from typing import Any, NamedTuple

import numpy as np

from ..arrays import empty
from ..formulas.optimizers import rectified
from ..kernel_set import kernels
from .memory_planning import root
from .steps import Step, Steps, left_before
from .uses import Uses, is_own_kernel

__all__ = ["with_fused_batch_norms"]


class _Fused(NamedTuple):
    """A fused step in place of the one at ``place``; the steps ``gone`` are part of it."""

    place: int
    step: Step
    gone: tuple[int, ...]


def with_fused_batch_norms(steps: Steps, forward: int, outside: Iterable[np.ndarray]) -> tuple[Steps, int]:
    """Return the steps with sums and clamps (ReLU, ReLU6) as parts of the batch norms before them, and backward too.

    forward: the number of steps of the forward pass; that of the returned steps is returned, too. outside: arrays
    that are read after the steps, such as the results.
    """
    graph = _Graph(steps, outside)
    fused = [each for place in range(forward) for each in graph.fused_at(place)]
    by_place = {each.place: each.step for each in fused}
    gone = {place for each in fused for place in each.gone}
    found = steps.replaced(by_place, gone)
    found[:] = [step.reading(graph.others) if graph.others else step for step in found]
    return found, left_before(forward, gone)


class _Epilogue(NamedTuple):
    """The steps ``gone`` after a batch norm: a sum with an array, if not None, and a clamp that stores ``result``.

    masked: the array whose clamp it was, as the clamp's gradients ``grads`` read it.
    """

    result: np.ndarray
    gone: tuple[int, ...] = ()
    other: np.ndarray | None = None
    low: float = nan
    high: float = nan
    clamps: bool = False
    masked: np.ndarray | None = None
    grads: tuple[int, ...] = ()


class _Graph(Uses):
    """The steps, and the fusions found so far.

    others: by the id of an array that is no longer made, the array that gradients read in its place.
    """

    def __init__(self, steps: Steps, outside: Iterable[np.ndarray]) -> None:
        super().__init__(steps, outside)
        self.others: dict[int, np.ndarray] = {}

    def fused_at(self, place: int) -> list[_Fused]:
        """The fusions of the batch norm at a place: that of the forward pass, and of its gradient."""
        step = self.steps[place]
        fixed = self._is(place, "channel_affine", None, None, None)  # in eval mode
        if not fixed and not self._is(place, "batch_norm", None, None, None, None):
            return []
        y, *statistics = (step.result,) if fixed else step.result
        x, weight, *rest = step.args
        chain = _Epilogue(y)
        while (longer := self._longer(chain, place)) is not None:
            chain = longer
        if not chain.gone:
            return []
        self.taken.update(chain.gone)
        if chain.masked is not None:
            self.others[id(chain.masked)] = chain.result
        args = x, chain.other, weight, *rest, chain.low, chain.high
        if fixed:
            return [_Fused(place, _step("channel_affine_clamp", args, chain.result), chain.gone)]
        coefficients = empty((2, weight.size), weight.dtype, like=weight)
        fused = _step("batch_norm_clamp", args, (chain.result, *statistics, coefficients))
        found = [_Fused(place, fused, chain.gone)]
        if chain.other is None:
            found += self._gradients(chain, (x, weight, *statistics[::2]), coefficients)
        return found

    def _longer(self, chain: _Epilogue, place: int) -> _Epilogue | None:
        """The chain of the batch norm at ``place`` with one more operation, if nothing else needs its result so far."""
        x, last = chain.result, max(chain.gone, default=place)
        later = self.after(x, last)
        if chain.clamps or not later or self.is_decided_by(x):
            return None
        at, step = later[0], self.steps[later[0]]
        if self._is(at, "update", rectified, [x]):  # ReLU in place
            return chain._replace(gone=(*chain.gone, at), low=0.0, clamps=True)
        if self._is(at, "relu", x):
            longer = chain._replace(low=0.0, clamps=True)
        elif self._is(at, "clamp", x, None, None) and step.args[1] < step.args[2]:
            longer = chain._replace(low=step.args[1], high=step.args[2], clamps=True)
        elif chain.other is None and (self._is(at, "add", x, None) or self._is(at, "add", None, x)):
            other = step.args[1] if step.args[0] is x else step.args[0]
            if not self._is_ready(other, x, place, at):
                return None
            longer = chain._replace(other=other)
        else:
            return None
        return self._stored(longer, at, later[1:]) if _same_layout(step.result, x) else None

    def _stored(self, chain: _Epilogue, at: int, later: Sequence[int]) -> _Epilogue | None:
        """The chain whose last operation is at ``at``, after which its operand is used at ``later``."""
        x, result = chain.result, self.steps[at].result
        kept = [place for place in later[:1] if self._is(place, "duplicate", x)]  # for a gradient
        copy = [*later[len(kept) : len(kept) + 1]]
        if copy and self._is(copy[0], "copy", x, result) and self.after(result, at) == copy:  # in place
            masked = self.steps[kept[0]].result if kept else x
            if self.is_kept(result) or (kept and self.is_kept(masked)):
                return None
            chain = chain._replace(gone=(*chain.gone, at, *kept, *copy))
            return self._with_masks(chain, masked, self.after(masked, kept[0])) if kept else chain
        if self.is_kept(x):
            return None
        return self._with_masks(chain._replace(result=result, gone=(*chain.gone, at)), x, later)

    def _with_masks(self, chain: _Epilogue, masked: np.ndarray, readers: Sequence[int]) -> _Epilogue | None:
        """The chain if all readers are gradients of the clamp, and may read its result instead."""
        mask = "hardtanh_grad", None, masked, chain.low, chain.high
        if not all(self._is(at, *mask) for at in readers):
            return None
        if readers and self.is_written(chain.result, max(chain.gone)):
            return None
        return chain._replace(masked=masked, grads=(*readers,)) if readers else chain

    def _gradients(self, chain: _Epilogue, given: tuple[Any, ...], coefficients: np.ndarray) -> list[_Fused]:
        """The gradients of a batch norm of these x, weight, mean and 1 / deviation, each with that of the clamp."""
        found = []
        y, last = chain.result, max(chain.gone)
        relus = [
            at for at in self.after(y, last) if self._is(at, "relu_grad", None, y) and not self.is_written(y, last, at)
        ]
        for at in chain.grads or relus:
            g, passed = self.steps[at].args[0], self.steps[at].result
            readers = self.after(passed, at)
            if (
                len(readers) == 1
                and self._is(readers[0], "batch_norm_grad", passed, *given)
                and not self.is_kept(passed)
                and not self.is_written(g, at, readers[0])
            ):
                args = g, *given, coefficients, chain.low, chain.high
                step = _step("batch_norm_clamp_grad", args, self.steps[readers[0]].result)
                found.append(_Fused(readers[0], step, (at,)))
                self.taken.add(at)
        return found

    def _is(self, place: int, kernel: str, *args: Any) -> bool:
        """Whether a step is the call of a kernel with these arguments; None: with any one."""
        step = self.steps[place]
        if (step.kernel, len(step.args)) != (kernel, len(args)) or place in self.taken:
            return False
        return all(map(_is_same, step.args, args)) and is_own_kernel(step)

    def _is_ready(self, other: Any, x: np.ndarray, place: int, at: int) -> bool:
        """Whether an array of x's layout is made before ``place``, and the same at ``at``."""
        if not isinstance(other, np.ndarray) or root(other) is root(x) or not _same_layout(other, x):
            return False
        return not self.is_written(other, place - 1, at - 1)


def _is_same(given: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return isinstance(given, (list, tuple)) and len(given) == 1 and given[0] is wanted[0]
    return wanted is None or given is wanted or (isinstance(wanted, float) and given == wanted)


def _same_layout(a: np.ndarray, b: np.ndarray) -> bool:
    return (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)


def _step(kernel: str, args: tuple[Any, ...], result: Any) -> Step:
    return Step(kernel, kernels.found(kernel), args, {}, result)
