"""Learning rate schedules: step, linear, exponential, polynomial, cosine and cyclic."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._files.state import Check, check_table, choice, count, items, number, optional, table
from ..engine.arguments import as_callable, as_list
from .optimizer import Optimizer
from .options import require_flag, require_number
from .scheduler_base import (
    FunctionScheduler,
    GradualScheduler,
    LRScheduler,
    attributes,
    momenta,
    per_group,
    require_count,
    require_optimizer,
    set_momentum,
)

# ---- Schedulers that multiply the rate by a factor in every epoch ---------------------------------------------------

Function = Callable[[int], float]
_LINEAR = {"start_factor": number(above=0, high=1), "end_factor": number(0, 1), "total_iters": count(1)}


class LambdaLR(FunctionScheduler):
    """lr = base * lr_lambda(t)

    lr_lambda: a function of the epoch, or a list of one per group. The state_dict omits functions; for a callable
        object, it contains the attributes.

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

    gamma: float
    step_size: int

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        require_optimizer("StepLR", optimizer)
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
    """lr = base * gamma**(number of milestones <= t); a milestone listed twice counts twice

    Raises:
        ValueError: a milestone is not an integer of at least 0, or gamma is negative or not a number.
        TypeError, KeyError: as LRScheduler.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        given = as_list("MultiStepLR", "milestones", milestones, "a list of ints")
        self.milestones: Counter[int] = Counter(require_count("MultiStepLR: milestone", each, low=0) for each in given)
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

    factor: float
    total_iters: int

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

    end_factor: float
    start_factor: float
    total_iters: int

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

    power: float
    total_iters: int

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

    T_max: int
    eta_min: float

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


# ---- Cyclic schedulers: warm restarts, one cycle, many cycles -------------------------------------------------------


class CosineAnnealingWarmRestarts(LRScheduler):
    """lr = eta_min + (base - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2

    T_cur counts epochs since the last restart. The next restart is after T_i epochs; T_i starts as T_0 and grows by the
    factor T_mult at every restart.

    Source: Loshchilov and Hutter 2017 (arXiv:1608.03983).

    Raises:
        ValueError: T_0 or T_mult is not an integer of at least 1, or eta_min is negative or not a number.
        TypeError, KeyError: as LRScheduler.
    """

    T_mult: int
    eta_min: float
    last_epoch: int
    T_i: int

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        T_0 = require_count("CosineAnnealingWarmRestarts: T_0", T_0)
        T_mult = require_count("CosineAnnealingWarmRestarts: T_mult", T_mult)
        eta_min = require_number("CosineAnnealingWarmRestarts: eta_min", eta_min)
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def _entries(self) -> dict[str, Check]:
        counts = dict.fromkeys(("T_0", "T_i", "T_mult"), count(1))
        return {**super()._entries(), **counts, "T_cur": number(-1), "eta_min": number()}

    def get_lr(self) -> list[float]:
        wave = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * wave for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the rates of the next epoch, or of ``epoch``, which may be a fraction: epoch + batch / batches.

        Raises:
            ValueError: epoch is negative or not a number.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            self.last_epoch += 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = require_number("CosineAnnealingWarmRestarts: epoch", epoch)
            self.last_epoch = math.floor(epoch)
            self._find(epoch)
        self._step_count += 1
        self._set(self.get_lr())

    def _find(self, epoch: float) -> None:
        """Set T_i and T_cur for ``epoch``, from the last restart before it."""
        self.T_i, self.T_cur = self.T_0, epoch
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult


class OneCycleLR(LRScheduler):
    """One cycle from max_lr / div_factor up to max_lr and down to max_lr / div_factor / final_div_factor.

    The rise takes ``pct_start`` of all steps; with ``three_phase``, the rate first falls back to its start in as many
    steps, then to the end. The steps are ``total_steps``, or ``epochs * steps_per_epoch``. With ``cycle_momentum``, the
    momentum (beta1 for Adam and its variants) falls from max_momentum to base_momentum and rises again.
    ``anneal_strategy``, "cos" or "linear", is the interpolation. Call ``step()`` after every batch.

    Source: Smith and Topin 2018 (arXiv:1708.07120); the two-phase default is fastai's.

    Raises:
        ValueError: the number of steps is missing or not an integer of at least 1, an option is out of range, or a list
            does not have one number per group; in ``step``, the cycle is over.
        TypeError, KeyError: as LRScheduler.
    """

    cycle_momentum: bool
    total_steps: int
    use_beta1: bool

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer("OneCycleLR", optimizer)
        if total_steps is not None:
            total_steps = require_count("OneCycleLR: total_steps", total_steps)
        elif epochs is None or steps_per_epoch is None:
            raise ValueError("OneCycleLR: the length is missing; pass total_steps, or epochs and steps_per_epoch")
        else:
            epochs = require_count("OneCycleLR: epochs", epochs)
            steps_per_epoch = require_count("OneCycleLR: steps_per_epoch", steps_per_epoch)
            total_steps = epochs * steps_per_epoch
        pct_start = require_number("OneCycleLR: pct_start", pct_start, upto=1.0)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f'OneCycleLR: anneal_strategy={anneal_strategy!r} is invalid; it must be "cos" or "linear"'
            )
        cycle_momentum = require_flag("OneCycleLR: cycle_momentum", cycle_momentum)
        three_phase = require_flag("OneCycleLR: three_phase", three_phase)
        div_factor = require_number("OneCycleLR: div_factor", div_factor)
        final_div_factor = require_number("OneCycleLR: final_div_factor", final_div_factor)
        for option, value in (("div_factor", div_factor), ("final_div_factor", final_div_factor)):
            if value == 0:
                raise ValueError(f"OneCycleLR: {option}=0 is invalid; rates are divided by it")
        highest = per_group("OneCycleLR: max_lr", optimizer, max_lr)
        self.total_steps, self.cycle_momentum = total_steps, cycle_momentum
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(total_steps, pct_start, three_phase)
        if cycle_momentum:
            self.use_beta1, _, _ = momenta("OneCycleLR", optimizer, max_momentum, base_momentum, last_epoch == -1)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"], group["max_lr"] = high / div_factor, high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        super().__init__(optimizer, last_epoch)

    def _entries(self) -> dict[str, Check]:
        keys = choice("initial_lr", "max_lr", "min_lr"), choice("max_momentum", "base_momentum")
        phase = {
            "end_step": number(),
            "start_lr": keys[0],
            "end_lr": keys[0],
            "start_momentum": keys[1],
            "end_momentum": keys[1],
        }
        return {
            **super()._entries(),
            "total_steps": count(1),
            "cycle_momentum": choice(self.cycle_momentum),
            "use_beta1": choice(getattr(self, "use_beta1", None)),
            "_anneal_func_type": choice("cos", "linear"),
            "_schedule_phases": items(table(phase), len(self._schedule_phases)),
        }

    def get_lr(self) -> list[float]:
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"OneCycleLR: step {self.last_epoch} of {self.total_steps}: the cycle is over; increase total_steps"
            )
        begin, phase = 0.0, self._schedule_phases[-1]
        for phase in self._schedule_phases:
            if self.last_epoch <= phase["end_step"]:
                break
            begin = phase["end_step"] if phase is not self._schedule_phases[-1] else begin
        length = phase["end_step"] - begin
        done = (self.last_epoch - begin) / length if length else 1.0
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                value = self._between(group[phase["start_momentum"]], group[phase["end_momentum"]], done)
                set_momentum(group, self.use_beta1, value)
        return rates

    def _between(self, start: float, end: float, done: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2 * (1 + math.cos(math.pi * done))
        return start + (end - start) * done


def _phases(steps: int, share: float, three: bool) -> list[dict[str, Any]]:
    """Return the phases in PyTorch's form: the step where each ends, and the group entries it interpolates between."""

    def phase(end: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
        return {
            "end_step": end,
            "start_lr": lr[0],
            "end_lr": lr[1],
            "start_momentum": momentum[0],
            "end_momentum": momentum[1],
        }

    up = phase(share * steps - 1, ("initial_lr", "max_lr"), ("max_momentum", "base_momentum"))
    if not three:
        return [up, phase(steps - 1, ("max_lr", "min_lr"), ("base_momentum", "max_momentum"))]
    down = phase(2 * share * steps - 2, ("max_lr", "initial_lr"), ("base_momentum", "max_momentum"))
    return [up, down, phase(steps - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum"))]


class CyclicLR(LRScheduler):
    """Cycles between base_lr and max_lr: up in ``step_size_up`` steps, down in ``step_size_down`` (None: the same).

    c is the number of the cycle, counted from 1, h the height in it, from 0 to 1:

        lr = base_lr + (max_lr - base_lr) * h * scale

    mode: "triangular" (scale 1), "triangular2" (scale 1 / 2**(c - 1)) or "exp_range" (scale gamma**t); scale_fn
        replaces it, a function of c or, with scale_mode "iterations", of t. The state_dict omits functions.
    cycle_momentum: the momentum (beta1 for Adam and its variants) falls from max_momentum to base_momentum as lr rises.

    Source: Smith 2017 (arXiv:1506.01186).

    Raises:
        ValueError: an option is out of range, or a list does not have one number per group.
        TypeError, KeyError: as LRScheduler.
    """

    cycle_momentum: bool
    gamma: float
    mode: str
    base_momentums: list[float]
    max_momentums: list[float]
    use_beta1: bool

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer("CyclicLR", optimizer)
        lowest = per_group("CyclicLR: base_lr", optimizer, base_lr)
        self.max_lrs: list[float] = per_group("CyclicLR: max_lr", optimizer, max_lr)
        step_size_up = require_count("CyclicLR: step_size_up", step_size_up)
        if step_size_down is not None:
            step_size_down = require_count("CyclicLR: step_size_down", step_size_down)
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(
                f'CyclicLR: mode={mode!r} is invalid; it must be "triangular", "triangular2" or "exp_range"'
            )
        if scale_mode not in ("cycle", "iterations"):
            raise ValueError(f'CyclicLR: scale_mode={scale_mode!r} is invalid; it must be "cycle" or "iterations"')
        gamma = require_number("CyclicLR: gamma", gamma)
        if scale_fn is not None:
            as_callable("CyclicLR", "scale_fn", scale_fn)
        cycle_momentum = require_flag("CyclicLR: cycle_momentum", cycle_momentum)
        self.total_size: float = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_ratio: float = step_size_up / self.total_size
        self.mode, self.gamma, self.cycle_momentum = mode, gamma, cycle_momentum
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle"
        if cycle_momentum:
            self.use_beta1, self.max_momentums, self.base_momentums = momenta(
                "CyclicLR", optimizer, max_momentum, base_momentum, last_epoch == -1
            )
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, lowest, strict=True):
                group["lr"] = rate
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def _entries(self) -> dict[str, Check]:
        rates = items(number(), len(self.optimizer.param_groups))
        return {
            **super()._entries(),
            "total_size": number(above=0),
            "step_ratio": number(above=0, high=1),
            "mode": choice("triangular", "triangular2", "exp_range", self.mode),
            "gamma": number(0),
            "cycle_momentum": choice(self.cycle_momentum),
            "use_beta1": choice(getattr(self, "use_beta1", None)),
            "scale_mode": choice("cycle", "iterations"),
            "max_lrs": rates,
            "max_momentums": rates,
            "base_momentums": rates,
            "_scale_fn_custom": optional(attributes),
        }

    def scale_fn(self, x: float) -> float:
        """Return the scale of a cycle, from its number or the epoch."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return self.gamma**x
        return 1.0 if self.mode == "triangular" else 1 / 2.0 ** (x - 1)

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            between = zip(self.optimizer.param_groups, self.max_momentums, self.base_momentums, strict=True)
            for group, high, low in between:
                set_momentum(group, self.use_beta1, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        function = self._scale_fn_custom
        saved = None if function is None or hasattr(function, "__code__") else dict(vars(function))
        return {**super().state_dict(), "_scale_fn_custom": saved}

    def _load(self, state: dict[str, Any]) -> None:
        saved, function = state.pop("_scale_fn_custom"), self._scale_fn_custom
        if saved is not None and function is not None and not hasattr(function, "__code__"):
            vars(function).update(saved)
        super()._load(state)
