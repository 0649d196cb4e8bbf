"""A recurrent network as its layers and directions, each of which is taken apart like an operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from ..engine.backward_pass import grad
from ..engine.grad_mode import enable_grad
from ..engine.tensor import Tensor
from ..nn.recurrent import RNNBase
from ..ops.recurrent.recurrent import recurrent_layer
from ..ops.shape.join import cat
from ..ops.shape.rearrange import flip
from ..specs.recurrence import Recurrence
from .layer import Layer

__all__ = ["Given", "unstacked"]

_PLAIN = {each.name: each.default for each in fields(Recurrence) if each.init}
_STATES = ("h0", "c0")
_OWN = ("mode", "input", "hidden", "reverse", "bias")  # what a layer may choose and is taken apart with


class Given:
    """The initial states given to a recurrent network, and the gradients of its last states, in its user's shapes.

    states: "h0" and "c0"; gradients: "hn" and "cn"
    """

    def __init__(self, module: RNNBase, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        names = dict(zip(("input", "hx", "lengths"), arguments, strict=False)) | dict(options)
        hx = names.get("hx")
        self.states: dict[str, Any] = {}
        if hx is not None:
            self.states = dict(zip(("h0", "c0"), hx if module.mode == "LSTM" else (hx,), strict=False))
        self.gradients: dict[str, np.ndarray] = {}
        self.why_not = ""
        if names.get("lengths") is not None:
            self.why_not = "with lengths is not taken apart"
        elif not module.has_even_states:
            self.why_not = "with layers of several widths is not taken apart"
        if self.why_not:
            self.states = {}
        self.states = {name: state.array.copy() for name, state in self.states.items()}

    def listen(self, output: Any) -> None:
        """Keeps the gradients of the last states in the output."""
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


def unstacked(layer: Layer, given: Given) -> list[Layer]:
    """The layers and directions of a recurrent network; one alone keeps its path, of several it is "lstm.l0_reverse".

    The run is repeated from its input, layer by layer, for what stands between them and its gradients. A network that
    cannot be taken apart stays as it is, and says why.
    """
    module = layer.module
    assert isinstance(module, RNNBase)
    why_not = given.why_not or _refusal(module, given)
    if not why_not:
        found = _repeated(layer, module, given)
        if found:
            return found
        why_not = "gives something else when it runs again, and is not taken apart"
    layer.why_not = f"{layer.kind} {why_not}"
    return [layer]


def _refusal(module: RNNBase, given: Given) -> str:
    for spec in module.layers:
        for name, usual in _PLAIN.items():
            if name not in _OWN and getattr(spec, name) != usual:
                return f"with {name}={getattr(spec, name)!r} is not taken apart"
    if module.residual:
        return "with residual=True is not taken apart"
    for name in ("dropout", "variational_dropout"):
        p = getattr(module, name)
        if p and module.training and (name != "dropout" or module.num_layers > 1):
            return f"with {name}={p} in training is not taken apart"
    if np.any(given.gradients.get("cn", 0)):
        return "whose last cell state the loss depends on is not taken apart"
    return ""


def _repeated(layer: Layer, module: RNNBase, given: Given) -> list[Layer]:
    """The layers and directions; none where the result is not that of the run."""
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
    """The state (1, N, H) of a layer and direction, of those of all (L*D, N, H), or without a batch (L*D, H)."""
    state = states[place : place + 1]
    return state[:, np.newaxis] if state.ndim == 2 else state
