"""Per-sample gradients: the gradient of every sample's own loss to every parameter, by one forward and one sweep.

The sweep brings the gradient g of the summed losses to each layer's output. A hook there runs the layer's rule
(``per_sample_rules``), which makes a gradient for each row of the batch from g and the layer's input. They are summed
over the calls of a layer and returned, or left in ``grad_sample`` of the parameters beside their ``grad``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self, overload

import numpy as np

from ...engine.changes import check
from ...engine.grad_mode import is_grad_enabled, no_grad, thread
from ...engine.sweep import grad
from ...engine.tensor import Tensor, wrap
from ..module import Module
from ..parameter import Parameter
from .per_sample_recurrent import apart, is_recurrent, tensors_in
from .per_sample_rules import Call, Prepare, Rule, register_per_sample_rule, rule_of

__all__ = ["per_sample_gradients", "register_per_sample_rule"]


@overload
def per_sample_gradients(module: Module, losses: None = None, *, loss_reduction: str = "sum") -> GradSamples: ...


@overload
def per_sample_gradients(
    module: Module, losses: Callable[[], Tensor], *, loss_reduction: str = "sum"
) -> dict[str, Tensor]: ...


def per_sample_gradients(
    module: Module, losses: Callable[[], Tensor] | None = None, *, loss_reduction: str = "sum"
) -> GradSamples | dict[str, Tensor]:
    """The gradient of every sample's own loss to every parameter: by a context manager, or returned.

        with per_sample_gradients(model):
            cross_entropy(model(x), labels, reduction="sum").backward()
        model.weight.grad_sample  # (N, *shape); its sum over the samples is model.weight.grad

        grads = per_sample_gradients(model, lambda: cross_entropy(model(x), labels, reduction="none"))

    The second form returns {path of the parameter: Tensor (N, *shape)} and touches no ``grad``; a parameter that no
    loss depends on gives zeros.

    In the first form ``grad_sample`` follows ``grad``: where a backward adds to ``grad`` it adds to ``grad_sample``, so
    that there is one row for each sample as long as the batches have the same size; where it writes (``grad`` was None,
    or grad_req is "write") it writes; "null" leaves both alone; ``zero_grad`` drops both. A parameter whose layer has
    no rule gets ``grad`` alone. ``autograd.grad`` delivers nothing.

    The samples must stay apart: axis 0 of what goes into a layer is the batch (of a recurrent layer the axis that it
    has for it), nothing in the model mixes its rows, and a parameter is used by the forward of its own layer alone.
    Layers with a rule are Linear, convolutions, normalisations (BatchNorm in eval mode only), Embedding, and recurrent
    layers and cells; others by ``register_per_sample_rule``.

    Args:
        losses: a function that runs the module and returns the loss of every sample, a Tensor of shape (N,).
        loss_reduction: of the loss in the first form: "sum", or "mean", whose rows are multiplied by N, so that they
            are those of the samples' own losses.

    Raises:
        ValueError: a layer mixes the samples (BatchNorm in training), axis 0 is not the same number of samples in all
            layers; in the second form, also parameters without a rule, and a loss_reduction, which is for the first.
        TypeError: losses does not return a Tensor of shape (N,), or grad recording is off.
        RuntimeError: no loss depends on a parameter; a parameter is in two such contexts.

    Source: the names grad_sample and loss_reduction are those of Opacus and torch.nn.utils.
    """
    if loss_reduction not in ("sum", "mean"):
        raise ValueError(f'per_sample_gradients: loss_reduction={loss_reduction!r} must be "sum" or "mean"')
    if losses is None:
        return GradSamples(module, loss_reduction)
    if loss_reduction != "sum":
        raise ValueError(
            "per_sample_gradients: loss_reduction is for the context manager; the losses of a function are not reduced"
        )
    return _returned(module, losses)


class _Watch:
    """Hooks on the layers of a module that own parameters, and on the outputs of each of their calls."""

    def __init__(self, module: Module, every: bool) -> None:
        """every: refuse a layer without a rule, rather than leave it out."""
        self.module, self.every = module, every
        self.outputs: list[Tensor] = []  # of all calls
        self.count: int | None = None  # of samples
        self._handles: list[Any] = []

    def start(self) -> None:
        """Watch the calls from now on."""
        for path, layer in self.module.named_modules():
            if not own_parameters(layer):
                continue
            rule = rule_of(layer)
            if rule is not None:
                self._handles.append(layer.register_forward_hook(partial(self._called, path, rule), with_kwargs=True))
            elif self.every:
                self.stop()
                raise ValueError(
                    f"per_sample_gradients: no rule for the parameters {list(own_parameters(layer))} of "
                    f"{path or 'the module itself'} ({type(layer).__name__}); add one by register_per_sample_rule, or "
                    "freeze them: requires_grad_(False)"
                )

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def listens(self) -> bool:
        """Whether the gradients of this sweep are wanted."""
        raise NotImplementedError

    def receive(self, path: str, parameter: Parameter, rows: Tensor) -> None:
        """Take what one call of a layer contributes."""
        raise NotImplementedError

    def _called(
        self,
        path: str,
        rule: tuple[Rule, Prepare | None],
        layer: Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
    ) -> Any:
        if is_recurrent(layer):
            # one output may be made of another, as y of the last state: each must get its own gradient only
            output = apart(output)
        outputs = [output] if isinstance(output, Tensor) else tensors_in(output) if is_recurrent(layer) else []
        if args and hasattr(args[0], "batch_sizes"):
            raise ValueError(
                f"per_sample_gradients: {path or 'the module'} ({layer.describe()}) was called with a PackedSequence, "
                "which has no axis for the samples; call it with x, lengths = pad_packed_sequence(..), lengths=lengths"
            )
        if not (args and isinstance(args[0], Tensor) and outputs):
            raise ValueError(
                f"per_sample_gradients: {path or 'the module'} ({layer.describe()}) must be called with its input "
                "as the first positional argument and return one Tensor"
            )
        for place, one in enumerate(outputs):
            if one.requires_grad:
                # An alias: the model may change the output in place afterwards.
                call = Call(layer, args[0], _result(one.array, one._edge), args=args, kwargs=kwargs, place=place)
                self._watched_output(path, rule, call)
        return output

    def _watched_output(self, path: str, rule: tuple[Rule, Prepare | None], call: Call) -> None:
        call.saved = rule[1](call) if rule[1] else None
        y, data = call.y, call.y.array
        node, *rest = y._edge  # type: ignore[misc]  # it requires a gradient
        call.y = wrap(data)  # the hook must not hold the node that holds it
        y.register_hook(partial(self._arrived, path, call, rule[0], weakref.ref(node), rest))
        if self.every:
            self.outputs.append(y)

    def _arrived(self, path: str, call: Call, rule: Rule, node: Any, rest: list[Any], g: Tensor) -> None:
        """The gradient of a call's output has come."""
        if self.listens():
            bare = call.y
            call.y = _result(bare.array, (node(), *rest))
            try:
                self._apply(path, call, rule, g)
            finally:
                call.y = bare

    def _apply(self, path: str, call: Call, rule: Rule, g: Tensor) -> None:
        for side, tensor, axis in (("input", call.x, call.axes[0]), ("output", g, call.axes[1])):
            if self.count is None and tensor.array.ndim:
                self.count = tensor.array.shape[axis]
            if not tensor.array.ndim or tensor.array.shape[axis] != self.count:
                raise ValueError(
                    f"per_sample_gradients: the {side} of {path or 'the module'} ({call.layer.describe()}) has "
                    f"shape {tensor.array.shape}, axis {axis} must be the {self.count} samples"
                )
        check(call.y.grad_fn, (call.x,))  # type: ignore[arg-type]  # that the input was not changed since
        wanted = own_parameters(call.layer)
        with no_grad():
            for name, rows in rule(call, g).items():
                if any(np.may_share_memory(rows.array, given.array) for given in (g, call.x)):
                    rows = wrap(rows.array.copy(order="K"))
                if name in wanted:
                    self.receive(f"{path}.{name}" if path else name, wanted[name], rows)


def _result(data: np.ndarray, edge: Any) -> Tensor:
    """A tensor at a place of the graph."""
    y = wrap(data)
    y._edge, y._requires_grad = edge, True
    return y


def own_parameters(layer: Module) -> dict[str, Parameter]:
    """The parameters that a layer has itself, and that ask for a gradient."""
    return {name: p for name, p in layer.named_parameters(recurse=False) if p.requires_grad and p.grad_req != "null"}


# ---- gradients that are returned -----------------------------------------------------------------------------


class _Returned(_Watch):
    """Sums by parameter."""

    def __init__(self, module: Module) -> None:
        super().__init__(module, every=True)
        self.sums: dict[int, Tensor] = {}
        self._sweeping = False

    def listens(self) -> bool:
        return self._sweeping

    def receive(self, path: str, parameter: Parameter, rows: Tensor) -> None:
        add(self.sums, parameter, rows)

    def sweep(self, values: Tensor) -> None:
        self.count, self._sweeping = values.array.shape[0], True
        try:
            grad(values, self.outputs, wrap(np.ones_like(values.array)), allow_unused=True)
        finally:
            self._sweeping = False
            self.outputs.clear()  # the graph's hooks lead here


def _returned(module: Module, losses: Callable[[], Tensor]) -> dict[str, Tensor]:
    if not is_grad_enabled():
        raise TypeError("per_sample_gradients: recording is off; call it outside of no_grad")
    watch = _Returned(module)
    watch.start()
    try:
        values = losses()
    finally:
        watch.stop()
    if not isinstance(values, Tensor) or values.array.ndim != 1:
        found = f"a Tensor of shape {values.shape}" if isinstance(values, Tensor) else type(values).__name__
        raise TypeError(
            f"per_sample_gradients: losses returned {found}, expected the loss of every sample, of shape (N,); "
            'use reduction="none" and sum over everything but the batch'
        )
    if not watch.outputs or not values.requires_grad:
        raise RuntimeError("per_sample_gradients: the losses depend on no parameter of the module")
    watch.sweep(values)
    results: dict[str, Tensor] = {}
    for path, parameter in module.named_parameters():  # a shared one stands under its first path
        if parameter.requires_grad and parameter.grad_req != "null":
            data = parameter.array
            rows = watch.sums.get(id(parameter))
            results[path] = wrap(np.zeros((values.array.shape[0], *data.shape), data.dtype)) if rows is None else rows
    return results


def add(sums: dict[int, Tensor], parameter: Parameter, rows: Tensor) -> None:
    """Add to the sum of a parameter."""
    total = sums.get(id(parameter))
    sums[id(parameter)] = rows if total is None else wrap(total.array + rows.array)


# ---- gradients beside grad -----------------------------------------------------------------------------------


class GradSamples(_Watch):
    """The context manager that ``per_sample_gradients(module)`` returns; it may be entered again."""

    _watched: set[int] = set()  # ids of the parameters that are in a context now

    def __init__(self, module: Module, loss_reduction: str) -> None:
        super().__init__(module, every=False)
        self._mean = loss_reduction == "mean"
        self._own: set[int] = set()
        self._sweep: object = None  # the backward that the rest is about
        self._sums: dict[int, Tensor] = {}
        self._fresh: set[int] = set()

    def __enter__(self) -> Self:
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        if any(id(p) in self._watched for p in parameters):
            raise RuntimeError("per_sample_gradients: a parameter of the module is in such a context already")
        self.start()
        self._own = set(map(id, parameters))
        self._watched |= self._own
        self._handles += [p.register_post_accumulate_grad_hook(self._deliver) for p in parameters]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._watched -= self._own
        self._forget(None)

    def _forget(self, sweep: object) -> None:
        self._sweep, self.count = sweep, None
        self._sums.clear()
        self._fresh.clear()

    def listens(self) -> bool:
        sweep = thread.mode.delivery
        if sweep is None or not self._handles:  # autograd.grad, or the block has ended
            return False
        if sweep is not self._sweep:  # whatever an earlier one has left behind, which failed
            self._forget(sweep)
        return True

    def receive(self, path: str, parameter: Parameter, rows: Tensor) -> None:
        if id(parameter) not in self._sums:
            before = parameter.grad_sample
            if before is None or parameter.grad is None or parameter.grad_req == "write":
                self._fresh.add(id(parameter))
            elif before.array.shape[0] != self.count:
                raise ValueError(
                    f"per_sample_gradients: grad_sample of {path} holds {before.array.shape[0]} samples, to which "
                    f"{self.count} others cannot be added; call zero_grad() between batches of different size, or set "
                    'grad_req="write"'
                )
        add(self._sums, parameter, rows)

    def _deliver(self, parameter: Any) -> None:
        rows = self._sums.pop(id(parameter), None) if thread.mode.delivery is self._sweep else None
        if rows is None:
            return
        if self._mean:
            rows = wrap(rows.array * rows.array.dtype.type(len(rows.array)))
        before = None if id(parameter) in self._fresh else parameter.grad_sample
        parameter.grad_sample = rows if before is None else wrap(before.array + rows.array)
