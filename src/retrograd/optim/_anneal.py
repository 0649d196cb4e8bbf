"""Schedulers that multiply the rate by a factor in every epoch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._files.state import Check, check_table, count, number
from ..engine.arguments import as_list
from ._scheduler import FunctionScheduler, GradualScheduler, require_count
from .optimizer import Optimizer
from .options import require_number

Function = Callable[[int], float]
_LINEAR = {"start_factor": number(above=0, high=1), "end_factor": number(0, 1), "total_iters": count(1)}


class LambdaLR(FunctionScheduler):
    """lr = base * lr_lambda(t)

    lr_lambda: a function of the epoch, or a list of one per group. The state_dict omits functions; for a callable
        object it holds the attributes.

    Raises:
        ValueError: the number of functions is not that of the groups.
        TypeError: a function is not callable; or as LRScheduler.
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Function | Sequence[Function], last_epoch: int = -1) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * function(self.last_epoch) for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(FunctionScheduler):
    """lr = lr * lr_lambda(t) in every epoch but the first

    Arguments, state and errors: as LambdaLR.
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Function | Sequence[Function], last_epoch: int = -1) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._current()
        rates = self._current()
        return [rate * function(self.last_epoch) for function, rate in zip(self.lr_lambdas, rates, strict=True)]


class StepLR(GradualScheduler):
    """lr = base * gamma**(t // step_size)

    Raises:
        ValueError: step_size is not an integer of at least 1, or gamma is negative or not a number.
        TypeError, KeyError: as LRScheduler.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        step_size = require_count("StepLR: step_size", step_size)
        gamma = require_number("StepLR: gamma", gamma)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "step_size": count(1), "gamma": number(0)}

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._current()
        return self._scaled(self.gamma)


class MultiStepLR(GradualScheduler):
    """lr = base * gamma**(number of milestones <= t); one listed twice counts twice

    Raises:
        ValueError: a milestone is not an integer of at least 0, or gamma is negative or not a number.
        TypeError, KeyError: as LRScheduler.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        given = as_list("MultiStepLR", "milestones", milestones, "a list of ints")
        self.milestones = Counter(require_count("MultiStepLR: milestone", each, low=0) for each in given)
        gamma = require_number("MultiStepLR: gamma", gamma)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "gamma": number(0), "milestones": _milestones}

    def get_lr(self) -> list[float]:
        if self.last_epoch not in self.milestones:
            return self._current()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])


def _milestones(name: str, value: Any) -> Counter[int]:
    return Counter({count()(name, key): count()(name, times) for key, times in check_table(name, value).items()})


class ConstantLR(GradualScheduler):
    """lr = base * factor while t < total_iters, then base

    Raises:
        ValueError: factor is outside (0, 1], or total_iters is not an integer of at least 0.
        TypeError, KeyError: as LRScheduler.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        factor = require_number("ConstantLR: factor", factor, upto=1.0)
        if factor == 0:
            raise ValueError("ConstantLR: factor=0 is invalid; the rate could never recover from 0")
        total_iters = require_count("ConstantLR: total_iters", total_iters, low=0)
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "factor": number(above=0, high=1), "total_iters": count()}

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1.0 / self.factor) if self.last_epoch == self.total_iters else self._current()

    def _first(self) -> list[float]:
        return super()._first() if self.total_iters else self.base_lrs


class LinearLR(GradualScheduler):
    """lr = base * (start_factor + (end_factor - start_factor) * min(t, total_iters) / total_iters)

    Raises:
        ValueError: start_factor is outside (0, 1], end_factor outside [0, 1], or total_iters is not an integer of at
            least 1.
        TypeError, KeyError: as LRScheduler.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        start_factor = require_number("LinearLR: start_factor", start_factor, upto=1.0)
        if start_factor == 0:
            raise ValueError("LinearLR: start_factor=0 is invalid; the rate could never recover from 0")
        end_factor = require_number("LinearLR: end_factor", end_factor, upto=1.0)
        total_iters = require_count("LinearLR: total_iters", total_iters)
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), **_LINEAR}

    def _factor(self, epoch: int) -> float:
        done = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        return self._scaled(self._factor(self.last_epoch) / self._factor(self.last_epoch - 1))


class ExponentialLR(GradualScheduler):
    """lr = base * gamma**t

    Raises:
        ValueError: gamma is negative or not a number.
        TypeError, KeyError: as LRScheduler.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        gamma = require_number("ExponentialLR: gamma", gamma)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "gamma": number(0)}

    def get_lr(self) -> list[float]:
        return self._current() if self._is_initial else self._scaled(self.gamma)


class PolynomialLR(GradualScheduler):
    """lr = base * (1 - min(t, total_iters) / total_iters)**power

    Raises:
        ValueError: total_iters is not an integer of at least 1, or power is negative or not a number.
        TypeError, KeyError: as LRScheduler.
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        total_iters = require_count("PolynomialLR: total_iters", total_iters)
        power = require_number("PolynomialLR: power", power)
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "total_iters": count(1), "power": number(0)}

    def get_lr(self) -> list[float]:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        left = self.total_iters - self.last_epoch
        return self._scaled((left / (left + 1)) ** self.power)


class CosineAnnealingLR(GradualScheduler):
    """lr = eta_min + (base - eta_min) * (1 + cos(pi * t / T_max)) / 2

    Source: Loshchilov and Hutter 2017 (arXiv:1608.03983), without restarts.

    Raises:
        ValueError: T_max is not an integer of at least 1, or eta_min is negative or not a number.
        TypeError, KeyError: as LRScheduler.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        T_max = require_count("CosineAnnealingLR: T_max", T_max)
        eta_min = require_number("CosineAnnealingLR: eta_min", eta_min)
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "T_max": count(1), "eta_min": number()}

    def _wave(self, epoch: int) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._current()
        low = self.eta_min
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # leaving the minimum, where the wave is 0
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [rate + (base - low) * rise for rate, base in zip(self._current(), self.base_lrs, strict=True)]
        ratio = self._wave(self.last_epoch) / self._wave(self.last_epoch - 1)
        return [ratio * (rate - low) + low for rate in self._current()]
