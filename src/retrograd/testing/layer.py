"""check_layer: conformance checks of a layer as a function of its inputs and parameters, and as a Module."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..nn import Module, Parameter
from ..ops.random.random import get_rng_state, manual_seed, set_rng_state
from .function_call import Call, numbers
from .operator import ConformanceError, ConformanceReport, Refusal, check_op, differences, run


def check_layer(make: Callable[[], Module], *args: Any, train: bool = True, **options: Any) -> ConformanceReport:
    """Check the layer that ``make()`` returns on the inputs ``args``; ``check_op`` documents inputs and options.

    The layer is checked as an operator of its inputs and parameters, and as a Module: a second layer that loads its
    state_dict gives the same output; a copy is independent of it; ``to`` converts it; a frozen parameter
    gets no gradient; its repr names its class. An oracle gets the inputs, then the parameters in the order of
    ``named_parameters()``, as arrays. Parameters are random, even if the layer initializes them to zeros or ones.

    Args:
        make: returns a new layer; called several times.
        args: inputs.
        train: use training mode, otherwise eval mode.
        options: those of ``check_op``; ``large`` contains only inputs.

    Returns:
        The report, which lists the passed checks.

    Raises:
        ConformanceError: a check failed; its message is the report.

    >>> import numpy as np, retrograd
    >>> report = retrograd.testing.check_layer(lambda: retrograd.nn.Linear(3, 2), np.ones((4, 3)), linear=True)
    >>> "state_dict" in report.passed
    True
    """
    layer = _Layer(make, args, train, bool(options.get("random")))
    name = options.pop("name", "") or type(layer.module).__name__
    names = layer.names

    def function(*values: Any, **kwargs: Any) -> Any:
        return layer.call_with_parameters(
            values[: len(values) - len(names)], values[len(values) - len(names) :], kwargs
        )

    parameters = [parameter.array.copy() for parameter in layer.module.parameters()]
    if options.get("large") is not None:
        options["large"] = (*options["large"], *parameters)
    if options.get("errors"):
        options["errors"] = [
            Refusal(each.error, each.message, *each.args, *parameters, **each.kwargs) for each in options["errors"]
        ]
    checks = {
        "state_dict": layer.state_dict,
        "copy": layer.copy,
        "to": layer.to,
        "frozen": layer.frozen,
        "repr": layer.text,
    }
    report = run(name, checks)
    try:
        operator = check_op(function, *args, *parameters, name=name, **options)
    except ConformanceError as error:
        operator = error.report
    report = ConformanceReport(name, operator.passed + report.passed, operator.faults + report.faults)
    if report.faults:
        raise ConformanceError(report)
    return report


class _Layer:
    def __init__(self, make: Callable[[], Module], args: Sequence[Any], train: bool, random: bool) -> None:
        self.make, self.is_random, self.train = make, random, train
        self.module = self.new(0)
        self.names = [key for key, _ in self.module.named_parameters()]
        self.inputs = Call(lambda *values: None, args, {})
        self.args = args

    def new(self, seed: int) -> Module:
        """Return a float64 layer whose parameters are randomly perturbed initial values."""
        state = get_rng_state()
        manual_seed(seed)
        try:
            module = self.make().to(np.float64).train(self.train)
        finally:
            set_rng_state(state)
        rng = np.random.default_rng(seed)
        for parameter in module.parameters():
            parameter.array[...] += 0.1 * rng.standard_normal(parameter.shape)
        return module

    def call_with_parameters(self, inputs: Sequence[Any], parameters: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return the layer's result as a function of inputs and parameters; its buffers do not change."""
        module = copy.deepcopy(self.module)
        modules = dict(module.named_modules())
        for key, value in zip(self.names, parameters, strict=True):
            if not isinstance(value, Tensor):
                raise TypeError(f"{key} must be a Tensor, got {type(value).__name__}")
            path, _, name = key.rpartition(".")
            modules[path].__dict__[name] = value
        first = next((t for t in inputs if isinstance(t, Tensor) and t.dtype == np.float32), None)
        for _, buffer in module.named_buffers() if first is not None else ():
            if buffer.dtype == np.float64:
                buffer.array = buffer.array.astype(np.float32)
        return module(*inputs, **kwargs)

    def run(self, module: Module, dtype: Any = np.float64) -> list[np.ndarray]:
        call = Call(module, self.args, {}, self.is_random)
        return [y.array for y in call.outputs(call.tensors([a.copy() for a in call.arrays], dtype))]

    def state_dict(self) -> Iterator[str]:
        first, second = copy.deepcopy(self.module), self.new(1)
        second.load_state_dict(first.state_dict())
        yield from differences(self.run(second), self.run(first), 0.0, "the loaded layer", "the one it was saved from")

    def copy(self) -> Iterator[str]:
        first = copy.deepcopy(self.module)
        second = copy.deepcopy(first)
        before = self.run(copy.deepcopy(first))
        for parameter in second.parameters():
            parameter.array[...] = 7.0
        yield from differences(self.run(first), before, 0.0, "the layer after a change of its copy", "before")

    def to(self) -> Iterator[str]:
        module = copy.deepcopy(self.module).to(np.float32)
        if any(p.dtype != np.float32 for p in module.parameters()):
            yield "a parameter is not float32 after to(float32)"
        if any(y.dtype == np.float64 for y in self.run(module, np.float32)):
            yield "float32 inputs and parameters give float64"

    def frozen(self) -> Iterator[str]:
        module = copy.deepcopy(self.module)
        parameters = [p for p in module.parameters() if isinstance(p, Parameter)]
        if not parameters:
            return
        parameters[0].requires_grad = False
        call = Call(module, self.args, {}, self.is_random)
        for y in call.outputs(call.tensors(call.arrays, requires_grad=True)):
            if y.requires_grad:
                y.backward(Tensor(numbers(y.shape, 5)), retain_graph=True)
        if parameters[0].grad is not None:
            yield "a parameter with requires_grad=False got a gradient"

    def text(self) -> Iterator[str]:
        if not repr(self.module).startswith(type(self.module).__name__):
            yield f"repr is {self.module!r}, expected it to start with {type(self.module).__name__}"
