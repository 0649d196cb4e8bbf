"""Gradient statistics per layer: norm, zeros, NaN, and the size of the weight update."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files.state import Check, check_table, number, optional, table
from .._files.terminal import aligned, display_name
from ..engine.arguments import kind_name
from ..engine.backward_pass import grad
from ..engine.backward_rules import without_backward_rules
from ..engine.tensor import Tensor
from ..nn.module import Module
from .callbacks import Callback

if TYPE_CHECKING:
    from .fit import Fit

__all__ = [
    "GradientMonitor",
    "GradientStatistics",
    "LayerGradients",
    "check_gradients",
    "figure",
    "gradients_text",
    "rows_of",
    "share",
    "true_gradients",
]

RATIO = ".1e"  # number format of the update ratio
Gradients = Mapping[str, Any]  # path of a parameter -> Tensor or array


@dataclass(frozen=True)
class LayerGradients:
    """Statistics of the gradients of a module's own parameters, taken together; None means unknown.

    path: the module's path in the model, "" for the model itself; kind: its class. norm: Euclidean. zeros, not_finite:
    fractions of the elements, 0 to 1, that are exactly 0, and NaN or infinite. update: the ratio of the norm of a
    step's change to the norm of the weights before it; None for weights of 0. angle: to the true gradient, in degrees,
    0 to 180; None if that was not given, or a norm is 0 or not finite.
    """

    path: str
    kind: str
    norm: float | None
    zeros: float | None
    not_finite: float | None
    update: float | None = None
    angle: float | None = None


_FIGURES = ("norm", "zeros", "not_finite", "update", "angle")


class GradientStatistics:
    """Statistics of a model's gradients in one step, for a custom training loop:

        stats = GradientStatistics(model)
        loss.backward()
        stats.collect()
        optimizer.step()
        stats.after_step()
        print(stats)

    ``rows`` has a LayerGradients for each module with parameters of its own, in the order of the model. Parameters
    without a gradient are ignored. The model is not changed; a copy of the weights exists from ``collect`` to
    ``after_step``.

    Raises:
        TypeError: model is not a Module.
    """

    def __init__(self, model: Module) -> None:
        if not isinstance(model, Module):
            raise TypeError(f"GradientStatistics: model is {kind_name(model)}, expected a Module")
        self.model = model
        self.rows: list[LayerGradients] = []
        self._before: dict[str, list[tuple[Tensor, np.ndarray]]] | None = None  # by path: weights and their copy

    def collect(self, true_gradients: Gradients | None = None) -> list[LayerGradients]:
        """Measure the gradients after a backward and return the new rows.

        true_gradients: path of a parameter -> the gradient that it would have without backward rules, a Tensor or an
            array of its shape, as the function ``true_gradients`` returns. Rows then have the angle between the two
            gradients, over these parameters.

        Raises:
            TypeError: true_gradients is not a Mapping.
            ValueError: it names a parameter that the model does not have, or one of another shape.
        """
        parameters = dict(self.model.named_parameters())
        true = _checked({} if true_gradients is None else true_gradients, parameters)
        modules = dict(self.model.named_modules(remove_duplicate=False))
        layers: dict[str, list[str]] = {}
        for name in parameters:
            layers.setdefault(name.rpartition(".")[0], []).append(name)
        self.rows, self._before = [], {}
        for path, names in layers.items():
            with_grad = [name for name in names if parameters[name].grad is not None]
            gradients = {name: _values(parameters[name].grad) for name in with_grad}
            figures = _measured(gradients, true)
            self.rows.append(LayerGradients(path, type(modules[path]).__name__, *figures))
            self._before[path] = [(parameters[name], parameters[name].array.copy()) for name in with_grad]
        return self.rows

    def after_step(self) -> list[LayerGradients]:
        """Add to the rows how far the optimizer's step has moved the weights since ``collect``, and return them.

        Raises:
            RuntimeError: ``collect`` was not called since the last ``after_step``.
        """
        if self._before is None:
            raise RuntimeError("GradientStatistics: call collect() after backward, before the optimizer's step")
        before, self._before = self._before, None
        self.rows = [replace(row, update=_update(before[row.path])) for row in self.rows]
        return self.rows

    def __str__(self) -> str:
        return gradients_text(self.rows)


def true_gradients(loss: Tensor, model: Module) -> dict[str, Tensor]:
    """Return the gradients of a loss without backward rules, by path of the parameter.

    Call it before the loss's own backward; the graph is kept. Parameters on which the loss does not depend are left
    out.

    Raises:
        RuntimeError: the loss has no graph, or more than one element.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad and p.grad_req != "null"}
    with without_backward_rules():
        found = grad(loss, [*parameters.values()], retain_graph=True, allow_unused=True)
    return {name: g for name, g in zip(parameters, found, strict=True) if g is not None}


def _checked(gradients: Gradients, parameters: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    if not isinstance(gradients, Mapping):
        raise TypeError(
            f"GradientStatistics: true_gradients is {kind_name(gradients)}, expected a dict: path of a parameter "
            "-> gradient"
        )
    arrays = {}
    for name, gradient in gradients.items():
        if name not in parameters:
            known = ", ".join(parameters)
            raise ValueError(f"GradientStatistics: true_gradients names {name!r}; the model's parameters are {known}")
        array, shape = np.asarray(_values(gradient)), parameters[name].shape
        if array.shape != shape:
            raise ValueError(f"GradientStatistics: true_gradients[{name!r}] has shape {array.shape}, expected {shape}")
        arrays[name] = array
    return arrays


def _values(gradient: Any) -> Any:
    return gradient.array if isinstance(gradient, Tensor) else gradient


def _measured(gradients: Mapping[str, np.ndarray], true: Mapping[str, np.ndarray]) -> tuple[float | None, ...]:
    """Return norm, zeros, not_finite, update (not known yet) and angle."""
    arrays = list(gradients.values())
    size = sum(array.size for array in arrays)
    if not size:
        return None, None, None
    zeros = size - sum(int(np.count_nonzero(array)) for array in arrays)
    finite = sum(int(np.count_nonzero(np.isfinite(array))) for array in arrays)
    both = [name for name in gradients if name in true]
    angle = _angle([gradients[name] for name in both], [true[name] for name in both])
    return _norm(arrays), zeros / size, (size - finite) / size, None, angle


def _norm(arrays: Sequence[np.ndarray]) -> float:
    with np.errstate(all="ignore"):
        return math.sqrt(sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays))


def _update(weights: Sequence[tuple[Tensor, np.ndarray]]) -> float | None:
    with np.errstate(all="ignore"):
        change = _norm([np.subtract(weight.array, before, dtype=np.float64) for weight, before in weights])
    norm = _norm([before for _, before in weights])
    return change / norm if norm else None


def _angle(gradients: Sequence[np.ndarray], true: Sequence[np.ndarray]) -> float | None:
    """Compute 2 atan2(|u - v|, |u + v|) of the unit vectors, which is also accurate for small angles.

    Source: W. Kahan, "How Futile are Mindless Assessments of Roundoff in Floating-Point Computation?", 2006.
    """
    norm, true_norm = _norm(gradients), _norm(true)
    if not (norm and true_norm and math.isfinite(norm) and math.isfinite(true_norm)):
        return None
    units = [
        (np.divide(u, norm, dtype=np.float64), np.divide(v, true_norm, dtype=np.float64))
        for u, v in zip(gradients, true, strict=True)
    ]
    difference, total = _norm([u - v for u, v in units]), _norm([u + v for u, v in units])
    return math.degrees(2 * math.atan2(difference, total))


# ---- As text --------------------------------------------------------------------------------------------------------


def gradients_text(rows: Sequence[LayerGradients]) -> str:
    """Format the layers as a table for a terminal, with angles only if with_grad are any."""
    if not rows:
        return "no gradients were measured"
    angles = any(row.angle is not None for row in rows)
    lines = [["layer", "‖g‖", "zeros", "NaN, Inf", "update/weight", *["angle (°)"] * angles]]
    for row in rows:
        name = display_name(f"{row.path} {row.kind}".strip())
        cells = [name, figure(row.norm), share(row.zeros), share(row.not_finite)]
        cells += [figure(row.update, RATIO), *[figure(row.angle, ".1f")] * angles]
        lines.append(cells)
    return "\n".join(aligned(lines, left=1))


def figure(value: float | None, form: str = ".3g") -> str:
    return "-" if value is None else format(value, form)


def share(value: float | None) -> str:
    """Format a fraction as a percentage; only 0 is shown as 0."""
    if not value:
        return "-" if value is None else "0 %"
    return f"{100 * value:.1f} %" if value >= 0.0005 else "<0.1 %"


# ---- During training ------------------------------------------------------------------------------------------------


class GradientMonitor(Callback):
    """Measures the gradients every ``every`` steps; an epoch's record gets an entry ``gradients``.

    The entry maps the path of a layer to the mean of each figure of LayerGradients over the measured steps where it was
    finite, or None. An epoch without a measured step has no such entry. ``statistics`` has the last measured step.

    If backward rules are active, each measurement runs a second backward without them, to obtain the angles.

    every: the number of steps from one measurement to the next.

    Raises:
        ValueError: every is not a positive int.
        TypeError: every is a model, which the monitor gets from ``fit``.
    """

    def __init__(self, every: int = 10) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            if isinstance(every, Module):
                raise TypeError("GradientMonitor: every is a model; leave it out, the monitor gets the model from fit")
            raise ValueError(f"GradientMonitor: every={every!r} must be a positive int")
        self.every = every
        self._true: Gradients | None = None  # true gradients of the current step
        self.statistics: GradientStatistics | None = None
        self._measured: list[list[LayerGradients]] = []  # rows measured in this epoch

    def on_start(self, fit: Fit) -> None:
        self.statistics, self._measured = GradientStatistics(fit.model), []

    def on_loss(self, fit: Fit, loss: Tensor) -> None:
        if self.statistics is not None and self._is_due(fit) and fit.model.backward_rules():
            self._true = true_gradients(loss, fit.model)

    def on_gradients(self, fit: Fit) -> None:
        if self.statistics is not None and self._is_due(fit):
            self.statistics.collect(self._true)
            self._true = None

    def on_step_end(self, fit: Fit, samples: int) -> None:
        if self.statistics is not None and self._is_due(fit):
            self._measured.append(self.statistics.after_step())

    def _is_due(self, fit: Fit) -> bool:
        return (fit.steps - 1) % self.every == 0

    def on_epoch_end(self, fit: Fit, record: dict[str, Any]) -> None:
        if self._measured:
            record["gradients"] = _means(self._measured)
        self._measured = []


def _means(steps: Sequence[Sequence[LayerGradients]]) -> dict[str, dict[str, float | None]]:
    """Map path -> figure -> mean over the steps in which it is finite; in the order of the last step."""
    means = {}
    for row in steps[-1]:
        same = [other for rows in steps for other in rows if other.path == row.path]
        means[row.path] = {name: _mean([getattr(other, name) for other in same]) for name in _FIGURES}
    return means


def _mean(values: Sequence[float | None]) -> float | None:
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return fmean(finite) if finite else None


def rows_of(record: Mapping[str, Any], model: Module) -> list[LayerGradients]:
    """Return the layers in an epoch's record; their kinds are taken from the model."""
    kinds = {path: type(module).__name__ for path, module in model.named_modules(remove_duplicate=False)}
    return [LayerGradients(path, kinds.get(path, ""), **values) for path, values in record.get("gradients", {}).items()]


def check_gradients(name: str, value: Any) -> None:
    """Check the ``gradients`` of a record in a checkpoint.

    Raises:
        ValueError: an entry is missing or out of range.
    """
    limits: dict[str, Check] = {
        "norm": optional(number(0)),
        "zeros": optional(number(0, 1)),
        "not_finite": optional(number(0, 1)),
        "update": optional(number(0)),
        "angle": optional(number(0, 180)),
    }
    for path, figures in check_table(name, value).items():
        if not isinstance(path, str):
            raise ValueError(f"{name} has the key {path!r}; it must be the path of a layer")
        table(limits)(f"{name}[{path!r}]", figures)
