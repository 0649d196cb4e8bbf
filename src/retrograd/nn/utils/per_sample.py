"""Per-sample gradients: the gradients of each sample's own loss, in one forward and one backward pass.

A parameter's per-sample gradient is the sum over the calls of its layers. So every operator that uses it must run
within such a call, and gradients may enter a call only through the Tensors that the layer returns.

Backward computes the gradient g of the summed losses to each layer's output. A hook there computes a gradient for each
row of the batch from g and the layer's input: by the layer's rule (``per_sample_rules``), or by running the layer again
for each sample (``per_sample_fallback``). They are summed over the calls of a layer and returned, or stored in
``grad_sample`` of the parameters along with ``grad``. ``check_uses`` checks that no use of a parameter is missed.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self, overload

import numpy as np

from ...arrays import ones_like, overlap, zeros
from ...engine.aliasing import check_unchanged, next_order
from ...engine.anomaly import describe_origin
from ...engine.arguments import as_callable
from ...engine.backward_pass import grad
from ...engine.backward_rules import Overrides
from ...engine.grad_mode import is_grad_enabled, no_grad, thread
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..module import Module
from ..module_hooks import has_rule
from ..parameter import Parameter
from .per_sample_fallback import (
    buffers_of,
    first_axis,
    free_axes,
    has_active_rule,
    hooked,
    is_recurrent,
    one_by_one,
    output_axis,
    own_parameters,
    prepare_alone,
    separated,
    tensors_in,
)
from .per_sample_rules import Call, Prepare, Rule, is_built_in, refusal_of, register_per_sample_rule, rule_of

__all__ = ["per_sample_gradients", "register_per_sample_rule"]


# ---- Detection of parameter uses that per-sample gradients would miss -----------------------------------------------


class Window:
    """One call of a layer as an interval of the order numbers of graph nodes, which decrease with time.

    whole: the call also accounts for the parameters of the layer's children. owned: ids of its parameters.
    single_use: the rule is built in, and handles one use of each parameter. used: ids of the parameters used so far.
    outputs: (order, output) of the Tensors that the call returned. parent: the innermost window around this one.
    """

    end: int
    layer: Module
    path: str
    start: int
    whole: bool

    __slots__ = (
        *(
            "__weakref__",
            "buffers",
            "end",
            "layer",
            "outputs",
            "owned",
            "parent",
            "path",
            "single_use",
            "start",
            "used",
        ),
        "whole",
    )

    def __init__(self, path: str, layer: Module, whole: bool, start: int) -> None:
        self.path, self.layer, self.whole, self.start, self.end = path, layer, whole, start, start
        self.owned: set[int] = {id(parameter) for parameter in layer.parameters(recurse=whole)}
        self.outputs: set[tuple[int, int]] = set()
        self.parent: Window | None = None
        self.buffers: Any = ()
        self.single_use = False
        self.used: set[int] = set()

    def name(self) -> str:
        return f"{self.path or 'the module'} ({self.layer.describe()})"


def check_uses(starts: Iterable[Any], names: dict[int, str], windows: Collection[Window]) -> None:
    """Check that the calls account for all uses of parameters in a graph.

    starts: the edges where gradients enter it. names: the path of each parameter, by id.

    Raises:
        ValueError: a parameter is used outside the calls of its layers, or the graph uses a Tensor from inside a call
            that the layer did not return.
    """
    ordered = _nested(windows)
    for window in ordered:
        window.used.clear()
    ends = [window.end for window in ordered]

    def around(order: int) -> list[Window]:
        """Return the windows that contain the node, innermost first."""
        place = bisect_left(ends, order) - 1
        window = ordered[place] if place >= 0 else None
        found = []
        while window is not None:
            if order < window.start:
                found.append(window)
            window = window.parent
        return found

    seen: set[tuple[int, int]] = set()
    for node, edge in _edges(starts):
        if type(edge) is not tuple:
            running = [] if node is None else around(node.order)
            if id(edge) in names:
                calls = [window for window in running if id(edge) in window.owned]
                if not calls:
                    _refuse_use(names[id(edge)], node, "outside the forward of its layer")
                if calls[0].single_use and id(edge) in calls[0].used:
                    _refuse_use(names[id(edge)], node, "a second time in one call of its layer")
                calls[0].used.add(id(edge))
            continue
        target, output = edge[0], edge[1]
        inside = around(target.order)
        if not inside or (target.order, output) in seen:
            continue
        outer = around(node.order) if node is not None else []
        for window in inside:
            if window not in outer and (target.order, output) not in window.outputs:
                seen.add((target.order, output))
                if any(id(leaf) in window.owned and id(leaf) in names for leaf in _leaves(edge, window)):
                    raise ValueError(
                        f"per_sample_gradients: the losses use a Tensor that was computed in the forward of "
                        f"{window.name()} but not returned by it, so the gradients of its parameters would be "
                        "incomplete; return that Tensor as a further output"
                    )


def _nested(windows: Iterable[Window]) -> list[Window]:
    """Return the windows, those that ended last first, with their parents set."""
    ordered = sorted(windows, key=lambda window: (window.end, -window.start))
    enclosing: list[Window] = []
    for window in ordered:
        while enclosing and enclosing[-1].start <= window.end:
            enclosing.pop()
        window.parent = enclosing[-1] if enclosing else None
        enclosing.append(window)
    return ordered


def _edges(starts: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
    """Yield (node, edge) for every edge of a graph; the node of a start is None."""
    stack, seen = [], set()
    for start in starts:
        yield None, start
        stack.append(start)
    while stack:
        edge = stack.pop()
        if type(edge) is not tuple or edge[0].order in seen:
            continue
        node = edge[0]
        seen.add(node.order)
        for other in _edges_of(node):
            yield node, other
            stack.append(other)


def _edges_of(node: Any) -> list[Any]:
    """Return the edges of a node, and those into the regions that it is part of."""
    edges, region = [*node.edges], node.region
    while region is not None:
        edges += region.edges
        region = region.parent
    return [edge for edge in edges if edge is not None]


def _leaves(start: Any, window: Window) -> Iterable[Any]:
    """Yield the leaves that lead to an edge within a call."""
    stack, seen = [start], set()
    while stack:
        edge = stack.pop()
        if type(edge) is not tuple:
            yield edge
        elif edge[0].order not in seen and window.end < edge[0].order < window.start:
            seen.add(edge[0].order)
            stack += _edges_of(edge[0])


def _refuse_use(name: str, node: Any, where: str) -> NoReturn:
    by = "is itself differentiated" if node is None else f"is used by {node.function.__name__}{describe_origin(node)}"
    raise ValueError(
        f"per_sample_gradients: the parameter {name} {by}, {where}, so its gradient for each sample is unknown; use it "
        "in the forward of the module that owns it, or freeze it: requires_grad_(False)"
    )


# ---- per_sample_gradients: the context manager and the function -----------------------------------------------------


@overload
def per_sample_gradients(module: Module, losses: None = None, *, loss_reduction: str = "sum") -> GradSamples: ...


@overload
def per_sample_gradients(
    module: Module, losses: Callable[[], Tensor], *, loss_reduction: str = "sum"
) -> dict[str, Tensor]: ...


def per_sample_gradients(
    module: Module, losses: Callable[[], Tensor] | None = None, *, loss_reduction: str = "sum"
) -> GradSamples | dict[str, Tensor]:
    """Compute the gradients of each sample's own loss to all parameters, in a context manager or as a result.

        with per_sample_gradients(model):
            cross_entropy(model(x), labels, reduction="sum").backward()
        model.weight.grad_sample  # (N, *shape); its sum over the samples is model.weight.grad

        grads = per_sample_gradients(model, lambda: cross_entropy(model(x), labels, reduction="none"))

    The second form returns {path of the parameter: Tensor (N, *shape)} and leaves ``grad`` alone; a parameter on which
    no loss depends gets zeros.

    In the first form ``grad_sample`` follows ``grad``: backward adds to both (all batches must then have the same
    size), or overwrites both if ``grad`` was None or grad_req is "write"; "null" leaves both alone; ``zero_grad`` drops
    both. ``autograd.grad`` sets neither.

    Fast rules compute the rows of a whole batch for Linear, convolutions, normalizations (BatchNorm in eval mode only)
    and Embedding; add others with ``register_per_sample_rule``. A rule applies only to the class that defines
    ``forward``. Every other module that owns parameters is run again for each sample alone, with all layers inside it.
    This is slower, but correct for any forward that keeps the samples separate and is repeatable: subclasses with their
    own ``forward``, weight and spectral normalization and other parametrizations, recurrent layers, attention, your own
    modules, layers with a backward rule, and all layers within `override_backward`, whose rule then sees each sample
    alone. The output of each of these runs is compared with that of the batch.

    Samples are on axis 0 of each layer's input and output. In a model with layers that have ``batch_first=False``, they
    may be on axis 1. A parameter may only be used in the forward of a module that owns it; any other use is an error.
    Hooks on modules and tensors may change values and gradients if they treat the samples separately, and a hook on
    a parameter also runs on the gradient of each sample. Register hooks on modules before the block or the call.
    Low-bit layers, except recurrent ones, and DistributedDataParallel are refused.

    Args:
        losses: a function that runs the module and returns the loss of each sample, a Tensor of shape (N,).
        loss_reduction: of the loss in the first form: "sum", or "mean", which multiplies rows by N to make them the
            gradients of the samples' own losses.

    Raises:
        ValueError: a layer mixes the samples (BatchNorm in training), draws random numbers that cannot be repeated, or
            cannot run on one sample; the number of samples differs between layers; a parameter is used outside the
            forward of its layer; in the second form, also if loss_reduction is passed.
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

    module: Module
    returned: bool

    def __init__(self, module: Module, returned: bool) -> None:
        """returned: remember the outputs of all calls."""
        self.module, self.returned = module, returned
        self.outputs: list[Tensor] = []
        self.count: int | None = None  # of samples
        self.windows: weakref.WeakSet[Window] = weakref.WeakSet()  # of the calls whose graph is alive
        self.known: int | None = None  # samples in the latest call of a layer whose batch axis is certain
        self._open: list[tuple[Module, Window | None]] = []  # running calls; without a Window if others account for all
        self._quiet = False  # True while layers are rerun for single samples
        self._handles: list[Any] = []

    def start(self) -> None:
        """Start watching calls."""
        self.steps_first: bool = any(getattr(each, "batch_first", True) is False for each in self.module.modules())
        for path, layer in self.module.named_modules():
            reason = refusal_of(layer)
            if reason is not None and own_parameters(layer, recurse=True):
                self.stop()
                raise ValueError(f"per_sample_gradients: {path or 'the module'} ({type(layer).__name__}) {reason}")
            computed = hasattr(type(layer), "_computed")  # its parameters are in a child, see parametrize.py
            if own_parameters(layer, recurse=computed or has_rule(layer)):
                entered, called = partial(self._entered, path), partial(self._called, path)
                self._handles += [
                    layer.register_forward_pre_hook(entered, with_kwargs=True),
                    layer.register_forward_hook(called, prepend=True, with_kwargs=True, always_call=True),
                ]

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._open.clear()

    def check_uses(self, starts: Iterable[Any]) -> None:
        """Refuse a graph that uses a parameter where no call accounts for it."""
        named = self.module.named_parameters()
        check_uses(starts, {id(p): path for path, p in named if p.requires_grad}, list(self.windows))

    def is_active(self) -> bool:
        """Return whether to use the gradients of this sweep."""
        raise NotImplementedError

    def receive(self, path: str, parameter: Parameter, rows: Tensor) -> None:
        """Accept the contribution of one call of a layer."""
        raise NotImplementedError

    def _entered(self, path: str, layer: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if getattr(thread.mode.watch, "again", False):  # a checkpoint's second run, which is not in the graph
            return
        window = None
        if not self._quiet:
            rule = rule_of(layer)
            window = Window(path, layer, has_active_rule(layer) or rule is None or is_recurrent(layer), next_order())
            for _, outer in self._open:
                if outer is not None and outer.whole:
                    window.owned -= outer.owned  # its second runs account for these
            window.single_use = not window.whole and rule is not None and is_built_in(rule)
            if window.owned:
                self._check_hooks(path, layer)
                window.buffers = buffers_of(layer) if window.whole else ()
            else:
                window = None
        self._open.append((layer, window))

    def _check_hooks(self, path: str, layer: Any) -> None:
        """Check that user hooks before forward run before ``_entered``, and those after it after ``_called``."""
        hooks, own = layer._hooks, {handle.id for handle in self._handles}
        if next(reversed(hooks["forward_pre"])) not in own or next(iter(hooks["forward"])) not in own:
            raise ValueError(
                f"per_sample_gradients: a hook was registered on {path or 'the module'} ({layer.describe()}) while its "
                "per-sample gradients are computed; register it before"
            )

    def _called(self, path: str, layer: Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        if not self._open or self._open[-1][0] is not layer or getattr(thread.mode.watch, "again", False):
            return None  # a hook before _entered raised, or _entered did nothing
        window = self._open.pop()[1]
        if window is None or output is None:
            return None
        rule = None if has_active_rule(layer) and not is_recurrent(layer) else rule_of(layer)
        if window.whole:  # one output may be computed from another: separate their gradients
            output = separated(output) if is_recurrent(layer) or not isinstance(output, Tensor) else output
            inputs, outputs = tensors_in([args, kwargs]), tensors_in(output)
        else:
            inputs = [x for x in args[:1] if isinstance(x, Tensor)]
            outputs = [output] if isinstance(output, Tensor) else []
        active = thread.mode.rules
        if active is not None and active.region is not None:
            raise ValueError(
                f"per_sample_gradients: {window.name()} was called within {active.region.name}, whose backward is the "
                f"rule {active.region.rule.name}; its effect on one sample is known for the whole {active.region.name} "
                "only: pass a module that contains it"
            )
        if args and hasattr(args[0], "batch_sizes"):
            raise ValueError(
                f"per_sample_gradients: {window.name()} was called with a PackedSequence, which has no batch axis; "
                "call it with x, lengths = pad_packed_sequence(..), lengths=lengths"
            )
        if not (inputs and outputs):
            raise ValueError(
                f"per_sample_gradients: {window.name()} must be called with Tensors and return Tensors, alone or in "
                "tuples, lists or dicts"
                if window.whole
                else f"per_sample_gradients: {window.name()} must be called with its input as the first positional "
                "argument and return one Tensor"
            )
        for place, y in enumerate(outputs):
            if y.requires_grad and y._edge is not None:
                # An alias: the model may change the output in place afterwards.
                call = Call(layer, inputs[0], _result(y.array, y._edge), args=args, kwargs=kwargs, place=place)
                call.rules, call.buffers = Overrides.current(), window.buffers
                window.outputs.add((y._edge[0].order, y._edge[1]))
                self._watched_output(window, rule or (one_by_one, prepare_alone), call)
                if self.steps_first and not free_axes(call):
                    self.known = call.x.array.shape[call.axes[0]] if call.x.array.ndim > call.axes[0] else None
        window.end = next_order()
        return output

    def _watched_output(self, window: Window, rule: tuple[Rule, Prepare | None], call: Call) -> None:
        call.saved = rule[1](call) if rule[1] else None
        y, data = call.y, call.y.array
        node, *rest = y._edge  # type: ignore[misc]  # it requires a gradient
        call.y = wrap(data)  # no reference cycle between the hook and its node
        y.register_hook(partial(self._output_gradient, window, call, rule[0], weakref.ref(node), rest))
        self.windows.add(window)  # until the graph with that hook is freed
        if self.returned:
            self.outputs.append(y)

    def _output_gradient(self, window: Window, call: Call, rule: Rule, node: Any, rest: list[Any], g: Tensor) -> None:
        """Handle the gradient g of a call's output."""
        if self.is_active() and not self._quiet:
            bare = call.y
            call.y = _result(bare.array, (node(), *rest))
            self._quiet = True
            try:
                self._apply(window, call, rule, g)
            finally:
                call.y, self._quiet = bare, False

    def _apply(self, window: Window, call: Call, rule: Rule, g: Tensor) -> None:
        if self.count is None:
            self.count = self.known
        if self.steps_first and call.axes == (0, 0):
            self._find_axis(window, call)
        if window.whole and self.count is not None:
            call.axes = call.axes[0], output_axis(call, self.count)
        for side, tensor, axis in (("input", call.x, call.axes[0]), ("output", g, call.axes[1])):
            shape = tensor.array.shape
            if self.count is None and len(shape) > axis:
                self.count = shape[axis]
            if len(shape) <= axis or shape[axis] != self.count:
                raise ValueError(
                    f"per_sample_gradients: the {side} of {window.name()} has shape {shape}, axis {axis} must hold the "
                    f"{self.count} samples"
                )
        check_unchanged(call.y.grad_fn, (call.x,))  # type: ignore[arg-type]  # the input must not have changed since
        parameters = own_parameters(call.layer, recurse=window.whole)
        owned = {name: p for name, p in parameters.items() if id(p) in window.owned}
        with no_grad():
            found = rule(*first_axis(call, g)) if not window.whole else rule(call, g)
            missing = [name for name in owned if name not in found]
            if missing:
                raise ValueError(
                    f"per_sample_gradients: the rule of {window.name()} returned no gradient for {missing}; let it "
                    "return one for every parameter, or freeze them: requires_grad_(False)"
                )
            for name, parameter in owned.items():
                rows = found[name]
                if any(overlap(rows.array, tensor.array) for tensor in (g, call.x)):
                    rows = wrap(kernels.duplicate(rows.array))
                self.receive(f"{window.path}.{name}" if window.path else name, parameter, rows)

    def _find_axis(self, window: Window, call: Call) -> None:
        """Set the batch axis of a layer that accepts any, in a model with layers that have the steps first."""
        shape = call.x.array.shape[: free_axes(call)]
        found = [axis for axis, extent in enumerate(shape) if extent == self.count or self.count is None]
        if len(found) > 1:
            raise ValueError(
                f"per_sample_gradients: the input of {window.name()} has shape {call.x.array.shape}, where the samples "
                "could be on either of the first two axes; the model has layers with batch_first=False: set it to "
                "True, or use a batch whose size differs from the number of steps"
            )
        if found:
            call.axes = found[0], found[0]


def _result(data: np.ndarray, edge: Any) -> Tensor:
    """Return a tensor at an edge of the graph."""
    y = wrap(data)
    y._edge, y._requires_grad = edge, True
    return y


# ---- returned gradients ---------------------------------------------------------------------------------------------


class _Returned(_Watch):
    """Collects the sums for each parameter, to be returned."""

    def __init__(self, module: Module) -> None:
        super().__init__(module, returned=True)
        self.sums: dict[int, Tensor] = {}
        self._sweeping = False

    def is_active(self) -> bool:
        return self._sweeping

    def receive(self, path: str, parameter: Parameter, rows: Tensor) -> None:
        add(self.sums, parameter, rows)

    def sweep(self, values: Tensor) -> None:
        self.check_uses([values._edge or values])
        if not self.outputs:
            raise RuntimeError("per_sample_gradients: the losses do not depend on any parameter of the module")
        self.count, self._sweeping = values.array.shape[0], True
        try:
            grad(values, self.outputs, wrap(ones_like(values.array)), allow_unused=True)
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
    if not values.requires_grad:
        raise RuntimeError("per_sample_gradients: the losses do not depend on any parameter of the module")
    watch.sweep(values)
    results: dict[str, Tensor] = {}
    for path, parameter in module.named_parameters():  # a shared one only under its first path
        if parameter.requires_grad and parameter.grad_req != "null":
            data = parameter.array
            rows = watch.sums.get(id(parameter))
            empty = wrap(zeros((values.array.shape[0], *data.shape), data.dtype, like=data))
            results[path] = empty if rows is None else hooked(parameter, rows)
    return results


def add(sums: dict[int, Tensor], parameter: Parameter, rows: Tensor) -> None:
    """Add rows to the sum of a parameter."""
    total = sums.get(id(parameter))
    sums[id(parameter)] = rows if total is None else wrap(exact("add")(total.array, rows.array))


# ---- grad_sample along with grad ------------------------------------------------------------------------------------


class GradSamples(_Watch):
    """The context manager that ``per_sample_gradients(module)`` returns; it is reusable."""

    _watched: set[int] = set()  # ids of parameters in an active context

    def __init__(self, module: Module, loss_reduction: str) -> None:
        super().__init__(module, returned=False)
        self._mean = loss_reduction == "mean"
        self._own: set[int] = set()
        self._sweep: object = None  # the backward that _sums and _fresh belong to
        self._sums: dict[int, Tensor] = {}
        self._fresh: set[int] = set()
        self._checked = 0  # starts of _sweep from which the uses of parameters have been checked

    def __enter__(self) -> Self:
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        if any(id(p) in self._watched for p in parameters):
            raise RuntimeError("per_sample_gradients: a parameter of the module is already in such a context")
        self.start()
        self._own = set(map(id, parameters))
        self._watched |= self._own
        for parameter in parameters:
            self._handles += [
                parameter.register_hook(partial(self._check, weakref.ref(parameter))),
                parameter.register_post_accumulate_grad_hook(self._deliver),
            ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._watched -= self._own
        self._forget(None)

    def _forget(self, sweep: object) -> None:
        self._sweep, self.count, self._checked = sweep, None, 0
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

    def _check(self, reference: weakref.ref[Parameter], g: Tensor) -> None:
        """Check, before anything is delivered, that every gradient has its rows."""
        sweep, parameter = thread.mode.delivery, reference()
        if self._quiet or not self.is_active() or sweep is None or parameter is None:
            return
        if self._checked != len(sweep.starts):
            self.check_uses(sweep.starts)
            self._checked = len(sweep.starts)
        if id(parameter) not in self._sums:
            path = next(path for path, p in self.module.named_parameters() if p is parameter)
            raise ValueError(
                f"per_sample_gradients: {path} got a gradient, but no call of its layer within the block accounts for "
                "it; run forward and backward inside the same block"
            )

    def _deliver(self, parameter: Any) -> None:
        rows = self._sums.pop(id(parameter), None) if thread.mode.delivery is self._sweep else None
        if rows is None:
            return
        if self._mean:
            rows = wrap(kernels.scale(rows.array, float(len(rows.array))))
        self._quiet = True
        try:
            rows = hooked(parameter, rows, {handle.id for handle in self._handles})
        finally:
            self._quiet = False
        before = None if id(parameter) in self._fresh else parameter.grad_sample
        parameter.grad_sample = rows if before is None else wrap(exact("add")(before.array, rows.array))
