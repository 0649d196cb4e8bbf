"""A model that ran forward and backward on a batch of the user's: its layers, and their gradients taken apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ..engine.grad_mode import enable_grad
from ..engine.sweep import grad
from ..engine.tensor import Tensor
from ..nn.module import Module
from .explanation import Explanation
from .layers import case_of_layer
from .numbers import number
from .shown import Shown
from .taking import rows_of

__all__ = ["Layer", "ModelExplanation", "Step"]


@dataclass
class Layer:
    """What one layer did: its arrays, and what is wrong with them.

    path: its name in the model; kind: its class; calls: how often it ran, of which the last is kept
    weight_norms: the norm of the gradient of each of its own parameters
    dead: the share of its channels or features that are 0 for the whole batch
    not_finite: how many entries of result and gradients are NaN or infinite
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

    def add(self, g: np.ndarray) -> None:
        """A gradient of the result."""
        self.gy = g.copy() if self.gy is None else self.gy + g

    def add_to_last(self, g: np.ndarray) -> None:
        """A gradient of the last state of a recurrent layer, which is the result of the last step."""
        whole = np.zeros_like(self.y)
        whole[(slice(None), -1) if getattr(self.module, "batch_first", False) else -1] = g
        self.add(whole)


@dataclass(frozen=True)
class Step:
    """One step of the road from a weight's gradient to the loss: an entry, and the share that its product is of it."""

    path: str
    array: str
    index: tuple[int, ...]
    value: float
    share: float


class ModelExplanation(Shown):
    """The layers of a model in the order in which they ran.

    Args:
        model: the model, in the mode that it is in.
        batch: its input, a Tensor or array; or a pair of input and target.
        loss: a function of the output, or of output and target, that gives one number.

    The gradients that the model's parameters hold, and its buffers, stay as they were.

    Raises:
        ValueError: the loss is not one number, or no layer got a gradient.
        TypeError: the model is no Module, or the loss cannot be called.
    """

    def __init__(self, model: Module, batch: Any, loss: Callable[..., Any]) -> None:
        if not isinstance(model, Module):
            raise TypeError(f"explain: model is {type(model).__name__}, expected a Module")
        if not callable(loss):
            raise TypeError(f"explain: loss is {type(loss).__name__}, expected a function of the output (and target)")
        inputs, *target = batch if isinstance(batch, (tuple, list)) and len(batch) == 2 else (batch,)
        inputs, *target = (each if isinstance(each, Tensor) else Tensor(np.asarray(each)) for each in (inputs, *target))
        self.model = model
        self._layers: dict[str, Layer] = {}
        with _unchanged(model), enable_grad(), self._recorded():
            value = loss(model(inputs), *target)
            if not isinstance(value, Tensor) or value.array.size != 1:
                raise ValueError("explain: the loss must be a Tensor with one number, such as cross_entropy gives")
            self.loss = float(value.array.reshape(-1)[0])
            parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
            found = grad(value.reshape(()), [*parameters.values()], allow_unused=True)
        self._look(dict(zip(parameters, found, strict=True)))

    @property
    def layers(self) -> list[Layer]:
        """The layers in the order in which they ran."""
        return [*self._layers.values()]

    @lru_cache(maxsize=16)  # noqa: B019  the layers of one run, for as long as it lives
    def layer(self, path: str) -> Explanation:
        """A layer's operator with the arrays of this run: ``explain(model, batch, loss).layer("features.3")``.

        Raises:
            KeyError: no layer of this name ran.
            ValueError: the layer is not one that can be taken apart, or got no gradient.
        """
        if path not in self._layers:
            raise KeyError(f"explain: no layer {path!r} ran; there are {', '.join(self._layers)}")
        layer = self._layers[path]
        if layer.gy is None:
            raise ValueError(f"explain: {path} got no gradient: the loss does not depend on it")
        case = case_of_layer(layer.module, layer.x)
        gy = layer.gy.swapaxes(0, 1) if getattr(layer.module, "batch_first", False) else layer.gy
        return Explanation(case, gy)

    def road(self, path: str, name: str, index: tuple[int, ...]) -> list[Step]:
        """From an entry of a gradient towards the loss: the largest product of its sum, and of that one's, and so on.

        Each step is an entry of a layer's upstream gradient, with the share that its product has of the sum before.
        """
        steps: list[Step] = []
        flat = int(np.ravel_multi_index(index, self.layer(path).arrays[name].values.shape))
        reads: str | None = path
        while reads is not None:
            path, explanation = reads, self.layer(reads)
            at, share = _largest(explanation, name, flat)
            if at is None:
                break
            place = tuple(int(i) for i in np.unravel_index(at, explanation.gy.shape))
            steps.append(Step(path, "gy", place, float(explanation.gy[place]), share))
            reads, name, flat = self._reader(path), "gx", at
        return steps

    def to_dict(self) -> dict[str, Any]:
        """The map of the layers as plain data: what ran, its shapes, norms of gradients, what is dead or not finite."""
        return {
            "name": type(self.model).__name__,
            "loss": number(self.loss),
            "layers": [_row(layer) for layer in self.layers],
        }

    def to_html(self) -> str:
        """The page as the text of one HTML file, see ``save``."""
        from .carried import as_page

        return as_page(self)

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Inside, every layer without layers of its own keeps what it read, gave and got."""
        leaves = [(path, each) for path, each in self.model.named_modules() if not any(True for _ in each.children())]
        before: dict[str, np.ndarray] = {}
        handles = [each.register_forward_pre_hook(_reading(path, before)) for path, each in leaves]
        handles += [each.register_forward_hook(self._recorder(path, before)) for path, each in leaves]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _recorder(self, path: str, before: dict[str, np.ndarray]) -> Callable[[Module, Any, Any], None]:
        def record(module: Module, inputs: Any, output: Any) -> None:
            x = before.pop(path, None)
            y = next((each for each in (output if isinstance(output, tuple) else (output,))), None)
            if x is None or not isinstance(y, Tensor):
                return
            calls = self._layers.pop(path).calls + 1 if path in self._layers else 1
            layer = Layer(path, type(module).__name__, module, x, y.array.copy(), calls)
            self._layers[path] = layer
            if y.requires_grad:
                y.register_hook(lambda g: layer.add(g.array))
            last = _last_state(module, output)
            if last is not None and last.requires_grad:
                last.register_hook(lambda g: layer.add_to_last(g.array[0]))

        return record

    def _look(self, gradients: dict[str, Tensor | None]) -> None:
        for layer in self._layers.values():
            arrays = [layer.y, *([] if layer.gy is None else [layer.gy])]
            for name, found in gradients.items():
                owner, _, own = name.rpartition(".")
                if owner == layer.path and found is not None:
                    layer.weight_norms[own] = float(np.linalg.norm(found.array.ravel().astype(np.float64)))
                    arrays.append(found.array)
            layer.not_finite = sum(int(np.count_nonzero(~np.isfinite(each))) for each in arrays)
            if layer.y.ndim > 1 and layer.y.size:
                others = tuple(axis for axis in range(layer.y.ndim) if axis != 1)
                layer.dead = float((layer.y == 0).all(axis=others).mean())

    def _reader(self, path: str) -> str | None:
        """Who reads a layer's result: the next layer that can be taken apart. Between them it may be reshaped."""
        paths = [*self._layers]
        y = self._layers[path].y
        for later in paths[paths.index(path) + 1 :]:
            layer = self._layers[later]
            if layer.gy is None or layer.x.size != y.size or not np.array_equal(layer.x.ravel(), y.ravel()):
                continue
            with suppress(ValueError):
                case_of_layer(layer.module, layer.x)
                return later
        return None


def _reading(path: str, before: dict[str, np.ndarray]) -> Callable[[Module, Any], None]:
    """Keeps what a layer reads, which it may change in place."""

    def read(module: Module, inputs: Any) -> None:
        x = next((each for each in inputs if isinstance(each, Tensor)), None)
        if x is not None:
            before[path] = x.array.copy()

    return read


def _last_state(module: Module, output: Any) -> Tensor | None:
    """h_n of a recurrent layer (1, N, H), where it is the last step of the result."""
    plain = getattr(module, "num_layers", 0) == 1 and not module.bidirectional and not getattr(module, "proj_size", 0)
    if not plain or not isinstance(output, tuple):
        return None
    state = output[1][0] if isinstance(output[1], tuple) else output[1]
    return state if isinstance(state, Tensor) and state.array.ndim == 3 else None


def _largest(explanation: Explanation, name: str, flat: int) -> tuple[int | None, float]:
    """The entry of gy that the largest products of an entry lead to, and the share that they have of the sums."""
    share, ways = 1.0, _ways_to_gy(explanation)
    while name != "gy":
        largest, total = (0.0, "", 0), 0.0
        for products, rows, values in rows_of(explanation, name, flat):
            total += float(values.sum())
            column = next((k for k, factor in enumerate(products.factors) if factor in ways), None)
            if column is not None and len(values):
                at = int(np.abs(values).argmax())
                largest = max(largest, (float(values[at]), products.factors[column], int(rows[at, column])), key=_size)
        value, name, flat = largest
        if not value or not total or flat < 0:
            return None, 0.0
        share *= value / total
    return flat, share


def _row(layer: Layer) -> dict[str, Any]:
    why = ""
    try:
        operator = case_of_layer(layer.module, layer.x).name
        if layer.gy is None:
            why = "the loss does not depend on it"
    except ValueError as error:
        same = layer.x.size == layer.y.size and np.array_equal(layer.x.ravel(), layer.y.ravel())
        operator, why = "", "it passes its input on" if same else str(error).removeprefix("explain: ")
    return {
        "path": layer.path,
        "kind": layer.kind,
        "operator": operator,
        "why_not": why,
        "calls": layer.calls,
        "input": [*layer.x.shape],
        "output": [*layer.y.shape],
        "gy_norm": None if layer.gy is None else number(float(np.linalg.norm(layer.gy.ravel().astype(np.float64)))),
        "weight_norms": {name: number(norm) for name, norm in layer.weight_norms.items()},
        "dead": layer.dead,
        "not_finite": layer.not_finite,
    }


def _size(found: tuple[float, str, int]) -> float:
    return abs(found[0])


def _ways_to_gy(explanation: Explanation) -> set[str]:
    """gy, and the arrays whose entries are sums of products with it or with another of these."""
    ways = {"gy"}
    while True:
        more = {name for name, parts in explanation.sums.items() if any(ways & set(each.factors) for each in parts)}
        if more <= ways:
            return ways
        ways |= more


@contextmanager
def _unchanged(model: Module) -> Iterator[None]:
    """Afterwards the buffers of the model, such as running means, hold what they held before."""
    before = {name: each.array.copy() for name, each in model.named_buffers()}
    try:
        yield
    finally:
        for name, each in model.named_buffers():
            each.array[...] = before[name]
