"""A model run on a batch: its layers, mapped to operators, and their explained gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..engine.aliasing import next_order
from ..engine.arguments import kind_name
from ..engine.backward_pass import grad
from ..engine.grad_mode import enable_grad
from ..engine.tensor import Tensor
from ..nn.module import Module
from ..nn.recurrent import RNNBase
from .document import rows_of
from .explanation import Case, Explanation
from .html_page import HasPage
from .layer_records import AttentionCalls, BoundaryStates, Layer, unstacked
from .measurements import number
from .operators import find
from .operators.operator import Operator

__all__ = ["Layer", "ModelExplanation", "Step", "case_of_layer"]


# ---- Layers as operators: the operator that a layer computes, with its tensors and options --------------------------

_WINDOW = ("stride", "padding", "dilation", "groups")
_POOL = ("kernel_size", "stride", "padding")
_OPTIONS = {  # operator without its number of axes -> the layer attributes that it uses
    "conv": _WINDOW,
    "conv_transpose": (*_WINDOW, "output_padding"),
    "max_pool": (*_POOL, "dilation", "ceil_mode"),
    "avg_pool": (*_POOL, "ceil_mode", "count_include_pad", "divisor_override"),
    "adaptive_max_pool": ("output_size",),
    "adaptive_avg_pool": ("output_size",),
    "batch_norm": ("training", "eps"),
    "instance_norm": ("eps",),
    "group_norm": ("num_groups", "eps"),
    "layer_norm": ("normalized_shape", "eps"),
    "rms_norm": ("normalized_shape", "eps"),
    "softmax": ("dim",),
    "log_softmax": ("dim",),
    "leaky_relu": ("negative_slope",),
    "elu": ("alpha",),
    "celu": ("alpha",),
    "hardtanh": ("min_val", "max_val"),
    "hardshrink": ("lambd",),
    "softshrink": ("lambd",),
    "softplus": ("beta", "threshold"),
    "threshold": ("threshold", "value"),
    "gelu": ("approximate",),
}
_TENSORS = {
    "w": "weight",
    "b": "bias",
    "w_ih": "weight_ih",
    "w_hh": "weight_hh",
    "b_ih": "bias_ih",
    "b_hh": "bias_hh",
}
_REFUSED = (  # layer options that its operator's page does not support
    ("padding_mode", "zeros"),
    ("return_indices", False),
    ("padding_idx", None),
    ("max_norm", None),
    ("scale_grad_by_freq", False),
    ("sparse", False),
)


def case_of_layer(recorded: Layer) -> Case:
    """Return the layer as an operator that ran on the layer's x, with its weights.

    Raises:
        ValueError: no operator can explain the layer, or it has an unsupported option.
    """
    layer, kind = recorded.module, recorded.kind
    if recorded.why_not:
        raise ValueError(f"explain: {recorded.why_not}")
    if recorded.operator:
        return find(recorded.operator).case(recorded.operands, recorded.options)
    for name, usual in _REFUSED:
        if getattr(layer, name, usual) != usual:
            raise ValueError(f"explain: {kind} with {name}={getattr(layer, name)!r} cannot be explained")
    operator = _operator(layer)
    tensors = {"x": recorded.as_read(recorded.x), **recorded.states}
    for name in (*operator.tensors[1:], *operator.optional):
        value = getattr(layer, f"{_TENSORS.get(name, name)}{recorded.end}", None)
        if isinstance(value, Tensor):
            tensors[name] = value.numpy(force=True).copy()
    missing = [name for name in operator.tensors if name not in tensors]
    if missing:
        raise ValueError(f"explain: {kind} takes {', '.join(missing)} besides x, and cannot be explained in a model")
    options = {
        name: getattr(layer, name)
        for name in _OPTIONS.get(operator.name.rstrip("123d"), ())
        if getattr(layer, name, None) is not None
    }
    if kind in ("Softmax", "LogSoftmax") and "dim" not in options:
        raise ValueError(f"explain: {kind} needs its dim")
    case = operator.case(tensors, options)
    if recorded.end.endswith("_reverse"):
        about = "the input from its last step to its first, as this direction reads it"
        case = replace(case, inputs=case.inputs | {"x": replace(case.inputs["x"], about=about)})
    return case


def _operator(layer: Module) -> Operator:
    """Return the operator of a layer's class, or of a class whose forward the layer uses.

    Raises:
        ValueError: there is none.
    """
    kinds = [each.__name__ for each in type(layer).__mro__ if getattr(each, "forward", None) is type(layer).forward]
    for kind in kinds:
        with suppress(ValueError):
            return find(f"rnn_{layer.nonlinearity}" if kind == "RNN" else kind)
    raise ValueError(f"explain: {kinds[0]} is not one of the layers that can be explained")


# ---- Models run forward and backward on the user's batch ------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One step on the path from a weight's gradient to the loss: an entry, and its product's share of the sum."""

    path: str
    array: str
    index: tuple[int, ...]
    value: float
    share: float


class ModelExplanation(HasPage):
    """The layers of a model, in the order in which they ran.

    Args:
        model: the model, in its current mode.
        batch: its input, a Tensor or array; or a pair of input and target.
        loss: a function of the output, or of output and target, that returns one number.

    The gradients stored in the model's parameters, and its buffers, are restored.

    Raises:
        ValueError: the loss is not one number, or no layer got a gradient.
        TypeError: the model is not a Module, or the loss cannot be called.
    """

    def __init__(self, model: Module, batch: Any, loss: Callable[..., Any]) -> None:
        if not isinstance(model, Module):
            raise TypeError(f"explain: model is {kind_name(model)}, expected a Module")
        if not callable(loss):
            raise TypeError(f"explain: loss is {kind_name(loss)}, expected a function of the output (and target)")
        inputs, *target = batch if isinstance(batch, (tuple, list)) and len(batch) == 2 else (batch,)
        inputs, *target = (each if isinstance(each, Tensor) else Tensor(np.asarray(each)) for each in (inputs, *target))
        self.model = model
        self._layers: dict[str, Layer] = {}
        self._boundary_states: dict[str, BoundaryStates] = {}  # to the recurrent layers
        calls = AttentionCalls()
        with _unchanged(model), enable_grad(), calls.recorded(model), self._recorded():
            value = loss(model(inputs), *target)
            if not isinstance(value, Tensor) or value.array.size != 1:
                raise ValueError("explain: the loss must be a Tensor with one number, such as cross_entropy gives")
            self.loss: float = float(value.array.reshape(-1)[0])
            calls.listen(value)
            parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
            found = grad(value.reshape(()), [*parameters.values()], allow_unused=True)
        with _unchanged(model):
            ran = sorted([*self._layers.values(), *calls.layers()], key=lambda layer: -layer.order)
            self._layers = {each.path: each for layer in ran for each in self._parts(layer)}
        self._inspect(dict(zip(parameters, found, strict=True)))

    def _parts(self, layer: Layer) -> list[Layer]:
        return unstacked(layer, self._boundary_states[layer.path]) if layer.path in self._boundary_states else [layer]

    @property
    def layers(self) -> list[Layer]:
        """The layers in the order in which they ran."""
        return [*self._layers.values()]

    @lru_cache(maxsize=16)  # noqa: B019  the layers of one run, for as long as it lives
    def layer(self, path: str) -> Explanation:
        """Return a layer's operator with the arrays of this run: ``explain(model, batch, loss).layer("features.3")``.

        Raises:
            KeyError: no layer of this name ran.
            ValueError: the layer cannot be explained, or got no gradient.
        """
        if path not in self._layers:
            raise KeyError(f"explain: no layer {path!r} ran; there are {', '.join(self._layers)}")
        layer = self._layers[path]
        if layer.gy is None:
            raise ValueError(f"explain: {path} got no gradient: the loss does not depend on it")
        return Explanation(case_of_layer(layer), layer.as_read(layer.gy))

    def path_to_loss(self, path: str, name: str, index: tuple[int, ...]) -> list[Step]:
        """Follow a gradient entry toward the loss, each time along the largest product of the sum.

        Each step is an entry of a layer's upstream gradient, with the share of its product in the previous step's sum.
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
            reads, name, flat = self._next_layer(path), "gx", self._layers[path].entry_of_y(at)
            if reads is not None:
                flat = self._layers[reads].entry_of_x(flat)
        return steps

    road = path_to_loss  # its earlier name

    def to_dict(self) -> dict[str, Any]:
        """Return the map of the layers as plain data: shapes, gradient norms, dead units and non-finite entries."""
        return {
            "name": type(self.model).__name__,
            "loss": number(self.loss),
            "layers": [_row(layer) for layer in self.layers],
        }

    def to_html(self) -> str:
        """Return the page as the text of one HTML file, see ``save``."""
        from .model_page import as_page

        return as_page(self)

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Within the context, record the input, the output and the gradient of every layer without child layers."""
        leaves = [(path, each) for path, each in self.model.named_modules() if not any(True for _ in each.children())]
        before: dict[str, np.ndarray] = {}
        handles = [
            each.register_forward_pre_hook(self._input_recorder(path, before), with_kwargs=True)
            for path, each in leaves
        ]
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
            layer = Layer(path, type(module).__name__, module, x, y.array.copy(), calls, order=next_order())
            self._layers[path] = layer
            if y.requires_grad:
                y.register_hook(lambda g: layer.add(g.array))
            if path in self._boundary_states:
                self._boundary_states[path].listen(output)

        return record

    def _input_recorder(self, path: str, before: dict[str, np.ndarray]) -> Callable[[Module, Any, Any], None]:
        """Return a hook that records a layer's input, which the layer may change in place."""

        def read(module: Module, inputs: Any, options: Any) -> None:
            every = (*inputs, *options.values())
            x = next((each for each in every if isinstance(each, Tensor)), None)
            if isinstance(module, RNNBase) and x is not (options["input"] if "input" in options else inputs[0]):
                return  # the input is a PackedSequence
            if x is not None:
                before[path] = x.array.copy()
                if isinstance(module, RNNBase):
                    self._boundary_states[path] = BoundaryStates(module, inputs, options)

        return read

    def _inspect(self, gradients: dict[str, Tensor | None]) -> None:
        modules = dict(self.model.named_modules())
        for layer in self._layers.values():
            arrays = [layer.y, *([] if layer.gy is None else [layer.gy])]
            for name, found in gradients.items():
                owner, _, own = name.rpartition(".")
                if modules[owner] is layer.module and layer.owns(own) and found is not None:
                    layer.weight_norms[own] = float(np.linalg.norm(found.array.ravel().astype(np.float64)))
                    arrays.append(found.array)
            layer.not_finite = sum(int(np.count_nonzero(~np.isfinite(each))) for each in arrays)
            if layer.y.ndim > 1 and layer.y.size:
                others = tuple(axis for axis in range(layer.y.ndim) if axis != 1)
                layer.dead = float((layer.y == 0).all(axis=others).mean())

    def _next_layer(self, path: str) -> str | None:
        """Return the next explainable layer whose input is this one's result, possibly reshaped; or None."""
        paths = [*self._layers]
        y = self._layers[path].y
        for later in paths[paths.index(path) + 1 :]:
            layer = self._layers[later]
            if layer.gy is None or layer.x.size != y.size or not np.array_equal(layer.x.ravel(), y.ravel()):
                continue
            with suppress(ValueError):
                case_of_layer(layer)
                return later
        return None


def _largest(explanation: Explanation, name: str, flat: int) -> tuple[int | None, float]:
    """Follow the largest products of an entry to gy; return the entry of gy, and the product of their shares."""
    share, toward_gy = 1.0, _arrays_toward_gy(explanation)
    while name != "gy":
        largest, total = (0.0, "", 0), 0.0
        for products, rows, values in rows_of(explanation, name, flat):
            total += float(values.sum())
            column = next((k for k, factor in enumerate(products.factors) if factor in toward_gy), None)
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
        operator = case_of_layer(layer).name
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


def _arrays_toward_gy(explanation: Explanation) -> set[str]:
    """Return gy, and the arrays whose sums have gy or another of these arrays as a factor."""
    toward_gy = {"gy"}
    while True:
        more = {
            name for name, parts in explanation.sums.items() if any(toward_gy & set(each.factors) for each in parts)
        }
        if more <= toward_gy:
            return toward_gy
        toward_gy |= more


@contextmanager
def _unchanged(model: Module) -> Iterator[None]:
    """Restore the buffers of the model, such as running means, on exit."""
    before = {name: each.array.copy() for name, each in model.named_buffers()}
    try:
        yield
    finally:
        for name, each in model.named_buffers():
            each.array[...] = before[name]
