"""Conversion of a float model's layers to low-bit layers, in place, with a report that can undo it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .. import nn
from ..engine.arguments import as_callable, as_list, kind_name
from ..engine.grad_mode import no_grad
from ..kernel_set import kernels
from ..nn.module import Module
from ..nn.parameter import is_lazy
from ..ops.argument_checks import as_truth
from ..ops.signatures import advised
from . import layers as feedforward_layers
from . import recurrent as recurrent_layers
from .base import LowBit, check_quantizer
from .binary_quantizers import BinaryConnect, Sign
from .quantizer import Quantizer
from .shift_quantizers import DeepShiftQ
from .uniform_quantizers import Fixed, Int8

__all__ = ["Change", "Conversion", "calibrate", "convert", "convert_to_binary", "convert_to_int8", "convert_to_shift"]

_FEEDFORWARD: dict[type, Any] = {
    getattr(nn, name): getattr(feedforward_layers, name) for name in feedforward_layers.__all__ if name != "Quantize"
}
_LOW_BIT_CLASSES = _FEEDFORWARD | {
    getattr(nn, name): getattr(recurrent_layers, name) for name in recurrent_layers.__all__
}
_KEPT = "it is the {} layer"
Run = Callable[[Module, Any], Any]


@dataclass
class Change:
    """The record of one layer: before and after, or why it was left unchanged."""

    path: str
    before: str
    after: str = ""
    reason: str = ""


@dataclass
class Conversion:
    """The report of a conversion: the layers that were changed or left. It can undo the conversion; str() formats it.

    changed: the layers that are low-bit now. left: the other layers that have parameters, each with the reason.
    new_parameters: whether the model has parameters that an optimizer created before the conversion lacks.
    """

    name: str
    changed: list[Change] = field(default_factory=list)
    left: list[Change] = field(default_factory=list)
    new_parameters: bool = False
    _undo: list[Callable[[], None]] = field(default_factory=list, repr=False)
    _is_undone: bool = field(default=False, repr=False)

    def undo(self) -> None:
        """Convert the layers back to float layers with their current float weights, without the optimizer's limits.

        DeepShiftPS layers have no float weights. A weight whose quantized value is the same as at the conversion gets
        its former float value back. Any other weight gets its current quantized value.

        Raises:
            RuntimeError: the conversion was already undone.
        """
        if self._is_undone:
            raise RuntimeError(f"{self.name}: this conversion was already undone; convert the model again")
        for each in self._undo:
            each()
        self._is_undone = True

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self.changed)} changed, {len(self.left)} left{', undone' * self._is_undone}"]
        for each in self.changed:
            lines += [f"  changed  {each.path or '(model)'}: {each.before}", f"        to {each.after}"]
        lines += [f"  left     {each.path or '(model)'}: {each.before}: {each.reason}" for each in self.left]
        if self.new_parameters:
            lines.append("  there are new parameters: make a new optimizer")
        return "\n".join(lines)


@advised
def convert(
    model: Module,
    *,
    weight: Quantizer | None = None,
    activation: Quantizer | None = None,
    skip: Iterable[str] = (),
    keep_first_and_last: bool = False,
    recurrent: bool = False,
) -> Conversion:
    """Convert the Linear and convolution layers of a model to low-bit layers, in place.

    The modules, their hooks and their float parameters stay the same objects, so an optimizer can continue. Only the
    quantizers' parameters are new. Layers of other classes, including subclasses, are left unchanged.

    weight, activation: quantizers for all layers; None leaves weights or activations float.
    skip: paths of layers, or of modules with all layers below them, that stay float.
    keep_first_and_last: the first and the last of the layers, in the order of the model's modules, stay float.
    recurrent: also RNN, LSTM, GRU and their cells, whose weights are quantized.

    Raises:
        TypeError: model is not a Module, or weight or activation is not a quantizer for that role.
        ValueError: neither quantizer is given, or skip has a path that is not in the model.
    """
    return _converted("convert", model, weight, activation, skip, keep_first_and_last, recurrent)


@advised
def convert_to_shift(
    model: Module,
    *,
    weight: Quantizer | None = None,
    activation: Quantizer | None = None,
    skip: Iterable[str] = (),
    keep_first_and_last: bool = False,
    recurrent: bool = False,
) -> Conversion:
    """``convert`` to weights that are powers of two, and fixed-point activations.

    weight: by default DeepShiftQ(); DeepShiftPS() trains shift and sign. activation: by default Fixed().

    Raises: as ``convert``.

    >>> from retrograd import lowbit, nn
    >>> model = nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
    >>> report = lowbit.convert_to_shift(model, skip=["2"])
    >>> print(report)
    convert_to_shift: 1 changed, 1 left
      changed  0: Linear(in_features=784, out_features=100, bias=True)
            to Linear(in_features=784, out_features=100, bias=True, weight=DeepShiftQ(bits=5), activation=Fixed())
      left     2: Linear(in_features=100, out_features=10, bias=True): it is in skip
    """
    weight = DeepShiftQ() if weight is None else weight
    activation = Fixed() if activation is None else activation
    return _converted("convert_to_shift", model, weight, activation, skip, keep_first_and_last, recurrent)


@advised
def convert_to_binary(
    model: Module,
    *,
    weight: Quantizer | None = None,
    activation: Quantizer | None = None,
    skip: Iterable[str] = (),
    keep_first_and_last: bool = True,
    recurrent: bool = False,
) -> Conversion:
    """``convert`` to weights and activations of one bit, except for the first and the last layer.

    weight: by default BinaryConnect(); BWN() and XNOR() have a scale for each filter. activation: by default Sign().
    A binary network needs a batch norm before each binary layer.

    Raises: as ``convert``.
    """
    weight = BinaryConnect() if weight is None else weight
    activation = Sign() if activation is None else activation
    return _converted("convert_to_binary", model, weight, activation, skip, keep_first_and_last, recurrent)


@advised
def convert_to_int8(
    model: Module,
    batches: Iterable[Any],
    *,
    run: Run | None = None,
    skip: Iterable[str] = (),
    keep_first_and_last: bool = False,
    recurrent: bool = False,
) -> Conversion:
    """``convert`` to weights and activations of 8 bits, whose ranges are those of the batches; see ``calibrate``.

    Layers that the batches do not reach stay float. If it fails, the model is unchanged.

    Raises: as ``convert`` and ``calibrate``.
    """
    report = _converted("convert_to_int8", model, Int8(), Int8(), skip, keep_first_and_last, recurrent)
    modules = dict(model.named_modules())
    try:
        calibrate(model, batches, run=run)
    except BaseException:
        report.undo()
        raise
    for change, undo in zip(list(report.changed), list(report._undo), strict=True):
        if not _is_ready(modules[change.path]):
            undo()
            report._undo.remove(undo)
            report.changed.remove(change)
            report.left.append(Change(change.path, change.before, reason="the batches did not reach it"))
    return report


@advised
def calibrate(model: Module, batches: Iterable[Any], *, run: Run | None = None) -> None:
    """Run batches so that low-bit layers set the ranges or steps of their activations.

    The model runs in eval mode with float activations. Its modes are restored afterwards; its weights do not change.

    batches: inputs of the model; the first element of a tuple or list, such as a DataLoader yields.
    run: called as run(model, batch) for each batch; None calls model(input).

    Raises:
        TypeError: model is not a Module.
        ValueError: there are no batches.
    """
    if not isinstance(model, Module):
        raise TypeError(f"calibrate: model is {kind_name(model)}, expected a Module")
    if run is not None:
        as_callable("calibrate", "run", run)
    if not isinstance(batches, Iterable):
        raise TypeError(f"calibrate: batches is {kind_name(batches)}, needs a list or a loader of batches")
    count = 0
    with _observing(model), no_grad():
        for batch in batches:
            count += 1
            if run is not None:
                run(model, batch)
            else:
                model(batch[0] if isinstance(batch, (tuple, list)) else batch)
    if not count:
        raise ValueError("calibrate: there are no batches; pass an iterable of inputs that is not exhausted")


@contextmanager
def _observing(model: Module) -> Iterator[None]:
    """Context manager: the model is in eval mode, and its low-bit layers observe their inputs."""
    modules = list(model.modules())
    modes = [module.training for module in modules]
    observers = [module for module in modules if isinstance(module, LowBit)]
    try:
        model.eval()
        for observer in observers:
            observer._observes = True
        yield
    finally:
        for observer in observers:
            observer._observes = False
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def _converted(
    name: str,
    model: Module,
    weight: Quantizer | None,
    activation: Quantizer | None,
    skip: Iterable[str],
    keep_first_and_last: bool,
    recurrent: bool,
) -> Conversion:
    """``convert`` with a function name for the report and messages."""
    if not isinstance(model, Module):
        raise TypeError(f"{name}: model is {kind_name(model)}, expected a Module")
    as_truth(name, "keep_first_and_last", keep_first_and_last)
    as_truth(name, "recurrent", recurrent)
    if weight is None and activation is None:
        raise ValueError(f"{name}: weight and activation are both None; give at least one quantizer")
    for argument, quantizer in (("weight", weight), ("activation", activation)):
        if quantizer is not None:
            check_quantizer(name, argument, quantizer, f"for_{argument}s")
    modules, skipped, owners = dict(model.named_modules()), paths_of(name, model, skip), _owners(model)
    reasons = {
        path: _reason(module, path, skipped, recurrent, owners)
        for path, module in modules.items()
        if module._parameter_names
    }
    if keep_first_and_last:
        for place, word in ((0, "first"), (-1, "last")):
            candidates = [path for path, reason in reasons.items() if not reason or reason == _KEPT.format("first")]
            if candidates and not reasons[candidates[place]]:
                reasons[candidates[place]] = _KEPT.format(word)
    report = Conversion(name)
    for path, reason in reasons.items():
        module = modules[path]
        if reason:
            report.left.append(Change(path, module.describe(), reason=reason))
        else:
            _change(report, path, module, weight, activation if type(module) in _FEEDFORWARD else None)
    return report


def _is_ready(module: Any) -> bool:
    quantizer = module.activation_quantizer
    return quantizer is None or quantizer.is_ready(module._own("activation"))


def paths_of(name: str, model: Module, skip: Iterable[str]) -> list[str]:
    """Return the paths in skip; name: the function's name, for messages.

    Raises:
        ValueError: the model has no module with such a path.
    """
    paths = [skip] if isinstance(skip, str) else as_list(name, "skip", skip, "paths of modules")
    known = {path for path, _ in model.named_modules()}
    for path in paths:
        if path not in known:
            raise ValueError(f"{name}: skip has {path!r}, the model has no module with that path; see named_modules()")
    return paths


def _owners(model: Module) -> dict[int, list[str]]:
    """Map the id of each parameter to its names, one for each module that has it."""
    owners: dict[int, list[str]] = {}
    for path, module in model.named_modules():
        for name in module._parameter_names:
            owners.setdefault(id(module.__dict__[name]), []).append(f"{path}.{name}" if path else name)
    return owners


def _reason(module: Module, path: str, skipped: list[str], recurrent: bool, owners: dict[int, list[str]]) -> str:
    """Return why a module with parameters is not converted; "" if it is converted."""
    kind = type(module)
    parameters = [module.__dict__[name] for name in module._parameter_names if module.__dict__[name] is not None]
    if isinstance(module, LowBit):
        return "it is low-bit already"
    if any(not each or path == each or path.startswith(f"{each}.") for each in skipped):
        return "it is in skip"
    if any(is_lazy(parameter) for parameter in parameters):
        return "its shape is not known yet; run a batch first"
    if kind not in _LOW_BIT_CLASSES:
        base = next((base for base in kind.__mro__ if base in _LOW_BIT_CLASSES), None)
        return f"it is a subclass of {base.__name__}, with custom code" if base else "it has no low-bit form"
    if kind not in _FEEDFORWARD and not recurrent:
        return "recurrent layers stay float without recurrent=True"
    for parameter in parameters:
        if len(owners[id(parameter)]) > 1:
            return f"a parameter is shared: {', '.join(owners[id(parameter)])}"
    return ""


def _change(report: Conversion, path: str, module: Any, weight: Quantizer | None, activation: Quantizer | None) -> None:
    """Give the module the class of the low-bit layer, and record its previous state."""
    kind, before = type(module), module.describe()
    members, registries = dict(module.__dict__), (dict(module._parameter_names), dict(module._buffer_names))
    module.__class__ = _LOW_BIT_CLASSES[kind]
    names = module._weight_names()
    limits = [members[name].limits for name in names]
    module._quantize(weight, activation)
    added = module.__dict__.keys() - members.keys()
    replaced = {name: kernels.duplicate(module.quantized(name).array) for name in module._replaced}
    report.new_parameters |= any(name in module._parameter_names for name in added)

    def undo() -> None:
        for name, then in replaced.items():
            with no_grad():
                now = module.quantized(name).array
            array = members[name].array
            kernels.copy(array, kernels.where(kernels.eq(now, then), array, now))
            module.__dict__[name] = members[name]
        for name in added:
            module.__dict__.pop(name, None)
        module._parameter_names, module._buffer_names = map(dict, registries)
        module.__class__ = kind
        for name, value in zip(names, limits, strict=True):
            getattr(module, name).limits = value

    report.changed.append(Change(path, before, module.describe()))
    report._undo.append(undo)
