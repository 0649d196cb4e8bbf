"""Averages of a model's weights over training: stochastic weight averaging (SWA) and exponential averages (EMA)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from .._files.state import Check, choice, count
from ..arrays import from_host
from ..engine.aliasing import mark_changed
from ..engine.arguments import kind_name
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..formulas import optimizers
from ..kernel_set import exact, kernels
from ..nn.module import Module
from ..nn.normalization import _BatchNorm
from ..ops.signatures import explain_wrong_arguments
from .optimizer import Optimizer
from .options import require_number
from .scheduler_base import LRScheduler, per_group, require_count, require_optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """average = decay * average + (1 - decay) * value, for lists of Tensors, in place.

    Raises:
        ValueError: decay is outside [0, 1].
    """
    require_number("get_ema_multi_avg_fn: decay", decay, upto=1.0)

    def ema_update(averages: Sequence[Tensor], values: Sequence[Tensor], num_averaged: Any) -> None:
        _move(averages, values, 1 - decay)

    return ema_update


def get_swa_multi_avg_fn() -> MultiAverage:
    """average = average + (value - average) / (num_averaged + 1), for lists of Tensors, in place."""

    def swa_update(averages: Sequence[Tensor], values: Sequence[Tensor], num_averaged: Any) -> None:
        _move(averages, values, 1 / (int(num_averaged) + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """decay * average + (1 - decay) * value

    Raises:
        ValueError: decay is outside [0, 1].
    """
    require_number("get_ema_avg_fn: decay", decay, upto=1.0)

    def ema_update(average: Tensor, value: Tensor, num_averaged: Any) -> Tensor:
        return decay * average + (1 - decay) * value

    return ema_update


def get_swa_avg_fn() -> Average:
    """average + (value - average) / (num_averaged + 1)"""

    def swa_update(average: Tensor, value: Tensor, num_averaged: Any) -> Tensor:
        return average + (value - average) / (int(num_averaged) + 1)

    return swa_update


def _move(averages: Sequence[Tensor], values: Sequence[Tensor], weight: float) -> None:
    """average = average + weight * (value - average); one launch per dtype; integers are truncated."""
    kinds: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {}
    for average, value in zip(averages, values, strict=True):
        arrays = kinds.setdefault(average.array.dtype.char, ([], []))
        arrays[0].append(average.array)
        arrays[1].append(_in_type(value.array, average.array.dtype))
    for kind, (targets, new) in kinds.items():
        if kind in "fd":
            kernels.update(optimizers.average, targets, new, weight=weight)
        else:
            for array, other in zip(targets, new, strict=True):
                kernels.weighted_average(array, other, weight)


def _in_type(x: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    found: np.ndarray = x if x.dtype == dtype else exact("cast")(x, dtype)
    return found


class AveragedModel(Module):
    """A copy of ``model``, in ``module``, whose parameters are averages of the model's over training.

    avg_fn: ``avg_fn(average, value, n_averaged)`` returns the new average of one parameter.
    multi_avg_fn: ``multi_avg_fn(averages, values, n_averaged)`` updates a list of averages in place. With neither, all
        models count equally (SWA); ``get_ema_multi_avg_fn(decay)`` gives exponential averages.
    use_buffers: average the buffers too; otherwise they are copied from the model.

    ``n_averaged`` counts the models; the first one is copied. Shapes are the model's. The functions are not part of the
    state_dict, whose keys are "n_averaged" and "module.…".

    Source: Izmailov et al. 2018 (arXiv:1803.05407); Polyak and Juditsky 1992.

    Raises:
        ValueError: both functions are passed.
        TypeError: model is not a Module.
    """

    use_buffers: bool

    n_averaged: Tensor
    avg_fn: Average | None
    multi_avg_fn: MultiAverage | None

    def __init__(
        self,
        model: Module,
        *,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(model, Module):
            raise TypeError(f"AveragedModel: model must be a Module, got {kind_name(model)}")
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel: pass either avg_fn or multi_avg_fn, not both")
        self.module: Module = deepcopy(model)
        self.register_buffer("n_averaged", Tensor(from_host(0)))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Add the model's current parameters to the average.

        Raises:
            ValueError: the shapes of its parameters or buffers differ from the average's; nothing is changed.
        """
        averages = self._pairs(self.module.parameters(), model.parameters(), "parameters")
        buffers = self._pairs(self.module.buffers(), model.buffers(), "buffers")
        copied = buffers
        if self.use_buffers:
            averages, copied = averages + buffers, []
        count = int(self.n_averaged.item())
        with no_grad():
            if count == 0:
                copied = averages + buffers
            elif self.avg_fn is not None:
                for average, value in averages:
                    result = self.avg_fn(average.detach(), value.detach(), self.n_averaged)
                    kernels.copy(average.array, _in_type(result.array, average.array.dtype))
            else:
                self._average_all([a.detach() for a, _ in averages], [b.detach() for _, b in averages])
        for average, value in copied:
            if not np.can_cast(value.array.dtype, average.array.dtype, "same_kind"):
                raise TypeError(
                    f"Cannot cast array data from {value.array.dtype!r} to {average.array.dtype!r} according to the "
                    "rule 'same_kind'"
                )
            kernels.copy(average.array, _in_type(value.array, average.array.dtype))
        kernels.copy(self.n_averaged.array, from_host(count + 1, self.n_averaged.array.dtype))
        mark_changed((average.array for average, _ in (*averages, *copied)), "update_parameters")

    def _average_all(self, averages: list[Tensor], values: list[Tensor]) -> None:
        function = self.multi_avg_fn or get_swa_multi_avg_fn()
        for kind in dict.fromkeys(average.dtype for average in averages):  # lists of one dtype, as in PyTorch
            same = [n for n, average in enumerate(averages) if average.dtype == kind]
            function([averages[n] for n in same], [values[n] for n in same], self.n_averaged)

    @staticmethod
    def _pairs(averages: Iterable[Tensor], values: Iterable[Tensor], kind: str) -> list[tuple[Tensor, Tensor]]:
        averages, values = list(averages), list(values)
        shapes, new_shapes = [tensor.shape for tensor in averages], [tensor.shape for tensor in values]
        if shapes != new_shapes:
            raise ValueError(
                f"update_parameters: the {kind} of the model have the shapes {new_shapes}, the average's {shapes}"
            )
        return list(zip(averages, values, strict=True))


def update_bn(loader: Iterable[Any], model: Module) -> None:
    """Recompute the running statistics of all batch norm layers of ``model`` over the batches of ``loader``.

    loader: batches for the model, or lists and tuples whose first entry is one. Without a batch norm layer the loader
        is not used. Modes and momenta of the layers are restored.

    Raises:
        TypeError: model is not a Module.
    """
    if not hasattr(model, "modules"):
        raise TypeError(f"update_bn: model is {kind_name(model)}, needs a Module")
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        return
    if not isinstance(loader, Iterable):
        raise TypeError(f"update_bn: loader is {kind_name(loader)}, needs a DataLoader or other batches")
    modes, momenta = [(module, module.training) for module in model.modules()], [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the mean over all batches
    try:
        model.train()
        with no_grad():
            for batch in loader:
                model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        for module, mode in modes:
            module.training = mode


class SWALR(LRScheduler):
    """Anneals the current rate to ``swa_lr`` in ``anneal_epochs`` epochs, then keeps it constant.

    swa_lr: a number, or a list of one per group.
    anneal_strategy: "cos" or "linear".

    Source: Izmailov et al. 2018 (arXiv:1803.05407).

    Raises:
        ValueError: an option is out of range, or swa_lr does not have one number per group.
        TypeError, KeyError: as LRScheduler.
    """

    anneal_epochs: int

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        require_optimizer("SWALR", optimizer)
        rates = per_group("SWALR: swa_lr", optimizer, swa_lr)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f'SWALR: anneal_strategy={anneal_strategy!r} is invalid; it must be "cos" or "linear"')
        require_count("SWALR: anneal_epochs", anneal_epochs, low=0)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _entries(self) -> dict[str, Check]:
        checks = {"anneal_epochs": count(), "_anneal_strategy": choice("cos", "linear")}
        return {**super()._entries(), **checks}

    def _fraction(self, step: int) -> float:
        """Return the fraction of the annealing done by a step."""
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * done)) / 2 if self._anneal_strategy == "cos" else done

    def get_lr(self) -> list[float]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._fraction(step - 1), self._fraction(step)
        rates = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates


explain_wrong_arguments(globals()[name] for name in __all__)
