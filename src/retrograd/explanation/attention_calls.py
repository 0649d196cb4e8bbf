"""Attention calls of a model, found in the graph of its run: attention need not be a layer of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..engine.aliasing import next_order
from ..engine.backward_pass import grad
from ..engine.grad_mode import enable_grad
from ..engine.node import Node
from ..engine.tensor import Tensor
from ..nn.attention import MultiheadAttention
from ..nn.module import Module
from ..ops.product.attention import Attention
from .layer import Layer

__all__ = ["AttentionCalls"]

_NAME = "scaled_dot_product_attention"


class _Span(NamedTuple):
    """A call of a module: the nodes of orders between these were made in it. Orders count down."""

    path: str
    module: Module
    first: int
    last: int

    def holds(self, order: float) -> bool:
        return self.last < order < self.first


class _Heads:
    """The last call of a MultiheadAttention: what it was given, and the gradients of what it gave."""

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
        """The result once more, by the operator that does not give its weights."""
        names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "average_attn_weights")
        given: dict[str, Any] = dict(zip(names, self.inputs, strict=False)) | self.options | {"need_weights": False}
        y: Tensor = module.forward(**given)[0]
        return y


class AttentionCalls:
    """The calls of attention in a model's run, as layers whose inputs are q, k and v."""

    def __init__(self) -> None:
        self._spans: list[_Span] = []
        self._open: list[int] = []
        self._heads: dict[str, _Heads] = {}
        self._found: list[Layer] = []

    @contextmanager
    def recorded(self, model: Module) -> Iterator[None]:
        """Inside, it is kept when which module ran."""
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
                self._heads[path] = _Heads(inputs, options)

        return begin

    def _end(self, path: str) -> Callable[..., None]:
        def end(module: Module, inputs: Any, output: Any) -> None:
            self._spans.append(_Span(path, module, self._open.pop(), next_order()))
            if isinstance(module, MultiheadAttention):
                self._heads[path].listen(output)

        return end

    def listen(self, loss: Tensor) -> None:
        """Looks for attention behind the loss, and keeps the gradients that come to it."""
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
        """The calls, once the gradients are known; those of MultiheadAttention with its weights run once more."""
        found = [*self._found]
        for path, heads in self._heads.items():
            spans = [each for each in self._spans if each.path == path]
            if any(span.holds(layer.order) for span in spans for layer in self._found):
                continue
            found.append(self._again(path, spans[-1], heads))
        return found

    def _again(self, path: str, span: _Span, heads: _Heads) -> Layer:
        module = span.module
        assert isinstance(module, MultiheadAttention)
        inner = [each.first for each in self._spans if each.path == f"{path}.out_proj".lstrip(".")]
        layer = Layer(path, type(module).__name__, module, heads.query, heads.y, order=inner[-1])
        g = heads.gradients.pop(0, None)
        if heads.gradients:
            layer.why_not = f"{layer.kind} whose weights the loss depends on is not taken apart"
        elif module.dropout and module.training:
            layer.why_not = f"{layer.kind} with dropout={module.dropout} in training is not taken apart"
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
    """The calls of the fused attention behind a result, the earliest first."""
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
    """A mask without the axes along which it is repeated; one of 0 and -inf as truth values."""
    once = bias[tuple(slice(0, 1) if step == 0 else slice(None) for step in bias.strides)]
    return once == 0 if np.isin(once, (0, -np.inf)).all() else once.copy()
