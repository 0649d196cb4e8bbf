"""Per-sample gradients: the gradient of each sample's own loss to every parameter, in one forward and one backward.

Backward computes the gradient g of the summed losses to each layer's output. A hook there runs the layer's rule
(``per_sample_rules``), which computes a gradient for each row of the batch from g and the layer's input. They are
summed over the calls of a layer and returned, or stored in ``grad_sample`` of the parameters along with ``grad``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self, overload

import numpy as np

from ...engine.arguments import as_callable
from ...engine.changes import check
from ...engine.grad_mode import is_grad_enabled, no_grad, thread
from ...engine.sweep import grad
from ...engine.tensor import Tensor, wrap
from ..module import Module
from ..parameter import Parameter
from ..ruled import has_rule
from .per_sample_recurrent import is_recurrent, separated, tensors_in
from .per_sample_ruled import check_alone, is_ruled, one_by_one, own_parameters
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
    """The gradient of each sample's own loss to every parameter: from a context manager, or returned.

        with per_sample_gradients(model):
            cross_entropy(model(x), labels, reduction="sum").backward()
        model.weight.grad_sample  # (N, *shape); its sum over the samples is model.weight.grad

        grads = per_sample_gradients(model, lambda: cross_entropy(model(x), labels, reduction="none"))

    The second form returns {path of the parameter: Tensor (N, *shape)} and leaves ``grad`` alone; a parameter on which
    no loss depends gets zeros.

    In the first form ``grad_sample`` follows ``grad``: backward adds to both (all batches must then have the same
    size), or overwrites both if ``grad`` was None or grad_req is "write"; "null" leaves both alone; ``zero_grad`` drops
    both. A parameter whose layer has no rule gets only ``grad``. ``autograd.grad`` sets neither.

    Samples must stay separate: axis 0 of each layer's input is the batch (for a recurrent layer, its batch axis),
    nothing in the model mixes rows, and a parameter is used only by the forward of its own layer.
    Layers with a rule are Linear, convolutions, normalisations (BatchNorm in eval mode only), Embedding, and recurrent
    layers and cells; add others with ``register_per_sample_rule``. A layer with a backward rule, and every layer within
    `override_backward`, is run again for each sample on its own.

    Args:
        losses: a function that runs the module and returns the loss of each sample, a Tensor of shape (N,).
        loss_reduction: of the loss in the first form: "sum", or "mean", which multiplies rows by N to make them the
            gradients of the samples' own losses.

    Raises:
        ValueError: a layer mixes the samples (BatchNorm in training), axis 0 differs between layers; in the second
            form, also if a parameter has no rule, or loss_reduction is passed.
        TypeError: losses does not return a Tensor of shape (N,), or gradients are disabled.
        RuntimeError: no loss depends on a parameter; a parameter is in two such contexts.

    Source: the names grad_sample and loss_reduction are those of Opacus and torch.nn.utils.
    """
    if loss_reduction not in ("sum", "mean"):
        raise ValueError(f'per_sample_gradients: loss_reduction={loss_reduction!r} must be "sum" or "mean"')
    if losses is None:
        return GradSamples(module, loss_reduction)
    if loss_reduction != "sum":
        raise ValueError(
            "per_sample_gradients: loss_reduction is for the context manager; losses must return unreduced losses"
        )
    return _returned(module, losses)


class _Watch:
    """Hooks on the layers of a module that own parameters, and on the outputs of their calls."""

    def __init__(self, module: Module, every: bool) -> None:
        """every: refuse layers without a rule instead of skipping them."""
        self.module, self.every = module, every
        self.outputs: list[Tensor] = []  # of all calls
        self.count: int | None = None  # of samples
        self._handles: list[Any] = []

    def start(self) -> None:
        """Start watching calls."""
        inside: set[int] = set()  # the modules within one that has a backward rule
        for path, layer in self.module.named_modules():
            if id(layer) in inside or not own_parameters(layer):
                continue
            rule = rule_of(layer)
            if has_rule(layer) and not is_recurrent(layer):
                inside.update(map(id, layer.modules()))
                rule = one_by_one, check_alone
            if rule is not None:
                self._handles.append(layer.register_forward_hook(partial(self._called, path, rule), with_kwargs=True))
            elif self.every:
                self.stop()
                raise ValueError(
                    f"per_sample_gradients: no rule for the parameters {list(own_parameters(layer))} of "
                    f"{path or 'the module itself'} ({type(layer).__name__}); add one with register_per_sample_rule, "
                    "or freeze them: requires_grad_(False)"
                )

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def is_active(self) -> bool:
        """Whether to use the gradients of this sweep."""
        raise NotImplementedError

    def receive(self, path: str, parameter: Parameter, rows: Tensor) -> None:
        """Accept the contribution of one call of a layer."""
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
            # one output may be computed from another, such as y from the last state: separate their gradients
            output = separated(output)
        outputs = [output] if isinstance(output, Tensor) else tensors_in(output) if is_recurrent(layer) else []
        active = thread.mode.rules
        if active is not None and active.region is not None:
            raise ValueError(
                f"per_sample_gradients: {path or 'the module'} ({layer.describe()}) was called within "
                f"{active.region.name}, whose backward is the rule {active.region.rule.name}; its effect on one sample "
                f"is known for the whole {active.region.name} only: pass a module that contains it"
            )
        if args and hasattr(args[0], "batch_sizes"):
            raise ValueError(
                f"per_sample_gradients: {path or 'the module'} ({layer.describe()}) was called with a PackedSequence, "
                "which has no batch axis; call it with x, lengths = pad_packed_sequence(..), lengths=lengths"
            )
        if not (args and isinstance(args[0], Tensor) and outputs):
            raise ValueError(
                f"per_sample_gradients: {path or 'the module'} ({layer.describe()}) must be called with its input "
                "as the first positional argument and return one Tensor"
            )
        for place, y in enumerate(outputs):
            if y.requires_grad:
                # An alias: the model may change the output in place afterwards.
                call = Call(layer, args[0], _result(y.array, y._edge), args=args, kwargs=kwargs, place=place)
                call.rules = active
                ruled = is_ruled(layer) and not is_recurrent(layer)
                self._watched_output(path, (one_by_one, check_alone) if ruled else rule, call)
        return output

    def _watched_output(self, path: str, rule: tuple[Rule, Prepare | None], call: Call) -> None:
        call.saved = rule[1](call) if rule[1] else None
        y, data = call.y, call.y.array
        node, *rest = y._edge  # type: ignore[misc]  # it requires a gradient
        call.y = wrap(data)  # no reference cycle between the hook and its node
        y.register_hook(partial(self._arrived, path, call, rule[0], weakref.ref(node), rest))
        if self.every:
            self.outputs.append(y)

    def _arrived(self, path: str, call: Call, rule: Rule, node: Any, rest: list[Any], g: Tensor) -> None:
        """Handle the gradient g of a call's output."""
        if self.is_active():
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
                    f"shape {tensor.array.shape}, axis {axis} must hold the {self.count} samples"
                )
        check(call.y.grad_fn, (call.x,))  # type: ignore[arg-type]  # the input must not have changed since
        wanted = own_parameters(call.layer)
        with no_grad():
            for name, rows in rule(call, g).items():
                if any(np.may_share_memory(rows.array, tensor.array) for tensor in (g, call.x)):
                    rows = wrap(rows.array.copy(order="K"))
                if name in wanted:
                    self.receive(f"{path}.{name}" if path else name, wanted[name], rows)


def _result(data: np.ndarray, edge: Any) -> Tensor:
    """A tensor at an edge of the graph."""
    y = wrap(data)
    y._edge, y._requires_grad = edge, True
    return y


# ---- returned gradients --------------------------------------------------------------------------------------


class _Returned(_Watch):
    """Sums per parameter."""

    def __init__(self, module: Module) -> None:
        super().__init__(module, every=True)
        self.sums: dict[int, Tensor] = {}
        self._sweeping = False

    def is_active(self) -> bool:
        return self._sweeping

    def receive(self, path: str, parameter: Parameter, rows: Tensor) -> None:
        add(self.sums, parameter, rows)

    def sweep(self, values: Tensor) -> None:
        self.count, self._sweeping = values.array.shape[0], True
        try:
            grad(values, self.outputs, wrap(np.ones_like(values.array)), allow_unused=True)
        finally:
            self._sweeping = False
            self.outputs.clear()  # break the cycle through the graph's hooks


def _returned(module: Module, losses: Callable[[], Tensor]) -> dict[str, Tensor]:
    if not is_grad_enabled():
        raise TypeError("per_sample_gradients: gradients are disabled; call it outside of no_grad")
    as_callable("per_sample_gradients", "losses", losses)
    watch = _Returned(module)
    watch.start()
    try:
        values = losses()
    finally:
        watch.stop()
    if not isinstance(values, Tensor) or values.array.ndim != 1:
        got = f"a Tensor of shape {values.shape}" if isinstance(values, Tensor) else type(values).__name__
        raise TypeError(
            f"per_sample_gradients: losses returned {got}, expected one loss per sample, of shape (N,); "
            'use reduction="none" and sum over all axes but the batch'
        )
    if not watch.outputs or not values.requires_grad:
        raise RuntimeError("per_sample_gradients: the losses do not depend on any parameter of the module")
    watch.sweep(values)
    results: dict[str, Tensor] = {}
    for path, parameter in module.named_parameters():  # a shared one only under its first path
        if parameter.requires_grad and parameter.grad_req != "null":
            data = parameter.array
            rows = watch.sums.get(id(parameter))
            results[path] = wrap(np.zeros((values.array.shape[0], *data.shape), data.dtype)) if rows is None else rows
    return results


def add(sums: dict[int, Tensor], parameter: Parameter, rows: Tensor) -> None:
    """Add rows to the sum of a parameter."""
    total = sums.get(id(parameter))
    sums[id(parameter)] = rows if total is None else wrap(total.array + rows.array)


# ---- grad_sample along with grad -----------------------------------------------------------------------------------


class GradSamples(_Watch):
    """The context manager that ``per_sample_gradients(module)`` returns; it is reusable."""

    _watched: set[int] = set()  # ids of parameters in an active context

    def __init__(self, module: Module, loss_reduction: str) -> None:
        super().__init__(module, every=False)
        self._mean = loss_reduction == "mean"
        self._own: set[int] = set()
        self._sweep: object = None  # the backward that _sums and _fresh belong to
        self._sums: dict[int, Tensor] = {}
        self._fresh: set[int] = set()

    def __enter__(self) -> Self:
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        if any(id(p) in self._watched for p in parameters):
            raise RuntimeError("per_sample_gradients: a parameter of the module is already in such a context")
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

    def is_active(self) -> bool:
        sweep = thread.mode.delivery
        if sweep is None or not self._handles:  # autograd.grad, or the block has ended
            return False
        if sweep is not self._sweep:  # drop the remains of an earlier one that failed
            self._forget(sweep)
        return True

    def receive(self, path: str, parameter: Parameter, rows: Tensor) -> None:
        if id(parameter) not in self._sums:
            before = parameter.grad_sample
            if before is None or parameter.grad is None or parameter.grad_req == "write":
                self._fresh.add(id(parameter))
            elif before.array.shape[0] != self.count:
                raise ValueError(
                    f"per_sample_gradients: grad_sample of {path} holds {before.array.shape[0]} samples, this batch "
                    f'{self.count}; call zero_grad() between batches of different sizes, or set grad_req="write"'
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
