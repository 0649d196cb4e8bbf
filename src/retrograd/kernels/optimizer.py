"""Optimiser steps. Parameters and buffers are changed in place; one launch does all tensors of a group."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from .arrays import is_dense, like, tasks
from .launch import kernel

__all__ = ["adam_step", "sgd_step"]

_SGD, _SGD_MOMENTUM, _ADAM = kernel("optimizer.sgd"), kernel("optimizer.sgd_momentum"), kernel("optimizer.adam")


def sgd_step(
    parameters: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    momenta: Sequence[np.ndarray],
    *,
    lr: float,
    momentum: float,
    weight_decay: float,
) -> None:
    """d = g + weight_decay p;  with momentum: m = momentum m + d, d = m;  p = p - lr d

    ``momenta`` start as zeros; the list may be empty if there is no momentum.
    """
    work = _Work(parameters, gradients, momenta) if momentum else _Work(parameters, gradients)
    if work.elements:
        function = (_SGD_MOMENTUM if momentum else _SGD)[work.model.dtype.char]
        function(tasks(work.elements), work.model, work.table, len(parameters), lr, momentum, weight_decay)
        work.finish()


def adam_step(
    parameters: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    exp_avgs: Sequence[np.ndarray],
    exp_avg_sqs: Sequence[np.ndarray],
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
) -> None:
    """Adam; t = step counts from 1, the averages start as zeros and are corrected for that.

        d = g + weight_decay p
        m = beta1 m + (1 - beta1) d
        v = beta2 v + (1 - beta2) d^2
        p = p - lr/(1 - beta1^t) m / (sqrt(v)/sqrt(1 - beta2^t) + eps)

    Source: D. Kingma, J. Ba, "Adam", 2015 (arXiv:1412.6980), with eps where PyTorch has it.
    """
    work = _Work(parameters, gradients, exp_avgs, exp_avg_sqs)
    if work.elements:
        rate, root = lr / (1 - beta1**step), sqrt(1 - beta2**step)
        _ADAM[work.model.dtype.char](
            tasks(work.elements), work.model, work.table, len(parameters), rate, beta1, beta2, root, eps, weight_decay
        )
        work.finish()


class _Work:
    """The table of a step: for each tensor its arrays (parameter, gradient, buffers) and its number of elements.

    A kernel wants them dense and in one memory order. Arrays that are not are replaced by copies, and those that the
    step changes are written back by ``finish``.
    """

    def __init__(
        self, parameters: Sequence[np.ndarray], gradients: Sequence[np.ndarray], *buffers: Sequence[np.ndarray]
    ) -> None:
        entries: list[int] = []
        self._alive: list[np.ndarray] = []  # the table holds addresses of objects only
        self._copies: list[tuple[np.ndarray, np.ndarray]] = []
        self.elements = 0
        for arrays in zip(parameters, gradients, *buffers, strict=True):
            parameter = arrays[0]
            strides = parameter.strides
            if not is_dense(parameter.shape, strides, parameter.itemsize):
                arrays = self._dense(parameter.copy(order="K"), arrays)
            else:
                for array in arrays:
                    if array.strides != strides:
                        arrays = self._dense(parameter, arrays)
                        break
            entries += map(id, arrays)
            n = parameter.size
            entries.append(n)
            self.elements += n
        if self.elements:
            self.model = parameters[0]
            self.table = np.array(entries, np.int64)

    def _dense(self, model: np.ndarray, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        parameter, gradient, *buffers = arrays
        copies = (model, like(gradient, model), *(like(buffer, model) for buffer in buffers))
        self._alive += copies
        for place in (0, *range(2, len(arrays))):
            if copies[place] is not arrays[place]:
                self._copies.append((arrays[place], copies[place]))
        return copies

    def finish(self) -> None:
        for array, copy in self._copies:
            np.copyto(array, copy)
