"""Optimiser steps. Parameters and buffers are changed in place; one launch does all tensors of a call.

Every step takes ``keep``, a dict of its caller or None: what was found out about the arrays is left there for the next
call. Whoever gives a dict that is not empty says that parameters and buffers are the arrays of the call that filled it,
the very objects; gradients may be others, of the same shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from .arrays import CHUNK, is_dense, like, same_order, tasks
from .launch import Kernel, kernel

__all__ = [
    "adadelta_step",
    "adagrad_step",
    "adam_step",
    "adamax_step",
    "average_step",
    "limit_step",
    "nadam_step",
    "norm_of_all",
    "radam_step",
    "rmsprop_step",
    "sgd_step",
]

Arrays = Sequence[np.ndarray]
Keep = dict[str, Any] | None

_SGD, _SGD_MOMENTUM = kernel("optimizer.sgd"), kernel("optimizer.sgd_momentum")
_ADAM, _ADAMAX = kernel("optimizer.adam"), kernel("optimizer.adamax")
_NADAM, _RADAM = kernel("optimizer.nadam"), kernel("optimizer.radam")
_RMSPROP, _ADAGRAD, _ADADELTA = kernel("optimizer.rmsprop"), kernel("optimizer.adagrad"), kernel("optimizer.adadelta")
_AVERAGE, _LIMIT, _NORM = kernel("optimizer.average"), kernel("optimizer.limit"), kernel("optimizer.norm")

_COLUMNS = 7  # of the table (compiled/optimizer.py)
_LARGE, _LONG = 1 << 20, 4 * CHUNK  # from so many elements on, a task has so many: fewer ends of streams from memory


def sgd_step(
    parameters: Arrays,
    gradients: Arrays,
    momenta: Arrays,
    *,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """d = ±g + weight_decay p (- to maximize);  p = p - lr d

    With momentum: m = momentum m + (1 - dampening) d, and m takes the place of d, with nesterov d + momentum m.
    ``momenta`` start as zeros; the list may be empty if there is no momentum.
    """
    if momentum:
        _run(
            _SGD_MOMENTUM, (parameters, gradients, momenta), keep,
            maximize=maximize, decay=weight_decay, keep_m=momentum, add_m=1 - dampening, rate=lr, extra=nesterov,
        )  # fmt: skip
    else:
        _run(_SGD, (parameters, gradients), keep, maximize=maximize, decay=weight_decay, rate=lr)


def adam_step(
    parameters: Arrays,
    gradients: Arrays,
    exp_avgs: Arrays,
    exp_avg_sqs: Arrays,
    max_exp_avg_sqs: Arrays,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """Adam, AdamW (decoupled) and AMSGrad (with a third list); t = step counts from 1, the averages start as zeros.

        d = ±g + weight_decay p  (- to maximize); decoupled: d = ±g and p = p - lr weight_decay p
        m = beta1 m + (1 - beta1) d
        v = beta2 v + (1 - beta2) d^2
        w = max(w, v), which takes the place of v below, if there is a w in ``max_exp_avg_sqs``
        p = p - lr/(1 - beta1^t) m / (sqrt(v)/sqrt(1 - beta2^t) + eps)

    Source: D. Kingma, J. Ba, "Adam", 2015 (arXiv:1412.6980), with eps where PyTorch has it; I. Loshchilov, F. Hutter,
    2019 (arXiv:1711.05101); S. Reddi, S. Kale, S. Kumar, 2018 (arXiv:1904.09237).
    """
    columns: tuple[Arrays, ...] = (parameters, gradients, exp_avgs, exp_avg_sqs)
    _run(
        _ADAM, (*columns, max_exp_avg_sqs) if max_exp_avg_sqs else columns, keep,
        maximize=maximize, decay=0.0 if decoupled else weight_decay, shrink=1 - lr * weight_decay if decoupled else 1.0,
        keep_m=beta1, add_m=1 - beta1, keep_v=beta2, add_v=1 - beta2,
        rate=lr / (1 - beta1**step), scale=1 / sqrt(1 - beta2**step), eps=eps, extra=bool(max_exp_avg_sqs),
    )  # fmt: skip


def adamax_step(
    parameters: Arrays,
    gradients: Arrays,
    exp_avgs: Arrays,
    exp_infs: Arrays,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """d = ±g + weight_decay p;  m = beta1 m + (1 - beta1) d;  u = max(beta2 u, |d| + eps)

    p = p - lr/(1 - beta1^t) m / u, with t = step from 1 on; m and u start as zeros. Source: Kingma and Ba, section 7.1.
    """
    _run(
        _ADAMAX, (parameters, gradients, exp_avgs, exp_infs), keep,
        maximize=maximize, decay=weight_decay, keep_m=beta1, add_m=1 - beta1, keep_v=beta2,
        rate=lr / (1 - beta1**step), eps=eps,
    )  # fmt: skip


def nadam_step(
    parameters: Arrays,
    gradients: Arrays,
    exp_avgs: Arrays,
    exp_avg_sqs: Arrays,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    mu: float,
    mu_next: float,
    mu_product: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """m and v as in Adam; mu of this step and of the next, and the product of all mu up to this one:

        n = (1 - mu)/(1 - mu_product) d + mu_next/(1 - mu_product mu_next) m
        p = p - lr n / (sqrt(v)/sqrt(1 - beta2^t) + eps)

    Source: T. Dozat, "Incorporating Nesterov momentum into Adam", 2016.
    """
    _run(
        _NADAM, (parameters, gradients, exp_avgs, exp_avg_sqs), keep,
        maximize=maximize, decay=0.0 if decoupled else weight_decay, shrink=1 - lr * weight_decay if decoupled else 1.0,
        keep_m=beta1, add_m=1 - beta1, keep_v=beta2, add_v=1 - beta2,
        rate=lr * mu_next / (1 - mu_product * mu_next), scale=1 / sqrt(1 - beta2**step), eps=eps,
        extra=lr * (1 - mu) / (1 - mu_product),
    )  # fmt: skip


def radam_step(
    parameters: Arrays,
    gradients: Arrays,
    exp_avgs: Arrays,
    exp_avg_sqs: Arrays,
    *,
    step: int,
    lr: float,
    beta1: float,
    beta2: float,
    rectification: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """m and v as in Adam, r = rectification of this step (0: the variance is not known well enough yet)

        p = p - lr/(1 - beta1^t) m r sqrt(1 - beta2^t) / (sqrt(v) + eps)    or, with r = 0, p - lr/(1 - beta1^t) m

    Source: L. Liu et al., "On the variance of the adaptive learning rate and beyond", 2020 (arXiv:1908.03265).
    """
    rate = lr / (1 - beta1**step)
    _run(
        _RADAM, (parameters, gradients, exp_avgs, exp_avg_sqs), keep,
        maximize=maximize, decay=0.0 if decoupled else weight_decay, shrink=1 - lr * weight_decay if decoupled else 1.0,
        keep_m=beta1, add_m=1 - beta1, keep_v=beta2, add_v=1 - beta2,
        rate=rate * rectification * sqrt(1 - beta2**step) if rectification else rate, eps=eps, extra=rectification != 0,
    )  # fmt: skip


def rmsprop_step(
    parameters: Arrays,
    gradients: Arrays,
    square_avgs: Arrays,
    grad_avgs: Arrays,
    momenta: Arrays,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """d = ±g + weight_decay p;  v = alpha v + (1 - alpha) d^2;  u = d / (sqrt(v) + eps);  p = p - lr u

    Centered (there are ``grad_avgs``): a = alpha a + (1 - alpha) d, and max(v - a^2, 0) takes the place of v in u.
    With momentum: m = momentum m + u takes the place of u. Buffers start as zeros; lists without use may be empty.
    Source: T. Tieleman, G. Hinton, lecture 6.5, 2012; centered: A. Graves, 2013 (arXiv:1308.0850).
    """
    # a buffer that is not there: the rule does not look at what stands in its place
    _run(
        _RMSPROP, (parameters, gradients, square_avgs, grad_avgs or parameters, momenta or parameters), keep,
        maximize=maximize, decay=weight_decay, keep_m=momentum, keep_v=alpha, add_v=1 - alpha, rate=lr, eps=eps,
        scale=bool(grad_avgs), extra=momentum != 0,
    )  # fmt: skip


def adagrad_step(
    parameters: Arrays,
    gradients: Arrays,
    sums: Arrays,
    *,
    lr: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """d = ±g + weight_decay p;  s = s + d^2;  p = p - lr d / (sqrt(s) + eps)

    Source: J. Duchi, E. Hazan, Y. Singer, "Adaptive subgradient methods", JMLR 12, 2011.
    """
    _run(
        _ADAGRAD, (parameters, gradients, sums), keep, maximize=maximize, decay=weight_decay, rate=lr, eps=eps
    )  # fmt: skip


def adadelta_step(
    parameters: Arrays,
    gradients: Arrays,
    square_avgs: Arrays,
    acc_deltas: Arrays,
    *,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
    keep: Keep = None,
) -> None:
    """d = ±g + weight_decay p;  v = rho v + (1 - rho) d^2;  u = sqrt(a + eps) / sqrt(v + eps) d

    a = rho a + (1 - rho) u^2;  p = p - lr u.  Source: M. Zeiler, "ADADELTA", 2012 (arXiv:1212.5701).
    """
    _run(
        _ADADELTA, (parameters, gradients, square_avgs, acc_deltas), keep,
        maximize=maximize, decay=weight_decay, keep_v=rho, add_v=1 - rho, rate=lr, eps=eps,
    )  # fmt: skip


def average_step(averages: Arrays, values: Arrays, *, weight: float, keep: Keep = None) -> None:
    """a = a + weight (x - a) for every average a and its value x"""
    _run(_AVERAGE, (averages, values), keep, rate=weight)


def limit_step(arrays: Arrays, *, factor: float, most: float) -> None:
    """x = factor x, cut to -most ... most; NaN stays NaN"""
    _run(_LIMIT, (arrays,), None, scale=factor, extra=most)


def norm_of_all(arrays: Arrays, *, largest: bool) -> float:
    """The Euclidean norm of all elements of all arrays, or the largest absolute value; NaN if one of them is NaN."""
    table = _Table((arrays,))
    if not table.elements:
        return 0.0
    partials = np.empty(tasks(table.elements), arrays[0].dtype)
    _NORM[arrays[0].dtype.char](len(partials), arrays[0], table.words, len(arrays), partials, largest)
    return float(partials.max() if largest else np.sqrt(partials.sum(dtype=np.float64)))


def _run(
    function: Kernel,
    columns: tuple[Arrays, ...],
    kept: Keep,
    *,
    maximize: bool = False,
    decay: float = 0.0,
    shrink: float = 1.0,
    keep_m: float = 0.0,
    add_m: float = 0.0,
    keep_v: float = 0.0,
    add_v: float = 0.0,
    rate: float = 0.0,
    scale: float = 1.0,
    eps: float = 0.0,
    extra: float = 0.0,
) -> None:
    """Launch a rule: the numbers are those of compiled/optimizer.py."""
    parameters = columns[0]
    if not parameters:
        return
    table: _Table | None = kept.get("table") if kept else None
    if table is None or not table.takes(columns[1]):
        table = _Table(columns)
        if kept is not None and table.reads_in_place:
            kept["table"] = table
    elements = table.elements
    if elements:
        per_task = CHUNK if elements < _LARGE else _LONG
        model = parameters[0]
        function[model.dtype.char](
            -(-elements // per_task), model, table.words, len(parameters), per_task,
            -1.0 if maximize else 1.0, decay, shrink, keep_m, add_m, keep_v, add_v, rate, scale, eps, extra,
        )  # fmt: skip
        for array, copy in table.copies:
            np.copyto(array, copy)


class _Table:
    """The table of a step: for each tensor its arrays (parameter, gradient, buffers), where it begins, its elements.

    A kernel wants the arrays of a tensor dense and in one memory order. Those that are not are replaced by copies, and
    ``copies`` says which of them the step changes. Only a table without copies is good for another step.
    """

    def __init__(self, columns: tuple[Arrays, ...]) -> None:
        entries: list[int] = []
        # the table holds addresses of objects only; not even these of gradients, which come anew in every step
        self._alive: list[np.ndarray] = [array for column in (*columns[:1], *columns[2:]) for array in column]
        self.copies: list[tuple[np.ndarray, np.ndarray]] = []
        self.reads_in_place = True
        self._strides: list[tuple[int, ...]] = []
        self.elements = 0
        padding = _COLUMNS - 2 - len(columns)
        for arrays in zip(*columns, strict=True):
            parameter = arrays[0]
            strides = parameter.strides
            self._strides.append(arrays[1].strides if len(arrays) > 1 else strides)
            if not is_dense(parameter.shape, strides, parameter.itemsize):
                arrays = self._dense(parameter.copy(order="K"), arrays)
            else:
                for array in arrays:
                    if array.strides != strides and not same_order(array.shape, array.strides, strides):
                        arrays = self._dense(parameter, arrays)
                        break
            entries += map(id, arrays)
            entries += (id(arrays[0]),) * padding
            entries.append(self.elements)
            entries.append(parameter.size)
            self.elements += parameter.size
        self.words = np.array(entries, np.int64)

    def takes(self, gradients: Arrays) -> bool:
        """Put these gradients into the table, unless one of them lies in another order."""
        if [gradient.strides for gradient in gradients] != self._strides:
            return False
        self.words[1::_COLUMNS] = list(map(id, gradients))
        return True

    def _dense(self, model: np.ndarray, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        self.reads_in_place = False
        # one object may stand in several places: then so does its copy
        made = {id(arrays[0]): model}
        for array in arrays[1:]:
            if id(array) not in made:
                same = same_order(array.shape, array.strides, model.strides)
                made[id(array)] = array if same else like(array, model)
        copies = tuple(made[id(array)] for array in arrays)
        self._alive += copies
        for place, (array, copy) in enumerate(zip(arrays, copies, strict=True)):
            if copy is not array and place != 1:
                self.copies.append((array, copy))
        return copies
