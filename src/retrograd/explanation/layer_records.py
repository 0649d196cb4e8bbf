"""Records of a model's layers in a run: plain layers, recurrent layers by direction, attention calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np

from ..engine.aliasing import next_order
from ..engine.backward_pass import grad
from ..engine.grad_mode import enable_grad
from ..engine.node import Node
from ..engine.tensor import Tensor
from ..nn.attention import MultiheadAttention
from ..nn.module import Module
from ..nn.recurrent import RNNBase
from ..ops.product.attention import Attention
from ..ops.recurrent.recurrent import recurrent_layer
from ..ops.shape.join import cat
from ..ops.shape.rearrange import flip
from ..specs.recurrence import Recurrence

__all__ = ["AttentionCalls", "BoundaryStates", "Layer", "unstacked"]


# ---- The record of one layer in a run -------------------------------------------------------------------------------


@dataclass
class Layer:
    """The record of one layer in a run: its arrays, and problems found in them.

    path: its name in the model; kind: its class; calls: how often it ran; only the last call is kept
    weight_norms: the norm of the gradient of each of its own parameters
    dead: the share of its channels or features that are 0 for the whole batch
    not_finite: how many entries of result and gradients are NaN or infinite
    states: the initial states of a recurrent layer, "h0" and "c0", (1, N, H) each
    end: the suffix of a recurrent layer's weight names, such as "_l0_reverse"
    why_not: why its gradients cannot be explained, if the run showed that
    operator, operands, options: what it computed, if that does not follow from the module
    order: its position in the run, counting down
    """

    path: str
    kind: str
    module: Module
    x: np.ndarray
    y: np.ndarray
    calls: int = 1
    gy: np.ndarray | None = None
    weight_norms: dict[str, float] = field(default_factory=dict)
    dead: float = 0.0
    not_finite: int = 0
    states: dict[str, np.ndarray] = field(default_factory=dict)
    end: str = ""
    why_not: str = ""
    operator: str = ""
    operands: dict[str, np.ndarray] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    order: float = 0.0

    def add(self, g: np.ndarray) -> None:
        """Add a gradient of the result."""
        self.gy = g.copy() if self.gy is None else self.gy + g

    def as_read(self, array: np.ndarray) -> np.ndarray:
        """Return x, y or gy in the explanation's order: for a recurrent layer by step, (T, N, ...)."""
        if not self.end:
            return array
        steps = array[:, np.newaxis] if array.ndim == 2 else array
        if array.ndim == 3 and getattr(self.module, "batch_first", False):
            steps = steps.swapaxes(0, 1)
        return steps[::-1] if self.end.endswith("_reverse") else steps

    def as_given(self, steps: np.ndarray) -> np.ndarray:
        """Return an array ordered by step in the order of the layer's own x and y."""
        if not self.end:
            return steps
        steps = steps[::-1] if self.end.endswith("_reverse") else steps
        if self.x.ndim == 2:
            return steps[:, 0]
        return steps.swapaxes(0, 1) if getattr(self.module, "batch_first", False) else steps

    def entry_of_y(self, flat: int) -> int:
        """Convert an index of the explanation's y to an index of the layer's own y."""
        own = np.arange(self.y.size).reshape(self.y.shape)
        return int(self.as_read(own).ravel()[flat]) if self.end else flat

    def entry_of_x(self, flat: int) -> int:
        """Convert an index of the layer's own x to an index of the explanation's x."""
        own = self.as_read(np.arange(self.x.size).reshape(self.x.shape))
        return int(np.flatnonzero(own.ravel() == flat)[0]) if self.end else flat

    def owns(self, parameter: str) -> bool:
        """Return whether a parameter of its module belongs to it."""
        return not self.operator and (not self.end or parameter.endswith(self.end))


# ---- Recurrent networks, split into layers and directions that are explained like operators -------------------------

_PLAIN = {each.name: each.default for each in fields(Recurrence) if each.init}
_STATES = ("h0", "c0")
_OWN = ("mode", "input", "hidden", "reverse", "bias")  # options that an explained layer may have


class BoundaryStates:
    """The initial states of a recurrent network, and the gradients of its last states, in the user's shapes.

    states: "h0" and "c0"; gradients: "hn" and "cn"
    """

    why_not: str

    def __init__(self, module: RNNBase, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        names = dict(zip(("input", "hx", "lengths"), arguments, strict=False)) | dict(options)
        hx = names.get("hx")
        self.states: dict[str, Any] = {}
        if hx is not None:
            self.states = dict(zip(("h0", "c0"), hx if module.mode == "LSTM" else (hx,), strict=False))
        self.gradients: dict[str, np.ndarray] = {}
        self.why_not = ""
        if names.get("lengths") is not None:
            self.why_not = "with lengths cannot be explained"
        elif not module.has_even_states:
            self.why_not = "with layers of several widths cannot be explained"
        if self.why_not:
            self.states = {}
        self.states = {name: state.array.copy() for name, state in self.states.items()}

    def listen(self, output: Any) -> None:
        """Record the gradients of the last states in the output."""
        if not isinstance(output, tuple):
            return
        last = output[1] if isinstance(output[1], tuple) else (output[1],)
        for name, state in zip(("hn", "cn"), last, strict=False):
            if isinstance(state, Tensor) and state.requires_grad:
                state.register_hook(self._keeper(name))

    def _keeper(self, name: str) -> Any:
        def keep(g: Tensor) -> None:
            self.gradients[name] = self.gradients.get(name, 0) + g.array

        return keep


def unstacked(layer: Layer, given: BoundaryStates) -> list[Layer]:
    """Split a recurrent network into layers and directions; a single one keeps its path, others get "lstm.l0_reverse".

    The run is repeated from its input, layer by layer, to obtain the values between layers and their gradients. A
    network that cannot be explained stays unsplit, with the reason.
    """
    module = layer.module
    assert isinstance(module, RNNBase)
    why_not = given.why_not or _refusal(module, given)
    if not why_not:
        found = _repeated(layer, module, given)
        if found:
            return found
        why_not = "gives a different result when it runs again, and cannot be explained"
    layer.why_not = f"{layer.kind} {why_not}"
    return [layer]


def _refusal(module: RNNBase, given: BoundaryStates) -> str:
    for spec in module.layers:
        for name, usual in _PLAIN.items():
            if name not in _OWN and getattr(spec, name) != usual:
                return f"with {name}={getattr(spec, name)!r} cannot be explained"
    if module.residual:
        return "with residual=True cannot be explained"
    for name in ("dropout", "variational_dropout"):
        p = getattr(module, name)
        if p and module.training and (name != "dropout" or module.num_layers > 1):
            return f"with {name}={p} in training cannot be explained"
    if np.any(given.gradients.get("cn", 0)):
        return "whose last cell state the loss depends on cannot be explained"
    return ""


def _repeated(layer: Layer, module: RNNBase, given: BoundaryStates) -> list[Layer]:
    """Return the layers and directions; none if their result differs from that of the run."""
    several = len(module.layers) * len(module.layers[0].reverse) > 1
    found: list[Layer] = []
    outputs: list[Tensor] = []
    first = replace(layer, end="_l0")  # in the layout of the network's input
    with enable_grad():
        x = Tensor(first.as_read(layer.x).copy(), requires_grad=True)
        for number, spec in enumerate(module.layers):
            results = []
            for direction, reverse in enumerate(spec.reverse):
                end = f"_l{number}{'_reverse' if reverse else ''}"
                states = {name: _of(state, len(found)) for name, state in given.states.items()}
                h0, c0 = (Tensor(states[each]) if each in states else None for each in _STATES)
                weights = module._weights(module._names[number][direction])
                forward = replace(spec, reverse=(False,))
                y = recurrent_layer(flip(x, 0) if reverse else x, h0, c0, (weights,), forward, name=layer.kind)[0]
                one = replace(layer, end=end, states=states, gy=None, weight_norms={})
                one.path = f"{layer.path}.{end[1:]}".lstrip(".") if several else layer.path
                one.x, one.y = first.as_given(x.array).copy(), one.as_given(y.array).copy()
                found.append(one)
                outputs.append(y)
                results.append(flip(y, 0) if reverse else y)
            x = cat(results, 2) if len(results) > 1 else results[0]
        if not np.allclose(first.as_given(x.array), layer.y, rtol=1e-3, atol=1e-5, equal_nan=True):
            return []
        terms = [] if layer.gy is None else [(x * Tensor(first.as_read(layer.gy).copy())).sum()]
        if "hn" in given.gradients:
            terms += [(y[-1] * Tensor(_of(given.gradients["hn"], j)[0])).sum() for j, y in enumerate(outputs)]
        gradients = grad(sum(terms[1:], terms[0]), outputs, allow_unused=True) if terms else [None] * len(found)
    for one, gradient in zip(found, gradients, strict=True):
        one.gy = None if gradient is None else one.as_given(gradient.array).copy()
    return found


def _of(states: np.ndarray, place: int) -> np.ndarray:
    """Return the state (1, N, H) of one layer and direction from all, (L*D, N, H), or (L*D, H) without a batch."""
    state = states[place : place + 1]
    return state[:, np.newaxis] if state.ndim == 2 else state


# ---- Attention calls of a model, found in the graph of its run ------------------------------------------------------

_NAME = "scaled_dot_product_attention"


class _Span(NamedTuple):
    """A module call, as the range of node orders recorded during it. Orders count down."""

    path: str
    module: Module
    first: int
    last: int

    def holds(self, order: float) -> bool:
        return self.last < order < self.first


class _MultiheadCall:
    """The last call of a MultiheadAttention: its arguments, and the gradients of its results."""

    def __init__(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
        copied = [each.detach().clone() if isinstance(each, Tensor) else each for each in (*inputs, *options.values())]
        self.inputs, self.options = copied[: len(inputs)], dict(zip(options, copied[len(inputs) :], strict=True))
        self.gradients: dict[int, np.ndarray] = {}
        self.y = np.zeros(0)

    @property
    def query(self) -> np.ndarray:
        x: np.ndarray = next(each for each in (*self.inputs, *self.options.values()) if isinstance(each, Tensor)).array
        return x

    def listen(self, output: Any) -> None:
        self.y = output[0].array.copy()
        for place, each in enumerate(output):
            if isinstance(each, Tensor) and each.requires_grad:
                each.register_hook(self._keeper(place))

    def _keeper(self, place: int) -> Callable[[Tensor], None]:
        def keep(g: Tensor) -> None:
            self.gradients[place] = self.gradients.get(place, 0) + g.array

        return keep

    def again(self, module: MultiheadAttention) -> Tensor:
        """Recompute the result with the operator that does not return its weights."""
        names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights")
        given: dict[str, Any] = dict(zip(names, self.inputs, strict=False)) | self.options | {"need_weights": False}
        y: Tensor = module.forward(**given)[0]
        return y


class AttentionCalls:
    """The attention calls in a model's run, as layers with inputs q, k and v."""

    def __init__(self) -> None:
        self._spans: list[_Span] = []
        self._open: list[int] = []
        self._heads: dict[str, _MultiheadCall] = {}
        self._found: list[Layer] = []

    @contextmanager
    def recorded(self, model: Module) -> Iterator[None]:
        """Within the context, record when each module runs."""
        handles = []
        for path, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(self._begin(path), with_kwargs=True))
            handles.append(module.register_forward_hook(self._end(path)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _begin(self, path: str) -> Callable[..., None]:
        def begin(module: Module, inputs: Any, options: Any) -> None:
            self._open.append(next_order())
            if isinstance(module, MultiheadAttention):
                self._heads[path] = _MultiheadCall(inputs, options)

        return begin

    def _end(self, path: str) -> Callable[..., None]:
        def end(module: Module, inputs: Any, output: Any) -> None:
            self._spans.append(_Span(path, module, self._open.pop(), next_order()))
            if isinstance(module, MultiheadAttention):
                self._heads[path].listen(output)

        return end

    def listen(self, loss: Tensor) -> None:
        """Find attention calls behind the loss, and record their gradients."""
        names: dict[str, int] = {}
        for node in _nodes(loss):
            spans = [each for each in self._spans if each.holds(node.order)]
            if not spans:  # in the loss
                continue
            span = min(spans, key=lambda each: each.first - each.last)
            path = span.path if isinstance(span.module, MultiheadAttention) else f"{span.path}.attention".lstrip(".")
            names[path] = names.get(path, 0) + 1
            end = f".{names[path]}" if names[path] > 1 else ""
            layer = _layer(f"{path}{end}", span.module, node)
            _output(node).register_hook(_adder(layer))
            self._found.append(layer)

    def layers(self) -> list[Layer]:
        """Return the calls, once the gradients are known; a MultiheadAttention that returned weights is run again."""
        found = [*self._found]
        for path, heads in self._heads.items():
            spans = [each for each in self._spans if each.path == path]
            if any(span.holds(layer.order) for span in spans for layer in self._found):
                continue
            found.append(self._again(path, spans[-1], heads))
        return found

    def _again(self, path: str, span: _Span, heads: _MultiheadCall) -> Layer:
        module = span.module
        assert isinstance(module, MultiheadAttention)
        inner = [each.first for each in self._spans if each.path == f"{path}.out_proj".lstrip(".")]
        layer = Layer(path, type(module).__name__, module, heads.query, heads.y, order=inner[-1])
        g = heads.gradients.pop(0, None)
        if heads.gradients:
            layer.why_not = f"{layer.kind} whose weights the loss depends on cannot be explained"
        elif module.dropout and module.training:
            layer.why_not = f"{layer.kind} with dropout={module.dropout} in training cannot be explained"
        if g is None or layer.why_not:
            return layer
        with enable_grad():
            y = heads.again(module)
            (node,) = _nodes(y)
            layer = _layer(path, module, node)
            layer.order = inner[-1]
            _output(node).register_hook(_adder(layer))
            grad(y, [each for each in module.parameters() if each.requires_grad], Tensor(g), allow_unused=True)
        return layer


def _nodes(result: Tensor) -> list[Node]:
    """Return the fused attention calls behind a result, the earliest first."""
    stack = [] if result._edge is None else [result._edge[0]]
    seen = {node.order: node for node in stack}
    while stack:
        for edge in stack.pop().edges:
            if type(edge) is tuple and edge[0].order not in seen:
                seen[edge[0].order] = edge[0]
                stack.append(edge[0])
    return [seen[order] for order in sorted(seen, reverse=True) if seen[order].function is Attention]


def _output(node: Node) -> Tensor:
    y: Tensor = node.saved_tensors[3]
    return y


def _adder(layer: Layer) -> Callable[[Tensor], None]:
    return lambda g: layer.add(g.array)


def _layer(path: str, module: Module, node: Node) -> Layer:
    q, k, v, y, _, bias = node.saved_tensors
    scale, causal = node.options  # type: ignore[attr-defined]  # set by its forward
    operands = {name: each.array.copy() for name, each in (("q", q), ("k", k), ("v", v))}
    if bias is not None:
        operands["attn_mask"] = _mask(bias)
    return Layer(
        path,
        "attention",
        module,
        operands["q"],
        y.array.copy(),
        operands=operands,
        operator=_NAME,
        options={"scale": float(scale), "is_causal": causal},
        order=node.order,
    )


def _mask(bias: np.ndarray) -> np.ndarray:
    """Return a mask without the axes along which it is repeated; a mask of 0 and -inf becomes a boolean mask."""
    unrepeated = bias[tuple(slice(0, 1) if step == 0 else slice(None) for step in bias.strides)]
    return unrepeated == 0 if np.isin(unrepeated, (0, -np.inf)).all() else unrepeated.copy()
