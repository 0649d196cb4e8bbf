"""LRScheduler: the base class of all schedulers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._files.state import Check, check_table, count, flag, items, names, number, optional, text
from ..engine.arguments import excerpt, kind_name
from ..engine.call_site import warn_user
from .optimizer import Group, Optimizer
from .options import as_number, require_number

__all__ = ["LRScheduler"]

_PYTORCH_ONLY = {"_get_lr_called_within_step", "verbose"}  # in PyTorch's state_dicts, unused here


class LRScheduler:
    """The base class of schedulers: sets the learning rates of an optimizer's groups, epoch by epoch.

    A subclass computes the rates in ``get_lr``.

    last_epoch: -1 starts anew; another number resumes after that epoch, for an optimizer whose groups have "initial_lr"
        (its state_dict was loaded). ``load_state_dict`` is safer.

    Raises:
        TypeError: optimizer is not an Optimizer, or last_epoch is not an integer.
        KeyError: last_epoch is not -1 and a group has no "initial_lr".
    """

    last_epoch: int

    base_lrs: list[float]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        name = type(self).__name__
        require_optimizer(name, optimizer)
        if isinstance(last_epoch, bool) or not isinstance(last_epoch, int) or last_epoch < -1:
            raise TypeError(f"{name}: last_epoch={last_epoch!r} is invalid; it must be an integer of at least -1")
        for position, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f'{name}: last_epoch={last_epoch}, but param_groups[{position}] has no "initial_lr"; '
                    "load the optimizer's state_dict first, or start anew with last_epoch=-1"
                )
        self.optimizer = optimizer
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._begin()

    def _begin(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_last_lr(self) -> list[float]:
        """Return the rates this scheduler last set, one per group."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """Return the rates of epoch ``last_epoch``, one per group."""
        raise NotImplementedError(f"{type(self).__name__} has no get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch, or of ``epoch``, which PyTorch has deprecated.

        Raises:
            ValueError: epoch is not an integer of at least 0.
        """
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            self._set(self.get_lr())
        else:
            self._go_to(self._deprecated_epoch(epoch))

    def _deprecated_epoch(self, epoch: int) -> int:
        """Return the epoch passed to ``step``, with a warning."""
        require_count(f"{type(self).__name__}: epoch", epoch, low=0)
        warn_user("the argument epoch of scheduler.step() is deprecated; leave it out, the scheduler counts the epochs")
        return epoch

    def _go_to(self, epoch: int) -> None:
        """Set the rates of ``epoch``, regardless of the current ones."""
        self.last_epoch = epoch
        self._set(self.get_lr())

    def _restart(self) -> None:
        """Set the rates of epoch 0, regardless of the current ones."""
        self.last_epoch = 0
        self._set(self._first())

    def _first(self) -> list[float]:
        return self.get_lr()

    def _set(self, rates: Sequence[float]) -> None:
        groups = self.optimizer.param_groups
        if len(rates) != len(groups):
            raise ValueError(
                f"{type(self).__name__}: it has rates for {len(rates)} parameter groups, but the optimizer now has "
                f"{len(groups)}; create the scheduler after the last add_param_group"
            )
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = as_number(rate)
        self._last_lr = self._current()

    def _current(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _scaled(self, factor: float) -> list[float]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and functions."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load the state of a scheduler of the same class. (The rates themselves are in the optimizer's state.)

        Raises:
            ValueError: entries are missing or unknown, or the number of groups differs; nothing is changed.
        """
        self._load(self._checked(state_dict, self.state_dict()))

    def _load(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _entries(self) -> dict[str, Check]:
        """Return the checks of a state_dict's entries; a subclass adds its own. Other entries are not checked."""
        rates = items(number(), len(self.optimizer.param_groups))
        return {
            "base_lrs": rates,
            "_last_lr": rates,
            "last_epoch": count(-1),
            "_step_count": count(),
            "_is_initial": flag,
        }

    def _checked(self, state_dict: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        name = type(self).__name__
        if not isinstance(state_dict, Mapping):
            raise ValueError(f"{name} state_dict: expected a dict, got {kind_name(state_dict)}")
        state = {key: value for key, value in state_dict.items() if key not in _PYTORCH_ONLY}
        if state.keys() != own.keys():
            raise ValueError(f"{name} state_dict: it has the entries {names(state)}, {name} needs {sorted(own)}")
        for key in ("base_lrs", "_last_lr"):
            if key in own and isinstance(state[key], list) and len(state[key]) != len(own[key]):
                raise ValueError(
                    f"{name} state_dict: {key} is for {len(state[key])} parameter groups, "
                    f"this optimizer has {len(own[key])}"
                )
        for key, check in self._entries().items():
            if key in state:
                state[key] = check(f"{name} state_dict: {key}", state[key])
        return state


class GradualScheduler(LRScheduler):
    """A scheduler that changes the current rates; to go to an epoch, it restarts from the initial rates."""

    def _go_to(self, epoch: int) -> None:
        self._restart()
        while self.last_epoch < epoch:
            self.last_epoch += 1
            self._set(self.get_lr())

    def _first(self) -> list[float]:
        self._set(self.base_lrs)
        self._is_initial = True
        rates = self.get_lr()
        self._is_initial = False
        return rates


class FunctionScheduler(LRScheduler):
    """A scheduler with a function per group; its state has the attributes of callable objects, but no functions."""

    lr_lambdas: list[Callable[[int], float]]

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int,
    ) -> None:
        name = type(self).__name__
        require_optimizer(name, optimizer)
        groups = len(optimizer.param_groups)
        functions: list[Any] = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        if len(functions) != groups:
            raise ValueError(f"{name}: lr_lambda holds {len(functions)} functions for {groups} parameter groups")
        for function in functions:
            if not callable(function):
                raise TypeError(f"{name}: lr_lambda={function!r} is not a function; pass one, or one per group")
        self.lr_lambdas = functions
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["lr_lambdas"] = [None if _is_function(function) else dict(vars(function)) for function in self.lr_lambdas]
        return state

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "lr_lambdas": items(optional(attributes), len(self.lr_lambdas))}

    def _load(self, state: dict[str, Any]) -> None:
        for function, saved in zip(self.lr_lambdas, state.pop("lr_lambdas"), strict=True):
            if saved is not None and not _is_function(function):
                vars(function).update(saved)
        super()._load(state)


def attributes(name: str, value: Any) -> dict[str, Any]:
    """Return the attributes of a callable object in a state_dict."""
    return {text(name, key): entry for key, entry in check_table(name, value).items()}


def _is_function(function: Any) -> bool:
    return not hasattr(function, "__dict__") or hasattr(function, "__code__")


# ---------------------------------------------------------------- checks shared by schedulers


def require_optimizer(name: str, optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{name}: optimizer must be an Optimizer of retrograd.optim, got {kind_name(optimizer)}")


def require_count(name: str, value: Any, low: int = 1) -> int:
    """Return value as an int; raise ValueError unless it is an integer of at least low."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
        raise ValueError(f"{name}={excerpt(value)} is invalid; it must be an integer of at least {low}")
    return int(value)


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[float]:
    """Return one number per group, from one number or a list.

    Raises:
        ValueError: the length of the list is not the number of groups, or a value is negative or not a number.
    """
    groups = len(optimizer.param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * groups
    if len(values) != groups:
        raise ValueError(f"{name} holds {len(values)} numbers for {groups} parameter groups")
    return [require_number(name, rate) for rate in values]


def momenta(
    name: str, optimizer: Optimizer, highest: Any, lowest: Any, begin: bool
) -> tuple[bool, list[float], list[float]]:
    """Return whether beta1 is the momentum of this optimizer, and the limits of the momenta, starting at the highest.

    Raises:
        ValueError: the optimizer has neither momentum nor betas, or a limit is invalid.
    """
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            f"{name}: cycle_momentum=True, but {type(optimizer).__name__} has neither momentum nor betas; "
            "set cycle_momentum=False"
        )
    use_beta1 = "betas" in optimizer.defaults
    highest_per_group = per_group(f"{name}: max_momentum", optimizer, highest)
    lowest_per_group = per_group(f"{name}: base_momentum", optimizer, lowest)
    if begin:
        for group, high, low in zip(optimizer.param_groups, highest_per_group, lowest_per_group, strict=True):
            set_momentum(group, use_beta1, high)
            group["max_momentum"], group["base_momentum"] = high, low
    return use_beta1, highest_per_group, lowest_per_group


def set_momentum(group: Group, use_beta1: bool, value: float) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
